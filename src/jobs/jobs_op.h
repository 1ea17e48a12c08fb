/* jobs_op.h - the inside of operations, which jobs_commit.c, jobs_plan.c and jobs_write.c share. */
#ifndef JOBS_JOBS_OP_H
#define JOBS_JOBS_OP_H

#include "jobs/jobs_commit.h"
#include "jobs/jobs_inside.h"

/* The jobs' own kinds, after those of clients. */
enum {
    JOB_OP_GIVE = JOB_OP_OWN, /* reserve jobs for a client that waits */
    JOB_OP_ABANDON,           /* end the last try of a job */
    JOB_OP_DROP,              /* delete a stale job */
    JOB_OP_PRUNE,             /* delete an abandoned job */
    JOB_OP_SPOILED,           /* bury a job whose body cannot be read */
    JOB_OP_FORGET_PAUSE,      /* a paused tube has gone */
};

/* ---- jobs_plan.c: what the store will have ----------------------------------------------------
 */

/* A moment by both clocks. */
struct job_times {
    struct moment now;
    int64_t wall_ns;
};
struct job_times job_times_of(const struct jobs *jobs, struct moment now);

/* Adds a write to an operation. NULL: no memory. */
struct job_write *job_op_add(struct jobs *jobs, struct job_op *op, enum job_write_kind kind);
/* Freezes a job and adds what a change of it writes; the verb is that of `act`. Returns false
 * without memory; then the job is not frozen. */
bool job_plan_act(struct jobs *jobs, struct job_op *op, const struct job_act *act, uint32_t handle,
                  struct job_times at) MUST_USE;
/* The same for a frozen job that is reserved, and for one of the jobs' own kinds. */
bool job_plan_reserve(struct jobs *jobs, struct job_op *op, uint32_t handle,
                      struct job_times at) MUST_USE;
bool job_plan_own(struct jobs *jobs, struct job_op *op, uint32_t handle,
                  struct job_times at) MUST_USE;
/* What puts write that were decided. */
bool job_plan_puts(struct jobs *jobs, struct job_op *op, struct job_times at) MUST_USE;

/* Thaws what an operation has frozen, and gives its memory back, but for what is the owner's. */
void job_op_thaw(struct jobs *jobs, struct job_op *op);
void job_op_free_writes(struct jobs *jobs, struct job_op *op);

#endif
