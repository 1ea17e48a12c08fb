/* lock_test.c - ranked locks: they exclude, and every misuse ends the process at once. */
#include "base/lock.h"

#include "base/check.h"
#include "t/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static struct lock shard, other_shard, arena;

static void init_all(void)
{
    lock_init(&shard, LOCK_RANK_SHARD);
    lock_init(&other_shard, LOCK_RANK_SHARD);
    lock_init(&arena, LOCK_RANK_ARENA);
}

TEST(taken_in_order_and_given_back_in_any)
{
    init_all();
    lock_assert_none_held();
    lock_acquire(&shard);
    lock_assert_held(&shard);
    lock_acquire(&arena);
    lock_assert_held(&arena);
    lock_release(&shard);
    lock_assert_held(&arena);
    lock_release(&arena);
    lock_assert_none_held();
    /* One after the other, locks of one rank are fine. */
    lock_acquire(&shard);
    lock_release(&shard);
    lock_acquire(&other_shard);
    lock_release(&other_shard);
    lock_acquire(&arena);
    lock_release(&arena);
    lock_acquire(&shard);
    lock_release(&shard);
    lock_assert_none_held();
    lock_destroy(&shard);
    lock_destroy(&other_shard);
    lock_destroy(&arena);
}

TEST_ABORTS(falling_rank_aborts)
{
    init_all();
    lock_acquire(&arena);
    lock_acquire(&shard);
}

TEST_ABORTS(releasing_a_free_lock_aborts)
{
    init_all();
    lock_release(&shard);
}

TEST_ABORTS(destroying_a_held_lock_aborts)
{
    init_all();
    lock_acquire(&shard);
    lock_destroy(&shard);
}

TEST_ABORTS(assert_held_aborts_when_free)
{
    init_all();
    lock_assert_held(&shard);
}

TEST_ABORTS(assert_none_held_aborts_when_one_is)
{
    init_all();
    lock_acquire(&arena);
    lock_assert_none_held();
}

TEST_ABORTS(giving_way_with_a_lock_aborts)
{
    init_all();
    lock_give_way();
    lock_acquire(&shard);
    lock_give_way();
}

enum { THREADS = 4 };

static unsigned long guarded;

/* True if a thread sleeps in the kernel, according to /proc. */
static bool is_asleep(pid_t thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", (long)thread);
    FILE *f = fopen(path, "r");
    ck_assert(f != NULL);
    ck_assert_int_eq(fscanf(f, "%*d %*[^)]) %c", &state), 1); // NOLINT(cert-err34-c): no number
    (void)fclose(f);
    return state == 'S';
}

static _Atomic pid_t sleepers[THREADS];

static void *count_one(void *arg)
{
    _Atomic pid_t *me = arg;
    atomic_store(me, (pid_t)syscall(SYS_gettid));
    lock_acquire(&shard);
    guarded++;
    lock_release(&shard);
    return arg;
}

TEST(who_waits_long_sleeps_and_all_are_woken)
{
    for (int round = 0; round < 20; round++) {
        init_all();
        guarded = 0;
        pthread_t threads[THREADS];
        lock_acquire(&shard);
        for (int i = 0; i < THREADS; i++) {
            atomic_store(&sleepers[i], 0);
            ck_assert(pthread_create(&threads[i], NULL, count_one, &sleepers[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++) {
            while (atomic_load(&sleepers[i]) == 0 || !is_asleep(atomic_load(&sleepers[i])))
                sched_yield();
        }
        ck_assert_uint_eq(guarded, 0);
        lock_release(&shard);
        for (int i = 0; i < THREADS; i++)
            ck_assert(pthread_join(threads[i], NULL) == 0);
        ck_assert_uint_eq(guarded, THREADS);
        lock_destroy(&shard);
    }
}

UNIT_MAIN("base/lock")
