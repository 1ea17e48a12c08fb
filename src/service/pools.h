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
 * Sends what a call of the engine has caused: letters of clients, and verdicts of the table. Call
 * it after each such call, in the thread of `from`; no lock is held. Leaves `effects` empty.
 */
void pools_deliver(struct worker *from, const struct services *services,
                   struct pool_effects *effects);

/* What a connection may do, by its address. */
struct pool_rights {
    bool operates; /* MEMBER and POOL with ADD, SET, DROP */
    bool supplies; /* JOIN, SUPPLY */
    uint32_t version;
};

/* Brings the rights of a connection up to date; begin with zeroes. Its worker's thread only. */
void pools_get_rights(struct conn *conn, struct pool_rights *rights);

#endif
