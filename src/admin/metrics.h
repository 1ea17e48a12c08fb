/*
 * metrics.h - what Prometheus is told: one table with a row for each metric.
 *
 * To add one: a row here, whose function writes its samples, and a passage in counterd-admin(7); a
 * test fails while that is missing.
 */
#ifndef ADMIN_METRICS_H
#define ADMIN_METRICS_H

#include "admin/admin.h"
#include "admin/process.h"
#include "admin/text.h"
#include "base/log.h"

/* What one answer is made from: read once, so that its numbers are of one moment. */
struct exposition {
    struct text *text;
    const struct admin_config *config;
    const struct metric *metric; /* whose samples are being written */
    struct table_stats table;
    struct process process;
    struct log_counts log;
    struct admin_upgrades upgrades;
};

struct metric {
    const char *name;
    const char *type; /* "counter", "gauge" or "histogram" */
    const char *help;
    const char *labels; /* their names, separated by spaces; "": none */
    /* Writes its samples: one of these, called once, or for each service or worker. */
    void (*whole)(struct exposition *e);
    void (*service)(struct exposition *e, const struct service *s);
    void (*worker)(struct exposition *e, const char *number, const struct worker *w);
};

extern const struct metric metrics[];
extern const size_t metric_count;

/* The content type of the format that metrics_write writes. */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Writes all of them. Any thread, while the workers exist. */
void metrics_write(struct text *text, const struct admin_config *config);

#endif
