/*
 * signals.h - signals as something to read, beside the connection.
 *
 * Those that are to end or steer a wait are blocked and read from a descriptor. What was ignored
 * when we were started stays ignored (nohup, the background of a script). SIGPIPE is ignored; what
 * a command that we execute finds is as we found it.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "base/check.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>

struct signals {
    int fd; /* can be read when one has come */
    sigset_t mask_before;
    struct sigaction child_before;
};

/* Has SIGPIPE ignored. Once, at the very start. */
void signals_start(void);

/* Blocks the signals and opens the descriptor. STATUS_OK, or STATUS_SYSTEM (said). */
int signals_begin(struct signals *signals) MUST_USE;

/*
 * Closes it. The signals stay blocked: what is left is to exit with the status that was found,
 * which one that comes now does not change.
 */
void signals_close(struct signals *signals);

/* Takes the next signal that has come. False: there is none. */
bool signals_take(struct signals *signals, struct signalfd_siginfo *signal_r) MUST_USE;

/* After SIGTSTP was taken: stops the process as it would have, until it is continued. */
void signals_stop(void);

/*
 * For waits in which no command runs: takes what has come. Stops the process where a stop was
 * asked for, until it is continued. Returns the number of a signal that ends us; 0: none has come.
 */
int signals_end_of_wait(struct signals *signals);

/* In a new process, before it executes a command: as we found it. */
void signals_restore(const struct signals *signals);

#endif
