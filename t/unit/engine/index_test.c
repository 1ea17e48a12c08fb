/*
 * index_test.c - the hash table that grows and shrinks by one bucket at a time: it finds every
 * entry after any splits and joins, and a walk visits every lasting entry exactly once.
 */
#include "engine/index.h"

#include "t/unit/engine/faults.h"
#include "t/unit/random.h"

#include <string.h>

/* The same constants as in index.c. */
enum { FULL = 6, EMPTY = 2, SEGMENT = 256 };

/* An entry of the index. */
struct entry {
    uint32_t hash;
    uint32_t seen; /* the number of walk steps that showed it */
};

static struct arena arena;
static struct slab slab, entries_slab;
static struct index ix;

/* While true, takes all free pages, like a busy neighbour. */
static bool steal_pages;

static uint32_t hash_of(const struct arena *a, ref_t ref)
{
    while (steal_pages && arena_page_take(&arena) != 0)
        continue;
    return ((const struct entry *)arena_at(a, ref))->hash;
}

static struct entry *entry_at(ref_t ref)
{
    return arena_at(&arena, ref);
}

static void start_with(size_t limit, size_t entries)
{
    ck_assert(arena_init(&arena, limit));
    slab_init(&slab, &arena, 1);
    slab_init(&entries_slab, &arena, 1);
    ck_assert(index_init(&ix, &slab, hash_of, entries));
}

static void start(void)
{
    start_with((size_t)64 << 20, 1);
}

static void finish(void)
{
    index_destroy(&ix);
    arena_destroy(&arena);
}

static ref_t new_entry(uint32_t hash)
{
    ref_t ref = slab_alloc(&entries_slab, sizeof(struct entry));
    REQUIRE(ref != 0);
    *entry_at(ref) = (struct entry){.hash = hash};
    return ref;
}

static ref_t insert(uint32_t hash)
{
    ref_t ref = new_entry(hash);
    REQUIRE(index_insert(&ix, hash, ref));
    return ref;
}

/* Checks that removing allocates nothing. */
static void drop(ref_t ref)
{
    fault_countdown = 1;
    index_remove(&ix, entry_at(ref)->hash, ref);
    REQUIRE(fault_countdown == 1);
    fault_countdown = 0;
    slab_free(&entries_slab, ref);
}

static bool is_in(uint32_t hash, ref_t ref)
{
    struct index_probe probe;
    for (ref_t r = index_first(&ix, hash, &probe); r; r = index_next(&ix, &probe)) {
        if (r == ref)
            return true;
    }
    return false;
}

/* Checks every bucket: entries are in their own, chains have no gaps, the sums are right. */
static void check_index(void)
{
    size_t entries = 0, overflowing = 0;
    REQUIRE(ix.buckets >= ix.buckets_min && ix.buckets >= 1);
    REQUIRE((ix.mask & (ix.mask + 1)) == 0);
    REQUIRE(ix.mask >= ix.buckets - 1 && (ix.mask >> 1) < ix.buckets);
    for (uint32_t n = 0; n < ix.buckets; n++) {
        const struct index_bucket *b = index_bucket_at(&ix, n);
        for (bool further = false;; further = true) {
            unsigned used = 0;
            while (used < INDEX_SLOTS && b->ref[used])
                used++;
            for (unsigned i = 0; i < used; i++) {
                uint32_t hash = entry_at(b->ref[i])->hash;
                REQUIRE(index_bucket_of(&ix, hash) == n);
                REQUIRE(b->tag[i] == (uint16_t)(hash >> 16));
            }
            for (unsigned i = used; i < INDEX_SLOTS; i++)
                REQUIRE(b->ref[i] == 0 && b->tag[i] == 0);
            REQUIRE(!further || used > 0);
            REQUIRE(!b->more || used == INDEX_SLOTS);
            entries += used;
            overflowing += further ? used : 0;
            if (!b->more)
                break;
            b = arena_at(&arena, b->more);
        }
    }
    REQUIRE(entries == ix.entries && overflowing == ix.overflowing);
}

/* ---- finding ----------------------------------------------------------------------------- */

TEST(first_size_is_what_was_asked_for)
{
    static const size_t sizes[] = {0, 1, 5, 6, 7, 1535, 1536, 100000};
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        start_with((size_t)16 << 20, sizes[i]);
        size_t used = arena_used(&arena);
        ck_assert(ix.buckets == sizes[i] / FULL + 1);
        ck_assert(used == (size_t)((ix.buckets + SEGMENT - 1) / SEGMENT) * ARENA_PAGE);
        check_index();
        /* It never shrinks below that. */
        ref_t ref = insert(12345);
        drop(ref);
        ck_assert(ix.buckets == sizes[i] / FULL + 1);
        check_index();
        finish();
    }
}
END_TEST

TEST(grows_and_shrinks_one_bucket_at_a_time)
{
    enum { COUNT = 30000 };
    static ref_t ref[COUNT];
    struct rng rng = rng_start("growth", random_seed());
    start();
    size_t used_at_start = arena_used(&arena);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t buckets = ix.buckets;
        ref[i] = insert((uint32_t)rng_next(&rng));
        REQUIRE(ix.entries == i + 1);
        REQUIRE(ix.buckets == buckets || ix.buckets == buckets + 1);
        REQUIRE(ix.entries <= (size_t)ix.buckets * FULL);
        if (i < 300 || i % 997 == 0)
            check_index();
    }
    check_index();
    for (uint32_t i = 0; i < COUNT; i++) {
        REQUIRE(is_in(entry_at(ref[i])->hash, ref[i]));
        REQUIRE(!is_in(entry_at(ref[i])->hash ^ 0x10000, ref[i]));
    }
    for (uint32_t left = COUNT; left > 0; left--) {
        uint32_t i = rng_below(&rng, left), buckets = ix.buckets;
        uint32_t hash = entry_at(ref[i])->hash;
        drop(ref[i]);
        REQUIRE(ix.buckets == buckets || ix.buckets == buckets - 1);
        REQUIRE(!is_in(hash, ref[i]));
        ref[i] = ref[left - 1];
        if (left < 300 || left % 997 == 0) {
            check_index();
            for (uint32_t k = 0; k < left - 1; k++)
                REQUIRE(is_in(entry_at(ref[k])->hash, ref[k]));
        }
    }
    check_index();
    index_trim(&ix, COUNT); /* two that were too full to join have held up others */
    ck_assert(ix.buckets == 1);
    ck_assert(ix.overflowing == 0);
    /* One page of buckets remains, and the pages that the slabs of buckets and entries keep. */
    ck_assert(arena_used(&arena) <= used_at_start + (size_t)2 * ARENA_PAGE);
    finish();
}
END_TEST

TEST(equal_hashes_are_all_found_and_any_can_go)
{
    enum { COUNT = 200 };
    struct rng rng = rng_start("equal hashes", random_seed());
    for (int round = 0; round < 20; round++) {
        ref_t ref[COUNT];
        start();
        for (uint32_t i = 0; i < COUNT; i++) {
            ref[i] = insert(0xabcd1234);
            check_index();
        }
        ck_assert(ix.overflowing == COUNT - INDEX_SLOTS);
        for (uint32_t left = COUNT; left > 0; left--) {
            uint32_t found = 0;
            struct index_probe probe;
            for (ref_t r = index_first(&ix, 0xabcd1234, &probe); r; r = index_next(&ix, &probe))
                found++;
            ck_assert(found == left);
            /* The first, the last, then any. */
            uint32_t i = round == 0 ? 0 : round == 1 ? left - 1 : rng_below(&rng, left);
            drop(ref[i]);
            memmove(&ref[i], &ref[i + 1], (left - i - 1) * sizeof(ref[0]));
            check_index();
        }
        ck_assert(ix.entries == 0 && ix.overflowing == 0);
        finish();
    }
}
END_TEST

TEST(crowded_buckets_are_shared_out_when_split)
{
    /* The low bits are equal, so one bucket holds all until the table is large. */
    enum { COUNT = 3000 };
    static ref_t ref[COUNT];
    start();
    unsigned shared_out = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t overflowing = ix.overflowing;
        ref[i] = insert(i << 5 | 7);
        shared_out += ix.overflowing < overflowing;
        check_index();
    }
    ck_assert(ix.overflowing > COUNT / 2);
    ck_assert(shared_out > 10);
    for (uint32_t i = 0; i < COUNT; i++)
        REQUIRE(is_in(i << 5 | 7, ref[i]));
    for (uint32_t i = 0; i < COUNT; i++) {
        drop(ref[i]);
        check_index();
    }
    ck_assert(ix.entries == 0 && ix.overflowing == 0);
    /* Buckets that were too crowded to join are joined later. */
    for (uint32_t i = 0; i < COUNT && ix.buckets > 1; i++)
        drop(insert(i));
    ck_assert(ix.buckets == 1);
    finish();
}
END_TEST

/* ---- prefetch ---------------------------------------------------------------------------- */

/* True if the entry is in its hash's first bucket, before all others with its tag. */
static bool is_first_of_its_tag(uint32_t hash, ref_t ref)
{
    struct index_probe probe;
    const struct index_bucket *first = index_bucket_at(&ix, index_bucket_of(&ix, hash));
    return index_first(&ix, hash, &probe) == ref && probe.bucket == first;
}

TEST(guesses_are_right_while_nothing_changes)
{
    enum { COUNT = 30000 };
    static ref_t ref[COUNT];
    struct rng rng = rng_start("guesses", random_seed());
    start();
    ck_assert(index_guess(index_prefetch(&ix, 5), 5) == 0);
    unsigned first = 0, tag_0 = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        /* Some with the tag of free places, some crowded. */
        uint32_t hash = (uint32_t)rng_next(&rng);
        hash = i % 7 == 0 ? hash & 0xffff : i % 50 == 0 ? hash << 16 | 3 : hash;
        tag_0 += hash >> 16 == 0;
        ref[i] = insert(hash);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t hash = entry_at(ref[i])->hash;
        const struct index_bucket *b = index_bucket_at(&ix, index_bucket_of(&ix, hash));
        ck_assert(index_prefetch(&ix, hash) == b);
        ref_t guess = index_guess(b, hash);
        if (is_first_of_its_tag(hash, ref[i])) {
            first++;
            REQUIRE(guess == ref[i]);
        } else if (!is_in(hash, guess)) {
            REQUIRE(guess == b->more);
        }
    }
    ck_assert(first > COUNT / 2 && tag_0 > COUNT / 10);
    check_index();
    finish();
}
END_TEST

/* ---- no memory --------------------------------------------------------------------------- */

TEST(no_memory_at_the_start_leaves_nothing)
{
    /* Refuses each allocation of a start in turn. */
    ck_assert(arena_init(&arena, (size_t)1 << 20));
    slab_init(&slab, &arena, 1);
    unsigned long n = 0;
    bool made = false;
    while (!made) {
        fault_countdown = ++n;
        made = index_init(&ix, &slab, hash_of, (size_t)6 * SEGMENT * FULL - 1);
        fault_countdown = 0;
        if (!made)
            ck_assert(arena_used(&arena) == 0);
    }
    ck_assert_msg(n == 9, "link with fault_wraps"); /* 6 pages, the list of 4, then of 8 */
    ck_assert(arena_used(&arena) == (size_t)6 * ARENA_PAGE);
    finish();
    /* The same with the limit. */
    ck_assert(arena_init(&arena, (size_t)5 * ARENA_PAGE));
    slab_init(&slab, &arena, 1);
    ck_assert(!index_init(&ix, &slab, hash_of, (size_t)6 * SEGMENT * FULL - 1));
    ck_assert(arena_used(&arena) == 0);
    arena_destroy(&arena);
}
END_TEST

TEST(no_memory_for_a_further_bucket_changes_nothing)
{
    start();
    for (uint32_t i = 0; i < 300; i++) {
        ref_t ref = new_entry(77);
        size_t overflowing = ix.overflowing;
        uint32_t buckets = ix.buckets;
        fault_countdown = 1;
        bool inserted = index_insert(&ix, 77, ref);
        bool needed = fault_countdown == 0;
        fault_countdown = 0;
        ck_assert(needed == (i >= INDEX_SLOTS && i % INDEX_SLOTS == 0));
        ck_assert(inserted == !needed);
        if (!inserted) {
            ck_assert(ix.entries == i);
            ck_assert(ix.overflowing == overflowing && ix.buckets == buckets);
            ck_assert(!is_in(77, ref));
            check_index();
            ck_assert(index_insert(&ix, 77, ref));
        }
        ck_assert(is_in(77, ref));
        check_index();
    }
    finish();
}
END_TEST

TEST(no_memory_for_a_split_is_made_up_for_later)
{
    enum { COUNT = 1200 * FULL };
    static ref_t ref[COUNT];
    struct rng rng = rng_start("splits without memory", random_seed());
    start();
    uint32_t refused = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t hash = (uint32_t)rng_next(&rng);
        uint32_t buckets = ix.buckets;
        ref[i] = new_entry(hash);
        bool new_segment = ix.entries + 1 > (size_t)buckets * FULL && buckets % SEGMENT == 0;
        /* Refuses the new page, and next time the longer list of pages. */
        fault_countdown = new_segment ? 1 + buckets / SEGMENT % 2 : 0;
        bool inserted = index_insert(&ix, hash, ref[i]);
        bool fault = new_segment && fault_countdown == 0;
        fault_countdown = 0;
        if (!inserted) { /* it needs a further bucket: allow that, refuse the split */
            ck_assert(fault);
            fault_countdown = 2;
            ck_assert(index_insert(&ix, hash, ref[i]));
            fault_countdown = 0;
        }
        if (fault) {
            ck_assert(ix.buckets == buckets);
            refused++;
            check_index();
        }
        /* The index gets denser for a while, then it catches up. */
        if (refused % 50 == 49) {
            hash = (uint32_t)rng_next(&rng);
            if (++i < COUNT)
                ref[i] = insert(hash);
            refused++;
        }
    }
    ck_assert(refused > 49);
    for (uint32_t i = 0; i < 200; i++)
        (void)insert((uint32_t)rng_next(&rng));
    ck_assert(ix.entries <= (size_t)ix.buckets * FULL);
    check_index();
    for (uint32_t i = 0; i < COUNT; i++)
        REQUIRE(is_in(entry_at(ref[i])->hash, ref[i]));
    finish();
}
END_TEST

TEST(a_split_needs_no_memory_whoever_takes_what_it_gives_back)
{
    /*
     * Splits a bucket of 25 into 13 and 12: this frees two further buckets and needs two. Both were
     * alone on their pages. Freeing them returns the pages to the arena, and another shard may take
     * these before the split needs them.
     */
    enum { IN_A_PAGE = (ARENA_PAGE - 64) / sizeof(struct index_bucket) };
    start_with((size_t)5 * ARENA_PAGE, 1);
    ref_t slot[IN_A_PAGE];
    for (unsigned i = 0; i < IN_A_PAGE; i++) {
        slot[i] = slab_alloc(&slab, sizeof(struct index_bucket));
        ck_assert(slot[i] != 0);
    }
    ref_t ref[25];
    for (uint32_t i = 0; i < 24; i++)
        ref[i] = insert(i << 2);
    slab_free(&slab, slot[0]);
    ck_assert(ix.buckets == 4 && ix.overflowing == 14);
    steal_pages = true;
    ref[24] = insert(UINT32_C(24) << 2);
    steal_pages = false;
    ck_assert(ix.buckets == 5 && ix.overflowing == 5);
    check_index();
    for (uint32_t i = 0; i < 25; i++)
        ck_assert(is_in(i << 2, ref[i]));
    finish();
}
END_TEST

/* ---- walking ----------------------------------------------------------------------------- */

static uint32_t reversed(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}

/* One walk from start to end, without changes. */
static void walk_all(unsigned budget_each, uint32_t expected)
{
    struct index_walk walk = {0};
    uint64_t last = 0;
    uint32_t seen = 0, calls = 0;
    while (!index_walk_done(&walk)) {
        unsigned budget = budget_each;
        calls++;
        for (ref_t r; (r = index_walk_next(&ix, &walk, &budget)) != 0;) {
            uint32_t hash = entry_at(r)->hash;
            uint64_t place = (uint64_t)reversed(hash) << 32 | r;
            REQUIRE(place > last);
            last = place;
            entry_at(r)->seen++;
            seen++;
            /* Without walk_past it shows the same entry again. */
            unsigned again = 1;
            REQUIRE(index_walk_next(&ix, &walk, &again) == r && again == 0);
            index_walk_past(&walk, hash, r);
            index_walk_rest(&ix, &walk);
        }
        REQUIRE(index_walk_done(&walk) || budget == 0);
        REQUIRE(calls <= ix.buckets + seen + 1);
    }
    unsigned budget = 5;
    REQUIRE(index_walk_next(&ix, &walk, &budget) == 0 && budget == 5);
    REQUIRE(seen == expected);
}

TEST(walks_see_all_once_at_every_size)
{
    static ref_t ref[700];
    struct rng rng = rng_start("walks at rest", random_seed());
    start();
    for (uint32_t n = 0; n < ARRAY_SIZE(ref); n++) {
        walk_all(1 + n % 5, n);
        walk_all(UINT32_MAX, n);
        for (uint32_t i = 0; i < n; i++) {
            REQUIRE(entry_at(ref[i])->seen == 2);
            entry_at(ref[i])->seen = 0;
        }
        ref[n] = insert((uint32_t)rng_next(&rng) & (n % 2 ? UINT32_MAX : 0xff0000ff));
    }
    finish();
}
END_TEST

TEST(walks_meet_the_first_and_the_last_hash)
{
    start();
    (void)insert(0);
    (void)insert(UINT32_MAX);
    (void)insert(UINT32_MAX);
    (void)insert(1);
    (void)insert(UINT32_C(1) << 31);
    (void)insert(0);
    walk_all(1, 6);
    walk_all(100, 6);
    finish();
}
END_TEST

/* Hashes of one kind: well spread, or with many equal ones and crowded buckets. */
static uint32_t some_hash(struct rng *rng, uint32_t kind)
{
    uint32_t hash = (uint32_t)rng_next(rng);
    return kind == 0 ? hash : kind == 1 ? hash & 0x8000003f : kind == 2 ? hash & 0xffff0000 : 3;
}

TEST(walks_see_what_stays_once_whatever_comes_and_goes)
{
    enum { STAY = 300, COME = 6000, WALKS = 200 };
    static ref_t stay[STAY], come[COME];
    struct rng rng = rng_start("walks in motion", random_seed());
    start();
    uint32_t count = 0, fewest = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < STAY; i++)
        stay[i] = insert(some_hash(&rng, i % 8 == 0 ? rng_below(&rng, 4) : 0));
    for (int w = 0; w < WALKS; w++) {
        struct index_walk walk = {0};
        /* Fills or empties at some speed, so that buckets split and join during the walk. */
        bool filling = w % 2 == 0;
        uint32_t speed = 1 + rng_below(&rng, 60);
        uint32_t kind = rng_below(&rng, 4);
        while (!index_walk_done(&walk)) {
            unsigned budget = 1 + rng_below(&rng, 4), before = budget;
            ref_t r = index_walk_next(&ix, &walk, &budget);
            REQUIRE(budget < before);
            if (r && !rng_one_in(&rng, 8)) {
                REQUIRE(++entry_at(r)->seen == 1);
                index_walk_past(&walk, entry_at(r)->hash, r);
            }
            if (rng_one_in(&rng, 2))
                index_walk_rest(&ix, &walk);
            for (uint32_t k = rng_below(&rng, speed); k > 0; k--) {
                if (rng_one_in(&rng, 5) != filling && count < COME) {
                    come[count++] = insert(some_hash(&rng, rng_one_in(&rng, 10) ? kind : 0));
                } else if (count > 0) {
                    uint32_t i = rng_below(&rng, count);
                    drop(come[i]);
                    come[i] = come[--count];
                }
            }
            fewest = ix.buckets < fewest ? ix.buckets : fewest;
            most = ix.buckets > most ? ix.buckets : most;
        }
        for (uint32_t i = 0; i < STAY; i++) {
            if (entry_at(stay[i])->seen != 1)
                ck_abort_msg("seen %u times in walk %d", entry_at(stay[i])->seen, w);
            entry_at(stay[i])->seen = 0;
        }
        for (uint32_t i = 0; i < count; i++)
            entry_at(come[i])->seen = 0;
        check_index();
    }
    ck_assert(fewest < 80 && most > 600); /* there were splits and joins */
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(first_size_is_what_was_asked_for),
    UNIT(grows_and_shrinks_one_bucket_at_a_time),
    UNIT(equal_hashes_are_all_found_and_any_can_go),
    UNIT(crowded_buckets_are_shared_out_when_split),
    UNIT(guesses_are_right_while_nothing_changes),
    UNIT(no_memory_at_the_start_leaves_nothing),
    UNIT(no_memory_for_a_further_bucket_changes_nothing),
    UNIT(no_memory_for_a_split_is_made_up_for_later),
    UNIT(a_split_needs_no_memory_whoever_takes_what_it_gives_back),
    UNIT(walks_see_all_once_at_every_size),
    UNIT(walks_meet_the_first_and_the_last_hash),
    UNIT(walks_see_what_stays_once_whatever_comes_and_goes),
};

UNIT_MAIN("engine/index", tests)
