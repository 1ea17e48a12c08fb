/* tls_stream.h - TLS on a socket, for stream.c. stream.h documents these functions. */
#ifndef NET_TLS_STREAM_H
#define NET_TLS_STREAM_H

#include "net/stream.h"

struct tls_stream;

/* Makes the server's side of TLS on `fd`, which the caller still owns. Returns NULL when there is
 * no memory. */
struct tls_stream *tls_stream_new(struct tls *tls, int fd) MUST_USE;
/* Makes the client's side, for the server `host`. */
struct tls_stream *tls_stream_new_client(struct tls *tls, int fd, const char *host) MUST_USE;
/* Sends close_notify if that does not block, frees *s and sets it to NULL. NULL is harmless. */
void tls_stream_free(struct tls_stream **s);

ssize_t tls_stream_handshake(struct tls_stream *s, const char **why_r) MUST_USE;
ssize_t tls_stream_read(struct tls_stream *s, void *to, size_t room) MUST_USE;
bool tls_stream_has_more(const struct tls_stream *s);
bool tls_stream_in_record(const struct tls_stream *s);
bool tls_stream_is_slow(const struct tls_stream *s);
const char *tls_stream_why(const struct tls_stream *s);
ssize_t tls_stream_write(struct tls_stream *s, const struct iovec *pieces, int count) MUST_USE;
/* Sends close_notify, unless a write is unfinished. */
void tls_stream_finish(struct tls_stream *s);

#endif
