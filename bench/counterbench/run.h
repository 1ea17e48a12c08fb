/*
 * run.h - one run of a workload: its links, the threads that drive them, times and result.
 *
 * Threads meet once: each reports that its links are connected, and waits until the main thread has
 * set the times. Operations begun from from_ns to until_ns count. The main thread reads the
 * server's state at both times. It also reads signals, which end the run early.
 *
 * A link belongs to one driver. While a driver's thread runs, only it touches the driver and its
 * links, except `shown` and `wake`.
 */
#ifndef COUNTERBENCH_RUN_H
#define COUNTERBENCH_RUN_H

#include "bench/counterbench/latency.h"
#include "bench/counterbench/options.h"
#include "bench/counterbench/schedule.h"
#include "bench/counterbench/server.h"
#include "bench/counterbench/target.h"
#include "bench/counterbench/workload.h"

#include <openssl/types.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct driver;

/* ---- Links (link.c) -------------------------------------------------------------------------- */

/* An unanswered request. */
struct flight {
    int64_t start_ns; /* actual or scheduled time of sending */
    uint32_t name;
    uint8_t ask; /* enum ask */
};

/* A link with more unsent bytes than this is full. */
#define LINK_UNSENT_MAX ((size_t)1 << 20)

enum link_state { LINK_CLOSED, LINK_CONNECTING, LINK_UP };

struct link {
    struct driver *driver;
    const struct role *role;
    const struct language *language;
    const struct target *target;
    SSL *tls;
    struct flight *flights; /* a ring of driver->run->plan.flights */
    uint64_t random;        /* state of the link's own random numbers */
    int64_t begun_ns;       /* start of the operation, for the role */
    uint32_t name;          /* name of the operation, for the role */
    uint32_t number;        /* among all links of the run */
    uint32_t first, count;  /* of the flights */
    uint32_t operations;    /* pending */
    uint32_t held_back;     /* operations that wait until the link is not full */
    uint32_t generation;    /* number of times closed */
    int fd;
    int error;      /* errno of a failed send; the next receive reports it */
    uint32_t armed; /* epoll events; 0: not watched */
    enum link_state state;
    bool is_greeting; /* the first answer does not go to the role */
    bool is_dead;     /* lost, and stays closed */
    uint8_t *in;      /* the start of an answer */
    size_t in_len, in_room;
    uint8_t *out; /* unsent: out_len bytes from out_sent on */
    size_t out_len, out_sent, out_room;
};

/* Starts to connect a closed link. Returns false on failure, after counting the link as lost. */
bool link_open(struct link *link) MUST_USE;

/* Sends a request about name `number`. The role must know that there is room for it in flight. */
void link_ask(struct link *link, enum ask ask, uint32_t number, int64_t start_ns);

/* Sends a request of ASKS_COMPOSED about name `number` and a member or job. Names have at most
   LINK_NAME_MAX bytes, because a client's list in Redis has them, too. */
#define LINK_REQUEST_MAX ((size_t)62 << 10)
#define LINK_NAME_MAX    100
void link_ask_composed(struct link *link, enum ask ask, uint32_t number, struct bytes member,
                       int64_t start_ns);

/* Makes the requests of many names, `step` apart from link->name on and below `end`, as far as
   `most` may be in flight: `ask` makes one. Returns false when all are answered. */
bool link_fill(struct link *link, uint32_t step, uint32_t end, uint32_t most,
               void (*ask)(struct link *link));

/* True when too much is unsent to start anything new. */
static inline bool link_is_full(const struct link *link)
{
    return link->out_len >= LINK_UNSENT_MAX;
}

/* Sends the composed requests of driver->out_link. */
void link_flush(struct driver *driver);

/* Handles the epoll events of the link. */
void link_handle(struct link *link, uint32_t events);

/* Closes the link in order, and forgets requests in flight. */
void link_close(struct link *link);

/* A random number below `bound`, from the link's own sequence. */
static inline uint32_t link_random(struct link *link, uint32_t bound)
{
    link->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = link->random;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((x ^ x >> 31) >> 32) * bound >> 32);
}

/* ---- Threads of load (driver.c) -------------------------------------------------------------- */

#define DRIVER_REASON_SIZE 512

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

/* ---- Runs (run.c) ---------------------------------------------------------------------------- */

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

/* ---- the result (report.c) ------------------------------------------------------------------- */

/* The whole result as JSON; the caller frees it with json_decref. NULL: no memory. */
json_t *report_make(const struct run *run) MUST_USE;

/* Sets a member to a time, in microseconds. */
void report_set_us(json_t *object, const char *name, double ns);

/* Prints a summary of a few lines for people. */
void report_print(const struct run *run, const json_t *report, FILE *to);

#endif
