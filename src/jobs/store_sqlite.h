/*
 * store_sqlite.h - what the files of the store in SQLite share. (store.md describes its file for
 * people.)
 *
 * The log is in WAL mode. SQLite never writes it to the file by itself: `tend` does, when nothing
 * waits for it. With JOB_STORE_SYNC_NORMAL, `tend` also syncs the log, because a checkpoint does
 * not when a reader keeps it from going on.
 *
 * Beside the file are PATH-lock, which one process has locked, and PATH-reserve, which takes up
 * space. The file itself has a lock, too, since it may have several paths: one of its descriptor,
 * on a byte that SQLite does not use, because closing a descriptor ends all other locks of a
 * process. When the disk is full, PATH-reserve is emptied and new jobs are refused, so that there
 * is room to write down that jobs are gone: SQLite needs room for that, too.
 *
 * All SQL is constant. Each statement is prepared once, and reset as soon as it has run: one that
 * is not would keep the log from starting anew.
 */
#ifndef JOBS_STORE_SQLITE_H
#define JOBS_STORE_SQLITE_H

#include "jobs/store.h"

#include <sqlite3.h>
#include <sys/types.h>

#define FILE_MODE   0640
#define COPY_ENDING ".part" /* of a copy that is not whole */
#define PAGE_SIZE   4096u
#define SMALL_BODY  512u /* bytes; a larger body is apart from its job */
#define BUSY_MS     1000 /* another process writes, which it should not */

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    PUT,
    PUT_LARGE,
    CHANGE,
    REMOVE,
    REMOVE_LARGE,
    READ_BODY,
    SET_TUBE,
    FORGET_TUBE,
    EXECUTE,
    KEEP_EXECUTION,
    REMEMBER,                     /* of executions; of roots: the next one */
    RECALL = REMEMBER + 2,        /* the same */
    FORGET = RECALL + 2,          /* the same */
    FORGET_OLD = FORGET + 2,      /* the same */
    LOAD_MEMORY = FORGET_OLD + 2, /* the same */
    LOAD_TUBES = LOAD_MEMORY + 2,
    LOAD_JOBS,
    GET_IDS,
    SET_IDS,
    COUNT_PAGES,
    COUNT_EMPTY,
    STATEMENTS
};

struct sqlite_copy;

struct sqlite_store {
    struct job_store store; /* first */
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    int lock, reserve; /* descriptors; -1: none */
    int file; /* the same, of the file itself, which it locks for other spellings of path */
    char *path;
    dev_t device;
    ino_t inode;
    uint32_t reserved_space;
    bool full; /* the reserve is empty */
    bool normal;
    bool has_large;               /* there may be bodies apart from their jobs */
    bool inside;                  /* a transaction */
    enum job_store_status failed; /* the first failure inside of it */
    int pages_due;                /* so many in the log are written to the file */
    int pages, pages_done;        /* in the log; of those, in the file */
    int64_t pages_room;           /* that the file has room for on disk */
    int64_t unsynced_ns;   /* JOB_STORE_SYNC_NORMAL: of the first such commit; INT64_MAX: none */
    int64_t not_before_ns; /* after a `tend` that could not do everything */
    int64_t
        reserve_ns; /* when it is full: when to take the reserve; INT64_MIN: a while after `tend` */
    struct sqlite_copy *copy; /* under way; NULL: none */
};

static inline struct sqlite_store *inside_of(const struct job_store *store)
{
    return unconst(store);
}

/* ---- failures: store_sqlite.c ---------------------------------------------------------------- */

/* Takes note of a failure, whose reason is in the store. When the disk is full, gives up the
 * reserve. */
enum job_store_status store_fail(struct sqlite_store *s, enum job_store_status status);
/* A failure of SQLite while it was `doing` something. */
enum job_store_status store_fail_sqlite(struct sqlite_store *s, int code, const char *doing);
/* A failure of a system call. */
enum job_store_status store_fail_system(struct sqlite_store *s, int error, const char *doing);
enum job_store_status store_fail_because(struct sqlite_store *s, enum job_store_status status,
                                         const char *reason);

/* ---- statements ------------------------------------------------------------------------------ */

static inline void set_int(sqlite3_stmt *statement, int at, int64_t value)
{
    CHECK(sqlite3_bind_int64(statement, at, value) == SQLITE_OK);
}

/* The same, where `null` stands for NULL. */
static inline void set_int_or_null(sqlite3_stmt *statement, int at, int64_t value, int64_t null)
{
    CHECK((value == null ? sqlite3_bind_null(statement, at)
                         : sqlite3_bind_int64(statement, at, value)) == SQLITE_OK);
}

/* An empty text is NULL. It must last until the statement has run. */
static inline void set_text(sqlite3_stmt *statement, int at, struct bytes text)
{
    int code = text.len == 0 ? sqlite3_bind_null(statement, at)
                             : sqlite3_bind_text(statement, at, (const char *)text.data,
                                                 (int)text.len, SQLITE_STATIC);
    CHECK(code == SQLITE_OK);
}

static inline struct bytes get_text(sqlite3_stmt *statement, int at)
{
    const void *text = sqlite3_column_blob(statement, at);
    return bytes_at(text, (size_t)sqlite3_column_bytes(statement, at));
}

/* Makes one step, but none in a transaction that has failed. Resets the statement unless there is a
 * row (SQLITE_ROW). *status_r: not with a row. */
static inline bool step(struct sqlite_store *s, enum statement which, const char *doing,
                        enum job_store_status *status_r)
{
    sqlite3_stmt *statement = s->statements[which];
    *status_r = s->inside ? s->failed : JOB_STORE_OK;
    if (*status_r != JOB_STORE_OK)
        return false;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return true;
    if (code != SQLITE_DONE)
        *status_r = store_fail_sqlite(s, code, doing);
    sqlite3_reset(statement);
    return false;
}

/* Runs a statement that has no rows. */
static inline enum job_store_status run(struct sqlite_store *s, enum statement which,
                                        const char *doing)
{
    enum job_store_status status;
    CHECK(!step(s, which, doing, &status));
    return status;
}

/* The same; NONE: it has changed nothing. */
static inline enum job_store_status run_on_one(struct sqlite_store *s, enum statement which,
                                               const char *doing)
{
    enum job_store_status status = run(s, which, doing);
    return status == JOB_STORE_OK && sqlite3_changes(s->db) == 0 ? JOB_STORE_NONE : status;
}

/* Reads a number. */
static inline enum job_store_status run_for(struct sqlite_store *s, enum statement which,
                                            const char *doing, int64_t *value_r)
{
    enum job_store_status status;
    *value_r = 0;
    if (!step(s, which, doing, &status))
        return status;
    *value_r = sqlite3_column_int64(s->statements[which], 0);
    sqlite3_reset(s->statements[which]);
    return JOB_STORE_OK;
}

/* The statement of a kind of memory, with its tube and name. */
static inline sqlite3_stmt *of_kind(struct sqlite_store *s, enum statement first,
                                    enum job_memory_kind kind, struct bytes tube, struct bytes name)
{
    sqlite3_stmt *statement = s->statements[first + kind];
    set_text(statement, 1, tube);
    set_text(statement, 2, name);
    return statement;
}

/* ---- store_sqlite.c -------------------------------------------------------------------------- */

/* Sees that its path leads to the file that is open. */
enum job_store_status store_is_there(struct sqlite_store *s);
/* Takes up the reserved space. Without it, the disk counts as full. */
void store_take_reserve(struct sqlite_store *s);
/* SQLite's hook for commits. */
int store_log_has_grown(void *arg, sqlite3 *db, const char *name, int pages);

/* ---- functions of struct job_store_kind ------------------------------------------------------ */

enum job_store_status sqlite_open(const struct job_store_config *config, struct job_store **store_r,
                                  char *reason_r);
void sqlite_close(struct job_store **store);
enum job_store_status sqlite_can_open(struct job_store *store);
void sqlite_rollback(struct job_store *store);
enum job_store_status sqlite_put(struct job_store *store, const struct job_record *job,
                                 struct bytes body);
enum job_store_status sqlite_change(struct job_store *store, uint64_t id,
                                    const struct job_changing *now);
enum job_store_status sqlite_remove(struct job_store *store, uint64_t id);
enum job_store_status sqlite_set_tube(struct job_store *store, const struct job_tube_record *tube);
enum job_store_status sqlite_execute(struct job_store *store, uint64_t id, int64_t time_ns,
                                     int64_t forget_ns);
enum job_store_status sqlite_remember(struct job_store *store, enum job_memory_kind kind,
                                      const struct job_memory *memory);
enum job_store_status sqlite_recall(struct job_store *store, enum job_memory_kind kind,
                                    struct job_memory *memory);
enum job_store_status sqlite_forget(struct job_store *store, enum job_memory_kind kind,
                                    struct bytes tube, struct bytes name);
enum job_store_status sqlite_forget_old(struct job_store *store, int64_t now_ns, uint32_t most,
                                        uint32_t *count_r);
enum job_store_status sqlite_read_body(struct job_store *store, uint64_t id, void *into,
                                       uint32_t len);
enum job_store_status sqlite_load(struct job_store *store,
                                  const struct job_store_visitors *visitors);
enum job_store_status sqlite_begin_copy(struct job_store *store, const char *folder,
                                        const char *name);
enum job_store_status sqlite_copy(struct job_store *store, struct job_store_copied *copied_r);
void sqlite_end_copy(struct job_store *store);
void sqlite_forget_copy(const char *path, const char *folder);

#endif
