/*
 * waitq.h - a queue of waiters that finds the oldest waiter that fits.
 *
 * A waiter fits while the consumption is at or below its threshold (its limit minus its units).
 * Waiters with the same threshold form a lane, in order of age. The lanes form a tree ordered by
 * threshold (a treap), and each lane knows the age of the oldest waiter in its subtree. So an
 * operation costs the logarithm of the number of thresholds, usually one; the number of waiters
 * does not matter.
 *
 * Locks: none of its own; the caller holds the lock of the queue's shard. Nothing here allocates:
 * the caller provides the memory of a lane, and gets it back when the lane is empty.
 */
#ifndef ENGINE_WAITQ_H
#define ENGINE_WAITQ_H

#include <stdbool.h>
#include <stdint.h>

struct wait_lane;

/* A place in the queue; embedded in the waiter. */
struct wait_place {
    struct wait_lane *lane; /* NULL: not in the queue */
    struct wait_place *next, *prev;
    uint64_t seq; /* age: lower is older; unique in a queue */
};

/* All waiters with the same threshold. */
struct wait_lane {
    struct wait_lane *left, *right;
    uint64_t oldest; /* the lowest seq in this lane and its subtrees */
    struct wait_place *first, *last;
    uint32_t threshold;
    uint32_t priority; /* random, for the treap */
};

struct waitq {
    struct wait_lane *root;
};

/* Finds the lane of `threshold`; NULL when there is none. */
struct wait_lane *waitq_lane(const struct waitq *q, uint32_t threshold);

/*
 * Adds `lane` (uninitialised memory) for `threshold`, which must not have a lane. Call waitq_join
 * next: lanes must not stay empty.
 */
void waitq_add_lane(struct waitq *q, struct wait_lane *lane, uint32_t threshold,
                    uint32_t random_bits);

/* Appends `place` to `lane`. `seq` must be higher than any before. */
void waitq_join(struct waitq *q, struct wait_lane *lane, struct wait_place *place, uint64_t seq);

/*
 * Removes `place` from the queue. If its lane is now empty, removes the lane too and returns it,
 * for the caller to free; else returns NULL.
 */
struct wait_lane *waitq_leave(struct waitq *q, struct wait_place *place);

/* The highest threshold; 0 when the queue is empty. */
uint32_t waitq_highest(const struct waitq *q);

/* Returns the oldest waiter with a threshold of at least `consumption`; NULL when there is none. */
struct wait_place *waitq_oldest(const struct waitq *q, uint32_t consumption);

/*
 * Visits all waiters of several queues, oldest first. The queues must not change during the scan. A
 * step costs the logarithm of the number of lanes. The scan looks at no more than WAITQ_SCAN_LANES
 * lanes; it ends early when it would need more.
 */
#define WAITQ_SCAN_LANES 512

struct waitq_scan {
    unsigned lanes; /* lanes visited so far */
    unsigned count; /* elements in `next`, a heap with the oldest first */
    struct waitq_next {
        uint64_t seq;
        const struct wait_lane *tree; /* subtree with this oldest; NULL: see `place` */
        struct wait_place *place;     /* a waiter with this `seq` */
    } next[WAITQ_SCAN_LANES * 2 + 2];
};

/* Starts a scan that has no queues yet; `*scan` may be uninitialised. */
void waitq_scan_begin(struct waitq_scan *scan);
/* Adds a queue, at most two in all. Call before waitq_scan_next. */
void waitq_scan_add(struct waitq_scan *scan, const struct waitq *q);
/* Returns the next oldest; NULL at the end, or when the scan has reached its lane limit. */
struct wait_place *waitq_scan_next(struct waitq_scan *scan);

#endif
