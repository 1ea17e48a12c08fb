/*
 * jobs_make.c - what follows when the store has written a change, or could not: makes its
 * changes in memory, or undoes what was planned. With the jobs' lock. See jobs_commit.h.
 */
#include "jobs/jobs_commit_internal.h"

static void serve_tubes_of(struct jobs *jobs, const struct job_op *op, struct moment now,
                           struct jobs_outbox *outbox)
{
    unsigned budget = JOBS_STEP; /* for all of them */
    for (size_t n = 0; n < op->write_count; n++) {
        uint32_t handle = op->writes[n].handle;
        if (handle != JOB_NONE)
            tube_serve_some(jobs, job_at(jobs, handle)->tube, &budget, now, outbox);
    }
}

/* The store cannot change a job. It is buried, in memory alone, if the jobs themselves wanted to
 * change it: so the next one has its turn. */
static void give_up(struct jobs *jobs, const struct job_op *op, const struct job_write *write,
                    struct moment now)
{
    const struct job_act act = {.verb = JOB_SPOIL};
    struct job *job = job_at(jobs, write->handle);
    bool waits = job->state == JOB_READY || job->state == JOB_DELAYED;
    job->damaged = true;
    if (job->state != JOB_BURIED &&
        (job_op_is_own(op) || (write->change.verb == JOB_RESERVE && waits)))
        job_change_now(jobs, write->handle, &act, now);
}

/* A body could not be read: buries the job. */
static void spoil(struct jobs *jobs, const struct job_write *write, struct moment now)
{
    unsigned state = job_at(jobs, write->handle)->state;
    if (state == JOB_READY || state == JOB_DELAYED)
        (void)job_begin_own(jobs, JOB_SPOIL, write->handle, now); /* else it is found again */
}

/* True if a change has failed because of what it concerns, not of the store as a whole. */
static bool any_damaged(const struct job_op *op)
{
    for (size_t n = 0; n < op->write_count; n++) {
        if (op->writes[n].damaged || op->writes[n].unreadable)
            return true;
    }
    return false;
}

/* Undoes what was planned. */
void job_op_forget(struct jobs *jobs, struct job_op *op, struct moment now,
                   struct jobs_outbox *outbox)
{
    bool damaged = any_damaged(op);
    if (!damaged && job_op_is_own(op))
        jobs_hold(jobs, now);
    job_op_unlock(jobs, op);
    for (size_t n = 0; n < op->write_count; n++) {
        const struct job_write *write = &op->writes[n];
        if (write->damaged && write->handle != JOB_NONE)
            give_up(jobs, op, write, now);
        else if (write->unreadable)
            spoil(jobs, write, now);
        else if (op->kind == JOB_OP_DROP)
            job_doom(jobs, write->handle);
    }
    if (op->kind == JOB_OP_PUT && op->plans) {
        puts_forget(jobs, op->of, op->plans, op->count, now);
        tube_serve(jobs, op->of, now, outbox); /* twins are there again */
    }
    if (op->kind == JOB_OP_PAUSE || op->kind == JOB_OP_SET_TUBE)
        op->of->changing = false;
    if (op->kind == JOB_OP_GIVE) {
        job_views_free(jobs, &op->act.client->claimed);
        client_refuse(op->act.client, !damaged, outbox);
        unsigned budget = JOBS_STEP; /* they got jobs while it was in none of their lines */
        client_serve_tubes(op->act.client, &budget, now, outbox);
    }
    serve_tubes_of(jobs, op, now, outbox);
    op->status = damaged ? JOBS_IO : JOBS_NO_MEMORY;
}

/* Makes the planned change of one locked job. Returns the answer. */
static enum jobs_status make(struct jobs *jobs, struct job_write *write, struct job_view *view_r,
                             struct moment now, struct jobs_outbox *outbox)
{
    job_write_unlock(jobs, write);
    enum jobs_status status =
        job_install_act(jobs, write->handle, &write->change, view_r, now, outbox);
    if (view_r && !view_r->body) { /* only the store had it */
        view_r->body = write->body;
        write->body = NULL;
    }
    return status;
}

static void make_give(struct jobs *jobs, struct job_op *op, struct moment now,
                      struct jobs_outbox *outbox)
{
    struct jobs_client *client = op->act.client;
    const struct tube *last = NULL;
    for (size_t n = 0; n < op->write_count; n++) {
        struct job_view *view = client->claimed ? &client->claimed->at[n] : &client->served;
        last = job_at(jobs, op->writes[n].handle)->tube;
        (void)make(jobs, &op->writes[n], view, now, outbox);
    }
    client_serve(client, last, outbox);
}

/* With little room left, the body of a new job stays in the store alone. */
static void make_way(struct jobs *jobs, const struct job_op *op)
{
    uint64_t limit = atomic_load_explicit(&jobs->memory_limit, memory_order_relaxed);
    bool little = atomic_load_explicit(&jobs->memory, memory_order_relaxed) > limit - limit / 4;
    for (size_t n = 0; n < op->count; n++) {
        uint32_t handle = op->plans[n].handle;
        struct job *job = handle != JOB_NONE ? job_at(jobs, handle) : NULL;
        if (!job || job->id != op->puts[n].id)
            continue;
        if (little && !job->locked && job->state != JOB_RESERVED)
            job_body_leave(jobs, &job->body);
        else
            jobs_note_body(jobs, handle);
    }
}

void job_op_make_puts(struct jobs *jobs, struct job_op *op, struct moment now,
                      struct jobs_outbox *outbox)
{
    puts_make(jobs, op->of, op->puts, op->plans, op->count, now);
    tube_serve(jobs, op->of, now, outbox);
    if (op->has_writes)
        make_way(jobs, op);
}

void job_op_make_settings(struct jobs *jobs, struct job_op *op, struct moment now,
                          struct jobs_outbox *outbox)
{
    op->of->changing = false;
    if (op->kind == JOB_OP_PAUSE)
        tube_pause(op->of, op->seconds, now);
    else if (op->new_settings)
        op->of->settings = *op->new_settings;
    else
        settings_with(jobs, &op->of->settings, op->settings);
    op->of->kept = jobs->commit && (op->of->settings.given || op->of->pause_s > 0);
    tube_changed(jobs, op->of, now, outbox);
}

/* The last try of a job is over, or its body cannot be read. */
static void make_own(struct jobs *jobs, struct job_op *op, struct moment now,
                     struct jobs_outbox *outbox)
{
    struct tube *tube = job_at(jobs, op->writes[0].handle)->tube; /* it keeps the job */
    (void)make(jobs, &op->writes[0], NULL, now, outbox);
    tube_serve(jobs, tube, now, outbox);
}

/* So many jobs are deleted before others get the lock. */
#define DROPS_STEP 128u

/* A change of many jobs: kicks, deletes or drops them, but for those that the store cannot change.
 */
static void make_many(struct jobs *jobs, struct job_op *op, struct moment now,
                      struct jobs_outbox *outbox)
{
    uint32_t made = 0;
    struct tube *left = NULL;
    for (size_t n = 0; n < op->write_count; n++) {
        struct job_write *write = &op->writes[n];
        struct tube *tube = job_at(jobs, write->handle)->tube;
        if (likely(!write->damaged)) {
            (void)make(jobs, write, NULL, now, outbox);
            made++;
        } else {
            job_write_unlock(jobs, write);
            give_up(jobs, op, write, now);
            left = tube;
        }
        if (op->kind != JOB_OP_DROP || (n + 1) % DROPS_STEP != 0)
            continue;
        jobs_let_others(jobs);
    }
    if (op->kind == JOB_OP_KICK) {
        op->kick->left -= made;
        op->kick->kicked += made;
    } else if (op->kind == JOB_OP_CLEAR) {
        op->clear->deleted += made;
        if (left)
            tube_serve(jobs, left, now, outbox); /* it is ready again */
    }
}

void job_op_make(struct jobs *jobs, struct job_op *op, struct moment now,
                 struct jobs_outbox *outbox)
{
    op->status = JOBS_OK;
    switch (op->kind) {
    case JOB_OP_PUT:
        job_op_make_puts(jobs, op, now, outbox);
        break;
    case JOB_OP_ACT:
        op->status = make(jobs, &op->writes[0], op->views, now, outbox);
        break;
    case JOB_OP_KICK:
        make_many(jobs, op, now, outbox);
        op->status = op->kick->left > 0 ? JOBS_WAITS : JOBS_OK;
        break;
    case JOB_OP_CLEAR:
        make_many(jobs, op, now, outbox);
        op->status = JOBS_WAITS;
        break;
    case JOB_OP_PAUSE:
    case JOB_OP_SET_TUBE:
        job_op_make_settings(jobs, op, now, outbox);
        break;
    case JOB_OP_GIVE:
        make_give(jobs, op, now, outbox);
        break;
    case JOB_OP_CHANGE:
        make_own(jobs, op, now, outbox);
        break;
    case JOB_OP_DROP:
        make_many(jobs, op, now, outbox);
        break;
    default: /* it has changed nothing */
        break;
    }
}

/* Gives the views their bodies. */
static void fill_views(struct job_op *op)
{
    size_t at = 0;
    for (size_t n = 0; n < op->view_count && at < op->write_count; n++) {
        struct job_write *write = &op->writes[at];
        if (op->views[n].body || write->id != op->views[n].id)
            continue;
        op->views[n].body = write->body;
        write->body = NULL;
        at++;
    }
}

/* A job that has gone meanwhile is no failure. */
enum jobs_status job_op_read_over(struct jobs *jobs, struct job_op *op)
{
    fill_views(op);
    if (op->stored == JOB_STORE_NO_MEMORY)
        return JOBS_NO_MEMORY;
    enum jobs_status status = JOBS_OK;
    for (size_t n = 0; n < op->view_count; n++) {
        struct job_view *view = &op->views[n];
        view->unreadable = !view->body && job_find(jobs, view->id) != JOB_NONE;
        if (view->unreadable)
            status = JOBS_IO;
    }
    return status;
}

/* The first round of a put is over. */
void job_op_learn(struct jobs *jobs, struct job_op *op, struct moment now)
{
    struct job_times at = job_times_of(jobs, now);
    for (size_t n = 0; n < op->write_count; n++) {
        struct job_write *write = &op->writes[n];
        struct job_mark *mark = write->mark;
        if (write->kind != JOB_WRITE_LOOK)
            continue; /* of an earlier round */
        write->kind = JOB_WRITE_NOTHING;
        if (op->stored != JOB_STORE_OK || mark->known)
            continue; /* what another has learned may have been changed since this was read */
        mark->known = true;
        mark->over = write->is_over;
        if (write->time_ns == JOB_STORE_NO_TIME)
            continue;
        mark->time_ms = write->time_ns / NS_PER_MS;
        mark->until_ns = job_until_ns(write->forget_ns, at);
        mark_settle(jobs, mark);
    }
}
