/*
 * job_backup.h - backups of the jobs' file while it is in use, asked for over HTTP: a part of the
 * resource in job_store.c.
 *
 * The store's thread copies piece by piece between its transactions, which go first: while any are
 * queued, the copy gets as much of the thread's time as they take (struct backup_share), so that it
 * ends under any load, and answers take twice as long at most.
 *
 * Who asked for a backup need not wait for it: it goes on, and is seen in what is asked later.
 * There is one at a time. The end of the process, and an upgrade, end it; nothing is left of it.
 *
 * Threads: the store's, but for the routes and backup_read, which are the admin's. Both use what
 * the lock protects.
 */
#ifndef SERVICE_JOB_BACKUP_H
#define SERVICE_JOB_BACKUP_H

#include "jobs/store.h"
#include "net/reactor.h"
#include "service/monitor.h"
#include "service/service.h"

#include <limits.h>
#include <pthread.h>

/* No transaction waits for the copy for longer than this, and a piece. */
#define BACKUP_WAIT_NS (50 * NS_PER_MS)

/* How the thread's time is shared. */
struct backup_share {
    int64_t
        credit_ns; /* what the copy may take before the next transaction; below 0: it took more */
};

/* A transaction took so long; so may the copy. Nothing is saved up for later. */
static inline void backup_share_worked(struct backup_share *share, int64_t ns)
{
    int64_t owed_ns = share->credit_ns < 0 ? share->credit_ns : 0;
    share->credit_ns = owed_ns + (ns < BACKUP_WAIT_NS ? ns : BACKUP_WAIT_NS);
}

/* A piece of the copy took so long. Returns true when another one comes before the transaction that
 * is queued. */
static inline bool backup_share_copied(struct backup_share *share, int64_t ns)
{
    share->credit_ns -= ns;
    if (share->credit_ns < -BACKUP_WAIT_NS)
        share->credit_ns = -BACKUP_WAIT_NS;
    return share->credit_ns > 0;
}

/* The backup under way, or the last one. */
struct backup_stats {
    bool running, good;
    char file[NAME_MAX + 1];       /* "": there was none */
    char reason[JOB_STORE_REASON]; /* of one that failed */
    uint64_t done, total;          /* bytes */
    int64_t took_ns;               /* until now, or its end */
    uint64_t made, failed;         /* since the start */
};

struct job_backup {
    struct services *services;
    struct reactor *thread;
    const char *path, *folder; /* of the store, and where copies go */

    struct job_store *store; /* NULL: the job queues do not serve */
    struct timer timer;
    bool has_timer, copies;
    struct backup_share share;
    int64_t began_ns;

    pthread_mutex_t lock;
    struct backup_stats stats; /* under the lock */
};

/* Sets it up, without a store. */
void backup_init(struct job_backup *backup, struct services *services, struct reactor *thread);
void backup_destroy(struct job_backup *backup);

/* True if there is such a folder; else errno says why not. */
bool backup_can_use(const char *folder) MUST_USE;

/* The store of `path` is open: copies go to `folder`. Removes what a process that was killed has
 * left there. Returns false on error: errno. */
bool backup_open(struct job_backup *backup, struct job_store *store, const char *path,
                 const char *folder) MUST_USE;

/* A transaction took so long. */
void backup_worked(struct job_backup *backup, int64_t ns);

/* Ends the backup that is under way, if there is one, because of `reason`. */
void backup_end(struct job_backup *backup, const char *reason);

/* Before the store is closed, which has to be after this. */
void backup_close(struct job_backup *backup);

/* What the interface shows. */
void backup_read(struct job_backup *backup, struct backup_stats *stats_r);

/* The backups of these services (job_store.c). */
struct job_backup *backup_of(const struct services *services);

route_handler get_backup, make_backup;

#endif
