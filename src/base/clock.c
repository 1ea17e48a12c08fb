/* clock.c - reads the system clocks (see clock.h). */
#include "base/clock.h"

#include "base/check.h"

#include <time.h>

int64_t clock_mono_ns(void)
{
    struct timespec ts;
    CHECK(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_unix_ns(void)
{
    struct timespec ts;
    CHECK(clock_gettime(CLOCK_REALTIME, &ts) == 0);
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

struct moment clock_now(void)
{
    /* The coarse clock is good enough for intervals of whole seconds and costs a fifth. */
    struct timespec wall;
    CHECK(clock_gettime(CLOCK_REALTIME_COARSE, &wall) == 0);
    return (struct moment){.mono_ns = clock_mono_ns(), .unix_s = wall.tv_sec};
}
