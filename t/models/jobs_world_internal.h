/*
 * jobs_world_internal.h - the state of the world of jobs_world.h, for its files.
 *
 * jobs_world.c has requests, messages, time and life; jobs_world_compare.c compares with the model;
 * jobs_world_steps.c has what clients do at random; jobs_world_restart.c restarts and upgrades.
 */
#ifndef MODELS_JOBS_WORLD_INTERNAL_H
#define MODELS_JOBS_WORLD_INTERNAL_H

#include "t/models/jobs_world.h"

#include "jobs/jobs_commit_internal.h"
#include "t/models/jobs_check.h"
#include "t/unit/jobs/commit_rig.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/jobs/submit.h"
#include "t/unit/random.h"

enum { MESSAGES = 1 << 16 };

extern struct world {
    struct world_config config;
    struct jobs *jobs;
    struct jobs_client *clients[M_CLIENTS];
    struct jobs_outbox outbox;
    struct mail *messages[MESSAGES]; /* on their way */
    unsigned message_count;
    uint64_t base_memory, refusals, store_failures;
    int64_t wall_offset_s;
    bool was_set_back;
    struct job_view views[JOBS_STEP];
    struct fake_disk *disk; /* of the store; NULL: none */
} world;

static inline uint32_t below(uint32_t bound)
{
    return rng_below(&world_random, bound);
}

static inline bool one_in(uint32_t n)
{
    return rng_one_in(&world_random, n);
}

/* ---- jobs_world.c ---------------------------------------------------------------------------- */

struct ask *world_new_ask(int c, enum job_op_kind kind);
enum jobs_status world_submit(struct ask *ask);

/* True when a call was refused for want of memory, or by the store, which changes nothing. */
bool world_is_refused(enum jobs_status status);

/* A change of one job. A reservation is in views[0]. */
enum jobs_status world_act(enum job_verb verb, int c, uint64_t id, uint64_t token, uint32_t pri,
                           uint32_t delay_s);

/* Compares what is told of a job, and gives it up. */
void world_check_view(struct job_view *view, struct m_job *job);
void world_read_wait(int c);
void world_end_wait(int c);
void world_deliver(unsigned n);
void world_deliver_all(void);
void world_set_time(int64_t at_ns);
void world_run(void);
void world_move_time(void);
struct jobs_config world_jobs_config(uint64_t first_id);
void world_limit_memory(struct jobs *of);
struct jobs *world_new_jobs(uint64_t first_id);
void world_some_clients(void);
void world_tell_all(void);

/* The tubes are made again, in the order of the store. */
void world_number_tubes(void);

/* ---- jobs_world_compare.c -------------------------------------------------------------------- */

/* What has something due: tubes, clients, and leases that no client has. */
enum { OWNERS = M_TUBES + M_CLIENTS + 1 };
int64_t world_due_of(int n);
int64_t world_first_due(void);

/* Burials that come together are so far apart, at most, with a store. */
#define SLACK_NS 1000

/* What the engine deletes when it likes, if it may. After each call. */
void world_follow(void);
void world_compare_some(void);

/* ---- jobs_world_steps.c ---------------------------------------------------------------------- */

void world_new_client(int c);
void world_end_client(int c);
void world_delete_id(int c, uint64_t id);
void world_bury(int c);
void world_pause_for(int tube, uint32_t seconds);

/* Returns false when it was refused. */
bool world_set_to(int tube, const struct job_settings *settings);
void world_set_defaults(const struct job_settings *defaults);
void world_clear_tube(int tube, unsigned state);

/* Everything is done under the world's faults, so what must not fail is seen not to. */
void world_begin_call(void);

/* With a store, nothing is under way after a call. */
void world_end_call(void);

#define CALL(call)                                                                                 \
    do {                                                                                           \
        world_begin_call();                                                                        \
        call;                                                                                      \
        world_end_call();                                                                          \
    } while (0)

/* The same for what may end many last tries at once. With a store each is a change; the engine
 * waits a second when these do not fit into the memory, of which the model does not know. */
#define CALL_THAT_ENDS(call)                                                                       \
    do {                                                                                           \
        bool limited = world.disk && world.config.memory_limit != UINT64_MAX;                      \
        if (limited)                                                                               \
            jobs_begin_load(world.jobs); /* whatever the limit */                                  \
        CALL(call);                                                                                \
        if (limited)                                                                               \
            jobs_end_load(world.jobs);                                                             \
    } while (0)

#endif
