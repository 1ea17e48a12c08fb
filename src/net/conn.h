/*
 * conn.h - a connection as a protocol's service sees it, and a protocol as a connection sees it.
 *
 * A connection reads bytes, gives them to its protocol one request at a time, and sends what the
 * protocol replies. It owns no buffers while it is idle: bytes are read into its worker's buffer
 * and parsed there; only the rest of an unfinished request is kept. Replies gather in chunks from
 * the worker's pool and leave in one write when the event that brought them is dealt with.
 *
 * States: OPEN -> FINISHING (answered for the last time; what is queued still goes out, then the
 * peer's bytes are thrown away for a while so that it gets to read the answer) -> CLOSED; or OPEN
 * -> CLOSED at once. The protocol's `close` is called when OPEN is left, so what the client held is
 * free from then on. With TLS, HANDSHAKING comes before OPEN: the protocol knows nothing of the
 * connection yet, and where the handshake fails it never does.
 *
 * Threads: a connection belongs to its worker; everything here is called in the worker's thread.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "base/check.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mail.h"
#include "base/tally.h"
#include "net/stream.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct record_reader;
struct record_writer;
struct worker;

/* Why a connection ended: name, the word for logs and statistics. One row each. */
#define CLOSE_REASONS(ROW)                                                                         \
    ROW(PEER, "peer")         /* it closed, or shut down its sending side */                       \
    ROW(RESET, "reset")       /* it broke the connection off */                                    \
    ROW(VANISHED, "vanished") /* keepalive or user timeout: nothing is heard of it */              \
    ROW(ERROR, "error")       /* the kernel or TLS reports any other error */                      \
    ROW(PROTOCOL, "protocol") /* it sent what nothing can follow */                                \
    ROW(REQUEST_TIMEOUT, "request_timeout") /* a request was begun and not finished */             \
    ROW(WRITE_TIMEOUT, "write_timeout")     /* it did not take its answers */                      \
    ROW(MEMORY, "memory")                   /* none for its bytes */                               \
    ROW(SHUTDOWN, "shutdown")               /* the daemon ends */                                  \
    ROW(REFUSED, "refused")                 /* too many connections */                             \
    ROW(KILLED, "killed")                   /* by the operator */                                  \
    ROW(DENIED, "denied")                   /* its address is not an allowed one */                \
    ROW(SOURCE, "per_source")               /* too many connections from its address */            \
    ROW(HANDSHAKE, "handshake")             /* that of TLS failed or was too slow, or too many */  \
    ROW(UPGRADE, "upgrade")                 /* it has TLS, which another process can't go on with */

enum close_reason {
#define ROW(name, word) CLOSE_##name,
    CLOSE_REASONS(ROW)
#undef ROW
        CLOSE_REASON_COUNT
};

/* The word of a reason. */
const char *close_reason_word(enum close_reason reason);

enum consumed {
    CONSUMED_ONE,    /* one request was dealt with */
    CONSUMED_MORE,   /* the next request is not all here */
    CONSUMED_PAUSED, /* one was taken whose answer goes on in `resume`: no other before it is over
                      */
    CONSUMED_LAST,   /* the connection was finished or closed */
};

/* The word of a transport: "tcp", "tls", "unix". */
const char *transport_word(enum transport transport);

#define CONN_PEER_TEXT 80

/* How many requests a protocol looks ahead at a time. */
#define CONN_FORESIGHT 32

/* A connection as an operator sees it. */
struct conn_info {
    uint64_t tag;
    const struct protocol *protocol;
    enum transport transport;
    char peer[CONN_PEER_TEXT]; /* "192.0.2.1:4711", "[::1]:4711", "unix pid 12 uid 0"; "?": gone */
    int64_t opened_ns;         /* monotonic, to 2^24 ns */
    uint32_t queued;           /* bytes of output */
    uint32_t holds, waits;     /* names; by the protocol's `describe` */
};

/*
 * What one worker has moved for one protocol. Written by that worker alone; tallies and histogram
 * are for any thread to read. The last two are the worker's own.
 */
struct traffic {
    tally received, sent; /* bytes of the protocol, without what TLS adds */
    tally requests;       /* dealt with */
    /* From the turn in which a request was dealt with to the end of that turn's writes. */
    struct histogram answers;
    uint64_t unanswered; /* requests dealt with in this turn */
    struct traffic *unanswered_next;
} __attribute__((aligned(64)));

/*
 * A protocol on this server, with its settings and its service: one row of the registry, alive as
 * long as the workers are.
 */
struct protocol {
    const char *name;    /* "poolcounter" */
    size_t session_size; /* bytes of conn_session, zeroed at open */
    void *service;       /* whatever the functions below want */

    /* The connection is open. */
    void (*open)(struct conn *conn);
    /*
     * Deals with the first request in `data` (`len` > 0 bytes). ONE, PAUSED: *used_r bytes of it
     * are done with (more than 0). MORE: *used_r is how many bytes at least the request has, 0 when
     * nobody can tell.
     */
    enum consumed (*consume)(struct conn *conn, const uint8_t *data, size_t len, size_t *used_r);
    /*
     * There may be several requests in `data`: looks ahead, so that what they will want is fetched
     * from memory for all at once. Returns how many it has looked at, CONN_FORESIGHT at most. These
     * are then dealt with by `consume_foreseen` one after the other, all of them or only the first
     * few, while `data` stays as it is. NULL: it does not look ahead.
     */
    unsigned (*foresee)(struct conn *conn, const uint8_t *data, size_t len);
    enum consumed (*consume_foreseen)(struct conn *conn, size_t *used_r);
    /* Goes on with the answer that `consume` paused in. True: it is over. */
    bool (*resume)(struct conn *conn);
    /* The deadline set with conn_expire_in has come. */
    void (*expire)(struct conn *conn);
    /* The client has gone, or is told its last: gives back everything it has. */
    void (*close)(struct conn *conn);

    /*
     * An upgrade: writes what the connection's session is, while no worker runs; and reads it, in
     * place of `open`, for a connection that another process had. False: it can't be so. NULL: this
     * protocol's connections can't be carried.
     */
    void (*save)(struct conn *conn, struct record_writer *w);
    bool (*restore)(struct conn *conn, struct record_reader *r);

    /* Adds what it knows of an open connection: `holds` and `waits`. NULL: it knows nothing. */
    void (*describe)(struct conn *conn, struct conn_info *info);
    struct traffic *traffic; /* the service's, one for each worker; NULL: not measured */

    _Atomic uint32_t max_connections; /* 0: no limit; may change at any time */
    size_t request_max;               /* no unfinished request takes more bytes than this */

    /* Counted by the workers. */
    _Atomic uint32_t connections; /* now, with those in their handshake or being refused */
    /* Since the start, without those that were closed because of whence they came or how many. */
    _Atomic uint64_t connections_made;
    _Atomic uint64_t accept_errors; /* connections that could not be served */
    _Atomic uint64_t send_errors;   /* writes that failed */
    /* REFUSED (because of max_connections), DENIED and SOURCE were not made, all others were. */
    _Atomic uint64_t closed[CLOSE_REASON_COUNT];
};

/* The protocol's own state of the connection, session_size bytes. */
void *conn_session(struct conn *conn);
const struct protocol *conn_protocol(const struct conn *conn);
struct worker *conn_worker(const struct conn *conn);

/* Unequal to that of every other open connection of this server; never 0. */
uint32_t conn_id(const struct conn *conn);
/* Worker, slot and generation in one: names the connection, also after it ended. */
uint64_t conn_tag(const struct conn *conn);
/* The number of the worker that a tag names. */
unsigned conn_tag_worker(uint64_t tag);
/* The connection that `tag` names, if it is still open and is `worker`'s; else NULL. */
struct conn *conn_by_tag(struct worker *worker, uint64_t tag);
/* The same in any state but closed: also in its handshake, or finishing. */
struct conn *conn_find(struct worker *worker, uint64_t tag);
/* The connection with this id, if it is open now and is `worker`'s; else NULL. */
struct conn *conn_by_id(struct worker *worker, uint32_t id);
/* The number of the worker that an id names. */
unsigned conn_id_worker(uint32_t id);

/* Tags for people and URLs: "WORKER.SLOT.GENERATION" in decimal. */
#define CONN_TAG_TEXT 32
/* Writes `tag` to `to` (CONN_TAG_TEXT bytes), with a null byte. Any thread. */
void conn_tag_text(uint64_t tag, char *to);
/* Reads what conn_tag_text writes, and nothing else; false: *tag_r is unchanged. Any thread. */
bool conn_tag_parse(const char *text, uint64_t *tag_r) MUST_USE;

/* What there is to know of a connection (of conn_find or worker_conn_at). */
void conn_describe(struct conn *conn, struct conn_info *info_r);
/* Closes it at once, whatever it does, with CLOSE_KILLED; called within worker_ask. */
void conn_kill(struct conn *conn);

/* How much conn_reply_room may be asked for. */
#define CONN_REPLY_MAX 4096

/*
 * Room for `size` (at most CONN_REPLY_MAX) bytes at the end of the replies, to be written to and
 * then, all or in part, counted in with conn_replied. Never NULL: where there is no memory it is
 * room that is thrown away, and the connection closes when it would be sent to.
 */
void *conn_reply_room(struct conn *conn, size_t size);
void conn_replied(struct conn *conn, size_t len);

/* Adds bytes to the replies, copying them. The same holds where there is no memory. */
void conn_reply(struct conn *conn, const void *data, size_t len);

/* Whether half of what may be queued is: no request is looked at, a paused answer goes on later. */
bool conn_is_full(const struct conn *conn);
/* How many bytes may be queued yet. An answer that can't be parted may go beyond it. */
size_t conn_space(const struct conn *conn);

/*
 * Calls the protocol's `expire` in `wait_ns`, instead of before. The clock is read anew: a request
 * may have come in the middle of a turn, and nobody's time is up early.
 */
void conn_expire_in(struct conn *conn, int64_t wait_ns);
void conn_clear_deadline(struct conn *conn);

/* Whether the deadline is set; whether an answer is paused: for `restore`, which finds both as they
 * were. */
bool conn_expires(const struct conn *conn);
bool conn_is_paused(const struct conn *conn);

/* Sends what is queued, then closes for `reason`; no further request is looked at. */
void conn_finish(struct conn *conn, enum close_reason reason);

#endif
