/*
 * histogram.h - counts durations in classes. The class bounds are 1, 2.5 and 5 times each power of
 * ten, from a microsecond to 1,000 seconds; metrics show the same bounds.
 *
 * Threads: one thread adds, any thread reads, as with tallies. A reader may see a new duration in
 * one field and not yet in another.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include "base/duration.h"
#include "base/tally.h"

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 28

struct histogram {
    tally counts[HISTOGRAM_BOUNDS + 1]; /* [i]: durations above bound i - 1, up to bound i */
    struct duration_sum sum_ns;
};

/* A copy of a histogram, or the sum of several. Zero-initialised: empty. */
struct histogram_sum {
    uint64_t counts[HISTOGRAM_BOUNDS + 1];
    duration sum_ns;
};

/*
 * The upper bound of class `i` in nanoseconds, inclusive. `i` must be less than HISTOGRAM_BOUNDS.
 */
int64_t histogram_bound_ns(size_t i);

/* Adds `times` durations of `ns` each; negative ones count as 0. One thread. */
void histogram_add(struct histogram *h, int64_t ns, uint64_t times);

/* Adds `sum` to `h`. Called by the thread that adds. */
void histogram_add_sum(struct histogram *h, const struct histogram_sum *sum);

/* Adds the current values of `h` to `sum`. Any thread. */
void histogram_sum_up(struct histogram_sum *sum, const struct histogram *h);

/* Subtracts `earlier`, an older sum of the same histograms, from `sum`. */
void histogram_sum_since(struct histogram_sum *sum, const struct histogram_sum *earlier);

/* Number of durations in a sum. */
uint64_t histogram_sum_count(const struct histogram_sum *sum);

/*
 * The quantile in nanoseconds: `per_mille` of 1,000 durations are shorter. Assumes that durations
 * are spread evenly within their class. Durations above the last bound count as that bound. Returns
 * 0 when the sum is empty.
 */
int64_t histogram_quantile_ns(const struct histogram_sum *sum, unsigned per_mille);

#endif
