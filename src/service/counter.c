/*
 * counter.c - the service of the binary counter protocol: clients acquire and release units up to a
 * limit. (Protocol page: "Counter (binary)".)
 *
 * Every request except Dump is answered at once, if its name is not shared with other nodes
 * (arbiter.h). Dump is answered in pieces. Each piece walks over a few names, copies and sends
 * them, and then lets other connections use the worker. The connection's next request waits until
 * the Dump is complete.
 */
#include "proto/counter.h"
#include "base/option.h"
#include "engine/state.h"
#include "service/arbiter.h"
#include "service/pools.h"
#include "service/table_resource.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct service_row counter_row;
extern const struct option_protocol counter_options;

/* Names or empty buckets that one piece of a Dump visits. */
#define DUMP_LOOKS 256

/* The scratch has room for the longest reply of Dump, so every piece makes progress. */
_Static_assert(CTR_DUMP_LEN(CTR_NAME_MAX) <= WORKER_SCRATCH - CONN_REPLY_MAX,
               "a piece of a Dump has room for any name");

struct ctr_dump {
    struct table_walk walk;
    uint8_t opaque[4];
};

struct ctr_session {
    struct holder holder;  /* first */
    struct ctr_dump *dump; /* NULL: no Dump in progress */
};

/* A parsed request. */
struct ctr_parsed_request {
    enum ctr_parsed parsed;
    struct ctr_request req;
    uint64_t hash; /* of its name; 0: not computed yet */
};

/* Verbs and outcomes for metrics: the rows of the codec's tables, in the same order. */
enum ctr_verb {
#define ROW(name, number, word) VERB_##name,
    CTR_OPCODES(ROW)
#undef ROW
        VERB_INVALID,
    VERB_COUNT
};

enum ctr_outcome {
#define ROW(name, number, text) OUTCOME_##name,
    CTR_STATUSES(ROW)
#undef ROW
        OUTCOME_COUNT
};

static enum ctr_verb verb_of(const struct ctr_request *req)
{
    switch ((enum ctr_opcode)req->opcode) {
#define ROW(name, number, word)                                                                    \
    case CTR_##name:                                                                               \
        return VERB_##name;
        CTR_OPCODES(ROW)
#undef ROW
    }
    return VERB_INVALID;
}

static enum ctr_outcome outcome_of(enum ctr_status status)
{
    switch (status) {
#define ROW(name, number, text)                                                                    \
    case CTR_STATUS_##name:                                                                        \
        return OUTCOME_##name;
        CTR_STATUSES(ROW)
#undef ROW
    }
    CHECK(false);
    return OUTCOME_COUNT;
}

static struct bytes name_of(const struct ctr_request *req)
{
    return (struct bytes){.data = req->name.data, .len = req->name.len};
}

static void send_status(struct conn *conn, const struct ctr_request *req, enum ctr_status status)
{
    uint8_t *to = conn_reply_room(conn, CTR_REPLY_ROOM);
    conn_replied(conn, ctr_compose_status(req->opcode, req->opaque, status, to));
}

static void reply_status(struct conn *conn, const struct ctr_request *req, enum ctr_status status)
{
    service_count(conn, verb_of(req), outcome_of(status));
    send_status(conn, req, status);
}

static void reply_number(struct conn *conn, const struct ctr_request *req, uint32_t number)
{
    service_count(conn, verb_of(req), OUTCOME_SUCCESS);
    uint8_t *to = conn_reply_room(conn, CTR_REPLY_ROOM);
    conn_replied(conn, ctr_compose_number(req->opcode, req->opaque, number, to));
}

/* ---- requests -------------------------------------------------------------------------------- */

static void do_noop(struct conn *conn, const struct ctr_request *req)
{
    reply_status(conn, req, CTR_STATUS_SUCCESS);
}

/* Answers a request, which may have been pending, but not with a number. */
static __attribute__((noinline)) void answer(struct conn *conn, const struct ctr_request *req,
                                             enum arbiter_status status)
{
    static const enum ctr_status statuses[ARBITER_STATUS_COUNT] = {
        [ARBITER_OK] = CTR_STATUS_SUCCESS,
        [ARBITER_BUSY] = CTR_STATUS_NOT_AVAILABLE,
        [ARBITER_FULL] = CTR_STATUS_NOT_AVAILABLE,
        [ARBITER_NOT_FOUND] = CTR_STATUS_NOT_FOUND,
        [ARBITER_NOT_HELD] = CTR_STATUS_NOT_ACQUIRED,
        [ARBITER_NO_MEMORY] = CTR_STATUS_OUT_OF_MEMORY,
        [ARBITER_DONE] = CTR_STATUS_NOT_AVAILABLE,
        [ARBITER_TIMED_OUT] = CTR_STATUS_NOT_AVAILABLE,
        [ARBITER_ENGINE_AWAY] = CTR_STATUS_NOT_AVAILABLE,
        [ARBITER_ENGINE_FULL] = CTR_STATUS_OUT_OF_MEMORY,
        [ARBITER_DRAINING] = CTR_STATUS_NOT_AVAILABLE,
    };
    CHECK(status == ARBITER_OK || statuses[status] != CTR_STATUS_SUCCESS);
    reply_status(conn, req, statuses[status]);
}

/* The same of a request that is served. */
static enum served answer_now(struct conn *conn, const struct ctr_request *req,
                              enum arbiter_status status)
{
    if (status == ARBITER_PENDING) {
        memcpy(arbiter_pending(conn)->note, req->opaque, sizeof(req->opaque));
        return SERVED_PENDING;
    }
    answer(conn, req, status);
    return SERVED;
}

static void on_answered(struct conn *conn, const struct arbiter_answer *late)
{
    static const uint8_t opcodes[] = {
        [NODE_ACQUIRE] = CTR_ACQUIRE, [NODE_RELEASE] = CTR_RELEASE, [NODE_GET] = CTR_GET};
    struct ctr_request req = {.opcode = opcodes[late->op]};
    memcpy(req.opaque, late->was.note, sizeof(req.opaque));
    if (late->status == ARBITER_OK && late->op != NODE_RELEASE)
        reply_number(conn, &req, late->units);
    else
        answer(conn, &req, late->status);
}

static enum served do_get(struct conn *conn, const struct ctr_request *req)
{
    uint32_t consumption = 0;
    enum arbiter_status status = arbiter_get(conn, name_of(req), &consumption);
    if (unlikely(status != ARBITER_OK))
        return answer_now(conn, req, status);
    reply_number(conn, req, consumption);
    return SERVED;
}

static enum served do_acquire(struct conn *conn, const struct ctr_request *req, uint64_t hash)
{
    struct ctr_session *s = conn_session(conn);
    if (unlikely(service_is_draining(conn))) {
        service_count(conn, VERB_ACQUIRE, OUTCOME_NOT_AVAILABLE);
        uint8_t *to = conn_reply_room(conn, CTR_REPLY_ROOM);
        conn_replied(conn, ctr_compose_shutting_down(req->opcode, req->opaque, to));
        return SERVED;
    }
    struct acquire a = {
        .name = name_of(req),
        .hash = hash,
        .units = req->units,
        .limit = req->maximum,
        .wait = WAIT_NO,
        .keep = true,
    };
    enum arbiter_status status = arbiter_acquire(conn, &s->holder, &a, NULL, NULL);
    if (unlikely(status != ARBITER_OK))
        return answer_now(conn, req, status);
    reply_number(conn, req, req->units);
    return SERVED;
}

static enum served do_release(struct conn *conn, const struct ctr_request *req, uint64_t hash)
{
    struct ctr_session *s = conn_session(conn);
    results out;
    mail_list_init(&out);
    struct release r = {.name = name_of(req), .hash = hash, .units = req->units};
    enum arbiter_status status = arbiter_release(conn, &s->holder, &r, &out);
    if (out.first)
        service_deliver(conn_worker(conn), service_of(conn)->services, &out);
    if (unlikely(status != ARBITER_OK))
        return answer_now(conn, req, status);
    reply_status(conn, req, CTR_STATUS_SUCCESS);
    return SERVED;
}

/* ---- Stats ----------------------------------------------------------------------------------- */

/* The body of a Stats reply that is being written. */
struct stats_body {
    uint8_t *data;
    size_t len, room;
};

static void add_stat(struct stats_body *body, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    size_t len = ctr_compose_stat(name, text, body->data + body->len, body->room - body->len);
    CHECK(len > 0); /* the names are constant, and the room is large enough */
    body->len += len;
}

/* The number of requests of a verb that were carried out: all but malformed ones. */
static uint64_t carried_out(const struct service *service, enum ctr_verb verb)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        all += i == OUTCOME_INVALID ? 0 : service_requests(service, verb, i);
    return all;
}

/* The names of yrmcds in its order, then our own. */
static void write_stats(const struct conn *conn, struct stats_body *body)
{
    const struct service *service = service_of(conn);
    const struct services *services = service->services;
    const struct protocol *protocol = &service->protocol;
    struct table_stats table;
    struct collector_stats collector;
    struct pools_sums pools;
    table_get_stats(services->table, service_now(conn), &table);
    table_resource_collector(services, &collector);
    add_stat(body, "objects", table.names);
    add_stat(body, "total_objects", table.names_made);
    add_stat(body, "used_memory", table.memory);
    add_stat(body, "conflicts", table.overflowing);
    add_stat(body, "gc_count", collector.collections);
    add_stat(body, "last_gc_elapsed", collector.last_us);
    add_stat(body, "total_gc_elapsed", collector.all_us);
    add_stat(body, "curr_connections", atomic_load(&protocol->connections));
    add_stat(body, "total_connections", atomic_load(&protocol->connections_made));
#define ROW(name, number, word) add_stat(body, "command:" word, carried_out(service, VERB_##name));
    CTR_OPCODES(ROW)
#undef ROW
    add_stat(body, "uptime",
             (uint64_t)((service_now(conn).mono_ns - services->started_ns) / NS_PER_S));
    add_stat(body, "threads", services->server->count);
    add_stat(body, "memory_limit", table_resource_settings(services)->memory_limit);
    add_stat(body, "held_units", table.units);
    add_stat(body, "holdings", table.holdings);
    add_stat(body, "waiters", table.waiting);
    add_stat(body, "gc_collected", collector.collected);
    const char *word;
    for (unsigned i = 0; (word = protocol_close_word(protocol->row, i)) != NULL; i++) {
        char name[64];
        snprintf(name, sizeof(name), "closed:%s", word);
        add_stat(body, name, atomic_load(&protocol->closed[i]));
    }
    pools_sums(pools_of(services), &pools);
    add_stat(body, "pools", pools.pools);
    add_stat(body, "pool_members", pools.members);
    add_stat(body, "pool_held", pools.held);
    add_stat(body, "pool_waiting", pools.waiting);
}

static void do_stats(struct conn *conn, const struct ctr_request *req)
{
    conn_dear(conn);
    service_count(conn, VERB_STATS, OUTCOME_SUCCESS); /* first, so that this request is included */
    uint8_t *to = conn_reply_room(conn, CONN_REPLY_MAX);
    struct stats_body body = {.data = to + CTR_HEADER, .room = CONN_REPLY_MAX - CTR_HEADER};
    write_stats(conn, &body);
    ctr_compose_header(req->opcode, req->opaque, CTR_STATUS_SUCCESS, (uint32_t)body.len, to);
    conn_replied(conn, CTR_HEADER + body.len);
}

/* ---- Dump ------------------------------------------------------------------------------------ */

/* Starts a Dump. Returns false after an error reply. */
static bool begin_dump(struct conn *conn, const struct ctr_request *req)
{
    struct ctr_session *s = conn_session(conn);
    s->dump = calloc(1, sizeof(*s->dump));
    if (!s->dump) {
        reply_status(conn, req, CTR_STATUS_OUT_OF_MEMORY);
        return false;
    }
    memcpy(s->dump->opaque, req->opaque, sizeof(s->dump->opaque));
    return true;
}

/* Replies of Dump that are being written to the worker's scratch. */
struct dump_page {
    const uint8_t *opaque;
    uint8_t *data;
    size_t len, room;
};

static bool dump_one(void *arg, const struct table_entry *entry)
{
    struct dump_page *page = arg;
    /* The first entry always fits into the scratch. It is sent even if the client's output limit is
     * reached. */
    if (page->len > 0 && page->len + CTR_DUMP_LEN(entry->name.len) > page->room)
        return false;
    struct bytes name = {.data = entry->name.data, .len = entry->name.len};
    page->len += ctr_compose_dump(page->opaque, entry->consumption, entry->peak, name,
                                  page->data + page->len);
    return true;
}

static bool on_resume(struct conn *conn)
{
    struct ctr_session *s = conn_session(conn);
    size_t space = conn_space(conn), scratch = WORKER_SCRATCH - CONN_REPLY_MAX;
    struct dump_page page = {
        .opaque = s->dump->opaque,
        .data = worker_scratch(conn_worker(conn)),
        .room = space < scratch ? space : scratch,
    };
    bool over = table_walk_on(service_table(conn), &s->dump->walk, service_now(conn), DUMP_LOOKS,
                              dump_one, &page);
    conn_reply(conn, page.data, page.len);
    if (!over)
        return false;
    struct ctr_request end = {.opcode = CTR_DUMP};
    memcpy(end.opaque, s->dump->opaque, sizeof(end.opaque));
    reply_status(conn, &end, CTR_STATUS_SUCCESS);
    free(s->dump);
    s->dump = NULL;
    return true;
}

/* ---- the protocol ---------------------------------------------------------------------------- */

/* Serves a well-formed request. `hash` is the hash of its name, or 0 when not computed yet. */
static enum served serve_request(struct conn *conn, const struct ctr_request *req, uint64_t hash)
{
    switch ((enum ctr_opcode)req->opcode) {
    case CTR_NOOP:
        do_noop(conn, req);
        break;
    case CTR_GET:
        return do_get(conn, req);
    case CTR_ACQUIRE:
        return do_acquire(conn, req, hash);
    case CTR_RELEASE:
        return do_release(conn, req, hash);
    case CTR_STATS:
        do_stats(conn, req);
        break;
    case CTR_DUMP:
        return begin_dump(conn, req) ? SERVED_PIECES : SERVED;
    }
    return SERVED;
}

static enum parsed on_parse(struct conn *conn, const uint8_t *data, size_t len, void *to,
                            size_t *used_r)
{
    struct ctr_parsed_request *r = to;
    (void)conn;
    r->hash = 0;
    r->parsed = ctr_parse_request(data, len, &r->req, used_r);
    if (r->parsed == CTR_MORE)
        return PARSED_MORE;
    if (r->parsed == CTR_TOO_LONG || r->parsed == CTR_BAD_MAGIC) {
        *used_r = len;
        return PARSED_LAST;
    }
    return PARSED;
}

static void on_prefetch(struct conn *conn, void *requests, unsigned count)
{
    struct ctr_parsed_request *all = requests;
    struct bytes names[PROTOCOL_BATCH] = {{0}};
    uint64_t hashes[PROTOCOL_BATCH];
    for (unsigned i = 0; i < count; i++)
        names[i] = all[i].parsed == CTR_OK ? name_of(&all[i].req) : (struct bytes){0};
    table_prefetch(service_table(conn), names, count, hashes);
    for (unsigned i = 0; i < count; i++)
        all[i].hash = hashes[i];
}

static enum served on_serve(struct conn *conn, const void *request)
{
    const struct ctr_parsed_request *r = request;
    switch (r->parsed) {
    case CTR_OK:
        return serve_request(conn, &r->req, r->hash);
    case CTR_BAD_ARGS:
        reply_status(conn, &r->req, CTR_STATUS_INVALID);
        return SERVED;
    case CTR_UNKNOWN:
        reply_status(conn, &r->req, CTR_STATUS_UNKNOWN_COMMAND);
        return SERVED;
    default:
        service_count(conn, VERB_INVALID, OUTCOME_INVALID);
        send_status(conn, &r->req, CTR_STATUS_INVALID);
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    }
}

static void on_close(struct conn *conn)
{
    struct ctr_session *s = conn_session(conn);
    free(s->dump);
    s->dump = NULL;
    arbiter_close(conn);
}

static bool on_give_back(struct conn *conn, unsigned max)
{
    struct ctr_session *s = conn_session(conn);
    if (service_of(conn)->shares)
        max = UINT_MAX; /* at once, as the node was told */
    return service_close_some(conn, &s->holder, max, &service_counts(conn)->holds);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

/*
 * Saves the session: what arbiter_save writes, its holder, and a bool that is true during a Dump.
 * During a Dump, also its 4 bytes of opaque and the position of its walk. The new process keeps the
 * hash key, so the walk can continue.
 */
static void on_save(struct conn *conn, struct record_writer *w)
{
    const struct ctr_session *s = conn_session(conn);
    arbiter_save(conn, w);
    holder_save(service_table(conn), &s->holder, w);
    record_put_u8(w, s->dump != NULL);
    if (!s->dump)
        return;
    for (size_t i = 0; i < sizeof(s->dump->opaque); i++)
        record_put_u8(w, s->dump->opaque[i]);
    table_walk_save(&s->dump->walk, w);
}

static bool on_restore(struct conn *conn, struct record_reader *r)
{
    struct ctr_session *s = conn_session(conn);
    if (!arbiter_restore(conn, r, true))
        return false;
    service_open_holder(conn);
    if (!holder_restore(service_table(conn), &s->holder, r))
        return false;
    bool dumps = record_get_bool(r);
    if (s->holder.waiters)
        record_refuse(r, "a counter connection waits; this protocol has no waits");
    if (record_ok(r) && dumps != conn_in_pieces(conn))
        record_refuse(r, "a Dump does not match the phase of its connection");
    if (!record_ok(r) || !dumps)
        return record_ok(r);
    s->dump = calloc(1, sizeof(*s->dump));
    if (!s->dump) {
        record_refuse(r, "no memory for the state");
        return false;
    }
    for (size_t i = 0; i < sizeof(s->dump->opaque); i++)
        s->dump->opaque[i] = record_get_u8(r);
    return table_walk_restore(&s->dump->walk, r);
}

static const char *const verbs[VERB_COUNT + 1] = {
#define ROW(name, number, word) word,
    CTR_OPCODES(ROW)
#undef ROW
        "invalid",
};
static const char *const outcomes[OUTCOME_COUNT + 1] = {
    "success",      "not_found",       "invalid",      "not_available",
    "not_acquired", "unknown_command", "out_of_memory"};

static enum meaning meaning_of(unsigned verb, unsigned outcome)
{
    if (verb == VERB_ACQUIRE && outcome == OUTCOME_SUCCESS)
        return MEANS_GRANTED;
    return outcome == OUTCOME_NOT_AVAILABLE ? MEANS_REFUSED : MEANS_OTHER;
}

const struct service_row counter_row = {
    .protocol =
        {
            .name = "counter",
            .request_size = sizeof(struct ctr_parsed_request),
            .open = service_open_holder,
            .parse = on_parse,
            .prefetch = on_prefetch,
            .serve = on_serve,
            .resume = on_resume,
            .close = on_close,
            .give_back = on_give_back,
            .save = on_save,
            .restore = on_restore,
            .describe = service_describe,
        },
    .verbs = verbs,
    .outcomes = outcomes,
    .meaning = meaning_of,
    .holds = true,
    .answered = on_answered,
    .fit = arbiter_fit,
    .session_size = sizeof(struct ctr_session),
    .request_max = CTR_HEADER + CTR_BODY_MAX,
};

/* ---- options --------------------------------------------------------------------------------- */

/* Keys of a yrmcds configuration file that we accept and ignore. (Its `user`, `group` and
 * `counter.` keys are real options here.) */
static const char *const yrmcds_keys[] = {
    "virtual_ip",
    "bind_ip",
    "port",
    "repl_port",
    "max_connections",
    "temp_dir",
    "log.threshold",
    "log.file",
    "buckets",
    "max_data_size",
    "heap_data_limit",
    "repl_buffer_size",
    "initial_repl_sleep_delay_usec",
    "secure_erase",
    "lock_memory",
    "memory_limit",
    "workers",
    "gc_interval",
    "slave_timeout",
    NULL,
};

const struct option_protocol counter_options = {
    .name = "counter",
    .title = "Counter",
    .help = "serve the binary Counter protocol",
    .enable = "false",
    .port = "11215",
    .trial_send =
        "printf '\\220\\2\\0\\0\\0\\0\\0\\13\\0\\0\\0\\0\\0\\0\\0\\3\\0\\0\\0\\12\\0\\1k'",
    .trial_show = " | od -An -tx1",
    .foreign_program = "yrmcds",
    .foreign_keys = yrmcds_keys,
};
