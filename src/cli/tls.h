/*
 * tls.h - the TLS side of a connection. Part of link.h; only link.c uses it.
 */
#ifndef CLI_TLS_H
#define CLI_TLS_H

#include "cli/link.h"

/*
 * Creates link->tls and link->ssl for the open socket. They verify chain and name, unless
 * options->insecure. Returns false on an error; link->reason names the wrong option.
 */
bool tls_start(struct link *link, const struct options *options, const char *host) MUST_USE;

/* What a TLS function waits for before the next call: POLLIN or POLLOUT; 0: it failed or ended. */
short tls_wants(struct link *link, int result);

/* Writes to link->reason why the handshake failed. */
void tls_explain_handshake(struct link *link);

/* Sends close_notify if that does not block, and frees both. */
void tls_end(struct link *link);

#endif
