/*
 * tls.h - the TLS side of a connection. Part of link.h; only link.c uses it.
 */
#ifndef CLI_TLS_H
#define CLI_TLS_H

#include "cli/link.h"

/*
 * Makes link->tls and link->ssl for its open socket, with names and chain to be verified
 * unless options->insecure. False: link->reason says which option is wrong.
 */
bool tls_start(struct link *link, const struct options *options, const char *host) MUST_USE;

/* What a TLS function wants before it is called again: POLLIN or POLLOUT; 0: it failed or ended. */
short tls_wants(struct link *link, int result);

/* Writes why the handshake failed to link->reason. */
void tls_explain_handshake(struct link *link);

/* Says that we end, as far as that goes without waiting, and frees both. */
void tls_end(struct link *link);

#endif
