/*
 * upgrade.h - the daemon becomes the program that is at its path by now, in place: the same
 * process, the same listeners, and every plain connection with all it holds and waits for.
 *
 * In turn:
 *  1. check: a child runs the new program, which reads the configuration and the head of the state,
 *     while everybody is served;
 *  2. the admin's thread and the workers are parked (net/carry.h);
 *  3. what they are is written to a file in memory (base/record.md);
 *  4. rehearsal: a child runs the new program, which builds everything from that file, checks it,
 *     and leaves all that was inherited alone;
 *  5. this process executes the new program, which builds the same once more, and serves.
 *
 * Whatever goes wrong up to the 4th has the old program go on as if nothing had been asked: it says
 * why. A child that crashes has failed, one that takes longer than upgrade.timeout too. What goes
 * wrong in the 5th ends the process, as there is no old program any more; the rehearsal is there to
 * find that before.
 *
 * Which of its parts a program is to play it is told in the environment (UPGRADE_VARIABLE), with
 * the descriptor of the file; the variable is removed at once.
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

#include <limits.h>

/* The environment variable. */
#define UPGRADE_VARIABLE "COUNTERD_UPGRADE"

enum upgrade_role {
    UPGRADE_NONE,     /* a start like any other */
    UPGRADE_CHECK,    /* to say whether it could take over */
    UPGRADE_REHEARSE, /* to try, and touch nothing */
    UPGRADE_TAKE,     /* to take over */
};

/* What there is to be carried; where one is NULL, it is not there yet. */
struct upgrade_parts {
    struct server *server;
    struct services *services;
    const struct listeners *listeners;
    const struct activation *activation;
    struct admin *admin; /* NULL: none */
    const struct settings *settings;
    bool wrote_pid_file; /* the one that the settings name */
};

#define UPGRADE_VERSION_MAX 63

struct upgrade {
    enum upgrade_role role;
    char path[PATH_MAX]; /* the program, as it was started; "": not known */
    dev_t device;        /* the program that runs */
    ino_t inode;
    char **argv;
    struct upgrade_parts parts;    /* to be set before upgrade_run */
    struct admin_upgrades history; /* also of the processes before */

    /* From the process before, unless the role is NONE. */
    struct record_reader state;
    struct inherited inherited;
    struct activation activation;
    char version[UPGRADE_VERSION_MAX + 1];
    char pid_file[PATH_MAX]; /* "": it wrote none */
    bool had_file;           /* it has read a configuration file */
    int64_t parked_ns;       /* since when nobody is served, monotonic; 0: they are */
};

/*
 * Finds out which program this is and which part it plays. False: it can't play it, which was said
 * on standard error. `argv` is main's, and stays.
 */
bool upgrade_init(struct upgrade *upgrade, char **argv) MUST_USE;

/* Whether the program at its path is another than the one that runs. */
bool upgrade_is_due(const struct upgrade *upgrade);

/*
 * Upgrades: returns only where it failed, and everything goes on. What there is to say is logged,
 * and put in `history`.
 */
void upgrade_run(struct upgrade *upgrade);

/*
 * The new program: builds table, services and connections. The parts are there and their workers do
 * not run. False: it was said why.
 */
bool upgrade_restore(struct upgrade *upgrade) MUST_USE;

/* The new program serves: says so. */
void upgrade_over(struct upgrade *upgrade);

#endif
