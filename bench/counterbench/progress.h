/*
 * progress.h - a progress bar on a terminal: one line of standard error.
 */
#ifndef COUNTERBENCH_PROGRESS_H
#define COUNTERBENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct run;

struct progress {
    bool is_shown;
    int64_t shown_ns; /* when we last drew it */
    uint64_t requests;
};

/* Starts. Shows nothing when `quiet`, or when standard error is not a terminal. */
void progress_start(struct progress *progress, bool quiet);

/* Draws it, at most a few times a second. `doing` names the current phase. */
void progress_show(struct progress *progress, struct run *run, const char *doing);

/* Wipes the line. */
void progress_end(struct progress *progress);

#endif
