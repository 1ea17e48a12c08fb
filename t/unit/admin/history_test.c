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
    struct history_recent r;
    history = history_new(2);
    ck_assert(isnan(value(HISTORY_NAMES, 0)) && isnan(value(HISTORY_NAMES, HISTORY_SECONDS - 1)));
    ck_assert_int_eq(history_end_ns(history), -1);
    for (int samples = 0; samples < 2; samples++) { /* one gives no rate */
        history_get_recent(history, &r);
        ck_assert(r.seconds == 0 && r.requests == 0);
        history_free(&history);
        ck_assert_ptr_eq(history, NULL);
        begin(2);
    }
    ck_assert(isnan(value(HISTORY_REQUESTS, 0)));
    ck_assert(value(HISTORY_NAMES, 0) == 0);
    history_free(&history);
}
END_TEST

/* Tallies are read one after the other, so their sum may appear to shrink, and more time may seem
 * busy than has passed. */
TEST(seconds_have_what_was_added_in_them_and_no_negative_rates)
{
    static const struct {
        enum history_series series;
        double seconds[3];
    } rows[] = {
        {HISTORY_REQUESTS, {10, 30, 0}},  {HISTORY_GRANTED, {4, 0, 0}},
        {HISTORY_REFUSED, {3, 0, 0}},     {HISTORY_TIMED_OUT, {2, 0, 0}},
        {HISTORY_BUSY, {0.5, 0, 1}},      {HISTORY_WAITING, {5, 0, 0}},
        {HISTORY_UNITS, {6, 6, 6}},       {HISTORY_NAMES, {7, 7, 7}},
        {HISTORY_CONNECTIONS, {8, 8, 8}},
    };
    begin(2);
    totals = (struct totals){.mono_ns = START,
                             .requests = 10,
                             .granted = 4,
                             .refused = 3,
                             .timed_out = 2,
                             .busy_ns = (uint64_t)NS_PER_S,
                             .waiting = 5,
                             .units = 6,
                             .names = 7,
                             .connections = 8};
    after(1);
    totals.requests += 30;
    totals.waiting = 0;
    after(1);
    totals.refused--;
    totals.busy_ns += 9 * (uint64_t)NS_PER_S;
    after(1);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        for (unsigned k = 0; k < 3; k++)
            ck_assert_double_eq(value(rows[i].series, 2 - k), rows[i].seconds[k]);
    ck_assert(isnan(value(HISTORY_REQUESTS, 3)) && isnan(value(HISTORY_REQUESTS, 4)));
    ck_assert_int_eq(history_end_ns(history), START + 3 * NS_PER_S);
    history_free(&history);
}
END_TEST

TEST(ring_keeps_ten_minutes_in_order)
{
    double names[HISTORY_SECONDS];
    begin(1);
    for (totals.names = 1; totals.names <= 1500; totals.names++)
        after(totals.names % 2 ? 0.9 : 1.1);
    history_get(history, HISTORY_NAMES, HISTORY_SECONDS, names);
    for (int i = 0; i < HISTORY_SECONDS; i++)
        ck_assert_double_eq(names[i], 901 + i);
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

UNIT_MAIN("history")
