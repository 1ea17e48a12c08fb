/*
 * histogram.h - how often durations of what length occurred, in classes of 1, 2.5 and 5 times each
 * power of ten from a microsecond to 1,000 seconds: the bounds that metrics show.
 *
 * Threads: one adds, any reads (as with tallies). What is read while another adds may lack the
 * newest durations in some of its fields and not in others.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include "base/duration.h"
#include "base/tally.h"

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 28

struct histogram {
    tally counts[HISTOGRAM_BOUNDS + 1]; /* durations up to bound i, above bound i - 1 */
    struct duration_sum sum_ns;
};

/* A histogram as it was at one time, or several added up. Zero-initialised: empty. */
struct histogram_sum {
    uint64_t counts[HISTOGRAM_BOUNDS + 1];
    duration sum_ns;
};

/* The upper bound of class `i` (below HISTOGRAM_BOUNDS) in nanoseconds, itself included. */
int64_t histogram_bound_ns(size_t i);

/* Adds `times` durations of `ns` each (below 0: 0). One thread. */
void histogram_add(struct histogram *h, int64_t ns, uint64_t times);

/* Adds what `sum` has to `h`. The thread that adds. */
void histogram_add_sum(struct histogram *h, const struct histogram_sum *sum);

/* Adds what `h` has now to `sum`. Any thread. */
void histogram_sum_up(struct histogram_sum *sum, const struct histogram *h);

/* Takes `earlier`, an older sum of the same, off `sum`. */
void histogram_sum_since(struct histogram_sum *sum, const struct histogram_sum *earlier);

/* How many durations a sum has. */
uint64_t histogram_sum_count(const struct histogram_sum *sum);

/*
 * The duration in nanoseconds below which `per_mille` of 1,000 of them lie, taken to be spread
 * evenly within their class; what lies above the last bound counts as that bound. 0 when there are
 * none.
 */
int64_t histogram_quantile_ns(const struct histogram_sum *sum, unsigned per_mille);

#endif
