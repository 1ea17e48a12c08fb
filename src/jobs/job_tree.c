/* job_tree.c - see job_tree.h. */
#include "jobs/jobs_inside.h"

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

static struct key key_of(const struct job_tree *tree, const struct job *job)
{
    struct key key = {.minor = job->id};
    if (tree->by == JOB_BY_TURN)
        key.major = job->state == JOB_READY ? job->pri : job->turn;
    else if (tree->by == JOB_BY_KEY)
        key.major = (uintptr_t)job->keys->root;
    else if (tree->by == JOB_BY_ROOT)
        key.major = (uint64_t)job->keys->root_ms;
    return key;
}

static bool is_before(struct key a, struct key b)
{
    return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

static struct job_node *node_at(const struct jobs *jobs, const struct job_tree *tree,
                                uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    switch (tree->by) {
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

/* True when node `a` belongs above node `b`. */
static bool is_above(const struct jobs *jobs, uint32_t a, uint32_t b)
{
    uint32_t of_a = mix(a ^ jobs->hash_key.k0), of_b = mix(b ^ jobs->hash_key.k0);
    return of_a > of_b || (of_a == of_b && a > b);
}

void job_tree_add(struct jobs *jobs, struct job_tree *tree, uint32_t handle)
{
    struct key key = key_of(tree, job_at(jobs, handle));
    struct job_node *node = node_at(jobs, tree, handle);
    if (tree->first == JOB_NONE || is_before(key, key_of(tree, job_at(jobs, tree->first))))
        tree->first = handle;
    tree->count++;
    uint32_t *link = &tree->root;
    while (*link != JOB_NONE && is_above(jobs, *link, handle)) {
        struct job_node *at = node_at(jobs, tree, *link);
        link = is_before(key, key_of(tree, job_at(jobs, *link))) ? &at->left : &at->right;
    }
    /* Splits what is below into what comes before and what comes after. */
    uint32_t rest = *link, *before = &node->left, *after = &node->right;
    *link = handle;
    while (rest != JOB_NONE) {
        struct job_node *at = node_at(jobs, tree, rest);
        if (is_before(key, key_of(tree, job_at(jobs, rest)))) {
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

void job_tree_remove(struct jobs *jobs, struct job_tree *tree, uint32_t handle)
{
    struct key key = key_of(tree, job_at(jobs, handle));
    const struct job_node *node = node_at(jobs, tree, handle);
    uint32_t *link = &tree->root;
    while (*link != handle) {
        CHECK(*link != JOB_NONE);
        struct job_node *at = node_at(jobs, tree, *link);
        link = is_before(key, key_of(tree, job_at(jobs, *link))) ? &at->left : &at->right;
    }
    /* Joins its two sides. */
    uint32_t left = node->left, right = node->right;
    while (left != JOB_NONE && right != JOB_NONE) {
        if (is_above(jobs, left, right)) {
            *link = left;
            link = &node_at(jobs, tree, left)->right;
            left = *link;
        } else {
            *link = right;
            link = &node_at(jobs, tree, right)->left;
            right = *link;
        }
    }
    *link = left != JOB_NONE ? left : right;
    tree->count--;
    if (tree->first != handle)
        return;
    tree->first = tree->root;
    while (tree->first != JOB_NONE && node_at(jobs, tree, tree->first)->left != JOB_NONE)
        tree->first = node_at(jobs, tree, tree->first)->left;
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
        const struct job_node *node = node_at(jobs, tree, at);
        if (is_before(key_of(tree, job_at(jobs, at)), place)) {
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
    const struct job_node *node = node_at(jobs, tree, at);
    visit_below(jobs, tree, node->left, visit, arg);
    visit(arg, at);
    visit_below(jobs, tree, node->right, visit, arg);
}

void job_tree_visit(const struct jobs *jobs, const struct job_tree *tree,
                    void (*visit)(void *arg, uint32_t handle), void *arg)
{
    visit_below(jobs, tree, tree->root, visit, arg);
}
