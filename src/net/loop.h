/*
 * loop.h - one thread's event loop: descriptors, one timer, one bell, and "soon". The only header
 * that stands for libevent; tests put another loop behind it.
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

/* What a loop calls; `arg` is the same for all three. */
struct loop_handlers {
    void (*bell)(void *arg);  /* somebody rang, once or more often */
    void (*timer)(void *arg); /* the time set by loop_timer_at has come, or is near: look */
    void (*soon)(void *arg);  /* loop_soon was called; after the events that were ready before */
    void *arg;
};

/* A new loop; NULL: no memory or no descriptors (errno). `handlers` is copied. */
struct loop *loop_new(const struct loop_handlers *handlers) MUST_USE;
/* Frees *loop, whose descriptors are all removed, and nulls it. NULL is harmless. */
void loop_free(struct loop **loop);

/* Runs until loop_stop. */
void loop_run(struct loop *loop);
/* Lets loop_run return after the handler that calls it. */
void loop_stop(struct loop *loop);
/* Calls the bell handler in the loop's thread. Any thread; costs a system call. */
void loop_ring(struct loop *loop);
/* Calls the timer handler at `at_ns` (monotonic; INT64_MAX: never), instead of before. */
void loop_timer_at(struct loop *loop, int64_t at_ns);
/* Calls the soon handler in the loop's next turn. */
void loop_soon(struct loop *loop);

#define LOOP_READ  1u
#define LOOP_WRITE 2u
#define LOOP_GONE  4u /* the peer sends no more, whatever it sent before and was not read */

/* `what`: one or several of these. */
typedef void loop_io_fn(void *arg, unsigned what);

/* A descriptor in a loop; part of what it belongs to. */
struct loop_io {
    struct loop *loop; /* NULL: not in one */
    loop_io_fn *fn;
    void *arg;
    int fd;
    unsigned wanted;
    _Alignas(8) unsigned char event[128]; /* the library's */
};

/* Watches `fd` for `wanted` (may be 0 for now). False: no memory. */
bool loop_io_add(struct loop *loop, struct loop_io *io, int fd, unsigned wanted, loop_io_fn *fn,
                 void *arg) MUST_USE;
/* Changes what is watched for. False: no memory, and nothing is watched for any more. */
bool loop_io_want(struct loop_io *io, unsigned wanted) MUST_USE;
/* Stops watching; the descriptor stays open. Harmless when it is in no loop. */
void loop_io_remove(struct loop_io *io);

#endif
