/*
 * table_test.c - the table, row by row of the protocol page: the requests it admits, and the
 * clients it notifies, in which order.
 */
#include "t/unit/engine/tables.h"

/* ---- taking and giving back units ----------------------------------------------------------- */

TEST(units_are_taken_and_given_back)
{
    start();
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert_int_eq(take(&h[0], "k", 3, 5), TABLE_OK);
    ck_assert_int_eq(take(&h[1], "k", 2, 5), TABLE_OK);
    ck_assert_int_eq(take(&h[1], "k", 1, 5), TABLE_BUSY);
    ck_assert_int_eq(count_of("k"), 5);
    ck_assert_int_eq(give(&h[1], "k", 3), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[2], "k", 1), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[0], "other", 1), TABLE_NOT_FOUND);
    ck_assert_int_eq(give(&h[0], "other", 0), TABLE_NOT_FOUND);
    ck_assert_int_eq(count_of("k"), 5);
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 0), TABLE_OK);
    ck_assert_int_eq(give(&h[2], "k", 0), TABLE_OK);
    ck_assert_int_eq(count_of("k"), 4);
    struct table_stats s = stats();
    ck_assert(s.names == 1 && s.names_made == 1 && s.units == 4 && s.holdings == 2);
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[0], "k", 3), TABLE_OK);
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert_int_eq(give(&h[0], "k", 0), TABLE_NOT_FOUND);
    expect_nobody();
    finish();
}
END_TEST

TEST(a_holding_is_one_place_for_all_units_of_a_name)
{
    start();
    struct holding *first = NULL, *again = NULL, *other = NULL;
    struct acquire a = {.name = name_of("k"), .units = 2, .limit = 10};
    struct waiter *none = NULL;
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &first, &none), TABLE_OK);
    ck_assert_int_eq(table_acquire(t, &h[1], &a, now, &other, &none), TABLE_OK);
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &again, &none), TABLE_OK);
    ck_assert(first && first == again && other && other != first && none == NULL);
    ck_assert(holding_units(first) == 4 && holding_units(other) == 2);
    struct bytes name = holding_name(t, other);
    ck_assert(name.len == 1 && memcmp(name.data, "k", 1) == 0);
    table_release_held(t, &h[0], first, 3, now, &out);
    ck_assert(holding_units(first) == 1);
    ck_assert_int_eq(count_of("k"), 3);
    table_release_held(t, &h[0], first, 1, now, &out);
    ck_assert(h[0].holdings == 0);
    table_release_held(t, &h[1], other, 2, now, &out);
    ck_assert_int_eq(count_of("k"), -1);
    finish();
}
END_TEST

TEST(releasing_more_than_is_held_aborts)
{
    start();
    struct holding *held = NULL;
    struct acquire a = {.name = name_of("k"), .units = 2, .limit = 10};
    ck_assert_int_eq(take(&h[1], "k", 5, 10), TABLE_OK);
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &held, NULL), TABLE_OK);
    table_release_held(t, &h[0], held, 3, now, &out);
}
END_TEST

TEST(releasing_0_of_a_holding_aborts)
{
    start();
    struct holding *held = NULL;
    struct acquire a = {.name = name_of("k"), .units = 2, .limit = 10};
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &held, NULL), TABLE_OK);
    table_release_held(t, &h[0], held, 0, now, &out);
}
END_TEST

TEST(asking_for_0_aborts)
{
    start();
    (void)!take(&h[0], "k", 0, 1);
}
END_TEST

TEST(asking_for_more_than_the_limit_aborts)
{
    start();
    (void)!take(&h[0], "k", 2, 1);
}
END_TEST

TEST(an_empty_name_aborts)
{
    start();
    (void)!take(&h[0], "", 1, 1);
}
END_TEST

TEST(a_name_too_long_aborts)
{
    start();
    static char name[TABLE_NAME_MAX + 1];
    uint32_t consumption = 0;
    (void)!table_get(t, bytes_at(name, sizeof(name)), now, &consumption);
}
END_TEST

TEST(holder_0_aborts)
{
    struct holder holder;
    holder_init(&holder, 0, 1);
}
END_TEST

/* ---- one table: the order of events ------------------------------------------------------ */

TEST(release_tells_any_then_grants_me_oldest_first)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 2, 2), TABLE_OK);
    struct waiter *me1 = wait_for(&h[1], WAIT_ME, "k", 1, 2);
    struct waiter *any1 = wait_for(&h[2], WAIT_ANY, "k", 1, 2);
    struct waiter *me2 = wait_for(&h[3], WAIT_ME, "k", 1, 2);
    struct waiter *any2 = wait_for(&h[4], WAIT_ANY, "k", 1, 1);
    struct waiter *me3 = wait_for(&h[5], WAIT_ME, "k", 1, 2);
    struct waiter *any3 = wait_for(&h[6], WAIT_ANY, "k", 2, 2);
    ck_assert(stats().waiting == 6);
    table_check(t);
    now.mono_ns += 77;
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert(me1->state == WAITER_GRANTED && me2->state == WAITER_WAITING);
    ck_assert_int_eq(count_of("k"), 2);
    table_check(t);
    expect(any1, WAITER_DONE);
    expect(any2, WAITER_DONE);
    expect(any3, WAITER_DONE);
    expect(me1, WAITER_GRANTED);
    expect_nobody();
    now.mono_ns += 77;
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect(me2, WAITER_GRANTED);
    expect_nobody();
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_OK);
    expect(me3, WAITER_GRANTED);
    expect_nobody();
    ck_assert(stats().waiting == 0);
    ck_assert_int_eq(count_of("k"), 2);
    finish();
}
END_TEST

TEST(release_of_0_units_wakes_nobody)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    (void)wait_for(&h[1], WAIT_ANY, "k", 1, 1);
    (void)wait_for(&h[2], WAIT_ME, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 0), TABLE_OK);
    ck_assert_int_eq(give(&h[3], "k", 0), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 0), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_NOT_HELD); /* it waits and holds nothing */
    expect_nobody();
    ck_assert(stats().waiting == 2);
    finish();
}
END_TEST

TEST(release_tells_any_even_if_nothing_fits)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 10, 10), TABLE_OK);
    struct waiter *any = wait_for(&h[1], WAIT_ANY, "k", 1, 2);
    (void)wait_for(&h[2], WAIT_ME, "k", 1, 2);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect(any, WAITER_DONE);
    expect_nobody();
    ck_assert(stats().waiting == 1);
    finish();
}
END_TEST

TEST(release_by_the_place_tells_the_same)
{
    start();
    struct holding *held = NULL;
    struct acquire a = {.name = name_of("k"), .units = 3, .limit = 3};
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &held, NULL), TABLE_OK);
    struct waiter *me = wait_for(&h[1], WAIT_ME, "k", 2, 3);
    struct waiter *any = wait_for(&h[2], WAIT_ANY, "k", 1, 3);
    table_release_held(t, &h[0], held, 1, now, &out);
    expect(any, WAITER_DONE);
    expect_nobody();
    table_release_held(t, &h[0], held, 1, now, &out);
    expect(me, WAITER_GRANTED);
    expect_nobody();
    finish();
}
END_TEST

TEST(close_grants_me_then_any_and_tells_nobody_done)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 4, 4), TABLE_OK);
    struct waiter *any1 = wait_for(&h[1], WAIT_ANY, "k", 1, 4);
    struct waiter *me1 = wait_for(&h[2], WAIT_ME, "k", 2, 4);
    struct waiter *any2 = wait_for(&h[3], WAIT_ANY, "k", 1, 4);
    struct waiter *me2 = wait_for(&h[4], WAIT_ME, "k", 1, 4);
    struct waiter *any3 = wait_for(&h[5], WAIT_ANY, "k", 1, 4);
    table_close(t, &h[0], now, NULL, &out);
    expect(me1, WAITER_GRANTED);
    expect(me2, WAITER_GRANTED);
    expect(any1, WAITER_GRANTED);
    expect_nobody();
    ck_assert(any2->state == WAITER_WAITING && any3->state == WAITER_WAITING);
    ck_assert_int_eq(count_of("k"), 4);
    ck_assert(h[0].holdings == 0 && h[0].waiters == NULL);
    table_check(t);
    finish();
}
END_TEST

TEST(a_waiters_end_changes_nothing_else)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 3, 3), TABLE_OK);
    struct waiter *me1 = wait_for(&h[1], WAIT_ME, "k", 2, 3);
    struct waiter *any1 = wait_for(&h[2], WAIT_ANY, "k", 1, 3);
    struct waiter *me2 = wait_for(&h[3], WAIT_ME, "k", 1, 3);
    (void)me1;
    table_close(t, &h[1], now, NULL, &out);
    expect_nobody();
    ck_assert(stats().waiting == 2 && stats().holdings == 3);
    ck_assert_int_eq(count_of("k"), 3);
    ck_assert_int_eq(table_end_wait(t, any1, WAITER_TIMED_OUT, now), WAITER_TIMED_OUT);
    expect_nobody();
    ck_assert(h[2].waiters == NULL && h[2].holdings == 0 && stats().waiting == 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect(me2, WAITER_GRANTED);
    expect_nobody();
    finish();
}
END_TEST

TEST(one_that_waits_and_holds_is_never_granted_its_own_unit)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    (void)wait_for(&h[0], WAIT_ME, "k", 1, 1);
    (void)wait_for(&h[0], WAIT_ANY, "k", 1, 1);
    struct waiter *any = wait_for(&h[1], WAIT_ANY, "k", 1, 1);
    struct waiter *me = wait_for(&h[2], WAIT_ME, "k", 1, 1);
    table_close(t, &h[0], now, NULL, &out);
    expect(me, WAITER_GRANTED);
    expect_nobody();
    ck_assert(any->state == WAITER_WAITING && stats().waiting == 1);
    table_close(t, &h[2], now, NULL, &out);
    expect(any, WAITER_GRANTED);
    ck_assert_int_eq(count_of("k"), 1);
    finish();
}
END_TEST

TEST(close_ends_every_wait_and_frees_every_name)
{
    start();
    char name[24];
    struct waiter *me[50];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        ck_assert_int_eq(take(&h[0], name, 2, 2), TABLE_OK);
        (void)wait_for(&h[0], WAIT_ME, name, 1, 2);
        me[i] = wait_for(&h[1], WAIT_ME, name, 2, 2);
        (void)wait_for(&h[2], WAIT_ANY, name, 1, 2);
    }
    table_check(t);
    table_close(t, &h[0], now, NULL, &out);
    struct table_stats s = stats();
    ck_assert(s.units == 100 && s.waiting == 50 && s.names == 50 && s.holdings == 100);
    /* Newest first, the order of the holder's list. */
    for (int i = 49; i >= 0; i--)
        expect(me[i], WAITER_GRANTED);
    expect_nobody();
    /* The holder can be opened again. */
    open_holder(&h[0]);
    ck_assert_int_eq(take(&h[0], "fresh", 1, 1), TABLE_OK);
    finish();
}
END_TEST

TEST(closing_what_has_nothing_is_harmless)
{
    start();
    table_close(t, &h[0], now, NULL, &out);
    table_close(t, &h[0], now, NULL, &out);
    expect_nobody();
    finish();
}
END_TEST

/* ---- admission --------------------------------------------------------------------------- */

TEST(each_request_brings_its_own_limit)
{
    start();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(take(&h[0], "k", 1, 10), TABLE_OK);
    struct waiter *low1 = wait_for(&h[1], WAIT_ME, "k", 1, 2);
    struct waiter *low2 = wait_for(&h[2], WAIT_ME, "k", 1, 2);
    /* Requests that allow more workers pass those that allow fewer. */
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(take(&h[3], "k", 1, 10), TABLE_OK);
    struct waiter *high = wait_for(&h[4], WAIT_ME, "k", 1, 10);
    ck_assert_int_eq(give(&h[3], "k", 1), TABLE_OK);
    expect(high, WAITER_GRANTED);
    ck_assert_int_eq(give(&h[3], "k", 5), TABLE_OK);
    expect_nobody();
    ck_assert_int_eq(give(&h[0], "k", 3), TABLE_OK);
    expect_nobody(); /* 2 units are held */
    ck_assert_int_eq(take(&h[5], "k", 1, 2), TABLE_BUSY);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect(low1, WAITER_GRANTED);
    expect_nobody();
    ck_assert_int_eq(give(&h[4], "k", 1), TABLE_OK);
    expect(low2, WAITER_GRANTED);
    finish();
}
END_TEST

TEST(of_those_that_fit_the_oldest_goes_first)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 10, 10), TABLE_OK);
    struct waiter *big = wait_for(&h[1], WAIT_ME, "k", 8, 10);
    struct waiter *mid = wait_for(&h[2], WAIT_ME, "k", 4, 10);
    struct waiter *one = wait_for(&h[3], WAIT_ME, "k", 1, 10);
    struct waiter *two = wait_for(&h[4], WAIT_ME, "k", 2, 10);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect(one, WAITER_GRANTED); /* the older waiters do not fit */
    expect_nobody();
    ck_assert_int_eq(give(&h[0], "k", 5), TABLE_OK);
    expect(mid, WAITER_GRANTED);
    expect_nobody(); /* 9 of 10 units are held */
    ck_assert_int_eq(give(&h[2], "k", 1), TABLE_OK);
    expect(two, WAITER_GRANTED);
    ck_assert_int_eq(give(&h[0], "k", 4), TABLE_OK);
    ck_assert_int_eq(give(&h[2], "k", 3), TABLE_OK);
    expect_nobody();
    ck_assert_int_eq(give(&h[3], "k", 1), TABLE_OK);
    expect(big, WAITER_GRANTED);
    ck_assert_int_eq(count_of("k"), 10);
    finish();
}
END_TEST

TEST(what_fits_passes_what_waits)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 5, 10), TABLE_OK);
    (void)wait_for(&h[1], WAIT_ME, "k", 8, 10);
    ck_assert_int_eq(take(&h[2], "k", 5, 10), TABLE_OK);
    ck_assert(stats().waiting == 1);
    finish();
}
END_TEST

TEST(one_release_may_grant_many)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1000, 1000), TABLE_OK);
    static struct waiter *w[1000];
    for (int i = 0; i < 1000; i++)
        w[i] = wait_for(&h[1 + i % 8], WAIT_ME, "k", 1, 1000);
    table_check(t);
    ck_assert_int_eq(give(&h[0], "k", 999), TABLE_OK);
    for (int i = 0; i < 999; i++)
        expect(w[i], WAITER_GRANTED);
    expect_nobody();
    ck_assert_int_eq(count_of("k"), 1000);
    ck_assert(w[999]->state == WAITER_WAITING);
    finish();
}
END_TEST

TEST(sums_never_wrap)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", UINT32_MAX, UINT32_MAX), TABLE_OK);
    ck_assert_int_eq(count_of("k"), UINT32_MAX);
    ck_assert_int_eq(take(&h[0], "k", 1, UINT32_MAX), TABLE_BUSY);
    ck_assert_int_eq(take(&h[1], "k", 1, UINT32_MAX), TABLE_BUSY);
    ck_assert_int_eq(take(&h[1], "k", UINT32_MAX, UINT32_MAX), TABLE_BUSY);
    struct waiter *all = wait_for(&h[1], WAIT_ME, "k", UINT32_MAX, UINT32_MAX);
    struct waiter *one = wait_for(&h[2], WAIT_ME, "k", 1, UINT32_MAX);
    ck_assert_int_eq(count_of("k"), UINT32_MAX);
    struct acquire a = {.name = name_of("k"),
                        .units = 1,
                        .limit = UINT32_MAX,
                        .queue_max = UINT32_MAX,
                        .wait = WAIT_ME};
    /* Also above the limit. */
    ck_assert_int_eq(ask(&h[3], &a, &(struct waiter *){NULL}), TABLE_FULL);
    table_check(t);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect(one, WAITER_GRANTED);
    expect_nobody();
    ck_assert_int_eq(count_of("k"), UINT32_MAX);
    ck_assert_int_eq(give(&h[0], "k", UINT32_MAX), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[0], "k", UINT32_MAX - 1), TABLE_OK);
    ck_assert_int_eq(give(&h[2], "k", 1), TABLE_OK);
    expect(all, WAITER_GRANTED);
    ck_assert_int_eq(count_of("k"), UINT32_MAX);
    ck_assert(stats().units == UINT32_MAX);
    ck_assert_int_eq(take(&h[4], "l", UINT32_MAX - 1, UINT32_MAX), TABLE_OK);
    ck_assert_int_eq(take(&h[5], "l", 2, UINT32_MAX), TABLE_BUSY);
    ck_assert_int_eq(take(&h[5], "l", 1, UINT32_MAX - 1), TABLE_BUSY);
    ck_assert_int_eq(take(&h[5], "l", 1, UINT32_MAX), TABLE_OK);
    ck_assert(stats().units == 2 * (uint64_t)UINT32_MAX);
    table_check(t);
    finish();
}
END_TEST

TEST(queue_max_counts_units_and_waiters_before_anything_else)
{
    start();
    struct acquire a = {
        .name = name_of("k"), .units = 1, .limit = 2, .queue_max = 4, .wait = WAIT_ME};
    struct waiter *w[4] = {NULL};
    ck_assert_int_eq(ask(&h[0], &a, &w[0]), TABLE_OK);
    ck_assert_int_eq(ask(&h[1], &a, &w[0]), TABLE_OK);
    ck_assert_int_eq(ask(&h[2], &a, &w[0]), TABLE_WAITING);
    a.wait = WAIT_ANY;
    ck_assert_int_eq(ask(&h[3], &a, &w[1]), TABLE_WAITING);
    ck_assert_int_eq(ask(&h[4], &a, &w[2]), TABLE_FULL);
    ck_assert(w[2] == NULL);
    a.wait = WAIT_NO;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_FULL);
    a.queue_max = 5;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_BUSY);
    /* A full queue refuses even a request that would fit; a queue_max of 0 is not checked. */
    a.limit = 100;
    a.queue_max = 4;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_FULL);
    a.queue_max = 1;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_FULL);
    a.queue_max = 0;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_OK);
    ck_assert_int_eq(give(&h[4], "k", 1), TABLE_OK);
    expect(w[1], WAITER_DONE);
    /* One waits: there is room again. Nothing is held: there is always room. */
    a.queue_max = 4;
    a.limit = 2;
    a.wait = WAIT_ME;
    ck_assert_int_eq(ask(&h[5], &a, &w[2]), TABLE_WAITING);
    ck_assert_int_eq(ask(&h[5], &a, &w[3]), TABLE_FULL);
    a.name = name_of("new");
    a.queue_max = 1;
    ck_assert_int_eq(ask(&h[5], &a, NULL), TABLE_OK);
    ck_assert_int_eq(ask(&h[5], &a, NULL), TABLE_FULL);
    finish();
}
END_TEST

TEST(a_grant_of_somebody_else_is_added_whatever_the_limit)
{
    start();
    struct holding *held = NULL;
    struct acquire a = {
        .name = name_of("k"), .units = 2, .limit = 3, .queue_max = 1, .wait = WAIT_ME};
    ck_assert_int_eq(table_grant(t, &h[0], &a, now, &held), TABLE_OK);
    ck_assert_int_eq(table_grant(t, &h[0], &a, now, &held), TABLE_OK);
    ck_assert_uint_eq(holding_units(held), 4);
    a.limit = 7;
    ck_assert_int_eq(table_grant(t, &h[1], &a, now, NULL), TABLE_OK);
    ck_assert_int_eq(count_of("k"), 6);
    struct table_entry entry;
    size_t waiting;
    ck_assert_int_eq(table_inspect(t, a.name, now, &entry, NULL, 0, &waiting), TABLE_OK);
    ck_assert_uint_eq(entry.limit, 7);
    a.units = a.limit = UINT32_MAX;
    ck_assert_int_eq(table_grant(t, &h[1], &a, now, NULL), TABLE_BUSY);
    table_check(t);
    /* Without `keep` the name ends with its units. */
    ck_assert_int_eq(give(&h[0], "k", 4), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 2), TABLE_OK);
    ck_assert_int_eq(count_of("k"), -1);
    a = (struct acquire){.name = name_of("l"), .units = 1, .limit = 1, .keep = true};
    ck_assert_int_eq(table_grant(t, &h[1], &a, now, NULL), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "l", 1), TABLE_OK);
    ck_assert_int_eq(count_of("l"), 0);
    finish();
}
END_TEST

struct visits {
    unsigned names, units;
    bool has_waited_for;
};

static void visit(void *arg, struct bytes name, uint32_t units)
{
    struct visits *visits = arg;
    visits->names++;
    visits->units += units;
    visits->has_waited_for = visits->has_waited_for || bytes_equal(name, name_of("w"));
}

TEST(a_visit_shows_each_name_that_a_holder_has_units_of)
{
    start();
    struct visits visits = {0};
    holder_visit(t, &h[0], visit, &visits);
    ck_assert_uint_eq(visits.names, 0);
    ck_assert_int_eq(take(&h[1], "w", 1, 1), TABLE_OK);
    for (unsigned i = 1; i <= 9; i++) {
        char name[8] = {(char)('0' + i), '\0'};
        ck_assert_int_eq(take(&h[0], name, i, 9), TABLE_OK);
        ck_assert_int_eq(take(&h[1], name, 1, 99), TABLE_OK);
    }
    struct waiter *w = wait_for(&h[0], WAIT_ME, "w", 1, 1);
    holder_visit(t, &h[0], visit, &visits);
    ck_assert_uint_eq(visits.names, 9);
    ck_assert_uint_eq(visits.units, 45);
    ck_assert(!visits.has_waited_for);
    ck_assert_int_eq(give(&h[1], "w", 1), TABLE_OK);
    visits = (struct visits){0};
    holder_visit(t, &h[0], visit, &visits); /* the verdict has not arrived */
    ck_assert(visits.has_waited_for);
    expect(w, WAITER_GRANTED);
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_grant_of_somebody_else_is_added_whatever_the_limit),
    UNIT(a_visit_shows_each_name_that_a_holder_has_units_of),
    UNIT(units_are_taken_and_given_back),
    UNIT(a_holding_is_one_place_for_all_units_of_a_name),
    UNIT_ABORTS(releasing_more_than_is_held_aborts),
    UNIT_ABORTS(releasing_0_of_a_holding_aborts),
    UNIT_ABORTS(asking_for_0_aborts),
    UNIT_ABORTS(asking_for_more_than_the_limit_aborts),
    UNIT_ABORTS(an_empty_name_aborts),
    UNIT_ABORTS(a_name_too_long_aborts),
    UNIT_ABORTS(holder_0_aborts),
    UNIT(release_tells_any_then_grants_me_oldest_first),
    UNIT(release_of_0_units_wakes_nobody),
    UNIT(release_tells_any_even_if_nothing_fits),
    UNIT(release_by_the_place_tells_the_same),
    UNIT(close_grants_me_then_any_and_tells_nobody_done),
    UNIT(a_waiters_end_changes_nothing_else),
    UNIT(one_that_waits_and_holds_is_never_granted_its_own_unit),
    UNIT(close_ends_every_wait_and_frees_every_name),
    UNIT(closing_what_has_nothing_is_harmless),
    UNIT(each_request_brings_its_own_limit),
    UNIT(of_those_that_fit_the_oldest_goes_first),
    UNIT(what_fits_passes_what_waits),
    UNIT(one_release_may_grant_many),
    UNIT(sums_never_wrap),
    UNIT(queue_max_counts_units_and_waiters_before_anything_else),
};

UNIT_MAIN("engine/table", tests)
