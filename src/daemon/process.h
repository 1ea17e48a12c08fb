/*
 * process.h - what a daemon does to its own process: signals, limits, user, pid file. Main thread
 * only, before any other thread starts. Each says on the log what went wrong.
 */
#ifndef DAEMON_PROCESS_H
#define DAEMON_PROCESS_H

#include "base/check.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the process ends with. Each stands in the manual. */
enum process_exit {
    PROCESS_EXIT_GOOD,    /* told to end; or what was asked for was printed */
    PROCESS_EXIT_ADDRESS, /* a -l that is no good: as poolcounterd */
    PROCESS_EXIT_SETUP,   /* anything else that keeps it from starting */
    PROCESS_EXIT_COUNT
};

/* The signals that the main thread waits for, ended by 0. Each stands in the manual. */
extern const int process_signals[];

/*
 * Blocks them in this thread and those it starts; *set_r: the set of them. SIGPIPE and
 * SIGXFSZ are ignored: who writes is told. SIGCHLD is not, whatever was inherited: children are
 * waited for.
 */
void process_block_signals(sigset_t *set_r);
/* Lets the next SIGTERM or SIGINT end the process at once; the others stay blocked. */
void process_allow_abrupt_end(void);

/*
 * Opens those of standard input, output and error that are closed on /dev/null, so that no socket
 * gets their numbers. False: that can't be done, which is said where it can be.
 */
bool process_open_standard(void) MUST_USE;

/* Raises the number of descriptors to the hard limit; returns what it is then. */
uint64_t process_raise_descriptors(void);

/*
 * Becomes `user` (NULL: stays who it is) with `group` (NULL: the user's own) and no others. When it
 * is that user already, it is done. False: no such user or group, or not allowed.
 */
bool process_drop_root(const char *user, const char *group) MUST_USE;
/* Says so where the process is root's, now that it could have become another user's. */
void process_warn_of_root(void);
/* Whether it could: false: it is another user already, or there is none of that name. */
bool process_can_become(const char *user, const char *group) MUST_USE;
/* Gives a file to that user and group, as far as they are named. False: errno. */
bool process_give_file(const char *path, const char *user, const char *group) MUST_USE;
/* Whether there are such a user and group (NULL: none is asked for). */
bool process_know_user(const char *user, const char *group) MUST_USE;

/*
 * Writes the process's number into a new file at `path`, or over one that was left there, but not
 * through a symbolic link. False: it can't.
 */
bool process_write_pid_file(const char *path) MUST_USE;
/*
 * Removes it, unless it holds another number by now. Where that is not allowed any more, empties
 * nothing and says nothing.
 */
void process_remove_pid_file(const char *path);

#endif
