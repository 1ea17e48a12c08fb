/*
 * check.h - assertions that are always on, and marks for the compiler.
 *
 * CHECK is for our own bugs: a condition that no peer, no lack of memory and no kernel error can
 * make false. Those get error codes.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stddef.h>
#include <string.h>

/* The caller has to look at what the function answers. */
#define MUST_USE __attribute__((warn_unused_result))

/* The function takes arguments as printf does: format at `f`, first value at `a`. */
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The struct of type `type` whose member `member` is at `ptr`. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* The same object, writable, for a function that takes a pointer to const and hands on another. */
static inline void *unconst(const void *object)
{
    void *same;
    memcpy(&same, &object, sizeof(same));
    return same;
}

/* How many elements an array has. */
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Ends the process with a message when `cond` is false. Always on. */
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (unlikely(!(cond)))                                                                     \
            check_failed(__FILE__, __LINE__, __func__, #cond);                                     \
    } while (0)

/* Writes where and what to standard error and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *func, const char *cond);

#endif
