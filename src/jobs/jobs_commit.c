/*
 * jobs_commit.c - the life of changes: queueing, deferring and settling them, and the jobs' own.
 * See jobs_commit.h.
 *
 * Everything is under the jobs' lock, but for what the store's thread does with a list that it has
 * taken (jobs_write.c).
 */
#include "jobs/jobs_commit_internal.h"

#include <stdlib.h>
#include <string.h>

/* After a failure, the jobs' own changes and reservations for clients that wait are not tried for
 * so long. */
#define HOLD_NS NS_PER_S

/* The jobs' own steps rest for so many times as long as upkeep of the store took. */
#define REST_TIMES  16
#define REST_NS_MAX NS_PER_S

/* Where changes wait. */
enum {
    QUEUE,
    BEHIND,
    STEPS, /* of what changes many jobs */
    DEFERRED,
    LATE,    /* steps of clients that have not begun */
    ARRIVED, /* what is submitted while deferred ones are decided */
    LISTS
};

struct job_ops {
    void (*wake)(void *arg);
    void *arg;
    struct mail_list lists[LISTS];
    size_t under_way; /* queued, or with the store's thread */
    size_t own;       /* jobs of the jobs' own changes under way */
    unsigned many;    /* steps of clients under way */
    unsigned pieces;  /* of settling */
    uint64_t defers;  /* changes that were deferred or will be, so far */
    bool rings, redecides;
    bool changed; /* by clients, since the last upkeep of the store */
};

static struct job_op *op_of(struct mail *mail)
{
    return container_of(mail, struct job_op, message.mail);
}

bool jobs_use_store(struct jobs *jobs, void (*wake)(void *arg), void *arg)
{
    struct job_ops *ops = calloc(1, sizeof(*ops));
    if (!ops)
        return false;
    ops->wake = wake;
    ops->arg = arg;
    for (unsigned n = 0; n < LISTS; n++)
        mail_list_init(&ops->lists[n]);
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
    return ops->under_way == 0 && !ops->lists[DEFERRED].first && !ops->lists[LATE].first &&
           !ops->redecides;
}

bool jobs_has_ops(struct jobs *jobs)
{
    jobs_enter(jobs);
    bool has = !job_ops_rest(jobs->commit);
    jobs_leave(jobs);
    return has;
}

/* ---- life of a change ------------------------------------------------------------------------ */

static void count_client(struct job_op *op)
{
    if (op->act.client && !op->counted)
        op->act.client->under_way++;
    op->counted = op->act.client != NULL;
}

/* The jobs' own changes that go in steps. */
static bool is_own_step(const struct job_op *op)
{
    return op->kind == JOB_OP_DROP || op->kind == JOB_OP_CHANGE;
}

/* Counts a change that is queued (`by` is 1), or over (-1). */
static void count_queued(struct job_ops *ops, const struct job_op *op, int by)
{
    if (op->many)
        ops->many += (unsigned)by;
    else if (is_own_step(op))
        ops->own += op->write_count * (size_t)(ptrdiff_t)by;
    if (!op->counted)
        return;
    op->act.client->writes += (uint32_t)op->write_count * (uint32_t)by;
    op->act.client->behind += op->behind ? (uint32_t)by : 0;
}

/* True for what others do not wait for. What a client asks for stays in order. */
static bool is_behind(const struct job_op *op)
{
    const struct jobs_client *client = op->act.client;
    return op->write_count > JOB_OP_FEW ||
           (client && (client->behind > 0 || client->writes + op->write_count > JOB_OP_FEW));
}

enum jobs_status job_op_queue(struct jobs *jobs, struct job_op *op)
{
    struct job_ops *ops = jobs->commit;
    count_client(op);
    op->stored = JOB_STORE_OK;
    bool is_step = op->many || is_own_step(op);
    op->behind = !is_step && is_behind(op);
    count_queued(ops, op, 1);
    jobs->steps += is_step;
    mail_list_add(&ops->lists[is_step ? STEPS : op->behind ? BEHIND : QUEUE], &op->message.mail);
    ops->under_way++;
    ops->rings = true;
    return JOBS_COMMITS;
}

bool job_op_has_turn(struct jobs *jobs, struct job_op *op)
{
    struct job_ops *ops = jobs->commit;
    op->many = ops->many < JOBS_MANY_MAX && (!ops->lists[LATE].first || ops->redecides);
    if (op->many)
        return true;
    count_client(op);
    mail_list_add(&ops->lists[LATE], &op->message.mail);
    return false;
}

void job_op_will_wait(struct jobs *jobs)
{
    jobs->commit->defers++;
}

enum jobs_status job_op_defer(struct jobs *jobs, struct job_op *op)
{
    count_client(op);
    job_op_will_wait(jobs);
    mail_list_add(&jobs->commit->lists[DEFERRED], &op->message.mail);
    return JOBS_COMMITS;
}

/* Gives back everything that is not the owner's. */
static void release(struct jobs *jobs, struct job_op *op)
{
    if (op->writes) {
        job_op_forget_looks(jobs, op);
        job_op_free_writes(jobs, op);
    }
    if (op->plans && op->plans != &op->plan)
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

static void begin(struct job_op *op)
{
    op->of = NULL;
    op->plans = NULL;
    op->new_settings = NULL;
    op->writes = NULL;
    op->write_count = op->write_room = 0;
    op->fetches = op->has_writes = op->counted = op->many = op->behind = false;
}

static size_t own_size(const struct job_op *op)
{
    return sizeof(*op) + op->tube.len;
}

/* The change is over. */
static void finish(struct jobs *jobs, struct job_op *op, struct moment now,
                   struct jobs_outbox *outbox)
{
    struct jobs_client *client = op->counted ? op->act.client : NULL;
    op->counted = op->fetches = op->many = false; /* its owner may submit it again */
    release(jobs, op);
    if (op->kind == JOB_OP_DROP)
        free(op);
    else if (job_op_is_own(op))
        jobs_release_memory(jobs, op, own_size(op));
    else
        mail_list_add(&outbox->done, &op->message.mail);
    if (!client)
        return;
    client->under_way--;
    client_settle(client, now, outbox);
}

/* ---- the jobs' own --------------------------------------------------------------------------- */

void jobs_hold(struct jobs *jobs, struct moment now)
{
    jobs->hold_until_ns = now.mono_ns + HOLD_NS;
}

static struct job_op *own_op(struct jobs *jobs, enum job_op_kind kind, size_t more)
{
    struct job_op *op =
        jobs_alloc(jobs, kind == JOB_OP_GIVE ? JOBS_REST : JOBS_ENDS, sizeof(*op) + more);
    if (op)
        op->kind = kind;
    return op;
}

bool job_begin_own(struct jobs *jobs, enum job_verb verb, uint32_t handle, struct moment now)
{
    if (now.mono_ns < jobs->hold_until_ns || jobs_are_busy(jobs))
        return false;
    struct job_op *op = own_op(jobs, JOB_OP_CHANGE, 0);
    if (!op) {
        jobs_hold(jobs, now);
        return false;
    }
    op->act.verb = verb;
    /* One write needs no memory. */
    CHECK(job_plan(jobs, op, &op->act, handle, job_times_of(jobs, now)));
    (void)job_op_queue(jobs, op);
    return true;
}

bool jobs_are_busy(const struct jobs *jobs)
{
    return jobs->commit->own >= JOBS_OWN_MAX;
}

/* When deletions of doomed jobs may begin. */
static int64_t drops_from_ns(const struct jobs *jobs)
{
    return jobs->hold_until_ns > jobs->rest_until_ns ? jobs->hold_until_ns : jobs->rest_until_ns;
}

/* A change that deletes `count` jobs. There are so few of them that their memory does not count
 * against the limit: when it is used up, this is what frees some. */
static struct job_op *drop_op(size_t count)
{
    struct job_op *op = malloc(sizeof(*op) + count * sizeof(struct job_write));
    if (!op)
        return NULL;
    *op = (struct job_op){.kind = JOB_OP_DROP, .act.verb = JOB_DROP, .write_room = count};
    op->writes = (struct job_write *)(op + 1);
    return op;
}

void drops_set_due(struct jobs *jobs)
{
    if (jobs->doomed.count == 0 || jobs_are_busy(jobs))
        deadline_clear(&jobs->due, &jobs->drops);
    else
        deadline_set(&jobs->due, &jobs->drops, drops_from_ns(jobs));
}

unsigned jobs_begin_drops(struct jobs *jobs, unsigned budget, struct moment now)
{
    struct job_times at = job_times_of(jobs, now);
    size_t count = jobs->doomed.count < JOBS_OP_STEP ? jobs->doomed.count : JOBS_OP_STEP;
    bool may = count > 0 && now.mono_ns >= drops_from_ns(jobs) && !jobs_are_busy(jobs);
    struct job_op *op = may ? drop_op(count) : NULL;
    if (may && !op)
        jobs_hold(jobs, now);
    for (size_t n = 0; op && n < count; n++)
        CHECK(job_plan(jobs, op, &op->act, jobs->doomed.first, at));
    if (op)
        (void)job_op_queue(jobs, op);
    drops_set_due(jobs);
    return !op ? 0 : count < budget ? (unsigned)count : budget;
}

int64_t jobs_upkeep_over(struct jobs *jobs, int64_t took_ns, struct moment now)
{
    int64_t rest_ns = took_ns < REST_NS_MAX / REST_TIMES ? took_ns * REST_TIMES : REST_NS_MAX;
    jobs_enter(jobs);
    int64_t until_ns = jobs->rest_until_ns = now.mono_ns + (jobs->commit->changed ? rest_ns : 0);
    jobs->commit->changed = false;
    drops_set_due(jobs);
    jobs_leave(jobs);
    return until_ns;
}

void tube_forget_row(struct jobs *jobs, const struct tube *tube)
{
    struct job_op *op = own_op(jobs, JOB_OP_FORGET_TUBE, tube->name->len);
    if (!op)
        return; /* the row goes at the next start, or once its pause is over */
    memcpy(op + 1, tube->name->bytes, tube->name->len);
    op->tube = bytes_at(op + 1, tube->name->len);
    (void)job_op_add(jobs, op, JOB_WRITE_TUBE);
    (void)job_op_queue(jobs, op);
}

bool job_is_counted(const struct jobs *jobs, const struct job *job)
{
    return job->state != JOB_READY || job_tries(jobs, job) > 0 ||
           tube_setting(jobs, job->tube, JOB_SETTING_CLAIM) == JOB_CLAIM_LEASE;
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
            jobs_alloc(jobs, JOBS_REST, sizeof(*client->claimed) + count * sizeof(struct job_view));
        if (client->claimed)
            client->claimed->count = count;
    }
    if (op && (count == 1 || client->claimed)) {
        op->act = (struct job_act){.verb = JOB_RESERVE, .client = client};
        while (planned < count && job_plan(jobs, op, &op->act, handles[planned], at))
            planned++;
    }
    if (planned == count) {
        client_promise(client);
        (void)job_op_queue(jobs, op);
        return true;
    }
    jobs_hold(jobs, now);
    for (size_t n = 0; n < count; n++)
        job_unlock(jobs, handles[n]);
    job_views_free(jobs, &client->claimed);
    if (op) {
        job_op_free_writes(jobs, op);
        jobs_release_memory(jobs, op, sizeof(*op));
    }
    return false;
}

/* Has a change decided behind those that were deferred before. */
static enum jobs_status job_op_arrives(struct jobs *jobs, struct job_op *op)
{
    count_client(op);
    job_op_will_wait(jobs);
    mail_list_add(&jobs->commit->lists[ARRIVED], &op->message.mail);
    return JOBS_COMMITS;
}

enum jobs_status jobs_submit(struct jobs *jobs, struct job_op *op, struct moment now,
                             struct jobs_outbox *outbox)
{
    CHECK(!job_op_is_own(op));
    begin(op);
    jobs_enter(jobs);
    const struct job_ops *ops = jobs->commit;
    uint64_t defers = ops ? ops->defers : 0;
    enum jobs_status status =
        ops && ops->redecides ? job_op_arrives(jobs, op) : job_op_decide(jobs, op, now, outbox);
    if (status != JOBS_COMMITS) {
        op->status = status;
        release(jobs, op);
    }
    op->deferred = ops && ops->defers != defers;
    jobs_leave(jobs);
    return status;
}

/* ---- the store's thread ---------------------------------------------------------------------- */

/* Adds a change to those of a transaction. Returns the bytes of its bodies. */
static size_t take_op(struct job_op_list *list, struct job_op *op)
{
    size_t sum = 0;
    mail_list_add(&list->ops, &op->message.mail);
    list->has_writes = list->has_writes || op->has_writes;
    bool puts = op->kind == JOB_OP_PUT && op->has_writes;
    list->has_puts = list->has_puts || puts;
    for (size_t n = 0; puts && n < op->count; n++) {
        sum += op->puts[n].body->len;
        if (op->puts[n].id > list->max_id)
            list->max_id = op->puts[n].id;
    }
    for (size_t n = 0; n < op->write_count; n++)
        sum += op->writes[n].reads ? op->writes[n].body_len : 0;
    return sum;
}

/* Takes changes, one at least, until the list has so many writes more, or bytes of bodies. */
static void take_ops(struct job_op_list *list, struct mail_list *from, size_t writes, size_t bytes,
                     size_t *sum)
{
    struct mail *mail;
    for (size_t count = 0; (count == 0 || (count < writes && *sum < bytes)) &&
                           (mail = mail_list_take(from)) != NULL;) {
        count += op_of(mail)->write_count;
        *sum += take_op(list, op_of(mail));
    }
}

bool jobs_take_ops(struct jobs *jobs, struct job_op_list *list_r, size_t writes, size_t bytes)
{
    size_t sum = 0;
    struct mail *mail;
    list_r->max_id = 0;
    list_r->has_puts = list_r->has_writes = false;
    list_r->damages = 0;
    mail_list_init(&list_r->ops);
    jobs_enter(jobs);
    struct job_ops *ops = jobs->commit;
    take_ops(list_r, &ops->lists[QUEUE], writes, bytes, &sum);
    take_ops(list_r, &ops->lists[BEHIND], writes / 2, bytes, &sum);
    ops->changed = ops->changed || list_r->ops.first;
    /* A step, or several small ones, however much there was before. */
    for (size_t count = 0; (mail = ops->lists[STEPS].first) != NULL;
         count += op_of(mail)->write_count) {
        if (count > 0 && count + op_of(mail)->write_count > JOBS_OP_STEP)
            break;
        (void)mail_list_take(&ops->lists[STEPS]);
        (void)take_op(list_r, op_of(mail));
    }
    jobs_leave(jobs);
    list_r->rest = list_r->ops.first ? op_of(list_r->ops.first) : NULL;
    return list_r->rest != NULL;
}

/* ---- settling -------------------------------------------------------------------------------- */

static void end_op(struct jobs *jobs, struct job_op *op, struct moment now,
                   struct jobs_outbox *outbox)
{
    jobs->commit->under_way--;
    count_queued(jobs->commit, op, -1);
    if (is_own_step(op))
        drops_set_due(jobs);
    if (op->fetches) {
        job_op_learn(jobs, op, now);
        op->fetches = false;
        op->status = op->stored == JOB_STORE_OK        ? job_op_decide(jobs, op, now, outbox)
                     : op->stored == JOB_STORE_CORRUPT ? JOBS_IO
                                                       : JOBS_NO_MEMORY;
        if (op->status == JOBS_COMMITS)
            return;
    } else if (op->kind == JOB_OP_READ) {
        op->status = job_op_read_over(jobs, op);
    } else if (op->stored == JOB_STORE_OK) {
        job_op_make(jobs, op, now, outbox);
    } else {
        job_op_forget(jobs, op, now, outbox);
    }
    finish(jobs, op, now, outbox);
    clients_end(jobs, now, outbox);
}

/* So many writes end before others get the lock. */
#define SETTLE_STEP 32u

/* So often they also get the time to take it. */
#define SETTLE_PAUSE 16u

/* Lets others have the lock when *done is so much. */
static void let_others(struct jobs *jobs, size_t *done)
{
    if (*done < SETTLE_STEP)
        return;
    *done = 0;
    jobs_leave(jobs);
    if (++jobs->commit->pieces % SETTLE_PAUSE == 0)
        lock_give_way();
    jobs_enter(jobs);
}

static void decide_again(struct jobs *jobs, struct mail *mail, struct moment now,
                         struct jobs_outbox *outbox)
{
    struct job_op *op = op_of(mail);
    op->status = job_op_decide(jobs, op, now, outbox);
    if (op->status != JOBS_COMMITS)
        finish(jobs, op, now, outbox);
}

/* Decides again what was deferred; then steps that waited for others, and what has come meanwhile.
 */
static void decide_deferred(struct jobs *jobs, struct moment now, struct jobs_outbox *outbox)
{
    struct job_ops *ops = jobs->commit;
    struct mail_list deferred;
    struct mail *mail;
    size_t done = 0;
    mail_list_init(&deferred);
    while ((mail = mail_list_take(&ops->lists[DEFERRED])) != NULL)
        mail_list_add(&deferred, mail);
    ops->redecides = true;
    while ((mail = mail_list_take(&deferred)) != NULL ||
           (ops->many < JOBS_MANY_MAX && (mail = mail_list_take(&ops->lists[LATE])) != NULL) ||
           (mail = mail_list_take(&ops->lists[ARRIVED])) != NULL) {
        decide_again(jobs, mail, now, outbox);
        done++;
        let_others(jobs, &done);
    }
    ops->redecides = false;
}

void jobs_settle(struct jobs *jobs, struct job_op_list *list, struct moment now,
                 struct jobs_outbox *outbox)
{
    size_t done = 0;
    jobs_enter(jobs);
    for (struct mail *mail; (mail = mail_list_take(&list->ops)) != NULL;) {
        done += 1 + op_of(mail)->write_count;
        end_op(jobs, op_of(mail), now, outbox);
        let_others(jobs, &done);
    }
    decide_deferred(jobs, now, outbox);
    jobs_leave(jobs);
}

static void free_list(struct jobs *jobs, struct mail_list *list)
{
    for (struct mail *mail; (mail = mail_list_take(list)) != NULL;) {
        struct job_op *op = op_of(mail);
        job_op_free_writes(jobs, op);
        if (op->plans != &op->plan)
            free(op->plans);
        free(op->new_settings);
        if (job_op_is_own(op))
            free(op);
    }
}

void jobs_commit_free(struct jobs *jobs)
{
    struct job_ops *ops = jobs->commit;
    if (!ops)
        return;
    for (unsigned n = 0; n < LISTS; n++)
        free_list(jobs, &ops->lists[n]);
    free(ops);
    jobs->commit = NULL;
}
