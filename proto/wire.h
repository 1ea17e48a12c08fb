/*
 * wire.h - what every codec shares: how it parses and composes, and big-endian integers.
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

#include "base/bytes.h"

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

/* Takes a big-endian integer from the front of *in; 0 where there is none (bytes_take). */
static inline uint16_t wire_take_u16(struct bytes *in)
{
    const uint8_t *at = bytes_take(in, 2);
    return at ? wire_load_u16(at) : 0;
}

/* Takes a big-endian integer from the front of *in; 0 where there is none (bytes_take). */
static inline uint32_t wire_take_u32(struct bytes *in)
{
    const uint8_t *at = bytes_take(in, 4);
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
