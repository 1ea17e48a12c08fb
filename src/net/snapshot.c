/*
 * snapshot.c - makes snapshots and counts their holders (see snapshot.h).
 *
 * `holders` counts the server, every worker that uses the snapshot, and every message on its way.
 */
#include "net/snapshot_internal.h"

#include <stdlib.h>
#include <string.h>

struct snapshot *snapshot_new(const struct snapshot_config *config)
{
    struct snapshot *snapshot =
        calloc(1, sizeof(*snapshot) + config->allow_count * sizeof(struct access_network));
    if (!snapshot)
        return NULL;
    atomic_init(&snapshot->holders, 1);
    snapshot->limits = config->limits;
    snapshot->tls = config->tls;
    snapshot->allow_count = config->allow_count;
    if (config->allow_count)
        memcpy(snapshot->allow, config->allow, config->allow_count * sizeof(struct access_network));
    return snapshot;
}

struct snapshot *snapshot_share(struct snapshot *snapshot)
{
    atomic_fetch_add_explicit(&snapshot->holders, 1, memory_order_relaxed);
    return snapshot;
}

void snapshot_free(struct snapshot **snapshot)
{
    struct snapshot *r = *snapshot;
    *snapshot = NULL;
    if (!r || atomic_fetch_sub_explicit(&r->holders, 1, memory_order_acq_rel) != 1)
        return;
    tls_free(&r->tls);
    free(r);
}
