/*
 * poolcounter_inside.h - what the text protocol's service (poolcounter.c) shares with the row that
 * serves when names are shared with other nodes (shared_text.c).
 *
 * Threads: the thread of the connection's worker.
 */
#ifndef SERVICE_POOLCOUNTER_INSIDE_H
#define SERVICE_POOLCOUNTER_INSIDE_H

#include "proto/poolcounter.h"
#include "service/pool_verbs.h"
#include "service/poolcounter.h"

struct record_reader;
struct record_writer;

/* The only deadline of a session: the end of its wait, for a lock or for a member. */
#define PC_WAIT_DEADLINE 0u

struct pc_lock {
    struct holding *held;
    int64_t granted_ns;
};

struct pc_session {
    struct holder holder;
    struct waiter *waiter; /* the wait for a lock; NULL: none */
    struct pool_link pools;
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

/* Answers a request; the answer of a wait, which follows an answer in pieces. */
void poolcounter_reply(struct conn *conn, enum pc_counted_verb verb, enum pc_reply word);
void poolcounter_reply_later(struct conn *conn, enum pc_counted_verb verb, enum pc_reply word);

/* Why ACQ4* must be refused whatever its key is; PC_REPLY_OTHER: it need not. */
enum pc_reply poolcounter_refuses(struct conn *conn);
void poolcounter_add_lock(struct conn *conn, struct holding *held, int64_t granted_ns);
/* Gives back lock number `i` in the table, without an answer. */
void poolcounter_give_back(struct conn *conn, uint32_t i);
bool poolcounter_is_key(const struct conn *conn, const struct holding *held, struct bytes key);

/* A wait begins, outside the table or in it. */
void poolcounter_wait_begins(struct conn *conn);
/* Ends the wait in the table. Returns false when a verdict came first: then it was answered. */
bool poolcounter_end_wait(struct conn *conn, enum waiter_state why);
/* A wait outside the table has ended. */
void poolcounter_wait_over(struct conn *conn, enum wait_kind kind, enum waited how,
                           int64_t waited_ns);
/* The same of a wait in the table that goes on outside. Returns false when a verdict came first. */
bool poolcounter_leave_table(struct conn *conn);

/* ---- poolcounter_state.c ---- */

/* `save` and `restore` of the row; `asks`: a wait outside the table has the deadline. */
void poolcounter_save(struct conn *conn, struct record_writer *w);
bool poolcounter_restore(struct conn *conn, struct record_reader *r, bool asks);

/* ---- shared_text.c: for the row that serves when names are shared ---- */

enum served shared_text_serve(struct conn *conn, const void *request);
void shared_text_expire(struct conn *conn, unsigned which);
void shared_text_close(struct conn *conn);
void shared_text_save(struct conn *conn, struct record_writer *w);
bool shared_text_restore(struct conn *conn, struct record_reader *r);
void shared_text_describe(struct conn *conn, struct conn_info *info);
void shared_text_fit(struct service *service);
extern const struct shared_host shared_text_host;

/* QUIT of a connection of that row: as the functions of struct pool_verbs_host. */
void shared_text_abandon_wait(struct conn *conn);
void shared_text_release_locks(struct conn *conn);

#endif
