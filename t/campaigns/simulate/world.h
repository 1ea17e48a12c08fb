/*
 * world.h - one run of the simulation: a server of several workers, its clients, the network
 * between them, the clock and the memory, all from one seed.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* Sums over runs. */
struct outcome {
    uint64_t requests, clients, waits;
    uint64_t pieces;        /* allocations of the server */
    uint64_t refused;       /* allocations that failed */
    uint64_t out_of_memory; /* answers that report a lack of memory */
};

/*
 * Executes one run and adds to *sum. On a violation it prints the error to standard error and ends
 * the process.
 */
void world_run(uint64_t seed, struct outcome *sum);

#endif
