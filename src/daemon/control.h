/*
 * control.h - commands to a running daemon, by signal or through the admin interface: reload,
 * upgrade, log statistics, end.
 *
 * The main thread runs control_run until the daemon ends. The admin's thread requests a reload or
 * an upgrade, each by a descriptor of its own. It waits for the result of a reload, but not of an
 * upgrade, because the upgrade pauses it. Its other hooks read the settings under their lock.
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

/* What control_run waits for. */
enum control_event { CONTROL_SIGNAL, CONTROL_RELOAD, CONTROL_UPGRADE, CONTROL_EVENTS };

struct control {
    struct reload reload;
    struct upgrade *upgrade;    /* the main thread's; NULL: upgrades are not possible */
    int events[CONTROL_EVENTS]; /* a signalfd and two eventfds; -1: none */
    _Atomic bool ready;         /* clients are served, and the daemon is not ending */

    /* Shared by the admin's thread and the main thread. */
    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t reloaded;
    unsigned asked, done; /* number of reloads requested, and finished */
    bool ended;           /* the daemon ends: no reload starts any more */
    bool pausing;         /* an upgrade pauses the admin's thread: it must not wait for a reload */
    struct admin_upgrades upgrades;
    struct admin_reloads reloads;
    char report[CONTROL_REPORT_SIZE];
};

/* Initialises the locks and the condition. The caller zeroes `control` before. */
void control_init(struct control *control);
/* Makes the descriptors for control_run, before the admin's thread runs. The caller has blocked the
 * signals of `awaited`. Returns false on error, which is logged. Main thread. */
bool control_listen(struct control *control, const sigset_t *awaited) MUST_USE;
void control_destroy(struct control *control);

/* The hooks for the admin interface. The admin's thread calls them. */
struct admin_hooks control_hooks(struct control *control);

/* Makes upgrades possible; copies the history of earlier ones. Main thread. */
void control_set_upgrade(struct control *control, struct upgrade *upgrade);

/* Makes /readyz report ready, until control_end. Main thread. */
void control_ready(struct control *control);

/*
 * Handles signals and requests until a signal ends the daemon, and returns that one. Reports the
 * state to the service manager. Main thread, while workers run, after control_listen.
 */
int control_run(struct control *control);

/* Refuses further reloads and upgrades, and wakes a waiting admin's thread. The caller calls it
 * before it frees the admin. Main thread. */
void control_end(struct control *control);

#endif
