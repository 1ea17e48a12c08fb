/*
 * waitq.h - a queue of waiters that answers: who is the oldest of those that fit?
 *
 * A waiter fits while the consumption is at or below its threshold (its limit less its units).
 * Waiters of one threshold stand in line in a lane; lanes form a tree ordered by threshold (a
 * treap) in which every lane knows the age of the oldest waiter below it. So each operation costs
 * the logarithm of the number of different thresholds, mostly one, and nothing for the number of
 * waiters.
 *
 * Locks: none of its own; a queue is used under its shard's lock. Nothing here allocates: the
 * caller brings a lane where one is needed and gets it back when it is empty.
 */
#ifndef ENGINE_WAITQ_H
#define ENGINE_WAITQ_H

#include <stdbool.h>
#include <stdint.h>

struct wait_lane;

/* A place in line; part of the waiter. */
struct wait_place {
    struct wait_lane *lane; /* NULL: not in line */
    struct wait_place *next, *prev;
    uint64_t seq; /* age: lower is older; never equal in one queue */
};

/* All waiters of one threshold. */
struct wait_lane {
    struct wait_lane *left, *right;
    uint64_t oldest; /* the lowest seq in the tree from here down */
    struct wait_place *first, *last;
    uint32_t threshold;
    uint32_t priority; /* the treap's */
};

struct waitq {
    struct wait_lane *root;
};

/* The lane of `threshold`; NULL when there is none. */
struct wait_lane *waitq_lane(const struct waitq *q, uint32_t threshold);

/* Adds `lane` (uninitialised memory) for `threshold`, which has none. Then waitq_join it. */
void waitq_add_lane(struct waitq *q, struct wait_lane *lane, uint32_t threshold,
                    uint32_t random_bits);

/* Puts `place` at the end of the line of `lane`; `seq` is higher than any before. */
void waitq_join(struct waitq *q, struct wait_lane *lane, struct wait_place *place, uint64_t seq);

/*
 * Takes `place` out of its line, wherever it stands. Returns its lane when that is empty now and
 * has left the tree, to be freed by the caller; else NULL.
 */
struct wait_lane *waitq_leave(struct waitq *q, struct wait_place *place);

/* The oldest of those whose threshold is at least `consumption`; NULL when none is. */
struct wait_place *waitq_oldest(const struct waitq *q, uint32_t consumption);

/*
 * Goes over all that wait in several queues, oldest first. The queues must not change meanwhile.
 * Each step costs the logarithm of the number of lanes. It looks at WAITQ_SCAN_LANES lanes at most,
 * and ends early where it would have to look at more to know who is next.
 */
#define WAITQ_SCAN_LANES 512

struct waitq_scan {
    unsigned lanes; /* looked at */
    unsigned count; /* a heap of what may come next, the oldest first: */
    struct waitq_next {
        uint64_t seq;
        const struct wait_lane *tree; /* its oldest is of that age; or else: */
        struct wait_place *place;     /* a place of that age */
    } next[WAITQ_SCAN_LANES * 2 + 2];
};

/* Begins a scan of no queue (uninitialised memory). */
void waitq_scan_begin(struct waitq_scan *scan);
/* Adds a queue to a scan that has not taken a step; of two at most. */
void waitq_scan_add(struct waitq_scan *scan, const struct waitq *q);
/* The next oldest; NULL: that was all, or all that can be said. */
struct wait_place *waitq_scan_next(struct waitq_scan *scan);

#endif
