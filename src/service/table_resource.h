/*
 * table_resource.h - the counter table (engine/table.h) as a resource, with the collector of idle
 * counters. It has no thread: the workers use the table, and the collector is a timer of worker 0.
 */
#ifndef SERVICE_TABLE_RESOURCE_H
#define SERVICE_TABLE_RESOURCE_H

#include "base/option.h"
#include "service/service.h"

/* Settings of the table. */
struct table_settings {
    uint32_t buckets;          /* names that fit into the table at the start, approximately */
    uint32_t stats_interval_s; /* in seconds; at least 1 */
    uint64_t memory_limit;     /* in bytes */
};

extern const struct resource_row table_resource_row;
extern const struct option_group table_options;
extern const struct monitor table_monitor; /* what it shows (monitor.h) */

/* The collector's counters since the start. Any thread. */
struct collector_stats {
    uint64_t collections;     /* sweeps over all names */
    uint64_t collected;       /* names collected */
    uint64_t last_us, all_us; /* time of the last sweep, and of all sweeps */
    uint64_t dropped_before;  /* names dropped early before the last upgrade */
};
void table_resource_collector(const struct services *services, struct collector_stats *stats_r);

/* The present settings. Any thread. */
const struct table_settings *table_resource_settings(const struct services *services);

#endif
