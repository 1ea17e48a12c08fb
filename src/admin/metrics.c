/*
 * metrics.c - what Prometheus reads: one table with a row for each metric of the daemon, of all
 * protocols and of the workers. The metrics of one protocol or resource are rows of its own
 * (service/monitor.h) and are written after these. Of requests, only those kinds are listed that
 * there have been: most pairs of verb and outcome can never be.
 *
 * To add one: a row, which says what its samples are made of, and a passage in counterd-admin(7); a
 * test fails while that is missing.
 */
#include "admin/admin_internal.h"
#include "admin/process.h"
#include "base/log.h"
#include "base/tally.h"
#include "service/monitor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What one answer is made from: read once, so that its numbers are of one moment. */
struct exposition {
    const struct admin_config *config;
    double started;
    struct log_counts log;
    struct admin_upgrades upgrades;
    uint64_t upgrade_pause_ns;
    uint32_t admin_connections;
    uint64_t admin_limits[HTTP_LIMITS];
    struct process process;
    struct service_reading {
        uint64_t refused, waiting, received, sent;
        uint64_t connections, connections_opened, accept_errors, send_errors, outputs_full;
        struct buckets_sum times[SERVICE_TIMES];
    } services[SERVICES_MAX];
};

/* The same of a worker. */
struct worker_reading {
    uint32_t connections;
    uint64_t busy_ns, cpu_ns;
};

static void read_service(const struct service *s, struct service_reading *reading_r)
{
    const struct protocol *p = &s->protocol;
    *reading_r = (struct service_reading){
        .refused = service_refused(s),
        .waiting = service_waiting(s),
        .received = service_received(s),
        .sent = service_sent(s),
        .connections = atomic_load(&p->connections),
        .connections_opened = tally_get(&p->connections_made),
        .accept_errors = tally_get(&p->accept_errors),
        .send_errors = tally_get(&p->send_errors),
        .outputs_full = tally_get(&p->outputs_full),
    };
    for (unsigned i = 0; i < SERVICE_TIMES; i++)
        service_buckets(s, i, &reading_r->times[i]);
}

static void read_all(const struct admin *admin, struct exposition *e)
{
    const struct admin_config *config = e->config = &admin->config;
    e->started = clock_unix_of(config->services->started_ns);
    log_get_counts(&e->log);
    config->hooks.upgrades(config->hooks.arg, &e->upgrades);
    e->upgrade_pause_ns = (uint64_t)e->upgrades.pause_ns;
    e->admin_connections = http_connections(admin->http);
    for (unsigned i = 0; i < HTTP_LIMITS; i++)
        e->admin_limits[i] = http_met(admin->http, i);
    process_read(&e->process);
    for (unsigned i = 0; i < services_count(config->services); i++)
        read_service(services_at(config->services, i), &e->services[i]);
}

/* ---- samples that are not in one place ------------------------------------------------------- */

static void build_info(struct samples *to, const struct metric_row *row, const void *reading)
{
    (void)row;
    sample_count(to, (struct labels){{((const struct exposition *)reading)->config->version}}, 1);
}

static void requests(struct samples *to, const struct metric_row *row, const void *reading)
{
    const struct services *services = ((const struct exposition *)reading)->config->services;
    (void)row;
    for (unsigned i = 0; i < services_count(services); i++) {
        const struct service *s = services_at(services, i);
        for (unsigned v = 0; v < s->verbs; v++) {
            for (unsigned o = 0; o < s->outcomes; o++) {
                struct labels labels = {{service_name(s), s->row->verbs[v], s->row->outcomes[o]}};
                uint64_t count = service_requests(s, v, o);
                if (count > 0)
                    sample_count(to, labels, count);
            }
        }
    }
}

static void connections_closed(struct samples *to, const struct metric_row *row,
                               const void *reading)
{
    const struct services *services = ((const struct exposition *)reading)->config->services;
    const char *word;
    (void)row;
    for (unsigned i = 0; i < services_count(services); i++) {
        const struct service *s = services_at(services, i);
        for (unsigned k = 0; (word = protocol_close_word(s->protocol.row, k)) != NULL; k++)
            sample_count(to, (struct labels){{service_name(s), word}},
                         tally_get(&s->protocol.closed[k]));
    }
}

static void log_dropped(struct samples *to, const struct metric_row *row, const void *reading)
{
    const struct exposition *e = reading;
    (void)row;
    sample_count(to, (struct labels){{"rate"}}, e->log.left_out);
    sample_count(to, (struct labels){{"lost"}}, e->log.lost);
}

static void upgrades(struct samples *to, const struct metric_row *row, const void *reading)
{
    const struct admin_upgrades *u = &((const struct exposition *)reading)->upgrades;
    (void)row;
    sample_count(to, (struct labels){{"done"}}, u->done);
    sample_count(to, (struct labels){{"failed"}}, u->tried > u->done ? u->tried - u->done : 0);
}

static void each_service(struct samples *to, const struct metric_row *row, const void *reading)
{
    const struct exposition *e = reading;
    for (unsigned i = 0; i < services_count(e->config->services); i++)
        samples_of(to, row, service_name(services_at(e->config->services, i)), &e->services[i]);
}

static void each_worker(struct samples *to, const struct metric_row *row, const void *reading)
{
    const struct server *server = ((const struct exposition *)reading)->config->server;
    for (unsigned i = 0; i < server->count; i++) {
        const struct worker *w = server->workers[i];
        struct worker_reading r = {worker_connections(w), worker_busy_ns(w), worker_cpu_ns(w)};
        char number[12];
        snprintf(number, sizeof(number), "%u", i);
        samples_of(to, row, number, &r);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

#define COUNTER   METRIC_COUNTER
#define GAUGE     METRIC_GAUGE
#define HISTOGRAM METRIC_HISTOGRAM

#define OF(member)       METRIC_OF(struct exposition, member)
#define BY(member, word) METRIC_BY(struct exposition, member, word)
#define SERVICE(member)  METRIC_OF(struct service_reading, member), .each = each_service
#define WORKER(member)   METRIC_OF(struct worker_reading, member), .each = each_worker
#define BUCKETS          .kind = METRIC_IS_BUCKETS
#define NS               .kind = METRIC_IS_NS
#define REAL             .kind = METRIC_IS_REAL

/* clang-format off */
static const struct metric_row metrics[] = {
    {"counterd_build_info", GAUGE, "Always 1; which version this is.", "version",
     .each = build_info},
    {"counterd_start_time_seconds", GAUGE, "Unix time of the start.", "", OF(started), REAL},
    {"counterd_requests_total", COUNTER,
     "Requests answered, by what was asked and what was answered.", "protocol verb outcome",
     .each = requests},
    {"counterd_refused_total", COUNTER,
     "Requests refused at once: no free unit, a full queue, no room for a job.", "protocol",
     SERVICE(refused)},
    {"counterd_waiting", GAUGE, "Clients that wait.", "protocol", SERVICE(waiting)},
    {"counterd_wait_duration_seconds", HISTOGRAM, "How long waits took, by how they ended.",
     "protocol outcome", SERVICE(times[SERVICE_WAITS]), BUCKETS,
     .words = {waited_word}, .to = {WAITED_COUNT}},
    {"counterd_hold_duration_seconds", HISTOGRAM, "How long units were held.", "protocol",
     SERVICE(times[SERVICE_HOLDS]), BUCKETS},
    {"counterd_answer_duration_seconds", HISTOGRAM,
     "From when a request was read to when what was answered had been written; without waits.",
     "protocol", SERVICE(times[SERVICE_ANSWERS]), BUCKETS},
    {"counterd_connections", GAUGE, "Connections open.", "protocol", SERVICE(connections)},
    {"counterd_connections_opened_total", COUNTER, "Connections made.", "protocol",
     SERVICE(connections_opened)},
    {"counterd_connections_closed_total", COUNTER, "Connections ended, by why.", "protocol reason",
     .each = connections_closed},
    {"counterd_accept_errors_total", COUNTER,
     "Connections that could not be served, for want of memory or descriptors.", "protocol",
     SERVICE(accept_errors)},
    {"counterd_send_errors_total", COUNTER, "Writes that failed.", "protocol",
     SERVICE(send_errors)},
    {"counterd_output_full_total", COUNTER,
     "How often half of limits.output_buffer was queued, so that a client was not read from.",
     "protocol", SERVICE(outputs_full)},
    {"counterd_received_bytes_total", COUNTER, "Bytes received from clients.", "protocol",
     SERVICE(received)},
    {"counterd_sent_bytes_total", COUNTER, "Bytes sent to clients.", "protocol",
     SERVICE(sent)},
    {"counterd_worker_busy_seconds_total", COUNTER,
     "Time that a worker had something to do; its rate is the worker's load, 0 to 1.", "worker",
     WORKER(busy_ns), NS},
    {"counterd_worker_connections", GAUGE, "Connections that a worker has.", "worker",
     WORKER(connections)},
    {"counterd_worker_cpu_seconds_total", COUNTER, "CPU time that a worker has used.", "worker",
     WORKER(cpu_ns), NS},
    {"counterd_log_lines_total", COUNTER, "Lines written to the log.", "level", BY(log.lines, log_level_word)},
    {"counterd_log_lines_dropped_total", COUNTER,
     "Lines not written: too many like them (rate), or nobody took them (lost).", "reason",
     .each = log_dropped},
    {"counterd_admin_connections", GAUGE, "Connections to this interface.", "",
     OF(admin_connections)},
    {"counterd_admin_limits_total", COUNTER,
     "Clients of this interface that were closed or refused, by the limit that they met.", "limit",
     BY(admin_limits, http_limit_word)},
    {"counterd_upgrades_total", COUNTER, "Upgrades in place, by what came of them.", "result",
     .each = upgrades},
    {"counterd_upgrade_pause_seconds", GAUGE,
     "How long nobody was served when the last good upgrade took over.", "", OF(upgrade_pause_ns), NS},
    {"process_cpu_seconds_total", COUNTER, "CPU time of the process, user and system.", "",
     OF(process.cpu_seconds), REAL},
    {"process_resident_memory_bytes", GAUGE, "Memory that is in RAM.", "",
     OF(process.resident_bytes), REAL},
    {"process_virtual_memory_bytes", GAUGE, "Address space that is reserved.", "",
     OF(process.virtual_bytes), REAL},
    {"process_open_fds", GAUGE, "Descriptors open.", "", OF(process.open_fds), REAL},
    {"process_max_fds", GAUGE, "Descriptors that may be open.", "", OF(process.max_fds), REAL},
    {"process_start_time_seconds", GAUGE, "Unix time of the start of the process.", "",
     OF(process.start_seconds), REAL},
    {0},
};
/* clang-format on */

/* Writes the metrics of the rows from what was read. */
static void write_rows(struct text *text, const struct metric_row *rows, const void *reading)
{
    for (const struct metric_row *m = rows; m->name; m++) {
        struct samples to;
        samples_begin(&to, text, m->name, m->type, m->help, m->labels, m->max ? m->max : UINT_MAX);
        samples_add(&to, m, reading);
        samples_end(&to);
    }
}

/* Writes the metrics of one protocol or resource. */
static void write_monitor(struct text *text, struct services *services,
                          const struct monitor *monitor, struct moment now)
{
    void *reading = calloc(1, monitor->reading_size + 1);
    if (!reading) {
        text->failed = true;
        return;
    }
    if (monitor->read)
        monitor->read(services, now, reading);
    write_rows(text, monitor->metrics, reading);
    free(reading);
}

void get_metrics(const struct route_request *r)
{
    struct services *services = r->services;
    struct text text = {0};
    struct moment now = clock_now();
    struct exposition e = {0};
    const struct monitor *monitor;
    read_all(r->admin, &e);
    write_rows(&text, metrics, &e);
    for (unsigned i = 0; services_monitor(services, i, &monitor); i++) {
        if (monitor && monitor->metrics)
            write_monitor(&text, services, monitor, now);
    }
    size_t len;
    char *body = text_take(&text, &len);
    http_answer(r->http, 200, METRICS_TYPE, body, len);
}
