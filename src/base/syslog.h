/*
 * syslog.h - sends lines to syslog, each as a datagram to /dev/log, as syslog(3) does. Unlike
 * syslog(3), it never blocks, and connects only when asked.
 *
 * Threads: one at a time (log.c has the lock).
 */
#ifndef BASE_SYSLOG_H
#define BASE_SYSLOG_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

/* Connects if not connected. Calls socket(2) and connect(2), which some threads may not call. */
void syslog_connect(void);

/* Closes the connection. */
void syslog_disconnect(void);

/*
 * Waits until there is room for a line, for up to wait_ms. Only in the thread that connects; needs
 * no lock there.
 */
void syslog_wait(int wait_ms);

/*
 * Sends `len` bytes of text as "counterd", facility "daemon", with a priority of <syslog.h>.
 * Returns false when the line was not sent, for example because there is no room.
 */
bool syslog_send(int priority, const char *text, size_t len) MUST_USE;

/* For tests: connects to this path from now on. The caller keeps ownership of the string. */
void syslog_set_path(const char *path);

#endif
