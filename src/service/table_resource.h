/*
 * table_resource.h - the counter table (engine/table.h) as a resource, with the collector of idle
 * counters. It has no thread: the table works in the workers, the collector is a timer of worker 0.
 */
#ifndef SERVICE_TABLE_RESOURCE_H
#define SERVICE_TABLE_RESOURCE_H

#include "base/option.h"
#include "service/service.h"

/* Its settings. */
struct table_settings {
    uint32_t buckets;          /* names that there is room for at the start, about */
    uint32_t stats_interval_s; /* at least 1 */
    uint64_t memory_limit;     /* bytes */
};

extern const struct resource_row table_resource_row;
extern const struct option_group table_options;
extern const struct seen table_seen; /* what it shows (seen.h) */

/* What the collector has done since the start. Any thread. */
struct collector_stats {
    uint64_t collections;     /* sweeps over all names */
    uint64_t collected;       /* names */
    uint64_t last_us, all_us; /* time that the last sweep and all of them took */
};
void table_resource_collector(const struct services *services, struct collector_stats *stats_r);

/* The settings in force. Any thread. */
const struct table_settings *table_resource_settings(const struct services *services);

#endif
