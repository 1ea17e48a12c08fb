/*
 * pool_verbs_internal.h - what a connection of the text protocol has of pools; shared by
 * pool_verbs.c (requests), pool_lines.c (lines between answers) and pool_list.c (LIST and SHOW).
 */
#ifndef SERVICE_POOL_VERBS_INTERNAL_H
#define SERVICE_POOL_VERBS_INTERNAL_H

#include "proto/pools.h"
#include "service/pool_verbs.h"
#include "service/pools.h"
#include "service/text_session.h"

/* What is in pieces besides LIST and SHOW. */
enum pool_turn {
    TURN_GOES_ON,
    TURN_LOOKS, /* a TAKE that goes on in steps (POOL_LOOKS) */
    TURN_OVER,  /* nothing: a TAKE was answered that has cost much, so others are served first */
};

struct pool_session {
    struct conn *conn;            /* constant */
    char peer[CONN_PEER_TEXT];    /* constant */
    struct pool_client *client;   /* NULL: not made yet */
    struct pool_listing *listing; /* LIST or SHOW in progress; NULL: none */
    enum pool_turn turn;
    struct pool_rights rights;

    /* Events that were not given to the connection yet; under the pools' lock. */
    uint8_t *events;
    size_t event_bytes, event_room;
    size_t event_max; /* bytes, at most */
    uint64_t lost;    /* events after these that did not fit */
};

static inline struct pool_session *pool_session_of(struct conn *conn)
{
    return text_session(conn)->pool;
}

static inline struct services *pool_services_of(const struct conn *conn)
{
    return service_of(conn)->services;
}

/* Sends what a call of the engine has caused for others. */
static inline void pool_verbs_deliver(struct conn *conn, struct pool_outbox *outbox)
{
    pools_deliver(conn_worker(conn), pool_services_of(conn), outbox);
}

/* ---- pool_verbs.c ---------------------------------------------------------------------------- */

/* The session of a connection; made if there is none. NULL: no memory. */
struct pool_session *pool_session_make(struct conn *conn) MUST_USE;
/* The wait of the connection has ended in this way. */
void pool_verbs_wait_over(struct conn *conn, enum text_outcome outcome);

/* A step of the connection's TAKE (TURN_LOOKS). */
void pool_verbs_take_on(struct conn *conn);

/* ---- pool_lines.c ---------------------------------------------------------------------------- */

/* The most bytes of events to collect for a connection. */
size_t pool_event_max(const struct conn *conn);

/* What the engine tells the client of a connection. */
extern const struct pool_reader pool_lines_reader;
/* Reads what is new for the connection's client. */
void pool_lines_read(struct conn *conn);
void pool_lines_save(const struct pool_session *session, struct record_writer *w);
bool pool_lines_restore(struct pool_session *session, struct record_reader *r) MUST_USE;

/* ---- pool_list.c ----------------------------------------------------------------------------- */

/* Begins an answer to LIST (prefix) or SHOW (name). Returns POOL_REPLY_OK, or the error to answer
 * instead. */
enum pool_reply pool_list_begin(struct conn *conn, bool show, struct bytes name) MUST_USE;
/* Continues it, as `resume` of a row. */
bool pool_list_resume(struct conn *conn);
void pool_list_save(const struct pool_session *session, struct record_writer *w);
bool pool_list_restore(struct pool_session *session, struct record_reader *r) MUST_USE;

#endif
