/*
 * job_tree.c - ordered sets of jobs that are linked by their handles, as treaps: search trees whose
 * nodes also form a heap by random priorities, so their depth stays near the logarithm of their
 * size. A node has 8 bytes, without a parent and without its priority, which follows from the
 * handle. Nothing is allocated.
 *
 * base/tree.h is the same with pointers; its nodes have 32 bytes, and 10^6 jobs are in two sets
 * each.
 */
#include "jobs/jobs_internal.h"

/* What orders a job in a set. */
struct key {
    uint64_t major, minor;
};

static uint32_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32);
}

static inline struct key key_of(enum job_tree_by by, const struct job *job)
{
    struct key key = {.minor = job->id};
    if (by == JOB_BY_TURN)
        key.major = job->state == JOB_READY ? job->pri : job->turn;
    else if (by == JOB_BY_KEY)
        key.major = (uintptr_t)job->keys->root;
    else if (by == JOB_BY_ROOT)
        key.major = (uint64_t)job->keys->root_ms;
    return key;
}

static bool is_before(struct key a, struct key b)
{
    return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

static inline struct job_node *node_of(enum job_tree_by by, struct job *job)
{
    switch (by) {
    case JOB_BY_ID:
        return &job->by_id;
    case JOB_BY_TURN:
    case JOB_DOOMED:
        return &job->by_turn;
    case JOB_BY_KEY:
        return &job->keys->by_key;
    default:
        return &job->keys->by_root;
    }
}

static inline struct job_node *node_at(const struct jobs *jobs, enum job_tree_by by,
                                       uint32_t handle)
{
    return node_of(by, job_at(jobs, handle));
}

/* The link from `job`, which is of node `at`, towards the place of `key`. */
static inline uint32_t *towards(enum job_tree_by by, struct job *job, struct key key)
{
    struct job_node *at = node_of(by, job);
    return is_before(key, key_of(by, job)) ? &at->left : &at->right;
}

/* What puts a node above others. */
static inline uint32_t height_of(const struct jobs *jobs, uint32_t handle)
{
    return mix(handle ^ jobs->hash_key.k0);
}

/* True when node `a` belongs above node `b`. */
static inline bool is_above(const struct jobs *jobs, uint32_t a, uint32_t b, uint32_t height_of_b)
{
    uint32_t height = height_of(jobs, a);
    return height > height_of_b || (height == height_of_b && a > b);
}

/* Adds a job to a set that has others, and removes one. Inline, to be compiled apart for the orders
 * that are used most. */
static inline __attribute__((always_inline)) void add(struct jobs *jobs, struct job_tree *tree,
                                                      uint32_t handle, enum job_tree_by by)
{
    struct job *job = job_at(jobs, handle);
    struct job_node *node = node_of(by, job);
    const struct key key = key_of(by, job);
    if (is_before(key, key_of(by, job_at(jobs, tree->first))))
        tree->first = handle;
    uint32_t *link = &tree->root, height = height_of(jobs, handle);
    while (*link != JOB_NONE && is_above(jobs, *link, handle, height))
        link = towards(by, job_at(jobs, *link), key);
    /* Splits what is below into what comes before and what comes after. */
    uint32_t rest = *link, *before = &node->left, *after = &node->right;
    *link = handle;
    while (rest != JOB_NONE) {
        struct job *its = job_at(jobs, rest);
        struct job_node *at = node_of(by, its);
        if (is_before(key, key_of(by, its))) {
            *after = rest;
            after = &at->left;
            rest = at->left;
        } else {
            *before = rest;
            before = &at->right;
            rest = at->right;
        }
    }
    *before = *after = JOB_NONE;
}

static inline __attribute__((always_inline)) void take_out(struct jobs *jobs, struct job_tree *tree,
                                                           uint32_t handle, enum job_tree_by by)
{
    struct job *job = job_at(jobs, handle);
    const struct key key = key_of(by, job);
    const struct job_node *node = node_of(by, job);
    uint32_t *link = &tree->root;
    while (*link != handle) {
        CHECK(*link != JOB_NONE);
        link = towards(by, job_at(jobs, *link), key);
    }
    /* Joins its two sides. */
    uint32_t left = node->left, right = node->right;
    while (left != JOB_NONE && right != JOB_NONE) {
        if (is_above(jobs, left, right, height_of(jobs, right))) {
            *link = left;
            link = &node_at(jobs, by, left)->right;
            left = *link;
        } else {
            *link = right;
            link = &node_at(jobs, by, right)->left;
            right = *link;
        }
    }
    *link = left != JOB_NONE ? left : right;
    if (tree->first != handle)
        return;
    tree->first = tree->root;
    for (uint32_t before; (before = node_at(jobs, by, tree->first)->left) != JOB_NONE;)
        tree->first = before;
}

static __attribute__((noinline)) void add_by_id(struct jobs *jobs, struct job_tree *tree,
                                                uint32_t handle)
{
    add(jobs, tree, handle, JOB_BY_ID);
}

static __attribute__((noinline)) void add_by_turn(struct jobs *jobs, struct job_tree *tree,
                                                  uint32_t handle)
{
    add(jobs, tree, handle, JOB_BY_TURN);
}

static __attribute__((noinline)) void add_by_any(struct jobs *jobs, struct job_tree *tree,
                                                 uint32_t handle)
{
    add(jobs, tree, handle, tree->by);
}

void job_tree_add(struct jobs *jobs, struct job_tree *tree, uint32_t handle)
{
    if (tree->count++ == 0) {
        *node_at(jobs, tree->by, handle) = (struct job_node){JOB_NONE, JOB_NONE};
        tree->root = tree->first = handle;
    } else if (tree->by == JOB_BY_ID) {
        add_by_id(jobs, tree, handle);
    } else if (tree->by == JOB_BY_TURN) {
        add_by_turn(jobs, tree, handle);
    } else {
        add_by_any(jobs, tree, handle);
    }
}

static __attribute__((noinline)) void take_out_by_id(struct jobs *jobs, struct job_tree *tree,
                                                     uint32_t handle)
{
    take_out(jobs, tree, handle, JOB_BY_ID);
}

static __attribute__((noinline)) void take_out_by_turn(struct jobs *jobs, struct job_tree *tree,
                                                       uint32_t handle)
{
    take_out(jobs, tree, handle, JOB_BY_TURN);
}

static __attribute__((noinline)) void take_out_by_any(struct jobs *jobs, struct job_tree *tree,
                                                      uint32_t handle)
{
    take_out(jobs, tree, handle, tree->by);
}

void job_tree_remove(struct jobs *jobs, struct job_tree *tree, uint32_t handle)
{
    if (--tree->count == 0) {
        CHECK(tree->root == handle);
        tree->root = tree->first = JOB_NONE;
    } else if (tree->by == JOB_BY_ID) {
        take_out_by_id(jobs, tree, handle);
    } else if (tree->by == JOB_BY_TURN) {
        take_out_by_turn(jobs, tree, handle);
    } else {
        take_out_by_any(jobs, tree, handle);
    }
}

static uint32_t first_by(const struct jobs *jobs, enum job_tree_by by, uint32_t a, uint32_t b)
{
    if (a == JOB_NONE || b == JOB_NONE)
        return a == JOB_NONE ? b : a;
    return is_before(key_of(by, job_at(jobs, a)), key_of(by, job_at(jobs, b))) ? a : b;
}

uint32_t job_first_of(const struct jobs *jobs, uint32_t a, uint32_t b)
{
    return first_by(jobs, JOB_BY_ID, a, b);
}

uint32_t job_first_turn_of(const struct jobs *jobs, uint32_t a, uint32_t b)
{
    return first_by(jobs, JOB_BY_TURN, a, b);
}

uint32_t job_tree_from(const struct jobs *jobs, const struct job_tree *tree, uint64_t id)
{
    return job_tree_from_place(jobs, tree, 0, id);
}

uint32_t job_tree_from_place(const struct jobs *jobs, const struct job_tree *tree, uint64_t major,
                             uint64_t id)
{
    const struct key place = {.major = major, .minor = id};
    uint32_t found = JOB_NONE, at = tree->root;
    while (at != JOB_NONE) {
        struct job *job = job_at(jobs, at);
        const struct job_node *node = node_of(tree->by, job);
        if (is_before(key_of(tree->by, job), place)) {
            at = node->right;
        } else {
            found = at;
            at = node->left;
        }
    }
    return found;
}

static void visit_below(const struct jobs *jobs, const struct job_tree *tree, uint32_t at,
                        void (*visit)(void *arg, uint32_t handle), void *arg)
{
    if (at == JOB_NONE)
        return;
    const struct job_node *node = node_at(jobs, tree->by, at);
    visit_below(jobs, tree, node->left, visit, arg);
    visit(arg, at);
    visit_below(jobs, tree, node->right, visit, arg);
}

void job_tree_visit(const struct jobs *jobs, const struct job_tree *tree,
                    void (*visit)(void *arg, uint32_t handle), void *arg)
{
    visit_below(jobs, tree, tree->root, visit, arg);
}
