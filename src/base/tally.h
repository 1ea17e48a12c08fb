/*
 * tally.h - counts that one thread adds to and any thread reads: no lock, no locked instruction.
 */
#ifndef BASE_TALLY_H
#define BASE_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t tally;

/* Adds `by`; only ever from one thread at a time. */
static inline void tally_add(tally *t, uint64_t by)
{
    atomic_store_explicit(t, atomic_load_explicit(t, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* Takes `by` off; from the same thread as tally_add. */
static inline void tally_sub(tally *t, uint64_t by)
{
    atomic_store_explicit(t, atomic_load_explicit(t, memory_order_relaxed) - by,
                          memory_order_relaxed);
}

/* What it is now. Any thread. */
static inline uint64_t tally_get(const tally *t)
{
    return atomic_load_explicit(t, memory_order_relaxed);
}

#endif
