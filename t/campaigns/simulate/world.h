/*
 * world.h - one run of the simulation: a server of several workers, its clients, the network
 * between them, the clock and the memory, all from one seed.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* Wishes about a run; what is 0 is left to the seed. */
struct plan {
    uint64_t seed;
    uint64_t requests;    /* it ends after so many */
    bool no_failures;     /* memory never fails, whatever the seed says */
    uint64_t fail_at;     /* the piece of memory of this number, from 1, is refused, no other */
    uint32_t fail_one_in; /* one in so many pieces is refused */
};

/* What has come of it. */
struct outcome {
    uint64_t requests, clients, steps, waits;
    uint64_t pieces;        /* of memory asked for by the server */
    uint64_t refused;       /* of them */
    uint64_t out_of_memory; /* answers that said so */
    uint64_t closed[32];    /* connections, by why */
};

/*
 * Carries out one run, adding to *sum. Where something is not as it must be it says so on standard
 * error and ends the process.
 */
void world_run(const struct plan *plan, struct outcome *sum);

#endif
