/*
 * stream.c - streams over sockets (see stream.h); tls_stream.c has the TLS part.
 *
 * Bytes are sent with write and writev. send and sendmsg could also connect and pass descriptors,
 * so the sandbox does not allow them to workers. The daemon ignores SIGPIPE.
 */
#include "net/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t stream_failure(int error)
{
    switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
        return STREAM_AGAIN;
    case ECONNRESET:
    case EPIPE:
        return STREAM_RESET;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return STREAM_VANISHED;
    default:
        return STREAM_ERROR;
    }
}

ssize_t stream_read_plain(int fd, void *to, size_t room)
{
    ssize_t n;
    do {
        n = recv(fd, to, room, 0);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? stream_failure(errno) : n;
}

ssize_t stream_read(struct stream *stream, void *to, size_t room)
{
    return stream->tls ? tls_stream_read(stream->tls, to, room)
                       : stream_read_plain(stream->fd, to, room);
}

ssize_t stream_write(struct stream *stream, struct iovec *pieces, int count)
{
    if (stream->tls)
        return tls_stream_write(stream->tls, pieces, count);
    ssize_t n;
    do {
        n = count == 1 ? write(stream->fd, pieces->iov_base, pieces->iov_len)
                       : writev(stream->fd, pieces, count);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? stream_failure(errno) : n;
}

void stream_finish(struct stream *stream)
{
    if (stream->tls)
        tls_stream_finish(stream->tls);
    (void)shutdown(stream->fd, SHUT_WR); /* it is no error if the peer has gone already */
}

void stream_close(struct stream *stream)
{
    tls_stream_free(&stream->tls);
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}
