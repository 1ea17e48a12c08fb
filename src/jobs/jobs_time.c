/* jobs_time.c - what is due without a request: ends of delays, pauses and reservations, and of what
 * is remembered of keys and roots. */
#include "jobs/jobs_internal.h"

/* What one call does at most. */
#define STEP 256u

/* A last try that must wait for the jobs' own changes under way waits so long. */
#define BUSY_NS (10 * NS_PER_MS)

int64_t jobs_wall_ms(const struct jobs *jobs, struct moment now)
{
    return jobs->wall_ms ? jobs->wall_ms() : now.unix_s * 1000;
}

int64_t after_seconds(struct moment now, uint32_t seconds)
{
    return now.mono_ns + (int64_t)seconds * NS_PER_S;
}

/* Ends delays of a tube that are over, and its pause. */
static void run_tube(struct jobs *jobs, struct tube *tube, unsigned *budget, struct moment now,
                     struct jobs_outbox *outbox)
{
    tube->serve_on = tube->searching = false;
    if (tube->paused_until_ns && tube->paused_until_ns <= now.mono_ns) {
        tube->paused_until_ns = 0;
        tube->pause_s = 0;
        tube_note_ready(jobs, tube);
    }
    while (*budget > 0 && tube->delayed.first != JOB_NONE) {
        uint32_t handle = tube->delayed.first;
        const struct job *job = job_at(jobs, handle);
        if ((int64_t)job->turn > now.mono_ns)
            break;
        job_move(jobs, handle, JOB_READY, (struct job_place){.pri = job->pri});
        (*budget)--;
    }
    int64_t prune_ns = (int64_t)tube_setting(jobs, tube, JOB_SETTING_PRUNE) * NS_PER_S;
    while (*budget > 0 && prune_ns > 0 && tube->abandoned.first != JOB_NONE) {
        uint32_t handle = tube->abandoned.first;
        if ((int64_t)job_at(jobs, handle)->turn - BURIAL_BASE + prune_ns > now.mono_ns)
            break;
        job_drop(jobs, handle, now);
        (*budget)--;
    }
    tube_serve_some(jobs, tube, budget, now, outbox);
    tube_set_due(jobs, tube);
    tube_drop_if_unused(jobs, tube);
}

/* Ends reservations of a client that are over. */
static void run_client(struct jobs *jobs, struct jobs_client *client, unsigned *budget,
                       struct moment now, struct jobs_outbox *outbox)
{
    const struct job_act expire = {.verb = JOB_EXPIRE};
    if (client->ends_on) {
        unsigned step = JOBS_END_STEP;
        client_end_on(client, &step, now, outbox);
        *budget -= *budget < JOBS_END_STEP ? *budget : JOBS_END_STEP;
        return;
    }
    if (client->lines_up)
        watches_line_up(client, STEP);
    while (*budget > 0 && client->reserved.first != JOB_NONE) {
        uint32_t handle = client->reserved.first;
        const struct job *job = job_at(jobs, handle);
        struct tube *tube = job->tube;
        if ((int64_t)job->turn > now.mono_ns)
            break;
        if (jobs->commit && job->last_try && jobs_are_busy(jobs)) {
            deadline_set(&jobs->due, &client->due, now.mono_ns + BUSY_NS);
            return;
        }
        (*budget)--;
        if (jobs->commit && job->last_try) {
            /* The end of a connection is no timeout. */
            bool timed_out = client != jobs->leases || job->is_lease;
            if (!job_begin_own(jobs, timed_out ? JOB_EXPIRE : JOB_END, handle, now))
                job_move(jobs, handle, JOB_RESERVED,
                         (struct job_place){.turn = (uint64_t)(now.mono_ns + NS_PER_S),
                                            .holder = client,
                                            .pri = job->pri});
            continue;
        }
        job_change_now(jobs, handle, &expire, now);
        tube_serve_some(jobs, tube, budget, now, outbox);
    }
    client_set_due(jobs, client);
}

void jobs_run(struct jobs *jobs, struct moment now, struct jobs_outbox *outbox)
{
    unsigned budget = STEP;
    jobs_enter(jobs);
    while (budget > 0) {
        struct deadline *due = deadlines_take_due(&jobs->due, now.mono_ns);
        if (!due)
            break;
        budget--;
        if (due->kind == DUE_TUBE)
            run_tube(jobs, container_of(due, struct tube, due), &budget, now, outbox);
        else if (due->kind == DUE_MARK)
            mark_run(jobs, container_of(due, struct job_mark, due), &budget, now);
        else if (due->kind == DUE_DROPS)
            budget -= jobs_begin_drops(jobs, budget, now);
        else
            run_client(jobs, container_of(due, struct jobs_client, due), &budget, now, outbox);
    }
    jobs_leave(jobs);
}
