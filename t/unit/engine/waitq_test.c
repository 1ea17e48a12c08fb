/*
 * waitq_test.c - the oldest waiter that fits, compared with a list searched from end to end.
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

static struct waitq q;
static uint64_t last_seq;

/* The kind of priorities that lanes get. */
enum luck { LUCK_RANDOM, LUCK_EQUAL, LUCK_RISING };

static enum luck luck;
static struct rng luck_rng = {.state = 1};
static size_t lanes;

static uint32_t next_priority(void)
{
    switch (luck) {
    case LUCK_EQUAL:
        return 7;
    case LUCK_RISING:
        return (uint32_t)last_seq;
    case LUCK_RANDOM:
        break;
    }
    return (uint32_t)rng_next(&luck_rng);
}

static void join(struct person *p, uint32_t threshold)
{
    struct wait_lane *lane = waitq_lane(&q, threshold);
    if (!lane) {
        lane = malloc(sizeof(*lane)); /* each in its own block, so that a sanitizer watches it */
        REQUIRE(lane != NULL);
        waitq_add_lane(&q, lane, threshold, next_priority());
        lanes++;
    }
    REQUIRE(waitq_lane(&q, threshold) == lane);
    waitq_join(&q, lane, &p->place, ++last_seq);
    p->threshold = threshold;
    p->waits = true;
}

static void leave(struct person *p)
{
    struct wait_lane *own = p->place.lane;
    struct wait_lane *empty = waitq_leave(&q, &p->place);
    p->waits = false;
    REQUIRE(p->place.lane == NULL);
    if (empty) {
        REQUIRE(empty == own && empty->first == NULL && empty->last == NULL);
        REQUIRE(waitq_lane(&q, p->threshold) == NULL);
        free(empty);
        lanes--;
    } else {
        REQUIRE(waitq_lane(&q, p->threshold) == own);
    }
}

/* Checks the order and that every lane knows the oldest below it; counts lanes and people. */
static uint64_t check_tree(const struct wait_lane *lane, uint64_t low, uint64_t high,
                           size_t *lanes_r, size_t *people_r)
{
    if (!lane)
        return UINT64_MAX;
    REQUIRE(lane->threshold >= low && lane->threshold <= high);
    REQUIRE(!lane->left || lane->left->priority <= lane->priority);
    REQUIRE(!lane->right || lane->right->priority <= lane->priority);
    REQUIRE(lane->first && !lane->first->prev && lane->last && !lane->last->next);
    const struct wait_place *last = NULL;
    for (const struct wait_place *p = lane->first; p; last = p, p = p->next) {
        REQUIRE(p->lane == lane && p->prev == last && (!last || last->seq < p->seq));
        ++*people_r;
    }
    REQUIRE(last == lane->last);
    ++*lanes_r;
    uint64_t oldest = lane->first->seq;
    if (lane->threshold > low) {
        uint64_t left =
            check_tree(lane->left, low, (uint64_t)lane->threshold - 1, lanes_r, people_r);
        oldest = left < oldest ? left : oldest;
    } else {
        REQUIRE(!lane->left);
    }
    uint64_t right =
        check_tree(lane->right, (uint64_t)lane->threshold + 1, high, lanes_r, people_r);
    oldest = right < oldest ? right : oldest;
    REQUIRE(lane->oldest == oldest);
    return oldest;
}

static void check_queue(size_t people)
{
    size_t lanes_seen = 0, people_seen = 0;
    check_tree(q.root, 0, UINT32_MAX, &lanes_seen, &people_seen);
    REQUIRE(lanes_seen == lanes && people_seen == people);
}

/* The same by a linear search: the lowest seq of all that fit. */
static const struct person *oldest_plainly(const struct person *people, size_t count,
                                           uint32_t consumption)
{
    const struct person *oldest = NULL;
    for (size_t i = 0; i < count; i++) {
        if (people[i].waits && people[i].threshold >= consumption &&
            (!oldest || people[i].place.seq < oldest->place.seq))
            oldest = &people[i];
    }
    return oldest;
}

static void compare(const struct person *people, size_t count, uint32_t consumption)
{
    const struct person *expected = oldest_plainly(people, count, consumption);
    const struct wait_place *oldest = waitq_oldest(&q, consumption);
    REQUIRE(oldest == (expected ? &expected->place : NULL));
}

enum { PEOPLE = 400 };

/* A scan visits all, oldest first. It may end early only if there are many lanes. */
static void compare_scan(const struct person *people, size_t count)
{
    static struct waitq_scan scan;
    const struct waitq none = {NULL};
    uint64_t last = 0;
    size_t seen = 0, waiting = 0;
    waitq_scan_begin(&scan);
    waitq_scan_add(&scan, &q);
    waitq_scan_add(&scan, &none);
    for (const struct wait_place *p; (p = waitq_scan_next(&scan)) != NULL; seen++) {
        /* None is left out: each is the next in age after the one before. */
        const struct person *next = NULL;
        for (size_t i = 0; i < count; i++) {
            if (people[i].waits && people[i].place.seq > last &&
                (!next || people[i].place.seq < next->place.seq))
                next = &people[i];
        }
        REQUIRE(next && p == &next->place);
        last = p->seq;
    }
    for (size_t i = 0; i < count; i++)
        waiting += people[i].waits;
    REQUIRE(seen == waiting || lanes > WAITQ_SCAN_LANES);
    REQUIRE(waitq_scan_next(&scan) == NULL);
}

static void random_run(struct rng *rng, uint32_t thresholds, int steps)
{
    static struct person people[PEOPLE];
    size_t waiting = 0;
    for (int step = 0; step < steps; step++) {
        bool filling = step / 3000 % 2 == 0;
        struct person *p = &people[rng_below(rng, PEOPLE)];
        if (!p->waits && rng_one_in(rng, 4) != filling) {
            uint32_t t = rng_below(rng, thresholds);
            join(p, rng_one_in(rng, 50) ? UINT32_MAX - t : t);
            waiting++;
        } else if (p->waits && rng_one_in(rng, 4) == filling) {
            leave(p);
            waiting--;
        }
        uint32_t consumption = rng_below(rng, thresholds + 2);
        if (rng_one_in(rng, 3)) { /* hands over units like a release */
            struct wait_place *oldest = waitq_oldest(&q, consumption);
            compare(people, PEOPLE, consumption);
            if (oldest && rng_one_in(rng, 4)) {
                leave(container_of(oldest, struct person, place));
                waiting--;
            }
        }
        compare(people, PEOPLE, consumption);
        compare(people, PEOPLE, UINT32_MAX - consumption);
        if (step % 16 == 0)
            check_queue(waiting);
        if (step % 256 == 0)
            compare_scan(people, PEOPLE);
    }
    for (size_t i = 0; i < PEOPLE; i++) {
        if (people[i].waits) {
            leave(&people[i]);
            check_queue(--waiting);
        }
    }
    REQUIRE(q.root == NULL && lanes == 0 && waiting == 0);
}

TEST(the_oldest_that_fits_is_found)
{
    static const struct {
        const char *what;
        enum luck luck;
        uint32_t thresholds;
    } rows[] = {
        {"few thresholds", LUCK_RANDOM, 3},
        {"some thresholds", LUCK_RANDOM, 60},
        {"many thresholds", LUCK_RANDOM, UINT32_MAX - 2},
        {"equal priorities", LUCK_EQUAL, 100},
        {"rising priorities", LUCK_RISING, 100},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct rng rng = rng_start(rows[i].what, random_seed());
        luck = rows[i].luck;
        random_run(&rng, rows[i].thresholds, 30000);
    }
}
END_TEST

static unsigned depth_of(const struct wait_lane *lane)
{
    if (!lane)
        return 0;
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
        REQUIRE(waitq_oldest(&q, i) == &people[i].place);
        leave(&people[i]);
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

static const struct unit_test tests[] = {
    UNIT(the_oldest_that_fits_is_found),
    UNIT(sorted_thresholds_make_no_deep_tree),
    UNIT(a_scan_of_very_many_lanes_ends_early_and_is_right_until_then),
};

UNIT_MAIN("engine/waitq", tests)
