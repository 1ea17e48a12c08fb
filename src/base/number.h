/*
 * number.h - reading numbers that are written in digits: nothing but digits, no sign, no blanks.
 *
 * Here to be compiled into their callers: each request of the text protocol has several.
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"

/* What a byte is worth as a digit in `base` (at most 16, letters small); `base` or more: it is
 * none. */
static inline unsigned number_digit(uint8_t byte, unsigned base)
{
    if (base > 10 && byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10u;
    return byte >= '0' && byte <= '9' ? byte - '0' + 0u : base;
}

/* What a character is worth as a hexadecimal digit, small or not; 16: it is none. */
static inline unsigned number_hex_digit(char c)
{
    return number_digit((uint8_t)(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c), 16);
}

/*
 * Reads the digits at *at, up to `end`, and moves *at behind them. Without `end` (NULL), a byte
 * that is no digit must follow them, as it does in a C string. *value_r is their value: 0 where
 * there are none, `max` where it is above that. False: it is above `max`.
 */
static inline bool number_scan(const uint8_t **at, const uint8_t *end, unsigned base, uint64_t max,
                               uint64_t *value_r)
{
    const uint8_t *p = *at;
    uint64_t value = 0;
    bool fits = true;
    for (unsigned digit; (!end || p < end) && (digit = number_digit(*p, base)) < base; p++) {
        /* The first two are left out by the compiler where `max` is a small constant. */
        if (unlikely(__builtin_mul_overflow(value, (uint64_t)base, &value) ||
                     __builtin_add_overflow(value, (uint64_t)digit, &value) || value > max)) {
            do
                p++;
            while ((!end || p < end) && number_digit(*p, base) < base);
            value = max;
            fits = false;
            break;
        }
    }
    *at = p;
    *value_r = value;
    return fits;
}

/*
 * Reads decimal seconds with or without a fraction at *at, which a byte that is neither a digit nor
 * a dot follows, and moves *at behind them. Returns nanoseconds, of which more than `longest_s`
 * seconds are cut, and so is what is below one.
 */
static inline int64_t number_scan_seconds(const uint8_t **at, uint64_t longest_s)
{
    uint64_t seconds, ns = 0;
    (void)number_scan(at, NULL, 10, longest_s, &seconds);
    if (**at == '.') {
        uint64_t scale = NS_PER_S / 10;
        for (++*at; number_digit(**at, 10) < 10; ++*at) {
            ns += number_digit(**at, 10) * scale;
            scale /= 10;
        }
    }
    return (int64_t)(seconds * NS_PER_S + (seconds < longest_s ? ns : 0));
}

/* Takes the digits at the front of *in. False: there are none, or they are above `max`. */
bool number_take_base(struct bytes *in, unsigned base, uint64_t max, uint64_t *value_r);

/* The same in decimal. */
static inline bool number_take(struct bytes *in, uint64_t max, uint64_t *value_r)
{
    return number_take_base(in, 10, max, value_r);
}

/* Whether all of `in` is one decimal number, at most `max`. */
bool number_parse(struct bytes in, uint64_t max, uint64_t *value_r) MUST_USE;

/* The same, with no zeros in front: as printf writes it. */
bool number_parse_plain(struct bytes in, uint64_t max, uint64_t *value_r) MUST_USE;

#endif
