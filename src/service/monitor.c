/* monitor.c - see monitor.h. The format of samples is Prometheus's text format 0.0.4. */
#include "service/monitor.h"

#include "base/log.h"
#include "service/service.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void samples_begin(struct samples *samples_r, struct text *text, const char *name, const char *type,
                   const char *help, const char *labels, unsigned max)
{
    *samples_r = (struct samples){.text = text, .name = name, .labels = labels, .room = max};
    text_addf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void samples_end(struct samples *samples)
{
    static struct log_limit limit;
    if (samples->left_out == 0)
        return;
    text_addf(samples->text, "# %s: %u samples are left out\n", samples->name, samples->left_out);
    log_warning_limited(&limit, "admin: metric %s has %u samples more than it may", samples->name,
                        samples->left_out);
}

/* True: there is room for one more sample. */
static bool take_room(struct samples *to)
{
    if (to->room == 0) {
        to->left_out++;
        return false;
    }
    to->room--;
    return true;
}

/* Writes the name of a sample, with its labels and, if there is one, the bound of a bucket. */
static void begin_sample(struct samples *to, const char *suffix, const struct labels *labels,
                         const char *bound)
{
    const char *name = to->labels;
    char separator = '{';
    text_addf(to->text, "%s%s", to->name, suffix);
    for (size_t i = 0; *name; i++) {
        size_t len = strcspn(name, " ");
        CHECK(i < METRIC_LABELS_MAX && labels->values[i]);
        text_addf(to->text, "%c%.*s=\"", separator, (int)len, name);
        text_add_label(to->text, labels->values[i]);
        text_add(to->text, "\"", 1);
        name += len + (name[len] == ' ');
        separator = ',';
    }
    if (bound) {
        text_addf(to->text, "%cle=\"%s\"", separator, bound);
        separator = ',';
    }
    text_addf(to->text, separator == ',' ? "} " : " ");
}

void sample_count(struct samples *to, struct labels labels, uint64_t count)
{
    if (!take_room(to))
        return;
    begin_sample(to, "", &labels, NULL);
    text_addf(to->text, "%llu\n", (unsigned long long)count);
}

/* Nanoseconds, as exact seconds in decimal without needless zeros. */
static const char *seconds_text(duration ns, char *to)
{
    duration second = (duration)NS_PER_S;
    int len = sprintf(to, "%llu.%09llu", (unsigned long long)(ns / second),
                      (unsigned long long)(ns % second));
    while (to[len - 1] == '0')
        len--;
    if (to[len - 1] == '.')
        len--;
    to[len] = '\0';
    return to;
}
#define SECONDS_TEXT 32

void sample_seconds(struct samples *to, struct labels labels, duration ns)
{
    char text[SECONDS_TEXT];
    if (!take_room(to))
        return;
    begin_sample(to, "", &labels, NULL);
    text_addf(to->text, "%s\n", seconds_text(ns, text));
}

/* True: it has no fraction, as no number of that size has. */
static bool is_whole(double value)
{
    return value <= -9e18 || value >= 9e18 || value == (double)(int64_t)value;
}

void sample_number(struct samples *to, struct labels labels, double value)
{
    if (isnan(value) || !take_room(to))
        return;
    begin_sample(to, "", &labels, NULL);
    if (isinf(value))
        text_addf(to->text, "%cInf\n", value > 0 ? '+' : '-');
    else if (is_whole(value))
        text_addf(to->text, "%.0f\n", value);
    else
        text_addf(to->text, "%.6f\n", value);
}

void sample_histogram(struct samples *to, struct labels labels, const struct buckets_sum *sum)
{
    char text[SECONDS_TEXT];
    uint64_t count = 0;
    if (!take_room(to))
        return;
    for (size_t i = 0; i < BUCKET_BOUNDS; i++) {
        count += sum->counts[i];
        begin_sample(to, "_bucket", &labels, seconds_text((uint64_t)bucket_bound_ns(i), text));
        text_addf(to->text, "%llu\n", (unsigned long long)count);
    }
    count += sum->counts[BUCKET_BOUNDS];
    begin_sample(to, "_bucket", &labels, "+Inf");
    text_addf(to->text, "%llu\n", (unsigned long long)count);
    begin_sample(to, "_sum", &labels, NULL);
    text_addf(to->text, "%s\n", seconds_text(sum->sum_ns, text));
    begin_sample(to, "_count", &labels, NULL);
    text_addf(to->text, "%llu\n", (unsigned long long)count);
}

/* A number of so many bytes. */
static duration number_at(const char *at, size_t size)
{
    switch (size) {
    case sizeof(uint8_t):
        return *(const uint8_t *)at;
    case sizeof(uint32_t):
        return *(const uint32_t *)(const void *)at;
    case sizeof(uint64_t):
        return *(const uint64_t *)(const void *)at;
    case sizeof(duration):
        return *(const duration *)(const void *)at;
    default:
        CHECK(false);
    }
}

static void add_value(struct samples *to, const struct metric_row *row, struct labels labels,
                      const char *at)
{
    if (row->kind == METRIC_IS_BUCKETS) {
        sample_histogram(to, labels, (const void *)at);
        return;
    }
    if (row->kind == METRIC_IS_REAL) {
        sample_number(to, labels, *(const double *)(const void *)at);
        return;
    }
    duration number = number_at(at, row->size);
    if (row->kind == METRIC_IS_NS)
        sample_seconds(to, labels, number);
    else if (number > 0 || !row->sparse)
        sample_count(to, labels, (uint64_t)number);
}

void samples_of(struct samples *to, const struct metric_row *row, const char *of, const void *from)
{
    const char *base = from;
    unsigned label = of != NULL;
    unsigned count = row->words[0] ? row->to[0] : 1, inner = row->words[1] ? row->to[1] : 1;
    if (row->when && !*(const bool *)(base + row->when))
        return;
    for (unsigned i = row->from; i < count; i++) {
        for (unsigned k = 0; k < inner; k++) {
            struct labels labels = {{of}};
            if (row->words[0])
                labels.values[label] = row->words[0](i);
            if (row->words[1])
                labels.values[label + 1] = row->words[1](k);
            add_value(to, row, labels, base + row->at + (i * inner + k) * row->size);
        }
    }
}

void samples_add(struct samples *to, const struct metric_row *row, const void *reading)
{
    if (row->each)
        row->each(to, row, reading);
    else
        samples_of(to, row, NULL, reading);
}

bool slug_name(const struct route_request *r, const char *what, const char *capitals, uint8_t *to,
               struct bytes *name_r)
{
    *name_r = bytes_at(to, 0);
    if (!text_unpercent((const char *)r->slug.data, r->slug.len, to, &name_r->len))
        http_error(r->http, 400,
                   "a %% in the name needs two hexadecimal digits (a %% itself is %%25)");
    else if (name_r->len == 0)
        http_error(r->http, 400, "the path has no %s: /api/v1/%ss/%s, with %s percent-encoded",
                   what, what, capitals, capitals);
    else
        return true;
    return false;
}

void *route_alloc(const struct route_request *r, size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        http_answer(r->http, 503, "application/json", NULL, 0);
    return memory;
}

void route_steps(const struct route_request *r, bool good,
                 void (*step)(void *job, struct http_request *request), void (*end)(void *job),
                 void *job)
{
    if (good)
        http_later(r->http, step, end, job);
    else
        end(job);
}

bool services_monitor(const struct services *services, unsigned i, const struct monitor **monitor_r)
{
    unsigned protocols = services->service_count;
    if (i >= protocols + services->resource_count)
        return false;
    *monitor_r = i < protocols ? services->services[i]->row->monitor
                               : services->resources[i - protocols]->row->monitor;
    return true;
}
