/* buckets.c - see buckets.h. */
#include "base/buckets.h"

#include "base/check.h"
#include "base/clock.h"

#define US INT64_C(1000)

#define DECADE(unit) (unit), (unit)*5 / 2, (unit)*5
const int64_t bucket_bounds[BUCKET_BOUNDS + 1] = {
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
    return bucket_bounds[i];
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
