/*
 * commit_disk_test.c - the clients and the model of commit_world.h over the store in SQLite, on a
 * disk that fails and loses power.
 *
 * T_SEED repeats a run; T_COMMIT_RUNS says how many there are, and 1 of how many calls fails in
 * turn.
 */
#include "t/unit/jobs/bad_disk.h"
#include "t/unit/jobs/commit_world.h"
#include "t/unit/random.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/commit-disk-XXXXXX";
static char path[64];
static enum bad_disk_fault fault; /* BAD_DISK_FAULTS: the power is cut */
static int64_t fails_in;          /* calls; -1: none fails */

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/jobs", folder);
}

static void remove_files(void)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-lock", "-reserve", "-journal"};
    for (size_t n = 0; n < ARRAY_SIZE(endings); n++) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s", path, endings[n]);
        unlink(name);
    }
}

static void mend(void)
{
    bad_disk.one_in = 0;
    bad_disk.fails_at = bad_disk.cut_at = -1;
    bad_disk.reads_fail = false;
}

static void spoil(struct rng *rng)
{
    bad_disk.fault = rng_below(rng, BAD_DISK_FAULTS);
    bad_disk.one_in = 2 + rng_below(rng, 30);
    bad_disk.reads_fail = rng_one_in(rng, 8);
}

static void begin(struct rng *rng)
{
    (void)rng;
    bad_disk.fault = fault % BAD_DISK_FAULTS;
    if (fails_in >= 0)
        *(fault == BAD_DISK_FAULTS ? &bad_disk.cut_at : &bad_disk.fails_at) =
            bad_disk.calls + fails_in;
}

static void cut(struct rng *rng)
{
    (void)rng;
    bad_disk_cut();
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
    mend();
    REQUIRE(sqlite3_open(path, &db) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, "PRAGMA integrity_check", is_ok, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
}

static void run(const struct world_plan *plan, struct rng *rng)
{
    bad_disk_start(rng_next(rng));
    world_run(plan, rng);
    bad_disk_end();
    remove_files();
}

static struct world_plan make_plan(unsigned steps)
{
    make_folder();
    fails_in = -1;
    return (struct world_plan){.kind = &job_store_sqlite,
                               .path = path,
                               .steps = steps,
                               .begin = begin,
                               .mend = mend,
                               .cut = cut,
                               .is_cut = is_cut,
                               .restart = restart};
}

static void runs(const char *what, const struct world_plan *plan, unsigned count)
{
    uint64_t first = random_seed() % 1000000000;
    for (unsigned n = 0; n < (unsigned)env_number("T_COMMIT_RUNS", count); n++) {
        struct rng rng = rng_start(what, first + n);
        run(plan, &rng);
    }
    ck_assert(rmdir(folder) == 0);
}

TEST(promises_hold_when_power_is_lost)
{
    struct world_plan plan = make_plan(400);
    plan.crash_one_in = 40;
    runs("jobs on disk, without power", &plan, 6);
}

TEST(promises_hold_when_the_disk_fails)
{
    struct world_plan plan = make_plan(400);
    plan.spoil = spoil;
    plan.crash_one_in = 80;
    runs("jobs on a failing disk", &plan, 6);
}

TEST(promises_hold_whichever_write_fails)
{
    struct world_plan plan = make_plan(120);
    uint64_t seed = rng_start("writes that fail in turn", random_seed() % 1000000000).state;
    unsigned stride = (unsigned)env_number("T_COMMIT_STRIDE", 8);
    plan.crash_one_in = 100;
    for (unsigned n = (unsigned)(seed % stride); n < 200; n += stride) {
        struct rng rng = {.state = seed};
        fault = n / stride % (BAD_DISK_FAULTS + 1);
        fails_in = n;
        run(&plan, &rng);
    }
    ck_assert(rmdir(folder) == 0);
}

UNIT_MAIN("jobs on disk, at random")
