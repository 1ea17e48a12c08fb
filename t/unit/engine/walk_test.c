/*
 * walk_test.c - walks over all names, while names come and go.
 */
#include "t/unit/engine/tables.h"
#include "t/unit/random.h"

/* ---- walking over all names ------------------------------------------------------------------ */

struct marks {
    uint32_t *seen; /* how often each number was visited */
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

/*
 * Regression: a walk paused between two names of equal hash, ordered by ref, and repeated the
 * first.
 */
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
            /* Other names take its memory, so that it comes back at a higher ref. */
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

/* Regression: empty pages of many sizes were kept until an empty table had no room for a name. */
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
            table_trim(t); /* the collector does this every second */
    }
    table_close(t, &h[0], now, NULL, &out);
    return made;
}

/* Regression: empty pages, kept while memory was free, took a third of it from other lengths. */
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
    ck_assert(table_walk_on(t, &walk, now, 1, see, &seen)); /* the walk has ended */
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
        marks.room = calls % 2; /* sometimes there is room for none */
        calls++;
    }
    ck_assert(calls >= 190);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert(seen[i] == 1);
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(walks_see_every_name_once_while_names_come_and_go),
    UNIT(a_name_made_again_where_a_walk_pauses_is_not_shown_again),
    UNIT(little_memory_is_enough_for_names_of_all_lengths_one_at_a_time),
    UNIT(pages_kept_empty_are_given_back_when_memory_is_tight),
    UNIT(a_walk_over_nothing_ends),
    UNIT(a_visitor_without_room_is_shown_the_same_again),
};

UNIT_MAIN("engine/walk", tests)
