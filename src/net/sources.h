/*
 * sources.h - counts connections by their source, for limits.per_source and for claims (claims.c).
 * A source is an IPv4 address, or the first 64 bits of an IPv6 address, because a client usually
 * owns all addresses of such a network. On unix sockets it is the client's user.
 *
 * A source is in the table while it has counted connections. Threads: any; functions take one lock
 * (LOCK_RANK_SOURCES), except where they say that the caller has it.
 */
#ifndef NET_SOURCES_H
#define NET_SOURCES_H

#include "base/check.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/tree.h"

#include <stdint.h>
#include <sys/socket.h>

struct account; /* what a source claims (claims.c) */
struct source;

struct sources {
    struct lock lock; /* protects everything below */
    struct hash_key key;
    struct source *all; /* entries by number, from 1 */
    uint32_t *buckets;  /* `room` chains: number of the first entry; 0: none */
    uint32_t count, room, used, first_free;
    /* For claims.c: accounts with memory, silent handshakes, the number of the last handshake. */
    struct tree accounts, silent;
    uint64_t handshakes;
};

/* Results of source_enter that are not numbers. */
#define SOURCE_FULL      UINT32_MAX       /* the address has `limit` connections already */
#define SOURCE_NO_MEMORY (UINT32_MAX - 1) /* no memory to count it */

void sources_init(struct sources *sources);
/* Frees the table. All numbers must have been given back. */
void sources_free(struct sources *sources);

/*
 * Counts a connection from `from` (IPv4 or IPv6). Returns a number for source_leave, which must be
 * called when the connection ends. Returns SOURCE_FULL or SOURCE_NO_MEMORY without counting it when
 * the address has `limit` connections or when there is no memory.
 */
uint32_t source_enter(struct sources *sources, const struct sockaddr *from,
                      uint32_t limit) MUST_USE;
/* The same without a limit, for the peer of a connected socket, which may be a unix socket. Peers
 * that have gone are one source. Returns 0 when there is no memory. */
uint32_t source_enter_peer(struct sources *sources, int fd) MUST_USE;
/* Where the account of a source is kept. It must be empty when the last connection leaves, and is
 * then freed. The caller has the lock, until it no longer uses the place. */
struct account **source_account(struct sources *sources, uint32_t source);
/* Ends a connection's count; 0 is harmless. */
void source_leave(struct sources *sources, uint32_t source);

#endif
