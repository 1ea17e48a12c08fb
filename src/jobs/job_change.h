/* job_change.h - what is asked of one job, and what becomes of it. */
#ifndef JOBS_JOB_CHANGE_H
#define JOBS_JOB_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct job_mark;
struct jobs_client;

enum job_verb {
    JOB_NO_VERB,
    JOB_DELETE,
    JOB_RELEASE,
    JOB_BURY,
    JOB_TOUCH,
    JOB_ACK,
    JOB_NACK,
    JOB_RENEW,
    JOB_KICK,
    JOB_RESERVE,
    /* The jobs' own. */
    JOB_EXPIRE, /* the time of the reservation is over */
    JOB_END,    /* the connection that had it has ended */
    JOB_SPOIL,  /* the body cannot be read, or the store cannot change it: bury it */
    /* These two last; they delete it, though nobody has executed it: */
    JOB_CLEAR,
    JOB_DROP, /* it is stale, or to be pruned */
};

/* What is asked of a job. */
struct job_act {
    enum job_verb verb;
    struct jobs_client *client; /* that asks; NULL: no client of job queues */
    uint64_t id, token;
    uint32_t pri, delay_s; /* of the verbs that have them */
};

/* What becomes of a job. */
struct job_change {
    enum job_verb verb;
    uint8_t state; /* enum job_state; JOB_STATES: it is deleted, and what follows means nothing */
    bool is_lease, last_try; /* of a new reservation */
    uint32_t pri, delay_s;
    uint64_t turn;    /* buried: when, as in struct job */
    int64_t after_ns; /* delayed, reserved: that ends so long after it is made */
    uint64_t token;   /* of a new reservation */
    int64_t began_ms; /* the same, of a job with a key; wall clock */
    struct jobs_client *holder;
};

/* A put that is decided: what it will do. */
struct put_plan {
    uint32_t handle;        /* the new job, in no state; JOB_NONE: it is a duplicate */
    uint32_t twin;          /* of this job, which is locked and has the later times; JOB_NONE */
    int64_t at_ms, root_ms; /* the times of the twin before that */
    bool locked, changes;   /* this put has locked the twin; the twin has other times */
    struct job_mark *root;  /* to learn `newest_ms` when the put is made; NULL: none */
    int64_t newest_ms;
    bool forgets_key, forgets_root; /* takes their time out of the store first, as it is over */
    /* A table of what puts that are decided together concern, by key and root of the job. */
    struct put_plan *first, *next;
};

#endif
