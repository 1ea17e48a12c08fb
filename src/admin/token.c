/* token.c - see token.h. */
#include "admin/token.h"

#include <openssl/evp.h>
#include <stdio.h>

#define SHA256_SIZE ((size_t)32)

_Static_assert(2 * SHA256_SIZE + 1 == TOKEN_DIGEST_SIZE, "the digits fit");

bool token_digest(const char *token, size_t len, char *digest_r)
{
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (EVP_Digest(token, len, bytes, &size, EVP_sha256(), NULL) != 1 || size != SHA256_SIZE)
        return false;
    for (size_t i = 0; i < size; i++)
        snprintf(digest_r + 2 * i, 3, "%02x", bytes[i]);
    return true;
}
