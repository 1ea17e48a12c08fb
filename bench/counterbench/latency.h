/*
 * latency.h - a histogram of latencies with classes less than 1 % wide.
 *
 * It keeps the leading 8 bits of a duration in nanoseconds: durations below 256 exactly, longer
 * ones in 128 classes for each power of two. A value read back is at most 0.8 % above the one
 * added. Durations above 4,398 seconds count as 4,398. One thread adds; afterwards the histograms
 * of all threads are added up.
 */
#ifndef COUNTERBENCH_LATENCY_H
#define COUNTERBENCH_LATENCY_H

#include "base/log_linear.h"

#define LATENCY_BITS    7  /* 128 classes for each power of two */
#define LATENCY_MAX_LOG 42 /* 2^42 ns */
#define LATENCY_CLASSES LOG_LINEAR_CLASSES(LATENCY_BITS, LATENCY_MAX_LOG)

/* Zero-initialise: empty. */
struct latency {
    uint64_t counts[LATENCY_CLASSES];
    uint64_t count;
    uint64_t sum_ns;
    int64_t max_ns; /* exact */
};

/* Adds a duration. A negative one (clocks of two processors) counts as 0. */
void latency_add(struct latency *l, int64_t ns);

/* Adds all of `from`. */
void latency_sum_up(struct latency *l, const struct latency *from);

/* The class of a duration, and the longest duration in a class. */
size_t latency_class(int64_t ns);
int64_t latency_upper_ns(size_t class_index);

/*
 * The duration that a `share` (0 to 1) of all durations does not exceed: the upper end of its
 * class, at most the longest duration added. 0 for an empty histogram.
 */
int64_t latency_quantile_ns(const struct latency *l, double share);

double latency_mean_ns(const struct latency *l);

#endif
