/*
 * report.h - the result of a run, as JSON and as text.
 */
#ifndef COUNTERBENCH_REPORT_H
#define COUNTERBENCH_REPORT_H

#include "bench/counterbench/run.h"

#include <stdio.h>

/* The whole result as JSON; the caller frees it with json_decref. NULL: no memory. */
json_t *report_make(const struct run *run) MUST_USE;

/* The latencies of a histogram as an object: mean, percentiles, worst, in microseconds. */
json_t *report_latency(const struct latency *latency) MUST_USE;

/* Sets a member to a time, in microseconds. */
void report_set_us(json_t *object, const char *name, double ns);

/* Prints a summary of a few lines for people. */
void report_print(const struct run *run, const json_t *report, FILE *to);

#endif
