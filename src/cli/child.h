/*
 * child.h - runs a command as a child process; the event loop waits for its end.
 *
 * The command is a plain child in our own process group. It has our terminal, standard input and
 * output, and both of us get what the terminal sends (Ctrl-C, Ctrl-Z). It inherits none of our
 * other descriptors. Several commands may run at once.
 *
 * We name the process by a pidfd, never by its number: the kernel may reuse a number after the
 * process was reaped, and our signals must not reach another process.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "cli/loop.h"

#include <stdbool.h>

/* Zero-initialise, then set on_end and owner. The command does not run yet. */
struct child {
    void (*on_end)(void *owner, int how); /* it has ended; how: the status of waitpid */
    void *owner;
    /* private to child.c */
    struct loop *loop;
    struct watch watch; /* of the pidfd; set while the process runs */
    struct timer kill;
};

/*
 * Starts `argv`. With `dies_with_us` the kernel sends it TERM when we are killed. Returns 0, or the
 * status to exit with after printing why.
 */
int child_start(struct child *child, struct loop *loop, char **argv, bool dies_with_us) MUST_USE;

bool child_runs(const struct child *child);

/* Sends the process a signal; does nothing when it does not run. */
void child_signal(const struct child *child, int number);

/* Ends the process if it runs: sends TERM (and CONT, because it may be stopped), and KILL after
   `grace_ns`. */
void child_terminate(struct child *child, int64_t grace_ns);

/* The exit status for `how` (of on_end): the command's own, or 128 plus the signal's number. */
int child_status(int how);

#endif
