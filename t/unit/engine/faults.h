/*
 * faults.h - failing allocations on demand, between the engine and its sources of memory.
 *
 * For a test program of one file, linked with --wrap for each function below (fault_wraps in
 * local.mk). Without these flags it links as well, but nothing ever fails, and the tests say so.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include "engine/arena.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

/* Every allocation decrements it; the one that finds 1 fails. 0: none fails. */
static unsigned long fault_countdown;
/* Alternative to the countdown: decides at random which allocations fail. */
static bool (*fault_dice)(void);
/* The number of failed allocations. */
static unsigned long faults;

/* While true, counts the pieces taken from the C library and not given back. */
static bool fault_counting;
static long fault_pieces;

/* True if these system calls fail. */
static bool fail_mmap, fail_mprotect, fail_madvise;

static inline bool fault_now(void)
{
    /* Without requested faults this writes nothing, because other threads may run here. */
    if (fault_countdown == 0 && !fault_dice)
        return false;
    bool refused = fault_dice ? fault_dice() : --fault_countdown == 0;
    faults += refused;
    if (refused)
        errno = ENOMEM;
    return refused;
}

static inline void *fault_taken(void *at)
{
    if (fault_counting && at)
        fault_pieces++;
    return at;
}

/* Weak, so that a program linked without the flags links. */
#define WEAK __attribute__((weak))
ref_t __real_slab_alloc(struct slab *slab, size_t size) WEAK;
ref_t __wrap_slab_alloc(struct slab *slab, size_t size);
uint32_t __real_arena_page_take(struct arena *arena) WEAK;
uint32_t __wrap_arena_page_take(struct arena *arena);
bool __real_arena_charge(struct arena *arena, size_t bytes) WEAK;
bool __wrap_arena_charge(struct arena *arena, size_t bytes);
void *__real_malloc(size_t size) WEAK;
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size) WEAK;
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size) WEAK;
void *__wrap_realloc(void *at, size_t size);
void *__wrap_reallocarray(void *at, size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size) WEAK;
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *at) WEAK;
void __wrap_free(void *at);
char *__wrap_strdup(const char *text);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset) WEAK;
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __real_mprotect(void *at, size_t len, int prot) WEAK;
int __wrap_mprotect(void *at, size_t len, int prot);
int __real_madvise(void *at, size_t len, int advice) WEAK;
int __wrap_madvise(void *at, size_t len, int advice);

ref_t __wrap_slab_alloc(struct slab *slab, size_t size)
{
    return fault_now() ? 0 : __real_slab_alloc(slab, size);
}

uint32_t __wrap_arena_page_take(struct arena *arena)
{
    return fault_now() ? 0 : __real_arena_page_take(arena);
}

bool __wrap_arena_charge(struct arena *arena, size_t bytes)
{
    return fault_now() ? false : __real_arena_charge(arena, bytes);
}

void *__wrap_malloc(size_t size)
{
    return fault_now() ? NULL : fault_taken(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fault_now() ? NULL : fault_taken(__real_calloc(count, size));
}

void *__wrap_realloc(void *at, size_t size)
{
    if (fault_now())
        return NULL;
    void *to = __real_realloc(at, size);
    return at ? to : fault_taken(to);
}

void *__wrap_reallocarray(void *at, size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : __wrap_realloc(at, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fault_now() ? NULL : fault_taken(__real_aligned_alloc(alignment, size));
}

char *__wrap_strdup(const char *text)
{
    char *copy = __wrap_malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

void __wrap_free(void *at)
{
    if (fault_counting && at)
        fault_pieces--;
    __real_free(at);
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (!fail_mmap)
        return __real_mmap(at, len, prot, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int __wrap_mprotect(void *at, size_t len, int prot)
{
    if (!fail_mprotect)
        return __real_mprotect(at, len, prot);
    errno = ENOMEM;
    return -1;
}

int __wrap_madvise(void *at, size_t len, int advice)
{
    if (!fail_madvise)
        return __real_madvise(at, len, advice);
    errno = EAGAIN;
    return -1;
}

#endif
