/*
 * poolcounter.c - the service of the PoolCounter protocol: locks with a bounded queue, made of the
 * table's counters. (Protocol page: "PoolCounter (text)".)
 *
 * A lock is one unit of its key. A connection keeps its locks in the order in which they were
 * granted, because RELEASE without a key means the newest. A connection can wait for one more lock,
 * which then counts as the newest.
 *
 * Another thread may decide a wait and send the verdict as a letter. Before the letter arrives, the
 * connection may get its next request, reach its timeout, or close. Each of these checks for a
 * verdict first, and applies it (take_note) as if the letter had arrived just before. So every
 * answer agrees with the table.
 *
 * Lines with other verbs go to the pools (pool_verbs.h). A connection waits for one thing at a
 * time, a lock or a member.
 */
#include "service/poolcounter_inside.h"

#include "base/option.h"
#include "service/shared.h"

#include <string.h>

/* Outcomes for metrics. */
enum pc_outcome {
    OUTCOME_LOCKED,
    OUTCOME_DONE,
    OUTCOME_QUEUE_FULL,
    OUTCOME_TIMEOUT,
    OUTCOME_LOCK_HELD,
    OUTCOME_RELEASED,
    OUTCOME_NOT_LOCKED,
    OUTCOME_OK,
    OUTCOME_ERROR,
    OUTCOME_TAKEN,
    OUTCOME_RETURNED,
    OUTCOME_GONE,
    OUTCOME_NOT_TAKEN,
    OUTCOME_JOINED,
    OUTCOME_COUNT
};

/* Counters of one worker, in addition to service_counts. */
struct pc_own {
    tally releases, lock_while_waiting;
    struct duration_sum gained_ns, waiting_for_me_ns, waiting_for_anyone_ns;
} __attribute__((aligned(64)));

static struct pc_own *own_of(const struct conn *conn)
{
    return &((struct pc_own *)service_of(conn)->own)[worker_number(conn_worker(conn))];
}

/* Nanoseconds between two times. Returns 0 when `from_ns` is the later one: another worker may have
 * noted it, and each worker reads the clock only once per iteration. */
static uint64_t elapsed_ns(int64_t from_ns, int64_t to_ns)
{
    return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) : 0;
}

static enum pc_outcome outcome_of(enum pc_reply word)
{
    switch (word) {
    case PC_REPLY_LOCKED:
        return OUTCOME_LOCKED;
    case PC_REPLY_DONE:
        return OUTCOME_DONE;
    case PC_REPLY_QUEUE_FULL:
        return OUTCOME_QUEUE_FULL;
    case PC_REPLY_TIMEOUT:
        return OUTCOME_TIMEOUT;
    case PC_REPLY_LOCK_HELD:
        return OUTCOME_LOCK_HELD;
    case PC_REPLY_RELEASED:
        return OUTCOME_RELEASED;
    case PC_REPLY_NOT_LOCKED:
        return OUTCOME_NOT_LOCKED;
    default:
        return OUTCOME_ERROR;
    }
}

static enum pc_counted_verb verb_of_wait(enum wait_kind kind)
{
    return kind == WAIT_ANY ? VERB_ACQ4ANY : VERB_ACQ4ME;
}

/* Answers a request with this verb. */
static void reply(struct conn *conn, enum pc_counted_verb verb, enum pc_reply word)
{
    service_count(conn, verb, outcome_of(word));
    struct bytes line = pc_reply_line(word);
    memcpy(conn_reply_room(conn, line.len), line.data, line.len);
    conn_replied(conn, line.len);
}

/* Adds the answer of a wait. It follows an answer in pieces. */
static inline void reply_later(struct conn *conn, enum pc_counted_verb verb, enum pc_reply word)
{
    if (likely(!conn_in_pieces(conn))) {
        reply(conn, verb, word);
        return;
    }
    struct bytes line = pc_reply_line(word);
    service_count(conn, verb, outcome_of(word));
    CHECK(conn_interject(conn, line.data, line.len, SIZE_MAX));
}

/* ---- locks ------------------------------------------------------------------------------- */

static void add_lock(struct conn *conn, struct holding *held, int64_t granted_ns)
{
    struct pc_session *s = conn_session(conn);
    CHECK(s->lock_count < poolcounter_room(service_of(conn)));
    s->locks[s->lock_count++] = (struct pc_lock){.held = held, .granted_ns = granted_ns};
}

/* Measures a lock that ends now. */
static void count_processed(struct conn *conn, const struct pc_lock *lock, int64_t now_ns)
{
    histogram_add(&service_counts(conn)->holds, now_ns - lock->granted_ns, 1);
}

/* The number of DONE verdicts: each client with one is spared the work. */
static uint64_t count_done(const verdicts *out)
{
    uint64_t done = 0;
    for (struct mail *mail = out->first; mail; mail = mail->next)
        done += waiter_of(mail)->state == WAITER_DONE;
    return done;
}

/* Gives back lock number `i`. */
static inline void give_back_lock(struct conn *conn, uint32_t i)
{
    struct pc_session *s = conn_session(conn);
    struct pc_own *own = own_of(conn);
    struct pc_lock lock = s->locks[i];
    struct moment now = service_now(conn);
    s->lock_count--;
    if (i < s->lock_count) /* not needed for the newest, the usual case */
        memmove(&s->locks[i], &s->locks[i + 1], (s->lock_count - i) * sizeof(lock));
    count_processed(conn, &lock, now.mono_ns);
    tally_add(&own->releases, 1);
    verdicts out;
    mail_list_init(&out);
    table_release_held(service_table(conn), &s->holder, lock.held, 1, now, &out);
    if (out.first) {
        duration_sum_add_times(&own->gained_ns, count_done(&out),
                               elapsed_ns(lock.granted_ns, now.mono_ns));
        service_deliver(conn_worker(conn), &out);
    }
}

/* Releases lock number `i` and answers. */
static void release_lock(struct conn *conn, uint32_t i)
{
    give_back_lock(conn, i);
    reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
}

/* ---- waits ------------------------------------------------------------------------------- */

static void forget_wait(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    s->waiter = NULL;
    s->pools.waits = false;
    conn_clear_deadline(conn, PC_WAIT_DEADLINE);
    tally_sub(&service_counts(conn)->waiting, 1);
}

static void count_wait(struct conn *conn, enum waited how, int64_t waited_ns)
{
    histogram_add(&service_counts(conn)->waits[how], waited_ns, 1);
}

/* Applies the verdict on this connection's wait, and answers the client. */
static void take_note(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    struct pc_own *own = own_of(conn);
    struct waiter *w = s->waiter;
    bool granted = table_take_verdict(service_table(conn), w) == WAITER_GRANTED;
    uint64_t waited_ns = elapsed_ns(w->since_ns, w->ended_ns);
    forget_wait(conn);
    count_wait(conn, granted ? WAITED_GRANTED : WAITED_DONE, (int64_t)waited_ns);
    if (granted) {
        add_lock(conn, w->holding, w->ended_ns);
        duration_sum_add(w->kind == WAIT_ME ? &own->waiting_for_me_ns : &own->waiting_for_anyone_ns,
                         waited_ns);
    }
    reply_later(conn, verb_of_wait(w->kind), granted ? PC_REPLY_LOCKED : PC_REPLY_DONE);
}

/* Ends this connection's wait after a timeout or a cancel. Returns false when a verdict came first;
 * the client then has its answer already. */
static bool end_wait(struct conn *conn, enum waiter_state why)
{
    struct pc_session *s = conn_session(conn);
    int64_t waited_ns = service_now(conn).mono_ns - s->waiter->since_ns;
    if (table_end_wait(service_table(conn), s->waiter, why, service_now(conn)) != why) {
        take_note(conn);
        return false;
    }
    forget_wait(conn);
    count_wait(conn, why == WAITER_TIMED_OUT ? WAITED_TIMED_OUT : WAITED_CANCELLED, waited_ns);
    return true;
}

/* Ends this connection's wait, if there is one, without an answer: the client goes. It must leave
 * the queue before anything that it holds is given back, or it could get that. */
static void abandon_wait(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    struct table *t = service_table(conn);
    struct waiter *w = s->waiter;
    struct moment now = service_now(conn);
    if (!w)
        return;
    count_wait(conn, WAITED_CANCELLED, now.mono_ns - w->since_ns);
    if (table_end_wait(t, w, WAITER_CANCELLED, now) != WAITER_CANCELLED)
        (void)table_take_verdict(t, w); /* what it was granted is given back with the holder */
    forget_wait(conn);
}

static void on_verdict(struct conn *conn, struct waiter *waiter)
{
    struct pc_session *s = conn_session(conn);
    CHECK(s->waiter == waiter);
    take_note(conn);
}

static void on_expire(struct conn *conn, unsigned which)
{
    CHECK(which == PC_WAIT_DEADLINE);
    struct pc_session *s = conn_session(conn);
    if (!s->waiter) {
        pool_verbs_expire(conn);
        return;
    }
    enum pc_counted_verb verb = verb_of_wait(s->waiter->kind);
    if (end_wait(conn, WAITER_TIMED_OUT))
        reply_later(conn, verb, PC_REPLY_TIMEOUT);
}

/* ---- requests ---------------------------------------------------------------------------- */

static void do_acquire(struct conn *conn, const struct pc_request *req, uint64_t hash)
{
    struct pc_session *s = conn_session(conn);
    enum wait_kind kind = req->verb == PC_ACQ4ANY ? WAIT_ANY : WAIT_ME;
    enum pc_counted_verb verb = verb_of_wait(kind);
    if (unlikely(service_is_draining(conn))) {
        reply(conn, verb, PC_REPLY_SHUTTING_DOWN);
        return;
    }
    if (s->lock_count >= poolcounter_settings_of(service_of(conn))->max_locks) {
        reply(conn, verb, PC_REPLY_LOCK_HELD);
        return;
    }
    if (s->pools.waits) {
        tally_add(&own_of(conn)->lock_while_waiting, 1);
        reply(conn, verb, PC_REPLY_WAIT_FOR_RESPONSE);
        return;
    }
    struct acquire a = {
        .name = {.data = req->key.data, .len = req->key.len},
        .hash = hash,
        .units = 1,
        .limit = req->workers,
        .queue_max = req->maxqueue,
        .wait = req->timeout_ns > 0 ? kind : WAIT_NO,
    };
    struct moment now = service_now(conn);
    struct holding *held = NULL;
    switch (table_acquire(service_table(conn), &s->holder, &a, now, &held, &s->waiter)) {
    case TABLE_OK:
        add_lock(conn, held, now.mono_ns);
        reply(conn, verb, PC_REPLY_LOCKED);
        break;
    case TABLE_WAITING:
        s->pools.waits = true;
        tally_add(&service_counts(conn)->waiting, 1);
        conn_expire_in(conn, PC_WAIT_DEADLINE, req->timeout_ns);
        break;
    case TABLE_FULL:
        reply(conn, verb, PC_REPLY_QUEUE_FULL);
        break;
    case TABLE_BUSY:
        tally_add(&service_counts(conn)->busy, 1);
        reply(conn, verb, PC_REPLY_TIMEOUT);
        break;
    case TABLE_NO_MEMORY:
        conn_dear(conn); /* it has looked for names that could go */
        s->waiter = NULL;
        reply(conn, verb, PC_REPLY_OUT_OF_MEMORY);
        break;
    case TABLE_NOT_FOUND:
    case TABLE_NOT_HELD:
        CHECK(false);
    }
}

static bool is_key(const struct conn *conn, const struct holding *held, struct bytes key)
{
    struct bytes name = holding_name(service_table(conn), held);
    return name.len == key.len && memcmp(name.data, key.data, key.len) == 0;
}

/* RELEASE without a key: releases the newest lock, or ends the wait. Returns false when there is
 * neither. */
static bool release_newest(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    if (s->waiter && end_wait(conn, WAITER_CANCELLED))
        reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
    else if (s->lock_count > 0)
        release_lock(conn, s->lock_count - 1);
    else
        return false;
    return true;
}

/* RELEASE with a key: releases the newest lock on that key, or else ends the wait for it. Returns
 * false when there is neither. */
static bool release_key(struct conn *conn, struct bytes key)
{
    struct pc_session *s = conn_session(conn);
    for (uint32_t i = s->lock_count; i > 0; i--) {
        if (is_key(conn, s->locks[i - 1].held, key)) {
            release_lock(conn, i - 1);
            return true;
        }
    }
    if (!s->waiter || !is_key(conn, s->waiter->holding, key))
        return false;
    if (end_wait(conn, WAITER_CANCELLED))
        reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
    else
        return release_key(conn,
                           key); /* the verdict came first (a lock, or DONE); no wait is left */
    return true;
}

static void do_release(struct conn *conn, const struct pc_request *req)
{
    bool released = req->key.len ? release_key(conn, req->key) : release_newest(conn);
    if (!released)
        reply(conn, VERB_RELEASE, PC_REPLY_NOT_LOCKED);
}

/* The number of acquire requests with this outcome. */
static uint64_t acquires(const struct service *service, enum pc_outcome outcome)
{
    return service_requests(service, VERB_ACQ4ANY, outcome) +
           service_requests(service, VERB_ACQ4ME, outcome);
}

static void collect_stats(const struct conn *conn, struct pc_stats *stats_r)
{
    const struct service *service = service_of(conn);
    const struct services *services = service->services;
    const struct protocol *protocol = &service->protocol;
    struct table_stats table;
    struct buckets_sum holds, done, timed_out;
    table_get_stats(services->table, service_now(conn), &table);
    service_holds(service, &holds);
    service_waits(service, WAITED_DONE, &done);
    service_waits(service, WAITED_TIMED_OUT, &timed_out);
    *stats_r = (struct pc_stats){
        .uptime_s = (uint64_t)((service_now(conn).mono_ns - services->started_ns) / NS_PER_S),
        .processing_ns = holds.sum_ns,
        .waiting_for_good_ns = done.sum_ns,
        .wasted_timeout_ns = timed_out.sum_ns,
        .total_acquired = acquires(service, OUTCOME_LOCKED),
        .hashtable_entries = table.names,
        .waiting_workers = service_waiting(service),
        .connect_errors = atomic_load(&protocol->accept_errors),
        .failed_sends = atomic_load(&protocol->send_errors),
        .full_queues = acquires(service, OUTCOME_QUEUE_FULL),
        .lock_mismatch = acquires(service, OUTCOME_LOCK_HELD),
        .release_mismatch = service_requests(service, VERB_RELEASE, OUTCOME_NOT_LOCKED),
        .processed_count = buckets_sum_count(&holds),
    };
    /* The numbers are read while workers count, so the difference could be negative. */
    if (stats_r->total_acquired > stats_r->processed_count)
        stats_r->processing_workers = stats_r->total_acquired - stats_r->processed_count;
    for (unsigned i = 0; i < services->server->count; i++) {
        const struct pc_own *own = (const struct pc_own *)service->own + i;
        stats_r->gained_ns += duration_sum_get(&own->gained_ns);
        stats_r->waiting_for_me_ns += duration_sum_get(&own->waiting_for_me_ns);
        stats_r->waiting_for_anyone_ns += duration_sum_get(&own->waiting_for_anyone_ns);
        stats_r->total_releases += tally_get(&own->releases);
        stats_r->lock_while_waiting += tally_get(&own->lock_while_waiting);
    }
    stats_r->waiting_ns = stats_r->waiting_for_me_ns + stats_r->waiting_for_anyone_ns;
}

static void do_stats(struct conn *conn, const struct pc_request *req)
{
    struct pc_stats stats;
    conn_dear(conn);
    collect_stats(conn, &stats);
    char *to = conn_reply_room(conn, PC_STATS_ROOM);
    size_t len = pc_compose_stats(&stats, req->subject, to, PC_STATS_ROOM);
    if (len == 0) {
        reply(conn, VERB_STATS, PC_REPLY_WRONG_STAT);
        return;
    }
    service_count(conn, VERB_STATS, OUTCOME_OK);
    conn_replied(conn, len);
}

/* Serves a well-formed request. `hash` is the hash of its key, or 0 when not computed yet. */
static void serve_request(struct conn *conn, const struct pc_request *req, uint64_t hash)
{
    switch (req->verb) {
    case PC_ACQ4ANY:
    case PC_ACQ4ME:
        do_acquire(conn, req, hash);
        break;
    case PC_RELEASE:
        do_release(conn, req);
        break;
    case PC_STATS:
        do_stats(conn, req);
        break;
    }
}

static enum parsed on_parse(struct conn *conn, const uint8_t *data, size_t len, void *to,
                            size_t *used_r)
{
    struct pc_parsed_request *r = to;
    size_t max_line = poolcounter_settings_of(service_of(conn))->max_line;
    r->hash = 0;
    r->parsed = pc_parse_request(data, len, max_line, &r->req, used_r);
    if (likely(r->parsed == PC_OK))
        return PARSED;
    if (r->parsed == PC_MORE)
        return PARSED_MORE;
    if (r->parsed == PC_LINE_TOO_LONG) {
        *used_r = len;
        return PARSED_LAST;
    }
    size_t line = *used_r - 1;
    if (line > 0 && data[line - 1] == '\r')
        line--;
    r->line = bytes_at(data, line);
    return PARSED;
}

/* Prefetches for requests that acquire. RELEASE needs none: it finds its lock in the session. */
static void on_prefetch(struct conn *conn, void *requests, unsigned count)
{
    struct pc_parsed_request *all = requests;
    struct bytes names[PROTOCOL_BATCH] = {{0}};
    uint64_t hashes[PROTOCOL_BATCH];
    for (unsigned i = 0; i < count; i++) {
        const struct pc_request *req = &all[i].req;
        bool acquires = all[i].parsed == PC_OK && req->verb <= PC_ACQ4ME;
        names[i] = (struct bytes){.data = req->key.data, .len = acquires ? req->key.len : 0};
    }
    table_prefetch(service_table(conn), names, count, hashes);
    for (unsigned i = 0; i < count; i++)
        all[i].hash = hashes[i];
}

/* Serves a line that is no request of the PoolCounter protocol. */
static __attribute__((noinline)) enum served serve_other(struct conn *conn,
                                                         const struct pc_parsed_request *r)
{
    switch (r->parsed) {
    case PC_POOLS:
        return pool_verbs_serve(conn, r->line);
    case PC_BAD_COMMAND:
        reply(conn, VERB_INVALID, PC_REPLY_BAD_COMMAND);
        break;
    case PC_BAD_SYNTAX:
        reply(conn, VERB_INVALID, PC_REPLY_BAD_SYNTAX);
        break;
    default:
        reply(conn, VERB_INVALID, PC_REPLY_LINE_TOO_LONG);
        pool_verbs_finish(conn);
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    }
    return SERVED;
}

static enum served on_serve(struct conn *conn, const void *request)
{
    const struct pc_parsed_request *r = request;
    if (unlikely(r->parsed != PC_OK))
        return serve_other(conn, r);
    serve_request(conn, &r->req, r->hash);
    return SERVED;
}

/* ---- what the pools need of the session ------------------------------------------------------ */

static struct pool_link *pool_link(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    return &s->pools;
}

static void count_pool_verb(struct conn *conn, enum pool_counted_verb verb,
                            enum pool_counted outcome)
{
    static const enum pc_outcome outcomes[] = {
        [POOL_COUNTED_TAKEN] = OUTCOME_TAKEN,
        [POOL_COUNTED_RETURNED] = OUTCOME_RETURNED,
        [POOL_COUNTED_GONE] = OUTCOME_GONE,
        [POOL_COUNTED_NOT_TAKEN] = OUTCOME_NOT_TAKEN,
        [POOL_COUNTED_JOINED] = OUTCOME_JOINED,
        [POOL_COUNTED_TIMEOUT] = OUTCOME_TIMEOUT,
        [POOL_COUNTED_QUEUE_FULL] = OUTCOME_QUEUE_FULL,
        [POOL_COUNTED_OK] = OUTCOME_OK,
        [POOL_COUNTED_ERROR] = OUTCOME_ERROR,
    };
    service_count(conn, VERB_OF_POOLS + (unsigned)verb, outcomes[outcome]);
}

/* Releases all locks, newest first. */
static void release_locks(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    while (s->lock_count > 0)
        give_back_lock(conn, s->lock_count - 1);
}

static void quit_wait(struct conn *conn)
{
    if (service_of(conn)->row->shared)
        shared_text_abandon_wait(conn);
    abandon_wait(conn);
}

static void quit_locks(struct conn *conn)
{
    if (service_of(conn)->row->shared)
        shared_text_release_locks(conn);
    release_locks(conn);
}

const struct pool_verbs_host pool_verbs_host = {.link = pool_link,
                                                .count = count_pool_verb,
                                                .abandon_wait = quit_wait,
                                                .release_locks = quit_locks,
                                                .wait_deadline = PC_WAIT_DEADLINE};

/* ---- what shared_text.c needs ------------------------------------------------------------------
 */

void poolcounter_reply(struct conn *conn, enum pc_counted_verb verb, enum pc_reply word)
{
    reply(conn, verb, word);
}

void poolcounter_reply_later(struct conn *conn, enum pc_counted_verb verb, enum pc_reply word)
{
    reply_later(conn, verb, word);
}

enum pc_reply poolcounter_refuses(struct conn *conn)
{
    const struct pc_session *s = conn_session(conn);
    if (service_is_draining(conn))
        return PC_REPLY_SHUTTING_DOWN;
    if (s->lock_count >= poolcounter_settings_of(service_of(conn))->max_locks)
        return PC_REPLY_LOCK_HELD;
    if (!s->pools.waits)
        return PC_REPLY_OTHER;
    tally_add(&own_of(conn)->lock_while_waiting, 1);
    return PC_REPLY_WAIT_FOR_RESPONSE;
}

void poolcounter_add_lock(struct conn *conn, struct holding *held, int64_t granted_ns)
{
    add_lock(conn, held, granted_ns);
}

void poolcounter_give_back(struct conn *conn, uint32_t i)
{
    give_back_lock(conn, i);
}

bool poolcounter_is_key(const struct conn *conn, const struct holding *held, struct bytes key)
{
    return is_key(conn, held, key);
}

void poolcounter_wait_begins(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    s->pools.waits = true;
    tally_add(&service_counts(conn)->waiting, 1);
}

bool poolcounter_end_wait(struct conn *conn, enum waiter_state why)
{
    return end_wait(conn, why);
}

void poolcounter_wait_over(struct conn *conn, enum wait_kind kind, enum waited how,
                           int64_t waited_ns)
{
    struct pc_own *own = own_of(conn);
    forget_wait(conn);
    count_wait(conn, how, waited_ns);
    if (how == WAITED_GRANTED)
        duration_sum_add(kind == WAIT_ME ? &own->waiting_for_me_ns : &own->waiting_for_anyone_ns,
                         elapsed_ns(0, waited_ns));
}

bool poolcounter_leave_table(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    if (table_end_wait(service_table(conn), s->waiter, WAITER_CANCELLED, service_now(conn)) !=
        WAITER_CANCELLED) {
        take_note(conn);
        return false;
    }
    s->waiter = NULL;
    return true;
}

/* ---- life -------------------------------------------------------------------------------- */

static void on_open(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    service_open_holder(conn, &s->holder);
}

static void on_close(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    for (uint32_t i = 0; i < s->lock_count; i++)
        count_processed(conn, &s->locks[i], service_now(conn).mono_ns);
    s->lock_count = 0;
    if (s->waiter)
        abandon_wait(conn);
    if (s->pools.session)
        pool_verbs_close(conn);
    service_close_holder(conn, &s->holder, NULL);
}

static void on_describe(struct conn *conn, struct conn_info *info)
{
    service_describe(conn, info);
    pool_verbs_describe(conn, info);
}

/* ---- upgrades ------------------------------------------------------------------------------ */

static bool on_restore(struct conn *conn, struct record_reader *r)
{
    return poolcounter_restore(conn, r, false);
}

static tally *own_tally(void *own, unsigned i)
{
    struct pc_own *o = own;
    tally *all[] = {&o->releases, &o->lock_while_waiting};
    return i < ARRAY_SIZE(all) ? all[i] : NULL;
}

static struct duration_sum *own_time(void *own, unsigned i)
{
    struct pc_own *o = own;
    struct duration_sum *all[] = {&o->gained_ns, &o->waiting_for_me_ns, &o->waiting_for_anyone_ns};
    return i < ARRAY_SIZE(all) ? all[i] : NULL;
}

static void fit(struct service *service)
{
    uint32_t room = poolcounter_room(service);
    service->services->session_room = room;
    service->protocol.session_size = sizeof(struct pc_session) + room * sizeof(struct pc_lock);
    /* "\r", and one byte to recognise a line that is too long. */
    service->protocol.request_max = poolcounter_settings_of(service)->max_line + 2;
}

static struct holder *holder_of(struct conn *conn)
{
    struct pc_session *s = conn_session(conn);
    return &s->holder;
}

static const char *const verbs[] = {"ACQ4ANY", "ACQ4ME",           "RELEASE", "STATS",
                                    "invalid", POOL_COUNTED_VERBS, NULL};
static const char *const outcomes[OUTCOME_COUNT + 1] = {
    "LOCKED", "DONE",  "QUEUE_FULL", "TIMEOUT", "LOCK_HELD", "RELEASED", "NOT_LOCKED", "ok",
    "error",  "TAKEN", "RETURNED",   "GONE",    "NOT_TAKEN", "JOINED",   NULL};

static enum meaning meaning_of(unsigned verb, unsigned outcome)
{
    bool is_lock = verb == VERB_ACQ4ANY || verb == VERB_ACQ4ME; /* pools count their own */
    switch ((enum pc_outcome)outcome) {
    case OUTCOME_LOCKED:
    case OUTCOME_TAKEN:
        return MEANS_GRANTED;
    case OUTCOME_QUEUE_FULL:
        return is_lock ? MEANS_REFUSED : MEANS_OTHER;
    case OUTCOME_TIMEOUT:
        return is_lock ? MEANS_TIMED_OUT : MEANS_OTHER;
    default:
        return MEANS_OTHER;
    }
}

#define ROW_PROTOCOL                                                                               \
    .name = "poolcounter", .request_size = sizeof(struct pc_parsed_request), .deadlines = 1,       \
    .open = on_open, .parse = on_parse, .prefetch = on_prefetch, .resume = pool_verbs_resume,      \
    .room = pool_verbs_room

#define ROW_SERVICE                                                                                \
    .verbs = verbs, .outcomes = outcomes, .meaning = meaning_of,                                   \
    .own_size = sizeof(struct pc_own), .own_tally = own_tally, .own_time = own_time,               \
    .holder = holder_of, .verdict = on_verdict

static const struct service_row shared_row = {
    .protocol =
        {
            ROW_PROTOCOL,
            .pending_max = 1,
            .tracks_output = true,
            .input_end = INPUT_END_SERVED,
            .ends = shared_ends,
            .serve = shared_text_serve,
            .expire = shared_text_expire,
            .may_write = shared_may_write,
            .close = shared_text_close,
            .save = shared_text_save,
            .restore = shared_text_restore,
            .describe = shared_text_describe,
        },
    ROW_SERVICE,
    .fit = shared_text_fit,
    .shared = &shared_text_host,
};

const struct service_row poolcounter_row = {
    .protocol =
        {
            ROW_PROTOCOL,
            .extends_later = true,
            .serve = on_serve,
            .expire = on_expire,
            .close = on_close,
            .save = poolcounter_save,
            .restore = on_restore,
            .describe = on_describe,
        },
    ROW_SERVICE,
    .fit = fit,
    .when_shared = &shared_row,
};

/* ---- options ------------------------------------------------------------------------------- */

/* clang-format off */
static const struct option_row option_rows[] = {
    { .key = "max_locks", OPTION_IS_NUMBER(struct poolcounter_settings, max_locks), .min = 1,
      .max = 64, .default_text = "4", .unit = "",
      .help = "maximum number of locks of one PoolCounter connection" },
    { .key = "max_line", OPTION_IS_NUMBER(struct poolcounter_settings, max_line), .min = 64,
      .max = 1048576, .default_text = "8192", .unit = "bytes",
      .help = "maximum length of a PoolCounter request; a longer one closes its connection" },
};
/* clang-format on */

static const struct option_group own_options = {
    .prefix = "poolcounter",
    .rows = option_rows,
    .count = ARRAY_SIZE(option_rows),
    .size = sizeof(struct poolcounter_settings),
};

const struct option_protocol poolcounter_options = {
    .name = "poolcounter",
    .title = "PoolCounter",
    .help = "serve the PoolCounter text protocol",
    .enable = "true",
    .port = "7531",
    .trial_send = "printf 'ACQ4ME k 1 2 5\\nRELEASE k\\n'",
    .trial_show = "",
    .takes_stdin = true,
    .own = &own_options,
};
