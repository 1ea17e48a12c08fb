/*
 * dial.h - streams opened outward: to a host by TCP or TLS, or to a unix socket, without blocking.
 *
 * Resolving the name, connecting and the TLS handshake share one time limit. Each address of the
 * name is tried in turn, from connecting to the handshake's end, until one is good; of the time
 * that is left it gets an equal share with those behind it.
 *
 * A dial lives in a reactor, and is used in its thread alone. What that thread asks of the kernel:
 * socket, connect, setsockopt, getsockopt, getsockname, getpeername, reading and writing of
 * sockets; for names also to read the files that lookup.h names, and sendto, recvfrom; for TLS with
 * the system's certificates, to read these. A confinement (thread.h) with `connects` and these
 * files in `reads` allows that.
 */
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include "net/reactor.h"
#include "net/stream.h"
#include "net/tls.h"

struct dial_target {
    enum transport transport;
    const char *host; /* TCP and TLS: a name or a numeric address, without brackets */
    uint16_t port;
    struct tls *tls;          /* TLS: of tls_client_new; shared from dial_start on */
    const char *path;         /* unix: of the socket */
    const char *name_servers; /* see lookup_start; NULL: the system's */
};

struct dial;

#define DIAL_REASON_SIZE 512

/*
 * It is over, and the dial is freed already: forget it. Called by the reactor, never within a
 * function declared here; may begin and cancel dials.
 *
 * `stream`: the connection, of TLS with its handshake done, watched by no loop; copy it, it is
 * yours to close. Read before you wait: the server's first bytes may have come along with the
 * handshake (stream_has_more). NULL: there is none, and `reason` says what was tried and how it
 * failed, without a line end; both are good for the call only. A server with TLS 1.3 refuses the
 * client's certificate only after the handshake: the first read fails then.
 */
typedef void dial_done_fn(void *arg, struct stream *stream, const char *reason);

/*
 * Begins to open a stream; `limit_ns` (more than 0): how long that may take, from now on. The
 * target and its strings are needed for the call only. `done` is called with `arg` once, unless
 * dial_cancel comes before. The dial is the caller's. NULL: no memory, and `done` is not called.
 */
struct dial *dial_start(struct reactor *reactor, const struct dial_target *target, int64_t limit_ns,
                        dial_done_fn *done, void *arg) MUST_USE;
/* Ends it at once without calling `done`, whatever it is at, and nulls it. NULL is harmless. */
void dial_cancel(struct dial **dial);

#endif
