/*
 * jobs_put.c - puts: decided first, and made later.
 *
 * A put is decided under the lock: whether its tube takes it, whether it is a duplicate. What it
 * needs is taken then, so that making it cannot fail (jobs_commit.h says when). A new job is in no
 * state until then, and nobody sees it.
 */
#include "jobs/jobs_internal.h"

#include <string.h>

/* Decides one put. On failure nothing has changed. */
static enum jobs_status decide(struct jobs *jobs, struct tube *tube, const struct job_put *put,
                               struct put_plan *plan, struct moment now)
{
    struct job_keys_found found;
    bool has_keys = put->key.len > 0 || put->root.len > 0, stores = true;
    uint32_t limit = tube_setting(jobs, tube, JOB_SETTING_LIMIT);
    plan->handle = plan->twin = JOB_NONE;
    if (*tube_read_only(jobs, tube))
        return JOBS_READ_ONLY;
    if (has_keys) {
        job_keys_look(jobs, tube, put, now, &found);
        stores = !found.duplicate;
    }
    if (stores && limit > 0 && tube_jobs(tube) + tube->coming >= limit)
        return JOBS_TUBE_FULL;
    if (stores && !jobs_reserve_slots(jobs, 1))
        return JOBS_NO_MEMORY;
    if (has_keys && !job_keys_make(jobs, put, &found)) {
        if (stores)
            jobs_unreserve_slots(jobs, 1);
        return JOBS_NO_MEMORY;
    }
    if (stores) {
        plan->handle = job_make(jobs, tube, put->id);
        tube->coming++;
    }
    if (!has_keys)
        return JOBS_OK;
    *put->duplicate_r = (struct job_duplicate){
        .is = found.duplicate, .of = found.of == JOB_NONE ? 0 : job_at(jobs, found.of)->id};
    job_keys_plan(jobs, plan, &found);
    return JOBS_OK;
}

enum jobs_status puts_decide(struct jobs *jobs, struct tube *tube, const struct job_put *puts,
                             struct put_plan *plans, size_t count, size_t *failed_r,
                             struct moment now)
{
    enum jobs_status status = JOBS_OK;
    jobs->plans++;
    jobs->planned = plans;
    jobs->planned_count = count;
    jobs->looks = JOBS_STEP;
    for (size_t n = 0; n < count && status == JOBS_OK; n++) {
        *failed_r = n;
        jobs_note_visits(jobs);
        status = decide(jobs, tube, &puts[n], &plans[n], now);
    }
    jobs->plans++; /* what was planned counts only for puts that are decided together */
    if (status != JOBS_OK)
        puts_forget(jobs, tube, plans, *failed_r, now);
    return status;
}

void puts_forget(struct jobs *jobs, struct tube *tube, struct put_plan *plans, size_t count,
                 struct moment now)
{
    while (count > 0) {
        const struct put_plan *plan = &plans[--count];
        job_keys_unplan(jobs, &plans[count]);
        if (plan->handle == JOB_NONE)
            continue;
        job_unmake(jobs, plan->handle, now);
        tube->coming--;
    }
}

/* Makes a new job. */
static void make(struct jobs *jobs, struct tube *tube, uint32_t handle, const struct job_put *put,
                 struct moment now)
{
    struct job *job = job_at(jobs, handle);
    job->body = put->body;
    job_set_body_len(job, put->body->len);
    job_set_put(job, jobs_wall_ms(jobs, now));
    job->ttr_s = put->ttr_s > 0 ? put->ttr_s : 1;
    job->tries_max = put->tries;
    tube->total_jobs++;
    tube->coming--;
    jobs->total_jobs++;
    job->delay_s = put->delay_s;
    job_publish(jobs, handle);
    struct job_place to = {.pri = put->pri};
    if (put->delay_s > 0)
        to.turn = (uint64_t)after_seconds(now, put->delay_s);
    job_move(jobs, handle, put_state(put), to);
}

void puts_make(struct jobs *jobs, struct tube *tube, const struct job_put *puts,
               struct put_plan *plans, size_t count, struct moment now)
{
    for (size_t n = 0; n < count; n++) {
        struct put_plan *plan = &plans[n];
        if (plan->handle == JOB_NONE) {
            struct job_body *body = puts[n].body;
            tube->duplicates++;
            job_body_drop(jobs, &body);
        } else {
            make(jobs, tube, plan->handle, &puts[n], now);
        }
        if (puts[n].key.len > 0 || puts[n].root.len > 0)
            job_keys_learn(jobs, plan, now);
    }
    watches_note_turn(jobs, tube); /* a newer root makes jobs stale */
}
