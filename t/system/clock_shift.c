/*
 * clock_shift.c - preloaded into a program, it shifts the clocks that this sees: the wall clock,
 * and those that count from the boot, by the two numbers of nanoseconds (int64_t) in
 * CLOCK_SHIFT_FILE.
 *
 * The file is mapped, so a test sets clocks while the program runs, and no thread needs another
 * system call than its own.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

static const volatile int64_t *shifts; /* of the wall clock, of the others; NULL: none */

__attribute__((constructor)) static void map_shifts(void)
{
    const char *path = getenv("CLOCK_SHIFT_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, 2 * sizeof *shifts, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        shifts = mapped;
}

/* The shift of a clock; 0 for those of processes and threads. */
static int64_t shift_of(clockid_t clock)
{
    if (!shifts)
        return 0;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
        return shifts[0];
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        return shifts[1];
    default:
        return 0;
    }
}

int clock_gettime(clockid_t clock, struct timespec *time_r)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time_r);
    int64_t shift = shift_of(clock);
    if (result == 0 && shift != 0) {
        int64_t ns = time_r->tv_nsec + shift % NS_PER_S;
        time_r->tv_sec += shift / NS_PER_S + (ns >= NS_PER_S) - (ns < 0);
        time_r->tv_nsec = ns >= NS_PER_S ? ns - NS_PER_S : ns < 0 ? ns + NS_PER_S : ns;
    }
    return result;
}

int gettimeofday(struct timeval *time_r, void *zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *time_r = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *time_r)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (time_r)
        *time_r = now.tv_sec;
    return now.tv_sec;
}
