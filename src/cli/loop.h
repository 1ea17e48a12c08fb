/*
 * loop.h - the one loop of counterctl: it waits for descriptors and timers, and calls their owners.
 *
 * Connections (link.h), commands (child.h), signals (signals.h) and HTTP (http.h) are all made of
 * watches and timers, so any number of them can be waited for at once, in one thread.
 *
 * Work is written in one of two ways. As callbacks alone: begin everything, call loop_run, and
 * loop_end at the end. Or in steps that each begin one thing and call loop_run, which returns what
 * the callback of that thing gave to loop_end; other watches and timers go on meanwhile.
 *
 * Only loop_run calls callbacks, and no callback calls loop_run. A callback may set and clear any
 * watch and timer, its own too, and free what they are part of. After loop_end no more are called:
 * whatever else is ready or due stays so for the next loop_run.
 */
#ifndef CLI_LOOP_H
#define CLI_LOOP_H

#include "base/deadlines.h"

#include <poll.h>

/* A descriptor that is waited for. Zero-initialised but for callback and owner: it is not. */
struct watch {
    void (*on_ready)(void *owner, short revents); /* may be called in vain */
    void *owner;
    int fd;
    short events;
    size_t place; /* the loop's own: in its list, from 1; 0: not in it */
};

/* A point in time that is waited for; initialised as a watch. */
struct timer {
    struct deadline deadline;    /* the loop's own */
    void (*on_due)(void *owner); /* NULL: the wait is over, that is all */
    void *owner;
};

/* Zero-initialised: nothing is waited for. */
struct loop {
    void (*before_wait)(void *owner); /* each time before it waits; NULL: nothing */
    void *owner;                      /* of before_wait */
    /* loop.c's own */
    struct watch **watches; /* NULL where one was cleared */
    struct pollfd *fds;
    size_t count, room;
    struct deadlines timers;
    bool is_running, is_over;
    int result;
};

/* Waits for `events` of poll on `fd` from now on, instead of what the watch waited for. */
void watch_set(struct loop *loop, struct watch *watch, int fd, short events);

/* Does not wait for it any more. Harmless where it did not. */
void watch_clear(struct loop *loop, struct watch *watch);

/* Calls once at `at_ns` of the monotonic clock, or as soon after as the loop runs. */
void timer_set(struct loop *loop, struct timer *timer, int64_t at_ns);

/* Does not call it any more. Harmless where it was not set. */
void timer_clear(struct loop *loop, struct timer *timer);

/* Waits and calls until a callback has called loop_end. Returns what it gave. */
int loop_run(struct loop *loop);

/* Has loop_run return `result`. */
void loop_end(struct loop *loop, int result);

/* Frees what it has. Nothing is waited for any more. */
void loop_free(struct loop *loop);

#endif
