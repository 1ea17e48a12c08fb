/*
 * location.c - see location.h.
 *
 * A process that exists is found with sched_getaffinity: it says ESRCH in the same cases as kill
 * with signal 0, and every sandboxed thread may call it. /proc would not do, because it may hide
 * the processes of other users.
 */
#include "cluster/location.h"

#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define BOOT_DIGITS 32u

/* Room for the processors of any machine: with less the kernel refuses to say. */
#define AFFINITY_SIZE 8192u

const char *const location_reads[] = {"/proc", NULL};

/* ---- /proc ----------------------------------------------------------------------------------- */

/* Reads a small file into `to`, null-terminated. Returns false when it can't be read. */
static bool read_file(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    ssize_t n;
    do {
        n = read(fd, to, size - 1);
    } while (n < 0 && errno == EINTR);
    close(fd);
    to[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* When a process started, field 22 of its stat file; 0: unreadable. Field 2, the program's name in
 * parentheses, may hold any bytes, so the fields are counted from the last parenthesis. */
static uint64_t start_of(const char *pid)
{
    char path[64], text[1024];
    uint64_t start = 0;
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    if (!read_file(path, text, sizeof(text)))
        return 0;
    const char *at = strrchr(text, ')');
    for (unsigned field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    const char *end = at ? strchr(at, ' ') : NULL;
    if (!end || !number_parse_plain(bytes_at(at, (size_t)(end - at)), UINT64_MAX, &start))
        return 0;
    return start;
}

/* True if /proc shows the pid namespace of this process: its own entry has the pid that it has. */
static bool proc_is_ours(void)
{
    char link[32], own[32];
    ssize_t n = readlink("/proc/self", link, sizeof(link) - 1);
    link[n > 0 ? n : 0] = '\0';
    snprintf(own, sizeof(own), "%d", (int)getpid());
    return strcmp(link, own) == 0;
}

/* True if start times are shown as they are, and not shifted for a time namespace. Kernels without
 * time namespaces have no such file. */
static bool times_are_plain(void)
{
    char text[256];
    if (!read_file("/proc/self/timens_offsets", text, sizeof(text)))
        return errno == ENOENT;
    const char *line = strstr(text, "boottime");
    if (!line)
        return false;
    line += strlen("boottime");
    line += strspn(line, " \t0"); /* seconds and nanoseconds */
    return *line == '\n' || *line == '\0';
}

/* The number of this process's pid namespace; 0: unknown. */
static uint64_t pid_namespace(void)
{
    char link[64];
    uint64_t number = 0;
    ssize_t n = readlink("/proc/self/ns/pid", link, sizeof(link));
    struct bytes in = bytes_at(link, n > 0 ? (size_t)n : 0);
    if (!bytes_take_text(&in, "pid:[") || !number_take(&in, UINT64_MAX, &number) ||
        !bytes_equal(in, bytes_of("]")))
        return 0;
    return number;
}

/* ---- boot id --------------------------------------------------------------------------------- */

/* Takes the 32 digits of a boot id, with or without dashes. Returns false when it is none. */
static bool take_boot_id(const char *text, char *to)
{
    unsigned len = 0;
    for (; *text && *text != '\n'; text++) {
        if (*text == '-')
            continue;
        if (len == BOOT_DIGITS || number_digit((uint8_t)*text, 16) >= 16)
            return false;
        to[len++] = *text;
    }
    to[len] = '\0';
    return len == BOOT_DIGITS;
}

static bool read_boot_id(char *to)
{
    char text[64];
    if (read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)))
        return take_boot_id(text, to);
    const char *given = getenv(LOCATION_VARIABLE); // NOLINT(concurrency-mt-unsafe): nobody sets it
    return given && take_boot_id(given, to);
}

static void make_random_id(char *to)
{
    uint64_t half[2];
    CHECK(getrandom(half, sizeof(half), 0) == (ssize_t)sizeof(half));
    snprintf(to, BOOT_DIGITS + 1, "%016llx%016llx", (unsigned long long)half[0],
             (unsigned long long)half[1]);
}

/* ---- public ---------------------------------------------------------------------------------- */

void location_read(struct location *own_r)
{
    char boot[BOOT_DIGITS + 1];
    uint64_t space = pid_namespace();
    if (space == 0 || !read_boot_id(boot))
        make_random_id(boot);
    *own_r = (struct location){.knows_starts = proc_is_ours() && times_are_plain()};
    int len =
        snprintf(own_r->text, sizeof(own_r->text), "%s/%llu/", boot, (unsigned long long)space);
    own_r->mine_len = (size_t)len;
    uint64_t start = own_r->knows_starts ? start_of("self") : 0;
    snprintf(own_r->text + len, sizeof(own_r->text) - (size_t)len, "%d/%llu", (int)getpid(),
             (unsigned long long)start);
}

/* True if no process of this namespace has the pid. */
static bool is_nobody(pid_t pid)
{
    unsigned long mask[AFFINITY_SIZE / sizeof(unsigned long)];
    return sched_getaffinity(pid, sizeof(mask), (cpu_set_t *)mask) != 0 && errno == ESRCH;
}

bool location_is_gone(const struct location *own, struct bytes text)
{
    uint64_t pid, start;
    char number[32];
    struct bytes in = text;
    if (!bytes_begin_with(in, bytes_at(own->text, own->mine_len)))
        return false;
    (void)bytes_take(&in, own->mine_len);
    if (!number_take(&in, INT_MAX, &pid) || pid == 0 || !bytes_take_text(&in, "/") ||
        !number_parse_plain(in, UINT64_MAX, &start))
        return false;
    if (is_nobody((pid_t)pid))
        return true;
    if (!own->knows_starts || start == 0)
        return false;
    snprintf(number, sizeof(number), "%llu", (unsigned long long)pid);
    uint64_t is = start_of(number);
    return is != 0 && is != start;
}
