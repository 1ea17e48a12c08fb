/*
 * upgrade.h - upgrade in place: the daemon executes the new program at its path. The process, its
 * listeners and all connections without TLS stay, with everything they hold and wait for.
 *
 * Steps:
 *  1. check: a child runs the new program, which reads the configuration and the head of the state.
 *     Clients are served meanwhile;
 *  2. copy: this process waits until its resources allow a pause (service/resource.h). It pauses
 * the admin's thread, the workers and the resources (net/carry.h) for the moment that fork takes.
 *     The child has the state of that moment, and writes it to a file in memory (base/record.md)
 *     while clients are served again;
 *  3. dry run: a child runs the new program, which builds everything from that file and checks
 *     it, but does not touch the inherited sockets. Clients are served meanwhile;
 *  4. this process waits for such a moment again, and pauses everything;
 *  5. it writes the state of now to the file;
 *  6. this process executes the new program, which builds everything again, and serves.
 *
 * Without memory for a copy there is no step 2, and step 3 comes after step 5, so that nobody is
 * served for several times as long.
 *
 * If steps 1 to 5 fail, the old program continues and logs why. A child succeeds when it says what
 * it has read (upgrade_answer.h), and that is what was written. It fails when it crashes, or takes
 * longer than upgrade.timeout (the check: 20 s), or when memory is short: the kernel ends it
 * before this process. An upgrade begins only if there is room (upgrade_room.h). Step 5 also fails
 * when a resource must be served again before step 6 could be over. What changed since the
 * dry run is guarded by the counts and the sum in the record. If the new program fails in step 6,
 * it executes the old one with the same state (upgrade_back.h); only connections with TLS are lost
 * then. If it crashes there, all is lost.
 *
 * The environment variable UPGRADE_VARIABLE gives the new program its role and the descriptor of
 * the file. The new program removes the variable at once.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_UPGRADE_H
#define DAEMON_UPGRADE_H

#include "admin/admin.h"
#include "base/record.h"
#include "daemon/activation.h"
#include "daemon/inherited.h"
#include "daemon/listeners.h"
#include "daemon/options.h"
#include "daemon/upgrade_answer.h"
#include "daemon/upgrade_back.h"
#include "net/carry.h"

#include <limits.h>

/* The environment variable. */
#define UPGRADE_VARIABLE "COUNTERD_UPGRADE"

enum upgrade_role {
    UPGRADE_NONE,    /* an ordinary start */
    UPGRADE_CHECK,   /* step 1 */
    UPGRADE_DRY_RUN, /* step 3 */
    UPGRADE_TAKE,    /* step 6 */
    UPGRADE_GO_ON,   /* the old program goes on again, because the new one could not take over */
};

/* The parts of the daemon to save or restore; NULL before they are made. */
struct upgrade_parts {
    struct server *server;
    struct services *services;
    const struct listeners *listeners;
    const struct activation *activation;
    struct admin *admin; /* NULL: none */
    const struct settings *settings;
    bool wrote_pid_file; /* the pid file that the settings name exists and is ours */
};

struct upgrade {
    enum upgrade_role role;
    char path[PATH_MAX]; /* the path by which the program was started; "": not known */
    dev_t device;        /* of the running program's file, with `inode` */
    ino_t inode;
    char **argv;
    struct upgrade_parts parts;    /* the caller sets it before upgrade_run and upgrade_restore */
    struct admin_upgrades history; /* includes the upgrades of earlier programs */

    struct upgrade_answer wrote; /* what the state has that this program wrote last */
    struct upgrade_answer built; /* what this program has built from the state */

    /* From the old program, unless the role is UPGRADE_NONE. */
    struct record_reader state;
    struct inherited inherited;
    struct activation activation;
    char version[UPGRADE_VERSION_MAX + 1];
    char pid_file[PATH_MAX];      /* "": the old program wrote none */
    bool had_file;                /* the old program read a configuration file */
    struct upgrade_back back;     /* in the old program: its own file */
    int state_fd;                 /* kept for the way back; -1: there is none */
    struct carry carry;           /* what was restored */
    struct upgrade_counts counts; /* of the state, as the old program says */
    bool has_counts;
    int64_t paused_ns;  /* when the workers were paused, monotonic; 0: they run */
    int64_t reading_ns; /* how long the last dry run took to read the state */
    int64_t pause_ns;   /* how long they were paused in this upgrade, up to the last time */
};

/*
 * Finds the running program's path and role, and reads the head of the state. Returns false when
 * the variable or the state is invalid; the error is printed to standard error. Keeps `argv`.
 */
bool upgrade_init(struct upgrade *upgrade, char **argv) MUST_USE;

/* True when another file than the running program is at its path. */
bool upgrade_is_due(const struct upgrade *upgrade);

/*
 * Upgrades. Returns only after a failure; all threads run again then. Logs what happened and adds
 * it to `history`. Calls `over` when `history` is complete, before the log's last line says so.
 */
void upgrade_run(struct upgrade *upgrade, void (*over)(void *arg), void *arg);

/* True in a process that takes over connections. */
static inline bool upgrade_takes(const struct upgrade *upgrade)
{
    return upgrade->role == UPGRADE_TAKE || upgrade->role == UPGRADE_GO_ON;
}

/* With UPGRADE_GO_ON: sets the options as they were. Returns false on error, which is printed. */
bool upgrade_settings(struct upgrade *upgrade, struct settings *settings) MUST_USE;

/*
 * In the new program: restores the table, the services and the connections into the parts. The
 * workers must not run yet. Closes no connection. Returns false on error, which is logged.
 */
bool upgrade_restore(struct upgrade *upgrade) MUST_USE;

/* In the new program, when nothing can fail any more: closes the connections that can't be kept.
 * There is no way back from here. */
void upgrade_commit(struct upgrade *upgrade);

/* In the new program: executes the old one with the same state. Returns when there is no way back,
 * which is logged. */
void upgrade_go_back(struct upgrade *upgrade);

/* In a child that has succeeded: tells its parent. Returns false when that can't be written. */
bool upgrade_answer(const struct upgrade *upgrade) MUST_USE;

/* In the new program, when it serves: logs the success and adds it to `history`. */
void upgrade_over(struct upgrade *upgrade);

#endif
