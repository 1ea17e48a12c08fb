/* histogram.c - see histogram.h. */
#include "base/histogram.h"

#include "base/check.h"
#include "base/clock.h"

#define US INT64_C(1000)

#define DECADE(unit) (unit), (unit)*5 / 2, (unit)*5
/* The last entry is above every duration. */
static const int64_t bounds[HISTOGRAM_BOUNDS + 1] = {
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

int64_t histogram_bound_ns(size_t i)
{
    CHECK(i < HISTOGRAM_BOUNDS);
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
    if (i > HISTOGRAM_BOUNDS)
        return HISTOGRAM_BOUNDS;
    while (bounds[i] < ns)
        i++;
    return i;
}

void histogram_add(struct histogram *h, int64_t ns, uint64_t times)
{
    if (ns < 0)
        ns = 0;
    tally_add(&h->counts[class_of(ns)], times);
    duration_sum_add_times(&h->sum_ns, (uint64_t)ns, times);
}

void histogram_add_sum(struct histogram *h, const struct histogram_sum *sum)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        tally_add(&h->counts[i], sum->counts[i]);
    duration_sum_add(&h->sum_ns, sum->sum_ns);
}

void histogram_sum_up(struct histogram_sum *sum, const struct histogram *h)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        sum->counts[i] += tally_get(&h->counts[i]);
    sum->sum_ns += duration_sum_get(&h->sum_ns);
}

void histogram_sum_since(struct histogram_sum *sum, const struct histogram_sum *earlier)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        sum->counts[i] -= earlier->counts[i];
    sum->sum_ns -= earlier->sum_ns;
}

uint64_t histogram_sum_count(const struct histogram_sum *sum)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        count += sum->counts[i];
    return count;
}

int64_t histogram_quantile_ns(const struct histogram_sum *sum, unsigned per_mille)
{
    CHECK(per_mille <= 1000);
    double rank = (double)histogram_sum_count(sum) * per_mille / 1000;
    double below = 0;
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        double here = (double)sum->counts[i];
        if (here > 0 && below + here >= rank) {
            double from = i ? (double)bounds[i - 1] : 0;
            return (int64_t)(from + ((double)bounds[i] - from) * (rank - below) / here);
        }
        below += here;
    }
    return histogram_sum_count(sum) ? bounds[HISTOGRAM_BOUNDS - 1] : 0;
}
