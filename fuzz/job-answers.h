/* job-answers.h - checks what a client of job queues was answered (see service.c). */
#ifndef FUZZ_JOB_ANSWERS_H
#define FUZZ_JOB_ANSWERS_H

#include "base/bytes.h"

#include <stdbool.h>

/* The longest body that the harness has the server accept. */
#define JOB_SIZE_MAX 100

/*
 * Checks all answers on a connection: each is of a kind that its request may have, in order, and
 * well-formed with its body; ids of puts rise. `cut`: the last one may be incomplete.
 */
void job_answers_check(struct bytes sent, struct bytes got, bool cut);

/* The token of the last answer of a claim in `got`; 0: there is none. */
uint64_t job_answers_token(struct bytes got);

#endif
