/*
 * commit_model_test.c - random clients, failures and ends of the process over SQLite whose calls
 * fail, beside the model of commit_world.h.
 *
 * T_SEED repeats a run; T_COMMIT_RUNS says how many there are; of T_COMMIT_STRIDE calls, one fails
 * in turn.
 */
#include "t/unit/jobs/commit_world.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/random.h"

static struct fake_disk *disk;

static struct world_plan plan_on(struct fake_disk *on)
{
    disk = on;
    REQUIRE(disk != NULL);
    return (struct world_plan){.kind = &fake_store, .path = fake_disk_path(disk), .steps = 600};
}

static void mend(void)
{
    for (unsigned n = 0; n <= FAKE_ANY; n++)
        fake_disk_fail(disk, (enum fake_call)n, 1, 0, JOB_STORE_OK);
    fake_disk_fill(disk, false);
}

static void spoil(struct rng *rng)
{
    static const enum job_store_status ways[] = {JOB_STORE_FULL, JOB_STORE_IO, JOB_STORE_CORRUPT,
                                                 JOB_STORE_NO_MEMORY};
    if (rng_one_in(rng, 4)) {
        fake_disk_fill(disk, true);
        return;
    }
    enum fake_call call =
        rng_one_in(rng, 2) ? FAKE_COMMIT : (enum fake_call)rng_below(rng, FAKE_ANY);
    if (call == FAKE_LOAD || call == FAKE_READ_BODY)
        call = FAKE_ANY;
    fake_disk_fail(disk, call, 1 + rng_below(rng, 4), 1 + rng_below(rng, 3),
                   ways[rng_below(rng, 4)]);
}

static void runs(const char *what, unsigned count, void (*run)(struct rng *rng))
{
    uint64_t first = random_seed() % 1000000000;
    for (unsigned n = 0; n < (unsigned)env_number("T_COMMIT_RUNS", count); n++) {
        struct rng rng = rng_start(what, first + n);
        run(&rng);
    }
}

static void run_well(struct rng *rng)
{
    struct world_plan plan = plan_on(fake_disk_new());
    world_run(&plan, rng);
    fake_disk_free(&disk);
}

TEST(promises_hold)
{
    runs("jobs over a store", 10, run_well);
}

static void run_failing(struct rng *rng)
{
    struct world_plan plan = plan_on(fake_disk_new());
    plan.spoil = spoil;
    plan.mend = mend;
    world_run(&plan, rng);
    fake_disk_free(&disk);
}

TEST(promises_hold_when_the_store_fails)
{
    runs("jobs over a failing store", 20, run_failing);
}

static void run_crashing(struct rng *rng)
{
    struct world_plan plan = plan_on(fake_disk_new());
    plan.crash_one_in = 40;
    world_run(&plan, rng);
    fake_disk_free(&disk);
}

TEST(promises_hold_when_the_process_ends)
{
    runs("jobs over a store, with restarts", 20, run_crashing);
}

static void run_worst(struct rng *rng)
{
    struct world_plan plan = plan_on(fake_disk_new());
    plan.spoil = spoil;
    plan.mend = mend;
    plan.crash_one_in = 60;
    plan.memory = rng_one_in(rng, 2) ? 60000 : 0;
    world_run(&plan, rng);
    fake_disk_free(&disk);
}

TEST(promises_hold_when_all_of_that_happens)
{
    runs("jobs over a failing store, with restarts", 20, run_worst);
}

static void run_small(struct rng *rng)
{
    struct world_plan plan = plan_on(fake_disk_new());
    plan.memory = 40000;
    world_run(&plan, rng);
    fake_disk_free(&disk);
}

TEST(promises_hold_with_little_memory)
{
    runs("jobs over a store with little memory", 10, run_small);
}

/* Each call fails in turn. */
TEST(promises_hold_whichever_call_fails)
{
    uint64_t seed = rng_start("calls that fail in turn", random_seed() % 1000000000).state;
    unsigned stride = (unsigned)env_number("T_COMMIT_STRIDE", 7);
    for (unsigned nth = 5 + (unsigned)(seed % stride); nth < 300; nth += stride) {
        struct rng rng = {.state = seed};
        struct world_plan plan = plan_on(fake_disk_new());
        plan.steps = 150;
        plan.mend = mend;
        fake_disk_fail(disk, FAKE_ANY, nth + 8, 1, JOB_STORE_IO);
        world_run(&plan, &rng);
        fake_disk_free(&disk);
    }
}

UNIT_MAIN("jobs over a store, at random")
