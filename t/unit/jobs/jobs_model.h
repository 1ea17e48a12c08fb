/*
 * jobs_model.h - what src/jobs/ does, in the plainest way: arrays, which every question searches
 * from end to end. Written from the protocol's page on job queues, not from the code.
 *
 * Tubes and clients are places in arrays. A step that the engine decides at random (which job of a
 * tube in random order comes next) is read from the engine and only checked.
 */
#ifndef UNIT_JOBS_MODEL_H
#define UNIT_JOBS_MODEL_H

#include "jobs/jobs.h"

#include <inttypes.h>

enum {
    M_TUBES = 7,
    M_CLIENTS = 8,
    M_JOBS = 2600,
    M_LEASES = M_CLIENTS,
    M_NONE = -1,
    M_BODY_MAX = 7
};

struct m_job {
    uint64_t id;
    int tube;
    enum job_state state;
    uint32_t pri, delay_s, ttr_s, tries_max;
    int64_t put_s, until_ns, buried_ns;
    int holder;                /* a client; M_LEASES: a lease without one */
    uint64_t reservation;      /* a number for each; rises */
    bool lease, last_try;      /* of the reservation */
    uint64_t token, old_token; /* 0: not seen yet */
    uint32_t reserves, timeouts, releases, buries, kicks, tries;
};

struct m_tube {
    bool exists;
    uint64_t number;              /* in the order of creation */
    struct job_settings settings; /* in force */
    int64_t paused_until_ns;
    uint32_t pause_s;
    uint64_t total_jobs, cmd_delete, cmd_pause, claims, acks, recycled, abandoned;
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
    struct job_settings defaults;
    struct m_tube tubes[M_TUBES];
    struct m_client clients[M_CLIENTS];
    struct m_job jobs[M_JOBS];
    unsigned job_count;
    uint64_t numbers, waits, reservations, timeouts, total_jobs;
    int64_t last_burial;
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

struct bytes m_name(int tube);
void m_start(const struct job_settings *defaults, struct moment now);

struct m_job *m_find(uint64_t id);
/* The bytes of a job's body, at most M_BODY_MAX. */
uint32_t m_body_len(uint64_t id);
/* The next job of a tube; `chosen` is the one that the engine took. NULL: none. */
struct m_job *m_next(int tube, uint64_t chosen);
bool m_is_closed(int tube);
/* The first that was buried, or whose delay ends first. NULL: none. */
struct m_job *m_first(int tube, enum job_peek what);
unsigned m_count(int tube, enum job_state state);
/* When something is due in a tube, or the first reservation of a client ends. INT64_MAX: never. */
int64_t m_tube_due(int tube);
int64_t m_client_due(int client);

void m_client_new(int client);
void m_client_end(int client);
void m_use(int client, int tube);
void m_watch(int client, int tube);
enum jobs_status m_ignore(int client, int tube);

/* `count` jobs, which are equal but for their ids. */
enum jobs_status m_put(int client, const struct job_put *puts, size_t count, size_t *failed_r);
/* The `chosen` one is that of the engine; 0: none. */
enum jobs_status m_reserve(int client, bool waits, uint64_t chosen);
enum jobs_status m_claim(int client, const int *tubes, int tube_count, uint32_t count, bool waits,
                         size_t answer_max, const uint64_t *chosen, size_t chosen_count);
enum jobs_status m_reserve_job(int client, uint64_t id);
enum jobs_status m_delete(int client, uint64_t id);
enum jobs_status m_release(struct m_job *job, uint32_t pri, uint32_t delay_s);
enum jobs_status m_bury(int client, uint64_t id, uint32_t pri);
void m_touch(struct m_job *job);
uint32_t m_kick(int client, uint32_t bound);
enum jobs_status m_kick_job(uint64_t id);
enum jobs_status m_pause(int tube, uint32_t seconds);
void m_set(int tube, const struct job_settings *settings);
enum jobs_status m_clear(int tube, unsigned state, uint64_t *deleted_r);
void m_ack(struct m_job *job);
void m_end_wait(int client);
/* What is due at model.now. */
void m_run(void);
/* Tubes to which nothing refers vanish. After each step. */
void m_sweep(void);

#endif
