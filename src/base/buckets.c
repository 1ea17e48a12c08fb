/* buckets.c - see buckets.h. */
#include "base/buckets.h"

#include "base/check.h"
#include "base/clock.h"

#define US INT64_C(1000)

#define DECADE(unit) (unit), (unit)*5 / 2, (unit)*5
/* The last entry is above every duration. */
static const int64_t bounds[BUCKET_BOUNDS + 1] = {
    DECADE(US),
    DECADE(10 * US),
    DECADE(100 * US),
    DECADE(NS_PER_MS),
    DECADE(10 * NS_PER_MS),
    DECADE(100 * NS_PER_MS),
    DECADE(NS_PER_S),
    DECADE(10 * NS_PER_S),
    DECADE(100 * NS_PER_S),
    1000 * NS_PER_S,
    INT64_MAX,
};

int64_t bucket_bound_ns(size_t i)
{
    CHECK(i < BUCKET_BOUNDS);
    return bounds[i];
}

/*
 * Returns the index of the first bound that is at least `ns`. A class is about ten ninths of a bit
 * wide, so the bit length of `ns` gives the index to within one or two.
 */
static size_t class_of(int64_t ns)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll((uint64_t)ns | 1);
    size_t i =
        bits > 10 ? (bits - 10) * 9 / 10 : 0; /* values of ten bits or fewer: the first class */
    if (i > BUCKET_BOUNDS)
        return BUCKET_BOUNDS;
    while (bounds[i] < ns)
        i++;
    return i;
}

void buckets_add(struct buckets *b, int64_t ns, uint64_t times)
{
    if (ns < 0)
        ns = 0;
    tally_add(&b->counts[class_of(ns)], times);
    duration_sum_add_times(&b->sum_ns, (uint64_t)ns, times);
}

void buckets_add_sum(struct buckets *b, const struct buckets_sum *sum)
{
    for (size_t i = 0; i <= BUCKET_BOUNDS; i++)
        tally_add(&b->counts[i], sum->counts[i]);
    duration_sum_add(&b->sum_ns, sum->sum_ns);
}

void buckets_sum_up(struct buckets_sum *sum, const struct buckets *b)
{
    for (size_t i = 0; i <= BUCKET_BOUNDS; i++)
        sum->counts[i] += tally_get(&b->counts[i]);
    sum->sum_ns += duration_sum_get(&b->sum_ns);
}

uint64_t buckets_sum_count(const struct buckets_sum *sum)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= BUCKET_BOUNDS; i++)
        count += sum->counts[i];
    return count;
}
