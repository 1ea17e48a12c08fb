/*
 * workload_names.c - names: acquires many names and holds them. The run measures the memory of
 * each; and, with others beside, their latency while the table grows.
 *
 * Each connection takes its share of the names and keeps --depth requests in flight.
 */
#include "bench/counterbench/beside.h"
#include "bench/counterbench/driver.h"
#include "bench/counterbench/fill.h"
#include "bench/counterbench/run.h"

/* The number of connections that have not finished. */
static _Atomic uint32_t *unfinished(const struct link *link)
{
    return link->driver->run->shared;
}

static void begin(struct link *link)
{
    const struct bench_options *options = link->driver->run->options;
    CHECK(fill_begin(link, link->number, options->connections));
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct run *run = link->driver->run;
    if (heard == HEARD_YES)
        driver_count(link->driver);
    (void)flight;
    if (!fill_goes_on(link, run->options->connections) &&
        atomic_fetch_add(unfinished(link), 1) + 1 == run->options->connections)
        run_end(run, link->driver->now_ns);
}

static const struct role alone = {.times_requests = true, .begin = begin, .heard = heard};
static const struct role accompanied = {.begin = begin, .heard = heard};

static const struct role *role_of(const struct run *run, uint32_t number)
{
    if (number >= run->options->connections)
        return &beside_role;
    return run->options->beside > 0 ? &accompanied : &alone;
}

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = options->connections + options->beside;
    plan_r->flights = options->depth;
    plan_r->end = ENDS_BY_ROLE;
    plan_r->things = options->names;
    plan_r->shared_size = sizeof(_Atomic uint32_t);
}

static const char *refuses(const struct bench_options *options)
{
    return options->connections > options->names ? "--connections: more than --names" : NULL;
}

const struct workload workload_names = {
    .name = "names",
    .help = "names that are held: bytes of each",
    .protocol = &protocol_binary,
    .connections = 1,
    .depth = 64,
    .names = 1000000,
    .limit = 1000000,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE),
    .options = BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_DEPTH) | BENCH_BIT(BENCH_NAMES) |
               BENCH_BIT(BENCH_BESIDE) | BENCH_BIT(BENCH_RATE),
    .refuses = refuses,
    .plan = plan,
    .role_of = role_of,
};
