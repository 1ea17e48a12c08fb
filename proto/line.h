/*
 * line.h - private to the codecs of the text protocols: lengths of words and lines, and writing a
 * line.
 */
#ifndef PROTO_LINE_H
#define PROTO_LINE_H

#include "base/bytes.h"

/* A word ends at the first byte that it cannot have: space, CR, LF, NUL. Returns the length of the
 * word at the front of `in`. */
size_t word_length(struct bytes in);

/* Looks for "\r\n". Returns the length of what is before it, or `in.len` when it is not there. */
size_t line_length(struct bytes in);

/* A buffer to fill. When something does not fit, it becomes `full` and takes nothing more. */
struct out {
    uint8_t *to;
    size_t room;
    size_t len;
    bool full;
};

/* The number of bytes written; 0 when something did not fit. */
size_t out_length(const struct out *out);

/* Writes "\r\n". Returns the number of bytes written; 0 when something did not fit. */
size_t end_crlf(struct out *out);

void put_bytes(struct out *out, struct bytes b);

/* Inline: the compiler knows the length of a literal. */
static inline void put_text(struct out *out, const char *text)
{
    put_bytes(out, bytes_of(text));
}

static inline void put_byte(struct out *out, uint8_t byte)
{
    if (out->full || out->len == out->room)
        out->full = true;
    else
        out->to[out->len++] = byte;
}

/* Writes `value` in decimal, padded with zeros to `digits` (1 to 20). */
void put_number(struct out *out, uint64_t value, size_t digits);

/* Writes nanoseconds, not negative, as seconds with as few digits as possible. */
void put_seconds(struct out *out, int64_t ns);

#endif
