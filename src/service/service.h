/*
 * service.h - the services: one file for each protocol, and what they share.
 *
 * A service is the only bridge between a protocol's codec, the resources and the connections: it
 * takes one parsed request, asks a resource, and replies. What there is, is listed in one place,
 * the registry (registry.c); a test may link another.
 *
 * Threads: services_new and services_free in the main thread, when no worker runs; all else in the
 * thread of the connection's worker, but for what says otherwise.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include "base/histogram.h"
#include "base/tally.h"
#include "engine/table.h"
#include "net/conn.h"
#include "net/worker.h"
#include "service/resource.h"

struct asked;
struct record_reader;
struct record_writer;
struct service;
struct service_row;

/* ---- the registry -------------------------------------------------------------------------- */

struct registry {
    const struct service_row *const *protocols;  /* NULL after the last */
    const struct resource_row *const *resources; /* the same; started in order, ended in reverse */
};
extern const struct registry registry;

/* Most protocols and most resources. */
#define SERVICES_MAX 16

/* ---- all services --------------------------------------------------------------------------- */

/* The settings of one protocol or resource. */
struct part_config {
    const char *name;         /* of its row */
    const void *own;          /* its own settings, as its file declares them; may be NULL */
    uint32_t max_connections; /* of a protocol; 0: no limit */
};

struct services_config {
    const struct part_config *parts; /* what is not listed gets no settings */
    size_t count;
    struct hash_key hash_key; /* random, for everything that hashes what clients name */
};

struct services {
    struct server *server;
    struct table *table; /* of the resource "table" */
    int64_t started_ns;
    struct hash_key hash_key;
    _Atomic bool draining;
    bool restored; /* their section was read */
    /* Sessions that have room for a number of things have it for at least so many: more than their
     * settings say, if a process before this one gave more. */
    uint32_t session_room;

    unsigned service_count, resource_count;
    struct service *services[SERVICES_MAX]; /* in the order of the registry */
    struct resource *resources[SERVICES_MAX];
};

/*
 * Makes all resources and services of the registry. The workers of `server` exist and do not run
 * yet. NULL: errno, and nothing is left.
 */
struct services *services_new(const struct services_config *config, struct server *server,
                              struct moment now) MUST_USE;
/* Frees *services, when all workers have ended and been drained, and nulls it. */
void services_free(struct services **services);

/* The workers run: starts the threads of resources. False: errno. */
bool services_run(struct services *services) MUST_USE;

/*
 * For an upgrade, when the workers are parked, and at the end: parks the resources, then delivers
 * letters both ways until there are none. False: one resource took longer than until `until_ns`
 * (monotonic); those parked before it run again.
 */
bool services_park(struct services *services, int64_t until_ns) MUST_USE;
/* Has the resources go on. False: errno. */
bool services_unpark(struct services *services) MUST_USE;

/*
 * `on`: from now on nothing is handed out, and requests for it are told that the server is about to
 * end; what is held may be released, and waiting clients may still get it. Not `on`: takes that
 * back. Any thread.
 */
void services_drain(struct services *services, bool on);
/* How much is held, of all resources. Any thread. */
uint64_t services_held(const struct services *services, struct moment now);

/* The protocol of that name; NULL: there is none. */
struct protocol *services_protocol(struct services *services, const char *name);
/* The resource of that name; NULL: there is none, or it was not started yet. */
struct resource *services_resource(const struct services *services, const char *name);

/* ---- going on in another process (base/record.md): the main thread, when no worker runs -------
 */

/*
 * Kinds of section: what all services share, and some for each protocol.
 *
 *     SERVICES_V1       of version 1: what SERVICES and the table's collector have now
 *                       (table_resource.c)
 *     SERVICES          i64 started ns, u32 the room that sessions have
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
#define SERVICES_V1       UINT32_C(0x0201)
#define SERVICES_PROTOCOL UINT32_C(0x0202)
#define SERVICES_TIMES    (UINT32_C(0x0203) | RECORD_OPTIONAL)
#define SERVICES          UINT32_C(0x0204)

/*
 * Writes what the resources and the services are: first of all, before connections are saved
 * (`save` of their protocols). All letters have been delivered.
 */
void services_save(const struct services *services, struct moment now, struct record_writer *w);

/*
 * Reads one of these sections, into services that are as services_new made them; before any
 * connection is made, as what a session needs depends on it. False: it is none of these, or can't
 * be read, and then the section has failed. Counts of connections are those of the past: a
 * connection that is made anew adds to `connections` alone.
 */
bool services_restore(struct services *services, struct moment now, uint32_t kind,
                      struct record_reader *section) MUST_USE;

/* Sets what a section of the services says. False: `r` has failed. */
bool services_restore_shared(struct services *services, struct moment now, int64_t started_ns,
                             uint32_t session_room, struct record_reader *r) MUST_USE;

/*
 * After all connections have been restored (`restore` of their protocols), before any is served:
 * makes sure that all has come. False: something is missing or contradicts itself, and `r` says
 * what; then nothing is left but to end the process.
 */
bool services_restore_done(struct services *services, struct record_reader *r) MUST_USE;

/* ---- one service ----------------------------------------------------------------------------- */

/* How a wait ended. */
enum waited { WAITED_GRANTED, WAITED_DONE, WAITED_TIMED_OUT, WAITED_CANCELLED, WAITED_COUNT };

/* Its word for metrics: "granted", "done", "timed_out", "cancelled". */
const char *waited_word(enum waited how);

/* What one worker has counted of one protocol. */
struct service_counts {
    tally waiting;                        /* clients that wait now */
    struct histogram waits[WAITED_COUNT]; /* that ended */
    struct histogram holds;               /* of units, from their grant to their end */
    tally requests[];                     /* answered: of each verb, by outcome */
};

/* A protocol and what its service adds. */
struct service {
    struct protocol protocol;
    const struct service_row *row;
    struct services *services;
    struct table *table;      /* services->table: one step less for each request */
    const void *settings;     /* its own (struct part_config); outlives it */
    unsigned verbs, outcomes; /* how many the row has */
    size_t counts_size;       /* bytes of one worker's counts, a multiple of a cache line */
    unsigned char *counts;    /* struct service_counts, for each worker */
    void *own;                /* the same, of what only this service has; or NULL */
};

/* What an answer means for what was asked for, whatever its word. */
enum meaning { MEANS_OTHER, MEANS_GRANTED, MEANS_REFUSED, MEANS_TIMED_OUT, MEANS_COUNT };

/* A row of the registry. */
struct service_row {
    struct protocol_row protocol; /* constants of the protocol (net/protocol.h) */
    const char *const *verbs;     /* their words for metrics; NULL after the last */
    const char *const *outcomes;  /* the same */
    /* What an outcome of a verb means: MEANS_TIMED_OUT also where the wait was for no time. NULL:
     * MEANS_OTHER for all. */
    enum meaning (*meaning)(unsigned verb, unsigned outcome);
    size_t own_size; /* of one worker's: a multiple of a cache line, so that none is shared */
    /* Number `i` of the counts, or of the sums of times, in one worker's own, in the order in which
     * they are saved; NULL: there are no more. NULL: there are none at all. */
    tally *(*own_tally)(void *own, unsigned i);
    struct duration_sum *(*own_time)(void *own, unsigned i);
    size_t session_size, request_max; /* see struct protocol */
    /* Sets them in the live protocol, from the settings and services->session_room: at the start,
     * and again when that grows. NULL: they are always what stands above. */
    void (*fit)(struct service *service);
    /* The holder of a connection in the counter table; NULL: its clients hold nothing there. */
    struct holder *(*holder)(struct conn *conn);
    /* The table's verdict on a wait of this connection has come: takes note of it. Does not free
     * the waiter. NULL: its clients never wait there. */
    void (*verdict)(struct conn *conn, struct waiter *waiter);
    /* Requests that the thread of a resource answers (asked.h): the name of the resource, what is
     * called there with each, and what replies when it has come back. NULL: it has none. */
    const char *asks;
    void (*asked)(struct resource *r, struct asked *asked);
    void (*answer)(struct conn *conn, const struct asked *asked);
    /* What the admin interface shows of it beyond what all have; NULL: nothing. */
    const struct admin_part *seen;
};

/* The services in the order of the registry, `i` below their number. Any thread. */
unsigned services_count(const struct services *services);
struct service *services_at(const struct services *services, unsigned i);
/* Its name. Any thread. */
static inline const char *service_name(const struct service *service)
{
    return service->row->protocol.name;
}

/* ---- what has been counted: sums over all workers; any thread ---- */

/* How many requests of verb number `verb` had outcome number `outcome` (see struct service_row). */
uint64_t service_requests(const struct service *service, unsigned verb, unsigned outcome);
/* How many requests were answered, of all verbs and outcomes. */
uint64_t service_answered(const struct service *service);
/* How many clients wait now. */
uint64_t service_waiting(const struct service *service);
/* How long waits took that ended so, how long units were held, how long answers took. */
void service_waits(const struct service *service, enum waited how, struct histogram_sum *sum_r);
void service_holds(const struct service *service, struct histogram_sum *sum_r);
void service_answers(const struct service *service, struct histogram_sum *sum_r);
/* Bytes of requests received and of answers sent. */
uint64_t service_received(const struct service *service);
uint64_t service_sent(const struct service *service);

/* The holder of a connection that is being served; NULL: it has none. In its worker's thread. */
struct holder *service_holder(struct conn *conn);

/* ---- what the services' own files share: in the worker's thread ---- */

/* The service, the table, the clock of a connection. */
static inline struct service *service_of(const struct conn *conn)
{
    return conn_protocol(conn)->service;
}

static inline struct table *service_table(const struct conn *conn)
{
    return service_of(conn)->table;
}

/* True: nothing is handed out any more. */
static inline bool service_is_draining(const struct conn *conn)
{
    return atomic_load_explicit(&service_of(conn)->services->draining, memory_order_relaxed);
}

static inline struct moment service_now(const struct conn *conn)
{
    return worker_now(conn_worker(conn));
}

/* What one worker counts of a service. */
static inline struct service_counts *service_counts_of(const struct service *service,
                                                       unsigned worker)
{
    return (struct service_counts *)(void *)(service->counts + worker * service->counts_size);
}

/* What this connection's worker counts of its protocol. */
static inline struct service_counts *service_counts(const struct conn *conn)
{
    return service_counts_of(service_of(conn), worker_number(conn_worker(conn)));
}

/* Counts a request that was answered: by the numbers of its verb and outcome in the row. */
static inline void service_count(const struct conn *conn, unsigned verb, unsigned outcome)
{
    tally_add(&service_counts(conn)->requests[verb * service_of(conn)->outcomes + outcome], 1);
}

/* Sets the sizes of the live protocol (`fit`). In the main thread, before there are connections. */
void service_fit(struct service *service);

/* Opens the holder of a connection in the table. */
void service_open_holder(struct conn *conn, struct holder *holder);

/*
 * Closes it: all that the connection has goes back, and whoever waited for it is told. How long it
 * held each name is added to `holds`; NULL: the service measures that itself.
 */
void service_close_holder(struct conn *conn, struct holder *holder, struct histogram *holds);

/* `describe` of a protocol whose connections have holders. */
void service_describe(struct conn *conn, struct conn_info *info);

/* Sends verdicts of the table to the connections that they are for, in order: the rows' `verdict`
 * takes them. */
void service_deliver(struct worker *from, verdicts *out);

#endif
