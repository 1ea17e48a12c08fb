/*
 * worker.h - a thread that serves connections: a loop, a mailbox, deadlines, connections by slot.
 *
 * Threads: a worker's connections, deadlines and buffers are its thread's alone. What comes from
 * other threads comes as letters to its mailbox. Workers of one server know each other through
 * struct server, whose list of them does not change while they run.
 */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include "net/conn.h"
#include "net/loop.h"
#include "net/rules.h"
#include "net/sources.h"
#include "net/stream.h"

#include "base/deadlines.h"
#include "base/mail.h"

#define WORKERS_MAX 256

struct worker;

/* The workers of one process, and what they share. Zero-initialised; then server_set_rules. */
struct server {
    struct rules *rules;         /* the newest; the main thread's: workers have their own */
    struct sources sources;      /* locked */
    _Atomic uint32_t handshakes; /* under way, of all workers */
    _Atomic bool ending;         /* server_end was called */
    int64_t busy_poll_ns;        /* of all workers' loops; set before they are made */
    bool (*confine)(void);       /* each thread calls it first; false: errno. NULL: nothing */
    unsigned count;
    struct worker *workers[WORKERS_MAX];
};

/* What a worker does now and then, in its thread: an aside of a service. */
struct chore {
    struct deadline deadline;
    /* Does a bounded piece of work; returns when it wants to be called again: a monotonic time in
     * nanoseconds, later than now, or DEADLINE_NONE. */
    int64_t (*run)(struct chore *chore, struct moment now);
};

/* Makes worker `number` of `server`, which has rules; not running yet. NULL: errno says why. */
struct worker *worker_new(struct server *server, unsigned number) MUST_USE;
/* Frees *worker, which does not run and has no connections, and nulls it. */
void worker_free(struct worker **worker);

/* Starts the thread, with all signals blocked. False: errno. */
bool worker_start(struct worker *worker) MUST_USE;
/*
 * To be called before the workers are stopped: from now on open connections are sent nothing more,
 * as what the ends of others would give them is theirs for a moment only. Any thread.
 */
void server_end(struct server *server);
/* Tells the worker to close all its connections and end. Any thread. */
void worker_stop(struct worker *worker);
/* Waits until its thread has ended. */
void worker_join(struct worker *worker);
/*
 * Delivers what is left in the mailbox, where no connection is opened any more. For each worker,
 * also one that could not be started, when none of the server runs.
 */
void worker_drain(struct worker *worker);

/* Has `chore` run from now on, first at `at_ns`. Before the worker starts. False: no memory. */
bool worker_add_chore(struct worker *worker, struct chore *chore, int64_t at_ns) MUST_USE;
/* Has it run next at `at_ns` instead. In the worker's thread. */
void worker_set_chore(struct worker *worker, struct chore *chore, int64_t at_ns);
/* Never again. When the worker does not run. */
void worker_remove_chore(struct worker *worker, struct chore *chore);

/* Sends a letter. Any thread. */
void worker_post(struct worker *worker, struct mail *mail);

/*
 * Has `fn` run in the worker's thread, between other things, and waits until it has. The worker
 * runs, and is not told to stop before this returns; never called from a worker.
 */
void worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg), void *arg);

/* Waits until every worker has ended what it was doing when this was called, and has delivered the
 * letters sent to it before. As worker_ask. */
void server_barrier(struct server *server);

/* How far a server has come in catching up. Zero-initialised. */
struct catch_up {
    unsigned rounds; /* begun */
};

/*
 * True when the workers have answered all requests that had arrived on open connections when this
 * was first called with `catch_up`, have delivered all letters sent until then or because of these
 * requests, and have sent the replies, as far as the sockets take them. False: call it again a
 * moment later. As worker_ask; one thread at a time.
 *
 * It does not wait for clients that do not read their answers, for the rest of half a request, for
 * TLS handshakes, or for what arrives later; only a client that sends faster than it is served can
 * delay it.
 */
bool server_catch_up(struct server *server, struct catch_up *catch_up) MUST_USE;

/*
 * Opens a connection on `stream`, which it takes over; in the worker's thread. With TLS it begins
 * with the handshake. False: no memory, too many handshakes, or the worker is about to end; the
 * stream is closed and that is counted. `protocol->connections` counts it already: here it is
 * counted out when it ends. `source`: of source_enter, 0: not counted; left when it ends.
 */
bool worker_open(struct worker *worker, struct protocol *protocol, struct stream stream,
                 uint32_t source);

/* Slots are numbered from 0; there are so many by now. In the worker's thread. */
uint32_t worker_slots(const struct worker *worker);
/* The connection in a slot, in any state but closed; NULL: none. In the worker's thread. */
struct conn *worker_conn_at(struct worker *worker, uint32_t slot);

unsigned worker_number(const struct worker *worker);
struct server *worker_server(const struct worker *worker);
struct loop *worker_loop(const struct worker *worker);
/* The time at which this turn of its loop began, on both clocks. In the worker's thread. */
struct moment worker_now(const struct worker *worker);
/* How many connections it has, with those on their way to it. Any thread. */
uint32_t worker_connections(const struct worker *worker);
/* Counts a connection that is about to be sent to `worker` (1), or has arrived (-1). Any thread. */
void worker_expect(struct worker *worker, int more);

/* How long it has been at work, in nanoseconds, not waiting for something to do. Any thread. */
uint64_t worker_busy_ns(const struct worker *worker);
/* What its thread has used of a CPU, in nanoseconds; 0 when it does not run. Any thread. */
uint64_t worker_cpu_ns(const struct worker *worker);

/* Bytes that whoever runs in the worker's thread may use until it returns. */
#define WORKER_SCRATCH ((size_t)128 * 1024)
void *worker_scratch(struct worker *worker);

/*
 * Every turn of the loop begins and ends with these: the first reads the clock, the second sends
 * replies, frees what was closed, sets the timer, and returns the monotonic time.
 */
void worker_wake(struct worker *worker);
int64_t worker_settle(struct worker *worker);

/*
 * Calls `freed` once, when this worker next closes a connection and so frees a descriptor; one
 * caller at a time. NULL: not any more. In the worker's thread.
 */
void worker_await_fd(struct worker *worker, void (*freed)(void *arg), void *arg);

#endif
