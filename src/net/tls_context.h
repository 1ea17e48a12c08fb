/* tls_context.h - the inside of struct tls, for tls.c and tls_stream.c. */
#ifndef NET_TLS_CONTEXT_H
#define NET_TLS_CONTEXT_H

#include "net/tls.h"

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdint.h>

struct tls {
    _Atomic uint32_t holders; /* its rules, and every connection that began with it */
    SSL_CTX *context;
};

/* One more who has it, and will free it. */
struct tls *tls_share(struct tls *tls);

#endif
