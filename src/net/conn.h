/*
 * conn.h - a connection as its protocol's service sees it.
 *
 * A connection reads bytes, has them parsed and served one request at a time (protocol.h), and
 * writes the answers. It owns no buffers while it is idle: bytes are read into its worker's buffer
 * and parsed there; only the rest of an unfinished request is kept. Answers gather in chunks from
 * the worker's pool and leave in one write after the event that caused them.
 *
 * A connection is in one state for reading and one for writing (states and transitions: conn.c).
 * The row's `close` is called when a connection stops serving, so whatever the client held is free
 * from then on. With TLS the handshake comes first: the protocol does not know the connection yet.
 *
 * Threads: a connection belongs to its worker; everything here is called in the worker's thread,
 * but for what says "any thread".
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "base/check.h"
#include "base/clock.h"
#include "base/mail.h"
#include "net/access.h"
#include "net/loop.h"
#include "net/protocol.h"
#include "net/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct conn;
struct server;
struct worker;

/* ---- identity ------------------------------------------------------------------------------ */

/* How struct conn begins, so that the next two cost no call. */
#define CONN_HEAD                                                                                  \
    struct loop_io io; /* first: the loop prefetches what comes after it */                        \
    struct worker *worker;                                                                         \
    struct protocol *protocol
struct conn_head {
    CONN_HEAD;
};

static inline const struct protocol *conn_protocol(const struct conn *conn)
{
    return ((const struct conn_head *)(const void *)conn)->protocol;
}

static inline struct worker *conn_worker(const struct conn *conn)
{
    return ((const struct conn_head *)(const void *)conn)->worker;
}

/* The protocol's own state of the connection, session_size bytes. */
void *conn_session(struct conn *conn);

/* Differs from that of every other open connection of this server; never 0. */
uint32_t conn_id(const struct conn *conn);
/* Worker, slot and generation in one: names the connection, also after it ended. */
uint64_t conn_tag(const struct conn *conn);
/* The number of the worker that a tag names. Any thread. */
unsigned conn_tag_worker(uint64_t tag);
/* The connection that `tag` names, if it is `worker`'s and being served; else NULL. */
struct conn *conn_by_tag(struct worker *worker, uint64_t tag);
/* The same in any state but closed: also in its handshake, or finishing. */
struct conn *conn_find(struct worker *worker, uint64_t tag);
/* The connection with this id, if it is `worker`'s and being served; else NULL. */
struct conn *conn_by_id(struct worker *worker, uint32_t id);
/* The number of the worker that an id names. Any thread. */
unsigned conn_id_worker(uint32_t id);

/* Tags for people and URLs: "WORKER.SLOT.GENERATION" in decimal. */
#define CONN_TAG_TEXT 32
/* Writes `tag` to `to` (CONN_TAG_TEXT bytes), with a null byte. Any thread. */
void conn_tag_text(uint64_t tag, char *to);
/* Reads what conn_tag_text writes, and nothing else; false: *tag_r is unchanged. Any thread. */
bool conn_tag_parse(const char *text, uint64_t *tag_r) MUST_USE;

/* ---- the peer ------------------------------------------------------------------------------ */

/* The word of a transport: "tcp", "tls", "unix". Any thread. */
const char *transport_word(enum transport transport);
enum transport conn_transport(const struct conn *conn);

#define CONN_PEER_TEXT 80
/* Writes "192.0.2.1:4711", "[::1]:4711", "unix pid 12 uid 0", or "?" when the peer has gone. */
void conn_peer_text(const struct conn *conn, char *to);
/* True: the peer came over a unix socket, or its address lies in one of the networks. An empty
 * list has no address. A peer that has gone is in none. */
bool conn_peer_in(const struct conn *conn, const struct access_network *list, size_t count);

/* A connection as an operator sees it. */
struct conn_info {
    uint64_t tag;
    const struct protocol *protocol;
    enum transport transport;
    char peer[CONN_PEER_TEXT];
    int64_t opened_ns;     /* monotonic, to 2^24 ns */
    uint32_t queued;       /* bytes of output */
    uint32_t holds, waits; /* names; by the protocol's `describe` */
};

/* Describes a connection (of conn_find or worker_conn_at). */
void conn_describe(struct conn *conn, struct conn_info *info_r);

/* ---- answers ------------------------------------------------------------------------------- */

/* conn_reply_room gives at most so many bytes. */
#define CONN_REPLY_MAX 4096

/*
 * Room for `size` (at most CONN_REPLY_MAX) bytes at the end of the answers: the caller writes there
 * and then counts all or part of it in with conn_replied. Never NULL: without memory the bytes are
 * thrown away, and the connection closes when it would be written to.
 */
void *conn_reply_room(struct conn *conn, size_t size);
void conn_replied(struct conn *conn, size_t len);

/* Adds bytes to the answers, copying them. Without memory as above. */
void conn_reply(struct conn *conn, const void *data, size_t len);

/* True: half of the output limit is queued. No request is served, and answers in pieces wait. */
bool conn_is_full(const struct conn *conn);
/* So many bytes may still be queued. An answer that cannot be cut may go beyond it. */
size_t conn_space(const struct conn *conn);

/* ---- pending answers: rows with pending_max > 0 --------------------------------------------- */

/*
 * In `serve`, before the request goes to another thread: makes its answer pending. *number_r names
 * it for conn_answer; `serve` then returns SERVED_PENDING or SERVED_PENDING_NEXT. False: no memory,
 * and nothing has changed: the service answers so.
 *
 * After an upgrade the oldest that is pending has the number 0: each has its number less that of
 * the oldest, which is always the service's.
 */
bool conn_pend(struct conn *conn, uint32_t *number_r) MUST_USE;

/* How many answers are pending. */
unsigned conn_pending(const struct conn *conn);

/*
 * The answer of request `number` (of conn_pend) has come: what is replied between these two calls
 * is that answer. Answers leave in the order of their requests: one whose turn has not come is kept
 * until those before it are complete. conn_answered may let the next request start.
 */
void conn_answer(struct conn *conn, uint32_t number);
void conn_answered(struct conn *conn);

/* ---- letters ------------------------------------------------------------------------------- */

/*
 * Sends a letter (base/mail.h) to the worker of the connection that letter->to names. Its
 * `deliver` runs there, with the worker as reader, also when the connection has gone; conn_by_tag
 * says which. conn_post: any thread. worker_deliver: from `from`'s thread, which delivers its own
 * letters at once.
 */
void conn_post(struct server *server, struct letter *letter);
void worker_deliver(struct worker *from, struct letter *letter);

/* ---- output: rows with tracks_output -------------------------------------------------------- */

/* The position behind all answers queued so far: bytes since the connection was opened. Answers
 * whose turn has not come are not queued yet. */
uint64_t conn_output_end(const struct conn *conn);
/* True: the byte at `position` was given to the kernel (with TLS: to the library). Also in
 * `close`. */
bool conn_was_written(const struct conn *conn, uint64_t position);
/* Positions over an upgrade: relative to what was written, for `save`; and back in `restore`. */
int64_t conn_position_save(const struct conn *conn, uint64_t position);
uint64_t conn_position_restore(const struct conn *conn, int64_t saved);

/* Marks the answer that begins here: the row's `may_write` is asked before its first byte is
 * written, at each write until then. conn_finish asks a last time: the session ends with it. */
void conn_check_output(struct conn *conn);

/*
 * Adds bytes that are no answer, between two answers. While an answer in pieces is being written
 * they follow it. False: `unsent_max` or more bytes are unsent, and nothing was added; the row's
 * `room` is called once when at most half of that is unsent.
 */
bool conn_interject(struct conn *conn, const void *data, size_t len, size_t unsent_max) MUST_USE;

/* ---- requests in parts: rows with part_step > 0 ---------------------------------------------- */

/*
 * Counts `bytes` that the service keeps of this connection's unfinished request. False: all
 * connections together would keep more than limits.unfinished, and nothing was counted.
 * conn_unhold gives them back; so does the connection's end.
 */
bool conn_hold(struct conn *conn, size_t bytes) MUST_USE;
void conn_unhold(struct conn *conn, size_t bytes);

/* ---- deadlines ----------------------------------------------------------------------------- */

/*
 * Has the row's `expire` called in `wait_ns`, in place of an earlier setting; `which` is below the
 * row's `deadlines`. The clock is read anew: a request may have come in the middle of an iteration,
 * and nobody's time is up early.
 */
void conn_expire_in(struct conn *conn, unsigned which, int64_t wait_ns);
void conn_clear_deadline(struct conn *conn, unsigned which);

/* For `restore`: the deadline is set; an answer in pieces is under way. */
bool conn_expires(const struct conn *conn, unsigned which);
bool conn_in_pieces(const struct conn *conn);

/* ---- ending -------------------------------------------------------------------------------- */

/* Sends what is queued, then closes; no further request is served. Answers whose turn has not come
 * are dropped: they would seem to be other requests'. Reasons: protocol.h. */
void conn_finish(struct conn *conn, unsigned reason);
/* Closes it at once, whatever it does. */
void conn_close(struct conn *conn, unsigned reason);

#endif
