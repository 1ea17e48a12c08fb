/*
 * worker.h - a worker: a reactor that serves connections.
 *
 * Threads: a worker's connections, deadlines and buffers belong to its thread. Other threads send
 * messages to its mailbox. The workers of a server know each other through struct server; its list
 * does not change while they run.
 */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include "net/conn.h"
#include "net/reactor.h"
#include "net/snapshot.h"
#include "net/sources.h"

struct worker;

/* The workers of one process, and their shared state. Zero-initialise it, then call
 * server_set_snapshot. */
struct server {
    struct snapshot *snapshot;   /* the newest, for the main thread; workers have their own */
    struct sources sources;      /* has its own lock */
    _Atomic uint32_t handshakes; /* TLS handshakes in progress, of all workers */
    _Atomic uint64_t unfinished; /* bytes that unfinished requests claim (claims.c) */
    _Atomic bool ending;         /* server_end was called */
    bool restores;               /* what restored connections claim has no limit */
    int64_t busy_poll_ns;        /* for all workers' loops; set it before making workers */
    sandbox_fn *sandbox;         /* called first in each thread; NULL: none */
    unsigned count;
    struct worker *workers[WORKERS_MAX];
};

/* ---- all workers ----------------------------------------------------------------------------- */

/*
 * Replaces the server's rules by `rules`, which now belong to the server. In the main thread. The
 * first rules must be set before any worker is made; others may be set at any time until the
 * workers are drained.
 */
void server_set_snapshot(struct server *server, struct snapshot *snapshot);
/* Releases the server's rules while no worker runs. Harmless when there are none. */
void server_free_snapshot(struct server *server);

/*
 * Returns when every worker has finished the iteration in which it was at the call. All workers
 * must run. Never call it in a worker's thread.
 */
void server_barrier(struct server *server);

/* The state of server_catch_up. Zero-initialise it. */
struct catch_up {
    unsigned rounds; /* number of rounds started */
};

/*
 * Returns true when the workers have done everything that had arrived on open connections when this
 * was first called with `catch_up`: they have served those requests, delivered all mail sent before
 * or caused by them, have no pending answer, and have written the answers until done or until a
 * socket was full. Returns false otherwise; call it again a moment later. Restrictions as
 * server_barrier; one thread at a time.
 *
 * It does not wait for clients that do not read their answers, for incomplete requests, for TLS
 * handshakes, or for later requests. Only a client that sends faster than it is served can delay
 * it.
 */
bool server_catch_up(struct server *server, struct catch_up *catch_up) MUST_USE;

/*
 * Call this before stopping the workers. From then on open connections are sent nothing more.
 * Closing connections frees locks, and no client may be granted a lock that it would lose at once.
 * Any thread.
 */
void server_end(struct server *server);
/* True after server_end. Any thread. */
static inline bool server_is_ending(const struct server *server)
{
    return atomic_load_explicit(&server->ending, memory_order_relaxed);
}

/* ---- one worker ------------------------------------------------------------------------------ */

/* Makes worker `number` of `server`, which must have rules. It does not run yet. Returns NULL with
 * errno. */
struct worker *worker_new(struct server *server, unsigned number) MUST_USE;
/* Frees *worker and sets it to NULL. It must not run and must have no connections. */
void worker_free(struct worker **worker);

/* Makes the thread, which sleeps until reactor_resume, with all signals blocked. Returns false with
 * errno. */
bool worker_prepare(struct worker *worker) MUST_USE;
/* Makes the worker close all its connections and end. Any thread. */
void worker_stop(struct worker *worker);
/* Delivers the remaining mail; opens no more connections. Call it for each worker when none runs,
 * also for one that did not start, and again when messages may have come since. */
void worker_drain(struct worker *worker);

/* Runs `fn` in the worker's thread and waits until it returns (reactor_ask). */
void worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg), void *arg);

/*
 * Opens a connection on `stream`, which it takes over. In the worker's thread. A TLS connection
 * starts with its handshake. Returns false when there is no memory, when there are too many
 * handshakes, or when the worker is ending; the stream is then closed and the failure counted. The
 * caller has already counted the connection in `protocol->connections` and got `source` from
 * source_enter (0: not counted); both counts end with the connection.
 */
bool worker_open(struct worker *worker, struct protocol *protocol, struct stream stream,
                 uint32_t source);

/* The number of slots; they are numbered from 0. In the worker's thread. */
uint32_t worker_slots(const struct worker *worker);
/* The connection in a slot, in any state except closed; NULL: none. In the worker's thread. */
struct conn *worker_conn_at(struct worker *worker, uint32_t slot);

/* The first fields of struct worker, so that the next functions can be inline. */
#define WORKER_HEAD                                                                                \
    struct reactor reactor; /* first: the reader of mail is the reactor */                         \
    struct server *server;                                                                         \
    unsigned number
struct worker_head {
    WORKER_HEAD;
};

/* The worker's reactor, for its thread, timers, hooks and messages, whose `deliver` gets the
 * worker.
 */
static inline struct reactor *worker_reactor(struct worker *worker)
{
    return &((struct worker_head *)(void *)worker)->reactor;
}

static inline unsigned worker_number(const struct worker *worker)
{
    return ((const struct worker_head *)(const void *)worker)->number;
}

static inline struct server *worker_server(const struct worker *worker)
{
    return ((const struct worker_head *)(const void *)worker)->server;
}

/* The time, on both clocks, at which this iteration began. In the worker's thread. */
static inline struct moment worker_now(const struct worker *worker)
{
    return ((const struct worker_head *)(const void *)worker)->reactor.now;
}

/* The number of its connections, including those on their way to it. Any thread. */
uint32_t worker_connections(const struct worker *worker);
/* Counts a connection on its way to `worker` (1), or its arrival (-1). Any thread. */
void worker_expect(struct worker *worker, int more);

/* worker_busy_ns: the time spent working, without waiting. worker_cpu_ns: the CPU time of its
 * thread, 0 when it does not run. Both in nanoseconds. Any thread. */
uint64_t worker_busy_ns(const struct worker *worker);
uint64_t worker_cpu_ns(const struct worker *worker);

/*
 * The size of the scratch memory. Code in the worker's thread may use the scratch until it returns.
 */
#define WORKER_SCRATCH ((size_t)128 * 1024)
void *worker_scratch(struct worker *worker);

/*
 * Called at the start and end of every iteration. worker_begin_iteration reads the clock.
 * worker_end_iteration writes answers, frees closed connections, sets the timer, and returns the
 * monotonic time.
 */
void worker_begin_iteration(struct worker *worker);
int64_t worker_end_iteration(struct worker *worker);

/* Calls `freed` once, when this worker next closes a connection and so frees a descriptor. Only one
 * caller at a time. NULL cancels. In the worker's thread. */
void worker_await_fd(struct worker *worker, void (*freed)(void *arg), void *arg);

#endif
