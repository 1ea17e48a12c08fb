/* history_test.c - seconds and minutes: rates, gaps, the ring's turn, percentiles. */
#include "admin/history.h"

#include "t/unit/unit.h"

#include <math.h>

#define START (1234 * NS_PER_S + 567)

static struct history *history;
static struct totals totals;

static void begin(unsigned workers)
{
    history = history_new(workers);
    ck_assert(history != NULL);
    totals = (struct totals){.mono_ns = START};
    history_add(history, &totals);
}

static void after(double seconds)
{
    totals.mono_ns += (int64_t)(seconds * (double)NS_PER_S);
    history_add(history, &totals);
    for (unsigned i = 0; i < TOTALS_TIMES; i++)
        totals.times[i].longest_ns = 0;
}

/* The value of a series, `back` samples before the newest. */
static double value(enum history_series series, unsigned back)
{
    double all[HISTORY_SECONDS];
    history_get(history, series, back + 1, all);
    return all[0];
}

/* Adds waits of this length. The owner takes the longest times anew for each second. */
static void add_wait(int64_t ns, uint64_t times)
{
    struct histogram_sum *waits = &totals.times[TOTALS_WAITS];
    waits->counts[log_linear_class((uint64_t)ns, HISTOGRAM_BITS)] += times;
    if (waits->longest_ns < (uint64_t)ns)
        waits->longest_ns = (uint64_t)ns;
}

TEST(nothing_is_known_at_first)
{
    history = history_new(2);
    double all[HISTORY_SECONDS];
    for (unsigned series = 0; series < HISTORY_SERIES_COUNT; series++) {
        history_get(history, series, HISTORY_SECONDS, all);
        for (int i = 0; i < HISTORY_SECONDS; i++)
            ck_assert(isnan(all[i]));
    }
    struct history_recent r;
    history_get_recent(history, &r);
    ck_assert(r.seconds == 0 && r.requests == 0);
    ck_assert_int_eq(history_end_ns(history), -1);
    history_free(&history);
    ck_assert_ptr_eq(history, NULL);
    begin(2); /* one sample gives no rate */
    ck_assert(isnan(value(HISTORY_REQUESTS, 0)));
    ck_assert(value(HISTORY_NAMES, 0) == 0);
    history_get_recent(history, &r);
    ck_assert(r.seconds == 0);
    history_free(&history);
}
END_TEST

TEST(seconds_have_what_was_added_in_them)
{
    begin(2);
    totals.requests += 10;
    totals.granted += 4;
    totals.refused += 3;
    totals.timed_out += 2;
    totals.busy_ns += (uint64_t)NS_PER_S;
    totals.waiting = 5;
    totals.units = 6;
    totals.names = 7;
    totals.connections = 8;
    after(1);
    totals.requests += 30;
    totals.waiting = 0;
    after(1);
    ck_assert_double_eq(value(HISTORY_REQUESTS, 1), 10);
    ck_assert_double_eq(value(HISTORY_REQUESTS, 0), 30);
    ck_assert_double_eq(value(HISTORY_GRANTED, 1), 4);
    ck_assert_double_eq(value(HISTORY_GRANTED, 0), 0);
    ck_assert_double_eq(value(HISTORY_REFUSED, 1), 3);
    ck_assert_double_eq(value(HISTORY_TIMED_OUT, 1), 2);
    ck_assert_double_eq(value(HISTORY_BUSY, 1), 0.5);
    ck_assert_double_eq(value(HISTORY_BUSY, 0), 0);
    ck_assert_double_eq(value(HISTORY_WAITING, 1), 5);
    ck_assert_double_eq(value(HISTORY_WAITING, 0), 0);
    ck_assert_double_eq(value(HISTORY_UNITS, 0), 6);
    ck_assert_double_eq(value(HISTORY_NAMES, 0), 7);
    ck_assert_double_eq(value(HISTORY_CONNECTIONS, 0), 8);
    ck_assert(isnan(value(HISTORY_REQUESTS, 2)) && isnan(value(HISTORY_REQUESTS, 3)));
    ck_assert_int_eq(history_end_ns(history), START + 2 * NS_PER_S);
    history_free(&history);
}
END_TEST

TEST(ring_keeps_ten_minutes_in_order)
{
    begin(1);
    for (unsigned i = 1; i <= 1500; i++) {
        totals.names = i;
        totals.requests += i;
        after(i % 2 ? 0.9 : 1.1);
    }
    double names[HISTORY_SECONDS];
    history_get(history, HISTORY_NAMES, HISTORY_SECONDS, names);
    for (int i = 0; i < HISTORY_SECONDS; i++)
        ck_assert_double_eq(names[i], 901 + i);
    history_get(history, HISTORY_NAMES, 3, names);
    ck_assert_double_eq(names[0], 1498);
    ck_assert_double_eq(names[2], 1500);
    history_free(&history);
}
END_TEST

TEST(percentiles_are_those_of_the_second_and_of_the_last_minute)
{
    begin(1);
    add_wait(1050 * NS_PER_S, 1000); /* in the first second */
    after(1);
    for (int i = 0; i < 59; i++) {
        add_wait(NS_PER_MS, 1);
        totals.requests += 60;
        totals.granted += 30;
        totals.refused += 120;
        totals.timed_out += 180;
        after(1);
    }
    ck_assert_double_eq_tol(value(HISTORY_WAIT_P50, 0), 0.001, 0.00005);
    ck_assert_double_eq(value(HISTORY_WAIT_MAX, 0), 0.001);
    ck_assert_double_eq_tol(value(HISTORY_WAIT_P50, 59), 1050, 50);
    ck_assert_double_eq(value(HISTORY_WAIT_MAX, 59), 1050);
    ck_assert_double_le(value(HISTORY_WAIT_P99, 59), 1050);
    struct history_recent r;
    history_get_recent(history, &r); /* since the start, which is 60 seconds */
    ck_assert_double_eq(r.seconds, 60);
    const struct histogram_sum *waits = &r.times[TOTALS_WAITS];
    ck_assert_uint_eq(histogram_sum_count(waits), 1059);
    ck_assert_int_eq(histogram_longest_ns(waits), 1050 * NS_PER_S);
    after(1);
    ck_assert(isnan(value(HISTORY_WAIT_P50, 0)) && isnan(value(HISTORY_WAIT_P99, 0)) &&
              isnan(value(HISTORY_WAIT_MAX, 0)));
    history_get_recent(history, &r); /* without the first second */
    ck_assert_double_eq(r.seconds, 60);
    ck_assert(r.requests == 59 && r.granted == 29.5 && r.refused == 118 && r.timed_out == 177);
    ck_assert_uint_eq(histogram_sum_count(waits), 59);
    ck_assert_int_eq(histogram_longest_ns(waits), NS_PER_MS);
    ck_assert_int_le(histogram_quantile_ns(waits, 990), NS_PER_MS);
    for (int i = 0; i < 60; i++)
        after(1);
    history_get_recent(history, &r);
    ck_assert_uint_eq(histogram_sum_count(waits), 0);
    history_free(&history);
}
END_TEST

/* Two totals of one second: the second ones are ignored, and what has ended between them counts in
 * the next second. */
TEST(the_longest_wait_is_not_lost_with_totals_that_are_ignored)
{
    begin(1);
    after(1);
    add_wait(1050 * NS_PER_MS, 1);
    after(0.1);
    add_wait(NS_PER_MS, 1);
    after(0.9);
    ck_assert_double_eq(value(HISTORY_WAIT_MAX, 0), 1.05);
    struct history_recent r;
    history_get_recent(history, &r);
    ck_assert_int_eq(histogram_longest_ns(&r.times[TOTALS_WAITS]), 1050 * NS_PER_MS);
    after(1);
    add_wait(NS_PER_MS, 1);
    after(1);
    ck_assert_double_eq(value(HISTORY_WAIT_MAX, 0), 0.001);
    history_free(&history);
}
END_TEST

/* Tallies are read one after the other, so their sum may appear to shrink. */
TEST(count_that_seems_to_shrink_is_no_negative_rate)
{
    begin(1);
    totals.refused = 10;
    after(1);
    totals.refused = 9;
    totals.busy_ns = 5 * (uint64_t)NS_PER_S; /* more time than has passed */
    after(1);
    ck_assert_double_eq(value(HISTORY_REFUSED, 0), 0);
    ck_assert_double_eq(value(HISTORY_BUSY, 0), 1);
    history_free(&history);
}
END_TEST

UNIT_MAIN("history")
