/*
 * credentials.h - TLS certificates with their key, and the token of the admin interface, read from
 * the files that the settings name.
 *
 * The daemon reads them at its start with the rights of the user that started it, and at each
 * reload with the rights of its own user.
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
    char token[TOKEN_DIGEST_SIZE]; /* digest of the token; "": no token, no changes */
};

/*
 * Reads the files. Returns false if one is unreadable or invalid: all errors are printed to `err`,
 * and there is nothing to free. Else the caller calls credentials_free.
 */
bool credentials_load(const struct settings *settings, struct credentials *credentials_r,
                      FILE *err) MUST_USE;

/* Frees the credentials. The caller first sets to NULL what it has given to another owner. */
void credentials_free(struct credentials *credentials);

/* Logs a warning for each secret file that all users of the machine can read or write. */
void credentials_warn(const struct settings *settings);

#endif
