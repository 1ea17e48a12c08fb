/*
 * shared_text.c - the text protocol's service when names are shared with other nodes. Everything
 * that is not about a shared name goes to poolcounter.c.
 *
 * A lock on a shared name is one unit that the engine has granted; the table then has it like any
 * other. ACQ4* with a timeout is a pending answer first, so that later requests wait for it. When
 * the node says that it is a wait (`queued`), the pending answer ends without a byte, and the
 * session waits as it would for the table. The deadline runs from the request on.
 */
#include "base/record.h"
#include "service/poolcounter_inside.h"
#include "service/shared.h"

#include <stdlib.h>

static struct shared_link *link_of(struct conn *conn)
{
    size_t end = service_of(conn)->protocol.session_size;
    return (void *)((char *)conn_session(conn) + end - sizeof(struct shared_link));
}

static enum wait_kind kind_of(const struct shared_ask *ask)
{
    return ask->ask.wait == NODE_WAIT_ANY ? WAIT_ANY : WAIT_ME;
}

/* ---- waits and answers -------------------------------------------------------------------------
 */

static enum pc_counted_verb verb_of(const struct pc_request *req)
{
    return req->verb == PC_ACQ4ANY ? VERB_ACQ4ANY : VERB_ACQ4ME;
}

/* An acquisition that has no timeout was ACQ4ME or ACQ4ANY, too: the session knows. */
static enum pc_counted_verb verb_of_link(const struct shared_way *was)
{
    return was->opaque[0] == PC_ACQ4ANY ? VERB_ACQ4ANY : VERB_ACQ4ME;
}

/* The request of `was` is over: ends its wait, if it was one, and its deadline. */
static void over(struct conn *conn, const struct shared_way *was, enum waited how)
{
    if (was->pending)
        conn_clear_deadline(conn, PC_WAIT_DEADLINE);
    else
        poolcounter_wait_over(conn, was->opaque[0] == PC_ACQ4ANY ? WAIT_ANY : WAIT_ME, how,
                              service_now(conn).mono_ns - was->since_ns);
}

/* The same, with an answer. */
static void finish(struct conn *conn, const struct shared_way *was, enum waited how,
                   enum pc_reply word)
{
    over(conn, was, how);
    poolcounter_reply_later(conn, verb_of_link(was), word);
}

static void locked(struct conn *conn, const struct shared_way *was, struct holding *held)
{
    over(conn, was, WAITED_GRANTED);
    poolcounter_add_lock(conn, held, service_now(conn).mono_ns);
    poolcounter_reply_later(conn, verb_of_link(was), PC_REPLY_LOCKED);
}

/* No unit was free. */
static void busy(struct conn *conn, const struct shared_way *was)
{
    if (was->pending) /* it has not waited */
        tally_add(&service_counts(conn)->busy, 1);
    finish(conn, was, WAITED_TIMED_OUT, PC_REPLY_TIMEOUT);
}

static struct acquire acquire_of(const struct shared_ask *ask)
{
    return (struct acquire){
        .name = ask->ask.name,
        .units = 1,
        .limit = ask->ask.limit,
        .queue_max = ask->ask.queue_max,
        .wait = ask->ask.wait == NODE_WAIT_NO ? WAIT_NO : kind_of(ask),
    };
}

/* The engine has granted the unit. */
static void take_grant(struct conn *conn, struct shared_ask *ask, const struct shared_way *was)
{
    struct pc_session *s = conn_session(conn);
    struct acquire a = acquire_of(ask);
    struct holding *held = NULL;
    if (table_grant(service_table(conn), &s->holder, &a, service_now(conn), &held) != TABLE_OK) {
        finish(conn, was, WAITED_CANCELLED, PC_REPLY_OUT_OF_MEMORY);
        shared_give_back(conn, ask);
        return;
    }
    if (was->strict || shared_class(conn, ask->ask.name) == PATTERNS_STRICT)
        shared_mark_strict(conn);
    locked(conn, was, held);
    free(ask);
}

/* The table alone decides now. */
static void ask_table(struct conn *conn, struct shared_ask *ask, const struct shared_way *was)
{
    struct pc_session *s = conn_session(conn);
    struct acquire a = acquire_of(ask);
    struct holding *held = NULL;
    if (!was->pending)
        a.queue_max = 0; /* it was in the queue before */
    switch (
        table_acquire(service_table(conn), &s->holder, &a, service_now(conn), &held, &s->waiter)) {
    case TABLE_OK:
        locked(conn, was, held);
        break;
    case TABLE_WAITING:
        if (was->pending)
            poolcounter_wait_begins(conn);
        link_of(conn)->id = ask->ask.id;
        link_of(conn)->seq = ask->ask.seq;
        break;
    case TABLE_FULL:
        finish(conn, was, WAITED_CANCELLED, PC_REPLY_QUEUE_FULL);
        break;
    case TABLE_BUSY:
        busy(conn, was);
        break;
    default:
        s->waiter = NULL;
        finish(conn, was, WAITED_CANCELLED, PC_REPLY_OUT_OF_MEMORY);
    }
    free(ask);
}

static void refused(struct conn *conn, struct shared_ask *ask, const struct shared_way *was)
{
    switch (ask->ask.result) {
    case NODE_DONE:
        finish(conn, was, WAITED_DONE, PC_REPLY_DONE);
        break;
    case NODE_QUEUE_FULL:
        finish(conn, was, WAITED_CANCELLED, PC_REPLY_QUEUE_FULL);
        break;
    case NODE_ENGINE_AWAY:
        finish(conn, was, WAITED_CANCELLED,
               service_is_draining(conn) ? PC_REPLY_SHUTTING_DOWN : PC_REPLY_ENGINE_AWAY);
        break;
    case NODE_ENGINE_FULL:
        finish(conn, was, WAITED_CANCELLED, PC_REPLY_ENGINE_FULL);
        break;
    case NODE_NO_MEMORY:
        finish(conn, was, WAITED_CANCELLED, PC_REPLY_OUT_OF_MEMORY);
        break;
    default: /* BUSY */
        busy(conn, was);
    }
    free(ask);
}

static void answered(struct conn *conn, struct shared_ask *ask, const struct shared_way *was)
{
    shared_answer_begin(conn, was);
    if (ask->ask.op == NODE_RELEASE) {
        poolcounter_reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
        free(ask);
    } else if (ask->ask.result == NODE_GRANTED) {
        take_grant(conn, ask, was);
    } else if (ask->ask.result == NODE_ALONE) {
        ask_table(conn, ask, was);
    } else {
        refused(conn, ask, was);
    }
    shared_answer_end(conn, was);
}

static void queued(struct conn *conn)
{
    poolcounter_wait_begins(conn);
}

static void wait_to_ask(struct conn *conn)
{
    const struct pc_session *s = conn_session(conn);
    struct shared_link *link = link_of(conn);
    if (!s->waiter || !shared_asks(conn, holding_name(service_table(conn), s->waiter->holding)))
        return;
    const struct acquire a = {
        .name = holding_name(service_table(conn), s->waiter->holding),
        .units = 1,
        .limit = s->waiter->limit,
        .wait = s->waiter->kind,
    };
    int64_t since_ns = s->waiter->since_ns;
    enum wait_kind kind = s->waiter->kind;
    struct shared_ask *ask = shared_ask_acquire(conn, &a);
    if (!ask) {
        if (poolcounter_end_wait(conn, WAITER_CANCELLED))
            poolcounter_reply_later(conn, kind == WAIT_ANY ? VERB_ACQ4ANY : VERB_ACQ4ME,
                                    PC_REPLY_OUT_OF_MEMORY);
        return;
    }
    if (!poolcounter_leave_table(conn)) {
        free(ask);
        return;
    }
    if (link->id) {
        ask->ask.id = link->id;
        ask->ask.seq = link->seq;
    }
    shared_wait(conn, ask, since_ns);
    link->wait.opaque[0] = kind == WAIT_ANY ? PC_ACQ4ANY : PC_ACQ4ME;
}

const struct shared_host shared_text_host = {
    .link = link_of, .queued = queued, .answered = answered, .wait_to_ask = wait_to_ask};

/* The deadline is that of the wait, or of a request that is not one yet. */
void shared_text_expire(struct conn *conn, unsigned which)
{
    struct shared_link *link = link_of(conn);
    struct shared_way *way = link->wait.ask ? &link->wait : &link->request;
    if (!way->ask || way->ask->ask.op != NODE_ACQUIRE) {
        poolcounter_row.protocol.expire(conn, which);
        return;
    }
    bool away = way->strict && !way->has_place && !shared_is_live(conn);
    struct shared_way was = shared_forget(way);
    if (was.pending && !away) /* no wait for the engine, but its client has waited */
        histogram_add(&service_counts(conn)->waits[WAITED_TIMED_OUT],
                      service_now(conn).mono_ns - was.since_ns, 1);
    shared_answer_begin(conn, &was);
    finish(conn, &was, WAITED_TIMED_OUT, away ? PC_REPLY_ENGINE_AWAY : PC_REPLY_TIMEOUT);
    shared_answer_end(conn, &was);
}

/* ---- requests ----------------------------------------------------------------------------------
 */

static enum served acquire(struct conn *conn, const struct pc_request *req)
{
    enum pc_reply refusal = poolcounter_refuses(conn);
    const struct acquire a = {
        .name = req->key,
        .units = 1,
        .limit = req->workers,
        .queue_max = req->maxqueue,
        .wait = req->timeout_ns <= 0      ? WAIT_NO
                : req->verb == PC_ACQ4ANY ? WAIT_ANY
                                          : WAIT_ME,
    };
    struct shared_ask *ask = NULL;
    if (refusal == PC_REPLY_OTHER) {
        ask = shared_ask_acquire(conn, &a);
        refusal = PC_REPLY_OUT_OF_MEMORY;
    }
    if (!ask) {
        poolcounter_reply(conn, verb_of(req), refusal);
        return SERVED;
    }
    if (req->timeout_ns > 0)
        conn_expire_in(conn, PC_WAIT_DEADLINE, req->timeout_ns);
    enum served served = shared_pend(conn, ask);
    link_of(conn)->request.opaque[0] = (uint8_t)req->verb;
    return served;
}

/* Gives back lock number `i`, whose name is shared. */
static enum served release_lock(struct conn *conn, uint32_t i)
{
    const struct pc_session *s = conn_session(conn);
    struct bytes name = holding_name(service_table(conn), s->locks[i].held);
    struct shared_ask *ask = shared_ask_new(conn, NODE_RELEASE, name);
    if (!ask) {
        poolcounter_reply(conn, VERB_RELEASE, PC_REPLY_OUT_OF_MEMORY);
        return SERVED;
    }
    ask->ask.units = 1;
    poolcounter_give_back(conn, i);
    return shared_pend(conn, ask);
}

/* Gives back lock number `i`. */
static enum served release_any(struct conn *conn, uint32_t i)
{
    const struct pc_session *s = conn_session(conn);
    if (shared_asks(conn, holding_name(service_table(conn), s->locks[i].held)))
        return release_lock(conn, i);
    poolcounter_give_back(conn, i);
    poolcounter_reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
    return SERVED;
}

/* Ends the wait that is an ask. */
static void end_ask(struct conn *conn)
{
    struct shared_way was = shared_forget(&link_of(conn)->wait);
    over(conn, &was, WAITED_CANCELLED);
}

static enum served release_newest(struct conn *conn)
{
    const struct pc_session *s = conn_session(conn);
    enum pc_reply word = PC_REPLY_RELEASED;
    if (link_of(conn)->wait.ask)
        end_ask(conn);
    else if (s->waiter && poolcounter_end_wait(conn, WAITER_CANCELLED))
        ; /* it waits no more */
    else if (s->lock_count > 0)
        return release_any(conn, s->lock_count - 1);
    else
        word = PC_REPLY_NOT_LOCKED;
    poolcounter_reply(conn, VERB_RELEASE, word);
    return SERVED;
}

static enum served release_key(struct conn *conn, struct bytes key)
{
    const struct pc_session *s = conn_session(conn);
    const struct shared_link *link = link_of(conn);
    for (uint32_t i = s->lock_count; i > 0; i--) {
        if (poolcounter_is_key(conn, s->locks[i - 1].held, key))
            return release_any(conn, i - 1);
    }
    if (link->wait.ask && bytes_equal(link->wait.ask->ask.name, key)) {
        end_ask(conn);
    } else if (s->waiter && poolcounter_is_key(conn, s->waiter->holding, key)) {
        if (!poolcounter_end_wait(conn, WAITER_CANCELLED))
            return release_key(conn, key); /* the verdict came first; no wait is left */
    } else {
        poolcounter_reply(conn, VERB_RELEASE, PC_REPLY_NOT_LOCKED);
        return SERVED;
    }
    poolcounter_reply(conn, VERB_RELEASE, PC_REPLY_RELEASED);
    return SERVED;
}

enum served shared_text_serve(struct conn *conn, const void *request)
{
    const struct pc_parsed_request *r = request;
    const struct pc_request *req = &r->req;
    const struct pc_session *s = conn_session(conn);
    struct shared_link *link = link_of(conn);
    shared_before_request(conn);
    if (r->parsed == PC_OK && req->verb <= PC_ACQ4ME && shared_asks(conn, req->key))
        return acquire(conn, req);
    if (r->parsed == PC_OK && req->verb == PC_RELEASE)
        return req->key.len > 0 ? release_key(conn, req->key) : release_newest(conn);
    if (!s->waiter) /* the place of an earlier wait is not that of the next */
        link->id = link->seq = 0;
    return poolcounter_row.protocol.serve(conn, request);
}

void shared_text_abandon_wait(struct conn *conn)
{
    if (link_of(conn)->wait.ask)
        end_ask(conn);
}

void shared_text_release_locks(struct conn *conn)
{
    const struct pc_session *s = conn_session(conn);
    while (s->lock_count > 0) {
        struct bytes name = holding_name(service_table(conn), s->locks[s->lock_count - 1].held);
        struct shared_ask *ask = NULL;
        if (shared_asks(conn, name)) {
            ask = shared_ask_new(conn, NODE_RELEASE, name);
            if (!ask)
                shared_lost(conn);
            else
                ask->ask.units = 1;
        }
        poolcounter_give_back(conn, s->lock_count - 1);
        if (ask)
            shared_send(conn, ask);
    }
}

/* ---- life --------------------------------------------------------------------------------------
 */

void shared_text_close(struct conn *conn)
{
    const struct pc_session *s = conn_session(conn);
    if (link_of(conn)->wait.ask)
        end_ask(conn);
    shared_close(conn, &s->holder);
    poolcounter_row.protocol.close(conn);
}

void shared_text_describe(struct conn *conn, struct conn_info *info)
{
    const struct shared_link *link = link_of(conn);
    poolcounter_row.protocol.describe(conn, info);
    if (link->wait.ask || (link->request.ask && link->request.ask->ask.op == NODE_ACQUIRE))
        info->waits++;
}

/* The record is what shared_save writes, and then that of poolcounter.c. */
void shared_text_save(struct conn *conn, struct record_writer *w)
{
    shared_save(conn, w);
    poolcounter_row.protocol.save(conn, w);
}

bool shared_text_restore(struct conn *conn, struct record_reader *r)
{
    struct pc_session *s = conn_session(conn);
    const struct shared_link *link = link_of(conn);
    if (!shared_restore(conn, r))
        return false;
    const struct shared_ask *request = link->request.ask;
    bool expires = link->wait.ask || (request && request->ask.wait != NODE_WAIT_NO);
    if (!poolcounter_restore(conn, r, expires))
        return false;
    if ((request && request->ask.op != NODE_ACQUIRE) || (expires && s->pools.waits) ||
        (link->wait.ask && request))
        record_refuse(r, "a connection of the text protocol waits twice");
    if ((link->wait.ask || request) && s->lock_count >= poolcounter_room(service_of(conn)))
        record_refuse(r, "a poolcounter connection has too many locks");
    if (link->wait.ask)
        poolcounter_wait_begins(conn);
    return record_ok(r);
}

void shared_text_fit(struct service *service)
{
    poolcounter_row.fit(service);
    service->protocol.session_size += sizeof(struct shared_link);
}
