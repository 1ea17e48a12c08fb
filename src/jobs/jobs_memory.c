/*
 * jobs_memory.c - the memory that clients make the jobs keep, and the bodies of jobs.
 *
 * jobs->memory counts all bytes that clients make the jobs keep. What a need may use:
 *
 *     JOBS_PUTS   14/16 of the limit
 *     JOBS_TUBES  15/16, so that clients can watch tubes that are full of jobs
 *     JOBS_REST   63/64. Clients that do not read may use that up, and new ones are refused then
 *     JOBS_ENDS   all of it
 *
 * What ends a job is never refused for the limit:
 *
 *     - without a store it needs no memory
 *     - with one, a client has the room for one such change since it was made (job_commits.c);
 *       those that it sends behind that one wait while there is no room for more
 *     - a step of a kick or clear changes as many jobs as there is room for, at least one, which
 *       has its place in the change
 *     - the jobs' own changes, and those over HTTP, have the last 1/64. What finds no room there
 *       is tried again
 *
 * So the room is there whatever was put; no job counts more for it.
 *
 * What a start loads, an upgrade restores or a reload leaves may be more than that. Then puts are
 * refused, and the room for others is on top (memory_over), and comes down with what ends.
 *
 * A charge that is refused is never counted meanwhile: it would make others fail.
 */
#include "jobs/jobs_internal.h"

#include <stdlib.h>

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

void jobs_memory_init(struct jobs *jobs, uint64_t limit)
{
    (void)set_limit(jobs, limit);
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
        if (job->state == JOB_STATES || job->locked)
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

/* ---- bodies ---------------------------------------------------------------------------------- */

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

struct job_body *job_body_new_here(struct jobs *jobs, enum jobs_need need, uint32_t len)
{
    return jobs_charge_here(jobs, need, body_size(len)) ? make_body(jobs, len) : NULL;
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
