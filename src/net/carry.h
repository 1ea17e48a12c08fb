/*
 * carry.h - carries connections over an upgrade: this process saves them and calls exec, and the
 * new program continues to serve them.
 *
 * First the workers are paused: each finishes its iteration and its thread sleeps. Then mail
 * between workers is delivered, and queued output is written until the sockets are full. So no
 * request is half served; input that was not parsed is kept as bytes. After that, either the same
 * workers go on, or the connections are written to a record. The new program inherits the
 * descriptors and makes its workers and connections from that record.
 *
 * A connection keeps its worker, slot and generation, and so its tag, when the new process has as
 * many workers as the old one. Otherwise connections are spread again and get new tags. A TLS
 * connection cannot be carried, because the library does not export its keys and counters. The new
 * process only closes it with CLOSE_UPGRADE, so that its locks go to the clients that wait for
 * them.
 *
 * Threads: the main thread, while no other thread touches the workers.
 */
#ifndef NET_CARRY_H
#define NET_CARRY_H

#include "net/worker.h"

/* Kinds of section (base/record.md). */
#define CARRY_WORKERS 0x0301u /* the number of workers, and the generation of each slot */
#define CARRY_CONN_V1 0x0302u /* a connection in the format of version 1 */
#define CARRY_CONN    0x0303u /* one connection */

/* Maximum number of deadlines of a protocol. */
#define CARRY_DEADLINES_MAX 16

/*
 * Pauses all workers; all must be running. After that nothing is accepted, read or timed out until
 * server_resume. Only the functions of this header and worker_drain may touch paused workers. This
 * waits for every worker's thread: if one might hang, check first that each worker responds.
 */
void server_pause(struct server *server);

/* Delivers the mail of paused workers and writes queued output. Returns false when there was
 * nothing to do. */
bool server_flush_paused(struct server *server);

/* Has the paused workers go on. */
void server_resume(struct server *server);

/* Clears (`keep`) or sets the close-on-exec flag of all paused connections. Returns false with
 * errno. */
bool server_keep_descriptors(const struct server *server, bool keep) MUST_USE;

/* Sends close_notify to the peer of each TLS connection, because the next process cannot. */
void server_say_goodbye(const struct server *server);

/*
 * Closes all TLS connections of workers that do not run, with CLOSE_UPGRADE. Clients that get a
 * lock because of this are notified when the workers run. Returns the number of connections closed.
 */
uint32_t server_close_tls(struct server *server);

/* Writes the sections that describe the paused workers and their connections. */
void server_save(const struct server *server, struct record_writer *w);

/* Maximum size of an unfinished request of any protocol, in bytes. */
#define CARRY_INPUT_MAX ((size_t)1 << 30)

/* What carry_restore needs to make connections from a record. */
struct carry {
    struct server *server;
    struct protocol *(*protocol)(void *arg,
                                 const char *name); /* NULL: there is no protocol with that name */
    void *arg;
    bool dry_run; /* a dry run: the descriptors are missing or must not be touched */

    /* Set by carry_restore. */
    bool begun;          /* the section of the workers was read */
    bool same_places;    /* the number of workers has not changed */
    uint32_t carried;    /* connections so far, including TLS */
    uint32_t handshakes; /* carried connections that were in a handshake */
    int *handshake_fds;  /* their descriptors, until carry_drop_handshakes */
};

/*
 * Restores one section of the kinds above. Returns false when `kind` is another one, or on failure.
 * The server's workers must exist and must not run. After a failure some connections may exist
 * already; the caller must end the process to free them.
 */
bool carry_restore(struct carry *carry, uint32_t kind, struct record_reader *section) MUST_USE;
/* Closes the connections that were in a handshake, when there is no way back to the old program. */
void carry_drop_handshakes(struct carry *carry);
/*
 * Ends the restore: new connections may be accepted from now on. Moves deadlines that have passed a
 * little into the future, because a client may have acted in time while no process read its socket.
 */
void carry_done(const struct carry *carry);

#endif
