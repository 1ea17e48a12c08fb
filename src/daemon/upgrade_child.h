/*
 * upgrade_child.h - a child of an upgrade: it runs the new program, or is a copy of this process
 * that writes the state. The daemon reads what the child says, waits for its end, and meanwhile
 * tells the service manager that it is alive.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_UPGRADE_CHILD_H
#define DAEMON_UPGRADE_CHILD_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a child writes to one of its descriptors. */
struct child_text {
    int fd; /* the pipe; -1: it has ended */
    char text[4096];
    size_t len;
};

/* A child that runs the new program. */
struct child {
    pid_t pid;
    struct child_text said; /* on standard error */
    struct child_text told; /* on standard output: its answer */
};

/* How a child ended. */
enum child_end { CHILD_ENDED, CHILD_TOO_SLOW, CHILD_UNWANTED /* the daemon is to end */ };

/*
 * Starts the program at `path` in a child, which gets these descriptors with the same numbers.
 * Returns false with errno.
 */
bool child_start(struct child *child_r, const char *path, char **argv, char **environment,
                 const int *fds, size_t fd_count) MUST_USE;

/* Makes a process the first that the kernel ends when memory is short: better a failed upgrade than
 * everything lost. */
void child_offer(pid_t pid);

/*
 * Waits for the child's end, at most limit_ns nanoseconds; kills it then, or when a signal is to
 * end the daemon. All that it wrote is in `said` and `told` after that. *status_r is as of waitpid.
 */
enum child_end child_await(struct child *child, int64_t limit_ns, int *status_r) MUST_USE;

#endif
