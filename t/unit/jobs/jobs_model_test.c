/*
 * jobs_model_test.c - random steps of the jobs, in many worlds of different sizes; each is compared
 * with the model (jobs_model.h). T_SEED repeats a run, T_MODEL_STEPS sets its length; a failure
 * names the step.
 */
#include "t/unit/jobs/jobs_world.h"
#include "t/unit/random.h"

enum {
#if defined(__SANITIZE_THREAD__)
    MOST_STEPS = 60000, /* slow under TSan, and the test has only one thread */
#elif defined(__SANITIZE_ADDRESS__)
    MOST_STEPS = 120000,
#else
    MOST_STEPS = 400000,
#endif
    WORLD_STEPS = 3000, /* at most, in one world */
};

static void run(uint64_t steps, bool faulty, bool small)
{
    steps = env_number("T_MODEL_STEPS", steps);
    model_step = 0;
    while (model_step < steps) {
        struct world_config config = world_config_random();
        config.faulty = faulty;
        if (small)
            config.memory_limit = 3000 + rng_below(&world_random, 20000);
        world_start(&config);
        for (uint32_t n = 1 + rng_below(&world_random, WORLD_STEPS); n > 0; n--)
            world_step();
        world_end();
    }
}

TEST(the_jobs_and_their_model_agree)
{
    world_random = rng_start("the jobs", random_seed());
    run(MOST_STEPS, false, false);
    ck_assert(world_refusals() == 0);
}
END_TEST

TEST(the_jobs_and_their_model_agree_when_memory_is_refused)
{
    world_random = rng_start("the jobs without memory", random_seed());
    run(MOST_STEPS / 4, true, false);
    ck_assert_msg(world_faults() > 0, "link with fault_wraps");
    ck_assert(world_refusals() > 0);
}
END_TEST

TEST(the_jobs_and_their_model_agree_when_their_memory_is_full)
{
    world_random = rng_start("the jobs with little memory", random_seed());
    run(MOST_STEPS / 4, false, true);
    ck_assert(world_refusals() > 0);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_jobs_and_their_model_agree),
    UNIT(the_jobs_and_their_model_agree_when_memory_is_refused),
    UNIT(the_jobs_and_their_model_agree_when_their_memory_is_full),
};

UNIT_MAIN("jobs/jobs_model", tests)
