/* names.c - the names in requests (names.h). */
#include "bench/counterbench/names.h"

uint64_t names_most(size_t length)
{
    return length < NAMES_DIGITS ? UINT64_C(1) << 4 * length : UINT64_C(1) << 32;
}

void names_write(uint32_t number, uint8_t *to, size_t length)
{
    static const char pattern[] = "counterbench.key";
    for (size_t i = 0; i < length; i++)
        to[i] = (uint8_t)pattern[i % (sizeof pattern - 1)];
    names_write_digits(number, to + length, length);
}
