/*
 * hash_test.c - SipHash: the published vectors of the reference variant. For the variant in use,
 * the properties that need no vectors: it depends on every bit, on the length, on both key words,
 * and on nothing else.
 */
#include "base/hash.h"

#include "base/check.h"
#include "t/unit/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The key of the published vectors: bytes 00 to 0f, little-endian. */
static const struct hash_key published_key = {
    .k0 = UINT64_C(0x0706050403020100),
    .k1 = UINT64_C(0x0f0e0d0c0b0a0908),
};

static void fill_counting(unsigned char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)i;
}

TEST(reference_gives_the_published_values)
{
    unsigned char data[16];
    fill_counting(data, sizeof(data));
    ck_assert(hash_bytes_reference(&published_key, data, 0) == UINT64_C(0x726fdb47dd0e0e31));
    ck_assert(hash_bytes_reference(&published_key, data, 1) == UINT64_C(0x74f839c593dc67fd));
    ck_assert(hash_bytes_reference(&published_key, data, 2) == UINT64_C(0x0d6c8009d9a94f5a));
    ck_assert(hash_bytes_reference(&published_key, data, 15) == UINT64_C(0xa129ca6149be45e5));
}

/* SipHash written out from its definition, one byte and one round at a time. */
static uint64_t slow_rotl(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void slow_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = slow_rotl(v[1], 13);
    v[1] ^= v[0];
    v[0] = slow_rotl(v[0], 32);
    v[2] += v[3];
    v[3] = slow_rotl(v[3], 16);
    v[3] ^= v[2];
    v[0] += v[3];
    v[3] = slow_rotl(v[3], 21);
    v[3] ^= v[0];
    v[2] += v[1];
    v[1] = slow_rotl(v[1], 17);
    v[1] ^= v[2];
    v[2] = slow_rotl(v[2], 32);
}

static uint64_t slow_hash(const struct hash_key *key, const unsigned char *data, size_t len,
                          int per_block, int at_end)
{
    uint64_t v[4] = {
        key->k0 ^ UINT64_C(0x736f6d6570736575),
        key->k1 ^ UINT64_C(0x646f72616e646f6d),
        key->k0 ^ UINT64_C(0x6c7967656e657261),
        key->k1 ^ UINT64_C(0x7465646279746573),
    };
    uint64_t block = 0;
    for (size_t i = 0; i < len + 8 - len % 8; i++) {
        uint64_t byte = i < len ? data[i] : 0;
        if (i + 1 == len + 8 - len % 8)
            byte = len & 0xff;
        block |= byte << 8 * (i % 8);
        if (i % 8 == 7) {
            v[3] ^= block;
            for (int r = 0; r < per_block; r++)
                slow_round(v);
            v[0] ^= block;
            block = 0;
        }
    }
    v[2] ^= 0xff;
    for (int r = 0; r < at_end; r++)
        slow_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

TEST(both_variants_follow_the_definition_at_every_length)
{
    enum { LONGEST = 700 };
    unsigned char data[LONGEST];
    for (size_t i = 0; i < LONGEST; i++)
        data[i] = (unsigned char)(i * 167 + 13);
    for (size_t len = 0; len <= LONGEST; len++) {
        ck_assert(hash_bytes(&published_key, data, len) ==
                  slow_hash(&published_key, data, len, 1, 3));
        ck_assert(hash_bytes_reference(&published_key, data, len) ==
                  slow_hash(&published_key, data, len, 2, 4));
    }
}

TEST(pairs_spread)
{
    /* Neighbouring pairs, like refs and ids, spread over 4096 places by low bits and by tag. */
    enum { PLACES = 4096, PAIRS = PLACES * 16 };
    static unsigned low[PLACES], high[PLACES];
    for (uint32_t a = 0; a < 256; a++) {
        for (uint32_t b = 1; b <= 256; b++) {
            uint32_t h = hash_pair(a * 10 + 8, b);
            low[h % PLACES]++;
            high[h >> 20]++;
        }
    }
    for (unsigned i = 0; i < PLACES; i++) {
        ck_assert(low[i] < 64);
        ck_assert(high[i] < 64);
    }
    ck_assert(hash_pair(1, 2) != hash_pair(2, 1));
    ck_assert(hash_pair(1, 2) == hash_pair(1, 2));
}

UNIT_MAIN("base/hash")
