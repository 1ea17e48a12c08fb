/*
 * poolcounter_inside.h - the session of the text protocol (poolcounter.c, poolcounter_state.c).
 *
 * Threads: the thread of the connection's worker.
 */
#ifndef SERVICE_POOLCOUNTER_INSIDE_H
#define SERVICE_POOLCOUNTER_INSIDE_H

#include "proto/poolcounter.h"
#include "service/arbiter.h"
#include "service/pool_verbs.h"
#include "service/poolcounter.h"

struct record_reader;
struct record_writer;

struct pc_lock {
    struct holding *held;
    int64_t granted_ns;
};

struct pc_session {
    struct holder holder;
    struct wait wait;          /* for a lock or a member */
    struct pool_session *pool; /* NULL: it has not used pools */
    uint32_t lock_count;
    struct pc_lock locks[]; /* room for poolcounter_room() of them, oldest first */
};

/* Verbs for metrics. */
enum pc_counted_verb {
    VERB_ACQ4ANY,
    VERB_ACQ4ME,
    VERB_RELEASE,
    VERB_STATS,
    VERB_INVALID,
    VERB_OF_POOLS /* the first of enum pool_counted_verb */
};

/* A parsed request. */
struct pc_parsed_request {
    enum pc_parsed parsed; /* PC_OK, PC_POOLS, or an error */
    union {
        struct pc_request req; /* with PC_OK */
        struct bytes line;     /* with PC_POOLS: without its end */
    };
    uint64_t hash; /* of its key; 0: not computed yet, or no key */
};

static inline const struct poolcounter_settings *
poolcounter_settings_of(const struct service *service)
{
    return service->settings;
}

/* The number of locks that fit into a session: more than the settings allow if an earlier process
 * allowed more. */
static inline uint32_t poolcounter_room(const struct service *service)
{
    uint32_t wanted = poolcounter_settings_of(service)->max_locks;
    uint32_t had = service->services->session_room;
    return wanted > had ? wanted : had;
}

/* ---- poolcounter_state.c: `save` and `restore` of the row ---- */

void poolcounter_save(struct conn *conn, struct record_writer *w);
bool poolcounter_restore(struct conn *conn, struct record_reader *r);

#endif
