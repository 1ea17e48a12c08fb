/* worker_internal.h - the internals of workers and their connections. For these files only:
 * worker.c, conn_state.c, input.c, output.c, admission.c, claims.c, listener.c and carry.c. */
#ifndef NET_WORKER_INTERNAL_H
#define NET_WORKER_INTERNAL_H

#include "net/snapshot_internal.h"
#include "net/worker.h"

struct claim; /* what one connection claims (claims.c) */

/*
 * A piece of output from the worker's pools. Small chunks are for clients that get a short message
 * while they wait. One request may wake thousands of clients, and a large chunk for each would cost
 * a page fault.
 */
struct chunk {
    struct chunk *next;
    uint32_t begin, end; /* the bytes of `data` not yet written */
    uint32_t room;       /* size of `data` */
    bool shared;         /* it is a struct shared_chunk */
    uint8_t data[];
};

/* A small chunk of bytes that are not copied (conn_reply_shared). `end` and `room` are their
 * number. */
struct shared_chunk {
    struct chunk chunk;
    const uint8_t *bytes;
    void (*drop)(const void *bytes);
};
#define CHUNK_SMALL_ROOM (128u - (uint32_t)sizeof(struct chunk))
#define CHUNK_LARGE_ROOM (16u * 1024 - (uint32_t)sizeof(struct chunk))

/* The bytes of a chunk that are not yet written. */
static inline const uint8_t *chunk_unwritten(const struct chunk *chunk)
{
    const uint8_t *bytes = chunk->data;
    if (unlikely(chunk->shared))
        bytes = ((const struct shared_chunk *)(const void *)chunk)->bytes;
    return bytes + chunk->begin;
}

struct chunk_pool {
    struct chunk *first; /* free chunks */
    unsigned count;
};

struct chunk_list {
    struct chunk *first, *last;
};

/* The reading state: the state of the client's requests. Transitions: conn_state.c. */
enum conn_reading {
    READING_HANDSHAKE, /* TLS is being set up; the protocol does not know the connection yet */
    READING_OPEN,      /* requests are read and served */
    READING_PENDING,   /* the next request waits for pending answers */
    READING_PIECES,    /* the next request waits for the end of an answer in pieces */
    READING_FULL,      /* the next request waits until the client reads its answers */
    READING_ENDED,     /* the client sends nothing more; its answers are still sent */
    READING_DISCARD,   /* the last answer is queued; all further input is discarded */
    READING_CLOSED,
    READING_COUNT,
};

/* The writing state: the state of the output. */
enum conn_writing {
    WRITING_OPEN,    /* queued output is written at the end of the event */
    WRITING_BLOCKED, /* the socket takes no more for now */
    WRITING_CROSSED, /* TLS: writing waits until the socket is readable */
    WRITING_SHUT,    /* the last answer was written, our side is shut down; the peer may read */
    WRITING_FAILED,  /* no memory for answers: the next flush closes the connection */
};

/* Whether input may be left that the loop does not report again. */
enum conn_input {
    INPUT_DRY,     /* none; the loop reports new input */
    INPUT_MORE,    /* there may be more */
    INPUT_DRAIN,   /* there may be more, even after a short read: read until nothing is left */
    INPUT_CROSSED, /* TLS: reading waits until the socket is writable */
};

/* The unit of conn->opened: 2^24 ns. A connection's age is correct for up to 2 years. */
#define CONN_OPENED_SHIFT 24

/* The value of `deadline.kind`. For DEADLINE_SESSION the bits from KIND_BITS up have its offset in
 * the connection. */
enum deadline_kind {
    DEADLINE_READ = REACTOR_TIMER + 1, /* an unfinished request or handshake, or lingering */
    DEADLINE_WRITE,                    /* unwritten output */
    DEADLINE_SESSION,                  /* of the protocol's session */
};
#define KIND_BITS 2
#define KIND_MASK ((1u << KIND_BITS) - 1)

struct conn {
    CONN_HEAD;
    struct stream stream;
    uint32_t slot, generation;
    uint32_t source; /* the number from source_enter; 0: not counted */
    uint32_t opened; /* monotonic ns >> CONN_OPENED_SHIFT */

    uint8_t reading;      /* enum conn_reading */
    uint8_t writing;      /* enum conn_writing */
    uint8_t input;        /* enum conn_input */
    uint8_t reason;       /* READING_DISCARD, or input was not taken: the reason for the close */
    uint8_t pending;      /* number of pending answers */
    bool aside : 1;       /* the current answer is not the next one, so the extension keeps it */
    bool dear : 1;        /* conn_dear was called for the request that is served */
    bool unserved : 1;    /* `in` holds bytes that may contain a complete request */
    uint8_t extended : 2; /* enum conn_extended; 0: there is no struct conn_extension */
    bool gone : 1;        /* the client has closed its sending side */
    bool behind : 1;      /* counted in worker->behind, until it has caught up (server_catch_up) */
    bool in_flush_list : 1, in_again_list : 1;
    bool ending : 1;       /* it has more to give back, and keeps its slot until then */
    bool in_record : 1;    /* a part of a TLS record is here, and claimed */
    bool times_record : 1; /* the read deadline is that record's, not that of a request */

    /* Received bytes of requests that were not served yet; NULL most of the time. */
    uint8_t *in;
    uint32_t in_begin, in_end, in_room; /* READING_DISCARD: in_end counts discarded bytes */

    uint32_t out_bytes; /* queued bytes, including those in the extension */
    struct chunk_list out;

    struct claim *claim; /* a handshake, or memory for requests; NULL: none */
    struct deadline read_deadline, write_deadline;
    struct conn *flush_next, *again_next; /* flush_next also links closed connections */
    /* The session, then its deadlines, then struct conn_extension if the protocol always has one
     * (protocol_is_extended), or a pointer to it if the connection may get one (extends_later). */
    _Alignas(8) unsigned char session[];
};

/* An answer that is kept until the answers before it are complete. */
struct held_answer {
    struct chunk_list out;
    bool complete;
    bool checks;       /* it is marked (conn_check_output) */
    uint32_t check_at; /* from this byte of it on */
};

/* Where a connection's extension is. */
enum conn_extended {
    EXTENDED_INSIDE = 1, /* behind its deadlines */
    EXTENDED_APART = 2,  /* there is a pointer to it */
};

/* State that only some connections need: all of some protocols (protocol_is_extended), or those
 * that conn_extend was called for. */
struct conn_extension {
    /* Pending requests are numbered; their answers are sent in that order. */
    uint32_t oldest;   /* number of the oldest incomplete answer */
    uint32_t next;     /* number of the next answer */
    uint32_t current;  /* only while `aside` is set: number of the answer being written */
    bool wait_for_all; /* READING_PENDING: wait until no answer is pending, not for one place */
    bool wants_room;   /* call `room` when room_at bytes or fewer are unsent */
    size_t room_at;
    struct held_answer *held; /* at least pending_max, by number; NULL until two were pending */
    struct chunk_list after;  /* interjections that wait behind an answer in pieces */

    uint64_t queued, written; /* bytes since the connection was opened */
    uint64_t check_at;        /* start of the last marked answer; ask while `written` <= this */
    bool checks;              /* there is a marked answer */

    uint64_t held_bytes; /* counted by conn_hold */
    uint32_t part_bytes; /* bytes of parts since the read deadline was set */
};

struct conn_list {
    struct conn *first, *last;
};

struct slot {
    struct conn *conn;   /* NULL: free */
    uint32_t generation; /* of the last connection in this slot */
    uint32_t next_free;  /* the next free slot's number plus 1; 0: none */
};

struct worker {
    WORKER_HEAD;
    struct snapshot *snapshot;
    bool stopping;

    struct slot *slots;
    uint32_t slot_count, slot_room, free_slot;
    _Atomic uint32_t connections; /* including those that are being handed off to this worker */

    struct conn_list flush;     /* to be flushed after the event */
    unsigned flushes_left;      /* in this iteration */
    unsigned handshakes_left;   /* in this iteration */
    struct conn_list again;     /* have work for the next iteration */
    struct conn_list shaking;   /* the same: in a handshake. A connection is in one of the two */
    struct conn *dead;          /* closed connections, freed at the end of the iteration */
    _Atomic uint32_t behind;    /* connections that are behind; the main thread reads it */
    struct conn *serving;       /* the connection whose requests are being served; NULL: none */
    struct traffic *unanswered; /* list: has requests whose time is not measured yet */

    struct chunk_pool small_chunks, large_chunks;
    uint8_t *input;
    uint8_t *scratch;
    uint8_t *batch;            /* room for PROTOCOL_BATCH parsed requests */
    struct conn *pending_conn; /* it serves a request, and has pending answers; NULL: none does */

    void (*fd_freed)(void *arg);
    void *fd_freed_arg;
};

#define WORKER_INPUT ((size_t)64 * 1024)
/* Maximum number of connections that continue left-over work in an iteration. A client with a
 * single request never waits longer than for these. */
#define AGAINS_MAX 16
/* A connection that gives back counts as so many of them. */
#define ENDING_AGAINS 4
#define SLOTS_MAX     (CONN_ID_SECOND - 2)

static inline int64_t worker_mono_ns(const struct worker *worker)
{
    return worker->reactor.now.mono_ns;
}

static inline struct deadlines *conn_deadlines(const struct conn *conn)
{
    return &conn->worker->reactor.deadlines;
}

/* The tag of a connection. */
static inline uint64_t conn_tag_of(const struct worker *worker, uint32_t slot, uint32_t generation)
{
    return (uint64_t)worker->number << 56 | (uint64_t)slot << 32 | generation;
}

/* The traffic counters for this connection; NULL: not measured. */
static inline struct traffic *conn_traffic(const struct conn *conn)
{
    struct traffic *traffic = conn->protocol->traffic;
    return traffic ? &traffic[conn->worker->number] : NULL;
}

/* True while the protocol serves the connection: reads requests, or sends their traffic. */
static inline bool conn_is_served(const struct conn *conn)
{
    return conn->reading > READING_HANDSHAKE && conn->reading < READING_DISCARD;
}

/* True when half of the output limit is queued (conn_is_full). */
static inline bool conn_over_half(const struct conn *conn)
{
    return conn->out_bytes >= conn->worker->snapshot->limits.output_buffer / 2;
}

/* True when an answer in pieces goes on although half of the output limit is queued: without the
 * interjections that wait behind it, less is queued. Else they would wait for each other. */
bool conn_only_after_pieces(const struct conn *conn);

/* True when the connection has left-over work and may do it now. */
static inline bool conn_has_work(const struct conn *conn)
{
    bool more = conn->input == INPUT_MORE || conn->input == INPUT_DRAIN;
    if (likely(conn->reading == READING_OPEN && !conn->unserved && !more))
        return false;
    if (conn->reading == READING_DISCARD)
        return conn->writing == WRITING_SHUT && more;
    return (conn->reading == READING_OPEN || conn->reading == READING_PIECES) &&
           (!conn_over_half(conn) || conn_only_after_pieces(conn));
}

/* ---- conn_state.c ---------------------------------------------------------------------------- */

/* The number of deadlines that a connection of this protocol reserves. */
unsigned conn_deadline_count(const struct protocol *protocol);
/* Makes a connection with protocol and stream set; it is in no slot and in no loop yet. Returns
 * NULL when there is no memory. */
struct conn *conn_new(struct worker *worker, struct protocol *protocol,
                      struct stream stream) MUST_USE;
/* The session's deadline number `which`. */
struct deadline *conn_session_deadline(struct conn *conn, unsigned which);
/* The extension. Only if conn->extended. */
struct conn_extension *conn_extension(const struct conn *conn);
/* Changes the reading state. Nothing else may change it. */
void conn_move(struct conn *conn, enum conn_reading to);
/* Starts to serve the connection. */
void conn_open(struct conn *conn);
void conn_deadline_passed(struct deadline *d);
/* conn_catch_up counts the connection as behind until it has read, served and written everything
 * that has arrived. conn_caught_up ends that. */
void conn_catch_up(struct conn *conn);
void conn_caught_up(struct conn *conn);
/* A step of giving back, if `ending` (protocol.h). Returns false when more is left. */
bool conn_gave_back(struct conn *conn) MUST_USE;
/* Frees a closed connection that is in no list. */
void conn_free(struct conn *conn);

/* ---- input.c --------------------------------------------------------------------------------- */

/* Adds the descriptor to the loop. Returns false when there is no memory. */
bool conn_begin(struct conn *conn) MUST_USE;
/* Adds a restored connection to the loop, with no flags wanted. */
void conn_rejoin(struct conn *conn);
/* Sets the watch to the events that the connection can use now. */
void conn_watch(struct conn *conn);
/*
 * Moves `len` received bytes into a new buffer, which replaces the present one and has room for
 * `room` bytes, or `len` if that is more. Returns false when there is no memory or
 * limits.unfinished is reached; conn->reason says which.
 */
bool conn_take_input(struct conn *conn, const uint8_t *data, size_t len, size_t room) MUST_USE;
/* Frees the input buffer. Harmless when there is none. */
void conn_drop_input(struct conn *conn);
/* Continues left-over work (conn_has_work). */
void conn_continue(struct conn *conn);
/* Continues the handshake; opens the connection when it is done. */
void conn_shake_hands(struct conn *conn);
/* Ends a connection after a failed handshake. `told`: the library has sent an alert, and the peer
 * gets time to read it. */
void conn_handshake_failed(struct conn *conn, const char *why, bool told);

/* ---- output.c -------------------------------------------------------------------------------- */

/* Writes what the socket takes, and updates the state and the watch. */
void conn_flush(struct conn *conn);
/* Call these before and after `serve` while answers are pending, so that the new answer is kept
 * until those before it are complete. `answered`: the request is completely answered. */
void conn_answer_next(struct conn *conn);
void conn_answer_served(struct conn *conn, bool answered);
/* What is kept of a pending answer; NULL when there never were two. */
struct held_answer *conn_held_answer(const struct conn *conn, uint32_t number);
/* Asks `may_write` about a marked answer in the output, while the session still exists. Returns
 * false when the connection was closed. */
bool conn_may_finish(struct conn *conn) MUST_USE;
/* Ends an answer in pieces, and sends what waited behind it. */
void conn_pieces_done(struct conn *conn);
/* Frees all queued output. */
void conn_drop_output(struct conn *conn);
/* Called when service ends: forgets pending answers, and gives back the bytes of conn_hold. */
void conn_drop_extension(struct conn *conn);
/* Converts a stream result to a close reason. */
enum close_reason conn_reason_of(ssize_t n);

/* ---- worker.c -------------------------------------------------------------------------------- */

/* Takes a chunk with room for `size` bytes (at most CONN_REPLY_MAX). Returns NULL when there is no
 * memory. */
struct chunk *worker_chunk_take(struct worker *worker, size_t size) MUST_USE;
/* A chunk of bytes that are not copied; worker_chunk_give calls `drop`. NULL: no memory. */
struct chunk *worker_chunk_share(struct worker *worker, const void *bytes, size_t len,
                                 void (*drop)(const void *bytes)) MUST_USE;
void worker_chunk_give(struct worker *worker, struct chunk *chunk);
void worker_conn_closed(struct worker *worker, struct conn *conn, unsigned reason);
void worker_flush_later(struct worker *worker, struct conn *conn);
/* Call these before and after serving a connection's requests. In between, its own answers are not
 * added to the flush list, so they are written after those of clients that it wakes. */
static inline void conn_begin_serving(struct conn *conn)
{
    conn->worker->serving = conn;
}
static inline void conn_end_serving(struct conn *conn)
{
    conn->worker->serving = NULL;
    if (conn->out_bytes > 0)
        worker_flush_later(conn->worker, conn);
}
/* Writes all collected answers. */
void worker_flush(struct worker *worker);
void worker_again_later(struct worker *worker, struct conn *conn);
/* Returns true when the connection may continue its handshake in this iteration. Else has
 * conn_shake_hands called in a later one; the connection must not be watched until then. */
bool worker_may_shake(struct worker *worker, struct conn *conn) MUST_USE;
/* Frees a slot. */
void worker_give_slot(struct worker *worker, uint32_t slot);

/* For carry.c; the worker must not run. */

/* Delivers mail and writes queued output. Returns false when there was nothing to do. */
bool worker_flush_paused(struct worker *worker);
/* Makes `count` free slots, not chained yet, for a worker that has none. Returns false when there
 * is no memory. */
bool worker_place_slots(struct worker *worker, uint32_t count) MUST_USE;
/* Chains the free slots, lowest first. */
void worker_chain_free_slots(struct worker *worker);
/* Takes a free slot and returns its number; UINT32_MAX when there is none. */
uint32_t worker_take_slot(struct worker *worker);

/* ---- claims.c -------------------------------------------------------------------------------- */

#define CLAIM_FREE      256u
#define CLAIM_EVICTIONS 64u

/* The bytes that a buffer for an unfinished request claims. */
static inline uint64_t claim_of(uint64_t room)
{
    return room > CLAIM_FREE ? room - CLAIM_FREE : 0;
}

/* Claims so much more memory for the connection, by the limit of its worker's rules. Returns false,
 * claiming nothing, when the connection itself has to go, or when there is no memory; *why_r is
 * then the reason to close it for. */
bool claim_memory(struct conn *conn, uint64_t bytes, enum close_reason *why_r) MUST_USE;
/* Gives back so much. Harmless when the connection has to go. */
void claim_less(struct conn *conn, uint64_t bytes);

/* Claims a handshake for the connection that will have `tag`, and whose source is counted. Returns
 * NULL when there may be no more, or when there is no memory. The claim moves to conn->claim. */
struct claim *claim_handshake(struct worker *worker, uint64_t tag, uint32_t source) MUST_USE;
/* The client has sent a byte of its handshake. */
void claim_heard(struct conn *conn);

/* Ends a claim of either kind and sets it to NULL. Call it before the source is left. NULL is
 * harmless. */
void claim_end(struct worker *worker, struct claim **claim);

/* ---- admission.c ----------------------------------------------------------------------------- */

/* True when admission depends on the client's address. */
bool admission_asks_address(const struct worker *worker);

/*
 * Admits or refuses an accepted connection. `from` is the client's address; NULL when admission
 * does not depend on it. Returns true when the connection is admitted: it is then counted for its
 * protocol, and for its address in *source_r (0: not counted), which the caller passes to
 * worker_open. Returns false when it is refused; `stream` is then closed.
 */
bool admission_enter(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     const struct sockaddr *from, uint32_t *source_r) MUST_USE;

/* Claims a TLS handshake for the connection that will have `tag`. Counts its source, if
 * that is not counted yet; the caller still ends that count. Returns NULL when it is refused. */
struct claim *admission_handshake(struct worker *worker, const struct protocol *protocol,
                                  uint64_t tag, int fd, uint32_t *source) MUST_USE;

/* Closes an admitted connection whose handshake was refused. Counts it as CLOSE_HANDSHAKE, and
 * takes it out of the counts of open connections. */
void admission_leave(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     uint32_t source);

#endif
