/*
 * tls.h - what TLS needs: the certificate, its key, whom to believe. Checked when it is made,
 * shared by all connections that began with it; these keep it when another takes its place. One is
 * either a server's or a client's.
 *
 * TLS 1.2 or 1.3, with forward secrecy and authenticated encryption only; no renegotiation, no
 * compression. Sessions are resumed by tickets alone, so nothing is kept for clients that left; a
 * ticket is good for an hour and for this context only.
 *
 * Threads: made in any thread; the count of those who share it is atomic.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/check.h"

enum tls_verify {
    TLS_VERIFY_OFF,      /* clients are not asked for a certificate */
    TLS_VERIFY_OPTIONAL, /* they are, and may have none; a wrong one is refused */
    TLS_VERIFY_REQUIRE,  /* without a good one nobody is served */
};
enum tls_version { TLS_VERSION_1_2, TLS_VERSION_1_3 };

struct tls_config {
    const char *cert; /* path of the certificate and those it builds on, PEM, the server's first */
    const char *key;  /* path of its private key, PEM, not encrypted; NULL: it is in `cert` */
    const char *ca;   /* path of the certificates that clients' are signed by; NULL: none */
    enum tls_verify verify_client; /* other than OFF: `ca` is needed */
    enum tls_version min_version;
};

struct tls;

#define TLS_REASON_SIZE 320

/*
 * Reads and checks the files. NULL: reason_r (TLS_REASON_SIZE bytes) says which file and what is
 * wrong with it. A certificate that is not valid at this time is taken, and a warning is logged.
 * The caller's to free, unless it is given to rules (rules.h).
 */
struct tls *tls_new(const struct tls_config *config, char *reason_r) MUST_USE;

struct tls_client_config {
    const char *ca;   /* path of the certificates that servers' are signed by; NULL: the system's,
                       * part of which the library reads when a server shows its certificate */
    const char *cert; /* path of the client's own and those it builds on, PEM; NULL: it has none */
    const char *key;  /* path of its private key, PEM, not encrypted; NULL: it is in `cert` */
    enum tls_version min_version;
};

/*
 * The same for clients (stream_secure_client): a server must show a certificate that one of `ca`
 * has signed, for the name or address by which it was called. Answers as tls_new.
 */
struct tls *tls_client_new(const struct tls_client_config *config, char *reason_r) MUST_USE;
/* One more who has it, and will free it; returns `tls`. Any thread that has it. */
struct tls *tls_share(struct tls *tls);
/* Lets go of *tls and nulls it; NULL is harmless. The last one who does frees it. */
void tls_free(struct tls **tls);

#endif
