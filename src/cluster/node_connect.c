/*
 * node_connect.c - from nothing to an open session: both wires, AUTH, SELECT, the checks of INFO,
 * the scripts, the subscription and its confirmation, then `open`.
 *
 * `open` may be answered by a reason why not. The wires stay then, and `open` is sent again each
 * lease / 5 (phase HELD), with the sessions that are known to be over by then.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_inside.h"

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
    const char *host = node_is_sentinel(node) ? node->engine_host : NULL;
    uint16_t port = node_is_sentinel(node) ? node->engine_port : 0;
    node_wire_open(node, NODE_COMMANDS, host, port);
    node_wire_open(node, NODE_MESSAGES, host, port);
}

static void make_auth(struct node *node, struct command *c)
{
    command_begin(c);
    command_str(c, "AUTH");
    if (node->user[0])
        command_str(c, node->user);
    command_str(c, node->password);
}

static bool has_access(const struct node *node)
{
    return node->user[0] || node->password[0];
}

void node_connected(struct node *node, unsigned wire)
{
    struct command *c = &node->command;
    (void)wire;
    if (node->phase != PHASE_CONNECTING || !node->wires[NODE_COMMANDS].open ||
        !node->wires[NODE_MESSAGES].open)
        return;
    node_move(node, PHASE_CHECKING);
    if (has_access(node)) {
        make_auth(node, c);
        if (!node_send(node, c, PENDING_AUTH, 0))
            return;
    }
    bool has_db = node->url->kind == URL_TCP || node->url->kind == URL_TLS;
    if (has_db && node->url->db) {
        command_begin(c);
        command_str(c, "SELECT");
        command_number(c, node->url->db);
        if (!node_send(node, c, PENDING_SELECT, 0))
            return;
    }
    command_begin(c);
    command_str(c, "INFO");
    node_send(node, c, PENDING_INFO, 0);
}

void node_on_auth(struct node *node, const redisReply *reply)
{
    char why[NODE_REASON_SIZE];
    if (reply->type == REDIS_REPLY_STATUS)
        return;
    node_explain_auth(reply, why, sizeof(why));
    node_refuse(node, why);
}

void node_on_select(struct node *node, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STATUS)
        node_odd(node, "SELECT");
}

static bool send_load(struct node *node, unsigned script)
{
    struct command *c = &node->command;
    command_begin(c);
    command_str(c, "SCRIPT");
    command_str(c, "LOAD");
    command_add(c, cluster_scripts[script].text, cluster_scripts[script].length);
    return node_send(node, c, PENDING_LOAD, script);
}

static bool send_config(struct node *node, unsigned setting)
{
    struct command *c = &node->command;
    node->advised[setting] = false;
    command_begin(c);
    command_str(c, "CONFIG");
    command_str(c, "GET");
    command_str(c, node_advised_words[setting]);
    return node_send(node, c, PENDING_CONFIG, setting);
}

void node_on_info(struct node *node, const redisReply *reply)
{
    struct bytes info;
    char why[512];
    if (!reply_text(reply, &info))
        node_odd(node, "INFO");
    else if (!node_check_info(node, info, why, sizeof(why)))
        node_refuse(node, why);
    else {
        for (unsigned i = 0; i < NODE_ADVISED_COUNT; i++)
            if (!send_config(node, i))
                return;
        for (unsigned i = 0; i < CLUSTER_SCRIPT_COUNT; i++)
            if (!send_load(node, i))
                return;
    }
}

void node_on_config(struct node *node, const redisReply *reply)
{
    node_note_config(node, (enum node_advised)node->answered.detail, reply);
}

static void subscribe(struct node *node)
{
    struct command *c = &node->command;
    char channel[NODE_PREFIX_SIZE + 32];
    node_move(node, PHASE_SUBSCRIBING);
    node->step_ns = node->now_ns + node_answer_limit(node);
    node->auth_awaited = has_access(node);
    if (node->auth_awaited) {
        make_auth(node, c);
        if (!node_send_on(node, NODE_MESSAGES, c))
            return;
    }
    node_key(node, channel, NODE_PREFIX_SIZE);
    size_t len = strlen(channel);
    snprintf(channel + len, sizeof(channel) - len, "to:%s", node->session);
    command_begin(c);
    command_str(c, "SUBSCRIBE");
    command_str(c, channel);
    node_send_on(node, NODE_MESSAGES, c);
}

void node_on_load(struct node *node, const redisReply *reply)
{
    if (!reply_copy(reply, node->shas[node->answered.detail], sizeof(node->shas[0])))
        node_odd(node, "SCRIPT LOAD");
    else if (node->answered.detail + 1 == CLUSTER_SCRIPT_COUNT)
        subscribe(node);
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Waits with both wires until `at_ns`; then `open` is sent. */
static void hold(struct node *node, int64_t at_ns)
{
    node_move(node, PHASE_HELD);
    node->open_ns = at_ns;
}

void node_subscribed(struct node *node)
{
    if (node->phase != PHASE_SUBSCRIBING) {
        node_odd(node, "SUBSCRIBE");
        return;
    }
    hold(node, node->now_ns);
    node_open_session(node);
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
    struct command *c = &node->command;
    char key[NODE_PREFIX_SIZE];
    node_move(node, PHASE_OPENING);
    node_key(node, key, sizeof(key));
    command_script(node, c, CLUSTER_SCRIPT_OPEN, key);
    command_str(c, node->session);
    command_str(c, node->node);
    command_str(c, node->where);
    command_str(c, patterns_digest(node->patterns));
    command_number(c, (uint64_t)(node->lease_ns / NODE_NS_PER_MS));
    command_number(c, node->seq);
    command_str(c, node->last[0] ? node->last : "-");
    for (size_t i = 0; i < node->over.count && i < NODE_OVER_MAX; i++) {
        command_str(c, node->over.items[i].session);
        command_str(c, node->over.items[i].beat);
    }
    node_send(node, c, PENDING_OPEN, 0);
}

/* The engine forgot its past, or is another one: numbers of D begin anew. */
static void new_term(struct node *node)
{
    for (struct node_name *name = node->first_name; name; name = name->next)
        name->done_seq = 0;
}

static void opened(struct node *node, const redisReply *reply)
{
    char term[NODE_TERM_SIZE];
    int64_t grace;
    if (reply->elements < 3 || !reply_copy(reply->element[1], term, sizeof(term)) ||
        !reply_number(reply->element[2], &grace)) {
        node_odd(node, "open");
        return;
    }
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
        if (node->over.items[i].foreign && !node_reap_later(node, &node->over.items[i])) {
            node_lose(node, NODE_LOSS_ERROR, "this process has no memory");
            return;
        }
    node->over.count = 0;
    node->reasons[0].refuses = false;
    node_move(node, PHASE_REPORTING);
    node_begin_report(node, !node->alone);
}

/* Puts a session among the X; returns true when that is new. */
static bool add_over(struct node *node, const struct ended *item)
{
    struct ended *known = ended_find(&node->over, item->session);
    if (!known)
        return node->over.count < NODE_OVER_MAX && ended_add(&node->over, item);
    if (strcmp(known->beat, item->beat) == 0 || strcmp(known->beat, "-") == 0)
        return false;
    *known = *item;
    return true;
}

/* A session that `open` found in the way: is it over? Returns true if it is, and that is new. */
static bool look_if_over(struct node *node, const redisReply *session, const redisReply *beat,
                         int64_t lease_ns, bool foreign)
{
    struct ended item = {.foreign = foreign, .over_ns = node->now_ns};
    uint64_t number;
    if (!reply_copy(session, item.session, sizeof(item.session)) || !reply_decimal(beat, &number))
        return false;
    struct watched *w = node_watch(node, bytes_of(item.session), number);
    if (!w || node->now_ns - w->since_ns < lease_ns)
        return false;
    snprintf(item.beat, sizeof(item.beat), "%llu", (unsigned long long)number);
    return add_over(node, &item);
}

/* NODE S' where' b' ms: the engine has a session of this node that is not this process's. */
static void on_node(struct node *node, const redisReply *reply)
{
    struct bytes where;
    uint64_t ms;
    char text[200], why[512];
    struct ended item = {.foreign = false, .over_ns = node->now_ns, .beat = "-"};
    if (reply->elements < 5 || !reply_copy(reply->element[1], item.session, sizeof(item.session)) ||
        !reply_text(reply->element[2], &where) || !reply_decimal(reply->element[4], &ms) ||
        ms > UINT32_MAX) {
        node_odd(node, "open");
        return;
    }
    bytes_visible(where, text, sizeof(text));
    if (node->strict_held) {
        node_set_lease(node, 0);
        node_close_strict(node);
    }
    bool again = false;
    if (node->does.is_gone(node->arg, text))
        again = add_over(node, &item);
    else {
        again = look_if_over(node, reply->element[1], reply->element[3],
                             (int64_t)ms * NODE_NS_PER_MS, false);
        snprintf(why, sizeof(why),
                 "the engine has a session of another process that calls itself %s (%s). If that "
                 "process lives, set cluster.node to another name on one of them; else this node "
                 "joins after a lease",
                 node->node, text);
        if (!again)
            node_note_refused(node, why);
    }
    hold(node, again ? node->now_ns : node->now_ns + node_answer_limit(node));
    if (again)
        node_open_session(node);
}

/* LEASE ms X b ...: nodes that are there have another lease. */
static void on_lease(struct node *node, const redisReply *reply)
{
    uint64_t ms;
    char why[512];
    if (reply->elements < 2 || reply->elements % 2 || !reply_decimal(reply->element[1], &ms) ||
        ms > UINT32_MAX) {
        node_odd(node, "open");
        return;
    }
    bool again = false;
    node_watch_begin(node);
    for (size_t i = 2; i < reply->elements && i < 2 * NODE_SESSIONS_MAX; i += 2)
        if (look_if_over(node, reply->element[i], reply->element[i + 1],
                         (int64_t)ms * NODE_NS_PER_MS, true))
            again = true;
    node_watch_end(node);
    if (!again) {
        snprintf(
            why, sizeof(why),
            "other nodes have cluster.lease %llu ms, this one has %llu ms: set the same on all",
            (unsigned long long)ms, (unsigned long long)(node->lease_ns / NODE_NS_PER_MS));
        node_note_refused(node, why);
    }
    hold(node, again ? node->now_ns : node->now_ns + node_answer_limit(node));
    if (again)
        node_open_session(node);
}

static void on_reaped(struct node *node)
{
    if (!node->last[0]) {
        node_odd(node, "open");
        return;
    }
    node_log(node, NODE_LOG_WARNING,
             "cluster: other nodes have given back what this node held: connections with units of "
             "strict names are closed");
    node_set_lease(node, 0);
    node_close_strict(node);
    hold(node, node->now_ns);
    node_open_session(node);
}

void node_on_open(struct node *node, const redisReply *reply)
{
    char word[16], what[64], why[512];
    if (node->phase != PHASE_OPENING || reply->type != REDIS_REPLY_ARRAY || !reply->elements ||
        !reply_copy(reply->element[0], word, sizeof(word))) {
        node_odd(node, "open");
        return;
    }
    bool more = reply->elements > 1 && reply_copy(reply->element[1], what, sizeof(what));
    if (strcmp(word, "OPEN") == 0)
        opened(node, reply);
    else if (strcmp(word, "NODE") == 0)
        on_node(node, reply);
    else if (strcmp(word, "LEASE") == 0)
        on_lease(node, reply);
    else if (strcmp(word, "REAPED") == 0)
        on_reaped(node);
    else if (strcmp(word, "ACL") == 0 && more) {
        snprintf(why, sizeof(why),
                 "the engine does not allow its user the command %s: set the user's rights as "
                 "'counterctl cluster acl' prints them",
                 what);
        node_refuse(node, why);
    } else if (strcmp(word, "VERSION") == 0 && more) {
        snprintf(
            why, sizeof(why),
            "the keys of cluster.prefix %s have version %s, and this program knows version 1: run "
            "the same program on all nodes, or set another cluster.prefix",
            node->prefix, what);
        node_refuse(node, why);
    } else
        node_odd(node, "open");
}
