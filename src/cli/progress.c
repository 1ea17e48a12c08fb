/*
 * progress.c - a line on the terminal that says how far a long work has come (progress.h).
 */
#include "cli/progress.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define EVERY_NS (NS_PER_S / 10)

void progress_show(struct progress *progress, const char *format, ...)
{
    va_list values;
    int64_t now = clock_mono_ns();
    if (!progress->is_known) {
        progress->is_known = true;
        progress->is_wanted =
            isatty(STDERR_FILENO) && (progress->is_silent || !isatty(STDOUT_FILENO));
        progress->next_ns = now + EVERY_NS; /* short works need none */
    }
    if (!progress->is_wanted || now < progress->next_ns)
        return;
    progress->next_ns = now + EVERY_NS;
    progress->is_shown = true;
    fputc('\r', stderr);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputs("\x1b[K", stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown)
        fputs("\r\x1b[K", stderr);
    progress->is_shown = false;
}
