/* clock_test.c - the two clocks run, forwards, in the units they say. */
#include "base/clock.h"

#include "base/check.h"
#include "t/unit/unit.h"

#include <time.h>

TEST(now_is_on_both_clocks)
{
    for (int i = 0; i < 1000; i++) {
        int64_t mono_before = clock_mono_ns();
        time_t wall_before = time(NULL);
        struct moment now = clock_now();
        time_t wall_after = time(NULL);
        int64_t mono_after = clock_mono_ns();
        ck_assert(mono_before <= now.mono_ns && now.mono_ns <= mono_after);
        /* The wall clock is read coarsely: some milliseconds behind, so maybe a second less. */
        ck_assert(wall_before - 1 <= now.unix_s && now.unix_s <= wall_after);
    }
}

/* Not compared with time(): after a machine stood still that is behind until the next tick. */
static int64_t realtime_ns(void)
{
    struct timespec ts;
    ck_assert(clock_gettime(CLOCK_REALTIME, &ts) == 0);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

TEST(wall_clock_counts_nanoseconds_since_1970)
{
    for (int i = 0; i < 1000; i++) {
        int64_t before = realtime_ns();
        int64_t now_ns = clock_unix_ns();
        ck_assert(before - NS_PER_S <= now_ns && now_ns <= realtime_ns() + NS_PER_S);
    }
}

UNIT_MAIN("base/clock")
