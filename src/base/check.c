/*
 * check.c - prints a failed CHECK and aborts.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void check_failed(const char *file, int line, const char *func, const char *cond)
{
    /* Uses neither stdio nor the log: the failing thread may hold their locks. */
    char text[512];
    int len = snprintf(text, sizeof text, "%s:%d: %s: check failed: %s\n", file, line, func, cond);
    if (len > 0) {
        size_t size = (size_t)len < sizeof text ? (size_t)len : sizeof text - 1;
        ssize_t written = write(STDERR_FILENO, text, size);
        (void)written;
    }
    abort();
}
