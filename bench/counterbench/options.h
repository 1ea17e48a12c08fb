/*
 * options.h - the options of counterbench. One table drives the parser, the help, and the test of
 * the manual.
 */
#ifndef COUNTERBENCH_OPTIONS_H
#define COUNTERBENCH_OPTIONS_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The most addresses and processes of servers. */
#define BENCH_TARGETS 8
#define BENCH_PIDS    8
#define BENCH_CPUS    64

/* Exit statuses. */
enum bench_status { BENCH_OK, BENCH_FAILED, BENCH_USAGE };

/* The options in the order of the help. A set of options has the bit 1 << index of each. */
enum bench_option {
    BENCH_TARGET,
    BENCH_PROTOCOL,
    BENCH_CONNECTIONS,
    BENCH_DEPTH,
    BENCH_THREADS,
    BENCH_SECONDS,
    BENCH_REQUESTS,
    BENCH_WARMUP,
    BENCH_RATE,
    BENCH_NAMES,
    BENCH_NAME_LENGTH,
    BENCH_WAITERS,
    BENCH_LIMIT,
    BENCH_MEMBERS,
    BENCH_BODY,
    BENCH_BATCH,
    BENCH_BESIDE,
    BENCH_PID,
    BENCH_CPU,
    BENCH_TLS,
    BENCH_TLS_CA,
    BENCH_SEED,
    BENCH_JSON,
    BENCH_QUIET,
    BENCH_HELP,
    BENCH_VERSION,
    BENCH_OPTION_COUNT
};

#define BENCH_BIT(option) (UINT64_C(1) << (option))

/* Options of every workload. */
#define WORKLOAD_OPTIONS_OF_ALL                                                                    \
    (BENCH_BIT(BENCH_TARGET) | BENCH_BIT(BENCH_PROTOCOL) | BENCH_BIT(BENCH_THREADS) |              \
     BENCH_BIT(BENCH_NAME_LENGTH) | BENCH_BIT(BENCH_PID) | BENCH_BIT(BENCH_CPU) |                  \
     BENCH_BIT(BENCH_TLS) | BENCH_BIT(BENCH_TLS_CA) | BENCH_BIT(BENCH_SEED) |                      \
     BENCH_BIT(BENCH_JSON) | BENCH_BIT(BENCH_QUIET) | BENCH_BIT(BENCH_HELP) |                      \
     BENCH_BIT(BENCH_VERSION))

/* Options of a workload that runs for a time. */
#define WORKLOAD_TIMED                                                                             \
    (BENCH_BIT(BENCH_SECONDS) | BENCH_BIT(BENCH_REQUESTS) | BENCH_BIT(BENCH_WARMUP))

/* Values of the options. Strings point into the command line. 0 and NULL: not given. */
struct bench_options {
    const struct workload *workload;
    const char *targets[BENCH_TARGETS];
    size_t target_count;
    const char *protocol_name;
    const struct protocol *protocol; /* NULL: the workload's default */
    uint32_t connections, depth, threads;
    int64_t seconds_ns, warmup_ns;
    uint32_t requests, rate;
    uint32_t names, name_length;
    uint32_t waiters, limit, members, body, batch, beside;
    uint32_t pids[BENCH_PIDS];
    size_t pid_count;
    const char *cpu;
    uint32_t cpus[BENCH_CPUS];
    size_t cpu_count;
    bool tls;
    const char *tls_ca;
    uint32_t seed;
    bool json;
    const char *json_file; /* "-": standard output */
    bool quiet, help, version;
    uint64_t given; /* BENCH_BIT of each given option */
};

/*
 * Parses the command line, and sets missing options to the workload's defaults. Returns false after
 * printing the error to `err`; exit with BENCH_USAGE then. The result points into `argv`. One
 * thread.
 */
bool bench_options_parse(int argc, char **argv, struct bench_options *options_r,
                         FILE *err) MUST_USE;

void bench_print_help(FILE *to);

#endif
