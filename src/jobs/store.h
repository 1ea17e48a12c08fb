/*
 * store.h - where jobs are kept on disk: an interface that several stores fit, and their records.
 *
 * The jobs themselves are in memory (jobs.h); a store keeps what a restart needs, and the bodies.
 * It decides nothing: the caller says what a job is after each change. Changes are made between
 * begin and commit, and nobody else sees them before. The first failure inside a transaction is
 * kept: what follows returns it too, and so does the commit, which then leaves everything as it
 * was. So a caller may look at the commit alone.
 *
 * Threads: one thread at a time has a store. Nothing is locked, nothing has a clock of its own.
 * Times named `_ns` are of the wall clock, nanoseconds since 1970, but for `mono_ns`.
 */
#ifndef JOBS_STORE_H
#define JOBS_STORE_H

#include "base/bytes.h"
#include "base/check.h"
#include "jobs/jobs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_STORE_REASON 400u /* bytes of a reason, with the null at its end */

enum job_store_status {
    JOB_STORE_OK,
    JOB_STORE_NONE,      /* it is not there; this does not fail a transaction */
    JOB_STORE_FULL,      /* the disk, or a quota */
    JOB_STORE_IO,        /* reading or writing failed */
    JOB_STORE_ACCESS,    /* it cannot be opened there: the folder, the rights, what kind of file */
    JOB_STORE_CORRUPT,   /* the file is damaged, or something else */
    JOB_STORE_LOCKED,    /* another process uses it */
    JOB_STORE_NO_MEMORY, /* or a visitor has stopped */
    JOB_STORE_NEWER,     /* a newer program has made it */
    JOB_STORE_EXISTS,    /* of a copy: something has its name */
};
/* A word for logs and metrics. */
const char *job_store_status_word(enum job_store_status status);

enum job_store_sync {
    JOB_STORE_SYNC_FULL,   /* a commit returns when it is on disk */
    JOB_STORE_SYNC_NORMAL, /* it is on disk after the next `tend` that is due */
};

/* ---- records --------------------------------------------------------------------------------- */

/* What changes in the life of a job. */
struct job_changing {
    enum job_state state;
    uint32_t pri, delay_s;
    /* Delayed, reserved: when that ends. Reserved, 0: when the process ends that made it, so it is
     * over in each that loads it. Buried, abandoned: when it was buried, which is their order. */
    int64_t due_ns;
    int64_t began_ns; /* reserved: when that began; else 0 */
    uint64_t token;   /* reserved: of the reservation; else 0 */
    uint32_t tries;   /* reservations since it was put or kicked */
    struct job_counts counts;
    int64_t at_ns;   /* when it was enqueued, of one with a key; else 0 */
    int64_t root_ns; /* the time of its root job, of one with a root; else 0 */
};

struct job_record {
    uint64_t id; /* 1 to INT64_MAX */
    struct bytes tube;
    struct bytes key, root; /* empty: none */
    int64_t put_ns;
    uint32_t ttr_s;
    uint32_t tries_max; /* as in struct job_put */
    uint32_t body_len;
    struct job_changing now;
};

struct job_tube_record {
    struct bytes name;
    struct job_settings settings; /* only those that are `given` */
    uint32_t pause_s;             /* 0: it is not paused */
    int64_t paused_until_ns;
};

/* The last execution of a key, or the newest time of a root job, in a tube. */
struct job_memory {
    struct bytes tube, name; /* name: the key, or the signature */
    int64_t time_ns;
    int64_t forget_ns; /* when it may be forgotten; JOB_STORE_KEEP: not yet */
};
#define JOB_STORE_KEEP    INT64_MAX
#define JOB_STORE_NO_TIME INT64_MIN /* for `execute` */

/* The two kinds of struct job_memory. */
enum job_memory_kind { JOB_MEMORY_EXECUTION, JOB_MEMORY_ROOT };

/* Functions that `load` calls for each record. What they get is theirs until they return. Each
 * returns false to stop; one that is NULL is left out. */
struct job_store_visitors {
    void *arg;
    bool (*tube)(void *arg, const struct job_tube_record *tube); /* first */
    bool (*memory)(void *arg, enum job_memory_kind kind,
                   const struct job_memory *memory);      /* second */
    bool (*job)(void *arg, const struct job_record *job); /* last, by ascending id */
};

struct job_store_sizes {
    uint64_t file;  /* bytes */
    uint64_t empty; /* bytes of the file that new jobs fill first */
    uint64_t log;   /* bytes in the log that are not yet in the file */
};

/* How far a copy is. */
struct job_store_copied {
    uint64_t done, total; /* bytes; `total` may grow */
    bool whole;           /* it is there, and on disk */
};

/* ---- stores ---------------------------------------------------------------------------------- */

struct job_store_config {
    const char *path; /* absolute */
    enum job_store_sync sync;
    uint32_t reserved_space; /* bytes on disk for the time when it is full; 0: none */
    uint32_t log_bytes;      /* so much in the log is written to the file; 0: 2 MiB */
};

struct job_store {
    const struct job_store_kind *does;
    char
        reason[JOB_STORE_REASON]; /* of the last failure, for the log: one line, without the path */
};

struct job_store_kind {
    /*
     * Opens a store, or makes it if the path leads to nothing. Only one process at a time can, by
     * whatever path: LOCKED. On failure *store_r is NULL, and *reason_r (JOB_STORE_REASON bytes)
     * says why.
     */
    enum job_store_status (*open)(const struct job_store_config *config, struct job_store **store_r,
                                  char *reason_r) MUST_USE;
    /* Rolls back, writes everything to the file, frees *store and sets it to NULL. Harmless when it
     * is NULL. */
    void (*close)(struct job_store **store);

    /* Visits everything that is kept. CORRUPT: a record makes no sense; NO_MEMORY: a visitor has
     * stopped. Not inside a transaction. */
    enum job_store_status (*load)(struct job_store *store,
                                  const struct job_store_visitors *visitors) MUST_USE;

    /*
     * Takes `count` ids, *first_r and those that follow, which no call returns again, not after a
     * power cut either: they are on disk with either kind of sync. They are above all ids of jobs.
     * Not inside a transaction.
     */
    enum job_store_status (*take_ids)(struct job_store *store, uint64_t count,
                                      uint64_t *first_r) MUST_USE;

    enum job_store_status (*begin)(struct job_store *store);
    /* Ends the transaction in any case. `mono_ns`: the monotonic clock. IO also when the path does
     * not lead to the open file any more. */
    enum job_store_status (*commit)(struct job_store *store, int64_t mono_ns) MUST_USE;
    /* Ends the transaction, if there is one, and leaves everything as it was. */
    void (*rollback)(struct job_store *store);

    /* ---- inside a transaction ------------------------------------------------------------------
     */

    /* Adds a job with a new id. FULL also while the reserved space is in use. */
    enum job_store_status (*put)(struct job_store *store, const struct job_record *job,
                                 struct bytes body);
    /* NONE: there is no such job. */
    enum job_store_status (*change)(struct job_store *store, uint64_t id,
                                    const struct job_changing *now);
    /* NONE: there is no such job. For one with a key that was executed, call `execute` before. */
    enum job_store_status (*remove)(struct job_store *store, uint64_t id);
    /*
     * Keeps an execution of the key of job `id`, instead of that of before. JOB_STORE_NO_TIME: only
     * `forget_ns` is replaced. NONE: there is no such job, it has no key, or there is nothing to
     * replace.
     */
    enum job_store_status (*execute)(struct job_store *store, uint64_t id, int64_t time_ns,
                                     int64_t forget_ns);

    /* Keeps settings and pause of a tube, instead of those before; forgets it when it has none. */
    enum job_store_status (*set_tube)(struct job_store *store, const struct job_tube_record *tube);

    /* Keeps an execution or a root job, unless a later time is kept: then it changes nothing. At
     * the same time it replaces forget_ns. */
    enum job_store_status (*remember)(struct job_store *store, enum job_memory_kind kind,
                                      const struct job_memory *memory);
    /* Finds it by `tube` and `name` of *memory, and sets the rest of that. Sees what this
     * transaction has changed. Also outside of one. NONE: it is not there. */
    enum job_store_status (*recall)(struct job_store *store, enum job_memory_kind kind,
                                    struct job_memory *memory);
    /* Removes one. NONE: it is not there. */
    enum job_store_status (*forget)(struct job_store *store, enum job_memory_kind kind,
                                    struct bytes tube, struct bytes name);
    /* Removes at most `most` of either kind whose forget_ns has come. *count_r: how many. */
    enum job_store_status (*forget_old)(struct job_store *store, int64_t now_ns, uint32_t most,
                                        uint32_t *count_r);

    /* ---- at any time ---------------------------------------------------------------------------
     */

    /* Reads a body, which has `len` bytes, to `into`. NONE: it is not there; CORRUPT: it cannot be
     * read, or has another length. */
    enum job_store_status (*read_body)(struct job_store *store, uint64_t id, void *into,
                                       uint32_t len) MUST_USE;

    /* ---- outside of transactions ---------------------------------------------------------------
     */

    /* Sees that the next process will be able to open it: it is there, and not damaged where that
     * looks. */
    enum job_store_status (*can_open)(struct job_store *store) MUST_USE;

    /*
     * Does what is due, one piece in a call: syncs (JOB_STORE_SYNC_NORMAL, 1 s after a commit), and
     * writes what is in the log to the file when the log is long. A failure loses nothing; it is
     * due again.
     */
    enum job_store_status (*tend)(struct job_store *store, int64_t mono_ns);
    /* When to call `tend`, by the monotonic clock; INT64_MAX: not before the next commit. */
    int64_t (*tend_ns)(const struct job_store *store);

    /* True while the reserved space is in use, so that `put` is refused. Each `tend` that is due
     * tries to get it back. */
    bool (*is_full)(const struct job_store *store);
    void (*get_sizes)(struct job_store *store, struct job_store_sizes *sizes_r);

    /* ---- copies, outside of transactions; NULL: a store that makes none ------------------------
     */

    /* Begins a copy of everything: a new file `name` (without a slash) in `folder`. One at a time.
     * EXISTS: something has that name; ACCESS: it cannot be one of a copy. */
    enum job_store_status (*begin_copy)(struct job_store *store, const char *folder,
                                        const char *name) MUST_USE;
    /* Makes a bounded piece. It ends however many transactions come between, and has what they have
     * changed. When it is whole, or after a failure, it is over; then a failed one has left
     * nothing. */
    enum job_store_status (*copy)(struct job_store *store,
                                  struct job_store_copied *copied_r) MUST_USE;
    /* Gives up a copy that is under way, if there is one. Nothing is left of it. */
    void (*end_copy)(struct job_store *store);
    /* Removes what a process that was killed has left of a copy in `folder`. `path`: that of the
     * store, which need not be open. */
    void (*forget_copy)(const char *path, const char *folder);
};

extern const struct job_store_kind job_store_sqlite;

/*
 * Looks for a file of that store, or its folder, that the process's user may not read and write.
 * Returns true if there is none. Else *reason_r (JOB_STORE_REASON bytes) says which it is, whose,
 * who the process is, and what to do. What is not there, or cannot be looked at, counts as good.
 */
bool job_store_sqlite_may_use(const char *path, char *reason_r) MUST_USE;

#endif
