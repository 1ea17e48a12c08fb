/*
 * steps.c - see steps.h.
 */
#include "base/steps.h"

#ifdef COUNT_STEPS

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Thread_local struct steps steps_done, steps_at_begin[STEPS_KINDS];

static const struct budget {
    const char *what;
    struct steps most;
} budgets[STEPS_KINDS] = {
    [LOCK_RANK_JOBS] = {"under the lock of jobs", {4000000, 8 << 20}},
    [LOCK_RANK_POOLS] = {"under the lock of pools", {2000000, 4 << 20}},
    [LOCK_RANK_SHARD] = {"under the lock of a shard", {1000000, 1 << 20}},
    [LOCK_RANK_ARENA] = {"under the lock of the arena", {1000000, 1 << 20}},
    [LOCK_RANK_SOURCES] = {"under the lock of sources", {1000000, 1 << 20}},
    [LOCK_RANK_RIGHTS] = {"under the lock of rights", {1000000, 1 << 20}},
    [STEPS_LOOP] = {"in an iteration of a loop", {5000000, 64 << 20}},
};

/* The compiler calls it in each basic block. */
void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
    steps_done.steps++;
}

#ifdef __SANITIZE_ADDRESS__
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *at, size_t size)
{
    (void)at;
    steps_done.bytes += size;
}

static void on_free(const volatile void *at)
{
    (void)at;
}

__attribute__((constructor)) static void count_bytes(void)
{
    CHECK(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0);
}
#endif

static void compare(const char *what, const char *unit, uint64_t done, uint64_t most)
{
    char text[200];
    if (done <= most)
        return;
    int len = snprintf(text, sizeof(text),
                       "%" PRIu64 " %s %s; their budget is %" PRIu64 " (src/base/steps.c)\n", done,
                       unit, what, most);
    (void)!write(STDERR_FILENO, text, (size_t)len);
    abort();
}

void steps_end(unsigned kind)
{
    const struct steps *begin = &steps_at_begin[kind];
    const struct budget *budget = &budgets[kind];
    if (begin->steps == UINT64_MAX)
        return;
    compare(budget->what, "steps", steps_done.steps - begin->steps, budget->most.steps);
    compare(budget->what, "bytes", steps_done.bytes - begin->bytes, budget->most.bytes);
}

#endif
