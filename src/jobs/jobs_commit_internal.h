/* jobs_commit_internal.h - the inside of changes, which jobs_commit.c, jobs_decide.c, jobs_plan.c,
 * jobs_write.c, jobs_make.c and jobs_load.c share. */
#ifndef JOBS_JOBS_COMMIT_INTERNAL_H
#define JOBS_JOBS_COMMIT_INTERNAL_H

#include "jobs/jobs_commit.h"
#include "jobs/jobs_internal.h"

static inline bool job_op_is_own(const struct job_op *op)
{
    return op->kind >= JOB_OP_GIVE;
}

/* ---- jobs_commit.c: the life of changes ------------------------------------------------------ */

/* Queues a decided change for the store, or defers it until it can be decided. Both return
 * JOBS_COMMITS. */
enum jobs_status job_op_queue(struct jobs *jobs, struct job_op *op);
enum jobs_status job_op_defer(struct jobs *jobs, struct job_op *op);
/* The change that is decided will be deferred later, if not now. */
void job_op_will_wait(struct jobs *jobs);

/* A change of more jobs than these takes turns with others of its kind, in its steps. */
#define JOB_OP_FEW 32u
/* True when such a step may be decided; else it waits, and is decided in its turn. */
bool job_op_has_turn(struct jobs *jobs, struct job_op *op);
/* The jobs' own changes are not tried for a second. */
void jobs_hold(struct jobs *jobs, struct moment now);

/* ---- jobs_decide.c --------------------------------------------------------------------------- */

/* Decides what a change changes. JOBS_COMMITS: it is queued or deferred; else it is over, with
 * this status. */
enum jobs_status job_op_decide(struct jobs *jobs, struct job_op *op, struct moment now,
                               struct jobs_outbox *outbox);
/* Lets go of the marks that the looks of a put keep. */
void job_op_forget_looks(struct jobs *jobs, struct job_op *op);

/* ---- jobs_make.c ----------------------------------------------------------------------------- */

/* The store has it: makes the changes, serves clients that wait, and sets the change's status.
 */
void job_op_make(struct jobs *jobs, struct job_op *op, struct moment now,
                 struct jobs_outbox *outbox);
/* The same of puts, and of settings and pauses, also without a store. */
void job_op_make_puts(struct jobs *jobs, struct job_op *op, struct moment now,
                      struct jobs_outbox *outbox);
void job_op_make_settings(struct jobs *jobs, struct job_op *op, struct moment now,
                          struct jobs_outbox *outbox);
/* The store could not: undoes what was planned. */
void job_op_forget(struct jobs *jobs, struct job_op *op, struct moment now,
                   struct jobs_outbox *outbox);
/* A put's round of looks is over: marks what they found. */
void job_op_learn(struct jobs *jobs, struct job_op *op, struct moment now);
/* The bodies are read: moves them to the views. Returns the status. */
enum jobs_status job_op_read_over(struct jobs *jobs, struct job_op *op);

/* ---- jobs_plan.c: what the store will have --------------------------------------------------- */

/* A moment by both clocks. */
struct job_times {
    struct moment now;
    int64_t wall_ns;
};
struct job_times job_times_of(const struct jobs *jobs, struct moment now);

/* The monotonic time when what the store remembers is forgotten. */
int64_t job_until_ns(int64_t forget_ns, struct job_times at);

/* What a change needs memory for. */
static inline enum jobs_need job_op_need(const struct job_op *op)
{
    switch ((int)op->kind) {
    case JOB_OP_PUT:
        return JOBS_PUTS;
    case JOB_OP_PAUSE:
    case JOB_OP_SET_TUBE:
    case JOB_OP_READ:
    case JOB_OP_GIVE:
        return JOBS_REST;
    default:
        return op->act.verb == JOB_RESERVE ? JOBS_REST : JOBS_ENDS;
    }
}

/* Makes room for up to `most` writes of a change that has none. Returns for how many there is:
 * at least one. */
size_t job_op_room(struct jobs *jobs, struct job_op *op, size_t most);
/* Adds a write to a change. NULL: no memory. */
struct job_write *job_op_add(struct jobs *jobs, struct job_op *op, enum job_write_kind kind);
/* The same for a time of a key or root. */
struct job_write *job_op_add_memory(struct jobs *jobs, struct job_op *op, enum job_write_kind does,
                                    enum job_memory_kind kind, struct bytes name);
/* Locks a job, if it is not, and adds what the act makes of it. Returns false without memory;
 * then the job is as it was. */
bool job_plan(struct jobs *jobs, struct job_op *op, const struct job_act *act, uint32_t handle,
              struct job_times at) MUST_USE;
/* What puts write that were decided. */
bool job_plan_puts(struct jobs *jobs, struct job_op *op, struct job_times at) MUST_USE;

/* Undoes the plan of one write: its job is as before. */
void job_write_unlock(struct jobs *jobs, struct job_write *write);
/* Unlocks what a change has locked, and gives its memory back, but for what is the owner's. */
void job_op_unlock(struct jobs *jobs, struct job_op *op);
void job_op_free_writes(struct jobs *jobs, struct job_op *op);

#endif
