/*
 * jobs_commit.c - operations: deciding, queueing, parking and settling them. See jobs_commit.h.
 *
 * Everything is under the jobs' lock, but for what the store's thread does with a list that it has
 * taken (jobs_write.c).
 */
#include "jobs/jobs_op.h"

#include <stdlib.h>
#include <string.h>

/* After a failure, the jobs' own changes and reservations for clients that wait are not tried for
 * so long. */
#define HOLD_NS NS_PER_S

struct job_ops {
    void (*wake)(void *arg);
    void *arg;
    struct mail_list queue, parked;
    size_t queued;    /* in `queue` */
    size_t under_way; /* queued, or with the store's thread */
    bool rings;
};

static struct job_op *op_of(struct mail *mail)
{
    return container_of(mail, struct job_op, letter.mail);
}

bool jobs_use_store(struct jobs *jobs, void (*wake)(void *arg), void *arg)
{
    struct job_ops *ops = calloc(1, sizeof(*ops));
    if (!ops)
        return false;
    ops->wake = wake;
    ops->arg = arg;
    mail_list_init(&ops->queue);
    mail_list_init(&ops->parked);
    jobs->commit = ops;
    return true;
}

bool jobs_has_store(const struct jobs *jobs)
{
    return jobs->commit != NULL;
}

bool job_ops_ring(struct job_ops *ops)
{
    bool rings = ops->rings;
    ops->rings = false;
    return rings;
}

void job_ops_wake(struct job_ops *ops)
{
    ops->wake(ops->arg);
}

bool job_ops_rest(const struct job_ops *ops)
{
    return ops->under_way == 0 && !ops->parked.first;
}

bool jobs_has_ops(struct jobs *jobs)
{
    jobs_enter(jobs);
    bool has = !job_ops_rest(jobs->commit);
    jobs_leave(jobs);
    return has;
}

/* ---- life of an operation
 * ----------------------------------------------------------------------- */

static bool is_own(const struct job_op *op)
{
    return op->kind >= JOB_OP_OWN;
}

static void count_client(struct job_op *op)
{
    if (op->client && !op->counted)
        op->client->under_way++;
    op->counted = op->client != NULL;
}

static enum jobs_status queue(struct jobs *jobs, struct job_op *op)
{
    struct job_ops *ops = jobs->commit;
    count_client(op);
    op->stored = JOB_STORE_OK;
    mail_list_add(&ops->queue, &op->letter.mail);
    ops->queued++;
    ops->under_way++;
    ops->rings = true;
    return JOBS_COMMITS;
}

static enum jobs_status park(struct jobs *jobs, struct job_op *op)
{
    count_client(op);
    mail_list_add(&jobs->commit->parked, &op->letter.mail);
    return JOBS_COMMITS;
}

static void keep_tube(struct job_op *op, struct tube *tube)
{
    op->of = tube;
    tube->under_way++;
}

static void leave_look(struct jobs *jobs, struct job_mark *mark)
{
    mark->refs--;
    mark->lookers--;
    mark_settle(jobs, mark);
}

static void forget_looks(struct jobs *jobs, struct job_op *op)
{
    for (size_t n = 0; n < op->write_count; n++) {
        struct job_mark *mark = op->writes[n].mark;
        if (!mark)
            continue;
        leave_look(jobs, mark);
        op->writes[n].mark = NULL;
    }
}

/* Gives back everything that is not the owner's. */
static void release(struct jobs *jobs, struct job_op *op)
{
    forget_looks(jobs, op);
    job_op_free_writes(jobs, op);
    if (op->plans)
        jobs_release_memory(jobs, op->plans, op->count * sizeof(*op->plans));
    op->plans = NULL;
    if (op->new_settings)
        jobs_release_memory(jobs, op->new_settings, sizeof(*op->new_settings));
    op->new_settings = NULL;
    if (op->of) {
        op->of->under_way--;
        tube_drop_if_unused(jobs, op->of);
    }
    op->of = NULL;
}

static size_t own_size(const struct job_op *op)
{
    return sizeof(*op) + op->tube.len;
}

/* The operation is over. */
static void finish(struct jobs *jobs, struct job_op *op, struct moment now,
                   struct jobs_effects *effects)
{
    struct jobs_client *client = op->counted ? op->client : NULL;
    op->counted = op->fetches = false; /* its owner may submit it again */
    release(jobs, op);
    if (is_own(op))
        jobs_release_memory(jobs, op, own_size(op));
    else
        mail_list_add(&effects->done, &op->letter.mail);
    if (!client)
        return;
    client->under_way--;
    client_settle(client, now, effects);
}

/* ---- the jobs' own
 * ------------------------------------------------------------------------------ */

static void hold(struct jobs *jobs, struct moment now)
{
    jobs->hold_until_ns = now.mono_ns + HOLD_NS;
}

static struct job_op *own_op(struct jobs *jobs, unsigned kind, size_t more)
{
    struct job_op *op = jobs_alloc(jobs, sizeof(*op) + more);
    if (op)
        op->kind = (enum job_op_kind)kind;
    return op;
}

static bool begin_own(struct jobs *jobs, unsigned kind, uint32_t handle, unsigned state,
                      struct moment now)
{
    if (now.mono_ns < jobs->hold_until_ns)
        return false;
    struct job_op *op = own_op(jobs, kind, 0);
    if (!op) {
        hold(jobs, now);
        return false;
    }
    op->state = state;
    CHECK(job_plan_own(jobs, op, handle, job_times_of(jobs, now))); /* one write needs no memory */
    (void)queue(jobs, op);
    return true;
}

bool job_begin_drop(struct jobs *jobs, uint32_t handle, struct moment now)
{
    return begin_own(jobs, JOB_OP_DROP, handle, 0, now);
}

bool job_begin_prune(struct jobs *jobs, uint32_t handle, struct moment now)
{
    return begin_own(jobs, JOB_OP_PRUNE, handle, 0, now);
}

bool job_begin_abandon(struct jobs *jobs, uint32_t handle, bool timed_out, struct moment now)
{
    return begin_own(jobs, JOB_OP_ABANDON, handle, timed_out, now);
}

void tube_forget_pause(struct jobs *jobs, const struct tube *tube)
{
    struct job_op *op = own_op(jobs, JOB_OP_FORGET_PAUSE, tube->name_len);
    if (!op)
        return; /* at the next start the tube is paused again */
    memcpy(op + 1, tube->name, tube->name_len);
    op->tube = bytes_at(op + 1, tube->name_len);
    (void)job_op_add(jobs, op, JOB_WRITE_TUBE);
    (void)queue(jobs, op);
}

bool job_is_counted(const struct jobs *jobs, const struct job *job)
{
    return job->state != JOB_READY || job_tries(jobs, job) > 0 ||
           tube_claim(jobs, job->tube) == JOB_CLAIM_LEASE;
}

bool job_needs_store(const struct jobs *jobs, const struct job *job)
{
    return !job->body || job_is_counted(jobs, job);
}

bool jobs_promise(struct jobs_client *client, const uint32_t *handles, size_t count,
                  struct moment now)
{
    struct jobs *jobs = client->jobs;
    struct job_times at = job_times_of(jobs, now);
    struct job_op *op = own_op(jobs, JOB_OP_GIVE, 0);
    size_t planned = 0;
    if (op && count > 1) {
        client->claimed =
            jobs_alloc(jobs, sizeof(*client->claimed) + count * sizeof(struct job_view));
        if (client->claimed)
            client->claimed->count = count;
    }
    if (op && (count == 1 || client->claimed)) {
        op->client = client;
        while (planned < count && job_plan_reserve(jobs, op, handles[planned], at))
            planned++;
    }
    if (planned == count) {
        client_promise(client);
        (void)queue(jobs, op);
        return true;
    }
    hold(jobs, now);
    for (size_t n = 0; n < count; n++)
        job_thaw(jobs, handles[n]);
    job_views_free(jobs, &client->claimed);
    if (op) {
        job_op_free_writes(jobs, op);
        jobs_release_memory(jobs, op, sizeof(*op));
    }
    return false;
}

/* ---- deciding
 * ----------------------------------------------------------------------------------- */

static bool is_busy(const struct job *job)
{
    return job->frozen || (job->keys && job->keys->key && job->keys->key->busy > 0);
}

static struct job_act act_of(const struct job_op *op)
{
    static const enum job_verb verbs[] = {
        [JOB_OP_DELETE] = JOB_DELETE,   [JOB_OP_RELEASE] = JOB_RELEASE,
        [JOB_OP_BURY] = JOB_BURY,       [JOB_OP_TOUCH] = JOB_TOUCH,
        [JOB_OP_ACK] = JOB_ACK,         [JOB_OP_NACK] = JOB_NACK,
        [JOB_OP_RENEW] = JOB_RENEW,     [JOB_OP_KICK_JOB] = JOB_KICK,
        [JOB_OP_RESERVE] = JOB_RESERVE, [JOB_OP_KICK] = JOB_KICK,
    };
    return (struct job_act){.verb = verbs[op->kind],
                            .client = op->client,
                            .id = op->id,
                            .token = op->token,
                            .pri = op->pri,
                            .delay_s = op->delay_s,
                            .view_r = op->views};
}

/* True when the store keeps nothing of this change. */
static bool is_immediate(const struct jobs *jobs, const struct job_act *act, const struct job *job)
{
    if (act->verb == JOB_TOUCH || act->verb == JOB_RENEW)
        return !job->is_lease;
    return act->verb == JOB_RESERVE && !job_needs_store(jobs, job);
}

static enum jobs_status decide_act(struct jobs *jobs, struct job_op *op, struct moment now,
                                   struct jobs_effects *effects)
{
    const struct job_act act = act_of(op);
    struct job_times at = job_times_of(jobs, now);
    uint32_t handle = job_find(jobs, op->id);
    if (handle == JOB_NONE)
        return JOBS_NOT_FOUND;
    const struct job *job = job_at(jobs, handle);
    if (is_busy(job))
        return park(jobs, op);
    if (!job_act_fits(jobs, &act, job))
        return JOBS_NOT_FOUND;
    if (act.verb == JOB_RESERVE && job_is_stale(jobs, job, now)) {
        (void)job_drop(jobs, handle, now);
        return JOBS_NOT_FOUND;
    }
    if (is_immediate(jobs, &act, job))
        return job_act_make(jobs, &act, handle, now, effects);
    bool planned = act.verb == JOB_RESERVE ? job_plan_reserve(jobs, op, handle, at)
                                           : job_plan_act(jobs, op, &act, handle, at);
    return planned ? queue(jobs, op) : JOBS_NO_MEMORY;
}

/* True while it is open what a kick kicks: buried jobs, and delayed ones if there are none. */
static bool kick_is_open(const struct jobs *jobs, const struct tube *tube)
{
    if (*tube_read_only(jobs, tube))
        return false;
    return tube->frozen_by_id[JOB_BURIED].count + tube->frozen_by_id[JOB_ABANDONED].count > 0 ||
           (tube->buried.count + tube->abandoned.count == 0 &&
            tube->frozen_by_id[JOB_DELAYED].count > 0);
}

static enum jobs_status decide_kick(struct jobs *jobs, struct job_op *op, struct moment now)
{
    const struct job_act act = act_of(op);
    struct job_times at = job_times_of(jobs, now);
    const struct tube *tube = op->client ? op->client->used : tube_find(jobs, op->tube);
    if (!tube)
        return JOBS_NOT_FOUND;
    if (!op->kick->begun && kick_is_open(jobs, tube))
        return park(jobs, op);
    if (!kick_goes_on(op->kick, jobs, tube))
        return JOBS_OK;
    while (op->write_count < op->kick->left && op->write_count < JOBS_STEP) {
        uint32_t handle = kick_next(jobs, op->kick, tube);
        if (handle == JOB_NONE)
            break;
        if (!job_plan_act(jobs, op, &act, handle, at)) {
            job_op_thaw(jobs, op);
            return JOBS_NO_MEMORY;
        }
    }
    return op->write_count > 0 ? queue(jobs, op) : JOBS_OK;
}

static enum jobs_status decide_clear(struct jobs *jobs, struct job_op *op, struct moment now)
{
    const struct job_act act = {.verb = JOB_DELETE};
    struct job_times at = job_times_of(jobs, now);
    struct tube *tube;
    enum jobs_status status = clear_begin(jobs, op->tube, op->clear, op->reason, &tube);
    if (status != JOBS_OK || !tube)
        return status;
    while (op->write_count < JOBS_STEP) {
        uint32_t handle = clear_next(jobs, tube, op->state, op->clear);
        if (handle == JOB_NONE)
            break;
        if (!job_plan_act(jobs, op, &act, handle, at)) {
            job_op_thaw(jobs, op);
            return JOBS_NO_MEMORY;
        }
    }
    if (op->write_count > 0)
        return queue(jobs, op);
    if (!clear_has_frozen(jobs, tube, op->state, op->clear))
        return JOBS_OK;
    op->clear->state = 0; /* from the first one again */
    return park(jobs, op);
}

static enum jobs_status decide_settings(struct jobs *jobs, struct job_op *op, struct moment now)
{
    bool pauses = op->kind == JOB_OP_PAUSE;
    struct job_times at = job_times_of(jobs, now);
    struct tube *tube = op->of;
    if (!tube)
        tube = pauses ? tube_find(jobs, op->tube) : tube_get(jobs, op->tube);
    if (!tube)
        return pauses ? JOBS_NOT_FOUND : JOBS_NO_MEMORY;
    if (!op->of)
        keep_tube(op, tube);
    if (tube->changing)
        return park(jobs, op);
    op->new_settings = jobs_alloc(jobs, sizeof(*op->new_settings));
    struct job_write *write = job_op_add(jobs, op, JOB_WRITE_TUBE);
    if (!op->new_settings || !write)
        return JOBS_NO_MEMORY;
    *op->new_settings = tube->settings;
    if (!pauses)
        settings_with(jobs, op->new_settings, op->settings);
    int64_t left_ns =
        pauses ? (int64_t)op->seconds * NS_PER_S : tube->paused_until_ns - at.now.mono_ns;
    write->now.delay_s = pauses ? op->seconds : tube->pause_s;
    write->time_ns = write->now.delay_s > 0 ? at.wall_ns + left_ns : 0;
    tube->changing = true;
    jobs->used = true;
    return queue(jobs, op);
}

static bool is_keyed(const struct job_put *put)
{
    return put->key.len > 0 || put->root.len > 0;
}

/* Adds a look for a name of a put that is not known. Returns false without memory. */
static bool add_look(struct jobs *jobs, struct job_op *op, struct bytes name, bool is_root)
{
    struct job_mark *mark = name.len > 0 ? job_keys_mark(jobs, op->of, name, is_root) : NULL;
    if (name.len == 0)
        return true;
    if (!mark)
        return false;
    if (mark->plan == jobs->plans)
        return true;
    mark->plan = jobs->plans;
    mark->planned = NULL;
    mark->planned_ms = JOB_NO_TIME;
    struct job_write *write = job_op_add(jobs, op, JOB_WRITE_LOOK);
    mark->refs++;
    mark->lookers++;
    if (!write) {
        leave_look(jobs, mark);
        return false;
    }
    write->mark = mark;
    write->memory = is_root ? JOB_MEMORY_ROOT : JOB_MEMORY_EXECUTION;
    write->name = name;
    return true;
}

/*
 * Looks at the keys of puts. *busy_r: one is under change. Adds looks for those that are not known.
 * Others may become unknown before the looks are done; then there is another round.
 */
static enum jobs_status look_at_keys(struct jobs *jobs, struct job_op *op, bool *busy_r)
{
    struct job_mark *key, *root;
    *busy_r = false;
    for (size_t n = 0; n < op->count; n++) {
        job_keys_marks(jobs, op->of, &op->puts[n], &key, &root);
        if (key && key->busy > 0)
            *busy_r = true;
    }
    if (*busy_r)
        return JOBS_OK;
    jobs->plans++;
    for (size_t n = 0; n < op->count; n++) {
        const struct job_put *put = &op->puts[n];
        job_keys_marks(jobs, op->of, put, &key, &root);
        if (((!key || !key->known) && !add_look(jobs, op, put->key, false)) ||
            ((!root || !root->known) && !add_look(jobs, op, put->root, true)))
            return JOBS_NO_MEMORY;
    }
    jobs->plans++;
    return JOBS_OK;
}

static bool any_keyed(const struct job_op *op)
{
    for (size_t n = 0; n < op->count; n++) {
        if (is_keyed(&op->puts[n]))
            return true;
    }
    return false;
}

static enum jobs_status decide_put(struct jobs *jobs, struct job_op *op, struct moment now,
                                   struct jobs_effects *effects)
{
    if (!op->of) {
        struct tube *tube = tube_of_put(op->client, &op->puts[0]);
        if (!tube)
            return JOBS_NO_MEMORY;
        keep_tube(op, tube);
    }
    if (op->of->changing)
        return park(jobs, op);
    if (any_keyed(op)) {
        bool busy;
        size_t looks = op->write_count;
        if (look_at_keys(jobs, op, &busy) != JOBS_OK)
            return JOBS_NO_MEMORY;
        if (busy)
            return park(jobs, op);
        if (op->write_count > looks) {
            op->fetches = true;
            return queue(jobs, op);
        }
    }
    op->plans = jobs_alloc(jobs, op->count * sizeof(*op->plans));
    if (!op->plans)
        return JOBS_NO_MEMORY;
    enum jobs_status status =
        puts_decide(jobs, op->of, op->puts, op->plans, op->count, &op->failed, now);
    if (status != JOBS_OK)
        return status;
    forget_looks(jobs, op); /* new jobs keep their marks, others need none */
    job_op_free_writes(jobs, op);
    if (!job_plan_puts(jobs, op, job_times_of(jobs, now))) {
        puts_forget(jobs, op->of, op->plans, op->count, now);
        return JOBS_NO_MEMORY;
    }
    if (op->has_writes)
        return queue(jobs, op);
    puts_make(jobs, op->of, op->puts, op->plans, op->count, now);
    tube_serve(jobs, op->of, now, effects);
    return JOBS_OK;
}

static enum jobs_status decide_read(struct jobs *jobs, struct job_op *op)
{
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
    return op->write_count > 0 ? queue(jobs, op) : JOBS_OK;
}

static enum jobs_status decide(struct jobs *jobs, struct job_op *op, struct moment now,
                               struct jobs_effects *effects)
{
    switch (op->kind) {
    case JOB_OP_PUT:
        return decide_put(jobs, op, now, effects);
    case JOB_OP_KICK:
        return decide_kick(jobs, op, now);
    case JOB_OP_CLEAR:
        return decide_clear(jobs, op, now);
    case JOB_OP_PAUSE:
    case JOB_OP_SET_TUBE:
        return decide_settings(jobs, op, now);
    case JOB_OP_READ:
        return decide_read(jobs, op);
    default:
        return decide_act(jobs, op, now, effects);
    }
}

enum jobs_status jobs_submit(struct jobs *jobs, struct job_op *op, struct moment now,
                             struct jobs_effects *effects)
{
    CHECK(!is_own(op) && (op->kind != JOB_OP_PUT || (op->count > 0 && op->count <= JOBS_STEP)));
    jobs_enter(jobs);
    enum jobs_status status = decide(jobs, op, now, effects);
    if (status != JOBS_COMMITS) {
        op->status = status;
        release(jobs, op);
    }
    jobs_leave(jobs);
    return status;
}

/* ---- the store's thread
 * ------------------------------------------------------------------------- */

bool jobs_take_ops(struct jobs *jobs, struct job_op_list *list_r, size_t writes, size_t bytes)
{
    size_t count = 0, sum = 0;
    *list_r = (struct job_op_list){.max_id = 0};
    mail_list_init(&list_r->ops);
    jobs_enter(jobs);
    struct job_ops *ops = jobs->commit;
    while (count < writes && sum < bytes) {
        struct mail *mail = mail_list_take(&ops->queue);
        if (!mail)
            break;
        struct job_op *op = op_of(mail);
        ops->queued--;
        mail_list_add(&list_r->ops, mail);
        list_r->has_writes = list_r->has_writes || op->has_writes;
        count += op->write_count;
        for (size_t n = 0; n < op->count && op->kind == JOB_OP_PUT && op->has_writes; n++) {
            list_r->has_puts = true;
            sum += op->puts[n].body->len;
            if (op->puts[n].id > list_r->max_id)
                list_r->max_id = op->puts[n].id;
        }
        for (size_t n = 0; n < op->write_count; n++)
            sum += op->writes[n].reads ? op->writes[n].body_len : 0;
    }
    jobs_leave(jobs);
    return list_r->ops.first != NULL;
}

/* ---- settling
 * ----------------------------------------------------------------------------------- */

/* What the store has and what memory has must be the same, unless somebody was given the job at
 * once. */
static void check_plan(const struct jobs *jobs, const struct job_write *write)
{
    uint32_t handle = job_find(jobs, write->id);
    if (write->kind != JOB_WRITE_CHANGE || handle == JOB_NONE)
        return;
    const struct job *job = job_at(jobs, handle);
    const struct job_changing *now = &write->now;
    if (job->state == JOB_RESERVED && now->state != JOB_RESERVED)
        return;
    CHECK(job->state == now->state);
    CHECK(job->pri == now->pri && job->tries == now->tries && job->reserves == now->reserves &&
          job->timeouts == now->timeouts && job->releases == now->releases &&
          job->buries == now->buries && job->kicks == now->kicks);
}

static void serve_tubes_of(struct jobs *jobs, const struct job_op *op, struct moment now,
                           struct jobs_effects *effects)
{
    for (size_t n = 0; n < op->write_count; n++) {
        uint32_t handle = op->writes[n].handle;
        if (handle != JOB_NONE)
            tube_serve(jobs, job_at(jobs, handle)->tube, now, effects);
    }
}

/* A body could not be read: buries the job. */
static void spoil(struct jobs *jobs, const struct job_write *write, struct moment now)
{
    unsigned state = job_at(jobs, write->handle)->state;
    if (state == JOB_READY || state == JOB_DELAYED)
        (void)begin_own(jobs, JOB_OP_SPOILED, write->handle, 0, now); /* else it is found again */
}

static bool any_unreadable(const struct job_op *op)
{
    for (size_t n = 0; n < op->write_count; n++) {
        if (op->writes[n].unreadable)
            return true;
    }
    return false;
}

/* Serves the tubes that a client waits for, which got jobs while it was in none of their lines. */
static void serve_tubes_for(struct jobs_client *client, struct moment now,
                            struct jobs_effects *effects)
{
    struct jobs *jobs = client->jobs;
    for (size_t n = 0; client->named && client->wait == WAITING && n < client->named_count; n++)
        tube_serve(jobs, client->named[n].tube, now, effects);
    if (client->named || client->wait != WAITING)
        return;
    for (struct ring *at = ring_first(&client->watched); at && client->wait == WAITING;
         at = ring_after(&client->watched, at))
        tube_serve(jobs, container_of(at, struct tube_watch, order)->tube, now, effects);
}

/* Undoes what was planned. */
static void forget(struct jobs *jobs, struct job_op *op, struct moment now,
                   struct jobs_effects *effects)
{
    bool unreadable = any_unreadable(op);
    if (!unreadable && is_own(op))
        hold(jobs, now);
    job_op_thaw(jobs, op);
    for (size_t n = 0; n < op->write_count; n++) {
        if (op->writes[n].unreadable)
            spoil(jobs, &op->writes[n], now);
    }
    if (op->kind == JOB_OP_PUT && op->plans) {
        puts_forget(jobs, op->of, op->plans, op->count, now);
        tube_serve(jobs, op->of, now, effects); /* twins are there again */
    }
    if (op->kind == JOB_OP_PAUSE || op->kind == JOB_OP_SET_TUBE)
        op->of->changing = false;
    if ((int)op->kind == JOB_OP_GIVE) {
        job_views_free(jobs, &op->client->claimed);
        client_refuse(op->client, !unreadable, effects);
        serve_tubes_for(op->client, now, effects);
    }
    serve_tubes_of(jobs, op, now, effects);
    op->status = unreadable ? JOBS_IO : JOBS_NO_MEMORY;
}

static void reserve_planned(struct jobs *jobs, struct job_write *write, struct jobs_client *client,
                            struct moment now, struct job_view *view_r)
{
    job_thaw(jobs, write->handle);
    job_reserve(jobs, write->handle, client, &write->terms, now, view_r);
    if (view_r->body)
        return;
    view_r->body = write->body;
    write->body = NULL;
}

static void make_give(struct jobs *jobs, struct job_op *op, struct moment now,
                      struct jobs_effects *effects)
{
    struct jobs_client *client = op->client;
    const struct tube *last = NULL;
    for (size_t n = 0; n < op->write_count; n++) {
        struct job_view *view = client->claimed ? &client->claimed->at[n] : &client->served;
        last = job_at(jobs, op->writes[n].handle)->tube;
        reserve_planned(jobs, &op->writes[n], client, now, view);
    }
    client_serve(client, last, effects);
}

/* Makes the planned change of one frozen job, if it is still there. */
static void make_act(struct jobs *jobs, struct job_op *op, struct job_write *write,
                     const struct job_act *act, struct moment now, struct jobs_effects *effects)
{
    if (write->leaves)
        write->leaves->leaving--;
    write->leaves = NULL;
    job_thaw(jobs, write->handle);
    op->status = job_act_make(jobs, act, write->handle, now, effects);
}

/* With little room left, the body of a new job stays in the store alone. */
static void make_way(struct jobs *jobs, const struct job_op *op)
{
    uint64_t limit = atomic_load_explicit(&jobs->memory_limit, memory_order_relaxed);
    if (atomic_load_explicit(&jobs->memory, memory_order_relaxed) <= limit - limit / 4)
        return;
    for (size_t n = 0; n < op->count; n++) {
        struct job *job =
            op->plans[n].handle != JOB_NONE ? job_at(jobs, op->plans[n].handle) : NULL;
        if (job && job->id == op->puts[n].id && !job->frozen && job->state != JOB_RESERVED)
            job_body_drop(jobs, &job->body);
    }
}

static void make_settings(struct jobs *jobs, struct job_op *op, struct moment now,
                          struct jobs_effects *effects)
{
    op->of->changing = false;
    if (op->kind == JOB_OP_PAUSE)
        tube_pause(op->of, op->seconds, now);
    else
        op->of->settings = *op->new_settings;
    tube_changed(jobs, op->of, now, effects);
}

/* The jobs' own, but for JOB_OP_GIVE. */
static void make_own(struct jobs *jobs, struct job_op *op, struct moment now,
                     struct jobs_effects *effects)
{
    struct job_write *write = &op->writes[0];
    if ((int)op->kind == JOB_OP_FORGET_PAUSE)
        return;
    if (write->leaves)
        write->leaves->leaving--;
    write->leaves = NULL;
    job_thaw(jobs, write->handle);
    struct job *job = job_at(jobs, write->handle);
    struct tube *tube = job->tube;
    switch ((int)op->kind) {
    case JOB_OP_ABANDON:
        job->timeouts += op->state;
        jobs->timeouts += op->state;
        (void)job_give_back(jobs, write->handle, 0, now);
        break;
    case JOB_OP_SPOILED:
        job_bury(jobs, write->handle, JOB_BURIED, job->pri, now);
        jobs->spoiled++;
        break;
    case JOB_OP_DROP:
        job_drop_now(jobs, write->handle, now);
        break;
    default:
        job_remove(jobs, write->handle, now);
    }
    tube_set_due(jobs, tube);
    tube_serve(jobs, tube, now, effects);
    tube_drop_if_unused(jobs, tube);
}

static void make(struct jobs *jobs, struct job_op *op, struct moment now,
                 struct jobs_effects *effects)
{
    struct job_act act;
    op->status = JOBS_OK;
    switch ((int)op->kind) {
    case JOB_OP_PUT:
        puts_make(jobs, op->of, op->puts, op->plans, op->count, now);
        tube_serve(jobs, op->of, now, effects);
        make_way(jobs, op);
        break;
    case JOB_OP_KICK:
        act = act_of(op);
        for (size_t n = 0; n < op->write_count; n++)
            make_act(jobs, op, &op->writes[n], &act, now, effects);
        op->kick->left -= (uint32_t)op->write_count;
        op->kick->kicked += (uint32_t)op->write_count;
        op->status = op->kick->left > 0 ? JOBS_WAITS : JOBS_OK;
        break;
    case JOB_OP_CLEAR:
        for (size_t n = 0; n < op->write_count; n++) {
            struct job_write *write = &op->writes[n];
            struct tube *tube = job_at(jobs, write->handle)->tube;
            if (write->leaves)
                write->leaves->leaving--;
            write->leaves = NULL;
            job_thaw(jobs, write->handle);
            job_remove(jobs, write->handle, now);
            tube_drop_if_unused(jobs, tube);
        }
        op->clear->deleted += op->write_count;
        op->status = JOBS_WAITS;
        break;
    case JOB_OP_PAUSE:
    case JOB_OP_SET_TUBE:
        make_settings(jobs, op, now, effects);
        break;
    case JOB_OP_READ:
        break;
    case JOB_OP_RESERVE:
        reserve_planned(jobs, &op->writes[0], op->client, now, op->views);
        break;
    case JOB_OP_GIVE:
        make_give(jobs, op, now, effects);
        break;
    case JOB_OP_ABANDON:
    case JOB_OP_DROP:
    case JOB_OP_PRUNE:
    case JOB_OP_SPOILED:
    case JOB_OP_FORGET_PAUSE:
        make_own(jobs, op, now, effects);
        break;
    default:
        act = act_of(op);
        make_act(jobs, op, &op->writes[0], &act, now, effects);
    }
    for (size_t n = 0; n < op->write_count; n++)
        check_plan(jobs, &op->writes[n]);
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
static enum jobs_status read_status(const struct jobs *jobs, const struct job_op *op)
{
    if (op->stored == JOB_STORE_NO_MEMORY)
        return JOBS_NO_MEMORY;
    for (size_t n = 0; n < op->view_count; n++) {
        if (!op->views[n].body && job_find(jobs, op->views[n].id) != JOB_NONE)
            return JOBS_IO;
    }
    return JOBS_OK;
}

/* The first round of a put is over. */
static void learn_looks(struct jobs *jobs, struct job_op *op)
{
    for (size_t n = 0; n < op->write_count; n++) {
        struct job_write *write = &op->writes[n];
        struct job_mark *mark = write->mark;
        if (write->kind != JOB_WRITE_LOOK)
            continue; /* of an earlier round */
        write->kind = JOB_WRITE_NOTHING;
        if (op->stored != JOB_STORE_OK)
            continue;
        mark->known = true;
        if (write->time_ns == JOB_STORE_NO_TIME)
            continue;
        int64_t time_ms = write->time_ns / NS_PER_MS;
        mark->time_ms = time_ms > mark->time_ms ? time_ms : mark->time_ms;
        mark_settle(jobs, mark);
    }
}

/* The client whose reservation another one changes. No operation changes several. */
static struct jobs_client *holder_beside(const struct jobs *jobs, const struct job_op *op)
{
    uint32_t handle = op->write_count == 1 ? op->writes[0].handle : JOB_NONE;
    struct jobs_client *holder = handle != JOB_NONE ? job_at(jobs, handle)->holder : NULL;
    return op->counted && op->client == holder ? NULL : holder;
}

static void end_op(struct jobs *jobs, struct job_op *op, struct moment now,
                   struct jobs_effects *effects)
{
    struct jobs_client *holder = holder_beside(jobs, op);
    jobs->commit->under_way--;
    if (op->fetches) {
        learn_looks(jobs, op);
        op->fetches = false;
        op->status = op->stored == JOB_STORE_OK ? decide(jobs, op, now, effects) : JOBS_NO_MEMORY;
        if (op->status == JOBS_COMMITS)
            return;
    } else if (op->kind == JOB_OP_READ) {
        fill_views(op);
        op->status = read_status(jobs, op);
    } else if (op->stored == JOB_STORE_OK) {
        make(jobs, op, now, effects);
    } else {
        forget(jobs, op, now, effects);
    }
    finish(jobs, op, now, effects);
    if (holder)
        client_settle(holder, now, effects);
}

/* Decides again what was parked. */
static void unpark(struct jobs *jobs, struct moment now, struct jobs_effects *effects)
{
    struct mail_list parked;
    mail_list_init(&parked);
    for (struct mail *mail; (mail = mail_list_take(&jobs->commit->parked)) != NULL;)
        mail_list_add(&parked, mail);
    for (struct mail *mail; (mail = mail_list_take(&parked)) != NULL;) {
        struct job_op *op = op_of(mail);
        op->status = decide(jobs, op, now, effects);
        if (op->status != JOBS_COMMITS)
            finish(jobs, op, now, effects);
    }
}

/* So many operations end before others get the lock. */
#define SETTLE_STEP 32u

void jobs_settle(struct jobs *jobs, struct job_op_list *list, struct moment now,
                 struct jobs_effects *effects)
{
    unsigned done = 0;
    jobs_enter(jobs);
    for (struct mail *mail; (mail = mail_list_take(&list->ops)) != NULL;) {
        end_op(jobs, op_of(mail), now, effects);
        if (++done % SETTLE_STEP != 0)
            continue;
        jobs_leave(jobs);
        jobs_enter(jobs);
    }
    unpark(jobs, now, effects);
    jobs_leave(jobs);
}

static void free_list(struct jobs *jobs, struct mail_list *list)
{
    for (struct mail *mail; (mail = mail_list_take(list)) != NULL;) {
        struct job_op *op = op_of(mail);
        job_op_free_writes(jobs, op);
        free(op->plans);
        free(op->new_settings);
        if (is_own(op))
            free(op);
    }
}

void jobs_commit_free(struct jobs *jobs)
{
    struct job_ops *ops = jobs->commit;
    if (!ops)
        return;
    free_list(jobs, &ops->queue);
    free_list(jobs, &ops->parked);
    free(ops);
    jobs->commit = NULL;
}
