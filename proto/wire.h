/*
 * wire.h - what every codec shares: the results of parsing and bounds-checked integers.
 *
 * A codec does no I/O, reads no clock and allocates nothing. A parser looks at the bytes received
 * so far and answers one of: a whole message (and how many bytes it took), "need more" (and how
 * many bytes at least the message has, when it can be told), or one specific error. A composer
 * writes a whole message into the caller's buffer; where it does not fit it answers 0, and what the
 * buffer then holds is of no use.
 *
 * Parsed messages point into the bytes they were parsed from: they are valid as long as those are.
 */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A run of bytes that somebody else owns. Not terminated; may hold any byte. */
struct bytes {
    const uint8_t *data;
    size_t len;
};

/* The bytes of a literal, their number found by the compiler. */
#define WIRE_TEXT(literal)                                                                         \
    {                                                                                              \
        .data = (const uint8_t *)(literal), .len = sizeof(literal) - 1                             \
    }

/*
 * A reader that never runs past its end: the first read that would sets `failed`, and from then on
 * every read answers zero. Parse straight through and look at `failed` once.
 */
struct wire_reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

/* Starts reading at `data`, `len` bytes. */
static inline struct wire_reader wire_reader_of(const uint8_t *data, size_t len)
{
    return (struct wire_reader){.at = data, .left = len};
}

/* Takes the next `len` bytes; NULL (and `failed`) where there are not as many. */
static inline const uint8_t *wire_take(struct wire_reader *r, size_t len)
{
    if (r->failed || len > r->left) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += len;
    r->left -= len;
    return at;
}

/* The big-endian integer at `at`. */
static inline uint16_t wire_load_u16(const uint8_t *at)
{
    return (uint16_t)((at[0] << 8) | at[1]);
}

/* The big-endian integer at `at`. */
static inline uint32_t wire_load_u32(const uint8_t *at)
{
    return ((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | at[3];
}

/* The next big-endian integer; 0 (and `failed`) past the end. */
static inline uint16_t wire_take_u16(struct wire_reader *r)
{
    const uint8_t *at = wire_take(r, 2);
    return at ? wire_load_u16(at) : 0;
}

/* The next big-endian integer; 0 (and `failed`) past the end. */
static inline uint32_t wire_take_u32(struct wire_reader *r)
{
    const uint8_t *at = wire_take(r, 4);
    return at ? wire_load_u32(at) : 0;
}

/* Stores `v` big-endian at `to`; returns the first byte after it. */
static inline uint8_t *wire_store_u16(uint8_t *to, uint16_t v)
{
    to[0] = (uint8_t)(v >> 8);
    to[1] = (uint8_t)v;
    return to + 2;
}

/* Stores `v` big-endian at `to`; returns the first byte after it. */
static inline uint8_t *wire_store_u32(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 24);
    to[1] = (uint8_t)(v >> 16);
    to[2] = (uint8_t)(v >> 8);
    to[3] = (uint8_t)v;
    return to + 4;
}

#endif
