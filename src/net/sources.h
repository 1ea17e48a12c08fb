/*
 * sources.h - counts connections by client address, for limits.per_source. Each IPv4 address is
 * counted by itself. IPv6 addresses are counted by their first 64 bits, because a client usually
 * owns all addresses of such a network.
 *
 * An address is in the table while it has counted connections. Threads: any; source_enter and
 * source_leave take one lock (LOCK_RANK_SOURCES).
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
    struct lock lock; /* protects everything below */
    struct hash_key key;
    struct source *all; /* entries by number, from 1 */
    uint32_t *buckets;  /* `room` chains: number of the first entry; 0: none */
    uint32_t count, room, used, first_free;
};

/* Results of source_enter that are not numbers. */
#define SOURCE_FULL      UINT32_MAX       /* the address has `limit` connections already */
#define SOURCE_NO_MEMORY (UINT32_MAX - 1) /* no memory to count it */

void sources_init(struct sources *sources);
/* Frees the table. All numbers must have been given back. */
void sources_free(struct sources *sources);

/*
 * Counts a connection from `from` (IPv4 or IPv6). Returns the number for source_leave at the end of
 * the connection. Returns one of the results above, counting nothing, when the address has `limit`
 * connections or when there is no memory.
 */
uint32_t source_enter(struct sources *sources, const struct sockaddr *from,
                      uint32_t limit) MUST_USE;
/* Ends a connection's count; 0 is harmless. */
void source_leave(struct sources *sources, uint32_t source);
/* The number of addresses in the table. */
uint32_t sources_count(struct sources *sources);

#endif
