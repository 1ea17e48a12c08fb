/*
 * steps.c - see steps.h.
 */
#include "base/steps.h"

#ifdef COUNT_STEPS

#include "base/check.h"
#include "base/lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Thread_local uint64_t steps_counted, steps_at_begin[STEPS_KINDS];

static const struct budget {
    const char *what;
    uint64_t steps;
} budgets[STEPS_KINDS] = {
    [LOCK_RANK_JOBS] = {"under the lock of jobs", 4000000},
    [LOCK_RANK_POOLS] = {"under the lock of pools", 1000000},
    [LOCK_RANK_SHARD] = {"under the lock of a shard", 1000000},
    [LOCK_RANK_ARENA] = {"under the lock of the arena", 1000000},
    [LOCK_RANK_SOURCES] = {"under the lock of sources", 1000000},
    [LOCK_RANK_RIGHTS] = {"under the lock of rights", 1000000},
    [STEPS_LOOP] = {"in an iteration of a loop", 5000000},
};

_Static_assert((unsigned)STEPS_LOOP == (unsigned)LOCK_RANK_COUNT, "the ranks of locks come first");

/* The compiler calls it in each basic block. */
void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
    steps_counted++;
}

void steps_end(unsigned kind)
{
    uint64_t begin = steps_at_begin[kind], steps = steps_counted - begin;
    if (begin == UINT64_MAX || steps <= budgets[kind].steps)
        return;
    char text[200];
    int len = snprintf(text, sizeof(text),
                       "%" PRIu64 " steps %s; their budget is %" PRIu64 " (src/base/steps.c)\n",
                       steps, budgets[kind].what, budgets[kind].steps);
    (void)!write(STDERR_FILENO, text, (size_t)len);
    abort();
}

#endif
