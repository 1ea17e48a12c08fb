/*
 * lock.h - mutexes with a rank. A thread takes locks in rising rank only and never two of one rank,
 * which rules deadlock out; both are checked at every lock, in every build. This is the one place
 * that says the order.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* In the order in which they may be taken. */
enum lock_rank {
    LOCK_RANK_SHARD,   /* one shard of the table: its names, holdings, waiters */
    LOCK_RANK_ARENA,   /* the pages that all shards share */
    LOCK_RANK_SOURCES, /* how many connections come from where */
    LOCK_RANK_COUNT
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
    _Atomic(const void *) owner; /* the holding thread's mark; NULL when free */
};

void lock_init(struct lock *lock, enum lock_rank rank);
void lock_destroy(struct lock *lock);

/* Waits for the lock. Aborts when the thread holds one of the same or a higher rank. */
void lock_acquire(struct lock *lock);
void lock_release(struct lock *lock);

/* Aborts unless this thread holds `lock`: for helpers that need it. */
void lock_assert_held(const struct lock *lock);

/* Aborts if this thread holds any lock: for what must not happen under one. */
void lock_assert_none_held(void);

#endif
