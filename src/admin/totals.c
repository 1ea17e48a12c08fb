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
    const struct service_row *row = service->row;
    uint64_t counts[MEANS_COUNT] = {0};
    for (unsigned v = 0; v < service->verbs; v++) {
        for (unsigned o = 0; o < service->outcomes; o++)
            counts[row->meaning ? row->meaning(v, o) : MEANS_OTHER] +=
                service_requests(service, v, o);
    }
    struct buckets_sum timed_out;
    service_waits(service, WAITED_TIMED_OUT, &timed_out);
    uint64_t late = buckets_sum_count(&timed_out);
    t->timed_out += late;
    /* The two are not counted at the same moment. */
    t->refused += counts[MEANS_TIMED_OUT] > late ? counts[MEANS_TIMED_OUT] - late : 0;
    add_times(t, service);
    for (unsigned i = 0; i < MEANS_COUNT; i++)
        t->requests += counts[i];
    t->granted += counts[MEANS_GRANTED];
    t->refused += counts[MEANS_REFUSED];
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
