/*
 * text_session.h - a connection of the text protocol: its session, and what is counted of its
 * requests. Shared by the service of that protocol and the verbs of pools, which are lines of it.
 *
 * Threads: the thread of the connection's worker.
 */
#ifndef SERVICE_TEXT_SESSION_H
#define SERVICE_TEXT_SESSION_H

#include "service/arbiter.h"

struct pool_session;

struct text_lock {
    struct holding *held;
    int64_t granted_ns;
};

struct text_session {
    struct holder holder;      /* first */
    struct wait wait;          /* for a lock or a member */
    struct pool_session *pool; /* NULL: it has not used pools */
    uint32_t lock_count;
    struct text_lock locks[]; /* oldest first */
};

static inline struct text_session *text_session(struct conn *conn)
{
    return conn_session(conn);
}

/* Verbs for metrics. */
#define TEXT_VERBS(ROW)                                                                            \
    ROW(ACQ4ANY, "ACQ4ANY")                                                                        \
    ROW(ACQ4ME, "ACQ4ME")                                                                          \
    ROW(RELEASE, "RELEASE")                                                                        \
    ROW(STATS, "STATS")                                                                            \
    ROW(INVALID, "invalid")                                                                        \
    ROW(TAKE, "TAKE") /* the first of the pools */                                                 \
    ROW(RETURN, "RETURN")                                                                          \
    ROW(JOIN, "JOIN")                                                                              \
    ROW(SUPPLY, "SUPPLY")                                                                          \
    ROW(MEMBER, "MEMBER")                                                                          \
    ROW(POOL, "POOL")                                                                              \
    ROW(WATCH, "WATCH")                                                                            \
    ROW(QUIT, "QUIT")

enum text_verb {
#define ROW(name, word) VERB_##name,
    TEXT_VERBS(ROW)
#undef ROW
};

/* Outcomes for metrics. */
#define TEXT_OUTCOMES(ROW)                                                                         \
    ROW(LOCKED, "LOCKED")                                                                          \
    ROW(DONE, "DONE")                                                                              \
    ROW(QUEUE_FULL, "QUEUE_FULL")                                                                  \
    ROW(TIMEOUT, "TIMEOUT")                                                                        \
    ROW(LOCK_HELD, "LOCK_HELD")                                                                    \
    ROW(RELEASED, "RELEASED")                                                                      \
    ROW(NOT_LOCKED, "NOT_LOCKED")                                                                  \
    ROW(OK, "ok")                                                                                  \
    ROW(ERROR, "error")                                                                            \
    ROW(TAKEN, "TAKEN")                                                                            \
    ROW(RETURNED, "RETURNED")                                                                      \
    ROW(GONE, "GONE")                                                                              \
    ROW(NOT_TAKEN, "NOT_TAKEN")                                                                    \
    ROW(JOINED, "JOINED")

enum text_outcome {
#define ROW(name, word) OUTCOME_##name,
    TEXT_OUTCOMES(ROW)
#undef ROW
};

/* Gives back all locks, newest first. */
void text_release_locks(struct conn *conn);

#endif
