/*
 * child.h - runs a command as a child process; the event loop waits for its end.
 *
 * The command is a plain child in our own process group. It has our environment, terminal, standard
 * input and output, if nothing else is asked for, and both of us get what the terminal sends
 * (Ctrl-C, Ctrl-Z). It inherits none of our other descriptors. Several commands may run at once.
 *
 * A command that is apart has a process group of its own, so what the terminal sends does not reach
 * it, and our signals reach what it has started too. Processes of the group may outlive the
 * command.
 *
 * We name the process by a pidfd, never by its number: the kernel may reuse a number after the
 * process was reaped, and our signals must not reach another process.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "cli/loop.h"

#include <stdbool.h>
#include <sys/types.h>

/* Zero-initialise, then set on_end, owner, and what is wanted of the five fields after them. The
   command does not run yet. */
struct child {
    void (*on_end)(void *owner, int how); /* it has ended; how: the status of waitpid */
    void *owner;
    char *const *environment; /* "NAME=value" added to our environment, "NAME" left out of it; ended
                                 by NULL; NULL: none. Read by child_start only */
    int death_signal;         /* the kernel sends it to the command when we are killed; 0: none */
    int input;                /* its standard input, which the caller closes; 0: ours, or none if it
                                 is apart */
    bool is_apart;            /* it has a process group of its own */
    bool is_read;             /* its standard output is a pipe, which we read */
    int output;               /* read end of that pipe, non-blocking; set by child_start, and closed
                                 by the caller */
    /* private to child.c */
    struct loop *loop;
    struct watch watch; /* of the pidfd; set while the process runs */
    struct timer kill;
    pid_t pid;          /* while the process runs */
    pid_t group;        /* of a command that is apart; 0: none */
    struct child *next; /* of all that run */
};

/*
 * Starts `argv`. Returns 0, or the status to exit with after printing why; `output` is then
 * closed.
 */
int child_start(struct child *child, struct loop *loop, char **argv) MUST_USE;

bool child_runs(const struct child *child);

/* Sends a signal to the process, or to the whole group if it is apart; does nothing when the
   command does not run. */
void child_signal(const struct child *child, int number);

/* Ends the process if it runs: sends TERM (and CONT, because it may be stopped), and KILL after
   `grace_ns`. */
void child_terminate(struct child *child, int64_t grace_ns);

/* After the end of a command that is apart: sends a signal (0: none) to what is left of its group.
   Returns false when nothing is left, and always from then on. */
bool child_signal_rest(struct child *child, int number);

/* True if a command that was started, and whose end was not reported yet, has that number. */
bool child_has_pid(pid_t pid);

/* The exit status for `how` (of on_end): the command's own, or 128 plus the signal's number. */
int child_status(int how);

#endif
