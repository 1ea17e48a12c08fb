/*
 * wire.h - shared by all codecs: conventions for parsing and composing, and big-endian integers.
 *
 * A codec does no I/O, reads no clock and allocates nothing. A parser looks at the bytes received
 * so far. It returns a whole message and its length; or "need more", with the minimum length of the
 * message if known; or a specific error. A composer writes a whole message into the caller's
 * buffer. It returns 0 when the message does not fit; the buffer's contents are then undefined.
 *
 * Parsed messages point into the parsed bytes and are valid only as long as these.
 */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include "base/bytes.h"

/* Reads the big-endian integer at `at`. */
static inline uint16_t wire_load_u16(const uint8_t *at)
{
    return (uint16_t)((at[0] << 8) | at[1]);
}

/* Reads the big-endian integer at `at`. */
static inline uint32_t wire_load_u32(const uint8_t *at)
{
    return ((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | at[3];
}

/* Takes a big-endian integer from the front of *in; 0 if *in is too short (see bytes_take). */
static inline uint16_t wire_take_u16(struct bytes *in)
{
    const uint8_t *at = bytes_take(in, 2);
    return at ? wire_load_u16(at) : 0;
}

/* Takes a big-endian integer from the front of *in; 0 if *in is too short (see bytes_take). */
static inline uint32_t wire_take_u32(struct bytes *in)
{
    const uint8_t *at = bytes_take(in, 4);
    return at ? wire_load_u32(at) : 0;
}

/* Stores `v` big-endian at `to`. Returns the first byte after it. */
static inline uint8_t *wire_store_u16(uint8_t *to, uint16_t v)
{
    to[0] = (uint8_t)(v >> 8);
    to[1] = (uint8_t)v;
    return to + 2;
}

/* Stores `v` big-endian at `to`. Returns the first byte after it. */
static inline uint8_t *wire_store_u32(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 24);
    to[1] = (uint8_t)(v >> 16);
    to[2] = (uint8_t)(v >> 8);
    to[3] = (uint8_t)v;
    return to + 4;
}

#endif
