/*
 * duration.h - sums of times that 64 bits of nanoseconds are too few for, which one thread adds to
 * and any thread reads: no lock, no locked instruction.
 *
 * The low 64 bits carry over once in 584 years of what is added up. So the writer usually stores
 * the low half alone, and a reader finds the high half the same before and after it.
 */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdint.h>

/* Nanoseconds: 10^6 locks that are held for ten years are 2^78 of them. */
typedef unsigned __int128 duration;

/*
 * `high` is twice what lies above the 64 bits of `low`, and odd while both change. Each store is a
 * release and each load an acquire: so who finds an even `high` has a `low` that is not older, and
 * who finds it unchanged afterwards one that is not newer. Zero-initialised: 0.
 */
struct duration_sum {
    _Atomic uint64_t low, high;
};

/* Adds `by`, less than 2^126; only ever from one thread at a time. */
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

/* Adds `times` times `ns`. */
static inline void duration_sum_add_times(struct duration_sum *sum, uint64_t ns, uint64_t times)
{
    uint64_t by;
    if (likely(!__builtin_mul_overflow(ns, times, &by)))
        duration_sum_add(sum, by);
    else
        duration_sum_add(sum, (duration)ns * times);
}

/* What it is now: never less than it was before. Any thread. */
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
