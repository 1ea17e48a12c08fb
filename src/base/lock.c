/*
 * lock.c - ranked mutexes. Each thread has a bit mask of the ranks it holds; its address serves as
 * the thread's mark.
 */
#include "base/lock.h"

#include "base/check.h"

static _Thread_local unsigned ranks_held;

void lock_init(struct lock *lock, enum lock_rank rank)
{
    CHECK(rank < LOCK_RANK_COUNT);
    pthread_mutexattr_t attr;
    CHECK(pthread_mutexattr_init(&attr) == 0);
    /* Held for well under a microsecond: spinning a little beats sleeping. */
    CHECK(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP) == 0);
    CHECK(pthread_mutex_init(&lock->mutex, &attr) == 0);
    CHECK(pthread_mutexattr_destroy(&attr) == 0);
    lock->rank = rank;
    atomic_init(&lock->owner, NULL);
}

void lock_destroy(struct lock *lock)
{
    CHECK(pthread_mutex_destroy(&lock->mutex) == 0);
}

void lock_acquire(struct lock *lock)
{
    CHECK(ranks_held >> lock->rank == 0);
    CHECK(pthread_mutex_lock(&lock->mutex) == 0);
    ranks_held |= 1u << lock->rank;
    atomic_store_explicit(&lock->owner, &ranks_held, memory_order_relaxed);
}

void lock_release(struct lock *lock)
{
    lock_assert_held(lock);
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
    ranks_held &= ~(1u << lock->rank);
    CHECK(pthread_mutex_unlock(&lock->mutex) == 0);
}

void lock_assert_held(const struct lock *lock)
{
    CHECK(atomic_load_explicit(&lock->owner, memory_order_relaxed) == &ranks_held);
}

void lock_assert_none_held(void)
{
    CHECK(ranks_held == 0);
}
