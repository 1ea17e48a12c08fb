/*
 * carried.h - the old server of a test of upgrades: its state goes into a file, and its connections
 * to the new server, in the same process.
 */
#ifndef CARRIED_H
#define CARRIED_H

#include "base/record.h"
#include "net/carry.h"
#include "t/unit/net/toy.h"

#include <sys/mman.h>

/* Saves a parked server's state; returns the file's descriptor. */
static inline int carry_save(const struct toy_server *s)
{
    struct record_writer *w = malloc(sizeof(*w));
    int fd = memfd_create("carry", MFD_CLOEXEC);
    ck_assert(w != NULL && fd >= 0);
    record_writer_init(w, fd);
    server_save(&s->server, w);
    ck_assert(record_finish(w));
    free(w);
    return fd;
}

/* Makes the connections of `s` release their descriptors, and ends the server. */
static inline void carry_abandon(struct toy_server *s)
{
    for (unsigned i = 0; i < s->server.count; i++) {
        for (uint32_t slot = 0; slot < worker_slots(s->server.workers[i]); slot++) {
            struct conn *conn = worker_conn_at(s->server.workers[i], slot);
            if (!conn)
                continue;
            loop_io_remove(worker_reactor(s->server.workers[i])->loop, &conn->io);
            conn->stream.fd = -1;
            conn_close(conn, CLOSE_KILLED);
        }
    }
    for (unsigned i = 0; i < s->server.count; i++)
        worker_drain(s->server.workers[i]);
    toy_free(s);
}

#endif
