/*
 * lock.c - waiting for a lock (see lock.h).
 *
 * The state is a futex. Locks are held for well under a microsecond, so a thread that finds the
 * lock taken first spins for a short time. Then it sets LOCK_AWAITED and sleeps. When it wakes, it
 * takes the lock and keeps the state LOCK_AWAITED, because other threads may be sleeping too; the
 * worst case is one needless wake-up call to the kernel. A thread that releases a lock in state
 * LOCK_AWAITED wakes one sleeper.
 */
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * A waiting thread checks the lock after 1, 2, 4, ... up to PAUSES_MAX pauses, about one or two
 * microseconds in all. Growing pauses disturb the holder less than even ones: with two threads
 * contending for one lock, a pair of requests took 168 ns instead of 226.
 */
#define PAUSES_MAX 64

#define GIVE_WAY_NS 50000

_Thread_local unsigned lock_ranks_held;
static _Thread_local bool awaited; /* a lock that this thread has released since it gave way */

void lock_init(struct lock *lock, enum lock_rank rank)
{
    CHECK(rank < LOCK_RANK_COUNT);
    *lock = (struct lock){.rank = rank};
}

void lock_destroy(struct lock *lock)
{
    CHECK(atomic_load(&lock->state) == LOCK_FREE);
}

/* Tells the processor that this is a spin loop, on processors that have an instruction for it. */
static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static bool take_if_free(struct lock *lock)
{
    uint32_t free = LOCK_FREE;
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_FREE &&
           atomic_compare_exchange_strong_explicit(&lock->state, &free, LOCK_TAKEN,
                                                   memory_order_acquire, memory_order_relaxed);
}

void lock_wait(struct lock *lock)
{
    for (unsigned pauses = 1; pauses <= PAUSES_MAX; pauses *= 2) {
        for (unsigned i = 0; i < pauses; i++)
            pause_briefly();
        if (take_if_free(lock))
            return;
    }
    while (atomic_exchange_explicit(&lock->state, LOCK_AWAITED, memory_order_acquire) !=
           LOCK_FREE) {
        long slept = syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, LOCK_AWAITED, NULL);
        CHECK(slept == 0 || errno == EAGAIN || errno == EINTR);
    }
}

void lock_wake(struct lock *lock)
{
    awaited = true;
    CHECK(syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1) >= 0);
}

void lock_give_way(void)
{
    lock_assert_none_held();
    if (!awaited)
        return;
    awaited = false;
    struct timespec pause = {.tv_nsec = GIVE_WAY_NS};
    (void)nanosleep(&pause, NULL);
}
