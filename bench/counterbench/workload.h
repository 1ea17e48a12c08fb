/*
 * workload.h - what a run consists of: the table of workloads, and what each says about itself.
 *
 * A workload plans a run: how many connections there are, and which role each plays. The driver
 * has a role begin operations and tells it what was answered; everything else (connecting, when an
 * operation begins, what is counted) is the driver's.
 */
#ifndef COUNTERBENCH_WORKLOAD_H
#define COUNTERBENCH_WORKLOAD_H

#include "bench/counterbench/link.h"
#include "bench/counterbench/options.h"
#include "bench/counterbench/protocol.h"

#include <jansson.h>

struct driver;
struct run;

/* Options that every workload takes. */
#define WORKLOAD_OPTIONS_OF_ALL                                                                    \
    (BENCH_BIT(BENCH_TARGET) | BENCH_BIT(BENCH_PROTOCOL) | BENCH_BIT(BENCH_THREADS) |              \
     BENCH_BIT(BENCH_NAME_LENGTH) | BENCH_BIT(BENCH_PID) | BENCH_BIT(BENCH_CPU) |                  \
     BENCH_BIT(BENCH_TLS) | BENCH_BIT(BENCH_TLS_CA) | BENCH_BIT(BENCH_SEED) |                      \
     BENCH_BIT(BENCH_JSON) | BENCH_BIT(BENCH_QUIET) | BENCH_BIT(BENCH_HELP) |                      \
     BENCH_BIT(BENCH_VERSION))

/* Those of a workload that goes on for a time. */
#define WORKLOAD_TIMED                                                                             \
    (BENCH_BIT(BENCH_SECONDS) | BENCH_BIT(BENCH_REQUESTS) | BENCH_BIT(BENCH_WARMUP))

/*
 * What a connection does. The link is the connection (link.h). Either the driver has it operate,
 * again and again, or it goes on by itself from `begin`.
 */
struct role {
    bool times_requests; /* latency is each request's; else what the role records */
    /* Begins an operation that was meant to begin at `start_ns`. NULL: it has none. */
    void (*operate)(struct link *link, int64_t start_ns);
    /* The links of all threads are connected, nothing is counted yet; true: `heard` will call
       driver_prepared, and the run waits for that. NULL: nothing is to be done. */
    bool (*prepare)(struct link *link);
    /* The run begins. NULL: nothing is to be done. */
    void (*begin)(struct link *link);
    /* What driver_alarm was asked for. */
    void (*alarm)(struct link *link);
    /* Another thread has called run_wake. NULL: that is not for this role. */
    void (*woken)(struct link *link);
    /* An answer has come. `flight` is its request, no longer in flight. */
    void (*heard)(struct link *link, const struct flight *flight, enum heard heard);
    /* The connection was lost, which was counted as an error. NULL: it is not opened again; one
       that goes on by itself then ends the run. */
    void (*lost)(struct link *link);
};

/* What ends a run. */
enum plan_end { ENDS_BY_TIME, ENDS_BY_ROLE /* run_end */ };

/* How a run is made up. */
struct plan {
    uint32_t links;    /* connections in all */
    uint32_t flights;  /* requests in flight on each, at most */
    uint32_t slots;    /* operations under way on each, at most */
    unsigned requests; /* of an operation */
    enum plan_end end;
    bool counts_requests; /* each is an operation */
    bool has_quiet;       /* as long as it measures, it measures before, too: run->quiet */
    bool is_awake;        /* threads do not sleep until something comes, but look every nap_ns */
    long nap_ns;
    uint64_t things;    /* what the server has in memory at the end and had not before */
    size_t shared_size; /* of run->shared */
    struct terms terms[ASK_COUNT];
};

struct workload {
    const char *name;
    const char *help;
    const struct protocol *protocol; /* where none is named; NULL: text and binary */
    uint32_t connections, depth, names, waiters, limit, beside; /* where not given */
    unsigned asks;    /* ASK_BIT of what a protocol must have for it */
    uint64_t options; /* BENCH_BIT of those it takes beside WORKLOAD_OPTIONS_OF_ALL */
    /* Why options do not fit together; NULL: they do. NULL: any do. */
    const char *(*refuses)(const struct bench_options *options);
    /* Plans a run; what *plan_r has before is that of a timed one of
       --connections links, one request in flight on each. NULL: that is it. */
    void (*plan)(const struct bench_options *options, struct plan *plan_r);
    /* What all links do or, where that is NULL, what link `number` (of all threads) does. */
    const struct role *role;
    const struct role *(*role_of)(const struct run *run, uint32_t number);
    /* Adds to the JSON. NULL: nothing. */
    void (*describe)(const struct run *run, json_t *to);
};

/* The row at an index; NULL: there are no more. And the row of a name; NULL: there is none. */
const struct workload *workload_at(size_t index);
const struct workload *workload_named(const char *name);

extern const struct workload workload_pairs, workload_churn, workload_hot, workload_herd,
    workload_mixed, workload_dump, workload_idle, workload_names;

#endif
