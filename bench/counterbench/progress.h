/*
 * progress.h - how far a run is: a bar on a terminal, on one line of standard error.
 */
#ifndef COUNTERBENCH_PROGRESS_H
#define COUNTERBENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct run;

struct progress {
    bool is_shown;
    int64_t shown_ns; /* when it was drawn last */
    uint64_t requests;
};

/* Begins; nothing is shown where standard error is no terminal, or when `quiet`. */
void progress_start(struct progress *progress, bool quiet);

/* Draws it, at most some times a second. `doing` says what goes on. */
void progress_show(struct progress *progress, struct run *run, const char *doing);

/* Wipes the line. */
void progress_end(struct progress *progress);

#endif
