/*
 * child.h - a command that is executed, as something that the loop waits for.
 *
 * The command is a plain child in our own process group: it has our terminal, standard input and
 * output, and what the terminal sends (Ctrl-C, Ctrl-Z) reaches both of us. It inherits none of our
 * other descriptors. Any number of them may run at once.
 *
 * A process is named by a descriptor of it (pidfd), never by its number, which is another's once
 * the process was reaped; so no signal of ours can reach another.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "cli/loop.h"

#include <stdbool.h>

/* Zero-initialised but for on_end and owner: it does not run. */
struct child {
    void (*on_end)(void *owner, int how); /* how: as waitpid tells; it does not run any more */
    void *owner;
    /* child.c's own */
    struct loop *loop;
    struct watch watch; /* of the process; in the loop while it runs */
    struct timer kill;
};

/*
 * Executes `argv`. Where we are killed outright, `dies_with_us` has it ended, too. Returns 0, or
 * the status to exit with (said why).
 */
int child_start(struct child *child, struct loop *loop, char **argv, bool dies_with_us) MUST_USE;

bool child_runs(const struct child *child);

/* Sends it a signal, if it runs. */
void child_signal(const struct child *child, int number);

/* Has it end, if it runs: TERM, and KILL after `grace_ns`. It may be stopped, and goes on for it.
 */
void child_terminate(struct child *child, int64_t grace_ns);

/* The exit status that tells of `how` it ended: its own, or 128 and a signal's number. */
int child_status(int how);

#endif
