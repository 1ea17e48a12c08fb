/* totals.c - see totals.h. */
#include "admin/totals.h"

#include <string.h>

/* What the outcomes of requests mean, by the words of the services' rows. */
enum meaning { GRANTED, REFUSED, TIMED_OUT, OTHER };

static const struct {
    const char *verb; /* NULL: any */
    const char *outcome;
    enum meaning meaning;
} meanings[] = {
    {NULL, "LOCKED", GRANTED},        {"acquire", "success", GRANTED},
    {NULL, "QUEUE_FULL", REFUSED},    {NULL, "LOCK_HELD", REFUSED},
    {NULL, "not_available", REFUSED}, {NULL, "TIMEOUT", TIMED_OUT}, /* at once, or after a wait */
};

static enum meaning meaning_of(const char *verb, const char *outcome)
{
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
        if (strcmp(meanings[i].outcome, outcome) == 0 &&
            (!meanings[i].verb || strcmp(meanings[i].verb, verb) == 0))
            return meanings[i].meaning;
    }
    return OTHER;
}

static void add_up(struct histogram_sum *sum, const struct histogram_sum *more)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        sum->counts[i] += more->counts[i];
    sum->sum_ns += more->sum_ns;
}

static void add_service(struct totals *t, const struct service *service)
{
    const struct service_row *row = service->row;
    uint64_t counts[OTHER + 1] = {0};
    for (unsigned v = 0; v < service->verbs; v++) {
        for (unsigned o = 0; o < service->outcomes; o++)
            counts[meaning_of(row->verbs[v], row->outcomes[o])] += service_requests(service, v, o);
    }
    struct histogram_sum sum;
    for (unsigned how = 0; how < WAITED_COUNT; how++) {
        service_waits(service, how, &sum);
        add_up(&t->waits, &sum);
        if (how == WAITED_TIMED_OUT) {
            uint64_t late = histogram_sum_count(&sum);
            t->timed_out += late;
            /* The two are not counted at the same moment. */
            t->refused += counts[TIMED_OUT] > late ? counts[TIMED_OUT] - late : 0;
        }
    }
    service_holds(service, &sum);
    add_up(&t->holds, &sum);
    service_answers(service, &sum);
    add_up(&t->answers, &sum);
    for (unsigned i = 0; i <= OTHER; i++)
        t->requests += counts[i];
    t->granted += counts[GRANTED];
    t->refused += counts[REFUSED];
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
