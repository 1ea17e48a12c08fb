/*
 * landlock.h - keeps a thread to files below given folders, where the kernel has Landlock (since
 * 5.13, unless it was left out or not switched on at boot). The only file that knows of it.
 */
#ifndef DAEMON_LANDLOCK_H
#define DAEMON_LANDLOCK_H

#include "net/thread.h"

/* False: the kernel has none, and errno says why. */
bool landlock_exists(void) MUST_USE;

/*
 * In a thread that may not gain rights (no_new_privs): from now on it opens only what `to` reads
 * and writes, and makes, renames and removes files only below what it writes. False with errno, and
 * what failed was logged.
 */
bool landlock_confine(const struct confinement *to) MUST_USE;

#endif
