/*
 * table_test.c - the table, row by row of the protocol page: who is admitted, who is told what in
 * which order, what a counter's name and peak live through, and that nothing is lost or left when
 * memory is short.
 */
#include "engine/table.h"

#include "t/unit/engine/faults.h"
#include "t/unit/random.h"

#include <string.h>

#define INTERVAL 100L
#define MIB      ((size_t)1 << 20)

enum { HOLDERS = 12 };

static struct table *t;
static struct holder h[HOLDERS];
static verdicts out;
static struct moment now = {.mono_ns = 5000, .unix_s = 1000 * INTERVAL};
static uint32_t next_id = 1;

/* ---- a short language for tests ---------------------------------------------------------- */

static void open_holder(struct holder *holder)
{
    uint32_t id = next_id++;
    holder_init(holder, id, UINT64_C(0x7000000000000000) + id);
}

static void start_with(const struct table_config *config)
{
    t = table_new(config);
    ck_assert(t != NULL);
    mail_list_init(&out);
    for (int i = 0; i < HOLDERS; i++)
        open_holder(&h[i]);
}

static void start(void)
{
    start_with(&(struct table_config){
        .buckets = 100,
        .memory_limit = 64 * MIB,
        .stats_interval_s = INTERVAL,
        .hash_key = {.k0 = 1, .k1 = 2},
    });
}

static struct table_stats stats(void)
{
    struct table_stats s;
    table_get_stats(t, now, &s);
    return s;
}

static uint64_t collect_all(unsigned budget)
{
    struct table_walk walk = {0};
    uint64_t collected = 0;
    while (!table_collect(t, &walk, now, budget, &collected))
        continue;
    return collected;
}

/* Whatever a test has left: all of it can go, and then there is nothing. */
static void finish(void)
{
    for (int i = 0; i < HOLDERS; i++)
        table_close(t, &h[i], now, NULL, &out);
    for (struct mail *m; (m = mail_list_take(&out)) != NULL;) {
        struct waiter *w = waiter_of(m);
        ck_assert(w->holder == NULL);
        table_waiter_free(t, w);
    }
    table_check(t);
    struct table_stats s = stats();
    ck_assert(s.units == 0 && s.holdings == 0 && s.waiting == 0);
    now.unix_s += INTERVAL;
    collect_all(100);
    s = stats();
    ck_assert(s.names == 0 && s.overflowing == 0);
    table_check(t);
    table_free(&t);
    ck_assert(t == NULL);
}

static enum table_status ask(struct holder *holder, const struct acquire *a, struct waiter **w)
{
    return table_acquire(t, holder, a, now, NULL, w);
}

/* Asks for units without waiting. */
static enum table_status take(struct holder *holder, const char *name, uint32_t units,
                              uint32_t limit)
{
    struct acquire a = {.name = bytes_of(name), .units = units, .limit = limit};
    return ask(holder, &a, NULL);
}

/* The same as binary clients do: the counter stays for its interval. */
static enum table_status take_keep(struct holder *holder, const char *name, uint32_t units,
                                   uint32_t limit)
{
    struct acquire a = {.name = bytes_of(name), .units = units, .limit = limit, .keep = true};
    return ask(holder, &a, NULL);
}

static struct waiter *wait_for(struct holder *holder, enum wait_kind kind, const char *name,
                               uint32_t units, uint32_t limit)
{
    struct acquire a = {.name = bytes_of(name), .units = units, .limit = limit, .wait = kind};
    struct waiter *w = NULL;
    ck_assert_int_eq(ask(holder, &a, &w), TABLE_WAITING);
    ck_assert(w != NULL && w->holder == holder && w->tag == holder->tag);
    ck_assert(w->since_ns == now.mono_ns && w->units == units && w->limit == limit);
    ck_assert(w->kind == kind && holder->waiters == w);
    return w;
}

static enum table_status give(struct holder *holder, const char *name, uint32_t units)
{
    return table_release(t, holder, &(struct release){.name = bytes_of(name), .units = units}, now,
                         NULL, &out);
}

/* The consumption of a name, or -1. */
static int64_t count_of(const char *name)
{
    uint32_t consumption = 0xdead;
    enum table_status status = table_get(t, bytes_of(name), now, &consumption);
    ck_assert(status == TABLE_OK || (status == TABLE_NOT_FOUND && consumption == 0xdead));
    return status == TABLE_OK ? (int64_t)consumption : -1;
}

static void expect_nobody(void)
{
    ck_assert(out.first == NULL);
}

/* The next verdict is for `w`; it arrives, and is noted unless that was done or is no use. */
static void expect(struct waiter *w, enum waiter_state verdict)
{
    struct mail *m = mail_list_take(&out);
    ck_assert(m == &w->mail);
    ck_assert(waiter_of(m) == w);
    ck_assert_int_eq(w->state, verdict);
    ck_assert(w->ended_ns == now.mono_ns);
    if (w->holder)
        ck_assert_int_eq(table_settle(t, w), verdict);
    table_waiter_free(t, w);
}

/* ---- asking, giving back ----------------------------------------------------------------- */

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
    struct acquire a = {.name = bytes_of("k"), .units = 2, .limit = 10};
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
    struct acquire a = {.name = bytes_of("k"), .units = 2, .limit = 10};
    ck_assert_int_eq(take(&h[1], "k", 5, 10), TABLE_OK);
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &held, NULL), TABLE_OK);
    table_release_held(t, &h[0], held, 3, now, &out);
}
END_TEST

TEST(releasing_0_of_a_holding_aborts)
{
    start();
    struct holding *held = NULL;
    struct acquire a = {.name = bytes_of("k"), .units = 2, .limit = 10};
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
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_NOT_HELD); /* it waits, it has none */
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
    struct acquire a = {.name = bytes_of("k"), .units = 3, .limit = 3};
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
    /* Newest first, as they lie in the holder's list. */
    for (int i = 49; i >= 0; i--)
        expect(me[i], WAITER_GRANTED);
    expect_nobody();
    /* It can be opened again. */
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
    /* Those who allow more workers pass those who allow few. */
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(take(&h[3], "k", 1, 10), TABLE_OK);
    struct waiter *high = wait_for(&h[4], WAIT_ME, "k", 1, 10);
    ck_assert_int_eq(give(&h[3], "k", 1), TABLE_OK);
    expect(high, WAITER_GRANTED);
    ck_assert_int_eq(give(&h[3], "k", 5), TABLE_OK);
    expect_nobody();
    ck_assert_int_eq(give(&h[0], "k", 3), TABLE_OK);
    expect_nobody(); /* consumption is 2 */
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
    expect(one, WAITER_GRANTED); /* the older ones do not fit */
    expect_nobody();
    ck_assert_int_eq(give(&h[0], "k", 5), TABLE_OK);
    expect(mid, WAITER_GRANTED);
    expect_nobody(); /* 9 of 10 */
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
    struct acquire a = {.name = bytes_of("k"),
                        .units = 1,
                        .limit = UINT32_MAX,
                        .queue_max = UINT32_MAX,
                        .wait = WAIT_ME};
    ck_assert_int_eq(ask(&h[3], &a, &(struct waiter *){NULL}), TABLE_FULL); /* also beyond */
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
        .name = bytes_of("k"), .units = 1, .limit = 2, .queue_max = 4, .wait = WAIT_ME};
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
    /* Full is full even where it would fit; a room of 0 is not looked at. */
    a.limit = 100;
    a.queue_max = 4;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_FULL);
    a.queue_max = 1;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_FULL);
    a.queue_max = 0;
    ck_assert_int_eq(ask(&h[4], &a, NULL), TABLE_OK);
    ck_assert_int_eq(give(&h[4], "k", 1), TABLE_OK);
    expect(w[1], WAITER_DONE);
    /* One left: there is room again. Nothing held: always room. */
    a.queue_max = 4;
    a.limit = 2;
    a.wait = WAIT_ME;
    ck_assert_int_eq(ask(&h[5], &a, &w[2]), TABLE_WAITING);
    ck_assert_int_eq(ask(&h[5], &a, &w[3]), TABLE_FULL);
    a.name = bytes_of("new");
    a.queue_max = 1;
    ck_assert_int_eq(ask(&h[5], &a, NULL), TABLE_OK);
    ck_assert_int_eq(ask(&h[5], &a, NULL), TABLE_FULL);
    finish();
}
END_TEST

/* ---- how long a name lives, and its peak ----------------------------------------------------- */

struct seen {
    uint32_t count;
    const char *name; /* looks for this one */
    uint32_t consumption, peak, times;
};

static bool see(void *arg, const struct table_entry *entry)
{
    struct seen *seen = arg;
    seen->count++;
    if (seen->name && entry->name.len == strlen(seen->name) &&
        memcmp(entry->name.data, seen->name, entry->name.len) == 0) {
        seen->consumption = entry->consumption;
        seen->peak = entry->peak;
        seen->times++;
    }
    return true;
}

static struct seen walk_for(const char *name)
{
    struct seen seen = {.name = name};
    struct table_walk walk = {0};
    while (!table_walk_on(t, &walk, now, 7, see, &seen))
        continue;
    ck_assert(seen.times <= 1);
    return seen;
}

/* The peak of a name that exists. */
static uint32_t peak_of(const char *name)
{
    struct seen seen = walk_for(name);
    ck_assert(seen.times == 1 && (int64_t)seen.consumption == count_of(name));
    return seen.peak;
}

static void next_interval(void)
{
    now.unix_s = (now.unix_s / INTERVAL + 1) * INTERVAL;
}

TEST(interval_is_the_quotient_of_unix_time)
{
    start();
    ck_assert(table_interval(t, 0) == 0);
    ck_assert(table_interval(t, INTERVAL - 1) == 0);
    ck_assert(table_interval(t, INTERVAL) == 1);
    ck_assert(table_interval(t, 2 * INTERVAL - 1) == 1);
    ck_assert(table_interval(t, -1) == 0);
    ck_assert(table_interval(t, INT64_MIN) == 0);
    ck_assert(table_interval(t, INT64_C(4102444800)) == 41024448);
    finish();
}
END_TEST

TEST(text_names_go_at_once)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert(stats().names == 0 && walk_for("k").count == 0);
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    table_close(t, &h[0], now, NULL, &out);
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert(stats().names == 0 && stats().names_made == 2);
    finish();
}
END_TEST

TEST(kept_names_stay_at_0_until_their_interval_ends)
{
    start();
    now.unix_s += INTERVAL / 2;
    ck_assert_int_eq(take_keep(&h[0], "k", 3, 9), TABLE_OK);
    ck_assert_int_eq(take(&h[1], "k", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 3), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), 0);
    ck_assert(peak_of("k") == 4);
    ck_assert_int_eq(give(&h[0], "k", 0), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_NOT_HELD);
    now.unix_s = 1001 * INTERVAL - 1;
    ck_assert_int_eq(count_of("k"), 0);
    ck_assert(walk_for("k").times == 1);
    /* At the boundary it is gone, though nobody has collected it yet. */
    now.unix_s++;
    ck_assert(walk_for("k").count == 0);
    ck_assert(stats().names == 0);
    size_t memory = stats().memory;
    ck_assert_int_eq(count_of("k"), -1); /* who looks for it takes it away */
    ck_assert(stats().names == 0 && stats().memory <= memory);
    ck_assert(collect_all(1000) == 0);
    finish();
}
END_TEST

TEST(every_request_finds_an_expired_name_gone)
{
    start();
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"get", "give", "take"};
        ck_assert_int_eq(take_keep(&h[0], names[i], 1, 1), TABLE_OK);
        ck_assert_int_eq(give(&h[0], names[i], 1), TABLE_OK);
    }
    next_interval();
    ck_assert(stats().names == 0);
    ck_assert_int_eq(count_of("get"), -1);
    ck_assert_int_eq(give(&h[0], "give", 0), TABLE_NOT_FOUND);
    ck_assert(stats().names == 0);
    /* Made anew by a text client it is a text name. */
    ck_assert_int_eq(take(&h[0], "take", 1, 1), TABLE_OK);
    ck_assert(stats().names == 1 && stats().names_made == 4);
    ck_assert(peak_of("take") == 1);
    ck_assert_int_eq(give(&h[0], "take", 1), TABLE_OK);
    ck_assert_int_eq(count_of("take"), -1);
    finish();
}
END_TEST

TEST(the_last_use_decides_which_interval_must_end)
{
    start();
    ck_assert_int_eq(take_keep(&h[0], "k", 1, 9), TABLE_OK);
    next_interval();
    next_interval();
    ck_assert_int_eq(count_of("k"), 1); /* what is held never expires */
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), 0);
    next_interval();
    ck_assert_int_eq(count_of("k"), -1);
    /* The end of a connection is a use as well. */
    ck_assert_int_eq(take_keep(&h[0], "k", 1, 9), TABLE_OK);
    next_interval();
    table_close(t, &h[0], now, NULL, &out);
    ck_assert_int_eq(count_of("k"), 0);
    ck_assert(peak_of("k") == 1);
    next_interval();
    ck_assert_int_eq(count_of("k"), -1);
    finish();
}
END_TEST

TEST(only_a_grant_keeps)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[1], "k", 1, 1), TABLE_BUSY);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), -1);
    /* One grant is enough, whoever comes after. */
    ck_assert_int_eq(take(&h[0], "k", 1, 2), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[1], "k", 1, 2), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(take(&h[0], "k", 1, 2), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), 0);
    finish();
}
END_TEST

TEST(peaks_are_of_their_interval)
{
    start();
    ck_assert_int_eq(take_keep(&h[0], "k", 7, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 2), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[0], "k", 1, 9), TABLE_OK);
    ck_assert(peak_of("k") == 7);
    next_interval();
    ck_assert(peak_of("k") == 6); /* reading starts it from what is held */
    ck_assert_int_eq(give(&h[0], "k", 4), TABLE_OK);
    ck_assert(peak_of("k") == 6); /* that much was held when the interval began */
    ck_assert_int_eq(take_keep(&h[0], "k", 1, 9), TABLE_OK);
    ck_assert(peak_of("k") == 6);
    ck_assert_int_eq(take_keep(&h[0], "k", 6, 9), TABLE_OK);
    ck_assert(peak_of("k") == 9);
    next_interval();
    next_interval();
    table_close(t, &h[0], now, NULL, &out);
    ck_assert_int_eq(count_of("k"), 0);
    ck_assert(peak_of("k") == 9);
    finish();
}
END_TEST

TEST(hand_overs_do_not_raise_peaks_above_what_was_held)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 2, 2), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 2, 2);
    ck_assert_int_eq(give(&h[0], "k", 2), TABLE_OK);
    expect(w, WAITER_GRANTED);
    ck_assert(peak_of("k") == 2);
    (void)wait_for(&h[0], WAIT_ANY, "k", 1, 1);
    table_close(t, &h[1], now, NULL, &out);
    ck_assert(out.first != NULL && peak_of("k") == 2);
    finish();
}
END_TEST

TEST(a_clock_set_back_loses_nothing)
{
    start();
    ck_assert_int_eq(take_keep(&h[0], "held", 5, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "held", 4), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[0], "kept", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "kept", 1), TABLE_OK);
    now.unix_s -= INTERVAL; /* so little may be a thread that is late */
    ck_assert_int_eq(count_of("held"), 1);
    ck_assert_int_eq(count_of("kept"), 0);
    ck_assert(peak_of("held") == 5);
    ck_assert_int_eq(take_keep(&h[0], "late", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "late", 1), TABLE_OK);
    ck_assert(collect_all(100) == 0 && stats().names == 3);
    now.unix_s -= 10 * INTERVAL; /* this is another interval, and what was at 0 has expired */
    ck_assert_int_eq(count_of("held"), 1);
    ck_assert(peak_of("held") == 1 && stats().names == 1);
    ck_assert_int_eq(count_of("kept"), -1);
    now.unix_s = -5;
    ck_assert_int_eq(take_keep(&h[0], "kept", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "kept", 1), TABLE_OK);
    ck_assert_int_eq(count_of("kept"), 0);
    now.unix_s = INTERVAL;
    ck_assert_int_eq(count_of("kept"), -1);
    finish();
}
END_TEST

/* Once the late thread took the counter back to its own interval, where the other found it gone. */
TEST(a_thread_late_at_a_boundary_takes_nothing_away)
{
    start();
    struct moment late = now;
    now.unix_s += INTERVAL;
    ck_assert_int_eq(take_keep(&h[0], "k", 7, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 7), TABLE_OK);
    struct acquire a = {.name = bytes_of("k"), .units = 1, .limit = 9, .keep = true};
    ck_assert_int_eq(table_acquire(t, &h[1], &a, late, NULL, NULL), TABLE_OK);
    ck_assert_int_eq(
        table_release(t, &h[1], &(struct release){.name = a.name, .units = 1}, late, NULL, &out),
        TABLE_OK);
    ck_assert_int_eq(count_of("k"), 0);
    ck_assert(peak_of("k") == 7 && stats().names == 1);
    now.unix_s += INTERVAL;
    ck_assert_int_eq(count_of("k"), -1);
    finish();
}
END_TEST

/* Once names that had expired were counted until the collector came by. */
TEST(names_that_have_expired_are_not_counted)
{
    start();
    ck_assert_int_eq(take_keep(&h[0], "old", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "old", 1), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[0], "held", 1, 9), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[0], "again", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "again", 1), TABLE_OK);
    ck_assert(stats().names == 3);
    next_interval();
    ck_assert(stats().names == 1);
    ck_assert_int_eq(take_keep(&h[0], "again", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "again", 1), TABLE_OK);
    ck_assert(stats().names == 2);
    ck_assert(collect_all(100) == 1 && stats().names == 2);
    finish();
}
END_TEST

/* Counters note 16 bits of an interval's number. */
#define ROUND (INT64_C(1) << 16)

TEST(intervals_that_come_round_are_other_intervals)
{
    start();
    ck_assert_int_eq(take_keep(&h[0], "held", 7, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "held", 2), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[0], "kept", 3, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "kept", 3), TABLE_OK);
    ck_assert(peak_of("held") == 7 && peak_of("kept") == 3);
    uint64_t collected = 0;
    for (int64_t i = 1; i <= ROUND + 2; i++) {
        next_interval();
        if (i % 1000 == 1 || i > ROUND - 3) {
            ck_assert(peak_of("held") == 5 && stats().names == 1);
            ck_assert(walk_for("kept").times == 0);
        }
        collected += collect_all(1000);
    }
    ck_assert(collected == 1);
    /* One walk in a round is enough. */
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(take_keep(&h[0], "held", 4, 9), TABLE_OK);
        ck_assert_int_eq(give(&h[0], "held", 4), TABLE_OK);
        ck_assert_int_eq(take_keep(&h[0], "kept", 3, 9), TABLE_OK);
        ck_assert_int_eq(give(&h[0], "kept", 3), TABLE_OK);
        ck_assert(peak_of("held") == 9 && peak_of("kept") == 3 && stats().names == 2);
        now.unix_s += (ROUND - 2) * INTERVAL;
        ck_assert(peak_of("held") == 5 && walk_for("kept").times == 0 && stats().names == 1);
        ck_assert(collect_all(1000) == 1);
        now.unix_s += 2 * INTERVAL;
        ck_assert(peak_of("held") == 5 && walk_for("kept").times == 0 && stats().names == 1);
        ck_assert_int_eq(count_of("kept"), -1);
    }
    finish();
}
END_TEST

TEST(where_intervals_come_round_nothing_happens)
{
    start();
    for (int64_t round = 1; round < 4; round++) {
        now.unix_s = (round * ROUND - 1) * INTERVAL;
        struct moment late = now;
        ck_assert_int_eq(take_keep(&h[0], "old", 1, 9), TABLE_OK);
        ck_assert_int_eq(give(&h[0], "old", 1), TABLE_OK);
        ck_assert_int_eq(take_keep(&h[0], "again", 5, 9), TABLE_OK);
        ck_assert_int_eq(give(&h[0], "again", 5), TABLE_OK);
        ck_assert_int_eq(take_keep(&h[0], "held", 5, 9), TABLE_OK);
        ck_assert_int_eq(give(&h[0], "held", 4), TABLE_OK);
        ck_assert(stats().names == 3 && peak_of("held") == 5);
        next_interval();
        ck_assert(stats().names == 1 && peak_of("held") == 1);
        ck_assert_int_eq(take_keep(&h[0], "again", 2, 9), TABLE_OK);
        ck_assert_int_eq(give(&h[0], "again", 2), TABLE_OK);
        ck_assert(stats().names == 2 && peak_of("again") == 2);
        /* A thread that is still in the old round takes nothing away. */
        struct acquire a = {.name = bytes_of("again"), .units = 1, .limit = 9, .keep = true};
        ck_assert_int_eq(table_acquire(t, &h[1], &a, late, NULL, NULL), TABLE_OK);
        ck_assert_int_eq(table_release(t, &h[1], &(struct release){.name = a.name, .units = 1},
                                       late, NULL, &out),
                         TABLE_OK);
        ck_assert(stats().names == 2 && peak_of("again") == 2);
        ck_assert(collect_all(100) == 1);
        next_interval();
        ck_assert(stats().names == 1);
        ck_assert(collect_all(100) == 1);
        ck_assert_int_eq(give(&h[0], "held", 1), TABLE_OK);
        next_interval();
        ck_assert(collect_all(100) == 1 && stats().names == 0);
    }
    finish();
}
END_TEST

TEST(the_collector_takes_what_has_expired_in_small_slices)
{
    enum { NAMES = 3000 };
    start();
    char name[24];
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), "name %d", i);
        ck_assert_int_eq(take_keep(&h[0], name, 1, 1), TABLE_OK);
        if (i % 3 > 0)
            ck_assert_int_eq(give(&h[0], name, 1), TABLE_OK); /* two of three are at 0 */
    }
    ck_assert(collect_all(3) == 0); /* but their interval goes on */
    next_interval();
    for (int i = 1; i < NAMES; i += 3) { /* one of these two is used again, by its new holder */
        (void)snprintf(name, sizeof(name), "name %d", i);
        ck_assert_int_eq(take_keep(&h[1], name, 1, 1), TABLE_OK);
        ck_assert_int_eq(give(&h[1], name, 1), TABLE_OK);
    }
    ck_assert(stats().names == NAMES - NAMES / 3);
    struct table_walk walk = {0};
    uint64_t collected = 0, calls = 0;
    while (!table_collect(t, &walk, now, 1, &collected)) {
        ck_assert(collected <= ++calls);
        ck_assert(stats().names == NAMES - NAMES / 3);
        if (calls % 64 == 0)
            table_check(t);
        ck_assert(calls < UINT64_C(10) * NAMES);
    }
    ck_assert(collected == NAMES / 3 && calls >= NAMES);
    ck_assert(collect_all(1) == 0);
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), "name %d", i);
        ck_assert_int_eq(count_of(name), i % 3 == 0 ? 1 : i % 3 == 1 ? 0 : -1);
    }
    /* The budget of nothing does nothing. */
    struct table_walk still = {0};
    ck_assert(!table_collect(t, &still, now, 0, &collected));
    ck_assert(still.shard == 0 && still.hash_from == 0);
    finish();
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

static enum table_status take_bytes(struct holder *holder, const void *data, size_t len,
                                    uint32_t units, bool keep)
{
    struct acquire a = {.name = {data, len}, .units = units, .limit = UINT32_MAX, .keep = keep};
    return table_acquire(t, holder, &a, now, NULL, NULL);
}

static uint32_t count_of_bytes(const void *data, size_t len)
{
    uint32_t consumption = 0;
    return table_get(t, bytes_at(data, len), now, &consumption) == TABLE_OK ? consumption : 0;
}

TEST(names_of_every_length)
{
    static unsigned char bytes[TABLE_NAME_MAX];
    struct rng rng = rng_start("names", random_seed());
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)rng_next(&rng);
    start_with(&(struct table_config){
        .buckets = 100, .memory_limit = 256 * MIB, .stats_interval_s = INTERVAL});
    /* One is the beginning of the other, with all bytes there are: all lengths of slots, and some
     * of those outside. */
    size_t lengths[2500];
    uint32_t count = 0;
    for (size_t len = 1; len <= 2200; len++)
        lengths[count++] = len;
    for (size_t len = 2201; len < TABLE_NAME_MAX; len += len / 3)
        lengths[count++] = len;
    lengths[count++] = TABLE_NAME_MAX - 1;
    lengths[count++] = TABLE_NAME_MAX;
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(take_bytes(&h[0], bytes, lengths[i], i + 1, false), TABLE_OK);
    ck_assert(stats().names == count);
    table_check(t);
    for (uint32_t i = 0; i < count; i++)
        ck_assert(count_of_bytes(bytes, lengths[i]) == i + 1);
    size_t used = stats().memory;
    for (uint32_t i = 0; i < count; i++) {
        struct bytes name = {bytes, lengths[i]};
        ck_assert_int_eq(table_release(t, &h[0], &(struct release){.name = name, .units = i + 1},
                                       now, NULL, &out),
                         TABLE_OK);
        ck_assert(count_of_bytes(bytes, lengths[i]) == 0);
        if (i % 200 == 0)
            table_check(t);
    }
    ck_assert(stats().names == 0 && stats().memory < used);
    finish();
}
END_TEST

TEST(what_was_foreseen_is_the_same)
{
    enum { COUNT = 5000 };
    unsigned char name[TABLE_FORESIGHT][40] = {{0}};
    struct bytes names[TABLE_FORESIGHT];
    uint64_t hashes[TABLE_FORESIGHT];
    struct rng rng = rng_start("foresight", random_seed());
    start();
    table_foresee(t, names, 0, hashes);
    names[0] = (struct bytes){0};
    table_foresee(t, names, 1, hashes);
    ck_assert(hashes[0] == 0);
    for (unsigned i = 0; i < COUNT; i += TABLE_FORESIGHT) {
        for (unsigned k = 0; k < TABLE_FORESIGHT; k++) {
            uint32_t number = i + k;
            memcpy(name[k], &number, sizeof(number));
            names[k] = bytes_at(name[k], 4 + rng_below(&rng, 37));
        }
        table_foresee(t, names, TABLE_FORESIGHT, hashes);
        /* With the hash or without, before and after. */
        for (unsigned k = 0; k < TABLE_FORESIGHT; k++) {
            struct acquire a = {
                .name = names[k], .hash = k % 2 ? hashes[k] : 0, .units = 3, .limit = 9};
            ck_assert_int_eq(table_acquire(t, &h[0], &a, now, NULL, NULL), TABLE_OK);
            a.hash = k % 2 ? 0 : hashes[k];
            ck_assert_int_eq(table_acquire(t, &h[0], &a, now, NULL, NULL), TABLE_OK);
            ck_assert(count_of_bytes(names[k].data, names[k].len) == 6);
        }
        table_foresee(t, names, TABLE_FORESIGHT, hashes);
        for (unsigned k = 0; k < TABLE_FORESIGHT; k += 2) {
            struct release r = {.name = names[k], .hash = hashes[k], .units = 6};
            ck_assert_int_eq(table_release(t, &h[0], &r, now, NULL, &out), TABLE_OK);
            ck_assert_int_eq(table_release(t, &h[0], &r, now, NULL, &out), TABLE_NOT_FOUND);
        }
    }
    table_check(t);
    finish();
}
END_TEST

TEST(names_that_differ_in_one_byte)
{
    static const size_t lengths[] = {1, 2, 24, 25, 1000, 1996, 1997, 2048, 40000, TABLE_NAME_MAX};
    static unsigned char bytes[TABLE_NAME_MAX];
    start_with(&(struct table_config){
        .buckets = 100, .memory_limit = 128 * MIB, .stats_interval_s = INTERVAL});
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        size_t last = lengths[i] - 1;
        for (uint32_t b = 0; b < 256; b++) {
            bytes[last] = (unsigned char)b;
            ck_assert_int_eq(take_bytes(&h[0], bytes, lengths[i], b + 1, false), TABLE_OK);
        }
        for (uint32_t b = 0; b < 256; b++) {
            bytes[last] = (unsigned char)b;
            ck_assert(count_of_bytes(bytes, lengths[i]) == b + 1);
        }
        bytes[last] = 0;
        ck_assert(count_of_bytes(bytes, lengths[i]) == 1); /* zero bytes are bytes */
    }
    finish();
}
END_TEST

TEST(names_of_equal_hashes_are_different_names)
{
    /* Equal in all bits that the table keeps: found by trying three million. */
    static const char *const pairs[][2] = {{"00122712", "02942864"},
                                           {"02806466", "02952347"},
                                           {"01005985", "01851472"},
                                           {"00934611", "01582200"}};
    const struct hash_key key = {.k0 = 1, .k1 = 2};
    start();
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        const char *a = pairs[i][0], *b = pairs[i][1];
        uint64_t differ = hash_bytes(&key, a, 8) ^ hash_bytes(&key, b, 8);
        ck_assert(differ >> 58 == 0 && (uint32_t)differ == 0);
        ck_assert_int_eq(take(&h[0], a, 1, 1), TABLE_OK);
        ck_assert_int_eq(count_of(b), -1);
        ck_assert_int_eq(take(&h[1], b, 2, 2), TABLE_OK);
        ck_assert_int_eq(count_of(a), 1);
        ck_assert_int_eq(give(&h[0], b, 1), TABLE_NOT_HELD);
        ck_assert_int_eq(give(&h[0], a, 1), TABLE_OK);
        ck_assert_int_eq(count_of(a), -1);
        ck_assert_int_eq(count_of(b), 2);
        ck_assert_int_eq(take(&h[0], a, 1, 1), TABLE_OK);
        table_check(t);
    }
    ck_assert(walk_for(NULL).count == 2 * ARRAY_SIZE(pairs));
    finish();
}
END_TEST

TEST(a_name_is_copied)
{
    start();
    char name[] = "name";
    struct holding *held = NULL;
    struct acquire a = {.name = bytes_of(name), .units = 1, .limit = 1};
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &held, NULL), TABLE_OK);
    name[0] = 'g';
    ck_assert_int_eq(count_of("name"), 1);
    ck_assert_int_eq(count_of("game"), -1);
    ck_assert(memcmp(holding_name(t, held).data, "name", 4) == 0);
    finish();
}
END_TEST

TEST(long_names_are_charged_and_given_back)
{
    static unsigned char bytes[TABLE_NAME_MAX];
    start();
    ck_assert_int_eq(take_bytes(&h[0], bytes, 3000, 1, false), TABLE_OK);
    table_close(t, &h[0], now, NULL, &out);
    size_t before = stats().memory;
    for (uint32_t i = 0; i < 100; i++) {
        memcpy(bytes, &i, sizeof(i));
        ck_assert_int_eq(take_bytes(&h[0], bytes, TABLE_NAME_MAX, 1, i % 2 == 0), TABLE_OK);
    }
    ck_assert(stats().memory >= before + (size_t)100 * TABLE_NAME_MAX);
    table_close(t, &h[0], now, NULL, &out);
    ck_assert(stats().names == 50);
    size_t kept = stats().memory;
    ck_assert(kept >= before + (size_t)50 * TABLE_NAME_MAX);
    next_interval();
    ck_assert(collect_all(5) == 50);
    ck_assert(stats().memory <= before + (size_t)TABLE_SHARDS * ARENA_PAGE);
    ck_assert(kept - stats().memory >= (size_t)50 * TABLE_NAME_MAX);
    finish();
}
END_TEST

TEST(a_table_is_freed_with_the_names_it_keeps)
{
    static unsigned char bytes[5000];
    start();
    for (uint32_t i = 0; i < 200; i++) {
        memcpy(bytes, &i, sizeof(i));
        ck_assert_int_eq(take_bytes(&h[0], bytes, i % 2 ? sizeof(bytes) : 10, 1, true), TABLE_OK);
    }
    table_close(t, &h[0], now, NULL, &out);
    ck_assert(stats().names == 200);
    table_free(&t);
    ck_assert(t == NULL);
    table_free(&t);
}
END_TEST

TEST(freeing_a_table_in_use_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    table_free(&t);
}
END_TEST

/* ---- many ------------------------------------------------------------------------------------ */

TEST(many_holders_of_one_name)
{
    enum { MANY = 3000 };
    static struct holder many[MANY];
    struct rng rng = rng_start("many holders", random_seed());
    start();
    for (uint32_t i = 0; i < MANY; i++) {
        open_holder(&many[i]);
        ck_assert_int_eq(take(&many[i], "k", 1 + i % 5, UINT32_MAX), TABLE_OK);
    }
    uint32_t units = MANY / 5 * 15;
    ck_assert_int_eq(count_of("k"), units);
    ck_assert(stats().holdings == MANY && stats().names == 1);
    table_check(t);
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(give(&many[i], "k", 2 + i % 5), TABLE_NOT_HELD);
        ck_assert_int_eq(take(&many[i], "k", 1, UINT32_MAX), TABLE_OK);
    }
    units += MANY;
    ck_assert(stats().holdings == MANY);
    /* They go in any order and some come again, among them into the place inside the counter. */
    for (uint32_t turn = 0; turn < 4 * MANY; turn++) {
        uint32_t i = rng_below(&rng, MANY);
        if (many[i].holdings) {
            units -= 2 + i % 5;
            if (rng_one_in(&rng, 2))
                table_close(t, &many[i], now, NULL, &out);
            else
                REQUIRE(give(&many[i], "k", 2 + i % 5) == TABLE_OK);
            REQUIRE(many[i].holdings == 0);
        } else {
            units += 2 + i % 5;
            REQUIRE(take(&many[i], "k", 2 + i % 5, UINT32_MAX) == TABLE_OK);
        }
        REQUIRE(count_of("k") == units);
        if (turn % 512 == 0)
            table_check(t);
    }
    for (uint32_t i = 0; i < MANY; i++)
        table_close(t, &many[i], now, NULL, &out);
    ck_assert_int_eq(count_of("k"), -1);
    finish();
}
END_TEST

TEST(many_names_of_one_holder)
{
    enum { MANY = 20000 };
    static bool held[MANY];
    struct rng rng = rng_start("many names", random_seed());
    start();
    char name[24];
    uint64_t count = 0;
    for (int turn = 0; turn < 4 * MANY; turn++) {
        uint32_t i = rng_below(&rng, MANY);
        (void)snprintf(name, sizeof(name), "%u", i);
        if (held[i])
            REQUIRE(give(&h[0], name, 1) == TABLE_OK);
        else
            REQUIRE(take(&h[0], name, 1, 1) == TABLE_OK);
        held[i] = !held[i];
        count += held[i] ? 1 : UINT64_MAX;
    }
    ck_assert(stats().units == count && stats().holdings == count && stats().names == count);
    table_check(t);
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "%u", i);
        REQUIRE(take(&h[1], name, 1, 1) == (held[i] ? TABLE_BUSY : TABLE_OK));
    }
    ck_assert(stats().names == MANY);
    table_close(t, &h[0], now, NULL, &out);
    ck_assert(stats().names == MANY - count);
    table_check(t);
    finish();
}
END_TEST

TEST(the_place_inside_a_counter_goes_from_holder_to_holder)
{
    start();
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(take(&h[i], "k", 1, 100), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);      /* was inside */
    ck_assert_int_eq(take(&h[3], "k", 1, 100), TABLE_OK); /* stays outside */
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_NOT_HELD);
    ck_assert_int_eq(take(&h[6], "k", 7, 100), TABLE_OK); /* inside */
    ck_assert_int_eq(take(&h[0], "k", 5, 100), TABLE_OK); /* outside now */
    table_check(t);
    ck_assert_int_eq(give(&h[6], "k", 8), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[0], "k", 6), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[3], "k", 3), TABLE_NOT_HELD);
    ck_assert_int_eq(give(&h[3], "k", 2), TABLE_OK);
    table_close(t, &h[6], now, NULL, &out);
    ck_assert_int_eq(count_of("k"), 9);
    ck_assert(stats().holdings == 5);
    finish();
}
END_TEST

/* What an empty table may have more than a new one: in each shard, of each size of slots in use,
 * one page. */
static size_t kept_pages(unsigned sizes)
{
    return (size_t)sizes * TABLE_SHARDS * ARENA_PAGE;
}

TEST(a_million_names_leave_no_memory_behind)
{
#ifdef __SANITIZE_THREAD__
    enum { MANY = 200000 }; /* its own memory for each of them is a multiple */
#else
    enum { MANY = 1000000 };
#endif
    start_with(&(struct table_config){
        .buckets = 1000, .memory_limit = 512 * MIB, .stats_interval_s = INTERVAL});
    size_t at_start = stats().memory;
    char name[24];
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "a name, number %07u", i);
        REQUIRE(take(&h[i % 3], name, 1, 1) == TABLE_OK);
    }
    struct table_stats full = stats();
    ck_assert(full.names == MANY && full.units == MANY && full.holdings == MANY);
    /* A slot of 80, and 64 bytes for four to six names. */
    ck_assert(full.memory <= at_start + (size_t)MANY * 100 + kept_pages(2));
    ck_assert(full.overflowing < MANY / 20);
    for (int i = 0; i < 3; i++)
        table_close(t, &h[i], now, NULL, &out);
    struct table_stats empty = stats();
    ck_assert(empty.names == 0 && empty.overflowing == 0);
    ck_assert(empty.memory <= at_start + kept_pages(2)); /* counters, further buckets */
    finish();
}
END_TEST

TEST(collected_names_leave_no_memory_behind)
{
    enum { MANY = 200000 };
    start_with(&(struct table_config){
        .buckets = 1000, .memory_limit = 128 * MIB, .stats_interval_s = INTERVAL});
    size_t at_start = stats().memory;
    for (uint32_t i = 0; i < MANY; i++)
        REQUIRE(take_bytes(&h[0], &i, sizeof(i), 1, true) == TABLE_OK);
    size_t full = stats().memory;
    table_close(t, &h[0], now, NULL, &out);
    next_interval();
    ck_assert(collect_all(1000) == MANY);
    ck_assert(full > at_start + (size_t)MANY * 48);
    ck_assert(stats().memory <= at_start + kept_pages(2));
    finish();
}
END_TEST

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
    /* Noted at once; the letters come later. */
    ck_assert_int_eq(table_settle(t, any), WAITER_DONE);
    ck_assert_int_eq(table_settle(t, me), WAITER_GRANTED);
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
    table_settle(t, wait_for(&h[1], WAIT_ME, "k", 1, 1));
}
END_TEST

TEST(settling_twice_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    table_settle(t, w);
    table_settle(t, w);
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
    /* DONE is on its way; the name is gone, though its memory can't be yet. */
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert(stats().names == 0 && stats().holdings == 1 && walk_for("k").count == 0);
    ck_assert_int_eq(give(&h[1], "k", 0), TABLE_NOT_FOUND);
    /* Meanwhile it is made again, also by the same holder. */
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
    /* Both close before their letters come: the grant goes on to the next. */
    table_close(t, &h[1], now, NULL, &out);
    ck_assert(any->holder == NULL && stats().holdings == 2);
    table_close(t, &h[2], now, NULL, &out);
    ck_assert(me->holder == NULL && me->tag == tag && stats().holdings == 1);
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
    ck_assert_int_eq(give(&h[1], "k", 1), TABLE_OK); /* the ledger says they are its own */
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
    /* Its own release says DONE to its own wait, too; nothing is left then but the verdict. */
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *any = wait_for(&h[0], WAIT_ANY, "k", 1, 1);
    ck_assert(stats().holdings == 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), -1);
    /* Other names use up whatever memory has become free. */
    ck_assert_int_eq(take(&h[1], "k", 1, 1), TABLE_OK);
    ck_assert_int_eq(take(&h[1], "l", 1, 1), TABLE_OK);
    expect(any, WAITER_DONE);
    ck_assert(h[0].holdings == 0 && h[0].waiters == NULL);
    /* And grants its own wait. */
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
    ck_assert(before - stats().memory >= sizeof(bytes)); /* only now its name is given up */
    finish();
}
END_TEST

/* ---- walking over all names ------------------------------------------------------------------ */

struct marks {
    uint32_t *seen; /* by number */
    uint32_t room;  /* entries that fit before the visitor says stop */
};

static bool mark(void *arg, const struct table_entry *entry)
{
    struct marks *marks = arg;
    uint32_t number;
    REQUIRE(entry->name.len == sizeof(number));
    if (marks->room == 0)
        return false;
    marks->room--;
    memcpy(&number, entry->name.data, sizeof(number));
    marks->seen[number]++;
    return true;
}

static void toggle(uint32_t number, bool on)
{
    if (on)
        REQUIRE(take_bytes(&h[0], &number, sizeof(number), 1, false) == TABLE_OK);
    else
        REQUIRE(
            table_release(t, &h[0],
                          &(struct release){.name = bytes_at(&number, sizeof(number)), .units = 1},
                          now, NULL, &out) == TABLE_OK);
}

TEST(walks_see_every_name_once_while_names_come_and_go)
{
    enum { STAY = 4000, MANY = 3000000 };
    struct rng rng = rng_start("walks over the table", random_seed());
    uint32_t *seen = calloc(MANY, sizeof(*seen)), *live = calloc(MANY, sizeof(*live));
    ck_assert(seen && live);
    start();
    for (uint32_t i = 0; i < STAY; i++)
        toggle(i, true);
    uint32_t count = 0, next = STAY;
    for (int w = 0; w < 30; w++) {
        struct table_walk walk = {0};
        struct marks marks = {.seen = seen};
        uint32_t first = next;
        bool over = false, filling = w % 2 == 0;
        while (!over) {
            marks.room = rng_below(&rng, 20);
            over = table_walk_on(t, &walk, now, 1 + rng_below(&rng, 30), mark, &marks);
            for (uint32_t k = rng_below(&rng, 80); k > 0 && next < MANY; k--) {
                if (rng_one_in(&rng, 4) != filling) {
                    toggle(next, true);
                    live[count++] = next++;
                } else if (count > 0) {
                    uint32_t i = rng_below(&rng, count);
                    toggle(live[i], false);
                    live[i] = live[--count];
                }
            }
        }
        for (uint32_t i = 0; i < STAY; i++)
            REQUIRE(seen[i] == 1);
        for (uint32_t i = STAY; i < next; i++)
            REQUIRE(seen[i] <= 1);
        memset(seen, 0, next * sizeof(*seen));
        ck_assert(next > first);
    }
    free(seen);
    free(live);
    finish();
}
END_TEST

/* Once a walk paused between two names of equal hash by ref, and showed the first one again. */
TEST(a_name_made_again_where_a_walk_pauses_is_not_shown_again)
{
    enum { MANY = 200 };
    uint32_t seen[MANY + 64] = {0};
    start();
    for (uint32_t i = 0; i < MANY; i++)
        toggle(i, true);
    struct table_walk walk = {0};
    struct marks marks = {.seen = seen};
    bool over = false;
    while (!over) {
        uint32_t before[MANY];
        memcpy(before, seen, sizeof(before));
        marks.room = 1;
        over = table_walk_on(t, &walk, now, 100000, mark, &marks);
        for (uint32_t i = 0; i < MANY; i++) {
            if (seen[i] == before[i])
                continue;
            /* Others take its place meanwhile, so that it comes back at a higher one. */
            toggle(i, false);
            for (uint32_t k = 0; k < 64; k++)
                toggle(MANY + k, true);
            toggle(i, true);
            for (uint32_t k = 0; k < 64; k++)
                toggle(MANY + k, false);
        }
    }
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert(seen[i] == 1);
    finish();
}
END_TEST

/* Empty pages of many sizes once were kept until no name could be made in an empty table. */
TEST(little_memory_is_enough_for_names_of_all_lengths_one_at_a_time)
{
    static unsigned char bytes[2000];
    start_with(&(struct table_config){
        .buckets = 100, .memory_limit = 16 * MIB, .stats_interval_s = INTERVAL});
    for (uint32_t i = 0; i < 60000; i++) {
        memcpy(bytes, &i, sizeof(i));
        REQUIRE(take_bytes(&h[0], bytes, 4 + i % 1900, 1, false) == TABLE_OK);
        table_close(t, &h[0], now, NULL, &out);
    }
    finish();
}
END_TEST

static uint32_t names_until_full(uint32_t first)
{
    uint32_t made = 0;
    for (uint32_t i = first; take_bytes(&h[0], &i, sizeof(i), 1, false) == TABLE_OK; i++) {
        if (++made % 1000 == 0 && table_is_tight(t))
            table_trim(t); /* as the collector does each second */
    }
    table_close(t, &h[0], now, NULL, &out);
    return made;
}

/* Once pages kept empty while there was room took a third of it from names of other lengths. */
TEST(pages_kept_empty_are_given_back_when_memory_is_tight)
{
    static unsigned char bytes[2000];
    start_with(&(struct table_config){
        .buckets = 1, .memory_limit = 16 * MIB, .stats_interval_s = INTERVAL});
    uint32_t fresh = names_until_full(0);
    table_trim(t);
    for (uint32_t i = 0; i < 60000; i++) {
        memcpy(bytes, &i, sizeof(i));
        REQUIRE(take_bytes(&h[0], bytes, 4 + i % 1900, 1, false) == TABLE_OK);
        table_close(t, &h[0], now, NULL, &out);
    }
    ck_assert(stats().memory > 4 * MIB);
    ck_assert(names_until_full(1u << 30) >= fresh - fresh / 50);
    finish();
}
END_TEST

TEST(a_walk_over_nothing_ends)
{
    start();
    struct table_walk walk = {0};
    struct seen seen = {0};
    unsigned calls = 0;
    while (!table_walk_on(t, &walk, now, 1, see, &seen))
        ck_assert(++calls < 10000);
    ck_assert(seen.count == 0);
    ck_assert(table_walk_on(t, &walk, now, 1, see, &seen)); /* and has ended */
    ck_assert(!table_walk_on(t, &(struct table_walk){0}, now, 0, see, &seen));
    finish();
}
END_TEST

TEST(a_visitor_without_room_is_shown_the_same_again)
{
    start();
    uint32_t seen[100] = {0};
    for (uint32_t i = 0; i < 100; i++)
        toggle(i, true);
    struct table_walk walk = {0};
    struct marks marks = {.seen = seen, .room = 1};
    unsigned calls = 1;
    while (!table_walk_on(t, &walk, now, 100000, mark, &marks)) {
        marks.room = calls % 2; /* sometimes there still is none */
        calls++;
    }
    ck_assert(calls >= 190);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert(seen[i] == 1);
    finish();
}
END_TEST

/* ---- no memory ------------------------------------------------------------------------------- */

static bool same_but_for_memory(struct table_stats a, struct table_stats b)
{
    a.memory = b.memory = 0; /* slabs may have taken a page to keep */
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/*
 * Refuses each piece of memory that a request needs, in turn, until it needs none that is refused.
 * Each time nothing has changed. Returns how many pieces were refused.
 */
static int repeats = 1500;

static unsigned refuse_each(struct holder *holder, const struct acquire *a,
                            enum table_status expected, struct waiter **waiter_r)
{
    for (unsigned n = 1;; n++) {
        struct table_stats before = stats();
        ref_t holdings = holder->holdings;
        struct waiter *waiters = holder->waiters;
        uint32_t consumption_before = count_of_bytes(a->name.data, a->name.len);
        struct holding *held = NULL;
        fault_countdown = n;
        enum table_status status = table_acquire(t, holder, a, now, &held, waiter_r);
        bool refused = fault_countdown == 0;
        fault_countdown = 0;
        table_check(t);
        if (status != TABLE_NO_MEMORY) { /* a refused split is no reason to refuse */
            ck_assert_int_eq(status, expected);
            return refused ? n : n - 1;
        }
        ck_assert(refused && held == NULL);
        ck_assert(same_but_for_memory(before, stats()));
        ck_assert(holder->holdings == holdings && holder->waiters == waiters);
        ck_assert(count_of_bytes(a->name.data, a->name.len) == consumption_before);
        /* Nor does refusing, however often, use anything up. */
        size_t memory = stats().memory;
        for (int again = 0; again < repeats; again++) {
            fault_countdown = n;
            REQUIRE(table_acquire(t, holder, a, now, &held, waiter_r) == TABLE_NO_MEMORY);
            fault_countdown = 0;
        }
        ck_assert(stats().memory == memory);
    }
}

TEST(without_memory_nothing_changes)
{
    static unsigned char bytes[TABLE_NAME_MAX];
    start();
    struct acquire a = {.name = bytes_of("k"), .units = 2, .limit = 4};
    ck_assert_msg(refuse_each(&h[0], &a, TABLE_OK, NULL) == 1, "link with fault_wraps");
    ck_assert(refuse_each(&h[0], &a, TABLE_OK, NULL) == 0); /* more of the same costs nothing */
    struct acquire outside = {.name = {bytes, 3000}, .units = 1, .limit = 9};
    ck_assert(refuse_each(&h[0], &outside, TABLE_OK, NULL) == 3); /* charge, name, counter */
    ck_assert(refuse_each(&h[1], &outside, TABLE_OK, NULL) == 1); /* a holding outside */
    struct waiter *w[6];
    a.wait = WAIT_ME;
    ck_assert(refuse_each(&h[1], &a, TABLE_WAITING, &w[0]) == 4); /* itself, queue, lane, holding */
    ck_assert(refuse_each(&h[2], &a, TABLE_WAITING, &w[1]) == 2); /* itself, holding */
    ck_assert(refuse_each(&h[2], &a, TABLE_WAITING, &w[2]) == 1);
    a.wait = WAIT_ANY;
    ck_assert(refuse_each(&h[0], &a, TABLE_WAITING, &w[3]) == 2); /* itself, lane */
    a.limit = 3;
    ck_assert(refuse_each(&h[3], &a, TABLE_WAITING, &w[4]) == 3);
    /* What gives back takes nothing. */
    fault_countdown = 1;
    REQUIRE(table_end_wait(t, w[2], WAITER_CANCELLED, now) == WAITER_CANCELLED);
    REQUIRE(give(&h[0], "k", 1) == TABLE_OK);
    table_close(t, &h[0], now, NULL, &out);
    REQUIRE(fault_countdown == 1);
    fault_countdown = 0;
    expect(w[3], WAITER_DONE);
    expect(w[4], WAITER_DONE);
    expect(w[0], WAITER_GRANTED);
    expect(w[1], WAITER_GRANTED);
    expect_nobody();
    finish();
}
END_TEST

TEST(without_memory_many_names_and_holders_change_nothing)
{
    enum { MANY = 4000 };
    static struct holder many[MANY];
    start();
    repeats = 0;
    /* Crowded buckets and splits on the way, in both indexes. */
    unsigned most_for_name = 0, most_for_holder = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        open_holder(&many[i]);
        struct acquire a = {.name = bytes_at(&i, sizeof(i)), .units = 1, .limit = 1};
        struct acquire one = {.name = bytes_of("one name"), .units = 1, .limit = UINT32_MAX};
        unsigned n;
        if (i % 8 == 0 || i > MANY - 200) {
            n = refuse_each(&many[i], &a, TABLE_OK, NULL);
            most_for_name = n > most_for_name ? n : most_for_name;
            n = refuse_each(&many[i], &one, TABLE_OK, NULL);
            most_for_holder = n > most_for_holder ? n : most_for_holder;
        } else {
            REQUIRE(ask(&many[i], &a, NULL) == TABLE_OK && ask(&many[i], &one, NULL) == TABLE_OK);
        }
    }
    ck_assert(most_for_name >= 2 && most_for_holder >= 2);
    fault_countdown = 1;
    for (uint32_t i = 0; i < MANY; i++)
        table_close(t, &many[i], now, NULL, &out);
    REQUIRE(fault_countdown == 1);
    fault_countdown = 0;
    finish();
}
END_TEST

TEST(at_the_limit_what_exists_goes_on)
{
    static unsigned char bytes[TABLE_NAME_MAX];
    start_with(&(struct table_config){
        .buckets = 1000, .memory_limit = 16 * MIB, .stats_interval_s = INTERVAL});
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    /* Long names until they are refused, then shorter ones. */
    uint32_t number = 0, refused = 0;
    for (size_t len = TABLE_NAME_MAX; len > 8;) {
        number++;
        memcpy(bytes, &number, sizeof(number));
        enum table_status status = take_bytes(&h[2], bytes, len, 1, false);
        ck_assert(status == TABLE_OK || status == TABLE_NO_MEMORY);
        ck_assert(stats().memory <= 16 * MIB);
        if (status == TABLE_NO_MEMORY) {
            ck_assert(count_of_bytes(bytes, len) == 0);
            refused++;
            len = len * 3 / 4;
        }
    }
    ck_assert(refused > 10 && number > 220);
    table_check(t);
    uint64_t names = stats().names;
    ck_assert_int_eq(take(&h[0], "k", 1, 2), TABLE_OK);
    ck_assert_int_eq(take(&h[1], "k", 1, 2), TABLE_BUSY);
    ck_assert_int_eq(give(&h[0], "k", 2), TABLE_OK);
    expect(w, WAITER_GRANTED);
    table_close(t, &h[1], now, NULL, &out);
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert_int_eq(take(&h[1], "k", 1, 1), TABLE_OK); /* its place is still there */
    ck_assert(stats().names == names);
    table_close(t, &h[2], now, NULL, &out);
    ck_assert(stats().names == 1);
    ck_assert_int_eq(take_bytes(&h[2], bytes, TABLE_NAME_MAX, 1, false), TABLE_OK);
    finish();
}
END_TEST

/* ---- making tables --------------------------------------------------------------------------- */

TEST(odd_sizes)
{
    static const uint64_t buckets[] = {0, 1, 63, 64, 65, 384, 385, 100000, UINT64_MAX};
    static const size_t limits[] = {2 * MIB, 3 * MIB + 12345, 16 * MIB, SIZE_MAX};
    for (size_t b = 0; b < ARRAY_SIZE(buckets); b++) {
        for (size_t l = 0; l < ARRAY_SIZE(limits); l++) {
            if (limits[l] == SIZE_MAX && buckets[b] == UINT64_MAX)
                continue; /* it would begin with gigabytes */
            start_with(&(struct table_config){.buckets = buckets[b],
                                              .memory_limit = limits[l],
                                              .stats_interval_s = 1 + (uint32_t)b});
            struct table_stats s = stats();
            ck_assert(s.names == 0 && s.names_made == 0 && s.units == 0 && s.waiting == 0);
            ck_assert(s.memory >= (size_t)2 * TABLE_SHARDS * ARENA_PAGE);
            ck_assert(s.memory <= 2 * MIB || s.memory <= limits[l] / 2 + MIB);
            table_check(t);
            if (limits[l] > 2 * MIB) {
                ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
                ck_assert_int_eq(count_of("k"), 1);
            } else { /* filled by the empty indexes */
                ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_NO_MEMORY);
                ck_assert_int_eq(count_of("k"), -1);
            }
            finish();
        }
    }
}
END_TEST

TEST(too_little_memory_is_no_table)
{
    static const size_t limits[] = {1, ARENA_PAGE, (size_t)3 * ARENA_PAGE, MIB, 2 * MIB - 1};
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        errno = 0;
        ck_assert(table_new(&(struct table_config){
                      .buckets = 1, .memory_limit = limits[i], .stats_interval_s = 1}) == NULL);
        ck_assert_int_eq(errno, ENOMEM);
    }
}
END_TEST

TEST(a_start_without_memory_leaves_nothing)
{
    const struct table_config config = {
        .buckets = 100000, .memory_limit = 16 * MIB, .stats_interval_s = 1};
    unsigned long n = 1;
    for (;; n++) {
        fault_countdown = n;
        errno = 0;
        t = table_new(&config);
        fault_countdown = 0;
        if (t)
            break;
        ck_assert_int_eq(errno, ENOMEM);
    }
    /* The table, 64 shards of two indexes, each with a list of pages and pages. */
    ck_assert_msg(n > 1 + 64 * 4, "link with fault_wraps");
    table_free(&t);
    fail_mmap = true;
    ck_assert(table_new(&config) == NULL);
    ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

TEST(an_interval_of_0_aborts)
{
    (void)!table_new(&(struct table_config){.memory_limit = 16 * MIB});
}
END_TEST

TEST(a_limit_of_0_aborts)
{
    (void)!table_new(&(struct table_config){.stats_interval_s = 1});
}
END_TEST

static const struct unit_test tests[] = {
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
    UNIT(interval_is_the_quotient_of_unix_time),
    UNIT(text_names_go_at_once),
    UNIT(kept_names_stay_at_0_until_their_interval_ends),
    UNIT(every_request_finds_an_expired_name_gone),
    UNIT(the_last_use_decides_which_interval_must_end),
    UNIT(only_a_grant_keeps),
    UNIT(peaks_are_of_their_interval),
    UNIT(hand_overs_do_not_raise_peaks_above_what_was_held),
    UNIT(a_clock_set_back_loses_nothing),
    UNIT(a_thread_late_at_a_boundary_takes_nothing_away),
    UNIT(names_that_have_expired_are_not_counted),
    UNIT(intervals_that_come_round_are_other_intervals),
    UNIT(where_intervals_come_round_nothing_happens),
    UNIT(the_collector_takes_what_has_expired_in_small_slices),
    UNIT(names_of_every_length),
    UNIT(what_was_foreseen_is_the_same),
    UNIT(names_that_differ_in_one_byte),
    UNIT(names_of_equal_hashes_are_different_names),
    UNIT(a_name_is_copied),
    UNIT(long_names_are_charged_and_given_back),
    UNIT(a_table_is_freed_with_the_names_it_keeps),
    UNIT_ABORTS(freeing_a_table_in_use_aborts),
    UNIT(many_holders_of_one_name),
    UNIT(many_names_of_one_holder),
    UNIT(the_place_inside_a_counter_goes_from_holder_to_holder),
    UNIT(a_million_names_leave_no_memory_behind),
    UNIT(collected_names_leave_no_memory_behind),
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
    UNIT(walks_see_every_name_once_while_names_come_and_go),
    UNIT(a_name_made_again_where_a_walk_pauses_is_not_shown_again),
    UNIT(little_memory_is_enough_for_names_of_all_lengths_one_at_a_time),
    UNIT(pages_kept_empty_are_given_back_when_memory_is_tight),
    UNIT(a_walk_over_nothing_ends),
    UNIT(a_visitor_without_room_is_shown_the_same_again),
    UNIT(without_memory_nothing_changes),
    UNIT(without_memory_many_names_and_holders_change_nothing),
    UNIT(at_the_limit_what_exists_goes_on),
    UNIT(odd_sizes),
    UNIT(too_little_memory_is_no_table),
    UNIT(a_start_without_memory_leaves_nothing),
    UNIT_ABORTS(an_interval_of_0_aborts),
    UNIT_ABORTS(a_limit_of_0_aborts),
};

UNIT_MAIN("engine/table", tests)
