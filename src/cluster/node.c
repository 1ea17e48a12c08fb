/*
 * node.c - the life of a node: its phases, how it loses the engine and begins again, patience,
 * leaving and pausing.
 *
 * There is one way to agreement with the engine: open a session, assert all, go live. Every
 * failure, whatever it is, ends in node_lose, which closes the session and begins that way again.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- phases ---------------------------------------------------------------------------------- */

#define TO(phase) (1u << PHASE_##phase)

/* Where each phase may lead. */
static const uint16_t moves[PHASES] = {
    [PHASE_IDLE] = TO(BACKOFF),
    [PHASE_BACKOFF] = TO(IDLE) | TO(FINDING) | TO(CONNECTING) | TO(LEFT),
    [PHASE_FINDING] = TO(IDLE) | TO(BACKOFF) | TO(CONNECTING) | TO(LEFT),
    [PHASE_CONNECTING] = TO(IDLE) | TO(BACKOFF) | TO(CHECKING) | TO(LEFT),
    [PHASE_CHECKING] = TO(IDLE) | TO(BACKOFF) | TO(SUBSCRIBING) | TO(LEFT),
    [PHASE_SUBSCRIBING] = TO(IDLE) | TO(BACKOFF) | TO(HELD) | TO(LEFT),
    [PHASE_HELD] = TO(IDLE) | TO(BACKOFF) | TO(MAJORITY) | TO(OPENING) | TO(LEFT),
    [PHASE_MAJORITY] = TO(IDLE) | TO(BACKOFF) | TO(HELD) | TO(OPENING) | TO(LEFT),
    [PHASE_OPENING] = TO(IDLE) | TO(BACKOFF) | TO(HELD) | TO(REPORTING) | TO(LEFT),
    [PHASE_REPORTING] = TO(IDLE) | TO(BACKOFF) | TO(ASSERTING) | TO(LEFT),
    [PHASE_ASSERTING] = TO(IDLE) | TO(BACKOFF) | TO(REPORTING) | TO(READYING) | TO(LEFT),
    [PHASE_READYING] = TO(IDLE) | TO(BACKOFF) | TO(LIVE) | TO(LEFT),
    [PHASE_LIVE] = TO(IDLE) | TO(BACKOFF) | TO(LEFT),
    [PHASE_LEFT] = TO(IDLE),
};

void node_move(struct node *node, enum node_phase to)
{
    CHECK(moves[node->phase] & 1u << to);
    node->phase = to;
    node->step_ns = 0;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static bool copy_text(char **to, const char *from)
{
    *to = strdup(from ? from : "");
    return *to != NULL;
}

struct node *node_new(const struct node_config *config, const struct node_does *does, void *arg)
{
    struct node *node = calloc(1, sizeof(*node));
    if (!node)
        return NULL;
    node->url = config->url;
    node->does = *does;
    node->arg = arg;
    node->lease_ns = config->lease_ns;
    node->patience_ns = config->patience_ns;
    node->patterns = patterns_share(unconst(config->patterns));
    snprintf(node->key, sizeof(node->key), "{%s}:", config->prefix ? config->prefix : "");
    node->hash_key.k0 = does->random(arg);
    node->hash_key.k1 = does->random(arg);
    if (!copy_text(&node->user, config->user) || !copy_text(&node->password, config->password) ||
        !copy_text(&node->node, config->node) || !copy_text(&node->where, config->where) ||
        !copy_text(&node->prefix, config->prefix))
        node_free(&node);
    return node;
}

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void node_free(struct node **node_p)
{
    struct node *node = *node_p;
    *node_p = NULL;
    if (!node)
        return;
    CHECK(!node->todo.count && !node->waits.count && !node->sent.count);
    for (unsigned w = 0; w < NODE_WIRES; w++)
        if (node->wires[w].reader)
            redisReaderFree(node->wires[w].reader);
    node_names_free(node);
    node_forget_peers(node);
    patterns_free(&node->patterns);
    free(node->watched);
    free(node->over.items);
    free(node->reaps.items);
    free(node->user);
    free_secret(node->password);
    free(node->node);
    free(node->where);
    free(node->prefix);
    free(node);
}

void node_log(struct node *node, enum node_level level, const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    node->does.log(node->arg, level, text);
}

/* ---- the loss of the engine ------------------------------------------------------------------ */

/* Closes the session and its wires; requests are as if they were never sent. */
static void drop_session(struct node *node)
{
    if (node->phase == PHASE_LIVE) {
        int64_t since_ns = node_calls_since_ns(node);
        node->lost_ns = since_ns < node->now_ns ? since_ns : node->now_ns;
        memcpy(node->last, node->session, sizeof(node->last));
    }
    node_engine_close(node);
    node->session[0] = '\0';
    node->session_report = 0;
    node->assert_name = NULL;
    node->assert_wait = NULL;
    node->alone_ended = false;
    node_forget_told(node);
    node->reaps.count = 0;
    node->reaping = 0;
    node->reap_left = 0;
    node->loose_try_ns = 0;
    node->beat_heard = 0;
    node->renewed_ns = 0;
    node->renew_answered = node->renew_agreed = false;
    node->grace = node->grace_asked = false;
    node->leave_sent = false;
    node_watch_clear(node);
    node_requests_lost(node);
}

/* The time until the next attempt: doubled each time, with a random part. */
static int64_t next_backoff(struct node *node)
{
    int64_t most = node->lease_ns / NODE_BACKOFFS_PER_LEASE;
    if (most > NODE_BACKOFF_MOST_NS)
        most = NODE_BACKOFF_MOST_NS;
    int64_t wait = node->backoff_ns ? node->backoff_ns : NODE_BACKOFF_FIRST_NS;
    if (wait > most)
        wait = most;
    node->backoff_ns = 2 * wait;
    return wait + (int64_t)(node->does.random(node->arg) % (uint64_t)(wait / 4 + 1));
}

/* Are requests still to wait for a session? One that opens again after the time alone ends it, and
 * one in which the node leaves gets none. */
static bool has_patience(const struct node *node)
{
    bool leaves = node->leaving && node_is_open(node);
    return !node->alone && !node->alone_ended && !leaves && node->phase != PHASE_LIVE;
}

static void look_at_patience(struct node *node)
{
    if (!has_patience(node) || node->phase == PHASE_IDLE || node->phase == PHASE_LEFT ||
        node->now_ns - node->lost_ns < node->patience_ns)
        return;
    if (node->phase == PHASE_READYING) {
        /* Nothing can be told to that session any more. */
        node_lose(node, NODE_LOSS_SLOW, "patience was over before the session was live");
        return;
    }
    node->alone = true;
    node->session_report = 0;
    node_log(
        node, NODE_LOG_WARNING,
        "cluster: no engine, and patience is over: loose names are admitted by this node alone, "
        "strict names are refused");
    node->does.serve_alone(node->arg);
    node_requests_alone(node);
}

static void begin_again(struct node *node, int64_t delay_ns)
{
    if (node->leaving) {
        node_left(node);
        return;
    }
    drop_session(node);
    node_move(node, PHASE_BACKOFF);
    node->retry_ns = node->now_ns + delay_ns;
    if (node->alone)
        node_requests_alone(node);
    look_at_patience(node);
}

/* ---- reasons --------------------------------------------------------------------------------- */

/* Notes `text` as the present reason, and says it in the log behind `head`, unless that was done
 * within a minute. Others are remembered: two that come in turn are said once a minute, too. */
static void because(struct node *node, enum node_level level, const char *head, bool refuses,
                    const char *text)
{
    struct node_reason reason = {.since_ns = node->now_ns};
    bytes_visible(bytes_of(text), reason.text, sizeof(reason.text));
    unsigned at = 0;
    while (at < node->reasons_count && strcmp(node->reasons[at].text, reason.text) != 0)
        at++;
    if (at < node->reasons_count)
        reason = node->reasons[at];
    else if (at < NODE_REASONS_MAX)
        node->reasons_count++;
    else
        at--; /* the oldest is forgotten */
    memmove(&node->reasons[1], &node->reasons[0], at * sizeof(reason));
    reason.refuses = refuses;
    reason.times++;
    if (reason.times == 1 || node->now_ns - reason.said_ns >= NODE_SAY_AGAIN_NS) {
        reason.said_ns = node->now_ns;
        if (reason.times == 1)
            node_log(node, level, "cluster: %s: %s", head, reason.text);
        else
            node_log(node, level, "cluster: %s: %s (%llu times in %lld s)", head, reason.text,
                     (unsigned long long)reason.times,
                     (long long)((node->now_ns - reason.since_ns) / (1000 * NODE_NS_PER_MS)));
    }
    node->reasons[0] = reason;
}

static void PRINTF_LIKE(2, 0) note_refused(struct node *node, const char *format, va_list values)
{
    char why[NODE_REASON_SIZE];
    vsnprintf(why, sizeof(why), format, values);
    because(node, NODE_LOG_ERROR, "this node does not join", true, why);
}

void node_note_refused(struct node *node, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    note_refused(node, format, values);
    va_end(values);
}

bool node_lose(struct node *node, enum node_loss loss, const char *why)
{
    if (node->phase <= PHASE_BACKOFF || node->phase == PHASE_LEFT)
        return false;
    bool was_live = node->phase == PHASE_LIVE;
    char head[64];
    node->counts.losses[loss]++;
    snprintf(head, sizeof(head), "%s (%s)",
             was_live ? "the session with the engine is over" : "no session with the engine",
             node_loss_word(loss));
    if (loss != NODE_LOSS_RELOAD)
        because(node, NODE_LOG_WARNING, head, false, why);
    else if (was_live)
        node_log(node, NODE_LOG_INFO, "cluster: %s: %s", head, why);
    begin_again(node, loss == NODE_LOSS_RELOAD ? 0 : next_backoff(node));
    return false;
}

bool node_no_memory(struct node *node)
{
    return node_lose(node, NODE_LOSS_ERROR, "this process has no memory");
}

bool node_refuse(struct node *node, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    note_refused(node, format, values);
    va_end(values);
    node->counts.losses[NODE_LOSS_ERROR]++;
    begin_again(node, next_backoff(node));
    return false;
}

/* ---- the lease ------------------------------------------------------------------------------- */

void node_close_strict(struct node *node)
{
    node->last[0] = '\0';
    node->strict_held = false;
    if (node->strict_closing)
        return;
    node->strict_closing = true;
    node->does.close_strict(node->arg);
}

void node_strict_closed(struct node *node, int64_t now_ns)
{
    node->strict_closing = false;
    node_enter(node, now_ns);
    if (node->phase == PHASE_HELD && node->open_ns <= now_ns)
        node_open_session(node);
}

static void lease_over(struct node *node)
{
    node->counts.leases_lost++;
    node_set_lease(node, 0);
    node_log(node, NODE_LOG_ERROR,
             "cluster: the lease is over: connections with units of strict names are closed. Look "
             "at the "
             "engine and the network between");
    node_lose(node, NODE_LOSS_LEASE, "the engine did not renew the lease in time");
    node_close_strict(node);
}

void node_look_at_lease(struct node *node)
{
    if (node->lease_end_ns && node->now_ns >= node->lease_end_ns)
        lease_over(node);
}

void node_enter(struct node *node, int64_t now_ns)
{
    node->now_ns = now_ns;
    node_look_at_lease(node);
}

/* ---- time ------------------------------------------------------------------------------------ */

void node_start(struct node *node, int64_t now_ns)
{
    CHECK(node->phase == PHASE_IDLE);
    if (!node->lost_known)
        node->lost_ns = now_ns;
    node->lost_known = false;
    node->leaving = false;
    node_move(node, PHASE_BACKOFF);
    node->retry_ns = now_ns;
    node->backoff_ns = 0;
    if (node->lease_end_ns)
        node->does.lease(node->arg, node->lease_end_ns);
    node_enter(node, now_ns);
    look_at_patience(node);
}

/* While something is under way, an answer must come within lease / 5, and then another one: what
 * counts is that the opening goes on, not how long it takes. Within patience, where requests wait
 * again for a node that was alone. 0: nothing is under way. */
static int64_t silence_limit(const struct node *node)
{
    if (!node->pending_count)
        return 0;
    int64_t since_ns = node->pending[node->pending_first].sent_ns;
    int64_t limit_ns = node_answer_limit(node);
    if (node->alone_ended && node_silence_limit(node) < limit_ns)
        limit_ns = node_silence_limit(node);
    return (since_ns > node->answered_ns ? since_ns : node->answered_ns) + limit_ns;
}

int64_t node_due_ns(const struct node *node)
{
    int64_t due = INT64_MAX;
    if (node->phase == PHASE_IDLE)
        return due;
    node_earlier(&due, node->lease_end_ns);
    if (node->phase == PHASE_LEFT)
        return due;
    if (has_patience(node))
        node_earlier(&due, node->lost_ns + node->patience_ns);
    if (node->phase == PHASE_BACKOFF)
        node_earlier(&due, node->retry_ns);
    else if (node->phase == PHASE_LIVE)
        node_earlier(&due, node_live_due_ns(node));
    else {
        if (node->phase == PHASE_HELD && !node->strict_closing)
            node_earlier(&due, node->open_ns);
        if (node->phase == PHASE_REPORTING)
            node_earlier(&due, node->show_ns);
        node_earlier(&due, node->step_ns);
        node_earlier(&due, silence_limit(node));
    }
    return due;
}

/* Has the engine been silent for too long? A thread that was held up reads first: the answer may be
 * there. */
static bool is_silent(struct node *node)
{
    int64_t limit_ns = silence_limit(node);
    if (!limit_ns || node->now_ns < limit_ns)
        return false;
    bool late = node->now_ns - limit_ns >= node->lease_ns / NODE_HELD_UPS_PER_LEASE;
    bool first = node->late_ns != limit_ns;
    node->late_ns = limit_ns;
    return !late || !first;
}

static void opening_tick(struct node *node)
{
    char why[NODE_REASON_SIZE];
    if (node->step_ns && node->now_ns >= node->step_ns) {
        bool requests = node->phase == PHASE_FINDING || node->phase == PHASE_MAJORITY;
        if (requests)
            node_sentinel_why(node, why, sizeof(why));
        node_lose(node, NODE_LOSS_SLOW, requests ? why : "no answer within a fifth of the lease");
    } else if (is_silent(node))
        node_lose(node, NODE_LOSS_SLOW,
                  "no answer within a fifth of the lease, or within cluster.patience");
    else if (node->phase == PHASE_HELD && !node->strict_closing && node->now_ns >= node->open_ns)
        node_open_session(node);
    else if (node->phase == PHASE_REPORTING && node->now_ns >= node->show_ns)
        node_show_life(node);
}

void node_tick(struct node *node, int64_t now_ns)
{
    if (node->phase == PHASE_IDLE)
        return;
    /* A node that could not leave may still have connections that hold strict units. */
    node_enter(node, now_ns);
    look_at_patience(node);
    if (node->phase == PHASE_BACKOFF) {
        if (now_ns >= node->retry_ns)
            node_connect(node);
    } else if (node->phase == PHASE_LIVE)
        node_live_tick(node);
    else if (node->phase != PHASE_LEFT)
        opening_tick(node);
}

void node_flush(struct node *node, int64_t now_ns)
{
    node_enter(node, now_ns);
    if (node->phase != PHASE_LIVE)
        return;
    node_calls_send(node);
    if (node->leaving && node->phase == PHASE_LIVE)
        node_try_leave(node);
}

/* ---- changes while it runs ------------------------------------------------------------------- */

void node_open_anew(struct node *node, const char *why, int64_t now_ns)
{
    node_enter(node, now_ns);
    if (node_is_open(node))
        node_lose(node, NODE_LOSS_LEDGER, why);
}

void node_set_patterns(struct node *node, const struct patterns *patterns, int64_t now_ns)
{
    node_enter(node, now_ns);
    struct patterns *before = node->patterns;
    node->patterns = patterns_share(unconst(patterns));
    patterns_free(&before);
    node_forget_wrong(node);
    node_lose(node, NODE_LOSS_RELOAD, "the patterns of shared names have changed");
    node_requests_patterns(node);
}

bool node_set_access(struct node *node, const char *user, const char *password, int64_t now_ns)
{
    char *new_user, *new_password;
    if (!copy_text(&new_user, user))
        return false;
    if (!copy_text(&new_password, password)) {
        free(new_user);
        return false;
    }
    free(node->user);
    free_secret(node->password);
    node->user = new_user;
    node->password = new_password;
    node_try_again(node, now_ns);
    return true;
}

void node_try_again(struct node *node, int64_t now_ns)
{
    if (node->phase == PHASE_BACKOFF)
        node->retry_ns = now_ns;
}

void node_set_patience(struct node *node, int64_t patience_ns, int64_t now_ns)
{
    node->patience_ns = patience_ns;
    node_enter(node, now_ns);
    look_at_patience(node);
}

/* ---- the end, upgrades ----------------------------------------------------------------------- */

void node_leave(struct node *node, int64_t now_ns)
{
    node_enter(node, now_ns);
    if (node->leaving)
        return;
    node->leaving = true;
    for (struct node_request *request = node->todo.first, *next; request; request = next) {
        next = request->next;
        if (request->op == NODE_ACQUIRE && REQUEST_STATE(request) == REQUEST_TODO)
            request_finish(node, request, NODE_ENGINE_AWAY);
    }
    if (node->phase == PHASE_LIVE) {
        node->leave_ns = now_ns;
        node->leave_until_ns = now_ns + node_answer_limit(node);
        return;
    }
    if (node->phase == PHASE_IDLE || node->phase == PHASE_LEFT)
        return;
    if (!node->opened[0])
        node_left(node);
    else if (node->phase == PHASE_BACKOFF)
        node->retry_ns = now_ns; /* once more: another session gives back what this one has */
}

void node_left(struct node *node)
{
    if (node->opened[0])
        node_log(node, NODE_LOG_WARNING,
                 "cluster: this node ends while the engine may have units of it; the others free "
                 "them when its lease is over");
    drop_session(node);
    node_sentinels_close(node);
    node->last[0] = '\0';
    node_move(node, PHASE_LEFT);
}

bool node_has_left(const struct node *node)
{
    return node->leaving && (node->phase == PHASE_LEFT || node->phase == PHASE_IDLE);
}

void node_pause(struct node *node, int64_t now_ns)
{
    if (node->phase == PHASE_IDLE)
        return;
    node_enter(node, now_ns);
    bool was_live = node->phase == PHASE_LIVE;
    drop_session(node);
    node_sentinels_close(node);
    node_move(node, PHASE_IDLE);
    /* A node that was live begins a new patience; another one goes on with the one that it has. */
    node->lost_known = !was_live;
}
