/*
 * syslog.h - sends lines to the program that takes them for syslog, each as a datagram to /dev/log,
 * the way syslog(3) does. Unlike that one it never blocks, and connects only when it is told to.
 *
 * Threads: one at a time (log.c has the lock).
 */
#ifndef BASE_SYSLOG_H
#define BASE_SYSLOG_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Connects to the program, unless it is connected. Needs socket(2) and connect(2), which a thread
 * may not be allowed to call.
 */
void syslog_connect(void);

/* Closes the connection. */
void syslog_disconnect(void);

/*
 * Sends `len` bytes of text with a priority of <syslog.h>, as counterd of the facility "daemon".
 * Where there is no room yet, waits for it for wait_ms at most. False: it was not taken.
 */
bool syslog_send(int priority, const char *text, size_t len, int wait_ms) MUST_USE;

/* For tests: connects to this path from now on, which the caller keeps. */
void syslog_set_path(const char *path);

#endif
