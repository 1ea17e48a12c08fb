/*
 * jobs_state_test.c - an upgrade in place changes nothing: random worlds of jobs (jobs_world.h) are
 * saved and restored now and then, and go on as the model says. Damaged records are refused.
 */
#include "t/unit/jobs/jobs_world.h"
#include "t/unit/random.h"

#include <string.h>

enum {
#ifdef __SANITIZE_THREAD__
    MOST_STEPS = 10000,
#else
    MOST_STEPS = 40000,
#endif
    WORLD_STEPS = 1000, /* at most, in one world */
    WORLDS = 30,        /* of which records are damaged, */
    DAMAGED = 40,       /* each so often */
};

static struct rng *const rng = &world_random;

TEST(restored_jobs_go_on_as_before)
{
    world_random = rng_start("upgrades of jobs", random_seed());
    uint64_t steps = env_number("T_MODEL_STEPS", MOST_STEPS);
    while (model_step < steps) {
        struct world_config config = world_config_random();
        world_start(&config);
        for (uint32_t n = 1 + rng_below(rng, WORLD_STEPS); n > 0; n--) {
            world_step();
            if (rng_one_in(rng, 30))
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

/* Changes some bytes, mostly near each other: a length and its bytes, a number. */
static void damage(uint8_t *record, size_t len)
{
    size_t at = rng_below(rng, (uint32_t)len);
    for (unsigned n = 1 + rng_below(rng, 3); n > 0; n--) {
        record[at] = rng_one_in(rng, 3)   ? (uint8_t)rng_next(rng)
                     : rng_one_in(rng, 2) ? 0xff
                                          : (uint8_t)(record[at] ^ 1);
        at = rng_one_in(rng, 3) ? rng_below(rng, (uint32_t)len) : (at + rng_below(rng, 9)) % len;
    }
}

static void make_world(void)
{
    struct world_config config = world_config_random();
    config.jobs = config.jobs > 60 ? 60 : config.jobs;
    world_start(&config);
    for (uint32_t n = 100 + rng_below(rng, WORLD_STEPS); n > 0; n--)
        world_step();
}

TEST(damaged_records_do_no_harm)
{
    world_random = rng_start("damaged records", random_seed());
    unsigned refused = 0;
    for (unsigned n = 0; n < WORLDS; n++) {
        size_t len;
        make_world();
        uint8_t *record = world_save(&len);
        ck_assert(try_copy(record, len));
        for (unsigned i = 0; i < DAMAGED; i++) {
            uint8_t *copy = malloc(len);
            ck_assert(copy != NULL);
            memcpy(copy, record, len);
            damage(copy, len);
            refused += !try_copy(copy, len);
            free(copy);
        }
        free(record);
        world_end();
    }
    ck_assert(refused > 100);
}
END_TEST

TEST(cut_records_are_refused)
{
    world_random = rng_start("cut records", random_seed());
    for (unsigned n = 0; n < 3; n++) {
        size_t len;
        make_world();
        uint8_t *record = world_save(&len);
        for (size_t cut = 1; cut < len; cut++)
            REQUIRE(!try_copy(record, cut));
        free(record);
        world_end();
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(restored_jobs_go_on_as_before),
    UNIT(damaged_records_do_no_harm),
    UNIT(cut_records_are_refused),
};

UNIT_MAIN("jobs/jobs_state", tests)
