/*
 * pools_seen.c - metrics and statistics of pools, and the table of their routes. See pools_seen.h.
 *
 * Each metric walks over all pools, and takes the lock for one pool at a time.
 */
#include "service/pools_seen.h"

#include "service/pools.h"

#include <stdlib.h>

/* ---- metrics ------------------------------------------------------------------------------- */

struct reading {
    struct pools *pools;
};

static void read_pools(struct services *services, struct moment now, void *reading)
{
    (void)now;
    *(struct reading *)reading = (struct reading){.pools = pools_of(services)};
}

/* Adds the samples of one pool; `pool` is its name as a label. */
typedef void add_samples(struct samples *to, const char *pool, const struct pool_counts *counts);

struct walk {
    struct samples *to;
    add_samples *add;
    struct text pool;
};

static void visit(void *arg, const struct pool_counts *counts)
{
    struct walk *walk = arg;
    text_clear(&walk->pool);
    text_add_readable(&walk->pool, counts->name); /* different names are different labels */
    walk->to->text->failed = walk->to->text->failed || walk->pool.failed;
    walk->add(walk->to, text_str(&walk->pool), counts);
}

static void add_all(struct samples *to, const void *reading, add_samples *add)
{
    struct walk walk = {.to = to, .add = add};
    pools_count(((const struct reading *)reading)->pools, visit, &walk);
    text_free(&walk.pool);
}

/* A function that writes a metric; its block adds the samples of one pool. */
#define METRIC(function)                                                                           \
    static add_samples function##_of;                                                              \
    static void function(struct samples *to, const void *reading)                                  \
    {                                                                                              \
        add_all(to, reading, function##_of);                                                       \
    }                                                                                              \
    static void function##_of(struct samples *to, const char *pool,                                \
                              const struct pool_counts *counts)

METRIC(members)
{
    for (unsigned i = MEMBER_FREE; i < MEMBER_STATES; i++)
        sample_count(to, (struct labels){{pool, pool_state_word(i)}}, counts->states[i]);
}

METRIC(waiting)
{
    sample_count(to, (struct labels){{pool}}, counts->waiting);
}

METRIC(want)
{
    if (counts->joined)
        sample_count(to, (struct labels){{pool}}, counts->want);
}

METRIC(late)
{
    sample_count(to, (struct labels){{pool}}, counts->late);
}

METRIC(late_starts)
{
    if (counts->joined)
        sample_count(to, (struct labels){{pool}}, counts->late_starts);
}

METRIC(takes)
{
    for (unsigned i = 0; i < POOL_FOR_COUNT; i++) {
        for (unsigned k = 0; k < POOL_TAKES_COUNT; k++) {
            struct labels labels = {{pool, pool_for_word(i), pool_outcome_word(k)}};
            if (counts->takes[i][k] > 0)
                sample_count(to, labels, counts->takes[i][k]);
        }
    }
}

METRIC(moves)
{
    for (unsigned i = 0; i < POOL_WHY_COUNT; i++) {
        if (counts->moves[i] > 0)
            sample_count(to, (struct labels){{pool, pool_why_word(i)}}, counts->moves[i]);
    }
}

METRIC(wait_durations)
{
    sample_histogram(to, (struct labels){{pool}}, &counts->waits);
}

METRIC(hold_durations)
{
    sample_histogram(to, (struct labels){{pool}}, &counts->holds);
}

static void read_sums(const void *reading, struct pools_sums *sums_r)
{
    pools_sums(((const struct reading *)reading)->pools, sums_r);
}

static void visited(struct samples *to, const void *reading)
{
    struct pools_sums sums;
    read_sums(reading, &sums);
    sample_count(to, (struct labels){{NULL}}, sums.visited);
}

static void visited_most(struct samples *to, const void *reading)
{
    struct pools_sums sums;
    read_sums(reading, &sums);
    sample_count(to, (struct labels){{NULL}}, sums.visited_most);
}

/* The pools that metrics are made for; samples of more are left out. It is the default of
 * pools.max. */
#define POOLS_SHOWN 1000

static const struct metric_row metrics[] = {
    {"counterd_pool_members", METRIC_GAUGE, "Members of a pool, by their state.", "pool state",
     POOLS_SHOWN *(MEMBER_STATES - 1), members},
    {"counterd_pool_waiting", METRIC_GAUGE, "Requests that wait for members to use.", "pool",
     POOLS_SHOWN, waiting},
    {"counterd_pool_want", METRIC_GAUGE, "Members that suppliers are to have.", "pool", POOLS_SHOWN,
     want},
    {"counterd_pool_late", METRIC_GAUGE,
     "Holds that lasted longer than hold_warn, since the start.", "pool", POOLS_SHOWN, late},
    {"counterd_pool_late_starts_total", METRIC_COUNTER,
     "Times that a supplier did not come up to its WANT within start_timeout.", "pool", POOLS_SHOWN,
     late_starts},
    {"counterd_pool_takes_total", METRIC_COUNTER,
     "TAKE requests, by what for and what came of them.", "pool for outcome",
     POOLS_SHOWN *POOL_FOR_COUNT *POOL_TAKES_COUNT, takes},
    {"counterd_pool_moves_total", METRIC_COUNTER, "Moves of members, by why.", "pool why",
     POOLS_SHOWN *POOL_WHY_COUNT, moves},
    {"counterd_pool_wait_duration_seconds", METRIC_HISTOGRAM, "How long requests for use waited.",
     "pool", POOLS_SHOWN, wait_durations},
    {"counterd_pool_hold_duration_seconds", METRIC_HISTOGRAM, "How long members were held.", "pool",
     POOLS_SHOWN, hold_durations},
    {"counterd_pools_visited_total", METRIC_COUNTER,
     "Members, waits and suppliers that requests for pools looked at, and events told.", "", 1,
     visited},
    {"counterd_pools_visited_most", METRIC_GAUGE,
     "The most of these at a time, while others waited.", "", 1, visited_most},
    {0},
};

/* ---- statistics ---------------------------------------------------------------------------- */

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

/* ---- routes -------------------------------------------------------------------------------- */

bool pools_read_name(struct http_request *request, struct slug slug, uint8_t *to,
                     struct bytes *name_r)
{
    *name_r = bytes_at(to, 0);
    if (text_unpercent(slug.text, slug.len, to, &name_r->len) && name_r->len > 0)
        return true;
    if (slug.len > 0)
        http_error(request, 400,
                   "a %% in the name needs two hexadecimal digits (a %% itself is %%25)");
    else
        http_error(request, 400,
                   "the path has no pool: /api/v1/pools/POOL, with POOL percent-encoded");
    return false;
}

static const struct route_row routes[] = {
    {HTTP_GET, "/api/v1/pools", get_pools, false},
    {HTTP_GET, "/api/v1/pools/*", get_pool, false},
    {HTTP_POST, "/api/v1/pools/*/drop", drop_pool, true},
    {HTTP_POST, "/api/v1/pools/*/members/set", set_pool_member, true},
    {HTTP_POST, "/api/v1/pools/*/members/drop", drop_pool_member, true},
    {0},
};

const struct seen pools_seen = {
    .read = read_pools,
    .reading_size = sizeof(struct reading),
    .metrics = metrics,
    .routes = routes,
    .statistics = add_statistics,
};
