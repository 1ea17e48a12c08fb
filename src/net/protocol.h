/*
 * protocol.h - a protocol: a constant row, and live counters.
 *
 * The row (struct protocol_row) holds the functions that parse and serve requests, and the numbers
 * of deadlines and pending answers of a connection. Rows are constant; the live part (struct
 * protocol) points to its row. Nothing in net depends on a particular protocol.
 *
 * How a request is served:
 *
 *     bytes -> parse -> (prefetch) -> serve -> an answer now        SERVED
 *                                          -> an answer by message   SERVED_PENDING
 *                                          -> an answer in pieces   SERVED_PIECES -> resume ...
 *                                          -> no answer: more bytes SERVED_PART
 *
 * The bytes of one read are parsed as a batch of up to PROTOCOL_BATCH requests before the first is
 * served, so that the service can prefetch the memory for all of them. A request that is pending,
 * comes in parts or ends the connection cuts the batch; the requests after it are parsed again
 * later.
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

/* ---- close reasons --------------------------------------------------------------------------- */

/* The reasons for closing a connection: name, and word for logs and metrics. A protocol may add its
 * own. */
#define CLOSE_REASONS(ROW)                                                                         \
    ROW(PEER, "peer")         /* the peer closed, or shut down its sending side */                 \
    ROW(RESET, "reset")       /* the peer reset the connection */                                  \
    ROW(VANISHED, "vanished") /* the peer is silent (keepalive or user timeout) */                 \
    ROW(ERROR, "error")       /* any other error from the kernel or TLS */                         \
    ROW(PROTOCOL, "protocol") /* the peer broke the protocol; no next request can be found */      \
    ROW(REQUEST_TIMEOUT, "request_timeout") /* a request was not finished in time */               \
    ROW(WRITE_TIMEOUT, "write_timeout")     /* the peer did not read its answers */                \
    ROW(MEMORY, "memory")                   /* no memory for its input or output */                \
    ROW(SHUTDOWN, "shutdown")               /* the daemon ends */                                  \
    ROW(REFUSED, "refused")                 /* too many connections */                             \
    ROW(KILLED, "killed")                   /* an operator closed it */                            \
    ROW(DENIED, "denied")                   /* the access list does not allow its address */       \
    ROW(SOURCE, "per_source")               /* too many connections from its address */            \
    ROW(HANDSHAKE, "handshake")             /* TLS: failed, too slow, or too many */               \
    ROW(UPGRADE, "upgrade")                 /* TLS connections do not survive an upgrade */        \
    ROW(UNFINISHED, "unfinished")           /* its request took most of the memory for requests */ \
    ROW(RECORDS, "records")                 /* TLS: too many records without data */

enum close_reason {
#define ROW(name, word) CLOSE_##name,
    CLOSE_REASONS(ROW)
#undef ROW
        CLOSE_OWN, /* the first of a protocol's own reasons (struct protocol_row, `ends`) */
};

/* Maximum number of a protocol's own close reasons. */
#define CLOSE_OWN_MAX 8
#define CLOSE_MAX     ((unsigned)CLOSE_OWN + CLOSE_OWN_MAX)

/* ---- the row --------------------------------------------------------------------------------- */

/* Maximum number of requests in a batch. */
#define PROTOCOL_BATCH 32

/* Maximum size of a parsed request, in bytes (`request_size`). */
#define PROTOCOL_REQUEST_MAX 128

/* Maximum number of pending answers of a connection (`pending_max`). */
#define PROTOCOL_PENDING_MAX 64

enum parsed {
    PARSED,      /* one request; *used_r is its length in bytes, more than 0 */
    PARSED_LAST, /* the same, but parse no more bytes until it is served */
    PARSED_MORE, /* incomplete; *used_r is its minimum length in bytes, 0: unknown */
};

enum served {
    SERVED,              /* answered */
    SERVED_PENDING,      /* a message will bring the answer; the next request waits for it */
    SERVED_PENDING_NEXT, /* a message will bring the answer; the next request may start before */
    SERVED_LATER,        /* not served: serve it again when no answer is pending */
    SERVED_PIECES,       /* `resume` continues the answer; the next request waits */
    SERVED_PART,         /* the bytes were taken; the request continues */
    SERVED_LAST,         /* the service has finished or closed the connection */
};

/* The meaning of the end of a client's input. */
enum input_end {
    INPUT_END_CLOSES, /* the client has gone: close at once */
    INPUT_END_SERVED, /* serve earlier requests, send all answers, then close */
};

struct protocol_row {
    const char *name; /* for logs, metrics and options */

    size_t request_size;  /* size of a parsed request, in bytes */
    unsigned deadlines;   /* number of deadlines of a session */
    unsigned pending_max; /* maximum number of pending answers; 0: never any */
    uint32_t part_step;   /* SERVED_PART: bytes that restart the request's deadline; 0: no parts */
    bool tracks_output;   /* conn_output_end and related functions may be called */
    /* The same for those connections that conn_extend was called for. Such a row has one deadline
     * at most, and nothing else of the above. */
    bool extends_later;
    enum input_end input_end;
    const char *const *ends; /* words of its own close reasons, NULL after the last; NULL: none */

    /* Called when the connection is open. */
    void (*open)(struct conn *conn);
    /* Parses the first request of `data` (`len` > 0) into `request`. Must not change the session,
     * because it may be called again for the same bytes. */
    enum parsed (*parse)(struct conn *conn, const uint8_t *data, size_t len, void *request,
                         size_t *used_r);
    /* Prefetches memory for `count` parsed requests of `request_size` bytes each. They are served
     * next, all of them or only the first few. NULL: nothing to prefetch. */
    void (*prefetch)(struct conn *conn, void *requests, unsigned count);
    /* Serves one request. */
    enum served (*serve)(struct conn *conn, const void *request);
    /* Continues an answer in pieces; there is room for output. Returns true when it is complete. */
    bool (*resume)(struct conn *conn);
    /* Called when deadline number `which` has passed. */
    void (*expire)(struct conn *conn, unsigned which);
    /* INPUT_END_SERVED: called once, when the client sends nothing more. NULL: nothing to do. */
    void (*ended)(struct conn *conn);
    /* Called when there is room again after conn_interject failed. */
    void (*room)(struct conn *conn);
    /* Called before a marked answer is written (conn_check_output). To stop the write, it closes
     * the connection and returns false. */
    bool (*may_write)(struct conn *conn);
    /* Called when the client has gone or its last answer is queued. Frees everything that the
     * client holds. */
    void (*close)(struct conn *conn);
    /* Called after `close`, until it returns true: gives back up to `max` of what the client held,
     * when that may be many. Other connections are served in between. NULL: `close` has given all
     * back.
     */
    bool (*give_back)(struct conn *conn, unsigned max);

    /* For upgrades. `save` writes the session while no worker runs. `restore` reads it in the new
     * process, instead of `open`; it returns false when that fails. */
    void (*save)(struct conn *conn, struct record_writer *w);
    bool (*restore)(struct conn *conn, struct record_reader *r);

    /* Sets `holds` and `waits` of an open connection. NULL: it has neither. */
    void (*describe)(struct conn *conn, struct conn_info *info);
};

/* ---- the live part --------------------------------------------------------------------------- */

/* Traffic of one protocol in one worker. Only that worker writes it; any thread may read the
 * tallies and the histogram. The last two fields are private to the worker. */
struct traffic {
    tally received, sent; /* bytes of the protocol, without TLS overhead */
    tally requests;       /* requests served */
    /* Time from the start of the iteration that served a request to the end of its writes. */
    struct histogram answers;
    uint64_t unanswered; /* requests served in this iteration */
    struct traffic *unanswered_next;
} __attribute__((aligned(64)));

/* A protocol on this server. It must live as long as the workers. */
struct protocol {
    const struct protocol_row *row;
    void *service;           /* for the row's functions */
    size_t session_size;     /* bytes of conn_session, zero at open */
    size_t request_max;      /* the longest unfinished request that is buffered whole, in bytes */
    struct traffic *traffic; /* owned by the service, one for each worker; NULL: not measured */

    _Atomic uint32_t max_connections; /* 0: no limit; may change at any time */

    /* Counted by the workers. */
    _Atomic uint32_t connections; /* open now, also those in a handshake or being refused */
    /* Since the start, except those refused for their address or their number. */
    _Atomic uint64_t connections_made;
    /* Connections that failed after accept, and rests of a listener whose accepts failed. */
    _Atomic uint64_t accept_errors;
    _Atomic uint64_t send_errors;  /* failed writes */
    _Atomic uint64_t outputs_full; /* times that a client had to read answers before it was read */
    /* Closed connections by reason. REFUSED (by max_connections), DENIED and SOURCE are not in
     * connections_made; all others are. */
    _Atomic uint64_t closed[CLOSE_MAX];
};

/* The word of a close reason, of net or of the protocol; NULL when the number is too large. Reasons
 * are numbered from 0 without gaps. Any thread. */
const char *protocol_close_word(const struct protocol_row *row, unsigned reason);

/* True when the row uses a feature that needs struct conn_extension (worker_internal.h). */
static inline bool protocol_is_extended(const struct protocol_row *row)
{
    return row->deadlines > 1 || row->pending_max > 0 || row->part_step > 0 || row->tracks_output;
}

#endif
