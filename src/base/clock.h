/*
 * clock.h - the two clocks. Code below the event loop takes the time as an argument; only the event
 * loop and the log read it here. Tests replace this one file to control time.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)

/*
 * One point in time on both clocks. Use mono_ns for durations and deadlines, unix_s for intervals.
 */
struct moment {
    int64_t mono_ns; /* monotonic, nanoseconds from an arbitrary start; never negative; the time in
                        which the machine was suspended counts */
    int64_t unix_s;  /* wall clock, seconds since 1970; may jump */
};

/* The current time. Any thread. */
struct moment clock_now(void);

/* The wall clock, in nanoseconds since 1970, for timestamps. Any thread. */
int64_t clock_unix_ns(void);

/* The monotonic clock, in nanoseconds. Any thread. */
int64_t clock_mono_ns(void);

/* Nanoseconds as seconds. */
static inline double clock_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* The unix time, in seconds, at which the monotonic clock showed `mono_ns`. */
static inline double clock_unix_of(int64_t mono_ns)
{
    return clock_seconds(clock_unix_ns() - (clock_mono_ns() - mono_ns));
}

#endif
