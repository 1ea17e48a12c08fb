/*
 * process.h - the daemon's own process: signals, limits, user, pid file. A function that
 * returns false logs the error, unless it sets errno.
 *
 * Threads: main thread only, before any other thread starts.
 */
#ifndef DAEMON_PROCESS_H
#define DAEMON_PROCESS_H

#include "base/check.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Exit statuses. The manual lists each. */
enum process_exit {
    PROCESS_EXIT_GOOD,    /* a signal ended the daemon; or -h, -V or -t succeeded */
    PROCESS_EXIT_ADDRESS, /* -l has an invalid address: 1, as with poolcounterd */
    PROCESS_EXIT_SETUP,   /* any other error that prevents the start */
    PROCESS_EXIT_COUNT
};

/*
 * Blocks the signals that the main thread handles, in this thread and the threads it starts;
 * returns the set in *set_r.
 * Ignores SIGPIPE and SIGXFSZ, because write returns an error then. Resets SIGCHLD, which the
 * parent may have set to ignore, so that waitpid works.
 */
void process_block_signals(sigset_t *set_r);
/* Unblocks SIGTERM and SIGINT: the next one ends the process at once. */
void process_allow_abrupt_end(void);

/* True when a signal waits that ends the daemon. It stays for the main loop. */
bool process_is_to_end(void);

/* Raises the limit of descriptors to the hard limit. Returns the limit then; 0: not known. */
uint64_t process_raise_descriptors(void);

/*
 * Changes to `user` (NULL: no change) and `group` (NULL: the user's own), with the supplementary
 * groups of the user; without a user there are none. Does nothing if the process has that user and
 * group already. Returns false if they do not exist, or the change is not permitted.
 */
bool process_drop_root(const char *user, const char *group) MUST_USE;
/* Logs a warning if the process runs as root. */
void process_warn_of_root(void);
/* True if process_drop_root would be permitted: the process is root, or is that user already.
 * Returns false also if user or group do not exist. */
bool process_can_become(const char *user, const char *group) MUST_USE;
/* Changes the owner of a file to that user and group, if the process is root. NULL: as in
 * process_drop_root. Returns false with errno. */
bool process_give_file(const char *path, const char *user, const char *group) MUST_USE;
/* True if the user and the group exist; NULL counts as existing. */
bool process_know_user(const char *user, const char *group) MUST_USE;

/*
 * Writes the process id to the file at `path`; replaces old contents, but does not follow a
 * symbolic link. Returns false on error.
 */
bool process_write_pid_file(const char *path) MUST_USE;
/*
 * Removes the pid file if it has our process id. Ignores errors: the daemon's user may not be
 * permitted to remove it.
 */
void process_remove_pid_file(const char *path);

#endif
