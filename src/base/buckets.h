/*
 * buckets.h - counts durations in the classes that metrics show. The bounds are 1, 2.5 and 5 times
 * each power of ten, from a microsecond to 1,000 seconds.
 *
 * Threads: one thread adds, any thread reads, as with tallies. A reader may see a new duration in
 * one field and not yet in another.
 */
#ifndef BASE_BUCKETS_H
#define BASE_BUCKETS_H

#include "base/duration.h"
#include "base/tally.h"

#include <stddef.h>
#include <stdint.h>

#define BUCKET_BOUNDS 28

struct buckets {
    tally counts[BUCKET_BOUNDS + 1]; /* [i]: durations above bound i - 1, up to bound i */
    struct duration_sum sum_ns;
};

/* A copy of buckets, or the sum of several. Zero-initialised: empty. */
struct buckets_sum {
    uint64_t counts[BUCKET_BOUNDS + 1];
    duration sum_ns;
};

/*
 * The upper bound of class `i` in nanoseconds, inclusive. `i` must be less than BUCKET_BOUNDS.
 */
int64_t bucket_bound_ns(size_t i);

/* For the next function. The last entry is above every duration. */
extern const int64_t bucket_bounds[BUCKET_BOUNDS + 1];

/*
 * The index of the first bound that is at least `ns`. A class is about ten ninths of a bit wide, so
 * the bit length of `ns` gives the index to within one or two. (`| 16`: as in log_linear_class of
 * histograms, so that it is found once.)
 */
static inline size_t bucket_of(uint64_t ns)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(ns | 16);
    size_t i = bits > 10 ? (bits - 10) * 9 / 10 : 0; /* ten bits or fewer: the first class */
    if (i > BUCKET_BOUNDS)
        return BUCKET_BOUNDS;
    while ((uint64_t)bucket_bounds[i] < ns)
        i++;
    return i;
}

/* Adds `times` durations of `ns` each; negative ones count as 0. One thread. */
static inline void buckets_add(struct buckets *b, int64_t ns, uint64_t times)
{
    uint64_t length = ns > 0 ? (uint64_t)ns : 0;
    tally_add(&b->counts[bucket_of(length)], times);
    duration_sum_add_times(&b->sum_ns, length, times);
}

/* Adds `sum` to `b`. Called by the thread that adds. */
void buckets_add_sum(struct buckets *b, const struct buckets_sum *sum);

/* Adds the current values of `b` to `sum`. Any thread. */
void buckets_sum_up(struct buckets_sum *sum, const struct buckets *b);

/* Number of durations in a sum. */
uint64_t buckets_sum_count(const struct buckets_sum *sum);

#endif
