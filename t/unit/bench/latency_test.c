/*
 * latency_test.c - the bounds of the histogram's classes, and that a value read back is near the
 * one that was added.
 */
#include "bench/counterbench/latency.h"
#include "t/unit/random.h"

#include <string.h>

static struct latency *make(void)
{
    struct latency *l = calloc(1, sizeof *l);
    ck_assert_ptr_nonnull(l);
    return l;
}

TEST(each_class_begins_where_the_one_before_ends)
{
    for (size_t i = 0; i < LATENCY_CLASSES; i++) {
        int64_t upper = latency_upper_ns(i);
        REQUIRE(latency_class(upper) == i);
        REQUIRE(i + 1 == LATENCY_CLASSES || latency_class(upper + 1) == i + 1);
    }
    ck_assert_int_eq(latency_upper_ns(LATENCY_CLASSES - 1), (INT64_C(1) << LATENCY_MAX_LOG) - 1);
}
END_TEST

TEST(a_class_is_less_than_a_hundredth_wide)
{
    for (size_t i = 1; i < LATENCY_CLASSES; i++) {
        int64_t lower = latency_upper_ns(i - 1) + 1, upper = latency_upper_ns(i);
        REQUIRE((double)(upper - lower) <= 0.008 * (double)lower);
    }
}
END_TEST

TEST(what_is_too_short_or_too_long_is_in_the_first_and_the_last_class)
{
    ck_assert_uint_eq(latency_class(-1), 0);
    ck_assert_uint_eq(latency_class(INT64_MIN), 0);
    ck_assert_uint_eq(latency_class(INT64_C(1) << LATENCY_MAX_LOG), LATENCY_CLASSES - 1);
    ck_assert_uint_eq(latency_class(INT64_MAX), LATENCY_CLASSES - 1);
    struct latency *l = make();
    latency_add(l, -5);
    latency_add(l, INT64_C(1) << 50);
    ck_assert_uint_eq(l->counts[0], 1);
    ck_assert_uint_eq(l->counts[LATENCY_CLASSES - 1], 1);
    ck_assert_int_eq(l->max_ns, INT64_C(1) << 50);
    ck_assert_uint_eq(l->sum_ns, UINT64_C(1) << 50);
    free(l);
}
END_TEST

TEST(nothing_has_no_quantile_and_no_mean)
{
    struct latency *l = make();
    ck_assert_int_eq(latency_quantile_ns(l, 0.5), 0);
    ck_assert(latency_mean_ns(l) == 0);
    free(l);
}
END_TEST

TEST(quantiles_of_a_thousand)
{
    struct latency *l = make();
    for (int64_t i = 1; i <= 1000; i++)
        latency_add(l, i * 100);
    ck_assert_uint_eq(l->count, 1000);
    ck_assert(latency_mean_ns(l) == 50050);
    static const double shares[] = {0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        double exact = shares[i] * 100000;
        int64_t got = latency_quantile_ns(l, shares[i]);
        ck_assert_msg((double)got >= exact && (double)got <= exact * 1.008, "%g: %ld", shares[i],
                      (long)got);
    }
    ck_assert_int_eq(latency_quantile_ns(l, 1), 100000); /* exactly: never above the maximum */
    ck_assert_int_eq(latency_quantile_ns(l, 0), 100);
    free(l);
}
END_TEST

static int compare(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

TEST(quantiles_are_those_of_a_sorted_list)
{
    enum { COUNT = 20000 };
    static int64_t all[COUNT];
    struct rng rng = rng_start("latency", 7);
    struct latency *halves[2] = {make(), make()}, *l = make();
    for (size_t i = 0; i < COUNT; i++) {
        all[i] = (int64_t)(rng_next(&rng) >> (24 + rng_below(&rng, 36)));
        latency_add(halves[i % 2], all[i]);
    }
    latency_sum_up(l, halves[0]);
    latency_sum_up(l, halves[1]);
    qsort(all, COUNT, sizeof *all, compare);
    ck_assert_uint_eq(l->count, COUNT);
    ck_assert_int_eq(l->max_ns, all[COUNT - 1]);
    for (size_t rank = 1; rank <= COUNT; rank += 7) {
        int64_t exact = all[rank - 1];
        /* The middle of the rank, so rounding does not change the result. */
        int64_t got = latency_quantile_ns(l, ((double)rank - 0.5) / COUNT);
        REQUIRE(got >= exact && (double)got <= (double)exact * 1.008 + 1);
    }
    free(halves[0]);
    free(halves[1]);
    free(l);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(each_class_begins_where_the_one_before_ends),
    UNIT(a_class_is_less_than_a_hundredth_wide),
    UNIT(what_is_too_short_or_too_long_is_in_the_first_and_the_last_class),
    UNIT(nothing_has_no_quantile_and_no_mean),
    UNIT(quantiles_of_a_thousand),
    UNIT(quantiles_are_those_of_a_sorted_list),
};

UNIT_MAIN("bench/latency", tests)
