/*
 * worker.h - a reactor that serves connections: a loop, a mailbox, deadlines, connections by slot.
 *
 * Threads: a worker's connections, deadlines and buffers belong to its thread. Other threads send
 * letters to its mailbox. Workers of one server know each other through struct server, whose list
 * does not change while they run.
 */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include "net/conn.h"
#include "net/reactor.h"
#include "net/rules.h"
#include "net/sources.h"

#define WORKERS_MAX 256

struct worker;

/* The workers of one process, and what they share. Zero-initialised; then server_set_rules. */
struct server {
    struct rules *rules;         /* the newest; the main thread's: workers have their own */
    struct sources sources;      /* locked */
    _Atomic uint32_t handshakes; /* under way, of all workers */
    _Atomic uint64_t unfinished; /* bytes of unfinished requests, of all connections */
    _Atomic bool ending;         /* server_end was called */
    int64_t busy_poll_ns;        /* of all workers' loops; set before they are made */
    confine_fn *confine;         /* what each thread calls first; NULL: nothing */
    unsigned count;
    struct worker *workers[WORKERS_MAX];
};

/* ---- all workers --------------------------------------------------------------------------- */

/*
 * Runs `fn` in each worker's thread, one after the other, and waits for each: when it returns,
 * every worker has finished the iteration in which it was when this was called. The workers run.
 * Never from a worker's thread.
 */
void server_ask(struct server *server, void (*fn)(struct worker *worker, void *arg), void *arg);
/* The same with nothing to do. */
void server_barrier(struct server *server);

/* How far a server has come in catching up. Zero-initialised. */
struct catch_up {
    unsigned rounds; /* begun */
};

/*
 * True when the workers have answered all requests that had arrived on open connections when this
 * was first called with `catch_up`, have delivered all letters sent until then or because of these
 * requests, have no answer pending, and have written the answers, as far as the sockets take them.
 * False: call it again a moment later. As server_ask; one thread at a time.
 *
 * It does not wait for clients that do not read their answers, for the rest of half a request, for
 * TLS handshakes, or for what arrives later; only a client that sends faster than it is served can
 * delay it.
 */
bool server_catch_up(struct server *server, struct catch_up *catch_up) MUST_USE;

/*
 * Call it before the workers are stopped: from now on open connections are sent nothing more, as
 * what the ends of others would give them is theirs for a moment only. Any thread.
 */
void server_end(struct server *server);

/* Counts bytes of unfinished requests against `rules`. False: there would be too many, and nothing
 * was counted. server_unhold takes them off again. Any thread. */
bool server_hold(struct server *server, const struct rules *rules, uint64_t bytes) MUST_USE;
void server_unhold(struct server *server, uint64_t bytes);

/* ---- one worker ---------------------------------------------------------------------------- */

/* Makes worker `number` of `server`, which has rules; not running yet. NULL: errno says why. */
struct worker *worker_new(struct server *server, unsigned number) MUST_USE;
/* Frees *worker, which does not run and has no connections, and nulls it. */
void worker_free(struct worker **worker);

/* Starts the thread, with all signals blocked. False: errno. */
bool worker_start(struct worker *worker) MUST_USE;
/* Tells the worker to close all its connections and end. Any thread. */
void worker_stop(struct worker *worker);
/* Waits until its thread has ended. */
void worker_join(struct worker *worker);
/*
 * Delivers what is left in the mailbox; no connection is opened any more. For each worker, also one
 * that could not be started, when none of the server runs.
 */
void worker_drain(struct worker *worker);

/* Its reactor: for timers, hooks and letters. */
struct reactor *worker_reactor(struct worker *worker);
/* The worker of a reactor that is one. */
struct worker *worker_of(struct reactor *reactor);

/* Sends a letter; its `deliver` is called with the worker as reader. Any thread. */
void worker_post(struct worker *worker, struct mail *mail);
/* Runs `fn` in the worker's thread and waits until it has (reactor_ask). */
void worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg), void *arg);

/*
 * Opens a connection on `stream`, which it takes over; in the worker's thread. With TLS it begins
 * with the handshake. False: no memory, too many handshakes, or the worker is about to end; the
 * stream is closed and that is counted. `protocol->connections` counts it already: it is counted
 * out when it ends. `source`: of source_enter, 0: not counted; left when it ends.
 */
bool worker_open(struct worker *worker, struct protocol *protocol, struct stream stream,
                 uint32_t source);

/* Slots are numbered from 0; there are so many by now. In the worker's thread. */
uint32_t worker_slots(const struct worker *worker);
/* The connection in a slot, in any state but closed; NULL: none. In the worker's thread. */
struct conn *worker_conn_at(struct worker *worker, uint32_t slot);

/* How struct worker begins, so that the next three cost no call. */
#define WORKER_HEAD                                                                                \
    struct reactor reactor; /* first: letters come with it */                                      \
    struct server *server;                                                                         \
    unsigned number
struct worker_head {
    WORKER_HEAD;
};

static inline unsigned worker_number(const struct worker *worker)
{
    return ((const struct worker_head *)(const void *)worker)->number;
}

static inline struct server *worker_server(const struct worker *worker)
{
    return ((const struct worker_head *)(const void *)worker)->server;
}

/* The time at which this iteration of its loop began, on both clocks. In the worker's thread. */
static inline struct moment worker_now(const struct worker *worker)
{
    return ((const struct worker_head *)(const void *)worker)->reactor.now;
}

/* How many connections it has, with those on their way to it. Any thread. */
uint32_t worker_connections(const struct worker *worker);
/* Counts a connection that is about to be sent to `worker` (1), or has arrived (-1). Any thread. */
void worker_expect(struct worker *worker, int more);

/* How long it has been at work, not waiting; what its thread has used of a CPU, 0 when it does not
 * run. In nanoseconds. Any thread. */
uint64_t worker_busy_ns(const struct worker *worker);
uint64_t worker_cpu_ns(const struct worker *worker);

/* Bytes that code in the worker's thread may use until it returns. */
#define WORKER_SCRATCH ((size_t)128 * 1024)
void *worker_scratch(struct worker *worker);

/*
 * Every iteration of the loop begins and ends with these: the first reads the clock, the second
 * writes answers, frees what was closed, sets the timer, and returns the monotonic time.
 */
void worker_begin_iteration(struct worker *worker);
int64_t worker_end_iteration(struct worker *worker);

/*
 * Calls `freed` once, when this worker next closes a connection and so frees a descriptor; one
 * caller at a time. NULL: not any more. In the worker's thread.
 */
void worker_await_fd(struct worker *worker, void (*freed)(void *arg), void *arg);

#endif
