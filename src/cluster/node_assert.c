/*
 * node_assert.c - the report of the ledger, and how an opening session asserts it: each name with
 * its units, then its waits with their old seqs, in portions, which are sent up to 1 MiB ahead of
 * their answers; then `ready`.
 *
 * A release is in the report or it is not: `report` of the release says so. One that is in it is
 * answered at once. Another one waits on todo until the session is live.
 *
 * Where patience is over, the threads admit loose names alone until `ready`. A first report leaves
 * them alone; when all of it is asserted, another one makes them ask, and the difference to what
 * was told is asserted, too. `told` of a name has all that the session was told, and what it was
 * granted (G) meanwhile.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

/* ---- the report ------------------------------------------------------------------------------ */

static void forget_units(struct node *node, bool told)
{
    for (struct node_name *name = node->first_name, *next; name; name = next) {
        next = name->next;
        name->units = 0;
        if (told)
            name->told = 0;
        node_name_release(node, name);
    }
}

void node_forget_told(struct node *node)
{
    forget_units(node, true);
    node_names_shrink(node);
}

void node_begin_report(struct node *node, bool last)
{
    node->show_ns = node->now_ns + node_answer_limit(node);
    /* A report that an earlier session asked for must end first: its numbers are old. */
    if (node->report_under_way)
        return;
    forget_units(node, false);
    node->report_under_way = true;
    node->report_failed = false;
    node->report_connection = node->connection;
    if (last) {
        if (++node->report_number == 0)
            node->report_number = 1;
        node->session_report = node->report_number;
        node->alone_ended = node->alone_ended || node->alone;
        node->alone = false;
    }
    node->does.report(node->arg, node->patterns, node->session_report);
}

static bool is_this_sessions(const struct node *node)
{
    return node->report_connection == node->connection;
}

void node_report(struct node *node, struct bytes name, uint32_t units)
{
    if (!is_this_sessions(node) || units == 0 ||
        patterns_class(node->patterns, name) == PATTERNS_OWN)
        return;
    struct node_name *entry = node_name_get(node, name);
    if (!entry) {
        node->report_failed = true;
        return;
    }
    entry->units += units;
}

/* ---- asserting ------------------------------------------------------------------------------- */

/* The next wait of a name, from `request` on, that has a place. */
static struct node_request *placed_from(struct node_request *request)
{
    while (request && REQUEST_STATE(request) != REQUEST_PLACED)
        request = request->same_name;
    return request;
}

/* The next op to assert; false: there is none. It is another one when its units are 0, or its wait
 * has no place any more. */
static bool next_op(struct node *node, struct node_op_sent *op)
{
    while (node->assert_name) {
        struct node_name *name = node->assert_name;
        if (node->assert_units) {
            if (name->units != name->told) {
                *op = (struct node_op_sent){.kind = name->units > name->told ? OP_UNITS : OP_LESS,
                                            .name = name};
                return true;
            }
            node->assert_units = false;
            node->assert_wait = name->wrong ? NULL : name->first;
        }
        node->assert_wait = placed_from(node->assert_wait);
        if (node->assert_wait) {
            *op = (struct node_op_sent){.kind = OP_WAIT, .request = node->assert_wait};
            return true;
        }
        node->assert_name = name->next;
        node->assert_units = true;
        node_name_release(node, name);
    }
    return false;
}

static struct node_call *begin_give(struct node *node)
{
    node_script(node, CLUSTER_SCRIPT_GIVE);
    return node_call_take(node);
}

static bool send_give(struct node *node, struct node_call *call)
{
    call->bytes = node->command.bytes;
    node->ahead += call->bytes;
    return node_send(node, PENDING_ASSERT, (unsigned)(call - node->calls));
}

void node_show_life(struct node *node)
{
    node->show_ns = node->now_ns + node_answer_limit(node);
    if (!node->pending_count)
        send_give(node, begin_give(node));
}

/* May another portion be sent before the answers of those under way? */
static bool has_room_ahead(const struct node *node)
{
    return node->calls_used < NODE_GIVES_MAX && node->ahead + NODE_CALL_BYTES <= NODE_AHEAD;
}

/* Makes a portion and sends it. False: there was nothing to assert, or the engine was lost. */
static bool send_portion(struct node *node)
{
    struct command *c = &node->command;
    struct node_op_sent op;
    if (!next_op(node, &op))
        return false;
    struct node_call *call = begin_give(node);
    do {
        node_op_add(call, c, &op);
        node->counts.asserted++;
        if (op.kind == OP_WAIT) {
            request_set(node, op.request, REQUEST_SENT);
        } else {
            /* The command points to the name's bytes, which the portion keeps. */
            op.name->pins++;
            op.name->told = op.name->units;
        }
    } while (next_op(node, &op) && node_op_fits(call, c, node_op_name(&op)));
    return send_give(node, call);
}

static void send_ready(struct node *node)
{
    node_move(node, PHASE_READYING);
    node_script(node, CLUSTER_SCRIPT_READY);
    if (node_send(node, PENDING_READY, 0))
        node_renew_sent(node);
}

static void node_assert_more(struct node *node)
{
    while (node->phase == PHASE_ASSERTING && has_room_ahead(node))
        if (!send_portion(node))
            break;
    if (node->phase != PHASE_ASSERTING || node->calls_used)
        return;
    if (node->alone) {
        /* What the threads have admitted meanwhile is the difference to another report. */
        node_move(node, PHASE_REPORTING);
        node_begin_report(node, true);
    } else
        send_ready(node);
}

void node_reported(struct node *node, int64_t now_ns)
{
    node->report_under_way = false;
    node_enter(node, now_ns);
    if (node->phase != PHASE_REPORTING)
        return;
    if (!is_this_sessions(node)) {
        node_begin_report(node, !node->alone);
        return;
    }
    if (node->report_failed) {
        node_lose(node, NODE_LOSS_ERROR, "this process has no memory for what it holds");
        return;
    }
    node_requests_by_age(node);
    node_move(node, PHASE_ASSERTING);
    node->assert_name = node->first_name;
    node->assert_units = true;
    node->assert_wait = NULL;
    node_assert_more(node);
}

/* A wait is in the engine again. */
static void wait_asserted(struct node *node, struct node_request *request)
{
    if (request->state & REQUEST_EARLY)
        request_granted(node, request);
    else
        request_queued(node, request, request->seq);
}

/* Waits that met a wrong key: what is not told keeps a session from going live, and the next one
 * leaves the waits of such names out. Returns true if there were any; then the session is over. */
static bool has_wrong_waits(struct node *node, const struct node_call *call,
                            const redisReply *reply)
{
    bool found = false;
    for (unsigned i = 0; i < call->count; i++) {
        if (call->ops[i].kind != OP_WAIT || !node_is_wrong(reply->element[i]))
            continue;
        found = true;
        if (!node_note_wrong(node, call->ops[i].request->name, reply->element[i]))
            return true;
    }
    if (!found)
        return false;
    node_lose(node, NODE_LOSS_LEDGER, "a wait could not be told to the engine");
    node_answer_all_wrong(node);
    return true;
}

bool node_on_assert(struct node *node, const redisReply *reply)
{
    struct node_call *call = &node->calls[node->answered.detail];
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != call->count)
        return false;
    if (has_wrong_waits(node, call, reply))
        return true;
    for (unsigned i = 0; i < call->count; i++) {
        const redisReply *element = reply->element[i];
        bool less = call->ops[i].kind == OP_LESS;
        int64_t answer = 1; /* of units that are given back in spite of a wrong key */
        if (!(less && node_is_wrong(element)) && !reply_number(element, &answer))
            return false;
        if (answer != 1 && !(less && answer == 2))
            return false;
        if (answer == 2)
            node_try(node, call->ops[i].name);
    }
    uint32_t connection = node->connection;
    for (unsigned i = 0; i < call->count && connection == node->connection; i++) {
        if (call->ops[i].kind == OP_WAIT)
            wait_asserted(node, call->ops[i].request);
        else {
            call->ops[i].name->pins--;
            node_name_release(node, call->ops[i].name);
        }
    }
    if (connection != node->connection)
        return true;
    node_call_free(node, call);
    node_assert_more(node);
    return true;
}

bool node_on_ready(struct node *node, const redisReply *reply)
{
    if (node->phase != PHASE_READYING || reply->type != REDIS_REPLY_ARRAY || reply->elements % 2)
        return false;
    /* This node's own sessions come first, before those that `open` ended. */
    size_t own = 0;
    for (size_t i = 0; i < reply->elements && i < 2 * NODE_SESSIONS_MAX; i += 2) {
        struct ended item = {.foreign = false, .over_ns = node->now_ns};
        if (!reply_beat(&reply->element[i], item.session, &item.beat))
            return false;
        if (!node_reap_later(node, &item))
            return node_no_memory(node);
        struct ended *at = ended_find(&node->reaps, item.session);
        if (at < node->reaps.items + own)
            continue;
        *at = node->reaps.items[own];
        node->reaps.items[own++] = item;
    }
    node_live_begin(node, node->answered.sent_ns);
    return true;
}
