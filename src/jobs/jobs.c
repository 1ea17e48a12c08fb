/*
 * jobs.c - life and memory of the jobs; jobs by id, tubes by name; and the one function that moves
 * a job to another state.
 *
 * Memory: jobs->memory counts all bytes that clients make the jobs keep. What a need may use:
 *
 *     JOBS_PUTS   14/16 of the limit
 *     JOBS_TUBES  15/16, so that clients can watch tubes that are full of jobs
 *     JOBS_REST   63/64. Clients that do not read may use that up, and new ones are refused then
 *     JOBS_ENDS   all of it
 *
 * What ends a job is never refused for the limit:
 *
 *     - without a store it needs no memory
 *     - with one, a client has the room for one such operation since it was made (job_commits.c);
 *       those that it sends behind that one wait while there is no room for more
 *     - a step of a kick or clear changes as many jobs as there is room for, at least one, which
 *       has its place in the operation
 *     - the jobs' own operations, and those over HTTP, have the last 1/64. What finds no room there
 *       is tried again
 *
 * So the room is there whatever was put; no job counts more for it.
 *
 * What a start loads, an upgrade restores or a reload leaves may be more than that. Then puts are
 * refused, and the room for others is on top (memory_over), and comes down with what ends.
 *
 * A charge that is refused is never counted meanwhile: it would make others fail.
 */
#include "jobs/jobs_inside.h"

#include <stdlib.h>
#include <string.h>

/* What a job counts against the memory limit, besides its body: its slot, and its share of the
 * table of ids, which may be half empty and is there twice while it grows. */
#define JOB_COST (sizeof(struct job) + 12)

#define BUCKETS_FIRST 1024u
#define TUBES_FIRST   64u

const struct job_settings job_default_settings = {.remember_s = 3600};

const char *job_state_word(enum job_state state)
{
    static const char *const words[JOB_STATES] = {"ready", "delayed", "reserved", "buried",
                                                  "abandoned"};
    CHECK(state < JOB_STATES);
    return words[state];
}

/* ---- lock and memory --------------------------------------------------------------------------
 */

void jobs_enter(struct jobs *jobs)
{
    lock_acquire(&jobs->lock);
}

void jobs_note_visits(struct jobs *jobs)
{
    if (jobs->visits - jobs->visits_noted > jobs->visits_most)
        jobs->visits_most = jobs->visits - jobs->visits_noted;
    jobs->visits_noted = jobs->visits;
}

void jobs_leave(struct jobs *jobs)
{
    int64_t next_ns = deadlines_next(&jobs->due);
    if (next_ns != atomic_load_explicit(&jobs->next_ns, memory_order_relaxed))
        atomic_store_explicit(&jobs->next_ns, next_ns, memory_order_relaxed);
    jobs_note_visits(jobs);
    bool rings = jobs->commit && job_ops_ring(jobs->commit);
    lock_release(&jobs->lock);
    if (rings)
        job_ops_wake(jobs->commit);
}

const char *jobs_need_word(enum jobs_need need)
{
    static const char *const words[JOBS_NEEDS] = {"puts", "tubes", "rest", "ends"};
    CHECK(need < JOBS_NEEDS);
    return words[need];
}

static uint64_t most_puts(uint64_t limit)
{
    return limit - limit / 16 * 2;
}

/* The most that may be there with what a need adds. */
static __attribute__((noinline)) uint64_t most_for(const struct jobs *jobs, enum jobs_need need)
{
    uint64_t limit = atomic_load_explicit(&jobs->memory_limit, memory_order_relaxed);
    uint64_t over = atomic_load_explicit(&jobs->memory_over, memory_order_relaxed);
    uint64_t puts = most_puts(limit), sixteenth = limit / 16;
    if (need == JOBS_PUTS)
        return puts;
    uint64_t others = (over > puts ? over : puts) + sixteenth;
    if (need == JOBS_REST)
        others += sixteenth - sixteenth / 4;
    return need == JOBS_ENDS ? others + sixteenth : others;
}

static bool has_room(const struct jobs *jobs, enum jobs_need need, size_t bytes)
{
    uint64_t most = most_for(jobs, need);
    uint64_t used = atomic_load_explicit(&jobs->memory, memory_order_relaxed);
    return used <= most && bytes <= most - used;
}

/* Counts memory, if that is not more than `most`. */
static inline bool charge_up_to(struct jobs *jobs, uint64_t most, size_t bytes)
{
    uint64_t used = atomic_load_explicit(&jobs->memory, memory_order_relaxed);
    do {
        if (unlikely(used > most || bytes > most - used))
            return false;
    } while (unlikely(!atomic_compare_exchange_weak_explicit(
        &jobs->memory, &used, used + bytes, memory_order_relaxed, memory_order_relaxed)));
    return true;
}

/* The usual case: what puts may use, all may. */
static inline bool charge_soon(struct jobs *jobs, size_t bytes)
{
    return likely(charge_up_to(
        jobs, atomic_load_explicit(&jobs->memory_for_puts, memory_order_relaxed), bytes));
}

static bool refuse(struct jobs *jobs, enum jobs_need need)
{
    atomic_fetch_add_explicit(&jobs->refused[need], 1, memory_order_relaxed);
    return false;
}

/* There is less now than was there when the limit was lower. */
static void come_down(struct jobs *jobs, uint64_t used)
{
    uint64_t limit = atomic_load_explicit(&jobs->memory_limit, memory_order_relaxed);
    uint64_t over = atomic_load_explicit(&jobs->memory_over, memory_order_relaxed);
    uint64_t to = used > most_puts(limit) ? used : 0;
    while (to < over &&
           !atomic_compare_exchange_weak_explicit(&jobs->memory_over, &over, to,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

void jobs_uncharge(struct jobs *jobs, size_t bytes)
{
    uint64_t was = atomic_fetch_sub_explicit(&jobs->memory, bytes, memory_order_relaxed);
    if (unlikely(atomic_load_explicit(&jobs->memory_over, memory_order_relaxed) > 0))
        come_down(jobs, was - bytes);
}

static uint64_t set_limit(struct jobs *jobs, uint64_t limit)
{
    atomic_store(&jobs->memory_for_puts, most_puts(limit));
    return atomic_exchange(&jobs->memory_limit, limit);
}

void jobs_set_memory_limit(struct jobs *jobs, uint64_t limit)
{
    uint64_t was = set_limit(jobs, limit);
    uint64_t used = atomic_load(&jobs->memory);
    if (limit < was)
        atomic_store(&jobs->memory_over, used > most_puts(limit) ? used : 0);
    else
        come_down(jobs, used);
}

void jobs_begin_load(struct jobs *jobs)
{
    jobs->limit_then = set_limit(jobs, UINT64_MAX);
}

void jobs_end_load(struct jobs *jobs)
{
    if (jobs->limit_then > 0)
        jobs_set_memory_limit(jobs, jobs->limit_then);
    jobs->limit_then = 0;
}

void jobs_release_memory(struct jobs *jobs, void *memory, size_t size)
{
    if (!memory)
        return;
    free(memory);
    jobs_uncharge(jobs, size);
}

/* So many pages, and so many flags of pages, are looked at with the lock. */
#define EVICT_PAGES 2u
#define EVICT_LOOKS 1024u

static void set_has_bodies(struct jobs *jobs, uint32_t page, bool has)
{
    if (jobs->has_bodies[page] == has)
        return;
    jobs->has_bodies[page] = has;
    atomic_fetch_add_explicit(&jobs->pages_of_bodies, has ? 1 : UINT32_MAX, memory_order_relaxed);
}

void jobs_note_body(struct jobs *jobs, uint32_t handle)
{
    set_has_bodies(jobs, handle / JOB_PAGE, true);
}

static bool has_bodies(const struct jobs *jobs)
{
    return jobs->commit && atomic_load_explicit(&jobs->pages_of_bodies, memory_order_relaxed) > 0;
}

/* Gives the bodies of a page up, until `bytes` more fit. Returns true when they do. */
static bool evict_page(struct jobs *jobs, uint32_t page, enum jobs_need need, size_t bytes)
{
    bool stays = false; /* a body of a job under change */
    for (uint32_t n = 0; n < JOB_PAGE; n++) {
        struct job *job = &jobs->pages[page][n];
        if (!job->body)
            continue;
        if (has_room(jobs, need, bytes))
            return true;
        if (job->state == JOB_STATES || job->frozen)
            stays = true;
        else
            job_body_leave(jobs, &job->body);
    }
    set_has_bodies(jobs, page, stays);
    return has_room(jobs, need, bytes);
}

/*
 * Gives bodies up that the store has, of the next few pages, until `bytes` more fit. Returns true
 * when they fit. A page that has been through has no bodies until new jobs come. Counts in
 * *passed what it has been through.
 */
static bool evict(struct jobs *jobs, enum jobs_need need, size_t bytes, uint32_t *passed)
{
    bool fits = has_room(jobs, need, bytes);
    unsigned pages = 0;
    for (unsigned n = 0; n < EVICT_LOOKS && pages < EVICT_PAGES && *passed < jobs->page_count &&
                         !fits && has_bodies(jobs);
         n++) {
        jobs->evict_next %= jobs->page_count;
        if (jobs->has_bodies[jobs->evict_next]) {
            fits = evict_page(jobs, jobs->evict_next, need, bytes);
            pages++;
        }
        jobs->evict_next += !fits;
        *passed += !fits;
    }
    return fits;
}

static __attribute__((noinline)) bool charge_here(struct jobs *jobs, enum jobs_need need,
                                                  size_t bytes)
{
    uint32_t passed = 0;
    if (charge_up_to(jobs, most_for(jobs, need), bytes))
        return true;
    return has_bodies(jobs) && evict(jobs, need, bytes, &passed) &&
           charge_up_to(jobs, most_for(jobs, need), bytes);
}

bool jobs_charge_here(struct jobs *jobs, enum jobs_need need, size_t bytes)
{
    return charge_soon(jobs, bytes) || charge_here(jobs, need, bytes) || refuse(jobs, need);
}

void *jobs_try_alloc(struct jobs *jobs, enum jobs_need need, size_t size)
{
    if (!charge_soon(jobs, size) && !charge_here(jobs, need, size))
        return NULL;
    void *memory = calloc(1, size);
    if (unlikely(!memory))
        jobs_uncharge(jobs, size);
    return memory;
}

void *jobs_alloc(struct jobs *jobs, enum jobs_need need, size_t size)
{
    void *memory = jobs_try_alloc(jobs, need, size);
    if (unlikely(!memory))
        (void)refuse(jobs, need);
    return memory;
}

/* Without the lock, it looks at all pages once, and lets others in between. */
static __attribute__((noinline)) bool charge_anywhere(struct jobs *jobs, enum jobs_need need,
                                                      size_t bytes)
{
    bool charged = charge_up_to(jobs, most_for(jobs, need), bytes);
    bool goes_on = !charged && has_bodies(jobs);
    for (uint32_t passed = 0; goes_on;) {
        jobs_enter(jobs);
        bool fits = evict(jobs, need, bytes, &passed);
        charged = fits && charge_up_to(jobs, most_for(jobs, need), bytes);
        goes_on = !fits && passed < jobs->page_count && has_bodies(jobs);
        jobs_leave(jobs);
    }
    return charged || refuse(jobs, need);
}

bool jobs_charge(struct jobs *jobs, enum jobs_need need, size_t bytes)
{
    return charge_soon(jobs, bytes) || charge_anywhere(jobs, need, bytes);
}

uint64_t jobs_random(struct jobs *jobs)
{
    uint64_t number = jobs->random++;
    return hash_bytes(&jobs->hash_key, &number, sizeof(number));
}

/* ---- bodies ------------------------------------------------------------------------------------
 */

static size_t body_size(uint32_t len)
{
    return sizeof(struct job_body) + len;
}

/* Makes a body that is counted already. */
static struct job_body *make_body(struct jobs *jobs, uint32_t len)
{
    struct job_body *body = malloc(body_size(len));
    if (!body) {
        jobs_uncharge(jobs, body_size(len));
        return NULL;
    }
    atomic_init(&body->refs, JOB_BODY_KEPT + 1);
    body->len = len;
    return body;
}

struct job_body *job_body_new(struct jobs *jobs, enum jobs_need need, uint32_t len)
{
    return jobs_charge(jobs, need, body_size(len)) ? make_body(jobs, len) : NULL;
}

bool job_body_resize(struct jobs *jobs, enum jobs_need need, struct job_body **body, uint32_t len)
{
    uint32_t was = (*body)->len;
    CHECK(atomic_load(&(*body)->refs) == JOB_BODY_KEPT + 1);
    if (len > was && !jobs_charge(jobs, need, len - was))
        return false;
    struct job_body *new = realloc(*body, body_size(len));
    if (!new) {
        if (len > was)
            jobs_uncharge(jobs, len - was);
        return false;
    }
    if (len < was)
        jobs_uncharge(jobs, was - len);
    new->len = len;
    *body = new;
    return true;
}

struct job_body *job_body_share(struct job_body *body)
{
    atomic_fetch_add_explicit(&body->refs, 1, memory_order_relaxed);
    return body;
}

void job_body_drop(struct jobs *jobs, struct job_body **body)
{
    struct job_body *b = *body;
    *body = NULL;
    if (!b)
        return;
    uint32_t refs = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    if (refs == JOB_BODY_KEPT + 1)
        jobs_uncharge(jobs, body_size(b->len));
    if ((refs & ~JOB_BODY_KEPT) == 1)
        free(b);
}

void job_body_leave(struct jobs *jobs, struct job_body **body)
{
    struct job_body *b = *body;
    *body = NULL;
    if (!b)
        return;
    jobs_uncharge(jobs, body_size(b->len));
    if (atomic_fetch_sub_explicit(&b->refs, JOB_BODY_KEPT + 1, memory_order_acq_rel) ==
        JOB_BODY_KEPT + 1)
        free(b);
}

const uint8_t *job_body_to_output(struct jobs *jobs, struct job_body **body)
{
    struct job_body *b = *body;
    uint32_t kept = JOB_BODY_KEPT + 1;
    *body = NULL;
    /* The answer is its keeper, if it was read for it. */
    if (atomic_compare_exchange_strong(&b->refs, &kept, 1))
        jobs_uncharge(jobs, body_size(b->len));
    return b->bytes;
}

void job_body_written(const void *bytes)
{
    struct job_body *b = container_of(unconst(bytes), struct job_body, bytes);
    uint32_t refs = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    CHECK(refs != JOB_BODY_KEPT + 1);
    if (refs == 1)
        free(b);
}

/* ---- jobs by id --------------------------------------------------------------------------------
 */

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

/* ---- slots -------------------------------------------------------------------------------------
 */

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

/* ---- moves --------------------------------------------------------------------------------------
 */

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
    if (likely(!job->frozen && !job->doomed))
        return &tube->by_id[job->state];
    return job->frozen ? &tube->frozen_by_id[job->state] : &tube->doomed_by_id[job->state];
}

/* The set of a state in which the jobs are by turn. */
static inline struct job_tree *turns_of(struct jobs *jobs, const struct job *job)
{
    if (unlikely(job->frozen || job->doomed))
        return job->frozen ? &job->tube->frozen_by_turn[job->state] : &jobs->doomed;
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
    CHECK(moves[job->state][state] && !job->frozen);
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
static void set_frozen(struct jobs *jobs, uint32_t handle, bool frozen, bool doomed)
{
    struct job *job = job_at(jobs, handle);
    CHECK(job->state != JOB_STATES);
    if (job->keys && !job->frozen && !job->doomed)
        job_keys_leave(jobs, handle);
    job_tree_remove(jobs, ids_of(job), handle);
    job_tree_remove(jobs, turns_of(jobs, job), handle);
    job->frozen = frozen;
    job->doomed = doomed;
    job_tree_add(jobs, ids_of(job), handle);
    job_tree_add(jobs, turns_of(jobs, job), handle);
    if (job->keys && !frozen && !doomed)
        job_keys_enter(jobs, handle);
    note_state(jobs, job);
}

void job_doom(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    CHECK(!job->frozen && jobs->commit);
    if (job->doomed)
        return;
    set_frozen(jobs, handle, false, true);
    if (jobs->doomed.count == 1)
        drops_set_due(jobs);
}

void job_freeze(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    CHECK(!job->frozen);
    set_frozen(jobs, handle, true, false);
    if (job->keys && job->keys->key)
        job->keys->key->busy++;
    if (job->holder)
        job->holder->frozen++;
}

void job_thaw(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    CHECK(job->frozen);
    if (job->keys && job->keys->key)
        job->keys->key->busy--;
    struct jobs_client *holder = job->holder;
    if (holder && --holder->frozen == 0 && holder->ended && holder->under_way == 0) {
        ring_remove(&holder->all);
        ring_add(&jobs->ending, &holder->all);
    }
    set_frozen(jobs, handle, false, false);
}

/* ---- tubes --------------------------------------------------------------------------------------
 */

static struct tube *tube_of_name(const struct tree_node *node)
{
    return container_of(unconst(node), struct tube, by_name);
}

static int compare_numbers(const struct tree_node *a, const struct tree_node *b)
{
    return tube_of_number(a)->number < tube_of_number(b)->number ? -1 : 1;
}

static int compare_names(const struct tree_node *a, const struct tree_node *b)
{
    return bytes_compare(tube_name(tube_of_name(a)), tube_name(tube_of_name(b)));
}

static int compare_number(const struct tree_node *node, const void *key)
{
    uint64_t number = *(const uint64_t *)key, its = tube_of_number(node)->number;
    return its < number ? -1 : its > number;
}

struct tube *tube_from(const struct jobs *jobs, uint64_t number)
{
    struct tree_node *node = tree_from(&jobs->tubes, &number, compare_number);
    return node ? tube_of_number(node) : NULL;
}

static struct tube **tube_bucket(const struct jobs *jobs, struct tube **table, size_t mask,
                                 struct bytes name)
{
    return &table[hash_bytes(&jobs->hash_key, name.data, name.len) & mask];
}

/* The pointer to a tube in its chain, or to the end of a chain. */
static struct tube **tube_link(const struct jobs *jobs, struct bytes name)
{
    struct tube **link = tube_bucket(jobs, jobs->tubes_by_hash, jobs->tube_mask, name);
    while (*link && !bytes_equal(tube_name(*link), name))
        link = &(*link)->next_by_hash;
    if (*link || !jobs->old_tubes)
        return link;
    link = tube_bucket(jobs, jobs->old_tubes, jobs->old_tube_mask, name);
    while (*link && !bytes_equal(tube_name(*link), name))
        link = &(*link)->next_by_hash;
    return link;
}

struct tube *tube_find(const struct jobs *jobs, struct bytes name)
{
    return *tube_link(jobs, name);
}

uint64_t tube_turn(struct bytes name)
{
    return hash_bytes(&(struct hash_key){0}, name.data, name.len);
}

/* Moves some buckets of the old table to the new one. */
static void move_tubes(struct jobs *jobs)
{
    for (unsigned n = 0; n < 4 && jobs->old_tubes; n++) {
        struct tube *tube;
        while ((tube = jobs->old_tubes[jobs->tubes_moved])) {
            struct tube **bucket =
                tube_bucket(jobs, jobs->tubes_by_hash, jobs->tube_mask, tube_name(tube));
            jobs->old_tubes[jobs->tubes_moved] = tube->next_by_hash;
            tube->next_by_hash = *bucket;
            *bucket = tube;
        }
        if (jobs->tubes_moved++ < jobs->old_tube_mask)
            continue;
        free(jobs->old_tubes);
        jobs->old_tubes = NULL;
    }
}

/* Begins to double the table of tubes. Without memory the chains get longer. */
static void grow_tubes(struct jobs *jobs)
{
    size_t mask = jobs->tube_mask * 2 + 1;
    struct tube **table = calloc(mask + 1, sizeof(struct tube *));
    if (!table)
        return;
    jobs->old_tubes = jobs->tubes_by_hash;
    jobs->old_tube_mask = jobs->tube_mask;
    jobs->tubes_moved = 0;
    jobs->tubes_by_hash = table;
    jobs->tube_mask = mask;
}

struct tube *tube_get(struct jobs *jobs, struct bytes name)
{
    struct tube **link = tube_link(jobs, name);
    CHECK(name.len > 0 && name.len <= JOBS_TUBE_MAX);
    if (*link)
        return *link;
    struct tube *tube = jobs_alloc(jobs, JOBS_TUBES, sizeof(*tube));
    struct job_body *text = NULL;
    if (tube && jobs_charge_here(jobs, JOBS_TUBES, body_size((uint32_t)name.len)))
        text = make_body(jobs, (uint32_t)name.len);
    if (!text || !deadlines_reserve(&jobs->due, 1)) {
        job_body_drop(jobs, &text);
        jobs_release_memory(jobs, tube, sizeof(*tube));
        return NULL;
    }
    tube->number = ++jobs->tube_numbers;
    tube->turn = tube_turn(name);
    tube->due.kind = DUE_TUBE;
    tube->name = text;
    memcpy(text->bytes, name.data, name.len);
    for (unsigned n = 0; n < JOB_STATES; n++)
        job_tree_init(&tube->by_id[n], JOB_BY_ID);
    for (unsigned n = 0; n < JOB_STATES; n++) {
        job_tree_init(&tube->frozen_by_id[n], JOB_BY_ID);
        job_tree_init(&tube->frozen_by_turn[n], JOB_BY_TURN);
        job_tree_init(&tube->doomed_by_id[n], JOB_BY_ID);
    }
    job_tree_init(&tube->ready, JOB_BY_TURN);
    job_tree_init(&tube->delayed, JOB_BY_TURN);
    job_tree_init(&tube->buried, JOB_BY_TURN);
    job_tree_init(&tube->abandoned, JOB_BY_TURN);
    ring_init(&tube->line);
    watches_init_tube(tube);
    if (jobs->old_tubes)
        move_tubes(jobs);
    else if (jobs->tube_count > jobs->tube_mask)
        grow_tubes(jobs);
    link = tube_bucket(jobs, jobs->tubes_by_hash, jobs->tube_mask, name);
    tube->next_by_hash = *link;
    *link = tube;
    tree_add(&jobs->tubes, &tube->by_number);
    jobs->tube_count++;
    return tube;
}

uint64_t tube_jobs(const struct tube *tube)
{
    uint64_t count = 0;
    for (unsigned n = 0; n < JOB_STATES; n++)
        count += tube_count(tube, n);
    return count;
}

void tube_drop_if_unused(struct jobs *jobs, struct tube *tube)
{
    if (tube->using > 0 || tube->watching > 0 || tube->waiting > 0 || tube->settings.given ||
        tube->under_way > 0 || tube_jobs(tube) > 0)
        return;
    if (tube->kept)
        tube_forget_row(jobs, tube);
    struct tube **link = tube_link(jobs, tube_name(tube));
    CHECK(*link == tube && ring_is_empty(&tube->line));
    *link = tube->next_by_hash;
    tree_remove(&jobs->tubes, &tube->by_number);
    if (tree_has(&tube->by_name))
        tree_remove(&jobs->ready_tubes, &tube->by_name);
    deadline_clear(&jobs->due, &tube->due);
    deadlines_unreserve(&jobs->due, 1);
    jobs->tube_count--;
    job_body_leave(jobs, &tube->name);
    jobs_release_memory(jobs, tube, sizeof(*tube));
}

#define SETTING(jobs, tube, NUMBER, field)                                                         \
    ((tube)->settings.given & 1u << (NUMBER) ? (tube)->settings.field : (jobs)->defaults.field)

enum job_order tube_order(const struct jobs *jobs, const struct tube *tube)
{
    return SETTING(jobs, tube, JOB_SETTING_ORDER, order);
}

enum job_claim tube_claim(const struct jobs *jobs, const struct tube *tube)
{
    return SETTING(jobs, tube, JOB_SETTING_CLAIM, claim);
}

uint32_t tube_tries(const struct jobs *jobs, const struct tube *tube)
{
    return SETTING(jobs, tube, JOB_SETTING_TRIES, tries);
}

uint32_t job_tries(const struct jobs *jobs, const struct job *job)
{
    return job->tries_max == JOB_TRIES_OF_TUBE ? tube_tries(jobs, job->tube) : job->tries_max;
}

uint32_t tube_limit(const struct jobs *jobs, const struct tube *tube)
{
    return SETTING(jobs, tube, JOB_SETTING_LIMIT, limit);
}

uint32_t tube_prune_s(const struct jobs *jobs, const struct tube *tube)
{
    return SETTING(jobs, tube, JOB_SETTING_PRUNE, prune_s);
}

uint32_t tube_remember_s(const struct jobs *jobs, const struct tube *tube)
{
    return SETTING(jobs, tube, JOB_SETTING_REMEMBER, remember_s);
}

uint32_t tube_next(struct jobs *jobs, const struct tube *tube)
{
    const struct job_tree *by_id = &tube->by_id[JOB_READY];
    if (by_id->first == JOB_NONE || tube_order(jobs, tube) == JOB_ORDER_PRIORITY)
        return tube->ready.first;
    if (tube_order(jobs, tube) == JOB_ORDER_FIFO)
        return by_id->first;
    uint64_t first = job_at(jobs, by_id->first)->id;
    uint64_t span = atomic_load_explicit(&jobs->next_id, memory_order_relaxed) - first;
    uint32_t found = job_tree_from(jobs, by_id, first + jobs_random(jobs) % (span > 0 ? span : 1));
    return found != JOB_NONE ? found : by_id->first;
}

uint32_t tube_first_buried(const struct jobs *jobs, const struct tube *tube, uint64_t turn)
{
    uint32_t buried = tube->buried.first, abandoned = tube->abandoned.first;
    if (unlikely(turn > 0)) {
        buried = job_tree_from_place(jobs, &tube->buried, turn, 0);
        abandoned = job_tree_from_place(jobs, &tube->abandoned, turn, 0);
    }
    if (buried == JOB_NONE || abandoned == JOB_NONE)
        return buried == JOB_NONE ? abandoned : buried;
    return job_at(jobs, buried)->turn < job_at(jobs, abandoned)->turn ? buried : abandoned;
}

uint32_t tube_from_id(const struct jobs *jobs, const struct tube *tube, unsigned state, uint64_t id)
{
    uint32_t first = job_tree_from(jobs, &tube->by_id[state], id);
    uint32_t doomed = job_tree_from(jobs, &tube->doomed_by_id[state], id);
    if (first == JOB_NONE || doomed == JOB_NONE)
        return first == JOB_NONE ? doomed : first;
    return job_at(jobs, first)->id < job_at(jobs, doomed)->id ? first : doomed;
}

const char *tube_read_only(const struct jobs *jobs, const struct tube *tube)
{
    return SETTING(jobs, tube, JOB_SETTING_READ_ONLY, read_only);
}

bool tube_is_closed(const struct jobs *jobs, const struct tube *tube)
{
    return tube->paused_until_ns != 0 || *tube_read_only(jobs, tube);
}

void tube_set_due(struct jobs *jobs, struct tube *tube)
{
    int64_t at_ns = tube->paused_until_ns ? tube->paused_until_ns : INT64_MAX;
    if (tube->serve_on)
        at_ns = jobs->hold_until_ns;
    if (tube->searching)
        at_ns = 0;
    if (tube->delayed.first != JOB_NONE) {
        int64_t first_ns = (int64_t)job_at(jobs, tube->delayed.first)->turn;
        at_ns = first_ns < at_ns ? first_ns : at_ns;
    }
    if (tube->abandoned.first != JOB_NONE && tube_prune_s(jobs, tube) > 0) {
        int64_t first_ns = (int64_t)job_at(jobs, tube->abandoned.first)->turn - BURIAL_BASE +
                           (int64_t)tube_prune_s(jobs, tube) * NS_PER_S;
        at_ns = first_ns < at_ns ? first_ns : at_ns;
    }
    if (at_ns == INT64_MAX)
        deadline_clear(&jobs->due, &tube->due);
    else if (at_ns != deadline_at(&jobs->due, &tube->due))
        deadline_set(&jobs->due, &tube->due, at_ns);
}

void client_set_due(struct jobs *jobs, struct jobs_client *client)
{
    int64_t at_ns = INT64_MAX;
    if (client->reserved.first != JOB_NONE) {
        const struct job *first = job_at(jobs, client->reserved.first);
        at_ns = (int64_t)first->turn;
        if (first->last_try && at_ns < jobs->hold_until_ns)
            at_ns = jobs->hold_until_ns; /* the store could not end it */
    }
    if (client->lines_up && at_ns > jobs->hold_until_ns)
        at_ns = jobs->hold_until_ns;
    if (client->ends_on)
        at_ns = client->ends_ns;
    if (at_ns == INT64_MAX)
        deadline_clear(&jobs->due, &client->due);
    else if (at_ns != deadline_at(&jobs->due, &client->due))
        deadline_set(&jobs->due, &client->due, at_ns);
}

void tube_note_ready(struct jobs *jobs, struct tube *tube)
{
    bool is = tube->ready.count > 0 && !tube_is_closed(jobs, tube);
    if (unlikely(!ring_is_empty(&tube->looked)))
        watches_note_turn(jobs, tube);
    if (is == tree_has(&tube->by_name))
        return;
    tube->became_ready = is;
    if (is)
        tree_add(&jobs->ready_tubes, &tube->by_name);
    else
        tree_remove(&jobs->ready_tubes, &tube->by_name);
}

/* ---- life ---------------------------------------------------------------------------------------
 */

struct jobs *jobs_new(const struct jobs_config *config)
{
    struct jobs *jobs = calloc(1, sizeof(*jobs));
    if (!jobs)
        return NULL;
    lock_init(&jobs->lock, LOCK_RANK_JOBS);
    jobs->hash_key = config->hash_key;
    jobs->defaults = config->defaults;
    jobs->random = config->seed;
    jobs->wall_ms = config->wall_ms;
    jobs->many_watches = config->many_watches > 0 ? config->many_watches : JOBS_MANY_WATCHES;
    marks_init(jobs);
    atomic_init(&jobs->next_id, config->first_id ? config->first_id : 1);
    (void)set_limit(jobs, config->memory_limit);
    atomic_init(&jobs->next_ns, INT64_MAX);
    jobs->free = JOB_NONE;
    jobs->hash_mask = BUCKETS_FIRST - 1;
    jobs->tube_mask = TUBES_FIRST - 1;
    jobs->by_hash = new_buckets(BUCKETS_FIRST);
    jobs->tubes_by_hash = calloc(TUBES_FIRST, sizeof(struct tube *));
    tree_init(&jobs->tubes, compare_numbers, (uint32_t)config->seed);
    tree_init(&jobs->ready_tubes, compare_names, (uint32_t)(config->seed >> 32));
    asks_init(jobs, (uint32_t)config->seed + 1);
    watches_init(jobs, (uint32_t)config->seed + 3);
    deadlines_init(&jobs->due);
    job_tree_init(&jobs->doomed, JOB_DOOMED);
    jobs->drops.kind = DUE_DROPS;
    ring_init(&jobs->clients);
    ring_init(&jobs->ending);
    ring_init(&jobs->clearing);
    if (jobs->by_hash && jobs->tubes_by_hash && jobs->marks && deadlines_reserve(&jobs->due, 1)) {
        struct tube *tube = tube_get(jobs, bytes_of("default"));
        if (tube)
            tube->using ++; /* it always exists */
        jobs->leases = tube ? client_make(jobs, 0, NULL) : NULL;
    }
    if (!jobs->leases)
        jobs_free(&jobs);
    return jobs;
}

void jobs_free(struct jobs **jobs_at)
{
    struct jobs *jobs = *jobs_at;
    *jobs_at = NULL;
    if (!jobs)
        return;
    clients_free(jobs);
    while (deadlines_take_due(&jobs->due, INT64_MAX))
        continue;
    jobs_commit_free(jobs);
    for (struct tree_node *at = tree_first(&jobs->tubes), *next; at; at = next) {
        next = tree_next(at);
        struct tube *tube = tube_of_number(at);
        tree_remove(&jobs->tubes, at);
        deadline_clear(&jobs->due, &tube->due);
        job_body_leave(jobs, &tube->name);
        free(tube);
    }
    for (uint32_t n = 0; n < jobs->page_count; n++) {
        for (uint32_t i = 0; i < JOB_PAGE; i++) {
            job_body_leave(jobs, &jobs->pages[n][i].body);
            free(jobs->pages[n][i].keys);
        }
        free(jobs->pages[n]);
    }
    if (jobs->leases) {
        deadline_clear(&jobs->due, &jobs->leases->due);
        client_free(jobs->leases);
    }
    free(jobs->pages);
    free(jobs->has_bodies);
    free(jobs->by_hash);
    free(jobs->old_by_hash);
    free(jobs->tubes_by_hash);
    free(jobs->old_tubes);
    marks_free(jobs);
    deadlines_free(&jobs->due);
    lock_destroy(&jobs->lock);
    free(jobs);
}

uint64_t jobs_take_id(struct jobs *jobs)
{
    return jobs_take_ids(jobs, 1);
}

uint64_t jobs_take_ids(struct jobs *jobs, uint32_t count)
{
    return atomic_fetch_add_explicit(&jobs->next_id, count, memory_order_relaxed);
}

int64_t jobs_next_ns(const struct jobs *jobs)
{
    return atomic_load_explicit(&jobs->next_ns, memory_order_relaxed);
}

uint64_t jobs_held(const struct jobs *jobs)
{
    return atomic_load_explicit(&jobs->held_now, memory_order_relaxed);
}
