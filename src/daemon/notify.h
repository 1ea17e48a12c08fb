/*
 * notify.h - messages to a service manager: ready, reloading, stopping, alive. Only notify.c uses
 * libsystemd. Every function does nothing when counterd is built without it, or when NOTIFY_SOCKET
 * is not set.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdint.h>

/* counterd serves, for the first time or again after notify_reloading. `status`: one line for
 * people. */
void notify_ready(const char *status);
/* A reload starts; notify_ready ends it. */
void notify_reloading(void);
/* The daemon is ending. */
void notify_stopping(void);
/* The daemon is ending, and asks the manager to wait `allow_ns` nanoseconds for it. */
void notify_draining(int64_t allow_ns, const char *status);

/*
 * The interval of notify_alive in nanoseconds: a third of the watchdog's timeout. 0: there is no
 * watchdog.
 */
int64_t notify_alive_interval_ns(void);
/* Feeds the watchdog. */
void notify_alive(void);
/* The same, when that interval has passed since the last time. Called while the main thread waits
 * for something else. */
void notify_alive_again(void);

#endif
