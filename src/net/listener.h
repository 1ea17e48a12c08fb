/*
 * listener.h - listening sockets, and how accepted connections are spread over the workers.
 *
 * Every worker watches every listening socket, and any free worker takes the next connection. It
 * keeps the connection, unless it already has clearly more than the worker with the fewest; then it
 * sends the connection there by mail. So short connections stay with the worker that accepted them,
 * and long ones are spread evenly.
 */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include "net/worker.h"

#include <sys/socket.h>

struct listener {
    int fd; /* -1: closed */
    struct protocol *protocol;
    bool tls;       /* clients start with a TLS handshake */
    bool local;     /* a unix socket: clients have no address and are always allowed */
    bool inherited; /* for its owner: the program before an upgrade opened it */
    bool own_file;  /* `where` is a file that we made and must unlink, of this device and inode */
    dev_t device;
    ino_t inode;
    char asked[128]; /* the address as asked for, like `where`, but port 0 for any; "": adopted */
    char where[128]; /* "127.0.0.1:7531", "[::1]:7531", "/run/counterd/text.sock", "@name" */
};

/* Listens on `address` for `protocol`; port 0 means any port. Returns false with errno;
 * listener_r->where is then the address that failed. */
bool listener_open(struct listener *listener_r, struct protocol *protocol,
                   const struct sockaddr *address, socklen_t len, bool tls) MUST_USE;
/*
 * Listens on the unix socket `path`. "@name" means an abstract socket, which has no file and no
 * mode. Clients cannot connect before the file has `mode`. A file left behind by a dead server is
 * replaced. listener_r->where is the path, cut if too long. Returns false with errno: EADDRINUSE:
 * another server listens there; EEXIST: a file that is not a socket is there; ENAMETOOLONG; EINVAL:
 * the path is empty; or an error of bind or chmod.
 */
bool listener_open_unix(struct listener *listener_r, struct protocol *protocol, const char *path,
                        unsigned mode) MUST_USE;
/* Finds where a socket listens: sets `local`, `where` and *port_r (0: a unix socket). Returns false
 * with errno: ENOTSOCK, EBADF, or EINVAL when it is not a listening stream socket of IPv4, IPv6 or
 * unix. */
bool listener_find(struct listener *listener_r, int fd, uint16_t *port_r) MUST_USE;
/*
 * Adopts an inherited socket that already listens, and sets the options that clients rely on. If
 * the socket has a file, listener_close does not unlink it. Returns false with errno, as
 * listener_find or because an option can't be set; the caller still owns `fd`.
 */
bool listener_adopt(struct listener *listener_r, struct protocol *protocol, int fd,
                    bool tls) MUST_USE;
/* Closes the listener. Unlinks the file that listener_open_unix made, unless another file has
 * replaced it. */
void listener_close(struct listener *listener);

/* One worker's watches on the listeners of its server. */
struct acceptor;

/* Makes `worker` accept from `count` listeners. Call it before the worker starts; the listeners
 * must outlive the acceptor. Returns NULL when there is no memory. */
struct acceptor *acceptor_new(struct worker *worker, const struct listener *listeners,
                              size_t count) MUST_USE;
/* Frees *acceptor and sets it to NULL. Call it after the worker has ended. */
void acceptor_free(struct acceptor **acceptor);

#endif
