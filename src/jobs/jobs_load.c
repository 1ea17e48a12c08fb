/*
 * jobs_load.c - jobs at the start: what a store has, as after the end of the process that wrote it.
 * (Protocol page: job queues, section 8.)
 *
 * The store has points in wall-clock time. Here each becomes a monotonic one, no further away than
 * the delay or lease is long. What was due meanwhile is due at once.
 */
#include "jobs/jobs_op.h"

struct loading {
    struct jobs *jobs;
    struct job_times at;
};

/* How long until a time on disk, at most so many seconds. */
static int64_t left_ns(const struct loading *l, int64_t due_ns, uint32_t seconds)
{
    int64_t left = due_ns - l->at.wall_ns, most = (int64_t)seconds * NS_PER_S;
    return left < 0 ? 0 : left < most ? left : most;
}

static bool load_tube(void *arg, const struct job_tube_record *record)
{
    const struct loading *l = arg;
    struct tube *tube = tube_get(l->jobs, record->name);
    if (!tube)
        return false;
    tube->kept = true;
    tube->settings = record->settings;
    int64_t left = left_ns(l, record->paused_until_ns, record->pause_s);
    if (left > 0) {
        tube->pause_s = record->pause_s;
        tube->paused_until_ns = l->at.now.mono_ns + left;
    }
    tube->under_way++; /* until all jobs have come */
    return true;
}

/* Gives a new job its key and root. Returns false without memory. */
static bool load_keys(struct jobs *jobs, struct job *job, const struct job_record *record)
{
    if (record->key.len == 0 && record->root.len == 0)
        return true;
    struct job_keys *keys = jobs_alloc(jobs, sizeof(*keys));
    if (!keys)
        return false;
    job->keys = keys;
    keys->at_ms = record->now.at_ns / NS_PER_MS;
    keys->root_ms = record->now.root_ns / NS_PER_MS;
    keys->began_ms = record->now.began_ns / NS_PER_MS;
    if (record->key.len > 0) {
        keys->key = job_keys_mark(jobs, job->tube, record->key, false);
        if (!keys->key)
            return false;
        keys->key->refs++;
        keys->key->known = true; /* load_memory comes later */
        mark_settle(jobs, keys->key);
    }
    if (record->root.len > 0) {
        keys->root = job_keys_mark(jobs, job->tube, record->root, true);
        if (!keys->root)
            return false;
        keys->root->refs++;
        keys->root->known = true;
        mark_settle(jobs, keys->root);
    }
    return true;
}

/* Puts a job into the state that it has now. */
static void place(const struct loading *l, uint32_t handle, const struct job_changing *was)
{
    struct jobs *jobs = l->jobs;
    struct job *job = job_at(jobs, handle);
    struct job_place to = {.pri = was->pri};
    uint32_t most = job_tries(jobs, job);
    unsigned state = was->state;
    if (state == JOB_DELAYED) {
        int64_t left = left_ns(l, was->due_ns, was->delay_s);
        to.turn = (uint64_t)(l->at.now.mono_ns + left);
        state = left > 0 ? JOB_DELAYED : JOB_READY;
    } else if (state == JOB_RESERVED) {
        /* One of a connection has ended. The last try is over when that is committed. */
        int64_t left = was->due_ns > 0 ? left_ns(l, was->due_ns, job->ttr_s) : 0;
        job->last_try = most > 0 && was->tries >= most;
        job->is_lease = left > 0;
        to.turn = (uint64_t)(l->at.now.mono_ns + left);
        to.holder = jobs->leases;
        if (left == 0 && !job->last_try)
            state = JOB_READY;
        else
            job->token = was->token;
    } else if (state != JOB_READY) {
        to.turn = (uint64_t)(BURIAL_BASE + l->at.now.mono_ns + was->due_ns - l->at.wall_ns);
        if (to.turn > jobs->last_burial) {
            jobs->last_burial = to.turn;
            jobs->last_burial_wall_ns = was->due_ns;
        }
    }
    if (state == JOB_READY)
        to = (struct job_place){.pri = was->pri};
    job_place_restored(jobs, handle, state, to);
}

static bool load_job(void *arg, const struct job_record *record)
{
    const struct loading *l = arg;
    struct jobs *jobs = l->jobs;
    const struct job_changing *was = &record->now;
    struct tube *tube = tube_get(jobs, record->tube);
    if (!tube || !jobs_reserve_slots(jobs, 1))
        return false;
    uint32_t handle = job_make(jobs, tube, record->id);
    struct job *job = job_at(jobs, handle);
    if (!load_keys(jobs, job, record)) {
        job_unmake(jobs, handle, l->at.now);
        return false;
    }
    job->body_len = record->body_len;
    job->put_s = (uint32_t)(record->put_ns / NS_PER_S);
    job->delay_s = was->delay_s;
    job->ttr_s = record->ttr_s;
    job->tries = was->tries;
    job->tries_max = record->tries_max;
    job->reserves = was->reserves;
    job->timeouts = was->timeouts;
    job->releases = was->releases;
    job->buries = was->buries;
    job->kicks = was->kicks;
    job_publish(jobs, handle);
    place(l, handle, was);
    return true;
}

/* What is remembered of a key or root that a job has. */
static bool load_memory(void *arg, enum job_memory_kind kind, const struct job_memory *memory)
{
    const struct loading *l = arg;
    const struct job_put put = {.key =
                                    kind == JOB_MEMORY_EXECUTION ? memory->name : bytes_at(NULL, 0),
                                .root = kind == JOB_MEMORY_ROOT ? memory->name : bytes_at(NULL, 0)};
    struct job_mark *key, *root, *mark;
    const struct tube *tube = tube_find(l->jobs, memory->tube);
    if (!tube)
        return true;
    job_keys_marks(l->jobs, tube, &put, &key, &root);
    mark = key ? key : root;
    if (!mark || memory->forget_ns <= l->at.wall_ns)
        return true;
    mark->time_ms = memory->time_ns / NS_PER_MS;
    mark->until_ns = job_until_ns(memory->forget_ns, l->at);
    mark_settle(l->jobs, mark);
    return true;
}

static bool let_go(void *arg, const struct job_tube_record *record)
{
    const struct loading *l = arg;
    struct tube *tube = tube_find(l->jobs, record->name);
    tube->under_way--;
    tube_note_ready(l->jobs, tube);
    tube_set_due(l->jobs, tube);
    tube_drop_if_unused(l->jobs, tube);
    return true;
}

enum job_store_status jobs_load(struct jobs *jobs, struct job_store *store, struct moment now)
{
    struct loading l = {.jobs = jobs, .at = job_times_of(jobs, now)};
    const struct job_store_visitors jobs_first = {.arg = &l, .tube = load_tube, .job = load_job};
    const struct job_store_visitors then = {.arg = &l, .tube = let_go, .memory = load_memory};
    jobs_enter(jobs);
    enum job_store_status status = store->does->load(store, &jobs_first);
    if (status == JOB_STORE_OK)
        status = store->does->load(store, &then);
    jobs_leave(jobs);
    return status;
}

void jobs_set_next_id(struct jobs *jobs, uint64_t next)
{
    jobs_enter(jobs);
    atomic_store(&jobs->next_id, next);
    jobs->used = true; /* an upgrade carries it */
    jobs_leave(jobs);
}
