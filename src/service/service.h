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

#include "base/histogram.h"
#include "base/option.h"
#include "base/tally.h"
#include "engine/table.h"
#include "net/conn.h"
#include "net/worker.h"

/* The settings of one protocol or resource. */
struct part_config {
    const char *name;         /* "poolcounter"; of the table: "table" */
    const void *own;          /* its own settings, as declared below; outlives the services */
    uint32_t max_connections; /* of a protocol; 0: no limit */
};

/* Own settings, and the options that set them. */
struct table_settings {
    uint32_t buckets;          /* names that there is room for at the start, about */
    uint32_t stats_interval_s; /* at least 1 */
    uint64_t memory_limit;     /* bytes */
};
struct poolcounter_settings {
    uint32_t max_locks; /* at least 1 */
    uint32_t max_line;  /* bytes */
};
extern const struct option_group table_options;
extern const struct option_protocol poolcounter_options, counter_options;

/* What the services want to know; unit in the name, or as the protocol's. */
struct services_config {
    struct table_config table;
    uint32_t counter_max_connections; /* 0: no limit */
    uint32_t poolcounter_max_connections;
    uint32_t poolcounter_max_locks; /* at least 1 */
    size_t poolcounter_max_line;    /* bytes */
};

/* The same from the settings of `count` parts; the table's hash key is not among them. */
struct services_config services_configure(const struct part_config *parts, size_t count);

_Static_assert(CONN_FORESIGHT <= TABLE_FORESIGHT, "the table looks as far ahead");

struct record_reader;
struct record_writer;
struct service;

/* What all services share. */
struct services {
    struct table *table;
    struct server *server;
    struct services_config config;
    int64_t started_ns;
    _Atomic bool draining; /* services_drain was called */
    /* A client may have so many locks already: more than it may get, if a process before this one
     * gave more. */
    uint32_t poolcounter_locks_room;

    /* The collector of idle counters, a chore of worker 0. */
    struct chore collector;
    struct table_walk collector_walk;
    uint32_t collected_interval; /* the interval in which the last sweep began */
    bool collecting;
    uint64_t collector_busy_ns; /* of this sweep */
    tally collections, collected, last_collection_us, collections_us;

    bool restored; /* their section was read */

    struct service *services[2]; /* in the order of the registry */
};

/* How a wait ended. */
enum waited { WAITED_GRANTED, WAITED_DONE, WAITED_TIMED_OUT, WAITED_CANCELLED, WAITED_COUNT };

/* Its word for metrics: "granted", "done", "timed_out", "cancelled". */
const char *waited_word(enum waited how);

/* No protocol has more verbs, or more ways to answer one, than these. */
#define SERVICE_VERBS    8
#define SERVICE_OUTCOMES 16

/* What one worker has counted of one protocol. */
struct service_counts {
    tally requests[SERVICE_VERBS][SERVICE_OUTCOMES]; /* answered, by verb and outcome */
    tally waiting;                                   /* clients that wait now */
    struct histogram waits[WAITED_COUNT];            /* that ended */
    struct histogram holds;                          /* of units, from their grant to their end */
} __attribute__((aligned(64)));

/*
 * Makes the table and a protocol for every row of the registry. The workers of `server` exist and
 * do not run yet. NULL: no memory.
 */
struct services *services_new(const struct services_config *config, struct server *server,
                              struct moment now) MUST_USE;
/* Frees *services, when all workers have ended and been drained, and nulls it. */
void services_free(struct services **services);

/* ---- going on in another process (base/record.h): the main thread, when no worker runs ----------
 */

/*
 * Kinds of section: what all services share, and one for each protocol.
 *
 *     SERVICES          u32 interval length in s, i64 started ns, u32 the most locks of a client,
 *                       bool collecting, u32 interval collected, u64 ns busy, the collector's walk,
 *                       u64 collections, collected, microseconds of the last and of all
 *     SERVICES_PROTOCOL bytes name; u64 connections made, errors of accept, of send; then closed
 *                       connections by reason and requests by verb and outcome: of each bytes word
 *                       (or two), u64 count, after the last a word of no bytes; u64 bytes received,
 *                       sent, requests; the histograms of answers, of waits as enum waited has
 *                       them, of holds: u8 counts, of each u64, u64 sum in ns; and its own counts
 *                       and then times: u8 how many, of each u64
 *     SERVICES_TIMES    optional: bytes name; what of its sums of times is above 64 bits, which
 *                       SERVICES_PROTOCOL has the lower half of, in the same order: u8 how many,
 *                       of each u64
 */
#define SERVICES          UINT32_C(0x0201)
#define SERVICES_PROTOCOL UINT32_C(0x0202)
#define SERVICES_TIMES    (UINT32_C(0x0203) | RECORD_OPTIONAL)

/*
 * Writes what the services and the table are, as sections STATE_TABLE, SERVICES,
 * SERVICES_PROTOCOL and SERVICES_TIMES: first of all, before connections are saved (`save` of their
 * protocols). All verdicts have been delivered.
 */
void services_save(const struct services *services, struct moment now, struct record_writer *w);

/*
 * Reads one of these sections, into services that are as services_new made them; before any
 * connection is made, as what a session needs depends on it. False: it is none of these, or can't
 * be read, and then the section has failed. Counted of connections is what has been, not what they
 * are: who makes one anew adds to `connections` alone.
 */
bool services_restore(struct services *services, struct moment now, uint32_t kind,
                      struct record_reader *section) MUST_USE;

/*
 * After all connections have been restored (`restore` of their protocols), before any is served:
 * makes sure that all has come. False: something is missing or contradicts itself, and `r` says
 * what; then nothing is left but to end the process.
 */
bool services_restore_done(struct services *services, struct record_reader *r) MUST_USE;

/*
 * From now on nobody acquires: who asks is told that the server is about to end. What is held may
 * be released, and who waits already may yet be granted. Any thread; there is no way back.
 */
void services_drain(struct services *services);

/* The protocol of that name: "poolcounter" or "counter". */
struct protocol *services_protocol(struct services *services, const char *name);

/* ---- what has been counted: sums over all workers; any thread ---- */

struct service;

/* The services in the order of the registry, `i` below their number. */
unsigned services_count(const struct services *services);
const struct service *services_at(const struct services *services, unsigned i);

/* How many requests of verb number `verb` had outcome number `outcome` (see struct service_row). */
uint64_t service_requests(const struct service *service, unsigned verb, unsigned outcome);
/* How many clients wait now. */
uint64_t service_waiting(const struct service *service);
/* How long waits took that ended so, how long units were held, how long answers took. */
void service_waits(const struct service *service, enum waited how, struct histogram_sum *sum_r);
void service_holds(const struct service *service, struct histogram_sum *sum_r);
void service_answers(const struct service *service, struct histogram_sum *sum_r);
/* Bytes of requests received and of answers sent. */
uint64_t service_received(const struct service *service);
uint64_t service_sent(const struct service *service);

/* The holder of a connection: the beginning of its session. In its worker's thread. */
struct holder *service_holder(struct conn *conn);

/* ---- what the services' own files share ---- */

/* A protocol and what its service adds. */
struct service {
    struct protocol protocol;
    struct services *services;
    const struct service_row *row;
    struct service_counts *counts; /* an element for each worker */
    void *own;                     /* the same, of what only this service has; or NULL */
    /* A verdict has come for this connection's waiter. Not to be freed here. NULL: never waits. */
    void (*verdict)(struct conn *conn, struct waiter *waiter);
};

/* A row of the registry. The session of each of its connections begins with a struct holder. */
struct service_row {
    const char *verbs[SERVICE_VERBS];       /* their words for metrics; NULL after the last */
    const char *outcomes[SERVICE_OUTCOMES]; /* the same */
    size_t own_size; /* of one worker's: a multiple of a cache line, so that none is shared */
    /* Number `i` of the counts, or of the sums of times, in one worker's own, in the order in which
     * they are saved; NULL: there are no more. NULL: there are none at all. */
    tally *(*own_tally)(void *own, unsigned i);
    struct duration_sum *(*own_time)(void *own, unsigned i);
    /* The size of a session, with this poolcounter_locks_room. */
    size_t (*session_size)(const struct services *services);
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

/* Whether acquiring is over. */
static inline bool service_is_draining(const struct conn *conn)
{
    return atomic_load_explicit(&service_of(conn)->services->draining, memory_order_relaxed);
}

static inline struct moment service_now(const struct conn *conn)
{
    return worker_now(conn_worker(conn));
}

/* What this connection's worker counts of its protocol. */
static inline struct service_counts *service_counts(const struct conn *conn)
{
    return &service_of(conn)->counts[worker_number(conn_worker(conn))];
}

/* Counts a request that was answered: by the numbers of its verb and outcome in the row. */
static inline void service_count(const struct conn *conn, unsigned verb, unsigned outcome)
{
    tally_add(&service_counts(conn)->requests[verb][outcome], 1);
}

/* Opens the holder of a connection. */
void service_open_holder(struct conn *conn, struct holder *holder);

/*
 * Closes it: all that the connection has goes back, and whoever waited for it is told. How long it
 * held each name is added to `holds`; NULL: the service measures that itself.
 */
void service_close_holder(struct conn *conn, struct holder *holder, struct histogram *holds);

/* Sends verdicts to the connections they are for, in order. */
void service_deliver(struct worker *from, verdicts *out);

#endif
