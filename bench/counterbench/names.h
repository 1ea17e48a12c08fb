/*
 * names.h - the names that are asked for: all of one length, told apart by a number in hexadecimal
 * digits at their end.
 */
#ifndef COUNTERBENCH_NAMES_H
#define COUNTERBENCH_NAMES_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMES_DIGITS  8
#define NAMES_LONGEST 60000 /* leaves room for the rest of a request */

/* The most names that can be told apart by names of `length` bytes. */
uint64_t names_most(size_t length);

/* Writes the whole of name `number` in `length` bytes. */
void names_write(uint32_t number, uint8_t *to, size_t length);

/* Writes the digits alone, the last min(length, NAMES_DIGITS) bytes of a name that ends at `end`.
 */
static inline void names_write_digits(uint32_t number, uint8_t *end, size_t length)
{
    size_t digits = length < NAMES_DIGITS ? length : NAMES_DIGITS;
    for (size_t i = 0; i < digits; i++, number >>= 4)
        *--end = (uint8_t) "0123456789abcdef"[number & 15];
}

#endif
