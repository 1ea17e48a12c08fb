/*
 * landlock.h - restricts a thread to files in given folders, if the kernel has Landlock (Linux 5.13
 * or newer, with Landlock built in and enabled at boot). Only landlock.c uses Landlock.
 *
 * Threads: landlock_apply in the thread to restrict; landlock_exists in any.
 */
#ifndef DAEMON_LANDLOCK_H
#define DAEMON_LANDLOCK_H

#include "net/thread.h"

/* False when the kernel has no Landlock; errno says why. */
bool landlock_exists(void) MUST_USE;

/*
 * Restricts the calling thread, which must have no_new_privs set: it can open only the files in
 * to->reads and to->writes, and make, rename and remove files only in to->writes. Returns false
 * with errno; the error is logged.
 */
bool landlock_apply(const struct sandbox *to) MUST_USE;

#endif
