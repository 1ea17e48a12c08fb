/*
 * carry.h - connections that go on in another process: the one that this process becomes, over
 * exec.
 *
 * First the workers are parked: each finishes its turn and its thread ends; then what they have
 * told each other is delivered and what is queued sent, as far as sockets take it. So no request is
 * half dealt with: what was received and not looked at stays as bytes. From there they go on in
 * either of two ways: the same workers run again, or all that connections are is written to a
 * record, of which other workers are made in another process, that has the same descriptors.
 *
 * A connection keeps its worker, slot and generation, and so its tag, where there are as many
 * workers as before; else they are spread anew, with new tags. TLS can't go on: its keys and
 * counters are the library's. Such a connection is carried only to be closed there, with
 * CLOSE_UPGRADE, so that what it held goes to whoever waited for it.
 *
 * Threads: the main thread's, while no other touches the workers.
 */
#ifndef NET_CARRY_H
#define NET_CARRY_H

#include "net/worker.h"

/* Kinds of section (base/record.md). */
#define CARRY_WORKERS 0x0301u /* how many there are, and the generations of their slots */
#define CARRY_CONN_V1 0x0302u /* a connection, as version 1 wrote it */
#define CARRY_CONN    0x0303u /* a connection: one section each */

/* No protocol has more deadlines. */
#define CARRY_DEADLINES_MAX 16

/*
 * Parks all workers, which run. Nothing is accepted, read or timed out from then on, until
 * server_unpark, or for ever: what can be done with parked workers is in this header, and
 * worker_drain. Each must have answered before, if one may hang.
 */
void server_park(struct server *server);

/* Delivers letters to parked workers and writes what is queued. False: there was nothing to do. */
bool server_flush_parked(struct server *server);

/* The parked workers go on. False: errno; one could not be started, those before it run. */
bool server_unpark(struct server *server) MUST_USE;

/* Whether a program that this process becomes gets the descriptors of parked connections. False:
 * errno. */
bool server_keep_descriptors(const struct server *server, bool keep) MUST_USE;

/* Tells the peers of TLS connections that nothing more comes: the process that follows can't. */
void server_say_goodbye(const struct server *server);

/* Closes all TLS connections of workers that do not run, with CLOSE_UPGRADE; whoever is woken by
 * that hears of it when they do. Returns how many. */
uint32_t server_close_tls(struct server *server);

/* Writes sections of what the parked workers and their connections are. */
void server_save(const struct server *server, struct record_writer *w);

/* No protocol has requests of more bytes that are not whole. */
#define CARRY_INPUT_MAX ((size_t)1 << 30)

/* What a record's connections are made with. */
struct carry {
    struct server *server;
    struct protocol *(*protocol)(void *arg,
                                 const char *name); /* NULL: there is none of that name */
    void *arg;
    bool rehearse; /* the descriptors are not there, or not to be touched */

    /* Set meanwhile. */
    bool begun;          /* the workers were read */
    bool same_places;    /* there are as many as before */
    uint32_t carried;    /* connections so far, with those that have TLS */
    uint32_t handshakes; /* those of them that were in their handshake, and are closed */
};

/*
 * Reads one of those sections; false: it is none of these, or failed. The workers of the server are
 * there and do not run. What could be made before it failed has to be freed by ending the process.
 */
bool carry_restore(struct carry *carry, uint32_t kind, struct record_reader *section) MUST_USE;
/* All were read: new connections may come. Whose time to send or to take is up gets a moment more,
 * as what he did in time was not looked at. */
void carry_done(const struct carry *carry);

#endif
