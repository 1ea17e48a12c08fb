/*
 * tls.h - a TLS context: certificate, key and trusted CAs. It is checked when it is made, and
 * shared by all connections that start with it. When another context replaces it, those connections
 * keep it. A context is for servers or for clients, not for both.
 *
 * TLS 1.2 or 1.3, only with forward secrecy and authenticated encryption; no renegotiation, no
 * compression. Sessions are resumed only by tickets, so the server stores nothing for clients that
 * have left. A ticket is valid for an hour, with this context only.
 *
 * Threads: make it in any thread; the share count is atomic.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/check.h"

enum tls_verify {
    TLS_VERIFY_OFF,      /* does not ask clients for a certificate */
    TLS_VERIFY_OPTIONAL, /* asks; a client may have none, but a bad one is refused */
    TLS_VERIFY_REQUIRE,  /* a client must have a valid certificate */
};
enum tls_version { TLS_VERSION_1_2, TLS_VERSION_1_3 };

struct tls_config {
    const char *cert; /* path of the certificate chain, PEM, the server's own first */
    const char *key;  /* path of its private key, PEM, not encrypted; NULL: in `cert` */
    const char *ca;   /* path of the CA certificates for clients; NULL: none */
    enum tls_verify verify_client; /* if not OFF, `ca` is needed */
    enum tls_version min_version;
};

struct tls;

#define TLS_REASON_SIZE 320

/*
 * Makes a server's context from files and checks them. A certificate that has expired or is not
 * valid yet is accepted with a warning in the log. The caller frees the context, unless it is given
 * to rules (snapshot.h). Returns NULL on failure; reason_r (TLS_REASON_SIZE bytes) then names the
 * file and the error.
 */
struct tls *tls_new(const struct tls_config *config, char *reason_r) MUST_USE;

struct tls_client_config {
    const char *ca;   /* path of the CA certificates for servers; NULL: those of the system, some of
                         which the library reads only during a handshake */
    const char *cert; /* path of the client's certificate chain, PEM; NULL: none */
    const char *key;  /* path of its private key, PEM, not encrypted; NULL: in `cert` */
    enum tls_version min_version;
};

enum tls_file { TLS_FILE_CA, TLS_FILE_CERT, TLS_FILE_KEY };

/*
 * Makes a client's context (stream_secure_client). The server's certificate must be signed by one
 * of `ca`, and valid for the name or address to which the client connects. Returns and errors as
 * tls_new, but for the warning (tls_client_warn); *wrong_r, unless it is NULL, is then the file
 * that is wrong (CA, if none is).
 */
struct tls *tls_client_new(const struct tls_client_config *config, enum tls_file *wrong_r,
                           char *reason_r) MUST_USE;
/* Logs a warning if the client's certificate, from this file, has expired or is not valid yet. */
void tls_client_warn(const struct tls *tls, const char *cert);
/* Takes one more share, which the caller must free; returns `tls`. Any thread that has a share. */
struct tls *tls_share(struct tls *tls);
/* Gives back a share and sets *tls to NULL; NULL is harmless. The last one frees the context. */
void tls_free(struct tls **tls);

#endif
