/*
 * pools_monitor.c - metrics and statistics of pools, and the table of their routes. See
 * pools_internal.h.
 *
 * Each metric walks over all pools, and takes the lock for one pool at a time.
 */
#include "service/pools_internal.h"

#include "service/pools.h"

#include <stdlib.h>

/* ---- metrics --------------------------------------------------------------------------------- */

struct reading {
    struct pools *pools;
    struct pools_sums sums;
};

static void read_pools(struct services *services, struct moment now, void *reading)
{
    (void)now;
    struct reading *r = reading;
    r->pools = pools_of(services);
    pools_sums(r->pools, &r->sums);
}

/* A walk over all pools, for one metric. */
struct walk {
    struct samples *to;
    const struct metric_row *row;
    struct text pool; /* its name as a label */
};

static void visit(void *arg, const struct pool_counts *counts)
{
    struct walk *walk = arg;
    text_clear(&walk->pool);
    text_add_readable(&walk->pool, counts->name); /* different names are different labels */
    walk->to->text->failed = walk->to->text->failed || walk->pool.failed;
    samples_of(walk->to, walk->row, text_str(&walk->pool), counts);
}

static void each_pool(struct samples *to, const struct metric_row *row, const void *reading)
{
    struct walk walk = {.to = to, .row = row};
    pools_count(((const struct reading *)reading)->pools, visit, &walk);
    text_free(&walk.pool);
}

/* The pools that metrics are made for; samples of more are left out. It is the default of
 * pools.max. */
#define POOLS_SHOWN 1000

#define OF(member)       METRIC_OF(struct pool_counts, member), .each = each_pool
#define BY(member, word) METRIC_BY(struct pool_counts, member, word), .each = each_pool
#define JOINED           .when = offsetof(struct pool_counts, joined)

static const struct metric_row metrics[] = {
    {"counterd_pool_members", METRIC_GAUGE, "Members of a pool, by their state.", "pool state",
     POOLS_SHOWN *(MEMBER_STATES - 1), BY(states, pool_state_word), .from = MEMBER_FREE},
    {"counterd_pool_waiting", METRIC_GAUGE, "Requests that wait for members to use.", "pool",
     POOLS_SHOWN, OF(waiting)},
    {"counterd_pool_want", METRIC_GAUGE, "Members that suppliers are to have.", "pool", POOLS_SHOWN,
     OF(want), JOINED},
    {"counterd_pool_late", METRIC_GAUGE,
     "Holds that lasted longer than hold_warn, since the start.", "pool", POOLS_SHOWN,
     OF(totals.late)},
    {"counterd_pool_late_starts_total", METRIC_COUNTER,
     "Times that a supplier did not come up to its WANT within start_timeout.", "pool", POOLS_SHOWN,
     OF(totals.late_starts), JOINED},
    {"counterd_pool_takes_total", METRIC_COUNTER,
     "TAKE requests, by what for and what came of them.", "pool for outcome",
     POOLS_SHOWN *POOL_FOR_COUNT *POOL_TAKES_COUNT, .each = each_pool, .sparse = true,
     .at = offsetof(struct pool_counts, totals.takes), .size = sizeof(uint64_t),
     .words = {pool_for_word, pool_outcome_word}, .to = {POOL_FOR_COUNT, POOL_TAKES_COUNT}},
    {"counterd_pool_moves_total", METRIC_COUNTER, "Moves of members, by why.", "pool why",
     POOLS_SHOWN *POOL_WHY_COUNT, BY(totals.moves, pool_why_word), .sparse = true},
    {"counterd_pool_wait_duration_seconds", METRIC_HISTOGRAM, "How long requests for use waited.",
     "pool", POOLS_SHOWN, OF(waits), .kind = METRIC_IS_BUCKETS},
    {"counterd_pool_hold_duration_seconds", METRIC_HISTOGRAM, "How long members were held.", "pool",
     POOLS_SHOWN, OF(holds), .kind = METRIC_IS_BUCKETS},
    {"counterd_pools_visited_total", METRIC_COUNTER,
     "Members, waits and suppliers that requests for pools looked at, and events told.", "", 1,
     METRIC_OF(struct reading, sums.visited)},
    {"counterd_pools_visited_most", METRIC_GAUGE,
     "The most of these at a time, while others waited.", "", 1,
     METRIC_OF(struct reading, sums.visited_most)},
    {0},
};

/* ---- statistics ------------------------------------------------------------------------------ */

static void add_statistics(struct services *services, struct moment now, struct json_text *to)
{
    (void)now;
    struct pools_sums sums;
    pools_sums(pools_of(services), &sums);
    json_text_number(to, "pools", sums.pools);
    json_text_number(to, "members", sums.members);
    json_text_number(to, "held", sums.held);
    json_text_number(to, "waiting", sums.waiting);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static const struct route_row routes[] = {
    {HTTP_GET, "/api/v1/pools", get_pools, false},
    {HTTP_GET, "/api/v1/pools/*", get_pool, false},
    {HTTP_POST, "/api/v1/pools/*/drop", drop_pool, true},
    {HTTP_POST, "/api/v1/pools/*/members/set", set_pool_member, true},
    {HTTP_POST, "/api/v1/pools/*/members/drop", drop_pool_member, true},
    {0},
};

const struct monitor pools_monitor = {
    .read = read_pools,
    .reading_size = sizeof(struct reading),
    .metrics = metrics,
    .routes = routes,
    .statistics = add_statistics,
};
