/*
 * latency.h - how often answers took how long: a histogram whose classes are less than 1 % wide.
 *
 * A duration in nanoseconds is kept by its leading 8 bits: below 256 exactly, above in 128 classes
 * for each power of two, so what is read back is at most 0.8 % above what was added. Durations
 * beyond 4,398 seconds count as that. One thread adds; threads' histograms are added up after.
 */
#ifndef COUNTERBENCH_LATENCY_H
#define COUNTERBENCH_LATENCY_H

#include <stddef.h>
#include <stdint.h>

#define LATENCY_BITS    7  /* 128 classes for each power of two */
#define LATENCY_MAX_LOG 42 /* 2^42 ns */
#define LATENCY_CLASSES ((size_t)(LATENCY_MAX_LOG - LATENCY_BITS + 1) << LATENCY_BITS)

/* Zero-initialised: empty. */
struct latency {
    uint64_t counts[LATENCY_CLASSES];
    uint64_t count;
    uint64_t sum_ns;
    int64_t max_ns; /* exactly */
};

/* Adds a duration; one below 0 (clocks of two processors) counts as 0. */
void latency_add(struct latency *l, int64_t ns);

/* Adds all of `from`. */
void latency_sum_up(struct latency *l, const struct latency *from);

/* The class of a duration, and the longest duration in a class. */
size_t latency_class(int64_t ns);
int64_t latency_upper_ns(size_t class_index);

/*
 * The duration that `share` (0 to 1) of them do not exceed, as the upper end of its class, but
 * never more than the longest there was. 0 when there are none.
 */
int64_t latency_quantile_ns(const struct latency *l, double share);

double latency_mean_ns(const struct latency *l);

#endif
