/*
 * held.h - executing a command while a connection holds something for it.
 */
#ifndef CLI_HELD_H
#define CLI_HELD_H

#include "cli/client.h"

/*
 * As a step: executes `argv` and waits for its end. Signals that somebody sends to us alone are
 * passed on, and none is taken any more after it. A connection that is lost meanwhile is said and
 * closed, and with options->strict ends the command: TERM, and KILL after options->grace_ns.
 * Returns what to exit with; STATUS_LOST where the command was ended so. *holds_r: it has exited
 * with 0, and the connection is up.
 */
int held_run(char **argv, struct client *client, const struct options *options,
             bool *holds_r) MUST_USE;

#endif
