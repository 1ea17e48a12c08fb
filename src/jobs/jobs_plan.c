/*
 * jobs_plan.c - what a change writes to the store.
 *
 * Under the lock, a plan locks a job, and takes what becomes of it from job_apply. That is
 * installed after the commit; the store gets it as a record.
 */
#include "jobs/jobs_commit_internal.h"

#include <string.h>

struct job_times job_times_of(const struct jobs *jobs, struct moment now)
{
    return (struct job_times){.now = now, .wall_ns = jobs_wall_ms(jobs, now) * NS_PER_MS};
}

int64_t job_until_ns(int64_t forget_ns, struct job_times at)
{
    return forget_ns == JOB_STORE_KEEP ? INT64_MAX : at.now.mono_ns + (forget_ns - at.wall_ns);
}

size_t job_op_room(struct jobs *jobs, struct job_op *op, size_t most)
{
    CHECK(op->write_room == 0);
    for (; most > 1; most /= 2) {
        op->writes = jobs_try_alloc(jobs, job_op_need(op), most * sizeof(*op->writes));
        op->write_room = op->writes ? most : 0;
        if (op->writes)
            return most;
    }
    return 1;
}

struct job_write *job_op_add(struct jobs *jobs, struct job_op *op, enum job_write_kind kind)
{
    if (!op->writes) {
        op->writes = &op->write;
        op->write_room = 1;
    } else if (op->write_count == op->write_room) {
        size_t room = op->write_room < 4 ? 4 : op->write_room * 2;
        struct job_write *more = jobs_alloc(jobs, job_op_need(op), room * sizeof(*more));
        if (!more)
            return NULL;
        memcpy(more, op->writes, op->write_count * sizeof(*more));
        if (op->writes != &op->write)
            jobs_release_memory(jobs, op->writes, op->write_room * sizeof(*more));
        op->writes = more;
        op->write_room = room;
    }
    struct job_write *write = &op->writes[op->write_count++];
    *write = (struct job_write){.kind = kind, .handle = JOB_NONE};
    op->has_writes = op->has_writes || (kind != JOB_WRITE_NOTHING && kind != JOB_WRITE_LOOK);
    return write;
}

void job_op_free_writes(struct jobs *jobs, struct job_op *op)
{
    for (size_t n = 0; n < op->write_count; n++)
        job_body_drop(jobs, &op->writes[n].body);
    if (op->writes && op->writes != &op->write && op->kind != JOB_OP_DROP)
        jobs_release_memory(jobs, op->writes, op->write_room * sizeof(*op->writes));
    op->writes = NULL;
    op->write_count = op->write_room = 0;
    op->has_writes = false;
}

void job_write_unlock(struct jobs *jobs, struct job_write *write)
{
    if (write->leaves) {
        write->leaves->leaving--;
        write->leaves->over |= write->damaged;
    }
    write->leaves = NULL;
    if (write->handle != JOB_NONE && job_at(jobs, write->handle)->locked)
        job_unlock(jobs, write->handle);
}

void job_op_unlock(struct jobs *jobs, struct job_op *op)
{
    for (size_t n = op->write_count; n > 0; n--) {
        if (op->writes[n - 1].leaves)
            op->writes[n - 1].leaves->over = true; /* and others were planned as if it left */
        job_write_unlock(jobs, &op->writes[n - 1]);
    }
}

/* ---- records --------------------------------------------------------------------------------- */

static int64_t wall_of(int64_t mono_ns, struct job_times at)
{
    return at.wall_ns + (mono_ns - at.now.mono_ns);
}

static int64_t wall_after(uint32_t seconds, struct job_times at)
{
    return at.wall_ns + (int64_t)seconds * NS_PER_S;
}

/* Burials are in the same order in the store. The wall clock is coarse, and may be set back: then
 * its time counts. */
static int64_t burial_ns(struct jobs *jobs, uint64_t turn, struct job_times at)
{
    int64_t wall_ns = wall_of((int64_t)turn - BURIAL_BASE, at);
    if (wall_ns <= jobs->last_burial_wall_ns && wall_ns > jobs->last_burial_wall_ns - NS_PER_S)
        wall_ns = jobs->last_burial_wall_ns + 1;
    jobs->last_burial_wall_ns = wall_ns;
    return wall_ns;
}

static bool has_key(const struct job *job)
{
    return unlikely(job->keys != NULL) && job->keys->key;
}

/* A job will leave its key: what the store remembers of that. An execution replaces what it has:
 * no other one is under way. The last job sets when that is forgotten, maybe of one under way. It
 * is not forgotten, until the key comes again, when a put that was under way meanwhile fails, or
 * when the store writes in another order than planned, behind thousands of writes. */
static void plan_leaving(struct jobs *jobs, struct job_write *write, const struct job *job,
                         struct job_times at)
{
    struct job_mark *key = job->keys->key;
    int64_t wall_ms = at.wall_ns / NS_PER_MS, began_ms = job->keys->began_ms;
    int64_t time_ms = mark_executed_ms(key, wall_ms);
    bool last = key->refs - key->lookers - key->leaving == 1;
    bool executed = job_change_executes(&write->change, job);
    if (executed && began_ms > wall_ms) { /* the clock was set back */
        executed = false;
        key->over = true; /* if it is set again before this is made */
    }
    if (executed && began_ms > time_ms)
        time_ms = began_ms;
    bool replaces = executed || key->over, has_time = time_ms != JOB_NO_TIME;
    write->executes = executed || (last && (has_time || key->over || key->leaving > 0));
    write->time_ns = replaces && has_time ? time_ms * NS_PER_MS : JOB_STORE_NO_TIME;
    write->forget_ns = !last ? JOB_STORE_KEEP
                       : replaces && !has_time
                           ? 0
                           : wall_after(tube_setting(jobs, job->tube, JOB_SETTING_REMEMBER), at);
    key->over = key->over && !write->executes;
    key->leaving++;
    write->leaves = key;
}

/* What the store keeps of a job as it is, but for times of its state. */
static struct job_changing record_of(const struct job *job)
{
    const struct job_keys *keys = job->keys;
    return (struct job_changing){.state = job->state,
                                 .pri = job->pri,
                                 .delay_s = job->delay_s,
                                 .token = job->token,
                                 .tries = job->tries,
                                 .counts = job->counts,
                                 .at_ns = keys && keys->key ? keys->at_ms * NS_PER_MS : 0,
                                 .root_ns = keys && keys->root ? keys->root_ms * NS_PER_MS : 0};
}

/* The same after a change that does not delete it. */
static struct job_changing record_after(struct jobs *jobs, const struct job *job,
                                        const struct job_change *c, struct job_times at)
{
    struct job next = *job;
    job_set(&next, c);
    struct job_changing r = record_of(&next);
    r.state = c->state;
    r.pri = c->pri;
    if (c->state == JOB_DELAYED || (c->state == JOB_RESERVED && next.is_lease))
        r.due_ns = at.wall_ns + c->after_ns;
    if (c->state == JOB_BURIED || c->state == JOB_ABANDONED)
        r.due_ns = burial_ns(jobs, c->turn, at);
    if (c->state == JOB_RESERVED && has_key(job))
        r.began_ns = (c->verb == JOB_RESERVE ? c->began_ms : job->keys->began_ms) * NS_PER_MS;
    return r;
}

bool job_plan(struct jobs *jobs, struct job_op *op, const struct job_act *act, uint32_t handle,
              struct job_times at)
{
    const struct job *job = job_at(jobs, handle);
    bool reserves = act->verb == JOB_RESERVE;
    struct job_write *write = job_op_add(
        jobs, op, reserves && !job_is_counted(jobs, job) ? JOB_WRITE_NOTHING : JOB_WRITE_CHANGE);
    if (!write)
        return false;
    write->handle = handle;
    write->id = job->id;
    write->reads = reserves && job->body == NULL;
    write->body_len = job->body_len;
    job_apply(jobs, act, job, at.now, &write->change);
    if (write->change.state != JOB_STATES) {
        write->now = record_after(jobs, job, &write->change, at);
    } else {
        write->kind = JOB_WRITE_REMOVE;
        if (has_key(job))
            plan_leaving(jobs, write, job, at);
    }
    if (!job->locked)
        job_lock(jobs, handle);
    return true;
}

/* ---- puts ------------------------------------------------------------------------------------ */

struct job_write *job_op_add_memory(struct jobs *jobs, struct job_op *op, enum job_write_kind does,
                                    enum job_memory_kind kind, struct bytes name)
{
    struct job_write *write = job_op_add(jobs, op, does);
    if (!write)
        return NULL;
    write->memory = kind;
    write->name = name;
    return write;
}

/* The store forgets a time that memory has forgotten, or it would win over an earlier one. Returns
 * false without memory. */
static bool forget(struct jobs *jobs, struct job_op *op, enum job_memory_kind kind,
                   struct bytes name)
{
    return job_op_add_memory(jobs, op, JOB_WRITE_FORGET, kind, name) != NULL;
}

static bool remember(struct jobs *jobs, struct job_op *op, enum job_memory_kind kind,
                     struct bytes name, int64_t time_ms, int64_t forget_ns)
{
    struct job_write *write = job_op_add_memory(jobs, op, JOB_WRITE_REMEMBER, kind, name);
    if (!write)
        return false;
    write->time_ns = time_ms * NS_PER_MS;
    write->forget_ns = forget_ns;
    return true;
}

static bool plan_new(struct jobs *jobs, struct job_op *op, const struct job_put *put,
                     uint32_t handle, struct job_times at)
{
    const struct job_keys *keys = job_at(jobs, handle)->keys;
    struct job_write *write = job_op_add(jobs, op, JOB_WRITE_PUT);
    if (!write)
        return false;
    write->id = put->id;
    write->put = put;
    write->put_ns = at.wall_ns;
    write->now =
        (struct job_changing){.state = put_state(put),
                              .pri = put->pri,
                              .delay_s = put->delay_s,
                              .due_ns = put->delay_s > 0 ? wall_after(put->delay_s, at) : 0,
                              .at_ns = keys && keys->key ? keys->at_ms * NS_PER_MS : 0,
                              .root_ns = keys && keys->root ? keys->root_ms * NS_PER_MS : 0};
    return true;
}

/* When the key of a put was executed. The store forgets that if it is over or ahead of the clock,
 * and else remembers it while a job has the key. Returns false without memory. */
static bool plan_execution(struct jobs *jobs, struct job_op *op, const struct put_plan *plan,
                           struct bytes key)
{
    const struct job_mark *mark = job_keys_of_plan(jobs, plan);
    if (!mark)
        return true;
    if (plan->forgets_key && !forget(jobs, op, JOB_MEMORY_EXECUTION, key))
        return false;
    return mark->time_ms == JOB_NO_TIME || (plan->handle == JOB_NONE && !plan->forgets_key) ||
           remember(jobs, op, JOB_MEMORY_EXECUTION, key, mark->time_ms, JOB_STORE_KEEP);
}

bool job_plan_puts(struct jobs *jobs, struct job_op *op, struct job_times at)
{
    for (size_t n = 0; n < op->count; n++) {
        const struct put_plan *plan = &op->plans[n];
        const struct job_put *put = &op->puts[n];
        if (unlikely(put->key.len > 0) && !plan_execution(jobs, op, plan, put->key))
            return false;
        if (plan->handle != JOB_NONE && !plan_new(jobs, op, put, plan->handle, at))
            return false;
        /* A twin that came with these puts is written with its last times. */
        if (plan->twin != JOB_NONE && plan->changes &&
            job_at(jobs, plan->twin)->state != JOB_STATES) {
            struct job_write *write = job_op_add(jobs, op, JOB_WRITE_CHANGE);
            if (!write)
                return false;
            write->id = job_at(jobs, plan->twin)->id;
            write->now = record_of(job_at(jobs, plan->twin));
            if (write->now.state == JOB_DELAYED)
                write->now.due_ns = wall_of((int64_t)job_at(jobs, plan->twin)->turn, at);
        }
        if (plan->root && plan->newest_ms >= plan->root->time_ms &&
            ((plan->forgets_root && !forget(jobs, op, JOB_MEMORY_ROOT, put->root)) ||
             !remember(jobs, op, JOB_MEMORY_ROOT, put->root, plan->newest_ms,
                       wall_after(JOB_ROOT_S, at))))
            return false;
    }
    return true;
}
