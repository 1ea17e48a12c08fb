/*
 * tls.c - the TLS side of a connection (tls.h), on OpenSSL.
 */
#include "cli/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* Writes the reason: what failed, and OpenSSL's error. */
static void explain(struct link *link, const char *what, const char *about)
{
    unsigned long error = ERR_peek_last_error();
    const char *detail = error ? ERR_reason_error_string(error) : NULL;
    snprintf(link->reason, sizeof link->reason, "%s%s%s%s", what, about, detail ? ": " : "",
             detail ? detail : "");
    ERR_clear_error();
}

/* Loads the trusted certificates, and our own certificate and key. */
static bool load_files(struct link *link, const struct options *options)
{
    SSL_CTX *tls = link->tls;
    if (options->ca) {
        if (SSL_CTX_load_verify_file(tls, options->ca) != 1) {
            explain(link, "--ca: can't use the certificates of ", options->ca);
            return false;
        }
    } else if (!options->insecure && SSL_CTX_set_default_verify_paths(tls) != 1) {
        explain(link, "can't use this machine's certificates; name some with --ca", "");
        return false;
    }
    if (!options->cert)
        return true;
    const char *key = options->key ? options->key : options->cert;
    if (SSL_CTX_use_certificate_chain_file(tls, options->cert) != 1) {
        explain(link, "--cert: can't use the certificate in ", options->cert);
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1) {
        explain(link, "--key: can't use the key in ", key);
        return false;
    }
    if (SSL_CTX_check_private_key(tls) != 1) {
        explain(link, "--key: it does not belong to the certificate in ", options->cert);
        return false;
    }
    return true;
}

/* Sets the name that the server's certificate must have. */
static bool set_name(struct link *link, const char *name)
{
    unsigned char address[16];
    bool is_ip = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    bool done = is_ip ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(link->ssl), name) == 1
                      : SSL_set1_host(link->ssl, name) == 1 &&
                            SSL_set_tlsext_host_name(link->ssl, name) == 1;
    if (!done)
        explain(link, "--tls-name: no certificate can be for ", name);
    return done;
}

bool tls_start(struct link *link, const struct options *options, const char *host)
{
    link->tls = SSL_CTX_new(TLS_client_method());
    if (!link->tls || SSL_CTX_set_min_proto_version(link->tls, TLS1_2_VERSION) != 1) {
        explain(link, "TLS can't be used", "");
        return false;
    }
    /* A close without close_notify is an end too: both protocols mark the end of each message. */
    SSL_CTX_set_options(link->tls, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(link->tls,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(link->tls, options->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (!load_files(link, options))
        return false;
    link->ssl = SSL_new(link->tls);
    if (!link->ssl || SSL_set_fd(link->ssl, link->fd) != 1) {
        explain(link, "TLS can't be used", "");
        return false;
    }
    SSL_set_connect_state(link->ssl);
    return set_name(link, options->tls_name ? options->tls_name : host);
}

short tls_wants(struct link *link, int result)
{
    switch (SSL_get_error(link->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return POLLIN;
    case SSL_ERROR_WANT_WRITE:
        return POLLOUT;
    default:
        return 0;
    }
}

void tls_explain_handshake(struct link *link)
{
    long verified = SSL_get_verify_result(link->ssl);
    if (verified == X509_V_OK) {
        unsigned long error = ERR_peek_last_error();
        explain(link, "the TLS handshake failed",
                error ? "" : ": the server closed the connection (does it speak TLS there?)");
        return;
    }
    const char *host = SSL_get0_peername(link->ssl);
    snprintf(link->reason, sizeof link->reason,
             "its certificate is not accepted%s%s: %s (--ca sets the trusted certificates, "
             "--tls-name the name in it)",
             host ? " for " : "", host ? host : "", X509_verify_cert_error_string(verified));
    ERR_clear_error();
}

void tls_end(struct link *link)
{
    if (link->ssl && SSL_is_init_finished(link->ssl) &&
        !(SSL_get_shutdown(link->ssl) & SSL_SENT_SHUTDOWN))
        (void)SSL_shutdown(link->ssl);
    SSL_free(link->ssl);
    SSL_CTX_free(link->tls);
    link->ssl = NULL;
    link->tls = NULL;
    ERR_clear_error();
}
