/*
 * expiry_test.c - how long a name lives: its interval, its peak, and the collector.
 */
#include "engine/shard.h"

#include "t/unit/engine/tables.h"

/* ---- how long a name lives, and its peak ----------------------------------------------------- */

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
    /* At the boundary the name expires, although the collector has not visited it yet. */
    now.unix_s++;
    ck_assert(walk_for("k").count == 0);
    ck_assert(stats().names == 0);
    size_t memory = stats().memory;
    ck_assert_int_eq(count_of("k"), -1); /* the look-up removes it */
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
    /* A text client makes a text name of it. */
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
    ck_assert_int_eq(count_of("k"), 1); /* a name with units never expires */
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    ck_assert_int_eq(count_of("k"), 0);
    next_interval();
    ck_assert_int_eq(count_of("k"), -1);
    /* The end of a connection counts as a use. */
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
    /* One keeping grant is enough, whatever follows. */
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
    ck_assert(peak_of("k") == 6); /* reading starts the interval's peak with the units held now */
    ck_assert_int_eq(give(&h[0], "k", 4), TABLE_OK);
    ck_assert(peak_of("k") == 6); /* the units held when the interval began */
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
    now.unix_s -= INTERVAL; /* a step back this small may be a late thread's */
    ck_assert_int_eq(count_of("held"), 1);
    ck_assert_int_eq(count_of("kept"), 0);
    ck_assert(peak_of("held") == 5);
    ck_assert_int_eq(take_keep(&h[0], "late", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "late", 1), TABLE_OK);
    ck_assert(collect_all(100) == 0 && stats().names == 3);
    now.unix_s -= 10 * INTERVAL; /* this far back it is another interval; names at 0 have expired */
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

/*
 * Regression: a late thread moved the counter back into its interval, and the other thread lost it.
 */
TEST(a_thread_late_at_a_boundary_takes_nothing_away)
{
    start();
    struct moment late = now;
    now.unix_s += INTERVAL;
    ck_assert_int_eq(take_keep(&h[0], "k", 7, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[0], "k", 7), TABLE_OK);
    struct acquire a = {.name = name_of("k"), .units = 1, .limit = 9, .keep = true};
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

/* Regression: expired names were counted until the collector visited them. */
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

/* Counters store 16 bits of an interval's number. */
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
    /* One walk per round is enough. */
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
        /* A thread that is still in the old round removes nothing. */
        struct acquire a = {.name = name_of("again"), .units = 1, .limit = 9, .keep = true};
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
            ck_assert_int_eq(give(&h[0], name, 1), TABLE_OK); /* two of three names are at 0 */
    }
    ck_assert(collect_all(3) == 0); /* their interval is not over */
    next_interval();
    for (int i = 1; i < NAMES; i += 3) { /* the new holder uses one of these two again */
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
    /* A budget of 0 does nothing. */
    struct table_walk still = {0};
    ck_assert(!table_collect(t, &still, now, 0, &collected));
    ck_assert(still.shard == 0 && still.hash_from == 0);
    finish();
}
END_TEST

/* ---- without memory -------------------------------------------------------------------------- */

#define SMALL (5 * MIB)

static void start_small(void)
{
    start_with(&(struct table_config){
        .buckets = 100,
        .memory_limit = SMALL,
        .stats_interval_s = INTERVAL,
        .hash_key = {.k0 = 1, .k1 = 2},
    });
}

/* The name with this number; in *shard_r its shard, unless that is NULL. */
static const char *numbered(int number, unsigned *shard_r)
{
    static char name[24];
    (void)snprintf(name, sizeof(name), "name %06d", number);
    struct bytes bytes = name_of(name);
    uint64_t hash;
    table_prefetch(t, &bytes, 1, &hash);
    if (shard_r)
        *shard_r = (unsigned)(hash >> 58);
    return name;
}

TEST(names_at_0_make_room_for_new_ones)
{
    enum { NAMES = 60000 };
    start_small();
    ck_assert_int_eq(take_keep(&h[1], "held", 1, 1), TABLE_OK);
    for (int i = 0; i < NAMES; i++) {
        const char *name = numbered(i, NULL);
        ck_assert_int_eq(take_keep(&h[0], name, 1, 1), TABLE_OK);
        ck_assert_int_eq(give(&h[0], name, 1), TABLE_OK);
        ck_assert(i % 1000 > 0 || stats().dropped_early == 0 || table_is_full(t));
    }
    ck_assert(stats().dropped_early > 0);
    ck_assert(stats().names + stats().dropped_early == NAMES + 1);
    /* Further holdings of a name, waits, and names of other sizes, too. */
    ck_assert_int_eq(take(&h[0], "n", 1, 9), TABLE_OK);
    for (int i = 1; i < HOLDERS; i++)
        ck_assert_int_eq(take(&h[i], "n", 1, 99), TABLE_OK);
    ck_assert_int_eq(count_of("held"), 1);
    ck_assert_int_eq(take_keep(&h[1], "held", 1, 1), TABLE_BUSY);
    table_check(t);
    finish();
}
END_TEST

TEST(a_request_without_memory_looks_at_64_names_and_goes_on_where_it_was)
{
    enum { NAMES = 200000 };
    unsigned shard, wanted, in_shard = 0, tries = 0;
    start_small();
    int count = 0;
    while (take_keep(&h[0], numbered(count, NULL), 1, 1) == TABLE_OK)
        ck_assert_int_lt(++count, NAMES);
    ck_assert(stats().dropped_early == 0); /* all are held */
    (void)numbered(0, &wanted);
    unsigned looks = ROOM_LOOKS;
    lock_acquire(&t->shards[wanted].lock);
    ck_assert(!shard_make_room(&t->shards[wanted], 0, &looks));
    lock_release(&t->shards[wanted].lock);
    ck_assert_uint_eq(looks, ROOM_LOOKS); /* at none: the count of names at 0 tells it */
    for (int i = 0; i < count; i++) {
        (void)numbered(i, &shard);
        in_shard += shard == wanted;
    }
    ck_assert_uint_gt(in_shard, 128);
    ck_assert_int_eq(give(&h[0], numbered(0, NULL), 1), TABLE_OK);
    for (int i = NAMES; stats().dropped_early == 0; i++) {
        const char *name = numbered(i, &shard);
        if (shard != wanted)
            continue;
        bool has_room = take(&h[1], name, 1, 1) == TABLE_OK;
        in_shard += has_room; /* at first, in slots that were never used */
        ck_assert(has_room || stats().dropped_early == 0);
        tries += !has_room;
        ck_assert_uint_lt(tries, 2 * NAMES / 64);
    }
    /* A pass sees each name, and some empty buckets; it is seen in the first pass or the second. */
    ck_assert_uint_gt(tries, 1);
    ck_assert_uint_le(tries, 2 * (2 * in_shard / 64) + 1);
    ck_assert_int_eq(count_of(numbered(0, NULL)), -1);
    table_check(t);
    finish();
}
END_TEST

TEST(the_collector_gives_names_at_0_a_second_chance)
{
    enum { USED = 100 };
    start_small();
    int count = 0;
    for (; !table_is_full(t); count++) {
        const char *name = numbered(count, NULL);
        ck_assert_int_eq(take_keep(&h[0], name, 2, 2), TABLE_OK);
        if (stats().memory < SMALL - SMALL / 8)
            ck_assert_int_eq(give(&h[0], name, 2), TABLE_OK);
        else
            ck_assert_int_eq(give(&h[0], name, 1), TABLE_OK); /* held, so it stays full */
    }
    ck_assert_int_eq(take_keep(&h[1], "short", 1, 1), TABLE_OK);
    ck_assert(collect_all(100) == 0);
    for (int i = 0; i < USED; i++) {
        ck_assert_int_eq(take(&h[1], numbered(i, NULL), 1, 9), TABLE_OK);
        ck_assert_int_eq(give(&h[1], numbered(i, NULL), 1), TABLE_OK);
    }
    table_check(t);
    uint64_t idle = stats().idle, gone = collect_all(100);
    ck_assert(gone > 0 && stats().dropped_early == gone && gone <= idle - USED);
    ck_assert(!table_is_full(t) && stats().memory > SMALL / 2);
    for (int i = 0; i < USED; i++)
        ck_assert_int_eq(count_of(numbered(i, NULL)), 0);
    ck_assert(peak_of(numbered(0, NULL)) == 2);
    /* Below 15/16 nothing changes. */
    ck_assert(collect_all(100) == 0 && collect_all(100) == 0);
    table_check(t);
    finish();
}
END_TEST

static const struct unit_test tests[] = {
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
    UNIT(names_at_0_make_room_for_new_ones),
    UNIT(a_request_without_memory_looks_at_64_names_and_goes_on_where_it_was),
    UNIT(the_collector_gives_names_at_0_a_second_chance),
};

UNIT_MAIN("engine/expiry", tests)
