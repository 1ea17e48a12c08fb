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
#include <sched.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct job_store *store;
#define DOES(function, ...) (store->does->function(store __VA_OPT__(, ) __VA_ARGS__))
#define OK(...)             ck_assert(DOES(__VA_ARGS__) == JOB_STORE_OK)
#define SECOND              NS_PER_S

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
    struct job_store *opened = NULL;
    char reason[JOB_STORE_REASON] = "";
    enum job_store_status status = job_store_sqlite.open(&config, &opened, reason);
    if (status != JOB_STORE_OK)
        ck_abort_msg("cannot open: %s (%s)", reason, job_store_status_word(status));
    return opened;
}

static struct job_store *open_store(enum job_store_sync sync)
{
    return open_with(config_of(sync));
}

static void begin(enum job_store_sync sync)
{
    folder_make();
    store = open_store(sync);
}

static void end(void)
{
    job_store_sqlite.close(&store);
    folder_remove();
}

/* The next process has the store. */
static void reopen(enum job_store_sync sync)
{
    job_store_sqlite.close(&store);
    store = open_store(sync);
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

/* ---- each function --------------------------------------------------------------------------- */

/* Puts one job in a transaction of its own. */
static void put_one(uint64_t id, const char *body)
{
    struct job_record job = {.id = id, .tube = bytes_of("t"), .tries_max = JOB_TRIES_OF_TUBE};
    OK(begin);
    OK(put, &job, bytes_of(body));
    OK(commit, 0);
}

TEST(ids_are_never_taken_twice_and_are_above_all_jobs)
{
    begin(JOB_STORE_SYNC_NORMAL);
    uint64_t first = 0;
    OK(take_ids, 1000, &first);
    ck_assert_uint_eq(first, 1);
    OK(take_ids, 1000, &first);
    ck_assert_uint_eq(first, 1001);
    put_one(5000, "x");
    reopen(JOB_STORE_SYNC_FULL);
    OK(take_ids, 1, &first);
    ck_assert_uint_eq(first, 5001);
    ck_assert(DOES(take_ids, INT64_MAX, &first) == JOB_STORE_CORRUPT);
    OK(take_ids, 1, &first);
    ck_assert_uint_eq(first, 5002);
    end();
}

/* Times that come after each other, and what is kept then; kept_forget_ns 0: nothing. */
struct times {
    int64_t time_ns, forget_ns, kept_ns, kept_forget_ns;
};

static void check_kept(const struct times *times)
{
    struct job_memory kept = {.tube = bytes_of("t"), .name = bytes_of("k")};
    enum job_store_status status = DOES(recall, JOB_MEMORY_EXECUTION, &kept);
    ck_assert(status == (times->kept_forget_ns ? JOB_STORE_OK : JOB_STORE_NONE));
    ck_assert(kept.time_ns == times->kept_ns && kept.forget_ns == times->kept_forget_ns);
}

TEST(an_execution_replaces_that_of_before)
{
    static const struct times executed[] = {
        {100, JOB_STORE_KEEP, 100, JOB_STORE_KEEP},
        {JOB_STORE_NO_TIME, 8, 100, 8},
        {99, 6, 99, 6},
        {101, 9, 101, 9},
    };
    const struct job_record jobs[] = {{.id = 1, .tube = bytes_of("t"), .key = bytes_of("k")},
                                      {.id = 2, .tube = bytes_of("t"), .root = bytes_of("r")}};
    begin(JOB_STORE_SYNC_FULL);
    OK(begin);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        OK(put, &jobs[i], bytes_of(""));
    ck_assert(DOES(execute, 1, JOB_STORE_NO_TIME, 5) == JOB_STORE_NONE);
    check_kept(&(struct times){.kept_ns = 0});
    for (size_t i = 0; i < ARRAY_SIZE(executed); i++) { /* by the id of a job */
        OK(execute, 1, executed[i].time_ns, executed[i].forget_ns);
        check_kept(&executed[i]);
    }
    for (unsigned i = 0; i < 2; i++) { /* job 2 has no key */
        int64_t time_ns = i == 0 ? JOB_STORE_NO_TIME : 200;
        ck_assert(DOES(execute, 2, time_ns, 1) == JOB_STORE_NONE);
        ck_assert(DOES(execute, 3, time_ns, 1) == JOB_STORE_NONE);
        ck_assert(DOES(execute, UINT64_MAX, time_ns, 1) == JOB_STORE_NONE);
    }
    OK(remove, 1); /* the usual order: execute, remove */
    ck_assert(DOES(execute, 1, 200, 1) == JOB_STORE_NONE);
    OK(commit, 0);
    job_store_sqlite.close(&store);
    /* What names one job touches one row. */
    char text[200];
    sql_text("SELECT group_concat(tube || ' ' || name || ' ' || time || ' ' || forget)"
             " FROM executions",
             text, sizeof(text));
    ck_assert_str_eq(text, "t k 101 9");
    folder_remove();
}

static void put_in_state(uint64_t id, enum job_state state, int64_t due_ns)
{
    const struct job_record job = {
        .id = id,
        .tube = bytes_of("t"),
        .tries_max = id % 2 ? 1 : JOB_TRIES_OF_TUBE,
        .now = {.state = state, .due_ns = due_ns, .token = state == JOB_RESERVED, .tries = 1}};
    OK(put, &job, bytes_of(""));
}

TEST(people_see_states_by_the_clock)
{
    folder_make();
    const int64_t past = 1000 * NS_PER_S, future = INT64_C(4000000000) * NS_PER_S;
    store = open_store(JOB_STORE_SYNC_FULL);
    OK(begin);
    put_in_state(1, JOB_READY, 0);
    put_in_state(2, JOB_DELAYED, past);
    put_in_state(3, JOB_DELAYED, future);
    put_in_state(4, JOB_RESERVED, past);
    put_in_state(5, JOB_RESERVED, past); /* its last try */
    put_in_state(6, JOB_RESERVED, future);
    put_in_state(7, JOB_RESERVED, 0); /* until a connection ends */
    put_in_state(8, JOB_BURIED, past);
    put_in_state(9, JOB_ABANDONED, past);
    OK(commit, 0);
    job_store_sqlite.close(&store);
    for (unsigned n = 0; n < 2; n++) {
        char text[200];
        sql_text("SELECT group_concat(state, ' ') FROM (SELECT state FROM jobs_seen ORDER BY id)",
                 text, sizeof(text));
        ck_assert_str_eq(text,
                         "ready ready delayed ready abandoned reserved ready buried abandoned");
        sql_text("SELECT group_concat(id, ' ') FROM jobs_seen WHERE due IS NULL", text,
                 sizeof(text));
        ck_assert_str_eq(text, "1 7"); /* nothing is due, or when a connection ends */
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

/* Large bodies are apart. The store does not look for them while there have been none. */
TEST(people_find_bodies_of_any_length_until_their_jobs_go)
{
    static const size_t lengths[] = {0, 1, 511, 512, 513, 9000};
    static char body[9001], got[9001];
    char text[200];
    begin(JOB_STORE_SYNC_NORMAL);
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        memset(body, 'b', lengths[i]);
        body[lengths[i]] = '\0';
        put_one(i + 1, body);
    }
    sql_text("SELECT group_concat(id || ':' || bytes || ':' || length(text), ' ')"
             " FROM jobs JOIN (SELECT id AS body_of, body AS text FROM bodies) ON body_of = id",
             text, sizeof(text));
    ck_assert_str_eq(text, "1:0:0 2:1:1 3:511:511 4:512:512 5:513:513 6:9000:9000");
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        OK(read_body, i + 1, got, (uint32_t)lengths[i]);
        ck_assert(memcmp(got, body, lengths[i]) == 0);
        ck_assert(DOES(read_body, i + 1, got, 2) == JOB_STORE_CORRUPT);
        OK(begin);
        OK(remove, i + 1);
        OK(commit, 0);
        if (lengths[i] > 512)
            reopen(JOB_STORE_SYNC_NORMAL);
    }
    sql_text("SELECT count(*) FROM bodies", text, sizeof(text));
    ck_assert_str_eq(text, "0");
    put_one(7, body);
    job_store_sqlite.close(&store);
    sql_run("DELETE FROM large_bodies");
    store = open_store(JOB_STORE_SYNC_FULL);
    ck_assert(DOES(read_body, 7, got, 9000) == JOB_STORE_CORRUPT);
    ck_assert_str_eq(store->reason, "a job has no body");
    end();
}

/* Opens the store in another process, which must refuse; `apart`: one that cannot see this one,
 * where that is allowed. */
static void refuses_elsewhere(const char *at, const char *expected, bool apart)
{
    int status = 0;
    pid_t child = fork();
    ck_assert(child >= 0);
    if (child == 0 && apart) {
        if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
            _exit(0);
        if ((child = fork()) != 0)
            _exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
    }
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
    begin(JOB_STORE_SYNC_FULL);
    put_one(1, "body");
    snprintf(text, sizeof(text), "process %ld uses it", (long)getpid());
    refuses_elsewhere(path, text, false);
    refuses_elsewhere(path, "another process uses it", true);
    snprintf(other, sizeof(other), "%s/../%s", folder, path + 5);
    refuses_elsewhere(other, text, false);
    for (unsigned n = 0; n < 2; n++) {
        snprintf(other, sizeof(other), "%s/other", folder);
        ck_assert((n == 0 ? symlink(path, other) : link(path, other)) == 0);
        refuses_elsewhere(other, "another process uses it, by another path", false);
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
    store = open_store(JOB_STORE_SYNC_NORMAL);
    put_one(1, "body");
    for (unsigned n = 0; n < 2; n++) {
        struct job_record record = {.id = 2 + n, .tube = bytes_of("t")};
        ck_assert(rename(path, away) == 0);
        if (n == 1)
            close(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600)); /* another one */
        OK(begin);
        OK(put, &record, bytes_of("body"));
        ck_assert(DOES(commit, 0) == JOB_STORE_IO);
        ck_assert(strstr(store->reason, "moved, removed or replaced") != NULL);
        ck_assert(rename(away, path) == 0);
        put_one(10 + n, "body");
    }
    unlink(path);
    OK(begin);
    ck_assert(DOES(commit, 0) == JOB_STORE_IO);
    end();
}

static void refuses(enum job_store_status expected, const char *part)
{
    struct job_store_config config = config_of(JOB_STORE_SYNC_FULL);
    struct job_store *opened = NULL;
    char reason[JOB_STORE_REASON] = "";
    ck_assert_str_eq(job_store_status_word(job_store_sqlite.open(&config, &opened, reason)),
                     job_store_status_word(expected));
    ck_assert_ptr_null(opened);
    ck_assert_msg(strstr(reason, part) != NULL, "%s", reason);
}

static bool stops(void *arg, const struct job_record *job)
{
    (void)job;
    return --*(int *)arg > 0;
}

TEST(other_files_are_refused_and_left_alone)
{
    begin(JOB_STORE_SYNC_FULL);
    put_one(1, "body");
    job_store_sqlite.close(&store);
    sql_run("PRAGMA user_version = 2");
    refuses(JOB_STORE_NEWER, "newer program has written it (version 2");
    sql_run("PRAGMA user_version = 1; UPDATE jobs SET state = 9");
    store = open_store(JOB_STORE_SYNC_FULL);
    int left = 9;
    struct job_store_visitors visitors = {.arg = &left, .job = stops};
    ck_assert(DOES(load, &visitors) == JOB_STORE_CORRUPT);
    ck_assert_ptr_nonnull(strstr(store->reason, "job 1 "));
    job_store_sqlite.close(&store);
    files_remove();

    sql_run("CREATE TABLE mine (x); INSERT INTO mine VALUES (1)");
    refuses(JOB_STORE_CORRUPT, "another program");
    char text[32];
    sql_text("PRAGMA journal_mode", text, sizeof(text));
    ck_assert_str_eq(text, "delete"); /* it was not touched */
    folder_remove();
}

TEST(the_log_stays_short_and_a_reader_only_delays_that)
{
    begin(JOB_STORE_SYNC_FULL);
    char wal[128];
    snprintf(wal, sizeof(wal), "%s-wal", path);
    static char body[100000];
    memset(body, 'b', sizeof(body) - 1);
    struct stat st;
    struct job_store_sizes sizes;
    for (uint64_t id = 1; id <= 100; id++) { /* 10 MB */
        put_one(id, body);
        if (DOES(tend_ns) <= 0)
            OK(tend, 0);
        ck_assert(stat(wal, &st) == 0 && st.st_size < 4 << 20);
    }
    sqlite3 *reader = NULL;
    ck_assert(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    ck_assert(sqlite3_exec(reader, "BEGIN; SELECT max(id) FROM jobs", NULL, NULL, NULL) ==
              SQLITE_OK);
    for (uint64_t id = 101; id <= 150; id++)
        put_one(id, body);
    DOES(get_sizes, &sizes);
    ck_assert(sizes.log > 4 << 20 && sizes.file > 14 << 20);
    ck_assert(DOES(tend_ns) == 0);
    OK(tend, 5);
    ck_assert(DOES(tend_ns) == 5 + SECOND); /* in vain: not at once again */
    sqlite3_close(reader);
    OK(tend, 5 + SECOND);
    DOES(get_sizes, &sizes);
    ck_assert(sizes.log == 0 && DOES(tend_ns) == INT64_MAX);
    put_one(151, "");
    ck_assert(stat(wal, &st) == 0 && st.st_size <= 4 << 20);
    OK(begin);
    for (uint64_t id = 1; id <= 100; id++)
        OK(remove, id);
    OK(commit, 0);
    DOES(get_sizes, &sizes);
    ck_assert(sizes.empty > 9 << 20);
    end();
}

TEST(a_normal_commit_is_synced_after_a_second)
{
    char body[8] = "";
    folder_make();
    bad_disk_start(1);
    store = open_store(JOB_STORE_SYNC_NORMAL);
    ck_assert(DOES(tend_ns) == INT64_MAX);
    for (uint64_t id = 1; id <= 2; id++) { /* each commits at 0 */
        put_one(id, "body");
        ck_assert(DOES(tend_ns) == SECOND);
        OK(tend, SECOND - 1);
        ck_assert(DOES(tend_ns) == SECOND);
    }
    OK(tend, SECOND);
    ck_assert(DOES(tend_ns) == INT64_MAX);
    for (unsigned n = 0; n < 4; n++) { /* ids are on disk at once */
        uint64_t first, next;
        OK(take_ids, 1000, &first);
        bad_disk_cut();
        job_store_sqlite.close(&store);
        bad_disk_restart();
        store = open_store(JOB_STORE_SYNC_NORMAL);
        ck_assert(DOES(take_ids, 1, &next) == JOB_STORE_OK && next >= first + 1000);
    }
    for (uint64_t id = 1; id <= 2; id++)
        OK(read_body, id, body, 4);
    job_store_sqlite.close(&store);
    bad_disk_end();
    folder_remove();
}

TEST(a_normal_commit_is_synced_though_a_reader_holds_up_the_log)
{
    folder_make();
    bad_disk_start(2);
    store = open_store(JOB_STORE_SYNC_NORMAL);
    put_one(1, "first");
    OK(tend, SECOND);
    sqlite3 *reader = NULL;
    ck_assert(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    ck_assert(sqlite3_exec(reader, "BEGIN; SELECT max(id) FROM jobs", NULL, NULL, NULL) ==
              SQLITE_OK);
    put_one(2, "second");
    put_one(3, "third");
    OK(tend, SECOND);
    bad_disk_cut();
    sqlite3_close(reader);
    job_store_sqlite.close(&store);
    bad_disk_restart();
    store = open_store(JOB_STORE_SYNC_NORMAL);
    char body[6];
    OK(read_body, 3, body, 5);
    OK(read_body, 2, body, 6);
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

static void put_large(uint64_t first, unsigned count, char filler)
{
    static char body[COPY_BODY];
    memset(body, filler, sizeof(body));
    OK(begin);
    for (uint64_t id = first; id < first + count; id++) {
        struct job_record job = {.id = id, .tube = bytes_of("t"), .tries_max = JOB_TRIES_OF_TUBE};
        OK(put, &job, bytes_at(body, sizeof(body)));
    }
    OK(commit, 0);
}

/* Copies to the end, with `between` before each piece. Returns the number of pieces. */
static unsigned copy_all(const char *name, void (*between)(unsigned piece))
{
    struct job_store_copied copied = {0};
    unsigned pieces = 0;
    enum job_store_status status = DOES(begin_copy, folder, name);
    ck_assert_msg(status == JOB_STORE_OK, "%s", store->reason);
    while (!copied.whole) {
        ck_assert(!has_file(name));
        if (between)
            between(pieces);
        status = DOES(copy, &copied);
        ck_assert_msg(status == JOB_STORE_OK, "%s", store->reason);
        ck_assert_uint_le(copied.done, copied.total);
        ck_assert_uint_lt(++pieces, 10000);
    }
    ck_assert(copied.done == copied.total && has_file(name) && !has_file(".jobs.part"));
    return pieces;
}

/* A transaction that changes pages in all of the file. */
static void change_much(unsigned piece)
{
    uint64_t gone = 1 + piece * 37 % COPY_JOBS;
    OK(begin);
    (void)DOES(remove, gone);
    OK(commit, 0);
    put_large(1000 + piece, 1, 'n');
    OK(tend, piece * SECOND);
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
    store = open_with(
        (struct job_store_config){.path = path, .sync = JOB_STORE_SYNC_NORMAL, .log_bytes = 65536});
    struct job_store_sizes sizes;
    put_large(1, COPY_JOBS, 'o');
    DOES(get_sizes, &sizes);
    unsigned idle = copy_all("idle.db", NULL);
    check_copy("idle.db");
    ck_assert_uint_le(idle, sizes.file / 262144 * 5 / 4 + 3);
    unsigned busy = copy_all("busy.db", change_much);
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

static const char *appears;

static void make_it_appear(void)
{
    char full[128];
    path_beside(full, appears);
    (void)unlink(full);
    ck_assert(close(open(full, O_CREAT | O_EXCL | O_WRONLY, 0600)) == 0);
}

TEST(a_copy_replaces_no_file_and_takes_no_other_for_its_own)
{
    static const char *const names[] = {"a.db", ".jobs.part"};
    begin(JOB_STORE_SYNC_NORMAL);
    put_one(1, "body");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct job_store_copied copied;
        OK(begin_copy, folder, "a.db");
        appears = names[i];
        make_it_appear();
        ck_assert(DOES(copy, &copied) == JOB_STORE_IO && !copied.whole);
        ck_assert(has_file(names[i]) && !has_file(names[1 - i]));
        remove_file(names[i]);
    }
    end();
}

TEST(a_copy_without_room_leaves_nothing_and_harms_no_transaction)
{
    folder_make();
    store = open_with((struct job_store_config){
        .path = path, .sync = JOB_STORE_SYNC_NORMAL, .reserved_space = 65536, .log_bytes = 65536});
    struct job_store_sizes sizes;
    struct job_store_copied copied = {0};
    put_large(1, COPY_JOBS, 'o');
    OK(tend, SECOND);
    DOES(get_sizes, &sizes);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {.rlim_cur = sizes.file - 4096, .rlim_max = RLIM_INFINITY};
    ck_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    /* Refused at once, or where that cannot be known before, on the way. */
    enum job_store_status status = DOES(begin_copy, folder, "a.db");
    while (status == JOB_STORE_OK && !copied.whole)
        status = DOES(copy, &copied);
    ck_assert(status != JOB_STORE_OK);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    ck_assert(!has_file("a.db") && !has_file(".jobs.part") && !DOES(is_full));
    put_one(5000, "body");
    (void)copy_all("a.db", NULL);
    remove_file("a.db");
    end();
}

/* ---- a disk that fails ----------------------------------------------------------------------- */

TEST(a_transaction_larger_than_the_cache_is_whole_or_not_at_all)
{
    folder_make();
    bad_disk_start(1);
    struct rng rng = rng_start("large", 6);
    store = open_store(JOB_STORE_SYNC_FULL);
    enum { JOBS = 16, BODY = 1 << 20 };
    static char body[BODY], got[BODY];
    memset(body, 'b', sizeof(body));
    put_one(1, "small");
    for (int round = 0; round < 6; round++) {
        bool fails = round < 5;
        bad_disk.fault = round % BAD_DISK_FAULTS;
        bad_disk.fails_at = fails ? bad_disk.calls + rng_below(&rng, JOBS * BODY / 4096) : -1;
        (void)DOES(begin);
        for (uint64_t id = 2; id < 2 + JOBS; id++) {
            struct job_record job = {.id = id, .tube = bytes_of("t")};
            (void)DOES(put, &job, bytes_at(body, sizeof(body)));
        }
        ck_assert((DOES(commit, 0) == JOB_STORE_OK) == !fails);
        ck_assert(DOES(read_body, 2, got, BODY) == (fails ? JOB_STORE_NONE : JOB_STORE_OK));
        OK(read_body, 1, got, 5);
    }
    bad_disk_cut();
    job_store_sqlite.close(&store);
    bad_disk_restart();
    store = open_store(JOB_STORE_SYNC_FULL);
    check_integrity();
    for (uint64_t id = 2; id < 2 + JOBS; id++) {
        OK(read_body, id, got, BODY);
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
    store = open_with(config);
    static char body[20000];
    memset(body, 'b', sizeof(body) - 1);
    uint64_t last = 0, jobs = 0;
    int64_t now = 0;
    enum job_store_status status = JOB_STORE_OK;
    while (status == JOB_STORE_OK) {
        struct job_record job = {.id = last + 1, .tube = bytes_of("t")};
        OK(begin);
        (void)DOES(put, &job, bytes_of(body));
        status = DOES(commit, now);
        if (status != JOB_STORE_OK)
            break;
        last++;
        jobs++;
        (void)DOES(tend, now += SECOND);
        ck_assert(last < 1000);
    }
    ck_assert(status == JOB_STORE_FULL && last > 100);
    ck_assert(DOES(is_full));
    /* The reserve has 6 MiB. What is written now fits for ever. */
    bad_disk.beside = NULL;
    struct job_record job = {.id = last + 1, .tube = bytes_of("t")};
    OK(begin);
    ck_assert(DOES(put, &job, bytes_of("")) == JOB_STORE_FULL);
    ck_assert(DOES(commit, now) == JOB_STORE_FULL);
    for (; jobs > 0; jobs--) {
        struct job_changing change = {.state = JOB_BURIED, .due_ns = now};
        OK(begin);
        OK(change, jobs, &change);
        if (jobs > 1)
            OK(change, 1, &change);
        OK(commit, now);
        OK(begin);
        OK(remove, jobs);
        OK(commit, now);
        OK(tend, now);
    }
    /* By then it has its reserve again, and takes jobs. */
    ck_assert(!DOES(is_full));
    put_one(last + 1, body);
    struct stat st;
    ck_assert(stat(reserve_path, &st) == 0 && st.st_size == 6 << 20);
    job_store_sqlite.close(&store);
    bad_disk_end();
    check_integrity();
    folder_remove();
}

UNIT_MAIN("store")
