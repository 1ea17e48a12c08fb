/* line.c - see line.h. */
#include "proto/line.h"

#include "base/clock.h"

/* ---- Lengths --------------------------------------------------------------------------------- */

/* True when all eight bytes at `at` are above the space; takes 5 instructions. */
static bool eight_above_space(const uint8_t *at)
{
    const uint64_t each = 0x0101010101010101; /* times a byte: that byte eight times */
    uint64_t eight;
    memcpy(&eight, at, sizeof(eight));
    /* A borrow sets the top bit of each byte below '!', unless that bit was set before. */
    return ((eight - each * '!') & ~eight & each * 0x80) == 0;
}

/*
 * No byte above the space ends a word, and most words have only such bytes: checking eight at a
 * time takes 2 instructions per byte.
 */
size_t word_length(struct bytes in)
{
    size_t at = 0;
    while (in.len - at >= 8 && eight_above_space(in.data + at))
        at += 8;
    for (; at < in.len; at++) {
        uint8_t c = in.data[at];
        if (c <= ' ' && (c == ' ' || c == '\r' || c == '\n' || c == '\0'))
            break;
    }
    return at;
}

size_t line_length(struct bytes in)
{
    for (size_t at = 0; at < in.len; at++) {
        const uint8_t *end = memchr(in.data + at, '\n', in.len - at);
        if (!end)
            break;
        at = (size_t)(end - in.data);
        if (at > 0 && in.data[at - 1] == '\r')
            return at - 1;
    }
    return in.len;
}

/* ---- Writing --------------------------------------------------------------------------------- */

size_t out_length(const struct out *out)
{
    return out->full ? 0 : out->len;
}

size_t end_crlf(struct out *out)
{
    put_text(out, "\r\n");
    return out_length(out);
}

void put_bytes(struct out *out, struct bytes b)
{
    if (out->full || b.len > out->room - out->len) {
        out->full = true;
        return;
    }
    if (b.len > 0)
        memcpy(out->to + out->len, b.data, b.len);
    out->len += b.len;
}

void put_number(struct out *out, uint64_t value, size_t digits)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    uint8_t text[20];
    size_t at = sizeof(text);
    for (; value >= 10; value /= 100) /* two digits at a time, for fences and times */
        memcpy(&text[at -= 2], &pairs[value % 100 * 2], 2);
    if (value > 0)
        text[--at] = (uint8_t)('0' + value);
    while (sizeof(text) - at < digits)
        text[--at] = '0';
    put_bytes(out, bytes_at(text + at, sizeof(text) - at));
}

void put_seconds(struct out *out, int64_t ns)
{
    put_number(out, (uint64_t)ns / NS_PER_S, 1);
    uint64_t fraction = (uint64_t)ns % NS_PER_S;
    size_t digits = 9;
    if (fraction == 0)
        return;
    for (; fraction % 10 == 0; digits--)
        fraction /= 10;
    put_text(out, ".");
    put_number(out, fraction, digits);
}
