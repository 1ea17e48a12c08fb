/*
 * rules.c - makes snapshots, counts their holders, and sends them to the workers (see rules.h).
 *
 * `holders` counts the server, every worker that uses the snapshot, and every letter on its way.
 */
#include "net/private.h"

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

/* Replaces a worker's rules, in its thread or while it does not run. */
static void put_in_force(struct worker *worker, struct rules *rules)
{
    rules_free(&worker->rules);
    worker->rules = rules;
}

static void arrive(struct mail *mail, void *reader)
{
    struct worker *worker = reader;
    struct mail *first = mail - worker->number;
    put_in_force(worker, container_of(first, struct rules, letters));
}

void server_set_rules(struct server *server, struct rules *rules)
{
    if (!server->rules)
        sources_init(&server->sources);
    rules_free(&server->rules);
    server->rules = rules;
    for (unsigned i = 0; i < server->count; i++) {
        struct worker *worker = server->workers[i];
        if (!worker)
            continue;
        rules_share(rules);
        if (reactor_runs(&worker->reactor)) {
            rules->letters[i].deliver = arrive;
            worker_post(worker, &rules->letters[i]);
        } else {
            put_in_force(worker, rules);
        }
    }
}

void server_free_rules(struct server *server)
{
    if (!server->rules)
        return;
    rules_free(&server->rules);
    sources_free(&server->sources);
}
