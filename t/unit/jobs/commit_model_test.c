/*
 * commit_model_test.c - random clients, failures and ends of the process beside the model of
 * commit_world.h: over SQLite whose calls fail, and on a disk that fails and loses power.
 *
 * T_SEED repeats a run of each row; without it T_COMMIT_RUNS says how many there are; of
 * T_COMMIT_STRIDE calls, one fails in turn.
 */
#include "t/unit/jobs/bad_disk.h"
#include "t/unit/jobs/commit_world.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/random.h"

#include <sqlite3.h>
#include <string.h>

static struct fake_disk *disk; /* it has the folder of the store on a bad disk, too */
static uint64_t bad_row;       /* nothing else fails; 0: none */

/* ---- calls that fail ------------------------------------------------------------------------- */

static void mend_calls(void)
{
    for (unsigned n = 0; n <= FAKE_ANY; n++)
        fake_disk_fail(disk, (enum fake_call)n, 1, 0, JOB_STORE_OK);
    fake_disk_fill(disk, false);
    fake_disk_break_row(disk, bad_row = 0);
}

static uint64_t damaged(void)
{
    return bad_row;
}

static void spoil_calls(struct rng *rng)
{
    static const enum job_store_status ways[] = {JOB_STORE_FULL, JOB_STORE_IO, JOB_STORE_CORRUPT,
                                                 JOB_STORE_NO_MEMORY};
    if (rng_one_in(rng, 2)) {
        mend_calls();
        fake_disk_break_row(disk, bad_row = world_id());
        return;
    }
    fake_disk_break_row(disk, bad_row = 0);
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

/* ---- a disk that fails ----------------------------------------------------------------------- */

static void mend_disk(void)
{
    bad_disk.one_in = 0;
    bad_disk.fails_at = bad_disk.cut_at = -1;
    bad_disk.reads_fail = false;
}

static void spoil_disk(struct rng *rng)
{
    bad_disk.fault = rng_below(rng, BAD_DISK_FAULTS);
    bad_disk.one_in = 2 + rng_below(rng, 30);
    bad_disk.reads_fail = rng_one_in(rng, 8);
}

static int is_ok(void *arg, int columns, char **texts, char **names)
{
    (void)arg, (void)columns, (void)names;
    REQUIRE(strcmp(texts[0], "ok") == 0);
    return 0;
}

static bool is_cut(void)
{
    return bad_disk.is_cut;
}

static void restart(void)
{
    sqlite3 *db;
    if (bad_disk.is_cut)
        bad_disk_restart();
    mend_disk();
    REQUIRE(sqlite3_open(fake_disk_path(disk), &db) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, "PRAGMA integrity_check", is_ok, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct row {
    const char *what;
    bool on_disk, spoils;
    unsigned crash_one_in, steps, runs;
    uint64_t memory; /* that jobs may use; of a world that spoils, in half of the runs */
    /* Once the world is set up: the call that fails, 0: none; on a disk the power may be cut. */
    unsigned fails_in, fault;
};
static const struct row *row;

static void begin(void)
{
    if (row->fails_in == 0)
        return;
    if (!row->on_disk) {
        fake_disk_fail(disk, FAKE_ANY, row->fails_in, 1, JOB_STORE_IO);
        return;
    }
    bad_disk.fault = row->fault % BAD_DISK_FAULTS;
    *(row->fault == BAD_DISK_FAULTS ? &bad_disk.cut_at : &bad_disk.fails_at) =
        bad_disk.calls + row->fails_in - 1;
}

static void run(const struct row *of, struct rng *rng)
{
    struct world_plan plan = {.kind = &fake_store, .mend = mend_calls, .damaged = damaged};
    const struct world_plan real = {.kind = &job_store_sqlite,
                                    .mend = mend_disk,
                                    .cut = bad_disk_cut,
                                    .is_cut = is_cut,
                                    .restart = restart};
    row = of;
    disk = fake_disk_new();
    if (row->on_disk) {
        plan = real;
        bad_disk_start(rng_next(rng));
    }
    plan.begin = begin;
    plan.path = fake_disk_path(disk);
    plan.steps = row->steps;
    plan.crash_one_in = row->crash_one_in;
    plan.memory = !row->spoils || rng_one_in(rng, 2) ? row->memory : 0;
    if (row->spoils)
        plan.spoil = row->on_disk ? spoil_disk : spoil_calls;
    world_run(&plan, rng);
    if (row->on_disk)
        bad_disk_end();
    fake_disk_free(&disk);
}

TEST(promises_hold)
{
    static const struct row rows[] = {
        {"jobs over a store", .steps = 600, .runs = 10},
        {"jobs over a failing store", .spoils = true, .steps = 600, .runs = 20},
        {"jobs over a store, with restarts", .crash_one_in = 40, .steps = 600, .runs = 20},
        {"jobs over a failing store, with restarts", .spoils = true, .crash_one_in = 60,
         .memory = 60000, .steps = 600, .runs = 20},
        {"jobs over a store with little memory", .memory = 40000, .steps = 600, .runs = 10},
        {"jobs on disk, without power", .on_disk = true, .crash_one_in = 40, .steps = 400,
         .runs = 6},
        {"jobs on a failing disk", .on_disk = true, .spoils = true, .crash_one_in = 80,
         .steps = 400, .runs = 6},
    };
    uint64_t first = random_seed() % 1000000000;
    bool repeats = getenv("T_SEED") != NULL; // NOLINT(concurrency-mt-unsafe): nobody sets it
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        unsigned runs = repeats ? 1 : (unsigned)env_number("T_COMMIT_RUNS", rows[i].runs);
        for (unsigned n = 0; n < runs; n++) {
            struct rng rng = rng_start(rows[i].what, first + n);
            run(&rows[i], &rng);
        }
    }
}

/* Each call fails in turn; on a disk in each way, or the power is cut. */
TEST(promises_hold_whichever_call_fails)
{
    uint64_t seed = rng_start("calls that fail in turn", random_seed() % 1000000000).state;
    unsigned stride = (unsigned)env_number("T_COMMIT_STRIDE", 7);
    for (unsigned n = 1 + (unsigned)(seed % stride); n < 300; n += stride) {
        struct row one = {"", .steps = 150, .fails_in = n};
        struct rng rng = {.state = seed};
        run(&one, &rng);
        one = (struct row){"",
                           .on_disk = true,
                           .steps = 120,
                           .crash_one_in = 100,
                           .fails_in = n,
                           .fault = n / stride % (BAD_DISK_FAULTS + 1)};
        rng.state = seed;
        run(&one, &rng);
    }
}

UNIT_MAIN("jobs over a store, at random")
