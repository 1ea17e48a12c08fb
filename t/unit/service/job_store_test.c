/*
 * job_store_test.c - the upkeep of the store by its thread, which does not run: the test runs its
 * timers, over SQLite, and has the clocks.
 */
#include "base/json_text.h"
#include "service/job_session.h"
#include "service/monitor.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/serving.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct moment now;

struct moment clock_now(void)
{
    return now;
}

int64_t clock_unix_ns(void)
{
    return now.unix_s * NS_PER_S;
}

int64_t clock_mono_ns(void)
{
    return now.mono_ns;
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct fake_disk *disk;
static int64_t tends_at_ns, tending_takes_ns;

static int64_t tend_ns(const struct job_store *store)
{
    (void)store;
    return tends_at_ns;
}

static enum job_store_status tend(struct job_store *store, int64_t mono_ns)
{
    (void)store;
    ck_assert(mono_ns >= tends_at_ns);
    tends_at_ns = INT64_MAX;
    now.mono_ns += tending_takes_ns;
    return JOB_STORE_OK;
}

/* Stands before job_store_sqlite (local.mk). */
struct job_store_kind __wrap_job_store_sqlite;

static enum job_store_status open_disk(const struct job_store_config *config,
                                       struct job_store **store_r, char *reason_r)
{
    struct job_store_config other = *config;
    other.path = fake_disk_path(disk);
    enum job_store_status status = fake_store.open(&other, store_r, reason_r);
    if (status == JOB_STORE_OK)
        (*store_r)->does = &__wrap_job_store_sqlite;
    return status;
}

static void forget_copy(const char *path, const char *folder)
{
    (void)path;
    (void)folder;
}

/* Makes a disk that remembers so many executed keys, which are old. */
static void make_disk(unsigned count)
{
    struct job_store *store;
    char reason[JOB_STORE_REASON], key[16];
    disk = fake_disk_new();
    ck_assert(disk != NULL);
    __wrap_job_store_sqlite = fake_store;
    __wrap_job_store_sqlite.open = open_disk;
    __wrap_job_store_sqlite.tend = tend;
    __wrap_job_store_sqlite.tend_ns = tend_ns;
    __wrap_job_store_sqlite.forget_copy = forget_copy;
    tends_at_ns = INT64_MAX;
    ck_assert(open_disk(&(struct job_store_config){0}, &store, reason) == JOB_STORE_OK);
    ck_assert(fake_store.begin(store) == JOB_STORE_OK);
    for (unsigned n = 0; n < count; n++) {
        snprintf(key, sizeof(key), "%u", n);
        const struct job_memory memory = {bytes_of("t"), bytes_of(key), 1, 1};
        ck_assert(fake_store.remember(store, JOB_MEMORY_EXECUTION, &memory) == JOB_STORE_OK);
    }
    ck_assert(fake_store.commit(store, now.mono_ns) == JOB_STORE_OK);
    fake_store.close(&store);
}

/* ---- the services ---------------------------------------------------------------------------- */

static struct server server;
static struct services *services;
static struct resource *store;

static void begin(unsigned count)
{
    static char path[] = "/jobs"; /* nothing is made there */
    static const struct store_settings settings = {.path = path};
    const struct serving_config config = {
        .table = {.buckets = 10, .memory_limit = (size_t)8 << 20, .stats_interval_s = 60},
        .store = &settings};
    now = (struct moment){.mono_ns = 1000 * NS_PER_S, .unix_s = 1000};
    make_disk(count);
    services = serving_make(&server, 1, &(struct snapshot_config){0}, &config);
    ck_assert(services_open(services, now));
    store = services_resource(services, "job store");
}

static void end(void)
{
    serving_free(&server, &services);
    fake_disk_free(&disk);
}

/* How many transactions the statistics have. */
static uint64_t seen_commits(void)
{
    static const char key[] = "\"commits\":";
    struct json_text json = {0};
    store->row->monitor->statistics(services, now, &json);
    const char *at = strstr(text_str(&json.text), key);
    ck_assert_msg(at != NULL, "%s", text_str(&json.text));
    uint64_t count = strtoull(at + sizeof(key) - 1, NULL, 10);
    text_free(&json.text);
    return count;
}

/* Runs the timers that are due once so much time has passed. Returns how many keys they forgot;
 * *pieces_r: in so many transactions. */
static size_t pass(int64_t ns, uint64_t *pieces_r)
{
    size_t before = fake_disk_count(disk).memories[JOB_MEMORY_EXECUTION];
    uint64_t calls = fake_disk_calls(disk, FAKE_FORGET_OLD);
    uint64_t commits = fake_disk_calls(disk, FAKE_COMMIT);
    uint64_t commits_seen = seen_commits();
    unsigned budget = 10;
    now.mono_ns += ns;
    store->thread.now = now;
    (void)reactor_next_due(&store->thread, &budget);
    *pieces_r = fake_disk_calls(disk, FAKE_FORGET_OLD) - calls;
    ck_assert(fake_disk_calls(disk, FAKE_COMMIT) - commits == *pieces_r);
    size_t forgot = before - fake_disk_count(disk).memories[JOB_MEMORY_EXECUTION];
    ck_assert_uint_eq(seen_commits() - commits_seen, forgot > 0 ? *pieces_r : 0);
    return forgot;
}

/* So many keys are forgotten after this time, in one piece; and nothing happens before. */
static void expect_piece(int64_t after_ns, size_t count)
{
    uint64_t pieces;
    ck_assert_uint_eq(pass(after_ns - 1, &pieces), 0);
    ck_assert_uint_eq(pieces, 0);
    ck_assert_uint_eq(pass(1, &pieces), count);
    ck_assert_uint_eq(pieces, 1);
}

static bool is_answered;

static void answer(struct mail *mail, void *reactor)
{
    (void)mail;
    (void)reactor;
    is_answered = true;
}

/* A client changes something, which is committed. */
static void change(void)
{
    static struct job_settings settings;
    static struct job_op op;
    struct jobs_outbox outbox;
    struct reactor *worker = worker_reactor(server.workers[0]);
    settings = (struct job_settings){.is[JOB_SETTING_TRIES] = settings.is[JOB_SETTING_TRIES] + 1,
                                     .given = 1u << JOB_SETTING_TRIES};
    op = (struct job_op){.kind = JOB_OP_SET_TUBE, .tube = bytes_of("t"), .settings = &settings};
    op.message.mail.deliver = answer;
    jobs_outbox_init(&outbox);
    is_answered = false;
    ck_assert(jobs_submit(jobs_of(services), &op, now, &outbox) == JOBS_COMMITS);
    reactor_deliver(&store->thread);
    reactor_deliver(worker);
    ck_assert(is_answered);
}

TEST(old_keys_are_forgotten_in_pieces)
{
    begin(250);
    expect_piece(60 * NS_PER_S, 100);
    expect_piece(NS_PER_S / 100, 100);
    expect_piece(NS_PER_S / 100, 50);
    expect_piece(60 * NS_PER_S, 0);
    end();
}
END_TEST

/* Runs a piece, and with it upkeep of the store that takes so long. */
static void tend_with_a_piece(int64_t takes_ns)
{
    uint64_t pieces;
    tends_at_ns = now.mono_ns; /* the piece sets the timer */
    tending_takes_ns = takes_ns;
    ck_assert_uint_eq(pass(NS_PER_S / 100, &pieces), 100);
    ck_assert_uint_eq(pieces, 1);
    ck_assert(tends_at_ns == INT64_MAX);
}

TEST(forgetting_rests_after_upkeep_of_the_store_beside_clients_for_a_minute)
{
    uint64_t pieces;
    begin(1000);
    expect_piece(60 * NS_PER_S, 100);
    change();
    tend_with_a_piece(NS_PER_S / 50);
    expect_piece(16 * NS_PER_S / 50, 100);
    change();
    tend_with_a_piece(NS_PER_S / 10);
    expect_piece(NS_PER_S, 100); /* at most */
    tend_with_a_piece(NS_PER_S / 50);
    ck_assert_uint_eq(pass(0, &pieces), 100); /* nobody has changed anything */
    change();
    now.mono_ns += 60 * NS_PER_S;
    tend_with_a_piece(NS_PER_S / 50);
    ck_assert_uint_eq(pass(0, &pieces), 100); /* or the file would grow */
    end();
}
END_TEST

UNIT_MAIN("service/job_store")
