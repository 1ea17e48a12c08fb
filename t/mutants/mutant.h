/*
 * mutant.h - included before each file of the copy that generate.py makes. The variable
 * COUNTERD_MUTANT of the environment switches one mutant on; COUNTERD_MUTANT_SEEN names a file with
 * a byte for each, which becomes 1 when a process comes to its place. The file is mapped, so that
 * it is true of killed processes, too. No header is included: config.h comes first in a file.
 */
#ifndef MUTANT_H
#define MUTANT_H

#define MUTANT_WEAK    __attribute__((weak, visibility("hidden")))
#define MUTANT_NO_SAN  __attribute__((no_sanitize("address", "thread", "undefined")))
#define MUTANT_MAP_LEN 4096

MUTANT_WEAK int mutant_on;
MUTANT_WEAK unsigned char *mutant_seen;

extern char *getenv(const char *);
extern int atoi(const char *);
extern int open(const char *, int, ...);
extern int close(int);
extern void *mmap(void *, unsigned long, int, int, int, long);

MUTANT_WEAK __attribute__((constructor)) MUTANT_NO_SAN void mutant_begin(void)
{
    const char *on = getenv("COUNTERD_MUTANT"), *path = getenv("COUNTERD_MUTANT_SEEN");
    mutant_on = on ? atoi(on) : -1;
    if (!path || mutant_seen)
        return;
    int fd = open(path, 2 /* O_RDWR */);
    if (fd < 0)
        return;
    void *map = mmap((void *)0, MUTANT_MAP_LEN, 3 /* read, write */, 1 /* shared */, fd, 0);
    if (map != (void *)-1)
        mutant_seen = map;
    close(fd);
}

/* 1 if mutant `n` is on. */
static inline MUTANT_NO_SAN int mutant(int n)
{
    if (__builtin_expect(mutant_seen != (unsigned char *)0, 0))
        mutant_seen[n] = 1;
    return __builtin_expect(mutant_on == n, 0);
}

#endif
