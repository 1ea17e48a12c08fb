/*
 * store_sqlite_open.c - jobs in a file of SQLite: its tables and statements; opening and closing.
 */
#include "jobs/store_sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x636a6f62 /* "cjob" */
#define SCHEMA_VERSION 1
#define LOG_BYTES      (2u << 20)  /* so much in the log is written to the file */
#define LOG_KEPT       (4u << 20)  /* bytes of the log that stay on disk, to be written again */
#define CHUNK_BYTES    (256 << 10) /* the file grows by so much */

/* The numbers of states in the file are those of enum job_state. */
_Static_assert(JOB_READY == 0 && JOB_DELAYED == 1 && JOB_RESERVED == 2 && JOB_BURIED == 3 &&
                   JOB_ABANDONED == 4,
               "store.md and the view jobs_seen have these");
_Static_assert(SMALL_BODY == 512, "store.md has this number");

static const char schema[] =
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, tube TEXT NOT NULL, state INTEGER NOT NULL,"
    " pri INTEGER NOT NULL, delay INTEGER NOT NULL, ttr INTEGER NOT NULL, put INTEGER NOT NULL,"
    " due INTEGER NOT NULL, began INTEGER NOT NULL, token INTEGER NOT NULL,"
    " tries INTEGER NOT NULL, tries_max INTEGER, reserves INTEGER NOT NULL,"
    " timeouts INTEGER NOT NULL, releases INTEGER NOT NULL, buries INTEGER NOT NULL,"
    " kicks INTEGER NOT NULL, bytes INTEGER NOT NULL, key TEXT, at INTEGER NOT NULL, root TEXT,"
    " root_time INTEGER NOT NULL, body BLOB) STRICT;"
    "CREATE TABLE large_bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;"
    "CREATE VIEW bodies AS SELECT id, body FROM jobs WHERE body IS NOT NULL"
    " UNION ALL SELECT id, body FROM large_bodies;"
    "CREATE TABLE tubes (name TEXT PRIMARY KEY, job_order INTEGER, claim INTEGER, tries INTEGER,"
    " job_limit INTEGER, prune INTEGER, remember INTEGER, read_only TEXT, pause INTEGER NOT NULL,"
    " paused_until INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE executions (tube TEXT NOT NULL, name TEXT NOT NULL, time INTEGER NOT NULL,"
    " forget INTEGER, PRIMARY KEY (tube, name)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX executions_forget ON executions (forget) WHERE forget IS NOT NULL;"
    "CREATE TABLE roots (tube TEXT NOT NULL, name TEXT NOT NULL, time INTEGER NOT NULL,"
    " forget INTEGER, PRIMARY KEY (tube, name)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX roots_forget ON roots (forget) WHERE forget IS NOT NULL;"
    "CREATE TABLE ids (next INTEGER NOT NULL) STRICT;"
    "INSERT INTO ids VALUES (1);";

/* For people. The file is not written when a delay or a lease ends, nor for all that connections
 * reserve: so the clock says the state, and what a connection has counts as ready. */
static const char view[] =
    "CREATE VIEW jobs_seen AS SELECT id, tube, CASE WHEN state = 3 THEN 'buried'"
    " WHEN state = 4 THEN 'abandoned' WHEN state = 1 AND due > now THEN 'delayed'"
    " WHEN state = 2 AND due > now THEN 'reserved' WHEN state = 2 AND due > 0 AND tries >="
    " nullif(coalesce(tries_max, (SELECT tubes.tries FROM tubes WHERE name = tube)), 0)"
    " THEN 'abandoned' ELSE 'ready' END AS state, pri, tries, bytes,"
    " datetime(put / 1000000000, 'unixepoch') AS put,"
    " CASE due WHEN 0 THEN NULL ELSE datetime(due / 1000000000, 'unixepoch') END AS due,"
    " key, root FROM jobs, (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    " * 1000000 AS now)";

/* A statement for executions, and for roots. */
#define TWICE(which, before, after)                                                                \
    [which] = before "executions" after, [(which) + 1] = before "roots" after

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PUT] = "INSERT INTO jobs VALUES (?1, ?15, ?2, ?3, ?4, ?16, ?17, ?5, ?6, ?7, ?8, ?18, ?9, ?10,"
            " ?11, ?12, ?13, ?19, ?20, ?14, ?21, ?22, ?23)",
    [PUT_LARGE] = "INSERT INTO large_bodies VALUES (?1, ?2)",
    [CHANGE] = "UPDATE jobs SET state = ?2, pri = ?3, delay = ?4, due = ?5, began = ?6, token = ?7,"
               " tries = ?8, reserves = ?9, timeouts = ?10, releases = ?11, buries = ?12,"
               " kicks = ?13, at = ?14, root_time = ?22 WHERE id = ?1",
    [REMOVE] = "DELETE FROM jobs WHERE id = ?1",
    [REMOVE_LARGE] = "DELETE FROM large_bodies WHERE id = ?1",
    [READ_BODY] = "SELECT coalesce(body, (SELECT body FROM large_bodies WHERE id = ?1)) FROM jobs "
                  "WHERE id = ?1",
    [SET_TUBE] = "REPLACE INTO tubes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    [FORGET_TUBE] = "DELETE FROM tubes WHERE name = ?1",
    [EXECUTE] = "INSERT INTO executions SELECT tube, key, ?2, ?3 FROM jobs"
                " WHERE id = ?1 AND key IS NOT NULL ON CONFLICT DO UPDATE"
                " SET time = excluded.time, forget = excluded.forget",
    [KEEP_EXECUTION] = "UPDATE executions SET forget = ?3"
                       " WHERE (tube, name) = (SELECT tube, key FROM jobs WHERE id = ?1)",
    TWICE(REMEMBER, "INSERT INTO ",
          " VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE"
          " SET time = excluded.time, forget = excluded.forget WHERE time <= excluded.time"),
    TWICE(RECALL, "SELECT time, forget FROM ", " WHERE tube = ?1 AND name = ?2"),
    TWICE(FORGET, "DELETE FROM ", " WHERE tube = ?1 AND name = ?2"),
    [FORGET_OLD] = "DELETE FROM executions WHERE (tube, name) IN (SELECT tube, name FROM executions"
                   " WHERE forget <= ?1 ORDER BY forget LIMIT ?2)",
    [FORGET_OLD + 1] = "DELETE FROM roots WHERE (tube, name) IN (SELECT tube, name FROM roots"
                       " WHERE forget <= ?1 ORDER BY forget LIMIT ?2)",
    TWICE(LOAD_MEMORY, "SELECT tube, name, time, forget FROM ", ""),
    [LOAD_TUBES] = "SELECT * FROM tubes",
    [LOAD_JOBS] = "SELECT * FROM jobs ORDER BY id",
    [GET_IDS] = "SELECT max(next, 1 + coalesce((SELECT max(id) FROM jobs), 0)) FROM ids",
    [SET_IDS] = "UPDATE ids SET next = ?1",
    [COUNT_PAGES] = "PRAGMA page_count",
    [COUNT_EMPTY] = "PRAGMA freelist_count",
};

/* ---- opening and closing --------------------------------------------------------------------- */

/* Runs constant SQL without rows of interest. */
static enum job_store_status run_text(struct sqlite_store *s, const char *sql, const char *doing)
{
    int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? JOB_STORE_OK : store_fail_sqlite(s, code, doing);
}

/* Opens a file whose name is the path and an ending. Returns a descriptor, or -1 with errno. */
static int open_beside(const char *path, const char *ending)
{
    char *name = NULL;
    if (asprintf(&name, "%s%s", path, ending) < 0) {
        errno = ENOMEM;
        return -1;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, FILE_MODE);
    int error = errno;
    free(name);
    errno = error;
    return fd;
}

static enum job_store_status take_lock(struct sqlite_store *s, const char *path)
{
    s->lock = open_beside(path, "-lock");
    if (s->lock < 0)
        return errno == ENOENT
                   ? store_fail_because(s, JOB_STORE_ACCESS,
                                        "No such file or directory: make its folder, and "
                                        "give it to the user that counterd runs as")
                   : store_fail_system(s, errno, "cannot open the lock file beside it");
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(s->lock, F_SETLK, &all) == 0)
        return JOB_STORE_OK;
    if (errno != EAGAIN && errno != EACCES)
        return store_fail_system(s, errno, "cannot lock the lock file beside it");
    if (fcntl(s->lock, F_GETLK, &all) == 0 && all.l_type != F_UNLCK && all.l_pid > 0)
        snprintf(s->store.reason, sizeof(s->store.reason), "process %ld uses it", (long)all.l_pid);
    else
        snprintf(s->store.reason, sizeof(s->store.reason), "another process uses it");
    return JOB_STORE_LOCKED;
}

/* The byte of the file that is locked; SQLite locks those around 2^30. */
#define LOCKED_BYTE (INT64_MAX - 1)

/* Makes the file, so that it has the right mode, or sees that it is one; and locks it. */
static enum job_store_status take_file(struct sqlite_store *s)
{
    struct stat st;
    struct flock byte = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKED_BYTE, .l_len = 1};
    s->file = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, FILE_MODE);
    if (s->file < 0)
        return store_fail_system(s, errno, "cannot open it");
    if (fstat(s->file, &st) != 0 || !S_ISREG(st.st_mode))
        return store_fail_because(s, JOB_STORE_ACCESS, "it is not a regular file");
    s->device = st.st_dev;
    s->inode = st.st_ino;
    if (fcntl(s->file, F_OFD_SETLK, &byte) == 0)
        return JOB_STORE_OK;
    if (errno != EAGAIN && errno != EACCES)
        return store_fail_system(s, errno, "cannot lock it");
    return store_fail_because(s, JOB_STORE_LOCKED, "another process uses it, by another path");
}

static enum job_store_status open_reserve(struct sqlite_store *s, const char *path)
{
    if (s->reserved_space == 0)
        return JOB_STORE_OK;
    s->reserve = open_beside(path, "-reserve");
    if (s->reserve < 0)
        return store_fail_system(s, errno, "cannot open the file beside it that reserves space");
    store_take_reserve(s);
    return JOB_STORE_OK;
}

static enum job_store_status open_database(struct sqlite_store *s, const char *path)
{
    int code = sqlite3_open_v2(path, &s->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                   SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                               NULL);
    if (code != SQLITE_OK)
        return store_fail_sqlite(s, code, "cannot open it");
    static const struct {
        int what, value;
    } limits[] =
        {
            {SQLITE_LIMIT_LENGTH, JOB_BODY_MAX + (64 << 10)}, /* a body and its row */
            {SQLITE_LIMIT_SQL_LENGTH, 16 << 10},
            {SQLITE_LIMIT_COLUMN, 64},
            {SQLITE_LIMIT_EXPR_DEPTH, 32},
            {SQLITE_LIMIT_COMPOUND_SELECT, 2},
            {SQLITE_LIMIT_FUNCTION_ARG, 8},
            {SQLITE_LIMIT_VARIABLE_NUMBER, 32},
            {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
            {SQLITE_LIMIT_ATTACHED, 0},
            {SQLITE_LIMIT_WORKER_THREADS, 0},
        },
      switches[] = {
          {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
          {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_DQS_DML, 0},
          {SQLITE_DBCONFIG_DQS_DDL, 0},
      };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        sqlite3_limit(s->db, limits[i].what, limits[i].value);
    for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
        sqlite3_db_config(s->db, switches[i].what, switches[i].value, NULL);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    int chunk = CHUNK_BYTES;
    (void)sqlite3_file_control(s->db, "main", SQLITE_FCNTL_CHUNK_SIZE, &chunk);
    return run_text(s,
                    "PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192;"
                    "PRAGMA cell_size_check = ON; PRAGMA secure_delete = FAST;",
                    "cannot read it");
}

/* Reads a number by a statement that is used once. */
static enum job_store_status head_number(struct sqlite_store *s, const char *sql, int64_t *value_r)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        *value_r = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
    }
    enum job_store_status status =
        code == SQLITE_OK ? JOB_STORE_OK : store_fail_sqlite(s, code, "cannot read it");
    sqlite3_finalize(statement);
    return status;
}

/* Makes the view, or replaces that of another version. */
static enum job_store_status make_view(struct sqlite_store *s)
{
    sqlite3_stmt *find = NULL;
    int code = sqlite3_prepare_v2(
        s->db, "SELECT 1 FROM sqlite_schema WHERE name = 'jobs_seen' AND sql = ?1", -1, &find,
        NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(find, 1, view, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(find);
    sqlite3_finalize(find);
    if (code == SQLITE_ROW)
        return JOB_STORE_OK;
    if (code != SQLITE_DONE)
        return store_fail_sqlite(s, code, "cannot read it");
    enum job_store_status status = run_text(s, "DROP VIEW IF EXISTS jobs_seen", "cannot write it");
    return status == JOB_STORE_OK ? run_text(s, view, "cannot make its view") : status;
}

/* The same in a file that has its tables. Only people miss it when that fails. */
static void renew_view(struct sqlite_store *s)
{
    if (run_text(s, "BEGIN IMMEDIATE", "cannot write it") != JOB_STORE_OK)
        return;
    if (make_view(s) != JOB_STORE_OK || run_text(s, "COMMIT", "cannot write it") != JOB_STORE_OK)
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    s->failed = JOB_STORE_OK;
}

/* Sees that the file is ours. */
static enum job_store_status know_head(struct sqlite_store *s, bool *is_new_r)
{
    int64_t application = 0, version = 0, tables = 0;
    enum job_store_status status = head_number(s, "PRAGMA application_id", &application);
    if (status == JOB_STORE_OK)
        status = head_number(s, "PRAGMA user_version", &version);
    if (status == JOB_STORE_OK)
        status = head_number(s, "SELECT count(*) FROM sqlite_schema", &tables);
    if (status != JOB_STORE_OK)
        return status;
    bool is_new = *is_new_r = application == 0 && version == 0 && tables == 0;
    if (!is_new && application != APPLICATION_ID)
        return store_fail_because(s, JOB_STORE_CORRUPT, "it is a database of another program");
    if (version > SCHEMA_VERSION) {
        snprintf(s->store.reason, sizeof(s->store.reason),
                 "a newer program has written it (version %" PRId64 "; this one knows %d)", version,
                 SCHEMA_VERSION);
        return JOB_STORE_NEWER;
    }
    if (!is_new && version < 1)
        return store_fail_because(s, JOB_STORE_CORRUPT, "its version makes no sense");
    return JOB_STORE_OK;
}

/* Sets the database up, and makes the tables if it is new. */
static enum job_store_status know_schema(struct sqlite_store *s)
{
    bool is_new = false;
    enum job_store_status status = know_head(s, &is_new);
    if (status != JOB_STORE_OK)
        return status;
    _Static_assert(PAGE_SIZE == 4096, "the text has this number");
    status = run_text(s, "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL", "cannot write it");
    if (status != JOB_STORE_OK)
        return status;
    sqlite3_stmt *mode = NULL;
    int code = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode", -1, &mode, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(mode);
    bool has_log = code == SQLITE_ROW && bytes_equal(get_text(mode, 0), bytes_of("wal"));
    sqlite3_finalize(mode);
    if (!has_log)
        return store_fail_because(s, JOB_STORE_ACCESS, "its file system allows no shared memory");
    _Static_assert(LOG_KEPT == 4194304, "the text has this number");
    status = run_text(s,
                      s->normal ? "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304"
                                : "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304",
                      "cannot set it up");
    sqlite3_wal_hook(s->db, store_log_has_grown, s);
    if (status != JOB_STORE_OK)
        return status;
    if (!is_new) {
        renew_view(s);
        return JOB_STORE_OK;
    }
    status = run_text(s, "BEGIN IMMEDIATE", "cannot write it");
    if (status == JOB_STORE_OK)
        status = run_text(s, schema, "cannot make its tables");
    if (status == JOB_STORE_OK)
        status = make_view(s);
    _Static_assert(APPLICATION_ID == 1667919714 && SCHEMA_VERSION == 1, "the text has these");
    if (status == JOB_STORE_OK)
        status = run_text(s, "PRAGMA application_id = 1667919714; PRAGMA user_version = 1; COMMIT",
                          "cannot make its tables");
    return status;
}

/* A process before this one may have seen a sync of the log fail: then the log is good to read, but
 * part of it may never reach the disk, and what follows would be lost with it. So the file gets it
 * all; if that fails, `tend` tries again. */
static void empty_log(struct sqlite_store *s)
{
    int code = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (code != SQLITE_OK)
        s->pages = s->pages_done + s->pages_due;
}

/* Finds out if deleting a job has to look for a large body. */
static enum job_store_status look_for_large(struct sqlite_store *s)
{
    int64_t has = 0;
    enum job_store_status status =
        head_number(s, "SELECT EXISTS (SELECT 1 FROM large_bodies)", &has);
    s->has_large = has != 0;
    return status;
}

static enum job_store_status prepare(struct sqlite_store *s)
{
    for (size_t i = 0; i < STATEMENTS; i++) {
        int code = sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &s->statements[i], NULL);
        if (code != SQLITE_OK)
            return store_fail_sqlite(s, code, "cannot prepare a statement");
    }
    return JOB_STORE_OK;
}

/* A second connection knows nothing of what the first one has read before. */
enum job_store_status sqlite_can_open(struct job_store *store)
{
    struct sqlite_store *s = inside_of(store);
    struct sqlite_store *second = calloc(1, sizeof(*second));
    struct job_store *its = second ? &second->store : NULL;
    bool is_new = false;
    if (!second)
        return store_fail_because(s, JOB_STORE_NO_MEMORY, "no memory to look at it");
    second->lock = second->reserve = second->file = -1;
    enum job_store_status status = store_is_there(s);
    /* What this process has open, the next one has to open again. */
    if (status == JOB_STORE_OK && !job_store_sqlite_may_use(s->path, store->reason)) {
        status = JOB_STORE_ACCESS;
    } else if (status == JOB_STORE_OK) {
        status = open_database(second, s->path);
        if (status == JOB_STORE_OK)
            status = know_head(second, &is_new);
        if (status == JOB_STORE_OK)
            status = prepare(second);
        if (status == JOB_STORE_OK)
            status = look_for_large(second);
        if (status != JOB_STORE_OK)
            memcpy(store->reason, its->reason, JOB_STORE_REASON);
    }
    sqlite_close(&its);
    return status;
}

void sqlite_close(struct job_store **store)
{
    if (!*store)
        return;
    struct sqlite_store *s = inside_of(*store);
    sqlite_rollback(*store);
    sqlite_end_copy(*store);
    for (size_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(s->statements[i]);
    CHECK(sqlite3_close(s->db) == SQLITE_OK); /* nothing uses it */
    if (s->file >= 0)
        close(s->file); /* now: SQLite's own locks end with it */
    if (s->reserve >= 0)
        close(s->reserve);
    if (s->lock >= 0)
        close(s->lock);
    free(s->path);
    free(s);
    *store = NULL;
}

enum job_store_status sqlite_open(const struct job_store_config *config, struct job_store **store_r,
                                  char *reason_r)
{
    *store_r = NULL;
    /* SQLite need not count its memory. It refuses when something is open; then it counts. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    struct sqlite_store *s = calloc(1, sizeof(*s));
    if (!s) {
        snprintf(reason_r, JOB_STORE_REASON, "no memory");
        return JOB_STORE_NO_MEMORY;
    }
    s->store.does = &job_store_sqlite;
    s->lock = s->reserve = s->file = -1;
    s->path = strdup(config->path);
    s->normal = config->sync == JOB_STORE_SYNC_NORMAL;
    s->reserved_space = config->reserved_space;
    s->pages_due = (int)((config->log_bytes ? config->log_bytes : LOG_BYTES) / PAGE_SIZE);
    s->unsynced_ns = INT64_MAX;
    enum job_store_status status =
        !s->path ? store_fail_because(s, JOB_STORE_NO_MEMORY, "no memory")
        : config->path[0] == '/'
            ? take_lock(s, config->path)
            : store_fail_because(s, JOB_STORE_ACCESS, "its path does not begin with /");
    if (status == JOB_STORE_OK)
        status = take_file(s);
    if (status == JOB_STORE_OK)
        status = open_database(s, config->path);
    if (status == JOB_STORE_OK)
        status = know_schema(s);
    if (status == JOB_STORE_OK)
        status = prepare(s);
    if (status == JOB_STORE_OK)
        empty_log(s);
    if (status == JOB_STORE_OK)
        status = look_for_large(s);
    if (status == JOB_STORE_OK)
        status = open_reserve(s, config->path);
    struct job_store *store = &s->store;
    if (status == JOB_STORE_OK) {
        *store_r = store;
        return JOB_STORE_OK;
    }
    if (s->path && !job_store_sqlite_may_use(s->path, store->reason))
        status = JOB_STORE_ACCESS; /* that is why, whatever SQLite makes of it */
    memcpy(reason_r, store->reason, JOB_STORE_REASON);
    sqlite_close(&store);
    return status;
}
