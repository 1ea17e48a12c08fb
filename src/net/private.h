/*
 * private.h - the inside of workers, connections and rules, shared by worker.c, conn.c, listener.c
 * and rules.c alone.
 */
#ifndef NET_PRIVATE_H
#define NET_PRIVATE_H

#include "net/worker.h"

#include <pthread.h>

/*
 * A piece of output, taken from the worker's pools while it is needed. Small ones are for the word
 * or two that a client is told who did not ask just now: one request may wake thousands, and as
 * many large ones would cost a page fault each.
 */
struct chunk {
    struct chunk *next;
    uint32_t begin, end; /* what is still to be sent */
    uint32_t room;       /* of `data` */
    uint8_t data[];
};
#define CHUNK_SMALL_ROOM (128u - (uint32_t)sizeof(struct chunk))
#define CHUNK_LARGE_ROOM (16u * 1024 - (uint32_t)sizeof(struct chunk))

struct chunk_pool {
    struct chunk *first; /* free ones */
    unsigned count;
};

/* Rules, which do not change; see rules.c for who frees them. */
struct rules {
    _Atomic uint32_t holders;
    struct server_limits limits;
    struct tls *tls; /* NULL: none */
    struct mail letters[WORKERS_MAX];
    size_t allow_count;
    struct access_network allow[];
};

/* One more who has them, and will free them. */
struct rules *rules_share(struct rules *rules);

enum conn_state { CONN_HANDSHAKING, CONN_OPEN, CONN_FINISHING, CONN_CLOSED };

/* When a connection was opened is known in steps of this many ns as a power of 2, for 2 years. */
#define CONN_OPENED_SHIFT 24

/* What `deadline.kind` says. */
enum deadline_kind {
    DEADLINE_CHORE,
    DEADLINE_READ,    /* a request or the handshake is unfinished; finishing: the peer lingers */
    DEADLINE_WRITE,   /* output is queued */
    DEADLINE_SESSION, /* the protocol's */
};
#define CONN_DEADLINES 3

struct conn {
    struct loop_io io; /* first: the loop fetches what comes after it */
    struct worker *worker;
    struct protocol *protocol;
    struct stream stream;
    uint32_t slot, generation;
    uint32_t source; /* in the server's sources; 0: not counted */
    uint32_t opened; /* monotonic ns >> CONN_OPENED_SHIFT */

    uint8_t state;  /* enum conn_state */
    uint8_t reason; /* enum close_reason: why it is finishing */
    bool paused;    /* an answer goes on in `resume` */
    bool stalled;   /* requests are here that were not looked at */
    bool doomed;    /* no memory for its replies: closes when it is flushed */
    bool in_flush_list : 1, in_again_list : 1, lingering : 1;
    bool more : 1;          /* there may be more to read, which nobody will tell of */
    bool read_on : 1;       /* a read that was not full is not the last: after it comes the end,
                             * which is told once, or what TCP's urgent mark had it stop at */
    bool read_crossed : 1;  /* reading waits until it can be written */
    bool write_crossed : 1; /* writing waits until it can be read */
    bool behind : 1;        /* has not caught up: the worker counts it (server_catch_up) */

    /* What was received and not dealt with: NULL for most of an idle connection's life. */
    uint8_t *in;
    uint32_t in_begin, in_end, in_room;

    uint32_t out_bytes; /* queued in chunks */
    struct chunk *out_first, *out_last;

    struct deadline read_deadline, write_deadline, session_deadline;
    struct conn *flush_next, *again_next; /* also the list of the dead */
    _Alignas(8) unsigned char session[];
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
    struct server *server;
    unsigned number;
    struct loop *loop;
    struct mailbox box;
    struct mail stop;
    pthread_t thread;
    bool started;                /* the main thread's: letters are read */
    _Atomic clockid_t cpu_clock; /* its thread's; 0: it does not run */
    struct rules *rules;
    tally busy_ns;
    struct moment now;
    struct deadlines deadlines;
    bool stopping;

    struct slot *slots;
    uint32_t slot_count, slot_room, free_slot;
    _Atomic uint32_t connections; /* with those on their way */

    struct conn_list flush;     /* have replies to send when the event is dealt with */
    unsigned flushes_left;      /* in this turn of the loop */
    struct conn_list again;     /* have work to do in the loop's next turn */
    struct conn *dead;          /* to be freed when the turn is over */
    _Atomic uint32_t behind;    /* connections that are; the main thread reads it */
    struct conn *turn;          /* whose requests are dealt with now; NULL: nobody's */
    struct traffic *unanswered; /* has requests whose time to answer is not known yet */

    struct chunk_pool small_chunks, large_chunks;
    uint8_t *input;
    uint8_t *scratch;

    void (*fd_freed)(void *arg);
    void *fd_freed_arg;
};

#define WORKER_INPUT ((size_t)64 * 1024)
/* So many connections go on with work that was left over before the loop looks again: who sends one
 * request waits for so many pieces of others' work at most, however many have asked for a lot. */
#define TURN_AGAINS 16
#define SLOTS_MAX   ((1u << 24) - 2)

/* conn.c, called by worker.c; in the worker's thread. */
bool conn_begin(struct conn *conn) MUST_USE; /* watches the descriptor; false: no memory */
void conn_open(struct conn *conn);           /* begins to serve it */
void conn_close(struct conn *conn, enum close_reason reason);
void conn_flush(struct conn *conn);
void conn_continue(struct conn *conn); /* its turn in the list of those with work to do */
void conn_deadline_passed(struct conn *conn, enum deadline_kind kind);
void conn_free(struct conn *conn);     /* closed, and in no list */
void conn_catch_up(struct conn *conn); /* is behind until it has read, answered and sent */
void conn_rejoin(struct conn *conn);   /* is its loop's, not watched yet; after an upgrade */

/* worker.c, called by conn.c. */
/* One that has room for `size` bytes, CONN_REPLY_MAX at most. NULL: no memory. */
struct chunk *worker_chunk_take(struct worker *worker, size_t size) MUST_USE;
void worker_chunk_give(struct worker *worker, struct chunk *chunk);
void worker_conn_closed(struct worker *worker, struct conn *conn, enum close_reason reason);
void worker_flush_later(struct worker *worker, struct conn *conn);
void worker_flush(struct worker *worker); /* sends the replies that gathered */
void worker_again_later(struct worker *worker, struct conn *conn);

/* worker.c, called by carry.c, while the worker does not run. */
/* Delivers its letters and sends what is queued. Whether there was anything to do. */
bool worker_settle_parked(struct worker *worker);
/* Gives a worker that has none so many slots, all free and in no chain. False: no memory. */
bool worker_place_slots(struct worker *worker, uint32_t count) MUST_USE;
/* Chains those of its slots that are free, the lowest first. */
void worker_chain_free_slots(struct worker *worker);
/* A free slot's number; UINT32_MAX: none is to be had. */
uint32_t worker_take_slot(struct worker *worker);

#endif
