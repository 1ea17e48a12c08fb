/*
 * claim.h - jobs that are reserved, and the claim that they came with.
 */
#ifndef LIB_CLAIM_H
#define LIB_CLAIM_H

#include "lib/client.h"

/* The connection of the jobs of one claim: theirs until the last has ended and no operation waits
   for its turn. */
struct claim {
    struct counter_client *client;
    struct wire *wire;        /* NULL: it has ended */
    unsigned forks;           /* the client's, when it was granted */
    size_t jobs;              /* that have not ended */
    bool is_spoiled;          /* one has not ended well: it is reserved on this connection still */
    struct counter_op *first; /* in the turns */
};

struct counter_job {
    struct counter_job_view view;
    struct claim *claim; /* NULL: it has ended, or is not granted yet */
    struct counter_job *next;
    unsigned refs; /* of the program, and of operations */
    uint8_t texts[];
};

/* Ends a claim whose last job and operation have ended. */
void claim_close_if_over(struct claim *claim);

/* True when it was granted to the parent process. */
bool claim_is_foreign(const struct claim *claim);

/* The job of a claim ends. `well`: it is not reserved any more. */
void job_leave(struct counter_job *job, bool well);

/* Gives back a reference to the job. */
void job_let_go(struct counter_job *job);

#endif
