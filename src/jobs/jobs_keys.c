/*
 * jobs_keys.c - keys and roots: which puts are duplicates, and which jobs are dropped. (Protocol
 * page: job queues, section 6.)
 *
 * A key or signature of a tube is a mark, found by a hash of 16 bytes; its text is not kept. The
 * mark of a key knows when the job that was executed last was reserved; that of a root knows the
 * newest time. Both know the ready and delayed jobs that have them. So a put finds the job of which
 * it is a duplicate, and jobs that a newer root makes stale come first in their set.
 *
 * A mark is made with the first job that needs it. So the end of a job never needs memory.
 *
 * A stale job is dropped at its turn at the latest (tube_next_good). Those of a root are dropped in
 * steps as soon as its newer time is known; some of a key when its execution is. That cannot fail:
 * with a store, a dropped job is only doomed at first (job_doom).
 */
#include "jobs/jobs_internal.h"

#include "base/record.h"

#include <stdlib.h>
#include <string.h>

/* How long a root's newest time is remembered. */
#define ROOT_NS (JOB_ROOT_S * NS_PER_S)

#define MARKS_FIRST 64u

/* What a mark counts against the memory limit: itself, its place among the deadlines, and its share
 * of the table. */
#define MARK_COST (sizeof(struct job_mark) + 40)

/* So many jobs of a key are looked at when one was executed; the others are found at their turn. */
#define EXECUTED_LOOKS 64u

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- marks by name --------------------------------------------------------------------------- */

static void name_mark(const struct jobs *jobs, const struct tube *tube, char kind,
                      struct bytes text, uint64_t *name_r)
{
    uint8_t all[JOBS_TUBE_MAX + 2 + JOBS_KEY_MAX];
    size_t len = tube->name->len;
    CHECK(text.len > 0 && text.len <= JOBS_KEY_MAX);
    memcpy(all, tube->name->bytes, len);
    all[len++] = '\0';
    all[len++] = (uint8_t)kind;
    memcpy(all + len, text.data, text.len);
    len += text.len;
    name_r[0] = hash_bytes(&jobs->mark_keys[0], all, len);
    name_r[1] = hash_bytes(&jobs->mark_keys[1], all, len);
}

void marks_init(struct jobs *jobs)
{
    for (unsigned n = 0; n < 2; n++)
        jobs->mark_keys[n] = (struct hash_key){jobs_random(jobs), jobs_random(jobs)};
    jobs->mark_mask = MARKS_FIRST - 1;
    jobs->marks = calloc(MARKS_FIRST, sizeof(struct job_mark *));
}

static void free_table(struct job_mark **table, size_t mask)
{
    for (size_t n = 0; table && n <= mask; n++) {
        for (struct job_mark *mark = table[n], *next; mark; mark = next) {
            next = mark->next_by_hash;
            free(mark);
        }
    }
    free(table);
}

void marks_free(struct jobs *jobs)
{
    free_table(jobs->marks, jobs->mark_mask);
    free_table(jobs->old_marks, jobs->old_mark_mask);
    jobs->marks = jobs->old_marks = NULL;
}

static bool is_named(const struct job_mark *mark, const uint64_t name[2])
{
    return mark->name[0] == name[0] && mark->name[1] == name[1];
}

/* The pointer to a mark in its chain, or to the end of a chain. */
static struct job_mark **mark_link(const struct jobs *jobs, const uint64_t name[2])
{
    struct job_mark **link = &jobs->marks[name[0] & jobs->mark_mask];
    while (*link && !is_named(*link, name))
        link = &(*link)->next_by_hash;
    if (*link || !jobs->old_marks)
        return link;
    link = &jobs->old_marks[name[0] & jobs->old_mark_mask];
    while (*link && !is_named(*link, name))
        link = &(*link)->next_by_hash;
    return link;
}

static struct job_mark *mark_find(const struct jobs *jobs, const uint64_t name[2])
{
    return *mark_link(jobs, name);
}

/* Moves some buckets of the old table to the new one. */
static void move_some(struct jobs *jobs)
{
    for (unsigned n = 0; n < 4 && jobs->old_marks; n++) {
        struct job_mark *mark;
        while ((mark = jobs->old_marks[jobs->marks_moved])) {
            struct job_mark **bucket = &jobs->marks[mark->name[0] & jobs->mark_mask];
            jobs->old_marks[jobs->marks_moved] = mark->next_by_hash;
            mark->next_by_hash = *bucket;
            *bucket = mark;
        }
        if (jobs->marks_moved++ < jobs->old_mark_mask)
            continue;
        free(jobs->old_marks);
        jobs->old_marks = NULL;
    }
}

/* Begins to grow the table. Without memory the chains get longer. */
static void grow(struct jobs *jobs)
{
    size_t mask = jobs->mark_mask * 2 + 1;
    struct job_mark **table = calloc(mask + 1, sizeof(struct job_mark *));
    if (!table)
        return;
    jobs->old_marks = jobs->marks;
    jobs->old_mark_mask = jobs->mark_mask;
    jobs->marks_moved = 0;
    jobs->marks = table;
    jobs->mark_mask = mask;
}

/* The mark of a name, which is made if it is new. NULL: no memory. */
static struct job_mark *mark_get(struct jobs *jobs, const uint64_t name[2], bool is_root)
{
    struct job_mark *mark = mark_find(jobs, name);
    if (mark)
        return mark;
    if (!jobs_charge_here(jobs, JOBS_PUTS, MARK_COST))
        return NULL;
    mark = calloc(1, sizeof(*mark));
    if (!mark || !deadlines_reserve(&jobs->due, 1)) {
        free(mark);
        jobs_uncharge(jobs, MARK_COST);
        return NULL;
    }
    if (jobs->old_marks)
        move_some(jobs);
    else if (jobs->mark_count > jobs->mark_mask)
        grow(jobs);
    mark->name[0] = name[0];
    mark->name[1] = name[1];
    mark->is_root = is_root;
    mark->time_ms = JOB_NO_TIME;
    mark->until_ns = INT64_MAX;
    mark->due.kind = DUE_MARK;
    job_tree_init(&mark->jobs, is_root ? JOB_BY_ROOT : JOB_BY_KEY);
    struct job_mark **bucket = &jobs->marks[name[0] & jobs->mark_mask];
    mark->next_by_hash = *bucket;
    *bucket = mark;
    jobs->mark_count++;
    return mark;
}

static void mark_free(struct jobs *jobs, struct job_mark *mark)
{
    struct job_mark **link = mark_link(jobs, mark->name);
    CHECK(*link == mark && mark->refs == 0 && mark->jobs.count == 0);
    *link = mark->next_by_hash;
    deadline_clear(&jobs->due, &mark->due);
    deadlines_unreserve(&jobs->due, 1);
    jobs->mark_count--;
    free(mark);
    jobs_uncharge(jobs, MARK_COST);
}

/* True while a root has a job to be dropped; that is the first one. */
static bool has_stale(const struct jobs *jobs, const struct job_mark *root)
{
    return root->is_root && root->jobs.first != JOB_NONE &&
           job_at(jobs, root->jobs.first)->keys->root_ms < root->time_ms;
}

void mark_settle(struct jobs *jobs, struct job_mark *mark)
{
    if (mark->refs == 0 && (mark->time_ms == JOB_NO_TIME || jobs->commit)) {
        mark_free(jobs, mark); /* the store remembers its time */
        return;
    }
    int64_t at_ns = has_stale(jobs, mark)              ? 0
                    : mark->time_ms == JOB_NO_TIME     ? INT64_MAX
                    : mark->is_root || mark->refs == 0 ? mark->until_ns
                                                       : INT64_MAX;
    if (at_ns == INT64_MAX)
        deadline_clear(&jobs->due, &mark->due);
    else if (at_ns != deadline_at(&jobs->due, &mark->due))
        deadline_set(&jobs->due, &mark->due, at_ns);
}

/* The store forgets it with the next put of the key, which must not become a duplicate later, or
 * when the last job of the key goes. */
int64_t mark_executed_ms(struct job_mark *key, int64_t wall_ms)
{
    if (key->time_ms > wall_ms) {
        key->time_ms = JOB_NO_TIME;
        key->over = true;
    }
    return key->time_ms;
}

/* ---- stale jobs ------------------------------------------------------------------------------ */

/* The newest time of a root, with what the puts that are being decided have planned. */
static int64_t newest_of(const struct jobs *jobs, const struct job_mark *root)
{
    return root->plan == jobs->plans ? later(root->time_ms, root->planned_ms) : root->time_ms;
}

static bool is_stale(const struct jobs *jobs, const struct job *job, int64_t wall)
{
    const struct job_keys *keys = job->keys;
    return (keys->root && newest_of(jobs, keys->root) > keys->root_ms) ||
           (keys->key && mark_executed_ms(keys->key, wall) > keys->at_ms);
}

bool job_is_stale(struct jobs *jobs, const struct job *job, struct moment now)
{
    return job->keys && is_stale(jobs, job, jobs_wall_ms(jobs, now));
}

bool job_may_be_stale(const struct job *job)
{
    const struct job_keys *keys = job->keys;
    return keys && ((keys->root && keys->root->time_ms > keys->root_ms) ||
                    (keys->key && keys->key->time_ms > keys->at_ms));
}

void job_drop(struct jobs *jobs, uint32_t handle, struct moment now)
{
    const struct job_act act = {.verb = JOB_DROP};
    if (jobs->commit)
        job_doom(jobs, handle);
    else
        job_change_now(jobs, handle, &act, now);
}

uint32_t tube_next_good(struct jobs *jobs, const struct tube *tube, unsigned *budget,
                        struct moment now)
{
    for (;;) {
        uint32_t handle = tube_next(jobs, tube);
        if (handle == JOB_NONE || !job_is_stale(jobs, job_at(jobs, handle), now))
            return handle;
        if (*budget == 0)
            return JOB_NONE;
        (*budget)--;
        jobs->visits++;
        job_drop(jobs, handle, now);
    }
}

void mark_run(struct jobs *jobs, struct job_mark *mark, unsigned *budget, struct moment now)
{
    while (*budget > 0 && has_stale(jobs, mark)) {
        uint32_t handle = mark->jobs.first;
        struct tube *tube = job_at(jobs, handle)->tube;
        mark->refs++; /* it stays */
        job_drop(jobs, handle, now);
        mark->refs--;
        tube_drop_if_unused(jobs, tube);
        (*budget)--;
    }
    if (mark->until_ns <= now.mono_ns && !has_stale(jobs, mark) &&
        (mark->is_root || mark->refs == 0)) {
        mark->time_ms = JOB_NO_TIME;
        mark->over = true;
    }
    mark_settle(jobs, mark);
}

/* ---- puts ------------------------------------------------------------------------------------ */

/* What a time of a client stands for. */
static int64_t meant_ms(int64_t ms, bool whole)
{
    return ms + (whole ? 999 : 0);
}

/* The first job that has a key and this root, and is not stale. With a store, those before it are
 * doomed, unless only a put that is being decided would make them stale. */
static uint32_t find_twin(struct jobs *jobs, const struct job_mark *key,
                          const struct job_mark *root, int64_t wall)
{
    uint64_t id = 0;
    for (; jobs->looks > 0; jobs->looks--) {
        uint32_t at = job_tree_from_place(jobs, &key->jobs, (uintptr_t)root, id);
        const struct job *job = at == JOB_NONE ? NULL : job_at(jobs, at);
        if (!job || job->keys->root != root)
            return JOB_NONE;
        if (!is_stale(jobs, job, wall))
            return at;
        id = job->id + 1;
        if (jobs->commit && job_may_be_stale(job))
            job_doom(jobs, at);
    }
    return JOB_NONE; /* the stale ones are about to be dropped */
}

/* The place in the table of what is planned for jobs of a key and a root. */
static struct put_plan **planned_place(const struct jobs *jobs, const struct job_mark *key,
                                       const struct job_mark *root)
{
    uint64_t hash = key->name[0] ^ (root ? root->name[1] : 0);
    return &jobs->planned[hash % jobs->planned_count].first;
}

/* The job that a put makes, or is a duplicate of; JOB_NONE: none. */
static uint32_t job_of(const struct put_plan *plan)
{
    return plan->handle != JOB_NONE ? plan->handle : plan->twin;
}

/* The same among the jobs that the puts before this one concern: new ones and locked twins. Those
 * that are stale stay so, and leave the table. */
static uint32_t find_planned(struct jobs *jobs, const struct job_mark *key,
                             const struct job_mark *root, int64_t wall)
{
    uint32_t best = JOB_NONE;
    if (key->plan != jobs->plans)
        return JOB_NONE;
    struct put_plan **link = planned_place(jobs, key, root);
    while (*link) {
        struct put_plan *plan = *link;
        const struct job *job = job_at(jobs, job_of(plan));
        bool is_theirs = job->keys->key == key && job->keys->root == root;
        jobs->visits++;
        if (is_theirs && is_stale(jobs, job, wall)) {
            *link = plan->next;
            continue;
        }
        if (is_theirs)
            best = job_first_of(jobs, best, job_of(plan));
        link = &plan->next;
    }
    return best;
}

static struct job_mark *find_text(const struct jobs *jobs, const struct tube *tube, char kind,
                                  struct bytes text)
{
    uint64_t name[2];
    if (text.len == 0)
        return NULL;
    name_mark(jobs, tube, kind, text, name);
    return mark_find(jobs, name);
}

void job_keys_marks(const struct jobs *jobs, const struct tube *tube, const struct job_put *put,
                    struct job_mark **key_r, struct job_mark **root_r)
{
    *key_r = find_text(jobs, tube, 'k', put->key);
    *root_r = find_text(jobs, tube, 'r', put->root);
}

struct job_mark *job_keys_mark(struct jobs *jobs, const struct tube *tube, struct bytes text,
                               bool is_root)
{
    uint64_t name[2];
    name_mark(jobs, tube, is_root ? 'r' : 'k', text, name);
    return mark_get(jobs, name, is_root);
}

void job_keys_look(struct jobs *jobs, const struct tube *tube, const struct job_put *put,
                   struct moment now, struct job_keys_found *found_r)
{
    int64_t wall = jobs_wall_ms(jobs, now);
    struct job_mark *key = NULL, *root = NULL;
    *found_r = (struct job_keys_found){.of = JOB_NONE, .at_ms = wall};
    if (put->has_at && meant_ms(put->at_ms, put->at_whole) < wall)
        found_r->at_ms = meant_ms(put->at_ms, put->at_whole);
    if (put->root.len > 0) {
        found_r->root_ms = meant_ms(put->root_ms, put->root_whole);
        name_mark(jobs, tube, 'r', put->root, found_r->root);
        root = mark_find(jobs, found_r->root);
        if (root && newest_of(jobs, root) > found_r->root_ms) {
            found_r->duplicate = true;
            return;
        }
    }
    if (put->key.len == 0)
        return;
    name_mark(jobs, tube, 'k', put->key, found_r->key);
    key = mark_find(jobs, found_r->key);
    if (!key)
        return;
    uint32_t twin = find_twin(jobs, key, NULL, wall);
    twin = job_first_of(jobs, twin, find_planned(jobs, key, NULL, wall));
    if (root) {
        twin = job_first_of(jobs, twin, find_twin(jobs, key, root, wall));
        twin = job_first_of(jobs, twin, find_planned(jobs, key, root, wall));
    }
    found_r->of = twin;
    found_r->duplicate = twin != JOB_NONE || mark_executed_ms(key, wall) > found_r->at_ms;
}

bool job_keys_make(struct jobs *jobs, const struct job_put *put, struct job_keys_found *found)
{
    struct job_mark *key = NULL;
    bool stores = !found->duplicate;
    if (stores) {
        found->keys = jobs_alloc(jobs, JOBS_PUTS, sizeof(*found->keys));
        if (!found->keys)
            return false;
        found->keys->at_ms = found->at_ms;
        found->keys->root_ms = found->root_ms;
    }
    if (stores && put->key.len > 0) {
        key = mark_get(jobs, found->key, false);
        if (!key)
            goto failed;
        found->keys->key = key;
    }
    if (put->root.len > 0 && (stores || found->of != JOB_NONE)) {
        found->root_mark = mark_get(jobs, found->root, true);
        if (!found->root_mark)
            goto failed;
        if (stores)
            found->keys->root = found->root_mark;
    }
    return true;
failed:
    if (key)
        mark_settle(jobs, key); /* it goes if it was made for this */
    jobs_release_memory(jobs, found->keys, sizeof(*found->keys));
    found->keys = NULL;
    return false;
}

/* A root will learn the time of a put, which is not older than the newest. */
static void plan_root(struct jobs *jobs, struct put_plan *plan, const struct job_keys_found *found)
{
    struct job_mark *root = found->root_mark;
    if (!root)
        return;
    root->refs++; /* it stays */
    plan->root = root;
    plan->newest_ms = found->root_ms;
    plan->forgets_root = root->over && plan->newest_ms >= root->time_ms;
    root->busy += plan->forgets_root;
    root->planned_ms =
        root->plan == jobs->plans ? later(root->planned_ms, found->root_ms) : found->root_ms;
    root->plan = jobs->plans;
}

/* Puts the job that a put makes, or has locked, into the table. */
static void plan_key(struct jobs *jobs, struct put_plan *plan)
{
    const struct job_keys *keys = job_at(jobs, job_of(plan))->keys;
    if (!keys->key)
        return;
    struct put_plan **first = planned_place(jobs, keys->key, keys->root);
    plan->next = *first;
    *first = plan;
    keys->key->plan = jobs->plans;
}

void job_keys_plan(struct jobs *jobs, struct put_plan *plan, const struct job_keys_found *found)
{
    if (plan->handle != JOB_NONE) {
        struct job_keys *keys = found->keys;
        job_at(jobs, plan->handle)->keys = keys;
        if (keys->key) {
            keys->key->refs++;
            keys->key->busy++;
            mark_settle(jobs, keys->key);
        }
        if (keys->root)
            keys->root->refs++;
        plan_key(jobs, plan);
    } else if (found->of != JOB_NONE) {
        struct job *twin = job_at(jobs, found->of);
        plan->twin = found->of;
        plan->at_ms = twin->keys->at_ms;
        plan->root_ms = twin->keys->root_ms;
        plan->locked = twin->state != JOB_STATES && !twin->locked;
        if (plan->locked) { /* else it is in the table */
            job_lock(jobs, found->of);
            plan_key(jobs, plan);
        }
        twin->keys->at_ms = later(plan->at_ms, found->at_ms);
        if (twin->keys->root)
            twin->keys->root_ms = later(plan->root_ms, found->root_ms);
        plan->changes = twin->keys->at_ms != plan->at_ms || twin->keys->root_ms != plan->root_ms;
    }
    struct job_mark *key = job_keys_of_plan(jobs, plan);
    plan->forgets_key = key && key->over;
    if (key)
        key->over = false;
    plan_root(jobs, plan, found);
}

/* A put does not need its root any more. */
static void leave_root(struct jobs *jobs, struct put_plan *plan)
{
    if (!plan->root)
        return;
    plan->root->refs--;
    plan->root->busy -= plan->forgets_root;
    mark_settle(jobs, plan->root);
    plan->root = NULL;
}

static void unlock_twin(struct jobs *jobs, const struct put_plan *plan)
{
    if (plan->locked)
        job_unlock(jobs, plan->twin);
}

struct job_mark *job_keys_of_plan(const struct jobs *jobs, const struct put_plan *plan)
{
    uint32_t handle = job_of(plan);
    const struct job_keys *keys = handle != JOB_NONE ? job_at(jobs, handle)->keys : NULL;
    return keys ? keys->key : NULL;
}

void job_keys_learn(struct jobs *jobs, struct put_plan *plan, struct moment now)
{
    struct job_mark *root = plan->root, *key = job_keys_of_plan(jobs, plan);
    if (root && plan->forgets_root)
        root->over = false;
    if (root && plan->newest_ms >= root->time_ms) {
        root->time_ms = plan->newest_ms;
        root->until_ns = now.mono_ns + ROOT_NS;
    }
    if (key && plan->handle != JOB_NONE)
        key->busy--;
    unlock_twin(jobs, plan);
    leave_root(jobs, plan);
}

/* A job does not need its key and its root any more. */
static void leave_keys(struct jobs *jobs, struct job *job)
{
    struct job_keys *keys = job->keys;
    struct job_mark *marks[] = {keys->key, keys->root};
    for (unsigned n = 0; n < 2; n++) {
        if (!marks[n])
            continue;
        marks[n]->refs--;
        mark_settle(jobs, marks[n]);
    }
    jobs_release_memory(jobs, keys, sizeof(*keys));
    job->keys = NULL;
}

void job_keys_unplan(struct jobs *jobs, struct put_plan *plan)
{
    struct job_mark *key = job_keys_of_plan(jobs, plan);
    if (key)
        key->over |= plan->forgets_key;
    if (plan->handle != JOB_NONE) {
        struct job *job = job_at(jobs, plan->handle);
        if (key)
            key->busy--;
        if (job->keys) /* here, so that its key is not remembered longer */
            leave_keys(jobs, job);
    } else if (plan->twin != JOB_NONE) {
        struct job_keys *keys = job_at(jobs, plan->twin)->keys;
        keys->at_ms = plan->at_ms;
        keys->root_ms = plan->root_ms;
        unlock_twin(jobs, plan);
    }
    leave_root(jobs, plan);
}

/* ---- moves and ends of jobs ------------------------------------------------------------------ */

static bool has_its_key(const struct job *job)
{
    return job->state == JOB_READY || job->state == JOB_DELAYED;
}

void job_keys_enter(struct jobs *jobs, uint32_t handle)
{
    const struct job *job = job_at(jobs, handle);
    const struct job_keys *keys = job->keys;
    if (!has_its_key(job))
        return;
    if (keys->key)
        job_tree_add(jobs, &keys->key->jobs, handle);
    if (!keys->root)
        return;
    job_tree_add(jobs, &keys->root->jobs, handle);
    if (has_stale(jobs, keys->root))
        mark_settle(jobs, keys->root);
}

void job_keys_leave(struct jobs *jobs, uint32_t handle)
{
    const struct job *job = job_at(jobs, handle);
    const struct job_keys *keys = job->keys;
    if (!has_its_key(job))
        return;
    if (keys->key)
        job_tree_remove(jobs, &keys->key->jobs, handle);
    if (keys->root)
        job_tree_remove(jobs, &keys->root->jobs, handle);
}

void job_keys_forget(struct jobs *jobs, struct job *job, struct moment now)
{
    struct job_keys *keys = job->keys;
    if (!keys)
        return;
    struct job_mark *key = keys->key;
    if (key && key->refs == 1) {
        key->until_ns = after_seconds(now, tube_setting(jobs, job->tube, JOB_SETTING_REMEMBER));
        if (key->until_ns <= now.mono_ns)
            key->time_ms = JOB_NO_TIME;
    }
    leave_keys(jobs, job);
}

void job_keys_executed(struct jobs *jobs, const struct job *job, struct moment now)
{
    struct job_mark *key = job->keys ? job->keys->key : NULL;
    if (!key)
        return;
    int64_t wall = jobs_wall_ms(jobs, now);
    if (job->keys->began_ms > wall) { /* the clock was set back, maybe since this was planned */
        key->over = true;
        return;
    }
    key->time_ms = later(mark_executed_ms(key, wall), job->keys->began_ms);
    uint32_t at = key->jobs.first;
    for (unsigned n = 0; n < EXECUTED_LOOKS && at != JOB_NONE; n++) {
        const struct job *other = job_at(jobs, at);
        uint64_t major = (uintptr_t)other->keys->root, id = other->id;
        if (is_stale(jobs, other, wall))
            job_drop(jobs, at, now);
        at = job_tree_from_place(jobs, &key->jobs, major, id + 1);
    }
    watches_note_turn(jobs, job->tube);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static uint32_t save_table(struct job_mark *const *table, size_t mask, struct record_writer *w)
{
    uint32_t count = 0;
    for (size_t n = 0; table && n <= mask; n++) {
        for (const struct job_mark *mark = table[n]; mark; mark = mark->next_by_hash) {
            if (mark->time_ms == JOB_NO_TIME)
                continue;
            count++;
            if (!w)
                continue;
            record_put_u64(w, mark->name[0]);
            record_put_u64(w, mark->name[1]);
            record_put_u8(w, mark->is_root);
            record_put_i64(w, mark->time_ms);
            record_put_i64(w, mark->until_ns);
        }
    }
    return count;
}

void marks_save(const struct jobs *jobs, struct record_writer *w)
{
    for (unsigned n = 0; n < 2; n++) {
        record_put_u64(w, jobs->mark_keys[n].k0);
        record_put_u64(w, jobs->mark_keys[n].k1);
    }
    record_put_u32(w, save_table(jobs->marks, jobs->mark_mask, NULL) +
                          save_table(jobs->old_marks, jobs->old_mark_mask, NULL));
    (void)save_table(jobs->marks, jobs->mark_mask, w);
    (void)save_table(jobs->old_marks, jobs->old_mark_mask, w);
}

static void restore_mark(struct jobs *jobs, struct record_reader *r)
{
    uint64_t name[2] = {record_get_u64(r)};
    name[1] = record_get_u64(r);
    bool is_root = record_get_bool(r);
    int64_t time_ms = record_get_i64(r), until_ns = record_get_i64(r);
    if (record_ok(r) && (time_ms < 0 || until_ns < 0 || mark_find(jobs, name)))
        record_refuse(r, "a key of jobs is not good, or is there twice");
    if (!record_ok(r))
        return;
    struct job_mark *mark = mark_get(jobs, name, is_root);
    if (!mark) {
        record_refuse(r, "there is no memory for the keys of jobs");
        return;
    }
    mark->time_ms = time_ms;
    mark->until_ns = until_ns;
    mark->known = true;
    if (!jobs->commit)           /* else it stays for the jobs that have it */
        mark_settle(jobs, mark); /* again with its first job */
}

void marks_restore(struct jobs *jobs, struct record_reader *r)
{
    for (unsigned n = 0; n < 2; n++) {
        jobs->mark_keys[n].k0 = record_get_u64(r);
        jobs->mark_keys[n].k1 = record_get_u64(r);
    }
    for (uint32_t n = record_get_u32(r); n > 0 && record_ok(r); n--)
        restore_mark(jobs, r);
}

void job_keys_save(const struct job *job, struct record_writer *w)
{
    const struct job_keys *keys = job->keys;
    const struct job_mark *key = keys ? keys->key : NULL, *root = keys ? keys->root : NULL;
    record_put_u8(w, (uint8_t)((key ? 1u : 0u) | (root ? 2u : 0u)));
    if (!keys)
        return;
    record_put_i64(w, keys->at_ms);
    record_put_i64(w, keys->began_ms);
    if (key) {
        record_put_u64(w, key->name[0]);
        record_put_u64(w, key->name[1]);
    }
    if (root) {
        record_put_u64(w, root->name[0]);
        record_put_u64(w, root->name[1]);
        record_put_i64(w, keys->root_ms);
    }
}

/* Reads a name, and finds or makes its mark. */
static struct job_mark *get_mark(struct jobs *jobs, bool is_root, struct record_reader *r)
{
    uint64_t name[2] = {record_get_u64(r)};
    name[1] = record_get_u64(r);
    struct job_mark *mark = record_ok(r) ? mark_get(jobs, name, is_root) : NULL;
    if (!mark || mark->is_root != is_root) {
        record_refuse(r, "there is no memory for the key of a job, or it is a root");
        return NULL;
    }
    mark->refs++;
    mark->known = true;
    mark->over = jobs->commit != NULL; /* maybe: a record does not say it */
    CHECK(mark->refs > 0);
    mark_settle(jobs, mark);
    return mark;
}

struct job_keys *job_keys_restore(struct jobs *jobs, struct record_reader *r)
{
    unsigned kinds = record_get_u8(r);
    if (record_ok(r) && kinds > 3)
        record_refuse(r, "a job has no known kind of key");
    if (!record_ok(r) || kinds == 0)
        return NULL;
    struct job_keys *keys = jobs_alloc(jobs, JOBS_PUTS, sizeof(*keys));
    if (!keys) {
        record_refuse(r, "there is no memory for the key of a job");
        return NULL;
    }
    keys->at_ms = record_get_i64(r);
    keys->began_ms = record_get_i64(r);
    if (kinds & 1)
        keys->key = get_mark(jobs, false, r);
    if (kinds & 2) {
        keys->root = get_mark(jobs, true, r);
        keys->root_ms = record_get_i64(r);
    }
    if (record_ok(r) && keys->root_ms < 0)
        record_refuse(r, "a job's root has a negative time");
    return keys;
}
