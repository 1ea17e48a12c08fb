/* submit.h - changes of jobs without a store, as calls. */
#ifndef SUBMIT_H
#define SUBMIT_H

#include "jobs/jobs_commit.h"

/* *view_r: of JOB_RESERVE; NULL: of others. */
static inline enum jobs_status submit_act(struct jobs *jobs, struct job_act act,
                                          struct job_view *view_r, struct moment now,
                                          struct jobs_outbox *outbox)
{
    struct job_op op = {.kind = JOB_OP_ACT, .act = act, .views = view_r};
    return jobs_submit(jobs, &op, now, outbox);
}

static inline enum jobs_status submit_puts(struct jobs *jobs, struct jobs_client *client,
                                           const struct job_put *puts, size_t count,
                                           struct moment now, struct jobs_outbox *outbox)
{
    struct job_op op = {.kind = JOB_OP_PUT, .act.client = client, .puts = puts, .count = count};
    return jobs_submit(jobs, &op, now, outbox);
}

static inline enum jobs_status submit_pause(struct jobs *jobs, struct bytes tube, uint32_t seconds,
                                            struct moment now, struct jobs_outbox *outbox)
{
    struct job_op op = {.kind = JOB_OP_PAUSE, .tube = tube, .seconds = seconds};
    return jobs_submit(jobs, &op, now, outbox);
}

/* A step of a clear. */
static inline enum jobs_status submit_clear(struct jobs *jobs, struct bytes tube, unsigned state,
                                            struct jobs_clear *clear, struct moment now)
{
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct jobs_outbox outbox;
    struct job_op op = {
        .kind = JOB_OP_CLEAR, .tube = tube, .state = state, .clear = clear, .reason = reason};
    jobs_outbox_init(&outbox);
    return jobs_submit(jobs, &op, now, &outbox);
}

#endif
