/*
 * workload.h - workloads.
 *
 * A workload plans a run: the number of connections, and the role of each. The driver connects,
 * starts a role's operations, passes it the answers, and counts.
 */
#ifndef COUNTERBENCH_WORKLOAD_H
#define COUNTERBENCH_WORKLOAD_H

#include "bench/counterbench/protocol.h"

#include <jansson.h>

struct bench_options;
struct flight;
struct link;
struct run;

/*
 * What a connection does. The link is the connection (run.h). Either the driver starts its
 * operations, or the role runs by itself from `begin`.
 */
struct role {
    bool times_requests; /* record the latency of each request; false: the role records it */
    /* Starts an operation scheduled for `start_ns`. NULL: the role has none. */
    void (*operate)(struct link *link, int64_t start_ns);
    /* Called when the links of all threads are connected, before anything counts. Returns true if
       `heard` will call driver_prepared; the run waits for that. NULL: nothing to prepare. */
    bool (*prepare)(struct link *link);
    /* Called when the run begins. NULL: ignored. */
    void (*begin)(struct link *link);
    /* Called at the time set by driver_alarm. */
    void (*alarm)(struct link *link);
    /* Another thread has called run_wake. NULL: ignored. */
    void (*woken)(struct link *link);
    /* An answer has arrived. `flight` is its request, no longer in flight. */
    void (*heard)(struct link *link, const struct flight *flight, enum heard heard);
    /* The connection was lost, and counted as an error. NULL: the driver does not reopen it; the
       loss of a link that runs by itself then ends the run. */
    void (*lost)(struct link *link);
};

/* What ends a run. */
enum plan_end { ENDS_BY_TIME, ENDS_BY_ROLE /* run_end */ };

/* The plan of a run. */
struct plan {
    uint32_t links;    /* connections of all threads */
    uint32_t flights;  /* most requests in flight on each */
    uint32_t slots;    /* most pending operations on each */
    unsigned requests; /* requests of one operation */
    enum plan_end end;
    bool counts_requests; /* each request counts as an operation */
    bool has_quiet;       /* measures also before, for the same time: run->quiet */
    bool is_awake; /* threads poll every nap_ns instead of sleeping until something arrives */
    long nap_ns;
    uint64_t things;    /* number of things that the run has added to the server's memory */
    size_t shared_size; /* size of run->shared */
    struct terms terms[ASK_COUNT];
};

struct workload {
    const char *name;
    const char *help;
    const struct protocol *protocol; /* default; NULL: text and binary */
    uint32_t connections, depth, names, waiters, limit, members, body, batch, beside; /* defaults */
    unsigned asks;    /* ASK_BIT requests that the protocol must have */
    uint64_t options; /* BENCH_BIT of its options, without WORKLOAD_OPTIONS_OF_ALL */
    /* Returns why options do not fit together, or NULL. NULL: all fit. */
    const char *(*refuses)(const struct bench_options *options);
    /* Changes the default plan: a timed run of --connections links with one request in flight on
       each. NULL: keeps it. */
    void (*plan)(const struct bench_options *options, struct plan *plan_r);
    /* The role of all links; if NULL, role_of gives the role of link `number` (of all threads). */
    const struct role *role;
    const struct role *(*role_of)(const struct run *run, uint32_t number);
    /* Adds to the JSON. NULL: adds nothing. */
    void (*describe)(const struct run *run, json_t *to);
};

extern const struct workload workload_pairs, workload_churn, workload_hot, workload_herd,
    workload_mixed, workload_dump, workload_idle, workload_names, workload_pools, workload_jobs,
    workload_put_jobs, workload_take_jobs;

#endif
