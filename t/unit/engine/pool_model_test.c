/*
 * pool_model_test.c - a million random steps of the pools, in many worlds of different sizes; each
 * step is compared with the model (pool_model.h). T_SEED repeats a run, T_MODEL_STEPS sets its
 * length; a failure names the step.
 */
#include "t/unit/engine/pool_world.h"
#include "t/unit/random.h"

enum {
#ifdef __SANITIZE_THREAD__
    MOST_STEPS = 100000, /* slow under TSan, and the test has only one thread */
#elif defined(__SANITIZE_ADDRESS__)
    MOST_STEPS = 300000,
#else
    MOST_STEPS = 1000000,
#endif
    WORLD_STEPS = 3000, /* at most, in one world */
};

static void run(uint64_t steps, bool faulty)
{
    steps = env_number("T_MODEL_STEPS", steps);
    model_step = 0;
    while (model_step < steps) {
        struct world_config config = world_random();
        config.faulty = faulty;
        world_start(&config);
        for (uint32_t n = 1 + rng_below(&model_random, WORLD_STEPS); n > 0; n--)
            world_step();
        world_end();
    }
}

TEST(the_pools_and_their_model_agree)
{
    model_random = rng_start("the pools", random_seed());
    run(MOST_STEPS, false);
}
END_TEST

TEST(the_pools_and_their_model_agree_when_memory_is_refused)
{
    model_random = rng_start("the pools without memory", random_seed());
    run(MOST_STEPS / 4, true);
    ck_assert_msg(world_faults() > 0, "link with fault_wraps");
}
END_TEST

/* When time leaps, members and starts are due at once. A start that is late already stays late when
 * the same call raises what is wanted of its supplier. */
TEST(a_late_start_stays_late_when_more_is_wanted_in_the_same_call)
{
    model_random = rng_start("a late start", UINT64_C(10130718932732809275));
    run(53000, false);
}
END_TEST

/* When a wait for several members is overtaken too often, it closes them to others while there are
 * as many as it asks for. */
TEST(a_member_whose_lifetime_is_over_no_longer_counts_for_a_wait_that_closes_members)
{
    model_random = rng_start("overdue members", random_seed());
    world_overdue(false);
    world_overdue(true);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_pools_and_their_model_agree),
    UNIT(the_pools_and_their_model_agree_when_memory_is_refused),
    UNIT(a_late_start_stays_late_when_more_is_wanted_in_the_same_call),
    UNIT(a_member_whose_lifetime_is_over_no_longer_counts_for_a_wait_that_closes_members),
};

UNIT_MAIN("engine/pool_model", tests)
