/* jobs_time.c - what is due without a request: ends of delays, pauses and reservations, and of what
 * is remembered of keys and roots. */
#include "jobs/jobs_inside.h"

/* What one call does at most. */
#define STEP 256u

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
                     struct jobs_effects *effects)
{
    tube->serve_on = false;
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
    int64_t prune_ns = (int64_t)tube_prune_s(jobs, tube) * NS_PER_S;
    while (*budget > 0 && prune_ns > 0 && tube->abandoned.first != JOB_NONE) {
        uint32_t handle = tube->abandoned.first;
        if ((int64_t)job_at(jobs, handle)->turn - BURIAL_BASE + prune_ns > now.mono_ns)
            break;
        if (!jobs->commit) {
            job_remove(jobs, handle, now);
        } else if (!job_begin_prune(jobs, handle, now)) {
            break;
        }
        (*budget)--;
    }
    tube_serve(jobs, tube, now, effects);
    tube_set_due(jobs, tube);
    tube_drop_if_unused(jobs, tube);
}

/* Ends reservations of a client that are over. */
static void run_client(struct jobs *jobs, struct jobs_client *client, unsigned *budget,
                       struct moment now, struct jobs_effects *effects)
{
    while (*budget > 0 && client->reserved.first != JOB_NONE) {
        uint32_t handle = client->reserved.first;
        struct job *job = job_at(jobs, handle);
        struct tube *tube = job->tube;
        if ((int64_t)job->turn > now.mono_ns)
            break;
        (*budget)--;
        if (jobs->commit && job->last_try) {
            /* The end of a connection is no timeout. */
            bool timed_out = client != jobs->leases || job->is_lease;
            if (!job_begin_abandon(jobs, handle, timed_out, now))
                job_move(jobs, handle, JOB_RESERVED,
                         (struct job_place){.turn = (uint64_t)(now.mono_ns + NS_PER_S),
                                            .holder = client,
                                            .pri = job->pri});
            continue;
        }
        job->timeouts++;
        jobs->timeouts++;
        tube->recycled += !job_give_back(jobs, handle, 0, now);
        tube_serve(jobs, tube, now, effects);
    }
    client_set_due(jobs, client);
}

void jobs_run(struct jobs *jobs, struct moment now, struct jobs_effects *effects)
{
    unsigned budget = STEP;
    jobs_enter(jobs);
    while (budget > 0) {
        struct deadline *due = deadlines_take_due(&jobs->due, now.mono_ns);
        if (!due)
            break;
        budget--;
        if (due->kind == DUE_TUBE)
            run_tube(jobs, container_of(due, struct tube, due), &budget, now, effects);
        else if (due->kind == DUE_MARK)
            mark_run(jobs, container_of(due, struct job_mark, due), &budget, now);
        else
            run_client(jobs, container_of(due, struct jobs_client, due), &budget, now, effects);
    }
    jobs_leave(jobs);
}
