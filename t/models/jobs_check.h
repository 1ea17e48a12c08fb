/* jobs_check.h - checks every invariant of the jobs. */
#ifndef T_MODELS_JOBS_CHECK_H
#define T_MODELS_JOBS_CHECK_H

#include "jobs/jobs.h"

/* Aborts when one does not hold. Takes the lock of the jobs. */
void jobs_check(struct jobs *jobs, struct moment now);

#endif
