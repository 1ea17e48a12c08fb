/*
 * job_tree.h - ordered sets of jobs that are linked by their handles, as treaps: search trees whose
 * nodes also form a heap by random priorities, so their depth stays near the logarithm of their
 * size. A node has 8 bytes, without a parent and without its priority, which follows from the
 * handle. Nothing is allocated.
 *
 * base/tree.h is the same with pointers; its nodes have 32 bytes, and 10^6 jobs are in two sets
 * each.
 */
#ifndef JOBS_JOB_TREE_H
#define JOBS_JOB_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct jobs;

#define JOB_NONE UINT32_MAX /* no handle */

struct job_node {
    uint32_t left, right;
};

/* What orders a set; the id decides between equals. */
enum job_tree_by {
    JOB_BY_ID,
    JOB_BY_TURN, /* priority or time, see jobs_inside.h */
    JOB_DOOMED,  /* by id, of those that will be deleted; in the place of their turn */
    JOB_BY_KEY,  /* by root; of the jobs with one key */
    JOB_BY_ROOT, /* by time of the root; of the jobs with one root */
};

struct job_tree {
    uint32_t root, first; /* handles */
    uint32_t count;
    uint8_t by; /* enum job_tree_by */
};

static inline void job_tree_init(struct job_tree *tree, enum job_tree_by by)
{
    *tree = (struct job_tree){.root = JOB_NONE, .first = JOB_NONE, .by = (uint8_t)by};
}

/* Adds a job that is not in the set; removes one that is. The key must be the same in both. */
void job_tree_add(struct jobs *jobs, struct job_tree *tree, uint32_t handle);
void job_tree_remove(struct jobs *jobs, struct job_tree *tree, uint32_t handle);

/* The first job with an id of at least `id`, of a set by id. JOB_NONE: none. */
uint32_t job_tree_from(const struct jobs *jobs, const struct job_tree *tree, uint64_t id);

/* The first job at or after this place of a set in another order: first by `major`, then by id. */
uint32_t job_tree_from_place(const struct jobs *jobs, const struct job_tree *tree, uint64_t major,
                             uint64_t id);
/* Calls `visit` for all, in order; for checks. Recursive. */
void job_tree_visit(const struct jobs *jobs, const struct job_tree *tree,
                    void (*visit)(void *arg, uint32_t handle), void *arg);

#endif
