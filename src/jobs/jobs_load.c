/*
 * jobs_load.c - jobs at the start: what a store has, as after the end of the process that wrote it.
 * (Protocol page: job queues, section 8.)
 *
 * The store has points in wall-clock time. Here each becomes a monotonic one, no further away than
 * the delay or lease is long. What was due meanwhile is due at once.
 *
 * A file that is damaged may have what cannot be: it is refused, before anything believes it.
 */
#include "jobs/jobs_commit_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct loading {
    struct jobs *jobs;
    struct job_times at;
    uint64_t last_id;
    bool is_damaged;
    char why[JOB_STORE_REASON]; /* then */
};

/* What is kept makes no sense; returns false. */
__attribute__((format(printf, 2, 3))) static bool damaged(struct loading *l, const char *format,
                                                          ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(l->why, sizeof(l->why), format, args);
    va_end(args);
    l->is_damaged = true;
    return false;
}

static bool is_name(struct bytes name)
{
    for (size_t n = 0; n < name.len; n++) {
        if (name.data[n] <= ' ' || name.data[n] > '~')
            return false;
    }
    return name.len > 0 && name.len <= JOBS_TUBE_MAX;
}

/* How long until a time on disk, at most so many seconds. */
static int64_t left_ns(const struct loading *l, int64_t due_ns, uint32_t seconds)
{
    int64_t left = due_ns - l->at.wall_ns, most = (int64_t)seconds * NS_PER_S;
    return left < 0 ? 0 : left < most ? left : most;
}

static bool load_tube(void *arg, const struct job_tube_record *record)
{
    struct loading *l = arg;
    if (!is_name(record->name) || record->paused_until_ns < 0)
        return damaged(l, "a tube with settings has no good name, or a pause without an end");
    struct tube *tube = tube_get(l->jobs, record->name);
    if (!tube)
        return false;
    if (tube->kept)
        return damaged(l, "tube %.*s has its settings twice", (int)record->name.len,
                       (const char *)record->name.data);
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

/* The mark of a key or root of a job; NULL: no memory. */
static struct job_mark *load_mark(struct jobs *jobs, const struct job *job, struct bytes name,
                                  bool is_root)
{
    struct job_mark *mark = job_keys_mark(jobs, job->tube, name, is_root);
    if (!mark)
        return NULL;
    mark->refs++;
    mark->known = true; /* load_memory comes later */
    mark_settle(jobs, mark);
    return mark;
}

/* Gives a new job its key and root. Returns false without memory. */
static bool load_keys(struct jobs *jobs, struct job *job, const struct job_record *record)
{
    if (record->key.len == 0 && record->root.len == 0)
        return true;
    struct job_keys *keys = jobs_alloc(jobs, JOBS_PUTS, sizeof(*keys));
    if (!keys)
        return false;
    job->keys = keys;
    keys->at_ms = record->now.at_ns / NS_PER_MS;
    keys->root_ms = record->now.root_ns / NS_PER_MS;
    keys->began_ms = record->now.began_ns / NS_PER_MS;
    if (record->key.len > 0)
        keys->key = load_mark(jobs, job, record->key, false);
    if (record->root.len > 0)
        keys->root = load_mark(jobs, job, record->root, true);
    return (record->key.len == 0 || keys->key) && (record->root.len == 0 || keys->root);
}

/* The turn of a job that was buried at this time. */
static int64_t burial_turn(const struct loading *l, int64_t due_ns)
{
    return BURIAL_BASE + l->at.now.mono_ns + (due_ns - l->at.wall_ns);
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
        to.turn = (uint64_t)burial_turn(l, was->due_ns);
        if (to.turn > jobs->last_burial) {
            jobs->last_burial = to.turn;
            jobs->last_burial_wall_ns = was->due_ns;
        }
    }
    if (state == JOB_READY)
        to = (struct job_place){.pri = was->pri};
    job_place_restored(jobs, handle, state, to);
}

/* What cannot be of a job; NULL: nothing. */
static const char *wrong_with(const struct loading *l, const struct job_record *record)
{
    const struct job_changing *was = &record->now;
    bool is_buried = was->state == JOB_BURIED || was->state == JOB_ABANDONED;
    if (record->id <= l->last_id)
        return "is there twice, or at a wrong place";
    if (record->id > (uint64_t)INT64_MAX / 2)
        return "has an impossible id";
    if (!is_name(record->tube))
        return "has a tube without a good name";
    if (record->ttr_s == 0)
        return "has no ttr";
    if (was->state == JOB_RESERVED && was->token == 0)
        return "is reserved without a token";
    if (record->put_ns < 0 || was->due_ns < 0 || was->began_ns < 0 || was->at_ns < 0 ||
        was->root_ns < 0)
        return "has a time before 1970";
    if (is_buried && (was->due_ns > INT64_MAX / 2 || burial_turn(l, was->due_ns) < 0 ||
                      burial_turn(l, was->due_ns) > INT64_MAX / 2))
        return "was buried at an impossible time";
    return NULL;
}

static bool load_job(void *arg, const struct job_record *record)
{
    struct loading *l = arg;
    struct jobs *jobs = l->jobs;
    const struct job_changing *was = &record->now;
    const char *wrong = wrong_with(l, record);
    if (wrong)
        return damaged(l, "job %llu %s", (unsigned long long)record->id, wrong);
    l->last_id = record->id;
    struct tube *tube = tube_get(jobs, record->tube);
    if (!tube || !jobs_reserve_slots(jobs, 1))
        return false;
    uint32_t handle = job_make(jobs, tube, record->id);
    struct job *job = job_at(jobs, handle);
    if (!load_keys(jobs, job, record)) {
        job_unmake(jobs, handle, l->at.now);
        return false;
    }
    job_set_body_len(job, record->body_len);
    job_set_put(job, record->put_ns / NS_PER_MS);
    job->delay_s = was->delay_s;
    job->ttr_s = record->ttr_s;
    job->tries = was->tries;
    job->tries_max = record->tries_max;
    job->counts = was->counts;
    job_publish(jobs, handle);
    place(l, handle, was);
    return true;
}

/* What is remembered of a key or root that a job has. */
static bool load_memory(void *arg, enum job_memory_kind kind, const struct job_memory *memory)
{
    struct loading *l = arg;
    const struct job_put put = {.key =
                                    kind == JOB_MEMORY_EXECUTION ? memory->name : bytes_at(NULL, 0),
                                .root = kind == JOB_MEMORY_ROOT ? memory->name : bytes_at(NULL, 0)};
    struct job_mark *key, *root, *mark;
    if (memory->time_ns < 0 || memory->forget_ns < 0)
        return damaged(l, "an execution or a root has a time before 1970");
    const struct tube *tube = tube_find(l->jobs, memory->tube);
    if (!tube)
        return true;
    job_keys_marks(l->jobs, tube, &put, &key, &root);
    mark = key ? key : root;
    if (!mark)
        return true;
    mark->over = memory->forget_ns <= l->at.wall_ns;
    if (mark->over)
        return true;
    mark->time_ms = memory->time_ns / NS_PER_MS;
    mark->until_ns = job_until_ns(memory->forget_ns, l->at);
    mark_settle(l->jobs, mark);
    return true;
}

static bool let_go(void *arg, const struct job_tube_record *record)
{
    struct loading *l = arg;
    struct tube *tube = tube_find(l->jobs, record->name);
    if (!tube || tube->under_way == 0)
        return damaged(l, "the settings of tubes are not the same when they are read again");
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
    steps_unbounded(LOCK_RANK_JOBS);
    jobs_begin_load(jobs);
    enum job_store_status status = store->does->load(store, &jobs_first);
    if (status == JOB_STORE_OK)
        status = store->does->load(store, &then);
    jobs_end_load(jobs);
    jobs_leave(jobs);
    if (l.is_damaged) {
        status = JOB_STORE_CORRUPT;
        memcpy(store->reason, l.why, sizeof(l.why));
    }
    return status;
}

void jobs_set_next_id(struct jobs *jobs, uint64_t next)
{
    jobs_enter(jobs);
    atomic_store(&jobs->next_id, next);
    jobs->used = true; /* an upgrade carries it */
    jobs_leave(jobs);
}
