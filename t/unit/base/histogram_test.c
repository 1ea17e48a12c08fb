/* histogram_test.c - classes, sums and quantiles of durations. */
#include "base/histogram.h"

#include "base/clock.h"
#include "t/unit/unit.h"

static uint64_t in_class(const struct histogram *h, size_t i)
{
    return tally_get(&h->counts[i]);
}

TEST(bounds_rise_from_a_microsecond_to_a_thousand_seconds)
{
    ck_assert_int_eq(histogram_bound_ns(0), 1000);
    ck_assert_int_eq(histogram_bound_ns(1), 2500);
    ck_assert_int_eq(histogram_bound_ns(2), 5000);
    ck_assert_int_eq(histogram_bound_ns(3), 10000);
    ck_assert_int_eq(histogram_bound_ns(HISTOGRAM_BOUNDS - 1), 1000 * NS_PER_S);
    for (size_t i = 1; i < HISTOGRAM_BOUNDS; i++)
        ck_assert_int_gt(histogram_bound_ns(i), histogram_bound_ns(i - 1));
}
END_TEST

TEST(a_bound_belongs_to_its_class_and_one_more_to_the_next)
{
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        struct histogram h = {0};
        histogram_add(&h, histogram_bound_ns(i), 1);
        ck_assert_uint_eq(in_class(&h, i), 1);
        histogram_add(&h, histogram_bound_ns(i) + 1, 1);
        ck_assert_uint_eq(in_class(&h, i + 1), 1);
        ck_assert(duration_sum_get(&h.sum_ns) == 2 * (duration)histogram_bound_ns(i) + 1);
    }
}
END_TEST

TEST(every_length_is_in_the_first_class_that_holds_it)
{
    for (unsigned bits = 0; bits < 63; bits++) {
        for (int64_t k = -3; k < 8; k++) {
            int64_t ns = (INT64_C(1) << bits) + (k < 4 ? k : (INT64_C(1) << bits) / k);
            if (ns < 0)
                continue;
            size_t wanted = 0;
            while (wanted < HISTOGRAM_BOUNDS && histogram_bound_ns(wanted) < ns)
                wanted++;
            struct histogram h = {0};
            histogram_add(&h, ns, 1);
            ck_assert_uint_eq(in_class(&h, wanted), 1);
        }
    }
    struct histogram h = {0};
    histogram_add(&h, INT64_MAX, 1);
    ck_assert_uint_eq(in_class(&h, HISTOGRAM_BOUNDS), 1);
}
END_TEST

TEST(nothing_and_less_than_nothing_count_as_the_shortest)
{
    struct histogram h = {0};
    histogram_add(&h, 0, 1);
    histogram_add(&h, -5, 1);
    ck_assert_uint_eq(in_class(&h, 0), 2);
    ck_assert(duration_sum_get(&h.sum_ns) == 0);
}
END_TEST

TEST(many_of_one_length_are_added_at_once)
{
    struct histogram h = {0};
    histogram_add(&h, 2000, 7);
    ck_assert_uint_eq(in_class(&h, 1), 7);
    ck_assert(duration_sum_get(&h.sum_ns) == 14000);
}
END_TEST

TEST(sums_add_up_and_subtract)
{
    struct histogram a = {0}, b = {0};
    histogram_add(&a, 1000, 3);
    histogram_add(&b, 1000, 2);
    histogram_add(&b, 2000 * NS_PER_S, 1);
    struct histogram_sum sum = {0}, earlier = {0};
    histogram_sum_up(&earlier, &a);
    histogram_sum_up(&sum, &a);
    histogram_sum_up(&sum, &b);
    ck_assert_uint_eq(histogram_sum_count(&sum), 6);
    histogram_sum_since(&sum, &earlier);
    ck_assert_uint_eq(histogram_sum_count(&sum), 3);
    ck_assert_uint_eq(sum.counts[0], 2);
    ck_assert_uint_eq(sum.counts[HISTOGRAM_BOUNDS], 1);
    ck_assert(sum.sum_ns == 2000 + 2000 * (duration)NS_PER_S);
}
END_TEST

TEST(sums_go_on_beyond_64_bits)
{
    struct histogram h = {0}, restored = {0};
    struct histogram_sum earlier = {0}, sum = {0};
    histogram_add(&h, INT64_MAX, 3);
    histogram_sum_up(&earlier, &h);
    histogram_add(&h, INT64_MAX, UINT64_C(1) << 40);
    histogram_sum_up(&sum, &h);
    ck_assert(sum.sum_ns == (duration)INT64_MAX * ((UINT64_C(1) << 40) + 3));
    histogram_add_sum(&restored, &sum);
    ck_assert(duration_sum_get(&restored.sum_ns) == sum.sum_ns);
    histogram_sum_since(&sum, &earlier);
    ck_assert(sum.sum_ns == (duration)INT64_MAX << 40);
}
END_TEST

TEST(quantiles_lie_within_the_class_of_their_rank)
{
    struct histogram_sum sum = {0};
    ck_assert_int_eq(histogram_quantile_ns(&sum, 500), 0);
    sum.counts[9] = 100; /* above 500 us, up to 1 ms */
    ck_assert_int_eq(histogram_quantile_ns(&sum, 1000), NS_PER_MS);
    ck_assert_int_eq(histogram_quantile_ns(&sum, 500), 750000);
    sum.counts[12] = 100; /* above 5 ms, up to 10 ms */
    ck_assert_int_eq(histogram_quantile_ns(&sum, 500), NS_PER_MS);
    ck_assert_int_eq(histogram_quantile_ns(&sum, 750), 7500000);
}
END_TEST

TEST(what_is_longer_than_all_bounds_counts_as_the_last)
{
    struct histogram_sum sum = {.counts = {[HISTOGRAM_BOUNDS] = 5}};
    ck_assert_int_eq(histogram_quantile_ns(&sum, 500), 1000 * NS_PER_S);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(bounds_rise_from_a_microsecond_to_a_thousand_seconds),
    UNIT(a_bound_belongs_to_its_class_and_one_more_to_the_next),
    UNIT(every_length_is_in_the_first_class_that_holds_it),
    UNIT(nothing_and_less_than_nothing_count_as_the_shortest),
    UNIT(many_of_one_length_are_added_at_once),
    UNIT(sums_add_up_and_subtract),
    UNIT(sums_go_on_beyond_64_bits),
    UNIT(quantiles_lie_within_the_class_of_their_rank),
    UNIT(what_is_longer_than_all_bounds_counts_as_the_last),
};

UNIT_MAIN("histogram", tests)
