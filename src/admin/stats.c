/* stats.c - the numbers of the whole daemon: now, since the start, and of the last ten minutes. */
#include "admin/private.h"
#include "admin/process.h"
#include "net/query.h"
#include "service/seen.h"
#include "service/table_resource.h"

#include <math.h>
#include <string.h>

/* A histogram in short, as object. */
static json_t *summary(const struct histogram_sum *sum, uint64_t count)
{
    bool any = histogram_sum_count(sum) > 0;
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)count, "p50_seconds",
        json_known(any ? seconds_of(histogram_quantile_ns(sum, 500)) : NAN), "p90_seconds",
        json_known(any ? seconds_of(histogram_quantile_ns(sum, 900)) : NAN), "p99_seconds",
        json_known(any ? seconds_of(histogram_quantile_ns(sum, 990)) : NAN), "max_seconds",
        json_known(any ? seconds_of(histogram_longest_ns(sum)) : NAN));
}

/* Times of a service since the start (enum service_times). */
static json_t *times_of(const struct service *service, unsigned i)
{
    struct histogram_sum sum;
    struct buckets_sum buckets;
    service_times(service, i, &sum);
    service_buckets(service, i, &buckets);
    json_t *object = summary(&sum, buckets_sum_count(&buckets));
    json_put(&object, "sum_seconds", json_real((double)buckets.sum_ns / (double)NS_PER_S));
    return object;
}

static json_t *recent_times(const struct histogram_sum *sum)
{
    return summary(sum, histogram_sum_count(sum));
}

static uint64_t count_of(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static json_t *connections_of(const struct protocol *protocol)
{
    json_t *closed = json_object();
    const char *word;
    for (unsigned i = 0; (word = protocol_close_word(protocol->row, i)) != NULL; i++)
        json_put(&closed, word, json_integer((json_int_t)count_of(&protocol->closed[i])));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "open",
                     (json_int_t)atomic_load(&protocol->connections), "made",
                     (json_int_t)count_of(&protocol->connections_made), "max",
                     (json_int_t)atomic_load(&protocol->max_connections), "accept_errors",
                     (json_int_t)count_of(&protocol->accept_errors), "send_errors",
                     (json_int_t)count_of(&protocol->send_errors), "closed", closed);
}

static json_t *requests_of(const struct service *service)
{
    const struct service_row *row = service->row;
    json_t *array = json_array();
    for (unsigned v = 0; v < service->verbs; v++) {
        for (unsigned o = 0; o < service->outcomes; o++) {
            uint64_t count = service_requests(service, v, o);
            if (count > 0)
                json_add(&array, json_pack("{s:s, s:s, s:I}", "verb", row->verbs[v], "outcome",
                                           row->outcomes[o], "count", (json_int_t)count));
        }
    }
    return array;
}

static json_t *waits_of(const struct service *service)
{
    json_t *object = json_object();
    for (unsigned how = 0; how < WAITED_COUNT; how++)
        json_put(&object, waited_word(how), times_of(service, SERVICE_WAITS + how));
    return object;
}

/* The text of each listener of a protocol. */
static json_t *listeners_of(const struct admin_config *config, const struct protocol *protocol)
{
    json_t *array = json_array();
    for (size_t i = 0; i < config->listener_count; i++) {
        if (config->listeners[i].protocol == protocol)
            json_add(&array, json_words(config->listeners[i].where));
    }
    return array;
}

/* The statistics that a protocol or a resource brings (service/seen.h). NULL: no memory. */
static json_t *statistics_of(struct services *services, const struct seen *seen, struct moment now)
{
    struct json_text json = {0};
    json_text_open(&json, NULL, '{');
    seen->statistics(services, now, &json);
    json_text_close(&json, '}');
    json_t *object = json.text.failed ? NULL
                                      : json_loadb(text_str(&json.text), json.text.len,
                                                   JSON_REJECT_DUPLICATES, NULL);
    text_free(&json.text);
    return object;
}

/* Adds the resources that bring statistics, if there are any, to *root. */
static void put_resources(json_t **root, struct services *services, struct moment now)
{
    json_t *all = json_object();
    bool any = !all; /* no memory: the whole answer fails */
    for (unsigned i = 0; i < services->resource_count; i++) {
        const struct resource_row *row = services->resources[i]->row;
        if (row->seen && row->seen->statistics) {
            json_put(&all, row->name, statistics_of(services, row->seen, now));
            any = true;
        }
    }
    if (any)
        json_put(root, "resources", all);
    else
        json_decref(all);
}

static json_t *protocol_of(const struct admin_config *config, const struct service *service,
                           struct moment now)
{
    const struct seen *seen = service->row->seen;
    const struct protocol *protocol = &service->protocol;
    json_t *listeners = listeners_of(config, protocol);
    json_t *object = json_pack(
        "{s:s, s:b, s:o, s:o, s:{s:I, s:I}, s:o, s:I, s:I, s:o, s:o, s:o}", "name",
        service_name(service), "enabled", json_array_size(listeners) > 0, "listeners", listeners,
        "connections", connections_of(protocol), "bytes", "received",
        (json_int_t)service_received(service), "sent", (json_int_t)service_sent(service),
        "requests", requests_of(service), "refused", (json_int_t)service_refused(service),
        "waiting", (json_int_t)service_waiting(service), "waits", waits_of(service), "holds",
        times_of(service, SERVICE_HOLDS), "answers", times_of(service, SERVICE_ANSWERS));
    if (seen && seen->statistics)
        json_put(&object, "own", statistics_of(config->services, seen, now));
    return object;
}

static json_t *protocols_of(const struct admin_config *config, struct moment now)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < services_count(config->services); i++)
        json_add(&array, protocol_of(config, services_at(config->services, i), now));
    return array;
}

static json_t *workers_of(const struct server *server)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < server->count; i++) {
        const struct worker *worker = server->workers[i];
        json_add(&array, json_pack("{s:i, s:I, s:f, s:f}", "worker", (int)i, "connections",
                                   (json_int_t)worker_connections(worker), "busy_seconds",
                                   seconds_of((int64_t)worker_busy_ns(worker)), "cpu_seconds",
                                   seconds_of((int64_t)worker_cpu_ns(worker))));
    }
    return array;
}

static json_t *recent_of(const struct history *history)
{
    struct history_recent r;
    history_get_recent(history, &r);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "window_seconds", r.seconds,
                     "requests_per_second", r.requests, "granted_per_second", r.granted,
                     "refused_per_second", r.refused, "timed_out_per_second", r.timed_out, "waits",
                     recent_times(&r.times[TOTALS_WAITS]), "holds",
                     recent_times(&r.times[TOTALS_HOLDS]), "answers",
                     recent_times(&r.times[TOTALS_ANSWERS]));
}

static json_t *memory_of(const struct services *services, const struct table_stats *table)
{
    struct process process;
    process_read(&process);
    return json_pack("{s:I, s:I, s:o}", "used_bytes", (json_int_t)table->memory, "limit_bytes",
                     (json_int_t)table_resource_settings(services)->memory_limit, "resident_bytes",
                     isnan(process.resident_bytes)
                         ? json_null()
                         : json_integer((json_int_t)process.resident_bytes));
}

void get_stats(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    if (!query_none(request))
        return;
    const struct admin_config *config = &admin->config;
    struct moment now = clock_now();
    struct table_stats table;
    table_get_stats(config->services->table, now, &table);
    json_int_t waiting = 0;
    for (unsigned i = 0; i < services_count(config->services); i++)
        waiting += (json_int_t)service_waiting(services_at(config->services, i));
    json_t *root = json_pack(
        "{s:s, s:f, s:f, s:f, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "version",
        config->version, "now", unix_of(now.mono_ns), "started",
        unix_of(config->services->started_ns), "uptime_seconds",
        seconds_of(now.mono_ns - config->services->started_ns), "threads",
        (json_int_t)config->server->count, "memory", memory_of(config->services, &table), "names",
        (json_int_t)table.names, "units", (json_int_t)table.units, "holdings",
        (json_int_t)table.holdings, "waiting", waiting, "protocols", protocols_of(config, now),
        "workers", workers_of(config->server), "recent", recent_of(admin->history));
    put_resources(&root, config->services, now);
    answer_json(request, 200, root);
}

void get_history(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    static const char *const names[] = {"seconds", NULL};
    struct query query;
    unsigned seconds = HISTORY_SECONDS / 2;
    if (!query_read(&query, request, names) ||
        !query_number(&query, 0, 1, HISTORY_SECONDS, &seconds))
        return;
    json_t *all = json_object();
    for (unsigned series = 0; series < HISTORY_SERIES_COUNT; series++) {
        double values[HISTORY_SECONDS];
        history_get(admin->history, series, seconds, values);
        json_t *array = json_array();
        for (unsigned i = 0; i < seconds; i++)
            json_add(&array, json_known(values[i]));
        json_put(&all, history_word(series), array);
    }
    int64_t end_ns = history_end_ns(admin->history);
    answer_json(request, 200,
                json_pack("{s:i, s:o, s:i, s:o}", "interval_seconds", 1, "end",
                          json_known(end_ns < 0 ? NAN : unix_of(end_ns)), "seconds", (int)seconds,
                          "series", all));
}
