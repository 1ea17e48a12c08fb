/* histogram_test.c - percentiles beside those of a sorted list, and the longest durations. */
#include "base/histogram.h"

#include "base/clock.h"
#include "t/unit/random.h"

#include <math.h>
#include <string.h>

static struct histogram_sum sum_of(const struct histogram *h)
{
    struct histogram_sum sum = {0};
    histogram_sum_up(&sum, h);
    return sum;
}

static struct histogram_sum latest_of(struct histogram *h)
{
    struct histogram_sum sum = {0};
    histogram_sum_up_latest(&sum, h);
    return sum;
}

TEST(one_duration_is_all_percentiles)
{
    static const int64_t all[] = {0, 1, 17, 999, 1050 * NS_PER_MS, 12 * NS_PER_S, INT64_MAX};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct histogram h = {0};
        histogram_add(&h, all[i], 1);
        struct histogram_sum sum = sum_of(&h);
        ck_assert_int_eq(histogram_longest_ns(&sum), all[i]);
        for (unsigned per_mille = 0; per_mille <= 1000; per_mille += 10) {
            int64_t ns = histogram_quantile_ns(&sum, per_mille);
            ck_assert(ns <= all[i] && (double)ns >= 0.968 * (double)all[i]);
        }
    }
}

/* A duration of one of four kinds of distribution. */
static int64_t draw(struct rng *rng, unsigned kind)
{
    double x = ((double)rng_below(rng, 1000000) + 1) / 1000000;
    switch (kind) {
    case 0: /* all powers of two alike */
        return (int64_t)(rng_next(rng) >> (1 + rng_below(rng, 63)));
    case 1:
        return (int64_t)rng_below(rng, 3000000000);
    case 2: /* exponential: 10 ms */
        return (int64_t)(-log(x) * 1e7);
    default: /* most are short, some long */
        return rng_below(rng, 100) ? 20000 + (int64_t)rng_below(rng, 100) : (int64_t)(2e9 * x);
    }
}

static int compare(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

TEST(percentiles_are_near_those_of_a_sorted_list_and_never_above_the_longest)
{
    enum { MOST = 3000 };
    static int64_t all[MOST];
    struct rng rng = rng_start("histogram", 5);
    for (unsigned round = 0; round < 60; round++) {
        size_t count = 1 + rng_below(&rng, round % 2 ? MOST : 20);
        struct histogram h = {0};
        for (size_t i = 0; i < count; i++) {
            all[i] = draw(&rng, round % 4);
            histogram_add(&h, all[i], 1);
        }
        qsort(all, count, sizeof(*all), compare);
        struct histogram_sum sum = sum_of(&h);
        REQUIRE(histogram_longest_ns(&sum) == all[count - 1]);
        for (unsigned per_mille = 1; per_mille <= 1000; per_mille++) {
            int64_t exact = all[(count * per_mille + 999) / 1000 - 1];
            int64_t got = histogram_quantile_ns(&sum, per_mille);
            REQUIRE(fabs((double)(got - exact)) <= 0.032 * (double)exact);
            REQUIRE(got <= all[count - 1]);
        }
    }
}

TEST(sums_add_up_and_subtract)
{
    struct histogram a = {0}, b = {0};
    histogram_add(&a, 5 * NS_PER_S, 3);
    struct histogram_sum earlier = latest_of(&a);
    histogram_add(&a, NS_PER_MS, 2);
    histogram_add(&b, 2 * NS_PER_MS, 1);
    struct histogram_sum sum = latest_of(&a);
    ck_assert_uint_eq(sum.longest_ns, NS_PER_MS);
    histogram_sum_up_latest(&sum, &b);
    histogram_sum_since(&sum, &earlier);
    ck_assert_uint_eq(histogram_sum_count(&sum), 3);
    ck_assert_int_eq(histogram_longest_ns(&sum), 2 * NS_PER_MS);
    sum = latest_of(&a);
    ck_assert_uint_eq(sum.longest_ns, 0);
    sum = sum_of(&a);
    ck_assert_int_eq(histogram_longest_ns(&sum), 5 * NS_PER_S);
}

/* The thread that adds may be between its steps when a sum is made. */
TEST(a_longest_duration_that_is_not_in_the_classes_is_not_believed)
{
    struct histogram h = {0};
    histogram_add(&h, 100 * NS_PER_MS, 9);
    struct histogram_sum sum = sum_of(&h);
    sum.longest_ns = 0;
    ck_assert_int_le(histogram_longest_ns(&sum), 100 * NS_PER_MS);
    ck_assert_double_eq_tol((double)histogram_quantile_ns(&sum, 500), 1e8, 6.3e6);
    sum.longest_ns = 12 * NS_PER_S;
    ck_assert_double_eq_tol((double)histogram_longest_ns(&sum), 1e8, 6.3e6);
}

TEST(what_was_saved_is_added)
{
    struct histogram h = {0}, restored = {0};
    histogram_add(&h, 7 * NS_PER_S, 3);
    histogram_add(&h, 5, 1);
    struct histogram_sum sum = sum_of(&h);
    histogram_add_sum(&restored, &sum);
    struct histogram_sum again = sum_of(&restored);
    ck_assert(memcmp(&sum, &again, sizeof(sum)) == 0);
    again = latest_of(&restored);
    ck_assert_uint_eq(again.longest_ns, 0);
}

UNIT_MAIN("histogram")
