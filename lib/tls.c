/*
 * tls.c - TLS for links (tls.h).
 */
#include "lib/tls.h"

#include "lib/failure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>

struct tls {
    SSL_CTX *context;
    BIO_METHOD *method; /* of sockets */
};

/* ---- OpenSSL's errors ------------------------------------------------------------------------ */

#define ERRORS_MAX 16                    /* that OpenSSL keeps */
#define CALL_MAX   (INT64_C(256) * 1024) /* bytes that one call reads, and a little more */

/* The errors of others. OpenSSL's calls clear the queue or look at it, so it must be empty then. */
struct errors {
    size_t count;
    unsigned long codes[ERRORS_MAX];
    char data[ERRORS_MAX][128];
};

static void put_aside(struct errors *errors)
{
    const char *data;
    int flags;
    unsigned long code;
    errors->count = 0;
    while (errors->count < ERRORS_MAX &&
           (code = ERR_get_error_all(NULL, NULL, NULL, &data, &flags)) != 0) {
        bool has_text = data && (flags & ERR_TXT_STRING);
        snprintf(errors->data[errors->count], sizeof *errors->data, "%s", has_text ? data : "");
        errors->codes[errors->count++] = code;
    }
}

/* Forgets our own errors. */
static void put_back(const struct errors *errors)
{
    if (ERR_peek_error() != 0) /* clearing is slow */
        ERR_clear_error();
    for (size_t i = 0; i < errors->count; i++) {
        unsigned long code = errors->codes[i];
        ERR_new();
        ERR_set_error(ERR_GET_LIB(code), ERR_GET_REASON(code), "%s", errors->data[i]);
    }
}

/* Takes the errors that OpenSSL has kept, oldest first. */
struct fault {
    const char *text; /* the last one; NULL: none */
    bool is_memory;   /* one of them was the lack of it */
};

static struct fault take_fault(void)
{
    struct fault fault = {0};
    unsigned long code;
    while ((code = ERR_get_error()) != 0) {
        int reason = ERR_GET_REASON(code);
        fault.is_memory |= reason == ERR_R_MALLOC_FAILURE;
        fault.text =
            reason == ERR_R_SYS_LIB ? strerrordesc_np(errno) : ERR_reason_error_string(code);
    }
    return fault;
}

/* Explains what failed, with what. Returns false. */
static bool explain(struct counter_error *error, const char *what, const char *about)
{
    struct fault fault = take_fault();
    if (fault.is_memory)
        failure_no_memory(error);
    else
        failure_set(error, COUNTER_USAGE, "%s%s%s%s", what, about, fault.text ? ": " : "",
                    fault.text ? fault.text : "");
    return false;
}

struct tls_side {
    SSL *ssl;
    int fd;
    const char *name;
    ssize_t may_read; /* bytes in this call: OpenSSL would go on while a server floods it */
    bool is_at_end;   /* of what comes */
    bool is_up;       /* hands were shaken */
    bool has_failed;  /* OpenSSL must not be called any more */
    struct fault fault;
};

/* ---- the socket ------------------------------------------------------------------------------ */

/* Tells OpenSSL to come again, if it may. */
static int passed(BIO *bio, ssize_t n, void (*wait)(BIO *bio))
{
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        wait(bio);
    return (int)n;
}

static void wait_to_read(BIO *bio)
{
    BIO_set_retry_read(bio);
}

static void wait_to_write(BIO *bio)
{
    BIO_set_retry_write(bio);
}

static int socket_write(BIO *bio, const char *data, int len)
{
    const struct tls_side *side = BIO_get_data(bio);
    return passed(bio, send(side->fd, data, (size_t)len, MSG_NOSIGNAL), wait_to_write);
}

static int socket_read(BIO *bio, char *to, int room)
{
    struct tls_side *side = BIO_get_data(bio);
    ssize_t n = -1;
    errno = EAGAIN;
    if (side->may_read > 0)
        n = recv(side->fd, to, (size_t)room, 0);
    side->may_read -= n > 0 ? n : 0;
    side->is_at_end |= n == 0;
    return passed(bio, n, wait_to_read);
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    const struct tls_side *side = BIO_get_data(bio);
    (void)number, (void)pointer;
    if (command == BIO_CTRL_EOF)
        return side->is_at_end;
    return command == BIO_CTRL_FLUSH;
}

/* ---- what connections have in common --------------------------------------------------------- */

/* Instead of asking at the terminal. */
static int give_no_password(char *to, int room, int for_writing, void *data)
{
    (void)to, (void)room, (void)for_writing, (void)data;
    return -1;
}

static bool load_files(SSL_CTX *tls, const char *ca, const char *cert, const char *key,
                       struct counter_error *error)
{
    if (!key)
        key = cert;
    if (ca && SSL_CTX_load_verify_file(tls, ca) != 1)
        return explain(error, "tls_ca: can't use the certificates of ", ca);
    if (!ca && SSL_CTX_set_default_verify_paths(tls) != 1)
        return explain(error, "can't use this machine's certificates; name some with tls_ca", "");
    if (cert && SSL_CTX_use_certificate_chain_file(tls, cert) != 1)
        return explain(error, "tls_cert: can't use the certificate in ", cert);
    if (cert && SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        return explain(error, "tls_key: can't use the key in ", key);
    if (cert && SSL_CTX_check_private_key(tls) != 1)
        return explain(error, "tls_key: it does not belong to the certificate in ", cert);
    return true;
}

static bool set_up(struct tls *tls, struct counter_error *error)
{
    tls->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket of libcounter");
    tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls->method || !tls->context)
        return explain(error, "TLS can't be used", "");
    BIO_meth_set_write(tls->method, socket_write);
    BIO_meth_set_read(tls->method, socket_read);
    BIO_meth_set_ctrl(tls->method, socket_control);
    SSL_CTX *context = tls->context;
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        return explain(error, "TLS can't be used", "");
    /* A close without close_notify is an end too: the protocols mark the end of each message. */
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    /* The server's own certificate may be the one that is trusted. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_passwd_cb(context, give_no_password);
    return true;
}

struct tls *tls_make(const char *ca, const char *cert, const char *key, struct counter_error *error)
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        failure_no_memory(error);
        return NULL;
    }
    struct errors others;
    put_aside(&others);
    bool done = set_up(tls, error) && load_files(tls->context, ca, cert, key, error);
    if (!done) {
        tls_free(tls);
        tls = NULL;
    }
    put_back(&others);
    return tls;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    free(tls);
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* Sets the name that the server's certificate must have. */
static bool set_name(SSL *ssl, const char *name)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, unconst(name)) == 1;
}

struct tls_side *tls_begin(struct tls *tls, int fd, const char *name)
{
    struct tls_side *side = calloc(1, sizeof *side);
    if (!side)
        return NULL;
    side->fd = fd;
    side->name = name;
    struct errors others;
    put_aside(&others);
    side->ssl = SSL_new(tls->context);
    BIO *bio = side->ssl ? BIO_new(tls->method) : NULL;
    bool done = bio && set_name(side->ssl, name);
    if (bio) {
        BIO_set_data(bio, side);
        SSL_set_bio(side->ssl, bio, bio);
        SSL_set_connect_state(side->ssl);
    }
    put_back(&others);
    if (done)
        return side;
    tls_end(side);
    return NULL;
}

/* Before each call of OpenSSL that reads. */
static void enter(struct tls_side *side, struct errors *others)
{
    put_aside(others);
    side->may_read = CALL_MAX;
}

/* After it: what it waits for, if it is not done. */
static ssize_t leave(struct tls_side *side, const struct errors *others, bool done, size_t n)
{
    ssize_t result = TLS_IS_AT_ITS_END;
    if (done) {
        result = (ssize_t)n;
    } else if (SSL_want_read(side->ssl) && BIO_should_read(SSL_get_rbio(side->ssl))) {
        result = TLS_WAITS_TO_READ;
    } else if (SSL_want_write(side->ssl) && BIO_should_write(SSL_get_wbio(side->ssl))) {
        result = TLS_WAITS_TO_WRITE;
    } else {
        side->fault = take_fault();
        side->has_failed = true;
    }
    put_back(others);
    return result;
}

int tls_shake(struct tls_side *side)
{
    struct errors others;
    enter(side, &others);
    side->is_up = SSL_do_handshake(side->ssl) == 1;
    return (int)leave(side, &others, side->is_up, 1);
}

ssize_t tls_send(struct tls_side *side, const void *data, size_t len)
{
    size_t n = 0;
    struct errors others;
    enter(side, &others);
    bool done = SSL_write_ex(side->ssl, data, len, &n) == 1;
    return leave(side, &others, done, n);
}

ssize_t tls_receive(struct tls_side *side, void *to, size_t room)
{
    size_t n = 0;
    struct errors others;
    enter(side, &others);
    bool done = SSL_read_ex(side->ssl, to, room, &n) == 1;
    return leave(side, &others, done, n);
}

bool tls_has_more(const struct tls_side *side)
{
    return SSL_has_pending(side->ssl);
}

ssize_t tls_peek(struct tls_side *side)
{
    char byte;
    size_t n = 0;
    struct errors others;
    enter(side, &others);
    bool done = SSL_peek_ex(side->ssl, &byte, sizeof byte, &n) == 1;
    return leave(side, &others, done, n);
}

int tls_explain(struct tls_side *side, struct counter_error *error, int status)
{
    long verified = SSL_get_verify_result(side->ssl);
    const char *detail = side->fault.text;
    if (side->fault.is_memory)
        return failure_no_memory(error);
    if (side->is_up)
        return failure_set(error, status, "the server closed the connection%s%s",
                           detail ? ": " : "", detail ? detail : "");
    if (verified == X509_V_OK)
        return failure_set(error, status, "the TLS handshake failed: %s",
                           detail ? detail
                                  : "the server closed the connection (does it speak TLS there?)");
    return failure_set(error, status,
                       "its certificate is not accepted for %s: %s (tls_ca sets the trusted "
                       "certificates, tls_name the name in it)",
                       side->name, X509_verify_cert_error_string(verified));
}

void tls_goodbye(struct tls_side *side)
{
    if (side->has_failed || !side->is_up)
        return;
    struct errors others;
    put_aside(&others);
    (void)SSL_shutdown(side->ssl);
    put_back(&others);
}

void tls_end(struct tls_side *side)
{
    if (!side)
        return;
    SSL_free(side->ssl);
    free(side);
}
