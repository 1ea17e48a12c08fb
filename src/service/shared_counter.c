/*
 * shared_counter.c - the binary protocol's service when names are shared with other nodes.
 * Everything that is not about a shared name goes to counter.c.
 *
 * Acquire, Release and Get of a shared name are pending until the node has answered. What the
 * engine has granted is then in the table; what is released leaves the table before the node is
 * asked.
 */
#include "service/counter_inside.h"
#include "service/shared.h"

#include "base/record.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct shared_link *link_of(struct conn *conn)
{
    return (void *)((char *)conn_session(conn) + sizeof(struct ctr_session));
}

/* The request that an answer needs. */
static struct ctr_request request_of(const struct shared_ask *ask, const struct shared_way *was)
{
    static const uint8_t opcodes[] = {
        [NODE_ACQUIRE] = CTR_ACQUIRE, [NODE_RELEASE] = CTR_RELEASE, [NODE_GET] = CTR_GET};
    struct ctr_request req = {.opcode = opcodes[ask->ask.op], .name = ask->ask.name};
    memcpy(req.opaque, was->opaque, sizeof(req.opaque));
    return req;
}

/* ---- answers -----------------------------------------------------------------------------------
 */

static struct acquire acquire_of(const struct shared_ask *ask)
{
    return (struct acquire){.name = ask->ask.name,
                            .units = ask->ask.units,
                            .limit = ask->ask.limit,
                            .wait = WAIT_NO,
                            .keep = true};
}

static void acquired(struct conn *conn, struct shared_ask *ask, const struct shared_way *was)
{
    struct ctr_session *s = conn_session(conn);
    struct ctr_request req = request_of(ask, was);
    struct acquire a = acquire_of(ask);
    bool granted = ask->ask.result == NODE_GRANTED;
    enum table_status status = TABLE_BUSY;
    if (granted)
        status = table_grant(service_table(conn), &s->holder, &a, service_now(conn), NULL);
    else if (ask->ask.result == NODE_ALONE)
        status = table_acquire(service_table(conn), &s->holder, &a, service_now(conn), NULL, NULL);
    else if (ask->ask.result == NODE_ENGINE_FULL || ask->ask.result == NODE_NO_MEMORY)
        status = TABLE_NO_MEMORY;
    if (status == TABLE_OK) {
        if (granted && (was->strict || shared_class(conn, ask->ask.name) == PATTERNS_STRICT))
            shared_mark_strict(conn);
        counter_reply_number(conn, &req, ask->ask.units);
    } else {
        counter_reply_status(conn, &req,
                             status == TABLE_NO_MEMORY || granted ? CTR_STATUS_OUT_OF_MEMORY
                                                                  : CTR_STATUS_NOT_AVAILABLE);
    }
    if (granted && status != TABLE_OK)
        shared_give_back(conn, ask);
    else
        free(ask);
}

static void counted(struct conn *conn, struct shared_ask *ask, const struct shared_way *was)
{
    struct ctr_request req = request_of(ask, was);
    uint32_t units = 0;
    enum table_status here =
        table_get(service_table(conn), ask->ask.name, service_now(conn), &units);
    if (ask->ask.result == NODE_COUNTED) {
        uint64_t all = ask->ask.count_units;
        units = all > UINT32_MAX ? UINT32_MAX : (uint32_t)all;
        here = all > 0 ? TABLE_OK : here;
    }
    if (here == TABLE_OK)
        counter_reply_number(conn, &req, units);
    else
        counter_reply_status(conn, &req, CTR_STATUS_NOT_FOUND);
    free(ask);
}

static void answered(struct conn *conn, struct shared_ask *ask, const struct shared_way *was)
{
    struct ctr_request req = request_of(ask, was);
    shared_answer_begin(conn, was);
    switch (ask->ask.op) {
    case NODE_ACQUIRE:
        acquired(conn, ask, was);
        break;
    case NODE_GET:
        counted(conn, ask, was);
        break;
    default:
        counter_reply_status(conn, &req, CTR_STATUS_SUCCESS);
        free(ask);
    }
    shared_answer_end(conn, was);
}

static void queued(struct conn *conn)
{
    (void)conn;
    CHECK(false); /* this protocol has no waits */
}

const struct shared_host shared_counter_host = {
    .link = link_of, .queued = queued, .answered = answered};

/* ---- requests ----------------------------------------------------------------------------------
 */

static enum served send_ask(struct conn *conn, const struct ctr_request *req,
                            struct shared_ask *ask)
{
    if (!ask) {
        counter_reply_status(conn, req, CTR_STATUS_OUT_OF_MEMORY);
        return SERVED;
    }
    enum served served = shared_pend(conn, ask);
    memcpy(link_of(conn)->request.opaque, req->opaque, sizeof(req->opaque));
    return served;
}

static enum served acquire(struct conn *conn, const struct ctr_request *req)
{
    const struct acquire a = {
        .name = req->name, .units = req->units, .limit = req->maximum, .wait = WAIT_NO};
    return send_ask(conn, req, shared_ask_acquire(conn, &a));
}

/* The units leave the table first. Without memory for the ask nothing changes. */
static enum served release(struct conn *conn, const struct ctr_request *req, uint64_t hash)
{
    struct ctr_session *s = conn_session(conn);
    struct release r = {.name = req->name, .hash = hash, .units = req->units};
    struct shared_ask *ask = shared_ask_new(conn, NODE_RELEASE, req->name);
    verdicts out;
    if (!ask)
        return send_ask(conn, req, NULL);
    ask->ask.units = req->units;
    mail_list_init(&out);
    enum table_status status = table_release(service_table(conn), &s->holder, &r, service_now(conn),
                                             &service_counts(conn)->holds, &out);
    if (out.first)
        service_deliver(conn_worker(conn), &out);
    if (status == TABLE_OK && req->units > 0)
        return send_ask(conn, req, ask);
    counter_reply_status(conn, req,
                         status == TABLE_OK          ? CTR_STATUS_SUCCESS
                         : status == TABLE_NOT_FOUND ? CTR_STATUS_NOT_FOUND
                                                     : CTR_STATUS_NOT_ACQUIRED);
    free(ask);
    return SERVED;
}

enum served shared_counter_serve(struct conn *conn, const void *request)
{
    const struct ctr_parsed_request *r = request;
    const struct ctr_request *req = &r->req;
    shared_before_request(conn);
    bool named = r->parsed == CTR_OK && (req->opcode == CTR_ACQUIRE || req->opcode == CTR_RELEASE ||
                                         req->opcode == CTR_GET);
    if (!named || !shared_asks(conn, req->name))
        return counter_row.protocol.serve(conn, request);
    if (req->opcode == CTR_RELEASE)
        return release(conn, req, r->hash);
    if (req->opcode == CTR_GET)
        return send_ask(conn, req, shared_ask_new(conn, NODE_GET, req->name));
    if (service_is_draining(conn))
        return counter_row.protocol.serve(conn, request);
    return acquire(conn, req);
}

/* ---- life --------------------------------------------------------------------------------------
 */

void shared_counter_close(struct conn *conn)
{
    const struct ctr_session *s = conn_session(conn);
    shared_close(conn, &s->holder);
    counter_row.protocol.close(conn);
    while (!counter_row.protocol.give_back(conn, UINT_MAX)) /* at once, as the node was told */
        continue;
}

/* The record is what shared_save writes, and then that of counter.c. */
void shared_counter_save(struct conn *conn, struct record_writer *w)
{
    shared_save(conn, w);
    counter_row.protocol.save(conn, w);
}

bool shared_counter_restore(struct conn *conn, struct record_reader *r)
{
    const struct shared_link *link = link_of(conn);
    if (!shared_restore(conn, r))
        return false;
    if (link->wait.ask)
        record_refuse(r, "a counter connection waits; this protocol has no waits");
    return record_ok(r) && counter_row.protocol.restore(conn, r);
}

void shared_counter_fit(struct service *service)
{
    counter_row.fit(service);
    service->protocol.session_size += sizeof(struct shared_link);
}
