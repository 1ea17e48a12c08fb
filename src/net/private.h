/*
 * private.h - the inside of workers, connections and rules, for the files of net that share it:
 * worker.c, conn.c, input.c, output.c, admission.c, listener.c, carry.c and rules.c.
 */
#ifndef NET_PRIVATE_H
#define NET_PRIVATE_H

#include "net/worker.h"

/*
 * A piece of output, taken from the worker's pools while it is needed. Small ones are for clients
 * that get a word or two without having asked just now: one request may wake thousands, and as many
 * large ones would cost a page fault each.
 */
struct chunk {
    struct chunk *next;
    uint32_t begin, end; /* what is still to send */
    uint32_t room;       /* of `data` */
    uint8_t data[];
};
#define CHUNK_SMALL_ROOM (128u - (uint32_t)sizeof(struct chunk))
#define CHUNK_LARGE_ROOM (16u * 1024 - (uint32_t)sizeof(struct chunk))

struct chunk_pool {
    struct chunk *first; /* free ones */
    unsigned count;
};

struct chunk_list {
    struct chunk *first, *last;
};

/* Rules, which do not change; rules.c says who frees them. */
struct rules {
    _Atomic uint32_t holders;
    struct server_limits limits;
    struct tls *tls; /* NULL: none */
    struct mail letters[WORKERS_MAX];
    size_t allow_count;
    struct access_network allow[];
};

/* One more holder, which will free them. */
struct rules *rules_share(struct rules *rules);

/* Where a connection stands with what its client sends. Transitions: conn.c. */
enum conn_reading {
    READING_HANDSHAKE, /* TLS is not set up yet; the protocol does not know the connection */
    READING_OPEN,      /* requests are read and served */
    READING_PENDING,   /* the next request waits for pending answers */
    READING_PIECES,    /* the next request waits for an answer that goes on in pieces */
    READING_FULL,      /* the next request waits for the client to take its answers */
    READING_ENDED,     /* the client sends nothing more; its answers still leave */
    READING_DISCARD,   /* the last answer is queued; what the client sends is thrown away */
    READING_CLOSED,
    READING_COUNT,
};

/* Where it stands with what the client is sent. */
enum conn_writing {
    WRITING_OPEN,    /* what is queued is written at the end of the event */
    WRITING_BLOCKED, /* the socket takes no more for now */
    WRITING_CROSSED, /* TLS: writing waits until the socket can be read */
    WRITING_SHUT,    /* the last answer was written, our side is shut down; the peer reads it */
    WRITING_FAILED,  /* no memory for its answers: closes when it is flushed */
};

/* What reading may still find that the loop does not report again. */
enum conn_input {
    INPUT_DRY,     /* nothing: the loop reports what comes */
    INPUT_MORE,    /* there may be bytes */
    INPUT_DRAIN,   /* the same, and a short read is not the end: read until there is nothing */
    INPUT_CROSSED, /* TLS: reading waits until the socket can be written */
};

/* A connection opens in steps of so many ns as a power of 2; its age is known for 2 years. */
#define CONN_OPENED_SHIFT 24

/* What `deadline.kind` says. Of a session's deadlines, the number stands above KIND_BITS. */
enum deadline_kind {
    DEADLINE_READ = REACTOR_TIMER + 1, /* a request or the handshake is unfinished; or lingering */
    DEADLINE_WRITE,                    /* output is queued */
    DEADLINE_SESSION,                  /* the protocol's */
};
#define KIND_BITS 2
#define KIND_MASK ((1u << KIND_BITS) - 1)

struct conn {
    CONN_HEAD;
    struct stream stream;
    uint32_t slot, generation;
    uint32_t source; /* in the server's sources; 0: not counted */
    uint32_t opened; /* monotonic ns >> CONN_OPENED_SHIFT */

    uint8_t reading;   /* enum conn_reading */
    uint8_t writing;   /* enum conn_writing */
    uint8_t input;     /* enum conn_input */
    uint8_t reason;    /* READING_DISCARD: the close reason to come */
    uint8_t pending;   /* answers that are pending */
    bool aside : 1;    /* what is replied now is kept in the extension: its turn has not come */
    bool unserved : 1; /* `in` holds bytes that were not looked at since the state changed */
    bool extended : 1; /* there is an extension */
    bool gone : 1;     /* the client sends nothing more than what was sent so far */
    bool behind : 1;   /* counted in worker->behind, until it has caught up (server_catch_up) */
    bool in_flush_list : 1, in_again_list : 1;

    /* What was received and not served: NULL for most of an idle connection's life. */
    uint8_t *in;
    uint32_t in_begin, in_end, in_room; /* READING_DISCARD: in_end counts what was thrown away */

    uint32_t out_bytes; /* queued in chunks, also in those of the extension */
    struct chunk_list out;

    struct deadline read_deadline, write_deadline;
    struct conn *flush_next, *again_next; /* also the list of the dead */
    /* The session, and after it: its deadlines; struct conn_extension, where there is one. */
    _Alignas(8) unsigned char session[];
};

/* An answer whose turn has not come. */
struct held_answer {
    struct chunk_list out;
    bool complete;
    bool checks;       /* it is marked (conn_check_output) */
    uint32_t check_at; /* from this byte of it on */
};

/* What only connections of some protocols have (protocol_is_extended). */
struct conn_extension {
    /* Requests that were made pending are numbered; answers leave in that order. */
    uint32_t oldest;   /* the number of the oldest that is not complete */
    uint32_t next;     /* the number of the next */
    uint32_t current;  /* `aside`: whose answer is being made */
    bool wait_for_all; /* READING_PENDING: until no answer is pending, not for one place */
    bool wants_room;   /* call `room` when at most room_at bytes are unsent */
    size_t room_at;
    struct held_answer *held; /* pending_max or more, by number; NULL: never were two pending */
    struct chunk_list after;  /* interjections that follow an answer in pieces */

    uint64_t queued, written; /* bytes since the connection was opened */
    uint64_t check_at;        /* the last marked answer begins here; asked while written <= this */
    bool checks;              /* there is such an answer */

    uint64_t held_bytes; /* of conn_hold */
    uint32_t part_bytes; /* of requests in parts, since the deadline was set */
};

struct conn_list {
    struct conn *first, *last;
};

struct slot {
    struct conn *conn;   /* NULL: free */
    uint32_t generation; /* of the connection that is or was last here */
    uint32_t next_free;  /* slot number, from 1; 0: none */
};

struct worker {
    WORKER_HEAD;
    struct rules *rules;
    bool stopping;

    struct slot *slots;
    uint32_t slot_count, slot_room, free_slot;
    _Atomic uint32_t connections; /* with those on their way */

    struct conn_list flush;     /* have answers to write when the event is over */
    unsigned flushes_left;      /* in this iteration of the loop */
    struct conn_list again;     /* have work to do in the next iteration */
    struct conn *dead;          /* freed when the iteration ends */
    _Atomic uint32_t behind;    /* connections that are; the main thread reads it */
    struct conn *serving;       /* whose requests are being served; NULL: nobody's */
    struct traffic *unanswered; /* has requests whose time to answer is not known yet */

    struct chunk_pool small_chunks, large_chunks;
    uint8_t *input;
    uint8_t *scratch;
    uint8_t *batch; /* PROTOCOL_BATCH parsed requests */

    void (*fd_freed)(void *arg);
    void *fd_freed_arg;
};

#define WORKER_INPUT ((size_t)64 * 1024)
/* So many connections go on with work that was left over before the loop looks again: a client
 * that sends one request waits for so many pieces of others' work at most. */
#define AGAINS_MAX 16
#define SLOTS_MAX  ((1u << 24) - 2)

static inline int64_t worker_mono_ns(const struct worker *worker)
{
    return worker->reactor.now.mono_ns;
}

static inline struct deadlines *conn_deadlines(const struct conn *conn)
{
    return &conn->worker->reactor.deadlines;
}

/* What this worker measures of the connection's protocol; NULL: nothing. */
static inline struct traffic *conn_traffic(const struct conn *conn)
{
    struct traffic *all = conn->protocol->traffic;
    return all ? &all[conn->worker->number] : NULL;
}

/* True: the protocol serves it: its requests, or their answers. */
static inline bool conn_is_served(const struct conn *conn)
{
    return conn->reading > READING_HANDSHAKE && conn->reading < READING_DISCARD;
}

/* Half of what may be queued is (conn_is_full). */
static inline bool conn_over_half(const struct conn *conn)
{
    return conn->out_bytes >= conn->worker->rules->limits.output_buffer / 2;
}

/* There is work that was left over, and the connection may do it now. */
static inline bool conn_has_work(const struct conn *conn)
{
    bool more = conn->input == INPUT_MORE || conn->input == INPUT_DRAIN;
    if (likely(conn->reading == READING_OPEN && !conn->unserved && !more))
        return false;
    if (conn->reading == READING_DISCARD)
        return conn->writing == WRITING_SHUT && more;
    return (conn->reading == READING_OPEN || conn->reading == READING_PIECES) &&
           !conn_over_half(conn);
}

/* ---- conn.c -------------------------------------------------------------------------------- */

/* Bytes of memory that a connection of this protocol takes. */
size_t conn_size(const struct protocol *protocol);
/* How many deadlines are reserved for it. */
unsigned conn_deadline_count(const struct protocol *protocol);
/* A new connection in no state yet: everything but place and stream is zero. NULL: no memory. */
struct conn *conn_new(struct worker *worker, struct protocol *protocol,
                      struct stream stream) MUST_USE;
/* Its session's deadline number `which`. */
struct deadline *conn_session_deadline(struct conn *conn, unsigned which);
/* Only where `extended`. */
struct conn_extension *conn_extension(const struct conn *conn);
/* Changes the state for reading; the one place where that happens. */
void conn_move(struct conn *conn, enum conn_reading to);
/* Begins to serve it. */
void conn_open(struct conn *conn);
void conn_deadline_passed(struct deadline *d);
/* Has it count as behind until it has read, answered and written what is there. */
void conn_catch_up(struct conn *conn);
void conn_caught_up(struct conn *conn);
/* Frees a connection that is closed and in no list. */
void conn_free(struct conn *conn);

/* ---- input.c ------------------------------------------------------------------------------- */

/* Watches the descriptor. False: no memory. */
bool conn_begin(struct conn *conn) MUST_USE;
/* Joins its loop without being watched; after an upgrade. */
void conn_rejoin(struct conn *conn);
/* Watches for what the connection can use now. */
void conn_watch(struct conn *conn);
/* Keeps `len` bytes that were received, in a new buffer of `room` bytes, at least `len`, in place
 * of the present one. False: no memory, or limits.unfinished is reached. */
bool conn_take_input(struct conn *conn, const uint8_t *data, size_t len, size_t room) MUST_USE;
/* Frees that buffer. Harmless where there is none. */
void conn_drop_input(struct conn *conn);
/* Goes on with work that was left over (conn_has_work). */
void conn_continue(struct conn *conn);
/* Sets the deadline of an unfinished request anew. */
void conn_renew_request(struct conn *conn);
/* Ends a connection whose handshake failed; where the peer was `told` why, it gets to read that. */
void conn_handshake_failed(struct conn *conn, const char *why, bool told);

/* ---- output.c ------------------------------------------------------------------------------ */

/* Writes what the socket takes, and what follows from that. */
void conn_flush(struct conn *conn);
/* The last answer was written: shuts our side down and waits for the peer to read it. */
void conn_linger(struct conn *conn);
/* Before and after `serve`, with answers pending: what is replied in between follows them.
 * `answered`: it is the whole answer of the request. */
void conn_answer_next(struct conn *conn);
void conn_answer_served(struct conn *conn, bool answered);
/* What is kept of the answer of a request that is pending; NULL: there never were two. */
struct held_answer *conn_held_answer(const struct conn *conn, uint32_t number);
/* Asks about a marked answer that is queued, while its session is there. False: the connection was
 * closed. */
bool conn_may_finish(struct conn *conn) MUST_USE;
/* An answer in pieces is complete: what had to follow it does. */
void conn_pieces_done(struct conn *conn);
/* Frees what is queued. */
void conn_drop_output(struct conn *conn);
/* The client is not served any more: forgets pending answers and gives back what is held. */
void conn_drop_extension(struct conn *conn);
/* Why a connection ends whose stream answered `n`. */
enum close_reason conn_reason_of(ssize_t n);

/* ---- worker.c ------------------------------------------------------------------------------ */

/* A chunk with room for `size` bytes, CONN_REPLY_MAX at most. NULL: no memory. */
struct chunk *worker_chunk_take(struct worker *worker, size_t size) MUST_USE;
void worker_chunk_give(struct worker *worker, struct chunk *chunk);
void worker_conn_closed(struct worker *worker, struct conn *conn, unsigned reason);
void worker_flush_later(struct worker *worker, struct conn *conn);
/* Brackets the time in which a connection's requests are served: its own answers are written after
 * those of clients that it wakes. */
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
/* Writes the answers that gathered. */
void worker_flush(struct worker *worker);
void worker_again_later(struct worker *worker, struct conn *conn);

/* For carry.c, while the worker does not run: */

/* Delivers its letters and writes what is queued. False: there was nothing to do. */
bool worker_flush_parked(struct worker *worker);
/* Gives a worker that has none so many slots, all free and in no chain. False: no memory. */
bool worker_place_slots(struct worker *worker, uint32_t count) MUST_USE;
/* Chains those of its slots that are free, the lowest first. */
void worker_chain_free_slots(struct worker *worker);
/* A free slot's number; UINT32_MAX: there is none. */
uint32_t worker_take_slot(struct worker *worker);

#endif
