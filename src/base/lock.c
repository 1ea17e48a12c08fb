/*
 * lock.c - waiting for a lock (see lock.h).
 *
 * The state is a futex. Who finds the lock taken looks on for a little while, since it is held for
 * well under a microsecond; then it says that somebody waits (LOCK_AWAITED), and sleeps. It takes
 * the lock in that same state, as others may sleep, too: at worst the kernel is asked once in vain
 * to wake somebody. Who gives back what is awaited wakes one.
 */
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * It looks after 1, 2, 4 and so on pauses, up to these, together some one or two microseconds. With
 * longer pauses whoever has the lock is disturbed less: of two threads that do nothing but take one
 * lock in turn, a pair of requests took 226 ns with even pauses, and 168 so.
 */
#define PAUSES_MAX 64

_Thread_local unsigned lock_ranks_held;

void lock_init(struct lock *lock, enum lock_rank rank)
{
    CHECK(rank < LOCK_RANK_COUNT);
    *lock = (struct lock){.rank = rank};
}

void lock_destroy(struct lock *lock)
{
    CHECK(atomic_load(&lock->state) == LOCK_FREE);
}

/* Tells the processor that it turns round and round, where there is a way to say so. */
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
    CHECK(syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1) >= 0);
}
