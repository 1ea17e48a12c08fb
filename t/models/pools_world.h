/*
 * pools_world.h - pools with a table, some clients and others that use the same counters; random
 * steps in it; and comparing all of it with the model (pools.h) after each step.
 */
#ifndef MODELS_POOLS_WORLD_H
#define MODELS_POOLS_WORLD_H

#include "t/models/pools_compare.h"

enum { OTHERS = 2 };

/* How large a world is, and what happens in it. */
struct world_config {
    uint32_t pools, members, clients;
    bool faulty;     /* some allocations fail */
    bool full_sums;  /* others fill the counters */
    unsigned checks; /* how rarely the engine checks everything */
};

/* The world, which an upgrade replaces. */
extern struct world_config config;
extern struct table *table;
extern struct pools *pools;
extern struct pool_effects effects;
extern struct holder others[OTHERS];
extern uint32_t next_id;
extern uint64_t next_tag;
extern const struct pool_hooks hooks;

/* A table and pools, empty. */
struct table *new_table(void);
struct pools *new_pools(struct table *of, const struct pools_limits *limits, uint64_t first_fence);
/* A request as the engine gets it, until the next one. */
struct pool_take real_take(const struct m_take *take);
/* What a call has done is as the model says. */
void done(void);

/* A random size. */
struct world_config world_random(void);
void world_start(const struct world_config *new_config);
void world_step(void);
/* Every client reads all its news, as before an upgrade. */
void world_read_all(void);
/* All clients end, in any order, and then nothing is left. */
void world_end(void);
/* The number of allocations that failed so far. */
unsigned long world_faults(void);

#endif
