/*
 * sketch_test.c - the list of the heaviest names, compared with the exact weights of all names:
 * both bounds hold at every step, for any order of additions.
 */
#include "engine/sketch.h"

#include "t/unit/random.h"

#include <math.h>
#include <string.h>

enum { MOST_NAMES = 6000 };

static struct sketch sketch;
static double exact[MOST_NAMES], total;
static unsigned names; /* names so far: 0 to names - 1 */

/* A name made of a number. The hash resembles a real one, but is the same in each run. */
static struct sketch_key key_of(const uint32_t *number)
{
    struct rng rng = {.state = *number};
    return (struct sketch_key){.hash = rng_next(&rng), .data = number, .len = sizeof(*number)};
}

static uint32_t number_of(unsigned i)
{
    uint32_t number;
    REQUIRE(sketch.name[i].len == sizeof(number));
    memcpy(&number, sketch.name[i].kept, sizeof(number));
    return number;
}

static void add(uint32_t number, double amount)
{
    struct sketch_key key = key_of(&number);
    REQUIRE(number < MOST_NAMES);
    if (names <= number)
        names = number + 1;
    sketch_add(&sketch, &key, amount);
    exact[number] += amount;
    total += amount;
}

/* Checks both bounds for every name; rounding may add a small part of the total. */
static void check_bounds(void)
{
    static bool listed[MOST_NAMES];
    double slack = total * 1e-12, sum = 0, bound = sketch_bound(&sketch);
    sketch_check(&sketch);
    memset(listed, 0, sizeof(listed));
    for (unsigned i = 0; i < sketch.count; i++) {
        uint32_t number = number_of(i);
        struct sketch_key key = key_of(&number);
        REQUIRE(sketch_find(&sketch, &key) == i && !listed[number]);
        listed[number] = true;
        REQUIRE(sketch.weight[i] >= exact[number] - slack);
        REQUIRE(sketch.weight[i] - sketch.error[i] <= exact[number] + slack);
        REQUIRE(sketch.error[i] <= (names <= SKETCH_ENTRIES ? 0 : total / SKETCH_ENTRIES + slack));
        sum += sketch.weight[i];
    }
    REQUIRE(fabs(sum - total) <= slack);
    REQUIRE(bound <= (sketch.count < SKETCH_ENTRIES ? 0 : total / SKETCH_ENTRIES + slack));
    for (unsigned n = 0; n < names; n++)
        REQUIRE(listed[n] || exact[n] <= bound + slack);
}

/* Decay as in the table: old weights stay, new ones get heavier. */
TEST(bounds_hold_while_weights_decay)
{
    struct rng rng = rng_start("decay", random_seed());
    double scale = 1;
    for (unsigned step = 0; step < 40000; step++) {
        add(rng_below(&rng, rng_one_in(&rng, 3) ? 10 : 500), scale * rng_below(&rng, 4));
        scale *= 1.01;
        if (rng_one_in(&rng, 1000)) {
            double factor = ldexp(1, -(int)rng_below(&rng, 30));
            scale *= factor;
            total *= factor;
            sketch_scale(&sketch, factor);
            for (unsigned n = 0; n < names; n++)
                exact[n] *= factor;
        }
        check_bounds();
    }
}
END_TEST

TEST(what_decays_to_nothing_is_forgotten)
{
    for (uint32_t n = 0; n < SKETCH_ENTRIES; n++)
        add(n, n % 2 ? 1 : 1e-200);
    ck_assert(sketch.count == SKETCH_ENTRIES);
    sketch_scale(&sketch, 1e-200);
    ck_assert(sketch.count == SKETCH_ENTRIES / 2);
    for (unsigned i = 0; i < sketch.count; i++)
        ck_assert(number_of(i) % 2 == 1 && sketch.weight[i] > 0);
    sketch_check(&sketch);
    ck_assert(sketch_bound(&sketch) <= 0);
    sketch_scale(&sketch, 0);
    ck_assert(sketch.count == 0);
    sketch_scale(&sketch, 1);
    ck_assert(sketch.count == 0);
}
END_TEST

static void raise_to(uint32_t number, double weight)
{
    struct sketch_key key = key_of(&number);
    sketch_raise(&sketch, &key, weight);
    if (exact[number] < weight)
        exact[number] = weight;
    if (names <= number)
        names = number + 1;
}

/* Checks that the list has every name heavier than its lightest, with the highest weight. */
static void check_exact(void)
{
    sketch_check(&sketch);
    unsigned occurred = 0, heavier = 0;
    double bound = sketch_bound(&sketch);
    for (unsigned n = 0; n < names; n++) {
        occurred += exact[n] > 0;
        heavier += exact[n] > bound;
        uint32_t number = n;
        struct sketch_key key = key_of(&number);
        unsigned i = sketch_find(&sketch, &key);
        REQUIRE(i < sketch.count || exact[n] <= bound);
        REQUIRE(i == sketch.count ||
                (fabs(sketch.weight[i] - exact[n]) <= 0 && sketch.error[i] <= 0));
        bool has = exact[n] > 0 && sketch_has(&sketch, key.hash, key.len, exact[n]);
        REQUIRE(has == (exact[n] > 0 && i < sketch.count));
        REQUIRE(!sketch_has(&sketch, key.hash, key.len, exact[n] + 1));
        REQUIRE(!sketch_has(&sketch, key.hash, key.len + 1, 0));
    }
    REQUIRE(sketch.count == (occurred < SKETCH_ENTRIES ? occurred : SKETCH_ENTRIES));
    REQUIRE(heavier <= SKETCH_ENTRIES);
}

TEST(the_highest_are_exact)
{
    struct rng rng = rng_start("the highest", random_seed());
    for (unsigned round = 0; round < 20; round++) {
        unsigned most = 1 + rng_below(&rng, 60), step = 0;
        for (; step < 1000; step++) {
            raise_to(rng_below(&rng, most), 1 + rng_below(&rng, 1 + step));
            check_exact();
        }
        sketch_clear(&sketch);
        memset(exact, 0, sizeof(exact));
        check_exact();
    }
}
END_TEST

TEST(a_name_is_its_hash_its_length_and_its_first_bytes)
{
    static unsigned char bytes[2][70000];
    memset(bytes, 'x', sizeof(bytes));
    struct sketch_key a = {.hash = 5, .data = bytes[0], .len = 65535}, b = a;
    sketch_add(&sketch, &a, 1);
    b.data = bytes[1];
    bytes[1][SKETCH_NAME_MAX] = 'y'; /* only kept bytes are compared, and the hash */
    ck_assert(sketch_find(&sketch, &b) == 0);
    b.hash = 6;
    ck_assert(sketch_find(&sketch, &b) == 1);
    sketch_add(&sketch, &b, 2);
    b.len = 65534;
    ck_assert(sketch_find(&sketch, &b) == 2);
    sketch_add(&sketch, &b, 3);
    bytes[1][SKETCH_NAME_MAX - 1] = 'y'; /* a kept byte differs */
    ck_assert(sketch_find(&sketch, &b) == 3);
    b.len = 1; /* bytes behind a short name do not count */
    sketch_add(&sketch, &b, 4);
    b.data = bytes[0];
    ck_assert(sketch_find(&sketch, &b) == 3);
    b.data = "y";
    ck_assert(sketch_find(&sketch, &b) == 4);
    sketch_check(&sketch);
}
END_TEST

UNIT_MAIN("engine/sketch")
