/*
 * shared.c - the workers' side of shared names: asks of connections, and letters from the node (see
 * shared.h; cluster.h says why the ledger stays whole).
 *
 * An ask ends in exactly one way. Its answer comes to the connection whose link has it; or the link
 * has forgotten it (shared_forget), and what it brings goes back to the engine.
 */
#include "service/shared.h"

#include "base/record.h"
#include "service/cluster.h"

#include <stdlib.h>
#include <string.h>

const char *const shared_ends[] = {"lease_lost", NULL};

static const struct shared_host *host_of(const struct conn *conn)
{
    return service_of(conn)->row->shared;
}

static struct shared_link *link_of(struct conn *conn)
{
    return host_of(conn)->link(conn);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* True if the node is asked for names of this class. */
static bool view_asks(const struct cluster_view *view, enum patterns_class class)
{
    return class == PATTERNS_STRICT || (class == PATTERNS_LOOSE && view->mode == NODE_ASK_ENGINE);
}

enum patterns_class shared_class(const struct conn *conn, struct bytes name)
{
    return patterns_class(cluster_view_of(conn)->patterns, name);
}

bool shared_asks(struct conn *conn, struct bytes name)
{
    const struct cluster_view *view = cluster_view_of(conn);
    enum patterns_class class = patterns_class(view->patterns, name);
    if (class != PATTERNS_OWN)
        link_of(conn)->may_have_shared = true;
    return view_asks(view, class);
}

/* ---- asks ------------------------------------------------------------------------------------ */

struct shared_ask *shared_ask_new(const struct conn *conn, enum node_op op, struct bytes name)
{
    struct shared_ask *ask = malloc(sizeof(*ask) + name.len);
    if (!ask)
        return NULL;
    *ask = (struct shared_ask){.cluster = cluster_view_of(conn)->cluster};
    ask->letter.to = ask->queued.to = conn_tag(conn);
    if (name.len > 0)
        memcpy(ask->name, name.data, name.len);
    ask->ask.op = op;
    ask->ask.name = bytes_at(ask->name, name.len);
    return ask;
}

static enum node_wait wait_of(enum wait_kind kind)
{
    return kind == WAIT_NO ? NODE_WAIT_NO : kind == WAIT_ME ? NODE_WAIT_ME : NODE_WAIT_ANY;
}

struct shared_ask *shared_ask_acquire(const struct conn *conn, const struct acquire *a)
{
    struct shared_ask *ask = shared_ask_new(conn, NODE_ACQUIRE, a->name);
    if (!ask)
        return NULL;
    ask->ask.wait = wait_of(a->wait);
    ask->ask.units = a->units;
    ask->ask.limit = a->limit;
    ask->ask.queue_max = a->queue_max;
    ask->ask.id = atomic_fetch_add_explicit(&ask->cluster->next_id, 1, memory_order_relaxed);
    return ask;
}

void shared_send(const struct conn *conn, struct shared_ask *ask)
{
    if (ask->ask.op == NODE_RELEASE)
        ask->ask.report = cluster_view_of(conn)->report;
    cluster_ask(ask->cluster, ask);
}

/* The connection waits for the ask from now on. */
static void set_way(const struct conn *conn, struct shared_way *way, struct shared_ask *ask,
                    int64_t since_ns)
{
    CHECK(!way->ask);
    *way = (struct shared_way){
        .ask = ask,
        .since_ns = since_ns,
        .has_place = ask->ask.seq > 0,
        .strict = shared_class(conn, ask->ask.name) == PATTERNS_STRICT,
    };
    ask->ask.since_ns = since_ns;
}

enum served shared_pend(struct conn *conn, struct shared_ask *ask)
{
    struct shared_way *way = &link_of(conn)->request;
    set_way(conn, way, ask, service_now(conn).mono_ns);
    way->pending = true;
    CHECK(conn_pend(conn, &way->number)); /* one needs no memory */
    shared_send(conn, ask);
    return SERVED_PENDING;
}

void shared_wait(struct conn *conn, struct shared_ask *ask, int64_t since_ns)
{
    struct shared_link *link = link_of(conn);
    ask->ask.queued = true;
    set_way(conn, &link->wait, ask, since_ns);
    link->id = link->seq = 0;
    shared_send(conn, ask);
}

/* Makes a release of units that were granted, and sends it. */
static void give_back(const struct cluster_view *view, struct shared_ask *ask)
{
    ask->ask = (struct node_ask){.op = NODE_RELEASE,
                                 .by_end = true,
                                 .units = ask->ask.units,
                                 .name = ask->ask.name,
                                 .report = view->report};
    cluster_ask(ask->cluster, ask);
}

void shared_give_back(const struct conn *conn, struct shared_ask *ask)
{
    give_back(cluster_view_of(conn), ask);
}

void shared_lost(const struct conn *conn)
{
    cluster_lost(cluster_view_of(conn)->cluster);
}

void shared_answer_begin(struct conn *conn, const struct shared_way *was)
{
    if (was->pending)
        conn_answer(conn, was->number);
}

void shared_answer_end(struct conn *conn, const struct shared_way *was)
{
    if (was->pending)
        conn_answered(conn);
}

/* Returns what it was. */
static struct shared_way take_way(struct shared_way *way)
{
    struct shared_way was = *way;
    *way = (struct shared_way){.ask = NULL};
    return was;
}

struct shared_way shared_forget(struct shared_way *way)
{
    struct shared_way was = take_way(way);
    if (was.ask && was.ask->ask.op == NODE_ACQUIRE)
        cluster_cancel(was.ask->cluster, was.ask->ask.id);
    return was;
}

bool shared_is_live(const struct conn *conn)
{
    return atomic_load_explicit(&cluster_view_of(conn)->cluster->is_live, memory_order_relaxed);
}

/* ---- answers --------------------------------------------------------------------------------- */

void shared_on_queued(struct mail *mail, void *worker)
{
    struct shared_ask *ask = container_of(mail, struct shared_ask, queued.mail);
    struct conn *conn = conn_by_tag(worker, ask->queued.to);
    struct shared_link *link = conn ? link_of(conn) : NULL;
    if (!link || link->request.ask != ask)
        return;
    CHECK(!link->wait.ask); /* while there is one, no other acquisition is asked for */
    struct shared_way was = take_way(&link->request);
    link->wait = was;
    link->wait.pending = false;
    link->wait.has_place = ask->has_place;
    host_of(conn)->queued(conn);
    shared_answer_begin(conn, &was);
    shared_answer_end(conn, &was);
}

/* The way of the link that has this ask; NULL: the link has forgotten it. */
static struct shared_way *way_of(struct shared_link *link, const struct shared_ask *ask)
{
    return link->request.ask == ask ? &link->request : link->wait.ask == ask ? &link->wait : NULL;
}

void shared_on_answer(struct mail *mail, void *worker)
{
    struct shared_ask *ask = container_of(mail, struct shared_ask, letter.mail);
    struct cluster_view *view = &ask->cluster->views[worker_number(worker)];
    struct conn *conn = conn_by_tag(worker, ask->letter.to);
    struct shared_way *way = conn ? way_of(link_of(conn), ask) : NULL;
    tally_add(&view->asks[ask->ask.result], 1);
    if (way) {
        struct shared_way was = take_way(way);
        host_of(conn)->answered(conn, ask, &was);
    } else if (ask->ask.result == NODE_GRANTED) {
        give_back(view, ask);
    } else {
        free(ask);
    }
}

/* ---- all connections of a worker ---------------------------------------------------------------
 */

/* Calls `visit` for each connection whose row may have shared names. */
static void each_conn(struct cluster_view *view,
                      void (*visit)(struct cluster_view *view, struct conn *conn))
{
    for (uint32_t slot = 0; slot < worker_slots(view->worker); slot++) {
        struct conn *conn = worker_conn_at(view->worker, slot);
        if (conn && conn_by_tag(view->worker, conn_tag(conn)) && host_of(conn))
            visit(view, conn);
    }
}

static void set_may_have_strict(struct cluster_view *view, struct shared_link *link)
{
    link->may_have_strict = true;
    atomic_store_explicit(&view->may_have_strict, true, memory_order_relaxed);
}

/* Which shared names the connection has is known after the next report only. */
static void expect_all(struct cluster_view *view, struct conn *conn)
{
    link_of(conn)->may_have_shared = true;
    set_may_have_strict(view, link_of(conn));
}

/* ---- reports -----------------------------------------------------------------------------------
 */

struct reporting {
    struct cluster_view *view;
    struct shared_link *link;  /* of the connection that holds what comes */
    struct cluster_part *part; /* NULL: none begun */
};

static void send_part(struct reporting *reporting)
{
    if (!reporting->part)
        return;
    reporting->part->mail.deliver = cluster_on_part;
    reactor_post_late(&reporting->view->cluster->resource.thread, &reporting->part->mail);
    reporting->part = NULL;
}

static void report_name(void *arg, struct bytes name, uint32_t units)
{
    struct reporting *reporting = arg;
    struct cluster_view *view = reporting->view;
    uint32_t len = (uint32_t)name.len;
    enum patterns_class class = patterns_class(view->patterns, name);
    if (class == PATTERNS_OWN)
        return;
    if (class == PATTERNS_STRICT)
        set_may_have_strict(view, reporting->link);
    if (!reporting->part) {
        reporting->part = malloc(sizeof(*reporting->part));
        if (!reporting->part) {
            view->failed = true;
            return;
        }
        reporting->part->used = 0;
    }
    unsigned char *at = reporting->part->data + reporting->part->used;
    memcpy(at, &units, sizeof(units));
    memcpy(at + sizeof(units), &len, sizeof(len));
    memcpy(at + sizeof(units) + sizeof(len), name.data, name.len);
    reporting->part->used += sizeof(units) + sizeof(len) + name.len;
    CHECK(reporting->part->used <= sizeof(reporting->part->data));
    if (reporting->part->used >= CLUSTER_PART_ROOM)
        send_part(reporting);
}

static void move_wait(struct cluster_view *view, struct conn *conn)
{
    (void)view;
    if (host_of(conn)->wait_to_ask)
        host_of(conn)->wait_to_ask(conn);
}

void shared_on_report(struct mail *mail, void *worker)
{
    struct cluster_view *view = container_of(mail, struct cluster_view, report_call.mail);
    struct reporting reporting = {.view = view};
    CHECK(view->worker == worker);
    if (view->new_patterns != view->patterns)
        each_conn(view, expect_all);
    patterns_free(&view->patterns);
    view->patterns = view->new_patterns;
    view->new_patterns = NULL;
    if (view->new_report) {
        view->mode = NODE_ASK_ENGINE;
        view->report = view->new_report;
    }
    view->failed = false;
    atomic_store_explicit(&view->may_have_strict, false, memory_order_relaxed);
    each_conn(view, move_wait);
    for (uint32_t slot = 0; slot < worker_slots(view->worker); slot++) {
        struct conn *conn = worker_conn_at(view->worker, slot);
        if (!conn || !conn_by_tag(view->worker, conn_tag(conn)) || !host_of(conn))
            continue;
        reporting.link = link_of(conn);
        if (!reporting.link->may_have_shared)
            continue;
        reporting.link->may_have_strict = false;
        holder_visit(service_table(conn), service_holder(conn), report_name, &reporting);
    }
    send_part(&reporting);
    mail->deliver = cluster_on_reported;
    reactor_post_late(&view->cluster->resource.thread, mail);
}

void shared_on_patterns(struct mail *mail, void *worker)
{
    struct cluster_patterns *letter = container_of(mail, struct cluster_patterns, mail);
    struct cluster_view *view = letter->view;
    CHECK(view->worker == worker);
    patterns_free(&view->patterns);
    view->patterns = letter->patterns;
    each_conn(view, expect_all);
    each_conn(view, move_wait);
    free(letter);
}

void shared_on_alone(struct mail *mail, void *worker)
{
    struct cluster_view *view = container_of(mail, struct cluster_view, alone_call.mail);
    CHECK(view->worker == worker);
    view->mode = NODE_ALONE_MODE;
    mail->deliver = cluster_on_alone;
    reactor_post_late(&view->cluster->resource.thread, mail);
}

/* ---- the lease ---------------------------------------------------------------------------------
 */

struct looking {
    const struct cluster_view *view;
    bool has_strict;
};

static void look_for_strict(void *arg, struct bytes name, uint32_t units)
{
    struct looking *looking = arg;
    (void)units;
    if (patterns_class(looking->view->patterns, name) == PATTERNS_STRICT)
        looking->has_strict = true;
}

/* True if the connection has units of strict names. Most never had any, and are not looked at. */
static bool has_strict(const struct cluster_view *view, struct conn *conn)
{
    struct shared_link *link = link_of(conn);
    struct looking looking = {.view = view};
    if (link->may_have_strict)
        holder_visit(service_table(conn), service_holder(conn), look_for_strict, &looking);
    link->may_have_strict = looking.has_strict;
    return looking.has_strict;
}

static void look_again(struct cluster_view *view, struct conn *conn)
{
    if (has_strict(view, conn))
        set_may_have_strict(view, link_of(conn));
}

bool shared_look_for_strict(struct cluster_view *view)
{
    if (!atomic_exchange_explicit(&view->may_have_strict, false, memory_order_relaxed))
        return false;
    each_conn(view, look_again);
    return atomic_load_explicit(&view->may_have_strict, memory_order_relaxed);
}

static void close_if_strict(struct cluster_view *view, struct conn *conn)
{
    if (!has_strict(view, conn))
        return;
    tally_add(&view->lease_lost, 1);
    conn_close(conn, CLOSE_LEASE_LOST);
}

void shared_on_close_strict(struct mail *mail, void *worker)
{
    struct cluster_view *view = container_of(mail, struct cluster_view, strict_call.mail);
    CHECK(view->worker == worker);
    each_conn(view, close_if_strict);
    mail->deliver = cluster_on_strict_closed;
    reactor_post_late(&view->cluster->resource.thread, mail);
}

void shared_hook(struct reactor_hook *hook, struct moment now)
{
    struct cluster_view *view = container_of(hook, struct cluster_view, hook);
    int64_t end_ns = atomic_load_explicit(&view->cluster->lease_end_ns, memory_order_acquire);
    if (likely(now.mono_ns < end_ns || end_ns == view->closed_for_ns || end_ns == 0))
        return;
    view->closed_for_ns = end_ns;
    each_conn(view, close_if_strict);
}

void shared_mark_strict(struct conn *conn)
{
    set_may_have_strict(cluster_view_of(conn), link_of(conn));
    conn_check_output(conn);
    link_of(conn)->marks_all = conn_in_pieces(conn);
}

void shared_before_request(struct conn *conn)
{
    struct shared_link *link = link_of(conn);
    if (unlikely(link->marks_all)) { /* the answer in pieces is over */
        conn_check_output(conn);
        link->marks_all = false;
    }
}

bool shared_may_write(struct conn *conn)
{
    struct cluster_view *view = cluster_view_of(conn);
    if (clock_mono_ns() < atomic_load_explicit(&view->cluster->lease_end_ns, memory_order_acquire))
        return true;
    tally_add(&view->lease_lost, 1);
    conn_close(conn, CLOSE_LEASE_LOST);
    return false;
}

/* ---- the end of a connection -------------------------------------------------------------------
 */

static void release_name(void *arg, struct bytes name, uint32_t units)
{
    struct conn *conn = arg;
    if (!shared_asks(conn, name))
        return;
    struct shared_ask *ask = shared_ask_new(conn, NODE_RELEASE, name);
    if (!ask) {
        shared_lost(conn);
        return;
    }
    ask->ask.by_end = true;
    ask->ask.units = units;
    shared_send(conn, ask);
}

void shared_close(struct conn *conn, const struct holder *holder)
{
    (void)shared_forget(&link_of(conn)->request);
    (void)shared_forget(&link_of(conn)->wait);
    holder_visit(service_table(conn), holder, release_name, conn);
}

/* ---- upgrades ----------------------------------------------------------------------------------
 */

static void save_way(const struct shared_way *way, struct record_writer *w)
{
    const struct node_ask *ask = way->ask ? &way->ask->ask : NULL;
    record_put_u8(w, ask ? (uint8_t)(ask->op + 1) : 0);
    if (!ask)
        return;
    CHECK(ask->op != NODE_RELEASE); /* the node has answered all when it parked */
    record_put_u8(w, way->has_place);
    record_put_i64(w, way->since_ns);
    record_put_u8(w, (uint8_t)ask->wait);
    record_put_u32(w, ask->units);
    record_put_u32(w, ask->limit);
    record_put_u32(w, ask->queue_max);
    record_put_u64(w, ask->id);
    record_put_u64(w, ask->seq);
    for (size_t i = 0; i < sizeof(way->opaque); i++)
        record_put_u8(w, way->opaque[i]);
    record_put_bytes(w, ask->name.data, ask->name.len);
}

void shared_save(struct conn *conn, struct record_writer *w)
{
    const struct shared_link *link = link_of(conn);
    save_way(&link->request, w);
    save_way(&link->wait, w);
    record_put_u64(w, link->id);
    record_put_u64(w, link->seq);
    record_put_u8(w, link->marks_all);
}

/* Reads an ask, and its way. Returns the ask; NULL: there is none, or the record has failed. */
static struct shared_ask *read_ask(const struct conn *conn, struct shared_way *way,
                                   struct record_reader *r)
{
    const void *name;
    unsigned op = record_get_u8(r);
    if (op == 0)
        return NULL;
    way->has_place = record_get_bool(r);
    way->since_ns = record_get_i64(r);
    struct node_ask saved = {.op = (enum node_op)(op - 1)};
    unsigned wait = record_get_u8(r);
    saved.wait = (enum node_wait)wait;
    saved.units = record_get_u32(r);
    saved.limit = record_get_u32(r);
    saved.queue_max = record_get_u32(r);
    saved.id = record_get_u64(r);
    saved.seq = record_get_u64(r);
    for (size_t i = 0; i < sizeof(way->opaque); i++)
        way->opaque[i] = record_get_u8(r);
    size_t len = record_get_bytes(r, &name);
    bool acquires = saved.op == NODE_ACQUIRE;
    if (len == 0 || len > TABLE_NAME_MAX || (!acquires && saved.op != NODE_GET) ||
        wait > NODE_WAIT_ME || way->since_ns < 0 ||
        (acquires && (saved.units == 0 || saved.units > saved.limit)))
        record_refuse(r, "a request for a shared name has inconsistent values");
    if (!record_ok(r))
        return NULL;
    struct shared_ask *ask = shared_ask_new(conn, saved.op, bytes_at(name, len));
    if (!ask) {
        record_refuse(r, "no memory for requests for shared names");
        return NULL;
    }
    saved.name = ask->ask.name;
    ask->ask = saved;
    return ask;
}

/* Sends an ask again, in the way that was read. */
static void ask_again(struct conn *conn, struct shared_way *way, struct shared_ask *ask,
                      const struct shared_way *saved, bool pending)
{
    ask->ask.queued = !pending;
    set_way(conn, way, ask, saved->since_ns);
    way->pending = pending;
    way->has_place = saved->has_place;
    memcpy(way->opaque, saved->opaque, sizeof(way->opaque));
    shared_send(conn, ask);
}

bool shared_restore(struct conn *conn, struct record_reader *r)
{
    struct shared_link *link = link_of(conn);
    struct shared_way request = {.ask = NULL}, wait = {.ask = NULL};
    struct shared_ask *asked = read_ask(conn, &request, r);
    if (record_ok(r) && conn_pending(conn) != (asked ? 1u : 0u))
        record_refuse(r, "a pending answer has no request");
    if (asked)
        ask_again(conn, &link->request, asked, &request, true);
    asked = record_ok(r) ? read_ask(conn, &wait, r) : NULL;
    if (asked && (asked->ask.op != NODE_ACQUIRE || asked->ask.wait == NODE_WAIT_NO))
        record_refuse(r, "a wait for a shared name has inconsistent values");
    if (asked)
        ask_again(conn, &link->wait, asked, &wait, false);
    link->id = record_get_u64(r);
    link->seq = record_get_u64(r);
    link->marks_all = record_get_bool(r);
    expect_all(cluster_view_of(conn), conn);
    return record_ok(r);
}
