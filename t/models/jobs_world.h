/*
 * jobs_world.h - jobs with some clients, random steps in them, and comparing all of it with the
 * model (jobs.h).
 */
#ifndef MODELS_JOBS_WORLD_H
#define MODELS_JOBS_WORLD_H

#include "t/models/jobs.h"
#include "t/unit/rng.h"

struct world_config {
    uint32_t jobs;         /* the most */
    uint32_t batch;        /* the most in one put */
    uint64_t memory_limit; /* bytes that clients may use; UINT64_MAX: no limit */
    bool faulty;           /* some allocations fail */
    unsigned rarely;       /* how rarely everything is compared */
    uint32_t many_watches; /* of struct jobs_config */
    bool keyed;            /* jobs have keys and roots */
    bool store;            /* there is one, which is compared */
    bool fails;            /* some commits fail */
    struct job_settings defaults;
};

extern struct rng world_random;

struct world_config world_config_random(void);
void world_start(const struct world_config *config);
void world_step(void);
/* Compares everything that can be asked. */
void world_compare(void);
/* All clients end, in any order, all jobs go, and the memory is that of the start. */
void world_end(void);

/* The number of allocations that failed, and of answers JOBS_NO_MEMORY. */
unsigned long world_faults(void);
uint64_t world_refusals(void);
uint64_t world_store_failures(void);

/* With a store: the process ends, and another one starts. */
void world_restart(void);

/* An upgrade in place: writes everything to a record, and goes on with what other jobs read. */
void world_upgrade(void);
/* A record of the world. The caller frees it. */
uint8_t *world_save(size_t *len_r);
/* Reads a record, which may be damaged, into other jobs, which do some work then. Returns false,
 * with the reason, if it is refused. */
bool world_try(const uint8_t *record, size_t len, const char **why_r);

#endif
