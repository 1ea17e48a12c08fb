/*
 * control.h - commands to a running daemon, by signal or through the admin interface: reload,
 * upgrade, log statistics, end.
 *
 * The main thread runs control_run until the daemon ends. The admin's thread requests a reload or
 * an upgrade with a signal to the main thread. It waits for the result of a reload, but not of an
 * upgrade, because the upgrade parks it. Its other hooks read the settings under their lock.
 *
 * SIGUSR1 upgrades. SIGHUP reloads. But if a new program is at the daemon's path, SIGHUP upgrades,
 * which also reads the configuration, and reloads only if the upgrade fails. A reload requested
 * through the admin interface never upgrades.
 */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "admin/admin.h"
#include "daemon/reload.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Size of the report of a reload; a longer one is cut. */
#define CONTROL_REPORT_SIZE 16384

struct control {
    struct reload reload;
    struct upgrade *upgrade; /* the main thread's; NULL: upgrades are not possible */
    pthread_t main_thread;
    _Atomic bool ready; /* clients are served, and the daemon is not ending */

    /* Shared by the admin's thread and the main thread. */
    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t reloaded;
    unsigned asked, done; /* number of reloads requested, and finished */
    bool ended;           /* the daemon ends: no reload starts any more */
    bool parking;         /* an upgrade parks the admin's thread: it must not wait for a reload */
    struct admin_upgrades upgrades;
    bool good; /* the last reload succeeded */
    char report[CONTROL_REPORT_SIZE];
};

/* Initialises the locks and the condition. The caller zeroes `control` before. */
void control_init(struct control *control);
void control_destroy(struct control *control);

/* The hooks for the admin interface. The admin's thread calls them. */
struct admin_hooks control_hooks(struct control *control);

/* Makes upgrades possible; copies the history of earlier ones. Main thread. */
void control_set_upgrade(struct control *control, struct upgrade *upgrade);

/* Makes /readyz report ready, until control_end. Main thread. */
void control_ready(struct control *control);

/*
 * Handles signals until one ends the daemon, and returns that one. Reports the state to the service
 * manager. The caller has blocked the signals of `awaited`. Main thread, while workers run.
 */
int control_run(struct control *control, const sigset_t *awaited);

/* Refuses further reloads and upgrades, and wakes a waiting admin's thread. The caller calls it
 * before it frees the admin. Main thread. */
void control_end(struct control *control);

#endif
