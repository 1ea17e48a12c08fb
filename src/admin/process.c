/* process.c - see process.h and proc(5). */
#include "admin/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Not open: -1 and NULL. */
static int stat_fd = -1;
static DIR *fd_dir;
static double boot_seconds; /* when the machine was started, as unix time */

static double seconds_of(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void process_open(void)
{
    if (stat_fd < 0)
        stat_fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (!fd_dir)
        fd_dir = opendir("/proc/self/fd");
    boot_seconds = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME);
}

void process_close(void)
{
    if (stat_fd >= 0)
        close(stat_fd);
    if (fd_dir)
        closedir(fd_dir);
    stat_fd = -1;
    fd_dir = NULL;
}

/* The fields of /proc/self/stat that are wanted, by their numbers in proc(5). */
enum { UTIME = 14, STIME = 15, STARTTIME = 22, VSIZE = 23, RSS = 24, FIELDS };

static void read_stat(struct process *p)
{
    char text[1024];
    double fields[FIELDS] = {0};
    ssize_t len = stat_fd < 0 ? -1 : pread(stat_fd, text, sizeof(text) - 1, 0);
    if (len <= 0)
        return;
    text[len] = '\0';
    char *rest = strrchr(text, ')'); /* the second; the name in it may hold anything */
    if (!rest || strlen(rest) < 4)
        return;
    rest += 4; /* the third is a letter */
    for (int i = 4; i < FIELDS; i++)
        fields[i] = strtod(rest, &rest);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    p->cpu_seconds = (fields[UTIME] + fields[STIME]) / ticks;
    p->virtual_bytes = fields[VSIZE];
    p->resident_bytes = fields[RSS] * (double)sysconf(_SC_PAGESIZE);
    p->start_seconds = boot_seconds + fields[STARTTIME] / ticks;
}

/*
 * The size that a directory says it has; 0: none. With the kernel's own fstat: that of some C
 * libraries is newfstatat, which the sandbox refuses. Only where both have the same struct stat.
 */
static off_t size_of(int fd)
{
#if defined(SYS_fstat) && ((defined(__x86_64__) && defined(__LP64__)) || defined(__aarch64__))
    struct stat st;
    return syscall(SYS_fstat, fd, &st) == 0 ? st.st_size : 0;
#else
    (void)fd;
    return 0;
#endif
}

static double count_fds(void)
{
    if (!fd_dir)
        return NAN;
    off_t size = size_of(dirfd(fd_dir));
    if (size > 0)
        return (double)size; /* kernels from 6.2 on say it at once */
    double count = -2;       /* without "." and ".." */
    rewinddir(fd_dir);
    while (readdir(fd_dir)) // NOLINT(concurrency-mt-unsafe): nobody else reads this one
        count++;
    return count;
}

void process_read(struct process *process_r)
{
    *process_r = (struct process){NAN, NAN, NAN, NAN, NAN, NAN};
    read_stat(process_r);
    process_r->open_fds = count_fds();
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        process_r->max_fds = limit.rlim_cur == RLIM_INFINITY ? INFINITY : (double)limit.rlim_cur;
}
