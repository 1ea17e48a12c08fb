/*
 * wire_test.c - wires to servers that read and write little, stall, close, reset, or never answer.
 *
 * A wire and its server share a thread. At the end of each iteration of the loop the server makes
 * its move. Both directions carry the same pattern of bytes, from its start in each connection, so
 * each side can check what it gets.
 */
#include "cluster/wire.h"

#include "t/unit/engine/faults.h"
#include "t/unit/net/secure.h"
#include "t/unit/random.h"

#include <netinet/tcp.h>
#include <sys/un.h>

#define QUEUE_MAX (1u << 20)
#define LONG_NS   (50 * NS_PER_S)
#define MUCH      (20 * WIRE_ITERATION_MAX)

static void fill(uint8_t *to, size_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)((at + i) * 7 + (at + i) / 251);
}

static void check_pattern(const uint8_t *is, size_t at, size_t len)
{
    static uint8_t want[1 << 16];
    fill(want, at, len);
    CHECK(memcmp(is, want, len) == 0);
}

/* Counts writes to sockets. */
static unsigned writes;
ssize_t __real_write(int fd, const void *from, size_t len);
ssize_t __wrap_write(int fd, const void *from, size_t len);

ssize_t __wrap_write(int fd, const void *from, size_t len)
{
    if (len != 8) /* the loop's wake-up */
        writes++;
    return __real_write(fd, from, len);
}

/* ---- the server ------------------------------------------------------------------------------ */

struct peer {
    int listener;
    int fd; /* the newest connection; -1: none */
    SSL_CTX *context;
    SSL *ssl;
    size_t got, sent; /* bytes of this connection */
    struct sockaddr_un un;
    struct sockaddr_in in;
};

static void server_listen(struct peer *s, bool is_unix)
{
    socklen_t len = sizeof(s->in), un_len = sizeof(s->un);
    const char *base = getenv("TMPDIR");
    s->in.sin_family = AF_INET;
    s->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->un.sun_family = AF_UNIX;
    snprintf(s->un.sun_path, sizeof(s->un.sun_path), "%s/wire.%d", base ? base : "/tmp",
             (int)getpid());
    s->listener =
        socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert(
        bind(s->listener, is_unix ? (void *)&s->un : (void *)&s->in, is_unix ? un_len : len) == 0 &&
        listen(s->listener, 16) == 0);
    ck_assert(is_unix || getsockname(s->listener, (struct sockaddr *)&s->in, &len) == 0);
}

static void server_drop(struct peer *s)
{
    SSL_free(s->ssl);
    s->ssl = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    ERR_clear_error();
}

/* Drops the connection so that the client gets a reset. */
static void server_reset(struct peer *s)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    ck_assert(setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
    server_drop(s);
}

static void server_accept(struct peer *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), yes = 1;
    if (fd >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* not of unix sockets */
        server_drop(s);
        s->fd = fd;
        s->got = s->sent = 0;
        if (s->context) {
            s->ssl = SSL_new(s->context);
            ck_assert(s->ssl && SSL_set_fd(s->ssl, fd) == 1);
            SSL_set_accept_state(s->ssl);
        }
    }
    if (s->ssl && !SSL_is_init_finished(s->ssl)) {
        (void)SSL_do_handshake(s->ssl);
        ERR_clear_error();
    }
}

/* Reads up to `room` bytes and checks them. Returns false at the end of the connection. */
static bool server_read(struct peer *s, size_t room)
{
    static uint8_t bytes[1 << 16];
    size_t n = 0;
    if (s->fd < 0)
        return false;
    if (s->ssl) {
        int ret = SSL_read_ex(s->ssl, bytes, room, &n);
        int error = ret == 1 ? 0 : SSL_get_error(s->ssl, ret);
        ERR_clear_error();
        if (error && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
            return false;
    } else {
        ssize_t got = recv(s->fd, bytes, room, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return false;
        n = got > 0 ? (size_t)got : 0;
    }
    check_pattern(bytes, s->got, n);
    s->got += n;
    return true;
}

/* Writes up to `len` bytes of the pattern, as much as the socket takes. */
static void server_write(struct peer *s, size_t len)
{
    static uint8_t bytes[1 << 16];
    if (s->fd < 0 || len == 0)
        return;
    fill(bytes, s->sent, len);
    if (s->ssl) {
        size_t n = 0;
        (void)SSL_write_ex(s->ssl, bytes, len, &n);
        ERR_clear_error();
        s->sent += n;
    } else {
        ssize_t n = send(s->fd, bytes, len, MSG_NOSIGNAL);
        s->sent += n > 0 ? (size_t)n : 0;
    }
}

/* ---- the wire's owner ------------------------------------------------------------------------ */

/* Check's own assertions need memory, which a test may refuse: here CHECK does. */

struct bench {
    struct reactor reactor;
    struct peer server;
    struct wire *wire;
    struct dial_target target;
    unsigned opened, closed;              /* calls */
    enum { CLOSED, OPENING, OPEN } state; /* as the owner knows it */
    size_t sent, got;                     /* bytes of this connection */
    size_t got_now, got_max;              /* in this iteration; the most in one */
    bool may_call;                        /* the wire may call its owner now */
    char reason[DIAL_REASON_SIZE];
    void (*on_call)(struct bench *b); /* in each call of the wire */
    void (*move)(struct bench *b);    /* at the end of each iteration */
    bool (*is_done)(struct bench *b); /* the loop stops when it is true */
    struct timer once;
    void (*act)(struct bench *b);
    int64_t give_up_ns;
    struct rng rng;
    unsigned rounds;
    unsigned fds;
    struct pki pki;
    struct tls *tls;
};

static void opened(void *arg)
{
    struct bench *b = arg;
    CHECK(b->may_call && b->state == OPENING);
    b->state = OPEN;
    b->opened++;
    if (b->on_call)
        b->on_call(b);
}

static void received(void *arg, struct bytes bytes)
{
    struct bench *b = arg;
    CHECK(b->may_call && b->state == OPEN);
    CHECK(bytes.len > 0 && bytes.len <= WIRE_PIECE_MAX);
    check_pattern(bytes.data, b->got, bytes.len);
    b->got += bytes.len;
    b->got_now += bytes.len;
    if (b->got_max < b->got_now)
        b->got_max = b->got_now;
    if (b->on_call)
        b->on_call(b);
}

static void closed(void *arg, const char *reason)
{
    struct bench *b = arg;
    CHECK(b->may_call && b->state != CLOSED);
    CHECK(wire_queued(b->wire) == 0 && *reason);
    b->state = CLOSED;
    b->closed++;
    snprintf(b->reason, sizeof(b->reason), "%s", reason);
    if (b->on_call)
        b->on_call(b);
}

static const struct wire_calls calls = {opened, received, closed};

static int64_t on_end(void *arg)
{
    struct bench *b = arg;
    unsigned long countdown = fault_countdown;
    fault_countdown = 0;
    b->got_now = 0;
    server_accept(&b->server);
    if (b->move)
        b->move(b);
    CHECK(clock_mono_ns() < b->give_up_ns); /* nothing comes any more */
    if (b->is_done(b))
        loop_stop(b->reactor.loop);
    loop_soon(b->reactor.loop);
    fault_countdown = countdown;
    return reactor_end(&b->reactor);
}

static int64_t on_once(struct timer *timer, struct moment now)
{
    struct bench *b = container_of(timer, struct bench, once);
    (void)now;
    b->act(b);
    return DEADLINE_NONE;
}

static void make_tls(struct bench *b)
{
    char reason[TLS_REASON_SIZE] = "";
    enum tls_file wrong;
    SSL_CTX *context = b->server.context = SSL_CTX_new(TLS_server_method());
    pki_make(&b->pki);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ck_assert(SSL_CTX_use_certificate_file(context, pki_path(&b->pki, "server.crt"),
                                           SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_use_PrivateKey_file(context, pki_path(&b->pki, "server.key"),
                                          SSL_FILETYPE_PEM) == 1);
    b->tls = tls_client_new(&(struct tls_client_config){.ca = pki_path(&b->pki, "ca.crt")}, &wrong,
                            reason);
    ck_assert_msg(b->tls != NULL, "%s", reason);
}

static void bench_make(struct bench *b, enum transport transport)
{
    signal(SIGPIPE, SIG_IGN); /* like the daemon */
    *b = (struct bench){.server = {.fd = -1}, .once.run = on_once};
    b->fds = open_descriptors();
    struct loop_handlers handlers = reactor_default;
    handlers.end = on_end;
    ck_assert(reactor_init(&b->reactor, &handlers) &&
              reactor_add_timer(&b->reactor, &b->once, DEADLINE_NONE));
    server_listen(&b->server, transport == TRANSPORT_UNIX);
    if (transport == TRANSPORT_TLS)
        make_tls(b);
    b->target = (struct dial_target){.transport = transport,
                                     .host = "127.0.0.1",
                                     .port = ntohs(b->server.in.sin_port),
                                     .path = b->server.un.sun_path,
                                     .tls = b->tls};
    b->wire = wire_new(&b->reactor, QUEUE_MAX, &calls, b);
    ck_assert(b->wire);
}

/* Checks that the wire has given back everything. */
static void bench_free(struct bench *b)
{
    wire_free(&b->wire);
    server_drop(&b->server);
    SSL_CTX_free(b->server.context);
    close(b->server.listener);
    (void)unlink(b->server.un.sun_path);
    tls_free(&b->tls);
    if (*b->pki.folder)
        pki_remove(&b->pki);
    reactor_remove_timer(&b->reactor, &b->once);
    ck_assert_uint_eq(b->reactor.deadlines.count, 0);
    ck_assert_uint_eq(b->reactor.deadlines.reserved, 0);
    reactor_free(&b->reactor);
    ck_assert_uint_eq(open_descriptors(), b->fds);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

static void bench_close(struct bench *b)
{
    wire_close(b->wire);
    b->state = CLOSED;
}

static void bench_open(struct bench *b)
{
    bool might = b->may_call;
    b->may_call = false;
    b->sent = b->got = 0;
    b->reactor.now = clock_now();
    CHECK(b->state == CLOSED);
    b->state = OPENING;
    wire_open(b->wire, &b->target, LONG_NS);
    b->may_call = might;
}

static void bench_send(struct bench *b, size_t len)
{
    static uint8_t bytes[1 << 16];
    bool might = b->may_call;
    b->may_call = false;
    fill(bytes, b->sent, len);
    wire_send(b->wire, bytes_at(bytes, len));
    b->sent += len;
    b->may_call = might;
}

/* Runs until `is_done`. */
static void run(struct bench *b, bool (*is_done)(struct bench *b))
{
    b->is_done = is_done;
    b->give_up_ns = clock_mono_ns() + PATIENCE_NS;
    b->may_call = true;
    loop_soon(b->reactor.loop);
    loop_run(b->reactor.loop);
    b->may_call = false;
}

/* Calls `act` in an iteration, by a timer, and runs until `is_done`. */
static void run_act(struct bench *b, void (*act)(struct bench *b), bool (*is_done)(struct bench *b))
{
    b->act = act;
    reactor_set_timer(&b->reactor, &b->once, clock_mono_ns());
    run(b, is_done);
}

static bool is_open(struct bench *b)
{
    return b->opened > 0 && b->server.fd >= 0;
}

static bool has_closed(struct bench *b)
{
    return b->closed > 0;
}

static bool after_rounds(struct bench *b)
{
    return b->rounds-- == 0;
}

static void let_pass(struct bench *b, unsigned rounds)
{
    b->rounds = rounds;
    run(b, after_rounds);
}

static void bench_connect(struct bench *b)
{
    bench_open(b);
    run(b, is_open);
    let_pass(b, 20); /* also for the handshake of the server */
    ck_assert_uint_eq(b->opened, 1);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static const enum transport transports[] = {TRANSPORT_TCP, TRANSPORT_UNIX, TRANSPORT_TLS};

static void send_pieces(struct bench *b)
{
    writes = 0;
    for (int i = 0; i < 10; i++)
        bench_send(b, 100);
    ck_assert_uint_eq(writes, 0);
}

static bool has_written(struct bench *b)
{
    ck_assert_uint_eq(writes, 1); /* at the end of the same iteration */
    return wire_queued(b->wire) == 0;
}

TEST(an_iteration_has_one_write)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TCP);
    bench_connect(&b);
    run_act(&b, send_pieces, has_written);
    b.on_call = send_pieces; /* the same from a call of the wire */
    server_write(&b.server, 10);
    writes = 1;
    let_pass(&b, 20);
    ck_assert_uint_eq(writes, 1);
    ck_assert_uint_eq(b.got, 10);
    while (server_read(&b.server, 5000) && b.server.got < b.sent)
        ;
    ck_assert_uint_eq(b.server.got, 2000);
    bench_free(&b);
}

/* The queue is full, and the server writes all that the socket takes. */
static void pour_both_ways(struct bench *b)
{
    while (b->sent < 20 * QUEUE_MAX && wire_queued(b->wire) + 40000 <= QUEUE_MAX)
        bench_send(b, 40000 - b->sent % 777);
    (void)server_read(&b->server, 1 + (b->sent + b->server.got) % 65536);
    for (int i = 0; i < 100 && b->got < MUCH; i++)
        server_write(&b->server, 65536);
}

static bool all_was_read(struct bench *b)
{
    return b->sent >= 20 * QUEUE_MAX && b->server.got == b->sent && b->got >= MUCH &&
           b->got == b->server.sent;
}

TEST(all_bytes_arrive_and_reading_is_bounded)
{
    for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
        struct bench b;
        bench_make(&b, transports[i]);
        bench_connect(&b);
        b.move = pour_both_ways;
        run(&b, all_was_read);
        ck_assert_uint_eq(wire_queued(b.wire), 0);
        ck_assert_uint_eq(b.closed, 0);
        ck_assert_uint_le(b.got_max, WIRE_ITERATION_MAX + WIRE_PIECE_MAX);
        ck_assert_uint_gt(b.got_max, WIRE_PIECE_MAX);
        bench_free(&b);
    }
}

static bool has_what_was_sent(struct bench *b)
{
    return b->server.sent > 0 && b->got == b->server.sent;
}

static void write_at_once(struct bench *b)
{
    if (b->server.sent == 0 && b->server.ssl && SSL_is_init_finished(b->server.ssl))
        server_write(&b->server, 100);
}

/* TLS 1.2: the server's first bytes come with the end of its handshake, and nothing after them. */
TEST(bytes_come_with_the_handshake)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TLS);
    ck_assert(SSL_CTX_set_max_proto_version(b.server.context, TLS1_2_VERSION) == 1);
    b.move = write_at_once;
    bench_open(&b);
    run(&b, has_what_was_sent);
    bench_free(&b);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void server_ends(struct bench *b)
{
    server_write(&b->server, 500);
    server_drop(&b->server);
}

static void server_resets(struct bench *b)
{
    server_reset(&b->server);
}

/* The last words of a server arrive although a write fails first. */
static void server_ends_before_a_write(struct bench *b)
{
    server_ends(b);
    bench_send(b, 1000);
}

TEST(the_server_ends)
{
    static const struct {
        enum transport transport;
        void (*act)(struct bench *b);
        size_t got;
        const char *reason;
    } rows[] = {
        {TRANSPORT_TCP, server_ends, 500, "the server closed the connection"},
        {TRANSPORT_UNIX, server_ends, 500, "the server closed the connection"},
        {TRANSPORT_TLS, server_ends, 500, "the server closed the connection"},
        {TRANSPORT_TCP, server_resets, 0, "the server reset the connection"},
        {TRANSPORT_UNIX, server_ends_before_a_write, 500, "the server"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct bench b;
        bench_make(&b, rows[i].transport);
        bench_connect(&b);
        run_act(&b, rows[i].act, has_closed);
        ck_assert_msg(strstr(b.reason, rows[i].reason), "row %zu: %s", i, b.reason);
        ck_assert_uint_eq(b.got, rows[i].got);
        let_pass(&b, 5);
        ck_assert_uint_eq(b.closed, 1);
        bench_free(&b);
    }
}

static void send_too_much(struct bench *b)
{
    for (size_t sent = 0; sent <= QUEUE_MAX; sent += 65536) {
        ck_assert_uint_eq(wire_queued(b->wire), sent);
        bench_send(b, 65536 - (sent == QUEUE_MAX ? 65535 : 0));
    }
    ck_assert_uint_eq(b->closed, 0); /* not inside wire_send */
    bench_send(b, 10);
    ck_assert_uint_eq(wire_queued(b->wire), 0);
}

TEST(the_server_stalls)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TCP);
    bench_connect(&b);
    run_act(&b, send_too_much, has_closed);
    ck_assert_str_eq(b.reason, "more than 1048576 bytes wait for the server to read them");
    b.closed = b.opened = 0;
    bench_open(&b); /* the same while it opens, and once more after that */
    send_too_much(&b);
    run(&b, has_closed);
    b.closed = 0;
    bench_connect(&b);
    send_too_much(&b);
    bench_close(&b); /* nobody wants to know any more */
    let_pass(&b, 5);
    ck_assert_uint_eq(b.closed, 0);
    bench_free(&b);
}

/* ---- no memory ------------------------------------------------------------------------------- */

static void trickle(struct bench *b)
{
    (void)server_read(&b->server, 1000);
    if (b->server.sent < 300000)
        server_write(&b->server, 1001);
}

static bool is_over(struct bench *b)
{
    return b->closed > 0 || (b->server.got == b->sent && b->got == b->server.sent && b->got > 0);
}

static void try_without_memory(unsigned long countdown, bool *failed_r)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TCP);
    b.move = trickle;
    faults = 0;
    wire_free(&b.wire);
    fault_countdown = countdown;
    b.wire = wire_new(&b.reactor, QUEUE_MAX, &calls, &b);
    if (b.wire) {
        b.state = OPENING;
        wire_open(b.wire, &b.target, LONG_NS);
        bench_send(&b, 3000);
        bench_send(&b, 30000);
        run(&b, is_over);
    }
    fault_countdown = 0;
    *failed_r = faults > 0;
    if (b.wire && b.closed)
        ck_assert_msg(strstr(b.reason, "emory"), "%s", b.reason);
    ck_assert(*failed_r || b.closed == 0);
    bench_free(&b);
}

TEST(memory_is_short)
{
    bool failed = true;
    unsigned count = 0;
    for (unsigned long countdown = 1; failed; countdown++, count++)
        try_without_memory(countdown, &failed);
    ck_assert_uint_ge(count, 5); /* wire, its deadline, dial, lookup, queue */
}

/* ---- at random ------------------------------------------------------------------------------- */

/* What an owner does, in a call of the wire or outside: it sends, closes, and opens again. */
static void act_at_random(struct bench *b)
{
    struct rng *rng = &b->rng;
    for (uint32_t n = rng_below(rng, 4); n > 0; n--) {
        size_t len = rng_below(rng, rng_one_in(rng, 10) ? 65536 : 300);
        if (wire_queued(b->wire) + len <= QUEUE_MAX && b->state != CLOSED)
            bench_send(b, len);
    }
    if (rng_one_in(rng, 50))
        bench_close(b);
    if (b->state == CLOSED && rng_one_in(rng, 2))
        bench_open(b);
}

static void serve_at_random(struct bench *b)
{
    struct rng *rng = &b->rng;
    struct peer *s = &b->server;
    if (rng_one_in(rng, 200)) {
        wire_free(&b->wire);
        b->state = CLOSED;
        b->wire = wire_new(&b->reactor, QUEUE_MAX, &calls, b);
    }
    if (!rng_one_in(rng, 3) && !server_read(s, 1 + rng_below(rng, 65536)) && s->fd >= 0)
        server_drop(s);
    if (!rng_one_in(rng, 3))
        server_write(s, rng_below(rng, rng_one_in(rng, 10) ? 65536 : 300));
    if (s->fd >= 0 && rng_one_in(rng, 300))
        server_drop(s);
    else if (s->fd >= 0 && rng_one_in(rng, 300))
        server_reset(s);
    if (rng_one_in(rng, 2))
        act_at_random(b);
}

static void serve_all(struct bench *b)
{
    (void)server_read(&b->server, 65536);
    if (b->state == CLOSED)
        bench_open(b);
}

static bool has_settled(struct bench *b)
{
    return b->state == OPEN && b->server.got == b->sent && b->got == b->server.sent;
}

TEST(random_deeds)
{
    uint64_t seed = rng_start("wires", random_seed()).state;
    for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
        struct bench b;
        bench_make(&b, transports[t]);
        b.rng.state = seed + t;
        b.on_call = act_at_random;
        b.move = serve_at_random;
        let_pass(&b, 4000);
        ck_assert_uint_gt(b.opened, 10);
        b.on_call = NULL;
        b.move = serve_all; /* whatever came before, the next connection works */
        run(&b, has_settled);
        bench_free(&b);
    }
}

UNIT_MAIN("wire")
