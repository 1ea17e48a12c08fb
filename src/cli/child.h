/*
 * child.h - executing a command while a connection holds something for it.
 *
 * The command is a plain child in our own process group: it has our terminal, standard input and
 * output, and what the terminal sends (Ctrl-C, Ctrl-Z) reaches both of us. Signals that somebody
 * sends to us alone are passed on. The connection is not inherited.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "cli/client.h"
#include "cli/signals.h"

struct child_result {
    int status;   /* what to exit with; STATUS_LOST where it was ended for a lost connection */
    bool is_lost; /* the connection is; it was said, and has been closed */
};

/*
 * Executes `argv` and waits for its end. A connection that is lost meanwhile is reported, and with
 * options->strict ends the command: TERM, and KILL after options->grace_ns. `signals` is open.
 */
struct child_result child_run(char **argv, struct client *client, struct signals *signals,
                              const struct options *options) MUST_USE;

#endif
