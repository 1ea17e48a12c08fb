/*
 * credentials.h - what the daemon reads from files that the settings name, besides their own: the
 * certificates of TLS with their key, and the token of the admin interface.
 *
 * They are read at the start with the rights the daemon is started with, and at each reload with
 * those of the user it has become.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_CREDENTIALS_H
#define DAEMON_CREDENTIALS_H

#include "admin/token.h"
#include "base/check.h"
#include "daemon/options.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stdio.h>

struct credentials {
    struct tls *tls;               /* NULL: tls.cert is not set */
    char token[TOKEN_DIGEST_SIZE]; /* its digest; "": none, so nothing may be changed */
};

/*
 * Reads what the settings name. False: something can't be read or is no good; all of it has been
 * said on `err`, and there is nothing to free.
 */
bool credentials_load(const struct settings *settings, struct credentials *credentials_r,
                      FILE *err) MUST_USE;

/* Lets go of what is held. What was handed on is set to NULL before. */
void credentials_free(struct credentials *credentials);

/* Logs a warning for each file with a secret that every user of the machine can read or write. */
void credentials_warn(const struct settings *settings);

#endif
