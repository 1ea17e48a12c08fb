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
    (void)arg;
    return (x > y) - (x < y);
}

static const struct heap heap = {sizeof(uint32_t), compare_numbers, NULL};

TEST(the_best_so_many_stay)
{
    struct rng rng = rng_start("heap", random_seed());
    for (size_t room = 1; room <= 40; room++) {
        uint32_t all[300], best[40] = {0};
        size_t count = 0, total = room + rng_below(&rng, (uint32_t)(ARRAY_SIZE(all) - room));
        for (size_t i = 0; i < total; i++) {
            all[i] = (uint32_t)rng_below(&rng, 100);
            uint32_t item = all[i], worst = best[0];
            bool full = count == room, better = full && item < worst;
            REQUIRE(heap_keep(&heap, best, &count, room, &item) == !full);
            REQUIRE(item == (better ? worst : all[i]));
            for (size_t k = 1; k < count; k++)
                REQUIRE(best[(k - 1) / 2] >= best[k]);
        }
        qsort_r(all, total, sizeof all[0], compare_numbers, NULL);
        qsort_r(best, count, sizeof best[0], compare_numbers, NULL);
        REQUIRE(count == room && memcmp(all, best, room * sizeof all[0]) == 0);
    }
}

UNIT_MAIN("base/heap")
