/*
 * beside.h - connections that work while something else is measured: pairs of acquire and release,
 * one request at a time, whose answers are what latency is about.
 */
#ifndef COUNTERBENCH_BESIDE_H
#define COUNTERBENCH_BESIDE_H

#include "bench/counterbench/workload.h"

/* Pairs of which only the answers' times are noted: they count as no operations. */
extern const struct role beside_role;

#endif
