/*
 * cluster_copies.c - what the cluster's thread sends to all connections of a worker: which names
 * are shared, how they are served, reports, leases (cluster.h).
 *
 * Threads: the worker's.
 */
#include "service/arbiter.h"
#include "service/cluster.h"

#include <stdlib.h>
#include <string.h>

/* Calls `visit` for each connection whose names may be shared. */
static void each_conn(const struct cluster_copy *view, void (*visit)(struct conn *conn))
{
    for (uint32_t slot = 0; slot < worker_slots(view->worker); slot++) {
        struct conn *conn = worker_conn_at(view->worker, slot);
        if (conn && conn_by_tag(view->worker, conn_tag(conn)) && service_of(conn)->shares)
            visit(conn);
    }
}

void cluster_set_may_have_strict(struct conn *conn)
{
    arbiter_link_of(conn)->may_have_strict = true;
    atomic_store_explicit(&cluster_copy_of(conn)->may_have_strict, true, memory_order_relaxed);
}

/* Which shared names the connection has is known after the next report only. */
void cluster_expect_all(struct conn *conn)
{
    arbiter_link_of(conn)->may_have_shared = true;
    cluster_set_may_have_strict(conn);
}

/* ---- reports --------------------------------------------------------------------------------- */

static void send_part(struct cluster_copy *view)
{
    if (!view->part)
        return;
    view->part->mail.deliver = cluster_on_part;
    reactor_post_late(&view->cluster->resource.thread, &view->part->mail);
    view->part = NULL;
}

/* Adds what the connection `arg` has of a name. */
static void report_name(void *arg, struct bytes name, uint32_t units)
{
    struct conn *conn = arg;
    struct cluster_copy *view = cluster_copy_of(conn);
    uint32_t len = (uint32_t)name.len;
    enum patterns_class class = patterns_class(view->patterns, name);
    if (class == PATTERNS_OWN)
        return;
    if (class == PATTERNS_STRICT)
        cluster_set_may_have_strict(conn);
    if (!view->part) {
        view->part = malloc(sizeof(*view->part));
        if (!view->part) {
            view->failed = true;
            return;
        }
        view->part->used = 0;
    }
    unsigned char *at = view->part->data + view->part->used;
    memcpy(at, &units, sizeof(units));
    memcpy(at + sizeof(units), &len, sizeof(len));
    memcpy(at + sizeof(units) + sizeof(len), name.data, name.len);
    view->part->used += sizeof(units) + sizeof(len) + name.len;
    CHECK(view->part->used <= sizeof(view->part->data));
    if (view->part->used >= CLUSTER_PART_ROOM)
        send_part(view);
}

static void report_conn(struct conn *conn)
{
    struct arbiter_link *link = arbiter_link_of(conn);
    if (!link->may_have_shared)
        return;
    link->may_have_strict = false;
    holder_visit(service_table(conn), service_holder(conn), report_name, conn);
}

void cluster_copy_on_report(struct mail *mail, void *worker)
{
    struct cluster_copy *view = container_of(mail, struct cluster_copy, report_call.mail);
    CHECK(view->worker == worker);
    if (view->new_patterns != view->patterns)
        each_conn(view, cluster_expect_all);
    patterns_free(&view->patterns);
    view->patterns = view->new_patterns;
    view->new_patterns = NULL;
    if (view->new_report) {
        view->mode = NODE_ASK_ENGINE;
        view->report = view->new_report;
    }
    view->failed = false;
    atomic_store_explicit(&view->may_have_strict, false, memory_order_relaxed);
    each_conn(view, arbiter_move_wait);
    each_conn(view, report_conn);
    send_part(view);
    mail->deliver = cluster_on_reported;
    reactor_post_late(&view->cluster->resource.thread, mail);
}

void cluster_copy_on_patterns(struct mail *mail, void *worker)
{
    struct cluster_patterns *message = container_of(mail, struct cluster_patterns, mail);
    struct cluster_copy *view = message->view;
    CHECK(view->worker == worker);
    patterns_free(&view->patterns);
    view->patterns = message->patterns;
    each_conn(view, cluster_expect_all);
    each_conn(view, arbiter_move_wait);
    free(message);
}

void cluster_copy_on_alone(struct mail *mail, void *worker)
{
    struct cluster_copy *view = container_of(mail, struct cluster_copy, alone_call.mail);
    CHECK(view->worker == worker);
    view->mode = NODE_ALONE_MODE;
    mail->deliver = cluster_on_alone;
    reactor_post_late(&view->cluster->resource.thread, mail);
}

/* ---- the lease ------------------------------------------------------------------------------- */

static void look_for_strict(void *arg, struct bytes name, uint32_t units)
{
    struct conn *conn = arg;
    (void)units;
    if (patterns_class(cluster_copy_of(conn)->patterns, name) == PATTERNS_STRICT)
        arbiter_link_of(conn)->may_have_strict = true;
}

/* True if the connection has units of strict names. Most never had any, and are not looked at. */
static bool has_strict(struct conn *conn)
{
    struct arbiter_link *link = arbiter_link_of(conn);
    if (link->may_have_strict) {
        link->may_have_strict = false;
        holder_visit(service_table(conn), service_holder(conn), look_for_strict, conn);
    }
    return link->may_have_strict;
}

static void look_again(struct conn *conn)
{
    if (has_strict(conn))
        cluster_set_may_have_strict(conn);
}

bool cluster_copy_look_for_strict(struct cluster_copy *view)
{
    if (!atomic_exchange_explicit(&view->may_have_strict, false, memory_order_relaxed))
        return false;
    each_conn(view, look_again);
    return atomic_load_explicit(&view->may_have_strict, memory_order_relaxed);
}

static void close_if_strict(struct conn *conn)
{
    if (!has_strict(conn))
        return;
    tally_add(&cluster_copy_of(conn)->lease_lost, 1);
    conn_close(conn, CLOSE_LEASE_LOST);
}

void cluster_copy_on_close_strict(struct mail *mail, void *worker)
{
    struct cluster_copy *view = container_of(mail, struct cluster_copy, strict_call.mail);
    CHECK(view->worker == worker);
    each_conn(view, close_if_strict);
    mail->deliver = cluster_on_strict_closed;
    reactor_post_late(&view->cluster->resource.thread, mail);
}

void cluster_copy_hook(struct reactor_hook *hook, struct moment now)
{
    struct cluster_copy *view = container_of(hook, struct cluster_copy, hook);
    int64_t end_ns = atomic_load_explicit(&view->cluster->lease_end_ns, memory_order_acquire);
    if (likely(now.mono_ns < end_ns || end_ns == view->closed_for_ns || end_ns == 0))
        return;
    view->closed_for_ns = end_ns;
    each_conn(view, close_if_strict);
}
