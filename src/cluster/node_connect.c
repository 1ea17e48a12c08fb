/*
 * node_connect.c - from nothing to an open session: both wires, AUTH, SELECT, the checks of INFO,
 * the scripts, the subscription and its confirmation, then `open`.
 *
 * `open` may be answered by a reason why not. The wires stay then, and `open` is sent again each
 * lease / 5 (phase HELD), with the sessions that are known to be over by then.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdio.h>

/* ---- wires and checks ------------------------------------------------------------------------ */

void node_connect(struct node *node)
{
    if (!node_is_sentinel(node)) {
        node_connect_engine(node);
        return;
    }
    node_move(node, PHASE_FINDING);
    node->step_ns = node->now_ns + node_answer_limit(node);
    node_round(node, ROUND_FIND);
}

/* Forgets what was known to be over by watching on the last connection. */
static void forget_watched_over(struct node *node)
{
    for (size_t i = node->over.count; i-- > 0;)
        if (!node->over.items[i].confirmed)
            ended_remove(&node->over, i);
}

void node_connect_engine(struct node *node)
{
    snprintf(node->session, sizeof(node->session), "%016llx",
             (unsigned long long)node->does.random(node->arg));
    forget_watched_over(node);
    node_move(node, PHASE_CONNECTING);
    node->step_ns = node->now_ns + node_answer_limit(node);
    node_wire_open(node, NODE_COMMANDS);
    node_wire_open(node, NODE_MESSAGES);
}

/* Begins AUTH, which has no user for the engine's default one. */
static void make_auth(struct node *node)
{
    const char *user = node->user[0] ? node->user : node->password;
    node_command(node, "AUTH", user, node->user[0] ? node->password : NULL, NULL);
}

static bool has_access(const struct node *node)
{
    return node->user[0] || node->password[0];
}

void node_connected(struct node *node)
{
    if (node->phase != PHASE_CONNECTING || !node->wires[NODE_COMMANDS].open ||
        !node->wires[NODE_MESSAGES].open)
        return;
    node_move(node, PHASE_CHECKING);
    if (has_access(node)) {
        make_auth(node);
        if (!node_send(node, PENDING_AUTH, 0))
            return;
    }
    if (node->url->db) { /* TCP and TLS */
        command_number(node_command(node, "SELECT", NULL), node->url->db);
        if (!node_send(node, PENDING_SELECT, 0))
            return;
    }
    node_command(node, "INFO", NULL);
    node_send(node, PENDING_INFO, 0);
}

bool node_on_auth(struct node *node, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_STATUS)
        return true;
    /* Never quoted: it may repeat the password. */
    const char *advice = node_error_advice(reply);
    return node_refuse(node, "AUTH: %s",
                       advice ? advice
                              : "the engine refuses it, in an answer that is not shown here, as it "
                                "may repeat the password: set cluster.user and cluster.password, "
                                "or empty both");
}

bool node_on_select(struct node *node, const redisReply *reply)
{
    (void)node;
    return reply->type == REDIS_REPLY_STATUS;
}

static bool send_load(struct node *node, unsigned script)
{
    struct command *c = node_command(node, "SCRIPT", "LOAD", NULL);
    command_add(c, cluster_scripts[script].text, cluster_scripts[script].length);
    return node_send(node, PENDING_LOAD, script);
}

static bool send_config(struct node *node, unsigned setting)
{
    node->advised[setting] = false;
    node_command(node, "CONFIG", "GET", node_advised_words[setting], NULL);
    return node_send(node, PENDING_CONFIG, setting);
}

bool node_on_info(struct node *node, const redisReply *reply)
{
    struct bytes info;
    bool sent = reply_text(reply, &info) && node_check_info(node, info);
    for (unsigned i = 0; sent && i < NODE_ADVISED_COUNT; i++)
        sent = send_config(node, i);
    for (unsigned i = 0; sent && i < CLUSTER_SCRIPT_COUNT; i++)
        sent = send_load(node, i);
    return sent;
}

static void subscribe(struct node *node)
{
    char channel[NODE_PREFIX_SIZE + 32];
    node_move(node, PHASE_SUBSCRIBING);
    node->step_ns = node->now_ns + node_answer_limit(node);
    node->auth_awaited = has_access(node);
    if (node->auth_awaited) {
        make_auth(node);
        if (!node_send_on(node, NODE_MESSAGES))
            return;
    }
    snprintf(channel, sizeof(channel), "%sto:%s", node->key, node->session);
    node_command(node, "SUBSCRIBE", channel, NULL);
    node_send_on(node, NODE_MESSAGES);
}

bool node_on_load(struct node *node, const redisReply *reply)
{
    unsigned script = node->answered.detail;
    if (!reply_copy(reply, node->shas[script], sizeof(node->shas[0])))
        return false;
    if (script + 1 == CLUSTER_SCRIPT_COUNT)
        subscribe(node);
    return true;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Waits with both wires until `at_ns`; then `open` is sent. */
static void hold(struct node *node, int64_t at_ns)
{
    node_move(node, PHASE_HELD);
    node->open_ns = at_ns;
}

bool node_subscribed(struct node *node)
{
    if (node->phase != PHASE_SUBSCRIBING)
        return node_odd(node, "SUBSCRIBE");
    hold(node, node->now_ns);
    node_open_session(node);
    return true;
}

void node_open_session(struct node *node)
{
    if (node->strict_closing)
        return;
    if (!node_is_sentinel(node)) {
        node_send_open(node);
        return;
    }
    node_move(node, PHASE_MAJORITY);
    node->step_ns = node->now_ns + node_answer_limit(node);
    node_round(node, ROUND_OPEN);
}

void node_send_open(struct node *node)
{
    node_move(node, PHASE_OPENING);
    struct command *c = node_script(node, CLUSTER_SCRIPT_OPEN);
    command_str(c, node->node);
    command_str(c, node->where);
    command_str(c, patterns_digest(node->patterns));
    command_number(c, (uint64_t)(node->lease_ns / NODE_NS_PER_MS));
    command_number(c, node->seq);
    command_str(c, node->last[0] ? node->last : "-");
    for (size_t i = 0; i < node->over.count && i < NODE_OVER_MAX; i++) {
        command_str(c, node->over.items[i].session);
        if (node->over.items[i].beat == ENDED_KNOWN)
            command_str(c, "-");
        else
            command_number(c, node->over.items[i].beat);
    }
    node_send(node, PENDING_OPEN, 0);
}

/* The engine forgot its past, or is another one: numbers of D begin anew. */
static void new_term(struct node *node)
{
    for (struct node_name *name = node->first_name; name; name = name->next)
        name->done_seq = 0;
}

static bool opened(struct node *node, const redisReply *reply)
{
    char term[NODE_TERM_SIZE];
    int64_t grace;
    if (reply->elements < 3 || !reply_copy(reply->element[1], term, sizeof(term)) ||
        !reply_number(reply->element[2], &grace))
        return false;
    if (strcmp(term, node->term) != 0) {
        new_term(node);
        memcpy(node->term, term, sizeof(term));
    }
    node->grace = grace != 0;
    node->grace_since_ns = node->now_ns;
    node->grace_asked = false;
    memcpy(node->opened, node->session, sizeof(node->opened));
    /* The X are ended now. This node's own come in the answer of `ready`, the others are reaped
     * after them. */
    for (size_t i = 0; i < node->over.count; i++)
        if (node->over.items[i].foreign && !node_reap_later(node, &node->over.items[i]))
            return node_no_memory(node);
    node->over.count = 0;
    node->reasons[0].refuses = false;
    node_move(node, PHASE_REPORTING);
    node_begin_report(node, !node->alone);
    return true;
}

/* Puts a session among the X; returns true when that is new. */
static bool add_over(struct node *node, const struct ended *item)
{
    struct ended *known = ended_find(&node->over, item->session);
    if (!known)
        return node->over.count < NODE_OVER_MAX && ended_add(&node->over, item);
    if (known->beat == item->beat || known->beat == ENDED_KNOWN)
        return false;
    *known = *item;
    return true;
}

/* A session that `open` found in the way: is it over? Returns true if it is, and that is new. */
static bool look_if_over(struct node *node, redisReply *const at[2], int64_t lease_ns, bool foreign)
{
    struct ended item = {.foreign = foreign, .over_ns = node->now_ns};
    if (!reply_beat(at, item.session, &item.beat))
        return false;
    struct watched *w = node_watch(node, item.session, item.beat);
    return w && node->now_ns - w->since_ns >= lease_ns && add_over(node, &item);
}

/* Sends `open` again: at once if it is known now that a session is over, else later. */
static bool open_again(struct node *node, bool at_once)
{
    hold(node, at_once ? node->now_ns : node->now_ns + node_answer_limit(node));
    if (at_once)
        node_open_session(node);
    return true;
}

/* NODE S' where' b' ms: the engine has a session of this node that is not this process's. */
static bool on_node(struct node *node, const redisReply *reply)
{
    struct bytes where;
    uint64_t ms;
    char text[200];
    struct ended item = {.foreign = false, .over_ns = node->now_ns, .beat = ENDED_KNOWN};
    if (reply->elements < 5 || !reply_copy(reply->element[1], item.session, sizeof(item.session)) ||
        !reply_text(reply->element[2], &where) || !reply_decimal(reply->element[4], &ms) ||
        ms > UINT32_MAX)
        return false;
    bytes_visible(where, text, sizeof(text));
    if (node->strict_held) {
        node_set_lease(node, 0);
        node_close_strict(node);
    }
    if (node->does.is_gone(node->arg, text))
        return open_again(node, add_over(node, &item));
    redisReply *const beat[] = {reply->element[1], reply->element[3]};
    bool again = look_if_over(node, beat, (int64_t)ms * NODE_NS_PER_MS, false);
    if (!again)
        node_note_refused(
            node,
            "the engine has a session of another process that calls itself %s (%s). If that "
            "process lives, set cluster.node to another name on one of them; else this node "
            "joins after a lease",
            node->node, text);
    return open_again(node, again);
}

/* LEASE ms X b ...: nodes that are there have another lease. */
static bool on_lease(struct node *node, const redisReply *reply)
{
    uint64_t ms;
    if (reply->elements < 2 || reply->elements % 2 || !reply_decimal(reply->element[1], &ms) ||
        ms > UINT32_MAX)
        return false;
    bool again = false;
    node_watch_begin(node);
    for (size_t i = 2; i < reply->elements && i < 2 * NODE_SESSIONS_MAX; i += 2)
        again |= look_if_over(node, &reply->element[i], (int64_t)ms * NODE_NS_PER_MS, true);
    node_watch_end(node);
    if (!again)
        node_note_refused(
            node,
            "other nodes have cluster.lease %llu ms, this one has %llu ms: set the same on all",
            (unsigned long long)ms, (unsigned long long)(node->lease_ns / NODE_NS_PER_MS));
    return open_again(node, again);
}

static bool on_reaped(struct node *node, const redisReply *reply)
{
    (void)reply;
    if (!node->last[0])
        return false;
    node_log(node, NODE_LOG_WARNING,
             "cluster: other nodes have given back what this node held: connections with units of "
             "strict names are closed");
    node_set_lease(node, 0);
    node_close_strict(node);
    return open_again(node, true);
}

/* ACL command. */
static bool on_acl(struct node *node, const redisReply *reply)
{
    char command[64];
    if (reply->elements < 2 || !reply_copy(reply->element[1], command, sizeof(command)))
        return false;
    return node_refuse(node,
                       "the engine does not allow its user the command %s: set the user's rights "
                       "as 'counterctl cluster acl' prints them",
                       command);
}

/* VERSION v: of the keys. */
static bool on_version(struct node *node, const redisReply *reply)
{
    char version[64];
    if (reply->elements < 2 || !reply_copy(reply->element[1], version, sizeof(version)))
        return false;
    return node_refuse(node,
                       "the keys of cluster.prefix %s have version %s, and this program knows "
                       "version 1: run the same program on all nodes, or set another "
                       "cluster.prefix",
                       node->prefix, version);
}

bool node_on_open(struct node *node, const redisReply *reply)
{
    static const struct {
        const char *word;
        reply_fn *handle;
    } answers[] = {{"OPEN", opened},      {"NODE", on_node}, {"LEASE", on_lease},
                   {"REAPED", on_reaped}, {"ACL", on_acl},   {"VERSION", on_version}};
    char word[16];
    if (node->phase != PHASE_OPENING || reply->type != REDIS_REPLY_ARRAY || !reply->elements ||
        !reply_copy(reply->element[0], word, sizeof(word)))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        if (strcmp(word, answers[i].word) == 0)
            return answers[i].handle(node, reply);
    return false;
}
