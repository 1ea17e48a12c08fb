/*
 * serving.h - makes and frees workers and their services, for tests and fuzzers. The workers do not
 * run.
 */
#ifndef SERVING_H
#define SERVING_H

#include "net/snapshot.h"
#include "service/beanstalk.h"
#include "service/poolcounter.h"
#include "service/pools_config.h"
#include "service/table_resource.h"

/* The settings of all services in one struct. */
struct serving_config {
    struct table_config table;
    uint32_t counter_max_connections, poolcounter_max_connections; /* 0: no limit */
    uint32_t poolcounter_max_locks;
    size_t poolcounter_max_line;
    const struct pools_settings *pools;          /* borrowed while the services exist; NULL: none */
    const struct job_settings_of_protocol *jobs; /* likewise */
    const struct tubes_settings *tubes;
    const struct store_settings *store; /* likewise */
    const void *cluster;                /* its settings, likewise */
};

/* Like services_new. A program may have eight at a time, because their settings are stored here. */
static inline struct services *serving_services(const struct serving_config *config,
                                                struct server *server, struct moment now)
{
    static struct {
        struct table_settings table;
        struct poolcounter_settings poolcounter;
    } kept[8], *own;
    static unsigned next;
    own = &kept[next++ % ARRAY_SIZE(kept)];
    own->table = (struct table_settings){
        .buckets = (uint32_t)config->table.buckets,
        .stats_interval_s = config->table.stats_interval_s,
        .memory_limit = config->table.memory_limit,
    };
    own->poolcounter = (struct poolcounter_settings){
        .max_locks = config->poolcounter_max_locks,
        .max_line = (uint32_t)config->poolcounter_max_line,
    };
    const struct part_config parts[] = {
        {"table", &own->table, 0},
        {"poolcounter", &own->poolcounter, config->poolcounter_max_connections},
        {"counter", NULL, config->counter_max_connections},
        {"pools", config->pools, 0},
        {"tubes", config->tubes, 0},
        {"job store", config->store, 0},
        {"jobs", config->jobs, 0},
        {"cluster", config->cluster, 0},
    };
    const struct services_config all = {
        .parts = parts, .count = ARRAY_SIZE(parts), .hash_key = config->table.hash_key};
    return services_new(&all, server, now);
}

/* Makes `workers` workers of `server`, which is zero-initialised, and their services. */
static inline struct services *serving_make(struct server *server, unsigned workers,
                                            const struct snapshot_config *snapshot_config,
                                            const struct serving_config *config)
{
    struct snapshot *snapshot = snapshot_new(snapshot_config);
    CHECK(snapshot);
    server_set_snapshot(server, snapshot);
    for (; server->count < workers; server->count++) {
        server->workers[server->count] = worker_new(server, server->count);
        CHECK(server->workers[server->count]);
    }
    struct services *services = serving_services(config, server, worker_now(server->workers[0]));
    CHECK(services);
    return services;
}

/* Frees them; all workers must have ended and been drained. */
static inline void serving_free(struct server *server, struct services **services)
{
    services_free(services);
    while (server->count > 0)
        worker_free(&server->workers[--server->count]);
    server_free_snapshot(server);
}

#endif
