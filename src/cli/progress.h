/*
 * progress.h - a line on the terminal that says how far a long work has come.
 *
 * It is on standard error, and only if that is a terminal and standard output is none: what we
 * print would break it. A work that prints nothing meanwhile sets `is_silent`.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise. */
struct progress {
    bool is_silent; /* standard output may be a terminal, too */
    /* private to progress.c */
    int64_t next_ns;
    bool is_shown, is_known, is_wanted;
};

/* Shows the text in place of the one before, at most ten times a second. */
void progress_show(struct progress *progress, const char *format, ...) PRINTF_LIKE(2, 3);

/* Clears the line. Call it before anything else is printed to the terminal. */
void progress_end(struct progress *progress);

#endif
