/* heap_test.c - a heap that keeps the best N of any number. */
#include "base/check.h"
#include "base/heap.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <string.h>

static int compare_numbers(const void *a, const void *b, void *arg)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    ++*(unsigned *)arg;
    return (x > y) - (x < y);
}

static unsigned compared;
static const struct heap heap = {sizeof(uint32_t), compare_numbers, &compared};

static void assert_heap(const uint32_t *items, size_t count)
{
    for (size_t i = 1; i < count; i++)
        REQUIRE(items[(i - 1) / 2] >= items[i]);
}

TEST(the_best_so_many_stay)
{
    struct rng rng = rng_start("heap", random_seed());
    for (size_t room = 1; room <= 40; room++) {
        uint32_t all[300], best[40];
        size_t count = 0, total = room + rng_below(&rng, (uint32_t)(ARRAY_SIZE(all) - room));
        for (size_t i = 0; i < total; i++) {
            all[i] = (uint32_t)rng_below(&rng, 100);
            if (count < room) {
                best[count++] = all[i];
                heap_rise(&heap, best, count);
            } else if (all[i] < best[0]) {
                best[0] = all[i];
                heap_sink(&heap, best, count, 0);
            }
            assert_heap(best, count);
        }
        qsort_r(all, total, sizeof all[0], compare_numbers, &compared);
        qsort_r(best, count, sizeof best[0], compare_numbers, &compared);
        REQUIRE(count == room && memcmp(all, best, room * sizeof all[0]) == 0);
    }
}

TEST(an_array_becomes_a_heap_from_its_end)
{
    struct rng rng = rng_start("heap", random_seed());
    uint32_t items[100];
    for (size_t i = 0; i < ARRAY_SIZE(items); i++)
        items[i] = (uint32_t)rng_below(&rng, 50);
    for (size_t i = ARRAY_SIZE(items) / 2; i-- > 0;)
        heap_sink(&heap, items, ARRAY_SIZE(items), i);
    assert_heap(items, ARRAY_SIZE(items));
}

TEST(it_takes_few_comparisons)
{
    static uint32_t items[1024];
    for (uint32_t i = 0; i < ARRAY_SIZE(items); i++)
        items[i] = (uint32_t)ARRAY_SIZE(items) - i;
    items[0] = 0;
    compared = 0;
    heap_sink(&heap, items, ARRAY_SIZE(items), 0);
    ck_assert_uint_le(compared, 2 * 10);
    assert_heap(items, ARRAY_SIZE(items));
}

UNIT_MAIN("base/heap")
