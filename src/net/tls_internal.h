/* tls_internal.h - the fields of struct tls, for tls.c and tls_stream.c. */
#ifndef NET_TLS_INTERNAL_H
#define NET_TLS_INTERNAL_H

#include "net/tls.h"

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tls {
    _Atomic uint32_t holders; /* its rules, and every connection that uses it */
    SSL_CTX *context;
    bool client; /* made for stream_secure_client, not for stream_secure */
};

#endif
