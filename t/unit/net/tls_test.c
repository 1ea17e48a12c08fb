/* tls_test.c - TLS over real sockets: handshakes, records, certificates, and how connections end.
 */
#include "net/stream.h"
#include "net/tls.h"

#include "t/unit/net/secure.h"

#include <inttypes.h>
#include <pthread.h>

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
static struct pki pki;
static struct toy_server s;

/* Starts a server with a certificate. */
static void serve(unsigned workers, struct server_limits limits)
{
    pki_make(&pki);
    secure_start(&s, workers, limits, pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
}

static void stop(void)
{
    toy_stop(&s);
    pki_remove(&pki);
}

/* ---- loading ------------------------------------------------------------------------------- */

static void expect_reason(const struct tls_config *config, const char *first, const char *second)
{
    char reason[TLS_REASON_SIZE] = "";
    struct tls *tls = tls_new(config, reason);
    ck_assert_msg(tls == NULL, "taken; expected %s", second);
    ck_assert_msg(strstr(reason, first) && strstr(reason, second), "%s", reason);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

/* daemon-tls.scn has more of them. */
TEST(reasons_name_the_file_and_what_is_wrong)
{
    pki_make(&pki);
    pki_write(&pki, "garbage",
              "-----BEGIN CERTIFICATE-----\nnonsense!\n-----END CERTIFICATE-----\n");
    pki_write(&pki, "badkey", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    const char *cert = pki_path(&pki, "server.crt"), *key = pki_path(&pki, "server.key");
    const char *garbage = pki_path(&pki, "garbage"), *badkey = pki_path(&pki, "badkey");
    const char *missing = pki_path(&pki, "missing"), *locked = pki_path(&pki, "locked.key");

    expect_reason(&(struct tls_config){.key = key}, "no certificate", "");
    expect_reason(&(struct tls_config){.cert = pki.folder, .key = key}, pki.folder, "directory");
    expect_reason(&(struct tls_config){.cert = garbage, .key = key}, garbage, "certificate");
    expect_reason(&(struct tls_config){.cert = cert, .key = missing}, missing, "No such file");
    expect_reason(&(struct tls_config){.cert = cert, .key = badkey}, badkey, "key");
    expect_reason(&(struct tls_config){.cert = cert, .key = locked}, locked, "encrypted");
    expect_reason(&(struct tls_config){.cert = cert, .key = key, .ca = missing}, missing,
                  "No such file");
    expect_reason(&(struct tls_config){.cert = cert, .key = key, .ca = garbage}, garbage, "CA");

    char reason[TLS_REASON_SIZE] = "";
    struct tls *tls = tls_new(&(struct tls_config){.cert = pki_path(&pki, "both.pem")}, reason);
    ck_assert_msg(tls != NULL, "%s", reason); /* the file has the key too */
    tls_free(&tls);
    ck_assert(tls == NULL);
    tls_free(&tls);
    tls = pki_tls(&pki, "expired", TLS_VERIFY_OFF, TLS_VERSION_1_2); /* accepted with a warning */
    tls_free(&tls);
    pki_remove(&pki);
}

TEST(clients_reasons_name_the_file_too)
{
    char reason[TLS_REASON_SIZE] = "";
    pki_make(&pki);
    pki_write(&pki, "empty", "");
    const char *ca = pki_path(&pki, "ca.crt"), *cert = pki_path(&pki, "client.crt");
    const char *missing = pki_path(&pki, "missing"), *empty = pki_path(&pki, "empty");
    const char *second = pki_path(&pki, "second.key");
    enum tls_file wrong;
    const struct {
        struct tls_client_config config;
        enum tls_file file;
        const char *where, *what;
    } rows[] = {
        {{.ca = missing}, TLS_FILE_CA, missing, "No such file"},
        {{.ca = empty}, TLS_FILE_CA, empty, "no certificate in PEM"},
        {{.ca = ca, .cert = missing}, TLS_FILE_CERT, missing, "No such file"},
        {{.ca = ca, .cert = cert}, TLS_FILE_CERT, cert, "no private key in PEM"},
        {{.ca = ca, .cert = cert, .key = second}, TLS_FILE_KEY, second, "does not belong to"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        ck_assert(tls_client_new(&rows[i].config, &wrong, reason) == NULL);
        ck_assert_int_eq(wrong, rows[i].file);
        ck_assert_msg(strstr(reason, rows[i].where) && strstr(reason, rows[i].what), "%s", reason);
        ck_assert_uint_eq(ERR_peek_error(), 0);
    }
    struct tls *tls = tls_client_new(
        &(struct tls_client_config){.cert = pki_path(&pki, "both.pem")}, &wrong, reason);
    ck_assert_msg(tls != NULL, "%s", reason); /* the system's CA certificates, if there are any */
    tls_free(&tls);
    pki_remove(&pki);
}

/* ---- handshakes ---------------------------------------------------------------------------- */

struct seen {
    uint64_t tag;
    struct conn_info info;
    bool crossed;
};

/* Sends the output of the client's library, `step` bytes at a time. */
static void drip(struct secure_client *c, BIO *out, size_t step)
{
    char bytes[4096];
    int n;
    while ((n = BIO_read(out, bytes, (int)step)) > 0) {
        send_bytes(c->fd, bytes, (size_t)n);
        wait_taken(c->fd);
    }
}

/* Connects the client to buffers in memory, so that the test moves its bytes. */
static BIO *detach(struct secure_client *c, BIO **in_r)
{
    BIO *out = BIO_new(BIO_s_mem());
    *in_r = BIO_new(BIO_s_mem());
    ck_assert(out && *in_r);
    BIO_set_mem_eof_return(*in_r, -1);
    BIO_set_mem_eof_return(out, -1);
    SSL_set_bio(c->ssl, *in_r, out);
    return out;
}

static void shake_dripping(struct secure_client *c, BIO *in, BIO *out, size_t step)
{
    int ret;
    while ((ret = SSL_do_handshake(c->ssl)) != 1) {
        ck_assert_int_eq(SSL_get_error(c->ssl, ret), SSL_ERROR_WANT_READ);
        drip(c, out, step);
        char bytes[4096];
        ssize_t n = receive(c->fd, bytes, sizeof(bytes));
        ck_assert_int_gt(n, 0);
        ck_assert_int_eq(BIO_write(in, bytes, (int)n), (int)n);
    }
    drip(c, out, step);
}

TEST(handshake_and_requests_byte_by_byte)
{
    serve(1, toy_limits());
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        int fd;
        ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &fd)));
        struct secure_client c = client_new(fd, versions[i]);
        BIO *in, *out = detach(&c, &in);
        ck_assert_uint_eq(atomic_load(&s.toy.opened), i);
        shake_dripping(&c, in, out, 1);
        client_send(&c, "ebyte by byte\n");
        drip(&c, out, 1);
        char got[64];
        size_t len = 0;
        while (SSL_read_ex(c.ssl, got, sizeof(got), &len) != 1) {
            char bytes[4096];
            ssize_t n = receive(fd, bytes, sizeof(bytes));
            ck_assert_int_gt(n, 0);
            ck_assert_int_eq(BIO_write(in, bytes, (int)n), (int)n);
        }
        ck_assert_uint_eq(len, 13);
        ck_assert_mem_eq(got, "byte by byte\n", 13);
        client_free(&c);
    }
    stop();
}

TEST(handshake_that_takes_too_long_is_closed)
{
    struct server_limits limits = toy_limits();
    int silent, half;
    int64_t began_ns = clock_mono_ns();
    limits.handshake_timeout_ns = 100 * NS_PER_MS;
    serve(1, limits);
    ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &silent)));
    ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &half)));
    send_bytes(half, "\x16\x03\x01\x01\x00\x01", 6); /* the start of a valid ClientHello */
    expect_end(silent);
    expect_end(half);
    ck_assert_int_ge(clock_mono_ns() - began_ns, limits.handshake_timeout_ns);
    WAIT_UNTIL(toy_closed(&s, CLOSE_HANDSHAKE) == 2);
    close(silent);
    close(half);
    stop();
}

TEST(silent_handshake_gives_way_to_another)
{
    struct server_limits limits = toy_limits();
    int silent, fd;
    limits.handshakes = 1;
    serve(2, limits);
    ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &silent)));
    ck_assert(toy_give_secure(&s, 1, local_pair(SOCK_STREAM, &fd)));
    expect_end(silent);
    WAIT_UNTIL(toy_closed(&s, CLOSE_HANDSHAKE) == 1);
    struct secure_client c = client_new(fd, TLS1_3_VERSION);
    ck_assert_int_eq(SSL_do_handshake(c.ssl), 1);
    client_send(&c, "ein\n");
    client_expect(&c, "in\n");
    client_free(&c);
    close(silent);
    stop();
}

/* Clients whose greetings have all come, and how many of them have an answer. */
struct greetings {
    struct mail letter; /* one in each iteration */
    struct secure_client clients[16];
    int theirs[16];
    unsigned answered, most;
    atomic_bool over;
};

static void count_answers(struct mail *mail, void *reader)
{
    struct greetings *g = container_of(mail, struct greetings, letter);
    unsigned answered = 0;
    for (size_t i = 0; i < ARRAY_SIZE(g->clients); i++) {
        char byte;
        answered += recv(g->clients[i].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    }
    unsigned more = answered - g->answered;
    g->most = more > g->most ? more : g->most;
    g->answered = answered;
    if (answered == ARRAY_SIZE(g->clients))
        atomic_store(&g->over, true);
    else
        worker_post(reader, mail);
}

static void open_greetings(struct worker *worker, void *arg)
{
    struct greetings *g = arg;
    for (size_t i = 0; i < ARRAY_SIZE(g->clients); i++) {
        struct toy_opening opening = {
            .protocol = &s.protocol, .fd = g->theirs[i], .transport = TRANSPORT_TLS};
        toy_open_there(worker, &opening);
        ck_assert(opening.ok);
    }
    g->letter.deliver = count_answers;
    worker_post(worker, &g->letter);
}

TEST(handshakes_go_on_one_in_an_iteration)
{
    serve(1, toy_limits());
    static struct greetings g;
    for (size_t i = 0; i < ARRAY_SIZE(g.clients); i++) {
        int fd;
        g.theirs[i] = local_pair(SOCK_STREAM, &fd);
        g.clients[i] = client_new(fd, TLS1_3_VERSION);
        set_nonblocking(fd);
        ck_assert_int_eq(SSL_do_handshake(g.clients[i].ssl), -1);
    }
    in_worker(&s, 0, open_greetings, &g);
    WAIT_UNTIL(atomic_load(&g.over));
    ck_assert_uint_le(g.most, 2); /* of the iteration before the letter, and of the letter's */
    for (size_t i = 0; i < ARRAY_SIZE(g.clients) / 2; i++)
        WAIT_UNTIL(SSL_do_handshake(g.clients[i].ssl) == 1);
    for (size_t i = 0; i < ARRAY_SIZE(g.clients); i++)
        client_free(&g.clients[i]);
    stop();
}

/* A client of one version, with a certificate or without. */
static void try_client(enum tls_version min, int version, enum tls_verify verify, const char *name,
                       bool good)
{
    int fd;
    secure_start(&s, 1, toy_limits(), pki_tls(&pki, "server", verify, min));
    ck_assert(toy_give_secure(&s, 0, tcp_pair(&fd)));
    struct secure_client c = client_new(fd, version);
    if (version < TLS1_2_VERSION)
        ck_assert(SSL_set_cipher_list(c.ssl, "ALL:@SECLEVEL=0") == 1);
    if (name) {
        char path[160];
        snprintf(path, sizeof(path), "%s/%s.crt", pki.folder, name);
        ck_assert(SSL_use_certificate_file(c.ssl, path, SSL_FILETYPE_PEM) == 1);
        snprintf(path, sizeof(path), "%s/%s.key", pki.folder, name);
        ck_assert(SSL_use_PrivateKey_file(c.ssl, path, SSL_FILETYPE_PEM) == 1);
    }
    /* In TLS 1.3 the client may have sent a request already; it can still read the alert. */
    bool done = SSL_do_handshake(c.ssl) == 1;
    ck_assert(done || !good);
    if (done)
        client_send(&c, "ein\n");
    if (good) {
        client_expect(&c, "in\n");
    } else {
        client_expect_refusal(&c);
        unsigned long code = ERR_peek_last_error();
        ck_assert_msg(verify == TLS_VERIFY_OFF || ERR_GET_REASON(code) > SSL_AD_REASON_OFFSET,
                      "no alert but %s", ERR_reason_error_string(code));
        expect_end(c.fd); /* no reset, because that could destroy the alert */
    }
    client_free(&c);
    WAIT_UNTIL(atomic_load(&s.protocol.connections) == 0);
    ck_assert_uint_eq(toy_closed(&s, CLOSE_HANDSHAKE), !good);
    ck_assert_uint_eq(atomic_load(&s.toy.opened), good);
    toy_stop(&s);
}

TEST(old_versions_and_bad_certificates_are_refused)
{
    static const struct {
        enum tls_version min;
        int version;
        bool good;
    } by_version[] = {
        {TLS_VERSION_1_2, TLS1_VERSION, false},
        {TLS_VERSION_1_2, TLS1_1_VERSION, false},
        {TLS_VERSION_1_3, TLS1_2_VERSION, false},
        {TLS_VERSION_1_3, TLS1_3_VERSION, true},
    };
    static const struct {
        enum tls_verify verify;
        const char *name;
        bool good;
    } by_certificate[] = {
        {TLS_VERIFY_OFF, NULL, true},           {TLS_VERIFY_OFF, "stranger", true},
        {TLS_VERIFY_OPTIONAL, NULL, true},      {TLS_VERIFY_OPTIONAL, "client", true},
        {TLS_VERIFY_REQUIRE, NULL, false},      {TLS_VERIFY_OPTIONAL, "stranger", false},
        {TLS_VERIFY_REQUIRE, "client", true},   {TLS_VERIFY_REQUIRE, "stranger", false},
        {TLS_VERIFY_REQUIRE, "expired", false},
    };
    pki_make(&pki);
    for (size_t i = 0; i < ARRAY_SIZE(by_version); i++)
        try_client(by_version[i].min, by_version[i].version, TLS_VERIFY_OFF, NULL,
                   by_version[i].good);
    for (size_t i = 0; i < ARRAY_SIZE(by_certificate) * 2; i++)
        try_client(TLS_VERSION_1_2, versions[i % 2], by_certificate[i / 2].verify,
                   by_certificate[i / 2].name, by_certificate[i / 2].good);
    pki_remove(&pki);
}

TEST(renegotiation_is_refused)
{
    serve(1, toy_limits());
    struct secure_client c = client_connect(&s, 0, TLS1_2_VERSION);
    struct secure_client other = client_connect(&s, 0, TLS1_2_VERSION);
    client_send(&c, "ebefore\n");
    client_expect(&c, "before\n");
    ck_assert_int_eq(SSL_renegotiate(c.ssl), 1);
    ck_assert_int_le(SSL_do_handshake(c.ssl), 0);
    ck_assert_int_eq(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    client_free(&c);
    WAIT_UNTIL(atomic_load(&s.toy.ended) == 1);
    client_send(&other, "efine\n");
    client_expect(&other, "fine\n");
    client_free(&other);
    stop();
}

/* In TLS 1.3 the ticket comes after the handshake, but no later than the first answer. */
TEST(sessions_are_resumed_by_ticket_and_not_with_another_context)
{
    pki_make(&pki);
    secure_start(&s, 2, toy_limits(),
                 pki_tls(&pki, "server", TLS_VERIFY_OPTIONAL, TLS_VERSION_1_2));
    for (unsigned i = 0; i < 2 * ARRAY_SIZE(versions); i++) {
        struct secure_client c = client_connect(&s, 0, versions[i / 2]);
        client_send(&c, "efirst\n");
        client_expect(&c, "first\n");
        SSL_SESSION *session = SSL_get1_session(c.ssl);
        ck_assert(session != NULL && SSL_SESSION_has_ticket(session));
        SSL_shutdown(c.ssl);
        client_free(&c);
        if (i % 2)
            secure_rules(&s, toy_limits(),
                         pki_tls(&pki, "second", TLS_VERIFY_OPTIONAL, TLS_VERSION_1_2));
        int fd;
        ck_assert(toy_give_secure(&s, 1, local_pair(SOCK_STREAM, &fd)));
        c = client_new(fd, versions[i / 2]);
        ck_assert(SSL_set_session(c.ssl, session) == 1);
        ck_assert_int_eq(SSL_do_handshake(c.ssl), 1);
        ck_assert_int_eq(SSL_session_reused(c.ssl), i % 2 == 0);
        client_send(&c, "esecond\n");
        client_expect(&c, "second\n");
        SSL_SESSION_free(session);
        client_free(&c);
    }
    stop();
}

/* ---- records ------------------------------------------------------------------------------- */

/* Sends `len` bytes of the output of the client's library. */
static void send_part(const struct secure_client *c, BIO *out, size_t len)
{
    char bytes[4096];
    ck_assert_uint_le(len, sizeof(bytes));
    ck_assert_int_eq(BIO_read(out, bytes, (int)len), (int)len);
    send_bytes(c->fd, bytes, len);
}

/* Reads one answer through the buffer in memory. */
static void expect_through(struct secure_client *c, BIO *in, const char *text)
{
    char got[256];
    size_t len = 0;
    while (SSL_read_ex(c->ssl, got, sizeof(got), &len) != 1) {
        char bytes[4096];
        ssize_t n = receive(c->fd, bytes, sizeof(bytes));
        ck_assert_int_gt(n, 0);
        ck_assert_int_eq(BIO_write(in, bytes, (int)n), (int)n);
    }
    ck_assert_uint_eq(len, strlen(text));
    ck_assert_mem_eq(got, text, len);
}

TEST(record_that_is_not_all_here_keeps_none_before_it_waiting)
{
    serve(1, toy_limits());
    for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
        int fd;
        ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &fd)));
        struct secure_client c = client_new(fd, versions[v]);
        BIO *in, *out = detach(&c, &in);
        shake_dripping(&c, in, out, 4096);
        for (size_t cut = 1; cut < 24; cut += 4) { /* in the record's header, and behind it */
            client_send(&c, "efirst\n");
            size_t first = BIO_ctrl_pending(out);
            client_send(&c, "esecond\n");
            send_part(&c, out, first + cut); /* in one packet */
            expect_through(&c, in, "first\n");
            send_part(&c, out, BIO_ctrl_pending(out));
            expect_through(&c, in, "second\n");
        }
        client_free(&c);
    }
    stop();
}

static void send_updates(struct secure_client *c, int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert(SSL_key_update(c->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
        ck_assert_int_eq(SSL_do_handshake(c->ssl), 1);
    }
}

static void look_at_deadline(struct worker *worker, void *arg)
{
    const struct conn *conn = worker_conn_at(worker, 0);
    *(bool *)arg = conn && deadline_is_set(&conn->read_deadline);
}

/* The only connection has the time of a request. */
static bool is_timed(void)
{
    bool timed;
    worker_ask(s.server.workers[0], look_at_deadline, &timed);
    return timed;
}

static uint64_t unfinished(void)
{
    return atomic_load(&s.server.unfinished);
}

TEST(part_of_a_record_is_claimed_and_has_the_time_of_a_request)
{
    serve(1, toy_limits());
    int fd;
    ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &fd)));
    struct secure_client c = client_new(fd, TLS1_3_VERSION);
    BIO *in, *out = detach(&c, &in);
    shake_dripping(&c, in, out, 4096);
    ck_assert(!is_timed());
    client_send(&c, "ewhole\n");
    send_part(&c, out, 6);
    WAIT_UNTIL(unfinished() == STREAM_RECORD_ROOM);
    ck_assert(is_timed());
    send_part(&c, out, BIO_ctrl_pending(out));
    expect_through(&c, in, "whole\n");
    WAIT_UNTIL(unfinished() == 0 && !is_timed());
    send_updates(&c, 1); /* a record without data */
    send_part(&c, out, 6);
    WAIT_UNTIL(unfinished() > 0 && is_timed());
    send_part(&c, out, BIO_ctrl_pending(out));
    WAIT_UNTIL(unfinished() == 0 && !is_timed());
    client_send(&c, "d3\n"); /* its answer comes in pieces */
    size_t first = BIO_ctrl_pending(out);
    client_send(&c, "ehalf\n");
    send_part(&c, out, first + 6);
    expect_through(&c, in, "0\n1\n2\nend\n");
    WAIT_UNTIL(is_timed());
    ck_assert_uint_gt(unfinished(), 0);
    client_free(&c);
    WAIT_UNTIL(unfinished() == 0);
    stop();
}

/* Bytes that the library has already read do not make the descriptor ready. */
TEST(bytes_that_the_library_holds_are_read_without_waiting)
{
    serve(1, toy_limits());
    struct secure_client c = client_connect(&s, 0, TLS1_3_VERSION);
    for (int round = 0; round < 20; round++) {
        /* An incomplete request leaves a buffer of 256 bytes, much smaller than the record. */
        client_send(&c, "ebegun");
        wait_taken(c.fd);
        char record[16001], answers[16001];
        size_t len = (size_t)sprintf(record, "!\n"), out = (size_t)sprintf(answers, "begun!\n");
        while (len < 15900) {
            len += (size_t)sprintf(record + len, "e%zu\n", len);
            out += (size_t)sprintf(answers + out, "%zu\n", len - strlen(strrchr(record, 'e')));
        }
        client_send(&c, record);
        client_expect(&c, answers);
    }
    client_free(&c);
    stop();
}

static void is_crossed(struct worker *worker, void *arg)
{
    struct seen *seen = arg;
    const struct conn *conn = conn_find(worker, seen->tag);
    CHECK(conn);
    seen->crossed = conn->input == INPUT_CROSSED && conn->io.wanted & LOOP_WRITE;
}

/*
 * Each key update asks the server for one in return. While its answers are unread it cannot send
 * that, so its reading waits until it can write.
 */
TEST(reading_that_waits_for_writing_goes_on)
{
    serve(1, toy_limits());
    int fd, server = local_pair(SOCK_STREAM, &fd);
    set_buffer(server, SO_SNDBUF, 4096);
    ck_assert(toy_give_secure(&s, 0, server));
    struct secure_client c = client_new(fd, TLS1_3_VERSION);
    ck_assert_int_eq(SSL_do_handshake(c.ssl), 1);
    client_send(&c, "ein\n");
    client_expect(&c, "in\n"); /* now the server has finished the handshake too */
    for (int i = 0; i < 60; i++) {
        ck_assert(SSL_key_update(c.ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
        ck_assert_int_eq(SSL_do_handshake(c.ssl), 1);
    }
    client_send(&c, "eand on\n");
    struct seen seen = {.tag = atomic_load(&s.toy.last_tag)};
    WAIT_UNTIL((in_worker(&s, 0, is_crossed, &seen), seen.crossed));
    client_expect(&c, "and on\n");
    client_send(&c, "eand on\n");
    client_expect(&c, "and on\n");
    in_worker(&s, 0, is_crossed, &seen);
    ck_assert(!seen.crossed);
    client_free(&c);
    stop();
}

/* ---- ends ------------------------------------------------------------------------------------ */

TEST(goodbyes_and_their_absence)
{
    pki_make(&pki);
    for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
        secure_start(&s, 1, toy_limits(), pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
        /* The client sends close_notify and gets one. */
        struct secure_client c = client_connect(&s, 0, versions[v]);
        client_send(&c, "ehi\n");
        client_expect(&c, "hi\n");
        ck_assert_int_eq(SSL_shutdown(c.ssl), 0);
        client_expect_goodbye(&c);
        client_free(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == 1);
        /* The client closes without close_notify. */
        c = client_connect(&s, 0, versions[v]);
        client_send(&c, "ehi\n");
        client_expect(&c, "hi\n");
        client_free(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == 2);
        /* The client closes within a request and a record. */
        c = client_connect(&s, 0, versions[v]);
        client_send(&c, "ehi\neunfinish");
        client_expect(&c, "hi\n");
        send_bytes(c.fd, "\x17\x03\x03\x00\x50zzz", 8);
        client_free(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == 3);
        /* The server sends close_notify after its last answer. */
        c = client_connect(&s, 0, versions[v]);
        client_send(&c, "f\nignored\n");
        client_expect(&c, "bye\n");
        client_expect_goodbye(&c);
        client_free(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PROTOCOL) == 1);
        /* The server sends it too when it stops. */
        c = client_connect(&s, 0, versions[v]);
        client_send(&c, "ehi\n");
        client_expect(&c, "hi\n");
        toy_end(&s);
        client_expect_goodbye(&c);
        client_free(&c);
        ck_assert_uint_eq(toy_closed(&s, CLOSE_SHUTDOWN), 1);
        toy_free(&s);
    }
    pki_remove(&pki);
}

/* A greeting of 8 KiB, a byte in each record. */
TEST(records_of_a_handshake_are_limited)
{
    static const char head[] = {1, 0, 0x20, 0};
    serve(1, toy_limits());
    int fd;
    ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &fd)));
    for (unsigned i = 0; i < 256 + 2; i++) {
        char record[] = {0x16, 3, 1, 0, 1, i < sizeof(head) ? head[i] : 0};
        ck_assert_uint_eq(toy_closed(&s, CLOSE_HANDSHAKE), 0);
        send_bytes(fd, record, sizeof(record));
    }
    WAIT_UNTIL(toy_closed(&s, CLOSE_HANDSHAKE) == 1);
    close(fd);
    stop();
}

/* ---- streams without a worker ------------------------------------------------------------- */

/* A server's stream and a client in memory, after their handshake. */
static struct stream stream;
static struct secure_client c;
static BIO *in, *out;

static void shake(void)
{
    int fd;
    pki_make(&pki);
    struct tls *tls = pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2);
    stream = (struct stream){.fd = local_pair(SOCK_STREAM, &fd), .transport = TRANSPORT_TLS};
    ck_assert(stream_secure(&stream, tls));
    tls_free(&tls); /* the stream keeps a reference */
    c = client_new(fd, TLS1_3_VERSION);
    out = detach(&c, &in);
    ssize_t server = STREAM_AGAIN;
    const char *why = NULL;
    while (server != 1) {
        char bytes[4096];
        (void)SSL_do_handshake(c.ssl);
        send_part(&c, out, BIO_ctrl_pending(out));
        server = stream_handshake(&stream, &why);
        ck_assert_msg(server == 1 || server == STREAM_AGAIN, "%s", why);
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0)
            ck_assert_int_eq(BIO_write(in, bytes, (int)n), (int)n);
    }
}

static void part(void)
{
    stream_close(&stream);
    client_free(&c);
    pki_remove(&pki);
}

/* Sends what the client has made so far. */
static void send_all(void)
{
    size_t len = BIO_ctrl_pending(out);
    char *bytes = malloc(len);
    ck_assert(bytes && BIO_read(out, bytes, (int)len) == (int)len);
    set_buffer(c.fd, SO_SNDBUF, 1 << 20);
    send_bytes(c.fd, bytes, len);
    free(bytes);
}

/* Reads until there is data or a failure. */
static ssize_t read_on(void *to, size_t room)
{
    ssize_t n;
    int left = 0;
    do {
        n = stream_read(&stream, to, room);
        ck_assert(ioctl(stream.fd, FIONREAD, &left) == 0);
    } while (n == STREAM_AGAIN && left > 0);
    return n;
}

TEST(records_without_data_are_limited_in_a_row)
{
    enum { MAX = 64 };
    char got[64];
    shake();
    for (int i = 0; i < 10; i++) { /* data in between makes any number right */
        send_updates(&c, MAX);
        client_send(&c, "x");
        send_all();
        ck_assert_int_eq(read_on(got, sizeof(got)), 1);
    }
    send_updates(&c, MAX);
    send_all();
    ck_assert_int_eq(read_on(got, sizeof(got)), STREAM_AGAIN);
    ck_assert(!stream_in_record(&stream));
    send_updates(&c, 1);
    send_all();
    ck_assert_int_eq(read_on(got, sizeof(got)), STREAM_FLOODED);
    ck_assert_int_eq(read_on(got, sizeof(got)), STREAM_FLOODED);
    ck_assert_uint_eq(ERR_peek_error(), 0);
    part();
}

/* A client that stays below the limit in a row: each call reads few of its records. */
TEST(reading_of_records_of_no_bytes_is_bounded)
{
    enum { UPDATES = 4000 };
    shake();
    for (int i = 0; i < UPDATES / 50; i++) {
        send_updates(&c, 50);
        client_send(&c, "x");
    }
    char got[UPDATES];
    int before = (int)BIO_ctrl_pending(out), left = 0, calls = 0, data = 0;
    send_all(); /* everything is in the socket */
    while (data < UPDATES / 50) {
        ssize_t n = stream_read(&stream, got, sizeof(got));
        ck_assert(n == STREAM_AGAIN || n > 0);
        data += n > 0 ? (int)n : 0;
        ck_assert(ioctl(stream.fd, FIONREAD, &left) == 0);
        ck_assert(left < before || n > 0); /* each call makes progress */
        if (calls > 0 && left < before)    /* the first one fills the library's buffer */
            ck_assert_int_ge(left, before - 1024);
        before = left;
        if (calls++ > 10)
            ck_assert(stream_is_slow(&stream));
    }
    ck_assert_int_ge(calls, 200);    /* about 10 updates in each */
    for (int i = 0; i < 5000; i++) { /* data pays for them */
        client_send(&c, "xy");
        send_all();
        ck_assert_int_eq(read_on(got, sizeof(got)), 2);
    }
    ck_assert(!stream_is_slow(&stream));
    part();
}

/* A client that sends one byte in each record: each call reads few of them. */
TEST(records_of_one_byte_are_read_some_at_a_time)
{
    enum { RECORDS = 1000, AT_ONCE = 64 };
    char got[RECORDS];
    shake();
    for (int i = 0; i < RECORDS; i++)
        client_send(&c, "x");
    send_all();
    for (int data = 0; data < RECORDS;) {
        ssize_t n = stream_read(&stream, got, sizeof(got));
        ck_assert(n > 0 && n <= AT_ONCE);
        data += (int)n;
        ck_assert(data < RECORDS || !stream_has_more(&stream));
    }
    part();
}

/* The next write begins with the unsent bytes, from any buffer, with more behind them. */
TEST(unfinished_write_goes_on_from_another_buffer)
{
    enum { SIZE = 16000 };
    for (unsigned i = 0; i < TOY_PATTERN; i++)
        toy_pattern[i] = (uint8_t)(i * 31 + i / 256);
    shake();
    set_buffer(stream.fd, SO_SNDBUF, 4096);
    uint8_t *got = malloc(TOY_PATTERN);
    ck_assert(got != NULL);
    size_t sent = 0, received = 0;
    while (received < TOY_PATTERN / 2) {
        size_t left = TOY_PATTERN / 2 - sent;
        size_t part = left < SIZE ? left : SIZE + (left > SIZE + 100 ? sent % 100 : 0);
        uint8_t *copy = malloc(part + 1);
        ck_assert(copy != NULL);
        memcpy(copy, toy_pattern + sent, part);
        struct iovec pieces[2] = {{.iov_base = copy, .iov_len = part},
                                  {.iov_base = toy_pattern + sent + part, .iov_len = 10}};
        ssize_t n = part ? stream_write(&stream, pieces, left > part + 10 ? 2 : 1) : 0;
        free(copy);
        ck_assert(n >= 0 || n == STREAM_AGAIN);
        sent += n > 0 ? (size_t)n : 0;
        char bytes[8192];
        ssize_t more = recv(c.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (more > 0)
            ck_assert_int_eq(BIO_write(in, bytes, (int)more), (int)more);
        size_t len = 0;
        while (SSL_read_ex(c.ssl, got + received, TOY_PATTERN - received, &len) == 1)
            received += len;
        ERR_clear_error();
    }
    ck_assert_uint_eq(received, sent);
    ck_assert(memcmp(got, toy_pattern, received) == 0);
    free(got);
    part();
}

/* The stream ends with an incomplete record on the wire; nothing may follow that. */
TEST(no_goodbye_is_said_in_the_middle_of_a_record)
{
    shake();
    set_buffer(stream.fd, SO_SNDBUF, 4096);
    struct iovec piece = {.iov_base = toy_pattern, .iov_len = 16000};
    while (stream_write(&stream, &piece, 1) > 0)
        continue;
    stream_close(&stream);
    ssize_t n;
    char bytes[8192];
    size_t len = 0;
    while ((n = receive(c.fd, bytes, sizeof(bytes))) > 0)
        ck_assert_int_eq(BIO_write(in, bytes, (int)n), (int)n);
    int ret;
    while ((ret = SSL_read_ex(c.ssl, bytes, sizeof(bytes), &len)) == 1)
        continue;
    /* No more than the rest is missing. */
    ck_assert_int_eq(SSL_get_error(c.ssl, ret), SSL_ERROR_WANT_READ);
    client_free(&c);
    pki_remove(&pki);
}

UNIT_MAIN("net/tls")
