/* ring_test.c - linked lists of items that have their link inside, compared with an array. */
#include "base/ring.h"

#include "t/unit/random.h"

#include <string.h>

enum { ITEMS = 12, STEPS = 100000 };

static struct ring list, items[ITEMS], *expected[ITEMS];
static unsigned count;

static void insert(unsigned at, struct ring *item)
{
    memmove(&expected[at + 1], &expected[at], (count - at) * sizeof(expected[0]));
    expected[at] = item;
    count++;
}

static unsigned place_of(const struct ring *item)
{
    unsigned i = 0;
    while (expected[i] != item)
        REQUIRE(++i < count);
    return i;
}

static void check_all(void)
{
    const struct ring *item = ring_first(&list);
    for (unsigned i = 0; i < count; i++, item = ring_after(&list, item)) {
        REQUIRE(item == expected[i] && ring_has(item));
        REQUIRE(item->prev == (i > 0 ? expected[i - 1] : &list));
    }
    REQUIRE(item == NULL && ring_is_empty(&list) == (count == 0));
    REQUIRE(ring_last(&list) == (count > 0 ? expected[count - 1] : NULL));
}

TEST(list_is_what_an_array_is)
{
    struct rng rng = rng_start("rings", random_seed());
    ring_init(&list);
    for (unsigned n = 0; n < STEPS; n++) {
        struct ring *item = &items[rng_below(&rng, ITEMS)];
        if (ring_has(item)) {
            unsigned at = place_of(item);
            memmove(&expected[at], &expected[at + 1], (--count - at) * sizeof(expected[0]));
            ring_remove(item);
            REQUIRE(!ring_has(item) && !item->prev);
        } else if (count > 0 && rng_one_in(&rng, 2)) {
            unsigned at = rng_below(&rng, count);
            ring_add_after(expected[at], item);
            insert(at + 1, item);
        } else if (rng_one_in(&rng, 3)) {
            ring_add_after(&list, item);
            insert(0, item);
        } else {
            ring_add(&list, item);
            insert(count, item);
        }
        check_all();
    }
}

UNIT_MAIN("base/ring")
