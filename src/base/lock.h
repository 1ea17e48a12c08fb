/*
 * lock.h - mutexes with a rank. A thread takes locks in rising rank only and never two of one rank,
 * which rules deadlock out; both are checked at every lock, in every build. This is the one place
 * that says the order.
 *
 * Taking and giving back are here, to be compiled into their callers, since every request does it;
 * waiting is in lock.c. And they are not pthread's because that one's take 40 bytes: so whatever
 * a request changes in a shard lies in one cache line with its lock (see struct shard).
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order in which they may be taken. */
enum lock_rank {
    LOCK_RANK_SHARD,   /* one shard of the table: its names, holdings, waiters */
    LOCK_RANK_ARENA,   /* the pages that all shards share */
    LOCK_RANK_SOURCES, /* how many connections come from where */
    LOCK_RANK_COUNT
};

enum lock_state {
    LOCK_FREE,
    LOCK_TAKEN,
    LOCK_AWAITED, /* taken, and there may be threads that sleep until it is free */
};

struct lock {
    _Atomic uint32_t state;
    uint32_t rank;
    _Atomic(const void *) owner; /* the holding thread's mark; NULL when free */
};

/* The ranks that this thread holds, a bit each; its address is the thread's mark. */
extern _Thread_local unsigned lock_ranks_held;

void lock_init(struct lock *lock, enum lock_rank rank);
/* Of a free lock. */
void lock_destroy(struct lock *lock);

/* Waits until it is free, and takes it. */
void lock_wait(struct lock *lock);
/* Has one of those that sleep go on. */
void lock_wake(struct lock *lock);

/* Aborts unless this thread holds `lock`: for helpers that need it. */
static inline void lock_assert_held(const struct lock *lock)
{
    CHECK(atomic_load_explicit(&lock->owner, memory_order_relaxed) == &lock_ranks_held);
}

/* Aborts if this thread holds any lock: for what must not happen under one. */
static inline void lock_assert_none_held(void)
{
    CHECK(lock_ranks_held == 0);
}

/* Waits for the lock. Aborts when the thread holds one of the same or a higher rank. */
static inline void lock_acquire(struct lock *lock)
{
    CHECK(lock_ranks_held >> lock->rank == 0);
    uint32_t free = LOCK_FREE;
    if (unlikely(!atomic_compare_exchange_strong_explicit(
            &lock->state, &free, LOCK_TAKEN, memory_order_acquire, memory_order_relaxed)))
        lock_wait(lock);
    lock_ranks_held |= 1u << lock->rank;
    atomic_store_explicit(&lock->owner, &lock_ranks_held, memory_order_relaxed);
}

static inline void lock_release(struct lock *lock)
{
    lock_assert_held(lock);
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
    lock_ranks_held &= ~(1u << lock->rank);
    if (unlikely(atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release) ==
                 LOCK_AWAITED))
        lock_wake(lock);
}

#endif
