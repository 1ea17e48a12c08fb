/*
 * pool_world.h - pools with a table, some clients and others that use the same counters; random
 * steps in it; and comparing all of it with the model (pool_model.h) after each step.
 */
#ifndef UNIT_ENGINE_POOL_WORLD_H
#define UNIT_ENGINE_POOL_WORLD_H

#include "t/unit/engine/pool_compare.h"

/* How large a world is, and what happens in it. */
struct world_config {
    uint32_t pools, members, clients;
    bool faulty;     /* some allocations fail */
    bool full_sums;  /* others fill the counters */
    unsigned checks; /* how rarely the engine checks everything */
};

/* A random one. */
struct world_config world_random(void);

void world_start(const struct world_config *config);
void world_step(void);

/* An upgrade: writes everything to a record, and goes on with what another table and other pools
 * read from it. */
void world_upgrade(void);
/* Writes a record of the world. Returns its bytes, which the caller frees, their number, and where
 * the pools begin. */
uint8_t *world_save(size_t *len_r, size_t *pools_at_r);
/* Reads a record, which may be damaged, into other pools, which do some steps then. Returns false,
 * with the reason, if it is refused. */
bool world_try(const uint8_t *record, size_t len, const char **why_r);

/* All clients end, in any order, and then nothing is left. */
void world_end(void);

/* A case: a wait closes members to a younger one, as there are as many as it asks for, until the
 * lifetimes of two are over that no timer has ended yet. `in_line`: the younger one waits already.
 */
void world_overdue(bool in_line);

/* The number of allocations that failed so far. */
unsigned long world_faults(void);

#endif
