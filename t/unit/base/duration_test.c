/* duration_test.c - sums of times beyond 64 bits, alone and with readers in other threads. */
#include "base/duration.h"

#include "base/clock.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <pthread.h>

#define YEAR_NS ((duration)31557600 * (duration)NS_PER_S)

TEST(a_sum_goes_on_at_64_bits)
{
    struct duration_sum sum = {0};
    duration_sum_add(&sum, UINT64_MAX);
    ck_assert(duration_sum_get(&sum) == UINT64_MAX);
    duration_sum_add(&sum, 1);
    ck_assert(duration_sum_get(&sum) == (duration)UINT64_MAX + 1);
    duration_sum_add(&sum, 0);
    duration_sum_add(&sum, (duration)5 << 64);
    duration_sum_add(&sum, UINT64_MAX);
    ck_assert(duration_sum_get(&sum) == (duration)7 * UINT64_MAX + 6);
}

/* ---- readers in other threads ---------------------------------------------------------------- */

enum {
    READERS = 3,
#ifdef __SANITIZE_THREAD__
    LOOKS = 1000000, /* per reader */
#else
    LOOKS = 10000000,
#endif
};

/* The halves lie in two cache lines, so a reader is likely to catch them at different times. */
static struct {
    _Alignas(64) char before[56];
    struct duration_sum sum;
} shared;

/* Added one after the other. Nearly every step changes the high half, some by more than one. */
static const duration steps[] = {
    UINT64_MAX / 2 + 1,
    ((duration)3 << 64) + UINT64_MAX / 3,
    UINT64_MAX / 7,
    UINT64_MAX,
};

/* True if a sum is one that the steps can reach. */
static bool may_be(duration sum)
{
    duration round = 0;
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        round += steps[i];
    sum %= round;
    for (size_t i = 0; sum > 0 && i < ARRAY_SIZE(steps); i++) {
        if (sum < steps[i])
            return false;
        sum -= steps[i];
    }
    return sum == 0;
}

static pthread_barrier_t all_there;
static _Atomic unsigned looking;

static void *look(void *arg)
{
    (void)arg;
    duration before = 0;
    (void)pthread_barrier_wait(&all_there);
    for (unsigned i = 0; i < LOOKS; i++) {
        duration sum = duration_sum_get(&shared.sum);
        REQUIRE(sum >= before);
        REQUIRE(may_be(sum));
        before = sum;
    }
    atomic_fetch_sub(&looking, 1);
    return NULL;
}

TEST(readers_see_what_was_a_sum_and_none_goes_back)
{
    pthread_t readers[READERS];
    duration all = 0;
    atomic_store(&looking, READERS);
    ck_assert(pthread_barrier_init(&all_there, NULL, READERS + 1) == 0);
    for (unsigned i = 0; i < READERS; i++)
        ck_assert(pthread_create(&readers[i], NULL, look, NULL) == 0);
    (void)pthread_barrier_wait(&all_there);
    for (unsigned i = 0; atomic_load(&looking) > 0; i++) {
        duration_sum_add(&shared.sum, steps[i % ARRAY_SIZE(steps)]);
        all += steps[i % ARRAY_SIZE(steps)];
        REQUIRE(duration_sum_get(&shared.sum) == all);
    }
    for (unsigned i = 0; i < READERS; i++)
        ck_assert(pthread_join(readers[i], NULL) == 0);
    ck_assert(pthread_barrier_destroy(&all_there) == 0);
}

UNIT_MAIN("duration")
