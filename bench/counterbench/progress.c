/* progress.c - the progress bar (progress.h). */
#include "bench/counterbench/progress.h"

#include "base/clock.h"
#include "bench/counterbench/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define WIDTH    30
#define EVERY_NS (200 * NS_PER_MS)

void progress_start(struct progress *progress, bool quiet)
{
    *progress = (struct progress){.is_shown = !quiet && isatty(STDERR_FILENO)};
}

/* The share of the time from `begin` to `end` that has passed, 0 to 1. */
static double share_of(int64_t begin, int64_t end, int64_t now)
{
    if (end <= begin || now <= begin)
        return 0;
    return now >= end ? 1 : (double)(now - begin) / (double)(end - begin);
}

void progress_show(struct progress *progress, struct run *run, const char *doing)
{
    int64_t now = clock_mono_ns();
    if (!progress->is_shown || now - progress->shown_ns < EVERY_NS)
        return;
    uint64_t requests = 0;
    for (unsigned i = 0; i < run->driver_count; i++)
        requests += atomic_load_explicit(&run->drivers[i].shown, memory_order_relaxed);
    int64_t until_ns = run_until(run);
    double share = until_ns == RUN_NO_LIMIT ? 0 : share_of(run->begin_ns, until_ns, now);
    double passed = (double)(now - progress->shown_ns) / (double)NS_PER_S;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < (int)(share * WIDTH) ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r\x1b[K%s [%s] %3.0f %%", doing, bar, share * 100);
    if (progress->shown_ns > 0 && requests > progress->requests)
        fprintf(stderr, "  %.0f requests/s", (double)(requests - progress->requests) / passed);
    fflush(stderr);
    progress->requests = requests;
    progress->shown_ns = now;
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown && progress->shown_ns > 0)
        fputs("\r\x1b[K", stderr);
    progress->is_shown = false;
}
