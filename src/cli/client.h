/*
 * client.h - one connection to a server: over TCP, TLS or a unix socket, every wait bounded.
 *
 * A vanished server is noticed even where a wait has no bound of its own: keepalive ends the
 * connection within half a minute. Where a descriptor of signals is given, every wait ends when
 * one has come, but for that of sending a request. One thread.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/bytes.h"
#include "cli/address.h"
#include "cli/options.h"

#include <openssl/types.h>

#define CLIENT_REASON_SIZE 640

/* How a step ended. All but OK and INTERRUPTED leave a reason, for people, in the client. */
enum client_end {
    CLIENT_OK,
    CLIENT_TIMED_OUT,
    CLIENT_CLOSED,     /* the server has closed the connection, or it broke */
    CLIENT_FAILED,     /* it could not be made */
    CLIENT_INTERRUPTED /* `interrupt` can be read */
};

struct client {
    int fd;        /* -1: not open */
    int interrupt; /* a descriptor that ends waits when it can be read; -1: none */
    SSL *ssl;      /* NULL: plain */
    SSL_CTX *tls;
    int64_t io_timeout_ns; /* for what is to be sent, and for answers that need no waiting */
    uint8_t *data;         /* what has come and is not taken yet: `len` bytes at `start` */
    size_t start, len, room;
    char where[ADDRESS_TEXT];
    char reason[CLIENT_REASON_SIZE];
};

/*
 * Connects to an address, with `port` where it names none; with TLS where the options say so.
 * Finding the address, connecting and the TLS handshake together take no longer than
 * options->connect_timeout_ns. Whatever the result, client_close is due.
 */
enum client_end client_open(struct client *client, const struct address *address,
                            const struct options *options, uint16_t port, int interrupt) MUST_USE;

/* Closes it; what it held at the server is free then. May be called at any time after open. */
void client_close(struct client *client);

/*
 * Closes it and waits, for a second at most, until the server has closed it, too: then what it held
 * is free, and who asks next finds it so.
 */
void client_finish(struct client *client);

/* Sends all of it, within io_timeout_ns, which no signal cuts short. What comes meanwhile stays
   with the kernel. */
enum client_end client_send(struct client *client, const void *data, size_t len) MUST_USE;

/*
 * Waits until more bytes have come and adds them to `data`. `deadline_ns` is on the monotonic
 * clock; negative: none. One in the past takes what is there.
 */
enum client_end client_fill(struct client *client, int64_t deadline_ns) MUST_USE;

/* What has come and is not taken yet. Valid until the next step. */
struct bytes client_data(const struct client *client);

/* Takes the first `len` bytes of it. */
void client_take(struct client *client, size_t len);

/* Whether bytes wait inside TLS, which poll does not tell. */
bool client_has_pending(const struct client *client);

/*
 * Reads options->server or its default. False: says what is wrong and with which option or
 * variable.
 */
bool client_address(const struct options *options, struct address *address_r) MUST_USE;

#endif
