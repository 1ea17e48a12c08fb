/*
 * wait.h - what the client of a connection waits for: one thing at a time.
 *
 * How a service uses it. Its session has a struct wait, zero at open, and its row says where
 * (`wait_at`). wait_begin when a request must wait; if the wait has an end, deadline WAIT_DEADLINE
 * is it (conn_expire_in). `expire` of the row looks at `on`, and has the wait ended there.
 * wait_end when it is over, in whatever way, once: it clears the deadline, and adds a wait for
 * units to the histograms. While `on` is not WAIT_ON_NOTHING, requests that would wait are refused,
 * or come later where answers are pending. One more thing to wait for is a value of enum wait_on,
 * and a member of the union if it needs one.
 *
 * A request whose answer is pending at the node is a struct wait, too (`request` in struct
 * arbiter_link): the arbiter begins and ends it, with neither function, and it is not counted as
 * waiting.
 *
 * Threads: the thread of the connection's worker.
 */
#ifndef SERVICE_WAIT_H
#define SERVICE_WAIT_H

#include "service/service.h"

/* The deadline of waits, of each protocol that has any. */
#define WAIT_DEADLINE 0u

enum wait_on {
    WAIT_ON_NOTHING,
    WAIT_ON_TABLE, /* units of a name, in the table */
    WAIT_ON_NODE,  /* the same of a name that nodes share, or another answer of the node */
    WAIT_ON_POOL,  /* a member; the client of the pools (engine/pool.h) has it */
    WAIT_ON_JOBS,  /* jobs, or a tube that has some; the client of the jobs (jobs/jobs.h) has it */
};

struct wait {
    uint8_t on;             /* enum wait_on */
    bool pending;           /* it is a pending answer still: later requests are not served */
    bool strict, has_place; /* WAIT_ON_NODE: the name is strict; it has a place in the engine */
    uint8_t note[4];        /* what the service needs for the answer, which a record keeps */
    uint32_t number;        /* of the pending answer */
    union {
        struct waiter *waiter;           /* WAIT_ON_TABLE */
        struct arbiter_request *request; /* WAIT_ON_NODE */
        int64_t until_ns; /* WAIT_ON_JOBS: its end; the deadline may be an earlier time */
    };
    int64_t since_ns; /* when it began, monotonic */
};

/* The wait of a connection whose row has one. */
static inline struct wait *wait_of(struct conn *conn)
{
    return (void *)((char *)conn_session(conn) + service_of(conn)->row->wait_at);
}

/* True if it waits for units of a name. */
static inline bool wait_is_for_units(const struct wait *wait)
{
    return wait->on == WAIT_ON_TABLE || wait->on == WAIT_ON_NODE;
}

/* A wait begins. The caller sets the rest of it, before or after. */
static inline void wait_begin(struct conn *conn, struct wait *wait, enum wait_on on,
                              int64_t since_ns)
{
    wait->on = (uint8_t)on;
    wait->since_ns = since_ns;
    if (on != WAIT_ON_POOL) /* the pools count their own */
        tally_add(&service_counts(conn)->waiting, 1);
}

/* How long it has lasted; 0 when it began later. Each worker reads the clock only once per
 * iteration, and another one may have noted the end. */
static inline int64_t wait_lasted(const struct wait *wait, int64_t ended_ns)
{
    return ended_ns > wait->since_ns ? ended_ns - wait->since_ns : 0;
}

/* It has ended at `ended_ns`; of a wait for units, in this way. */
static inline void wait_end(struct conn *conn, struct wait *wait, enum waited how, int64_t ended_ns)
{
    CHECK(wait->on != WAIT_ON_NOTHING);
    conn_clear_deadline(conn, WAIT_DEADLINE);
    struct service_counts *counts = service_counts(conn);
    if (wait_is_for_units(wait))
        histogram_add(&counts->waits[how], wait_lasted(wait, ended_ns), 1);
    if (wait->on != WAIT_ON_POOL)
        tally_sub(&counts->waiting, 1);
    wait->on = WAIT_ON_NOTHING;
}

#endif
