/*
 * table_test.c - what random calls beside the model (t/models/table_test.c) do not show of the
 * table: names of equal hashes, many names, walks while names come and go, intervals that come
 * round, and memory.
 */
#include "engine/shard.h"
#include "t/unit/engine/faults.h"
#include "t/unit/engine/tables.h"
#include "t/unit/random.h"

/* ---- names ----------------------------------------------------------------------------------- */

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

/* ---- many ------------------------------------------------------------------------------------ */

TEST(reservations_are_counted_with_the_waits)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    struct holding *held = w->holding;
    for (uint32_t i = 1; i < TABLE_WAITS_MAX; i++)
        REQUIRE(table_reserve(t, &h[1], name_of("k"), 0, now) == held);
    ck_assert(table_reserve(t, &h[1], name_of("k"), 0, now) == NULL);
    struct acquire a = {.name = name_of("k"), .units = 1, .limit = 1, .wait = WAIT_ME};
    struct waiter *none;
    ck_assert_int_eq(ask(&h[1], &a, &none), TABLE_NO_MEMORY);
    table_check(t);
    for (uint32_t i = 1; i < TABLE_WAITS_MAX; i++)
        table_unreserve(t, &h[1], held, now);
    table_check(t);
    ck_assert_int_eq(table_end_wait(t, w, WAITER_TIMED_OUT, now), WAITER_TIMED_OUT);
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

TEST(many_names_leave_no_memory_behind)
{
    enum { MANY = 200000 };
    start_with(&(struct table_config){
        .buckets = 1000, .memory_limit = 128 * MIB, .stats_interval_s = INTERVAL});
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

/* ---- many waiters and holders ---------------------------------------------------------------- */

enum { CROWD = 4000 };
static struct holder many[CROWD];

static void start_many(void)
{
    start();
    for (unsigned i = 0; i < CROWD; i++)
        open_holder(&many[i]);
}

static void finish_many(void)
{
    for (unsigned i = 0; i < CROWD; i++)
        table_close(t, &many[i], now, NULL, &out);
    finish();
}

/* How often a walk has shown each holder, by id. */
static unsigned shown[64 * CROWD];
static uint32_t last_shown; /* the id of the last holder; 0: none, or the one inside the counter */

/* Walks one slice; returns true at the end of the walk. */
static bool slice(const char *name, struct table_walk *walk, unsigned budget, size_t room)
{
    struct table_hold holders[64];
    size_t count = 99;
    ck_assert(room <= ARRAY_SIZE(holders));
    bool inside = !walk->counter;
    bool over = table_holders_on(t, bytes_of(name), walk, now, budget, holders, room, &count);
    ck_assert(count <= room);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(holders[i].holder < ARRAY_SIZE(shown) && holders[i].units > 0);
        shown[holders[i].holder]++;
        last_shown = inside && i == 0 ? 0 : holders[i].holder;
    }
    return over;
}

/* Thousands of holders come and go during a walk; those that stay are shown exactly once. At each
 * pause the last one loses its unit and gets it again: it is not shown again, unless it was inside
 * the counter. */
TEST(holders_that_stay_are_shown_exactly_once)
{
    struct rng rng = rng_start("holders", random_seed());
    start_many();
    for (uint32_t i = 0; i < CROWD; i++)
        REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
    for (unsigned round = 0; round < 6; round++) {
        struct table_walk walk = {0};
        unsigned slices = 0;
        memset(shown, 0, sizeof(shown));
        /* The first holder is inside the counter. In even rounds it is one of those that go. */
        uint32_t goes = round % 2;
        while (!slice("k", &walk, 1 + rng_below(&rng, 40), 1 + rng_below(&rng, 16))) {
            uint32_t last = 0;
            slices++;
            while (last < CROWD && many[last].id != last_shown)
                last++;
            bool again = last < CROWD && many[last].holdings;
            if (again)
                REQUIRE(give(&many[last], "k", 1) == TABLE_OK);
            for (unsigned n = 0; n < 40; n++) {
                uint32_t i = 2 * rng_below(&rng, CROWD / 2) + goes;
                if (i == last)
                    continue;
                if (many[i].holdings) {
                    table_close(t, &many[i], now, NULL, &out);
                    open_holder(&many[i]);
                } else {
                    REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
                }
            }
            if (again)
                REQUIRE(take(&many[last], "k", 1, UINT32_MAX) == TABLE_OK);
            REQUIRE(slices < 100000);
        }
        ck_assert(slices > 50);
        for (uint32_t i = 0; i < CROWD; i++) {
            bool stays = i % 2 != goes;
            REQUIRE(shown[many[i].id] <= 1);
            REQUIRE(!stays || shown[many[i].id] == 1);
        }
        for (uint32_t i = 0; i < CROWD; i++)
            REQUIRE(many[i].holdings || take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
        table_check(t);
    }
    finish_many();
}
END_TEST

/* A name in the same shard as "k". */
static const char *neighbour_of_k(void)
{
    static const struct hash_key key = {.k0 = 1, .k1 = 2};
    static char name[16];
    for (int i = 0;; i++) {
        int len = snprintf(name, sizeof(name), "n%d", i);
        if (hash_bytes(&key, name, (size_t)len) >> 58 == hash_bytes(&key, "k", 1) >> 58)
            return name;
    }
}

/* Two names at 0, of this interval and the one before, and how many of them threads count whose
 * clocks differ by some intervals. */
TEST(names_at_0_are_counted_by_each_thread_for_its_own_interval)
{
    static const struct {
        int ahead;
        uint64_t names;
    } rows[] = {{0, 1}, {-1, 2}, {-2, 1}, {-3, 0}, {1, 0}};
    const char *both[] = {"k", neighbour_of_k()};
    start();
    for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
        next_interval();
        ck_assert_int_eq(take_keep(&h[0], both[i], 1, 1), TABLE_OK);
        ck_assert_int_eq(give(&h[0], both[i], 1), TABLE_OK);
    }
    const struct moment here = now;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        now.unix_s = here.unix_s + rows[i].ahead * INTERVAL;
        ck_assert_uint_eq(stats().names, rows[i].names);
    }
    now = here;
    finish();
}
END_TEST

TEST(a_name_that_vanishes_ends_the_walk)
{
    start_many();
    const char *neighbour = neighbour_of_k();
    for (uint32_t i = 0; i < CROWD / 2; i++)
        REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
    memset(shown, 0, sizeof(shown));
    struct table_walk walk = {0};
    ck_assert(!slice("k", &walk, 10, 5));
    for (uint32_t i = 0; i < CROWD / 2; i++)
        table_close(t, &many[i], now, NULL, &out);
    ck_assert(slice("k", &walk, 10, 5)); /* the name is gone */

    /* The name goes, and comes back elsewhere in memory. */
    for (uint32_t i = 0; i < CROWD / 2; i++)
        REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
    walk = (struct table_walk){0};
    ck_assert(!slice("k", &walk, 10, 5));
    for (uint32_t i = 0; i < CROWD / 2; i++)
        table_close(t, &many[i], now, NULL, &out);
    ck_assert(take(&h[0], neighbour, 1, 1) == TABLE_OK); /* now it has that memory */
    ck_assert(take(&h[1], "k", 1, 9) == TABLE_OK);
    ck_assert(take(&h[2], "k", 1, 9) == TABLE_OK);
    memset(shown, 0, sizeof(shown));
    ck_assert(slice("k", &walk, 10, 5));
    ck_assert(shown[h[0].id] == 0 && shown[h[1].id] == 0 && shown[h[2].id] == 0);
    finish_many();
}
END_TEST

/* ---- walks over all names -------------------------------------------------------------------- */

struct marks {
    uint32_t *seen; /* how often each number was visited */
    uint32_t room;  /* entries that fit before the visitor says stop */
    uint32_t last;  /* the last number */
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
    marks->last = number;
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

/* At each pause the last name goes, others take its memory, and it is made again: it is not shown
 * again. */
TEST(walks_see_every_name_once_while_names_come_and_go)
{
    enum { STAY = 4000, MANY = 12000 };
    static uint32_t seen[MANY];
    static bool on[MANY];
    struct rng rng = rng_start("walks over the table", random_seed());
    start();
    for (uint32_t i = 0; i < STAY; i++)
        toggle(i, true);
    for (int w = 0; w < 30; w++) {
        struct table_walk walk = {0};
        struct marks marks = {.seen = seen};
        bool over = false, filling = w % 2 == 0;
        memset(seen, 0, sizeof(seen));
        while (!over) {
            marks.room = rng_below(&rng, 20);
            over = table_walk_on(t, &walk, now, 1 + rng_below(&rng, 30), mark, &marks);
            bool again = marks.last < STAY && seen[marks.last] > 0;
            if (again)
                toggle(marks.last, false);
            for (uint32_t k = rng_below(&rng, 80); k > 0; k--) {
                uint32_t i = STAY + rng_below(&rng, MANY - STAY);
                if (seen[i] == 0 && on[i] != filling)
                    toggle(i, on[i] = filling);
            }
            if (again)
                toggle(marks.last, true);
        }
        for (uint32_t i = 0; i < MANY; i++)
            REQUIRE(seen[i] == 1 || (i >= STAY && seen[i] == 0));
    }
    finish();
}
END_TEST

/* ---- intervals ------------------------------------------------------------------------------- */

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

/* ---- memory ---------------------------------------------------------------------------------- */

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

TEST(odd_sizes)
{
    static const uint64_t buckets[] = {0, 1, 63, 64, 65, 384, 385, 100000, UINT64_MAX};
    static const size_t limits[] = {1, 2 * MIB - 1, 2 * MIB, 3 * MIB + 12345, 16 * MIB, SIZE_MAX};
    for (size_t b = 0; b < ARRAY_SIZE(buckets); b++) {
        for (size_t l = 0; l < ARRAY_SIZE(limits); l++) {
            if (limits[l] == SIZE_MAX && buckets[b] == UINT64_MAX)
                continue; /* such a table would start with gigabytes */
            const struct table_config config = {.buckets = buckets[b],
                                                .memory_limit = limits[l],
                                                .stats_interval_s = 1 + (uint32_t)b};
            if (limits[l] < 2 * MIB) {
                errno = 0;
                ck_assert(table_new(&config) == NULL);
                ck_assert_int_eq(errno, ENOMEM);
                continue;
            }
            start_with(&config);
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

UNIT_MAIN("engine/table")
