/*
 * serving.h - workers and the services on them, as most tests and fuzzers of them begin and end. No
 * worker runs.
 */
#ifndef SERVING_H
#define SERVING_H

#include "net/rules.h"
#include "service/service.h"

/* Makes so many workers of `server`, which is zero-initialised, and their services. */
static inline struct services *serving_make(struct server *server, unsigned workers,
                                            const struct rules_config *rules_config,
                                            const struct services_config *config)
{
    struct rules *rules = rules_new(rules_config);
    CHECK(rules);
    server_set_rules(server, rules);
    for (; server->count < workers; server->count++) {
        server->workers[server->count] = worker_new(server, server->count);
        CHECK(server->workers[server->count]);
    }
    struct services *services = services_new(config, server, worker_now(server->workers[0]));
    CHECK(services);
    return services;
}

/* Frees them, when all workers have ended and been drained. */
static inline void serving_free(struct server *server, struct services **services)
{
    services_free(services);
    while (server->count > 0)
        worker_free(&server->workers[--server->count]);
    server_free_rules(server);
}

#endif
