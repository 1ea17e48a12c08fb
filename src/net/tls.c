/*
 * tls.c - makes contexts from files and explains errors in them (see tls.h).
 *
 * The library's messages mostly describe its parser. So common errors are checked first and get a
 * plain message; the library's own text is used for all others.
 *
 * The library loads most of its algorithms during the first handshake, and never again what it then
 * has no memory for: all later handshakes of the process fail. So it makes a handshake with itself
 * before the first context (`warm_up`), while there is memory. `lock` guards `is_warm`.
 */
#include "net/tls_internal.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICKET_LIFE_S 3600
#define CIPHERS       "ECDHE+AESGCM:ECDHE+CHACHA20" /* of TLS 1.2 */

struct tls *tls_share(struct tls *tls)
{
    atomic_fetch_add_explicit(&tls->holders, 1, memory_order_relaxed);
    return tls;
}

void tls_free(struct tls **tls)
{
    struct tls *t = *tls;
    *tls = NULL;
    if (!t || atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(t->context);
    ERR_clear_error(); /* freeing may fail inside and leave an error; the thread's next TLS call
                          must not find it */
    free(t);
}

/* Writes the message and returns false. */
static bool PRINTF_LIKE(2, 3) wrong(char *reason_r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason_r, TLS_REASON_SIZE, format, args);
    va_end(args);
    ERR_clear_error();
    return false;
}

/* The library's text for the first error in its queue, which is the cause; the later ones come from
 * its callers. */
static const char *library_words(void)
{
    const char *words = ERR_reason_error_string(ERR_peek_error());
    return words ? words : "unknown error";
}

/* True when the file can be read; otherwise writes the reason. */
static bool readable(const char *what, const char *path, char *reason_r)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int error = fd < 0 || fstat(fd, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
    if (fd >= 0)
        close(fd);
    return !error || wrong(reason_r, "%s %s: %s", what, path, strerrordesc_np(error));
}

/* True when the first error is that the file has no PEM block of the right kind. */
static bool is_not_there(void)
{
    unsigned long code = ERR_peek_error();
    return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

/* `peers`: the side that will refuse a bad date. */
static void warn_of_time(const SSL_CTX *context, const char *path, const char *peers)
{
    const X509 *cert = SSL_CTX_get0_certificate(context);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        log_warning("certificate %s has expired: %s will refuse it", path, peers);
    else if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        log_warning("certificate %s is not valid yet: %s will refuse it", path, peers);
}

/* Loads the certificate chain. */
static bool load_certificate(SSL_CTX *context, const char *path, char *reason_r)
{
    if (!readable("certificate", path, reason_r))
        return false;
    if (SSL_CTX_use_certificate_chain_file(context, path) == 1)
        return true;
    if (is_not_there())
        return wrong(reason_r, "certificate %s: the file has no certificate in PEM format", path);
    return wrong(reason_r, "certificate %s: %s", path, library_words());
}

/* Notes that the key is encrypted, instead of asking for a passphrase at the terminal. */
static int no_passphrase(char *to, int size, int writing, void *asked)
{
    (void)to;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static bool load_key(SSL_CTX *context, const char *path, const char *cert, char *reason_r)
{
    bool asked = false;
    if (!readable("key", path, reason_r))
        return false;
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
    bool loaded = SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (asked)
        return wrong(reason_r, "key %s: it is encrypted; use a key without a passphrase", path);
    unsigned long code = ERR_peek_last_error();
    if ((loaded && SSL_CTX_check_private_key(context) != 1) ||
        (!loaded && ERR_GET_LIB(code) == ERR_LIB_X509 &&
         (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
          ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH)))
        return wrong(reason_r, "key %s: it does not belong to the certificate %s", path, cert);
    if (loaded)
        return true;
    code = ERR_peek_error();
    if (is_not_there() || ERR_GET_REASON(code) == ERR_R_UNSUPPORTED ||
        ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER)
        return wrong(reason_r, "key %s: the file has no private key in PEM format", path);
    return wrong(reason_r, "key %s: %s", path, library_words());
}

static bool load_ca(SSL_CTX *context, const char *path, char *reason_r)
{
    if (!readable("CA certificates", path, reason_r))
        return false;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
    if (!names || sk_X509_NAME_num(names) == 0) {
        bool none = !names && is_not_there();
        wrong(reason_r, "CA certificates %s: %s", path,
              none || !ERR_peek_error() ? "the file has no certificate in PEM format"
                                        : library_words());
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return false;
    }
    SSL_CTX_set_client_CA_list(context, names);
    if (SSL_CTX_load_verify_file(context, path) == 1)
        return true;
    return wrong(reason_r, "CA certificates %s: %s", path, library_words());
}

/* Applies the settings for both sides. */
static bool set_up(SSL_CTX *context, enum tls_version min_version, char *reason_r)
{
    /* A peer that closes without close_notify counts as closed, as on a plain connection. */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1); /* halves the number of recv calls */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_cipher_list(context, CIPHERS) != 1 ||
        SSL_CTX_set_min_proto_version(
            context, min_version == TLS_VERSION_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) != 1)
        return wrong(reason_r, "the TLS library refuses its settings: %s", library_words());
    return true;
}

static bool set_up_server(SSL_CTX *context, enum tls_verify verify_client, char *reason_r)
{
    static const unsigned char session_context[] = "counterd";
    static const int modes[] = {
        [TLS_VERIFY_OFF] = SSL_VERIFY_NONE,
        [TLS_VERIFY_OPTIONAL] = SSL_VERIFY_PEER,
        [TLS_VERIFY_REQUIRE] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    };
    SSL_CTX_set_timeout(context, TICKET_LIFE_S);
    SSL_CTX_set_verify(context, modes[verify_client], NULL);
    if (SSL_CTX_set_num_tickets(context, 1) != 1 ||
        SSL_CTX_set_session_id_context(context, session_context, sizeof(session_context) - 1) != 1)
        return wrong(reason_r, "the TLS library refuses its settings: %s", library_words());
    return true;
}

/* ---- the first handshake --------------------------------------------------------------------- */

/* Sets what a policy of the system (openssl.cnf) may have set, so that `equip` fits it. */
static bool make_plain(SSL_CTX *context)
{
    SSL_CTX_set_security_level(context, 0);
    SSL_CTX_clear_cert_flags(context, SSL_CERT_FLAG_SUITEB_128_LOS);
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    return SSL_CTX_set_max_proto_version(context, 0) == 1 &&
           SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, CIPHERS) == 1 &&
           SSL_CTX_set_ciphersuites(context, TLS_DEFAULT_CIPHERSUITES) == 1 &&
           SSL_CTX_set1_groups_list(context, "P-256") == 1 &&
           SSL_CTX_set1_sigalgs_list(context, "ECDSA+SHA256") == 1;
}

/* Makes a certificate that signs itself, and has both sides use it or trust it. */
static bool equip(SSL_CTX *server, SSL_CTX *client, EVP_PKEY *key, X509 *cert)
{
    return make_plain(server) && make_plain(client) &&
           X509_gmtime_adj(X509_getm_notBefore(cert), 0) &&
           X509_gmtime_adj(X509_getm_notAfter(cert), 3600) && X509_set_pubkey(cert, key) == 1 &&
           X509_sign(cert, key, EVP_sha256()) > 0 && SSL_CTX_use_certificate(server, cert) == 1 &&
           SSL_CTX_use_PrivateKey(server, key) == 1 &&
           X509_STORE_add_cert(SSL_CTX_get_cert_store(client), cert) == 1;
}

/* One side goes on as far as it can. Returns false when it has failed. */
static bool go_on(SSL *ssl, bool *done_r)
{
    int ret = SSL_do_handshake(ssl), error = SSL_get_error(ssl, ret);
    *done_r = ret == 1;
    return *done_r || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

/* True when two sides, joined in memory, finish their handshake. */
static bool shake(SSL *server, SSL *client)
{
    enum { TURNS = 8 }; /* TLS 1.3 needs two */
    BIO *here = NULL, *there = NULL;
    if (BIO_new_bio_pair(&here, 0, &there, 0) != 1)
        return false;
    SSL_set_bio(server, here, here);
    SSL_set_bio(client, there, there);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    SSL_set_verify(client, SSL_VERIFY_PEER, NULL);
    for (int i = 0; i < TURNS; i++) {
        bool client_done, server_done;
        if (!go_on(client, &client_done) || !go_on(server, &server_done))
            return false;
        if (client_done && server_done)
            return true;
    }
    return false;
}

static bool try_handshake(void)
{
    SSL_CTX *server_side = SSL_CTX_new(TLS_server_method());
    SSL_CTX *client_side = SSL_CTX_new(TLS_client_method());
    EVP_PKEY *key = server_side && client_side ? EVP_EC_gen("P-256") : NULL;
    X509 *cert = key ? X509_new() : NULL;
    bool is_equipped = cert && equip(server_side, client_side, key, cert);
    SSL *server = is_equipped ? SSL_new(server_side) : NULL;
    SSL *client = is_equipped ? SSL_new(client_side) : NULL;
    bool done = server && client && shake(server, client);
    SSL_free(server);
    SSL_free(client);
    X509_free(cert);
    EVP_PKEY_free(key);
    SSL_CTX_free(server_side);
    SSL_CTX_free(client_side);
    return done;
}

/* Has the library load what a handshake needs, once in a process. A failure is only logged: what
 * this handshake uses may be forbidden where those of clients are not. */
static void warm_up(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool is_warm;
    pthread_mutex_lock(&lock);
    if (!is_warm && !try_handshake())
        log_warning("a test of the TLS library failed: %s; if clients can't connect, restart "
                    "counterd when there is memory",
                    library_words());
    is_warm = true;
    ERR_clear_error();
    pthread_mutex_unlock(&lock);
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* Makes an empty context. Returns NULL on failure; reason_r has the error. */
static struct tls *make(const SSL_METHOD *side, char *reason_r)
{
    warm_up();
    struct tls *tls = calloc(1, sizeof(*tls));
    SSL_CTX *context = tls ? SSL_CTX_new(side) : NULL;
    if (!context) {
        wrong(reason_r, "can't make a TLS context: %s", tls ? library_words() : "no memory");
        free(tls);
        return NULL;
    }
    tls->context = context;
    atomic_init(&tls->holders, 1);
    return tls;
}

struct tls *tls_new(const struct tls_config *config, char *reason_r)
{
    if (!config->cert) {
        wrong(reason_r, "no certificate is configured (tls.cert)");
        return NULL;
    }
    if (config->verify_client != TLS_VERIFY_OFF && !config->ca) {
        wrong(reason_r, "can't verify clients without CA certificates (tls.ca)");
        return NULL;
    }
    struct tls *tls = make(TLS_server_method(), reason_r);
    if (!tls)
        return NULL;
    SSL_CTX *context = tls->context;
    if (!set_up(context, config->min_version, reason_r) ||
        !set_up_server(context, config->verify_client, reason_r) ||
        !load_certificate(context, config->cert, reason_r) ||
        !load_key(context, config->key ? config->key : config->cert, config->cert, reason_r) ||
        (config->ca && !load_ca(context, config->ca, reason_r)))
        tls_free(&tls);
    else
        warn_of_time(context, config->cert, "clients");
    ERR_clear_error();
    return tls;
}

static bool load_system_ca(SSL_CTX *context, char *reason_r)
{
    return SSL_CTX_set_default_verify_paths(context) == 1 ||
           wrong(reason_r, "the system's CA certificates: %s", library_words());
}

/* The client's certificate and its key. */
static bool load_identity(SSL_CTX *context, const struct tls_client_config *config,
                          enum tls_file *wrong_r, char *reason_r)
{
    if (!config->cert)
        return true;
    *wrong_r = TLS_FILE_CERT;
    if (!load_certificate(context, config->cert, reason_r))
        return false;
    *wrong_r = config->key ? TLS_FILE_KEY : TLS_FILE_CERT;
    return load_key(context, config->key ? config->key : config->cert, config->cert, reason_r);
}

struct tls *tls_client_new(const struct tls_client_config *config, enum tls_file *wrong_r,
                           char *reason_r)
{
    enum tls_file wrong;
    if (!wrong_r)
        wrong_r = &wrong;
    *wrong_r = TLS_FILE_CA;
    struct tls *tls = make(TLS_client_method(), reason_r);
    if (!tls)
        return NULL;
    SSL_CTX *context = tls->context;
    tls->client = true;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (!set_up(context, config->min_version, reason_r) ||
        !(config->ca ? load_ca(context, config->ca, reason_r)
                     : load_system_ca(context, reason_r)) ||
        !load_identity(context, config, wrong_r, reason_r))
        tls_free(&tls);
    ERR_clear_error();
    return tls;
}

void tls_client_warn(const struct tls *tls, const char *cert)
{
    warn_of_time(tls->context, cert, "servers");
}
