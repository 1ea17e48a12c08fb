/* totals.c - see totals.h. */
#include "admin/totals.h"

static void add_up(struct histogram_sum *sum, const struct histogram_sum *more)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        sum->counts[i] += more->counts[i];
    sum->sum_ns += more->sum_ns;
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
    struct histogram_sum sum;
    for (unsigned how = 0; how < WAITED_COUNT; how++) {
        service_waits(service, how, &sum);
        add_up(&t->waits, &sum);
        if (how == WAITED_TIMED_OUT) {
            uint64_t late = histogram_sum_count(&sum);
            t->timed_out += late;
            /* The two are not counted at the same moment. */
            t->refused += counts[MEANS_TIMED_OUT] > late ? counts[MEANS_TIMED_OUT] - late : 0;
        }
    }
    service_holds(service, &sum);
    add_up(&t->holds, &sum);
    service_answers(service, &sum);
    add_up(&t->answers, &sum);
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
