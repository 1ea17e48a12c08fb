/*
 * workload_pairs.c - pairs and hot: connections acquire units of names and give them back.
 *
 * pairs draws each name at random. With a depth of 1 one request at a time; with more, that many in
 * flight, alternating. The limit is so high that every acquire succeeds, unless --limit sets
 * another.
 *
 * hot: all clients queue on one name with one unit. The holder gives it back at once and queues
 * again, so the run measures how fast a server hands over. Only one request is pending at a time,
 * so a server would have to wake our thread for every answer, which costs it more than the answer.
 * Therefore our threads do not sleep. The latency is the time from a release until the next client
 * reads that it has the unit; with several units (--limit), from the last release.
 */
#include "base/clock.h"
#include "bench/counterbench/run.h"

/* ---- units that must be at the server before clients can take them --------------------------- */

/* The most units of all names. */
#define STOCK_MAX 1000000

static void ask_for_stock(struct link *link)
{
    link_ask(link, ASK_STOCK, link->name, link->driver->now_ns);
}

static bool stock(struct link *link)
{
    const struct run *run = link->driver->run;
    return link_fill(link, 1, run->options->names, run->plan.flights, ask_for_stock);
}

/* A role's `prepare`: the first connection puts those of all names there. */
static bool stock_begin(struct link *link)
{
    link->name = 0;
    return link->number == 0 && (link->language->protocol->asks & ASK_BIT(ASK_STOCK)) &&
           stock(link);
}

static void stock_goes_on(struct link *link)
{
    if (!stock(link))
        driver_prepared(link);
}

static const char *stock_refuses(const struct bench_options *options)
{
    if (options->protocol && (options->protocol->asks & ASK_BIT(ASK_STOCK)) &&
        (uint64_t)options->names * options->limit > STOCK_MAX)
        return "--names times --limit: each unit is an entry of a list; at most 1,000,000";
    return NULL;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void pairs_operate(struct link *link, int64_t start_ns)
{
    const struct bench_options *options = link->driver->run->options;
    uint32_t name = link_random(link, options->names);
    link_ask(link, ASK_ACQUIRE, name, start_ns);
    if (options->depth > 1)
        link_ask(link, ASK_RELEASE, name, start_ns);
}

static void pairs_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    if (flight->ask == ASK_STOCK)
        stock_goes_on(link);
    else if (flight->ask == ASK_RELEASE)
        driver_done(link, heard == HEARD_YES);
    else if (driver->run->options->depth == 1 && heard == HEARD_YES)
        link_ask(link, ASK_RELEASE, flight->name, driver->now_ns);
    else if (driver->run->options->depth == 1)
        driver_done(link, false);
}

static const struct role pairs_role = {
    .times_requests = true, .prepare = stock_begin, .operate = pairs_operate, .heard = pairs_heard};

static const char *pairs_refuses(const struct bench_options *options)
{
    if (options->depth > 1 && options->depth % 2 == 1)
        return "--depth is 1 or even: requests in flight are whole pairs";
    if (options->depth > 1 && options->limit / options->connections < options->depth / 2)
        return "--limit needs --depth 1, or must be so high that nothing is refused: what is "
               "refused can't be released";
    return stock_refuses(options);
}

static void pairs_plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->slots = options->depth > 1 ? options->depth / 2 : 1;
    plan_r->flights = options->depth;
}

const struct workload workload_pairs = {
    .name = "pairs",
    .help = "acquire and release of random names",
    .protocol = &protocol_text,
    .connections = 50,
    .depth = 1,
    .names = 10000,
    .limit = 1000000,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE),
    .options = WORKLOAD_TIMED | BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_DEPTH) |
               BENCH_BIT(BENCH_RATE) | BENCH_BIT(BENCH_NAMES) | BENCH_BIT(BENCH_LIMIT),
    .refuses = pairs_refuses,
    .plan = pairs_plan,
    .role = &pairs_role,
};

/* ---- hot ------------------------------------------------------------------------------------- */

/* The time of the last release of each name. */
static _Atomic int64_t *released(const struct link *link)
{
    _Atomic int64_t *times = link->driver->run->shared;
    return &times[link->name];
}

static void hot_operate(struct link *link, int64_t start_ns)
{
    link->name = link->number % link->driver->run->options->names;
    link_ask(link, ASK_WAIT, link->name, start_ns);
}

static void hot_heard(struct link *link, const struct flight *flight, enum heard heard)
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

static const struct role hot_role = {
    .prepare = stock_begin, .operate = hot_operate, .heard = hot_heard};

static const char *hot_refuses(const struct bench_options *options)
{
    if (options->names > options->waiters)
        return "--names: more names than --waiters";
    return stock_refuses(options);
}

static void hot_plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = options->waiters;
    plan_r->is_awake = true;
    plan_r->shared_size = options->names * sizeof(_Atomic int64_t);
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
    .refuses = hot_refuses,
    .plan = hot_plan,
    .role = &hot_role,
};
