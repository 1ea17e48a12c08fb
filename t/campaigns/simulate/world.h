/*
 * world.h - one run of the simulation: a server of several workers, its clients, the network
 * between them, the clock and the memory, all from one seed.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* Settings of a run. */
struct plan {
    uint64_t seed;
};

/* Sums over runs. */
struct outcome {
    uint64_t requests, clients, steps, waits;
    uint64_t pieces;        /* allocations of the server */
    uint64_t refused;       /* allocations that failed */
    uint64_t out_of_memory; /* answers that report a lack of memory */
    uint64_t closed[32];    /* connections, by reason */
};

/*
 * Executes one run and adds to *sum. On a violation it prints the error to standard error and ends
 * the process.
 */
void world_run(const struct plan *plan, struct outcome *sum);

#endif
