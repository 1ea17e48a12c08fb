/*
 * table_resource.c - see table_resource.h.
 *
 * Its sections are those of the table (engine/state.h) and this one:
 *
 *     TABLE_COLLECTOR  u32 interval length in s, bool collecting, u32 interval collected, u64 ns
 *                      busy, the collector's walk, u64 collections, u64 collected, u64 microseconds
 *                      of the last sweep, u64 microseconds of all sweeps
 *
 *     TABLE_DROPPED    u64 names dropped early (optional)
 *
 * In version 1 it was one section with the services' shared state (SERVICES_V1): u32 interval
 * length, i64 start time in ns, u32 session_room, and then the rest of TABLE_COLLECTOR.
 */
#include "service/table_resource.h"

#include "base/record.h"
#include "engine/state.h"

#include <stdlib.h>

#define TABLE_COLLECTOR UINT32_C(0x0110)
#define TABLE_DROPPED   (UINT32_C(0x0111) | RECORD_OPTIONAL)

/*
 * Each slice of a sweep visits COLLECT_LOOKS names. Then the collector pauses for four times as
 * long as the slice took, so that the worker can serve clients; only once as long when memory is
 * short.
 */
#define COLLECT_LOOKS    512
#define COLLECT_IDLE_NS  NS_PER_S
#define COLLECT_TIGHT_NS (NS_PER_S / 50)  /* the same, when memory is short */
#define COLLECT_PAUSE_NS (NS_PER_MS / 20) /* the shortest pause */

struct table_resource {
    struct resource resource; /* first */
    struct table_settings settings;

    /* The collector's state, for worker 0's thread. */
    struct timer collector;
    struct table_walk walk;
    uint32_t collected_interval; /* the interval in which the last sweep started */
    bool collecting;
    uint64_t busy_ns; /* of this sweep, in ns */
    int64_t swept_ns; /* end of the last sweep */
    int64_t trimmed_ns;
    uint64_t dropped_before; /* early, by the processes before this one; constant */

    tally collections, collected, last_us, all_us;
};

static struct table_resource *own(const struct resource *r)
{
    return unconst(r); /* `resource` is its first member */
}

static const struct table_resource *of_services(const struct services *services)
{
    return own(services_resource(services, "table"));
}

/* ---- the collector --------------------------------------------------------------------------- */

/*
 * True when the table is full, and a sweep may make room: a part of its names is at 0, or a while
 * has passed.
 */
static bool wants_room(const struct table_resource *t, struct moment now)
{
    struct table *table = t->resource.services->table;
    struct table_stats stats;
    if (!table_is_full(table))
        return false;
    if (now.mono_ns - t->swept_ns >= COLLECT_IDLE_NS)
        return true;
    table_get_stats(table, now, &stats);
    return stats.idle > stats.names / 64;
}

/* Starts a sweep when a new interval has begun, or when room is wanted. Else returns false. */
static bool begin_sweep(struct table_resource *t, struct moment now)
{
    uint32_t interval = table_interval(t->resource.services->table, now.unix_s);
    if (interval == t->collected_interval && !wants_room(t, now))
        return false;
    t->collected_interval = interval;
    t->walk = (struct table_walk){0};
    t->busy_ns = 0;
    t->collecting = true;
    return true;
}

static void end_sweep(struct table_resource *t, struct moment now)
{
    t->collecting = false;
    t->swept_ns = now.mono_ns;
    uint64_t us = t->busy_ns / 1000;
    tally_add(&t->collections, 1);
    tally_add(&t->all_us, us);
    tally_sub(&t->last_us, tally_get(&t->last_us) - us);
}

/* Waits for the next sweep; meanwhile gives pages back when memory is short. */
static int64_t rest(struct table_resource *t, struct moment now)
{
    struct table *table = t->resource.services->table;
    if (!table_is_tight(table))
        return now.mono_ns + COLLECT_IDLE_NS;
    if (now.mono_ns - t->trimmed_ns >= COLLECT_IDLE_NS) {
        table_trim(table);
        t->trimmed_ns = now.mono_ns;
    }
    return now.mono_ns + COLLECT_TIGHT_NS;
}

/* Runs a slice of a sweep, or waits for the next one. */
static int64_t collect(struct timer *timer, struct moment now)
{
    struct table_resource *t = container_of(timer, struct table_resource, collector);
    struct table *table = t->resource.services->table;
    if (!t->collecting && !begin_sweep(t, now))
        return rest(t, now);
    uint64_t collected = 0;
    int64_t begun_ns = clock_mono_ns();
    bool over = table_collect(table, &t->walk, now, COLLECT_LOOKS, &collected);
    int64_t ended_ns = clock_mono_ns(), took_ns = ended_ns - begun_ns;
    t->busy_ns += (uint64_t)took_ns;
    tally_add(&t->collected, collected);
    if (!over) {
        int64_t pause_ns = table_is_tight(table) ? took_ns : 4 * took_ns;
        return ended_ns + (pause_ns > COLLECT_PAUSE_NS ? pause_ns : COLLECT_PAUSE_NS);
    }
    end_sweep(t, now);
    return rest(t, now);
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool start(struct resource *r, const void *settings, struct moment now)
{
    struct table_resource *t = own(r);
    struct services *services = r->services;
    t->settings = *(const struct table_settings *)settings;
    struct table_config config = {
        .buckets = t->settings.buckets,
        .memory_limit = (size_t)t->settings.memory_limit,
        .stats_interval_s = t->settings.stats_interval_s,
        .hash_key = services->hash_key,
    };
    services->table = table_new(&config);
    if (!services->table)
        return false;
    t->collected_interval = table_interval(services->table, now.unix_s);
    t->collector.run = collect;
    if (reactor_add_timer(worker_reactor(services->server->workers[0]), &t->collector,
                          now.mono_ns + COLLECT_IDLE_NS))
        return true;
    table_free(&services->table);
    return false;
}

static void end(struct resource *r)
{
    struct table_resource *t = own(r);
    struct services *services = r->services;
    reactor_remove_timer(worker_reactor(services->server->workers[0]), &t->collector);
    table_free(&services->table);
}

static uint64_t held(const struct resource *r, struct moment now)
{
    struct table_stats stats;
    table_get_stats(r->services->table, now, &stats);
    return stats.units;
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static uint64_t dropped_early(const struct table_resource *t, struct moment now)
{
    struct table_stats stats;
    table_get_stats(t->resource.services->table, now, &stats);
    return t->dropped_before + stats.dropped_early;
}

static void save(const struct resource *r, struct moment now, struct record_writer *w)
{
    const struct table_resource *t = own(r);
    table_save(r->services->table, now, w);
    record_begin(w, TABLE_COLLECTOR);
    record_put_u32(w, t->settings.stats_interval_s);
    record_put_u8(w, t->collecting);
    record_put_u32(w, t->collected_interval);
    record_put_u64(w, t->busy_ns);
    table_walk_save(&t->walk, w);
    record_put_u64(w, tally_get(&t->collections));
    record_put_u64(w, tally_get(&t->collected));
    record_put_u64(w, tally_get(&t->last_us));
    record_put_u64(w, tally_get(&t->all_us));
    record_end(w);
    record_begin(w, TABLE_DROPPED);
    record_put_u64(w, dropped_early(t, now));
    record_end(w);
}

/* Reads the fields after the interval length. */
static bool restore_collector(struct table_resource *t, uint32_t interval_s,
                              struct record_reader *r)
{
    struct table_walk walk;
    bool collecting = record_get_bool(r);
    uint32_t collected_interval = record_get_u32(r);
    uint64_t busy_ns = record_get_u64(r);
    if (!table_walk_restore(&walk, r))
        return false;
    tally_add(&t->collections, record_get_u64(r));
    tally_add(&t->collected, record_get_u64(r));
    tally_add(&t->last_us, record_get_u64(r));
    tally_add(&t->all_us, record_get_u64(r));
    record_leave(r);
    if (record_ok(r) && interval_s == t->settings.stats_interval_s) { /* else starts anew */
        t->collecting = collecting;
        t->collected_interval = collected_interval;
        t->walk = walk;
        t->busy_ns = busy_ns;
    }
    return record_ok(r);
}

static bool restore_v1(struct table_resource *t, struct moment now, struct record_reader *r)
{
    uint32_t interval_s = record_get_u32(r);
    int64_t started_ns = record_get_i64(r);
    uint32_t session_room = record_get_u32(r);
    return services_restore_shared(t->resource.services, now, started_ns, session_room, r) &&
           restore_collector(t, interval_s, r);
}

static bool restore(struct resource *r, struct moment now, uint32_t kind,
                    struct record_reader *section)
{
    switch (kind) {
    case STATE_TABLE:
        return table_restore(r->services->table, now, r->services->server->count, section);
    case TABLE_COLLECTOR:
        return restore_collector(own(r), record_get_u32(section), section);
    case TABLE_DROPPED:
        own(r)->dropped_before = record_get_u64(section);
        record_leave(section);
        return record_ok(section);
    case SERVICES_V1:
        return restore_v1(own(r), now, section);
    default:
        return false;
    }
}

static bool restore_done(struct resource *r, struct record_reader *reader)
{
    return table_restore_done(r->services->table, reader);
}

/* ---- for other code -------------------------------------------------------------------------- */

void table_resource_collector(const struct services *services, struct collector_stats *stats_r)
{
    const struct table_resource *t = of_services(services);
    *stats_r = (struct collector_stats){
        .dropped_before = t->dropped_before,
        .collections = tally_get(&t->collections),
        .collected = tally_get(&t->collected),
        .last_us = tally_get(&t->last_us),
        .all_us = tally_get(&t->all_us),
    };
}

const struct table_settings *table_resource_settings(const struct services *services)
{
    return &of_services(services)->settings;
}

const struct resource_row table_resource_row = {
    .name = "table",
    .size = sizeof(struct table_resource),
    .start = start,
    .save = save,
    .restore = restore,
    .restore_done = restore_done,
    .held = held,
    .monitor = &table_monitor,
    .end = end,
};

/* ---- options --------------------------------------------------------------------------------- */

#define MIB (UINT64_C(1) << 20)

/* clang-format off */
static const struct option_row table_rows[] = {
    { .key = "buckets", OPTION_IS_NUMBER(struct table_settings, buckets), .min = 1,
      .max = 1000000000, .default_text = "16384", .unit = "",
      .help = "number of names for which the table is made; it grows when there are more" },
    { .key = "stats_interval", .alias = "stat_interval",
      OPTION_IS_NUMBER(struct table_settings, stats_interval_s), .min = 1, .max = UINT32_MAX,
      .default_text = "86400", .unit = "seconds",
      .help = "interval for which a counter's peak consumption is measured" },
    { .key = "memory_limit", OPTION_IS_SIZE(struct table_settings, memory_limit), .min = 16 * MIB,
      .max = 32768 * MIB, .default_text = "1G", .unit = "",
      .help = "maximum memory for names, units and waiters of all protocols" },
};
/* clang-format on */

const struct option_group table_options = {
    .owner = "table",
    .prefix = "counter",
    .rows = table_rows,
    .count = ARRAY_SIZE(table_rows),
    .size = sizeof(struct table_settings),
};
