/*
 * token.h - the token of the admin interface. Only a digest is stored, so the daemon's memory does
 * not reveal the token. Any thread.
 */
#ifndef ADMIN_TOKEN_H
#define ADMIN_TOKEN_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

/* Room for a digest: a SHA-256 in 64 digits, and the ending 0. */
#define TOKEN_DIGEST_SIZE 65

/* Writes the digest of a token of `len` bytes to digest_r (TOKEN_DIGEST_SIZE). False: no memory. */
bool token_digest(const char *token, size_t len, char *digest_r) MUST_USE;

#endif
