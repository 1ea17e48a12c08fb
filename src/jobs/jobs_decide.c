/*
 * jobs_decide.c - what a change changes: decided with the jobs' lock, when it is submitted and
 * when what it waited for is over. With a store, it locks those jobs and plans what the store
 * writes (jobs_plan.c); without one, it makes the change at once. See jobs_commit.h.
 */
#include "jobs/jobs_commit_internal.h"

/* Keeps the tube that a change needs; false: there is none. */
static bool keep_tube(struct job_op *op, struct tube *tube)
{
    op->of = tube;
    if (tube)
        tube->under_way++;
    return tube != NULL;
}

static void leave_look(struct jobs *jobs, struct job_mark *mark)
{
    mark->refs--;
    mark->lookers--;
    mark_settle(jobs, mark);
}

void job_op_forget_looks(struct jobs *jobs, struct job_op *op)
{
    for (size_t n = 0; n < op->write_count; n++) {
        struct job_mark *mark = op->writes[n].mark;
        if (!mark)
            continue;
        leave_look(jobs, mark);
        op->writes[n].mark = NULL;
    }
}

static bool is_busy(const struct job *job)
{
    return job->locked || (job->keys && job->keys->key && job->keys->key->busy > 0);
}

/* True when no store keeps anything of this change. */
static bool is_immediate(const struct jobs *jobs, const struct job_act *act, const struct job *job)
{
    if (!jobs->commit)
        return true;
    if (act->verb == JOB_TOUCH || act->verb == JOB_RENEW)
        return !job->is_lease;
    return act->verb == JOB_RESERVE && !job_needs_store(jobs, job);
}

static enum jobs_status decide_act(struct jobs *jobs, struct job_op *op, struct moment now,
                                   struct jobs_outbox *outbox)
{
    uint32_t handle = job_find(jobs, op->act.id);
    if (handle == JOB_NONE)
        return JOBS_NOT_FOUND;
    const struct job *job = job_at(jobs, handle);
    struct tube *tube = job->tube;
    if (is_busy(job))
        return job_op_defer(jobs, op);
    if (!job_act_fits(jobs, &op->act, job))
        return JOBS_NOT_FOUND;
    if (op->act.verb == JOB_RESERVE && job_is_stale(jobs, job, now)) {
        job_drop(jobs, handle, now);
        tube_drop_if_unused(jobs, tube);
        return JOBS_NOT_FOUND;
    }
    if (is_immediate(jobs, &op->act, job))
        return job_act_now(jobs, handle, &op->act, op->views, now, outbox);
    return job_plan(jobs, op, &op->act, handle, job_times_of(jobs, now)) ? job_op_queue(jobs, op)
                                                                         : JOBS_NO_MEMORY;
}

/* True while it is open what a kick kicks: buried jobs, and delayed ones if there are none. */
static bool kick_is_open(const struct jobs *jobs, const struct tube *tube)
{
    if (*tube_read_only(jobs, tube))
        return false;
    return tube->locked_by_id[JOB_BURIED].count + tube->locked_by_id[JOB_ABANDONED].count > 0 ||
           (tube->buried.count + tube->abandoned.count == 0 &&
            tube->locked_by_id[JOB_DELAYED].count > 0);
}

/* Makes a step of a kick without a store. */
static enum jobs_status kick_now(struct jobs *jobs, struct job_op *op, struct tube *tube,
                                 struct moment now, struct jobs_outbox *outbox)
{
    jobs->steps += op->kick->left > JOBS_STEP;
    for (unsigned done = 0; op->kick->left > 0 && done < JOBS_STEP; done++) {
        uint32_t handle = kick_next(jobs, op->kick, tube);
        if (handle == JOB_NONE)
            return JOBS_OK;
        (void)job_act_now(jobs, handle, &op->act, NULL, now, outbox);
        op->kick->left--;
        op->kick->kicked++;
    }
    return op->kick->left > 0 ? JOBS_WAITS : JOBS_OK;
}

static enum jobs_status decide_kick(struct jobs *jobs, struct job_op *op, struct moment now,
                                    struct jobs_outbox *outbox)
{
    struct job_times at = job_times_of(jobs, now);
    struct tube *tube = op->act.client->used;
    op->act.verb = JOB_KICK;
    if (!op->kick->begun && kick_is_open(jobs, tube))
        return job_op_defer(jobs, op);
    if (!kick_goes_on(op->kick, jobs, tube) || op->kick->left == 0)
        return JOBS_OK;
    if (!jobs->commit)
        return kick_now(jobs, op, tube, now, outbox);
    if (op->kick->left > JOB_OP_FEW && !job_op_has_turn(jobs, op))
        return JOBS_COMMITS;
    size_t most =
        job_op_room(jobs, op, op->kick->left < JOBS_OP_STEP ? op->kick->left : JOBS_OP_STEP);
    unsigned looked = 0;
    bool fits = true;
    for (; fits && op->write_count < most && looked < JOBS_STEP; looked++) {
        uint32_t handle = kick_next(jobs, op->kick, tube);
        if (handle == JOB_NONE)
            break;
        if (job_at(jobs, handle)->damaged)
            kick_pass(op->kick, job_at(jobs, handle));
        else
            fits = job_plan(jobs, op, &op->act, handle, at);
    }
    if (op->write_count > 0 || (fits && looked == JOBS_STEP))
        return job_op_queue(jobs, op); /* without writes, others get a turn */
    return fits ? JOBS_OK : JOBS_NO_MEMORY;
}

/* Makes a step of a clear without a store. */
static enum jobs_status clear_now(struct jobs *jobs, struct job_op *op, struct moment now)
{
    unsigned budget = JOBS_STEP;
    for (uint32_t at; (at = clear_next(jobs, op->of, op->clear, &budget)) != JOB_NONE;) {
        job_change_now(jobs, at, &op->act, now);
        op->clear->deleted++;
    }
    bool goes_on = op->clear->at < JOB_STATES;
    jobs->steps += goes_on;
    return goes_on ? JOBS_WAITS : JOBS_OK;
}

static enum jobs_status step_clear(struct jobs *jobs, struct job_op *op, struct moment now)
{
    struct job_times at = job_times_of(jobs, now);
    struct tube *tube;
    unsigned budget = JOBS_STEP;
    enum jobs_status status = clear_begin(jobs, op->tube, op->state, op->clear, op->reason, &tube);
    op->act.verb = JOB_CLEAR;
    if (status != JOBS_OK || !tube)
        return status;
    if (!jobs->commit) {
        (void)keep_tube(op, tube);
        return clear_now(jobs, op, now);
    }
    if (tube_jobs(tube) > JOB_OP_FEW && !job_op_has_turn(jobs, op))
        return JOBS_COMMITS;
    bool has_locked = clear_has_locked(jobs, tube, op->clear);
    op->clear->again |= has_locked; /* those are passed by */
    size_t most = tube_jobs(tube) < JOBS_OP_STEP ? (size_t)tube_jobs(tube) : JOBS_OP_STEP;
    most = job_op_room(jobs, op, most);
    for (uint32_t handle; op->write_count < most &&
                          (handle = clear_next(jobs, tube, op->clear, &budget)) != JOB_NONE;) {
        if (job_at(jobs, handle)->damaged)
            continue;
        if (!job_plan(jobs, op, &op->act, handle, at)) {
            job_op_unlock(jobs, op);
            return JOBS_NO_MEMORY;
        }
    }
    if (op->write_count > 0 || budget == 0)
        return job_op_queue(jobs, op); /* without writes, others get their turn */
    job_op_free_writes(jobs, op);
    if (!op->clear->again)
        return JOBS_OK;
    clear_again(op->clear);
    return has_locked ? job_op_defer(jobs, op) : job_op_queue(jobs, op);
}

static enum jobs_status decide_clear(struct jobs *jobs, struct job_op *op, struct moment now,
                                     struct jobs_outbox *outbox)
{
    (void)outbox;
    enum jobs_status status = step_clear(jobs, op, now);
    if (!jobs->commit)
        clear_note(jobs, op->clear, status == JOBS_WAITS);
    return status;
}

/* Plans what the store will have of a tube. Returns false without memory. */
static bool plan_settings(struct jobs *jobs, struct job_op *op, struct job_times at)
{
    const struct tube *tube = op->of;
    bool pauses = op->kind == JOB_OP_PAUSE;
    op->new_settings = jobs_alloc(jobs, JOBS_REST, sizeof(*op->new_settings));
    struct job_write *write = job_op_add(jobs, op, JOB_WRITE_TUBE);
    if (!op->new_settings || !write)
        return false;
    *op->new_settings = tube->settings;
    if (!pauses)
        settings_with(jobs, op->new_settings, op->settings);
    int64_t left_ns =
        pauses ? (int64_t)op->seconds * NS_PER_S : tube->paused_until_ns - at.now.mono_ns;
    write->pause_s = pauses ? op->seconds : tube->pause_s;
    write->time_ns = write->pause_s > 0 ? at.wall_ns + left_ns : 0;
    return true;
}

static enum jobs_status decide_settings(struct jobs *jobs, struct job_op *op, struct moment now,
                                        struct jobs_outbox *outbox)
{
    bool pauses = op->kind == JOB_OP_PAUSE;
    if (!op->of && !keep_tube(op, pauses ? tube_find(jobs, op->tube) : tube_get(jobs, op->tube)))
        return pauses ? JOBS_NOT_FOUND : JOBS_NO_MEMORY;
    if (op->of->changing)
        return job_op_defer(jobs, op);
    jobs->used = true;
    if (!jobs->commit) {
        job_op_make_settings(jobs, op, now, outbox);
        return JOBS_OK;
    }
    if (!plan_settings(jobs, op, job_times_of(jobs, now)))
        return JOBS_NO_MEMORY;
    op->of->changing = true;
    return job_op_queue(jobs, op);
}

static bool any_keyed(const struct job_op *op)
{
    for (size_t n = 0; n < op->count; n++) {
        if (op->puts[n].key.len > 0 || op->puts[n].root.len > 0)
            return true;
    }
    return false;
}

/* Adds a look for a name of a put that is not known. Returns false without memory. */
static bool add_look(struct jobs *jobs, struct job_op *op, struct bytes name, bool is_root)
{
    if (name.len == 0)
        return true;
    struct job_mark *mark = job_keys_mark(jobs, op->of, name, is_root);
    if (!mark)
        return false;
    if (mark->plan == jobs->plans)
        return true;
    mark->plan = jobs->plans;
    mark->planned_ms = JOB_NO_TIME;
    struct job_write *write = job_op_add_memory(
        jobs, op, JOB_WRITE_LOOK, is_root ? JOB_MEMORY_ROOT : JOB_MEMORY_EXECUTION, name);
    if (mark->lookers > 0 && !is_root)
        job_op_will_wait(jobs); /* for the put that looks before it */
    mark->refs++;
    mark->lookers++;
    if (!write) {
        leave_look(jobs, mark);
        return false;
    }
    write->mark = mark;
    return true;
}

/*
 * Has the store asked for keys and roots that are not known. JOBS_COMMITS: it must be, or one is
 * under change. Others may become unknown before the looks are done; then there is another round.
 */
static enum jobs_status fetch_keys(struct jobs *jobs, struct job_op *op)
{
    struct job_mark *key, *root;
    size_t looks = op->write_count;
    for (size_t n = 0; n < op->count; n++) {
        job_keys_marks(jobs, op->of, &op->puts[n], &key, &root);
        if ((key && key->busy > 0) || (root && root->busy > 0))
            return job_op_defer(jobs, op);
    }
    jobs->plans++;
    for (size_t n = 0; n < op->count; n++) {
        const struct job_put *put = &op->puts[n];
        job_keys_marks(jobs, op->of, put, &key, &root);
        if (((!key || !key->known) && !add_look(jobs, op, put->key, false)) ||
            ((!root || !root->known) && !add_look(jobs, op, put->root, true)))
            return JOBS_NO_MEMORY;
    }
    jobs->plans++;
    if (op->write_count == looks)
        return JOBS_OK;
    op->fetches = true;
    return job_op_queue(jobs, op);
}

/* The tube that the puts go to, which is made if it is new. NULL: no memory. */
static struct tube *tube_of_puts(struct jobs *jobs, const struct job_op *op)
{
    return op->puts[0].tube.len > 0 ? tube_get(jobs, op->puts[0].tube) : op->act.client->used;
}

static enum jobs_status decide_put(struct jobs *jobs, struct job_op *op, struct moment now,
                                   struct jobs_outbox *outbox)
{
    enum jobs_status status = JOBS_OK;
    CHECK(op->count > 0 && op->count <= JOBS_STEP);
    if (!op->of && !keep_tube(op, tube_of_puts(jobs, op)))
        return JOBS_NO_MEMORY;
    struct tube *tube = op->of;
    if (tube->changing)
        return job_op_defer(jobs, op);
    if (jobs->commit && any_keyed(op))
        status = fetch_keys(jobs, op);
    if (status != JOBS_OK)
        return status;
    op->plan = (struct put_plan){.handle = JOB_NONE};
    op->plans =
        op->count == 1 ? &op->plan : jobs_alloc(jobs, JOBS_PUTS, op->count * sizeof(*op->plans));
    if (!op->plans)
        return JOBS_NO_MEMORY;
    status = puts_decide(jobs, tube, op->puts, op->plans, op->count, &op->failed, now);
    if (status != JOBS_OK)
        return status;
    if (jobs->commit) {
        job_op_forget_looks(jobs, op); /* new jobs keep their marks, others need none */
        job_op_free_writes(jobs, op);
        if (!job_plan_puts(jobs, op, job_times_of(jobs, now))) {
            puts_forget(jobs, tube, op->plans, op->count, now);
            return JOBS_NO_MEMORY;
        }
    }
    if (op->has_writes)
        return job_op_queue(jobs, op);
    job_op_make_puts(jobs, op, now, outbox);
    return JOBS_OK;
}

static enum jobs_status decide_read(struct jobs *jobs, struct job_op *op, struct moment now,
                                    struct jobs_outbox *outbox)
{
    (void)now, (void)outbox;
    for (size_t n = 0; n < op->view_count; n++) {
        if (op->views[n].body)
            continue;
        struct job_write *write = job_op_add(jobs, op, JOB_WRITE_NOTHING);
        if (!write)
            return JOBS_NO_MEMORY;
        write->id = op->views[n].id;
        write->reads = true;
        write->body_len = op->views[n].body_len;
    }
    return op->write_count > 0 ? job_op_queue(jobs, op) : JOBS_OK;
}

typedef enum jobs_status decide(struct jobs *jobs, struct job_op *op, struct moment now,
                                struct jobs_outbox *outbox);

enum jobs_status job_op_decide(struct jobs *jobs, struct job_op *op, struct moment now,
                               struct jobs_outbox *outbox)
{
    static decide *const kinds[] = {
        [JOB_OP_PUT] = decide_put,        [JOB_OP_ACT] = decide_act,
        [JOB_OP_KICK] = decide_kick,      [JOB_OP_CLEAR] = decide_clear,
        [JOB_OP_PAUSE] = decide_settings, [JOB_OP_SET_TUBE] = decide_settings,
        [JOB_OP_READ] = decide_read,
    };
    op->many = false;
    return kinds[op->kind](jobs, op, now, outbox);
}
