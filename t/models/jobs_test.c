/*
 * jobs_test.c - random steps of the jobs, in many worlds of different sizes; each is compared with
 * the model (jobs.h). T_SEED repeats a run, T_MODEL_STEPS sets its length; a failure names the
 * step.
 *
 * Switches: allocations are refused; memory is full; upgrades in place; a store, whose commits
 * fail; restarts. Damaged records of an upgrade are refused.
 */
#include "t/models/jobs_world.h"
#include "t/unit/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#if defined(__SANITIZE_THREAD__)
    MOST_STEPS = 30000, /* slow under TSan, and the test has only one thread */
#elif defined(__SANITIZE_ADDRESS__)
    MOST_STEPS = 60000,
#else
    MOST_STEPS = 120000,
#endif
    WORLD_STEPS = 3000, /* at most, in one world */
    WORLDS = 30,        /* of which records are damaged, */
    DAMAGED = 40,       /* each so often */
};

static struct rng *const rng = &world_random;

/* What is different from a plain world. */
struct plan {
    bool faulty, small, fails;
    unsigned upgrades, restarts; /* one in so many steps; 0: none */
    bool store;
};

static void run_world(const struct plan *plan)
{
    struct world_config config = world_config_random();
    config.faulty = plan->faulty;
    config.fails = plan->fails;
    config.store = plan->store;
    if (plan->store && config.jobs > 200)
        config.jobs = 200;
    if (plan->small)
        config.memory_limit = 3000 + rng_below(rng, model_step == 0 ? 1000 : 20000);
    if (plan->small && plan->store) { /* what ends jobs or hands them out always fits */
        config.jobs = 2500;
        config.batch = 150;
        config.rarely = 400;
        config.keyed = false;
        config.memory_limit = 60000 + rng_below(rng, 200000);
    }
    world_start(&config);
    uint32_t least = plan->small && model_step == 0 ? 1000 : 1; /* so that some are refused */
    for (uint32_t n = least + rng_below(rng, WORLD_STEPS); n > 0; n--) {
        world_step();
        if (plan->upgrades && rng_one_in(rng, plan->upgrades))
            world_upgrade();
        if (plan->restarts && rng_one_in(rng, plan->restarts))
            world_restart();
    }
    world_end();
}

static void run(const char *what, uint64_t steps, const struct plan *plan)
{
    world_random = rng_start(what, random_seed());
    steps = env_number("T_MODEL_STEPS", steps);
    model_step = 0;
    while (model_step < steps)
        run_world(plan);
}

TEST(the_jobs_and_their_model_agree)
{
    run("the jobs", MOST_STEPS, &(struct plan){.faulty = false});
}

TEST(they_agree_when_memory_is_refused)
{
    run("the jobs without memory", MOST_STEPS / 4, &(struct plan){.faulty = true});
    ck_assert_msg(world_faults() > 0, "link with fault_wraps");
    ck_assert(world_refusals() > 0);
}

TEST(they_agree_when_their_memory_is_full)
{
    run("the jobs with little memory", MOST_STEPS / 4,
        &(struct plan){.small = true, .upgrades = 200});
    ck_assert(world_refusals() > 0);
}

TEST(they_agree_after_upgrades)
{
    run("upgrades of jobs", MOST_STEPS / 10, &(struct plan){.upgrades = 30});
}

TEST(they_agree_after_restarts)
{
    run("restarts of jobs", MOST_STEPS / 10,
        &(struct plan){.store = true, .restarts = 50, .upgrades = 100});
}

TEST(they_agree_when_a_store_has_little_memory)
{
    run("jobs with a store and little memory", MOST_STEPS / 20,
        &(struct plan){.store = true, .small = true, .upgrades = 400});
    ck_assert(world_refusals() > 0);
}

TEST(they_agree_when_commits_fail)
{
    run("jobs with failing commits", MOST_STEPS / 10,
        &(struct plan){.store = true, .fails = true, .restarts = 200, .upgrades = 100});
    ck_assert(world_store_failures() > 0);
}

/* ---- records --------------------------------------------------------------------------------- */

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

static uint8_t *make_record(size_t *len_r)
{
    struct world_config config = world_config_random();
    config.jobs = config.jobs > 60 ? 60 : config.jobs;
    world_start(&config);
    for (uint32_t n = 100 + rng_below(rng, 1000); n > 0; n--)
        world_step();
    return world_save(len_r);
}

TEST(damaged_records_do_no_harm)
{
    world_random = rng_start("damaged records", random_seed());
    unsigned refused = 0;
    for (unsigned n = 0; n < WORLDS; n++) {
        size_t len;
        uint8_t *record = make_record(&len);
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

TEST(cut_records_are_refused)
{
    world_random = rng_start("cut records", random_seed());
    for (unsigned n = 0; n < 3; n++) {
        size_t len;
        uint8_t *record = make_record(&len);
        for (size_t cut = 1; cut < len; cut++)
            REQUIRE(!try_copy(record, cut));
        free(record);
        world_end();
    }
}

UNIT_MAIN("models/jobs")
