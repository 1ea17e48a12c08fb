/*
 * node_checks.c - what the engine must be (section 6 of the protocol page), and how a person is
 * told what to set when it is not.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Finds "FIELD:VALUE" at the beginning of a line of INFO; copies the value. */
static bool info_field(struct bytes info, const char *field, char *to, size_t size)
{
    size_t len = strlen(field);
    const char *at = (const char *)info.data, *end = at + info.len;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *next = line_end ? line_end + 1 : end;
        if (!line_end)
            line_end = end;
        if (line_end > at && line_end[-1] == '\r')
            line_end--;
        if ((size_t)(line_end - at) > len && memcmp(at, field, len) == 0 && at[len] == ':') {
            snprintf(to, size, "%.*s", (int)(line_end - at - (long)len - 1), at + len + 1);
            return true;
        }
        at = next;
    }
    return false;
}

/* Policies that take any key, ours too. The others never do. */
static bool evicts(const char *policy)
{
    return strncmp(policy, "allkeys", 7) == 0;
}

bool node_refuse_policy(struct node *node, const char *policy)
{
    return node_refuse(node,
                       "the engine may evict any key (maxmemory-policy %s): set 'maxmemory-policy "
                       "noeviction' or volatile-lru there",
                       policy);
}

bool node_check_info(struct node *node, struct bytes info)
{
    char value[64];
    if (!info_field(info, "redis_version", value, sizeof(value)))
        return node_refuse(node, "cluster.engine is no Redis: INFO has no redis_version");
    if (strtol(value, NULL, 10) < 7)
        return node_refuse(node,
                           "the engine is Redis %s, and 7.0 is the least: upgrade it, or set "
                           "cluster.engine to another one",
                           value);
    if (info_field(info, "cluster_enabled", value, sizeof(value)) && strcmp(value, "0") != 0)
        return node_refuse(node, "the engine is part of a Redis Cluster: set cluster.engine to a "
                                 "Redis with 'cluster-enabled no'");
    if (info_field(info, "loading", value, sizeof(value)) && strcmp(value, "0") != 0)
        return node_refuse(node, "the engine still loads its data: nothing must be set, this ends "
                                 "by itself");
    if (!info_field(info, "role", value, sizeof(value)) || strcmp(value, "master") != 0)
        return node_refuse(node, "the engine is a replica: set cluster.engine to its primary%s",
                           node_is_sentinel(node)
                               ? " (the Sentinels name this one; they will name another)"
                               : ", or to the Sentinels (sentinel://...)");
    if (info_field(info, "maxmemory_policy", value, sizeof(value)) && evicts(value))
        return node_refuse_policy(node, value);
    return true;
}

const char *const node_advised_words[NODE_ADVISED_COUNT] = {
    [NODE_ADVISED_SAVE] = "save",
    [NODE_ADVISED_STOP] = "stop-writes-on-bgsave-error",
};

/* An error says nothing: not every user may read them. */
bool node_on_config(struct node *node, const redisReply *reply)
{
    enum node_advised setting = (enum node_advised)node->answered.detail;
    struct bytes value;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply_text(reply->element[1], &value))
        node->advised[setting] =
            setting == NODE_ADVISED_SAVE ? value.len > 0 : bytes_equal(value, bytes_of("yes"));
    return true;
}

/* What to do about an error reply, by how it begins. */
static const struct {
    const char *begins, *explained;
} errors[] = {
    {"WRONGPASS", "the engine refuses user or password: set cluster.user and cluster.password"},
    {"NOAUTH", "the engine wants a password: set cluster.password (and cluster.user)"},
    {"NOPERM", "the engine does not allow its user a command: set the user's rights as "
               "'counterctl cluster acl' prints them"},
    {"ERR AUTH", "the engine has no password for the default user: set cluster.user, or empty "
                 "cluster.password"},
    {"ERR Client sent AUTH", "the engine has no password: empty cluster.password"},
    {"ERR DB index", "the engine has no such database: set another one in cluster.engine"},
    {"ERR invalid DB", "the engine has no such database: set another one in cluster.engine"},
    {"ERR SELECT", "the engine has only database 0: set that in cluster.engine"},
    {"ERR max number of clients", "the engine has as many clients as it takes: raise maxclients "
                                  "there, or look who they are"},
    {"ERR unknown command", "the engine does not know a command that nodes need: do not rename "
                            "or disable commands there"},
    {"DENIED", "the engine is in protected mode: set a password there, or 'protected-mode no'"},
    {"NOREPLICAS", "the engine takes no writes without more replicas: connect them, or set "
                   "'min-replicas-to-write 0' there"},
    {"MISCONF", "the engine takes no writes since a snapshot failed: free its disk, or set "
                "'stop-writes-on-bgsave-error no' there"},
    {"READONLY", "the engine is a replica: set cluster.engine to its primary"},
    {"LOADING", "the engine still loads its data: nothing must be set, this ends by itself"},
    {"BUSY", "the engine runs a script of another client for too long: end it by SCRIPT KILL"},
};

const char *node_error_advice(const redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ERROR && i < ARRAY_SIZE(errors); i++) {
        size_t len = strlen(errors[i].begins);
        if (reply->len >= len && memcmp(reply->str, errors[i].begins, len) == 0)
            return errors[i].explained;
    }
    return NULL;
}
