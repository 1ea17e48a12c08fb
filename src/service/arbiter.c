/*
 * arbiter.c - see arbiter.h; cluster.h says why the ledger stays whole.
 *
 * What the node is asked ends in exactly one way. Its answer comes to the connection that has it as
 * its request or its wait; or the connection has forgotten it, and what it brings goes back to the
 * engine.
 */
#include "service/arbiter.h"

#include "base/record.h"
#include "service/cluster.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((unsigned)NODE_WAIT_NO == (unsigned)WAIT_NO &&
                   (unsigned)NODE_WAIT_ANY == (unsigned)WAIT_ANY &&
                   (unsigned)NODE_WAIT_ME == (unsigned)WAIT_ME,
               "the node and the table have the same kinds of waits");

/* The wait of a connection; NULL: its protocol has none. */
static struct wait *wait_or_null(struct conn *conn)
{
    return service_of(conn)->row->wait_at ? wait_of(conn) : NULL;
}

static int64_t now_ns(const struct conn *conn)
{
    return service_now(conn).mono_ns;
}

/* ---- names ----------------------------------------------------------------------------------- */

static enum patterns_class class_of(const struct conn *conn, struct bytes name)
{
    return patterns_class(cluster_copy_of(conn)->patterns, name);
}

/* True if the node decides about this name now, whose class is *class_r. */
static bool requests(struct conn *conn, struct bytes name, enum patterns_class *class_r)
{
    *class_r = class_of(conn, name);
    if (*class_r != PATTERNS_OWN)
        arbiter_link_of(conn)->may_have_shared = true;
    return *class_r == PATTERNS_STRICT ||
           (*class_r == PATTERNS_LOOSE && cluster_copy_of(conn)->mode == NODE_ASK_ENGINE);
}

/* ---- what the node is asked ------------------------------------------------------------------ */

/* Makes one for `name`, which it copies; zero otherwise. NULL: no memory. */
static struct arbiter_request *request_new(const struct conn *conn, enum node_op op,
                                           struct bytes name)
{
    struct arbiter_request *request = malloc(sizeof(*request) + name.len);
    if (!request)
        return NULL;
    *request = (struct arbiter_request){.cluster = cluster_copy_of(conn)->cluster};
    request->message.to = request->queued.to = conn_tag(conn);
    if (name.len > 0)
        memcpy(request->name, name.data, name.len);
    request->request.op = op;
    request->request.name = bytes_at(request->name, name.len);
    return request;
}

/* The same for an acquisition, with an id. */
static struct arbiter_request *ask_acquire(const struct conn *conn, const struct acquire *a)
{
    struct arbiter_request *request = request_new(conn, NODE_ACQUIRE, a->name);
    if (!request)
        return NULL;
    request->keep = a->keep;
    request->request.wait = (enum node_wait)a->wait;
    request->request.units = a->units;
    request->request.limit = a->limit;
    request->request.queue_max = a->queue_max;
    request->request.id =
        atomic_fetch_add_explicit(&request->cluster->next_id, 1, memory_order_relaxed);
    return request;
}

static struct acquire acquire_of(const struct arbiter_request *request)
{
    return (struct acquire){.name = request->request.name,
                            .units = request->request.units,
                            .limit = request->request.limit,
                            .queue_max = request->request.queue_max,
                            .wait = (enum wait_kind)request->request.wait,
                            .keep = request->keep};
}

static void send_request(const struct conn *conn, struct arbiter_request *request)
{
    if (request->request.op == NODE_RELEASE)
        request->request.report = cluster_copy_of(conn)->report;
    cluster_ask(request->cluster, request);
}

/* The connection waits for it from now on, as `wait`, which may have a note. */
static void set_wait(struct wait *wait, struct arbiter_request *request, int64_t since_ns,
                     bool strict)
{
    wait->on = WAIT_ON_NODE;
    wait->strict = strict;
    wait->has_place = request->request.seq > 0;
    wait->request = request;
    wait->since_ns = request->request.since_ns = since_ns;
}

/* Sends what is the connection's request from now on; its answer is pending. */
static enum arbiter_status pend(struct conn *conn, struct arbiter_request *request,
                                enum patterns_class class)
{
    struct wait *pending = &arbiter_link_of(conn)->pending;
    CHECK(pending->on == WAIT_ON_NOTHING);
    set_wait(pending, request, now_ns(conn), class == PATTERNS_STRICT);
    pending->pending = true;
    CHECK(conn_pend(conn, &pending->number)); /* one needs no memory */
    send_request(conn, request);
    return ARBITER_PENDING;
}

/* Makes a release of units that were granted and that nobody wants, and sends it. */
static void give_back(const struct cluster_copy *view, struct arbiter_request *request)
{
    request->request = (struct node_request){.op = NODE_RELEASE,
                                             .by_end = true,
                                             .units = request->request.units,
                                             .name = request->request.name,
                                             .report = view->report};
    cluster_ask(request->cluster, request);
}

/* Takes it out of its place, and returns what it was. */
static struct wait take(struct wait *wait)
{
    struct wait was = *wait;
    *wait = (struct wait){.on = WAIT_ON_NOTHING};
    return was;
}

/* Nobody waits for the answer any more: an acquisition is cancelled. */
static void forget(const struct wait *was)
{
    if (was->on == WAIT_ON_NODE && was->request->request.op == NODE_ACQUIRE)
        cluster_cancel(was->request->cluster, was->request->request.id);
}

/* ---- requests -------------------------------------------------------------------------------- */

enum arbiter_status arbiter_acquire_shared(struct conn *conn, struct holder *holder,
                                           const struct acquire *a, struct holding **held_r,
                                           struct waiter **waiter_r)
{
    enum patterns_class class;
    if (requests(conn, a->name, &class)) {
        struct arbiter_request *request = ask_acquire(conn, a);
        return request ? pend(conn, request, class) : ARBITER_NO_MEMORY;
    }
    struct arbiter_link *link = arbiter_link_of(conn);
    link->id = link->seq = 0; /* the place of an earlier wait is not that of the next */
    return arbiter_ask_table(conn, holder, a, held_r, waiter_r);
}

/* Makes a release for the node, if it is asked: else *ask_r is NULL. False: no memory, and the
 * client waits for an answer (`answers`). */
static bool make_release(struct conn *conn, struct bytes name, bool answers,
                         enum patterns_class *class_r, struct arbiter_request **ask_r)
{
    *ask_r = NULL;
    if (!requests(conn, name, class_r))
        return true;
    *ask_r = request_new(conn, NODE_RELEASE, name);
    if (!*ask_r && !answers)
        cluster_lost(cluster_copy_of(conn)->cluster);
    return *ask_r || !answers;
}

enum arbiter_status arbiter_release_shared(struct conn *conn, struct holder *holder,
                                           const struct release *r, results *out)
{
    enum patterns_class class;
    struct arbiter_request *request;
    if (!make_release(conn, r->name, true, &class, &request))
        return ARBITER_NO_MEMORY;
    enum table_status status = table_release(service_table(conn), holder, r, service_now(conn),
                                             &service_counts(conn)->holds, out);
    if (!request || status != TABLE_OK || r->units == 0) {
        free(request);
        return (enum arbiter_status)status;
    }
    request->request.units = r->units;
    return pend(conn, request, class);
}

enum arbiter_status arbiter_release_held_shared(struct conn *conn, struct holder *holder,
                                                struct holding *held, bool answers, results *out)
{
    enum patterns_class class;
    struct arbiter_request *request;
    if (!make_release(conn, holding_name(service_table(conn), held), answers, &class, &request))
        return ARBITER_NO_MEMORY;
    table_release_held(service_table(conn), holder, held, 1, false, service_now(conn), out);
    if (!request)
        return ARBITER_OK;
    request->request.units = 1;
    if (answers)
        return pend(conn, request, class);
    send_request(conn, request);
    return ARBITER_OK;
}

enum arbiter_status arbiter_get_shared(struct conn *conn, struct bytes name, uint32_t *units_r)
{
    enum patterns_class class;
    if (!requests(conn, name, &class))
        return (enum arbiter_status)table_get(service_table(conn), name, service_now(conn),
                                              units_r);
    struct arbiter_request *request = request_new(conn, NODE_GET, name);
    return request ? pend(conn, request, class) : ARBITER_NO_MEMORY;
}

struct wait *arbiter_pending(struct conn *conn)
{
    struct wait *pending = service_of(conn)->shares ? &arbiter_link_of(conn)->pending : NULL;
    return pending && pending->on != WAIT_ON_NOTHING ? pending : NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Tells the service, which waits no more for what `was`. */
static void tell(struct conn *conn, const struct arbiter_answer *answer, enum waited how)
{
    const struct service_row *row = service_of(conn)->row;
    if (!answer->was.pending)
        wait_end(conn, wait_of(conn), how, answer->ended_ns);
    else if (row->wait_at && answer->op == NODE_ACQUIRE)
        conn_clear_deadline(conn, WAIT_DEADLINE);
    row->answered(conn, answer);
}

void arbiter_on_result(struct conn *conn, struct waiter *waiter)
{
    struct wait *wait = wait_of(conn);
    CHECK(wait->on == WAIT_ON_TABLE && wait->waiter == waiter);
    bool granted = table_take_result(service_table(conn), waiter) == WAITER_GRANTED;
    const struct arbiter_answer answer = {.op = NODE_ACQUIRE,
                                          .status = granted ? ARBITER_OK : ARBITER_DONE,
                                          .was = *wait,
                                          .held = waiter->holding,
                                          .ended_ns = waiter->ended_ns,
                                          .units = waiter->units};
    wait_end(conn, wait, granted ? WAITED_GRANTED : WAITED_DONE, answer.ended_ns);
    service_of(conn)->row->answered(conn, &answer);
}

void arbiter_on_queued(struct mail *mail, void *worker)
{
    struct arbiter_request *request = container_of(mail, struct arbiter_request, queued.mail);
    struct conn *conn = conn_by_tag(worker, request->queued.to);
    struct arbiter_link *link = conn ? arbiter_link_of(conn) : NULL;
    if (!link || link->pending.on != WAIT_ON_NODE || link->pending.request != request)
        return;
    CHECK(service_of(conn)->row->wait_at);
    struct wait *wait = wait_of(conn);
    CHECK(wait->on == WAIT_ON_NOTHING); /* while there is one, no other acquisition is asked for */
    struct wait was = take(&link->pending);
    *wait = was;
    wait->pending = false;
    wait->has_place = request->has_place;
    wait_begin(conn, wait, WAIT_ON_NODE, was.since_ns);
    conn_answer(conn, was.number);
    conn_answered(conn);
}

/* Units of a strict name come with the answer: it is written only within the lease. */
static void mark_strict(struct conn *conn)
{
    cluster_set_may_have_strict(conn);
    conn_check_output(conn);
    arbiter_link_of(conn)->marks_all = conn_in_pieces(conn);
}

static enum arbiter_status take_grant(struct conn *conn, const struct arbiter_request *request,
                                      struct arbiter_answer *answer)
{
    struct acquire a = acquire_of(request);
    if (table_grant(service_table(conn), service_holder(conn), &a, service_now(conn),
                    &answer->held) != TABLE_OK)
        return ARBITER_NO_MEMORY;
    if (answer->was.strict || class_of(conn, request->request.name) == PATTERNS_STRICT)
        mark_strict(conn);
    return ARBITER_OK;
}

/* The table alone decides now. If it waits there, that goes on as the session's wait. */
static enum arbiter_status ask_table(struct conn *conn, const struct arbiter_request *request,
                                     struct arbiter_answer *answer)
{
    struct arbiter_link *link = arbiter_link_of(conn);
    struct acquire a = acquire_of(request);
    struct waiter *waiter = NULL;
    if (!answer->was.pending)
        a.queue_max = 0; /* it was in the queue before */
    enum table_status status = table_acquire(service_table(conn), service_holder(conn), &a,
                                             service_now(conn), &answer->held, &waiter);
    if (status != TABLE_WAITING)
        return (enum arbiter_status)status;
    struct wait *wait = wait_of(conn);
    *wait = (struct wait){.on = WAIT_ON_TABLE, .waiter = waiter, .since_ns = waiter->since_ns};
    memcpy(wait->note, answer->was.note, sizeof(wait->note));
    if (answer->was.pending) /* else it has begun before */
        wait_begin(conn, wait, WAIT_ON_TABLE, waiter->since_ns);
    link->id = request->request.id;
    link->seq = request->request.seq;
    return ARBITER_WAITS;
}

static enum arbiter_status acquired(struct conn *conn, const struct arbiter_request *request,
                                    struct arbiter_answer *answer)
{
    static const enum arbiter_status statuses[] = {
        [NODE_DONE] = ARBITER_DONE,
        [NODE_BUSY] = ARBITER_BUSY,
        [NODE_QUEUE_FULL] = ARBITER_FULL,
        [NODE_CANCELLED] = ARBITER_BUSY,
        [NODE_ENGINE_AWAY] = ARBITER_ENGINE_AWAY,
        [NODE_ENGINE_FULL] = ARBITER_ENGINE_FULL,
        [NODE_NO_MEMORY] = ARBITER_NO_MEMORY,
    };
    if (request->request.result == NODE_GRANTED)
        return take_grant(conn, request, answer);
    if (request->request.result == NODE_ALONE)
        return ask_table(conn, request, answer);
    if (request->request.result == NODE_ENGINE_AWAY && service_is_draining(conn))
        return ARBITER_DRAINING;
    CHECK(statuses[request->request.result] != ARBITER_OK);
    return statuses[request->request.result];
}

/* What all nodes have of a name; without the engine, what this one has. */
static enum arbiter_status counted(struct conn *conn, const struct arbiter_request *request,
                                   uint32_t *units_r)
{
    enum table_status here =
        table_get(service_table(conn), request->request.name, service_now(conn), units_r);
    if (request->request.result == NODE_COUNTED) {
        uint64_t all = request->request.count_units;
        *units_r = all > UINT32_MAX ? UINT32_MAX : (uint32_t)all;
        here = all > 0 ? TABLE_OK : here;
    }
    return (enum arbiter_status)here;
}

/* How a wait has ended that got this. */
static enum waited waited_for(enum arbiter_status status)
{
    return status == ARBITER_OK     ? WAITED_GRANTED
           : status == ARBITER_DONE ? WAITED_DONE
           : status == ARBITER_BUSY ? WAITED_TIMED_OUT
                                    : WAITED_CANCELLED;
}

/* Begins the answer of what `wait` is, if it is pending; the connection waits for it no more. */
static void begin_answer(struct conn *conn, struct wait *wait)
{
    if (!wait->pending)
        return;
    conn_answer(conn, wait->number);
    *wait = (struct wait){.on = WAIT_ON_NOTHING};
}

static void end_answer(struct conn *conn, const struct arbiter_answer *answer)
{
    if (answer->was.pending)
        conn_answered(conn);
}

static void on_answer(struct conn *conn, struct arbiter_request *request, struct wait *wait)
{
    struct arbiter_answer answer = {.op = request->request.op,
                                    .was = *wait,
                                    .ended_ns = now_ns(conn),
                                    .units = request->request.units};
    begin_answer(conn, wait);
    if (request->request.op == NODE_ACQUIRE)
        answer.status = acquired(conn, request, &answer);
    else if (request->request.op == NODE_GET)
        answer.status = counted(conn, request, &answer.units);
    if (answer.status != ARBITER_WAITS)
        tell(conn, &answer, waited_for(answer.status));
    end_answer(conn, &answer);
    if (request->request.result == NODE_GRANTED && answer.status != ARBITER_OK)
        give_back(cluster_copy_of(conn), request);
    else
        free(request);
}

/* What the connection waits for with this; NULL: it has forgotten it. */
static struct wait *wait_for(struct conn *conn, const struct arbiter_request *request)
{
    struct wait *pending = &arbiter_link_of(conn)->pending, *wait = wait_or_null(conn);
    if (pending->on == WAIT_ON_NODE && pending->request == request)
        return pending;
    return wait && wait->on == WAIT_ON_NODE && wait->request == request ? wait : NULL;
}

void arbiter_on_answer(struct mail *mail, void *worker)
{
    struct arbiter_request *request = container_of(mail, struct arbiter_request, message.mail);
    struct cluster_copy *view = &request->cluster->views[worker_number(worker)];
    struct conn *conn = conn_by_tag(worker, request->message.to);
    struct wait *wait = conn ? wait_for(conn, request) : NULL;
    tally_add(&view->requests[request->request.result], 1);
    if (wait)
        on_answer(conn, request, wait);
    else if (request->request.result == NODE_GRANTED)
        give_back(view, request);
    else
        free(request);
}

/* ---- waits ----------------------------------------------------------------------------------- */

struct bytes arbiter_wait_name(const struct conn *conn, const struct wait *wait)
{
    return wait->on == WAIT_ON_NODE ? wait->request->request.name
                                    : holding_name(service_table(conn), wait->waiter->holding);
}

/* True while the engine has this node's session. */
static bool is_live(const struct conn *conn)
{
    return atomic_load_explicit(&cluster_copy_of(conn)->cluster->is_live, memory_order_relaxed);
}

/* Takes the wait out of the table, if it is there. Returns false when a result came first. */
static bool leave_table(struct conn *conn, const struct wait *wait, enum waiter_state why)
{
    return wait->on != WAIT_ON_TABLE ||
           table_end_wait(service_table(conn), wait->waiter, why, service_now(conn)) == why;
}

void arbiter_expire(struct conn *conn)
{
    struct wait *wait = wait_of(conn);
    if (wait->on == WAIT_ON_NOTHING)
        wait = arbiter_pending(conn);
    CHECK(wait); /* a wait that is over has no deadline */
    CHECK(wait->on != WAIT_ON_NODE || wait->request->request.op == NODE_ACQUIRE);
    struct arbiter_answer answer = {
        .op = NODE_ACQUIRE, .status = ARBITER_TIMED_OUT, .was = *wait, .ended_ns = now_ns(conn)};
    if (!leave_table(conn, wait, WAITER_TIMED_OUT)) {
        arbiter_on_result(conn, wait->waiter);
        return;
    }
    forget(wait);
    if (wait->on == WAIT_ON_NODE && wait->strict && !wait->has_place && !is_live(conn))
        answer.status = ARBITER_ENGINE_AWAY;
    else if (wait->pending) /* no wait for the engine, but its client has waited */
        histogram_add(&service_counts(conn)->waits[WAITED_TIMED_OUT],
                      wait_lasted(wait, answer.ended_ns), 1);
    begin_answer(conn, wait);
    tell(conn, &answer, WAITED_TIMED_OUT);
    end_answer(conn, &answer);
}

bool arbiter_cancel(struct conn *conn, bool tells)
{
    struct wait *wait = wait_of(conn);
    if (!leave_table(conn, wait, WAITER_CANCELLED)) {
        if (tells) {
            arbiter_on_result(conn, wait->waiter);
            return false;
        }
        (void)table_take_result(service_table(conn), wait->waiter);
    }
    forget(wait);
    wait_end(conn, wait, WAITED_CANCELLED, now_ns(conn));
    return true;
}

void arbiter_move_wait(struct conn *conn)
{
    struct arbiter_link *link = arbiter_link_of(conn);
    struct wait *wait = wait_or_null(conn);
    enum patterns_class class;
    if (!wait || wait->on != WAIT_ON_TABLE ||
        !requests(conn, arbiter_wait_name(conn, wait), &class))
        return;
    const struct acquire a = {.name = arbiter_wait_name(conn, wait),
                              .units = wait->waiter->units,
                              .limit = wait->waiter->limit,
                              .wait = wait->waiter->kind};
    struct arbiter_request *request = ask_acquire(conn, &a);
    if (!leave_table(conn, wait, WAITER_CANCELLED)) {
        free(request);
        arbiter_on_result(conn, wait->waiter);
        return;
    }
    if (!request) {
        const struct arbiter_answer answer = {.op = NODE_ACQUIRE,
                                              .status = ARBITER_NO_MEMORY,
                                              .was = *wait,
                                              .ended_ns = now_ns(conn)};
        tell(conn, &answer, WAITED_CANCELLED);
        return;
    }
    if (link->id) {
        request->request.id = link->id;
        request->request.seq = link->seq;
    }
    link->id = link->seq = 0;
    request->request.queued = true;
    set_wait(wait, request, wait->since_ns, class == PATTERNS_STRICT);
    send_request(conn, request);
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum served on_serve(struct conn *conn, const void *request)
{
    struct arbiter_link *link = arbiter_link_of(conn);
    if (unlikely(link->marks_all)) { /* the answer in pieces is over */
        conn_check_output(conn);
        link->marks_all = false;
    }
    return service_of(conn)->row->protocol.serve(conn, request);
}

/* A strict grant is written only within the lease. */
static bool may_write(struct conn *conn)
{
    struct cluster_copy *view = cluster_copy_of(conn);
    if (clock_mono_ns() < atomic_load_explicit(&view->cluster->lease_end_ns, memory_order_acquire))
        return true;
    tally_add(&view->lease_lost, 1);
    conn_close(conn, CLOSE_LEASE_LOST);
    return false;
}

void arbiter_fit(struct service *service)
{
    static const char *const ends[] = {"lease_lost", NULL};
    struct protocol_row *row = &service->protocol_row;
    if (!service->shares)
        return;
    service->protocol.session_size += sizeof(struct arbiter_link);
    row->pending_max = 1;
    row->tracks_output = true;
    row->extends_later = false;
    row->input_end = INPUT_END_SERVED;
    row->ends = ends;
    row->serve = on_serve;
    row->may_write = may_write;
}

static void release_name(void *arg, struct bytes name, uint32_t units)
{
    struct conn *conn = arg;
    enum patterns_class class;
    struct arbiter_request *request;
    if (!make_release(conn, name, false, &class, &request) || !request)
        return;
    request->request.by_end = true;
    request->request.units = units;
    send_request(conn, request);
}

void arbiter_close(struct conn *conn)
{
    if (!service_of(conn)->shares)
        return;
    struct wait was = take(&arbiter_link_of(conn)->pending);
    forget(&was);
    holder_visit(service_table(conn), service_holder(conn), release_name, conn);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static void save_wait(const struct wait *wait, struct record_writer *w)
{
    const struct node_request *request =
        wait && wait->on == WAIT_ON_NODE ? &wait->request->request : NULL;
    record_put_u8(w, request ? (uint8_t)(request->op + 1) : 0);
    if (!request)
        return;
    CHECK(request->op != NODE_RELEASE); /* the node has answered all when it paused */
    record_put_u8(w, wait->has_place);
    record_put_i64(w, wait->since_ns);
    record_put_u8(w, (uint8_t)request->wait);
    record_put_u32(w, request->units);
    record_put_u32(w, request->limit);
    record_put_u32(w, request->queue_max);
    record_put_u64(w, request->id);
    record_put_u64(w, request->seq);
    for (size_t i = 0; i < sizeof(wait->note); i++)
        record_put_u8(w, wait->note[i]);
    record_put_bytes(w, request->name.data, request->name.len);
}

void arbiter_save(struct conn *conn, struct record_writer *w)
{
    if (!service_of(conn)->shares)
        return;
    const struct arbiter_link *link = arbiter_link_of(conn);
    save_wait(&link->pending, w);
    save_wait(wait_or_null(conn), w);
    record_put_u64(w, link->id);
    record_put_u64(w, link->seq);
    record_put_u8(w, link->marks_all);
}

/* Reads a request or a wait, and sends it again. False: there is none, or the record has failed. */
static bool ask_again(struct conn *conn, struct wait *wait, bool pending, bool keep,
                      struct record_reader *r)
{
    const void *name;
    unsigned op = record_get_u8(r);
    if (op == 0)
        return false;
    struct wait saved = {.pending = pending};
    bool has_place = record_get_bool(r);
    int64_t since_ns = record_get_i64(r);
    unsigned kind = record_get_u8(r);
    struct node_request request = {.op = (enum node_op)(op - 1), .wait = (enum node_wait)kind};
    request.units = record_get_u32(r);
    request.limit = record_get_u32(r);
    request.queue_max = record_get_u32(r);
    request.id = record_get_u64(r);
    request.seq = record_get_u64(r);
    for (size_t i = 0; i < sizeof(saved.note); i++)
        saved.note[i] = record_get_u8(r);
    size_t len = record_get_bytes(r, &name);
    bool acquires = request.op == NODE_ACQUIRE;
    if (len == 0 || len > TABLE_NAME_MAX || (!acquires && request.op != NODE_GET) ||
        kind > NODE_WAIT_ME || (kind != NODE_WAIT_NO && !wait_or_null(conn)) || since_ns < 0 ||
        (acquires && (request.units == 0 || request.units > request.limit)))
        record_refuse(r, "a request for a shared name has inconsistent values");
    if (!pending && (!acquires || kind == NODE_WAIT_NO))
        record_refuse(r, "a wait for a shared name has inconsistent values");
    struct arbiter_request *again =
        record_ok(r) ? request_new(conn, request.op, bytes_at(name, len)) : NULL;
    if (!again) {
        record_refuse(r, "no memory for requests for shared names");
        return false;
    }
    request.name = again->request.name;
    request.queued = !pending;
    again->request = request;
    again->keep = keep;
    set_wait(&saved, again, since_ns, class_of(conn, request.name) == PATTERNS_STRICT);
    saved.has_place = has_place;
    *wait = saved;
    send_request(conn, again);
    return true;
}

bool arbiter_restore(struct conn *conn, struct record_reader *r, bool keep)
{
    if (!service_of(conn)->shares)
        return true;
    struct arbiter_link *link = arbiter_link_of(conn);
    struct wait *wait = wait_or_null(conn);
    bool asked = ask_again(conn, &link->pending, true, keep, r);
    if (record_ok(r) && conn_pending(conn) != (asked ? 1u : 0u))
        record_refuse(r, "a pending answer has no request");
    if (record_ok(r) && ask_again(conn, wait, false, keep, r))
        wait_begin(conn, wait, WAIT_ON_NODE, wait->since_ns);
    link->id = record_get_u64(r);
    link->seq = record_get_u64(r);
    link->marks_all = record_get_bool(r);
    cluster_expect_all(conn);
    return record_ok(r);
}
