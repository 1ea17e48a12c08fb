/*
 * tls.h - TLS for links, on OpenSSL: verified, never waiting, without SIGPIPE. The thread's error
 * queue is left as it was found.
 */
#ifndef LIB_TLS_H
#define LIB_TLS_H

#include "base/check.h"
#include "lib/counter.h"

#include <sys/types.h>

/* What the TLS connections of a client have in common. */
struct tls;

/* One connection. */
struct tls_side;

/*
 * Loads the trusted certificates (`ca` NULL: the system's), and our own certificate and key (`cert`
 * NULL: none; `key` NULL: in the file of the certificate). Returns NULL and fills *error, which
 * names the wrong option: COUNTER_USAGE, COUNTER_NO_MEMORY.
 */
struct tls *tls_make(const char *ca, const char *cert, const char *key,
                     struct counter_error *error);

/* NULL is fine. No side may be left. */
void tls_free(struct tls *tls);

/* TLS over a connected socket, whose server must show a certificate for `name`, a host or an
   address, which must live as long. NULL: no memory. */
struct tls_side *tls_begin(struct tls *tls, int fd, const char *name);

/* What the functions below return instead of a length. */
enum {
    TLS_WAITS_TO_READ = -1,  /* call again when the socket is readable */
    TLS_WAITS_TO_WRITE = -2, /* call again, with the same bytes, when it is writable */
    TLS_IS_AT_ITS_END = -3   /* it ended, or failed */
};

/* Each of these reads within bounds, however much there is to read. */

/* Shakes hands; 1: done. */
int tls_shake(struct tls_side *side);

/* Up to `len` bytes, at least 1; INT_MAX at most. */
ssize_t tls_send(struct tls_side *side, const void *data, size_t len);
ssize_t tls_receive(struct tls_side *side, void *to, size_t room);

/* Bytes have come from the socket that were not received yet: poll does not tell of them. */
bool tls_has_more(const struct tls_side *side);

/* Looks for bytes as tls_receive does, and leaves them there. */
ssize_t tls_peek(struct tls_side *side);

/* Writes to *error why it ended, after TLS_IS_AT_ITS_END: the reason alone, for `status`. */
int tls_explain(struct tls_side *side, struct counter_error *error, int status);

/* Says that we send no more, if the socket takes it at once. */
void tls_goodbye(struct tls_side *side);

/* Frees without a word; the socket stays. NULL is fine. */
void tls_end(struct tls_side *side);

#endif
