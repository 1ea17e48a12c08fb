/* table_monitor.c - what the counter table shows of itself (service/monitor.h). */
#include "service/monitor.h"
#include "service/table_resource.h"

struct reading {
    struct table_stats table;
    struct collector_stats collector;
    uint64_t memory_limit, collection_ns;
};

static void read_table(struct services *services, struct moment now, void *reading)
{
    struct reading *r = reading;
    table_get_stats(services->table, now, &r->table);
    table_resource_collector(services, &r->collector);
    r->table.dropped_early += r->collector.dropped_before;
    r->memory_limit = table_resource_settings(services)->memory_limit;
    r->collection_ns = r->collector.all_us * 1000;
}

#define OF(member) METRIC_OF(struct reading, member)

static const struct metric_row metrics[] = {
    {"counterd_names", METRIC_GAUGE, "Names that exist.", "", 1, OF(table.names)},
    {"counterd_units", METRIC_GAUGE, "Units held, over all names.", "", 1, OF(table.units)},
    {"counterd_holdings", METRIC_GAUGE, "Pairs of a client and a name that it holds or waits for.",
     "", 1, OF(table.holdings)},
    {"counterd_table_memory_bytes", METRIC_GAUGE, "What names, units and waiters take.", "", 1,
     OF(table.memory)},
    {"counterd_table_memory_limit_bytes", METRIC_GAUGE, "What they may take.", "", 1,
     OF(memory_limit)},
    {"counterd_table_names_made_total", METRIC_COUNTER, "Names made.", "", 1, OF(table.names_made)},
    {"counterd_collections_total", METRIC_COUNTER,
     "Sweeps over all names for those not in use any more.", "", 1, OF(collector.collections)},
    {"counterd_collected_names_total", METRIC_COUNTER, "Names that sweeps have removed.", "", 1,
     OF(collector.collected)},
    {"counterd_names_dropped_early_total", METRIC_COUNTER,
     "Names at 0 that were dropped before their interval ended, because memory was short.", "", 1,
     OF(table.dropped_early)},
    {"counterd_collection_seconds_total", METRIC_COUNTER, "Time that sweeps took.", "", 1,
     .kind = METRIC_IS_NS, OF(collection_ns)},
    {0},
};

const struct monitor table_monitor = {
    .read = read_table, .reading_size = sizeof(struct reading), .metrics = metrics};
