/* jobs_life.c - life and lock of the jobs. */
#include "jobs/jobs_internal.h"

#include <stdlib.h>

const char *job_state_word(enum job_state state)
{
    static const char *const words[JOB_STATES] = {"ready", "delayed", "reserved", "buried",
                                                  "abandoned"};
    CHECK(state < JOB_STATES);
    return words[state];
}

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

uint64_t jobs_random(struct jobs *jobs)
{
    uint64_t number = jobs->random++;
    return hash_bytes(&jobs->hash_key, &number, sizeof(number));
}

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
    jobs_memory_init(jobs, config->memory_limit);
    atomic_init(&jobs->next_ns, INT64_MAX);
    bool has_tables = job_slots_init(jobs) && tubes_init(jobs, config->seed);
    asks_init(jobs, (uint32_t)config->seed + 1);
    watches_init(jobs, (uint32_t)config->seed + 3);
    deadlines_init(&jobs->due);
    job_tree_init(&jobs->doomed, JOB_DOOMED);
    jobs->drops.kind = DUE_DROPS;
    ring_init(&jobs->clients);
    ring_init(&jobs->ending);
    ring_init(&jobs->clearing);
    if (has_tables && jobs->marks && deadlines_reserve(&jobs->due, 1)) {
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
