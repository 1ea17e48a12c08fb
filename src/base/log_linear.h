/*
 * log_linear.h - classes of numbers that are about equally wide, relative to the numbers. A class
 * has the numbers with the same `bits` + 1 leading bits: numbers below 2^(bits + 1) have a class
 * each, and from there on each power of two has 2^bits of them.
 */
#ifndef BASE_LOG_LINEAR_H
#define BASE_LOG_LINEAR_H

#include <stddef.h>
#include <stdint.h>

/* The number of classes of all numbers below 2^log. */
#define LOG_LINEAR_CLASSES(bits, log) ((size_t)((log) - (bits) + 1) << (bits))

/* The class of a number. */
static inline size_t log_linear_class(uint64_t number, unsigned bits)
{
    unsigned shift = 63 - (unsigned)__builtin_clzll(number | UINT64_C(1) << bits) - bits;
    /* `number >> shift` still has the leading bit, which counts the powers of two. */
    return ((size_t)shift << bits) + (size_t)(number >> shift);
}

/* The least number of a class, and how many numbers it has. */
static inline uint64_t log_linear_least(size_t class_index, unsigned bits)
{
    size_t shift = class_index >> bits ? (class_index >> bits) - 1 : 0;
    return (uint64_t)(class_index - (shift << bits)) << shift;
}

static inline uint64_t log_linear_width(size_t class_index, unsigned bits)
{
    return UINT64_C(1) << (class_index >> bits ? (class_index >> bits) - 1 : 0);
}

#endif
