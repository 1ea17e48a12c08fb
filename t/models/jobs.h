/*
 * jobs.h - what src/jobs/ does, in the plainest way: arrays, which every question searches from end
 * to end. Written from the protocol's page on job queues, not from the code.
 *
 * Tubes, clients, keys and roots are places in arrays. What the engine decides at random (which job
 * of a tube in random order comes next), and when exactly a stale job is deleted, is read from the
 * engine and only checked.
 *
 * With a store, the model also has what the store holds: each job as it was after the last change
 * that is kept (`kept`). A restart goes on from that.
 */
#ifndef MODELS_JOBS_H
#define MODELS_JOBS_H

#include "jobs/jobs.h"

#include <inttypes.h>

enum {
    M_TUBES = 7,
    M_CLIENTS = 8,
    M_JOBS = 2600,
    M_LEASES = M_CLIENTS,
    M_KEYS = 4,
    M_ROOTS = 2,
    M_NONE = -1,
    M_BODY_MAX = 63
};
#define M_NO_TIME INT64_MIN

/* What changes in the life of a job. The store has the same. */
struct m_changing {
    enum job_state state;
    uint32_t pri, delay_s;
    int64_t until_ns, buried_ns;
    int64_t buried_wall_ns; /* the same by the wall clock, never equal */
    int64_t at_ms, root_ms, began_ms;
    uint64_t token;
    bool lease;
    uint32_t reserves, timeouts, releases, buries, kicks, tries;
};

struct m_job {
    uint64_t id;
    int tube, key, root; /* M_NONE: without */
    uint32_t ttr_s, tries_max;
    int64_t put_ms;
    int holder;           /* a client; M_LEASES: a lease without one */
    uint64_t reservation; /* a number for each; rises */
    bool last_try;        /* of the reservation */
    uint64_t old_token;
    bool doomed; /* the engine will delete it: it was stale, or to be pruned */
    struct m_changing now, kept;
};

/* What is remembered of a key or a root. */
struct m_mark {
    int64_t time_ms, until_ns;
    int64_t kept_ms;   /* of a key, in the store; memory has it while jobs have the key */
    int64_t lowest_ms; /* the earliest that the wall clock was since */
};

struct m_tube {
    bool exists;
    uint64_t number;              /* in the order of creation */
    struct job_settings settings; /* in force */
    int64_t paused_until_ns;
    int64_t kept_until_ns; /* the same by the wall clock, in the store */
    uint32_t pause_s, kept_pause_s;
    uint64_t total_jobs, cmd_delete, cmd_pause, claims, acks, recycled, abandoned, duplicates,
        dropped;
    struct m_mark keys[M_KEYS], roots[M_ROOTS]; /* also of a tube that does not exist */
};

enum m_wait { M_IDLE, M_WAITS, M_SERVED };

struct m_client {
    bool exists;
    int used;
    int watched[M_TUBES], watch_count;
    enum m_wait wait;
    uint64_t age;
    bool claims;                     /* the wait is a claim's */
    int named[M_TUBES], named_count; /* 0: it waits for those that it watches */
    int turn;                        /* the tube that served it last */
    struct {
        uint64_t id, reservation;
        uint32_t tries;
        int tube;
    } served;
};

struct model {
    struct moment now;
    int64_t wall_ms;
    bool stored; /* there is a store */
    struct job_settings defaults;
    struct m_tube tubes[M_TUBES];
    struct m_client clients[M_CLIENTS];
    unsigned job_count;
    uint64_t numbers, waits, reservations, timeouts, total_jobs;
    int64_t last_burial, last_burial_wall;
    struct m_job jobs[M_JOBS]; /* last */
};

extern struct model model;
extern uint64_t model_step;
/* The job that the engine gave to a client which waited. */
extern uint64_t (*model_served)(int client);

/* Fails the test, and names the step. */
#define AGREE(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("step %" PRIu64 ": %s", model_step, #condition);                          \
    } while (0)

/* The same for two numbers, which it shows. */
#define AGREE_ON(engine, its)                                                                      \
    do {                                                                                           \
        int64_t is_ = (int64_t)(engine), should_ = (int64_t)(its);                                 \
        if (is_ != should_)                                                                        \
            ck_abort_msg("step %" PRIu64 ": %s is %" PRId64 ", not %" PRId64, model_step, #engine, \
                         is_, should_);                                                            \
    } while (0)

struct bytes m_name(int tube);
struct bytes m_key(int key);
struct bytes m_root(int root);
void m_start(const struct job_settings *defaults, bool stored);
/* The clocks. */
void m_set_time(int64_t mono_ns, int64_t wall_ms);

struct m_job *m_find(uint64_t id);
/* The bytes of a job's body, at most M_BODY_MAX. */
uint32_t m_body_len(uint64_t id);
/* The next job of a tube for `peek`, which shows stale jobs, too; `chosen` is the one that the
 * engine took. NULL: none. */
struct m_job *m_peek(int tube, uint64_t chosen);
/* True if a client waits for a job of that tube. */
bool m_waits_for(const struct m_client *client, int tube);
/* The first that was buried, or whose delay ends first. NULL: none. */
struct m_job *m_first(int tube, enum job_peek what);
unsigned m_count(int tube, enum job_state state);
/* True if a job may be deleted: its key was executed since, its root is old, or its tube is
 * pruned. */
bool m_may_go(const struct m_job *job);
/* When an abandoned job has to be deleted; INT64_MAX: never. */
int64_t m_prune_at(const struct m_job *job);
/* The engine has deleted such a job. */
void m_gone(struct m_job *job);
/* What is remembered; M_NO_TIME: nothing. */
int64_t m_executed(int tube, int key);
int64_t m_newest(int tube, int root);
unsigned m_key_jobs(int tube, int key);
/* When the engine has something to do because of keys and roots. */
int64_t m_marks_due(void);
/* When something is due in a tube, or the first reservation of a client ends. INT64_MAX: never. */
int64_t m_tube_due(int tube);
int64_t m_client_due(int client);

void m_client_new(int client);
void m_client_end(int client);
void m_use(int client, int tube);
void m_watch(int client, int tube);
enum jobs_status m_ignore(int client, int tube);

/* Sets what each put is a duplicate of. */
enum jobs_status m_put(int client, const struct job_put *puts, size_t count, size_t *failed_r,
                       struct job_duplicate *duplicates_r);
/* The `chosen` one is that of the engine; 0: none. */
enum jobs_status m_reserve(int client, bool waits, uint64_t chosen);
enum jobs_status m_claim(int client, const int *tubes, int tube_count, uint32_t count, bool waits,
                         size_t answer_max, const uint64_t *chosen, size_t chosen_count);
enum jobs_status m_reserve_job(int client, uint64_t id);
enum jobs_status m_delete(int client, uint64_t id);
enum jobs_status m_release(struct m_job *job, uint32_t pri, uint32_t delay_s);
enum jobs_status m_bury(int client, uint64_t id, uint32_t pri);
/* A burial is decided. It keeps its turn when its commit fails, too. */
void m_plan_burial(void);
void m_touch(struct m_job *job);
uint32_t m_kick(int client, uint32_t bound);
enum jobs_status m_kick_job(uint64_t id);
enum jobs_status m_pause(int tube, uint32_t seconds);
/* A bit for each setting that differs. */
uint32_t m_differ(const struct job_settings *a, const struct job_settings *b);
void m_set(int tube, const struct job_settings *settings);
void m_set_defaults(const struct job_settings *settings);
enum jobs_status m_clear(int tube, unsigned state, uint64_t *deleted_r);
void m_ack(struct m_job *job);
void m_end_wait(int client);
/* What is due at model.now. */
void m_run(void);
/* Tubes to which nothing refers vanish. After each step. */
void m_sweep(void);
/* The process ends, and another one starts with what the store has. */
void m_restart(void);

#endif
