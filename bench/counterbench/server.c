/* server.c - CPU time and memory of the server's process (server.h). */
#include "bench/counterbench/server.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t server_cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return used.tv_sec * NS_PER_S + used.tv_nsec;
}

static FILE *open_file(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    return fopen(path, "re");
}

/* Reads user and system time. They stand after the name, which may contain anything. */
static bool read_times(pid_t pid, struct server_state *state_r)
{
    char line[1024];
    FILE *file = open_file(pid, "stat");
    if (!file)
        return false;
    char *got = fgets(line, sizeof line, file);
    fclose(file);
    const char *behind = got ? strrchr(line, ')') : NULL;
    unsigned long long user = 0, system = 0;
    /* NOLINTNEXTLINE(cert-err34-c): what the kernel writes is a number */
    if (!behind || sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                          &system) != 2)
        return false;
    long hertz = sysconf(_SC_CLK_TCK);
    state_r->user_us = (int64_t)user * 1000000 / hertz;
    state_r->system_us = (int64_t)system * 1000000 / hertz;
    return true;
}

/* The number of kibibytes after a label in a file; -1: not found. */
static int64_t read_kib(pid_t pid, const char *name, const char *label)
{
    char line[256];
    unsigned long long kib = 0;
    bool found = false;
    FILE *file = open_file(pid, name);
    if (!file)
        return -1;
    while (!found && fgets(line, sizeof line, file))
        found = strncmp(line, label, strlen(label)) == 0 &&
                /* NOLINTNEXTLINE(cert-err34-c): what the kernel writes is a number */
                sscanf(line + strlen(label), "%llu", &kib) == 1;
    fclose(file);
    return found ? (int64_t)kib : -1;
}

/* Reads the resident memory from smaps_rollup, which counts pages; `status` may be hundreds off. */
static bool read_rss(pid_t pid, struct server_state *state_r)
{
    int64_t kib = read_kib(pid, "smaps_rollup", "Rss:");
    if (kib < 0)
        kib = read_kib(pid, "status", "VmRSS:");
    state_r->rss = kib * 1024;
    return kib >= 0;
}

bool server_look(pid_t pid, struct server_state *state_r)
{
    *state_r = (struct server_state){.cpu_ns = server_cpu_ns(pid)};
    return state_r->cpu_ns > 0 && read_times(pid, state_r) && read_rss(pid, state_r);
}

int64_t server_settle(pid_t pid, int64_t patience_ns)
{
    const struct timespec pause = {.tv_nsec = 2 * NS_PER_MS};
    int64_t until = clock_mono_ns() + patience_ns;
    int64_t before = server_cpu_ns(pid);
    for (;;) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        int64_t used = server_cpu_ns(pid);
        if (used == before || clock_mono_ns() >= until)
            return used;
        before = used;
    }
}
