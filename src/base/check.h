/*
 * check.h - assertions that are always on, and hints for the compiler.
 *
 * CHECK catches our own bugs only. Use it for conditions that no peer, lack of memory or kernel
 * error can make false. Return an error code for those.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stddef.h>
#include <string.h>

/* The compiler warns about a caller that ignores the return value. */
#define MUST_USE __attribute__((warn_unused_result))

/*
 * The function takes printf arguments: the format is parameter `f`, the first value parameter `a`.
 */
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The struct of type `type` whose member `member` is at `ptr`. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/*
 * Casts const away without a compiler warning, for example to return a pointer to const as plain.
 */
static inline void *unconst(const void *object)
{
    void *same;
    memcpy(&same, &object, sizeof(same));
    return same;
}

/* Number of elements in an array. */
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Aborts the process with a message when `cond` is false. Always on. */
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (unlikely(!(cond)))                                                                     \
            check_failed(__FILE__, __LINE__, __func__, #cond);                                     \
    } while (0)

/* Writes the place and the condition to standard error and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *func, const char *cond);

#endif
