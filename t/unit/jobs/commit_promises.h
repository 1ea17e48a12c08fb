/*
 * commit_promises.h - what was promised to clients of each job, and whether the jobs are as it was.
 */
#ifndef COMMIT_PROMISES_H
#define COMMIT_PROMISES_H

#include "t/unit/jobs/commit_rig.h"

#define IDS     30000u
#define CLIENTS 4u
#define ASKS    24u
#define TUBES   3u
#define TTR_S   60u
#define TOKENS  4u

enum { PLAIN, TRIES, LEASE };
extern const char *const tube_names[TUBES];

/* What the model knows of an id. */
enum fate {
    NEVER,   /* not asked for, or refused */
    ASKED,   /* its put is under way */
    THERE,   /* its put was answered */
    GONE,    /* its deletion was */
    UNKNOWN, /* the process has ended while it was put or deleted; known after the start */
};

struct promise {
    uint8_t fate, tube, last_state;
    bool keyed;      /* it has a key, and may be dropped */
    uint8_t root;    /* which; 0: none */
    uint8_t clears;  /* that will delete it, if it stays in its state */
    bool may_change; /* what concerns it has failed, and a restart may find it done */
    bool damaged;    /* the store could not change it, so kicks and clears leave it out */
    bool live;       /* a client has it, until */
    int64_t until_ns;
    int holder;
    uint64_t token, old[TOKENS];
    int64_t root_ms;
    uint32_t batch; /* the id of the first put of its batch */
};

extern struct promise promises[IDS]; /* by id */
extern uint64_t last_id;
extern int64_t newest_roots[TUBES][3]; /* that puts have asked for */

unsigned tube_number(struct bytes name);

/* The body of each job is known by its id. */
uint32_t body_len(uint64_t id);
uint8_t body_byte(uint64_t id, uint32_t at);
void check_body(uint64_t id, const struct job_body *body);
struct promise *promise_of(uint64_t id);

/* A client was given a job. */
void given(struct job_view *view, int client);
void note_damage(uint64_t id);

/* A clear begins; it ends. NULL: all of them do. */
void begin_clear(const struct ask *ask);
void end_clears(const struct ask *ask, bool done);

/* Compares the jobs that are there with what was promised. */
void check_world(void);

#endif
