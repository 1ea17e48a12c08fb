/*
 * wire_rig.h - a wire and its server in one thread, for tests of wires.
 *
 * At the end of each iteration of the loop the server makes its move. Both directions carry the
 * same pattern of bytes, from its start in each connection, so each side can check what it gets.
 *
 * For a test program of one file, linked with fault_wraps and --wrap=write.
 */
#ifndef WIRE_RIG_H
#define WIRE_RIG_H

#include "cluster/wire.h"

#include "t/unit/engine/faults.h"
#include "t/unit/net/secure.h"
#include "t/unit/random.h"

#include <dirent.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#define QUEUE_MAX (1u << 20)
#define LONG_NS   (50 * NS_PER_S)

static inline uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 7 + at / 251);
}

static inline void fill(uint8_t *to, size_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = pattern(at + i);
}

static inline void check_pattern(const uint8_t *is, size_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (is[i] != pattern(at + i))
            ck_abort_msg("byte %zu is wrong", at + i);
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

static inline int open_fds(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    ck_assert(folder != NULL);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* ---- the server ------------------------------------------------------------------------------ */

struct peer {
    int listener;
    int fd; /* the newest connection; -1: none */
    SSL_CTX *context;
    SSL *ssl;
    size_t got, sent; /* bytes of this connection */
    unsigned accepted;
    struct sockaddr_un un;
    uint16_t port;
};

static inline void listen_tcp(struct peer *s)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert(s->listener >= 0 && bind(s->listener, (struct sockaddr *)&in, len) == 0 &&
              listen(s->listener, 16) == 0 &&
              getsockname(s->listener, (struct sockaddr *)&in, &len) == 0);
    s->port = ntohs(in.sin_port);
}

static inline void listen_unix(struct peer *s)
{
    const char *base = getenv("TMPDIR");
    s->un = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(s->un.sun_path, sizeof(s->un.sun_path), "%s/wire.%d", base ? base : "/tmp",
             (int)getpid());
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlink(s->un.sun_path);
    ck_assert(s->listener >= 0 &&
              bind(s->listener, (struct sockaddr *)&s->un, sizeof(s->un)) == 0 &&
              listen(s->listener, 16) == 0);
}

static inline void server_drop(struct peer *s)
{
    SSL_free(s->ssl);
    s->ssl = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    ERR_clear_error();
}

/* Drops the connection so that the client gets a reset. */
static inline void server_reset(struct peer *s)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    ck_assert(setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
    server_drop(s);
}

static inline void server_free(struct peer *s)
{
    server_drop(s);
    SSL_CTX_free(s->context);
    if (s->listener >= 0)
        close(s->listener);
    if (*s->un.sun_path)
        (void)unlink(s->un.sun_path);
}

static inline void server_accept(struct peer *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* not of a unix socket */
    server_drop(s);
    s->fd = fd;
    s->got = s->sent = 0;
    s->accepted++;
    if (s->context) {
        s->ssl = SSL_new(s->context);
        ck_assert(s->ssl && SSL_set_fd(s->ssl, fd) == 1);
        SSL_set_accept_state(s->ssl);
    }
}

static inline void server_shake(struct peer *s)
{
    if (s->ssl && !SSL_is_init_finished(s->ssl)) {
        (void)SSL_do_handshake(s->ssl);
        ERR_clear_error();
    }
}

/* Reads up to `room` bytes and checks them. Returns false at the end of the connection. */
static inline bool server_read(struct peer *s, size_t room)
{
    static uint8_t bytes[1 << 16];
    size_t n = 0;
    if (room > sizeof(bytes))
        room = sizeof(bytes);
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
static inline void server_write(struct peer *s, size_t len)
{
    static uint8_t bytes[1 << 16];
    if (len > sizeof(bytes))
        len = sizeof(bytes);
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
    int64_t limit_ns;
    unsigned opened, closed; /* calls */
    size_t sent, got;        /* bytes of this connection */
    size_t got_now, got_max; /* in this iteration; the most in one */
    bool may_call;           /* the wire may call its owner now */
    char reason[DIAL_REASON_SIZE];
    void (*on_opened)(struct bench *b);
    void (*on_received)(struct bench *b);
    void (*on_closed)(struct bench *b);
    void (*move)(struct bench *b);    /* at the end of each iteration */
    bool (*is_done)(struct bench *b); /* the loop stops when it is true */
    struct timer once;
    void (*act)(struct bench *b);
    int64_t give_up_ns;
    struct rng rng;
    unsigned rounds;
    int fds;
    struct pki pki;
    struct tls *tls;
};

static inline void opened(void *arg)
{
    struct bench *b = arg;
    CHECK(b->may_call && wire_is_open(b->wire));
    b->opened++;
    if (b->on_opened)
        b->on_opened(b);
}

static inline void received(void *arg, struct bytes bytes)
{
    struct bench *b = arg;
    CHECK(b->may_call && wire_is_open(b->wire));
    CHECK(bytes.len > 0 && bytes.len <= WIRE_PIECE_MAX);
    check_pattern(bytes.data, b->got, bytes.len);
    b->got += bytes.len;
    b->got_now += bytes.len;
    if (b->got_max < b->got_now)
        b->got_max = b->got_now;
    if (b->on_received)
        b->on_received(b);
}

static inline void closed(void *arg, const char *reason)
{
    struct bench *b = arg;
    CHECK(b->may_call && wire_is_closed(b->wire) && !wire_is_open(b->wire));
    CHECK(wire_queued(b->wire) == 0);
    CHECK(*reason);
    b->closed++;
    snprintf(b->reason, sizeof(b->reason), "%s", reason);
    if (b->on_closed)
        b->on_closed(b);
}

static const struct wire_calls calls = {opened, received, closed};

static inline int64_t on_end(void *arg)
{
    struct bench *b = arg;
    unsigned long countdown = fault_countdown;
    fault_countdown = 0;
    b->got_now = 0;
    server_accept(&b->server);
    server_shake(&b->server);
    if (b->move)
        b->move(b);
    CHECK(clock_mono_ns() < b->give_up_ns); /* nothing comes any more */
    if (b->is_done(b))
        loop_stop(b->reactor.loop);
    loop_soon(b->reactor.loop);
    fault_countdown = countdown;
    return reactor_end(&b->reactor);
}

static inline int64_t on_once(struct timer *timer, struct moment now)
{
    struct bench *b = container_of(timer, struct bench, once);
    (void)now;
    b->act(b);
    return DEADLINE_NONE;
}

static inline void bench_make(struct bench *b, enum transport transport)
{
    signal(SIGPIPE, SIG_IGN); /* like the daemon */
    *b = (struct bench){.limit_ns = LONG_NS, .server = {.listener = -1, .fd = -1}};
    b->fds = open_fds();
    struct loop_handlers handlers = reactor_default;
    handlers.end = on_end;
    ck_assert(reactor_init(&b->reactor, &handlers));
    b->once.run = on_once;
    ck_assert(reactor_add_timer(&b->reactor, &b->once, DEADLINE_NONE));
    if (transport == TRANSPORT_UNIX)
        listen_unix(&b->server);
    else
        listen_tcp(&b->server);
    if (transport == TRANSPORT_TLS) {
        char reason[TLS_REASON_SIZE] = "";
        enum tls_file wrong;
        pki_make(&b->pki);
        b->server.context = SSL_CTX_new(TLS_server_method());
        SSL_CTX_set_mode(b->server.context,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        ck_assert(SSL_CTX_use_certificate_chain_file(b->server.context,
                                                     pki_path(&b->pki, "server.crt")) == 1 &&
                  SSL_CTX_use_PrivateKey_file(b->server.context, pki_path(&b->pki, "server.key"),
                                              SSL_FILETYPE_PEM) == 1);
        b->tls = tls_client_new(&(struct tls_client_config){.ca = pki_path(&b->pki, "ca.crt")},
                                &wrong, reason);
        ck_assert_msg(b->tls != NULL, "%s", reason);
    }
    b->target = (struct dial_target){.transport = transport,
                                     .host = "127.0.0.1",
                                     .port = b->server.port,
                                     .path = b->server.un.sun_path,
                                     .tls = b->tls};
    b->wire = wire_new(&b->reactor, QUEUE_MAX, &calls, b);
    ck_assert(b->wire && wire_is_closed(b->wire));
}

/* Checks that the wire has given back everything. */
static inline void bench_free(struct bench *b)
{
    wire_free(&b->wire);
    ck_assert_ptr_null(b->wire);
    server_free(&b->server);
    tls_free(&b->tls);
    if (*b->pki.folder)
        pki_remove(&b->pki);
    reactor_remove_timer(&b->reactor, &b->once);
    ck_assert_uint_eq(b->reactor.deadlines.count, 0);
    ck_assert_uint_eq(b->reactor.deadlines.reserved, 0);
    reactor_free(&b->reactor);
    ck_assert_int_eq(open_fds(), b->fds);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

static inline void bench_open(struct bench *b)
{
    bool might = b->may_call;
    b->may_call = false;
    b->sent = b->got = 0;
    b->reactor.now = clock_now();
    wire_open(b->wire, &b->target, b->limit_ns);
    CHECK(!wire_is_open(b->wire) && !wire_is_closed(b->wire));
    b->may_call = might;
}

static inline void bench_send(struct bench *b, size_t len)
{
    static uint8_t bytes[1 << 16];
    bool might = b->may_call;
    CHECK(len <= sizeof(bytes));
    b->may_call = false;
    fill(bytes, b->sent, len);
    wire_send(b->wire, bytes_at(bytes, len));
    b->sent += len;
    b->may_call = might;
}

/* Runs until `is_done`. */
static inline void run(struct bench *b, bool (*is_done)(struct bench *b))
{
    b->is_done = is_done;
    b->give_up_ns = clock_mono_ns() + PATIENCE_NS;
    b->may_call = true;
    loop_soon(b->reactor.loop);
    loop_run(b->reactor.loop);
    b->may_call = false;
}

/* Calls `act` in an iteration, by a timer, and runs until `is_done`. */
static inline void run_act(struct bench *b, void (*act)(struct bench *b),
                           bool (*is_done)(struct bench *b))
{
    b->act = act;
    reactor_set_timer(&b->reactor, &b->once, clock_mono_ns());
    run(b, is_done);
}

static inline bool is_open(struct bench *b)
{
    return b->opened > 0 && b->server.fd >= 0;
}

static inline bool has_closed(struct bench *b)
{
    return b->closed > 0;
}

static inline bool after_rounds(struct bench *b)
{
    return b->rounds-- == 0;
}

static inline void let_pass(struct bench *b, unsigned rounds)
{
    b->rounds = rounds;
    run(b, after_rounds);
}

static inline void bench_connect(struct bench *b)
{
    bench_open(b);
    run(b, is_open);
    ck_assert_uint_eq(b->opened, 1);
}

#endif
