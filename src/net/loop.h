/*
 * loop.h - one thread's event loop: descriptors, one timer, one wake-up, and "soon". epoll is
 * hidden behind this header; tests link another loop.
 *
 * The loop runs in iterations. Each iteration waits until something is ready and calls `begin`.
 * Then it calls the function of each ready descriptor, and the handlers of wake-up, timer and
 * "soon" if they are due. At last it calls `end`. A thread uses `begin` and `end` for work that it
 * does once for many events (reading the clock, freeing closed connections).
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

/* Makes the loop poll for events for up to `busy_ns` nanoseconds before each sleep; 0: no polling.
 * A polling thread answers sooner, but uses a whole core. */
void loop_busy_poll(struct loop *loop, int64_t busy_ns);
/* Runs the loop until loop_stop. */
void loop_run(struct loop *loop);
/* Called in a handler: the iteration ends after this handler, and loop_run returns. */
void loop_stop(struct loop *loop);
/* Wakes the loop and calls its `bell` handler once, in its thread. Any thread; costs one system
 * call. */
void loop_ring(struct loop *loop);
/* Calls the `timer` handler once, in the first iteration that begins at `at_ns` or later
 * (monotonic; INT64_MAX: never). Replaces the time set before. */
void loop_timer_at(struct loop *loop, int64_t at_ns);
/* Calls the `soon` handler in the next iteration, which begins at once. */
void loop_soon(struct loop *loop);

/* The values are those of epoll. */
#define LOOP_READ  0x0001u
#define LOOP_MARK  0x0002u /* a TCP urgent mark is in the readable data; a read stops before it */
#define LOOP_WRITE 0x0004u
#define LOOP_GONE  0x2000u /* the peer sends nothing more; earlier bytes may still be unread */
/*
 * Edge-triggered: reports a state once, and again only when there is more to read or write, or when
 * the flags change. The owner must read until a read returns less than it asked for. After
 * LOOP_GONE it must read until the end, and after LOOP_MARK until nothing is left. If it stops
 * earlier it must remember that.
 */
#define LOOP_ONCE (1u << 31)
/* Only with LOOP_READ: several loops watch the descriptor, and the kernel may wake only one that
 * sleeps. */
#define LOOP_SHARED (1u << 28)

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
