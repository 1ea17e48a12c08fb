/*
 * admission.h - accepts or refuses new connections. It checks the access list, the limits for one
 * address and for one protocol, and the limit of TLS handshakes. The limits come from the worker's
 * rules and from struct protocol. A refused connection is closed, counted by its reason, and logged
 * at a bounded rate.
 *
 * Threads: the thread of the worker that is passed.
 */
#ifndef NET_ADMISSION_H
#define NET_ADMISSION_H

#include "net/worker.h"

/* True when admission depends on the client's address. */
bool admission_asks_address(const struct worker *worker);

/*
 * Admits or refuses an accepted connection. `from` is the client's address; NULL when admission
 * does not depend on it. Returns true when the connection is admitted: it is then counted for its
 * protocol, and for its address in *source_r (0: not counted), which the caller passes to
 * worker_open. Returns false when it is refused; `stream` is then closed.
 */
bool admission_enter(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     const struct sockaddr *from, uint32_t *source_r) MUST_USE;

/* Claims a TLS handshake for the connection that will have `tag` (claims.h). Counts its source, if
 * that is not counted yet; the caller still ends that count. Returns NULL when it is refused. */
struct claim *admission_handshake(struct worker *worker, const struct protocol *protocol,
                                  uint64_t tag, int fd, uint32_t *source) MUST_USE;

/* Closes an admitted connection whose handshake was refused. Counts it as CLOSE_HANDSHAKE, and
 * takes it out of the counts of open connections. */
void admission_leave(struct worker *worker, struct protocol *protocol, struct stream *stream,
                     uint32_t source);

#endif
