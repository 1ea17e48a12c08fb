/*
 * secure.h - the TLS side of a link. No function blocks.
 */
#ifndef COUNTERBENCH_SECURE_H
#define COUNTERBENCH_SECURE_H

#include "base/check.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum secure_step { SECURE_DONE, SECURE_WANTS_IN, SECURE_WANTS_OUT, SECURE_FAILED };

/* Settings for all links. With `ca` NULL any certificate is accepted. NULL: *why_r says why. */
SSL_CTX *secure_settings(const char *ca, const char **why_r) MUST_USE;
void secure_settings_free(SSL_CTX *settings);

/* The client's side on a descriptor; the certificate must be for `host`. NULL: no memory. */
SSL *secure_start(SSL_CTX *settings, int fd, const char *host) MUST_USE;

/* Continues the handshake. Sets *why_r when it failed. */
enum secure_step secure_shake_hands(SSL *tls, const char **why_r);

/* Like recv: -1 with errno, EAGAIN when there is nothing now. */
ssize_t secure_read(SSL *tls, void *to, size_t room);

/* Returns the number of bytes taken; 0 when none can be now. */
size_t secure_write(SSL *tls, const void *data, size_t len);

/* True when OpenSSL holds received bytes that we have not read; the descriptor does not show it. */
bool secure_has_more(const SSL *tls);

/* Sends close_notify if `is_up`, and frees it. */
void secure_end(SSL *tls, bool is_up);

#endif
