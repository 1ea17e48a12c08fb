/*
 * wire.h - a connection to a server: bytes out, bytes in. A wire can be opened, closed and opened
 * again, to the same server or another.
 *
 * What is sent goes out in one write at the end of the iteration's events, also when it was sent in
 * pieces. It is queued, up to a bound, while the wire opens or the socket takes no more. Input is
 * read in pieces, a limited amount in each iteration.
 *
 * A wire has no time limit but that of opening: its owner must notice a server that is silent.
 *
 * Threads: the reactor's only, or the main thread while the reactor does not run. The thread needs
 * the rights that dial.h lists.
 */
#ifndef CLUSTER_WIRE_H
#define CLUSTER_WIRE_H

#include "base/bytes.h"
#include "base/check.h"
#include "net/dial.h"
#include "net/reactor.h"

/* Bytes that one `received` gets at most, and that are read in one iteration. */
#define WIRE_PIECE_MAX     ((size_t)16 * 1024)
#define WIRE_ITERATION_MAX (16 * WIRE_PIECE_MAX)

struct wire;

/*
 * What the wire calls, all with its `arg`. The reactor calls them, never a function of this header.
 * Each may send, close and open the wire.
 */
struct wire_calls {
    /* The wire is open, TLS handshake included. Queued bytes are written after this. */
    void (*opened)(void *arg);
    /* Bytes came (at least one), valid during the call. It must use or copy all of them. */
    void (*received)(void *arg, struct bytes bytes);
    /*
     * The wire could not be opened, or it broke: it is closed, and the bytes that were not written
     * are dropped. `reason` says why, without a line end, and is valid until the call ends or the
     * wire is opened again. Never called because of wire_close or wire_free.
     */
    void (*closed)(void *arg, const char *reason);
};

/*
 * Makes a wire, closed. `calls` must live as long as it. More than `queue_max` bytes are never
 * queued. Returns NULL when there is no memory.
 */
struct wire *wire_new(struct reactor *reactor, size_t queue_max, const struct wire_calls *calls,
                      void *arg) MUST_USE;
/* Closes and frees *wire and sets it to NULL; NULL is harmless. Not in a call of the wire. */
void wire_free(struct wire **wire);

/*
 * Opens a wire that is closed. `limit_ns` (more than 0) is the time limit of name lookup, connect
 * and handshake together. The target and its strings are used only during the call. If memory is
 * short, `closed` says so later.
 */
void wire_open(struct wire *wire, const struct dial_target *target, int64_t limit_ns);
/* Closes the wire at once, with all that is queued and unread; harmless when it is closed. */
void wire_close(struct wire *wire);

/*
 * Queues a copy of the bytes. If memory is short, or the queue would exceed its bound, the wire
 * breaks: it takes nothing more, and `closed` says so later. Nothing happens when it is closed.
 */
void wire_send(struct wire *wire, struct bytes bytes);

/* Bytes queued, and not written yet. */
size_t wire_queued(const struct wire *wire);

#endif
