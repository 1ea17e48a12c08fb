/*
 * service.h - services, one for each protocol, and their shared parts.
 *
 * A service connects a protocol's codec, the resources and the connections: it takes one parsed
 * request, asks a resource, and replies. The registry (registry.c) lists all protocols and
 * resources; a test may link another one.
 *
 * Threads: services_new and services_free in the main thread, while no worker runs. All other
 * functions in the thread of the connection's worker, except where said otherwise.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include "base/histogram.h"
#include "base/tally.h"
#include "engine/table.h"
#include "net/conn.h"
#include "net/worker.h"
#include "service/resource.h"

struct arbiter_answer;
struct record_reader;
struct record_writer;
struct service;
struct service_row;

/* ---- the registry ---------------------------------------------------------------------------- */

struct registry {
    const struct service_row *const *protocols;  /* NULL after the last */
    const struct resource_row *const *resources; /* the same; started in order, ended in reverse */
};
extern const struct registry registry;

/* Maximum number of protocols, and of resources. */
#define SERVICES_MAX 16

/* ---- all services ---------------------------------------------------------------------------- */

/* The settings of one protocol or resource. */
struct part_config {
    const char *name; /* the name in its row */
    const void *own;  /* its own settings, in a struct that its file declares; may be NULL */
    uint32_t max_connections; /* for a protocol; 0: no limit */
};

struct services_config {
    const struct part_config *parts; /* a part that is not listed has no settings */
    size_t count;
    struct hash_key hash_key; /* random; for all hashes of names that clients choose */
    uint16_t port;            /* the first one that serves a protocol; 0: none */
};

struct services {
    struct server *server;
    struct table *table;    /* made by the resource "table" */
    struct resource *pools; /* the resource "pools"; NULL: there is none */
    struct resource *tubes; /* the resource "tubes"; NULL: there is none */
    /* The resource "cluster"; NULL: there is none, or no name is shared with other nodes. */
    struct resource *cluster;
    uint16_t port; /* of the configuration */
    int64_t started_ns;
    struct hash_key hash_key;
    _Atomic bool draining;
    bool restored;       /* a section with the shared state was read */
    const char *refusal; /* why a resource does not pause for an upgrade; NULL: time was over */
    /* Sessions have room for at least this many things (locks). It is more than the settings allow
     * if an earlier process allowed more. */
    uint32_t session_room;

    unsigned service_count, resource_count;
    struct service *services[SERVICES_MAX]; /* in the registry's order */
    struct resource *resources[SERVICES_MAX];
};

/* Makes all resources and services of the registry. The workers of `server` must exist and must not
 * run yet. Returns NULL with errno; nothing needs to be freed then. */
struct services *services_new(const struct services_config *config, struct server *server,
                              struct moment now) MUST_USE;
/* Frees *services and sets it to NULL, after all workers have ended and been drained. */
void services_free(struct services **services);

/* Opens the files of resources (`open` in resource.h), after rights were dropped. Returns false
 * when that fails, which is logged. */
bool services_open(struct services *services, struct moment now) MUST_USE;
/* Makes the threads of resources, which sleep. Returns false with errno. */
bool services_prepare(struct services *services) MUST_USE;

/* Before an upgrade: `may_pause` of all resources (resource.h). */
bool services_may_pause(const struct services *services, int64_t since_ns, int64_t now_ns);
/* While the workers are paused: the earliest `serve_by` of all. *what_r is NULL if there is none.
 */
int64_t services_serve_by(const struct services *services, const char **what_r);

/*
 * Pauses the resources, then delivers all mail between them and the workers. Used for an upgrade
 * and for shutdown, while the workers are paused. Returns false when a resource is not paused at
 * `until_ns` (monotonic), or refuses to (`refusal`); those paused before it run again.
 */
bool services_pause(struct services *services, int64_t until_ns) MUST_USE;
/* Has the threads of resources run, for the first time or after services_pause. The workers must
 * run, or run next. */
void services_resume(struct services *services);

/*
 * `on`: hands out nothing new from now on; requests for it get the answer that the server is
 * shutting down. Clients can still release, and a waiting client can still get what another one
 * releases. Not `on`: goes back to normal. Any thread.
 */
void services_drain(struct services *services, bool on);
/* The sum of `held` of all resources. Any thread. */
uint64_t services_held(const struct services *services, struct moment now);

/* The protocol with this name; NULL: none. */
struct protocol *services_protocol(struct services *services, const char *name);
/* The resource with this name; NULL: none, or not started yet. */
struct resource *services_resource(const struct services *services, const char *name);

/* ---- upgrades (base/record.md): in the main thread, while no worker runs --------------------- */

/*
 * Kinds of section: one for the shared state, some for each protocol.
 *
 *     SERVICES_V1       version 1: now SERVICES and TABLE_COLLECTOR (table_resource.c)
 *     SERVICES          i64 start time in ns, u32 session_room
 *     SERVICES_PROTOCOL bytes name; u64 connections made, u64 accept errors, u64 send errors;
 *                       then closed connections by reason: bytes word, u64 count, for each;
 *                       bytes "" at the end; then requests: bytes verb, bytes outcome, u64 count,
 *                       for each; bytes "" at the end; u64 bytes received, u64 bytes sent,
 *                       u64 requests; then histograms of answers, of waits (u8 number of them, in
 *                       the order of enum waited) and of holds: u8 number of counts, u64 for each
 *                       count, u64 sum in ns; then the service's own: u8 number, u64 for each
 *                       tally and then for each sum of times
 *     SERVICES_CLASSES  optional: bytes name; u8 number of histograms, in the same order;
 *                       for each: u64 longest time in ns, u16 number of classes that are not
 *                       empty, and for each of them u16 class, u64 count (histogram.h);
 *                       then u64 `busy`, which a reader without this section derives
 *     SERVICES_TIMES    optional: bytes name; u8 number, then u64 for each sum of times: its
 *                       upper 64 bits. SERVICES_PROTOCOL has the lower 64 bits, in the same
 *                       order
 */
#define SERVICES_V1       UINT32_C(0x0201)
#define SERVICES_PROTOCOL UINT32_C(0x0202)
#define SERVICES_TIMES    (UINT32_C(0x0203) | RECORD_OPTIONAL)
#define SERVICES          UINT32_C(0x0204)
#define SERVICES_CLASSES  (UINT32_C(0x0205) | RECORD_OPTIONAL)

/* Writes the state of the resources and services. Call it before connections are saved (`save` of
 * their protocols), and after all mail was delivered. */
void services_save(const struct services *services, struct moment now, struct record_writer *w);

/*
 * Reads one of these sections into new services (services_new). Call it before any connection is
 * made, because the size of a session depends on it. Returns false when the kind is another one, or
 * when the section has failed. The restored counters include the old connections, so a restored
 * connection adds to `connections` only.
 */
bool services_restore(struct services *services, struct moment now, uint32_t kind,
                      struct record_reader *section) MUST_USE;

/* Sets the shared state from a section. Returns false when `r` has failed. */
bool services_restore_shared(struct services *services, struct moment now, int64_t started_ns,
                             uint32_t session_room, struct record_reader *r) MUST_USE;

/*
 * Checks that everything was restored. Call it after all connections were restored (`restore` of
 * their protocols) and before any is served. Returns false when something is missing or contradicts
 * itself; `r` has the reason, and the caller must end the process.
 */
bool services_restore_done(struct services *services, struct record_reader *r) MUST_USE;

/* ---- one service ----------------------------------------------------------------------------- */

/* The ways in which a wait can end. */
enum waited { WAITED_GRANTED, WAITED_DONE, WAITED_TIMED_OUT, WAITED_CANCELLED, WAITED_COUNT };

/* The word for metrics: "granted", "done", "timed_out", "cancelled". */
const char *waited_word(enum waited how);

/* Counters of one worker for one protocol. */
struct service_counts {
    tally waiting;                        /* clients that are waiting now */
    tally busy;                           /* requests refused at once with MEANS_TIMED_OUT */
    struct histogram waits[WAITED_COUNT]; /* times of waits that have ended */
    struct histogram holds;               /* how long units were held */
    tally requests[];                     /* answered requests: for each verb, by outcome */
};

/* A protocol with the data of its service. */
struct service {
    struct protocol protocol;
    const struct service_row *row;
    struct protocol_row protocol_row; /* that of the row, as arbiter_fit changes it */
    bool shares;                      /* nodes share names of it */
    struct services *services;
    struct table *table;      /* services->table; saves one load in each request */
    const void *settings;     /* its own (struct part_config); they must outlive the service */
    unsigned verbs, outcomes; /* numbers of words in the row */
    size_t counts_size;       /* bytes of one worker's counters, a multiple of a cache line */
    unsigned char *counts;    /* struct service_counts, one for each worker */
    void *own;                /* counters of this service only, one for each worker; NULL: none */
    bool stopped;             /* what it needs could not be opened: its listeners are closed */
};

/* The result that an answer stands for, independent of its word. */
enum meaning { MEANS_OTHER, MEANS_GRANTED, MEANS_REFUSED, MEANS_TIMED_OUT, MEANS_COUNT };

/* A row of the registry. */
struct service_row {
    struct protocol_row protocol; /* the constants of the protocol (net/protocol.h) */
    const char *const *verbs;     /* words for metrics, NULL after the last */
    const char *const *outcomes;  /* the same */
    /* The meaning of an outcome of a verb. MEANS_TIMED_OUT also covers a wait with a timeout of 0,
     * which the service counts as `busy`. NULL: MEANS_OTHER for all. */
    enum meaning (*meaning)(unsigned verb, unsigned outcome);
    /* One worker's `own`: so many tallies, then, at `own_times_at`, so many sums of times, in the
     * order of the record. Its size is a multiple of a cache line, so that none is shared. */
    size_t own_size, own_times_at;
    unsigned own_tallies, own_times;
    size_t session_size, request_max; /* see struct protocol */
    /* Sets both in the live protocol from the settings and services->session_room. Called at the
     * start, and again when session_room grows. NULL: they are always as above. */
    void (*fit)(struct service *service);
    /* A session begins with the holder of its connection in the counter table. Else its clients
     * hold nothing there. */
    bool holds;
    /* Applies the table's result on a wait of this connection. Must not free the waiter. NULL: its
     * clients never wait there. */
    void (*result)(struct conn *conn, struct waiter *waiter);
    /* What the admin interface shows of it beyond what all have (monitor.h); NULL: nothing. */
    const struct monitor *monitor;
    /* Where in a session the wait is (wait.h). 0: its clients never wait so. */
    size_t wait_at;
    /* What the service was not told at once about a request or a wait (arbiter.h). With it, its
     * names may be shared with other nodes. NULL: it does not use that. */
    void (*answered)(struct conn *conn, const struct arbiter_answer *answer);
};

/* The number of services, and service number `i` in the registry's order. Any thread. */
unsigned services_count(const struct services *services);
struct service *services_at(const struct services *services, unsigned i);
/* The service's name. Any thread. */
static inline const char *service_name(const struct service *service)
{
    return service->row->protocol.name;
}

/* ---- counters: sums over all workers; any thread --------------------------------------------- */

/* The number of requests with this verb and outcome (numbers as in struct service_row). */
uint64_t service_requests(const struct service *service, unsigned verb, unsigned outcome);
/* The number of requests with outcomes that mean this. */
uint64_t service_meaning(const struct service *service, enum meaning meaning);
/* The number of answered requests. */
uint64_t service_answered(const struct service *service);
/* The number of requests that were refused at once with MEANS_TIMED_OUT. */
uint64_t service_busy(const struct service *service);
/* The number of requests that were refused at once, for want of a free unit, of a place in the
 * queue or of room for a job: the only definition of "refused" for people. */
uint64_t service_refused(const struct service *service);
/* The number of clients that are waiting now. */
uint64_t service_waiting(const struct service *service);
/* Times: how long waits took that ended in this way, and how long units were held. */
void service_waits(const struct service *service, enum waited how, struct buckets_sum *sum_r);
void service_holds(const struct service *service, struct buckets_sum *sum_r);

/* The own tally, and the own sum of times, number `i` of one worker. */
static inline tally *service_own_tally(const struct service *service, unsigned worker, unsigned i)
{
    CHECK(i < service->row->own_tallies);
    return (tally *)((char *)service->own + worker * service->row->own_size) + i;
}

static inline struct duration_sum *service_own_time(const struct service *service, unsigned worker,
                                                    unsigned i)
{
    size_t at = worker * service->row->own_size + service->row->own_times_at;
    CHECK(i < service->row->own_times);
    return (struct duration_sum *)(void *)((char *)service->own + at) + i;
}

/* The histograms of these times, in the order of the record. */
enum service_times {
    SERVICE_ANSWERS,
    SERVICE_WAITS, /* one for each enum waited */
    SERVICE_HOLDS = SERVICE_WAITS + WAITED_COUNT,
    SERVICE_TIMES
};
/* That of one worker; and the sums over all. */
struct histogram *service_histogram(const struct service *service, unsigned worker, unsigned i);
void service_times(const struct service *service, unsigned i, struct histogram_sum *sum_r);
void service_buckets(const struct service *service, unsigned i, struct buckets_sum *sum_r);
/* Bytes of requests received, and of answers sent. */
uint64_t service_received(const struct service *service);
uint64_t service_sent(const struct service *service);

/* The holder of a connection that is being served; NULL: none. In its worker's thread. */
struct holder *service_holder(struct conn *conn);
/*
 * True when such a connection has units of `name`, with its holder or its second one
 * (CONN_ID_SECOND). Fills *hold_r: units of both together, the older time; the limit and the id of
 * the first that has units. In its worker's thread.
 */
bool service_holds_name(struct conn *conn, struct bytes name, struct moment now,
                        struct table_hold *hold_r) MUST_USE;

/* ---- shared by the services' files: in the worker's thread ----------------------------------- */

/* The service, table and clock of a connection. */
static inline struct service *service_of(const struct conn *conn)
{
    return conn_protocol(conn)->service;
}

static inline struct table *service_table(const struct conn *conn)
{
    return service_of(conn)->table;
}

/* True when nothing new may be handed out. */
static inline bool service_is_draining(const struct conn *conn)
{
    return atomic_load_explicit(&service_of(conn)->services->draining, memory_order_relaxed);
}

static inline struct moment service_now(const struct conn *conn)
{
    return worker_now(conn_worker(conn));
}

/* One worker's counters for a service. */
static inline struct service_counts *service_counts_of(const struct service *service,
                                                       unsigned worker)
{
    return (struct service_counts *)(void *)(service->counts + worker * service->counts_size);
}

/* The counters of this connection's worker for its protocol. */
static inline struct service_counts *service_counts(const struct conn *conn)
{
    return service_counts_of(service_of(conn), worker_number(conn_worker(conn)));
}

/* Counts an answered request. `verb` and `outcome` are numbers in the row. */
static inline void service_count(const struct conn *conn, unsigned verb, unsigned outcome)
{
    tally_add(&service_counts(conn)->requests[verb * service_of(conn)->outcomes + outcome], 1);
}

/* Sets the sizes of the live protocol (`fit`). In the main thread, before there are connections. */
void service_fit(struct service *service);

/* Opens the holder of a connection whose row has one; also `open` of such rows. */
void service_open_holder(struct conn *conn);

/*
 * Closes the holder: gives back everything that the connection holds, and notifies clients that
 * waited for it. Adds to `holds` how long each name was held; NULL: the service measures that
 * itself.
 */
void service_close_holder(struct conn *conn, struct holder *holder, struct histogram *holds);
/* The same for `give_back` (net/protocol.h): up to `max` names. Returns false when there is more.
 */
bool service_close_some(struct conn *conn, struct holder *holder, unsigned max,
                        struct histogram *holds) MUST_USE;

/* The `describe` of protocols whose connections have holders. */
void service_describe(struct conn *conn, struct conn_info *info);

/* Sends messages to connections, which `deliver` gets. `from`: the worker whose thread this is;
 * NULL: another thread, which is no reactor's: only those ring at once. */
void service_send(struct worker *from, const struct services *services, struct mail_list *messages,
                  void (*deliver)(struct mail *mail, void *worker));

/* The same with the table's results, in order. The row's `result` is called for each. */
void service_deliver(struct worker *from, const struct services *services, results *out);

#endif
