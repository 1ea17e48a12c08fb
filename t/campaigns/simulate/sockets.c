/*
 * sockets.c - sessions over real sockets while system calls are difficult, or the TLS library's
 * memory fails.
 *
 *     sockets io [--seed N] [--sessions N] [--trouble KIND]    calls are interrupted, not ready, or
 *                                                              move one byte; answers stay the same
 *     sockets tls [--seed N] [--fail-at K]                     allocation K of OpenSSL fails, for
 *                                                              each K
 *
 * The program runs the real server in one thread: worker, loop, listeners, connections, services,
 * TLS. It intercepts the server's system calls (--wrap). Clients act when the worker would wait,
 * one at a time: the next one when all answers of the model have arrived. So the order of requests
 * is known, and every byte of every session. Each run (one seed) has its own server and sessions,
 * over TCP, TLS and a unix socket. Some connections are lost: reading fails.
 *
 * epoll reports arrived bytes of a TCP connection only once (net/input.c). So after a short read or
 * EAGAIN that this program made up, it must notify the worker again, as if the rest came later:
 * `tell_again`.
 */
#include "net/listener.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "t/campaigns/simulate/unchecked.h"
#include "t/models/locks.h"

#include "base/log.h"

#include "t/unit/net/secure.h"
#include "t/unit/random.h"
#include "t/unit/serving.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#define SESSIONS   16 /* in one run */
#define OPEN_MOST  6
#define NAMES      6
#define FDS        1024
#define PATIENCE_S 60

/* ---- state -------------------------------------------------------------------------------- */

enum trouble { TROUBLE_NONE, TROUBLE_INTERRUPTED, TROUBLE_AGAIN, TROUBLE_ONE_BYTE };

static struct rng rng;
static uint64_t seed;
static bool in_server;
static bool memory_fails; /* true for `tls`: a TLS session may end at any time */
static struct {
    unsigned one_in; /* 0: none */
    unsigned only;   /* this kind; 0: any */
    uint64_t calls, made;
} troubles;

static struct {
    uint64_t runs, sessions, requests, secure, lost;
} sums;
static uint64_t said; /* bytes of this run's requests */

static _Noreturn void give_up(int line, const char *format, ...)
{
    va_list args;
    in_server = false;
    fprintf(stderr, "sockets.c:%d: seed %" PRIu64 ": ", line, seed);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            give_up(__LINE__, #condition " " __VA_ARGS__);                                         \
    } while (0)

/* ---- clocks: the wall clock stands still, so no interval ends ------------------------------- */

int64_t clock_mono_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

struct moment clock_now(void)
{
    return (struct moment){.mono_ns = clock_mono_ns(), .unix_s = 1700000000};
}

int64_t clock_unix_ns(void)
{
    return 1700000000 * NS_PER_S;
}

/* ---- the server's system calls -------------------------------------------------------------- */

ssize_t __real_recv(int fd, void *to, size_t room, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t room, int flags);
ssize_t __real_write(int fd, const void *from, size_t len);
ssize_t __wrap_write(int fd, const void *from, size_t len);
ssize_t __real_writev(int fd, const struct iovec *pieces, int count);
ssize_t __wrap_writev(int fd, const struct iovec *pieces, int count);
int __real_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms);
int __wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int room,
                        const struct timespec *timeout, const sigset_t *mask);

/* The next read of LOST_BYTE fails for good. */
static bool doom;
#define LOST_BYTE '!'

/* The watched descriptors, and the ones to notify again. */
static struct {
    struct epoll_event event;
    bool watched, again;
} watches[FDS];

/* Chooses the trouble for this call, among these kinds (bits). */
static enum trouble befall(unsigned kinds)
{
    if (!in_server)
        return TROUBLE_NONE;
    troubles.calls++;
    if (!troubles.one_in || !rng_one_in(&rng, troubles.one_in))
        return TROUBLE_NONE;
    enum trouble kind = (enum trouble)(troubles.only ? troubles.only : 1 + rng_below(&rng, 3));
    if (!(kinds & 1u << kind))
        return TROUBLE_NONE;
    troubles.made++;
    return kind;
}

#define INTERRUPTED (1u << TROUBLE_INTERRUPTED)
#define AGAIN       (1u << TROUBLE_AGAIN)
#define ONE_BYTE    (1u << TROUBLE_ONE_BYTE)

/* The result of a call that did nothing. */
static int in_vain(enum trouble kind)
{
    errno = kind == TROUBLE_INTERRUPTED ? EINTR : EAGAIN;
    return -1;
}

static void tell_again(int fd)
{
    EXPECT(fd >= 0 && fd < FDS);
    watches[fd].again = true;
}

ssize_t __wrap_recv(int fd, void *to, size_t room, int flags)
{
    uint8_t first = 0;
    if (in_server && doom && __real_recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
        first == LOST_BYTE) {
        doom = false;
        errno = ECONNRESET;
        return -1;
    }
    enum trouble kind = befall(INTERRUPTED | AGAIN | ONE_BYTE);
    if (kind == TROUBLE_AGAIN || kind == TROUBLE_ONE_BYTE)
        tell_again(fd);
    if (kind == TROUBLE_INTERRUPTED || kind == TROUBLE_AGAIN)
        return in_vain(kind);
    return __real_recv(fd, to, kind == TROUBLE_ONE_BYTE ? 1 : room, flags);
}

/* A worker's eventfd is no socket: it takes its eight bytes at once. */
ssize_t __wrap_write(int fd, const void *from, size_t len)
{
    bool is_socket = isfdtype(fd, S_IFSOCK) == 1;
    enum trouble kind = befall(INTERRUPTED | (is_socket ? AGAIN | ONE_BYTE : 0));
    if (kind == TROUBLE_INTERRUPTED || kind == TROUBLE_AGAIN)
        return in_vain(kind);
    return __real_write(fd, from, kind == TROUBLE_ONE_BYTE ? 1 : len);
}

ssize_t __wrap_writev(int fd, const struct iovec *pieces, int count)
{
    enum trouble kind = befall(INTERRUPTED | AGAIN | ONE_BYTE);
    if (kind == TROUBLE_INTERRUPTED || kind == TROUBLE_AGAIN)
        return in_vain(kind);
    if (kind == TROUBLE_ONE_BYTE)
        return __real_write(fd, pieces->iov_base, 1);
    return __real_writev(fd, pieces, count);
}

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
    enum trouble kind = befall(INTERRUPTED | AGAIN);
    return kind ? in_vain(kind) : __real_accept4(fd, from, len, flags);
}

/* The descriptor is closed in any case. */
int __wrap_close(int fd)
{
    enum trouble kind = befall(INTERRUPTED);
    if (in_server && fd >= 0 && fd < FDS)
        watches[fd].watched = watches[fd].again = false;
    int closed = __real_close(fd);
    return kind ? in_vain(kind) : closed;
}

int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event)
{
    if (in_server && fd < FDS) {
        watches[fd].watched = what != EPOLL_CTL_DEL;
        if (event)
            watches[fd].event = *event;
    }
    return __real_epoll_ctl(epoll_fd, what, fd, event);
}

static void tell_again_now(int epoll_fd)
{
    for (int fd = 0; fd < FDS; fd++) {
        if (watches[fd].again && watches[fd].watched)
            EXPECT(__real_epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &watches[fd].event) == 0);
        watches[fd].again = false;
    }
}

static bool let_clients_act(void);

/* Like epoll_wait, but lets clients act before it would wait. */
static int await(int epoll_fd, struct epoll_event *events, int room, bool wait)
{
    enum trouble kind = befall(INTERRUPTED);
    if (kind)
        return in_vain(kind);
    in_server = false;
    /* The next connection would report a leftover error as its own. */
    EXPECT(ERR_peek_error() == 0, ": the queue of errors was not emptied");
    tell_again_now(epoll_fd);
    int n = __real_epoll_wait(epoll_fd, events, room, 0);
    int64_t until_ns = clock_mono_ns() + PATIENCE_S * NS_PER_S;
    for (unsigned looks = 0; n == 0 && wait; looks++) {
        if (let_clients_act()) {
            until_ns = clock_mono_ns() + PATIENCE_S * NS_PER_S;
            looks = 0;
        }
        EXPECT(clock_mono_ns() < until_ns, ": something has got lost");
        /* Sent bytes usually arrive at once. */
        n = __real_epoll_wait(epoll_fd, events, room, looks < 100 ? 0 : 1);
    }
    ERR_clear_error(); /* errors of the clients */
    in_server = true;
    return n;
}

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms)
{
    return await(epoll_fd, events, room, timeout_ms != 0);
}

static bool old_kernel; /* it has no epoll_pwait2, so timeouts are in milliseconds */

int __wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int room,
                        const struct timespec *timeout, const sigset_t *mask)
{
    (void)mask;
    if (old_kernel) {
        errno = ENOSYS;
        return -1;
    }
    return await(epoll_fd, events, room, !timeout || timeout->tv_sec || timeout->tv_nsec);
}

/* ---- OpenSSL's memory ----------------------------------------------------------------------- */

static uint64_t pieces, fail_at;
static long pieces_live;

static bool refuse_piece(void)
{
    return in_server && ++pieces == fail_at;
}

static void *ssl_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    void *at = refuse_piece() ? NULL : malloc(size);
    pieces_live += at != NULL;
    return at;
}

static void *ssl_realloc(void *from, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    void *at = refuse_piece() ? NULL : realloc(from, size);
    pieces_live += at && !from;
    return at;
}

static void ssl_free(void *at, const char *file, int line)
{
    (void)file;
    (void)line;
    pieces_live -= at != NULL;
    free(at);
}

/* ---- the server ------------------------------------------------------------------------------ */

enum door { TEXT_TCP, BINARY_TCP, TEXT_UNIX, BINARY_UNIX, TEXT_TLS, BINARY_TLS, DOORS };

static struct server server;
static struct services *services;
static struct listener doors[DOORS];
static struct acceptor *acceptor;
static struct pki pki;
static struct tls_config tls_config = {.min_version = TLS_VERSION_1_2};
static SSL_CTX *client_context;

static void set_up(void)
{
    char reason[TLS_REASON_SIZE];
    struct tls *tls = tls_new(&tls_config, reason);
    CHECK(tls);
    const struct rules_config rules_config = {
        .limits = {.output_buffer = 65536,
                   .request_timeout_ns = 600 * NS_PER_S,
                   .write_timeout_ns = 600 * NS_PER_S,
                   .handshake_timeout_ns = 600 * NS_PER_S},
        .tls = tls,
    };
    const struct serving_config config = {
        .table = {.buckets = 100,
                  .memory_limit = (size_t)16 << 20,
                  .stats_interval_s = 86400,
                  .hash_key = {.k0 = 1, .k1 = 2}},
        .poolcounter_max_locks = MODEL_LOCKS,
        .poolcounter_max_line = 8192,
    };
    struct sockaddr_in any_port = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    services = serving_make(&server, 1, &rules_config, &config);
    for (unsigned i = 0; i < DOORS; i++) {
        struct protocol *p = services_protocol(services, i % 2 ? "counter" : "poolcounter");
        char path[128];
        snprintf(path, sizeof(path), "%s/%u.sock", pki.folder, i);
        if (i == TEXT_UNIX || i == BINARY_UNIX)
            CHECK(listener_open_unix(&doors[i], p, path, 0600));
        else
            CHECK(listener_open(&doors[i], p, (struct sockaddr *)&any_port, sizeof(any_port),
                                i >= TEXT_TLS));
    }
    acceptor = acceptor_new(server.workers[0], doors, DOORS);
    CHECK(acceptor);
}

static void tear_down(void)
{
    acceptor_free(&acceptor);
    for (unsigned i = 0; i < DOORS; i++)
        listener_close(&doors[i]);
    serving_free(&server, &services);
    memset(&server, 0, sizeof(server));
}

/* ---- sessions -------------------------------------------------------------------------------- */

struct session {
    struct model_client has;
    bool made, open, shaking, over; /* over: closed by either side */
    bool text, awaits_end;
    enum door door;
    int fd;
    SSL *ssl;
    uint32_t requests;
    uint8_t *expected;
    size_t expected_len, expected_room, received;
};

static struct session sessions[SESSIONS];
static unsigned made, most;
static struct model model;
static struct bytes names[NAMES];

static void expect_bytes(struct session *s, const void *bytes, size_t len)
{
    if (s->expected_len + len > s->expected_room) {
        s->expected_room = (s->expected_len + len) * 2;
        s->expected = realloc(s->expected, s->expected_room);
        CHECK(s->expected);
    }
    memcpy(s->expected + s->expected_len, bytes, len);
    s->expected_len += len;
}

static void expect_word(struct session *s, enum pc_reply word)
{
    if (word == PC_REPLY_COUNT)
        return;
    struct bytes line = pc_reply_line(word);
    expect_bytes(s, line.data, line.len);
}

/* Waiters woken by the last request are notified at once. */
static void expect_verdicts(void)
{
    for (unsigned i = 0; i < made; i++) {
        enum model_wait_state state = sessions[i].has.wait.state;
        if (state == WAIT_GRANTED || state == WAIT_DONE)
            expect_word(&sessions[i], model_note_word(&model, &sessions[i].has));
    }
}

/* ---- what clients do ------------------------------------------------------------------------- */

static void end_session(struct session *s)
{
    if (s->over)
        return;
    s->over = true;
    model_client_close(&model, &s->has);
    expect_verdicts();
}

static void close_socket(struct session *s)
{
    SSL_free(s->ssl);
    s->ssl = NULL;
    if (s->fd >= 0)
        __real_close(s->fd);
    s->fd = -1;
    s->open = false;
}

/*
 * Receives, with or without TLS. Returns 0 at the end, -1 when there is nothing now, -2 after a
 * reset.
 */
static ssize_t take(struct session *s, uint8_t *to, size_t room)
{
    if (!s->ssl) {
        ssize_t n = __real_recv(s->fd, to, room, MSG_DONTWAIT);
        return n >= 0 ? n : errno == EAGAIN ? -1 : -2;
    }
    ERR_clear_error();
    int n = SSL_read(s->ssl, to, (int)room);
    if (n > 0)
        return n;
    int why = SSL_get_error(s->ssl, n);
    return why == SSL_ERROR_WANT_READ     ? -1
           : why == SSL_ERROR_ZERO_RETURN ? 0
           : memory_fails                 ? -2
                                          : 0;
}

/* Compares what a session has received. */
static void compare(struct session *s, const uint8_t *in, size_t n)
{
    EXPECT(s->received + n <= s->expected_len && memcmp(s->expected + s->received, in, n) == 0,
           ": session %td was answered \"%.*s\" at %zu of %zu, not \"%.*s\"", s - sessions, (int)n,
           (const char *)in, s->received, s->expected_len, (int)(s->expected_len - s->received),
           (const char *)s->expected + s->received);
    s->received += n;
}

/* Reads all that has arrived. Returns true when the answers are complete. */
static bool is_answered(struct session *s)
{
    uint8_t in[4096];
    if (s->shaking) {
        ERR_clear_error();
        int n = SSL_do_handshake(s->ssl);
        if (n != 1 && SSL_get_error(s->ssl, n) == SSL_ERROR_WANT_READ)
            return false;
        s->shaking = false;
        EXPECT(n == 1 || memory_fails, ": no handshake");
        if (n != 1) {
            sums.lost++;
            end_session(s);
            close_socket(s);
            return true;
        }
    }
    ssize_t n;
    while ((n = take(s, in, sizeof(in))) > 0)
        compare(s, in, (size_t)n);
    if (n == -1)
        return s->received == s->expected_len && !s->awaits_end;
    /* The connection has ended. */
    EXPECT(s->awaits_end || memory_fails, ": session %td was closed", s - sessions);
    EXPECT(s->received == s->expected_len || memory_fails, ": session %td: an answer is missing",
           s - sessions);
    sums.lost += !s->awaits_end;
    end_session(s);
    close_socket(s);
    return true;
}

static void say(struct session *s, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t part = rng_one_in(&rng, 4) ? 1 + rng_below(&rng, (uint32_t)len) : len;
        ssize_t n =
            s->ssl ? SSL_write(s->ssl, bytes, (int)part) : send(s->fd, bytes, part, MSG_NOSIGNAL);
        EXPECT(n > 0 || memory_fails, ": a client can't send");
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
        said += (size_t)n;
    }
}

static struct bytes name_of(unsigned n)
{
    return bytes_at(names[n].data, names[n].len);
}

/* With failing memory a session may be lost at any time, so each has names of its own. */
static unsigned some_name(const struct session *s)
{
    return memory_fails ? (unsigned)(s - sessions) * 3 + rng_below(&rng, 3)
                        : rng_below(&rng, NAMES);
}

static size_t text_request(struct session *s, uint8_t *to, size_t room)
{
    unsigned n = some_name(s);
    struct pc_request req = {.verb = PC_RELEASE, .key = name_of(n)};
    if (rng_one_in(&rng, 2)) {
        req.verb = rng_one_in(&rng, 3) ? PC_ACQ4ANY : PC_ACQ4ME;
        req.workers = 1 + rng_below(&rng, 3);
        req.maxqueue = rng_one_in(&rng, 4) ? 1 + rng_below(&rng, 4) : 1000;
        req.timeout_ns = rng_one_in(&rng, 4) ? 0 : 10000 * NS_PER_S;
        const struct model_acquire a = {
            .name = n,
            .units = 1,
            .limit = req.workers,
            .queue_max = req.maxqueue,
            .wait = req.timeout_ns == 0      ? WAIT_NO
                    : req.verb == PC_ACQ4ANY ? WAIT_ANY
                                             : WAIT_ME,
        };
        expect_word(s, model_lock(&model, &s->has, &a));
    } else {
        if (rng_one_in(&rng, 3))
            req.key.len = 0;
        struct model_words words =
            model_unlock_name(&model, &s->has, req.key.len ? n : MODEL_NEWEST);
        expect_verdicts();
        expect_word(s, words.word[0]);
    }
    return pc_compose_request(&req, to, room);
}

static size_t binary_request(struct session *s, uint8_t *to, size_t room)
{
    static const uint8_t opcodes[] = {CTR_NOOP, CTR_GET, CTR_ACQUIRE, CTR_ACQUIRE, CTR_RELEASE};
    unsigned n = some_name(s);
    uint8_t reply[CTR_REPLY_ROOM];
    struct ctr_request req = {.opcode = opcodes[rng_below(&rng, sizeof(opcodes))],
                              .units = 1 + rng_below(&rng, 2),
                              .maximum = 4,
                              .name = name_of(n)};
    uint64_t opaque = rng_next(&rng);
    memcpy(req.opaque, &opaque, sizeof(req.opaque));
    enum ctr_status status = CTR_STATUS_SUCCESS;
    uint32_t number = req.units;
    if (req.opcode == CTR_GET) {
        status = model_exists(&model, n) ? CTR_STATUS_SUCCESS : CTR_STATUS_NOT_FOUND;
        number = model.names[n].consumption;
    } else if (req.opcode == CTR_ACQUIRE) {
        const struct model_acquire a = {
            .name = n, .units = req.units, .limit = req.maximum, .keep = true};
        if (model_acquire(&model, &s->has.holder, &a, NULL) != TABLE_OK)
            status = CTR_STATUS_NOT_AVAILABLE;
    } else if (req.opcode == CTR_RELEASE) {
        enum table_status released = model_release(&model, &s->has.holder, n, req.units);
        expect_verdicts();
        status = released == TABLE_OK          ? CTR_STATUS_SUCCESS
                 : released == TABLE_NOT_FOUND ? CTR_STATUS_NOT_FOUND
                                               : CTR_STATUS_NOT_ACQUIRED;
    }
    bool tells_number = req.opcode == CTR_GET || req.opcode == CTR_ACQUIRE;
    size_t len = status == CTR_STATUS_SUCCESS && tells_number
                     ? ctr_compose_number(req.opcode, req.opaque, number, reply)
                     : ctr_compose_status(req.opcode, req.opaque, status, reply);
    expect_bytes(s, reply, len);
    return ctr_compose_request(&req, to, room);
}

/* Sends a few requests at once, sometimes very many. */
static void request(struct session *s)
{
    static uint8_t bytes[256 * 128];
    size_t len = 0;
    unsigned most_now = rng_one_in(&rng, 30) ? 250 : 1 + rng_below(&rng, 6);
    for (unsigned i = most_now; i > 0; i--) {
        len += s->text ? text_request(s, bytes + len, sizeof(bytes) - len)
                       : binary_request(s, bytes + len, sizeof(bytes) - len);
        sums.requests++;
        s->requests++;
    }
    say(s, bytes, len);
}

static void open_session(void)
{
    struct session *s = &sessions[made++];
    struct sockaddr_storage to;
    socklen_t len = sizeof(to);
    enum door door = (enum door)rng_below(&rng, rng_one_in(&rng, 4) ? TEXT_TLS : TEXT_UNIX);
    if (memory_fails || rng_one_in(&rng, 24))
        door = (enum door)(TEXT_TLS + rng_below(&rng, 2));
    *s = (struct session){.made = true, .open = true, .door = door, .text = door % 2 == 0};
    CHECK(getsockname(doors[door].fd, (struct sockaddr *)&to, &len) == 0);
    s->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(s->fd >= 0 && connect(s->fd, (struct sockaddr *)&to, len) == 0, ": can't connect");
    const int on = 1; /* else Nagle's algorithm delays parts of a request */
    if (door < TEXT_UNIX || door >= TEXT_TLS)
        CHECK(setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    sums.sessions++;
    if (door < TEXT_TLS)
        return;
    sums.secure++;
    s->ssl = SSL_new(client_context);
    CHECK(s->ssl && SSL_set_fd(s->ssl, s->fd) == 1);
    CHECK(fcntl(s->fd, F_SETFL, O_NONBLOCK) == 0);
    SSL_set_connect_state(s->ssl);
    s->shaking = true;
    (void)SSL_do_handshake(s->ssl);
    ERR_clear_error();
}

static void leave(struct session *s)
{
    const struct linger now = {.l_onoff = 1};
    switch (rng_below(&rng, 4)) {
    case 0: /* shuts down its sending side, and reads the end */
        s->awaits_end = true;
        CHECK(shutdown(s->fd, SHUT_WR) == 0 || memory_fails);
        end_session(s);
        break;
    case 1:
        (void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        __attribute__((fallthrough));
    default:
        end_session(s);
        close_socket(s);
    }
}

/* Loses a connection without TLS, in the midst of a session. */
static void lose(struct session *s)
{
    static const uint8_t lost = LOST_BYTE;
    doom = true;
    EXPECT(send(s->fd, &lost, 1, MSG_NOSIGNAL) == 1);
    sums.lost++;
    s->awaits_end = true;
    end_session(s);
}

static unsigned open_now(void)
{
    unsigned open = 0;
    for (unsigned i = 0; i < made; i++)
        open += sessions[i].open;
    return open;
}

static struct session *some_session(void)
{
    unsigned at = rng_below(&rng, made);
    while (!sessions[at].open)
        at = (at + 1) % made;
    return &sessions[at];
}

/*
 * Makes the clients' next step when the last one is complete: all requests and answers have
 * arrived, and the server knows of all ends and new connections. Returns false if it is not.
 */
static bool let_clients_act(void)
{
    bool all = true;
    for (unsigned i = 0; i < made; i++) {
        if (sessions[i].open)
            all = is_answered(&sessions[i]) && all;
    }
    EXPECT(!all || memory_fails || !doom || worker_connections(server.workers[0]) != open_now());
    unsigned open = open_now();
    uint64_t heard = 0;
    for (unsigned i = 0; i < services_count(services); i++)
        heard += service_received(services_at(services, i));
    if (!all || (heard != said && !memory_fails) || worker_connections(server.workers[0]) != open)
        return false;
    if (open == 0 && made == most) {
        loop_ring(worker_reactor(server.workers[0])->loop); /* wakes the worker, so that it ends */
        loop_stop(worker_reactor(server.workers[0])->loop);
    } else if (open == 0 || (made < most && open < OPEN_MOST && rng_one_in(&rng, 3))) {
        open_session();
    } else {
        struct session *s = some_session();
        if (!memory_fails && s->requests > 3 && !s->ssl && rng_one_in(&rng, 24))
            lose(s);
        else if (s->requests > 3 && rng_one_in(&rng, 4))
            leave(s);
        else
            request(s);
    }
    return true;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void run(uint64_t with_seed, unsigned how_many)
{
    static char texts[NAMES][16];
    seed = with_seed;
    rng = (struct rng){.state = seed};
    memset(watches, 0, sizeof(watches));
    made = 0;
    said = 0;
    most = how_many;
    for (unsigned n = 0; n < NAMES; n++) {
        snprintf(texts[n], sizeof(texts[n]), "name-%u", n);
        names[n] = bytes_at(texts[n], strlen(texts[n]));
    }
    doom = false;
    in_server = !memory_fails;
    set_up();
    in_server = true;
    if (!memory_fails) {
        static const unsigned often[] = {2, 3, 5, 10, 50};
        troubles.one_in = troubles.one_in ? often[rng_below(&rng, ARRAY_SIZE(often))] : 0;
        old_kernel = rng_one_in(&rng, 8);
    }
    loop_run(worker_reactor(server.workers[0])->loop);
    struct table_stats stats;
    table_get_stats(services->table, clock_now(), &stats);
    EXPECT(stats.units == 0 && stats.holdings == 0 && stats.waiting == 0, ": something is held");
    table_check(services->table);
    tear_down();
    in_server = false;
    for (unsigned i = 0; i < made; i++)
        free(sessions[i].expected);
    model_free(&model);
    sums.runs++;
}

static void torture_io(uint64_t first_seed, uint64_t how_many)
{
    while (sums.sessions < how_many)
        run(first_seed++, SESSIONS);
    printf("io: %" PRIu64 " runs, %" PRIu64 " sessions (%" PRIu64 " over TLS), %" PRIu64
           " requests; %" PRIu64 " of %" PRIu64 " calls troubled, %" PRIu64
           " connections lost; all others answered alike\n",
           sums.runs, sums.sessions, sums.secure, sums.requests, troubles.made, troubles.calls,
           sums.lost);
}

/*
 * A run of two sessions for each allocation of OpenSSL since the server's start, which then fails.
 */
static void torture_tls(uint64_t with_seed, uint64_t only, uint64_t every)
{
    memory_fails = true;
    for (unsigned i = 0; i < 2; i++) { /* objects that the library keeps exist after one run */
        pieces = 0;
        run(with_seed, 2);
    }
    uint64_t all = pieces;
    long live = pieces_live; /* plus one for each place in the queue of errors */
    for (fail_at = only ? only : 1 + with_seed % every; fail_at <= (only ? only : all);
         fail_at += every) {
        pieces = 0;
        run(with_seed, 2);
        EXPECT(ERR_peek_error() == 0, ": the queue of errors was not emptied at the end");
        EXPECT(pieces_live <= live + ERR_NUM_ERRORS,
               ": piece %" PRIu64 ": %ld pieces were not freed", fail_at, pieces_live - live);
    }
    printf("tls: %" PRIu64 " runs, %" PRIu64 " sessions, %" PRIu64 " requests; one in %" PRIu64
           " of %" PRIu64 " pieces of OpenSSL's refused; %" PRIu64 " sessions were closed for it\n",
           sums.runs, sums.sessions, sums.requests, every, all, sums.lost);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "io";
    uint64_t first_seed = random_seed() >> 32, how_many = 100000, only = 0, every = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        uint64_t number = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--seed") == 0)
            first_seed = number;
        else if (strcmp(argv[i], "--sessions") == 0)
            how_many = number;
        else if (strcmp(argv[i], "--trouble") == 0)
            troubles.only = (unsigned)number;
        else if (strcmp(argv[i], "--fail-at") == 0)
            only = number;
        else if (strcmp(argv[i], "--every") == 0 && number > 0)
            every = number;
        else
            return 2;
    }
    bool io = strcmp(what, "io") == 0;
    CHECK(io || CRYPTO_set_mem_functions(ssl_malloc, ssl_realloc, ssl_free) == 1);
    printf("%s: seed %" PRIu64 "\n", what, first_seed);
    fflush(stdout);
    log_set_level(LOG_LEVEL_ERROR);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    pki_make(&pki);
    tls_config.cert = tls_config.key = pki_path(&pki, "both.pem");
    client_context = SSL_CTX_new(TLS_client_method());
    CHECK(client_context);
    troubles.one_in = io;
    if (io)
        torture_io(first_seed, how_many);
    else
        torture_tls(first_seed, only, every);
    SSL_CTX_free(client_context);
    pki_remove(&pki);
    return 0;
}
