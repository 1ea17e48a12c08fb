/*
 * runner.h - runs a command together with everything that it starts.
 *
 * The command is apart (child.h): it leads a process group, signals go to the whole group, and the
 * end is over only when the group is empty. When we are killed the kernel kills the command, and
 * the reaper (reaper.h) the rest.
 */
#ifndef CLI_RUNNER_H
#define CLI_RUNNER_H

#include "cli/child.h"
#include "cli/environment.h"
#include "cli/relay.h"

/* Zero-initialise, then set the first three fields, and `input` if it is wanted. */
struct runner {
    /* Called with each line of its output, as in struct relay. NULL: its output is ours. */
    bool (*take)(void *owner, struct bytes part, bool is_last);
    /* The command has ended; how: the status of waitpid. With `leaves_some` others of its group
       still run, and it is called again when they are gone. */
    void (*on_end)(void *owner, int how, bool leaves_some);
    void *owner;
    int input; /* of the command, as in struct child; read by runner_start only */
    /* private to runner.c */
    struct loop *loop; /* NULL: nothing runs */
    struct child child;
    struct relay relay;
    struct timer look; /* at what is left */
    struct timer kill;
    int how;
};

/* Starts a command. Nothing may run. Returns 0, or the status to exit with after printing why;
   on_end is not called then. */
int runner_start(struct runner *runner, struct loop *loop, char **argv,
                 const struct environment *environment) MUST_USE;

/* True until on_end was called for the last time. */
bool runner_runs(const struct runner *runner);

/* Sends a signal to all that run. */
void runner_signal(struct runner *runner, int number);

/* Ends all that run, if anything does: sends TERM (and CONT, because it may be stopped), and KILL
   after `grace_ns`. */
void runner_terminate(struct runner *runner, int64_t grace_ns);

#endif
