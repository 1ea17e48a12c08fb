/* stream.c - streams over TCP sockets (see stream.h). */
#include "net/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t failed(void)
{
    switch (errno) {
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

ssize_t stream_read(struct stream *stream, void *to, size_t room)
{
    ssize_t n;
    do {
        n = recv(stream->fd, to, room, 0);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? failed() : n;
}

ssize_t stream_write(struct stream *stream, struct iovec *pieces, int count)
{
    ssize_t n;
    do {
        if (count == 1) {
            n = send(stream->fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL);
        } else {
            struct msghdr message = {
                .msg_iov = pieces,
                .msg_iovlen = (size_t)count,
            };
            n = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
        }
    } while (n < 0 && errno == EINTR);
    return n < 0 ? failed() : n;
}

void stream_finish(struct stream *stream)
{
    (void)shutdown(stream->fd, SHUT_WR); /* a peer that has gone already is no error here */
}

void stream_close(struct stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}
