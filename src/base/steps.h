/*
 * steps.h - a budget of work for each time that a thread holds a lock, and for each iteration of
 * an event loop (those of the workers, of the store's thread and of the admin interface). Work is
 * steps, each a basic block of our code, and bytes of memory that are allocated. Builds with
 * sanitizers count steps (the compiler calls __sanitizer_cov_trace_pc in each), those with
 * AddressSanitizer bytes too, and abort when there are more than the budget, which they do in every
 * test. In other builds this is nothing.
 */
#ifndef BASE_STEPS_H
#define BASE_STEPS_H

#include "base/lock_rank.h"

#include <stdint.h>

/* What has a budget: locks, by their rank, and an iteration of a loop. */
enum { STEPS_LOOP = LOCK_RANK_COUNT, STEPS_KINDS };

#ifdef COUNT_STEPS
/* What this thread has done, and had done when each kind of work began. */
struct steps {
    uint64_t steps, bytes;
};
extern _Thread_local struct steps steps_done, steps_at_begin[STEPS_KINDS];
/* Aborts, and says on standard error which budget of how much was exceeded. */
void steps_end(unsigned kind);
#endif

/* This thread begins work of a kind, which steps_end ends. Again: it begins anew. */
static inline void steps_begin(unsigned kind)
{
#ifdef COUNT_STEPS
    steps_at_begin[kind] = steps_done;
#else
    (void)kind;
#endif
}

/* The work under way has no budget: at a start, an upgrade or in a check of tests nobody waits. */
static inline void steps_unbounded(unsigned kind)
{
#ifdef COUNT_STEPS
    steps_at_begin[kind].steps = UINT64_MAX;
#else
    (void)kind;
#endif
}

#ifndef COUNT_STEPS
static inline void steps_end(unsigned kind)
{
    (void)kind;
}
#endif

#endif
