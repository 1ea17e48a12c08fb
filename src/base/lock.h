/*
 * lock.h - mutexes with a rank. A thread takes locks in rising rank only, and never two of one
 * rank (lock_rank.h); this rules out deadlock. Every build checks both rules at every lock.
 *
 * lock_acquire and lock_release are inline because every request calls them; waiting is in lock.c.
 * A pthread mutex takes 40 bytes. This lock is small enough to share a cache line with all fields
 * that a request changes in a shard (see struct shard).
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "base/check.h"
#include "base/lock_rank.h"
#include "base/steps.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_state {
    LOCK_FREE,
    LOCK_TAKEN,
    LOCK_AWAITED, /* taken; threads may be sleeping until it is free */
};

struct lock {
    _Atomic uint32_t state;
    uint32_t rank;
    _Atomic(const void *) owner; /* the mark of the thread that holds it; NULL when free */
};

/* One bit for each rank that this thread holds. Its address serves as the thread's mark. */
extern _Thread_local unsigned lock_ranks_held;

void lock_init(struct lock *lock, enum lock_rank rank);
/* The lock must be free. */
void lock_destroy(struct lock *lock);

/* Waits until the lock is free, and takes it. */
void lock_wait(struct lock *lock);
/* Wakes one sleeping thread. */
void lock_wake(struct lock *lock);

/* Between two steps of long work: lets the threads run that waited for a lock in the step before.
 * They would often not get it, because a thread that does not sleep is faster. Sleeps for some
 * 0.1 ms if there were any: a worker calls it where others would wait longer for its steps. */
void lock_give_way(void);

/* Aborts unless this thread holds `lock`. For functions that need the caller to hold it. */
static inline void lock_assert_held(const struct lock *lock)
{
    CHECK(atomic_load_explicit(&lock->owner, memory_order_relaxed) == &lock_ranks_held);
}

/* Aborts if this thread holds any lock. For functions that must not run under one. */
static inline void lock_assert_none_held(void)
{
    CHECK(lock_ranks_held == 0);
}

/* Waits for the lock. Aborts when the thread holds a lock of the same or a higher rank. */
static inline void lock_acquire(struct lock *lock)
{
    CHECK(lock_ranks_held >> lock->rank == 0);
    uint32_t free = LOCK_FREE;
    if (unlikely(!atomic_compare_exchange_strong_explicit(
            &lock->state, &free, LOCK_TAKEN, memory_order_acquire, memory_order_relaxed)))
        lock_wait(lock);
    lock_ranks_held |= 1u << lock->rank;
    atomic_store_explicit(&lock->owner, &lock_ranks_held, memory_order_relaxed);
    steps_begin(lock->rank);
}

static inline void lock_release(struct lock *lock)
{
    lock_assert_held(lock);
    steps_end(lock->rank);
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
    lock_ranks_held &= ~(1u << lock->rank);
    if (unlikely(atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release) ==
                 LOCK_AWAITED))
        lock_wake(lock);
}

#endif
