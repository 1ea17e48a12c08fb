/*
 * workload_idle.c - idle: connections that were served once and then do nothing. The run measures
 * the memory of each, after the server had time to free what it needed to serve them.
 */
#include "bench/counterbench/driver.h"
#include "bench/counterbench/run.h"

static const struct role role;

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->slots = 0;
    plan_r->things = options->connections;
}

static void describe(const struct run *run, json_t *to)
{
    json_object_set_new(to, "operations", json_integer(run->plan.links));
    json_object_del(to, "per_second");
}

const struct workload workload_idle = {
    .name = "idle",
    .help = "connections that do nothing: bytes of each",
    .protocol = &protocol_text,
    .connections = 1000,
    .options = BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_SECONDS),
    .plan = plan,
    .role = &role,
    .describe = describe,
};
