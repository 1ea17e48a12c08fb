/*
 * workload_pairs.c - pairs: each connection acquires a unit of a name drawn at random and gives it
 * back.
 *
 * With a depth of 1 one request at a time; with more, that many in flight, alternating. The limit
 * is so high that every acquire succeeds, unless --limit sets another.
 */
#include "bench/counterbench/driver.h"
#include "bench/counterbench/run.h"
#include "bench/counterbench/stock.h"

static void operate(struct link *link, int64_t start_ns)
{
    const struct bench_options *options = link->driver->run->options;
    uint32_t name = link_random(link, options->names);
    link_ask(link, ASK_ACQUIRE, name, start_ns);
    if (options->depth > 1)
        link_ask(link, ASK_RELEASE, name, start_ns);
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
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

static const struct role role = {
    .times_requests = true, .prepare = stock_begin, .operate = operate, .heard = heard};

static const char *refuses(const struct bench_options *options)
{
    if (options->depth > 1 && options->depth % 2 == 1)
        return "--depth is 1 or even: requests in flight are whole pairs";
    if (options->depth > 1 && options->limit / options->connections < options->depth / 2)
        return "--limit needs --depth 1, or must be so high that nothing is refused: what is "
               "refused can't be released";
    return stock_refuses(options);
}

static void plan(const struct bench_options *options, struct plan *plan_r)
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
    .refuses = refuses,
    .plan = plan,
    .role = &role,
};
