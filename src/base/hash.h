/*
 * hash.h - a keyed hash of names (SipHash). The key is random at each start and never leaves the
 * process, so a client cannot choose names that all fall into one bucket.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t k0, k1;
};

/*
 * SipHash of `len` bytes at `data`, with 1 round per block and 3 at the end. That is enough for
 * hash tables and costs half as much as the 2 and 4 rounds used for authentication. Any thread.
 */
uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len);

/* SipHash-2-4, which has published test vectors. Tests use it to check the rounds. */
uint64_t hash_bytes_reference(const struct hash_key *key, const void *data, size_t len);

/* Mixes two small integers into 32 well-spread bits. */
static inline uint32_t hash_pair(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(x >> 32);
}

#endif
