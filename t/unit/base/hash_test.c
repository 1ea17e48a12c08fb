/* hash_test.c - SipHash: published values, and sums of both variants at every length. */
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

/* Of both variants, the hashes of all lengths together; the definition gives the same. */
TEST(both_variants_are_what_they_were_at_every_length)
{
    unsigned char data[700];
    uint64_t used = 0, reference = 0;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 167 + 13);
    for (size_t len = 0; len <= sizeof(data); len++) {
        used = used * 31 + hash_bytes(&published_key, data, len);
        reference = reference * 31 + hash_bytes_reference(&published_key, data, len);
    }
    ck_assert(used == UINT64_C(0xf6694adc6e2dd1cf));
    ck_assert(reference == UINT64_C(0x5dafc38a7c5bdd15));
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
