/*
 * commit_world.h - clients that do at random what they like with jobs over a store that fails,
 * whose process ends at any moment, beside a model of what was promised to them:
 *
 * - a job whose put was answered is there until a deletion of it is answered, and never again
 * after;
 * - a batch is there whole or not at all, a refused put is not;
 * - nobody is given a job that another one has; a token is good for one reservation;
 * - ids grow; counts are those of the jobs that are there;
 * - a damaged row fails no change on other jobs.
 *
 * Jobs with a key or a root may be dropped; abandoned jobs of a tube may be pruned.
 */
#ifndef COMMIT_WORLD_H
#define COMMIT_WORLD_H

#include "jobs/store.h"
#include "t/unit/rng.h"

#include <stdbool.h>
#include <stdint.h>

struct world_plan {
    const struct job_store_kind *kind;
    const char *path;
    uint64_t memory; /* bytes that jobs may use; 0: no end */
    unsigned steps, crash_one_in;
    void (*begin)(void); /* after the tubes were set up */
    /* Makes the store fail from now on, NULL: never; stops that. */
    void (*spoil)(struct rng *rng);
    void (*mend)(void);
    /* The job whose row is all that fails; 0, or NULL: it is not so. */
    uint64_t (*damaged)(void);
    /* Cuts the power, says whether it is cut, and begins again; NULL: a process just ends. */
    void (*cut)(void);
    bool (*is_cut)(void);
    void (*restart)(void);
};
/* A job that is there, mostly. */
uint64_t world_id(void);
void world_run(const struct world_plan *plan, struct rng *rng);

#endif
