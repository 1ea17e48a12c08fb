/*
 * fake_store_test.c - the fake store does what the one in SQLite does, and fails as tests want.
 */
#include "t/unit/jobs/fake_store.h"

#include "base/clock.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define DOES(store, function, ...) ((store)->does->function((store)__VA_OPT__(, ) __VA_ARGS__))

static struct job_store *open_at(const struct job_store_kind *kind, struct job_store_config config)
{
    struct job_store *store = NULL;
    char reason[JOB_STORE_REASON] = "";
    if (kind->open(&config, &store, reason) != JOB_STORE_OK)
        ck_abort_msg("cannot open: %s", reason);
    return store;
}

static struct job_store *open_fake(const struct fake_disk *disk)
{
    return open_at(&fake_store, (struct job_store_config){.path = fake_disk_path(disk)});
}

/* ---- the same as in SQLite ------------------------------------------------------------------- */

#define IDS   40u /* jobs, or no jobs, that are asked for */
#define BODY  640u
#define TUBES 3u
#define NAMES 4u

static const char *const tube_names[TUBES] = {"default", "wiki/a", "z"};
static const char *const names[NAMES] = {"", "a", "page-7", "f+f"};

/* What a store has, as text, in an order that does not depend on the store. */
struct listing {
    char jobs[IDS * 400];
    size_t len;
    char tubes[TUBES][400];
    char memories[2][TUBES][NAMES][100];
};

static size_t tube_number(struct bytes tube)
{
    size_t i = 0;
    while (i < TUBES && !bytes_equal(tube, bytes_of(tube_names[i])))
        i++;
    REQUIRE(i < TUBES);
    return i;
}

static bool list_tube(void *arg, const struct job_tube_record *tube)
{
    struct listing *listing = arg;
    const struct job_settings *s = &tube->settings;
    snprintf(listing->tubes[tube_number(tube->name)], 400, "%x %d %d %u %u %u %u '%s' %u %" PRId64,
             s->given, s->order, s->claim, s->tries, s->limit, s->prune_s, s->remember_s,
             s->read_only, tube->pause_s, tube->paused_until_ns);
    return true;
}

static bool list_memory(void *arg, enum job_memory_kind kind, const struct job_memory *memory)
{
    struct listing *listing = arg;
    size_t name = 0;
    while (name < NAMES && !bytes_equal(memory->name, bytes_of(names[name])))
        name++;
    REQUIRE(name < NAMES);
    snprintf(listing->memories[kind][tube_number(memory->tube)][name], 100, "%" PRId64 " %" PRId64,
             memory->time_ns, memory->forget_ns);
    return true;
}

#define TEXT(bytes) (int)(bytes).len, (const char *)(bytes).data

static bool list_job(void *arg, const struct job_record *job)
{
    struct listing *listing = arg;
    const struct job_changing *now = &job->now;
    size_t room = sizeof(listing->jobs) - listing->len;
    int len =
        snprintf(listing->jobs + listing->len, room,
                 "%" PRIu64 " '%.*s' '%.*s' '%.*s' %" PRId64 " %u %u %u: %d %u %u %" PRId64
                 " %" PRId64 " %" PRIu64 " %u %u %u %u %u %u %" PRId64 " %" PRId64 "\n",
                 job->id, TEXT(job->tube), TEXT(job->key), TEXT(job->root), job->put_ns, job->ttr_s,
                 job->tries_max, job->body_len, now->state, now->pri, now->delay_s, now->due_ns,
                 now->began_ns, now->token, now->tries, now->reserves, now->timeouts, now->releases,
                 now->buries, now->kicks, now->at_ns, now->root_ns);
    REQUIRE(len > 0 && (size_t)len < room);
    listing->len += (size_t)len;
    return true;
}

static void list(struct job_store *store, struct listing *listing)
{
    memset(listing, 0, sizeof(*listing));
    struct job_store_visitors visitors = {
        .arg = listing, .tube = list_tube, .memory = list_memory, .job = list_job};
    REQUIRE(DOES(store, load, &visitors) == JOB_STORE_OK);
}

/* Some are large, for the store in SQLite. */
static uint32_t body_len(uint64_t id)
{
    return (uint32_t)(id % (BODY / 16)) * 16;
}

static struct job_changing any_changing(struct rng *rng)
{
    return (struct job_changing){
        .state = (enum job_state)rng_below(rng, JOB_STATES),
        .pri = (uint32_t)rng_next(rng),
        .delay_s = rng_below(rng, 9),
        .due_ns = (int64_t)rng_below(rng, 3),
        .began_ns = (int64_t)rng_next(rng),
        .token = rng_next(rng) % JOBS_TOKEN_MAX,
        .tries = rng_below(rng, 9),
        .reserves = rng_below(rng, 9),
        .timeouts = rng_below(rng, 9),
        .releases = rng_below(rng, 9),
        .buries = rng_below(rng, 9),
        .kicks = rng_below(rng, 9),
        .at_ns = (int64_t)rng_below(rng, 9),
        .root_ns = (int64_t)rng_below(rng, 9),
    };
}

/* Calls one function, drawn from rng, with arguments drawn from it. What comes back is `answer`.
 * Takes the same numbers from rng whatever the store answers. */
static enum job_store_status call_any(struct job_store *store, struct rng *rng, bool *inside,
                                      char *answer, size_t room)
{
    uint32_t what = rng_below(rng, 100);
    uint64_t id = rng_one_in(rng, 30) ? UINT64_MAX - rng_below(rng, 2) : 1 + rng_below(rng, IDS);
    struct bytes tube = bytes_of(tube_names[rng_below(rng, TUBES)]);
    struct bytes name = bytes_of(names[1 + rng_below(rng, NAMES - 1)]);
    enum job_memory_kind kind = (enum job_memory_kind)rng_below(rng, 2);
    struct job_changing now = any_changing(rng);
    uint32_t len = rng_below(rng, 40), some = rng_below(rng, 4);
    int64_t time_ns = (int64_t)rng_below(rng, 50);
    bool rare = rng_one_in(rng, 40);
    bool keeps = rng_one_in(rng, 3);
    /* No two are the same, so that it is certain which are forgotten first. */
    int64_t forget_ns = keeps ? JOB_STORE_KEEP : (int64_t)(rng_next(rng) >> 4);
    uint8_t body[BODY];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (uint8_t)(id + i);
    snprintf(answer, room, "-");
    if (!*inside) {
        if (what < 70) {
            *inside = true;
            return DOES(store, begin);
        }
        if (what < 75) {
            uint64_t first = 0;
            enum job_store_status status = DOES(store, take_ids, rare ? INT64_MAX : len, &first);
            snprintf(answer, room, "%" PRIu64, first);
            return status;
        }
        if (what < 80) {
            snprintf(answer, room, "%" PRId64, DOES(store, tend_ns));
            return DOES(store, tend, time_ns * NS_PER_S);
        }
    }
    if (*inside && what >= 90) {
        *inside = false;
        if (what >= 97) {
            DOES(store, rollback);
            return JOB_STORE_OK;
        }
        return DOES(store, commit, time_ns);
    }
    if (what < 10 || !*inside) {
        uint32_t wanted = rare ? len : body_len(id); /* of most jobs the right length */
        enum job_store_status status = DOES(store, read_body, id, body, wanted);
        if (status == JOB_STORE_OK)
            for (size_t i = 0; i < wanted; i++)
                REQUIRE(body[i] == (uint8_t)(id + 1 + i));
        if (what >= 5)
            return status;
    }
    if (what < 20 || !*inside) {
        struct job_memory memory = {.tube = tube, .name = name, .time_ns = -1, .forget_ns = -1};
        enum job_store_status status = DOES(store, recall, kind, &memory);
        snprintf(answer, room, "%" PRId64 " %" PRId64, memory.time_ns, memory.forget_ns);
        return status;
    }
    if (what < 45) {
        if (id > INT64_MAX)
            id = INT64_MAX / 2;
        for (size_t i = 0; i < sizeof(body); i++)
            body[i] = (uint8_t)(id + 1 + i);
        struct job_record job = {.id = id,
                                 .tube = tube,
                                 .key = bytes_of(names[some]),
                                 .root = some == 1 ? name : bytes_of(""),
                                 .put_ns = time_ns,
                                 .ttr_s = len,
                                 .tries_max = some == 2 ? JOB_TRIES_OF_TUBE : some,
                                 .now = now};
        char buffer[BODY];
        /* A job that is there fails the transaction: not always. */
        if (!rare && DOES(store, read_body, id, buffer, body_len(id)) != JOB_STORE_NONE)
            return DOES(store, remove, id);
        job.body_len = body_len(id);
        return DOES(store, put, &job, bytes_at(body, body_len(id)));
    }
    if (what < 55)
        return DOES(store, change, id, &now);
    if (what < 62)
        return DOES(store, remove, id);
    if (what < 70)
        return DOES(store, execute, id, some == 0 ? JOB_STORE_NO_TIME : time_ns, forget_ns);
    if (what < 78) {
        struct job_memory memory = {
            .tube = tube, .name = name, .time_ns = time_ns, .forget_ns = forget_ns};
        return DOES(store, remember, kind, &memory);
    }
    if (what < 81)
        return DOES(store, forget, kind, tube, name);
    if (what < 84) {
        uint32_t count = 99;
        enum job_store_status status =
            DOES(store, forget_old, (int64_t)(rng_next(rng) >> 4), some, &count);
        snprintf(answer, room, "%u", count);
        return status;
    }
    struct job_tube_record record = {.name = tube};
    if (some > 0) {
        record.settings = (struct job_settings){.given = now.pri % (1u << JOB_SETTINGS),
                                                .order = (enum job_order)(some % 3),
                                                .claim = JOB_CLAIM_LEASE,
                                                .tries = now.tries,
                                                .limit = UINT32_MAX,
                                                .prune_s = now.buries,
                                                .remember_s = now.kicks,
                                                .read_only = "we move"};
        record.pause_s = rare;
        record.paused_until_ns = rare ? time_ns : 0;
    }
    return DOES(store, set_tube, &record);
}

TEST(the_same_calls_have_the_same_answers_as_in_sqlite)
{
    char folder[] = "/tmp/fake_store_test.XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/jobs", folder);
    struct fake_disk *disk = fake_disk_new();
    struct rng rng = rng_start("calls", 1);
    uint64_t statuses[JOB_STORE_NEWER + 1] = {0};
    static struct listing of_fake, of_sqlite;
    for (int opened = 0; opened < 12; opened++) {
        struct job_store_config config = {
            .path = path, .sync = (enum job_store_sync)(opened % 2), .log_bytes = UINT32_MAX};
        struct job_store *sqlite = open_at(&job_store_sqlite, config);
        config.path = fake_disk_path(disk);
        struct job_store *fake = open_at(&fake_store, config);
        bool sqlite_inside = false, fake_inside = false;
        for (int i = 0; i < 2000; i++) {
            char sqlite_answer[64], fake_answer[64];
            struct rng same = rng;
            enum job_store_status expected =
                call_any(sqlite, &rng, &sqlite_inside, sqlite_answer, sizeof(sqlite_answer));
            enum job_store_status got =
                call_any(fake, &same, &fake_inside, fake_answer, sizeof(fake_answer));
            ck_assert_str_eq(job_store_status_word(got), job_store_status_word(expected));
            ck_assert_str_eq(fake_answer, sqlite_answer);
            REQUIRE(fake_inside == sqlite_inside && same.state == rng.state);
            statuses[got]++;
            if (fake_inside)
                continue;
            REQUIRE(DOES(fake, tend_ns) == DOES(sqlite, tend_ns));
            list(sqlite, &of_sqlite);
            list(fake, &of_fake);
            ck_assert_str_eq(of_fake.jobs, of_sqlite.jobs);
            REQUIRE(memcmp(of_fake.tubes, of_sqlite.tubes, sizeof(of_fake.tubes)) == 0);
            REQUIRE(memcmp(of_fake.memories, of_sqlite.memories, sizeof(of_fake.memories)) == 0);
        }
        job_store_sqlite.close(&sqlite);
        fake_store.close(&fake); /* either may be inside a transaction */
    }
    dprintf(STDOUT_FILENO, "# %" PRIu64 " ok, %" PRIu64 " none, %" PRIu64 " failed\n",
            statuses[JOB_STORE_OK], statuses[JOB_STORE_NONE], statuses[JOB_STORE_CORRUPT]);
    ck_assert(statuses[JOB_STORE_NONE] > 1000 && statuses[JOB_STORE_CORRUPT] > 100);
    fake_disk_free(&disk);
    static const char *const endings[] = {"", "-wal", "-shm", "-lock"};
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        char name[80];
        snprintf(name, sizeof(name), "%s%s", path, endings[i]);
        unlink(name);
    }
    ck_assert(rmdir(folder) == 0);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static enum job_store_status put(struct job_store *store, uint64_t id)
{
    struct job_record job = {.id = id,
                             .tube = bytes_of("t"),
                             .key = bytes_of("k"),
                             .now = {.state = JOB_BURIED, .pri = 7}};
    return DOES(store, put, &job, bytes_of("body"));
}

/* Puts a job in a transaction of its own, and returns the commit's status. */
static enum job_store_status commit_one(struct job_store *store, uint64_t id)
{
    (void)DOES(store, begin);
    (void)put(store, id);
    return DOES(store, commit, 0);
}

TEST(calls_fail_as_tests_want)
{
    struct fake_disk *disk = fake_disk_new();
    struct job_store_config config = {.path = fake_disk_path(disk), .reserved_space = 1};
    struct job_store *store = NULL;
    char reason[JOB_STORE_REASON];
    fake_disk_fail(disk, FAKE_OPEN, 1, 1, JOB_STORE_NEWER);
    ck_assert(fake_store.open(&config, &store, reason) == JOB_STORE_NEWER && !store);
    store = open_at(&fake_store, config);
    struct job_store *second = NULL;
    ck_assert(fake_store.open(&config, &second, reason) == JOB_STORE_LOCKED && !second);
    ck_assert_uint_eq(fake_disk_calls(disk, FAKE_OPEN), 3);

    fake_disk_fail(disk, FAKE_PUT, 2, 2, JOB_STORE_IO);
    ck_assert(commit_one(store, 1) == JOB_STORE_OK);
    ck_assert(commit_one(store, 2) == JOB_STORE_IO);
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(put(store, 3) == JOB_STORE_IO);
    ck_assert(put(store, 4) == JOB_STORE_IO); /* the failure is kept */
    ck_assert(DOES(store, remove, 9) == JOB_STORE_IO);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_IO);
    ck_assert(commit_one(store, 5) == JOB_STORE_OK);
    struct fake_counts counts = fake_disk_count(disk);
    ck_assert(counts.jobs == 2 && counts.states[JOB_BURIED] == 2 && counts.commits == 2);
    ck_assert_uint_eq(fake_disk_calls(disk, FAKE_COMMIT), 4);
    ck_assert(counts.bytes == 8);

    fake_disk_fail(disk, FAKE_ANY, 1, 1, JOB_STORE_CORRUPT); /* that is `begin` */
    ck_assert(commit_one(store, 6) == JOB_STORE_CORRUPT);
    fake_disk_fail(disk, FAKE_COMMIT, 1, UINT64_MAX, JOB_STORE_IO);
    for (int i = 0; i < 3; i++)
        ck_assert(commit_one(store, 7) == JOB_STORE_IO);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 0, JOB_STORE_OK);
    ck_assert(commit_one(store, 7) == JOB_STORE_OK);

    char body[4];
    fake_disk_break_body(disk, 7, JOB_STORE_IO);
    ck_assert(DOES(store, read_body, 7, body, 4) == JOB_STORE_IO);
    ck_assert(DOES(store, read_body, 5, body, 4) == JOB_STORE_OK);
    fake_disk_break_body(disk, 7, JOB_STORE_OK);
    ck_assert(DOES(store, read_body, 7, body, 4) == JOB_STORE_OK);

    fake_disk_fill(disk, true);
    ck_assert(!DOES(store, is_full));
    ck_assert(commit_one(store, 8) == JOB_STORE_FULL && DOES(store, is_full));
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(DOES(store, execute, 7, 5, 6) == JOB_STORE_OK);
    ck_assert(DOES(store, remove, 7) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    ck_assert(DOES(store, tend_ns) == 0 && DOES(store, tend, 5) == JOB_STORE_OK);
    ck_assert(DOES(store, is_full) && DOES(store, tend_ns) == 5 + NS_PER_S);
    fake_disk_fill(disk, false);
    ck_assert(commit_one(store, 8) == JOB_STORE_FULL); /* not before `tend` */
    ck_assert(DOES(store, tend, 5 + NS_PER_S) == JOB_STORE_OK && !DOES(store, is_full));
    ck_assert(commit_one(store, 8) == JOB_STORE_OK);
    fake_store.close(&store);
    fake_disk_free(&disk);
    ck_assert_ptr_null(disk);
}
END_TEST

TEST(tests_see_what_is_committed)
{
    struct fake_disk *disk = fake_disk_new();
    struct job_store *store = open_fake(disk);
    struct job_tube_record paused = {.name = bytes_of("t"), .pause_s = 5, .paused_until_ns = 9};
    struct fake_job job;
    struct job_memory memory;
    struct job_tube_record tube;
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(put(store, 3) == JOB_STORE_OK);
    ck_assert(DOES(store, execute, 3, 5, 6) == JOB_STORE_OK);
    ck_assert(DOES(store, set_tube, &paused) == JOB_STORE_OK);
    ck_assert(!fake_disk_job(disk, 3, &job) && !fake_disk_tube(disk, bytes_of("t"), &tube));
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    fake_store.close(&store);
    ck_assert(fake_disk_job(disk, 3, &job) && job.record.now.pri == 7);
    ck_assert(bytes_equal(job.record.key, bytes_of("k")));
    ck_assert(fake_disk_has_body(disk, 3, bytes_of("body")));
    ck_assert(!fake_disk_has_body(disk, 3, bytes_of("bode")));
    ck_assert(fake_disk_memory(disk, JOB_MEMORY_EXECUTION, bytes_of("t"), bytes_of("k"), &memory));
    ck_assert(memory.time_ns == 5 && memory.forget_ns == 6);
    ck_assert(!fake_disk_memory(disk, JOB_MEMORY_ROOT, bytes_of("t"), bytes_of("k"), &memory));
    ck_assert(fake_disk_tube(disk, bytes_of("t"), &tube) && tube.pause_s == 5);
    struct fake_counts counts = fake_disk_count(disk);
    ck_assert(counts.tubes == 1 && counts.memories[JOB_MEMORY_EXECUTION] == 1);
    fake_disk_free(&disk);
}
END_TEST

TEST(a_commit_that_failed_may_be_found_by_a_restart)
{
    struct fake_disk *disk = fake_disk_new();
    for (int later = 0; later < 3; later++) { /* nothing comes later; a commit; ids are taken */
        struct job_store *store = open_fake(disk);
        uint64_t id = 10 * (uint64_t)(later + 1), first = 0;
        fake_disk_keep_failed(disk, true);
        fake_disk_fail(disk, FAKE_COMMIT, 1, 1, JOB_STORE_IO);
        ck_assert(commit_one(store, id) == JOB_STORE_IO);
        struct fake_job job;
        ck_assert(!fake_disk_job(disk, id, &job));
        if (later == 1)
            ck_assert(commit_one(store, id + 1) == JOB_STORE_OK);
        if (later == 2)
            ck_assert(DOES(store, take_ids, 1, &first) == JOB_STORE_OK);
        fake_store.close(&store);
        store = open_fake(disk);
        ck_assert(fake_disk_job(disk, id, &job) == (later == 0));
        fake_store.close(&store);
    }
    fake_disk_free(&disk);
}
END_TEST

static void *commit_in_thread(void *arg)
{
    REQUIRE(commit_one(arg, 1) == JOB_STORE_OK);
    return NULL;
}

TEST(a_commit_waits_while_it_is_held)
{
    struct fake_disk *disk = fake_disk_new();
    struct job_store *store = open_fake(disk);
    fake_disk_hold(disk, true);
    pthread_t thread;
    ck_assert(pthread_create(&thread, NULL, commit_in_thread, store) == 0);
    int64_t deadline = clock_mono_ns() + 60 * NS_PER_S;
    while (fake_disk_calls(disk, FAKE_COMMIT) == 0)
        REQUIRE(clock_mono_ns() < deadline);
    ck_assert_uint_eq(fake_disk_count(disk).jobs, 0);
    fake_disk_hold(disk, false);
    ck_assert(pthread_join(thread, NULL) == 0);
    ck_assert_uint_eq(fake_disk_count(disk).jobs, 1);
    fake_store.close(&store);
    fake_disk_free(&disk);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_same_calls_have_the_same_answers_as_in_sqlite),
    UNIT(calls_fail_as_tests_want),
    UNIT(tests_see_what_is_committed),
    UNIT(a_commit_that_failed_may_be_found_by_a_restart),
    UNIT(a_commit_waits_while_it_is_held),
};

UNIT_MAIN("fake store", tests)
