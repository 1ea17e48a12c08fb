/*
 * tls_stream.c - TLS on a socket. Part of stream.h.
 *
 * The library reads and writes through our own BIO. The BIO uses write (stream.c), keeps the errno,
 * and limits the number of recv calls in one function call. Bytes that remain make the descriptor
 * ready again. It also follows the records, to know whether the last one is all here.
 *
 * A peer can send records without data: key updates, TLS 1.2's requests to renegotiate. The library
 * handles them inside one read, for as long as it has bytes. So it calls us for each one, and too
 * many in a row end the stream. A call that met some returns early, and a stream that has often had
 * some is slow: it receives little at once, and the worker reads few such streams in an iteration.
 *
 * The library's error queue belongs to the thread. It must be empty before a call that may fail
 * with a reason. So it is cleared after every failure, and after freeing, which may fail inside.
 */
#include "net/stream.h"

#include "net/tls_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Maximum number of recv calls in one function call. The library asks each time for the free part
 * of its 16 KiB buffer. */
#define READ_RECEIVES      2
#define HANDSHAKE_RECEIVES 4

/* Maximum number of records with data in one call: a record of one byte costs as much as some
 * dozens of bytes, or more. */
#define READ_RECORDS 64

/* Maximum number of records without data in a row, after the handshake and in it, and of those in
 * one call that also returns data. */
#define BLANKS_MAX           64
#define BLANKS_MAX_HANDSHAKE 256
#define BLANKS_OF_CALL       8

/* One record without data is paid for by BLANK_PRICE records with data. A stream is slow while it
 * owes the price of more than BLANKS_FREE, and then receives at most SLOW_ROOM bytes of new records
 * in a call. */
#define BLANK_PRICE 64
#define BLANKS_FREE 4
#define SLOW_ROOM   256u

#define RECORD_HEADER 5u

struct tls_stream {
    SSL *ssl;
    struct tls *tls;
    int fd;
    int error;         /* errno of a failed socket call; 0: none */
    ssize_t read_over; /* the result of all further reads; STREAM_AGAIN: reading continues */
    ssize_t broken;    /* the error that ended the stream; 0: none */
    const char *why;   /* its text; NULL: none */
    uint32_t have;     /* bytes of the last record that were received; 0: it is complete */
    uint16_t body;     /* its length after the header, which may not be all here */
    uint16_t blanks;   /* records, and further messages in one, since the last byte of data */
    uint16_t debt;     /* for records without data: records with data until it is paid */
    uint8_t receives;  /* recv calls left in this function call */
    bool in_first;     /* the next handshake message is the first in its record */
    bool flooded;      /* there were too many blanks */
    bool ended;        /* the end of the socket's input was read */
    bool shaken;       /* the handshake is done */
    bool writing;      /* a write is unfinished: the library expects its bytes first */
    bool said_goodbye;
};

/* ---- records --------------------------------------------------------------------------------- */

/* The bytes of the last record that are still to come, if its header is here. */
static size_t rest_of_record(const struct tls_stream *s)
{
    return s->have < RECORD_HEADER ? 0 : RECORD_HEADER + s->body - s->have;
}

/* Follows the records in received bytes. */
static void follow(struct tls_stream *s, const uint8_t *at, size_t len)
{
    while (len > 0) {
        size_t n = 1;
        if (s->have < RECORD_HEADER) {
            s->body = (uint16_t)(s->body << 8 | *at); /* the header's last two bytes */
        } else {
            n = rest_of_record(s);
            n = len < n ? len : n;
        }
        s->have += (uint32_t)n;
        at += n;
        len -= n;
        if (s->have >= RECORD_HEADER && s->have == RECORD_HEADER + s->body)
            s->have = 0;
    }
}

static bool is_slow(const struct tls_stream *s)
{
    return s->debt > BLANKS_FREE * BLANK_PRICE || s->blanks > BLANKS_FREE;
}

/* A record with data came, after `blanks` records without. */
static void pay(struct tls_stream *s, unsigned blanks)
{
    unsigned debt = s->debt + blanks * BLANK_PRICE - (s->debt > 0 && blanks == 0);
    s->debt = debt < BLANKS_MAX * BLANK_PRICE ? (uint16_t)debt : BLANKS_MAX * BLANK_PRICE;
}

/* The library calls this for each record and message. Ends the stream, as if the peer had closed
 * it, when too many records had no data: this is the only way to end its loop. */
static void on_message(int writing, int version, int type, const void *data, size_t len, SSL *ssl,
                       void *arg)
{
    struct tls_stream *s = arg;
    (void)version;
    (void)data;
    (void)len;
    if (writing || (type != SSL3_RT_HEADER && type != SSL3_RT_HANDSHAKE))
        return;
    bool counted = type == SSL3_RT_HANDSHAKE && s->in_first; /* with its record */
    s->in_first = type == SSL3_RT_HEADER;
    if (counted)
        return;
    s->blanks++; /* the last one may turn out to have data */
    if (s->blanks > (s->shaken ? BLANKS_MAX : BLANKS_MAX_HANDSHAKE) + 1) {
        s->flooded = true;
        SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
    }
}

/* ---- the library's access to the socket ------------------------------------------------------ */

static int receive(BIO *bio, char *to, size_t room, size_t *got_r)
{
    struct tls_stream *s = BIO_get_data(bio);
    ssize_t n;
    BIO_clear_retry_flags(bio);
    if (s->receives == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    s->receives--;
    if (unlikely(is_slow(s))) {
        size_t most = rest_of_record(s) + SLOW_ROOM;
        room = room < most ? room : most;
        s->receives = 0;
    }
    do {
        n = recv(s->fd, to, room, 0);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        follow(s, (const uint8_t *)to, (size_t)n);
        *got_r = (size_t)n;
        return 1;
    }
    if (n == 0)
        s->ended = true;
    else if (stream_failure(errno) == STREAM_AGAIN)
        BIO_set_retry_read(bio);
    else
        s->error = errno;
    return 0;
}

static int transmit(BIO *bio, const char *from, size_t len, size_t *sent_r)
{
    struct tls_stream *s = BIO_get_data(bio);
    ssize_t n;
    BIO_clear_retry_flags(bio);
    do {
        n = write(s->fd, from, len);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        *sent_r = (size_t)n;
        return 1;
    }
    if (n == 0 || stream_failure(errno) == STREAM_AGAIN)
        BIO_set_retry_write(bio);
    else
        s->error = errno;
    return 0;
}

static long control(BIO *bio, int what, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    const struct tls_stream *s = BIO_get_data(bio);
    switch (what) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return s->ended;
    default:
        return 0;
    }
}

/* Returns the process' BIO method, which the first stream makes; NULL when there is no memory. */
static BIO_METHOD *socket_method(void)
{
    static _Atomic(BIO_METHOD *) made;
    BIO_METHOD *method = atomic_load(&made), *other = NULL;
    if (likely(method))
        return method;
    method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "counterd socket");
    if (method && BIO_meth_set_read_ex(method, receive) == 1 &&
        BIO_meth_set_write_ex(method, transmit) == 1 && BIO_meth_set_ctrl(method, control) == 1 &&
        atomic_compare_exchange_strong(&made, &other, method))
        return method;
    BIO_meth_free(method);
    return other;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Also a call that has done what it shall may leave an error, of memory that it could do without.
 * The thread's next call would report it of another stream. Clearing is slow. */
static void forget_errors(void)
{
    if (unlikely(ERR_peek_error() != 0))
        ERR_clear_error();
}

/* Makes a stream that is neither server nor client yet. */
static struct tls_stream *make(struct tls *tls, int fd)
{
    BIO_METHOD *method = socket_method();
    struct tls_stream *s = calloc(1, sizeof(*s));
    SSL *ssl = s && method ? SSL_new(tls->context) : NULL;
    BIO *bio = ssl ? BIO_new(method) : NULL;
    if (!bio) {
        SSL_free(ssl);
        free(s);
        ERR_clear_error();
        return NULL;
    }
    *s =
        (struct tls_stream){.ssl = ssl, .tls = tls_share(tls), .fd = fd, .read_over = STREAM_AGAIN};
    BIO_set_data(bio, s);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_msg_callback(ssl, on_message);
    SSL_set_msg_callback_arg(ssl, s);
    forget_errors();
    return s;
}

bool stream_secure(struct stream *stream, struct tls *tls)
{
    CHECK(!tls->client);
    stream->tls = make(tls, stream->fd);
    if (stream->tls)
        SSL_set_accept_state(stream->tls->ssl);
    return stream->tls != NULL;
}

/* Sets the host that the certificate must match, and requests its certificate (SNI). */
static bool call(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    size_t len = inet_pton(AF_INET, host, address) == 1    ? sizeof(struct in_addr)
                 : inet_pton(AF_INET6, host, address) == 1 ? sizeof(struct in6_addr)
                                                           : 0;
    if (len) /* an address is not allowed in SNI (RFC 6066) */
        return X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), address, len) == 1;
    char name[256]; /* without a final dot */
    len = strlen(host);
    snprintf(name, sizeof(name), "%.*s", (int)(len && host[len - 1] == '.' ? len - 1 : len), host);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;
}

bool stream_secure_client(struct stream *stream, struct tls *tls, const char *host)
{
    CHECK(tls->client);
    struct tls_stream *s = stream->tls = make(tls, stream->fd);
    if (!s)
        return false;
    SSL_set_connect_state(s->ssl);
    if (!call(s->ssl, host))
        tls_stream_free(&stream->tls);
    ERR_clear_error();
    return stream->tls != NULL;
}

/* Sends nothing after an unfinished write, because the library would mix up the bytes, or after a
 * failure, because nobody can read it. */
void tls_stream_finish(struct tls_stream *s)
{
    if (!s->shaken || s->broken || s->writing || s->said_goodbye)
        return;
    s->said_goodbye = true;
    (void)SSL_shutdown(s->ssl);
    ERR_clear_error();
}

void tls_stream_free(struct tls_stream **s)
{
    struct tls_stream *t = *s;
    if (!t)
        return;
    *s = NULL;
    tls_stream_finish(t);
    SSL_free(t->ssl);
    tls_free(&t->tls);
    ERR_clear_error();
    free(t);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* What servers say of their clients' certificates. */
static const char *words_of_server(unsigned long code)
{
    switch (ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "the server wants a certificate of its client";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "the server does not know the CA of its client's certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "the server says that its client's certificate is expired";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        return "the server refuses its client's certificate";
    default:
        return NULL;
    }
}

/* The text for a failure. */
static const char *words_for(const struct tls_stream *s)
{
    unsigned long code = ERR_peek_error();
    long result = SSL_get_verify_result(s->ssl);
    if (s->flooded)
        return "too many records";
    if (s->error)
        return strerrordesc_np(s->error);
    if (s->ended)
        return SSL_is_server(s->ssl) ? "the client closed the connection"
                                     : "the server closed the connection";
    if (ERR_GET_LIB(code) == ERR_LIB_SSL &&
        ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && result != X509_V_OK)
        return X509_verify_cert_error_string(result);
    const char *words = SSL_is_server(s->ssl) ? NULL : words_of_server(code);
    if (!words)
        words = ERR_reason_error_string(code);
    return words ? words : "unknown error";
}

/* Converts the library's result `ret` to a stream result. `reading`: the call was a read. */
static ssize_t failure(struct tls_stream *s, int ret, bool reading)
{
    ssize_t answer = STREAM_ERROR;
    if (s->flooded) {
        ERR_clear_error();
        return s->broken = STREAM_FLOODED;
    }
    switch (SSL_get_error(s->ssl, ret)) {
    case SSL_ERROR_WANT_READ:
        return reading ? STREAM_AGAIN : STREAM_CROSSED;
    case SSL_ERROR_WANT_WRITE:
        return reading ? STREAM_CROSSED : STREAM_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        answer = reading ? STREAM_END : STREAM_RESET;
        break;
    case SSL_ERROR_SYSCALL:
        if (s->error)
            answer = stream_failure(s->error);
        else if (s->ended)
            answer = reading ? STREAM_END : STREAM_RESET;
        break;
    default:
        s->why = words_for(s);
        break;
    }
    ERR_clear_error();
    if (answer == STREAM_AGAIN)
        answer = STREAM_ERROR;
    if (answer != STREAM_END)
        s->broken = answer;
    return answer;
}

ssize_t stream_handshake(struct stream *stream, const char **why_r)
{
    struct tls_stream *s = stream->tls;
    s->receives = HANDSHAKE_RECEIVES;
    int ret = SSL_do_handshake(s->ssl);
    if (ret == 1) {
        s->shaken = true;
        s->blanks = 0;
        forget_errors();
        return 1;
    }
    const char *why = words_for(s); /* before failure() clears the queue */
    ssize_t n = failure(s, ret, true);
    if (n != STREAM_AGAIN && n != STREAM_CROSSED) {
        if (!s->broken)
            s->broken = STREAM_RESET;
        *why_r = why;
    }
    return n;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

ssize_t tls_stream_read(struct tls_stream *s, void *to, size_t room)
{
    if (s->read_over != STREAM_AGAIN)
        return s->read_over;
    if (s->broken)
        return s->shaken ? s->broken : stream_read_plain(s->fd, to, room);
    size_t total = 0;
    unsigned blanks = 0; /* whose data has come since */
    unsigned records = 0;
    s->receives = READ_RECEIVES;
    do {
        size_t n = 0;
        int ret = SSL_read_ex(s->ssl, (char *)to + total, room - total, &n);
        if (ret != 1) {
            s->flooded |= s->blanks > BLANKS_MAX + (s->have >= RECORD_HEADER);
            ssize_t why = failure(s, ret, true);
            if (why != STREAM_AGAIN && why != STREAM_CROSSED)
                s->read_over = why; /* returned by the next read, if this one has bytes */
            return total ? (ssize_t)total : why;
        }
        total += n;
        if (s->blanks > 0) { /* a new record, and maybe some before it */
            pay(s, s->blanks - 1u);
            blanks += s->blanks - 1u;
            s->blanks = 0;
        }
    } while (total < room && blanks < BLANKS_OF_CALL && ++records < READ_RECORDS &&
             SSL_has_pending(s->ssl));
    forget_errors();
    return (ssize_t)total;
}

const char *stream_why(const struct stream *stream)
{
    return stream->tls ? stream->tls->why : NULL;
}

bool stream_has_more(const struct stream *stream)
{
    const struct tls_stream *s = stream->tls;
    return s && (s->read_over != STREAM_AGAIN || (!s->broken && SSL_has_pending(s->ssl)));
}

bool stream_in_record(const struct stream *stream)
{
    return stream->tls && stream->tls->have > 0 && !stream->tls->broken;
}

bool stream_is_slow(const struct stream *stream)
{
    return stream->tls && is_slow(stream->tls);
}

ssize_t tls_stream_write(struct tls_stream *s, const struct iovec *pieces, int count)
{
    if (s->broken)
        return s->broken;
    size_t total = 0;
    s->receives = READ_RECEIVES;
    for (int i = 0; i < count; i++) {
        for (size_t done = 0; done < pieces[i].iov_len;) {
            size_t n = 0;
            int ret = SSL_write_ex(s->ssl, (const char *)pieces[i].iov_base + done,
                                   pieces[i].iov_len - done, &n);
            s->writing = ret != 1;
            if (ret != 1) {
                ssize_t why = failure(s, ret, false);
                return total ? (ssize_t)total : why;
            }
            done += n;
            total += n;
        }
    }
    forget_errors();
    return (ssize_t)total;
}
