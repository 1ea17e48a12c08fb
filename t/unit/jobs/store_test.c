/*
 * store_test.c - the store of jobs: each function, its file, copies, a full disk.
 *
 * What it has after random changes, failing calls and power cuts is compared by t/models/jobs_test
 * and commit_model_test.
 */
#include "jobs/store.h"

#include "t/unit/jobs/bad_disk.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DOES(store, function, ...) ((store)->does->function((store)__VA_OPT__(, ) __VA_ARGS__))
#define SECOND                     NS_PER_S

/* ---- a folder for each test ------------------------------------------------------------------ */

static char folder[64], path[96], reserve_path[128];

static void folder_make(void)
{
    strcpy(folder, "/tmp/store_test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/jobs", folder);
    snprintf(reserve_path, sizeof(reserve_path), "%s-reserve", path);
}

static void files_remove(void)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-lock", "-reserve", "-journal"};
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s", path, endings[i]);
        unlink(name);
    }
}

static void folder_remove(void)
{
    files_remove();
    ck_assert(rmdir(folder) == 0);
}

static struct job_store_config config_of(enum job_store_sync sync)
{
    return (struct job_store_config){.path = path, .sync = sync};
}

static struct job_store *open_with(struct job_store_config config)
{
    struct job_store *store = NULL;
    char reason[JOB_STORE_REASON] = "";
    enum job_store_status status = job_store_sqlite.open(&config, &store, reason);
    if (status != JOB_STORE_OK)
        ck_abort_msg("cannot open: %s (%s)", reason, job_store_status_word(status));
    return store;
}

static struct job_store *open_store(enum job_store_sync sync)
{
    return open_with(config_of(sync));
}

/* Reads one text from the file, as people do. */
static void sql_text(const char *sql, char *text_r, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    ck_assert(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s",
                  sqlite3_errmsg(db));
    int code = sqlite3_step(statement);
    snprintf(text_r, size, "%s",
             code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0)
                                : sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void check_integrity(void)
{
    char text[200];
    sql_text("PRAGMA integrity_check", text, sizeof(text));
    ck_assert_str_eq(text, "ok");
}

static void sql_run(const char *sql)
{
    sqlite3 *db = NULL;
    ck_assert(sqlite3_open(path, &db) == SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static bool same_changing(const struct job_changing *a, const struct job_changing *b)
{
    return a->state == b->state && a->pri == b->pri && a->delay_s == b->delay_s &&
           a->due_ns == b->due_ns && a->began_ns == b->began_ns && a->token == b->token &&
           a->tries == b->tries && a->reserves == b->reserves && a->timeouts == b->timeouts &&
           a->releases == b->releases && a->buries == b->buries && a->kicks == b->kicks &&
           a->at_ns == b->at_ns && a->root_ns == b->root_ns;
}

/* ---- each function --------------------------------------------------------------------------- */

/* Puts one job in a transaction of its own. */
static void put_one(struct job_store *store, uint64_t id, const char *body)
{
    struct job_record job = {.id = id, .tube = bytes_of("t"), .tries_max = JOB_TRIES_OF_TUBE};
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(DOES(store, put, &job, bytes_of(body)) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
}

TEST(ids_are_never_taken_twice_and_are_above_all_jobs)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    uint64_t first = 0;
    ck_assert(DOES(store, take_ids, 1000, &first) == JOB_STORE_OK);
    ck_assert_uint_eq(first, 1);
    ck_assert(DOES(store, take_ids, 1000, &first) == JOB_STORE_OK);
    ck_assert_uint_eq(first, 1001);
    put_one(store, 5000, "x");
    job_store_sqlite.close(&store);
    store = open_store(JOB_STORE_SYNC_FULL);
    ck_assert(DOES(store, take_ids, 1, &first) == JOB_STORE_OK);
    ck_assert_uint_eq(first, 5001);
    ck_assert(DOES(store, take_ids, INT64_MAX, &first) == JOB_STORE_CORRUPT);
    ck_assert(DOES(store, take_ids, 1, &first) == JOB_STORE_OK);
    ck_assert_uint_eq(first, 5002);
    job_store_sqlite.close(&store);
    folder_remove();
}

TEST(what_is_not_there_is_none_and_fails_no_transaction)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    struct job_changing now = {.pri = 1};
    struct job_memory memory = {.tube = bytes_of("t"), .name = bytes_of("k")};
    char body[4];
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(DOES(store, change, 7, &now) == JOB_STORE_NONE);
    ck_assert(DOES(store, change, UINT64_MAX, &now) == JOB_STORE_NONE);
    ck_assert(DOES(store, remove, 7) == JOB_STORE_NONE);
    ck_assert(DOES(store, remove, UINT64_MAX) == JOB_STORE_NONE);
    ck_assert(DOES(store, execute, 7, 1, 2) == JOB_STORE_NONE);
    ck_assert(DOES(store, recall, JOB_MEMORY_ROOT, &memory) == JOB_STORE_NONE);
    ck_assert(DOES(store, forget, JOB_MEMORY_ROOT, memory.tube, memory.name) == JOB_STORE_NONE);
    ck_assert(DOES(store, read_body, 7, body, 4) == JOB_STORE_NONE);
    ck_assert(DOES(store, read_body, UINT64_MAX, body, 4) == JOB_STORE_NONE);
    struct job_record job = {.id = 8, .tube = bytes_of("t")};
    ck_assert(DOES(store, put, &job, bytes_of("body")) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    ck_assert(DOES(store, read_body, 8, body, 3) == JOB_STORE_CORRUPT);
    ck_assert(DOES(store, read_body, 8, body, 4) == JOB_STORE_OK);
    ck_assert(memcmp(body, "body", 4) == 0);
    job_store_sqlite.close(&store);
    folder_remove();
}

TEST(a_transaction_sees_its_own_executions_and_old_ones_go_in_steps)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    struct job_memory memory = {.tube = bytes_of("t")};
    char name[16];
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof(name), "k%d", i);
        memory.name = bytes_of(name);
        memory.time_ns = 100 + i;
        memory.forget_ns = i < 7 ? 1000 + i : JOB_STORE_KEEP;
        ck_assert(DOES(store, remember, (enum job_memory_kind)(i % 2), &memory) == JOB_STORE_OK);
        struct job_memory found = {.tube = memory.tube, .name = memory.name};
        ck_assert(DOES(store, recall, (enum job_memory_kind)(i % 2), &found) == JOB_STORE_OK);
        ck_assert(found.time_ns == memory.time_ns && found.forget_ns == memory.forget_ns);
        ck_assert(DOES(store, recall, (enum job_memory_kind)(1 - i % 2), &found) == JOB_STORE_NONE);
    }
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    uint32_t count = 0, sum = 0;
    static const uint32_t steps[] = {0, 3, 2, 0}; /* before any; k0 k2 k4; k1 k3; none */
    static const int64_t times[] = {999, 1004, 1004, 1004};
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        ck_assert(DOES(store, begin) == JOB_STORE_OK);
        ck_assert(DOES(store, forget_old, times[i], 3, &count) == JOB_STORE_OK);
        ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
        ck_assert_uint_eq(count, steps[i]);
        sum += count;
    }
    ck_assert_uint_eq(sum, 5);
    job_store_sqlite.close(&store);
    folder_remove();
}

/* What is kept of a name in tube "t"; forget_ns 0: nothing. */
static struct job_memory recalled(struct job_store *store, enum job_memory_kind kind,
                                  const char *name)
{
    struct job_memory memory = {.tube = bytes_of("t"), .name = bytes_of(name)};
    enum job_store_status status = DOES(store, recall, kind, &memory);
    ck_assert(status == JOB_STORE_OK || status == JOB_STORE_NONE);
    return memory;
}

TEST(of_two_times_the_later_is_kept)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    static const struct {
        int64_t time_ns, forget_ns, kept_ns, kept_forget_ns;
    } steps[] = {
        {100, 7, 100, 7},
        {99, 8, 100, 7},                            /* older: as if it had not come */
        {100, JOB_STORE_KEEP, 100, JOB_STORE_KEEP}, /* the same */
        {101, 9, 101, 9},
        {100, JOB_STORE_KEEP, 101, 9},
    };
    for (int kind = 0; kind < 2; kind++) {
        struct job_memory memory = {.tube = bytes_of("t"), .name = bytes_of("k")};
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
            memory.time_ns = steps[i].time_ns;
            memory.forget_ns = steps[i].forget_ns;
            ck_assert(DOES(store, begin) == JOB_STORE_OK);
            ck_assert(DOES(store, remember, (enum job_memory_kind)kind, &memory) == JOB_STORE_OK);
            ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
            struct job_memory kept = recalled(store, (enum job_memory_kind)kind, "k");
            ck_assert(kept.time_ns == steps[i].kept_ns &&
                      kept.forget_ns == steps[i].kept_forget_ns);
        }
    }
    job_store_sqlite.close(&store);
    folder_remove();
}

TEST(an_execution_is_kept_by_the_id_of_its_job)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    struct job_record job = {.id = 1, .tube = bytes_of("t"), .key = bytes_of("k")};
    struct job_record plain = {.id = 2, .tube = bytes_of("t"), .root = bytes_of("r")};
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(DOES(store, put, &job, bytes_of("")) == JOB_STORE_OK);
    ck_assert(DOES(store, put, &plain, bytes_of("")) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    static const struct {
        int64_t time_ns, forget_ns, kept_ns, kept_forget_ns;
    } steps[] = {
        {JOB_STORE_NO_TIME, 5, 0, 0}, /* nothing is kept, and nothing is made */
        {100, JOB_STORE_KEEP, 100, JOB_STORE_KEEP},
        {99, 6, 100, 6}, /* an earlier execution; but when it may be forgotten is new */
        {101, 7, 101, 7},
        {JOB_STORE_NO_TIME, JOB_STORE_KEEP, 101, JOB_STORE_KEEP},
        {JOB_STORE_NO_TIME, 8, 101, 8},
        {101, 9, 101, 9},
    };
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        ck_assert(DOES(store, execute, 1, steps[i].time_ns, steps[i].forget_ns) == JOB_STORE_OK);
        struct job_memory kept = recalled(store, JOB_MEMORY_EXECUTION, "k");
        ck_assert(kept.time_ns == steps[i].kept_ns && kept.forget_ns == steps[i].kept_forget_ns);
    }
    static const int64_t times[] = {JOB_STORE_NO_TIME, 200};
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        ck_assert(DOES(store, execute, 2, times[i], 1) == JOB_STORE_NONE); /* it has no key */
        ck_assert(DOES(store, execute, 3, times[i], 1) == JOB_STORE_NONE);
        ck_assert(DOES(store, execute, UINT64_MAX, times[i], 1) == JOB_STORE_NONE);
    }
    ck_assert(DOES(store, remove, 1) == JOB_STORE_OK); /* the usual order: execute, remove */
    ck_assert(DOES(store, execute, 1, 200, 1) == JOB_STORE_NONE);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    ck_assert(recalled(store, JOB_MEMORY_EXECUTION, "k").time_ns == 101);
    ck_assert(recalled(store, JOB_MEMORY_ROOT, "k").forget_ns == 0);
    job_store_sqlite.close(&store);
    /* What names one job touches one row. */
    char text[200];
    sql_text("SELECT group_concat(tube || ' ' || name || ' ' || time || ' ' || forget)"
             " FROM executions",
             text, sizeof(text));
    ck_assert_str_eq(text, "t k 101 9");
    folder_remove();
}

static bool see_reserved(void *arg, const struct job_record *job)
{
    *(struct job_changing *)arg = job->now;
    return true;
}

TEST(a_reservation_may_end_with_its_process)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    put_one(store, 1, "body");
    struct job_changing now = {.state = JOB_RESERVED, .began_ns = 5, .token = 77, .tries = 1},
                        seen = {.due_ns = -1};
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(DOES(store, change, 1, &now) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    job_store_sqlite.close(&store);
    store = open_store(JOB_STORE_SYNC_FULL);
    struct job_store_visitors visitors = {.arg = &seen, .job = see_reserved};
    ck_assert(DOES(store, load, &visitors) == JOB_STORE_OK);
    ck_assert(same_changing(&seen, &now));
    job_store_sqlite.close(&store);
    char text[100];
    sql_text("SELECT state || ' ' || coalesce(due, 'without an end') FROM jobs_seen", text,
             sizeof(text));
    ck_assert_str_eq(text, "ready without an end"); /* or a connection has it */
    folder_remove();
}

static void put_in_state(struct job_store *store, uint64_t id, enum job_state state, int64_t due_ns)
{
    const struct job_record job = {
        .id = id,
        .tube = bytes_of("t"),
        .tries_max = id % 2 ? 1 : JOB_TRIES_OF_TUBE,
        .now = {.state = state, .due_ns = due_ns, .token = state == JOB_RESERVED, .tries = 1}};
    ck_assert(DOES(store, put, &job, bytes_of("")) == JOB_STORE_OK);
}

TEST(people_see_states_by_the_clock)
{
    folder_make();
    const int64_t past = 1000 * NS_PER_S, future = INT64_C(4000000000) * NS_PER_S;
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    put_in_state(store, 1, JOB_READY, 0);
    put_in_state(store, 2, JOB_DELAYED, past);
    put_in_state(store, 3, JOB_DELAYED, future);
    put_in_state(store, 4, JOB_RESERVED, past);
    put_in_state(store, 5, JOB_RESERVED, past); /* its last try */
    put_in_state(store, 6, JOB_RESERVED, future);
    put_in_state(store, 7, JOB_RESERVED, 0); /* until a connection ends */
    put_in_state(store, 8, JOB_BURIED, past);
    put_in_state(store, 9, JOB_ABANDONED, past);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    job_store_sqlite.close(&store);
    for (unsigned n = 0; n < 2; n++) {
        char text[200];
        sql_text("SELECT group_concat(state, ' ') FROM (SELECT state FROM jobs_seen ORDER BY id)",
                 text, sizeof(text));
        ck_assert_str_eq(text,
                         "ready ready delayed ready abandoned reserved ready buried abandoned");
        sql_text("SELECT group_concat(n, ' ') FROM (SELECT count(*) AS n FROM jobs_seen"
                 " GROUP BY tube, state ORDER BY state)",
                 text, sizeof(text));
        ck_assert_str_eq(text, "2 1 1 4 1");
        sql_run("DROP VIEW jobs_seen; CREATE VIEW jobs_seen AS SELECT id, state FROM jobs");
        store = open_store(JOB_STORE_SYNC_FULL); /* that of another version is replaced */
        job_store_sqlite.close(&store);
    }
    folder_remove();
}

TEST(people_find_bodies_of_any_length)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    static const size_t lengths[] = {0, 1, 511, 512, 513, 9000};
    static char body[9001], got[9001];
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        memset(body, 'b', lengths[i]);
        body[lengths[i]] = '\0';
        put_one(store, i + 1, body);
    }
    char text[200];
    static const char all[] =
        "SELECT group_concat(id || ':' || bytes || ':' || length(text), ' ')"
        " FROM jobs JOIN (SELECT id AS body_of, body AS text FROM bodies) ON body_of = id";
    sql_text(all, text, sizeof(text));
    ck_assert_str_eq(text, "1:0:0 2:1:1 3:511:511 4:512:512 5:513:513 6:9000:9000");
    sql_text("SELECT length(body) FROM bodies WHERE id = 5", text, sizeof(text));
    ck_assert_str_eq(text, "513");
    struct job_changing now = {.state = JOB_BURIED, .pri = 9};
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    for (uint64_t id = 1; id <= ARRAY_SIZE(lengths); id++)
        ck_assert(DOES(store, change, id, &now) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    memset(body, 'b', 9000);
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        ck_assert(DOES(store, read_body, i + 1, got, (uint32_t)lengths[i]) == JOB_STORE_OK);
        ck_assert(memcmp(got, body, lengths[i]) == 0);
        ck_assert(DOES(store, read_body, i + 1, got, 2) == JOB_STORE_CORRUPT);
    }
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    for (uint64_t id = 1; id <= ARRAY_SIZE(lengths); id++)
        ck_assert(DOES(store, remove, id) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    sql_text("SELECT count(*) FROM bodies", text, sizeof(text));
    ck_assert_str_eq(text, "0");
    put_one(store, 7, body);
    job_store_sqlite.close(&store);
    sql_run("DELETE FROM large_bodies");
    store = open_store(JOB_STORE_SYNC_FULL);
    ck_assert(DOES(store, read_body, 7, got, 9000) == JOB_STORE_CORRUPT);
    ck_assert_str_eq(store->reason, "a job has no body");
    job_store_sqlite.close(&store);
    folder_remove();
}

/* The store does not look for large bodies while there have been none. */
TEST(a_large_body_goes_with_its_job_also_in_the_next_process)
{
    static char body[514]; /* more than what is kept beside a job */
    char text[200];
    folder_make();
    memset(body, 'b', sizeof(body) - 1);
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    put_one(store, 1, body);
    put_one(store, 2, body);
    for (uint64_t id = 1; id <= 2; id++) {
        ck_assert(DOES(store, begin) == JOB_STORE_OK);
        ck_assert(DOES(store, remove, id) == JOB_STORE_OK);
        ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
        sql_text("SELECT count(*) FROM large_bodies", text, sizeof(text));
        ck_assert_str_eq(text, id == 1 ? "1" : "0");
        job_store_sqlite.close(&store);
        store = open_store(JOB_STORE_SYNC_NORMAL);
    }
    job_store_sqlite.close(&store);
    folder_remove();
}

/* Opens the store in another process, which must refuse. */
static void refuses_elsewhere(const char *at, const char *expected)
{
    int status = 0;
    pid_t child = fork();
    ck_assert(child >= 0);
    if (child == 0) {
        struct job_store_config config = config_of(JOB_STORE_SYNC_FULL);
        struct job_store *second = NULL;
        char reason[JOB_STORE_REASON];
        config.path = at;
        enum job_store_status opened = job_store_sqlite.open(&config, &second, reason);
        _exit(opened == JOB_STORE_LOCKED && !second && strcmp(reason, expected) == 0 ? 0 : 1);
    }
    ck_assert(waitpid(child, &status, 0) == child);
    ck_assert_int_eq(status, 0);
}

TEST(a_second_process_is_refused_and_a_reader_is_not)
{
    char text[100], other[192];
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    put_one(store, 1, "body");
    snprintf(text, sizeof(text), "process %ld uses it", (long)getpid());
    refuses_elsewhere(path, text);
    snprintf(other, sizeof(other), "%s/../%s", folder, path + 5);
    refuses_elsewhere(other, text);
    for (unsigned n = 0; n < 2; n++) {
        snprintf(other, sizeof(other), "%s/other", folder);
        ck_assert((n == 0 ? symlink(path, other) : link(path, other)) == 0);
        refuses_elsewhere(other, "another process uses it, by another path");
        unlink(other);
    }
    unlink(strcat(other, "-lock"));
    sql_text("SELECT id || ' ' || tube || ' ' || state || ' ' || put FROM jobs_seen", text,
             sizeof(text));
    ck_assert_str_eq(text, "1 t ready 1970-01-01 00:00:00");
    job_store_sqlite.close(&store);
    struct stat st;
    ck_assert(stat(path, &st) == 0 && (st.st_mode & 07) == 0);
    folder_remove();
}

/* SQLite would go on in a file that nobody finds any more. */
TEST(a_file_that_is_moved_or_removed_takes_no_commits)
{
    char away[128];
    folder_make();
    snprintf(away, sizeof(away), "%s/away", folder);
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    put_one(store, 1, "body");
    for (unsigned n = 0; n < 2; n++) {
        struct job_record record = {.id = 2 + n, .tube = bytes_of("t")};
        ck_assert(rename(path, away) == 0);
        if (n == 1)
            close(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600)); /* another one */
        ck_assert(DOES(store, begin) == JOB_STORE_OK);
        ck_assert(DOES(store, put, &record, bytes_of("body")) == JOB_STORE_OK);
        ck_assert(DOES(store, commit, 0) == JOB_STORE_IO);
        ck_assert(strstr(store->reason, "moved, removed or replaced") != NULL);
        ck_assert(rename(away, path) == 0);
        put_one(store, 10 + n, "body");
    }
    unlink(path);
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_IO);
    job_store_sqlite.close(&store);
    folder_remove();
}

static void refuses(enum job_store_status expected, const char *part)
{
    struct job_store_config config = config_of(JOB_STORE_SYNC_FULL);
    struct job_store *store = NULL;
    char reason[JOB_STORE_REASON] = "";
    ck_assert_str_eq(job_store_status_word(job_store_sqlite.open(&config, &store, reason)),
                     job_store_status_word(expected));
    ck_assert_ptr_null(store);
    ck_assert_msg(strstr(reason, part) != NULL, "%s", reason);
}

static bool stops(void *arg, const struct job_record *job)
{
    (void)job;
    return --*(int *)arg > 0;
}

TEST(other_files_are_refused_and_left_alone)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    put_one(store, 1, "body");
    job_store_sqlite.close(&store);
    sql_run("PRAGMA user_version = 2");
    refuses(JOB_STORE_NEWER, "newer program has written it (version 2");
    sql_run("PRAGMA user_version = 1; UPDATE jobs SET state = 9");
    store = open_store(JOB_STORE_SYNC_FULL);
    int left = 9;
    struct job_store_visitors visitors = {.arg = &left, .job = stops};
    ck_assert(DOES(store, load, &visitors) == JOB_STORE_CORRUPT);
    ck_assert_ptr_nonnull(strstr(store->reason, "job 1 "));
    job_store_sqlite.close(&store);
    files_remove();

    sql_run("CREATE TABLE mine (x); INSERT INTO mine VALUES (1)");
    refuses(JOB_STORE_CORRUPT, "another program");
    char text[32];
    sql_text("PRAGMA journal_mode", text, sizeof(text));
    ck_assert_str_eq(text, "delete"); /* it was not touched */
    files_remove();

    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    static const char prose[2000] = "this is no database";
    ck_assert(write(fd, prose, sizeof(prose)) == sizeof(prose));
    close(fd);
    refuses(JOB_STORE_CORRUPT, "not a database");
    files_remove();

    ck_assert(mkdir(path, 0700) == 0);
    refuses(JOB_STORE_ACCESS, "cannot open it: Is a directory");
    ck_assert(rmdir(path) == 0);
    files_remove();
    struct job_store_config config = {.path = "jobs"};
    char reason[JOB_STORE_REASON];
    ck_assert(job_store_sqlite.open(&config, &store, reason) == JOB_STORE_ACCESS);
    ck_assert_str_eq(reason, "its path does not begin with /");
    folder_remove();
}

TEST(a_visitor_can_stop)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    put_one(store, 1, "");
    put_one(store, 2, "");
    int left = 1;
    struct job_store_visitors visitors = {.arg = &left, .job = stops};
    ck_assert(DOES(store, load, &visitors) == JOB_STORE_NO_MEMORY);
    left = 3;
    ck_assert(DOES(store, load, &visitors) == JOB_STORE_OK);
    put_one(store, 3, "later"); /* it is as ever */
    job_store_sqlite.close(&store);
    folder_remove();
}

TEST(the_log_stays_short_and_a_reader_only_delays_that)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    char wal[128];
    snprintf(wal, sizeof(wal), "%s-wal", path);
    static char body[100000];
    memset(body, 'b', sizeof(body) - 1);
    struct stat st;
    struct job_store_sizes sizes;
    for (uint64_t id = 1; id <= 100; id++) { /* 10 MB */
        put_one(store, id, body);
        if (DOES(store, tend_ns) <= 0)
            ck_assert(DOES(store, tend, 0) == JOB_STORE_OK);
        ck_assert(stat(wal, &st) == 0 && st.st_size < 4 << 20);
    }
    sqlite3 *reader = NULL;
    ck_assert(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    ck_assert(sqlite3_exec(reader, "BEGIN; SELECT max(id) FROM jobs", NULL, NULL, NULL) ==
              SQLITE_OK);
    for (uint64_t id = 101; id <= 150; id++)
        put_one(store, id, body);
    DOES(store, get_sizes, &sizes);
    ck_assert(sizes.log > 4 << 20 && sizes.file > 14 << 20);
    ck_assert(DOES(store, tend_ns) == 0);
    ck_assert(DOES(store, tend, 5) == JOB_STORE_OK);
    ck_assert(DOES(store, tend_ns) == 5 + SECOND); /* in vain: not at once again */
    sqlite3_close(reader);
    ck_assert(DOES(store, tend, 5 + SECOND) == JOB_STORE_OK);
    DOES(store, get_sizes, &sizes);
    ck_assert(sizes.log == 0 && DOES(store, tend_ns) == INT64_MAX);
    put_one(store, 151, "");
    ck_assert(stat(wal, &st) == 0 && st.st_size <= 4 << 20);
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    for (uint64_t id = 1; id <= 100; id++)
        ck_assert(DOES(store, remove, id) == JOB_STORE_OK);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    DOES(store, get_sizes, &sizes);
    ck_assert(sizes.empty > 9 << 20);
    job_store_sqlite.close(&store);
    folder_remove();
}

TEST(a_normal_commit_is_synced_after_a_second)
{
    char body[8] = "";
    folder_make();
    bad_disk_start(1);
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    ck_assert(DOES(store, tend_ns) == INT64_MAX);
    for (uint64_t id = 1; id <= 2; id++) { /* each commits at 0 */
        put_one(store, id, "body");
        ck_assert(DOES(store, tend_ns) == SECOND);
        ck_assert(DOES(store, tend, SECOND - 1) == JOB_STORE_OK);
        ck_assert(DOES(store, tend_ns) == SECOND);
    }
    ck_assert(DOES(store, tend, SECOND) == JOB_STORE_OK);
    ck_assert(DOES(store, tend_ns) == INT64_MAX);
    for (unsigned n = 0; n < 4; n++) { /* ids are on disk at once */
        uint64_t first, next;
        ck_assert(DOES(store, take_ids, 1000, &first) == JOB_STORE_OK);
        bad_disk_cut();
        job_store_sqlite.close(&store);
        bad_disk_restart();
        store = open_store(JOB_STORE_SYNC_NORMAL);
        ck_assert(DOES(store, take_ids, 1, &next) == JOB_STORE_OK && next >= first + 1000);
    }
    for (uint64_t id = 1; id <= 2; id++)
        ck_assert(DOES(store, read_body, id, body, 4) == JOB_STORE_OK);
    job_store_sqlite.close(&store);
    bad_disk_end();
    folder_remove();
}

TEST(a_normal_commit_is_synced_though_a_reader_holds_up_the_log)
{
    folder_make();
    bad_disk_start(2);
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    put_one(store, 1, "first");
    ck_assert(DOES(store, tend, SECOND) == JOB_STORE_OK);
    sqlite3 *reader = NULL;
    ck_assert(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    ck_assert(sqlite3_exec(reader, "BEGIN; SELECT max(id) FROM jobs", NULL, NULL, NULL) ==
              SQLITE_OK);
    put_one(store, 2, "second");
    put_one(store, 3, "third");
    ck_assert(DOES(store, tend, SECOND) == JOB_STORE_OK);
    bad_disk_cut();
    sqlite3_close(reader);
    job_store_sqlite.close(&store);
    bad_disk_restart();
    store = open_store(JOB_STORE_SYNC_NORMAL);
    char body[6];
    ck_assert(DOES(store, read_body, 3, body, 5) == JOB_STORE_OK);
    ck_assert(DOES(store, read_body, 2, body, 6) == JOB_STORE_OK);
    job_store_sqlite.close(&store);
    bad_disk_end();
    folder_remove();
}

/* ---- copies ---------------------------------------------------------------------------------- */

#define COPY_JOBS 400
#define COPY_BODY 20000u

static void path_beside(char to[128], const char *name)
{
    snprintf(to, 128, "%s/%s", folder, name);
}

static bool has_file(const char *name)
{
    char full[128];
    struct stat st;
    path_beside(full, name);
    return lstat(full, &st) == 0;
}

static void remove_file(const char *name)
{
    char full[128];
    path_beside(full, name);
    ck_assert(unlink(full) == 0);
}

static void put_large(struct job_store *store, uint64_t first, unsigned count, char filler)
{
    static char body[COPY_BODY];
    memset(body, filler, sizeof(body));
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    for (uint64_t id = first; id < first + count; id++) {
        struct job_record job = {.id = id, .tube = bytes_of("t"), .tries_max = JOB_TRIES_OF_TUBE};
        ck_assert(DOES(store, put, &job, bytes_at(body, sizeof(body))) == JOB_STORE_OK);
    }
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
}

/* Copies to the end, with `between` before each piece. Returns the number of pieces. */
static unsigned copy_all(struct job_store *store, const char *name,
                         void (*between)(struct job_store *store, unsigned piece))
{
    struct job_store_copied copied = {0};
    unsigned pieces = 0;
    enum job_store_status status = DOES(store, begin_copy, folder, name);
    ck_assert_msg(status == JOB_STORE_OK, "%s", store->reason);
    while (!copied.whole) {
        ck_assert(!has_file(name));
        if (between)
            between(store, pieces);
        status = DOES(store, copy, &copied);
        ck_assert_msg(status == JOB_STORE_OK, "%s", store->reason);
        ck_assert_uint_le(copied.done, copied.total);
        ck_assert_uint_lt(++pieces, 10000);
    }
    ck_assert(copied.done == copied.total && has_file(name) && !has_file(".jobs.part"));
    return pieces;
}

/* A transaction that changes pages in all of the file. */
static void change_much(struct job_store *store, unsigned piece)
{
    uint64_t gone = 1 + piece * 37 % COPY_JOBS;
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    (void)DOES(store, remove, gone);
    ck_assert(DOES(store, commit, 0) == JOB_STORE_OK);
    put_large(store, 1000 + piece, 1, 'n');
    ck_assert(DOES(store, tend, piece * SECOND) == JOB_STORE_OK);
}

/* Sees that the copy has the same rows as the store. */
static void check_copy(const char *name)
{
    static const char *const sql[] = {
        "SELECT count(*) || ' ' || sum(id) || ' ' || sum(bytes) FROM jobs",
        "SELECT count(*) || ' ' || sum(id) || ' ' || group_concat(substr(body, 1, 1), '')"
        " FROM large_bodies",
        "SELECT next FROM ids",
    };
    char original[96], is[2000], is_copied[2000];
    for (size_t i = 0; i < ARRAY_SIZE(sql); i++) {
        sql_text(sql[i], is, sizeof(is));
        memcpy(original, path, sizeof(path));
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        sql_text(sql[i], is_copied, sizeof(is_copied));
        check_integrity();
        memcpy(path, original, sizeof(path));
        ck_assert_str_eq(is, is_copied);
    }
}

TEST(a_copy_ends_though_each_of_its_pieces_follows_a_transaction)
{
    folder_make();
    struct job_store *store = open_with(
        (struct job_store_config){.path = path, .sync = JOB_STORE_SYNC_NORMAL, .log_bytes = 65536});
    struct job_store_sizes sizes;
    put_large(store, 1, COPY_JOBS, 'o');
    DOES(store, get_sizes, &sizes);
    unsigned idle = copy_all(store, "idle.db", NULL);
    check_copy("idle.db");
    ck_assert_uint_le(idle, sizes.file / 262144 * 5 / 4 + 3);
    unsigned busy = copy_all(store, "busy.db", change_much);
    check_copy("busy.db");
    ck_assert_msg(busy <= idle + idle / 4 + 2, "%u pieces instead of %u", busy, idle);
    job_store_sqlite.close(&store);
    for (size_t i = 0; i < 2; i++) { /* a copy is a store */
        static const char *const names[] = {"idle.db", "busy.db"};
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        store = open_store(JOB_STORE_SYNC_FULL);
        job_store_sqlite.close(&store);
        files_remove();
    }
    snprintf(path, sizeof(path), "%s/jobs", folder);
    folder_remove();
}

TEST(a_copy_that_is_given_up_leaves_nothing)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    struct job_store_copied copied;
    put_large(store, 1, COPY_JOBS, 'o');
    ck_assert(DOES(store, begin_copy, folder, "a.db") == JOB_STORE_OK);
    ck_assert(DOES(store, copy, &copied) == JOB_STORE_OK && !copied.whole && copied.done > 0);
    ck_assert(has_file(".jobs.part") && !has_file("a.db"));
    DOES(store, end_copy);
    ck_assert(!has_file(".jobs.part") && !has_file("a.db"));
    DOES(store, end_copy);
    ck_assert(DOES(store, begin_copy, folder, "a.db") == JOB_STORE_OK);
    job_store_sqlite.close(&store); /* in the midst of one */
    ck_assert(!has_file(".jobs.part"));

    char part[128]; /* of a process that was killed */
    path_beside(part, ".jobs.part");
    for (int i = 0; i < 2; i++) {
        ck_assert(close(open(part, O_CREAT | O_WRONLY, 0600)) == 0);
        if (i == 0)
            job_store_sqlite.forget_copy(path, folder);
        else
            store = open_store(JOB_STORE_SYNC_NORMAL);
    }
    (void)copy_all(store, "a.db", NULL);
    remove_file("a.db");
    job_store_sqlite.close(&store);
    folder_remove();
}

TEST(a_copy_takes_no_name_that_means_something)
{
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    put_one(store, 1, "body");
    static const struct {
        const char *beside, *name;
        enum job_store_status status;
        const char *says;
    } rows[] = {
        {NULL, "jobs", JOB_STORE_EXISTS, "there is such a file already"},
        {"a.db", "a.db", JOB_STORE_EXISTS, "there is such a file already"},
        {"a.db-wal", "a.db", JOB_STORE_EXISTS, "and -wal"},
        {"a.db-journal", "a.db", JOB_STORE_EXISTS, "and -journal"},
        {NULL, "jobs-journal", JOB_STORE_ACCESS, "it ends with -journal"},
        {NULL, "a.db-wal", JOB_STORE_ACCESS, "it ends with -wal"},
        {NULL, "no/folder", JOB_STORE_IO, ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char full[128];
        struct job_store_copied copied = {0};
        if (rows[i].beside) {
            path_beside(full, rows[i].beside);
            ck_assert(symlink("nowhere", full) == 0);
        }
        enum job_store_status status = DOES(store, begin_copy, folder, rows[i].name);
        while (status == JOB_STORE_OK && !copied.whole)
            status = DOES(store, copy, &copied);
        ck_assert_msg(status == rows[i].status && strstr(store->reason, rows[i].says), "%s: %s",
                      rows[i].name, store->reason);
        ck_assert(!has_file(".jobs.part"));
        if (rows[i].beside)
            remove_file(rows[i].beside);
    }
    ck_assert(DOES(store, begin_copy, "/no/such/folder", "a.db") == JOB_STORE_IO);
    job_store_sqlite.close(&store);
    folder_remove();
}

static const char *appears;

static void make_it_appear(struct job_store *store, unsigned piece)
{
    char full[128];
    (void)store, (void)piece;
    path_beside(full, appears);
    (void)unlink(full);
    ck_assert(close(open(full, O_CREAT | O_EXCL | O_WRONLY, 0600)) == 0);
}

TEST(a_copy_replaces_no_file_and_takes_no_other_for_its_own)
{
    static const char *const names[] = {"a.db", ".jobs.part"};
    folder_make();
    struct job_store *store = open_store(JOB_STORE_SYNC_NORMAL);
    put_one(store, 1, "body");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct job_store_copied copied;
        ck_assert(DOES(store, begin_copy, folder, "a.db") == JOB_STORE_OK);
        appears = names[i];
        make_it_appear(store, 0);
        ck_assert(DOES(store, copy, &copied) == JOB_STORE_IO && !copied.whole);
        ck_assert(has_file(names[i]) && !has_file(names[1 - i]));
        remove_file(names[i]);
    }
    job_store_sqlite.close(&store);
    folder_remove();
}

TEST(a_copy_without_room_leaves_nothing_and_harms_no_transaction)
{
    folder_make();
    struct job_store *store = open_with((struct job_store_config){
        .path = path, .sync = JOB_STORE_SYNC_NORMAL, .reserved_space = 65536, .log_bytes = 65536});
    struct job_store_sizes sizes;
    struct job_store_copied copied = {0};
    put_large(store, 1, COPY_JOBS, 'o');
    ck_assert(DOES(store, tend, SECOND) == JOB_STORE_OK);
    DOES(store, get_sizes, &sizes);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {.rlim_cur = sizes.file - 4096, .rlim_max = RLIM_INFINITY};
    ck_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    /* Refused at once, or where that cannot be known before, on the way. */
    enum job_store_status status = DOES(store, begin_copy, folder, "a.db");
    while (status == JOB_STORE_OK && !copied.whole)
        status = DOES(store, copy, &copied);
    ck_assert(status != JOB_STORE_OK);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    ck_assert(!has_file("a.db") && !has_file(".jobs.part") && !DOES(store, is_full));
    put_one(store, 5000, "body");
    (void)copy_all(store, "a.db", NULL);
    remove_file("a.db");
    job_store_sqlite.close(&store);
    folder_remove();
}

/* ---- a disk that fails ----------------------------------------------------------------------- */

TEST(a_transaction_larger_than_the_cache_is_whole_or_not_at_all)
{
    folder_make();
    bad_disk_start(1);
    struct rng rng = rng_start("large", 6);
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    enum { JOBS = 16, BODY = 1 << 20 };
    static char body[BODY], got[BODY];
    memset(body, 'b', sizeof(body));
    put_one(store, 1, "small");
    for (int round = 0; round < 6; round++) {
        bool fails = round < 5;
        bad_disk.fault = round % BAD_DISK_FAULTS;
        bad_disk.fails_at = fails ? bad_disk.calls + rng_below(&rng, JOBS * BODY / 4096) : -1;
        (void)DOES(store, begin);
        for (uint64_t id = 2; id < 2 + JOBS; id++) {
            struct job_record job = {.id = id, .tube = bytes_of("t")};
            (void)DOES(store, put, &job, bytes_at(body, sizeof(body)));
        }
        ck_assert((DOES(store, commit, 0) == JOB_STORE_OK) == !fails);
        ck_assert(DOES(store, read_body, 2, got, BODY) == (fails ? JOB_STORE_NONE : JOB_STORE_OK));
        ck_assert(DOES(store, read_body, 1, got, 5) == JOB_STORE_OK);
    }
    bad_disk_cut();
    job_store_sqlite.close(&store);
    bad_disk_restart();
    store = open_store(JOB_STORE_SYNC_FULL);
    check_integrity();
    for (uint64_t id = 2; id < 2 + JOBS; id++) {
        ck_assert(DOES(store, read_body, id, got, BODY) == JOB_STORE_OK);
        ck_assert(memcmp(got, body, BODY) == 0);
    }
    job_store_sqlite.close(&store);
    bad_disk_end();
    folder_remove();
}

/* ---- full and broken ------------------------------------------------------------------------- */

TEST(a_full_disk_can_be_emptied)
{
    folder_make();
    bad_disk_start(1);
    struct job_store_config config = config_of(JOB_STORE_SYNC_FULL);
    config.reserved_space = 6 << 20;
    bad_disk.capacity = 12 << 20;
    bad_disk.beside = reserve_path;
    struct job_store *store = open_with(config);
    static char body[20000];
    memset(body, 'b', sizeof(body) - 1);
    uint64_t last = 0, jobs = 0;
    int64_t now = 0;
    enum job_store_status status = JOB_STORE_OK;
    while (status == JOB_STORE_OK) {
        struct job_record job = {.id = last + 1, .tube = bytes_of("t")};
        ck_assert(DOES(store, begin) == JOB_STORE_OK);
        (void)DOES(store, put, &job, bytes_of(body));
        status = DOES(store, commit, now);
        if (status != JOB_STORE_OK)
            break;
        last++;
        jobs++;
        (void)DOES(store, tend, now += SECOND);
        ck_assert(last < 1000);
    }
    ck_assert(status == JOB_STORE_FULL && last > 100);
    ck_assert(DOES(store, is_full));
    /* The reserve has 6 MiB. What is written now fits for ever. */
    bad_disk.beside = NULL;
    struct job_record job = {.id = last + 1, .tube = bytes_of("t")};
    ck_assert(DOES(store, begin) == JOB_STORE_OK);
    ck_assert(DOES(store, put, &job, bytes_of("")) == JOB_STORE_FULL);
    ck_assert(DOES(store, commit, now) == JOB_STORE_FULL);
    for (; jobs > 0; jobs--) {
        struct job_changing change = {.state = JOB_BURIED, .due_ns = now};
        ck_assert(DOES(store, begin) == JOB_STORE_OK);
        ck_assert(DOES(store, change, jobs, &change) == JOB_STORE_OK);
        if (jobs > 1)
            ck_assert(DOES(store, change, 1, &change) == JOB_STORE_OK);
        ck_assert(DOES(store, commit, now) == JOB_STORE_OK);
        ck_assert(DOES(store, begin) == JOB_STORE_OK);
        ck_assert(DOES(store, remove, jobs) == JOB_STORE_OK);
        ck_assert(DOES(store, commit, now) == JOB_STORE_OK);
        ck_assert(DOES(store, tend, now) == JOB_STORE_OK);
    }
    /* By then it has its reserve again, and takes jobs. */
    ck_assert(!DOES(store, is_full));
    put_one(store, last + 1, body);
    struct stat st;
    ck_assert(stat(reserve_path, &st) == 0 && st.st_size == 6 << 20);
    job_store_sqlite.close(&store);
    bad_disk_end();
    check_integrity();
    folder_remove();
}

TEST(a_body_that_cannot_be_read_fails_alone)
{
    folder_make();
    bad_disk_start(1);
    struct job_store *store = open_store(JOB_STORE_SYNC_FULL);
    static char body[100000], got[100000];
    memset(body, 'b', sizeof(body) - 1);
    put_one(store, 1, body);
    put_one(store, 2, "small");
    job_store_sqlite.close(&store);
    store = open_store(JOB_STORE_SYNC_FULL); /* with an empty cache */
    char small[5];
    ck_assert(DOES(store, read_body, 2, small, 5) == JOB_STORE_OK);
    bad_disk.reads_fail = true;
    ck_assert(DOES(store, read_body, 1, got, sizeof(body) - 1) == JOB_STORE_IO);
    ck_assert_ptr_nonnull(strstr(store->reason, "cannot read a body"));
    bad_disk.reads_fail = false;
    ck_assert(DOES(store, read_body, 1, got, sizeof(body) - 1) == JOB_STORE_OK);
    ck_assert(memcmp(got, body, sizeof(body) - 1) == 0);
    job_store_sqlite.close(&store);
    bad_disk_end();
    folder_remove();
}

UNIT_MAIN("store")
