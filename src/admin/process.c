/* process.c - see process.h and proc(5). */
#include "admin/process.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the beginning of a file as text; false: it can't be. */
static bool read_text(const char *path, char *to, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t len = fread(to, 1, size - 1, file);
    to[len] = '\0';
    fclose(file);
    return len > 0;
}

/* When the machine was started, as unix time. */
static double boot_seconds(void)
{
    static const char word[] = "btime ";
    FILE *file = fopen("/proc/stat", "re");
    char line[256];
    double boot = NAN;
    while (file && isnan(boot) && fgets(line, sizeof(line), file)) {
        if (strncmp(line, word, sizeof(word) - 1) == 0)
            boot = strtod(line + sizeof(word) - 1, NULL);
    }
    if (file)
        fclose(file);
    return boot;
}

/* The fields of /proc/self/stat that are wanted, by their numbers in proc(5). */
enum { UTIME = 14, STIME = 15, STARTTIME = 22, VSIZE = 23, RSS = 24, FIELDS };

static void read_stat(struct process *p)
{
    char text[1024];
    double fields[FIELDS] = {0};
    if (!read_text("/proc/self/stat", text, sizeof(text)))
        return;
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
    p->start_seconds = boot_seconds() + fields[STARTTIME] / ticks;
}

static double count_fds(void)
{
    struct stat st;
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (double)st.st_size; /* kernels from 6.2 on say it at once */
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return NAN;
    double count = -3;   /* without ".", ".." and the one that lists them */
    while (readdir(dir)) // NOLINT(concurrency-mt-unsafe): nobody else reads this one
        count++;
    closedir(dir);
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
