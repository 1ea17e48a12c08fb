/*
 * signals.h - signals as something that the loop waits for.
 *
 * Those that are to end or steer a wait are blocked and read from a descriptor. What was ignored
 * when we were started stays ignored (nohup, the background of a script). SIGPIPE is ignored; what
 * a command that we execute finds is as we found it. Signals are the process's, so there is one
 * set of them, for one loop.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "cli/loop.h"

#include <signal.h>
#include <sys/signalfd.h>

/* Called by the loop for each signal that has come. */
typedef void signal_handler(void *owner, const struct signalfd_siginfo *taken);

/* Has SIGPIPE ignored. Once, at the very start. */
void signals_start(void);

/*
 * Blocks the signals and has the loop take them: one that ends us ends the loop with STATUS_SIGNAL
 * and its number, until signals_handle says otherwise. They stay blocked to the end: what is left
 * after the last wait is to exit with the status that was found, which one that comes then does not
 * change. STATUS_OK, or STATUS_SYSTEM (said).
 */
int signals_begin(struct loop *loop) MUST_USE;

/* Has `handle` called for each signal from now on. NULL: none is taken any more. Harmless where
   signals_begin was not called. */
void signals_handle(signal_handler *handle, void *owner);

/* After SIGTSTP was taken: stops the process as it would have, until it is continued. */
void signals_stop(void);

/* In a new process, before it executes a command: as we found it. */
void signals_restore(void);

#endif
