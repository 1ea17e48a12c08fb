/*
 * workload_hot.c - hot: all clients queue on one name with one unit. The holder gives it back at
 * once and queues again, so the run measures how fast a server hands over.
 *
 * Only one request is pending at a time, so a server would have to wake our thread for every
 * answer, which costs it more than the answer. Therefore our threads do not sleep.
 *
 * The latency is the time from a release until the next client reads that it has the unit; with
 * several units (--limit), from the last release.
 */
#include "base/clock.h"
#include "bench/counterbench/driver.h"
#include "bench/counterbench/run.h"
#include "bench/counterbench/stock.h"

/* Longer than any run. */
#define TIMEOUT_NS (86400 * NS_PER_S)

/* The time of the last release of each name. */
static _Atomic int64_t *released(const struct link *link)
{
    _Atomic int64_t *times = link->driver->run->shared;
    return &times[link->name];
}

static void operate(struct link *link, int64_t start_ns)
{
    link->name = link->number % link->driver->run->options->names;
    link_ask(link, ASK_WAIT, link->name, start_ns);
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    if (flight->ask == ASK_STOCK) {
        stock_goes_on(link);
        return;
    }
    if (flight->ask == ASK_RELEASE || heard != HEARD_YES) {
        driver_done(link, heard == HEARD_YES);
        return;
    }
    driver_time(driver, atomic_load_explicit(released(link), memory_order_relaxed));
    atomic_store_explicit(released(link), driver->now_ns, memory_order_relaxed);
    link_ask(link, ASK_RELEASE, link->name, driver->now_ns);
}

static const struct role role = {.prepare = stock_begin, .operate = operate, .heard = heard};

static const char *refuses(const struct bench_options *options)
{
    if (options->names > options->waiters)
        return "--names: more names than --waiters";
    return stock_refuses(options);
}

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = options->waiters;
    plan_r->is_awake = true;
    plan_r->shared_size = options->names * sizeof(_Atomic int64_t);
    plan_r->terms[ASK_WAIT].timeout_ns = TIMEOUT_NS;
}

const struct workload workload_hot = {
    .name = "hot",
    .help = "all queue on one name: hand-overs",
    .protocol = &protocol_text,
    .names = 1,
    .waiters = 100,
    .limit = 1,
    .asks = ASK_BIT(ASK_WAIT) | ASK_BIT(ASK_RELEASE),
    .options =
        WORKLOAD_TIMED | BENCH_BIT(BENCH_NAMES) | BENCH_BIT(BENCH_WAITERS) | BENCH_BIT(BENCH_LIMIT),
    .refuses = refuses,
    .plan = plan,
    .role = &role,
};
