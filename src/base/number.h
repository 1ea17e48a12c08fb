/*
 * number.h - parses numbers written in digits only: no sign, no blanks.
 *
 * Inline because each request of the text protocol has several numbers.
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"

/*
 * The value of a digit in `base` (at most 16, lower case). Returns `base` or more if it is no
 * digit.
 */
static inline unsigned number_digit(uint8_t byte, unsigned base)
{
    if (base > 10 && byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10u;
    unsigned digit = (unsigned)byte - '0'; /* 10 or more if the byte is none of '0' to '9' */
    return base <= 10 || digit < 10 ? digit : base;
}

/* The value of a hexadecimal digit in either case; 16 if it is none. */
static inline unsigned number_hex_digit(char c)
{
    return number_digit((uint8_t)(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c), 16);
}

/*
 * Reads the digits at *at, up to `end`, and moves *at behind them. If `end` is NULL, a byte that is
 * no digit must follow, as in a C string. *value_r becomes their value: 0 when there are no digits,
 * `max` when the number is larger. Returns false when it is larger than `max`.
 */
static inline bool number_scan(const uint8_t **at, const uint8_t *end, unsigned base, uint64_t max,
                               uint64_t *value_r)
{
    const uint8_t *p = *at;
    uint64_t value = 0;
    bool fits = true;
    for (unsigned digit; (!end || p < end) && (digit = number_digit(*p, base)) < base; p++) {
        /* The compiler drops both overflow checks when `max` is a small constant. */
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
 * Reads decimal seconds, with or without a fraction, at *at and moves *at behind them. A byte that
 * is neither a digit nor a dot must follow. Returns nanoseconds, rounded down and at most
 * `longest_s` seconds.
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

/*
 * Takes the digits at the front of *in. Returns false when there are none or the number exceeds
 * `max`.
 */
bool number_take_base(struct bytes *in, unsigned base, uint64_t max, uint64_t *value_r);

/* The same, in decimal. */
static inline bool number_take(struct bytes *in, uint64_t max, uint64_t *value_r)
{
    return number_take_base(in, 10, max, value_r);
}

/* True when all of `in` is one decimal number of at most `max`. */
bool number_parse(struct bytes in, uint64_t max, uint64_t *value_r) MUST_USE;

/* The same, but rejects leading zeros: the number must look as printf writes it. */
bool number_parse_plain(struct bytes in, uint64_t max, uint64_t *value_r) MUST_USE;

#endif
