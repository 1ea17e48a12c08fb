/*
 * jobs_apply.c - what a change makes of one job.
 *
 * job_apply says what becomes of a job by an act, and install makes it so. Without a store, one
 * follows the other at once. With a store the job is locked between both, and the store gets what
 * job_set makes of a copy of it (jobs_plan.c); so memory and the store have the same. Nothing is
 * allocated: a job has had the room for its end since its put.
 */
#include "jobs/jobs_internal.h"

bool job_act_fits(const struct jobs *jobs, const struct job_act *act, const struct job *job)
{
    bool reserved = job->state == JOB_RESERVED;
    switch (act->verb) {
    case JOB_DELETE:
        return !reserved || job->holder == act->client;
    case JOB_RELEASE:
    case JOB_BURY:
    case JOB_TOUCH:
        return job->holder == act->client; /* the holder of others is NULL */
    case JOB_ACK:
    case JOB_NACK:
    case JOB_RENEW:
        return reserved && job->token == act->token;
    case JOB_KICK:
        return !reserved && job->state != JOB_READY && !*tube_read_only(jobs, job->tube);
    default:
        return !reserved && !*tube_read_only(jobs, job->tube);
    }
}

/* ---- what becomes of a job ------------------------------------------------------------------- */

/* Burials are in the order in which they were decided. */
static void bury(struct jobs *jobs, struct job_change *c, enum job_state state, struct moment now)
{
    uint64_t now_ns = (uint64_t)(BURIAL_BASE + now.mono_ns), next = jobs->last_burial + 1;
    jobs->last_burial = now_ns > next ? now_ns : next;
    c->state = state;
    c->turn = jobs->last_burial;
}

/* A reservation ends, and the job is not done. */
static void give_back(struct jobs *jobs, const struct job *job, struct job_change *c,
                      uint32_t delay_s, struct moment now)
{
    if (job->last_try) {
        bury(jobs, c, JOB_ABANDONED, now);
        return;
    }
    c->state = delay_s > 0 ? JOB_DELAYED : JOB_READY;
    c->after_ns = (int64_t)delay_s * NS_PER_S;
}

static void release(struct jobs *jobs, const struct job *job, struct job_change *c,
                    const struct job_act *act, struct moment now)
{
    give_back(jobs, job, c, act->delay_s, now);
    if (c->state != JOB_ABANDONED)
        c->delay_s = act->delay_s;
}

static void reserve(struct jobs *jobs, const struct job *job, struct job_change *c,
                    struct jobs_client *client, struct moment now)
{
    uint32_t most = job_tries(jobs, job);
    c->state = JOB_RESERVED;
    c->holder = client;
    c->after_ns = (int64_t)job->ttr_s * NS_PER_S;
    c->token = 1 + jobs_random(jobs) % JOBS_TOKEN_MAX;
    c->is_lease = tube_setting(jobs, job->tube, JOB_SETTING_CLAIM) == JOB_CLAIM_LEASE;
    c->last_try = most > 0 && job->tries + 1 >= most;
    c->began_ms = unlikely(job->keys != NULL) ? jobs_wall_ms(jobs, now) : 0;
}

void job_apply(struct jobs *jobs, const struct job_act *act, const struct job *job,
               struct moment now, struct job_change *c)
{
    c->verb = act->verb;
    if (act->verb == JOB_DELETE || act->verb == JOB_ACK || act->verb >= JOB_CLEAR) {
        c->state = JOB_STATES;
        return;
    }
    c->pri = job->pri;
    c->delay_s = job->delay_s;
    c->turn = 0;
    c->after_ns = 0;
    c->holder = NULL;
    switch (act->verb) {
    case JOB_RESERVE:
        reserve(jobs, job, c, act->client, now);
        break;
    case JOB_RELEASE:
        c->pri = act->pri;
        release(jobs, job, c, act, now);
        break;
    case JOB_NACK:
        release(jobs, job, c, act, now);
        break;
    case JOB_EXPIRE:
    case JOB_END:
        give_back(jobs, job, c, 0, now);
        break;
    case JOB_BURY:
        c->pri = act->pri;
        bury(jobs, c, JOB_BURIED, now);
        break;
    case JOB_SPOIL:
        bury(jobs, c, JOB_BURIED, now);
        break;
    case JOB_TOUCH:
    case JOB_RENEW:
        c->state = JOB_RESERVED;
        c->holder = job->holder;
        c->after_ns = (int64_t)job->ttr_s * NS_PER_S;
        break;
    default:
        CHECK(act->verb == JOB_KICK);
        c->state = JOB_READY;
    }
}

/* ---- making it so ---------------------------------------------------------------------------- */

bool job_change_executes(const struct job_change *c, const struct job *job)
{
    return job->state == JOB_RESERVED && (c->verb == JOB_DELETE || c->verb == JOB_ACK);
}

void job_set(struct job *job, const struct job_change *c)
{
    job->delay_s = c->delay_s;
    if (c->state != JOB_RESERVED)
        job->token = 0;
    switch (c->verb) {
    case JOB_RESERVE:
        job->token = c->token;
        job->is_lease = c->is_lease;
        job->last_try = c->last_try;
        job->counts.of[JOB_RESERVES]++;
        job->tries++;
        break;
    case JOB_RELEASE:
    case JOB_NACK:
        job->counts.of[JOB_RELEASES] += c->state != JOB_ABANDONED;
        break;
    case JOB_EXPIRE:
        job->counts.of[JOB_TIMEOUTS]++;
        break;
    case JOB_BURY:
        job->counts.of[JOB_BURIES]++;
        break;
    case JOB_KICK:
        job->counts.of[JOB_KICKS]++;
        job->tries = 0;
        break;
    default:
        break;
    }
}

static void count_end(const struct job *job, const struct job_change *c, bool executes)
{
    job->tube->cmd_delete += c->verb == JOB_DELETE;
    job->tube->acks += executes;
    job->tube->dropped +=
        c->verb == JOB_DROP && job->state != JOB_ABANDONED; /* else it is pruned */
}

static void count_move(struct jobs *jobs, const struct job *job, const struct job_change *c)
{
    struct tube *tube = job->tube;
    tube->claims += c->verb == JOB_RESERVE;
    tube->given_up += c->state == JOB_ABANDONED;
    if (c->verb != JOB_EXPIRE)
        return;
    jobs->timeouts++;
    tube->recycled += c->state != JOB_ABANDONED;
}

static void install(struct jobs *jobs, uint32_t handle, const struct job_change *c,
                    struct moment now)
{
    struct job *job = job_at(jobs, handle);
    if (c->state == JOB_STATES) {
        bool executes = job_change_executes(c, job);
        count_end(job, c, executes);
        if (executes)
            job_keys_executed(jobs, job, now);
        job_remove(jobs, handle, now);
        return;
    }
    count_move(jobs, job, c);
    job_set(job, c);
    if (unlikely(job->keys != NULL) && c->verb == JOB_RESERVE)
        job->keys->began_ms = c->began_ms;
    bool timed = c->state == JOB_DELAYED || c->state == JOB_RESERVED;
    job_move(jobs, handle, c->state,
             (struct job_place){.turn = timed ? (uint64_t)(now.mono_ns + c->after_ns) : c->turn,
                                .holder = c->holder,
                                .pri = c->pri});
}

void job_change_now(struct jobs *jobs, uint32_t handle, const struct job_act *act,
                    struct moment now)
{
    struct job_change c;
    job_apply(jobs, act, job_at(jobs, handle), now, &c);
    install(jobs, handle, &c, now);
}

enum jobs_status job_install_act(struct jobs *jobs, uint32_t handle, const struct job_change *c,
                                 struct job_view *view_r, struct moment now,
                                 struct jobs_outbox *outbox)
{
    struct tube *tube = job_at(jobs, handle)->tube;
    install(jobs, handle, c, now);
    if (c->state == JOB_STATES)
        tube_drop_if_unused(jobs, tube);
    else if (c->state == JOB_READY)
        tube_serve(jobs, tube, now, outbox);
    else if (c->verb == JOB_RESERVE)
        job_see(jobs, handle, view_r);
    return c->state == JOB_ABANDONED ? JOBS_BURIED : JOBS_OK;
}

enum jobs_status job_act_now(struct jobs *jobs, uint32_t handle, const struct job_act *act,
                             struct job_view *view_r, struct moment now, struct jobs_outbox *outbox)
{
    struct job_change c;
    job_apply(jobs, act, job_at(jobs, handle), now, &c);
    return job_install_act(jobs, handle, &c, view_r, now, outbox);
}
