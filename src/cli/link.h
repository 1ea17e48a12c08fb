/*
 * link.h - one connection to a server, over TCP, TLS or a unix socket, as something that the loop
 * waits for. It moves bytes; client.h makes requests and answers of them.
 *
 * A link is begun, is up, and ends; none of its functions waits. Connecting and sending are bounded
 * by the options' timeouts. A vanished server is noticed even where nothing is sent: keepalive ends
 * the connection within half a minute.
 */
#ifndef CLI_LINK_H
#define CLI_LINK_H

#include "cli/address.h"
#include "cli/loop.h"
#include "cli/options.h"
#include "cli/text.h"

#include <openssl/types.h>

#define LINK_REASON_SIZE 640

enum link_state {
    LINK_CLOSED,
    LINK_BEGUN,
    LINK_LOOKING,
    LINK_CONNECTING,
    LINK_SHAKING, /* hands, for TLS */
    LINK_UP,
    LINK_FINISHING
};

struct link_calls {
    void (*on_up)(void *owner);
    /* Takes a message from the beginning of `data`: returns its length; 0: it is not all there.
       The message stays valid until the loop waits. Called for all that came in one read. */
    size_t (*take)(void *owner, struct bytes data);
    void (*on_end)(void *owner); /* it is closed, and the link's `reason` says why, for people */
};

/* Zero-initialised: closed. */
struct link {
    enum link_state state;
    char where[ADDRESS_TEXT];
    char reason[LINK_REASON_SIZE];
    /* link.c's own, and tls.c's */
    const struct link_calls *calls;
    void *owner; /* of the calls */
    struct loop *loop;
    const struct options *options;
    struct watch watch;            /* of fd */
    struct timer timer;            /* the end of the state, or of what is unsent */
    int64_t connect_by_ns;         /* the end of all states before LINK_UP */
    struct address address;        /* with a port */
    struct addrinfo *found, *next; /* addresses, and which is tried next */
    int fd;                        /* the socket, or of the lookup; -1: there is none */
    SSL *ssl;                      /* NULL: plain */
    SSL_CTX *tls;
    struct text in, out;
    size_t taken, sent;              /* so much of the one and the other is of no use any more */
    short read_events, write_events; /* what the one and the other wait for */
};

/*
 * Begins to connect a closed link to an address, with `port` where it names none; with TLS where
 * the options say so. Finding the address, connecting and the TLS handshake together take no longer
 * than options->connect_timeout_ns.
 */
void link_open(struct link *link, struct loop *loop, const struct address *address,
               const struct options *options, uint16_t port);

/* Sends it all; the link is up. It ends where that takes longer than options->io_timeout_ns. */
void link_send(struct link *link, const void *data, size_t len);

/*
 * Ends it in order: half-closes it, forgets what comes, and ends when the server has closed it,
 * too, or in a second. Then what it held is free, and who asks next finds it so. The link is up.
 */
void link_finish(struct link *link);

/* Closes it at once, whatever its state, and calls nobody. */
void link_close(struct link *link);

#endif
