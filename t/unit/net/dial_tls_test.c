/* dial_tls_test.c - outgoing streams with TLS: which servers are believed, and dials that are
 * cancelled at any stage. */
#include "net/tls_internal.h"
#include "t/unit/net/dials.h"

/* A TLS server for one connection at a time, which says "hello" and then echoes. */
struct tls_server {
    struct watched door, peer;
    struct tls *tls;
    SSL *ssl;
    bool silent, rude; /* never answers; closes at once */
    unsigned accepted;
    char asked[64]; /* the server name in the client's last handshake */
    uint16_t port;
};

static void hang_up(struct tls_server *s)
{
    SSL_free(s->ssl);
    s->ssl = NULL;
    stop_serving(&s->peer);
    ERR_clear_error();
}

static void on_peer(struct watched *served, unsigned what)
{
    struct tls_server *s = container_of(served, struct tls_server, peer);
    char bytes[256];
    size_t n = 0;
    int ret = 1;
    (void)what;
    if (!SSL_is_init_finished(s->ssl) && (ret = SSL_do_handshake(s->ssl)) == 1) {
        const char *name = SSL_get_servername(s->ssl, TLSEXT_NAMETYPE_host_name);
        snprintf(s->asked, sizeof(s->asked), "%s", name ? name : "");
        ck_assert(SSL_write_ex(s->ssl, "hello", 5, &n) == 1);
    }
    while (ret == 1 && (ret = SSL_read_ex(s->ssl, bytes, sizeof(bytes), &n)) == 1)
        ck_assert(SSL_write_ex(s->ssl, bytes, n, &n) == 1);
    if (SSL_get_error(s->ssl, ret) != SSL_ERROR_WANT_READ)
        hang_up(s);
    ERR_clear_error();
}

static void on_door(struct watched *served, unsigned what)
{
    struct tls_server *s = container_of(served, struct tls_server, door);
    (void)what;
    hang_up(s);
    int fd = accept4(served->io.fd, NULL, NULL, SOCK_NONBLOCK);
    ck_assert(fd >= 0);
    s->accepted++;
    if (s->rude) {
        close(fd);
        return;
    }
    s->ssl = SSL_new(s->tls->context);
    ck_assert(s->ssl != NULL && SSL_set_fd(s->ssl, fd) == 1);
    SSL_set_accept_state(s->ssl);
    serve(&s->peer, fd, s->silent ? 0 : LOOP_READ, on_peer);
}

static void tls_start(struct tls_server *s, const char *host, struct tls *tls)
{
    *s = (struct tls_server){.tls = tls};
    int fd = listening(host, &s->port);
    serve(&s->door, fd, LOOP_READ, on_door);
}

static void tls_stop(struct tls_server *s)
{
    hang_up(s);
    stop_serving(&s->door);
    tls_free(&s->tls);
}

static struct pki pki;

static struct tls *client_context(struct tls_client_config config)
{
    char reason[TLS_REASON_SIZE] = "";
    enum tls_file wrong;
    struct tls *tls = tls_client_new(&config, &wrong, reason);
    ck_assert_msg(tls != NULL, "%s", reason);
    return tls;
}

static struct dial_target tls_target(const char *host, uint16_t port, struct tls *tls)
{
    return (struct dial_target){.transport = TRANSPORT_TLS, .host = host, .port = port, .tls = tls};
}

/* Sends a word, and expects the server to send its own and that one back. */
static void converse(struct call *c)
{
    struct iovec word = {.iov_base = (char[]){"there"}, .iov_len = 5};
    char got[11] = "";
    expect_connected(c);
    ck_assert_int_eq(stream_write(&c->stream, &word, 1), 5);
    for (size_t len = 0; len < 10;) {
        ssize_t n = stream_read(&c->stream, got + len, 10 - len);
        ck_assert(n > 0 || n == STREAM_AGAIN);
        len += n > 0 ? (size_t)n : 0;
        spin(1);
    }
    ck_assert_str_eq(got, "hellothere");
    stream_close(&c->stream);
}

TEST(tls_server_with_a_good_certificate_is_believed)
{
    static struct zone_row zone[] = {{.name = "secure.test", .a = {"127.0.0.1"}}};
    static const struct {
        const char *host, *asked;
        enum tls_version min;
    } rows[] = {
        {"127.0.0.1", "", TLS_VERSION_1_2},
        {"::1", "", TLS_VERSION_1_3},
        {"secure.test.", "secure.test", TLS_VERSION_1_2},
        {"SECURE.test", "SECURE.test", TLS_VERSION_1_3},
    };
    pki_make(&pki);
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tls_server s;
        struct call c;
        tls_start(&s, strchr(rows[i].host, ':') ? "::1" : "127.0.0.1",
                  pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
        struct tls *tls = client_context(
            (struct tls_client_config){.ca = pki_path(&pki, "ca.crt"), .min_version = rows[i].min});
        struct dial_target target = tls_target(rows[i].host, s.port, tls);
        target.name_servers = dns.address;
        begin(&c, &target, LONG_NS);
        tls_free(&tls); /* the dial keeps a reference */
        run(0);
        ck_assert_int_eq(c.stream.transport, TRANSPORT_TLS);
        converse(&c);
        ck_assert_str_eq(s.asked, rows[i].asked);
        tls_stop(&s);
    }
    dns_stop();
    bench_free();
    pki_remove(&pki);
}

TEST(tls_server_that_can_not_be_believed_is_refused)
{
    static struct zone_row zone[] = {{.name = "wrong.test", .a = {"127.0.0.1"}}};
    static const struct {
        const char *cert, *host, *why;
    } rows[] = {
        {"server", "wrong.test", "hostname mismatch"},
        {"server", "127.0.0.2", "IP address mismatch"},
        {"stranger", "127.0.0.1", "unable to get local issuer certificate"},
        {"nobody's-ca", "127.0.0.1", "self-signed certificate"},
        {"expired", "127.0.0.1", "certificate has expired"},
    };
    pki_make(&pki);
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    struct tls *tls = client_context((struct tls_client_config){.ca = pki_path(&pki, "ca.crt")});
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tls_server s;
        struct call c;
        char address[32] = "";
        tls_start(&s, i == 1 ? "127.0.0.2" : "127.0.0.1",
                  pki_tls(&pki, rows[i].cert, TLS_VERIFY_OFF, TLS_VERSION_1_2));
        struct dial_target target = tls_target(rows[i].host, s.port, tls);
        target.name_servers = dns.address;
        make_call(&c, &target, LONG_NS);
        if (i == 0)
            snprintf(address, sizeof(address), "127.0.0.1:%u: ", s.port);
        expect_reason(&c, "%s:%u: %sTLS handshake: %s", rows[i].host, s.port, address, rows[i].why);
        ck_assert_uint_eq(s.accepted, 1);
        tls_stop(&s);
    }
    tls_free(&tls);
    dns_stop();
    bench_free();
    pki_remove(&pki);
}

TEST(tls_server_that_says_nothing_or_hangs_up_is_told)
{
    struct tls_server s;
    struct call c;
    pki_make(&pki);
    bench_make();
    tls_start(&s, "127.0.0.1", pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    struct tls *tls = client_context((struct tls_client_config){.ca = pki_path(&pki, "ca.crt")});
    struct dial_target target = tls_target("127.0.0.1", s.port, tls);
    s.silent = true;
    make_call(&c, &target, 100 * NS_PER_MS);
    expect_reason(&c, "127.0.0.1:%u: TLS handshake: not done within * s", s.port);
    hang_up(&s);
    s.rude = true;
    make_call(&c, &target, LONG_NS);
    ck_assert_msg(strstr(c.reason, "the server closed the connection") ||
                      strstr(c.reason, "Connection reset"),
                  "%s", c.reason);
    tls_free(&tls);
    tls_stop(&s);
    bench_free();
    pki_remove(&pki);
}

static void cancel(struct call *c)
{
    dial_cancel(&c->dial);
    bench.pending--;
    ck_assert(c->dial == NULL);
}

/* Covers every stage of a dial: both questions, the first address, and the handshake in pieces. */
TEST(cancelled_after_any_number_of_turns)
{
    static struct zone_row zone[] = {
        {.name = "secure.test", .a = {"127.0.0.1"}, .aaaa = {"::1"}, .truncated = true}};
    struct tls_server s;
    struct call c;
    unsigned turns = 0, cancelled = 0;
    pki_make(&pki);
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    tls_start(&s, "127.0.0.1", pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    struct tls *tls = client_context((struct tls_client_config){.ca = pki_path(&pki, "ca.crt")});
    struct dial_target target = tls_target("secure.test", s.port, tls);
    target.name_servers = dns.address;
    unsigned fds = open_descriptors();
    for (;; turns++) {
        begin(&c, &target, LONG_NS);
        if (turns > 0)
            run(turns);
        if (c.done)
            break;
        cancel(&c);
        cancelled++;
        hang_up(&s);
        stop_serving(&dns.stream);
        ck_assert_uint_eq(bench.reactor.deadlines.count, 2);
        ck_assert_uint_eq(open_descriptors(), fds);
    }
    ck_assert_uint_ge(cancelled, 10);
    expect_connected(&c);
    stream_close(&c.stream);
    tls_free(&tls);
    tls_stop(&s);
    dns_stop();
    bench_free();
    pki_remove(&pki);
}

int main(void)
{
    return run_all("dial tls");
}
