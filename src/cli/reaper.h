/*
 * reaper.h - nothing that we have started outlives us, in whatever way we end.
 *
 * The program goes on in a child process. The parent, the reaper, does nothing but wait: it passes
 * signals on to the child, and when the child has ended, by itself or killed, it kills what is left
 * and exits. When the reaper is killed, the child gets TERM and ends everything itself. Each adopts
 * the processes below it whose parents have ended, so they are found whichever of both is killed.
 */
#ifndef CLI_REAPER_H
#define CLI_REAPER_H

#include "cli/loop.h"

/*
 * Returns true in the child. There the loop then reads signals (signals_begin), and reaps adopted
 * processes when they end; *status_r is STATUS_OK, or STATUS_SYSTEM after printing why not. Returns
 * false in the reaper when all is over, or when the system refuses the child, which is printed;
 * *status_r is then the status to exit with: the child's, or 128 plus the number of the signal that
 * has ended it. With `spares`, processes that have begun a session of their own, as daemons do, are
 * not killed. Call it before there are threads and descriptors.
 */
bool reaper_begin(struct loop *loop, bool spares, int *status_r) MUST_USE;

/* In the child: true when the reaper has ended. */
bool reaper_is_gone(void);

/* In the child, at its end: kills all that it or its commands have started. */
void reaper_end(void);

#endif
