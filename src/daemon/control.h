/*
 * control.h - what a daemon that runs can be told, by signals and through the admin interface:
 * reload, upgrade, say how it is, end.
 *
 * The main thread spends its life in control_run. The admin's thread asks it for a reload by a
 * signal and waits for the result; for an upgrade it asks without waiting, as it ends with it. Its
 * other hooks read the settings under their lock.
 *
 * SIGUSR1 upgrades. SIGHUP reloads; where the program at the daemon's path is another by now, it
 * upgrades, which reads the configuration too, and reloads only if that fails. A reload that the
 * admin interface asks for is that and no more.
 */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "admin/admin.h"
#include "daemon/reload.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Room for the report of a reload; what is longer is cut. */
#define CONTROL_REPORT_SIZE 16384

struct control {
    struct reload reload;
    struct upgrade *upgrade; /* the main thread's; NULL: there can be none */
    pthread_t main_thread;
    _Atomic bool ready; /* clients are served, and the end has not begun */

    /* Between the admin's thread, which asks, and the main thread. */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t reloaded;
    unsigned asked, done; /* reloads that were asked for, and that are over */
    bool ended;           /* none is made any more */
    bool parking;         /* the admin's thread is to end: nobody waits */
    struct admin_upgrades upgrades;
    bool good; /* the last one */
    char report[CONTROL_REPORT_SIZE];
};

/* Makes what threads share; the rest of `control`, which is zero, is filled in by the caller. */
void control_init(struct control *control);
void control_destroy(struct control *control);

/* The hooks of the admin interface. Their functions are called in its thread. */
struct admin_hooks control_hooks(struct control *control);

/* What can upgrade, and what has come of it so far. Main thread. */
void control_set_upgrade(struct control *control, struct upgrade *upgrade);

/* The daemon serves: /readyz says so from now on, until control_end. Main thread. */
void control_ready(struct control *control);

/*
 * Waits for signals and does what they say, until one of them (returned) ends the daemon. Tells the
 * service manager how it is. `awaited` is blocked. Main thread; workers run.
 */
int control_run(struct control *control, const sigset_t *awaited);

/* No reload is made any more, and nobody waits for one. Before the admin is freed. */
void control_end(struct control *control);

#endif
