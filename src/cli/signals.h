/*
 * signals.h - the event loop reads signals from a descriptor.
 *
 * We block the signals that end or steer a wait, and read them from a signalfd. Signals that were
 * ignored when we started stay ignored (nohup, background jobs of a script). We ignore SIGPIPE;
 * a command that we execute gets our original disposition. Signals belong to the process, so there
 * is one set of them, for one loop.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "cli/loop.h"

#include <signal.h>
#include <sys/signalfd.h>

/* The loop calls it for each signal that arrived. */
typedef void signal_handler(void *owner, const struct signalfd_siginfo *taken);

/* Ignores SIGPIPE. Called once, first in main. */
void signals_start(void);

/*
 * Blocks the signals and makes the loop read them. A signal ends the loop with STATUS_SIGNAL plus
 * its number, unless signals_handle set another handler. Outside of the loop they stay blocked, so
 * a late signal does not change the exit status. Returns STATUS_OK, or STATUS_SYSTEM after printing
 * why.
 */
int signals_begin(struct loop *loop) MUST_USE;

/* The signals that signals_begin blocks: those that end or steer us, without those that are
   ignored, because blocking would make us see them. */
sigset_t signals_taken(void);

/* True if a signal that ends us has come and was not read yet. */
bool signals_end_is_due(void);

/* Calls `handle` for each signal from now on, when the loop has served the connections that it has
   now: what they have to send goes out before a signal ends the wait for an answer. NULL: a signal
   ends the loop again. Harmless without signals_begin. */
void signals_handle(signal_handler *handle, void *owner);

/* After SIGTSTP was read: stops the process, as the signal would have, until it is continued. */
void signals_stop(void);

/* In a new process before exec: restores the signals to what they were when we started. */
void signals_restore(void);

#endif
