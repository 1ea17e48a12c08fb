/*
 * monitor.h - what a protocol or a resource shows of itself: metrics, routes of the HTTP interface,
 * statistics. Its row points to a `struct monitor` (`monitor` in service.h and resource.h); the
 * admin interface walks over all of them and knows none by name.
 *
 * Threads: the admin's thread calls all of it, while the workers and the threads of resources run.
 */
#ifndef SERVICE_MONITOR_H
#define SERVICE_MONITOR_H

#include "base/check.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/json_text.h"
#include "base/text.h"
#include "net/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admin;
struct services;

/* ---- metrics --------------------------------------------------------------------------------- */

#define METRIC_COUNTER   "counter"
#define METRIC_GAUGE     "gauge"
#define METRIC_HISTOGRAM "histogram"

/* A metric has at most so many labels. */
#define METRIC_LABELS_MAX 3

/* The values of a metric's labels, in the order of its row: UTF-8 or not. */
struct labels {
    const char *values[METRIC_LABELS_MAX];
};

/* Takes the samples of one metric. */
struct samples {
    struct text *text;
    const char *name, *labels; /* of the metric: see struct metric_row */
    unsigned room;             /* for so many more; those beyond are left out */
    unsigned left_out;
};

/* Begins a metric and ends it: writes its header, and a comment if samples were left out. */
void samples_begin(struct samples *samples_r, struct text *text, const char *name, const char *type,
                   const char *help, const char *labels, unsigned max);
void samples_end(struct samples *samples);

/* Adds one sample: a count; a time in ns, shown in seconds; a number, of which NAN is left out. */
void sample_count(struct samples *to, struct labels labels, uint64_t count);
void sample_seconds(struct samples *to, struct labels labels, duration ns);
void sample_number(struct samples *to, struct labels labels, double value);
/* Adds a whole histogram, which counts as one sample. */
void sample_histogram(struct samples *to, struct labels labels, const struct buckets_sum *sum);

/* What a value is: a bool, uint32_t, uint64_t or duration that is a count; one of ns, shown in
 * seconds; a double, of which NAN is left out; a struct buckets_sum. */
enum metric_kind { METRIC_IS_COUNT, METRIC_IS_NS, METRIC_IS_REAL, METRIC_IS_BUCKETS };

/* A metric. Its passage in counterd-admin(7) says the same; a test compares them. */
struct metric_row {
    const char *name;   /* "counterd_pool_members"; of a counter it ends with "_total" */
    const char *type;   /* METRIC_COUNTER, ... */
    const char *help;   /* one line */
    const char *labels; /* their names, separated by spaces; "": none */
    /* It has at most so many samples. Whatever clients do, no more are written: those beyond are
     * left out, a comment in the answer says how many, and the log has a warning. 0: clients have
     * no say in how many there are. */
    unsigned max;
    /* Calls samples_of for each thing of the reading (see struct monitor) that has such samples;
     * NULL: for the reading itself. */
    void (*each)(struct samples *to, const struct metric_row *row, const void *reading);
    size_t when; /* where a bool is without which there are no samples; 0: there always are */
    enum metric_kind kind;
    /* Where the value is, and its size. With words it is an array, with two an array of arrays: a
     * sample for each element, with the words of its indexes as its last labels. */
    size_t at, size;
    const char *(*words[2])(unsigned index);
    unsigned from, to[2]; /* indexes: the first in the outer array; the last of each, plus 1 */
    bool sparse;          /* no samples of 0 */
};

/* What is in `member` of a struct; in each element of the array `member`. */
#define METRIC_OF(type, member)                                                                    \
    .at = offsetof(type, member), .size = sizeof(((const type *)NULL)->member)
#define METRIC_BY(type, member, word)                                                              \
    .at = offsetof(type, member), .size = sizeof(((const type *)NULL)->member[0]),                 \
    .words = {word}, .to = {ARRAY_SIZE(((const type *)NULL)->member)}

/* Adds the samples that the members of a row make of a struct, with `of` as their first label;
 * NULL: without it. */
void samples_of(struct samples *to, const struct metric_row *row, const char *of, const void *from);
/* Adds all samples of a row. */
void samples_add(struct samples *to, const struct metric_row *row, const void *reading);

/* ---- routes ---------------------------------------------------------------------------------- */

/* A request that has a route. Host names, pages of other sites and the token were checked. */
struct route_request {
    struct http_request *http;
    struct services *services;
    struct admin *admin; /* for the routes of admin/routes.c */
    struct bytes slug;   /* of the path: what stands for the '*' of its route, as sent */
};

/*
 * Decodes the name in a path to `to` (HTTP_HEADERS_MAX bytes). `what` it names, small and in
 * capitals, is for the error, as in "/api/v1/tubes/TUBE". False: it is no name; it was answered.
 */
bool slug_name(const struct route_request *request, const char *what, const char *capitals,
               uint8_t *to, struct bytes *name_r) MUST_USE;

/* Memory for the answer, zeroed. NULL: there is none; the request was answered. */
void *route_alloc(const struct route_request *request, size_t size) MUST_USE;

/* Answers in steps (http_later) if the parameters are `good`; else they were answered, and the job
 * ends. */
void route_steps(const struct route_request *request, bool good,
                 void (*step)(void *job, struct http_request *request), void (*end)(void *job),
                 void *job);

/* Answers one kind of request: at once, in steps or by message (net/http.h). */
typedef void route_handler(const struct route_request *request);

struct route_row {
    enum http_method method; /* HTTP_GET: HEAD as well; or HTTP_POST */
    const char *path;        /* with at most one '*', which stands for no or any bytes but '/' */
    route_handler *handle;
    bool changes; /* something: needs the token */
};

/* ---- all of one protocol or resource --------------------------------------------------------- */

struct monitor {
    /* Reads at one moment what the samples of all its metrics are made from. NULL: `reading` is
     * zeroed. */
    void (*read)(struct services *services, struct moment now, void *reading);
    size_t reading_size;
    const struct metric_row *metrics; /* without a name after the last; NULL: none */
    const struct route_row *routes;   /* without a path after the last; NULL: none */
    /* Adds its statistics to /api/v1/stats, as the members of an object that is open: under
     * "resources" and its name, of a protocol under "own" of the protocol. NULL: none. */
    void (*statistics)(struct services *services, struct moment now, struct json_text *to);
};

/*
 * What number `i` shows: protocols in the order of the registry, then resources. `i` goes from 0;
 * false: there are no more. *monitor_r is NULL where it shows nothing.
 */
bool services_monitor(const struct services *services, unsigned i,
                      const struct monitor **monitor_r);

#endif
