/*
 * stream.h - bytes to and from one client, whatever carries them: TCP or a unix socket, plainly or
 * in TLS. Never blocks. Writing to a peer that has gone raises SIGPIPE, which the caller ignores or
 * blocks.
 *
 * A stream that was opened outward (dial.h) has a server in the client's place. Tests put another
 * stream behind these functions. Threads: the connection's worker, or whoever opened it, alone.
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
    struct tls_stream *tls; /* NULL: plain, or not begun yet (stream_secure) */
    int fd;                 /* what a loop can watch; -1: closed */
    uint8_t transport;      /* enum transport; TLS also over a unix socket */
};

/* What reading and writing answer where they moved no bytes. */
#define STREAM_END      ((ssize_t)0)  /* reading: the peer will send no more */
#define STREAM_AGAIN    ((ssize_t)-1) /* not now: wait until the descriptor is ready for it */
#define STREAM_RESET    ((ssize_t)-2) /* the peer broke it off */
#define STREAM_VANISHED ((ssize_t)-3) /* nothing has been heard of the peer for too long */
#define STREAM_ERROR    ((ssize_t)-4) /* it is broken in any other way */
#define STREAM_CROSSED                                                                             \
    ((ssize_t)-5) /* not now: reading waits until it can be written, or writing                    \
                     until it can be read (only TLS) */

/* Begins TLS, as the server; `tls` is shared. The handshake comes next. False: no memory. */
bool stream_secure(struct stream *stream, struct tls *tls) MUST_USE;
/* Begins TLS, as a client of `host`, a name or a numeric address, for which the server's
 * certificate must be; `tls` is one of tls_client_new, and shared. The same otherwise. */
bool stream_secure_client(struct stream *stream, struct tls *tls, const char *host) MUST_USE;
/*
 * Goes on with the handshake, as far as it gets: 1: done; AGAIN: wait until it can be read;
 * CROSSED: until it can be written. Else it failed: *why_r is a text for people, not to be freed.
 * After ERROR the peer was told why, and reading takes what it still sends, to be thrown away.
 */
ssize_t stream_handshake(struct stream *stream, const char **why_r) MUST_USE;

/* Reads up to `room` (more than 0) bytes; their number, or one of the above. */
ssize_t stream_read(struct stream *stream, void *to, size_t room) MUST_USE;
/* Whether reading may give something though the descriptor is not ready (only TLS). If not, that
 * shows when it is tried. */
bool stream_has_more(const struct stream *stream);
/*
 * Writes from `count` pieces (not changed); the number of bytes, more than 0, or one of the above
 * but END. What was not written must come first in the next write.
 */
ssize_t stream_write(struct stream *stream, struct iovec *pieces, int count) MUST_USE;
/* Says that nothing more will be sent. */
void stream_finish(struct stream *stream);
/* Closes it; harmless when it is closed. */
void stream_close(struct stream *stream);

/* Which of the answers an errno of a socket means. */
ssize_t stream_failure(int error);

#endif
