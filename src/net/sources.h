/*
 * sources.h - how many connections come from which address, for limits.per_source. IPv4 addresses
 * count each for itself, IPv6 addresses by their first 64 bits: whoever has one has all of those.
 *
 * An address is known while it has connections that were counted. Threads: one lock
 * (LOCK_RANK_SOURCES), taken by source_enter and source_leave; any thread.
 */
#ifndef NET_SOURCES_H
#define NET_SOURCES_H

#include "base/check.h"
#include "base/hash.h"
#include "base/lock.h"

#include <stdint.h>
#include <sys/socket.h>

struct source;

struct sources {
    struct lock lock; /* covers everything below */
    struct hash_key key;
    struct source *all; /* by number, from 1 */
    uint32_t *buckets;  /* the first of each chain; 0: none. As many as `room` */
    uint32_t count, room, used, first_free;
};

/* What source_enter answers instead of a number. */
#define SOURCE_FULL      UINT32_MAX       /* it has `limit` connections already */
#define SOURCE_NO_MEMORY (UINT32_MAX - 1) /* none to count it */

void sources_init(struct sources *sources);
/* When every number was given back. */
void sources_free(struct sources *sources);

/*
 * Counts a connection from `from`, which is IPv4 or IPv6: the number to be given to source_leave
 * when it ends; or one of the above, and nothing was counted. `limit`: how many there may be.
 */
uint32_t source_enter(struct sources *sources, const struct sockaddr *from,
                      uint32_t limit) MUST_USE;
/* Counts it out; 0 is harmless. */
void source_leave(struct sources *sources, uint32_t source);
/* How many addresses are known. */
uint32_t sources_count(struct sources *sources);

#endif
