/*
 * cluster_upgrade.c - what an upgrade in place owes the other nodes: strict names are held within
 * the lease only (cluster.h), and the node stays the one that they know.
 */
#include "service/cluster.h"

#include "base/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the pause ------------------------------------------------------------------------------- */

static int64_t lease_end(const struct cluster *c)
{
    return atomic_load_explicit(&c->lease_end_ns, memory_order_acquire);
}

/* Some connection may have units of strict names. */
static bool may_have_strict(const struct cluster *c)
{
    bool has = false;
    for (unsigned i = 0; i < c->resource.services->server->count; i++)
        has = has || atomic_load_explicit(&c->views[i].may_have_strict, memory_order_relaxed);
    return has;
}

/* Waits until the lease is renewed, so that most of it is left: by the next beat's answer, or by
 * the session that follows the one which a pause before has ended. Without that the lease ends, and
 * nobody has strict units any more. */
bool cluster_may_pause(struct resource *r, int64_t since_ns, int64_t now_ns)
{
    struct cluster *c = cluster_own(r);
    if (r->without_thread)
        return true;
    int64_t end_ns = lease_end(c);
    if (c->waits_since_ns != since_ns) {
        c->waits_since_ns = since_ns;
        c->waits_end_ns = end_ns;
    }
    return end_ns <= now_ns || end_ns != c->waits_end_ns || !may_have_strict(c);
}

/* Holders that were left when the lease ended are not held to it: another reload made them strict.
 */
int64_t cluster_serve_by(struct resource *r, const char **what_r)
{
    struct cluster *c = cluster_own(r);
    int64_t end_ns = r->without_thread ? 0 : lease_end(c);
    bool held = false;
    *what_r = "the lease of the strict names that are held here (cluster.lease)";
    for (unsigned i = 0; end_ns > 0 && i < r->services->server->count; i++) {
        struct cluster_copy *view = &c->views[i];
        if (view->closed_for_ns != end_ns)
            held = cluster_copy_look_for_strict(view) || held;
    }
    return held ? end_ns : INT64_MAX;
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Who the node is for the others: the section CLUSTER_NODE. */
#define CLUSTER_NODE (RECORD_OPTIONAL | UINT32_C(0x0702))

/* CLUSTER_NODE: bytes name of the node, i64 cluster.lease in ns */
static void save_node(const struct cluster *c, struct record_writer *w)
{
    record_begin(w, CLUSTER_NODE);
    record_put_text(w, c->node_name);
    record_put_i64(w, c->settings->lease_ns);
    record_end(w);
}

/* The others know its units by the name, and count its lease by theirs. */
static bool restore_node(struct cluster *c, struct record_reader *section)
{
    const void *name;
    size_t len = record_get_bytes(section, &name);
    int64_t lease_ns = record_get_i64(section);
    if (!record_ok(section) || c->resource.without_thread)
        return record_ok(section); /* without an engine the other section is refused */
    *c->refused = '\0';
    if (!bytes_equal(bytes_at(name, len), bytes_of(c->node_name)))
        snprintf(c->refused, sizeof(c->refused),
                 "cluster.node can't change from %.*s to %s in an upgrade: restart counterd",
                 len > 64 ? 64 : (int)len, (const char *)name, c->node_name);
    else if (lease_ns != c->settings->lease_ns)
        snprintf(c->refused, sizeof(c->refused),
                 "cluster.lease can't change from %" PRId64 " s to %" PRId64
                 " s in an upgrade: restart counterd",
                 lease_ns / NS_PER_S, c->settings->lease_ns / NS_PER_S);
    if (*c->refused)
        record_refuse(section, c->refused);
    return record_ok(section);
}

/* bytes cluster.engine, bytes cluster.prefix, u64 the next id, i64 the lease's end in ns, and what
 * the node writes; if names are shared. */
#define CLUSTER_STATE UINT32_C(0x0701)

void cluster_save(const struct resource *r, struct moment now, struct record_writer *w)
{
    const struct cluster *c = cluster_own(r);
    (void)now;
    if (r->without_thread)
        return;
    record_begin(w, CLUSTER_STATE);
    record_put_text(w, c->settings->engine);
    record_put_text(w, c->settings->prefix);
    record_put_u64(w, atomic_load(&c->next_id));
    record_put_i64(w, atomic_load(&c->lease_end_ns));
    node_save(c->node, w);
    record_end(w);
    save_node(c, w);
}

static void compare_text(struct record_reader *section, const char *text, const char *why)
{
    const void *saved;
    size_t len = record_get_bytes(section, &saved);
    if (record_ok(section) && !bytes_equal(bytes_at(saved, len), bytes_of(text)))
        record_refuse(section, why);
}

bool cluster_restore(struct resource *r, struct moment now, uint32_t kind,
                     struct record_reader *section)
{
    struct cluster *c = cluster_own(r);
    (void)now;
    if (kind == CLUSTER_NODE)
        return restore_node(c, section);
    if (kind != CLUSTER_STATE)
        return false;
    compare_text(section, r->without_thread ? "" : cluster_text(c->settings->engine),
                 "cluster.engine has changed, which needs a restart");
    if (!record_ok(section))
        return false;
    compare_text(section, cluster_text(c->settings->prefix),
                 "cluster.prefix has changed, which needs a restart");
    uint64_t next_id = record_get_u64(section);
    int64_t lease_end_ns = record_get_i64(section);
    if (next_id == 0 || lease_end_ns < 0)
        record_refuse(section, "the state of the cluster is out of range");
    if (!record_ok(section) || !node_restore(c->node, section))
        return false;
    atomic_store(&c->next_id, next_id);
    atomic_store(&c->lease_end_ns, lease_end_ns);
    c->restored = true;
    record_leave(section);
    return record_ok(section);
}

bool cluster_restore_done(struct resource *r, struct record_reader *reader)
{
    const struct cluster *c = cluster_own(r);
    if (!r->without_thread && !c->restored)
        record_refuse(reader, "cluster.engine was set, which needs a restart");
    return record_ok(reader);
}
