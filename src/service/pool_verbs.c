/*
 * pool_verbs.c - serves the requests of proto/pools.md: from the codec (proto/pools.h) to the
 * engine (engine/pool.h) and back.
 *
 * RETURN sends what it causes for others before its answer: the client that gets the member is told
 * first. All other verbs answer first, so that lines which follow from a request (WANT after
 * SUPPLY) come after its answer.
 */
#include "service/pool_verbs.h"

#include "base/lock.h"
#include "base/record.h"
#include "service/pool_verbs_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- answers --------------------------------------------------------------------------------- */

static enum text_outcome outcome_of(enum pool_reply reply)
{
    static const enum text_outcome outcomes[POOL_REPLY_FIXED] = {
        [POOL_REPLY_OK] = OUTCOME_OK,           [POOL_REPLY_BYE] = OUTCOME_OK,
        [POOL_REPLY_JOINED] = OUTCOME_JOINED,   [POOL_REPLY_RETURNED] = OUTCOME_RETURNED,
        [POOL_REPLY_GONE] = OUTCOME_GONE,       [POOL_REPLY_NOT_TAKEN] = OUTCOME_NOT_TAKEN,
        [POOL_REPLY_TIMEOUT] = OUTCOME_TIMEOUT, [POOL_REPLY_QUEUE_FULL] = OUTCOME_QUEUE_FULL,
    };
    CHECK(reply < ARRAY_SIZE(outcomes));
    return outcomes[reply] ? outcomes[reply] : OUTCOME_ERROR;
}

static void answer(struct conn *conn, enum text_verb verb, enum pool_reply reply)
{
    struct bytes line = pool_reply_line(reply);
    memcpy(conn_reply_room(conn, line.len), line.data, line.len);
    conn_replied(conn, line.len);
    service_count(conn, verb, outcome_of(reply));
}

static enum pool_reply answer_bad_value(struct conn *conn, enum text_verb verb, const char *name)
{
    uint8_t line[POOLS_BAD_VALUE_ROOM];
    conn_reply(conn, line, pool_compose_bad_value(bytes_of(name), line, sizeof(line)));
    service_count(conn, verb, OUTCOME_ERROR);
    return POOL_REPLY_BAD_VALUE;
}

/* The reply for a status of the engine; `ok` for POOL_OK. */
static enum pool_reply reply_of(enum pool_status status, enum pool_reply ok)
{
    static const enum pool_reply replies[] = {
        [POOL_TIMES_OUT] = POOL_REPLY_TIMEOUT,
        [POOL_QUEUE_FULL] = POOL_REPLY_QUEUE_FULL,
        [POOL_GONE] = POOL_REPLY_GONE,
        [POOL_NOT_TAKEN] = POOL_REPLY_NOT_TAKEN,
        [POOL_DENIED] = POOL_REPLY_DENIED,
        [POOL_NO_POOL] = POOL_REPLY_NO_POOL,
        [POOL_WRONG_KIND] = POOL_REPLY_WRONG_KIND,
        [POOL_NO_MEMBER] = POOL_REPLY_NO_MEMBER,
        [POOL_EXISTS] = POOL_REPLY_EXISTS,
        [POOL_TOO_MANY] = POOL_REPLY_TOO_MANY,
        [POOL_FULL] = POOL_REPLY_POOL_FULL,
        [POOL_NO_MEMORY] = POOL_REPLY_OUT_OF_MEMORY,
    };
    CHECK(status != POOL_WAITS && status != POOL_LOOKS && status != POOL_BAD_STATE);
    return status == POOL_OK ? ok : replies[status];
}

/* ---- sessions and clients -------------------------------------------------------------------- */

struct pool_session *pool_session_make(struct conn *conn)
{
    struct pool_session *s = text_session(conn)->pool;
    if (s)
        return s;
    s = text_session(conn)->pool = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->conn = conn;
    conn_peer_text(conn, s->peer);
    s->event_max = pool_event_max(conn);
    return s;
}

static struct pools *pools_at(const struct conn *conn)
{
    return pools_of(pool_services_of(conn));
}

/* The client of a connection; made if there is none. NULL: no memory. */
static struct pool_client *client_of(struct conn *conn)
{
    struct pool_session *s = pool_session_make(conn);
    if (s && !s->client && conn_extend(conn))
        s->client =
            pool_client_new(pools_at(conn), conn_id(conn) + CONN_ID_SECOND, conn_tag(conn), s);
    return s ? s->client : NULL;
}

/* The client of a connection; NULL: it has none. */
static struct pool_client *client_or_null(struct conn *conn)
{
    const struct pool_session *s = pool_session_of(conn);
    return s ? s->client : NULL;
}

const char *pool_session_peer(const void *owner)
{
    return ((const struct pool_session *)owner)->peer;
}

/* What the connection may do. The session keeps it, if there is memory for one. */
static struct pool_rights rights_of(struct conn *conn)
{
    struct pool_session *s = pool_session_make(conn);
    struct pool_rights rights = {0};
    pools_get_rights(conn, s ? &s->rights : &rights);
    return s ? s->rights : rights;
}

/* Copies pairs of a request to the engine's form. */
static size_t convert(const struct pool_request *req, struct pool_attribute *to)
{
    for (size_t i = 0; i < req->pair_count; i++)
        to[i] = (struct pool_attribute){req->pairs[i].key, req->pairs[i].value};
    return req->pair_count;
}

/* ---- TAKE ------------------------------------------------------------------------------------ */

/* The wait has ended; the pools count how. */
static void forget_wait(struct conn *conn)
{
    wait_end(conn, wait_of(conn), WAITED_CANCELLED, 0);
}

void pool_verbs_wait_over(struct conn *conn, enum text_outcome outcome)
{
    forget_wait(conn);
    service_count(conn, VERB_TAKE, outcome);
}

/* A TAKE that has visited more members ends the turn of its connection. */
#define TURN_VISITS 250

/* Answers a TAKE, or begins its wait. */
static void answer_take(struct conn *conn, enum pool_status status, int64_t wait_ns)
{
    if (status == POOL_OK) {
        service_count(conn, VERB_TAKE, OUTCOME_TAKEN);
    } else if (status == POOL_WAITS) {
        wait_begin(conn, wait_of(conn), WAIT_ON_POOL, service_now(conn).mono_ns);
        conn_expire_in(conn, WAIT_DEADLINE, wait_ns);
    } else if (status != POOL_LOOKS) {
        answer(conn, VERB_TAKE, reply_of(status, POOL_REPLY_OK));
    }
}

static enum served take(struct conn *conn, struct pool_client *client,
                        const struct pool_request *req)
{
    struct pool_attribute with[POOL_WITH_MAX];
    struct pool_outbox outbox;
    struct pool_take take = {
        .targets = req->group.len > 0 ? &req->group : req->targets,
        .target_count = req->group.len > 0 ? 1 : req->target_count,
        .group = req->group.len > 0,
        .count = req->count,
        .what = (enum pool_for)req->take_for,
        .member = req->member,
        .with = with,
        .with_count = convert(req, with),
        .by = req->by,
        .timeout_ns = req->timeout_ns,
    };
    pool_outbox_init(&outbox);
    enum pool_status status = pool_take(client, &take, &pool_lines_reader, conn_output_end(conn),
                                        service_now(conn), &outbox);
    answer_take(conn, status, req->timeout_ns);
    bool costly = outbox.visits > TURN_VISITS;
    pool_verbs_deliver(conn, &outbox);
    if (status == POOL_LOOKS)
        pool_session_of(conn)->turn = TURN_LOOKS;
    else if (costly)
        pool_session_of(conn)->turn = TURN_OVER;
    return status == POOL_LOOKS || costly ? SERVED_PIECES : SERVED;
}

void pool_verbs_take_on(struct conn *conn)
{
    struct pool_session *s = pool_session_of(conn);
    struct pool_outbox outbox;
    int64_t wait_ns = pool_wait_left(s->client, service_now(conn));
    pool_outbox_init(&outbox);
    enum pool_status status = pool_take_on(s->client, &pool_lines_reader, conn_output_end(conn),
                                           service_now(conn), &outbox);
    answer_take(conn, status, wait_ns);
    if (status != POOL_LOOKS)
        s->turn = TURN_OVER; /* before its own message comes, of a member that this step found */
    pool_verbs_deliver(conn, &outbox);
    if (status == POOL_LOOKS)
        lock_give_way();
}

bool pool_verbs_resume(struct conn *conn)
{
    struct pool_session *s = pool_session_of(conn);
    if (s->listing)
        return pool_list_resume(conn);
    if (s->turn == TURN_LOOKS)
        pool_verbs_take_on(conn);
    if (s->turn == TURN_LOOKS)
        return false;
    s->turn = TURN_GOES_ON;
    pool_client_position(s->client, conn_output_end(conn)); /* TAKEN lines that came follow */
    return true;
}

static enum served do_take(struct conn *conn, const struct pool_request *req)
{
    struct pool_client *client = NULL;
    enum pool_reply error = POOL_REPLY_OUT_OF_MEMORY;
    if (service_is_draining(conn))
        error = POOL_REPLY_SHUTTING_DOWN;
    else if (wait_of(conn)->on != WAIT_ON_NOTHING)
        error = POOL_REPLY_WAIT_FOR_RESPONSE;
    else
        client = client_of(conn);
    if (client)
        return take(conn, client, req);
    answer(conn, VERB_TAKE, error);
    return SERVED;
}

/* Ends the wait for members, if there is one. Returns true if it was not over yet. If it was over,
 * its end has been told. */
static bool end_wait(struct conn *conn, bool timed_out)
{
    struct pool_outbox outbox;
    struct pool_client *client = client_or_null(conn);
    bool ended = false;
    /* A member that it was served may be taken away before it reads that: then it waits again. */
    while (!ended && client && pool_client_waits(client)) {
        pool_outbox_init(&outbox);
        ended = pool_end_wait(client, timed_out, service_now(conn), &outbox);
        pool_verbs_deliver(conn, &outbox);
        if (!ended)
            pool_lines_read(conn);
    }
    return ended;
}

void pool_verbs_expire(struct conn *conn)
{
    if (!end_wait(conn, true))
        return;
    struct bytes line = pool_reply_line(POOL_REPLY_TIMEOUT);
    pool_verbs_wait_over(conn, OUTCOME_TIMEOUT);
    CHECK(conn_interject(conn, line.data, line.len, SIZE_MAX));
}

/* ---- RETURN ---------------------------------------------------------------------------------- */

static void do_return(struct conn *conn, const struct pool_request *req)
{
    struct pool_client *client = client_or_null(conn);
    enum pool_status status = POOL_NOT_TAKEN;
    struct pool_outbox outbox;
    if (!req->has_fence && end_wait(conn, false)) {
        forget_wait(conn);
        status = POOL_OK;
    } else if (client && (!req->has_fence || req->fence > 0)) {
        pool_outbox_init(&outbox);
        status = pool_return(client, req->fence, !req->failed, service_now(conn), &outbox);
        pool_verbs_deliver(conn, &outbox);
    }
    answer(conn, VERB_RETURN, reply_of(status, POOL_REPLY_RETURNED));
}

/* ---- JOIN, SUPPLY, WATCH --------------------------------------------------------------------- */

/* These and what follows return the reply; POOL_REPLY_BAD_VALUE: it was answered. */

/* The client of a connection that may join and supply now; or the error. */
static enum pool_reply supplier_of(struct conn *conn, struct pool_client **client_r)
{
    if (service_is_draining(conn))
        return POOL_REPLY_SHUTTING_DOWN;
    if (!rights_of(conn).supplies)
        return POOL_REPLY_DENIED;
    *client_r = client_of(conn);
    return *client_r ? POOL_REPLY_OK : POOL_REPLY_OUT_OF_MEMORY;
}

static struct pool_new_member new_member(const struct pool_request *req,
                                         struct pool_attribute *attributes)
{
    return (struct pool_new_member){.pool = req->pool,
                                    .name = req->member,
                                    .value = req->value,
                                    .attributes = attributes,
                                    .attribute_count = convert(req, attributes)};
}

static enum pool_reply do_join(struct conn *conn, const struct pool_request *req,
                               struct pool_outbox *outbox)
{
    struct pool_client *client;
    enum pool_reply error = supplier_of(conn, &client);
    struct pool_attribute attributes[POOL_ATTRIBUTES_MAX];
    if (error != POOL_REPLY_OK)
        return error;
    struct pool_new_member member = new_member(req, attributes);
    return reply_of(pool_join(client, &member, service_now(conn), outbox), POOL_REPLY_JOINED);
}

static enum pool_reply do_supply(struct conn *conn, const struct pool_request *req,
                                 struct pool_outbox *outbox)
{
    struct pool_client *client;
    enum pool_reply error = supplier_of(conn, &client);
    if (error != POOL_REPLY_OK)
        return error;
    return reply_of(pool_supply(client, req->pool, req->init, req->max, service_now(conn), outbox),
                    POOL_REPLY_OK);
}

static enum pool_reply do_watch(struct conn *conn, const struct pool_request *req,
                                struct pool_outbox *outbox)
{
    struct pool_client *client = client_of(conn);
    (void)outbox;
    if (!client)
        return POOL_REPLY_OUT_OF_MEMORY;
    return reply_of(pool_watch(client, req->pool.len > 0 ? req->pool : bytes_of("*"), req->mine),
                    POOL_REPLY_OK);
}

/* ---- MEMBER ---------------------------------------------------------------------------------- */

static enum pool_reply do_member_add(struct conn *conn, const struct pool_request *req,
                                     struct pool_outbox *outbox)
{
    struct pool_attribute attributes[POOL_ATTRIBUTES_MAX];
    struct pool_new_member member = new_member(req, attributes);
    if (!rights_of(conn).operates)
        return POOL_REPLY_DENIED;
    return reply_of(pool_member_add(pools_at(conn), &member, service_now(conn), outbox),
                    POOL_REPLY_OK);
}

/* The state for a word that `state=` may have; MEMBER_GONE for any other. */
static enum pool_state state_of(struct bytes word)
{
    static const enum pool_state states[] = {MEMBER_FREE, MEMBER_DIRTY, MEMBER_DOWN};
    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        if (bytes_equal(word, bytes_of(pool_state_word(states[i]))))
            return states[i];
    }
    return MEMBER_GONE;
}

static enum pool_reply do_member_set(struct conn *conn, const struct pool_request *req,
                                     struct pool_outbox *outbox)
{
    struct pool_attribute attributes[POOL_ATTRIBUTES_MAX];
    struct pool_member_change change = {
        .pool = req->pool,
        .name = req->member,
        .attributes = attributes,
        .attribute_count = convert(req, attributes),
        .sets_value = req->has_value,
        .sets_note = req->has_note,
        .sets_state = req->has_state,
        .value = req->value,
        .note = req->note,
        .state = state_of(req->state),
        .now = req->now,
    };
    if (!rights_of(conn).operates)
        return POOL_REPLY_DENIED;
    enum pool_status status = pool_member_set(pools_at(conn), &change, service_now(conn), outbox);
    if (status == POOL_BAD_STATE)
        return answer_bad_value(conn, VERB_MEMBER, "state");
    return reply_of(status, POOL_REPLY_OK);
}

/* The client that joined a member may always drop it. Other suppliers are told what is there. */
static enum pool_reply do_member_drop(struct conn *conn, const struct pool_request *req,
                                      struct pool_outbox *outbox)
{
    struct pool_rights rights = rights_of(conn);
    enum pool_status status =
        pool_member_drop(pools_at(conn), client_or_null(conn), !rights.operates, req->pool,
                         req->member, req->now, service_now(conn), outbox);
    if (status != POOL_OK && !rights.operates && !rights.supplies)
        return POOL_REPLY_DENIED;
    return reply_of(status, POOL_REPLY_OK);
}

/* ---- POOL ------------------------------------------------------------------------------------ */

/* True if all options of the request have a name. */
static bool knows_options(const struct pool_request *req)
{
    for (size_t i = 0; i < req->pair_count; i++) {
        if (pool_option_named(req->pairs[i].key) == POOL_OPTION_COUNT)
            return false;
    }
    return true;
}

/* Sets the options of a request. Returns POOL_OK or POOL_NO_MEMORY; *wrong_r is the first with a
 * wrong value, or POOL_OPTION_COUNT. */
static enum pool_status set_options(const struct pool_request *req, struct pool_options *options,
                                    bool is_there, enum pool_option *wrong_r)
{
    pool_option_set given = 0;
    *wrong_r = POOL_OPTION_COUNT;
    for (size_t i = 0; i < req->pair_count; i++) {
        const struct pool_pair *pair = &req->pairs[i];
        enum pool_option_answer is = pool_options_set(options, &given, pair->key, pair->value);
        if (is == POOL_OPTION_NO_MEMORY)
            return POOL_NO_MEMORY;
        if (is != POOL_OPTION_GOOD) {
            *wrong_r = pool_option_named(pair->key);
            return POOL_OK;
        }
    }
    if (pool_options_fit(options, given, is_there, wrong_r))
        *wrong_r = POOL_OPTION_COUNT;
    return POOL_OK;
}

/* POOL ADD and SET, of a pool whose options are `options` so far. */
static enum pool_reply put_options(struct conn *conn, const struct pool_request *req,
                                   struct pool_options *options, struct pool_outbox *outbox)
{
    bool adds = req->verb == POOL_VERB_POOL_ADD;
    struct pools *pools = pools_at(conn);
    enum pool_option wrong;
    enum pool_status status = set_options(req, options, !adds, &wrong);
    if (wrong != POOL_OPTION_COUNT)
        return answer_bad_value(conn, VERB_POOL, pool_option_name(wrong));
    if (status == POOL_OK)
        status = adds ? pool_add(pools, req->pool, options, false, service_now(conn), outbox)
                      : pool_set(pools, req->pool, options, false, service_now(conn), outbox);
    return reply_of(status, POOL_REPLY_OK);
}

static enum pool_reply change_options(struct conn *conn, const struct pool_request *req,
                                      struct pool_outbox *outbox)
{
    bool adds = req->verb == POOL_VERB_POOL_ADD, of_file;
    char group[POOL_NAME_MAX + 1];
    struct pool_options is, options;
    enum pool_status status = pool_get_options(pools_at(conn), req->pool, &is, group, &of_file);
    if (adds)
        status = status == POOL_OK ? POOL_EXISTS : POOL_OK;
    if (adds)
        pool_options_init(&options);
    else if (status == POOL_OK) {
        is.group = group[0] ? group : NULL;
        status = pool_options_copy(&options, &is) ? POOL_OK : POOL_NO_MEMORY;
    }
    if (status != POOL_OK)
        return reply_of(status, POOL_REPLY_OK);
    enum pool_reply reply = put_options(conn, req, &options, outbox);
    pool_options_free(&options);
    return reply;
}

static enum pool_reply do_pool(struct conn *conn, const struct pool_request *req,
                               struct pool_outbox *outbox)
{
    if (!knows_options(req))
        return POOL_REPLY_BAD_SYNTAX;
    if (!rights_of(conn).operates)
        return POOL_REPLY_DENIED;
    if (req->verb != POOL_VERB_POOL_DROP)
        return change_options(conn, req, outbox);
    return reply_of(pool_drop(pools_at(conn), req->pool, req->now, service_now(conn), outbox),
                    POOL_REPLY_OK);
}

static enum served do_list(struct conn *conn, const struct pool_request *req)
{
    enum pool_reply reply = pool_list_begin(conn, req->verb == POOL_VERB_POOL_SHOW, req->pool);
    if (reply != POOL_REPLY_OK) {
        answer(conn, VERB_POOL, reply);
        return SERVED;
    }
    service_count(conn, VERB_POOL, OUTCOME_OK);
    return SERVED_PIECES;
}

/* ---- QUIT ------------------------------------------------------------------------------------ */

static bool is_written(void *owner, uint64_t position)
{
    (void)owner;
    (void)position;
    return true;
}

/* Ends the connection's client; `written` as in pool_client_end. */
static void end_client(struct conn *conn, enum pool_end how,
                       bool (*written)(void *owner, uint64_t position));

static enum served do_quit(struct conn *conn)
{
    if (wait_is_for_units(wait_of(conn)))
        (void)arbiter_cancel(conn, false);
    end_client(conn, POOL_END_QUIT, is_written);
    text_release_locks(conn);
    answer(conn, VERB_QUIT, POOL_REPLY_BYE);
    conn_finish(conn, CLOSE_PEER);
    return SERVED_LAST;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The verb that a line with wrong words is counted as. */
static enum text_verb verb_of(const struct conn *conn, struct bytes line)
{
    enum text_verb verb = VERB_TAKE;
    while (!bytes_begin_with(line, bytes_of(service_of(conn)->row->verbs[verb])))
        CHECK(verb++ < VERB_QUIT);
    return verb;
}

/* Makes a change and answers, then sends what that has caused for others. */
static void change(struct conn *conn, const struct pool_request *req)
{
    static const struct change {
        enum text_verb verb;
        enum pool_reply (*make)(struct conn *conn, const struct pool_request *req,
                                struct pool_outbox *outbox);
    } changes[POOL_VERB_COUNT] = {
        [POOL_VERB_JOIN] = {VERB_JOIN, do_join},
        [POOL_VERB_SUPPLY] = {VERB_SUPPLY, do_supply},
        [POOL_VERB_MEMBER_ADD] = {VERB_MEMBER, do_member_add},
        [POOL_VERB_MEMBER_SET] = {VERB_MEMBER, do_member_set},
        [POOL_VERB_MEMBER_DROP] = {VERB_MEMBER, do_member_drop},
        [POOL_VERB_POOL_ADD] = {VERB_POOL, do_pool},
        [POOL_VERB_POOL_SET] = {VERB_POOL, do_pool},
        [POOL_VERB_POOL_DROP] = {VERB_POOL, do_pool},
        [POOL_VERB_WATCH] = {VERB_WATCH, do_watch},
    };
    const struct change *is = &changes[req->verb];
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    CHECK(is->make);
    enum pool_reply reply = is->make(conn, req, &outbox);
    if (reply != POOL_REPLY_BAD_VALUE)
        answer(conn, is->verb, reply);
    pool_verbs_deliver(conn, &outbox);
}

static enum served serve(struct conn *conn, const struct pool_request *req)
{
    switch (req->verb) {
    case POOL_VERB_TAKE:
        return do_take(conn, req);
    case POOL_VERB_RETURN:
        do_return(conn, req);
        return SERVED;
    case POOL_VERB_POOL_SHOW:
    case POOL_VERB_POOL_LIST:
        return do_list(conn, req);
    case POOL_VERB_QUIT:
        return do_quit(conn);
    default:
        change(conn, req);
        return SERVED;
    }
}

enum served pool_verbs_serve(struct conn *conn, struct bytes line)
{
    struct pool_request req;
    if (pool_parse_request(line, &req) == POOL_PARSED)
        return serve(conn, &req);
    answer(conn, verb_of(conn, line), POOL_REPLY_BAD_SYNTAX);
    return SERVED;
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool was_written(void *owner, uint64_t position)
{
    const struct pool_session *s = owner;
    return position != POOL_POSITION_LATER && conn_was_written(s->conn, position);
}

static void end_client(struct conn *conn, enum pool_end how,
                       bool (*written)(void *owner, uint64_t position))
{
    struct pool_session *s = pool_session_of(conn);
    struct pool_outbox outbox;
    if (!s)
        return;
    if (s->client) {
        pool_outbox_init(&outbox);
        pool_client_end(s->client, how, written, service_now(conn), &outbox);
        s->client = NULL;
        pool_verbs_deliver(conn, &outbox);
    }
    text_session(conn)->pool = NULL;
    free(s->listing);
    free(s->events);
    free(s);
}

void pool_verbs_close(struct conn *conn)
{
    end_client(conn, POOL_END_CRASH, was_written);
}

void pool_verbs_finish(struct conn *conn)
{
    end_client(conn, POOL_END_CRASH, is_written);
}

void pool_verbs_describe(struct conn *conn, struct conn_info *info)
{
    struct pool_client *client = client_or_null(conn);
    if (!client)
        return;
    info->holds += pool_client_holds(client);
    info->waits += pool_client_waits(client);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static int64_t save_position(void *owner, uint64_t position)
{
    const struct pool_session *s = owner;
    return position == POOL_POSITION_LATER ? INT64_MAX : conn_position_save(s->conn, position);
}

static uint64_t restore_position(void *owner, int64_t saved)
{
    const struct pool_session *s = owner;
    return saved == INT64_MAX ? POOL_POSITION_LATER : conn_position_restore(s->conn, saved);
}

void pool_verbs_save(struct conn *conn, struct record_writer *w)
{
    const struct pool_session *s = pool_session_of(conn);
    if (!s)
        return;
    record_put_u8(w, s->client != NULL);
    if (s->client)
        pool_client_save(s->client, w, save_position);
    pool_lines_save(s, w);
    pool_list_save(s, w);
}

bool pool_verbs_restore(struct conn *conn, struct record_reader *r)
{
    if (!record_left(r)) {
        if (conn_in_pieces(conn))
            record_refuse(r, "an answer in pieces is missing");
        return record_ok(r);
    }
    struct pool_session *s = pool_session_make(conn);
    if (!s) {
        record_refuse(r, "there is no memory for a session of pools");
        return false;
    }
    if (record_get_bool(r)) {
        if (conn_extend(conn))
            s->client = pool_client_restore(pools_at(conn), conn_id(conn) + CONN_ID_SECOND,
                                            conn_tag(conn), s, r, restore_position);
        if (!s->client) {
            record_refuse(r, "there is no memory for a client of the pools");
            return false;
        }
    }
    bool good = pool_lines_restore(s, r) && pool_list_restore(s, r);
    struct wait *wait = wait_of(conn);
    if (!s->client || !pool_client_waits(s->client))
        return good;
    if (wait->on != WAIT_ON_NOTHING)
        record_refuse(r, "a connection waits twice");
    wait_begin(conn, wait, WAIT_ON_POOL, 0);
    return good && record_ok(r);
}
