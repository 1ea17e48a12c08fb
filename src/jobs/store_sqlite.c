/*
 * store_sqlite.c - jobs in a file of SQLite: its failures, its log, and transactions.
 */
#include "jobs/store_sqlite.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEND_NS NS_PER_S

const char *job_store_status_word(enum job_store_status status)
{
    static const char *const words[] = {
        [JOB_STORE_OK] = "ok",         [JOB_STORE_NONE] = "none",
        [JOB_STORE_FULL] = "full",     [JOB_STORE_IO] = "io",
        [JOB_STORE_ACCESS] = "access", [JOB_STORE_CORRUPT] = "corrupt",
        [JOB_STORE_LOCKED] = "locked", [JOB_STORE_NO_MEMORY] = "memory",
        [JOB_STORE_NEWER] = "newer",   [JOB_STORE_EXISTS] = "exists",
    };
    CHECK((size_t)status < ARRAY_SIZE(words));
    return words[status];
}

/* ---- failures -------------------------------------------------------------------------------- */

static enum job_store_status status_of(int code, int error)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return JOB_STORE_FULL;
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_NOMEM)
            return JOB_STORE_NO_MEMORY;
        if (code == SQLITE_IOERR_CORRUPTFS || code == SQLITE_IOERR_DATA)
            return JOB_STORE_CORRUPT;
        return error == ENOSPC || error == EDQUOT ? JOB_STORE_FULL : JOB_STORE_IO;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_ERROR: /* a table is missing, or is another one */
        return JOB_STORE_CORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return JOB_STORE_LOCKED;
    case SQLITE_NOMEM:
        return JOB_STORE_NO_MEMORY;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return JOB_STORE_ACCESS;
    default:
        return JOB_STORE_IO;
    }
}

enum job_store_status store_fail(struct sqlite_store *s, enum job_store_status status)
{
    if (status == JOB_STORE_FULL && s->reserve >= 0 && !s->full) {
        s->full = true;
        s->not_before_ns = 0;
        s->reserve_ns = INT64_MIN;
        if (ftruncate(s->reserve, 0) < 0) /* then there is no more room, and it fails again */
            s->not_before_ns = 0;
    }
    if (s->inside && s->failed == JOB_STORE_OK)
        s->failed = status;
    return status;
}

enum job_store_status store_fail_sqlite(struct sqlite_store *s, int code, const char *doing)
{
    int error = s->db ? sqlite3_system_errno(s->db) : 0;
    enum job_store_status status = status_of(code, error);
    bool own = s->db && sqlite3_extended_errcode(s->db) == code;
    bool system = error != 0 && ((code & 0xff) == SQLITE_IOERR ||
                                 (code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_FULL);
    snprintf(s->store.reason, sizeof(s->store.reason), "%s: %s (%d)%s%s", doing,
             own ? sqlite3_errmsg(s->db) : sqlite3_errstr(code), code, system ? ", " : "",
             system ? strerrordesc_np(error) : "");
    return store_fail(s, status);
}

enum job_store_status store_fail_system(struct sqlite_store *s, int error, const char *doing)
{
    const char *text = strerrordesc_np(error);
    snprintf(s->store.reason, sizeof(s->store.reason), "%s: %s", doing, text ? text : "error");
    return store_fail(s, error == ENOSPC || error == EDQUOT ? JOB_STORE_FULL
                         : error == ENOMEM                  ? JOB_STORE_NO_MEMORY
                         : error == EIO                     ? JOB_STORE_IO
                                                            : JOB_STORE_ACCESS);
}

enum job_store_status store_fail_because(struct sqlite_store *s, enum job_store_status status,
                                         const char *reason)
{
    snprintf(s->store.reason, sizeof(s->store.reason), "%s", reason);
    return store_fail(s, status);
}

/* ---- the reserve ----------------------------------------------------------------------------- */

void store_take_reserve(struct sqlite_store *s)
{
    if (s->reserve < 0)
        return;
    int error = posix_fallocate(s->reserve, 0, (off_t)s->reserved_space);
    s->full = error == ENOSPC || error == EDQUOT;
    if (error != 0 && ftruncate(s->reserve, 0) < 0)
        s->full = true;
}

/* ---- the log --------------------------------------------------------------------------------- */

int store_log_has_grown(void *arg, sqlite3 *db, const char *name, int pages)
{
    (void)db, (void)name;
    struct sqlite_store *s = arg;
    if (pages < s->pages)
        s->pages_done = 0; /* it has started anew */
    s->pages = pages;
    return SQLITE_OK;
}

/* Syncs the log itself, whatever readers do. */
static enum job_store_status sync_log(struct sqlite_store *s)
{
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
    if (code == SQLITE_OK && file && file->pMethods)
        code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    return code == SQLITE_OK ? JOB_STORE_OK : store_fail_sqlite(s, code, "cannot sync the log");
}

/* Writes what is in the log to the file, as far as readers let it. */
static enum job_store_status checkpoint(struct sqlite_store *s)
{
    int pages = -1, done = -1;
    int code = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &done);
    if (code != SQLITE_OK)
        return store_fail_sqlite(s, code, "cannot write the log to the file");
    if (pages >= 0) {
        s->pages = pages;
        s->pages_done = done;
    }
    return JOB_STORE_OK;
}

/* Gives back the space of the log, if all of it is in the file and nobody reads it. */
static void truncate_log(struct sqlite_store *s)
{
    if (s->pages_done < s->pages)
        return;
    sqlite3_busy_timeout(s->db, 0); /* waits for no reader */
    if (sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK)
        s->pages = s->pages_done = 0;
    sqlite3_busy_timeout(s->db, BUSY_MS);
}

static bool log_is_long(const struct sqlite_store *s)
{
    return s->pages - s->pages_done >= s->pages_due;
}

static int64_t sqlite_tend_ns(const struct job_store *store)
{
    const struct sqlite_store *s = inside_of(store);
    int64_t due = s->unsynced_ns == INT64_MAX ? INT64_MAX : s->unsynced_ns + TEND_NS;
    if (log_is_long(s))
        due = 0;
    if (due < s->not_before_ns)
        due = s->not_before_ns;
    int64_t reserve_ns = s->reserve_ns == INT64_MIN ? 0 : s->reserve_ns;
    return s->full && reserve_ns < due ? reserve_ns : due;
}

static enum job_store_status sqlite_tend(struct job_store *store, int64_t mono_ns)
{
    struct sqlite_store *s = inside_of(store);
    CHECK(!s->inside);
    if (mono_ns < sqlite_tend_ns(store))
        return JOB_STORE_OK;
    s->not_before_ns = 0;
    enum job_store_status status = JOB_STORE_OK;
    if (s->unsynced_ns != INT64_MAX)
        status = sync_log(s);
    if (status == JOB_STORE_OK)
        s->unsynced_ns = INT64_MAX;
    /* After a failed sync, the kernel may take the log for synced. Then the file must have it. */
    bool was_full = s->full;
    enum job_store_status written = checkpoint(s);
    if (written == JOB_STORE_FULL && !was_full)
        written = checkpoint(s); /* with the space of the reserve */
    if (status == JOB_STORE_OK)
        status = written;
    if (s->full && s->reserve_ns != INT64_MIN) {
        truncate_log(s);
        store_take_reserve(s);
    }
    s->reserve_ns = mono_ns + TEND_NS;
    if (status != JOB_STORE_OK || log_is_long(s))
        s->not_before_ns = mono_ns + TEND_NS; /* in vain, or a reader is in its way */
    return status;
}

static bool sqlite_is_full(const struct job_store *store)
{
    return inside_of(store)->full;
}

static void sqlite_get_sizes(struct job_store *store, struct job_store_sizes *sizes_r)
{
    struct sqlite_store *s = inside_of(store);
    int64_t pages = 0, empty = 0;
    bool got = run_for(s, COUNT_PAGES, "cannot read its size", &pages) == JOB_STORE_OK &&
               run_for(s, COUNT_EMPTY, "cannot read its size", &empty) == JOB_STORE_OK;
    *sizes_r = (struct job_store_sizes){
        .file = got ? (uint64_t)pages * PAGE_SIZE : 0,
        .empty = got ? (uint64_t)empty * PAGE_SIZE : 0,
        .log = (uint64_t)(s->pages - s->pages_done) * PAGE_SIZE,
    };
}

/* ---- transactions ---------------------------------------------------------------------------- */

enum job_store_status store_is_there(struct sqlite_store *s)
{
    struct stat st;
    if (likely(stat(s->path, &st) == 0 && st.st_ino == s->inode && st.st_dev == s->device))
        return JOB_STORE_OK;
    return store_fail_because(s, JOB_STORE_IO,
                              "the file was moved, removed or replaced while it was in use: put it "
                              "back, or restart counterd to begin with what is there");
}

static enum job_store_status sqlite_begin(struct job_store *store)
{
    struct sqlite_store *s = inside_of(store);
    CHECK(!s->inside);
    s->inside = true;
    s->failed = JOB_STORE_OK;
    return run(s, BEGIN, "cannot begin a transaction");
}

void sqlite_rollback(struct job_store *store)
{
    struct sqlite_store *s = inside_of(store);
    if (!s->inside)
        return;
    s->inside = false; /* its failure is not one of the transaction */
    if (!sqlite3_get_autocommit(s->db)) {
        char before[JOB_STORE_REASON];
        memcpy(before, s->store.reason, sizeof(before));
        if (run(s, ROLLBACK, "cannot roll back") == JOB_STORE_OK || s->failed != JOB_STORE_OK)
            memcpy(s->store.reason, before, sizeof(before));
    }
}

/*
 * Makes room on disk for the file as it will be, before the log has what it grows by. Else a full
 * disk could keep the log from being written to the file, and deletions would only lengthen it.
 */
static enum job_store_status make_room(struct sqlite_store *s, int64_t *pages_r)
{
    enum job_store_status status = run_for(s, COUNT_PAGES, "cannot read its size", pages_r);
    if (status != JOB_STORE_OK || *pages_r <= s->pages_room)
        return status;
    sqlite3_int64 size = *pages_r * PAGE_SIZE;
    int code = sqlite3_file_control(s->db, "main", SQLITE_FCNTL_SIZE_HINT, &size);
    if (code == SQLITE_OK || code == SQLITE_NOTFOUND)
        return JOB_STORE_OK;
    return store_fail_because(s, JOB_STORE_FULL, "no space on disk for the file to grow");
}

static enum job_store_status sqlite_commit(struct job_store *store, int64_t mono_ns)
{
    int64_t pages = 0;
    struct sqlite_store *s = inside_of(store);
    CHECK(s->inside);
    enum job_store_status status = s->failed;
    if (status == JOB_STORE_OK)
        status = store_is_there(s);
    if (status == JOB_STORE_OK)
        status = make_room(s, &pages);
    if (status == JOB_STORE_OK)
        status = run(s, COMMIT, "cannot commit");
    if (status != JOB_STORE_OK) {
        sqlite_rollback(store);
        return status;
    }
    s->inside = false;
    if (pages > s->pages_room)
        s->pages_room = pages;
    if (s->normal && s->unsynced_ns == INT64_MAX)
        s->unsynced_ns = mono_ns;
    return JOB_STORE_OK;
}

static enum job_store_status sqlite_take_ids(struct job_store *store, uint64_t count,
                                             uint64_t *first_r)
{
    struct sqlite_store *s = inside_of(store);
    int64_t first = 0;
    *first_r = 0;
    enum job_store_status status = sqlite_begin(store);
    if (status == JOB_STORE_OK)
        status = run_for(s, GET_IDS, "cannot read the next id", &first);
    if (status == JOB_STORE_OK && (first < 1 || count > (uint64_t)(INT64_MAX - first)))
        status = store_fail_because(s, JOB_STORE_CORRUPT, "the next id makes no sense");
    if (status == JOB_STORE_OK) {
        set_int(s->statements[SET_IDS], 1, first + (int64_t)count);
        (void)run(s, SET_IDS, "cannot take ids"); /* the commit returns its failure */
    }
    int64_t unsynced_ns = s->unsynced_ns;
    status = sqlite_commit(store, 0);
    s->unsynced_ns = unsynced_ns;
    if (status == JOB_STORE_OK && s->normal)
        status = sync_log(s);
    if (status == JOB_STORE_OK)
        *first_r = (uint64_t)first;
    return status;
}

const struct job_store_kind job_store_sqlite = {
    .open = sqlite_open,
    .close = sqlite_close,
    .load = sqlite_load,
    .take_ids = sqlite_take_ids,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .put = sqlite_put,
    .change = sqlite_change,
    .remove = sqlite_remove,
    .execute = sqlite_execute,
    .set_tube = sqlite_set_tube,
    .remember = sqlite_remember,
    .recall = sqlite_recall,
    .forget = sqlite_forget,
    .forget_old = sqlite_forget_old,
    .read_body = sqlite_read_body,
    .can_open = sqlite_can_open,
    .tend = sqlite_tend,
    .tend_ns = sqlite_tend_ns,
    .is_full = sqlite_is_full,
    .get_sizes = sqlite_get_sizes,
    .begin_copy = sqlite_begin_copy,
    .copy = sqlite_copy,
    .end_copy = sqlite_end_copy,
    .forget_copy = sqlite_forget_copy,
};
