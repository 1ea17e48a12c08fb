/*
 * stream.h - bytes to and from one client, whatever carries them: TCP today. Never blocks.
 *
 * Tests put another stream behind these functions. Threads: the connection's worker alone.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct stream {
    int fd; /* what a loop can watch; -1: closed */
};

/* What reading and writing answer where they moved no bytes. */
#define STREAM_END      ((ssize_t)0)  /* reading: the peer will send no more */
#define STREAM_AGAIN    ((ssize_t)-1) /* not now: wait until the descriptor is ready */
#define STREAM_RESET    ((ssize_t)-2) /* the peer broke it off */
#define STREAM_VANISHED ((ssize_t)-3) /* nothing has been heard of the peer for too long */
#define STREAM_ERROR    ((ssize_t)-4) /* it is broken in any other way */

/* Reads up to `room` (more than 0) bytes; their number, or one of the above. */
ssize_t stream_read(struct stream *stream, void *to, size_t room) MUST_USE;
/* Writes from `count` pieces (not changed); the number of bytes, more than 0, or one of the above
 * but END. */
ssize_t stream_write(struct stream *stream, struct iovec *pieces, int count) MUST_USE;
/* Says that nothing more will be sent. */
void stream_finish(struct stream *stream);
/* Closes it; harmless when it is closed. */
void stream_close(struct stream *stream);

#endif
