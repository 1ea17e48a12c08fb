/*
 * shared.h - requests for names that several nodes share, as the services of the text and the
 * binary protocol need them. Which names are shared: cluster/patterns.h.
 *
 * A request for a shared name is an ask (struct shared_ask): it goes as a letter to the thread of
 * the resource "cluster", whose node asks the engine, and comes back as a letter to its connection.
 * A connection has at most one that it waits for (struct shared_link), as a pending answer, or as a
 * wait (`queued` in cluster/node.h).
 *
 * Only rows that serve while names are shared (`when_shared` in service.h) use this file: the
 * services of such rows put a struct shared_link behind their session.
 *
 * Threads: the thread of the connection's worker.
 */
#ifndef SERVICE_SHARED_H
#define SERVICE_SHARED_H

#include "cluster/node.h"
#include "cluster/patterns.h"
#include "service/service.h"

struct cluster;
struct record_reader;
struct record_writer;

/* A request on its way. It belongs to the node until its answer is here, then to its receiver. */
struct shared_ask {
    struct letter letter; /* first; to the node, and back with the answer */
    struct letter queued; /* back, before the answer: it is a wait now */
    struct node_ask ask;
    struct cluster *cluster;
    bool has_place; /* written before `queued` is sent: the engine has given it a place */
    /* Gets the answer in the thread of the cluster, instead of a connection; NULL: the latter. */
    void (*answered)(struct cluster *c, struct shared_ask *ask);
    unsigned char name[];
};

/* An ask that the client of a connection waits for. */
struct shared_way {
    struct shared_ask *ask; /* NULL: none */
    int64_t since_ns;       /* when it was asked */
    uint32_t number;        /* of the pending answer */
    bool pending;           /* its answer is pending; else it is a wait */
    bool has_place;
    bool strict; /* its name */
    uint8_t opaque[4];
};

/* What a connection's session has of shared names; zero at open. While it waits for units of one
 * name, it may release others. */
struct shared_link {
    struct shared_way request; /* its answer is pending */
    struct shared_way wait;
    bool marks_all; /* a mark of conn_check_output that another one must follow */
    /* The connection may hold units of shared names, of strict names; so one that never asked for
     * any costs nothing in a report. */
    bool may_have_shared, may_have_strict;
    /* Of a wait in the table that was an ask before: with these it becomes one again at its place.
     * 0: it was none. */
    uint64_t id, seq;
};

/* What a row gives to shared.c. */
struct shared_host {
    struct shared_link *(*link)(struct conn *conn);
    /* The request of the link is its wait now; its answer was pending. */
    void (*queued)(struct conn *conn);
    /* An ask of the link has its answer. The link has forgotten it; the function frees it, or hands
     * it on. `was`: what it was in the link. */
    void (*answered)(struct conn *conn, struct shared_ask *ask, const struct shared_way *was);
    /* Makes an ask of a wait in the table, if its name is shared. NULL: it has no waits. */
    void (*wait_to_ask)(struct conn *conn);
};

/* Who serves a name on this connection now: its class, and whether the node is asked; if not, the
 * table alone decides. */
enum patterns_class shared_class(const struct conn *conn, struct bytes name);
bool shared_asks(struct conn *conn, struct bytes name);

/* Makes an ask for `name`, which it copies; zero otherwise. NULL: no memory. */
struct shared_ask *shared_ask_new(const struct conn *conn, enum node_op op,
                                  struct bytes name) MUST_USE;
/* The same for an acquisition, with an id. */
struct shared_ask *shared_ask_acquire(const struct conn *conn, const struct acquire *a) MUST_USE;

/* Sends an ask whose answer is pending from now on. Returns what `serve` must return. */
enum served shared_pend(struct conn *conn, struct shared_ask *ask);
/* Sends an ask as a wait that began at `since_ns`. */
void shared_wait(struct conn *conn, struct shared_ask *ask, int64_t since_ns);
/* Sends an ask that the connection does not wait for. */
void shared_send(const struct conn *conn, struct shared_ask *ask);
/* There was no memory for an ask that releases: the node opens anew, and reports what is held. */
void shared_lost(const struct conn *conn);
/* What was granted is not wanted: gives it back, as at the end of a connection. */
void shared_give_back(const struct conn *conn, struct shared_ask *ask);

/* Begins and ends the answer of a request that was pending; harmless for a wait. */
void shared_answer_begin(struct conn *conn, const struct shared_way *was);
void shared_answer_end(struct conn *conn, const struct shared_way *was);

/* Forgets an ask of the link, because its client gets another answer or has gone: an acquisition is
 * cancelled. Returns what it was. */
struct shared_way shared_forget(struct shared_way *way);

/* True while the engine has this node's session. */
bool shared_is_live(const struct conn *conn);

/* The answer that comes next grants units of a strict name: it is written only within the lease. */
void shared_mark_strict(struct conn *conn);
/* Call it before each request. */
void shared_before_request(struct conn *conn);
/* `may_write` of the rows, and the words for `ends`. */
bool shared_may_write(struct conn *conn);
extern const char *const shared_ends[];
#define CLOSE_LEASE_LOST ((unsigned)CLOSE_OWN)

/* The connection closes: cancels its asks, and tells the node of all that `holder` has. Before
 * service_close_holder. */
void shared_close(struct conn *conn, const struct holder *holder);

/*
 * The request, the wait; then u64 id, seq, u8 marks_all of the link. Of each: u8 0: there is none;
 * or what it asks for + 1 (enum node_op), u8 has_place, i64 since ns, u8 wait, u32 units, limit,
 * queue_max, u64 id, seq, 4 bytes opaque, bytes name. A release is never saved. shared_restore
 * sends both again.
 */
void shared_save(struct conn *conn, struct record_writer *w);
bool shared_restore(struct conn *conn, struct record_reader *r);

#endif
