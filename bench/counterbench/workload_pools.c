/*
 * workload_pools.c - pools: each connection takes a member of one pool and gives it back.
 *
 * The first connection makes the pool before the run. With fewer members than connections, some
 * wait, and each member that comes back goes to one of them; then our threads do not sleep, as with
 * `hot`. With a depth above 1 that many requests are in flight, alternating; a member is then given
 * back as the one that was taken last.
 */
#include "base/clock.h"
#include "bench/counterbench/run.h"

/* Requests in flight while the pool is made. */
#define MAKING_DEPTH 16

/* Asks about the pool. */
static void ask(struct link *link, enum ask ask, struct bytes member, int64_t start_ns)
{
    link_ask_composed(link, ask, 0, member, start_ns);
}

/* ---- making the pool ------------------------------------------------------------------------- */

static void add_member(struct link *link)
{
    uint8_t name[LINK_NAME_MAX];
    size_t length = link->driver->run->options->name_length;
    names_write(link->name, name, length);
    ask(link, ASK_MEMBER, bytes_at(name, length), link->driver->now_ns);
}

static bool add_members(struct link *link)
{
    return link_fill(link, 1, link->driver->run->options->members, MAKING_DEPTH, add_member);
}

static bool prepare(struct link *link)
{
    const struct bytes none = {0};
    if (link->number > 0)
        return false;
    link->name = 0;
    ask(link, ASK_UNMAKE, none, link->driver->now_ns);
    ask(link, ASK_MAKE, none, link->driver->now_ns);
    return add_members(link);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void operate(struct link *link, int64_t start_ns)
{
    const struct bytes none = {0};
    ask(link, ASK_TAKE, none, start_ns);
    if (link->driver->run->options->depth > 1)
        ask(link, ASK_RETURN, none, start_ns);
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    if (flight->ask == ASK_RETURN)
        driver_done(link, heard == HEARD_YES);
    else if (flight->ask == ASK_TAKE && driver->run->options->depth > 1)
        return;
    else if (flight->ask == ASK_TAKE && heard == HEARD_YES)
        ask(link, ASK_RETURN, bytes_of(driver->said), driver->now_ns);
    else if (flight->ask == ASK_TAKE)
        driver_done(link, false);
    else if (!add_members(link))
        driver_prepared(link);
}

static const struct role role = {
    .times_requests = true, .prepare = prepare, .operate = operate, .heard = heard};

static const char *refuses(const struct bench_options *options)
{
    if (options->name_length > LINK_NAME_MAX)
        return "--name-length: at most 100";
    if (names_most(options->name_length) < options->members)
        return "--name-length: too short for so many --members";
    if (options->depth > 1 && options->depth % 2 == 1)
        return "--depth is 1 or even: requests in flight are whole pairs";
    if (options->depth > 1 && options->members < options->connections)
        return "--depth needs as many --members as --connections: a client that waits sends "
               "nothing else";
    if (options->depth > 1 && options->protocol == &protocol_redis_pool)
        return "--depth: with Redis a client must know what it has taken to give it back";
    return NULL;
}

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->slots = options->depth > 1 ? options->depth / 2 : 1;
    plan_r->flights = options->depth > MAKING_DEPTH ? options->depth : MAKING_DEPTH;
    plan_r->is_awake = options->members < options->connections;
}

const struct workload workload_pools = {
    .name = "pools",
    .help = "take and return members of a pool",
    .protocol = &protocol_text,
    .connections = 50,
    .depth = 1,
    .members = 100,
    .asks = ASKS_OF_POOLS,
    .options = WORKLOAD_TIMED | BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_DEPTH) |
               BENCH_BIT(BENCH_RATE) | BENCH_BIT(BENCH_MEMBERS),
    .refuses = refuses,
    .plan = plan,
    .role = &role,
};
