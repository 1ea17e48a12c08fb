/*
 * waitq_test.c - the oldest waiter that fits, compared with a list searched from end to end; how
 * deep the tree of lanes gets, and how many lanes are looked at.
 */
#include "engine/waitq.h"

#include "base/check.h"
#include "t/unit/random.h"

#include <stdlib.h>

struct person {
    struct wait_place place;
    uint32_t threshold;
    bool waits;
};

enum { PEOPLE = 400 };

static struct waitq q;
static uint64_t last_seq;
static struct rng luck = {.state = 1}; /* of the priorities of lanes */

static void join(struct person *p, uint32_t threshold)
{
    struct wait_lane *lane = waitq_lane(&q, threshold);
    if (!lane) {
        lane = malloc(sizeof(*lane)); /* each in its own block, so that a sanitizer watches it */
        REQUIRE(lane != NULL);
        waitq_add_lane(&q, lane, threshold, (uint32_t)rng_next(&luck));
    }
    waitq_join(&q, lane, &p->place, ++last_seq);
    p->threshold = threshold;
    p->waits = true;
}

static void leave(struct person *p)
{
    struct wait_lane *own = p->place.lane, *empty = waitq_leave(&q, &p->place);
    p->waits = false;
    REQUIRE(p->place.lane == NULL && (!empty || empty == own));
    REQUIRE(waitq_lane(&q, p->threshold) == (empty ? NULL : own));
    free(empty);
}

/* The next in age after `seq` of all that fit; NULL: none. */
static const struct person *next_of(const struct person *people, uint64_t seq, uint32_t consumption)
{
    const struct person *next = NULL;
    for (size_t i = 0; i < PEOPLE; i++) {
        if (people[i].waits && people[i].threshold >= consumption && people[i].place.seq > seq &&
            (!next || people[i].place.seq < next->place.seq))
            next = &people[i];
    }
    return next;
}

static void compare(const struct person *people, uint32_t consumption)
{
    const struct person *expected = next_of(people, 0, consumption);
    REQUIRE(waitq_oldest(&q, consumption) == (expected ? &expected->place : NULL));
}

/* A scan visits all, oldest first. It may end early only if there are many lanes. */
static void compare_scan(const struct person *people, bool all)
{
    static struct waitq_scan scan;
    const struct waitq none = {NULL};
    const struct person *next = next_of(people, 0, 0);
    waitq_scan_begin(&scan);
    waitq_scan_add(&scan, &q);
    waitq_scan_add(&scan, &none);
    for (const struct wait_place *p; (p = waitq_scan_next(&scan)) != NULL;) {
        REQUIRE(next && p == &next->place);
        next = next_of(people, p->seq, 0);
    }
    REQUIRE(!next || !all);
    REQUIRE(waitq_scan_next(&scan) == NULL);
}

TEST(the_oldest_that_fits_is_found)
{
    static struct person people[PEOPLE];
    static const uint32_t thresholds[] = {3, 60, UINT32_MAX - 2};
    struct rng rng = rng_start("waiters", random_seed());
    for (size_t row = 0; row < ARRAY_SIZE(thresholds); row++) {
        for (int step = 0; step < 30000; step++) {
            bool filling = step / 3000 % 2 == 0;
            struct person *p = &people[rng_below(&rng, PEOPLE)];
            uint32_t t = rng_below(&rng, thresholds[row]);
            if (!p->waits && rng_one_in(&rng, 4) != filling)
                join(p, rng_one_in(&rng, 50) ? UINT32_MAX - t : t);
            else if (p->waits && rng_one_in(&rng, 4) == filling)
                leave(p);
            compare(people, t);
            compare(people, UINT32_MAX - t);
            if (step % 256 == 0)
                compare_scan(people, row < 2);
        }
        for (size_t i = 0; i < PEOPLE; i++) {
            if (people[i].waits)
                leave(&people[i]);
        }
        REQUIRE(q.root == NULL);
    }
}
END_TEST

static unsigned depth_of(const struct wait_lane *lane)
{
    if (!lane)
        return 0;
    REQUIRE(!lane->left || lane->left->priority <= lane->priority);
    REQUIRE(!lane->right || lane->right->priority <= lane->priority);
    unsigned left = depth_of(lane->left), right = depth_of(lane->right);
    return 1 + (left > right ? left : right);
}

TEST(sorted_thresholds_make_no_deep_tree)
{
    enum { COUNT = 50000 };
    struct person *people = calloc(COUNT, sizeof(*people));
    ck_assert(people != NULL);
    for (uint32_t i = 0; i < COUNT; i++)
        join(&people[i], i);
    ck_assert(depth_of(q.root) < 80); /* 16 would be perfect, 40 is usual */
    for (uint32_t i = 0; i < COUNT; i++) {
        leave(&people[(size_t)i * 7919 % COUNT]);
        if (i % 5000 == 0)
            ck_assert(depth_of(q.root) < 80);
    }
    free(people);
}
END_TEST

TEST(a_scan_of_very_many_lanes_ends_early_and_is_right_until_then)
{
    enum { COUNT = 3000 };
    static struct person people[COUNT];
    static struct waitq_scan scan;
    struct rng rng = rng_start("very many lanes", random_seed());
    for (unsigned i = 0; i < COUNT; i++)
        join(&people[i], (i << 20) + rng_below(&rng, 1u << 20));
    unsigned seen = 0;
    waitq_scan_begin(&scan);
    waitq_scan_add(&scan, &q);
    for (const struct wait_place *p; (p = waitq_scan_next(&scan)) != NULL; seen++)
        ck_assert(p == &people[seen].place);
    ck_assert(seen > 20 && seen <= WAITQ_SCAN_LANES);
    for (unsigned i = 0; i < COUNT; i++)
        leave(&people[i]);
}
END_TEST

UNIT_MAIN("engine/waitq")
