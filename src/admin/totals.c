/* totals.c - see totals.h. */
#include "admin/totals.h"

static void add_times(struct totals *t, const struct service *service)
{
    for (unsigned i = 0; i < SERVICE_TIMES; i++) {
        enum totals_times to = i == SERVICE_ANSWERS ? TOTALS_ANSWERS
                               : i == SERVICE_HOLDS ? TOTALS_HOLDS
                                                    : TOTALS_WAITS;
        for (unsigned n = 0; n < service->services->server->count; n++)
            histogram_sum_up_latest(&t->times[to], service_histogram(service, n, i));
    }
}

static void add_service(struct totals *t, const struct service *service)
{
    struct buckets_sum timed_out;
    service_waits(service, WAITED_TIMED_OUT, &timed_out);
    t->requests += service_answered(service);
    t->granted += service_meaning(service, MEANS_GRANTED);
    t->refused += service_refused(service);
    t->timed_out += buckets_sum_count(&timed_out);
    add_times(t, service);
    t->waiting += service_waiting(service);
    t->connections += atomic_load_explicit(&service->protocol.connections, memory_order_relaxed);
}

void totals_take(struct totals *totals_r, const struct services *services, struct moment now)
{
    *totals_r = (struct totals){.mono_ns = now.mono_ns};
    for (unsigned i = 0; i < services_count(services); i++)
        add_service(totals_r, services_at(services, i));
    for (unsigned i = 0; i < services->server->count; i++)
        totals_r->busy_ns += worker_busy_ns(services->server->workers[i]);
    struct table_stats stats;
    table_get_stats(services->table, now, &stats);
    totals_r->units = stats.units;
    totals_r->names = stats.names;
}
