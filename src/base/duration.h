/*
 * duration.h - sums of nanoseconds in 128 bits. One thread adds, any thread reads, without locks or
 * locked instructions.
 *
 * The low 64 bits overflow once per 584 years of added time. So the writer usually stores only the
 * low half, and a reader usually finds the high half unchanged.
 */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdint.h>

/* Nanoseconds. One million locks held for ten years make 2^78 of them. */
typedef unsigned __int128 duration;

/*
 * `high` is twice the upper half of the sum; it is odd while the writer changes both halves. Stores
 * are releases, loads are acquires: a reader that finds `high` even reads a `low` at least as new,
 * and if `high` is unchanged afterwards, a `low` no newer. Zero-initialised: 0.
 */
struct duration_sum {
    _Atomic uint64_t low, high;
};

/* Adds `by`, which must be less than 2^126. One thread at a time. */
static inline void duration_sum_add(struct duration_sum *sum, duration by)
{
    uint64_t low, carry = (uint64_t)(by >> 64);
    carry += __builtin_add_overflow(atomic_load_explicit(&sum->low, memory_order_relaxed),
                                    (uint64_t)by, &low);
    if (likely(carry == 0)) {
        atomic_store_explicit(&sum->low, low, memory_order_release);
        return;
    }
    uint64_t high = atomic_load_explicit(&sum->high, memory_order_relaxed);
    atomic_store_explicit(&sum->high, high + 1, memory_order_release);
    atomic_store_explicit(&sum->low, low, memory_order_release);
    atomic_store_explicit(&sum->high, high + 2 * carry, memory_order_release);
}

/* Adds `times` times `ns`. One thread at a time. */
static inline void duration_sum_add_times(struct duration_sum *sum, uint64_t ns, uint64_t times)
{
    uint64_t by;
    if (likely(!__builtin_mul_overflow(ns, times, &by)))
        duration_sum_add(sum, by);
    else
        duration_sum_add(sum, (duration)ns * times);
}

/* The current sum. Never less than an earlier result. Any thread. */
static inline duration duration_sum_get(const struct duration_sum *sum)
{
    uint64_t high, low;
    do {
        high = atomic_load_explicit(&sum->high, memory_order_acquire);
        low = atomic_load_explicit(&sum->low, memory_order_acquire);
    } while (unlikely(high % 2 || high != atomic_load_explicit(&sum->high, memory_order_acquire)));
    return (duration)high << 63 | low;
}

#endif
