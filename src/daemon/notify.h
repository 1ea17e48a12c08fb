/*
 * notify.h - what a service manager is told: ready, reloading, stopping, alive. The only file that
 * knows libsystemd; built without it, or where no manager asked (NOTIFY_SOCKET is not set), every
 * function does nothing.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdint.h>

/* The environment variables that are read; NULL after the last. */
extern const char *const notify_variables[];

/* Serving, or serving again after notify_reloading; `status`: one line for people. */
void notify_ready(const char *status);
/* A reload begins; notify_ready ends it. */
void notify_reloading(void);
/* The end begins. */
void notify_stopping(void);
/* The end begins, and may take so long, more than the manager may have been told to allow. */
void notify_draining(int64_t allow_ns, const char *status);

/*
 * How often, in nanoseconds, notify_alive is to be called so that the manager does not take us for
 * hung: a third of what it allows. 0: it does not watch us.
 */
int64_t notify_alive_interval_ns(void);
void notify_alive(void);

#endif
