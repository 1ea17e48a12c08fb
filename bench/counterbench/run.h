/*
 * run.h - one run of a workload: the threads, the times, and what came out.
 *
 * Threads meet at one point: each says that its links are connected, and waits until the main
 * thread has set the times. What is begun from from_ns until until_ns counts; the main thread looks
 * at the server at both times, and at signals, which end the run before its time.
 */
#ifndef COUNTERBENCH_RUN_H
#define COUNTERBENCH_RUN_H

#include "bench/counterbench/driver.h"
#include "bench/counterbench/server.h"
#include "bench/counterbench/target.h"

#define RUN_LANGUAGES  2
#define RUN_NO_LIMIT   INT64_MAX
#define RUN_REASON_MAX 640

struct run {
    const struct bench_options *options;
    const struct workload *workload;
    struct plan plan;
    struct language languages[RUN_LANGUAGES];
    struct target targets[RUN_LANGUAGES];
    size_t language_count;
    SSL_CTX *tls; /* NULL: plain */

    struct driver *drivers;
    unsigned driver_count;
    unsigned turns; /* drivers that have operations begin */
    int news;       /* eventfd: a thread has something to tell the main thread */

    pthread_mutex_t lock; /* of the next three */
    pthread_cond_t changed;
    unsigned ready, ended; /* threads */
    bool has_begun;

    /* Set before has_begun, RUN_NO_LIMIT until then; threads read them without the lock. */
    int64_t begin_ns, quiet_ns, from_ns;
    uint64_t share; /* operations that each thread that has any begins; 0: as many as there is time
                       for */

    _Atomic int64_t until_ns; /* nothing begins from then on; any thread may bring it forward */
    void *shared;             /* plan.shared_size bytes for the workload, at first 0 */

    /* What came out. */
    struct server_state at_rest, before, after;
    int64_t elapsed_ns, connecting_ns;
    struct counts counts;
    struct latency latency, quiet;
    bool was_interrupted;
};

/*
 * Makes what a run needs. False: *reason_r (RUN_REASON_MAX) says what is wrong. run_free is to be
 * called in either case.
 */
bool run_make(struct run *run, const struct bench_options *options, char *reason_r) MUST_USE;
void run_free(struct run *run);

/* The first thing that went wrong; NULL: nothing did. */
const char *run_complaint(const struct run *run);

/* Runs it. False: it never came to measure anything; *reason_r says why. */
bool run_execute(struct run *run, char *reason_r) MUST_USE;

/* ---- for drivers ----------------------------------------------------------------------------- */

/* The thread's links are connected: waits for the others. False: the run is not to be. */
bool run_meet(struct run *run) MUST_USE;

/* The thread has ended. */
void run_leave(struct run *run);

/* When nothing more is to begin; RUN_NO_LIMIT: that is not known yet. */
static inline int64_t run_until(const struct run *run)
{
    return atomic_load_explicit(&run->until_ns, memory_order_relaxed);
}

/* Ends the run at a time, unless it ends before. */
void run_end(struct run *run, int64_t until_ns);

/* Has the `woken` of all roles called, in their threads. */
void run_wake(struct run *run);

#endif
