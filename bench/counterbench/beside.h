/*
 * beside.h - connections that make load while the run measures something else. They acquire and
 * release, one request at a time; the run records their latency.
 */
#ifndef COUNTERBENCH_BESIDE_H
#define COUNTERBENCH_BESIDE_H

#include "bench/counterbench/workload.h"

/* Acquires and releases. Records the latency of answers, counts no operations. */
extern const struct role beside_role;

#endif
