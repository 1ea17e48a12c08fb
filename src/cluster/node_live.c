/*
 * node_live.c - a live session: beats, the lease that they renew, grace, and leaving.
 *
 * The lease counts from the sending of the last `ready` or beat that was answered with success;
 * with Sentinels only if a majority of them, asked after that, named this engine. A beat has lease
 * / 5 for its answer and for its `B` by subscription: then the next one is due.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdio.h>

/* ---- the lease ------------------------------------------------------------------------------- */

void node_set_lease(struct node *node, int64_t end_ns)
{
    if (node->lease_end_ns == end_ns)
        return;
    node->lease_end_ns = end_ns;
    node->does.lease(node->arg, end_ns);
}

void node_renew_sent(struct node *node)
{
    node->renew_sent_ns = node->now_ns;
    node->renew_answered = false;
    node->renew_agreed = !node_is_sentinel(node);
    if (!node->renew_agreed)
        node_round(node, ROUND_RENEW);
}

static void renew_if_complete(struct node *node)
{
    if (node->phase != PHASE_LIVE || !node->renew_answered || !node->renew_agreed ||
        node->renewed_ns == node->renew_sent_ns)
        return;
    node->renewed_ns = node->renew_sent_ns;
    node_set_lease(node, node->renew_sent_ns + node->lease_ns / 10 * NODE_LEASE_TENTHS);
    node_look_at_lease(node);
    if (node->phase != PHASE_LIVE)
        return;
    if (node->granted_held)
        node_requests_lease(node);
    node_reap_next(node);
}

static void node_renew_answered(struct node *node)
{
    node->renew_answered = true;
    renew_if_complete(node);
}

void node_renew_agreed(struct node *node)
{
    node->renew_agreed = true;
    renew_if_complete(node);
}

/* ---- beginning ------------------------------------------------------------------------------- */

void node_live_begin(struct node *node, int64_t ready_sent_ns)
{
    node_move(node, PHASE_LIVE);
    node_forget_told(node);
    node->live_ns = node->now_ns;
    node->calls_late = false;
    node->beat_ns = ready_sent_ns + node_answer_limit(node);
    node->beat_awaited = false;
    node->beat_checked = false;
    node->look_ns = node->now_ns;
    node->strict_held = true;
    memcpy(node->last, node->session, sizeof(node->last));
    node_log(node, NODE_LOG_INFO, "cluster: session %s is live%s", node->session,
             node->grace ? "; nothing strict is granted before the engine's grace is over" : "");
    node_try_all(node, true, !node->grace);
    node->loose_try_ns = node->grace ? node->now_ns + node_answer_limit(node) : 0;
    node_renew_answered(node);
    if (node->phase != PHASE_LIVE)
        return;
    node_reap_next(node);
    if (node->phase == PHASE_LIVE && node->leaving) {
        node->leave_ns = node->now_ns;
        node->leave_until_ns = node->now_ns + node_answer_limit(node);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Until when a session without any lease goes on (Sentinels did not agree). */
static int64_t unrenewed_limit(const struct node *node)
{
    return node->renewed_ns ? 0 : node->live_ns + node->lease_ns / 10 * NODE_LEASE_TENTHS;
}

/* Until when the oldest call may be without an answer; 0: there is none that a client waits for. */
static int64_t calls_limit(const struct node *node)
{
    int64_t since_ns = node->leaving ? INT64_MAX : node_calls_since_ns(node);
    return since_ns == INT64_MAX ? 0 : since_ns + node_silence_limit(node);
}

/* When `grace` may be sent; 0: not by time. */
static int64_t grace_due(const struct node *node)
{
    int64_t due = node->grace_since_ns + node->lease_ns;
    if (!node->grace || node->grace_asked)
        return 0;
    return node_is_sentinel(node) && node->renewed_ns <= due ? 0 : due;
}

/* Is all done that comes before `leave`? */
static bool may_leave(const struct node *node)
{
    bool reaps_own = node->reaps.count && !node->reaps.items[0].foreign;
    return !node->leave_sent && !node->todo.count && !node->sent.count && !node->calls_used &&
           !node->tries && !reaps_own;
}

int64_t node_live_due_ns(const struct node *node)
{
    int64_t due = node->beat_ns;
    node_earlier(&due, unrenewed_limit(node));
    node_earlier(&due, calls_limit(node));
    node_earlier(&due, grace_due(node));
    node_earlier(&due, node->loose_try_ns);
    node_earlier(&due, node->look_ns);
    if (node->leaving && may_leave(node))
        node_earlier(&due, node->leave_ns);
    return due;
}

static bool send_script(struct node *node, enum cluster_script script, enum pending_kind kind)
{
    struct command *c = node_script(node, script);
    if (script == CLUSTER_SCRIPT_GRACE)
        command_str(c, node->term);
    return node_send(node, kind, 0);
}

/* The beat is due: the last one must have been answered and heard. */
static void beat(struct node *node)
{
    if (node->beat_awaited) {
        node_lose(node, NODE_LOSS_SLOW, "a beat was not answered within a fifth of the lease");
        return;
    }
    if (node->beat_checked && node->beat_heard < node->beat_number) {
        node_lose(node, NODE_LOSS_DEAF, "the subscription was silent for a fifth of the lease");
        return;
    }
    if (!send_script(node, CLUSTER_SCRIPT_BEAT, PENDING_BEAT))
        return;
    node->beat_awaited = true;
    node->beat_ns = node->now_ns + node_answer_limit(node);
    node_renew_sent(node);
}

void node_live_tick(struct node *node)
{
    int64_t limit = unrenewed_limit(node);
    if (limit && node->now_ns >= limit) {
        node_lose(node, NODE_LOSS_SENTINEL, "no majority of the Sentinels names this engine");
        return;
    }
    /* A node that stood still reads first: the answer may have come meanwhile. */
    bool was_late = node->calls_late;
    limit = calls_limit(node);
    node->calls_late = limit && node->now_ns >= limit;
    if (was_late && node->calls_late) {
        node_lose(node, NODE_LOSS_SLOW, "a call was not answered within cluster.patience");
        return;
    }
    if (node->now_ns >= node->beat_ns)
        beat(node);
    if (node->phase != PHASE_LIVE)
        return;
    int64_t grace = grace_due(node);
    if (grace && node->now_ns >= grace) {
        node->grace_asked = true;
        if (!send_script(node, CLUSTER_SCRIPT_GRACE, PENDING_GRACE))
            return;
    }
    if (node->loose_try_ns && node->now_ns >= node->loose_try_ns) {
        node->loose_try_ns = 0;
        node_try_all(node, false, true);
    }
    if (node->now_ns >= node->look_ns) {
        node->look_ns = node->now_ns + node->lease_ns;
        if (!send_script(node, CLUSTER_SCRIPT_LOOK, PENDING_LOOK))
            return;
    }
    if (node->leaving)
        node_try_leave(node);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* What the engine says of grace. When it ends, all waits are looked at again. */
static void see_grace(struct node *node, bool grace)
{
    if (grace && !node->grace)
        node->grace_since_ns = node->now_ns;
    if (!grace && node->grace) {
        node_log(node, NODE_LOG_INFO, "cluster: the engine's grace is over");
        node->loose_try_ns = 0;
        node_try_all(node, true, true);
    }
    node->grace = grace;
    if (!grace)
        node->grace_asked = false;
}

bool node_on_beat(struct node *node, const redisReply *reply)
{
    int64_t grace;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        !reply_number(reply->element[0], &grace) || reply->element[1]->type != REDIS_REPLY_ARRAY ||
        reply->element[2]->type != REDIS_REPLY_ARRAY || reply->element[2]->elements % 2)
        return false;
    node->beat_awaited = false;
    node->backoff_ns = 0;
    node->reasons_count = 0; /* what kept this node from joining is over */
    node->counts.beats++;
    const redisReply *all = reply->element[2];
    bool found = false;
    for (size_t i = 0; i < all->elements; i += 2) {
        struct bytes session;
        if (reply_text(all->element[i], &session) &&
            bytes_equal(session, bytes_of(node->session)) &&
            reply_decimal(all->element[i + 1], &node->beat_number))
            found = true;
    }
    if (!found)
        return false;
    node->beat_checked = true;
    see_grace(node, grace != 0);
    if (!node_try_listed(node, reply->element[1]) || !node_watch_array(node, all))
        return false;
    node_try_wrong(node);
    if (!node_reap_watched(node))
        return node_no_memory(node);
    node_renew_answered(node);
    if (node->phase == PHASE_LIVE)
        node_reap_next(node);
    return true;
}

bool node_on_grace(struct node *node, const redisReply *reply)
{
    int64_t over;
    if (!reply_number(reply, &over))
        return false;
    if (over)
        see_grace(node, false);
    /* Else the engine has begun another term: the next beat says so. */
    return true;
}

/* ---- leaving --------------------------------------------------------------------------------- */

void node_try_leave(struct node *node)
{
    if (node->now_ns < node->leave_ns || !may_leave(node))
        return;
    node->leave_sent = send_script(node, CLUSTER_SCRIPT_LEAVE, PENDING_LEAVE);
}

bool node_on_leave(struct node *node, const redisReply *reply)
{
    node->leave_sent = false;
    bool holds = reply_error_is(reply, "HOLDS");
    if (holds && node->now_ns < node->leave_until_ns) {
        node->leave_ns = node->now_ns + node->lease_ns / NODE_LEAVES_PER_LEASE;
        return true;
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        node->opened[0] = '\0';
        node->last[0] = '\0';
        node_set_lease(node, 0);
        node_left(node);
        return true;
    }
    if (reply->type != REDIS_REPLY_ERROR)
        return false;
    if (holds)
        node_log(
            node, NODE_LOG_WARNING,
            "cluster: the session still has units or waits; other nodes give them back in a lease");
    return node_error_reply(node, reply);
}
