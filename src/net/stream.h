/*
 * stream.h - a byte stream to a client over TCP or a unix socket, plain or with TLS. Never blocks.
 * A write to a peer that has gone raises SIGPIPE, which the process must ignore or block.
 *
 * The peer of an outgoing stream (dial.h) is a server. Tests replace these functions by another
 * stream. Threads: only the connection's worker, or the thread that opened the stream.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum transport { TRANSPORT_TCP, TRANSPORT_TLS, TRANSPORT_UNIX };

struct tls;

struct stream {
    struct tls_stream *tls; /* NULL: plain, or TLS not started (stream_secure) */
    int fd;                 /* for a loop to watch; -1: closed */
    uint8_t transport;      /* enum transport; TLS also over a unix socket */
};

/* Results of reads and writes that moved no bytes. */
#define STREAM_END      ((ssize_t)0)  /* read: the peer sends nothing more */
#define STREAM_AGAIN    ((ssize_t)-1) /* not now: wait until the descriptor is ready */
#define STREAM_RESET    ((ssize_t)-2) /* the peer reset the connection */
#define STREAM_VANISHED ((ssize_t)-3) /* the peer was silent for too long */
#define STREAM_ERROR    ((ssize_t)-4) /* any other error */
#define STREAM_FLOODED  ((ssize_t)-6) /* TLS only: too many records without data in a row */
#define STREAM_CROSSED                                                                             \
    ((ssize_t)-5) /* TLS only. Not now: a read waits until the descriptor is writable, or a write  \
                     until it is readable */

/* Starts TLS as the server and takes a share of `tls`. The handshake comes next. Returns false when
 * there is no memory. */
bool stream_secure(struct stream *stream, struct tls *tls) MUST_USE;
/*
 * Starts TLS as a client. The server's certificate must be valid for `host`, a name or a numeric
 * address. `tls` comes from tls_client_new; the stream takes a share. Returns false when there is
 * no memory.
 */
bool stream_secure_client(struct stream *stream, struct tls *tls, const char *host) MUST_USE;
/*
 * Continues the handshake. Returns 1 when it is done, AGAIN to wait until the descriptor is
 * readable, CROSSED to wait until it is writable. Any other result is a failure; *why_r is then a
 * text for people, which must not be freed. After ERROR the peer was sent an alert; the caller
 * should read and discard what it still sends.
 */
ssize_t stream_handshake(struct stream *stream, const char **why_r) MUST_USE;

/* Reads up to `room` (more than 0) bytes. Returns their number, or a result above. */
ssize_t stream_read(struct stream *stream, void *to, size_t room) MUST_USE;
/* After ERROR: a text for people about what the peer or TLS says, which must not be freed; NULL:
 * there is none. */
const char *stream_why(const struct stream *stream);
/* True when a read may return bytes although the descriptor is not ready (TLS only). The read may
 * still return none. */
bool stream_has_more(const struct stream *stream);
/* TLS only: true when a read costs much for the data that it brings. Few such streams should be
 * read between other work. */
bool stream_is_slow(const struct stream *stream);
/* TLS only: true when a part of a record was received, for which the library has a buffer of
 * STREAM_RECORD_ROOM bytes, about. */
bool stream_in_record(const struct stream *stream);
#define STREAM_RECORD_ROOM ((size_t)17 * 1024)
/* Writes `count` pieces, which are not changed. Returns the number of bytes written, more than 0,
 * or a result above except END. The next write must start with the bytes that were not written. */
ssize_t stream_write(struct stream *stream, struct iovec *pieces, int count) MUST_USE;
/* Shuts down the sending side. */
void stream_finish(struct stream *stream);
/* Closes the stream. Harmless when it is closed. */
void stream_close(struct stream *stream);

/* ---- between stream.c and tls_stream.c ------------------------------------------------------- */

/* Converts a socket's errno to a result above. */
ssize_t stream_failure(int error);
/* The plain stream_read. */
ssize_t stream_read_plain(int fd, void *to, size_t room) MUST_USE;

ssize_t tls_stream_read(struct tls_stream *s, void *to, size_t room) MUST_USE;
ssize_t tls_stream_write(struct tls_stream *s, const struct iovec *pieces, int count) MUST_USE;
/* Sends close_notify, unless a write is unfinished. */
void tls_stream_finish(struct tls_stream *s);
/* Sends close_notify if that does not block, frees *s and sets it to NULL. NULL is harmless. */
void tls_stream_free(struct tls_stream **s);

#endif
