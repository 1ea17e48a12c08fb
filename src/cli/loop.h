/*
 * loop.h - the event loop of counterctl: waits for descriptors and timers, and runs callbacks.
 *
 * Connections (client.h), commands (child.h), signals (signals.h) and HTTP (http.h) all consist of
 * watches and timers, so one thread can wait for any number of them.
 *
 * Callers write their work in one of two ways. With callbacks: start everything, call loop_run
 * once, and call loop_end at the end. In steps: each step starts one thing and calls loop_run,
 * which returns the value that this thing's callback passed to loop_end; other watches and timers
 * stay active meanwhile.
 *
 * Only loop_run runs callbacks, and no callback calls loop_run. A callback may set and clear any
 * watch and timer, also its own, and free the memory they are in. After loop_end no more callbacks
 * run; what is ready or due waits for the next loop_run.
 */
#ifndef CLI_LOOP_H
#define CLI_LOOP_H

#include "base/clock.h"
#include "base/deadlines.h"

#include <poll.h>

/* Waits for a descriptor. Zero-initialise, then set callback and owner; it is inactive until
   watch_set. */
struct watch {
    void (*on_ready)(void *owner, short revents); /* may be called although nothing is ready */
    void *owner;
    int fd;
    short events;
    size_t place; /* private to the loop: place in its list from 1; 0: inactive */
};

/* Waits for a point in time; initialise it like a watch. */
struct timer {
    struct deadline deadline;    /* private to the loop */
    void (*on_due)(void *owner); /* NULL: the loop only wakes up */
    void *owner;
};

/* Zero-initialise: an empty loop. */
struct loop {
    void (*before_wait)(void *owner); /* called before each wait; NULL: none */
    void *owner;                      /* of before_wait */
    /* private to loop.c */
    struct watch **watches; /* NULL in place of a cleared watch */
    struct pollfd *fds;
    size_t count, room;
    struct deadlines timers;
    bool is_running, is_over;
    int result;
};

/* Waits for the poll events `events` on `fd`; replaces what the watch waited for. */
void watch_set(struct loop *loop, struct watch *watch, int fd, short events);

/* Stops waiting. Harmless for an inactive watch. */
void watch_clear(struct loop *loop, struct watch *watch);

/* Calls on_due once at `at_ns` of the monotonic clock, or soon after. */
void timer_set(struct loop *loop, struct timer *timer, int64_t at_ns);

/* Pauses between two tries: the first, and the longest. */
#define PAUSE_MIN_NS (NS_PER_S / 10)
#define PAUSE_MAX_NS (30 * NS_PER_S)

/* The pause after a further failure: twice as long as the last one, *pause_ns; 0: the first. */
int64_t pause_longer(int64_t *pause_ns);

/* Stops the timer. Harmless for one that is not set. */
void timer_clear(struct loop *loop, struct timer *timer);

/* Waits and runs callbacks until one of them calls loop_end. Returns that call's result. */
int loop_run(struct loop *loop);

/* Makes loop_run return `result`. */
void loop_end(struct loop *loop, int result);

/* True from loop_end until the next loop_run. A caller of several callbacks for one event
   asks it before each. */
static inline bool loop_is_over(const struct loop *loop)
{
    return loop->is_over;
}

/* Frees the loop's memory. All watches and timers become inactive. */
void loop_free(struct loop *loop);

#endif
