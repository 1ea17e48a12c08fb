/*
 * job.h - jobs that are reserved, and the claim that they came with.
 */
#ifndef LIB_JOB_H
#define LIB_JOB_H

#include "lib/op.h"

/* The connection of the jobs of one claim: theirs until the last has ended and no operation waits
   for its turn. */
struct claim {
    struct counter_client *client;
    struct wire *wire; /* NULL: it has ended */
    unsigned forks;    /* the client's, when it was granted */
    size_t jobs;       /* that have not ended */
    bool is_spoiled;   /* one has not ended well: it is reserved on this connection still */
    struct counter_op *first;
};

struct counter_job {
    struct counter_job_view view;
    struct claim *claim; /* NULL: it has ended, or is not granted yet */
    struct counter_job *next;
    unsigned refs; /* of the program, and of operations */
    uint8_t texts[];
};

/* Whose turn it is: `op` itself, or one before it. */
struct counter_op *job_turn(struct counter_op *op);

/* The operation has ended, or goes: the next one has its turn. Nothing if it stands in none. */
void job_end_turn(struct counter_op *op);

/* The operation goes: it forgets its job, if it has one. */
void job_drop(struct counter_op *op);

#endif
