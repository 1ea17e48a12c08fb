/*
 * secure.h - the TLS side of a link, without waiting.
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

/* What all links have in common; `ca` NULL: any certificate will do. NULL: *why_r says why not. */
SSL_CTX *secure_settings(const char *ca, const char **why_r) MUST_USE;
void secure_settings_free(SSL_CTX *settings);

/* The client's side on a descriptor; `host` is whose certificate it has to be. NULL: no memory. */
SSL *secure_start(SSL_CTX *settings, int fd, const char *host) MUST_USE;

/* Goes on with the handshake. *why_r is set where it failed. */
enum secure_step secure_shake_hands(SSL *tls, const char **why_r);

/* As recv: -1 with errno, EAGAIN where there is nothing now. */
ssize_t secure_read(SSL *tls, void *to, size_t room);

/* How much was taken; 0 where nothing can be now. */
size_t secure_write(SSL *tls, const void *data, size_t len);

/* Whether something was received that has not been read, which no descriptor tells. */
bool secure_has_more(const SSL *tls);

/* Says goodbye where `is_up`, and frees it. */
void secure_end(SSL *tls, bool is_up);

#endif
