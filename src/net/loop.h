/*
 * loop.h - one thread's event loop: descriptors, one timer, one bell, and "soon". The only header
 * that stands for epoll; tests put another loop behind it.
 *
 * It goes in turns: it waits until something is ready, calls `begin`, tells each descriptor what it
 * is ready for, then the bell, the timer and "soon" where they are due, and calls `end`. So what a
 * thread does once for many events (reading the clock, freeing what was closed) it does there.
 *
 * Threads: a loop is used by the thread that runs it, alone; only loop_ring may be called from
 * others.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* What a loop calls; `arg` is the same for all. */
struct loop_handlers {
    int64_t (*begin)(void *arg); /* a turn begins; returns the monotonic time, in nanoseconds */
    int64_t (*end)(void *arg);   /* it is over; the same */
    void (*bell)(void *arg);     /* somebody rang, once or more often */
    void (*timer)(void *arg);    /* the time set by loop_timer_at has come */
    void (*soon)(void *arg);     /* loop_soon was called in the turn before, or in none */
    void *arg;
};

/* A new loop; NULL: no memory or no descriptors (errno). `handlers` is copied. */
struct loop *loop_new(const struct loop_handlers *handlers) MUST_USE;
/* Frees *loop, whose descriptors are all removed, and nulls it. NULL is harmless. */
void loop_free(struct loop **loop);

/* From now on looks for events for so long, in nanoseconds, before it sleeps for them; 0: not at
 * all. Who need not be woken answers sooner, and takes a core as long as it looks. */
void loop_busy_poll(struct loop *loop, int64_t busy_ns);
/* Runs until loop_stop. */
void loop_run(struct loop *loop);
/* Ends the turn after the handler that calls it, and lets loop_run return. */
void loop_stop(struct loop *loop);
/* Calls the bell handler in the loop's thread. Any thread; costs a system call. */
void loop_ring(struct loop *loop);
/* Calls the timer handler, once, in the first turn that begins at `at_ns` (monotonic; INT64_MAX:
 * never) or later, instead of before. */
void loop_timer_at(struct loop *loop, int64_t at_ns);
/* Calls the soon handler in the loop's next turn, which comes at once. */
void loop_soon(struct loop *loop);

#define LOOP_READ  1u
#define LOOP_WRITE 2u
#define LOOP_GONE  4u /* the peer sends no more, whatever it sent before and was not read */
#define LOOP_MARK  8u /* TCP's urgent mark lies in what can be read: a read ends before it */
/*
 * Tell only once: not again before there is more to read or to write, or something else is wanted.
 * Whoever wants this reads until it gets less than it asked for; where it was told LOOP_GONE too,
 * on to the end, and where LOOP_MARK, until there is nothing; or it remembers that it has not.
 */
#define LOOP_ONCE 16u
/* With LOOP_READ only: other loops watch it too, and it is enough to wake one that sleeps. */
#define LOOP_SHARED 32u

struct loop_io;

/* `what`: one or several of the first four. `io` is part of what the descriptor belongs to. */
typedef void loop_io_fn(struct loop_io *io, unsigned what);

/* A descriptor in a loop. Zero-initialised: in none. */
struct loop_io {
    loop_io_fn *fn; /* NULL: it is in none */
    int fd;
    unsigned wanted;
};

/* Watches `fd` for `wanted` (may be 0 for now). False: no memory. */
bool loop_io_add(struct loop *loop, struct loop_io *io, int fd, unsigned wanted,
                 loop_io_fn *fn) MUST_USE;
/* Changes what is watched for; to and from LOOP_SHARED only by way of 0. False: no memory, and
 * nothing is watched for any more. */
bool loop_io_want(struct loop *loop, struct loop_io *io, unsigned wanted) MUST_USE;
/* Stops watching; the descriptor stays open. Harmless when it is in no loop. */
void loop_io_remove(struct loop *loop, struct loop_io *io);

#endif
