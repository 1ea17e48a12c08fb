/*
 * run.h - one run of a workload: threads, times and result.
 *
 * Threads meet once: each reports that its links are connected, and waits until the main thread has
 * set the times. Operations begun from from_ns to until_ns count. The main thread reads the
 * server's state at both times. It also reads signals, which end the run early.
 */
#ifndef COUNTERBENCH_RUN_H
#define COUNTERBENCH_RUN_H

#include "bench/counterbench/driver.h"
#include "bench/counterbench/server.h"
#include "bench/counterbench/target.h"

#include <stdio.h>

#define RUN_LANGUAGES  2
#define RUN_NO_LIMIT   INT64_MAX
#define RUN_REASON_MAX 640

struct run {
    const struct bench_options *options;
    const struct workload *workload;
    struct plan plan;
    struct language languages[RUN_LANGUAGES];
    struct target
        targets[BENCH_TARGETS]; /* the links use them in turn; with two languages, one each */
    size_t target_count;
    size_t language_count;
    SSL_CTX *tls; /* NULL: plain */

    struct driver *drivers;
    unsigned driver_count;
    unsigned turns; /* number of drivers that start operations */
    int news;       /* eventfd: a thread has news for the main thread */

    pthread_mutex_t lock; /* protects ready, ended, has_begun */
    pthread_cond_t changed;
    unsigned ready, ended; /* numbers of threads */
    bool has_begun;

    /* Set before has_begun, RUN_NO_LIMIT until then. Threads read them without the lock. */
    int64_t begin_ns, quiet_ns, from_ns;
    uint64_t share; /* operations for each thread that starts some; 0: no limit */

    _Atomic int64_t until_ns; /* nothing begins after it; any thread may move it forward */
    void *shared;             /* plan.shared_size bytes for the workload, zeroed */

    /* Result. */
    struct server_state at_rest[BENCH_PIDS], before[BENCH_PIDS], after[BENCH_PIDS];
    int64_t elapsed_ns, connecting_ns;
    struct counts counts;
    struct latency latency, quiet;
    bool was_interrupted;
};

/*
 * Makes a run. Returns false on an error; *reason_r (RUN_REASON_MAX) says what. In both cases the
 * caller must call run_free.
 */
bool run_make(struct run *run, const struct bench_options *options, char *reason_r) MUST_USE;
void run_free(struct run *run);

/* The first error; NULL: none. */
const char *run_complaint(const struct run *run);

/* Executes the run. Returns false if it did not get as far as measuring; *reason_r says why. */
bool run_execute(struct run *run, char *reason_r) MUST_USE;

/* ---- for drivers ----------------------------------------------------------------------------- */

/* The thread's links are connected: waits for the other threads. False: the run is cancelled. */
bool run_meet(struct run *run) MUST_USE;

/* The thread has ended. */
void run_leave(struct run *run);

/* Waits until the servers of --pid are idle, for `patience_ns` each. Returns their CPU time. */
int64_t run_settle(const struct run *run, int64_t patience_ns);

/* The time after which nothing may begin; RUN_NO_LIMIT: not known yet. */
static inline int64_t run_until(const struct run *run)
{
    return atomic_load_explicit(&run->until_ns, memory_order_relaxed);
}

/* Ends the run at a time, unless it ends earlier. */
void run_end(struct run *run, int64_t until_ns);

/* Calls the `woken` of all roles, each in its own thread. */
void run_wake(struct run *run);

/* ---- the result (report.c) ---- */

/* The whole result as JSON; the caller frees it with json_decref. NULL: no memory. */
json_t *report_make(const struct run *run) MUST_USE;

/* Sets a member to a time, in microseconds. */
void report_set_us(json_t *object, const char *name, double ns);

/* Prints a summary of a few lines for people. */
void report_print(const struct run *run, const json_t *report, FILE *to);

#endif
