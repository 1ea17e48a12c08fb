/*
 * metrics.h - what Prometheus reads: one table with a row for each metric of the daemon, of all
 * protocols and of the workers. The metrics of one protocol or resource are rows of its own
 * (service/seen.h) and are written after these.
 *
 * To add one: a row, which says what its samples are made of, and a passage in counterd-admin(7); a
 * test fails while that is missing.
 */
#ifndef ADMIN_METRICS_H
#define ADMIN_METRICS_H

#include "admin/admin.h"
#include "admin/process.h"
#include "base/log.h"
#include "service/seen.h"

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

extern const struct metric metrics[];
extern const size_t metric_count;

/* The content type of the format that metrics_write writes. */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Writes all of them. In the admin's thread. */
void metrics_write(struct text *text, const struct admin *admin);

#endif
