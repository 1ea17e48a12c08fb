/*
 * verdicts_test.c - verdicts on their way, and what they outlive.
 */
#include "t/unit/engine/tables.h"

/* ---- verdicts on their way ------------------------------------------------------------------- */

TEST(ending_a_wait_too_late)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *any = wait_for(&h[1], WAIT_ANY, "k", 1, 1);
    struct waiter *me = wait_for(&h[2], WAIT_ME, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(table_end_wait(t, any, WAITER_TIMED_OUT, now), WAITER_DONE);
    ck_assert_int_eq(table_end_wait(t, me, WAITER_CANCELLED, now), WAITER_GRANTED);
    ck_assert(h[1].waiters == any && h[2].waiters == me);
    /* Taken at once; the letters arrive later. */
    ck_assert_int_eq(table_take_verdict(t, any), WAITER_DONE);
    ck_assert_int_eq(table_take_verdict(t, me), WAITER_GRANTED);
    ck_assert(holding_units(me->holding) == 1);
    ck_assert(h[1].waiters == NULL && h[1].holdings == 0 && h[2].waiters == NULL);
    ck_assert_int_eq(give(&h[2], "k", 1), TABLE_OK);
    expect(any, WAITER_DONE);
    expect(me, WAITER_GRANTED);
    expect_nobody();
    finish();
}
END_TEST

TEST(a_wait_ends_as_timed_out_or_cancelled_only)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    (void)!table_end_wait(t, w, WAITER_GRANTED, now);
}
END_TEST

TEST(settling_what_waits_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    table_take_verdict(t, wait_for(&h[1], WAIT_ME, "k", 1, 1));
}
END_TEST

TEST(settling_twice_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    table_take_verdict(t, w);
    table_take_verdict(t, w);
}
END_TEST

TEST(freeing_a_waiter_that_waits_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    table_waiter_free(t, wait_for(&h[1], WAIT_ME, "k", 1, 1));
}
END_TEST

TEST(freeing_a_verdict_nobody_took_note_of_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    table_waiter_free(t, w);
}
END_TEST

TEST(a_waiters_holder_list_is_newest_first)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w[5];
    for (int i = 0; i < 5; i++)
        w[i] = wait_for(&h[1], i % 2 ? WAIT_ANY : WAIT_ME, "k", 1, 1);
    ck_assert_int_eq(table_end_wait(t, w[2], WAITER_CANCELLED, now), WAITER_CANCELLED);
    ck_assert_int_eq(table_end_wait(t, w[4], WAITER_CANCELLED, now), WAITER_CANCELLED);
    ck_assert_int_eq(table_end_wait(t, w[0], WAITER_CANCELLED, now), WAITER_CANCELLED);
    ck_assert(h[1].waiters == w[3] && w[3]->next == w[1] && w[1]->next == NULL);
    ck_assert(w[3]->prev == NULL && w[1]->prev == w[3]);
    ck_assert(stats().waiting == 2 && stats().holdings == 2);
    finish();
}
END_TEST

TEST(a_verdict_outlives_its_counter)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *any = wait_for(&h[1], WAIT_ANY, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    /* DONE is on its way. The name is gone, but its memory cannot be freed yet. */
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert(stats().names == 0 && stats().holdings == 1 && walk_for("k").count == 0);
    ck_assert_int_eq(give(&h[1], "k", 0), TABLE_NOT_FOUND);
    /* Meanwhile others make the name again, and the same holder uses it. */
    ck_assert_int_eq(take(&h[2], "k", 1, 9), TABLE_OK);
    ck_assert_int_eq(take(&h[1], "k", 2, 9), TABLE_OK);
    ck_assert(stats().holdings == 3 && stats().names == 1);
    table_check(t);
    expect(any, WAITER_DONE);
    ck_assert(stats().holdings == 2);
    ck_assert_int_eq(count_of("k"), 3);
    ck_assert_int_eq(give(&h[1], "k", 3), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[1], "k", 2), TABLE_OK);
    ck_assert(h[1].holdings == 0);
    finish();
}
END_TEST

TEST(a_verdict_outlives_its_holder)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *any = wait_for(&h[1], WAIT_ANY, "k", 1, 1);
    struct waiter *me = wait_for(&h[2], WAIT_ME, "k", 1, 1);
    struct waiter *next = wait_for(&h[3], WAIT_ME, "k", 1, 1);
    uint64_t tag = h[2].tag;
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    /* Both close before their letters arrive, so the grant passes to the next waiter. */
    table_close(t, &h[1], now, NULL, &out);
    ck_assert(any->holder == NULL && stats().holdings == 2);
    table_close(t, &h[2], now, NULL, &out);
    ck_assert(me->holder == NULL && me->letter.to == tag && stats().holdings == 1);
    open_holder(&h[1]);
    open_holder(&h[2]);
    expect(any, WAITER_DONE);
    expect(me, WAITER_GRANTED);
    expect(next, WAITER_GRANTED);
    expect_nobody();
    ck_assert_int_eq(count_of("k"), 1);
    finish();
}
END_TEST

TEST(a_verdict_outlives_counter_and_holder)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *any1 = wait_for(&h[1], WAIT_ANY, "k", 1, 1);
    struct waiter *any2 = wait_for(&h[2], WAIT_ANY, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert(stats().names == 0 && stats().holdings == 2);
    table_close(t, &h[2], now, NULL, &out);
    table_close(t, &h[1], now, NULL, &out);
    ck_assert(stats().holdings == 0);
    expect(any1, WAITER_DONE);
    expect(any2, WAITER_DONE);
    finish();
}
END_TEST

TEST(giving_back_granted_units_before_the_letter_comes)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *me = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_OK); /* the table counts them as its own */
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert_int_eq(take(&h[2], "k", 1, 1), TABLE_OK);
    ck_assert(holding_units(me->holding) == 0);
    expect(me, WAITER_GRANTED);
    ck_assert(h[1].holdings == 0 && stats().holdings == 1);
    ck_assert_int_eq(count_of("k"), 1);
    finish();
}
END_TEST

TEST(waiting_for_what_one_holds)
{
    start();
    /* A holder's own release ends its own wait with DONE; then only the verdict remains. */
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *any = wait_for(&h[0], WAIT_ANY, "k", 1, 1);
    ck_assert(stats().holdings == 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), -1);
    /* Other names use the memory that has become free. */
    ck_assert_int_eq(take(&h[1], "k", 1, 1), TABLE_OK);
    ck_assert_int_eq(take(&h[1], "l", 1, 1), TABLE_OK);
    expect(any, WAITER_DONE);
    ck_assert(h[0].holdings == 0 && h[0].waiters == NULL);
    /* A holder's own release grants its own wait. */
    ck_assert_int_eq(take(&h[0], "m", 2, 2), TABLE_OK);
    struct waiter *me = wait_for(&h[0], WAIT_ME, "m", 2, 2);
    ck_assert_int_eq(give(&h[0], "m", 1), TABLE_OK);
    expect_nobody();
    ck_assert_int_eq(give(&h[0], "m", 1), TABLE_OK);
    expect(me, WAITER_GRANTED);
    ck_assert_int_eq(count_of("m"), 2);
    ck_assert_int_eq(give(&h[0], "m", 2), TABLE_OK);
    ck_assert(h[0].holdings == 0);
    finish();
}
END_TEST

TEST(a_kept_counter_expires_under_a_verdict)
{
    static unsigned char bytes[9000];
    start();
    struct bytes name = {bytes, sizeof(bytes)};
    struct acquire a = {.name = name, .units = 1, .limit = 1, .keep = true, .wait = WAIT_ANY};
    struct waiter *any = NULL;
    ck_assert_int_eq(ask(&h[0], &a, NULL), TABLE_OK);
    ck_assert_int_eq(ask(&h[1], &a, &any), TABLE_WAITING);
    ck_assert_int_eq(
        table_release(t, &h[0], &(struct release){.name = name, .units = 1}, now, NULL, &out),
        TABLE_OK);
    ck_assert(stats().names == 1);
    next_interval();
    ck_assert(collect_all(10) == 1);
    ck_assert(stats().names == 0 && stats().holdings == 1);
    size_t before = stats().memory;
    now.mono_ns = any->ended_ns;
    expect(any, WAITER_DONE);
    /* Only now the memory of its name is freed. */
    ck_assert(before - stats().memory >= sizeof(bytes));
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(ending_a_wait_too_late),
    UNIT_ABORTS(a_wait_ends_as_timed_out_or_cancelled_only),
    UNIT_ABORTS(settling_what_waits_aborts),
    UNIT_ABORTS(settling_twice_aborts),
    UNIT_ABORTS(freeing_a_waiter_that_waits_aborts),
    UNIT_ABORTS(freeing_a_verdict_nobody_took_note_of_aborts),
    UNIT(a_waiters_holder_list_is_newest_first),
    UNIT(a_verdict_outlives_its_counter),
    UNIT(a_verdict_outlives_its_holder),
    UNIT(a_verdict_outlives_counter_and_holder),
    UNIT(giving_back_granted_units_before_the_letter_comes),
    UNIT(waiting_for_what_one_holds),
    UNIT(a_kept_counter_expires_under_a_verdict),
};

UNIT_MAIN("engine/verdicts", tests)
