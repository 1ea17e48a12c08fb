/*
 * loop.h - one thread's event loop: descriptors, one timer, one wake-up, and "soon". This is the
 * only header that hides epoll; tests replace it by another loop.
 *
 * The loop runs in iterations. Each one waits until something is ready, calls `begin`, calls each
 * ready descriptor's function, then the handlers of wake-up, timer and "soon" if due, and calls
 * `end`. A thread uses `begin` and `end` for work that it does once for many events (reading the
 * clock, freeing what was closed).
 *
 * Threads: only the thread that runs a loop may use it; any thread may call loop_ring.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* Functions that a loop calls, all with the same `arg`. */
struct loop_handlers {
    int64_t (*begin)(void *arg); /* an iteration begins; returns the monotonic time in ns */
    int64_t (*end)(void *arg);   /* it ends; returns the same */
    void (*bell)(void *arg);     /* loop_ring was called, at least once */
    void (*timer)(void *arg);    /* the time of loop_timer_at has come */
    void (*soon)(void *arg);     /* loop_soon was called before this iteration */
    void *arg;
};

/* Makes a loop and copies `handlers`. Returns NULL with errno when there is no memory or no
 * descriptor. */
struct loop *loop_new(const struct loop_handlers *handlers) MUST_USE;
/* Frees *loop and sets it to NULL. All descriptors must be removed. NULL is harmless. */
void loop_free(struct loop **loop);

/* Polls for events for up to `busy_ns` nanoseconds before each sleep; 0: never polls. A polling
 * thread answers sooner, and uses a whole core meanwhile. */
void loop_busy_poll(struct loop *loop, int64_t busy_ns);
/* Runs the loop until loop_stop. */
void loop_run(struct loop *loop);
/* Ends the current iteration after the handler that calls this; then loop_run returns. */
void loop_stop(struct loop *loop);
/* Wakes the loop and calls its `bell` handler once, in its thread. Any thread; costs one system
 * call. */
void loop_ring(struct loop *loop);
/* Calls the `timer` handler once, in the first iteration that begins at `at_ns` or later
 * (monotonic; INT64_MAX: never). Replaces the time set before. */
void loop_timer_at(struct loop *loop, int64_t at_ns);
/* Calls the `soon` handler in the next iteration, which begins at once. */
void loop_soon(struct loop *loop);

#define LOOP_READ  1u
#define LOOP_WRITE 2u
#define LOOP_GONE  4u /* the peer sends nothing more; earlier bytes may still be unread */
#define LOOP_MARK  8u /* a TCP urgent mark is in the readable data; a read stops before it */
/*
 * Reports each state only once: not again until there is more to read or write, or until other
 * flags are wanted. So the owner must read until a read returns less than it asked for; after
 * LOOP_GONE until the end, and after LOOP_MARK until nothing is left. If it stops earlier it must
 * remember that.
 */
#define LOOP_ONCE 16u
/* Only together with LOOP_READ: several loops watch the descriptor, and an event needs to wake only
 * one of those that sleep. */
#define LOOP_SHARED 32u

struct loop_io;

/* Called when the descriptor is ready. `what`: one or more of the first four flags. `io` is
 * embedded in its owner. */
typedef void loop_io_fn(struct loop_io *io, unsigned what);

/* A descriptor in a loop. Zero-initialised: in no loop. */
struct loop_io {
    loop_io_fn *fn; /* NULL: in no loop */
    int fd;
    unsigned wanted;
};

/* Watches `fd` for `wanted` (0: nothing yet). Returns false when there is no memory. */
bool loop_io_add(struct loop *loop, struct loop_io *io, int fd, unsigned wanted,
                 loop_io_fn *fn) MUST_USE;
/* Changes the flags. LOOP_SHARED may be added or removed only while nothing is wanted (0). Returns
 * false when there is no memory; nothing is watched then. */
bool loop_io_want(struct loop *loop, struct loop_io *io, unsigned wanted) MUST_USE;
/* Stops watching; the descriptor stays open. Harmless when it is in no loop. */
void loop_io_remove(struct loop *loop, struct loop_io *io);

#endif
