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
    int fd; /* -1: closed */
    struct protocol *protocol;
    bool tls;      /* its clients begin with a TLS handshake */
    bool local;    /* a unix socket: no addresses, always allowed */
    bool own_file; /* `where` is a socket file of ours: this one, to be unlinked */
    dev_t device;
    ino_t inode;
    char asked[128]; /* where it was to listen, as `where`, but with port 0 for any; "": adopted */
    char where[128]; /* "127.0.0.1:7531", "[::1]:7531", "/run/counterd/text.sock", "@name" */
};

/*
 * Listens on `address` (its port included; 0: any) for `protocol`. False: errno says why, and
 * listener_r->where which address it was.
 */
bool listener_open(struct listener *listener_r, struct protocol *protocol,
                   const struct sockaddr *address, socklen_t len, bool tls) MUST_USE;
/*
 * Listens on a unix socket at `path`; "@name": of that name in the abstract space, which has no
 * file and no mode. Nobody can connect before the file has `mode`. A file that a server left behind
 * is replaced. False: errno says why: EADDRINUSE: a server listens there; EEXIST: something else
 * than a socket is there; ENAMETOOLONG; EINVAL: the path is empty; or as of bind and chmod.
 * listener_r->where is the path, cut where it is too long.
 */
bool listener_open_unix(struct listener *listener_r, struct protocol *protocol, const char *path,
                        unsigned mode) MUST_USE;
/*
 * Takes over a socket that listens already, made by whoever started us, and sets what clients rely
 * on. False: `fd` is still the caller's, and errno says why: ENOTSOCK, EBADF; EINVAL: it is no
 * listening stream socket of IPv4, IPv6 or unix. A file it may have is not unlinked when it closes.
 */
bool listener_adopt(struct listener *listener_r, struct protocol *protocol, int fd,
                    bool tls) MUST_USE;
/* Closes it, and unlinks the file that listener_open_unix made, unless another has its place. */
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
