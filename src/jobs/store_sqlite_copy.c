/*
 * store_sqlite_copy.c - jobs in a file of SQLite: copies of it while it is in use.
 *
 * SQLite's backup interface copies page after page. The source is the connection that writes, so
 * SQLite also writes each page that changes meanwhile to the copy, if that has it already. A copy
 * by another connection would begin anew with each commit, and never end on a busy daemon.
 *
 * The copy is made under another name beside its own, PART. Without a journal and syncs of SQLite:
 * it is nothing before it is whole. The kernel is told to write each piece at once, and waited for
 * now and then, because a long sync of all of it at the end would hold up the commits. Space for it
 * is taken first, so that a disk that is too small refuses the copy and not the jobs that come
 * meanwhile.
 *
 * A failure of the copy is none of the store: it does not touch the reserve.
 */
#include "jobs/store_sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_PAGES 64   /* 256 KiB */
#define WAIT_PAGES 1024 /* 4 MiB: so much may be on its way to the disk */

struct sqlite_copy {
    sqlite3 *to;
    sqlite3_backup *backup;
    int folder, file;  /* descriptors; -1: none */
    char *name, *part; /* in the folder */
    char *path;        /* of PART, for SQLite */
    int unsynced;      /* pages since the kernel was waited for */
};

/* ---- failures -------------------------------------------------------------------------------- */

static enum job_store_status because(struct sqlite_store *s, enum job_store_status status,
                                     const char *reason)
{
    snprintf(s->store.reason, sizeof(s->store.reason), "%s", reason);
    return status;
}

static enum job_store_status system_failed(struct sqlite_store *s, const char *doing)
{
    int error = errno;
    snprintf(s->store.reason, sizeof(s->store.reason), "%s: %s", doing, strerrordesc_np(error));
    return error == ENOSPC || error == EDQUOT ? JOB_STORE_FULL : JOB_STORE_IO;
}

static enum job_store_status sqlite_failed(struct sqlite_store *s, int code, const char *doing)
{
    snprintf(s->store.reason, sizeof(s->store.reason), "%s: %s (%d)", doing, sqlite3_errstr(code),
             code);
    return (code & 0xff) == SQLITE_FULL ? JOB_STORE_FULL : JOB_STORE_IO;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), its = strlen(ending);
    return len >= its && strcmp(name + len - its, ending) == 0;
}

/* Files beside a database, which belong to it: to SQLite, or to us. */
static const char *const endings[] = {"-wal", "-shm", "-journal", "-lock", "-reserve"};

static bool is_there(int folder, const char *name)
{
    struct stat st;
    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Sees that nothing has the name, and that nobody takes another file for a part of the copy, or the
 * copy for a part of another file. */
static enum job_store_status check_name(struct sqlite_store *s, const struct sqlite_copy *copy)
{
    if (is_there(copy->folder, copy->name))
        return because(s, JOB_STORE_EXISTS, "there is such a file already");
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        char beside[300];
        if (ends_with(copy->name, endings[i])) {
            snprintf(s->store.reason, sizeof(s->store.reason),
                     "it ends with %s, as files beside a database do", endings[i]);
            return JOB_STORE_ACCESS;
        }
        snprintf(beside, sizeof(beside), "%.280s%s", copy->name, endings[i]);
        if (is_there(copy->folder, beside)) {
            snprintf(s->store.reason, sizeof(s->store.reason),
                     "there is a file with that name and %s, which would be taken for a part of it",
                     endings[i]);
            return JOB_STORE_EXISTS;
        }
    }
    return JOB_STORE_OK;
}

void sqlite_forget_copy(const char *path, const char *folder)
{
    char *part = NULL;
    if (asprintf(&part, "%s/.%s" COPY_ENDING, folder, base_of(path)) < 0)
        return;
    (void)unlink(part); /* mostly there is none */
    free(part);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Frees it; what there is of the file stays. Returns the code of SQLite's end. */
static int close_copy(struct sqlite_copy *copy)
{
    int code = copy->backup ? sqlite3_backup_finish(copy->backup) : SQLITE_OK;
    copy->backup = NULL;
    if (copy->to)
        CHECK(sqlite3_close(copy->to) == SQLITE_OK);
    copy->to = NULL;
    return code;
}

static void free_copy(struct sqlite_copy **copy)
{
    (void)close_copy(*copy);
    if ((*copy)->file >= 0)
        close((*copy)->file);
    if ((*copy)->folder >= 0)
        close((*copy)->folder);
    free((*copy)->name);
    free((*copy)->part);
    free((*copy)->path);
    free(*copy);
    *copy = NULL;
}

/* True if PART is the file that was made. */
static bool is_ours(const struct sqlite_copy *copy)
{
    struct stat made, found;
    return copy->file >= 0 && fstat(copy->file, &made) == 0 &&
           fstatat(copy->folder, copy->part, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
           made.st_dev == found.st_dev && made.st_ino == found.st_ino;
}

void sqlite_end_copy(struct job_store *store)
{
    struct sqlite_store *s = inside_of(store);
    if (!s->copy)
        return;
    (void)close_copy(s->copy);
    if (is_ours(s->copy))
        (void)unlinkat(s->copy->folder, s->copy->part, 0);
    free_copy(&s->copy);
}

static enum job_store_status make_file(struct sqlite_store *s, struct sqlite_copy *copy)
{
    int64_t pages = 0;
    (void)unlinkat(copy->folder, copy->part, 0); /* of a process that was killed */
    copy->file = openat(copy->folder, copy->part,
                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (copy->file < 0)
        return system_failed(s, "cannot make a file there");
    enum job_store_status status = run_for(s, COUNT_PAGES, "cannot read its size", &pages);
    if (status != JOB_STORE_OK)
        return status;
    if (fallocate(copy->file, FALLOC_FL_KEEP_SIZE, 0, (off_t)pages * PAGE_SIZE) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return system_failed(s, "no room for it");
    return JOB_STORE_OK;
}

static enum job_store_status open_copy(struct sqlite_store *s, struct sqlite_copy *copy)
{
    int code = sqlite3_open_v2(copy->path, &copy->to,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                   SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                               NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(copy->to,
                            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                            "PRAGMA cache_size = -2048; PRAGMA mmap_size = 0;",
                            NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        copy->backup = sqlite3_backup_init(copy->to, "main", s->db, "main");
        code = copy->backup ? SQLITE_OK : sqlite3_extended_errcode(copy->to);
    }
    return code == SQLITE_OK ? JOB_STORE_OK : sqlite_failed(s, code, "cannot open the new file");
}

enum job_store_status sqlite_begin_copy(struct job_store *store, const char *folder,
                                        const char *name)
{
    struct sqlite_store *s = inside_of(store);
    CHECK(!s->inside && !s->copy);
    struct sqlite_copy *copy = calloc(1, sizeof(*copy));
    if (!copy)
        return because(s, JOB_STORE_NO_MEMORY, "no memory");
    s->copy = copy;
    copy->file = -1;
    copy->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    copy->name = strdup(name);
    bool has_names = asprintf(&copy->part, ".%s" COPY_ENDING, base_of(s->path)) >= 0 &&
                     asprintf(&copy->path, "%s/%s", folder, copy->part) >= 0 && copy->name;
    enum job_store_status status = !has_names         ? because(s, JOB_STORE_NO_MEMORY, "no memory")
                                   : copy->folder < 0 ? system_failed(s, "cannot open the folder")
                                                      : check_name(s, copy);
    if (status == JOB_STORE_OK)
        status = make_file(s, copy);
    if (status == JOB_STORE_OK)
        status = open_copy(s, copy);
    if (status != JOB_STORE_OK)
        sqlite_end_copy(store);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Gives it its name, unless something has that. Some file systems cannot look at that by
 * themselves. */
static bool set_name(const struct sqlite_copy *copy)
{
    if (renameat2(copy->folder, copy->part, copy->folder, copy->name, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (!is_there(copy->folder, copy->name))
        return renameat(copy->folder, copy->part, copy->folder, copy->name) == 0;
    errno = EEXIST;
    return false;
}

/* All pages are there: the copy becomes a file. */
static enum job_store_status complete(struct sqlite_store *s, struct sqlite_copy *copy)
{
    int code = close_copy(copy);
    if (code != SQLITE_OK)
        return sqlite_failed(s, code, "cannot write it");
    if (fsync(copy->file) != 0)
        return system_failed(s, "cannot sync it");
    if (!is_ours(copy))
        return because(s, JOB_STORE_IO, "somebody has removed it while it was made");
    if (!set_name(copy))
        return system_failed(s, "cannot give it its name");
    if (fsync(copy->folder) != 0) {
        enum job_store_status status = system_failed(s, "cannot sync its folder");
        (void)unlinkat(copy->folder, copy->name, 0);
        return status;
    }
    return JOB_STORE_OK;
}

enum job_store_status sqlite_copy(struct job_store *store, struct job_store_copied *copied_r)
{
    struct sqlite_store *s = inside_of(store);
    struct sqlite_copy *copy = s->copy;
    enum job_store_status status = JOB_STORE_OK;
    CHECK(!s->inside && copy);
    int code = SQLITE_OK;
    if (copy->unsynced >= WAIT_PAGES) {
        copy->unsynced = 0;
        if (sync_file_range(copy->file, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) != 0 && errno == EIO)
            status = system_failed(s, "cannot write it");
    } else {
        code = sqlite3_backup_step(copy->backup, STEP_PAGES);
        copy->unsynced += STEP_PAGES;
        /* Not each file system can; the sync at the end does it all. */
        (void)sync_file_range(copy->file, 0, 0, SYNC_FILE_RANGE_WRITE);
    }
    int pages = sqlite3_backup_pagecount(copy->backup);
    int left = sqlite3_backup_remaining(copy->backup);
    *copied_r = (struct job_store_copied){
        .done = (uint64_t)(pages - left) * PAGE_SIZE,
        .total = (uint64_t)pages * PAGE_SIZE,
    };
    if (code == SQLITE_DONE) {
        status = complete(s, copy);
        copied_r->whole = status == JOB_STORE_OK;
    } else if (code != SQLITE_OK) {
        status = sqlite_failed(s, code, "cannot copy");
    }
    if (copied_r->whole)
        free_copy(&s->copy);
    else if (status != JOB_STORE_OK)
        sqlite_end_copy(store);
    return status;
}
