/*
 * reaper.h - nothing that we have started outlives us, in whatever way we end.
 *
 * The program goes on in a child process. The parent, the reaper, does nothing but wait: it passes
 * signals on to the child, adopts every process whose parent has ended, and reaps it. When the
 * child has ended, by itself or killed, the reaper kills what is left and exits. When the reaper is
 * killed, the child gets TERM and ends everything itself.
 */
#ifndef CLI_REAPER_H
#define CLI_REAPER_H

#include "base/check.h"

#include <stdbool.h>

/*
 * Returns true in the child. Returns false in the reaper when all is over, or when the system
 * refuses the child, which is printed; *status_r is then the status to exit with: the child's, or
 * 128 plus the number of the signal that has ended it. Call it before there are threads,
 * descriptors or signals_begin.
 */
bool reaper_begin(int *status_r) MUST_USE;

/* In the child: true when the reaper has ended. */
bool reaper_is_gone(void);

#endif
