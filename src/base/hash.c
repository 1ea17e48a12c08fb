/*
 * hash.c - SipHash by Aumasson and Bernstein, written from the paper. It has four words of state.
 * Each 8-byte block of the input is mixed in between rounds of add, rotate and xor; the last block
 * carries the length.
 */
#include "base/hash.h"

#include <string.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static inline void sip_rounds(struct sip *s, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotl(s->v1, 13) ^ s->v0;
        s->v3 = rotl(s->v3, 16) ^ s->v2;
        s->v0 = rotl(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotl(s->v1, 17) ^ s->v2;
        s->v3 = rotl(s->v3, 21) ^ s->v0;
        s->v2 = rotl(s->v2, 32);
    }
}

static inline void sip_block(struct sip *s, uint64_t block, int rounds)
{
    s->v3 ^= block;
    sip_rounds(s, rounds);
    s->v0 ^= block;
}

/* Reads 8 bytes as a little-endian integer. */
static inline uint64_t load_block(const unsigned char *at)
{
    uint64_t v;
    memcpy(&v, at, 8);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(v) : v;
}

/* Reads the last `left` (0 to 7) of `len` bytes, which end at `end`, as a little-endian integer. */
static inline uint64_t load_rest(const unsigned char *end, size_t left, size_t len)
{
    if (left == 0)
        return 0;
    if (len >= 8) /* load the last 8 bytes, shift out those of the previous block */
        return load_block(end - 8) >> (8 * (8 - left));
    uint64_t v = 0;
    for (size_t i = 0; i < left; i++)
        v |= (uint64_t)(end - left)[i] << (8 * i);
    return v;
}

/* `per_block` and `at_end` are constants at each call, so the compiler unrolls the loops. */
static inline __attribute__((always_inline)) uint64_t
sip_hash(const struct hash_key *key, const unsigned char *at, size_t len, int per_block, int at_end)
{
    struct sip s = {
        .v0 = key->k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key->k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = key->k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t left = len;
    for (; left >= 8; left -= 8, at += 8)
        sip_block(&s, load_block(at), per_block);
    sip_block(&s, (uint64_t)len << 56 | load_rest(at + left, left, len), per_block);
    s.v2 ^= 0xff;
    sip_rounds(&s, at_end);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len)
{
    return sip_hash(key, data, len, 1, 3);
}

uint64_t hash_bytes_reference(const struct hash_key *key, const void *data, size_t len)
{
    return sip_hash(key, data, len, 2, 4);
}
