/*
 * job_tree_test.c - sets of jobs (job_tree.h): random adds and removes, compared with a sorted
 * array; and what a job costs.
 */
#include "jobs/jobs_inside.h"
#include "t/unit/random.h"

enum {
    SLOTS = 900,
    PAGES = 2,
#ifdef __SANITIZE_THREAD__
    STEPS = 40000, /* slow under TSan, and the test has only one thread */
#else
    STEPS = 200000,
#endif
};

/* A job, with its share of the table of ids and the head of its body. */
_Static_assert(sizeof(struct job) + 12 + sizeof(struct job_body) <= 160, "a job costs too much");

static struct job slots[PAGES][JOB_PAGE];
static struct job *pages[PAGES] = {slots[0], slots[1]};
static struct jobs jobs = {.pages = pages, .page_count = PAGES};

static uint32_t sorted[SLOTS]; /* handles */
static uint32_t count;
static bool there[SLOTS];
static struct rng rng;

static uint64_t major_of(const struct job_tree *tree, const struct job *job)
{
    return tree->by != JOB_BY_TURN ? 0 : job->state == JOB_READY ? job->pri : job->turn;
}

static bool comes_before(const struct job_tree *tree, uint32_t a, uint32_t b)
{
    const struct job *job_a = job_at(&jobs, a), *job_b = job_at(&jobs, b);
    uint64_t of_a = major_of(tree, job_a), of_b = major_of(tree, job_b);
    return of_a < of_b || (of_a == of_b && job_a->id < job_b->id);
}

static void add(struct job_tree *tree, uint32_t handle, enum job_state state)
{
    struct job *job = job_at(&jobs, handle);
    uint32_t at = count;
    job->id = (uint64_t)rng_below(&rng, 50) << 32 | handle; /* none twice */
    job->state = (unsigned)state & 7;
    job->pri = rng_below(&rng, 4);
    job->turn = rng_below(&rng, 100);
    job_tree_add(&jobs, tree, handle);
    for (; at > 0 && comes_before(tree, handle, sorted[at - 1]); at--)
        sorted[at] = sorted[at - 1];
    sorted[at] = handle;
    count++;
    there[handle] = true;
}

static void take(struct job_tree *tree, uint32_t handle)
{
    uint32_t at = 0;
    job_tree_remove(&jobs, tree, handle);
    while (sorted[at] != handle)
        at++;
    for (count--; at < count; at++)
        sorted[at] = sorted[at + 1];
    there[handle] = false;
}

static uint32_t visited;

static void visit(void *arg, uint32_t handle)
{
    (void)arg;
    REQUIRE(visited < count && sorted[visited] == handle);
    visited++;
}

/* The depth of a subtree. Recursive. */
static unsigned depth_of(const struct job_tree *tree, uint32_t at)
{
    if (at == JOB_NONE)
        return 0;
    const struct job *job = job_at(&jobs, at);
    const struct job_node *node = tree->by == JOB_BY_TURN ? &job->by_turn : &job->by_id;
    unsigned left = depth_of(tree, node->left), right = depth_of(tree, node->right);
    return 1 + (left > right ? left : right);
}

static void compare(const struct job_tree *tree)
{
    visited = 0;
    job_tree_visit(&jobs, tree, visit, NULL);
    REQUIRE(visited == count);
    REQUIRE(depth_of(tree, tree->root) < 60); /* 900 have about 22 */
}

static void compare_from(const struct job_tree *tree)
{
    uint64_t id = (uint64_t)rng_below(&rng, 51) << 32 | rng_below(&rng, SLOTS);
    uint32_t at = 0;
    while (at < count && job_at(&jobs, sorted[at])->id < id)
        at++;
    REQUIRE(job_tree_from(&jobs, tree, id) == (at < count ? sorted[at] : JOB_NONE));
}

static void run(bool by_turn, enum job_state state)
{
    struct job_tree tree;
    uint32_t bound = SLOTS;
    count = 0;
    jobs.hash_key.k0 = rng_next(&rng);
    job_tree_init(&tree, by_turn);
    for (unsigned n = 0; n < STEPS; n++) {
        if (n % 5000 == 0)
            bound = 1 + rng_below(&rng, SLOTS); /* small ones, too */
        uint32_t handle = rng_below(&rng, bound);
        if (there[handle])
            take(&tree, handle);
        else
            add(&tree, handle, state);
        REQUIRE(tree.count == count);
        REQUIRE(tree.first == (count > 0 ? sorted[0] : JOB_NONE));
        if (!by_turn)
            compare_from(&tree);
        if (rng_one_in(&rng, 500))
            compare(&tree);
    }
    while (count > 0)
        take(&tree, rng_one_in(&rng, 2) ? sorted[0] : sorted[count - 1]);
    ck_assert(tree.root == JOB_NONE && tree.first == JOB_NONE && tree.count == 0);
}

TEST(a_tree_by_id_is_a_sorted_array)
{
    rng = rng_start("jobs by id", random_seed());
    run(false, JOB_READY);
}
END_TEST

TEST(a_tree_by_turn_is_a_sorted_array)
{
    rng = rng_start("jobs by turn", random_seed());
    run(true, JOB_READY);
    run(true, JOB_DELAYED);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_tree_by_id_is_a_sorted_array),
    UNIT(a_tree_by_turn_is_a_sorted_array),
};

UNIT_MAIN("jobs/job_tree", tests)
