/*
 * workload_herd.c - herd: one connection holds the unit of a name, and many wait for it or for its
 * work to be done (ACQ4ANY). The release wakes all of them. Each round measures the time until the
 * last one is notified, and the server's CPU time.
 *
 * The leader releases when the server reports (STATS waiting_workers) that all are in its queue.
 * The round is over when all are notified. We read the server's CPU time when it is idle, before
 * the release and after the round, so it excludes queueing and polling. Our threads poll at short
 * intervals; otherwise the server would have to wake them for each answer.
 */
#include "base/clock.h"
#include "bench/counterbench/run.h"

#include <stdlib.h>

/* The interval between two polls of the queue's length, and the most polls. */
#define POLL_NS   NS_PER_MS
#define POLLS_MAX 30000

/* The interval between two polls for answers. */
#define NAP_NS 20000L

/* How long to wait until the server is idle. */
#define SETTLE_NS NS_PER_S

#define ROUNDS_MAX 4096

/* The link that takes the unit and gives it back; all others wait. */
#define LEADER 0

struct round {
    int64_t to_last_ns, cpu_ns;
};

/* Only the leader touches it, except for atomic members. */
struct herd {
    _Atomic uint32_t round;     /* the round to wait in; 0: none yet */
    _Atomic int64_t release_ns; /* when the unit was given back */
    _Atomic uint32_t woken;     /* notified waiters */
    _Atomic int64_t last_ns;    /* when the last waiter was notified */
    bool is_filling;            /* the waiters have been woken to queue up */
    bool is_released;           /* the server has confirmed the release */
    uint64_t others;            /* waiters at the server that are not ours */
    unsigned polls;
    int64_t cpu_ns; /* of the server before the release */
    size_t count;   /* finished rounds */
    struct round rounds[ROUNDS_MAX];
};

static struct herd *herd_of(const struct link *link)
{
    return link->driver->run->shared;
}

static void give_up(struct link *link, const char *why)
{
    driver_complain(link->driver, "%s", why);
    run_end(link->driver->run, link->driver->now_ns);
}

/* ---- waiters --------------------------------------------------------------------------------- */

/* link->name is the round in which this link last waited. */
static void waiter_woken(struct link *link)
{
    uint32_t round = atomic_load(&herd_of(link)->round);
    if (link->name == round || link->state != LINK_UP)
        return;
    link->name = round;
    driver_begun(link);
    link_ask(link, ASK_SHARE, 0, link->driver->now_ns);
}

static void waiter_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    struct run *run = driver->run;
    struct herd *herd = herd_of(link);
    int64_t release_ns = atomic_load(&herd->release_ns), last_ns = atomic_load(&herd->last_ns);
    (void)flight;
    driver_ended(link);
    if (heard != HEARD_DONE)
        give_up(link, "a waiter got no DONE");
    driver_time(driver, release_ns);
    if (release_ns >= run->from_ns)
        driver_count(driver);
    while (last_ns < driver->now_ns &&
           !atomic_compare_exchange_weak(&herd->last_ns, &last_ns, driver->now_ns)) {
    }
    if (atomic_fetch_add(&herd->woken, 1) + 1 == run->options->waiters)
        run_wake(run); /* wakes the leader */
}

static const struct role waiter = {.woken = waiter_woken, .heard = waiter_heard};

/* ---- the leader ------------------------------------------------------------------------------ */

static void begin_round(struct link *link)
{
    struct herd *herd = herd_of(link);
    herd->is_filling = herd->is_released = false;
    herd->polls = 0;
    atomic_store(&herd->woken, 0);
    driver_begun(link);
    link_ask(link, ASK_WAIT, 0, link->driver->now_ns);
}

static void poll_waiting(struct link *link)
{
    link_ask(link, ASK_WAITING, 0, link->driver->now_ns);
}

static void release(struct link *link)
{
    struct driver *driver = link->driver;
    struct herd *herd = herd_of(link);
    herd->cpu_ns = run_settle(driver->run, SETTLE_NS);
    driver->now_ns = clock_mono_ns();
    atomic_store(&herd->release_ns, driver->now_ns);
    link_ask(link, ASK_RELEASE, 0, driver->now_ns);
}

/* The number of waiters at the server: first only those of other clients, then ours too. */
static void hear_waiting(struct link *link, uint64_t waiting)
{
    struct driver *driver = link->driver;
    struct run *run = driver->run;
    struct herd *herd = herd_of(link);
    if (!herd->is_filling) {
        herd->is_filling = true;
        herd->others = waiting;
        atomic_fetch_add(&herd->round, 1);
        run_wake(run);
    } else if (waiting >= herd->others + run->options->waiters || driver_is_over(driver)) {
        release(link);
        return;
    } else if (++herd->polls == POLLS_MAX) {
        give_up(link, "the server does not report all waiters");
    }
    driver_alarm(link, driver->now_ns + POLL_NS);
}

static void end_round_when_over(struct link *link)
{
    struct driver *driver = link->driver;
    struct run *run = driver->run;
    const struct bench_options *options = run->options;
    struct herd *herd = herd_of(link);
    bool all_heard = atomic_load(&herd->woken) == options->waiters;
    if (link->is_dead || !herd->is_released || (!all_heard && !driver_is_over(driver)))
        return;
    herd->is_released = false;
    driver_ended(link);
    int64_t release_ns = atomic_load(&herd->release_ns);
    if (all_heard && release_ns >= run->from_ns && herd->count < ROUNDS_MAX)
        herd->rounds[herd->count++] =
            (struct round){.to_last_ns = atomic_load(&herd->last_ns) - release_ns,
                           .cpu_ns = run_settle(run, SETTLE_NS) - herd->cpu_ns};
    driver->now_ns = clock_mono_ns();
    bool is_enough =
        herd->count == ROUNDS_MAX ||
        (options->requests > 0 && (uint64_t)herd->count * options->waiters >= options->requests);
    bool is_late = options->seconds_ns > 0 && driver->now_ns >= run->from_ns + options->seconds_ns;
    if (herd->count > 0 && (is_enough || is_late))
        run_end(run, driver->now_ns);
    if (!driver_is_over(driver))
        begin_round(link);
}

static void leader_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    if (heard != HEARD_YES) {
        give_up(link, "the first connection can't get the unit, or can't release it");
        driver_ended(link);
    } else if (flight->ask == ASK_WAIT) {
        poll_waiting(link);
    } else if (flight->ask == ASK_WAITING) {
        hear_waiting(link, link->driver->number_heard);
    } else {
        herd_of(link)->is_released = true;
        end_round_when_over(link);
    }
}

static const struct role leader = {.begin = begin_round,
                                   .alarm = poll_waiting,
                                   .woken = end_round_when_over,
                                   .heard = leader_heard};

/* ---- the run --------------------------------------------------------------------------------- */

static const struct role *role_of(const struct run *run, uint32_t number)
{
    (void)run;
    return number == LEADER ? &leader : &waiter;
}

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = 1 + options->waiters;
    plan_r->is_awake = true;
    plan_r->nap_ns = NAP_NS;
    plan_r->end = ENDS_BY_ROLE;
    plan_r->shared_size = sizeof(struct herd);
}

static int compare_rounds(const void *a, const void *b)
{
    const struct round *one = a, *other = b;
    return (one->to_last_ns > other->to_last_ns) - (one->to_last_ns < other->to_last_ns);
}

static void describe(const struct run *run, json_t *to)
{
    struct herd *herd = run->shared;
    double waiters = run->options->waiters, cpu_ns = 0;
    json_t *rounds = json_array(), *server = json_object_get(to, "server");
    for (size_t i = 0; i < herd->count; i++) {
        json_t *round = json_object();
        report_set_us(round, "time_to_last_us", (double)herd->rounds[i].to_last_ns);
        if (server)
            report_set_us(round, "cpu_us_per_operation", (double)herd->rounds[i].cpu_ns / waiters);
        json_array_append_new(rounds, round);
        cpu_ns += (double)herd->rounds[i].cpu_ns;
    }
    json_object_set_new(to, "rounds", rounds);
    json_object_del(to, "per_second"); /* preparing takes most of the time */
    if (server) {
        json_object_del(server, "cpu_us_per_request");
        json_object_del(server, "cpu_us_per_operation");
    }
    if (herd->count == 0)
        return;
    if (server)
        report_set_us(server, "cpu_us_per_operation", cpu_ns / ((double)herd->count * waiters));
    qsort(herd->rounds, herd->count, sizeof *herd->rounds, compare_rounds);
    const struct round *middle = &herd->rounds[herd->count / 2];
    report_set_us(to, "time_to_last_us", (double)middle->to_last_ns);
}

const struct workload workload_herd = {
    .name = "herd",
    .help = "one release wakes all that wait (ACQ4ANY)",
    .protocol = &protocol_text,
    .waiters = 1000,
    .limit = 1,
    .names = 1,
    .asks = ASK_BIT(ASK_WAIT) | ASK_BIT(ASK_SHARE) | ASK_BIT(ASK_WAITING) | ASK_BIT(ASK_RELEASE),
    .options = WORKLOAD_TIMED | BENCH_BIT(BENCH_WAITERS),
    .plan = plan,
    .role_of = role_of,
    .describe = describe,
};
