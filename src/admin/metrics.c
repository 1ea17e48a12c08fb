/*
 * metrics.c - what Prometheus reads: one table with a row for each metric of the daemon, of all
 * protocols and of the workers. The metrics of one protocol or resource are rows of its own
 * (service/seen.h) and are written after these. Of requests, only those kinds are listed that there
 * have been: most pairs of verb and outcome can never be.
 *
 * To add one: a row, which says what its samples are made of, and a passage in counterd-admin(7); a
 * test fails while that is missing.
 */
#include "admin/private.h"
#include "admin/process.h"
#include "base/log.h"
#include "service/seen.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What one answer is made from: read once, so that its numbers are of one moment. */
struct exposition {
    struct samples *to; /* of the metric that is being written */
    const struct admin_config *config;
    const struct http *http;
    struct process process;
    struct log_counts log;
    struct admin_upgrades upgrades;
};

struct metric {
    const char *name;
    const char *type; /* "counter", "gauge" or "histogram" */
    const char *help;
    const char *labels; /* their names, separated by spaces; "": none */
    /* What its samples are made of; one of these is set. A function that writes them, called once
       or for each service; */
    void (*whole)(struct exposition *e);
    void (*service)(struct exposition *e, const struct service *s);
    /* the place in an exposition of a number that may be NAN; */
    size_t known;
    /* the count, or the durations, of a service; */
    uint64_t (*of_service)(const struct service *s);
    void (*durations)(const struct service *s, struct buckets_sum *sum_r);
    /* the count, or the time, of a worker. */
    uint32_t (*of_worker)(const struct worker *w);
    uint64_t (*worker_ns)(const struct worker *w);
};

static const struct labels none;

/* ---- what they are collected from ---------------------------------------------------------- */

static uint64_t load(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void build_info(struct exposition *e)
{
    sample_count(e->to, (struct labels){{e->config->version}}, 1);
}

static void start_time(struct exposition *e)
{
    sample_number(e->to, none, unix_of(e->config->services->started_ns));
}

static void requests(struct exposition *e, const struct service *s)
{
    const struct service_row *row = s->row;
    for (unsigned v = 0; v < s->verbs; v++) {
        for (unsigned o = 0; o < s->outcomes; o++) {
            uint64_t count = service_requests(s, v, o);
            if (count > 0)
                sample_count(e->to,
                             (struct labels){{service_name(s), row->verbs[v], row->outcomes[o]}},
                             count);
        }
    }
}

static void wait_durations(struct exposition *e, const struct service *s)
{
    for (unsigned how = 0; how < WAITED_COUNT; how++) {
        struct buckets_sum sum;
        service_waits(s, how, &sum);
        sample_histogram(e->to, (struct labels){{service_name(s), waited_word(how)}}, &sum);
    }
}

static void connections(struct exposition *e, const struct service *s)
{
    sample_count(e->to, (struct labels){{service_name(s)}}, atomic_load(&s->protocol.connections));
}

static void connections_opened(struct exposition *e, const struct service *s)
{
    sample_count(e->to, (struct labels){{service_name(s)}}, load(&s->protocol.connections_made));
}

static void connections_closed(struct exposition *e, const struct service *s)
{
    const char *word;
    for (unsigned i = 0; (word = protocol_close_word(s->protocol.row, i)) != NULL; i++)
        sample_count(e->to, (struct labels){{service_name(s), word}}, load(&s->protocol.closed[i]));
}

static void accept_errors(struct exposition *e, const struct service *s)
{
    sample_count(e->to, (struct labels){{service_name(s)}}, load(&s->protocol.accept_errors));
}

static void send_errors(struct exposition *e, const struct service *s)
{
    sample_count(e->to, (struct labels){{service_name(s)}}, load(&s->protocol.send_errors));
}

static void outputs_full(struct exposition *e, const struct service *s)
{
    sample_count(e->to, (struct labels){{service_name(s)}}, load(&s->protocol.outputs_full));
}

static void log_lines(struct exposition *e)
{
    for (unsigned level = 0; level < LOG_LEVELS; level++)
        sample_count(e->to, (struct labels){{log_level_word(level)}}, e->log.lines[level]);
}

static void log_dropped(struct exposition *e)
{
    sample_count(e->to, (struct labels){{"rate"}}, e->log.left_out);
    sample_count(e->to, (struct labels){{"lost"}}, e->log.lost);
}

static void upgrades(struct exposition *e)
{
    sample_count(e->to, (struct labels){{"done"}}, e->upgrades.done);
    sample_count(e->to, (struct labels){{"failed"}},
                 e->upgrades.tried > e->upgrades.done ? e->upgrades.tried - e->upgrades.done : 0);
}

static void upgrade_pause(struct exposition *e)
{
    sample_seconds(e->to, none, (uint64_t)e->upgrades.pause_ns);
}

static void admin_connections(struct exposition *e)
{
    sample_count(e->to, none, http_connections(e->http));
}

static void admin_limits(struct exposition *e)
{
    for (unsigned i = 0; i < HTTP_LIMITS; i++)
        sample_count(e->to, (struct labels){{http_limit_word(i)}}, http_met(e->http, i));
}

/* ---- the table ----------------------------------------------------------------------------- */

#define COUNTER   METRIC_COUNTER
#define GAUGE     METRIC_GAUGE
#define HISTOGRAM METRIC_HISTOGRAM

#define AT(field) offsetof(struct exposition, field)

/* clang-format off */
static const struct metric metrics[] = {
    {"counterd_build_info", GAUGE, "Always 1; which version this is.", "version",
     .whole = build_info},
    {"counterd_start_time_seconds", GAUGE, "Unix time of the start.", "", .whole = start_time},
    {"counterd_requests_total", COUNTER,
     "Requests answered, by what was asked and what was answered.", "protocol verb outcome",
     .service = requests},
    {"counterd_refused_total", COUNTER,
     "Requests refused at once: no free unit, a full queue, no room for a job.", "protocol",
     .of_service = service_refused},
    {"counterd_waiting", GAUGE, "Clients that wait.", "protocol", .of_service = service_waiting},
    {"counterd_wait_duration_seconds", HISTOGRAM, "How long waits took, by how they ended.",
     "protocol outcome", .service = wait_durations},
    {"counterd_hold_duration_seconds", HISTOGRAM, "How long units were held.", "protocol",
     .durations = service_holds},
    {"counterd_answer_duration_seconds", HISTOGRAM,
     "From when a request was read to when what was answered had been written; without waits.",
     "protocol", .durations = service_answers},
    {"counterd_connections", GAUGE, "Connections open.", "protocol", .service = connections},
    {"counterd_connections_opened_total", COUNTER, "Connections made.", "protocol",
     .service = connections_opened},
    {"counterd_connections_closed_total", COUNTER, "Connections ended, by why.", "protocol reason",
     .service = connections_closed},
    {"counterd_accept_errors_total", COUNTER,
     "Connections that could not be served, for want of memory or descriptors.", "protocol",
     .service = accept_errors},
    {"counterd_send_errors_total", COUNTER, "Writes that failed.", "protocol",
     .service = send_errors},
    {"counterd_output_full_total", COUNTER,
     "How often half of limits.output_buffer was queued, so that a client was not read from.",
     "protocol", .service = outputs_full},
    {"counterd_received_bytes_total", COUNTER, "Bytes received from clients.", "protocol",
     .of_service = service_received},
    {"counterd_sent_bytes_total", COUNTER, "Bytes sent to clients.", "protocol",
     .of_service = service_sent},
    {"counterd_worker_busy_seconds_total", COUNTER,
     "Time that a worker had something to do; its rate is the worker's load, 0 to 1.", "worker",
     .worker_ns = worker_busy_ns},
    {"counterd_worker_connections", GAUGE, "Connections that a worker has.", "worker",
     .of_worker = worker_connections},
    {"counterd_worker_cpu_seconds_total", COUNTER, "CPU time that a worker has used.", "worker",
     .worker_ns = worker_cpu_ns},
    {"counterd_log_lines_total", COUNTER, "Lines written to the log.", "level", .whole = log_lines},
    {"counterd_log_lines_dropped_total", COUNTER,
     "Lines not written: too many like them (rate), or nobody took them (lost).", "reason",
     .whole = log_dropped},
    {"counterd_admin_connections", GAUGE, "Connections to this interface.", "",
     .whole = admin_connections},
    {"counterd_admin_limits_total", COUNTER,
     "Clients of this interface that were closed or refused, by the limit that they met.", "limit",
     .whole = admin_limits},
    {"counterd_upgrades_total", COUNTER, "Upgrades in place, by what came of them.", "result",
     .whole = upgrades},
    {"counterd_upgrade_pause_seconds", GAUGE,
     "How long nobody was served when the last good upgrade took over.", "", .whole = upgrade_pause},
    {"process_cpu_seconds_total", COUNTER, "CPU time of the process, user and system.", "",
     .known = AT(process.cpu_seconds)},
    {"process_resident_memory_bytes", GAUGE, "Memory that is in RAM.", "",
     .known = AT(process.resident_bytes)},
    {"process_virtual_memory_bytes", GAUGE, "Address space that is reserved.", "",
     .known = AT(process.virtual_bytes)},
    {"process_open_fds", GAUGE, "Descriptors open.", "", .known = AT(process.open_fds)},
    {"process_max_fds", GAUGE, "Descriptors that may be open.", "", .known = AT(process.max_fds)},
    {"process_start_time_seconds", GAUGE, "Unix time of the start of the process.", "",
     .known = AT(process.start_seconds)},
};
/* clang-format on */

static void collect_service(struct exposition *e, const struct metric *m, const struct service *s)
{
    struct labels labels = {{service_name(s)}};
    struct buckets_sum sum;
    if (m->service)
        m->service(e, s);
    if (m->of_service)
        sample_count(e->to, labels, m->of_service(s));
    if (m->durations) {
        m->durations(s, &sum);
        sample_histogram(e->to, labels, &sum);
    }
}

static void collect_worker(struct exposition *e, const struct metric *m, const struct worker *w,
                           unsigned i)
{
    char number[12];
    struct labels labels = {{number}};
    snprintf(number, sizeof(number), "%u", i);
    if (m->of_worker)
        sample_count(e->to, labels, m->of_worker(w));
    if (m->worker_ns)
        sample_seconds(e->to, labels, m->worker_ns(w));
}

static void collect(struct exposition *e, const struct metric *m)
{
    const struct admin_config *config = e->config;
    if (m->whole)
        m->whole(e);
    if (m->known)
        sample_number(e->to, none, *(const double *)((const char *)e + m->known));
    for (unsigned i = 0; i < services_count(config->services); i++)
        collect_service(e, m, services_at(config->services, i));
    for (unsigned i = 0; i < config->server->count; i++)
        collect_worker(e, m, config->server->workers[i], i);
}

/* Writes the metrics of one protocol or resource. */
static void write_seen(struct text *text, struct services *services, const struct seen *seen,
                       struct moment now)
{
    void *reading = calloc(1, seen->reading_size + 1);
    if (!reading) {
        text->failed = true;
        return;
    }
    if (seen->read)
        seen->read(services, now, reading);
    for (const struct metric_row *m = seen->metrics; m->name; m++) {
        struct samples to;
        samples_begin(&to, text, m->name, m->type, m->help, m->labels, m->max);
        samples_add(&to, m, reading);
        samples_end(&to);
    }
    free(reading);
}

/* Writes all of them. */
static void metrics_write(struct text *text, const struct admin *admin)
{
    const struct admin_config *config = &admin->config;
    struct samples to;
    struct exposition e = {.to = &to, .config = config, .http = admin->http};
    struct moment now = clock_now();
    process_read(&e.process);
    log_get_counts(&e.log);
    config->hooks.upgrades(config->hooks.arg, &e.upgrades);
    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
        const struct metric *m = &metrics[i];
        samples_begin(&to, text, m->name, m->type, m->help, m->labels, UINT_MAX);
        collect(&e, m);
        samples_end(&to);
    }
    const struct seen *seen;
    for (unsigned i = 0; services_seen(config->services, i, &seen); i++) {
        if (seen && seen->metrics)
            write_seen(text, config->services, seen, now);
    }
}

void get_metrics(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    struct text text = {0};
    metrics_write(&text, admin);
    size_t len;
    char *body = text_take(&text, &len);
    http_answer(request, 200, METRICS_TYPE, body, len);
}
