/* tls_test.c - TLS over real sockets: handshakes, records, certificates, and how connections end.
 */
#include "net/stream.h"
#include "net/tls.h"

#include "t/unit/net/secure.h"
#include "t/unit/random.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/wait.h>

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

/* ---- loading --------------------------------------------------------------------------------- */

/* daemon-tls.scn and tests of the cluster have what is wrong with other files. */
TEST(a_file_may_have_the_key_too_and_no_key_may_be_encrypted)
{
    char reason[TLS_REASON_SIZE] = "";
    pki_make(&pki);
    const char *locked = pki_path(&pki, "locked.key");
    struct tls *tls = tls_new(&(struct tls_config){.cert = pki_path(&pki, "both.pem")}, reason);
    ck_assert_msg(tls != NULL, "%s", reason);
    tls_free(&tls);
    ck_assert(tls == NULL);
    tls_free(&tls);
    tls =
        tls_new(&(struct tls_config){.cert = pki_path(&pki, "server.crt"), .key = locked}, reason);
    ck_assert(tls == NULL && strstr(reason, locked) && strstr(reason, "encrypted"));
    ck_assert_uint_eq(ERR_peek_error(), 0);
    tls = pki_tls(&pki, "expired", TLS_VERIFY_OFF, TLS_VERSION_1_2); /* accepted with a warning */
    tls_free(&tls);
    pki_remove(&pki);
}

/* ---- handshakes ------------------------------------------------------------------------------ */

/* Calls that move one byte are in the mode `calls` of stories. */

/* A client of one version, with a certificate or without, is refused. */
static void try_client(enum tls_version min, int version, enum tls_verify verify, const char *name)
{
    int fd;
    char path[160];
    secure_start(&s, 1, toy_limits(), pki_tls(&pki, "server", verify, min));
    ck_assert(toy_give_secure(&s, 0, tcp_pair(&fd)));
    struct secure_client c = client_new(fd, version);
    if (version < TLS1_2_VERSION)
        ck_assert(SSL_set_cipher_list(c.ssl, "ALL:@SECLEVEL=0") == 1);
    if (name) {
        snprintf(path, sizeof(path), "%s/%s.crt", pki.folder, name);
        ck_assert(SSL_use_certificate_file(c.ssl, path, SSL_FILETYPE_PEM) == 1);
        snprintf(path, sizeof(path), "%s/%s.key", pki.folder, name);
        ck_assert(SSL_use_PrivateKey_file(c.ssl, path, SSL_FILETYPE_PEM) == 1);
    }
    /* In TLS 1.3 the client may have sent a request already; it can still read the alert. */
    if (SSL_do_handshake(c.ssl) == 1)
        client_send(&c, "ein\n");
    client_expect_refusal(&c);
    unsigned long code = ERR_peek_last_error();
    ck_assert_msg(verify == TLS_VERIFY_OFF || ERR_GET_REASON(code) > SSL_AD_REASON_OFFSET,
                  "no alert but %s", ERR_reason_error_string(code));
    expect_end(c.fd); /* no reset, because that could destroy the alert */
    client_free(&c);
    WAIT_UNTIL(atomic_load(&s.protocol.connections) == 0);
    ck_assert_uint_eq(toy_closed(&s, CLOSE_HANDSHAKE), 1);
    ck_assert_uint_eq(atomic_load(&s.toy.opened), 0);
    toy_stop(&s);
}

/* daemon-reload.scn has those that are served. */
TEST(old_versions_and_bad_certificates_are_refused_with_an_alert)
{
    static const char *const bad[] = {NULL, "stranger", "expired"};
    pki_make(&pki);
    try_client(TLS_VERSION_1_2, TLS1_VERSION, TLS_VERIFY_OFF, NULL);
    try_client(TLS_VERSION_1_2, TLS1_1_VERSION, TLS_VERIFY_OFF, NULL);
    try_client(TLS_VERSION_1_3, TLS1_2_VERSION, TLS_VERIFY_OFF, NULL);
    for (size_t i = 0; i < 2 * ARRAY_SIZE(bad); i++)
        try_client(TLS_VERSION_1_2, versions[i % 2], TLS_VERIFY_REQUIRE, bad[i / 2]);
    try_client(TLS_VERSION_1_2, TLS1_2_VERSION, TLS_VERIFY_OPTIONAL, "stranger");
    pki_remove(&pki);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Which allocations of the library's are refused, counted in all threads but the first: the
 * refused'th, and then each refused'th again, or no other. 0: none. */
static _Atomic uint64_t refused, allocations;
static bool is_refused_again;
static _Thread_local bool is_client;

static bool refuse(void)
{
    uint64_t which = atomic_load(&refused);
    if (!which || is_client)
        return false;
    uint64_t n = atomic_fetch_add(&allocations, 1) + 1;
    return is_refused_again ? n % which == 0 : n == which;
}

static void *library_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return refuse() ? NULL : malloc(size);
}

static void *library_realloc(void *from, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return refuse() ? NULL : realloc(from, size);
}

static void library_free(void *at, const char *file, int line)
{
    (void)file;
    (void)line;
    free(at);
}

__attribute__((constructor)) static void take_over_allocations(void)
{
    CHECK(CRYPTO_set_mem_functions(library_malloc, library_realloc, library_free) == 1);
}

/* True when a new client is answered. */
static bool is_served(int version)
{
    int fd;
    char answer[3];
    size_t n = 0;
    if (!toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &fd)))
        return false;
    struct secure_client c = client_new(fd, version);
    bool served = SSL_do_handshake(c.ssl) == 1 && SSL_write_ex(c.ssl, "eyes\n", 5, &n) == 1 &&
                  SSL_read_ex(c.ssl, answer, sizeof(answer), &n) == 1 && n > 0;
    client_free(&c);
    return served;
}

/* Runs in a process whose library has loaded nothing for handshakes yet. Returns false when fewer
 * allocations than `first` came before a client was served. */
static bool run_short_of_memory(uint64_t first, bool again, int version)
{
    secure_start(&s, 1, toy_limits(), pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    is_client = true;
    is_refused_again = again;
    atomic_store(&refused, first);
    for (int clients = again ? 20 : 1; clients > 0; clients--)
        (void)is_served(version);
    bool was_refused = atomic_load(&allocations) >= first;
    atomic_store(&refused, 0);
    ck_assert_msg(is_served(version), "allocation %" PRIu64 " was refused, %s", first,
                  again ? "again and again" : "once");
    WAIT_UNTIL(atomic_load(&s.protocol.connections) == 0);
    toy_stop(&s);
    return was_refused;
}

static bool in_a_process(uint64_t first, bool again, int version)
{
    enum { FEWER = 2 };
    pid_t child = fork();
    ck_assert(child >= 0);
    if (child == 0)
        _exit(run_short_of_memory(first, again, version) ? 0 : FEWER);
    int status;
    ck_assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status) & ~FEWER, 0);
    return WEXITSTATUS(status) == 0;
}

/* The first handshake has the library load most of its algorithms. */
TEST(memory_that_the_library_does_not_get_costs_a_connection_at_most)
{
    enum { STRIDE = 23 };
    struct rng rng = rng_start("memory", random_seed());
    pki_make(&pki);
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        uint64_t first = 1 + rng_below(&rng, STRIDE);
        while (in_a_process(first, false, versions[i]))
            first += STRIDE;
        for (uint64_t one_in = 31; one_in < 2000; one_in = one_in * 3 + rng_below(&rng, 9))
            ck_assert(in_a_process(one_in, true, versions[i]));
    }
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
            secure_snapshot(&s, toy_limits(),
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

/* ---- records --------------------------------------------------------------------------------- */

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

/* Sends `len` bytes of the output of the client's library. */
static void send_part(const struct secure_client *c, BIO *out, size_t len)
{
    char bytes[4096];
    ck_assert_uint_le(len, sizeof(bytes));
    if (len == 0)
        return;
    ck_assert_int_eq(BIO_read(out, bytes, (int)len), (int)len);
    send_bytes(c->fd, bytes, len);
}

/* Hands what comes to the client's library. */
static void take_some(const struct secure_client *c, BIO *in)
{
    char bytes[4096];
    ssize_t n = receive(c->fd, bytes, sizeof(bytes));
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(BIO_write(in, bytes, (int)n), (int)n);
}

/* Reads one answer through the buffer in memory. */
static void expect_through(struct secure_client *c, BIO *in, const char *text)
{
    char got[256];
    size_t len = 0;
    while (SSL_read_ex(c->ssl, got, sizeof(got), &len) != 1)
        take_some(c, in);
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
        while (SSL_do_handshake(c.ssl) != 1) {
            send_part(&c, out, BIO_ctrl_pending(out));
            take_some(&c, in);
        }
        send_part(&c, out, BIO_ctrl_pending(out));
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

struct monitor {
    uint64_t tag;
    bool crossed;
};

static void is_crossed(struct worker *worker, void *arg)
{
    struct monitor *seen = arg;
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
    struct monitor seen = {.tag = atomic_load(&s.toy.last_tag)};
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

/* What a client says and hears; how it ends: with a goodbye, amid a record of so many bytes, or by
 * the server's end; whether it hears a goodbye; and what is counted. */
static const struct {
    const char *says, *hears;
    bool parts, stops, hears_goodbye;
    size_t cut;
    enum close_reason reason;
} farewells[] = {
    {"ehi\n", "hi\n", true, false, true, 0, CLOSE_PEER},
    {"ehi\n", "hi\n", false, false, false, 0, CLOSE_PEER},
    {"ehi\neunfinish", "hi\n", false, false, false, 8, CLOSE_PEER},
    {"f\nignored\n", "bye\n", false, false, true, 0, CLOSE_PROTOCOL},
    {"ehi\n", "hi\n", false, true, true, 0, CLOSE_SHUTDOWN},
};

TEST(goodbyes_and_their_absence)
{
    pki_make(&pki);
    for (size_t i = 0; i < ARRAY_SIZE(versions) * ARRAY_SIZE(farewells); i++) {
        size_t row = i / ARRAY_SIZE(versions);
        secure_start(&s, 1, toy_limits(), pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
        struct secure_client c = client_connect(&s, 0, versions[i % ARRAY_SIZE(versions)]);
        client_send(&c, farewells[row].says);
        client_expect(&c, farewells[row].hears);
        if (farewells[row].parts)
            ck_assert_int_eq(SSL_shutdown(c.ssl), 0);
        send_bytes(c.fd, "\x17\x03\x03\x00\x50zzz", farewells[row].cut);
        if (farewells[row].stops)
            toy_end(&s);
        if (farewells[row].hears_goodbye)
            client_expect_goodbye(&c);
        client_free(&c);
        WAIT_UNTIL(toy_closed(&s, farewells[row].reason) == 1);
        if (!farewells[row].stops)
            toy_end(&s);
        toy_free(&s);
    }
    pki_remove(&pki);
}

/* Of a greeting of 8 KiB, a byte in a record. */
static void greet(int fd, unsigned i)
{
    static const char head[] = {1, 0, 0x20, 0};
    char record[] = {0x16, 3, 1, 0, 1, i < sizeof(head) ? head[i] : 0};
    send_bytes(fd, record, sizeof(record));
}

TEST(records_of_a_handshake_are_limited)
{
    serve(1, toy_limits());
    int fd;
    ck_assert(toy_give_secure(&s, 0, local_pair(SOCK_STREAM, &fd)));
    for (unsigned i = 0; i < 256 + 2; i++) {
        ck_assert_uint_eq(toy_closed(&s, CLOSE_HANDSHAKE), 0);
        greet(fd, i);
    }
    WAIT_UNTIL(toy_closed(&s, CLOSE_HANDSHAKE) == 1);
    close(fd);
    stop();
}

/* ---- streams without a worker ---------------------------------------------------------------- */

/* A server's stream and a client in memory, after their handshake. */
static struct stream stream;
static struct secure_client c;
static BIO *in, *out;

static int begin(void)
{
    int fd;
    pki_make(&pki);
    struct tls *tls = pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2);
    stream = (struct stream){.fd = local_pair(SOCK_STREAM, &fd), .transport = TRANSPORT_TLS};
    ck_assert(stream_secure(&stream, tls));
    tls_free(&tls); /* the stream keeps a reference */
    return fd;
}

static void shake(void)
{
    c = client_new(begin(), TLS1_3_VERSION);
    out = detach(&c, &in);
    ssize_t server = STREAM_AGAIN;
    const char *why = NULL;
    while (server != 1) {
        char bytes[4096];
        (void)SSL_do_handshake(c.ssl);
        send_part(&c, out, BIO_ctrl_pending(out));
        server = stream_handshake(&stream, &why);
        ck_assert_msg(server == 1 || server == STREAM_AGAIN, "%s", why);
        ssize_t n = recv(c.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
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

TEST(too_many_records_of_a_handshake_are_called_so)
{
    const char *why = NULL;
    int fd = begin();
    for (unsigned i = 0; i < 256 + 2; i++)
        greet(fd, i);
    while (stream_handshake(&stream, &why) == STREAM_AGAIN)
        continue;
    ck_assert_str_eq(why, "too many records");
    stream_close(&stream);
    close(fd);
    pki_remove(&pki);
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
