/*
 * service.h - the services: one file for each protocol, and what they share.
 *
 * A service is the only bridge between a protocol's codec, the engine and the connections: it takes
 * one parsed request, asks the table, and replies. To add a protocol: its file, a row in the
 * registry in service.c, rows of options.
 *
 * Threads: services_new and services_free in the main thread, when no worker runs; all else in the
 * thread of the connection's worker.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include "base/tally.h"
#include "engine/table.h"
#include "net/conn.h"
#include "net/worker.h"

/* What the services want to know; unit in the name, or as the protocol's. */
struct services_config {
    struct table_config table;
    uint32_t counter_max_connections; /* 0: no limit */
    uint32_t poolcounter_max_connections;
    uint32_t poolcounter_max_locks; /* at least 1 */
    size_t poolcounter_max_line;    /* bytes */
};

struct service;

/* What all services share. */
struct services {
    struct table *table;
    struct server *server;
    struct services_config config;
    int64_t started_ns;

    /* The collector of idle counters, a chore of worker 0. */
    struct chore collector;
    struct table_walk collector_walk;
    uint32_t collected_interval; /* the interval in which the last sweep began */
    bool collecting;
    uint64_t collector_busy_ns; /* of this sweep */
    tally collections, collected, last_collection_us, collections_us;

    struct service *services[2]; /* in the order of the registry */
};

/*
 * Makes the table and a protocol for every row of the registry. The workers of `server` exist and
 * do not run yet. NULL: no memory.
 */
struct services *services_new(const struct services_config *config, struct server *server,
                              struct moment now) MUST_USE;
/* Frees *services, when all workers have ended and been drained, and nulls it. */
void services_free(struct services **services);

/* The protocol of that name: "poolcounter" or "counter". */
struct protocol *services_protocol(struct services *services, const char *name);

/* ---- what the services' own files share ---- */

/* A protocol and what its service adds. */
struct service {
    struct protocol protocol;
    struct services *services;
    void *tallies; /* an array with an element for each worker */
    /* A verdict has come for this connection's waiter. Not to be freed here. NULL: never waits. */
    void (*verdict)(struct conn *conn, struct waiter *waiter);
};

/* A row of the registry. */
struct service_row {
    size_t tallies_size; /* of one worker's: a multiple of a cache line, so that none is shared */
    /* Fills in the protocol and `verdict`; the rest is there. */
    void (*init)(struct service *service);
};

extern const struct service_row poolcounter_row, counter_row;

/* The service, the table, the clock of a connection. */
static inline struct service *service_of(const struct conn *conn)
{
    return conn_protocol(conn)->service;
}

static inline struct table *service_table(const struct conn *conn)
{
    return service_of(conn)->services->table;
}

static inline struct moment service_now(const struct conn *conn)
{
    return worker_now(conn_worker(conn));
}

/* Opens the holder of a connection. */
void service_open_holder(struct conn *conn, struct holder *holder);

/* Closes it: all that the connection has goes back, and whoever waited for it is told. */
void service_close_holder(struct conn *conn, struct holder *holder);

/* Sends verdicts to the connections they are for, in order. */
void service_deliver(struct worker *from, verdicts *out);

#endif
