/* buckets_test.c - the classes of durations that metrics show, and their sums. */
#include "base/buckets.h"

#include "base/clock.h"
#include "t/unit/unit.h"

TEST(bounds_rise_from_a_microsecond_to_a_thousand_seconds)
{
    ck_assert_int_eq(bucket_bound_ns(0), 1000);
    ck_assert_int_eq(bucket_bound_ns(1), 2500);
    ck_assert_int_eq(bucket_bound_ns(2), 5000);
    ck_assert_int_eq(bucket_bound_ns(3), 10000);
    ck_assert_int_eq(bucket_bound_ns(BUCKET_BOUNDS - 1), 1000 * NS_PER_S);
    for (size_t i = 1; i < BUCKET_BOUNDS; i++)
        ck_assert_int_gt(bucket_bound_ns(i), bucket_bound_ns(i - 1));
}

static void expect_first_that_holds(int64_t ns)
{
    struct buckets h = {0};
    size_t wanted = 0;
    while (wanted < BUCKET_BOUNDS && bucket_bound_ns(wanted) < ns)
        wanted++;
    buckets_add(&h, ns, 1);
    ck_assert_uint_eq(tally_get(&h.counts[wanted]), 1);
    ck_assert(duration_sum_get(&h.sum_ns) == (duration)ns);
}

TEST(every_length_is_in_the_first_class_that_holds_it)
{
    for (unsigned bits = 0; bits < 63; bits++)
        for (int64_t k = -1; k <= 1; k++)
            expect_first_that_holds((INT64_C(1) << bits) + k);
    for (size_t i = 0; i < BUCKET_BOUNDS; i++)
        for (int64_t k = 0; k <= 1; k++)
            expect_first_that_holds(bucket_bound_ns(i) + k);
    expect_first_that_holds(INT64_MAX);
}

TEST(sums_add_up)
{
    struct buckets a = {0}, b = {0};
    buckets_add(&a, 1000, 3);
    buckets_add(&b, 1000, 2);
    buckets_add(&b, 2000 * NS_PER_S, 1);
    struct buckets_sum sum = {0};
    buckets_sum_up(&sum, &a);
    buckets_sum_up(&sum, &b);
    ck_assert_uint_eq(buckets_sum_count(&sum), 6);
    ck_assert_uint_eq(sum.counts[0], 5);
    ck_assert_uint_eq(sum.counts[BUCKET_BOUNDS], 1);
    ck_assert(sum.sum_ns == 5000 + 2000 * (duration)NS_PER_S);
}

TEST(sums_go_on_beyond_64_bits)
{
    struct buckets h = {0}, restored = {0};
    struct buckets_sum sum = {0};
    buckets_add(&h, INT64_MAX, 3);
    buckets_add(&h, INT64_MAX, UINT64_C(1) << 40);
    buckets_sum_up(&sum, &h);
    ck_assert(sum.sum_ns == (duration)INT64_MAX * ((UINT64_C(1) << 40) + 3));
    buckets_add_sum(&restored, &sum);
    ck_assert(duration_sum_get(&restored.sum_ns) == sum.sum_ns);
}

UNIT_MAIN("buckets")
