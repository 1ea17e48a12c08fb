/*
 * no_memory_test.c - nothing is lost or left over when memory is short; tables of odd sizes.
 */
#include "t/unit/engine/faults.h"
#include "t/unit/engine/tables.h"
#include "t/unit/random.h"

/* ---- no memory ------------------------------------------------------------------------------- */

static bool same_but_for_memory(struct table_stats a, struct table_stats b)
{
    a.memory = b.memory = 0; /* slabs may have taken a page and kept it */
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static int repeats = 1500;

/*
 * Lets each allocation of a request fail in turn, until the request succeeds. Checks that each
 * failure changes nothing. Returns the number of failures.
 */
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
        if (status != TABLE_NO_MEMORY) { /* a split without memory must not fail the request */
            ck_assert_int_eq(status, expected);
            return refused ? n : n - 1;
        }
        ck_assert(refused && held == NULL);
        ck_assert(same_but_for_memory(before, stats()));
        ck_assert(holder->holdings == holdings && holder->waiters == waiters);
        ck_assert(count_of_bytes(a->name.data, a->name.len) == consumption_before);
        /* Repeated failures use nothing up. */
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
    struct acquire a = {.name = name_of("k"), .units = 2, .limit = 4};
    ck_assert_msg(refuse_each(&h[0], &a, TABLE_OK, NULL) == 1, "link with fault_wraps");
    /* Taking more of a held name allocates nothing. */
    ck_assert(refuse_each(&h[0], &a, TABLE_OK, NULL) == 0);
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
    /* Giving back allocates nothing. */
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
    /* The names make crowded buckets and splits in both indexes. */
    unsigned most_for_name = 0, most_for_holder = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        open_holder(&many[i]);
        struct acquire a = {.name = bytes_at(&i, sizeof(i)), .units = 1, .limit = 1};
        struct acquire one = {.name = name_of("one name"), .units = 1, .limit = UINT32_MAX};
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
    /* Long names until one is refused, then shorter ones. */
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
    ck_assert_int_eq(take(&h[1], "k", 1, 1), TABLE_OK); /* its slot is free again */
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
                continue; /* such a table would start with gigabytes */
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
            } else { /* the empty indexes fill the limit */
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
    /* The table, and for each of 64 shards two indexes with a list of pages and pages. */
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
    UNIT(without_memory_nothing_changes),
    UNIT(without_memory_many_names_and_holders_change_nothing),
    UNIT(at_the_limit_what_exists_goes_on),
    UNIT(odd_sizes),
    UNIT(too_little_memory_is_no_table),
    UNIT(a_start_without_memory_leaves_nothing),
    UNIT_ABORTS(an_interval_of_0_aborts),
    UNIT_ABORTS(a_limit_of_0_aborts),
};

UNIT_MAIN("engine/no_memory", tests)
