/*
 * held.h - runs a command while a connection holds something for it.
 */
#ifndef CLI_HELD_H
#define CLI_HELD_H

#include "cli/child.h"
#include "cli/client.h"

/*
 * Step: runs `argv` in an environment, which is taken over (NULL: as ours), and
 * waits for its end. Passes on to it the signals that another process sends to us alone; afterwards
 * a signal ends the loop again. When the connection is lost meanwhile, prints so and closes it;
 * with options->strict also ends the command: TERM, and KILL after options->grace_ns. Returns the
 * exit status: the command's, or that of child_start; with options->strict STATUS_LOST after a
 * loss, however the command has ended. *how_r is the status of waitpid, 0 if the command was not
 * started.
 */
int held_run(char **argv, struct environment *environment, struct client *client,
             const struct options *options, int *how_r) MUST_USE;

#endif
