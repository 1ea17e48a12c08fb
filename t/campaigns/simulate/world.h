/*
 * world.h - one run of the simulation: a server of several workers, its clients, the network
 * between them, the clock and the memory, all from one seed.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* Requirements for a run; the seed chooses what is 0. */
struct plan {
    uint64_t seed;
    uint64_t requests;    /* it ends after this many */
    bool no_failures;     /* memory never fails, whatever the seed says */
    uint64_t fail_at;     /* only the allocation with this number, from 1, fails */
    uint32_t fail_one_in; /* one in this many allocations fails */
};

/* The result. */
struct outcome {
    uint64_t requests, clients, steps, waits;
    uint64_t pieces;        /* allocations of the server */
    uint64_t refused;       /* failed ones */
    uint64_t out_of_memory; /* answers that report a lack of memory */
    uint64_t closed[32];    /* connections, by reason */
};

/*
 * Carries out one run and adds to *sum. On a violation it prints what is wrong to standard error
 * and ends the process.
 */
void world_run(const struct plan *plan, struct outcome *sum);

#endif
