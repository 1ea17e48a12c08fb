/*
 * driver.h - one thread of load: an epoll loop over its links.
 *
 * It connects its links, some at a time, waits until all threads have done so, and then has
 * operations begin: in a closed loop as soon as a link has room for one, in an open loop when the
 * schedule says. What is answered from run->from_ns until run->until_ns counts. At the end it waits
 * for what is under way, and leaves its links open.
 *
 * Only its thread touches a driver while that runs, but for `shown` and `wake`.
 */
#ifndef COUNTERBENCH_DRIVER_H
#define COUNTERBENCH_DRIVER_H

#include "bench/counterbench/latency.h"
#include "bench/counterbench/link.h"
#include "bench/counterbench/schedule.h"
#include "bench/counterbench/workload.h"

#include <pthread.h>
#include <stdatomic.h>

#define DRIVER_REASON_SIZE 512

/* Links that have room for an operation, the longest first. */
struct idle {
    struct link **links;
    size_t room, first, count;
};

/* What is counted, from run->from_ns on. */
struct counts {
    uint64_t requests; /* answered */
    uint64_t operations;
    uint64_t refused; /* answered with no, in order */
    uint64_t errors;
    uint64_t missed; /* open loop: operations that could not even begin */
};

struct driver {
    struct run *run;
    unsigned number;
    bool has_operations; /* some link's role has: it takes part in --rate and --requests */
    unsigned turn;       /* which of run->turns it is, if so */
    pthread_t thread;
    int epoll;
    int wake; /* eventfd: look at what the run wants */
    int64_t now_ns;
    struct link *links;
    size_t link_count;
    struct flight *flights; /* of all links */
    uint8_t *in, *out;
    size_t out_len;
    struct link *out_link; /* whose requests are in `out` */
    struct idle idle;
    struct schedule schedule;
    uint64_t busy;        /* operations under way */
    size_t lost;          /* links that are dead */
    size_t greeted;       /* links that were connected, and answered */
    size_t unprepared;    /* links whose preparation goes on */
    uint64_t asked;       /* operations begun since run->from_ns */
    struct link *alarmed; /* whose role is called at alarm_ns; NULL: none */
    int64_t alarm_ns;
    uint64_t number_heard; /* by the answer that is being heard, where it is a number */
    int64_t heard_ns;      /* the last answer that counts */
    int64_t any_heard_ns;  /* the last one at all */
    struct counts counts;
    struct latency *latency, *quiet; /* of what began from run->from_ns, run->quiet_ns on */
    char reason[DRIVER_REASON_SIZE]; /* the first thing that went wrong */
    _Atomic uint64_t shown;          /* requests so far, for the progress bar */
};

/* Makes a driver for every run->threads-th link from `number` on. False: *reason says why not. */
bool driver_make(struct driver *driver, struct run *run, unsigned number, char *reason_r) MUST_USE;

/* Closes its links and frees all. */
void driver_free(struct driver *driver);

/* What the thread does, from connecting to the end. */
void driver_work(struct driver *driver);

/* ---- for roles ------------------------------------------------------------------------------- */

/*
 * A role that goes on by itself has something under way on the link that the end of the run waits
 * for, or has no longer. What is under way on a link that is lost is forgotten.
 */
void driver_begun(struct link *link);
void driver_ended(struct link *link);

/* An operation that the driver had the link begin is over. `good`: it counts. */
void driver_done(struct link *link, bool good);

/* Counts an operation of a role that goes on by itself. */
void driver_count(struct driver *driver);

/* What `prepare` began is done. */
void driver_prepared(struct link *link);

/* Has the role's `alarm` called at a time. There is one alarm for each driver. */
void driver_alarm(struct link *link, int64_t at_ns);

/* Notes that something took from `start_ns` until now. */
void driver_time(struct driver *driver, int64_t start_ns);

/* Whether no further operation is to begin. */
bool driver_is_over(const struct driver *driver);

/* Counts an error, and keeps the text of the first one. */
void driver_complain(struct driver *driver, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---- for links ------------------------------------------------------------------------------- */

/* Bytes of `in` and `out`. */
#define DRIVER_IN  ((size_t)256 << 10)
#define DRIVER_OUT ((size_t)256 << 10)

/* The link is no longer full (link_is_full): what was held back may begin. */
void driver_has_room(struct link *link);

/* An answer has come. */
void driver_heard(struct link *link, const struct flight *flight, enum heard heard,
                  const char *said);

/* The link can't go on; it is closed. */
void driver_lost(struct link *link, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
