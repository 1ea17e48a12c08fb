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

/* ---- entries --------------------------------------------------------------------------------- */

TEST(first_size_is_what_was_asked_for)
{
    static const size_t sizes[] = {0, 1, 5, 6, 7, 1535, 1536, 100000};
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        start_with((size_t)16 << 20, sizes[i]);
        ck_assert(ix.buckets == sizes[i] / FULL + 1);
        ck_assert(arena_used(&arena) ==
                  (size_t)((ix.buckets + SEGMENT - 1) / SEGMENT) * ARENA_PAGE);
        drop(insert(12345)); /* it never shrinks below that */
        ck_assert(ix.buckets == sizes[i] / FULL + 1);
        check_index();
        finish();
    }
}
END_TEST

/* Hashes of one kind: well spread, or with many equal ones and crowded buckets. */
static uint32_t some_hash(struct rng *rng, uint32_t kind)
{
    uint32_t hash = (uint32_t)rng_next(rng);
    return kind == 0 ? hash : kind == 1 ? hash & 0x8000003f : kind == 2 ? hash & 0xffff0000 : 3;
}

/* The entry is found; if it is in its hash's first bucket, before all others with its tag, it is
 * also the guess. */
static void check_found(ref_t ref)
{
    uint32_t hash = entry_at(ref)->hash;
    struct index_probe probe;
    const struct index_bucket *b = index_bucket_at(&ix, index_bucket_of(&ix, hash));
    REQUIRE(is_in(hash, ref) && index_prefetch(&ix, hash) == b);
    ref_t guess = index_guess(b, hash);
    if (index_first(&ix, hash, &probe) == ref && probe.bucket == b)
        REQUIRE(guess == ref);
    else if (!is_in(hash, guess))
        REQUIRE(guess == b->more);
}

/* Inserts while one of the next allocations is refused. Returns 0 if that left no room. */
static ref_t insert_without_memory(struct rng *rng, uint32_t hash)
{
    ref_t ref = new_entry(hash);
    size_t entries = ix.entries, overflowing = ix.overflowing;
    uint32_t buckets = ix.buckets;
    fault_countdown = 1 + rng_below(rng, 2);
    bool inserted = index_insert(&ix, hash, ref);
    fault_countdown = 0;
    if (inserted)
        return ref;
    REQUIRE(ix.entries == entries && ix.overflowing == overflowing && ix.buckets == buckets);
    REQUIRE(!is_in(hash, ref));
    slab_free(&entries_slab, ref);
    return 0;
}

TEST(entries_come_and_go)
{
    enum { MOST = 9000 };
    static ref_t ref[MOST];
    struct rng rng = rng_start("entries", random_seed());
    for (uint32_t kind = 0; kind < 4; kind++) {
        uint32_t most = kind == 3 ? 200 : MOST, count = 0, refused = 0;
        start();
        size_t used_at_start = arena_used(&arena);
        ck_assert(index_guess(index_prefetch(&ix, 5), 5) == 0);
        while (count < most) {
            uint32_t hash = some_hash(&rng, kind), buckets = ix.buckets;
            ref_t r = rng_one_in(&rng, 3) ? insert_without_memory(&rng, hash) : insert(hash);
            refused += !r;
            if (r)
                ref[count++] = r;
            REQUIRE(ix.buckets - buckets <= 1);
            if (count < 300 || count % 499 == 0)
                check_index();
        }
        ck_assert(kind != 1 || refused > 0);
        for (uint32_t i = 0; i < 200; i++) /* buckets that were refused are made up for */
            drop(insert(some_hash(&rng, kind)));
        ck_assert(ix.entries <= (size_t)ix.buckets * FULL);
        for (; count > 0; count--) {
            uint32_t i = rng_below(&rng, count), buckets = ix.buckets;
            uint32_t hash = entry_at(ref[i])->hash;
            check_found(ref[i]);
            drop(ref[i]);
            REQUIRE(buckets - ix.buckets <= 1 && !is_in(hash, ref[i]));
            ref[i] = ref[count - 1];
            if (count < 300 || count % 499 == 0)
                check_index();
        }
        index_trim(&ix, MOST); /* two that were too full to join have held up others */
        ck_assert(ix.buckets == 1 && ix.entries == 0 && ix.overflowing == 0);
        /* One page of buckets remains, and the pages that the slabs of buckets and entries keep. */
        ck_assert(arena_used(&arena) <= used_at_start + (size_t)2 * ARENA_PAGE);
        finish();
    }
}
END_TEST

/* ---- no memory ------------------------------------------------------------------------------- */

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

/* ---- walking --------------------------------------------------------------------------------- */

TEST(walks_see_what_stays_once_whatever_comes_and_goes)
{
    enum { STAY = 300, COME = 6000, WALKS = 200 };
    static ref_t stay[STAY], come[COME];
    struct rng rng = rng_start("walks in motion", random_seed());
    start();
    uint32_t count = 0, fewest = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < STAY; i++)
        stay[i] = insert(i < 4 ? i / 2 * UINT32_MAX /* the first and the last, twice */
                               : some_hash(&rng, i % 8 == 0 ? rng_below(&rng, 4) : 0));
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
            if (r && rng_one_in(&rng, 8))
                index_walk_back(&walk);
            else if (r)
                REQUIRE(++entry_at(r)->seen == 1);
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

UNIT_MAIN("engine/index")
