/*
 * arena_test.c - pages and slots: the limit holds to the byte, nothing overlaps, all comes back.
 */
#include "engine/arena.h"

#include "t/unit/engine/faults.h"
#include "t/unit/random.h"

#include <string.h>

#define PAGES(n) ((size_t)(n)*ARENA_PAGE)

static struct arena arena;
static struct slab slab;

static void start(size_t limit)
{
    ck_assert(arena_init(&arena, limit));
    slab_init(&slab, &arena, 5);
}

static bool all_bytes_are(const void *at, size_t len, unsigned char byte)
{
    const unsigned char *b = at;
    return len == 0 || (b[0] == byte && memcmp(b, b + 1, len - 1) == 0);
}

/* ---- the region ------------------------------------------------------------------------------ */

TEST(the_largest_region)
{
    start(ARENA_LIMIT_MAX);
    ck_assert(arena_used(&arena) == 0);
    uint32_t page = arena_page_take(&arena);
    ck_assert(page != 0);
    ck_assert(arena_used(&arena) == ARENA_PAGE);
    /* The region's last granule still has a ref. */
    const unsigned char *last = arena.base + ARENA_LIMIT_MAX + ARENA_PAGE - ARENA_GRANULE;
    ck_assert(arena_ref(&arena, last) == UINT32_MAX);
    ck_assert(arena_at(&arena, UINT32_MAX) == last);
    arena_page_give(&arena, page);
    arena_destroy(&arena);
}
END_TEST

TEST(a_wider_region_has_what_was_there_and_takes_no_notice_of_the_limit)
{
    start(PAGES(3));
    uint32_t first = arena_page_take(&arena);
    memset(arena_page_at(&arena, first), 7, ARENA_PAGE);
    fail_mmap = true;
    ck_assert(!arena_widen(&arena, PAGES(200)));
    fail_mmap = false;
    fail_mprotect = true;
    ck_assert(!arena_widen(&arena, PAGES(200)));
    fail_mprotect = false;
    ck_assert(arena_widen(&arena, PAGES(200)));
    ck_assert(all_bytes_are(arena_page_at(&arena, first), ARENA_PAGE, 7));
    uint32_t pages[199];
    for (unsigned i = 0; i < ARRAY_SIZE(pages); i++) {
        pages[i] = arena_page_take(&arena);
        ck_assert(pages[i] != 0);
        ck_assert(all_bytes_are(arena_page_at(&arena, pages[i]), ARENA_PAGE, 0));
    }
    ck_assert(arena_page_take(&arena) == 0); /* no more addresses */
    ck_assert(arena_used(&arena) == PAGES(200));
    ck_assert(arena_charge(&arena, 1));
    arena_uncharge(&arena, 1);
    arena_limit(&arena);
    ck_assert(!arena_charge(&arena, 1));
    for (unsigned i = 0; i < 197; i++) {
        ck_assert(arena_page_take(&arena) == 0);
        arena_page_give(&arena, pages[i]);
    }
    ck_assert(arena_page_take(&arena) == 0);
    arena_page_give(&arena, pages[197]);
    ck_assert(arena_page_take(&arena) != 0);
    arena_destroy(&arena);
}
END_TEST

TEST(pages_that_were_expected_are_like_others)
{
    static const size_t expected[] = {PAGES(1), PAGES(1500), PAGES(9000)};
    for (unsigned i = 0; i < 2 * ARRAY_SIZE(expected); i++) {
        start(PAGES(2000));
        uint32_t pages = 2000;
        ck_assert(arena_page_take(&arena) != 0);
        fail_mprotect = i % 2;
        arena_expect(&arena, expected[i / 2]);
        fail_mprotect = false;
        ck_assert(arena_used(&arena) == PAGES(1));
        for (uint32_t page; (page = arena_page_take(&arena)) != 0; pages--) {
            ck_assert(all_bytes_are(arena_page_at(&arena, page), ARENA_PAGE, 0));
            memset(arena_page_at(&arena, page), 7, ARENA_PAGE);
        }
        ck_assert_uint_eq(pages, 1);
        arena_destroy(&arena);
    }
}
END_TEST

/* ---- pages ----------------------------------------------------------------------------------- */

TEST(pages_up_to_the_limit_and_no_more)
{
    static const size_t limits[] = {
        1,         ARENA_PAGE - 1, ARENA_PAGE,    ARENA_PAGE + 1, PAGES(2),
        PAGES(63), PAGES(64),      PAGES(65) + 1, PAGES(128),     PAGES(129) + ARENA_PAGE - 1,
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        enum { MOST = 200 };
        uint32_t page[MOST];
        uint32_t count = 0;
        start(limits[i]);
        while ((page[count] = arena_page_take(&arena)) != 0) {
            unsigned char *at = arena_page_at(&arena, page[count]);
            ck_assert((uintptr_t)at % ARENA_PAGE == 0);
            ck_assert(all_bytes_are(at, ARENA_PAGE, 0));
            memset(at, (int)(count + 1), ARENA_PAGE);
            count++;
            ck_assert(count < MOST);
            ck_assert(arena_used(&arena) == PAGES(count));
        }
        ck_assert(count == limits[i] / ARENA_PAGE);
        ck_assert(arena_used(&arena) == PAGES(count));
        for (uint32_t p = 0; p < count; p++) {
            ck_assert(
                all_bytes_are(arena_page_at(&arena, page[p]), ARENA_PAGE, (unsigned char)(p + 1)));
        }
        for (uint32_t p = 0; p < count; p++)
            arena_page_give(&arena, page[p]);
        ck_assert(arena_used(&arena) == 0);
        arena_destroy(&arena);
    }
}
END_TEST

TEST(pages_are_clean_even_if_the_kernel_keeps_them)
{
    fail_madvise = true;
    start(PAGES(1));
    for (int round = 0; round < 3; round++) {
        uint32_t page = arena_page_take(&arena);
        ck_assert(page != 0);
        ck_assert(all_bytes_are(arena_page_at(&arena, page), ARENA_PAGE, 0));
        memset(arena_page_at(&arena, page), 0xab, ARENA_PAGE);
        arena_page_give(&arena, page);
    }
    arena_destroy(&arena);
}
END_TEST

TEST(a_kernel_without_memory_is_a_limit_for_a_while)
{
    start(PAGES(200));
    fail_mprotect = true;
    ck_assert_msg(arena_page_take(&arena) == 0, "link with fault_wraps");
    ck_assert(arena_used(&arena) == 0);
    fail_mprotect = false;
    for (uint32_t i = 1; i < 64; i++) /* page 0 is never used */
        ck_assert(arena_page_take(&arena) == i);
    fail_mprotect = true;
    ck_assert(arena_page_take(&arena) == 0);
    ck_assert(arena_page_take(&arena) == 0);
    ck_assert(arena_used(&arena) == PAGES(63));
    fail_mprotect = false;
    for (uint32_t i = 64; i <= 200; i++)
        ck_assert(arena_page_take(&arena) == i);
    ck_assert(arena_page_take(&arena) == 0);
    arena_destroy(&arena);
}
END_TEST

TEST(charges_and_pages_share_the_limit)
{
    start(PAGES(2) + 100);
    ck_assert(arena_charge(&arena, 100));
    ck_assert(!arena_charge(&arena, PAGES(2) + 1));
    ck_assert(!arena_charge(&arena, SIZE_MAX));
    ck_assert(arena_used(&arena) == 100);
    uint32_t page = arena_page_take(&arena);
    ck_assert(page != 0);
    ck_assert(arena_charge(&arena, 1));
    ck_assert(arena_page_take(&arena) == 0);
    ck_assert(!arena_charge(&arena, ARENA_PAGE));
    ck_assert(arena_charge(&arena, ARENA_PAGE - 1));
    ck_assert(!arena_charge(&arena, 1));
    ck_assert(arena_charge(&arena, 0));
    ck_assert(arena_used(&arena) == PAGES(2) + 100);
    arena_uncharge(&arena, ARENA_PAGE);
    ck_assert(arena_page_take(&arena) != 0);
    ck_assert(arena_used(&arena) == PAGES(2) + 100);
    arena_destroy(&arena);
}
END_TEST

/* ---- slots ----------------------------------------------------------------------------------- */

TEST(a_full_arena_refuses_and_goes_on)
{
    static const size_t sizes[] = {1, 8, 9, 64, 100, 256, 257, 320, 321, 2048};
    static ref_t refs[PAGES(5) / 8];
    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        size_t count = 0;
        start(PAGES(5));
        while ((refs[count] = slab_alloc(&slab, sizes[s])) != 0) {
            memset(arena_at(&arena, refs[count]), (int)(count & 0xff), sizes[s]);
            count++;
        }
        ck_assert(arena_used(&arena) == PAGES(5));
        size_t slot = sizes[s] <= 256 ? (sizes[s] + 7) / 8 * 8 : (sizes[s] + 63) / 64 * 64;
        ck_assert_uint_eq(count, 5 * ((ARENA_PAGE - 64) / slot)); /* behind a header */
        ck_assert(slab_alloc(&slab, sizes[s]) == 0);
        /* After any slot is freed, another of its size is available. */
        for (size_t i = 0; i < count; i += 1 + count / 50) {
            slab_free(&slab, refs[i]);
            refs[i] = slab_alloc(&slab, sizes[s]);
            ck_assert(refs[i] != 0);
            memset(arena_at(&arena, refs[i]), (int)(i & 0xff), sizes[s]);
            ck_assert(slab_alloc(&slab, sizes[s]) == 0);
        }
        for (size_t i = 0; i < count; i++) {
            ck_assert(all_bytes_are(arena_at(&arena, refs[i]), sizes[s], (unsigned char)i));
            slab_free(&slab, refs[i]);
        }
        ck_assert(arena_used(&arena) == ARENA_PAGE);
        arena_destroy(&arena);
    }
}
END_TEST

TEST(without_a_page_a_larger_slot_does)
{
    start(PAGES(1));
    ref_t ref[ARENA_PAGE / 80 + 1], small[2];
    size_t count = 0;
    while ((ref[count] = slab_alloc(&slab, 80)) != 0)
        count++;
    ck_assert(!slab_alloc(&slab, 8) && !slab_alloc(&slab, 88));
    slab_free(&slab, ref[--count]);
    slab_free(&slab, ref[--count]);
    ck_assert(!slab_alloc(&slab, 88));
    for (size_t i = 0; i < 2; i++) {
        small[i] = slab_alloc(&slab, 72 - i);
        ck_assert(small[i] == ref[count + i] || small[i] == ref[count + 1 - i]);
    }
    ck_assert(!slab_alloc(&slab, 72));
    slab_free(&slab, small[0]);
    ck_assert(slab_alloc(&slab, 80) == small[0]); /* it is a slot of the larger size again */
    slab_free(&slab, small[0]);
    slab_free(&slab, small[1]);
    while (count > 0)
        slab_free(&slab, ref[--count]);
    slab_trim(&slab);
    ck_assert(arena_used(&arena) == 0);
    arena_destroy(&arena);
}
END_TEST

TEST(one_that_comes_and_goes_takes_no_page_along)
{
    start(PAGES(10));
    slab_free(&slab, slab_alloc(&slab, 80));
    size_t used = arena_used(&arena);
    uint32_t begun = arena.pages_begun;
    for (int i = 0; i < 1000; i++)
        slab_free(&slab, slab_alloc(&slab, 80));
    ck_assert(arena_used(&arena) == used);
    ck_assert(arena.pages_begun == begun);
    /* The same at the edge of a page. */
    while (arena_used(&arena) == used)
        ck_assert(slab_alloc(&slab, 80) != 0);
    used = arena_used(&arena);
    for (int i = 0; i < 1000; i++) {
        slab_free(&slab, slab_alloc(&slab, 80));
        ck_assert(arena_used(&arena) == used);
    }
    arena_destroy(&arena);
}
END_TEST

TEST(random_slots_keep_what_they_hold)
{
    enum { MOST = 4000, STEPS = 200000 };
    struct held {
        ref_t ref;
        uint16_t size;
        unsigned char byte;
    };
    static struct held held[MOST];
    struct rng rng = rng_start("random slots", random_seed());
    start(PAGES(95));
    unsigned count = 0;
    bool refused = false;
    for (int step = 0; step < STEPS; step++) {
        /* Fills and empties alternately, to reach the limit and the last slot. */
        bool filling = step / 10000 % 2 == 0;
        if (count < MOST && rng_one_in(&rng, 4) != filling) {
            uint32_t kind = rng_below(&rng, 4);
            size_t size = 1 + (kind ? rng_below(&rng, 100) : rng_below(&rng, SLAB_MAX));
            ref_t ref = slab_alloc(&slab, size);
            if (ref) {
                held[count] = (struct held){ref, (uint16_t)size, (unsigned char)step};
                memset(arena_at(&arena, ref), held[count].byte, size);
                count++;
            } else {
                refused = true;
            }
        } else if (count > 0) {
            uint32_t i = rng_below(&rng, count);
            REQUIRE(all_bytes_are(arena_at(&arena, held[i].ref), held[i].size, held[i].byte));
            slab_free(&slab, held[i].ref);
            held[i] = held[--count];
        }
        REQUIRE(arena_used(&arena) <= PAGES(95));
    }
    ck_assert(refused);
    while (count > 0) {
        count--;
        REQUIRE(
            all_bytes_are(arena_at(&arena, held[count].ref), held[count].size, held[count].byte));
        slab_free(&slab, held[count].ref);
    }
    ck_assert(arena_used(&arena) <= PAGES(SLAB_CLASSES));
    arena_destroy(&arena);
}
END_TEST

UNIT_MAIN("engine/arena")
