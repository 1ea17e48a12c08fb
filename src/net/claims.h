/*
 * claims.h - what connections take of two things that all of them share: memory for unfinished
 * requests (limits.unfinished), and TLS handshakes (tls.max_handshakes). It is also counted for
 * each source (sources.h), so that a connection of those that take most goes when a limit is met:
 *
 * - memory: the largest request of the source that has most, with what is claimed. Requests of up
 *   to CLAIM_FREE bytes claim nothing.
 * - handshakes: a source has at most a quarter of them. The oldest handshake without a byte goes:
 *   of the source if it has its quarter, of all if there are no more. If there is none, the new
 *   connection is refused.
 *
 * A connection that has to go counts no more at once, and is closed by a letter to its worker.
 *
 * Threads: that of the connection's worker. Takes the lock of the sources; finding who goes takes
 * logarithmic time, and a claim of memory has at most CLAIM_EVICTIONS others go.
 */
#ifndef NET_CLAIMS_H
#define NET_CLAIMS_H

#include "base/check.h"
#include "net/protocol.h"

#include <stdbool.h>
#include <stdint.h>

struct claim; /* what one connection claims */
struct conn;
struct worker;

#define CLAIM_FREE      256u
#define CLAIM_EVICTIONS 64u

/* The bytes that a buffer for an unfinished request claims. */
static inline uint64_t claim_of(uint64_t room)
{
    return room > CLAIM_FREE ? room - CLAIM_FREE : 0;
}

/* Claims so much more memory for the connection, by the limit of its worker's rules. Returns false,
 * claiming nothing, when the connection itself has to go, or when there is no memory; *why_r is
 * then the reason to close it for. */
bool claim_memory(struct conn *conn, uint64_t bytes, enum close_reason *why_r) MUST_USE;
/* Gives back so much. Harmless when the connection has to go. */
void claim_less(struct conn *conn, uint64_t bytes);

/* Claims a handshake for the connection that will have `tag`, and whose source is counted. Returns
 * NULL when there may be no more, or when there is no memory. The claim moves to conn->claim. */
struct claim *claim_handshake(struct worker *worker, uint64_t tag, uint32_t source) MUST_USE;
/* The client has sent a byte of its handshake. */
void claim_heard(struct conn *conn);

/* Ends a claim of either kind and sets it to NULL. Call it before the source is left. NULL is
 * harmless. */
void claim_end(struct worker *worker, struct claim **claim);

#endif
