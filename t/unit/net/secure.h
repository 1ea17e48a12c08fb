/*
 * secure.h - certificates made for a test, and TLS clients of a toy server.
 *
 * The certificates lie in a folder of the test's own, which it removes at its end: "server" (with
 * its key), "second" (another of the same CA), "both" (certificate and key in one file), "client",
 * "stranger" (of a CA nobody knows), "expired", each NAME.crt and NAME.key; and ca.crt. All but the
 * CAs' are for the host secure.test, 127.0.0.1 and ::1.
 */
#ifndef SECURE_H
#define SECURE_H

#include "t/unit/net/toy.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

/* ---- certificates ---------------------------------------------------------------------------- */

struct pki {
    char folder[64];
    char *paths[512]; /* handed out by pki_path */
    unsigned path_count;
};

static const char *const pki_names[] = {"ca",       "server",  "second",     "client",
                                        "stranger", "expired", "nobody's-ca"};

/* The path of a file in the folder; valid as long as `pki`. */
static inline const char *pki_path(struct pki *pki, const char *name)
{
    ck_assert_uint_lt(pki->path_count, ARRAY_SIZE(pki->paths));
    char *path = NULL;
    ck_assert(asprintf(&path, "%s/%s", pki->folder, name) > 0);
    pki->paths[pki->path_count++] = path;
    return path;
}

static inline FILE *pki_file(const struct pki *pki, const char *name, const char *end,
                             const char *mode)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/%s%s", pki->folder, name, end);
    FILE *file = fopen(path, mode);
    ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
    return file;
}

static inline void pki_extend(X509 *cert, int what, const char *value)
{
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, what, value);
    ck_assert(ext != NULL && X509_add_ext(cert, ext, -1) == 1);
    X509_EXTENSION_free(ext);
}

/*
 * A certificate for `name` with this key, signed by `issuer`; without an issuer, a CA that signs
 * itself.
 */
static inline X509 *pki_issue(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key,
                              long from_s, long until_s)
{
    static long serial = 1;
    X509 *cert = X509_new();
    ck_assert(cert != NULL);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(cert), from_s);
    X509_gmtime_adj(X509_getm_notAfter(cert), until_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
    X509_set_pubkey(cert, key);
    pki_extend(cert, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
    if (issuer)
        pki_extend(cert, NID_subject_alt_name, "DNS:secure.test,IP:127.0.0.1,IP:::1");
    ck_assert(X509_sign(cert, issuer ? issuer_key : key, EVP_sha256()) > 0);
    return cert;
}

static inline void pki_save(const struct pki *pki, const char *name, X509 *cert, EVP_PKEY *key)
{
    FILE *file = pki_file(pki, name, ".crt", "w");
    ck_assert(PEM_write_X509(file, cert) == 1 && fclose(file) == 0);
    file = pki_file(pki, name, ".key", "w");
    ck_assert(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1 && fclose(file) == 0);
}

static inline void pki_make(struct pki *pki)
{
    const char *base = getenv("TMPDIR");
    *pki = (struct pki){0};
    snprintf(pki->folder, sizeof(pki->folder), "%s/tls.XXXXXX", base ? base : "/tmp");
    ck_assert(mkdtemp(pki->folder) != NULL);
    EVP_PKEY *keys[ARRAY_SIZE(pki_names)];
    X509 *certs[ARRAY_SIZE(pki_names)];
    for (size_t i = 0; i < ARRAY_SIZE(pki_names); i++) {
        keys[i] = EVP_EC_gen("P-256");
        ck_assert(keys[i] != NULL);
    }
    long day_s = 24 * 3600L;
    certs[0] = pki_issue("test CA", keys[0], NULL, NULL, -day_s, day_s);
    certs[6] = pki_issue("nobody's CA", keys[6], NULL, NULL, -day_s, day_s);
    for (size_t i = 1; i < 6; i++)
        certs[i] = pki_issue(pki_names[i], keys[i], certs[i == 4 ? 6 : 0], keys[i == 4 ? 6 : 0],
                             -2 * day_s, i == 5 ? -day_s : day_s);
    for (size_t i = 0; i < ARRAY_SIZE(pki_names); i++)
        pki_save(pki, pki_names[i], certs[i], keys[i]);
    FILE *both = pki_file(pki, "both", ".pem", "w");
    ck_assert(PEM_write_X509(both, certs[1]) == 1 &&
              PEM_write_PrivateKey(both, keys[1], NULL, NULL, 0, NULL, NULL) == 1 &&
              fclose(both) == 0);
    char passphrase[] = "secret";
    FILE *locked = pki_file(pki, "locked", ".key", "w");
    ck_assert(PEM_write_PrivateKey(locked, keys[1], EVP_aes_128_cbc(), NULL, 0, NULL, passphrase) ==
                  1 &&
              fclose(locked) == 0);
    for (size_t i = 0; i < ARRAY_SIZE(pki_names); i++) {
        X509_free(certs[i]);
        EVP_PKEY_free(keys[i]);
    }
}

static inline void pki_remove(struct pki *pki)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", pki->folder);
    ck_assert(system(command) == 0);
    while (pki->path_count > 0)
        free(pki->paths[--pki->path_count]);
}

/* A context made of these files, which must be valid. */
static inline struct tls *pki_tls(struct pki *pki, const char *name, enum tls_verify verify,
                                  enum tls_version min_version)
{
    char file[32], reason[TLS_REASON_SIZE] = "";
    snprintf(file, sizeof(file), "%s.crt", name);
    const char *cert = pki_path(pki, file);
    snprintf(file, sizeof(file), "%s.key", name);
    struct tls_config config = {
        .cert = cert,
        .key = pki_path(pki, file),
        .ca = verify == TLS_VERIFY_OFF ? NULL : pki_path(pki, "ca.crt"),
        .verify_client = verify,
        .min_version = min_version,
    };
    struct tls *tls = tls_new(&config, reason);
    ck_assert_msg(tls != NULL, "%s", reason);
    return tls;
}

/* ---- a server with TLS ----------------------------------------------------------------------- */

static inline void secure_snapshot(struct toy_server *s, struct server_limits limits,
                                   struct tls *tls)
{
    struct snapshot_config config = {.limits = limits, .tls = tls};
    struct snapshot *snapshot = snapshot_new(&config);
    ck_assert(snapshot != NULL);
    server_set_snapshot(&s->server, snapshot);
}

static inline void secure_start(struct toy_server *s, unsigned count, struct server_limits limits,
                                struct tls *tls)
{
    toy_make(s, count, limits);
    s->secure = true;
    secure_snapshot(s, limits, tls);
    toy_run(s);
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Without `ssl`, one that speaks no TLS. */
struct secure_client {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
};

/* A client on a blocking socket, for one version of TLS only. It has sent nothing yet. */
static inline struct secure_client client_new(int fd, int version)
{
    struct secure_client c = {.context = SSL_CTX_new(TLS_client_method()), .fd = fd};
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    ck_assert(pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL) == 0);
    ck_assert(c.context != NULL);
    SSL_CTX_set_security_level(c.context, version < TLS1_2_VERSION ? 0 : 1);
    ck_assert(SSL_CTX_set_min_proto_version(c.context, version) == 1 &&
              SSL_CTX_set_max_proto_version(c.context, version) == 1);
    c.ssl = SSL_new(c.context);
    ck_assert(c.ssl != NULL && SSL_set_fd(c.ssl, fd) == 1);
    SSL_set_connect_state(c.ssl);
    return c;
}

/* Frees the client without a close_notify. */
static inline void client_free(struct secure_client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->context);
    close(c->fd);
    ERR_clear_error();
}

/* A client that has finished its handshake. */
static inline struct secure_client client_connect(struct toy_server *s, unsigned number,
                                                  int version)
{
    int fd;
    ck_assert(toy_give_secure(s, number, local_pair(SOCK_STREAM, &fd)));
    struct secure_client c = client_new(fd, version);
    ck_assert_msg(SSL_do_handshake(c.ssl) == 1, "%s", ERR_reason_error_string(ERR_peek_error()));
    return c;
}

static inline void client_send(struct secure_client *c, const char *text)
{
    size_t n = 0, len = strlen(text);
    if (!c->ssl)
        send_text(c->fd, text);
    else
        ck_assert(SSL_write_ex(c->ssl, text, len, &n) == 1 && n == len);
}

static inline void client_receive(struct secure_client *c, void *to, size_t len)
{
    if (!c->ssl)
        receive_exactly(c->fd, to, len);
    for (size_t at = 0; c->ssl && at < len;) {
        size_t n = 0;
        ck_assert_msg(SSL_read_ex(c->ssl, (char *)to + at, len - at, &n) == 1,
                      "the connection ended: %s", ERR_reason_error_string(ERR_peek_error()));
        at += n;
    }
}

static inline void client_expect(struct secure_client *c, const char *text)
{
    size_t len = strlen(text);
    char *got = malloc(len + 1);
    ck_assert(got != NULL);
    client_receive(c, got, len);
    got[len] = '\0';
    ck_assert_str_eq(got, text);
    free(got);
}

/* Expects a close_notify. */
static inline void client_expect_goodbye(struct secure_client *c)
{
    char byte;
    size_t n = 0;
    int ret = SSL_read_ex(c->ssl, &byte, 1, &n);
    ck_assert_int_eq(ret, 0);
    ck_assert_int_eq(SSL_get_error(c->ssl, ret), SSL_ERROR_ZERO_RETURN);
}

/* Expects that the server refuses, by an alert or by closing. */
static inline void client_expect_refusal(struct secure_client *c)
{
    char byte;
    size_t n = 0;
    if (SSL_do_handshake(c->ssl) == 1) /* in TLS 1.3 the client may have finished already */
        ck_assert_int_eq(SSL_read_ex(c->ssl, &byte, 1, &n), 0);
}

#endif
