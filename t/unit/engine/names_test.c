/*
 * names_test.c - names of every length and kind, and many of them; holders, too.
 */
#include "t/unit/engine/tables.h"
#include "t/unit/random.h"

/* ---- names ----------------------------------------------------------------------------------- */

TEST(names_of_every_length)
{
    static unsigned char bytes[TABLE_NAME_MAX];
    struct rng rng = rng_start("names", random_seed());
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)rng_next(&rng);
    start_with(&(struct table_config){
        .buckets = 100, .memory_limit = 256 * MIB, .stats_interval_s = INTERVAL});
    /*
     * Each name begins with a shorter one; together they use every byte, all lengths of slots, and
     * some lengths outside slots.
     */
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

TEST(what_was_prefetched_is_the_same)
{
    enum { COUNT = 5000 };
    unsigned char name[TABLE_PREFETCH_MAX][40] = {{0}};
    struct bytes names[TABLE_PREFETCH_MAX];
    uint64_t hashes[TABLE_PREFETCH_MAX];
    struct rng rng = rng_start("prefetch", random_seed());
    start();
    table_prefetch(t, names, 0, hashes);
    names[0] = (struct bytes){0};
    table_prefetch(t, names, 1, hashes);
    ck_assert(hashes[0] == 0);
    for (unsigned i = 0; i < COUNT; i += TABLE_PREFETCH_MAX) {
        for (unsigned k = 0; k < TABLE_PREFETCH_MAX; k++) {
            uint32_t number = i + k;
            memcpy(name[k], &number, sizeof(number));
            names[k] = bytes_at(name[k], 4 + rng_below(&rng, 37));
        }
        table_prefetch(t, names, TABLE_PREFETCH_MAX, hashes);
        /* One request with the prefetched hash and one without, in either order. */
        for (unsigned k = 0; k < TABLE_PREFETCH_MAX; k++) {
            struct acquire a = {
                .name = names[k], .hash = k % 2 ? hashes[k] : 0, .units = 3, .limit = 9};
            ck_assert_int_eq(table_acquire(t, &h[0], &a, now, NULL, NULL), TABLE_OK);
            a.hash = k % 2 ? 0 : hashes[k];
            ck_assert_int_eq(table_acquire(t, &h[0], &a, now, NULL, NULL), TABLE_OK);
            ck_assert(count_of_bytes(names[k].data, names[k].len) == 6);
        }
        table_prefetch(t, names, TABLE_PREFETCH_MAX, hashes);
        for (unsigned k = 0; k < TABLE_PREFETCH_MAX; k += 2) {
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
        ck_assert(count_of_bytes(bytes, lengths[i]) == 1); /* zero bytes count */
    }
    finish();
}
END_TEST

TEST(names_of_equal_hashes_are_different_names)
{
    /* Names whose hashes agree in every bit that the table keeps; found among three million. */
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
    struct acquire a = {.name = name_of(name), .units = 1, .limit = 1};
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
    /*
     * Holders release in random order, and some take again, also into the place inside the counter.
     */
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
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);      /* was inside the counter */
    ck_assert_int_eq(take(&h[3], "k", 1, 100), TABLE_OK); /* stays outside */
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_NOT_HELD);
    ck_assert_int_eq(take(&h[6], "k", 7, 100), TABLE_OK); /* inside the counter */
    ck_assert_int_eq(take(&h[0], "k", 5, 100), TABLE_OK); /* now outside */
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

/*
 * How much more memory an empty table may have than a new one: in each shard, one page for each
 * size of slots used.
 */
static size_t kept_pages(unsigned sizes)
{
    return (size_t)sizes * TABLE_SHARDS * ARENA_PAGE;
}

TEST(a_million_names_leave_no_memory_behind)
{
#ifdef __SANITIZE_THREAD__
    enum { MANY = 200000 }; /* TSan needs several times the memory of each name */
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
    /* A slot of 80 bytes for each name, and 64 bytes for every four to six names. */
    ck_assert(full.memory <= at_start + (size_t)MANY * 100 + kept_pages(2));
    ck_assert(full.overflowing < MANY / 20);
    for (int i = 0; i < 3; i++)
        table_close(t, &h[i], now, NULL, &out);
    struct table_stats empty = stats();
    ck_assert(empty.names == 0 && empty.overflowing == 0);
    /* Pages of counters and of further buckets. */
    ck_assert(empty.memory <= at_start + kept_pages(2));
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

static const struct unit_test tests[] = {
    UNIT(names_of_every_length),
    UNIT(what_was_prefetched_is_the_same),
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
};

UNIT_MAIN("engine/names", tests)
