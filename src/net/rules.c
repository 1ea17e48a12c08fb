/*
 * rules.c - makes snapshots and counts their holders (see rules.h).
 *
 * `holders` counts the server, every worker that uses the snapshot, and every letter on its way.
 */
#include "net/rules_inside.h"

#include <stdlib.h>
#include <string.h>

struct rules *rules_new(const struct rules_config *config)
{
    struct rules *rules =
        calloc(1, sizeof(*rules) + config->allow_count * sizeof(struct access_network));
    if (!rules)
        return NULL;
    atomic_init(&rules->holders, 1);
    rules->limits = config->limits;
    rules->tls = config->tls;
    rules->allow_count = config->allow_count;
    if (config->allow_count)
        memcpy(rules->allow, config->allow, config->allow_count * sizeof(struct access_network));
    return rules;
}

struct rules *rules_share(struct rules *rules)
{
    atomic_fetch_add_explicit(&rules->holders, 1, memory_order_relaxed);
    return rules;
}

void rules_free(struct rules **rules)
{
    struct rules *r = *rules;
    *rules = NULL;
    if (!r || atomic_fetch_sub_explicit(&r->holders, 1, memory_order_acq_rel) != 1)
        return;
    tls_free(&r->tls);
    free(r);
}
