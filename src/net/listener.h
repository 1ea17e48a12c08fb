/*
 * listener.h - listening sockets, and how the connections they bring are spread over the workers.
 *
 * Each listening socket is watched by every worker; whichever is free takes the next connection.
 * It keeps it unless it has clearly more connections than the worker that has fewest: then that one
 * gets it by mail. So short-lived connections stay where they were accepted, and long-lived ones
 * end up evenly spread.
 */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include "net/worker.h"

#include <sys/socket.h>

struct listener {
    int fd;
    struct protocol *protocol;
    char where[64]; /* "127.0.0.1:7531", "[::1]:7531" */
};

/*
 * Listens on `address` (its port included; 0: any) for `protocol`. False: errno says why, and
 * listener_r->where which address it was.
 */
bool listener_open(struct listener *listener_r, struct protocol *protocol,
                   const struct sockaddr *address, socklen_t len) MUST_USE;
void listener_close(struct listener *listener);

/* What one worker has to do with the listeners of its server. */
struct acceptor;

/*
 * Has `worker` accept from `count` listeners, which outlive the acceptor. Before the worker starts.
 * NULL: no memory.
 */
struct acceptor *acceptor_new(struct worker *worker, const struct listener *listeners,
                              size_t count) MUST_USE;
/* Frees *acceptor, when its worker has ended, and nulls it. */
void acceptor_free(struct acceptor **acceptor);

#endif
