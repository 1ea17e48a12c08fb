/*
 * pool_state_test.c - an upgrade changes nothing: random worlds of pools (pool_world.h) are saved
 * and restored now and then, and go on as the model says.
 */
#include "t/unit/engine/pool_world.h"
#include "t/unit/random.h"

#include <string.h>

enum {
#ifdef __SANITIZE_THREAD__
    MOST_STEPS = 4000,
#else
    MOST_STEPS = 8000,
#endif
    WORLD_STEPS = 1000, /* at most, in one world */
    WORLDS = 6,         /* of which records are damaged, */
    DAMAGED = 60,       /* each so often */
};

TEST(restored_pools_go_on_as_before)
{
    model_random = rng_start("upgrades of pools", random_seed());
    uint64_t steps = env_number("T_MODEL_STEPS", MOST_STEPS);
    while (model_step < steps) {
        struct world_config config = world_random();
        world_start(&config);
        for (uint32_t n = 1 + rng_below(&model_random, WORLD_STEPS); n > 0; n--) {
            world_step();
            if (rng_one_in(&model_random, 40))
                world_upgrade();
        }
        world_end();
    }
}
END_TEST

/* Tries a copy of a record, so that a sanitizer sees what is read beyond its end. */
static bool try_copy(const uint8_t *record, size_t len)
{
    const char *why = NULL;
    uint8_t *copy = malloc(len + !len);
    ck_assert(copy != NULL);
    memcpy(copy, record, len);
    bool restored = world_try(copy, len, &why);
    REQUIRE(restored || why != NULL);
    free(copy);
    return restored;
}

static struct rng *const rng = &model_random;

/* Changes some bytes, mostly near each other: a length and its bytes, a number. */
static void damage(uint8_t *record, size_t len)
{
    size_t at = rng_below(rng, (uint32_t)len);
    for (unsigned n = 1 + rng_below(rng, 3); n > 0; n--) {
        record[at] = rng_one_in(rng, 2) ? (uint8_t)rng_next(rng) : (uint8_t)(record[at] ^ 1);
        at = rng_one_in(rng, 3) ? rng_below(rng, (uint32_t)len) : (at + rng_below(rng, 9)) % len;
    }
}

/* A world that has lived for some time. */
static void live(struct world_config config)
{
    config.full_sums = false;
    world_start(&config);
    for (uint32_t n = 100 + rng_below(rng, WORLD_STEPS); n > 0; n--)
        world_step();
}

TEST(damaged_records_are_refused_or_harmless)
{
    unsigned refused = 0, restored = 0;
    uint64_t damaged = env_number("T_DAMAGED", DAMAGED);
    model_random = rng_start("damaged records of pools", random_seed());
    for (unsigned worlds = 0; worlds < WORLDS; worlds++) {
        size_t len, at;
        live(world_random());
        uint8_t *record = world_save(&len, &at);
        uint8_t *other = malloc(len);
        ck_assert(other != NULL && try_copy(record, len));
        for (uint64_t n = 0; n < damaged; n++) {
            memcpy(other, record, len);
            damage(other + at, len - at);
            bool ok = try_copy(other, len);
            restored += ok;
            refused += !ok;
        }
        free(other);
        free(record);
        world_end();
    }
    ck_assert(refused > 10 && restored > 10);
}
END_TEST

TEST(cut_records_are_refused)
{
    struct world_config config = {.pools = 2, .members = 4, .clients = 4, .checks = 1};
    size_t len, at;
    model_random = rng_start("cut records of pools", random_seed());
    live(config);
    uint8_t *record = world_save(&len, &at);
    for (; at < len; at++)
        REQUIRE(!try_copy(record, at));
    free(record);
    world_end();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(restored_pools_go_on_as_before),
    UNIT(damaged_records_are_refused_or_harmless),
    UNIT(cut_records_are_refused),
};

UNIT_MAIN("engine/pool_state", tests)
