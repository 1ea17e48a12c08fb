/*
 * schedule_test.c - the scheduled starts of operations in an open loop.
 */
#include "base/clock.h"
#include "bench/counterbench/schedule.h"
#include "t/unit/unit.h"

TEST(operations_are_evenly_spaced)
{
    struct schedule s;
    schedule_start(&s, 1000, 2, 0, 1, 5000);
    for (int64_t i = 0; i < 10000; i++) {
        ck_assert_int_eq(schedule_next_ns(&s), 5000 + i * 2 * NS_PER_MS);
        schedule_advance(&s);
    }
}
END_TEST

TEST(a_rate_that_divides_no_second_does_not_drift)
{
    struct schedule s;
    schedule_start(&s, 7, 1, 0, 1, 0);
    for (int i = 0; i < 7000000; i++)
        schedule_advance(&s);
    ck_assert_int_eq(schedule_next_ns(&s), 1000000 * NS_PER_S);
    schedule_advance(&s);
    ck_assert_int_eq(schedule_next_ns(&s), 1000000 * NS_PER_S + NS_PER_S / 7);
}
END_TEST

TEST(threads_share_the_rate_between_them)
{
    struct schedule all, one[3];
    schedule_start(&all, 100000, 2, 0, 1, 77);
    for (unsigned i = 0; i < 3; i++)
        schedule_start(&one[i], 100000, 2, i, 3, 77);
    for (unsigned i = 0; i < 3000; i++) {
        ck_assert_int_eq(schedule_next_ns(&one[i % 3]), schedule_next_ns(&all));
        schedule_advance(&one[i % 3]);
        schedule_advance(&all);
    }
}
END_TEST

TEST(years_do_not_overflow)
{
    struct schedule s;
    schedule_start(&s, 100000000, 2, 0, 1, 0);
    s.next = UINT64_C(100000000) * 86400 * 365 * 10 / 2;
    ck_assert_int_eq(schedule_next_ns(&s), INT64_C(86400) * 365 * 10 * NS_PER_S);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(operations_are_evenly_spaced),
    UNIT(a_rate_that_divides_no_second_does_not_drift),
    UNIT(threads_share_the_rate_between_them),
    UNIT(years_do_not_overflow),
};

UNIT_MAIN("bench/schedule", tests)
