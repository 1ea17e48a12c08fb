/*
 * faults.h - refuses memory to libcounter. For a test program of one file, linked with
 * the --wrap options of local.mk, which puts these functions before those of the C library.
 */
#ifndef LIB_FAULTS_H
#define LIB_FAULTS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Every allocation decrements it; the one that finds 1 fails. 0: none fails. */
static unsigned long fault_countdown;
/* Or: decides which ones fail. */
static bool (*fault_dice)(void);
static unsigned long faults; /* refused */
static long fault_pieces;    /* taken and not given back */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_reallocarray(void *at, size_t count, size_t size);
void __real_free(void *at);
void __wrap_free(void *at);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);

static inline bool fault_now(void)
{
    if (fault_countdown == 0 && !fault_dice)
        return false;
    bool now = fault_dice ? fault_dice() : --fault_countdown == 0;
    faults += now;
    if (now)
        errno = ENOMEM;
    return now;
}

static inline void *fault_taken(void *at)
{
    fault_pieces += at != NULL;
    return at;
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

void __wrap_free(void *at)
{
    fault_pieces -= at != NULL;
    __real_free(at);
}

char *__wrap_strndup(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    char *copy = __wrap_malloc(len + 1);
    if (!copy)
        return NULL;
    copy[len] = '\0';
    return memcpy(copy, text, len);
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, strlen(text));
}

#endif
