/*
 * histogram.h - counts durations twice: in the buckets that metrics show, and in classes so narrow
 * that percentiles are at most 3.2 % off and never above the longest duration.
 *
 * Threads: as in buckets.h.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include "base/buckets.h"
#include "base/log_linear.h"

#define HISTOGRAM_BITS    4 /* 16 classes for each power of two: the middle is within a 32nd */
#define HISTOGRAM_CLASSES LOG_LINEAR_CLASSES(HISTOGRAM_BITS, 63)

struct histogram {
    struct buckets buckets;
    tally longest_ns; /* of all */
    tally latest_ns;  /* the longest since histogram_sum_up_latest */
    tally counts[HISTOGRAM_CLASSES];
};

/* A copy of a histogram's classes, or the sum of several. Zero-initialised: empty. */
struct histogram_sum {
    uint64_t longest_ns;
    uint64_t counts[HISTOGRAM_CLASSES];
};

/* Adds `times` durations of `ns` each; negative ones count as 0. One thread. */
void histogram_add(struct histogram *h, int64_t ns, uint64_t times);

/* Adds `sum` to the classes of `h`, not to its buckets. Called by the thread that adds. */
void histogram_add_sum(struct histogram *h, const struct histogram_sum *sum);

/* Adds the current values of `h` to `sum`. Any thread. */
void histogram_sum_up(struct histogram_sum *sum, const struct histogram *h);

/* The same, but with the longest duration since the call before. One thread. */
void histogram_sum_up_latest(struct histogram_sum *sum, struct histogram *h);

/* Subtracts the counts of `earlier`, an older sum of the same histograms, from `sum`. The caller
 * sets the longest duration of what is left. */
void histogram_sum_since(struct histogram_sum *sum, const struct histogram_sum *earlier);

/* Number of durations in a sum. */
uint64_t histogram_sum_count(const struct histogram_sum *sum);

/* The longest duration, or, of a sum that was made while it was added, the like of it. 0: none. */
int64_t histogram_longest_ns(const struct histogram_sum *sum);

/*
 * The quantile in nanoseconds: `per_mille` of 1,000 durations are not longer. It is the middle of
 * its class, at most the longest duration. Returns 0 when the sum is empty.
 */
int64_t histogram_quantile_ns(const struct histogram_sum *sum, unsigned per_mille);

#endif
