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

TEST(empty_queue)
{
    ck_assert(waitq_oldest(&q, 0) == NULL);
    ck_assert(waitq_oldest(&q, UINT32_MAX) == NULL);
    ck_assert(waitq_lane(&q, 0) == NULL);
}
END_TEST

TEST(fits_at_its_threshold_and_not_above)
{
    struct person p = {0};
    static const uint32_t thresholds[] = {0, 1, 7, UINT32_MAX - 1, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_SIZE(thresholds); i++) {
        uint32_t t = thresholds[i];
        join(&p, t);
        ck_assert(waitq_oldest(&q, 0) == &p.place);
        ck_assert(waitq_oldest(&q, t) == &p.place);
        if (t < UINT32_MAX)
            ck_assert(waitq_oldest(&q, t + 1) == NULL);
        leave(&p);
        ck_assert(q.root == NULL);
    }
}
END_TEST

TEST(one_threshold_is_a_line)
{
    struct person p[6] = {0};
    for (int i = 0; i < 6; i++)
        join(&p[i], 3);
    ck_assert(lanes == 1);
    leave(&p[2]); /* from the middle */
    leave(&p[0]); /* the first */
    leave(&p[5]); /* the last */
    ck_assert(waitq_oldest(&q, 3) == &p[1].place);
    leave(&p[1]);
    ck_assert(waitq_oldest(&q, 3) == &p[3].place);
    join(&p[1], 3); /* again, now at the end */
    leave(&p[3]);
    leave(&p[4]);
    ck_assert(waitq_oldest(&q, 3) == &p[1].place);
    leave(&p[1]);
    check_queue(0);
}
END_TEST

TEST(the_oldest_that_fits_goes_first)
{
    struct person p[4] = {0};
    join(&p[0], 1);
    join(&p[1], 9);
    join(&p[2], 5);
    join(&p[3], 9);
    ck_assert(waitq_oldest(&q, 0) == &p[0].place);
    ck_assert(waitq_oldest(&q, 1) == &p[0].place);
    ck_assert(waitq_oldest(&q, 2) == &p[1].place);
    ck_assert(waitq_oldest(&q, 9) == &p[1].place);
    ck_assert(waitq_oldest(&q, 10) == NULL);
    leave(&p[1]);
    ck_assert(waitq_oldest(&q, 2) == &p[2].place);
    ck_assert(waitq_oldest(&q, 6) == &p[3].place);
    for (int i = 0; i < 4; i++) {
        if (p[i].waits)
            leave(&p[i]);
    }
}
END_TEST

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

TEST(random_with_few_thresholds)
{
    struct rng rng = rng_start("few thresholds", random_seed());
    random_run(&rng, 3, 40000);
}
END_TEST

TEST(random_with_some_thresholds)
{
    struct rng rng = rng_start("some thresholds", random_seed());
    random_run(&rng, 60, 40000);
}
END_TEST

TEST(random_with_all_thresholds_different)
{
    struct rng rng = rng_start("many thresholds", random_seed());
    random_run(&rng, UINT32_MAX - 2, 40000);
}
END_TEST

TEST(bad_luck_costs_time_only)
{
    struct rng rng = rng_start("bad luck", random_seed());
    luck = LUCK_EQUAL;
    random_run(&rng, 100, 20000);
    luck = LUCK_RISING;
    random_run(&rng, 100, 20000);
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

TEST(a_scan_takes_turns_between_queues)
{
    struct person p[40] = {0};
    struct waitq other = {NULL};
    static struct waitq_scan scan;
    for (unsigned i = 0; i < 40; i++) {
        if (i == 20) { /* the second half waits in another queue */
            other = q;
            q = (struct waitq){NULL};
        }
        last_seq = i < 20 ? 2 * i : 2 * (i - 20) + 1; /* ages alternate between the queues */
        join(&p[i], i % 7);
    }
    waitq_scan_begin(&scan);
    ck_assert(waitq_scan_next(&scan) == NULL);
    waitq_scan_begin(&scan);
    waitq_scan_add(&scan, &q);
    waitq_scan_add(&scan, &other);
    uint64_t last = 0;
    unsigned seen = 0;
    for (const struct wait_place *place; (place = waitq_scan_next(&scan)) != NULL; seen++) {
        ck_assert(place->seq > last);
        last = place->seq;
    }
    ck_assert(seen == 40);
    for (unsigned i = 0; i < 40; i++) {
        if (i == 20)
            q = other;
        leave(&p[39 - i]);
    }
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

TEST(leaving_twice_aborts)
{
    struct person p = {0};
    join(&p, 1);
    leave(&p);
    leave(&p);
}
END_TEST

TEST(joining_before_others_aborts)
{
    struct person p = {0}, late = {0};
    join(&p, 1);
    waitq_join(&q, waitq_lane(&q, 1), &late.place, last_seq);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(empty_queue),
    UNIT(fits_at_its_threshold_and_not_above),
    UNIT(one_threshold_is_a_line),
    UNIT(the_oldest_that_fits_goes_first),
    UNIT(random_with_few_thresholds),
    UNIT(random_with_some_thresholds),
    UNIT(random_with_all_thresholds_different),
    UNIT(bad_luck_costs_time_only),
    UNIT(sorted_thresholds_make_no_deep_tree),
    UNIT(a_scan_takes_turns_between_queues),
    UNIT(a_scan_of_very_many_lanes_ends_early_and_is_right_until_then),
    UNIT_ABORTS(leaving_twice_aborts),
    UNIT_ABORTS(joining_before_others_aborts),
};

UNIT_MAIN("engine/waitq", tests)
