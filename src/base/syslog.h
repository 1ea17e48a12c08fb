/*
 * syslog.h - sends lines to syslog, each as a datagram to /dev/log, as syslog(3) does. Unlike
 * syslog(3), it never blocks without a time limit, and connects only when asked.
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
 * Sends `len` bytes of text as "counterd", facility "daemon", with a priority of <syslog.h>. If
 * there is no room, waits for up to wait_ms. Returns false when the line was not sent.
 */
bool syslog_send(int priority, const char *text, size_t len, int wait_ms) MUST_USE;

/* For tests: connects to this path from now on. The caller keeps ownership of the string. */
void syslog_set_path(const char *path);

#endif
