/*
 * link.h - one connection to a server over TCP, TLS or a unix socket, driven by the event loop. It
 * moves bytes; client.h turns them into requests and answers.
 *
 * A link begins, is up, and ends. No function here blocks. The options' timeouts bound connecting
 * and sending. TCP keepalive ends the connection within half a minute after the server has
 * vanished, even when we send nothing.
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
    LINK_SHAKING, /* TLS handshake */
    LINK_UP,
    LINK_FINISHING
};

struct link_calls {
    void (*on_up)(void *owner);
    /* Takes one message from the start of `data` and returns its length; 0 when it is incomplete.
       The message stays valid until the loop waits. Called for all messages of one read; those
       behind one that ended the loop come in the next loop_run. */
    size_t (*take)(void *owner, struct bytes data);
    void (*on_end)(void *owner); /* the link is closed; its `reason` says why, for people */
};

/* Zero-initialised: closed. */
struct link {
    enum link_state state;
    char where[ADDRESS_TEXT];
    char reason[LINK_REASON_SIZE];
    /* private to link.c and tls.c */
    const struct link_calls *calls;
    void *owner; /* passed to the calls */
    struct loop *loop;
    const struct options *options;
    struct watch watch;            /* of fd */
    struct timer timer;            /* deadline of the state, or of unsent bytes */
    struct timer rest;             /* due at once when messages wait for the next loop_run */
    int64_t connect_by_ns;         /* deadline of all states before LINK_UP */
    struct address address;        /* with a port */
    struct addrinfo *found, *next; /* the host's addresses, and the one to try next */
    int fd;                        /* the socket or the lookup's pipe; -1: none */
    SSL *ssl;                      /* NULL: plain */
    SSL_CTX *tls;
    struct text in, out;
    size_t taken, sent;              /* bytes of each buffer that are done */
    short read_events, write_events; /* poll events that reading and writing wait for */
};

/*
 * Starts to connect a closed link to an address, with `port` as the default port, and with TLS if
 * the options say so. Lookup, connect and TLS handshake together must finish within
 * options->connect_timeout_ns.
 */
void link_open(struct link *link, struct loop *loop, const struct address *address,
               const struct options *options, uint16_t port);

/* Sends `len` bytes; the link must be up. The link ends if sending takes longer than
   options->io_timeout_ns. */
void link_send(struct link *link, const void *data, size_t len);

/*
 * Ends the link in order: half-closes it, drops what arrives, and ends when the server has closed
 * its side, after a second at the latest. A later request then finds what the link held free. The
 * link must be up.
 */
void link_finish(struct link *link);

/* Closes the link at once in any state, and makes no calls. */
void link_close(struct link *link);

#endif
