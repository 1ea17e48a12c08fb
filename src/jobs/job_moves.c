/*
 * job_moves.c - the slots of jobs, jobs by id, and the one function that moves a job to another
 * state.
 */
#include "jobs/jobs_internal.h"

#include <stdlib.h>
#include <string.h>

/* What a job counts against the memory limit, besides its body: its slot, and its share of the
 * table of ids, which may be half empty and is there twice while it grows. */
#define JOB_COST (sizeof(struct job) + 12)

#define BUCKETS_FIRST 1024u

/* ---- jobs by id ------------------------------------------------------------------------------ */

static uint32_t bucket_of(uint64_t id, uint32_t mask)
{
    return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
}

static uint32_t find_in(const struct jobs *jobs, const uint32_t *table, uint32_t mask, uint64_t id)
{
    uint32_t at = table[bucket_of(id, mask)];
    while (at != JOB_NONE && job_at(jobs, at)->id != id)
        at = job_at(jobs, at)->next_by_hash;
    return at;
}

uint32_t job_find(const struct jobs *jobs, uint64_t id)
{
    if (id == 0)
        return JOB_NONE;
    uint32_t found = find_in(jobs, jobs->by_hash, jobs->hash_mask, id);
    if (found == JOB_NONE && jobs->old_by_hash)
        found = find_in(jobs, jobs->old_by_hash, jobs->old_mask, id);
    return found;
}

static uint32_t *new_buckets(uint32_t count)
{
    uint32_t *table = malloc(count * sizeof(*table));
    if (table)
        memset(table, 0xff, count * sizeof(*table)); /* JOB_NONE */
    return table;
}

/* Moves some buckets of the old table to the new one. */
static void move_some(struct jobs *jobs)
{
    for (unsigned n = 0; n < 4 && jobs->old_by_hash; n++) {
        uint32_t at = jobs->old_by_hash[jobs->moved];
        while (at != JOB_NONE) {
            struct job *job = job_at(jobs, at);
            uint32_t next = job->next_by_hash, *bucket;
            bucket = &jobs->by_hash[bucket_of(job->id, jobs->hash_mask)];
            job->next_by_hash = *bucket;
            *bucket = at;
            at = next;
        }
        jobs->old_by_hash[jobs->moved] = JOB_NONE;
        if (jobs->moved++ < jobs->old_mask)
            continue;
        free(jobs->old_by_hash);
        jobs->old_by_hash = NULL;
    }
}

/* Begins to grow the table. Without memory the chains get longer. */
static void grow(struct jobs *jobs)
{
    uint32_t *table = new_buckets((jobs->hash_mask + 1) * 2);
    if (!table)
        return;
    jobs->old_by_hash = jobs->by_hash;
    jobs->old_mask = jobs->hash_mask;
    jobs->moved = 0;
    jobs->by_hash = table;
    jobs->hash_mask = jobs->hash_mask * 2 + 1;
}

static void hash_add(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    if (jobs->old_by_hash)
        move_some(jobs);
    else if (jobs->job_count > jobs->hash_mask && jobs->hash_mask < UINT32_MAX / 4)
        grow(jobs);
    uint32_t *bucket = &jobs->by_hash[bucket_of(job->id, jobs->hash_mask)];
    job->next_by_hash = *bucket;
    *bucket = handle;
}

static bool unlink_from(struct jobs *jobs, uint32_t *table, uint32_t mask, uint32_t handle)
{
    uint32_t *link = &table[bucket_of(job_at(jobs, handle)->id, mask)];
    while (*link != JOB_NONE && *link != handle)
        link = &job_at(jobs, *link)->next_by_hash;
    if (*link == JOB_NONE)
        return false;
    *link = job_at(jobs, handle)->next_by_hash;
    return true;
}

static void hash_remove(struct jobs *jobs, uint32_t handle)
{
    bool found =
        unlink_from(jobs, jobs->by_hash, jobs->hash_mask, handle) ||
        (jobs->old_by_hash && unlink_from(jobs, jobs->old_by_hash, jobs->old_mask, handle));
    CHECK(found);
}

bool job_slots_init(struct jobs *jobs)
{
    jobs->free = JOB_NONE;
    jobs->hash_mask = BUCKETS_FIRST - 1;
    jobs->by_hash = new_buckets(BUCKETS_FIRST);
    return jobs->by_hash != NULL;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static bool add_page(struct jobs *jobs)
{
    if (jobs->page_count == jobs->page_room) {
        uint32_t room = jobs->page_room ? jobs->page_room * 2 : 64;
        struct job **pages = reallocarray(jobs->pages, room, sizeof(struct job *));
        if (!pages)
            return false;
        jobs->pages = pages;
        bool *has_bodies = reallocarray(jobs->has_bodies, room, sizeof(bool));
        if (!has_bodies)
            return false;
        jobs->has_bodies = has_bodies;
        jobs->page_room = room;
    }
    if (jobs->page_count == (JOB_NONE - 1) / JOB_PAGE)
        return false;
    struct job *page = calloc(JOB_PAGE, sizeof(*page));
    if (!page)
        return false;
    uint32_t first = jobs->page_count * JOB_PAGE;
    jobs->has_bodies[jobs->page_count] = false;
    jobs->pages[jobs->page_count++] = page;
    for (uint32_t n = JOB_PAGE; n-- > 0;) {
        page[n].by_id.left = jobs->free;
        jobs->free = first + n;
    }
    return true;
}

bool jobs_reserve_slots(struct jobs *jobs, uint32_t more)
{
    if (!jobs_charge_here(jobs, JOBS_PUTS, more * JOB_COST))
        return false;
    while (jobs->page_count * JOB_PAGE - jobs->job_count < more) {
        if (!add_page(jobs)) {
            jobs_uncharge(jobs, more * JOB_COST);
            return false;
        }
    }
    return true;
}

void jobs_unreserve_slots(struct jobs *jobs, uint32_t fewer)
{
    jobs_uncharge(jobs, fewer * JOB_COST);
}

uint32_t job_make(struct jobs *jobs, struct tube *tube, uint64_t id)
{
    uint32_t handle = jobs->free;
    CHECK(handle != JOB_NONE && id != 0);
    struct job *job = job_at(jobs, handle);
    jobs->free = job->by_id.left;
    *job = (struct job){.id = id, .tube = tube, .state = JOB_STATES};
    jobs->job_count++;
    return handle;
}

void job_publish(struct jobs *jobs, uint32_t handle)
{
    hash_add(jobs, handle);
}

void job_remove(struct jobs *jobs, uint32_t handle, struct moment now)
{
    const struct job *job = job_at(jobs, handle);
    job_move(jobs, handle, JOB_STATES, (struct job_place){.pri = job->pri});
    hash_remove(jobs, handle);
    job_unmake(jobs, handle, now);
}

void job_unmake(struct jobs *jobs, uint32_t handle, struct moment now)
{
    struct job *job = job_at(jobs, handle);
    job_keys_forget(jobs, job, now);
    job_body_leave(jobs, &job->body);
    *job = (struct job){.by_id.left = jobs->free};
    jobs->free = handle;
    jobs->job_count--;
    jobs_uncharge(jobs, JOB_COST);
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* The moves that there are: from the row to the column. */
static const bool moves[JOB_STATES + 1][JOB_STATES + 1] = {
    /*                    ready, delayed, reserved, buried, abandoned, gone */
    [JOB_READY] = {false, false, true, true, false, true},  /* buried: its body cannot be read */
    [JOB_DELAYED] = {true, false, true, true, false, true}, /* the same */
    [JOB_RESERVED] = {true, true, true, true, true, true},  /* another holder */
    [JOB_BURIED] = {true, false, true, false, false, true},
    [JOB_ABANDONED] = {true, false, true, true, false, true}, /* the store cannot delete it */
    [JOB_STATES] = {true, true, false, false, false, false},  /* new */
};

static struct job_tree *ids_of(const struct job *job)
{
    struct tube *tube = job->tube;
    if (likely(!job->locked && !job->doomed))
        return &tube->by_id[job->state];
    return job->locked ? &tube->locked_by_id[job->state] : &tube->doomed_by_id[job->state];
}

/* The set of a state in which the jobs are by turn. */
static inline struct job_tree *turns_of(struct jobs *jobs, const struct job *job)
{
    if (unlikely(job->locked || job->doomed))
        return job->locked ? &job->tube->locked_by_turn[job->state] : &jobs->doomed;
    switch (job->state) {
    case JOB_READY:
        return &job->tube->ready;
    case JOB_DELAYED:
        return &job->tube->delayed;
    case JOB_RESERVED:
        return &job->holder->reserved;
    case JOB_BURIED:
        return &job->tube->buried;
    default:
        return &job->tube->abandoned;
    }
}

static void link_reserved(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    struct jobs_client *client = job->holder;
    job->next_reserved = JOB_NONE;
    job->prev_reserved = client->last_reserved;
    if (client->last_reserved == JOB_NONE)
        client->first_reserved = handle;
    else
        job_at(jobs, client->last_reserved)->next_reserved = handle;
    client->last_reserved = handle;
}

static void unlink_reserved(struct jobs *jobs, const struct job *job)
{
    struct jobs_client *client = job->holder;
    if (job->prev_reserved == JOB_NONE)
        client->first_reserved = job->next_reserved;
    else
        job_at(jobs, job->prev_reserved)->next_reserved = job->next_reserved;
    if (job->next_reserved == JOB_NONE)
        client->last_reserved = job->prev_reserved;
    else
        job_at(jobs, job->next_reserved)->prev_reserved = job->prev_reserved;
}

/* Counts a job in its state, or no more (`by` is -1). */
static void count_job(struct jobs *jobs, const struct job *job, int by)
{
    jobs->states[job->state] += (uint64_t)(int64_t)by;
    if (job->state == JOB_READY && job->pri < 1024) {
        job->tube->urgent += (uint64_t)(int64_t)by;
        jobs->urgent += (uint64_t)(int64_t)by;
    }
    if (job->state == JOB_RESERVED && job->holder != jobs->leases)
        atomic_fetch_add_explicit(&jobs->held_now, (uint64_t)(int64_t)by, memory_order_relaxed);
}

/* Keeps what follows from the jobs of a state. */
static void note_state(struct jobs *jobs, const struct job *job)
{
    if (job->state == JOB_READY)
        tube_note_ready(jobs, job->tube);
    else if (job->state == JOB_DELAYED || job->state == JOB_ABANDONED)
        tube_set_due(jobs, job->tube);
    else if (job->state == JOB_RESERVED)
        client_set_due(jobs, job->holder);
}

void job_move(struct jobs *jobs, uint32_t handle, unsigned state, struct job_place to)
{
    struct job *job = job_at(jobs, handle);
    CHECK(moves[job->state][state] && !job->locked);
    /* A touched job keeps its place in the order of reserving. */
    bool stays = job->state == JOB_RESERVED && state == JOB_RESERVED && job->holder == to.holder;
    if (job->state != JOB_STATES) {
        if (job->keys && !job->doomed)
            job_keys_leave(jobs, handle);
        job_tree_remove(jobs, ids_of(job), handle);
        job_tree_remove(jobs, turns_of(jobs, job), handle);
        job->doomed = false;
        if (job->state == JOB_RESERVED && !stays)
            unlink_reserved(jobs, job);
        count_job(jobs, job, -1);
        note_state(jobs, job);
    }
    if (job->state != state) {
        job_set_entered(job, jobs->clears);
        if (job->state == JOB_RESERVED || job->state == JOB_STATES)
            job->came = jobs->clears;
    }
    job->state = state & 7;
    job->turn = to.turn;
    job->holder = to.holder;
    job->pri = to.pri;
    if (job->state != JOB_STATES) {
        job_tree_add(jobs, ids_of(job), handle);
        job_tree_add(jobs, turns_of(jobs, job), handle);
        if (job->keys)
            job_keys_enter(jobs, handle);
        if (job->state == JOB_RESERVED && !stays)
            link_reserved(jobs, handle);
        count_job(jobs, job, 1);
        note_state(jobs, job);
    }
}

/* Moves a job between the trees of its state. */
static void set_locked(struct jobs *jobs, uint32_t handle, bool locked, bool doomed)
{
    struct job *job = job_at(jobs, handle);
    CHECK(job->state != JOB_STATES);
    if (job->keys && !job->locked && !job->doomed)
        job_keys_leave(jobs, handle);
    job_tree_remove(jobs, ids_of(job), handle);
    job_tree_remove(jobs, turns_of(jobs, job), handle);
    job->locked = locked;
    job->doomed = doomed;
    job_tree_add(jobs, ids_of(job), handle);
    job_tree_add(jobs, turns_of(jobs, job), handle);
    if (job->keys && !locked && !doomed)
        job_keys_enter(jobs, handle);
    note_state(jobs, job);
}

void job_doom(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    CHECK(!job->locked && jobs->commit);
    if (job->doomed)
        return;
    set_locked(jobs, handle, false, true);
    if (jobs->doomed.count == 1)
        drops_set_due(jobs);
}

void job_lock(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    CHECK(!job->locked);
    set_locked(jobs, handle, true, false);
    if (job->keys && job->keys->key)
        job->keys->key->busy++;
    if (job->holder)
        job->holder->locked++;
}

void job_unlock(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    CHECK(job->locked);
    if (job->keys && job->keys->key)
        job->keys->key->busy--;
    struct jobs_client *holder = job->holder;
    if (holder && --holder->locked == 0 && holder->ended && holder->under_way == 0) {
        ring_remove(&holder->all);
        ring_add(&jobs->ending, &holder->all);
    }
    set_locked(jobs, handle, false, false);
}
