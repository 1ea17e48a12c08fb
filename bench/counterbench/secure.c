/* secure.c - the TLS side of a link (secure.h), on OpenSSL. */
#include "bench/counterbench/secure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

/* OpenSSL's text for the last error. */
static const char *reason(void)
{
    unsigned long error = ERR_peek_last_error();
    const char *text = error ? ERR_reason_error_string(error) : NULL;
    ERR_clear_error();
    return text ? text : "the connection ended";
}

SSL_CTX *secure_settings(const char *ca, const char **why_r)
{
    SSL_CTX *settings = SSL_CTX_new(TLS_client_method());
    if (settings && SSL_CTX_set_min_proto_version(settings, TLS1_2_VERSION) == 1 &&
        (!ca || SSL_CTX_load_verify_file(settings, ca) == 1)) {
        SSL_CTX_set_options(settings, SSL_OP_IGNORE_UNEXPECTED_EOF);
        SSL_CTX_set_mode(settings,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_verify(settings, ca ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
        return settings;
    }
    *why_r = reason();
    SSL_CTX_free(settings);
    return NULL;
}

void secure_settings_free(SSL_CTX *settings)
{
    SSL_CTX_free(settings);
}

/* Requires a certificate for `host`, which may be an address. */
static bool set_host(SSL *tls, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (host[0] == '\0')
        return true;
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1;
    return SSL_set1_host(tls, host) == 1 && SSL_set_tlsext_host_name(tls, host) == 1;
}

SSL *secure_start(SSL_CTX *settings, int fd, const char *host)
{
    SSL *tls = SSL_new(settings);
    if (!tls || SSL_set_fd(tls, fd) != 1 || !set_host(tls, host)) {
        SSL_free(tls);
        return NULL;
    }
    SSL_set_connect_state(tls);
    return tls;
}

static enum secure_step step(SSL *tls, int result)
{
    switch (SSL_get_error(tls, result)) {
    case SSL_ERROR_WANT_READ:
        return SECURE_WANTS_IN;
    case SSL_ERROR_WANT_WRITE:
        return SECURE_WANTS_OUT;
    default:
        return SECURE_FAILED;
    }
}

enum secure_step secure_shake_hands(SSL *tls, const char **why_r)
{
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(tls);
    if (result == 1)
        return SECURE_DONE;
    /* The socket is not connected yet; that is no failure. */
    if (errno == ENOTCONN)
        return SECURE_WANTS_OUT;
    enum secure_step next = step(tls, result);
    if (next == SECURE_FAILED) {
        long verified = SSL_get_verify_result(tls);
        *why_r = verified == X509_V_OK ? reason() : X509_verify_cert_error_string(verified);
    }
    return next;
}

ssize_t secure_read(SSL *tls, void *to, size_t room)
{
    size_t got = 0;
    ERR_clear_error();
    int result = SSL_read_ex(tls, to, room, &got);
    if (result == 1)
        return (ssize_t)got;
    if (SSL_get_error(tls, result) == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = step(tls, result) == SECURE_FAILED ? EPROTO : EAGAIN;
    return -1;
}

size_t secure_write(SSL *tls, const void *data, size_t len)
{
    size_t sent = 0;
    ERR_clear_error();
    int result = SSL_write_ex(tls, data, len, &sent);
    if (result == 1)
        return sent;
    /* Bytes for a closed peer count as taken; the next read reports the end. */
    return step(tls, result) == SECURE_FAILED ? len : 0;
}

bool secure_has_more(const SSL *tls)
{
    return SSL_has_pending(tls) == 1;
}

void secure_end(SSL *tls, bool is_up)
{
    if (is_up)
        (void)SSL_shutdown(tls);
    SSL_free(tls);
    ERR_clear_error();
}
