/* stats.c - the numbers of the whole daemon: now, since the start, and of the last ten minutes. */
#include "admin/admin_internal.h"
#include "admin/process.h"
#include "base/tally.h"
#include "net/query.h"
#include "service/monitor.h"
#include "service/table_resource.h"

#include <math.h>
#include <string.h>

/* A histogram in short. */
static void add_summary(struct json_text *to, const struct histogram_sum *sum, uint64_t count)
{
    bool any = histogram_sum_count(sum) > 0;
    json_text_number(to, "count", count);
    json_decimal(to, "p50_seconds", any ? clock_seconds(histogram_quantile_ns(sum, 500)) : NAN);
    json_decimal(to, "p90_seconds", any ? clock_seconds(histogram_quantile_ns(sum, 900)) : NAN);
    json_decimal(to, "p99_seconds", any ? clock_seconds(histogram_quantile_ns(sum, 990)) : NAN);
    json_decimal(to, "max_seconds", any ? clock_seconds(histogram_longest_ns(sum)) : NAN);
}

/* Times of a service since the start (enum service_times). */
static void add_times(struct json_text *to, const char *key, const struct service *service,
                      unsigned i)
{
    struct histogram_sum sum;
    struct buckets_sum buckets;
    service_times(service, i, &sum);
    service_buckets(service, i, &buckets);
    json_text_open(to, key, '{');
    add_summary(to, &sum, buckets_sum_count(&buckets));
    json_decimal(to, "sum_seconds", (double)buckets.sum_ns / (double)NS_PER_S);
    json_text_close(to, '}');
}

static void add_recent(struct json_text *to, const char *key, const struct histogram_sum *sum)
{
    json_text_open(to, key, '{');
    add_summary(to, sum, histogram_sum_count(sum));
    json_text_close(to, '}');
}

static void add_connections(struct json_text *to, const struct protocol *protocol)
{
    const char *word;
    json_text_open(to, "connections", '{');
    json_text_number(to, "open", atomic_load(&protocol->connections));
    json_text_number(to, "made", tally_get(&protocol->connections_made));
    json_text_number(to, "max", atomic_load(&protocol->max_connections));
    json_text_number(to, "accept_errors", tally_get(&protocol->accept_errors));
    json_text_number(to, "send_errors", tally_get(&protocol->send_errors));
    json_text_open(to, "closed", '{');
    for (unsigned i = 0; (word = protocol_close_word(protocol->row, i)) != NULL; i++)
        json_text_number(to, word, tally_get(&protocol->closed[i]));
    json_text_close(to, '}');
    json_text_close(to, '}');
}

static void add_requests(struct json_text *to, const struct service *service)
{
    const struct service_row *row = service->row;
    json_text_open(to, "requests", '[');
    for (unsigned v = 0; v < service->verbs; v++) {
        for (unsigned o = 0; o < service->outcomes; o++) {
            uint64_t count = service_requests(service, v, o);
            if (count == 0)
                continue;
            json_text_open(to, NULL, '{');
            json_words(to, "verb", row->verbs[v]);
            json_words(to, "outcome", row->outcomes[o]);
            json_text_number(to, "count", count);
            json_text_close(to, '}');
        }
    }
    json_text_close(to, ']');
}

/* Adds the text of each listener of a protocol, and if there are any. */
static void add_listeners(struct json_text *to, const struct admin_config *config,
                          const struct protocol *protocol)
{
    size_t count = 0;
    for (size_t i = 0; i < config->listener_count; i++)
        count += config->listeners[i].protocol == protocol;
    json_text_bool(to, "enabled", count > 0);
    json_text_open(to, "listeners", '[');
    for (size_t i = 0; i < config->listener_count; i++) {
        if (config->listeners[i].protocol == protocol)
            json_words(to, NULL, config->listeners[i].where);
    }
    json_text_close(to, ']');
}

/* Adds the statistics that a protocol or a resource brings (service/monitor.h), if it does. */
static void add_statistics(struct json_text *to, const char *key, struct services *services,
                           const struct monitor *monitor, struct moment now)
{
    if (!monitor || !monitor->statistics)
        return;
    json_text_open(to, key, '{');
    monitor->statistics(services, now, to);
    json_text_close(to, '}');
}

/* Adds the resources that bring statistics, if there are any. */
static void add_resources(struct json_text *to, struct services *services, struct moment now)
{
    bool any = false;
    for (unsigned i = 0; i < services->resource_count; i++) {
        const struct resource_row *row = services->resources[i]->row;
        if (!any && row->monitor && row->monitor->statistics) {
            json_text_open(to, "resources", '{');
            any = true;
        }
        add_statistics(to, row->name, services, row->monitor, now);
    }
    if (any)
        json_text_close(to, '}');
}

static void add_protocol(struct json_text *to, const struct admin_config *config,
                         const struct service *service, struct moment now)
{
    json_text_open(to, NULL, '{');
    json_words(to, "name", service_name(service));
    add_listeners(to, config, &service->protocol);
    add_connections(to, &service->protocol);
    json_text_open(to, "bytes", '{');
    json_text_number(to, "received", service_received(service));
    json_text_number(to, "sent", service_sent(service));
    json_text_close(to, '}');
    add_requests(to, service);
    json_text_number(to, "refused", service_refused(service));
    json_text_number(to, "waiting", service_waiting(service));
    json_text_open(to, "waits", '{');
    for (unsigned how = 0; how < WAITED_COUNT; how++)
        add_times(to, waited_word(how), service, SERVICE_WAITS + how);
    json_text_close(to, '}');
    add_times(to, "holds", service, SERVICE_HOLDS);
    add_times(to, "answers", service, SERVICE_ANSWERS);
    add_statistics(to, "own", config->services, service->row->monitor, now);
    json_text_close(to, '}');
}

static void add_worker(struct json_text *to, unsigned number, const struct worker *worker)
{
    json_text_open(to, NULL, '{');
    json_text_number(to, "worker", number);
    json_text_number(to, "connections", worker_connections(worker));
    json_decimal(to, "busy_seconds", clock_seconds((int64_t)worker_busy_ns(worker)));
    json_decimal(to, "cpu_seconds", clock_seconds((int64_t)worker_cpu_ns(worker)));
    json_text_close(to, '}');
}

static void add_last_minutes(struct json_text *to, const struct history *history)
{
    struct history_recent r;
    history_get_recent(history, &r);
    json_text_open(to, "recent", '{');
    json_decimal(to, "window_seconds", r.seconds);
    json_decimal(to, "requests_per_second", r.requests);
    json_decimal(to, "granted_per_second", r.granted);
    json_decimal(to, "refused_per_second", r.refused);
    json_decimal(to, "timed_out_per_second", r.timed_out);
    add_recent(to, "waits", &r.times[TOTALS_WAITS]);
    add_recent(to, "holds", &r.times[TOTALS_HOLDS]);
    add_recent(to, "answers", &r.times[TOTALS_ANSWERS]);
    json_text_close(to, '}');
}

static void add_memory(struct json_text *to, const struct services *services,
                       const struct table_stats *table)
{
    struct process process;
    process_read(&process);
    json_text_open(to, "memory", '{');
    json_text_number(to, "used_bytes", table->memory);
    json_text_number(to, "limit_bytes", table_resource_settings(services)->memory_limit);
    if (isnan(process.resident_bytes))
        json_text_null(to, "resident_bytes");
    else
        json_text_number(to, "resident_bytes", (uint64_t)process.resident_bytes);
    json_text_close(to, '}');
}

/* Adds what the table has of names. */
static void add_table(struct json_text *to, const struct services *services,
                      const struct table_stats *table)
{
    uint64_t waiting = 0;
    for (unsigned i = 0; i < services_count(services); i++)
        waiting += service_waiting(services_at(services, i));
    json_text_number(to, "names", table->names);
    json_text_number(to, "units", table->units);
    json_text_number(to, "holdings", table->holdings);
    json_text_number(to, "waiting", waiting);
}

void get_stats(const struct route_request *r)
{
    if (!query_none(r->http))
        return;
    const struct admin_config *config = &r->admin->config;
    struct services *services = config->services;
    struct moment now = clock_now();
    struct table_stats table;
    struct json_text json = json_text_begin();
    table_get_stats(services->table, now, &table);
    json_words(&json, "version", config->version);
    json_decimal(&json, "now", clock_unix_of(now.mono_ns));
    json_decimal(&json, "started", clock_unix_of(services->started_ns));
    json_decimal(&json, "uptime_seconds", clock_seconds(now.mono_ns - services->started_ns));
    json_text_number(&json, "threads", config->server->count);
    add_memory(&json, services, &table);
    add_table(&json, services, &table);
    json_text_open(&json, "protocols", '[');
    for (unsigned i = 0; i < services_count(services); i++)
        add_protocol(&json, config, services_at(services, i), now);
    json_text_close(&json, ']');
    json_text_open(&json, "workers", '[');
    for (unsigned i = 0; i < config->server->count; i++)
        add_worker(&json, i, config->server->workers[i]);
    json_text_close(&json, ']');
    add_last_minutes(&json, r->admin->history);
    add_resources(&json, services, now);
    http_answer_json(r->http, 200, &json);
}

void get_history(const struct route_request *r)
{
    static const char *const names[] = {"seconds", NULL};
    struct query query;
    unsigned seconds = HISTORY_SECONDS / 2;
    if (!query_read(&query, r->http, names) ||
        !query_number(&query, 0, 1, HISTORY_SECONDS, &seconds))
        return;
    int64_t end_ns = history_end_ns(r->admin->history);
    struct json_text json = json_text_begin();
    json_text_number(&json, "interval_seconds", 1);
    json_decimal(&json, "end", end_ns < 0 ? NAN : clock_unix_of(end_ns));
    json_text_number(&json, "seconds", seconds);
    json_text_open(&json, "series", '{');
    for (unsigned series = 0; series < HISTORY_SERIES_COUNT; series++) {
        double values[HISTORY_SECONDS];
        history_get(r->admin->history, series, seconds, values);
        json_text_open(&json, history_word(series), '[');
        for (unsigned i = 0; i < seconds; i++)
            json_decimal(&json, NULL, values[i]);
        json_text_close(&json, ']');
    }
    json_text_close(&json, '}');
    http_answer_json(r->http, 200, &json);
}
