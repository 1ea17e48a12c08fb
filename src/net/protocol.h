/*
 * protocol.h - a protocol: a row of constants, and what one server counts of it.
 *
 * The row (struct protocol_row) says how the protocol parses and serves requests, and how many
 * deadlines and pending answers a connection has. It is constant data; the live part (struct
 * protocol) points to it. Nothing in net knows which protocols there are.
 *
 * How a request is served:
 *
 *     bytes -> parse -> (prefetch) -> serve -> an answer now        SERVED
 *                                          -> an answer by letter   SERVED_PENDING
 *                                          -> an answer in pieces   SERVED_PIECES -> resume ...
 *                                          -> no answer: more bytes SERVED_PART
 *
 * What is read at once is parsed as a batch, at most PROTOCOL_BATCH requests, before the first is
 * served. So the service can prefetch the memory that all of them need. A batch ends early where a
 * request is pending, in parts, or ends the connection; what was parsed behind it is parsed again.
 *
 * Threads: rows never change. The callbacks run in the thread of the connection's worker.
 */
#ifndef NET_PROTOCOL_H
#define NET_PROTOCOL_H

#include "base/check.h"
#include "base/histogram.h"
#include "base/tally.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct conn_info;
struct record_reader;
struct record_writer;

/* ---- close reasons ------------------------------------------------------------------------- */

/* Why a connection ended: name, and the word for logs and metrics. A protocol adds its own. */
#define CLOSE_REASONS(ROW)                                                                         \
    ROW(PEER, "peer")         /* the peer closed, or shut down its sending side */                 \
    ROW(RESET, "reset")       /* the peer reset the connection */                                  \
    ROW(VANISHED, "vanished") /* keepalive or user timeout: the peer is silent */                  \
    ROW(ERROR, "error")       /* the kernel or TLS reports any other error */                      \
    ROW(PROTOCOL, "protocol") /* the peer sent bytes after which no request can be found */        \
    ROW(REQUEST_TIMEOUT, "request_timeout") /* a request was begun and not finished */             \
    ROW(WRITE_TIMEOUT, "write_timeout")     /* the peer did not take its answers */                \
    ROW(MEMORY, "memory")                   /* no memory for its bytes */                          \
    ROW(SHUTDOWN, "shutdown")               /* the daemon ends */                                  \
    ROW(REFUSED, "refused")                 /* too many connections */                             \
    ROW(KILLED, "killed")                   /* an operator closed it */                            \
    ROW(DENIED, "denied")                   /* its address is not allowed */                       \
    ROW(SOURCE, "per_source")               /* too many connections from its address */            \
    ROW(HANDSHAKE, "handshake")             /* TLS: it failed, was too slow, or one too many */    \
    ROW(UPGRADE, "upgrade")                 /* TLS connections do not survive an upgrade */

enum close_reason {
#define ROW(name, word) CLOSE_##name,
    CLOSE_REASONS(ROW)
#undef ROW
        CLOSE_OWN, /* the first of the protocol's own reasons (struct protocol_row, `ends`) */
};

/* A protocol has at most so many reasons of its own. */
#define CLOSE_OWN_MAX 8
#define CLOSE_MAX     ((unsigned)CLOSE_OWN + CLOSE_OWN_MAX)

/* ---- the row ------------------------------------------------------------------------------- */

/* A batch has at most so many requests. */
#define PROTOCOL_BATCH 32

/* A parsed request has at most so many bytes (`request_size`). */
#define PROTOCOL_REQUEST_MAX 128

/* A connection has at most so many pending answers (`pending_max`). */
#define PROTOCOL_PENDING_MAX 64

enum parsed {
    PARSED,      /* one request; *used_r bytes belong to it, more than 0 */
    PARSED_LAST, /* the same, and bytes behind it can be parsed only after it was served */
    PARSED_MORE, /* not all of it is here; *used_r: the bytes it has at least, 0: unknown */
};

enum served {
    SERVED,              /* it is answered */
    SERVED_PENDING,      /* a letter brings the answer; the next request waits for it */
    SERVED_PENDING_NEXT, /* a letter brings the answer; the next request may start before */
    SERVED_LATER,        /* not served: serve it again once no answer is pending */
    SERVED_PIECES,       /* `resume` goes on with the answer; the next request waits */
    SERVED_PART,         /* the bytes were taken; they are part of a request that goes on */
    SERVED_LAST,         /* the connection was finished or closed */
};

/* What the end of a client's input means. */
enum input_end {
    INPUT_END_CLOSES, /* the client has gone: close at once */
    INPUT_END_SERVED, /* serve what came before, send all answers, then close */
};

struct protocol_row {
    const char *name; /* for logs, metrics and options */

    size_t request_size;  /* bytes of a parsed request */
    unsigned deadlines;   /* of a session: 0 or more */
    unsigned pending_max; /* answers that may be pending at once; 0: none ever is */
    uint32_t part_step;   /* SERVED_PART: so many bytes renew the request's deadline; 0: no parts */
    bool tracks_output;   /* conn_output_end and its like may be called */
    enum input_end input_end;
    const char *const *ends; /* words of its own close reasons, NULL after the last; NULL: none */

    /* The connection is open. */
    void (*open)(struct conn *conn);
    /* Parses the first request of `data` (`len` > 0) into `request`. Must not change the session:
     * it may be called again for the same bytes. */
    enum parsed (*parse)(struct conn *conn, const uint8_t *data, size_t len, void *request,
                         size_t *used_r);
    /* `count` requests, `request_size` bytes each, were parsed and are served next, all of them or
     * only the first few. NULL: nothing to prefetch. */
    void (*prefetch)(struct conn *conn, void *requests, unsigned count);
    /* Serves one request. */
    enum served (*serve)(struct conn *conn, const void *request);
    /* Goes on with an answer in pieces; the output has room. True: it is complete. */
    bool (*resume)(struct conn *conn);
    /* Deadline number `which` has come. */
    void (*expire)(struct conn *conn, unsigned which);
    /* INPUT_END_SERVED: the client sends nothing more. Called once. NULL: nothing to do. */
    void (*ended)(struct conn *conn);
    /* conn_interject found no room, and now there is some. */
    void (*room)(struct conn *conn);
    /* A marked answer is about to be written (conn_check_output). False: the callback has closed
     * the connection, and nothing is written. */
    bool (*may_write)(struct conn *conn);
    /* The client has gone, or gets its last answer: gives back everything it has. */
    void (*close)(struct conn *conn);

    /* An upgrade: writes the session while no worker runs; and reads it, in place of `open`, for a
     * connection of another process. False: it cannot be restored. */
    void (*save)(struct conn *conn, struct record_writer *w);
    bool (*restore)(struct conn *conn, struct record_reader *r);

    /* Adds `holds` and `waits` of an open connection. NULL: it has neither. */
    void (*describe)(struct conn *conn, struct conn_info *info);
};

/* ---- the live part ------------------------------------------------------------------------- */

/*
 * What one worker has moved for one protocol. The worker writes it, any thread reads tallies and
 * histogram. The last two fields are the worker's own.
 */
struct traffic {
    tally received, sent; /* bytes of the protocol, without what TLS adds */
    tally requests;       /* served */
    /* From the start of the loop's iteration that served a request to the end of its writes. */
    struct histogram answers;
    uint64_t unanswered; /* requests served in this iteration */
    struct traffic *unanswered_next;
} __attribute__((aligned(64)));

/* A protocol on this server. It lives as long as the workers do. */
struct protocol {
    const struct protocol_row *row;
    void *service;           /* whatever the row's functions want */
    size_t session_size;     /* bytes of conn_session, zeroed at open */
    size_t request_max;      /* no unfinished request that is parsed whole takes more bytes */
    struct traffic *traffic; /* the service's, one for each worker; NULL: not measured */

    _Atomic uint32_t max_connections; /* 0: no limit; may change at any time */

    /* Counted by the workers. */
    _Atomic uint32_t connections; /* now, with those in their handshake or being refused */
    /* Since the start, without those refused because of their address or number. */
    _Atomic uint64_t connections_made;
    _Atomic uint64_t accept_errors; /* connections that could not be served */
    _Atomic uint64_t send_errors;   /* writes that failed */
    /* By reason. REFUSED (by max_connections), DENIED and SOURCE were not made, all others were. */
    _Atomic uint64_t closed[CLOSE_MAX];
};

/* The word of a close reason, net's or the protocol's own; NULL: there is none of that number.
 * `reason` goes from 0 without gaps. Any thread. */
const char *protocol_close_word(const struct protocol_row *row, unsigned reason);

/* True: the row uses what only extended connections have (private.h, struct conn_extension). */
static inline bool protocol_is_extended(const struct protocol_row *row)
{
    return row->deadlines > 1 || row->pending_max > 0 || row->part_step > 0 || row->tracks_output;
}

#endif
