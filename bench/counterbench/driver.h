/*
 * driver.h - one thread of load: an epoll loop over its links.
 *
 * It connects its links, a few at a time, and waits until all threads have done so. Then it starts
 * operations: in a closed loop as soon as a link has room for one, in an open loop at the time of
 * the schedule. Answers from run->from_ns to run->until_ns count. At the end it waits for pending
 * operations and leaves the links open.
 *
 * While the thread runs, only it touches the driver, except `shown` and `wake`.
 */
#ifndef COUNTERBENCH_DRIVER_H
#define COUNTERBENCH_DRIVER_H

#include "base/clock.h"
#include "bench/counterbench/latency.h"
#include "bench/counterbench/link.h"
#include "bench/counterbench/workload.h"

#include <pthread.h>
#include <stdatomic.h>

#define DRIVER_REASON_SIZE 512

/*
 * The scheduled starts of operations in an open loop. A start depends only on the operation's
 * number: a delay, ours or the target's, moves no later one, so a stall lengthens the latency of
 * every operation scheduled during it. The operations of several threads interleave.
 */
struct schedule {
    int64_t start_ns;
    uint64_t requests;     /* requests of one operation */
    uint64_t rate;         /* requests a second, all threads together; 0: a closed loop */
    uint64_t next, stride; /* number of this thread's next operation, and the step to the next */
};

/* Starts the schedule of thread `thread` of `threads` at `start_ns`. */
static inline void schedule_start(struct schedule *s, uint64_t rate, unsigned requests,
                                  unsigned thread, unsigned threads, int64_t start_ns)
{
    *s = (struct schedule){start_ns, requests, rate, .next = thread, .stride = threads};
}

/* The scheduled start of the next operation. Whole seconds are separate, so that nothing overflows
   in a long run. */
static inline int64_t schedule_next_ns(const struct schedule *s)
{
    uint64_t request = s->next * s->requests;
    uint64_t whole = request / s->rate, rest = request % s->rate;
    return s->start_ns +
           (int64_t)(whole * (uint64_t)NS_PER_S + rest * (uint64_t)NS_PER_S / s->rate);
}

/* Moves on to the operation after it. */
static inline void schedule_advance(struct schedule *s)
{
    s->next += s->stride;
}

/* Links that have room for an operation, in the order in which they became idle. */
struct idle {
    struct link **links;
    size_t room, first, count;
};

/* Counters, from run->from_ns on. */
struct counts {
    uint64_t requests; /* answered */
    uint64_t operations;
    uint64_t refused; /* refused in a regular way */
    uint64_t errors;
    uint64_t missed; /* open loop: operations that never began */
};

struct driver {
    struct run *run;
    unsigned number;
    bool has_operations; /* the role of some link operates: --rate and --requests apply */
    unsigned turn;       /* if so, the driver's number among run->turns */
    pthread_t thread;
    int epoll;
    int wake; /* eventfd: the run asks for attention */
    int64_t now_ns;
    struct link *links;
    size_t link_count;
    struct flight *flights; /* of all links */
    uint8_t *in, *out;
    size_t out_len;
    struct link *out_link; /* the link of the requests in `out` */
    struct idle idle;
    struct schedule schedule;
    uint64_t busy;        /* pending operations */
    size_t lost;          /* dead links */
    size_t greeted;       /* links that have connected and got an answer */
    size_t unprepared;    /* links that still prepare */
    uint64_t asked;       /* operations begun since run->from_ns */
    struct link *alarmed; /* its role's alarm is due at alarm_ns; NULL: none */
    int64_t alarm_ns;
    uint64_t number_heard; /* the current answer, if it is a number */
    const char *said;      /* text of the current answer (`hear` of struct protocol) */
    int64_t heard_ns;      /* time of the last counted answer */
    int64_t any_heard_ns;  /* time of the last answer */
    struct counts counts;
    struct latency *latency, *quiet; /* of operations begun from run->from_ns, run->quiet_ns on */
    char reason[DRIVER_REASON_SIZE]; /* the first error */
    _Atomic uint64_t shown;          /* requests so far, for the progress bar */
};

/* Makes a driver for every run->threads-th link, starting at `number`. False: *reason_r says why.
 */
bool driver_make(struct driver *driver, struct run *run, unsigned number, char *reason_r) MUST_USE;

/* Closes the links and frees all memory. */
void driver_free(struct driver *driver);

/* The thread's function: connects, measures, drains. */
void driver_work(struct driver *driver);

/* ---- for roles ------------------------------------------------------------------------------- */

/*
 * For roles that run by themselves: something is pending on the link, or no longer; the end of the
 * run waits for it. The driver forgets pending work of a lost link.
 */
void driver_begun(struct link *link);
void driver_ended(struct link *link);

/* An operation that the driver started has ended. `good`: it counts. */
void driver_done(struct link *link, bool good);

/* Counts an operation of a role that runs by itself. */
void driver_count(struct driver *driver);

/* The link has finished what `prepare` started. */
void driver_prepared(struct link *link);

/* Calls the role's `alarm` at a time. Each driver has one alarm. */
void driver_alarm(struct link *link, int64_t at_ns);

/* Records a latency from `start_ns` until now. */
void driver_time(struct driver *driver, int64_t start_ns);

/* True when no further operation may begin. */
bool driver_is_over(const struct driver *driver);

/* Counts an error, and stores the text of the first one. */
void driver_complain(struct driver *driver, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---- for links ------------------------------------------------------------------------------- */

/* Sizes of `in` and `out` in bytes. */
#define DRIVER_IN  ((size_t)256 << 10)
#define DRIVER_OUT ((size_t)256 << 10)

/* The link is no longer full (link_is_full): starts the operations that were held back. */
void driver_has_room(struct link *link);

/* Called with each answer. */
void driver_heard(struct link *link, const struct flight *flight, enum heard heard,
                  const char *said);

/* Called when the link has failed; it is closed. */
void driver_lost(struct link *link, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
