/*
 * dial.h - opens outgoing streams without blocking: to a host over TCP or TLS, or to a unix socket.
 *
 * One time limit covers the name lookup, the connect and the TLS handshake. A dial tries the
 * addresses of a name one after another until one works, handshake included. Each address gets an
 * equal share of the remaining time.
 *
 * A dial belongs to a reactor; use it in the reactor's thread only. That thread uses these system
 * calls: socket, connect, setsockopt, getsockopt, getsockname, getpeername, and those that read and
 * write sockets. To look up names it also reads the files listed in lookup.h, and calls sendto and
 * recvfrom. For TLS with the system's certificates it reads their files. A sandbox (thread.h)
 * allows all that if it has `connects`, and these files in `reads`.
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
    struct tls *tls;          /* TLS: from tls_client_new; dial_start takes a share */
    const char *path;         /* unix: path of the socket */
    const char *name_servers; /* see lookup_start; NULL: those of the system */
};

struct dial;

#define DIAL_REASON_SIZE 512

/*
 * Called once when the dial ends. The dial is freed already; do not use its pointer again. The
 * reactor calls this, never from inside a function of this header. It may start and cancel dials.
 *
 * `stream` is the open connection, TLS handshake included; no loop watches it. Copy it; you own the
 * copy and close it. Read before you wait for events, because the server's first bytes may have
 * come with the handshake (stream_has_more). A server with TLS 1.3 refuses a client's certificate
 * only after the handshake; the first read then fails.
 *
 * On failure `stream` is NULL, and `reason` says what was tried and why it failed, without a line
 * end. Both pointers are valid only during the call.
 */
typedef void dial_done_fn(void *arg, struct stream *stream, const char *reason);

/*
 * Starts to open a stream. `limit_ns` (more than 0) is the time limit from now on. The target and
 * its strings are used only during the call. `done` is called once with `arg`, unless dial_cancel
 * comes first. The caller owns the dial until then. Returns NULL when there is no memory; `done` is
 * then never called.
 */
struct dial *dial_start(struct reactor *reactor, const struct dial_target *target, int64_t limit_ns,
                        dial_done_fn *done, void *arg) MUST_USE;
/* Cancels and frees *dial in any state, sets it to NULL, and does not call `done`. NULL is
 * harmless. */
void dial_cancel(struct dial **dial);

#endif
