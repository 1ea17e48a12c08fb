/*
 * conn.h - a connection, as the service of its protocol sees it.
 *
 * A connection reads bytes, parses and serves one request at a time (protocol.h), and writes the
 * answers. An idle connection owns no buffers: bytes are read into the worker's buffer and parsed
 * there, and only the rest of an unfinished request is kept. Answers are collected in chunks from
 * the worker's pool. All answers to one event are sent in one write.
 *
 * A connection has one state for reading and one for writing (states and transitions:
 * conn_state.c). When service ends, the row's `close` is called and must free everything that the
 * client holds. A TLS connection starts with its handshake; the protocol does not know the
 * connection until that is done.
 *
 * Threads: a connection belongs to its worker. Call all functions in that worker's thread, except
 * those marked "any thread".
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

/* ---- identity -------------------------------------------------------------------------------- */

/* Maximum number of workers: tags and ids have 8 bits for the worker. */
#define WORKERS_MAX 256

/* The first fields of struct conn, so that the next two functions can be inline. */
#define CONN_HEAD                                                                                  \
    struct loop_io io; /* first: the loop prefetches the bytes after it */                         \
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

/* The protocol's own state of this connection: session_size bytes. */
void *conn_session(struct conn *conn);

/* A number that no other open connection of this server has; never 0. */
uint32_t conn_id(const struct conn *conn);
/*
 * Worker, slot and generation in one number. It identifies the connection even after it has closed.
 */
uint64_t conn_tag(const struct conn *conn);
/* The worker's number, from a tag. Any thread. */
unsigned conn_tag_worker(uint64_t tag);
/* The connection with this tag, if it belongs to `worker` and is being served; else NULL. */
struct conn *conn_by_tag(struct worker *worker, uint64_t tag);
/* The connection with this tag in any state except closed: also in its handshake, or finishing.
 * NULL: none. */
struct conn *conn_find(struct worker *worker, uint64_t tag);
/*
 * What is held may belong to a connection in two ways: a service may keep a second holder for it,
 * with the id conn_id() + CONN_ID_SECOND, which is no connection's. conn_id_first makes the
 * connection's id of either. Any thread.
 */
#define CONN_ID_SECOND 0x800000u
static inline uint32_t conn_id_first(uint32_t id)
{
    return ((id - 1) & ~CONN_ID_SECOND) + 1;
}
/* The connection with this id, if it belongs to `worker` and is being served; else NULL. The id may
 * be that of its second holder. */
struct conn *conn_by_id(struct worker *worker, uint32_t id);
/* The worker's number, from an id, also of a second holder. Any thread. */
unsigned conn_id_worker(uint32_t id);

/* Size of the text form of a tag, for people and URLs: "WORKER.SLOT.GENERATION" in decimal. */
#define CONN_TAG_TEXT 32
/* Writes the text of `tag` to `to` (CONN_TAG_TEXT bytes), with a null byte. Any thread. */
void conn_tag_text(uint64_t tag, char *to);
/* Parses a text of conn_tag_text, and no other form. Returns false for any other text; *tag_r is
 * then unchanged. Any thread. */
bool conn_tag_parse(const char *text, uint64_t *tag_r) MUST_USE;

/* ---- the peer -------------------------------------------------------------------------------- */

/* The name of a transport: "tcp", "tls", "unix". Any thread. */
const char *transport_word(enum transport transport);
enum transport conn_transport(const struct conn *conn);

#define CONN_PEER_TEXT 80
/* Writes "192.0.2.1:4711", "[::1]:4711" or "unix pid 12 uid 0" to `to` (CONN_PEER_TEXT bytes); "?"
 * when the peer has gone. */
void conn_peer_text(const struct conn *conn, char *to);
/* True when the peer uses a unix socket, or when its address is in one of the networks. An empty
 * list contains no address. False for a peer that has gone. */
bool conn_peer_in(const struct conn *conn, const struct access_network *list, size_t count);

/* A connection, as shown to an operator. */
struct conn_info {
    uint64_t tag;
    const struct protocol *protocol;
    enum transport transport;
    char peer[CONN_PEER_TEXT];
    int64_t opened_ns;     /* monotonic time, rounded to 2^24 ns */
    uint32_t queued;       /* bytes of output not yet written */
    uint32_t holds, waits; /* names held and waited for; set by the protocol's `describe` */
};

/* Describes a connection that came from conn_find or worker_conn_at. */
void conn_describe(struct conn *conn, struct conn_info *info_r);

/* ---- answers --------------------------------------------------------------------------------- */

/* The largest `size` for conn_reply_room, in bytes. */
#define CONN_REPLY_MAX 4096

/*
 * Returns room for `size` bytes (at most CONN_REPLY_MAX) at the end of the output. The caller
 * writes there and then adds the bytes with conn_replied, all or only the first ones. Never NULL:
 * without memory the bytes are dropped, and the connection closes at the next write.
 */
void *conn_reply_room(struct conn *conn, size_t size);
void conn_replied(struct conn *conn, size_t len);

/* Copies bytes to the end of the output. Without memory it does the same as conn_reply_room. */
void conn_reply(struct conn *conn, const void *data, size_t len);
/* The same without a copy of what is longer than CONN_REPLY_MAX: the bytes must stay until `drop`
 * is called, once, in this thread: at once, when they are written, or when the connection closes.
 * They count towards the output limit like all others. */
void conn_reply_shared(struct conn *conn, const void *bytes, size_t len,
                       void (*drop)(const void *bytes));

/* True when half of the output limit is queued. While it is true, no request is served. An answer
 * in pieces waits too, unless the half is reached only with interjections that wait for its end. */
bool conn_is_full(const struct conn *conn);
/* The number of bytes that may still be queued. An answer that cannot be cut may exceed it. */
size_t conn_space(const struct conn *conn);
/* The output limit, in bytes: limits.output_buffer. */
size_t conn_output_limit(const struct conn *conn);

/* In `serve`: the request cost as much as some dozens of others. It is the last one of this
 * connection that is served in this iteration of the worker. */
void conn_dear(struct conn *conn);

/* ---- pending answers: rows with pending_max > 0 ---------------------------------------------- */

/*
 * Makes the answer of the current request pending. Call it in `serve`, before the request goes to
 * another thread. *number_r identifies the answer for conn_answer; `serve` must then return
 * SERVED_PENDING or SERVED_PENDING_NEXT. Returns false when there is no memory: nothing has
 * changed, and the service answers with an error.
 *
 * After an upgrade the oldest pending answer has the number 0, and each other one the difference
 * between its number and the oldest one's. The oldest pending answer is always the service's.
 */
bool conn_pend(struct conn *conn, uint32_t *number_r) MUST_USE;

/* The number of pending answers. */
unsigned conn_pending(const struct conn *conn);

/*
 * Everything that is replied between these two calls is the answer to request `number` (from
 * conn_pend). Answers are sent in the order of their requests: an early answer is kept until those
 * before it are complete. conn_answered may start the next request.
 */
void conn_answer(struct conn *conn, uint32_t number);
void conn_answered(struct conn *conn);

/* ---- messages -------------------------------------------------------------------------------- */

/*
 * Sends a message (base/mail.h) to the worker of the connection message->to. The message's
 * `deliver` runs in that worker's thread and gets the worker as its argument, even when the
 * connection has closed; conn_by_tag then returns NULL. conn_post: any thread. worker_deliver: only
 * in the thread of `from`. It delivers a message to `from` itself at once; but if the message's
 * connection has pending answers and is just serving a request, after that request.
 */
void conn_post(struct server *server, struct message *message);
/* As conn_post, with reactor_post_late. */
void conn_post_late(struct server *server, struct message *message);
void worker_deliver(struct worker *from, struct message *message);

/* ---- output: rows with tracks_output or extends_later ---------------------------------------- */

/*
 * For rows with extends_later: from now on the functions of this part may be called for this
 * connection; until then they must not be. Positions count from the first byte that is unsent now.
 * Harmless when it was called before, and in a row that always has them. Returns false when there
 * is no memory: nothing has changed.
 *
 * An upgrade carries it: `restore` finds the connection extended if it was when it was saved, and
 * may call this too.
 */
bool conn_extend(struct conn *conn) MUST_USE;

/* The position after all answers queued so far: bytes since the connection was opened (or
 * extended). Answers that wait for earlier ones are not queued yet. */
uint64_t conn_output_end(const struct conn *conn);
/* True when the byte at `position` was given to the kernel (with TLS: to the library). May be
 * called in `close` too. */
bool conn_was_written(const struct conn *conn, uint64_t position);
/* Positions in a record are relative to the written output. `save` converts a position with
 * conn_position_save, `restore` converts it back with conn_position_restore. */
int64_t conn_position_save(const struct conn *conn, uint64_t position);
uint64_t conn_position_restore(const struct conn *conn, int64_t saved);

/* Marks the start of the current answer. Before its first byte is written, the row's `may_write` is
 * asked at every write. conn_finish asks a last time, because the session ends then. During an
 * answer in pieces it marks all that follows, up to the next mark. */
void conn_check_output(struct conn *conn);

/*
 * Adds bytes that are not an answer, between two answers; during an answer in pieces, after it.
 * Returns false when `unsent_max` or more bytes are unsent; nothing is then added. The row's `room`
 * is called once when no more than half of `unsent_max` is unsent.
 */
bool conn_interject(struct conn *conn, const void *data, size_t len, size_t unsent_max) MUST_USE;

/* ---- requests in parts: rows with part_step > 0 ---------------------------------------------- */

/*
 * Counts `bytes` that the service keeps for this connection's unfinished request. Returns false,
 * counting nothing, when limits.unfinished is reached and no other connection has more (claims.c).
 * conn_unhold gives them back; so does the end of the connection.
 */
bool conn_hold(struct conn *conn, size_t bytes) MUST_USE;
void conn_unhold(struct conn *conn, size_t bytes);

/* ---- deadlines ------------------------------------------------------------------------------- */

/*
 * Makes the row's `expire` run in `wait_ns` nanoseconds. Replaces the earlier time of the same
 * deadline; `which` is less than the row's `deadlines`. It reads the clock again, because the
 * iteration may have started a while ago, and a deadline must never pass early.
 */
void conn_expire_in(struct conn *conn, unsigned which, int64_t wait_ns);
void conn_clear_deadline(struct conn *conn, unsigned which);

/* True when the deadline is set; for `restore`. */
bool conn_expires(const struct conn *conn, unsigned which);
/* True when an answer in pieces is unfinished: from the return of the `serve` that began it until
 * `resume` has returned true. At any time while the connection is served. */
bool conn_in_pieces(const struct conn *conn);

/* ---- ending ---------------------------------------------------------------------------------- */

/* Sends the queued output, then closes; no more requests are served. Answers that wait for earlier
 * ones are dropped: the client would take them for answers to other requests. Reasons: protocol.h.
 */
void conn_finish(struct conn *conn, unsigned reason);
/* Closes the connection at once, in any state. */
void conn_close(struct conn *conn, unsigned reason);

#endif
