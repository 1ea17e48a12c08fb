/*
 * pools.h - the pools (engine/pool.h) as a resource. It has no thread: the workers use the pools,
 * and a timer of worker 0 does what is due without a request.
 */
#ifndef SERVICE_POOLS_H
#define SERVICE_POOLS_H

#include "engine/pool.h"
#include "service/pools_config.h"
#include "service/service.h"

extern const struct resource_row pools_resource_row;

/* The pools. Any thread. */
struct pools *pools_of(const struct services *services);

/*
 * Sends what a call of the engine has caused: messages of clients, and results of the table. Call
 * it after each such call; no lock is held. `from`: as in service_send. Leaves `outbox` empty.
 */
void pools_deliver(struct worker *from, const struct services *services,
                   struct pool_outbox *outbox);

/* What a connection may do, by its address. */
struct pool_rights {
    bool operates; /* MEMBER and POOL with ADD, SET, DROP */
    bool supplies; /* JOIN, SUPPLY */
    uint32_t version;
};

/* Brings the rights of a connection up to date; begin with zeroes. Its worker's thread only. */
void pools_get_rights(struct conn *conn, struct pool_rights *rights);

/* ---- what the sessions of connections provide (pool_verbs.c, pool_lines.c) ------------------- */

/* The message of a client (engine/pool.h) has come; `deliver` of it. */
void pool_on_message(struct mail *mail, void *worker);
/* Hook of the engine: notes an event for a watcher. Any thread, under the pools' lock. */
void pool_note_event(void *owner, const struct pool_event *event);
/* The address of a session's client, constant. Any thread, while the session is there. */
const char *pool_session_peer(const void *owner);

#endif
