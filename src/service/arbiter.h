/*
 * arbiter.h - the one door to units of names. It asks the table; or, if nodes share the name
 * (cluster/patterns.h), the node (cluster/node.h), which asks the engine.
 *
 * An acquisition has three outcomes: it is done; it waits, in the table; or the node was asked
 * (ARBITER_PENDING). What is not known at once comes later, to `answered` of the service's row.
 *
 * What the node is asked is a message (struct arbiter_request of cluster.h): to the thread of the
 * resource "cluster", and back to its connection. A connection has at most one that later requests
 * wait for (`pending` in struct arbiter_link), beside the wait of its session. An acquisition that
 * may wait is a pending answer first. When the node says that it is a wait (`queued` in
 * cluster/node.h), the pending answer ends without a byte, and it is the session's wait. What is
 * released leaves the table before the node is asked; what the engine has granted is in the table
 * when the client reads it.
 *
 * Services whose rows have `answered` use this. If the cluster is on, arbiter_fit gives their rows
 * what pending answers need, and a struct arbiter_link behind each session.
 *
 * Threads: the thread of the connection's worker.
 */
#ifndef SERVICE_ARBITER_H
#define SERVICE_ARBITER_H

#include "cluster/node.h"
#include "cluster/patterns.h"
#include "service/service.h"
#include "service/wait.h"

struct cluster;
struct record_reader;
struct record_writer;

/* `ends` of the rows has this reason: the lease is over, and the connection had strict units. */
#define CLOSE_LEASE_LOST ((unsigned)CLOSE_OWN)

/* What became of a request. The first are those of enum table_status. */
enum arbiter_status {
    ARBITER_OK = TABLE_OK,
    ARBITER_BUSY = TABLE_BUSY,
    ARBITER_WAITS = TABLE_WAITING,
    ARBITER_FULL = TABLE_FULL,
    ARBITER_NOT_FOUND = TABLE_NOT_FOUND,
    ARBITER_NOT_HELD = TABLE_NOT_HELD,
    ARBITER_NO_MEMORY = TABLE_NO_MEMORY,
    ARBITER_PENDING, /* the answer comes later; `serve` returns SERVED_PENDING */
    ARBITER_DONE,    /* of a wait: the work is done */
    ARBITER_TIMED_OUT,
    ARBITER_ENGINE_AWAY, /* of a strict name: patience is over */
    ARBITER_ENGINE_FULL, /* the engine has no memory */
    ARBITER_DRAINING,    /* the engine is away, and this server shuts down */
    ARBITER_STATUS_COUNT
};

/* What comes later. */
struct arbiter_answer {
    enum node_op op;
    enum arbiter_status status;
    struct wait was;      /* the wait that is over, or the request whose answer was pending */
    struct holding *held; /* ARBITER_OK: of an acquisition */
    int64_t ended_ns;     /* when it was decided */
    uint32_t units;       /* acquired; or, of NODE_GET, in use */
};

/* ---- requests -------------------------------------------------------------------------------- */

enum arbiter_status arbiter_acquire_shared(struct conn *conn, struct holder *holder,
                                           const struct acquire *a, struct holding **held_r,
                                           struct waiter **waiter_r);
enum arbiter_status arbiter_release_shared(struct conn *conn, struct holder *holder,
                                           const struct release *r, results *out);
enum arbiter_status arbiter_release_held_shared(struct conn *conn, struct holder *holder,
                                                struct holding *held, bool answers, results *out);
enum arbiter_status arbiter_get_shared(struct conn *conn, struct bytes name, uint32_t *units_r);

/* As table_acquire, of a request that is served. */
static inline enum arbiter_status arbiter_ask_table(struct conn *conn, struct holder *holder,
                                                    const struct acquire *a,
                                                    struct holding **held_r,
                                                    struct waiter **waiter_r)
{
    enum table_status status =
        table_acquire(service_table(conn), holder, a, service_now(conn), held_r, waiter_r);
    if (unlikely(status == TABLE_NO_MEMORY))
        conn_dear(conn); /* the table has looked for names that could go */
    return (enum arbiter_status)status;
}

/* The same, or asks the node. The caller begins the wait of ARBITER_WAITS. */
static inline enum arbiter_status arbiter_acquire(struct conn *conn, struct holder *holder,
                                                  const struct acquire *a, struct holding **held_r,
                                                  struct waiter **waiter_r)
{
    if (unlikely(service_of(conn)->shares))
        return arbiter_acquire_shared(conn, holder, a, held_r, waiter_r);
    return arbiter_ask_table(conn, holder, a, held_r, waiter_r);
}

/* As table_release; the caller sends `out`. ARBITER_NO_MEMORY: nothing has changed. */
static inline enum arbiter_status arbiter_release(struct conn *conn, struct holder *holder,
                                                  const struct release *r, results *out)
{
    if (unlikely(service_of(conn)->shares))
        return arbiter_release_shared(conn, holder, r, out);
    return (enum arbiter_status)table_release(service_table(conn), holder, r, service_now(conn),
                                              &service_counts(conn)->holds, out);
}

/* As table_release_held, of one unit: ARBITER_OK, or, with `answers`, ARBITER_PENDING, or
 * ARBITER_NO_MEMORY: nothing has changed. */
static inline enum arbiter_status arbiter_release_held(struct conn *conn, struct holder *holder,
                                                       struct holding *held, bool answers,
                                                       results *out)
{
    if (unlikely(service_of(conn)->shares))
        return arbiter_release_held_shared(conn, holder, held, answers, out);
    table_release_held(service_table(conn), holder, held, 1, false, service_now(conn), out);
    return ARBITER_OK;
}

/* As table_get; of a shared name, what all nodes have. */
static inline enum arbiter_status arbiter_get(struct conn *conn, struct bytes name,
                                              uint32_t *units_r)
{
    if (unlikely(service_of(conn)->shares))
        return arbiter_get_shared(conn, name, units_r);
    return (enum arbiter_status)table_get(service_table(conn), name, service_now(conn), units_r);
}

/* The request whose answer is pending; after ARBITER_PENDING the caller sets its note. NULL: none.
 */
struct wait *arbiter_pending(struct conn *conn);

/* ---- waits ----------------------------------------------------------------------------------- */

/* `result` of rows: the table has ended the wait. */
void arbiter_on_result(struct conn *conn, struct waiter *waiter);
/* `expire` of rows: ends the wait for units, or the acquisition that is pending, because its time
 * is over, and answers. If a result came first, that is the answer. */
void arbiter_expire(struct conn *conn);
/* Ends the wait, which is for units, without an answer. If a result came first: with `tells` it is
 * answered, and false returned; without, the client goes, and what it was granted is its holder's.
 */
bool arbiter_cancel(struct conn *conn, bool tells);
/* The name that it waits for. */
struct bytes arbiter_wait_name(const struct conn *conn, const struct wait *wait);

/* ---- life ------------------------------------------------------------------------------------ */

/* `fit` of the rows that use this, or the last call of it. */
void arbiter_fit(struct service *service);
/* Before service_close_holder: tells the node of all that the connection has. */
void arbiter_close(struct conn *conn);

/*
 * Nothing if names are not shared; else the request, the wait; then u64 id, seq, u8 marks_all of
 * the link. Of each: u8 0: there is none; or what it asks for + 1 (enum node_op), u8 has_place,
 * i64 since ns, u8 wait, u32 units, limit, queue_max, u64 id, seq, 4 bytes note, bytes name. A
 * release is never saved. arbiter_restore sends both again; `keep` is that of struct acquire.
 */
void arbiter_save(struct conn *conn, struct record_writer *w);
bool arbiter_restore(struct conn *conn, struct record_reader *r, bool keep);

/* ---- what cluster_copies.c needs ------------------------------------------------------------- */

/* What a connection has of shared names, behind its session; zero at open. */
struct arbiter_link {
    struct wait pending; /* its answer is pending */
    bool marks_all;      /* a mark of conn_check_output that another one must follow */
    /* The connection may hold units of shared names, of strict names; so one that never asked for
     * any costs nothing in a report. */
    bool may_have_shared, may_have_strict;
    /* Of a wait in the table that was a request before: with these it becomes one again at its
     * place. 0: it was none. */
    uint64_t id, seq;
};

static inline struct arbiter_link *arbiter_link_of(struct conn *conn)
{
    return (void *)((char *)conn_session(conn) + service_of(conn)->protocol.session_size -
                    sizeof(struct arbiter_link));
}

/* The wait of a connection is in the table: asks the node instead, if its name is shared. */
void arbiter_move_wait(struct conn *conn);

#endif
