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
uint64_t names_most(size_t length);

/* Writes name `number` in `length` bytes. */
void names_write(uint32_t number, uint8_t *to, size_t length);

/* Writes only the digits: the last min(length, NAMES_DIGITS) bytes of a name that ends at `end`. */
static inline void names_write_digits(uint32_t number, uint8_t *end, size_t length)
{
    size_t digits = length < NAMES_DIGITS ? length : NAMES_DIGITS;
    for (size_t i = 0; i < digits; i++, number >>= 4)
        *--end = (uint8_t) "0123456789abcdef"[number & 15];
}

#endif
