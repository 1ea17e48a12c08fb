/*
 * tally.h - counters that one thread changes and any thread reads, without locks or locked
 * instructions.
 */
#ifndef BASE_TALLY_H
#define BASE_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t tally;

/* Adds `by`. One thread at a time. */
static inline void tally_add(tally *t, uint64_t by)
{
    atomic_store_explicit(t, atomic_load_explicit(t, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* Subtracts `by`. Same thread as tally_add. */
static inline void tally_sub(tally *t, uint64_t by)
{
    atomic_store_explicit(t, atomic_load_explicit(t, memory_order_relaxed) - by,
                          memory_order_relaxed);
}

/* The current value. Any thread. */
static inline uint64_t tally_get(const tally *t)
{
    return atomic_load_explicit(t, memory_order_relaxed);
}

#endif
