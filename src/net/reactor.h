/*
 * reactor.h - a thread with an event loop, a mailbox and deadlines. Workers are reactors with
 * connections; a resource that waits for a disk or for another machine has a reactor of its own.
 *
 * The loop goes in iterations (loop.h): wait, read the clock, call hooks, tell descriptors, deliver
 * letters, run timers, end. `now` is the time at which the iteration began.
 *
 * Threads: what is inside belongs to the reactor's thread. Other threads send letters
 * (reactor_post) or ask for something and wait (reactor_ask). While the thread is stopped, the main
 * thread may do everything.
 */
#ifndef NET_REACTOR_H
#define NET_REACTOR_H

#include "net/loop.h"
#include "net/thread.h"

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/mail.h"
#include "base/tally.h"

#include <pthread.h>
#include <stdatomic.h>

/* The kind (base/deadlines.h) of a timer's deadline; others are the owner's. */
#define REACTOR_TIMER 0u

/* What a timer's `run` returns that is not needed any more: it is removed, and may be freed. */
#define TIMER_OVER INT64_MIN

/* What a reactor does at times. */
struct timer {
    struct deadline deadline;
    /* Does a bounded piece of work. Returns the next time, monotonic in nanoseconds and later than
     * now, or DEADLINE_NONE, or TIMER_OVER. Does not remove the timer itself. */
    int64_t (*run)(struct timer *timer, struct moment now);
};

/* Called at the beginning of each iteration, before the first descriptor. */
struct reactor_hook {
    void (*run)(struct reactor_hook *hook, struct moment now);
    struct reactor_hook *next;
};

struct reactor {
    struct loop *loop;
    struct mailbox box;
    struct deadlines deadlines;
    struct moment now; /* when this iteration began */
    struct reactor_hook *hooks;
    tally busy_ns; /* at work, not waiting */
    struct mail stop;
    pthread_t thread;
    bool running;                /* the main thread's: the thread was started, and not joined */
    _Atomic clockid_t cpu_clock; /* of its thread; 0: there is none */
};

/* The rest of what a reactor's owner does in an iteration; `reactor_default` does nothing more. */
extern const struct loop_handlers reactor_default;

/*
 * Makes the loop. `handlers` are called with the reactor as `arg`, and use reactor_begin and its
 * like below; &reactor_default where nothing else is wanted. False: errno, and nothing to free.
 */
bool reactor_init(struct reactor *r, const struct loop_handlers *handlers) MUST_USE;
/* Frees what reactor_init made; the thread does not run. Harmless when all is zero. */
void reactor_free(struct reactor *r);

/* Starts the thread, `name` (15 bytes at most), with all signals blocked, confined by `confine`
 * (struct server has it; NULL: not at all) `to` what it needs. False: errno. */
bool reactor_start(struct reactor *r, const char *name, confine_fn *confine,
                   const struct confinement *to) MUST_USE;
/* Has the thread end after what it does now: reactor_join waits for it. Any thread. */
void reactor_stop(struct reactor *r);
void reactor_join(struct reactor *r);
/* Delivers all letters, while the thread does not run. False: there were none. */
bool reactor_deliver_parked(struct reactor *r);

/* Sends a letter; its `deliver` is called with the reactor. Any thread. */
void reactor_post(struct reactor *r, struct mail *mail);
/* Runs `fn` in the reactor's thread, between other things, and waits until it has. The thread runs
 * and is not told to stop before this returns. Never from a reactor's thread. */
void reactor_ask(struct reactor *r, void (*fn)(struct reactor *r, void *arg), void *arg);

/* Runs `timer` from `at_ns` on. False: no memory. In the reactor's thread, or before it runs. */
bool reactor_add_timer(struct reactor *r, struct timer *timer, int64_t at_ns) MUST_USE;
/* Has it run next at `at_ns` instead. In the reactor's thread. */
void reactor_set_timer(struct reactor *r, struct timer *timer, int64_t at_ns);
/* Never again. In the reactor's thread, or while it does not run. */
void reactor_remove_timer(struct reactor *r, struct timer *timer);

/* Calls `hook` in each iteration from now on; takes it out. While the thread does not run. */
void reactor_add_hook(struct reactor *r, struct reactor_hook *hook);
void reactor_remove_hook(struct reactor *r, struct reactor_hook *hook);

/*
 * A timer that any thread may bring forward: for a resource that has no thread of its own and uses
 * a worker's. Zero-initialised but for `timer.run`; then shared_timer_add.
 */
struct shared_timer {
    struct timer timer;
    struct reactor *reactor;   /* NULL: it was removed */
    _Atomic int64_t wanted_ns; /* the earliest time asked for since the letter was sent */
    _Atomic bool on_its_way;   /* the letter is */
    struct mail mail;
};
bool shared_timer_add(struct shared_timer *timer, struct reactor *r, int64_t at_ns) MUST_USE;
/* Never again, in the reactor's thread or while it does not run; from then on nobody calls
 * shared_timer_by. A letter may still be under way: `timer` stays until letters were delivered. */
void shared_timer_remove(struct shared_timer *timer);
/* Has it run at `at_ns` at the latest. Any thread. A run that was due already counts, and its `now`
 * may be before `at_ns`: `run` returns when it is wanted next. */
void shared_timer_by(struct shared_timer *timer, int64_t at_ns);

/* How long it has been at work, in nanoseconds. Any thread. */
uint64_t reactor_busy_ns(const struct reactor *r);
/* What its thread has used of a CPU, in nanoseconds; 0 when it does not run. Any thread. */
uint64_t reactor_cpu_ns(const struct reactor *r);

/* ---- for the owner's handlers: in the reactor's thread --------------------------------------- */

/* Begins an iteration: reads the clock and calls hooks. Returns the monotonic time. */
static inline int64_t reactor_begin(struct reactor *r)
{
    r->now = clock_now();
    for (struct reactor_hook *hook = r->hooks; unlikely(hook); hook = hook->next)
        hook->run(hook, r->now);
    return r->now.mono_ns;
}

/* Ends an iteration: sets the loop's timer, counts time. Returns the monotonic time. */
int64_t reactor_end(struct reactor *r);
/* Delivers the letters that are there. */
void reactor_deliver(struct reactor *r);
/* Takes the next deadline that is due, running timers itself; NULL: none is left, or `*budget`
 * deadlines have passed. */
struct deadline *reactor_next_due(struct reactor *r, unsigned *budget);

#endif
