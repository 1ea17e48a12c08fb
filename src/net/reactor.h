/*
 * reactor.h - a thread with an event loop, a mailbox and deadlines. A worker is a reactor with
 * connections. A resource that waits for a disk or for another machine has its own reactor.
 *
 * The loop runs in iterations (loop.h): wait, read the clock, call the hook, handle descriptors,
 * deliver mail, run timers, end. `now` is the start time of the iteration.
 *
 * Threads: everything inside belongs to the reactor's thread. Other threads send messages
 * (reactor_post), or send a function and wait for it (reactor_ask). While the thread does not run,
 * or sleeps, the main thread may do everything.
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

/* The kind (base/deadlines.h) of a timer's deadline; the owner may use all other kinds. */
#define REACTOR_TIMER 0u

/* Returned by a timer's `run` to remove the timer; then it may be freed. */
#define TIMER_OVER INT64_MIN

/* A function that the reactor runs at certain times. */
struct timer {
    struct deadline deadline;
    /* Does a limited amount of work. Returns the time of the next run (monotonic, in ns, later than
     * now), or DEADLINE_NONE, or TIMER_OVER. Must not remove the timer itself. */
    int64_t (*run)(struct timer *timer, struct moment now);
};

/* Called at the start of each iteration, before any descriptor. */
struct reactor_hook {
    void (*run)(struct reactor_hook *hook, struct moment now);
};

/* Maximum number of messages, and of messages in bundles, delivered before the loop checks for
 * other events. */
#define REACTOR_MESSAGES 64

/* So many other threads can be woken at the end of an iteration; more are woken at once. */
#define REACTOR_LATE 16

struct reactor {
    struct loop *loop;
    struct mailbox box;
    struct mail_list inbox;   /* messages that were taken from the box, and not delivered yet */
    struct mail_list bundles; /* of these, the one to go on with first */
    struct reactor *late[REACTOR_LATE]; /* to be woken at the end of this iteration */
    unsigned late_count;
    struct deadlines deadlines;
    struct moment now;         /* start of this iteration */
    struct reactor_hook *hook; /* NULL: none */
    tally busy_ns;             /* time spent working, without waiting */
    struct mail stop;
    struct thread thread;        /* of the main thread */
    _Atomic clockid_t cpu_clock; /* of the thread; 0: it does not run */
};

/* Handlers for a reactor without other work in its iterations. */
extern const struct loop_handlers reactor_default;

/*
 * Makes the loop. All handlers get the reactor as `arg`. Pass &reactor_default, or your own
 * handlers, which must call reactor_begin, reactor_end and so on (see the end of this file).
 * Returns false with errno; nothing needs to be freed then.
 */
bool reactor_init(struct reactor *r, const struct loop_handlers *handlers) MUST_USE;
/* Frees what reactor_init made, and ends the thread, which must not run. Harmless when everything
 * is zero. */
void reactor_free(struct reactor *r);

/* Makes the thread, which sleeps, with all signals blocked. `name` has at most 15 bytes. The thread
 * first calls `sandbox` (from struct server; NULL: none) with `to`. Returns false with errno. */
bool reactor_prepare(struct reactor *r, const char *name, sandbox_fn *sandbox,
                     const struct sandbox *to) MUST_USE;
/* Has the sleeping thread run. */
void reactor_resume(struct reactor *r);
/* Makes the thread stop after its current work. Then reactor_rest waits until it sleeps, and
 * reactor_join until it has ended. Any thread. */
void reactor_stop(struct reactor *r);
void reactor_rest(struct reactor *r);
void reactor_join(struct reactor *r);
/* True from reactor_resume until the end of reactor_rest or reactor_join. In the main thread. */
static inline bool reactor_runs(const struct reactor *r)
{
    return r->thread.runs;
}
/* Delivers all mail, with all bundles, while the thread does not run. Returns false when there was
 * none. */
bool reactor_deliver_paused(struct reactor *r);

/* Sends a message; its `deliver` gets the reactor. Any thread. */
void reactor_post(struct reactor *r, struct mail *mail);
/* Sends a bundle (base/mail.h). Bundles take turns: each delivers REACTOR_MESSAGES messages in one
 * iteration, and then lets the next go on in the next iteration. Messages and other events are
 * handled in between, so one sent later may arrive earlier. Any thread. */
void reactor_post_bundle(struct reactor *r, struct bundle *bundle);
/* As reactor_post. In the thread of a reactor, `r` is woken at the end of the iteration, so that it
 * finds everything that was sent until then. */
void reactor_post_late(struct reactor *r, struct mail *mail);
/* Runs `fn` in the reactor's thread, between other work, and waits until it returns. The thread
 * must run, and must not be stopped before this returns. Never call it in a reactor's thread. */
void reactor_ask(struct reactor *r, void (*fn)(struct reactor *r, void *arg), void *arg);

/* Adds `timer`, to run first at `at_ns`. Returns false when there is no memory. In the reactor's
 * thread, or before it runs. */
bool reactor_add_timer(struct reactor *r, struct timer *timer, int64_t at_ns) MUST_USE;
/* Changes the time of the next run. In the reactor's thread. */
void reactor_set_timer(struct reactor *r, struct timer *timer, int64_t at_ns);
/* Removes the timer. In the reactor's thread, or while it does not run. */
void reactor_remove_timer(struct reactor *r, struct timer *timer);

/* Adds or removes the only hook. While the thread does not run. */
static inline void reactor_add_hook(struct reactor *r, struct reactor_hook *hook)
{
    CHECK(!r->hook);
    r->hook = hook;
}
static inline void reactor_remove_hook(struct reactor *r, struct reactor_hook *hook)
{
    if (r->hook == hook)
        r->hook = NULL;
}

/* A timer that any thread may set to an earlier time, for a resource that uses a worker's thread.
 * Zero-initialise it, set `run`, then call shared_timer_add. */
struct shared_timer {
    /* Does a limited amount of work, and asks for the next run with shared_timer_by. Must not
     * remove the timer itself. */
    void (*run)(struct shared_timer *timer, struct moment now);
    struct timer timer;
    struct reactor *reactor; /* NULL when it was removed */
    _Atomic int64_t next_ns; /* when it runs next, once the message has arrived */
    _Atomic bool on_its_way; /* the message was sent and has not arrived */
    struct mail mail;
};
/* Adds the timer, which shared_timer_by sets. Returns false when there is no memory. */
bool shared_timer_add(struct shared_timer *timer, struct reactor *r) MUST_USE;
/* Removes the timer, in the reactor's thread or while it does not run. No thread may call
 * shared_timer_by afterwards. A message may still be on its way, so the struct must stay until all
 * messages were delivered. */
void shared_timer_remove(struct shared_timer *timer);
/* Makes the timer run at `at_ns` or earlier. Any thread. A run that was due before counts too, and
 * its `now` may be before `at_ns`: `run` asks again. */
void shared_timer_by(struct shared_timer *timer, int64_t at_ns);

/* The time that the thread has spent working, in nanoseconds. Any thread. */
uint64_t reactor_busy_ns(const struct reactor *r);
/* The CPU time of the thread, in nanoseconds; 0 when it does not run. Any thread. */
uint64_t reactor_cpu_ns(const struct reactor *r);

/* ---- for the owner's handlers, in the reactor's thread --------------------------------------- */

/* Begins an iteration: reads the clock and calls the hook. Returns the monotonic time. */
static inline int64_t reactor_begin(struct reactor *r)
{
    r->now = clock_now();
    if (unlikely(r->hook))
        r->hook->run(r->hook, r->now);
    return r->now.mono_ns;
}

/* Ends an iteration: sets the loop's timer and counts working time. Returns the monotonic time. */
int64_t reactor_end(struct reactor *r);
/* Call it when the bell rings: delivers up to REACTOR_MESSAGES messages, and of a bundle that came
 * with them. Then `soon` goes on. */
void reactor_deliver(struct reactor *r);
/* Call it at `soon`: goes on with messages, and with a bundle. */
void reactor_deliver_more(struct reactor *r);
/* Delivers all bundles that have arrived. */
void reactor_deliver_bundles(struct reactor *r);
/* Runs timers that are due. Returns the first due deadline that is not a timer. Returns NULL when
 * none is left, or when *budget deadlines were handled. */
struct deadline *reactor_next_due(struct reactor *r, unsigned *budget);

#endif
