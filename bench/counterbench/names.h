/*
 * names.h - the names in requests: all of one length, each ends in a number in hexadecimal digits.
 */
#ifndef COUNTERBENCH_NAMES_H
#define COUNTERBENCH_NAMES_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMES_DIGITS  8
#define NAMES_LONGEST 60000 /* leaves room for the rest of a request */

/* How many different names of `length` bytes there are. */
static inline uint64_t names_most(size_t length)
{
    return length < NAMES_DIGITS ? UINT64_C(1) << 4 * length : UINT64_C(1) << 32;
}

/* Writes only the digits: the last min(length, NAMES_DIGITS) bytes of a name that ends at `end`. */
static inline void names_write_digits(uint32_t number, uint8_t *end, size_t length)
{
    size_t digits = length < NAMES_DIGITS ? length : NAMES_DIGITS;
    for (size_t i = 0; i < digits; i++, number >>= 4)
        *--end = (uint8_t) "0123456789abcdef"[number & 15];
}

/* Writes name `number` in `length` bytes. */
static inline void names_write(uint32_t number, uint8_t *to, size_t length)
{
    static const char pattern[] = "counterbench.key";
    for (size_t i = 0; i < length; i++)
        to[i] = (uint8_t)pattern[i % (sizeof pattern - 1)];
    names_write_digits(number, to + length, length);
}

#endif
