/*
 * cluster_upgrade.c - what an upgrade in place owes the other nodes: strict names are held within
 * the lease only (cluster.h).
 */
#include "service/cluster.h"

/* ---- the pause --------------------------------------------------------------------------------
 */

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

/* Waits for the next beat's answer, so that most of the lease is left. It has two fifths of the
 * lease for that: then the session is lost, and what is left of the lease has to do. */
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
    return end_ns <= now_ns || end_ns != c->waits_end_ns ||
           now_ns - since_ns >= c->settings->lease_ns / 5 * 2 || !may_have_strict(c);
}

int64_t cluster_serve_by(struct resource *r, const char **what_r)
{
    struct cluster *c = cluster_own(r);
    *what_r = "the lease of the strict names that are held here (cluster.lease)";
    if (r->without_thread || !may_have_strict(c))
        return INT64_MAX;
    for (unsigned i = 0; i < r->services->server->count; i++)
        shared_look_for_strict(&c->views[i]);
    return may_have_strict(c) ? lease_end(c) : INT64_MAX;
}
