/*
 * clock.h - the two clocks. Everything below the event loop takes the time as an argument; only
 * the loop and the log read it here, so tests replace this one file to move time.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)

/* A point in time on both clocks: durations and deadlines use one, intervals the other. */
struct moment {
    int64_t mono_ns; /* monotonic, nanoseconds from an arbitrary start; never negative */
    int64_t unix_s;  /* wall clock, seconds since 1970; may jump */
};

/* Now. Any thread. */
struct moment clock_now(void);

/* The wall clock alone, in nanoseconds since 1970: to say when something was. Any thread. */
int64_t clock_unix_ns(void);

/* The monotonic clock alone, in nanoseconds. Any thread. */
int64_t clock_mono_ns(void);

#endif
