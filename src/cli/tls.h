/*
 * tls.h - the TLS side of a connection. Part of client.h; only client.c uses it.
 */
#ifndef CLI_TLS_H
#define CLI_TLS_H

#include "cli/client.h"

/*
 * Makes client->tls and client->ssl for its open socket, with names and chain to be verified
 * unless options->insecure. False: client->reason says which option is wrong.
 */
bool tls_start(struct client *client, const struct options *options, const char *host) MUST_USE;

/* What a TLS function wants before it is called again: POLLIN or POLLOUT; 0: it failed or ended. */
short tls_wants(struct client *client, int result);

/* Writes why the handshake failed to client->reason. */
void tls_explain_handshake(struct client *client);

/* Says that we end, as far as that goes without waiting, and frees both. */
void tls_end(struct client *client);

#endif
