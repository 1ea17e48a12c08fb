/*
 * admission.h - which connections may come in: the access list, how many there may be from one
 * address and of one protocol, how many TLS handshakes may be under way. What holds is in the
 * worker's rules. A refused connection is closed, counted by its reason, and logged at a bounded
 * rate.
 *
 * Threads: the thread of the worker that is passed.
 */
#ifndef NET_ADMISSION_H
#define NET_ADMISSION_H

#include "net/worker.h"

/* True: admission depends on the client's address. */
bool admission_asks_address(const struct worker *worker);

/*
 * Admits an accepted connection from `from`; NULL: its address does not matter. True: it counts as
 * one of the protocol's and *source_r as one of its address's (0: not counted), for worker_open.
 * False: `stream` was closed.
 */
bool admission_enter(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     const struct sockaddr *from, uint32_t *source_r) MUST_USE;

/* Admits one more TLS handshake: then it is counted in server->handshakes. */
bool admission_handshake(struct worker *worker, const struct protocol *protocol) MUST_USE;

/* Closes an admitted connection whose handshake may not begin. */
void admission_leave(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     uint32_t source);

#endif
