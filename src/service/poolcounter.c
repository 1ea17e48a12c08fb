/*
 * poolcounter.c - the service of the PoolCounter protocol: locks with a bounded queue, made of the
 * table's counters. (Protocol page: "PoolCounter (text)".)
 *
 * A lock is one unit of its key. A connection keeps its locks in the order in which they were
 * granted, because RELEASE without a key means the newest. A connection can wait for one more lock,
 * which then counts as the newest.
 *
 * Another thread may decide a wait and send the result as a message. Before the message arrives,
 * the connection may get its next request, reach its timeout, or close. Each of these checks for a
 * result first, and applies it (arbiter.h) as if the message had arrived just before. So every
 * answer agrees with the table.
 *
 * Lines with other verbs go to the pools (pool_verbs.h). A connection waits for one thing at a
 * time, a lock or a member.
 */
#include "service/poolcounter.h"

#include "base/option.h"
#include "proto/poolcounter.h"
#include "service/cluster.h"
#include "service/pool_verbs.h"
#include "service/text_session.h"

#include <string.h>

/* A parsed request. */
struct pc_parsed_request {
    enum pc_parsed parsed; /* PC_OK, PC_POOLS, or an error */
    union {
        struct pc_request req; /* with PC_OK */
        struct bytes line;     /* else, without its end; not with PC_LINE_TOO_LONG */
    };
    uint64_t hash; /* of its key; 0: not computed yet, or no key */
};

/* Counters of one worker, in addition to service_counts (`own_size` in service.h). */
struct pc_own {
    tally releases, lock_while_waiting;
    struct duration_sum gained_ns, waiting_for_me_ns, waiting_for_anyone_ns;
} __attribute__((aligned(64)));

static struct pc_own *own_of(const struct conn *conn)
{
    return &((struct pc_own *)service_of(conn)->own)[worker_number(conn_worker(conn))];
}

static enum text_outcome outcome_of(enum pc_reply word)
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

static enum text_verb verb_of(enum pc_verb verb)
{
    return verb == PC_ACQ4ANY ? VERB_ACQ4ANY : VERB_ACQ4ME;
}

/* The answer to an acquisition that got nothing. */
static enum pc_reply word_of(enum arbiter_status status)
{
    static const enum pc_reply words[ARBITER_STATUS_COUNT] = {
        [ARBITER_BUSY] = PC_REPLY_TIMEOUT,
        [ARBITER_FULL] = PC_REPLY_QUEUE_FULL,
        [ARBITER_NO_MEMORY] = PC_REPLY_OUT_OF_MEMORY,
        [ARBITER_DONE] = PC_REPLY_DONE,
        [ARBITER_TIMED_OUT] = PC_REPLY_TIMEOUT,
        [ARBITER_ENGINE_AWAY] = PC_REPLY_ENGINE_AWAY,
        [ARBITER_ENGINE_FULL] = PC_REPLY_ENGINE_FULL,
        [ARBITER_DRAINING] = PC_REPLY_SHUTTING_DOWN,
    };
    CHECK(words[status] != PC_REPLY_LOCKED);
    return words[status];
}

/* Answers a request with this verb. */
static void reply(struct conn *conn, enum text_verb verb, enum pc_reply word)
{
    service_count(conn, verb, outcome_of(word));
    struct bytes line = pc_reply_line(word);
    memcpy(conn_reply_room(conn, line.len), line.data, line.len);
    conn_replied(conn, line.len);
}

/* Adds the answer of a wait. It follows an answer in pieces. */
static inline void reply_later(struct conn *conn, enum text_verb verb, enum pc_reply word)
{
    if (likely(!conn_in_pieces(conn))) {
        reply(conn, verb, word);
        return;
    }
    struct bytes line = pc_reply_line(word);
    service_count(conn, verb, outcome_of(word));
    CHECK(conn_interject(conn, line.data, line.len, SIZE_MAX));
}

/* ---- locks ----------------------------------------------------------------------------------- */

static void add_lock(struct conn *conn, struct holding *held, int64_t granted_ns)
{
    struct text_session *s = text_session(conn);
    CHECK(s->lock_count < poolcounter_room(service_of(conn)));
    s->locks[s->lock_count++] = (struct text_lock){.held = held, .granted_ns = granted_ns};
}

/* Measures a lock that ends now. */
static void count_processed(struct conn *conn, const struct text_lock *lock, int64_t now_ns)
{
    histogram_add(&service_counts(conn)->holds, now_ns - lock->granted_ns, 1);
}

/* The number of DONE results: each client with one is spared the work. */
static uint64_t count_done(const results *out)
{
    uint64_t done = 0;
    for (struct mail *mail = out->first; mail; mail = mail->next)
        done += waiter_of(mail)->state == WAITER_DONE;
    return done;
}

/* Gives back lock number `i`. `answers`: the client waits for that (arbiter_release_held). */
static inline enum arbiter_status give_back_lock(struct conn *conn, uint32_t i, bool answers)
{
    struct text_session *s = text_session(conn);
    struct pc_own *own = own_of(conn);
    struct text_lock lock = s->locks[i];
    struct moment now = service_now(conn);
    results out;
    mail_list_init(&out);
    enum arbiter_status status = arbiter_release_held(conn, &s->holder, lock.held, answers, &out);
    if (unlikely(status == ARBITER_NO_MEMORY))
        return status;
    s->lock_count--;
    if (i < s->lock_count) /* not needed for the newest, the usual case */
        memmove(&s->locks[i], &s->locks[i + 1], (s->lock_count - i) * sizeof(lock));
    count_processed(conn, &lock, now.mono_ns);
    tally_add(&own->releases, 1);
    if (out.first) {
        duration_sum_add_times(
            &own->gained_ns, count_done(&out),
            now.mono_ns > lock.granted_ns ? (uint64_t)(now.mono_ns - lock.granted_ns) : 0);
        service_deliver(conn_worker(conn), service_of(conn)->services, &out);
    }
    return status;
}

/* Releases lock number `i` and answers. */
static enum served release_lock(struct conn *conn, uint32_t i)
{
    enum arbiter_status status = give_back_lock(conn, i, true);
    if (unlikely(status == ARBITER_PENDING))
        return SERVED_PENDING;
    if (likely(status == ARBITER_OK))
        reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
    else
        reply(conn, VERB_RELEASE, PC_REPLY_OUT_OF_MEMORY);
    return SERVED;
}

/* ---- answers that come later ----------------------------------------------------------------- */

static void on_answered(struct conn *conn, const struct arbiter_answer *answer)
{
    if (answer->op == NODE_RELEASE) {
        reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
        return;
    }
    enum pc_verb verb = answer->was.note[0];
    bool waited = !answer->was.pending;
    if (answer->status == ARBITER_OK) {
        struct pc_own *own = own_of(conn);
        add_lock(conn, answer->held, answer->ended_ns);
        if (waited)
            duration_sum_add(verb == PC_ACQ4ME ? &own->waiting_for_me_ns
                                               : &own->waiting_for_anyone_ns,
                             (uint64_t)wait_lasted(&answer->was, answer->ended_ns));
        reply_later(conn, verb_of(verb), PC_REPLY_LOCKED);
        return;
    }
    if (answer->status == ARBITER_BUSY && !waited)
        tally_add(&service_counts(conn)->busy, 1);
    reply_later(conn, verb_of(verb), word_of(answer->status));
}

static void on_expire(struct conn *conn, unsigned which)
{
    const struct text_session *s = text_session(conn);
    CHECK(which == WAIT_DEADLINE);
    if (s->wait.on == WAIT_ON_POOL)
        pool_verbs_expire(conn);
    else
        arbiter_expire(conn);
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum served do_acquire(struct conn *conn, const struct pc_request *req, uint64_t hash)
{
    struct text_session *s = text_session(conn);
    enum text_verb verb = verb_of(req->verb);
    if (unlikely(service_is_draining(conn))) {
        reply(conn, verb, PC_REPLY_SHUTTING_DOWN);
        return SERVED;
    }
    if (s->lock_count >= poolcounter_settings_of(service_of(conn))->max_locks) {
        reply(conn, verb, PC_REPLY_LOCK_HELD);
        return SERVED;
    }
    if (s->wait.on != WAIT_ON_NOTHING) {
        tally_add(&own_of(conn)->lock_while_waiting, 1);
        reply(conn, verb, PC_REPLY_WAIT_FOR_RESPONSE);
        return SERVED;
    }
    struct acquire a = {
        .name = {.data = req->key.data, .len = req->key.len},
        .hash = hash,
        .units = 1,
        .limit = req->workers,
        .queue_max = req->maxqueue,
        .wait = req->timeout_ns <= 0      ? WAIT_NO
                : req->verb == PC_ACQ4ANY ? WAIT_ANY
                                          : WAIT_ME,
    };
    struct moment now = service_now(conn);
    struct holding *held = NULL;
    enum arbiter_status status = arbiter_acquire(conn, &s->holder, &a, &held, &s->wait.waiter);
    if (likely(status == ARBITER_OK)) {
        add_lock(conn, held, now.mono_ns);
        reply(conn, verb, PC_REPLY_LOCKED);
        return SERVED;
    }
    switch (status) {
    case ARBITER_WAITS:
        wait_begin(conn, &s->wait, WAIT_ON_TABLE, now.mono_ns);
        s->wait.note[0] = (uint8_t)req->verb;
        conn_expire_in(conn, WAIT_DEADLINE, req->timeout_ns);
        return SERVED;
    case ARBITER_PENDING:
        arbiter_pending(conn)->note[0] = (uint8_t)req->verb;
        if (a.wait != WAIT_NO)
            conn_expire_in(conn, WAIT_DEADLINE, req->timeout_ns);
        return SERVED_PENDING;
    case ARBITER_BUSY:
        tally_add(&service_counts(conn)->busy, 1);
        break;
    default:
        break;
    }
    reply(conn, verb, word_of(status));
    return SERVED;
}

/* RELEASE without a key: releases the newest lock, or ends the wait. */
static enum served release_newest(struct conn *conn)
{
    const struct text_session *s = text_session(conn);
    enum pc_reply word = PC_REPLY_RELEASED;
    if (wait_is_for_units(&s->wait) && arbiter_cancel(conn, true))
        ; /* it waits no more */
    else if (s->lock_count > 0)
        return release_lock(conn, s->lock_count - 1);
    else
        word = PC_REPLY_NOT_LOCKED;
    reply(conn, VERB_RELEASE, word);
    return SERVED;
}

/* RELEASE with a key: releases the newest lock on that key, or else ends the wait for it. */
static enum served release_key(struct conn *conn, struct bytes key)
{
    const struct text_session *s = text_session(conn);
    for (uint32_t i = s->lock_count; i > 0; i--) {
        if (bytes_equal(holding_name(service_table(conn), s->locks[i - 1].held), key))
            return release_lock(conn, i - 1);
    }
    if (!wait_is_for_units(&s->wait) || !bytes_equal(arbiter_wait_name(conn, &s->wait), key)) {
        reply(conn, VERB_RELEASE, PC_REPLY_NOT_LOCKED);
        return SERVED;
    }
    if (!arbiter_cancel(conn, true))
        return release_key(conn,
                           key); /* the result came first (a lock, or DONE): no wait is left */
    reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
    return SERVED;
}

static enum served do_release(struct conn *conn, const struct pc_request *req)
{
    return req->key.len ? release_key(conn, req->key) : release_newest(conn);
}

/* The number of acquire requests with this outcome. */
static uint64_t acquires(const struct service *service, enum text_outcome outcome)
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
static enum served serve_request(struct conn *conn, const struct pc_request *req, uint64_t hash)
{
    switch (req->verb) {
    case PC_ACQ4ANY:
    case PC_ACQ4ME:
        return do_acquire(conn, req, hash);
    case PC_RELEASE:
        return do_release(conn, req);
    case PC_STATS:
        do_stats(conn, req);
        break;
    }
    return SERVED;
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

/* Prefetches for requests that acquire. RELEASE needs none: it finds its lock in the session, and
 * the table finds the counter by that. */
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
    return serve_request(conn, &r->req, r->hash);
}

void text_release_locks(struct conn *conn)
{
    const struct text_session *s = text_session(conn);
    while (s->lock_count > 0)
        (void)give_back_lock(conn, s->lock_count - 1, false);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_close(struct conn *conn)
{
    struct text_session *s = text_session(conn);
    for (uint32_t i = 0; i < s->lock_count; i++)
        count_processed(conn, &s->locks[i], service_now(conn).mono_ns);
    s->lock_count = 0;
    if (wait_is_for_units(&s->wait))
        (void)arbiter_cancel(conn,
                             false); /* before what it holds is given back: it could get that */
    arbiter_close(conn);
    if (s->pool)
        pool_verbs_close(conn);
    service_close_holder(conn, &s->holder, NULL);
}

static void on_describe(struct conn *conn, struct conn_info *info)
{
    const struct wait *pending = arbiter_pending(conn);
    service_describe(conn, info);
    info->waits += (pending && pending->request->request.op == NODE_ACQUIRE) ||
                   wait_of(conn)->on == WAIT_ON_NODE;
    pool_verbs_describe(conn, info);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static void fit(struct service *service)
{
    uint32_t room = poolcounter_room(service);
    service->services->session_room = room;
    service->protocol.session_size = sizeof(struct text_session) + room * sizeof(struct text_lock);
    /* "\r", and one byte to recognise a line that is too long. */
    service->protocol.request_max = poolcounter_settings_of(service)->max_line + 2;
    arbiter_fit(service);
}

#define ROW(name, word) word,
static const char *const verbs[] = {TEXT_VERBS(ROW) NULL};
static const char *const outcomes[] = {TEXT_OUTCOMES(ROW) NULL};
#undef ROW

static enum meaning meaning_of(unsigned verb, unsigned outcome)
{
    bool is_lock = verb == VERB_ACQ4ANY || verb == VERB_ACQ4ME; /* pools count their own */
    switch ((enum text_outcome)outcome) {
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

const struct service_row poolcounter_row = {
    .protocol =
        {
            .name = "poolcounter",
            .request_size = sizeof(struct pc_parsed_request),
            .deadlines = 1,
            .extends_later = true,
            .open = service_open_holder,
            .parse = on_parse,
            .prefetch = on_prefetch,
            .serve = on_serve,
            .resume = pool_verbs_resume,
            .expire = on_expire,
            .room = pool_verbs_room,
            .close = on_close,
            .save = poolcounter_save,
            .restore = poolcounter_restore,
            .describe = on_describe,
        },
    .verbs = verbs,
    .outcomes = outcomes,
    .meaning = meaning_of,
    .own_size = sizeof(struct pc_own),
    .own_times_at = offsetof(struct pc_own, gained_ns),
    .own_tallies = 2,
    .own_times = 3,
    .fit = fit,
    .holds = true,
    .result = arbiter_on_result,
    .wait_at = offsetof(struct text_session, wait),
    .answered = on_answered,
};

/* ---- options --------------------------------------------------------------------------------- */

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
