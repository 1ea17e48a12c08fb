/*
 * toy.h - a server of real workers that speaks a small protocol of lines, and clients to talk to
 * it.
 *
 * The requests, one in each line unless noted otherwise, and their answers:
 *
 *     eTEXT      TEXT
 *     bN         N bytes of toy_pattern
 *     dN         the lines 0 to N-1 and "end", a few at a time, paused between them
 *     i          "ID TAG", in hexadecimal
 *     f          "bye", and finishes
 *     anything   "?"
 *
 * A line that is too long gets "too long", and finishes.
 */
#ifndef TOY_H
#define TOY_H

#include "net/listener.h"
#include "net/worker_internal.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- time ------------------------------------------------------------------------------------ */

/* The longest time that anything may take before a test gives up. It only ends hangs. */
#define PATIENCE_NS (120 * NS_PER_S)

static inline void pause_ns(int64_t ns)
{
    struct timespec ts = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    (void)nanosleep(&ts, NULL);
}

/* Polls until `cond` is true. */
#define WAIT_UNTIL(cond)                                                                           \
    do {                                                                                           \
        int64_t give_up_ns_ = clock_mono_ns() + PATIENCE_NS;                                       \
        while (!(cond)) {                                                                          \
            ck_assert_msg(clock_mono_ns() < give_up_ns_, "never came true: %s", #cond);            \
            pause_ns(NS_PER_MS / 4);                                                               \
        }                                                                                          \
    } while (0)

/* ---- the protocol ---------------------------------------------------------------------------- */

#define TOY_WORKERS  4
#define TOY_LINE_MAX 1024
#define TOY_PATTERN  (1u << 20)

static uint8_t toy_pattern[TOY_PATTERN];

/* The service of the protocol. */
struct toy {
    _Atomic unsigned opened, ended;
    _Atomic uint64_t last_tag; /* tag of the newest connection */
    /* Called with each line before the service handles it; may be NULL. */
    void (*seen)(struct conn *conn, const char *line);
};

struct toy_session {
    uint8_t zero[64];
    bool open;
    unsigned dump_at, dump_end;
};

static inline struct toy *toy_of(struct conn *conn)
{
    return conn_protocol(conn)->service;
}

static inline void toy_open(struct conn *conn)
{
    struct toy_session *session = conn_session(conn);
    static const struct toy_session zeroed;
    CHECK(memcmp(session, &zeroed, sizeof(zeroed)) == 0);
    session->open = true;
    atomic_store(&toy_of(conn)->last_tag, conn_tag(conn));
    atomic_fetch_add(&toy_of(conn)->opened, 1);
}

static inline void toy_close(struct conn *conn)
{
    struct toy_session *session = conn_session(conn);
    CHECK(session->open); /* once, and after open */
    session->open = false;
    atomic_fetch_add(&toy_of(conn)->ended, 1);
}

static inline bool toy_resume(struct conn *conn)
{
    struct toy_session *session = conn_session(conn);
    CHECK(session->open);
    for (int i = 0; i < 100 && session->dump_at < session->dump_end; i++) {
        if (conn_is_full(conn))
            break;
        char *room = conn_reply_room(conn, 16);
        int len = snprintf(room, 16, "%u\n", session->dump_at++);
        conn_replied(conn, (size_t)len);
    }
    if (session->dump_at < session->dump_end)
        return false;
    conn_reply(conn, "end\n", 4);
    return true;
}

static inline enum served toy_finish(struct conn *conn, const char *text)
{
    conn_reply(conn, text, strlen(text));
    conn_finish(conn, CLOSE_PROTOCOL);
    return SERVED_LAST;
}

static inline void toy_reply_text(struct conn *conn, const char *text)
{
    conn_reply(conn, text, strlen(text));
    conn_reply(conn, "\n", 1);
}

/* Handles one line; its first character selects the request. */
static inline enum served toy_line(struct conn *conn, const char *line)
{
    struct toy_session *session = conn_session(conn);
    char text[64];
    switch (line[0]) {
    case 'e':
        toy_reply_text(conn, line + 1);
        return SERVED;
    case 'b':
        conn_reply(conn, toy_pattern, strtoul(line + 1, NULL, 10));
        return SERVED;
    case 'd':
        session->dump_at = 0;
        session->dump_end = (unsigned)strtoul(line + 1, NULL, 10);
        return SERVED_PIECES;
    case 'i':
        snprintf(text, sizeof(text), "%x %llx", conn_id(conn), (unsigned long long)conn_tag(conn));
        toy_reply_text(conn, text);
        return SERVED;
    case 'f':
        return toy_finish(conn, "bye\n");
    default:
        toy_reply_text(conn, "?");
        return SERVED;
    }
}

/* A request; its text stays in the receive buffer. */
struct toy_request {
    const uint8_t *text;
    size_t len; /* without a line end */
    bool is_too_long;
};

static inline enum parsed toy_parse(struct conn *conn, const uint8_t *data, size_t len, void *to,
                                    size_t *used_r)
{
    const struct toy_session *session = conn_session(conn);
    struct toy_request *request = to;
    CHECK(session->open && len > 0);
    const uint8_t *end = memchr(data, '\n', len < TOY_LINE_MAX ? len : TOY_LINE_MAX);
    if (end) {
        *request = (struct toy_request){.text = data, .len = (size_t)(end - data)};
        *used_r = request->len + 1;
        return PARSED;
    }
    *used_r = 0;
    if (len < TOY_LINE_MAX)
        return PARSED_MORE;
    *request = (struct toy_request){.is_too_long = true};
    *used_r = TOY_LINE_MAX;
    return PARSED;
}

static inline enum served toy_serve(struct conn *conn, const void *parsed)
{
    struct toy *toy = toy_of(conn);
    const struct toy_session *session = conn_session(conn);
    const struct toy_request *request = parsed;
    CHECK(session->open);
    if (request->is_too_long)
        return toy_finish(conn, "too long\n");
    char line[TOY_LINE_MAX + 1];
    memcpy(line, request->text, request->len);
    line[request->len] = '\0';
    if (toy->seen)
        toy->seen(conn, line);
    enum served served = toy_line(conn, line);
    return served;
}

static const struct protocol_row toy_row = {
    .name = "toy",
    .request_size = sizeof(struct toy_request),
    .open = toy_open,
    .parse = toy_parse,
    .serve = toy_serve,
    .resume = toy_resume,
    .close = toy_close,
};

/* ---- the server ------------------------------------------------------------------------------ */

struct toy_server {
    struct server server;
    struct protocol_row row; /* of its own, which a test may change before it runs */
    struct protocol protocol;
    struct toy toy;
    bool secure;              /* has TLS connections */
    struct listener listener; /* when there are acceptors */
    struct acceptor *acceptors[TOY_WORKERS];
};

/* Limits that no test reaches by accident. */
static inline struct server_limits toy_limits(void)
{
    return (struct server_limits){.output_buffer = 256u * 1024,
                                  .request_timeout_ns = 1000 * NS_PER_S,
                                  .write_timeout_ns = 1000 * NS_PER_S,
                                  .handshake_timeout_ns = 1000 * NS_PER_S};
}

/* Makes a server of `count` workers that do not run yet. */
static inline void toy_make(struct toy_server *s, unsigned count, struct server_limits limits)
{
    for (unsigned i = 0; i < TOY_PATTERN; i++)
        toy_pattern[i] = (uint8_t)('a' + (i * 7 + i / 1000) % 26);
    *s = (struct toy_server){
        .server = {.count = count},
        .row = toy_row,
        .protocol = {.session_size = sizeof(struct toy_session), .request_max = TOY_LINE_MAX},
        .listener.fd = -1,
    };
    s->protocol.row = &s->row;
    s->protocol.service = &s->toy;
    struct snapshot_config config = {.limits = limits};
    server_set_snapshot(&s->server, snapshot_new(&config));
    for (unsigned i = 0; i < count; i++) {
        s->server.workers[i] = worker_new(&s->server, i);
        ck_assert(s->server.workers[i] != NULL);
    }
}

static inline void toy_run(struct toy_server *s)
{
    for (unsigned i = 0; i < s->server.count; i++) {
        ck_assert(worker_prepare(s->server.workers[i]));
        reactor_resume(worker_reactor(s->server.workers[i]));
    }
}

static inline void toy_start(struct toy_server *s, unsigned count, struct server_limits limits)
{
    toy_make(s, count, limits);
    toy_run(s);
}

static inline uint64_t toy_closed(struct toy_server *s, unsigned reason)
{
    return atomic_load(&s->protocol.closed[reason]);
}

/* Ends the server's threads, and delivers the remaining mail. */
static inline void toy_end(struct toy_server *s)
{
    for (unsigned i = 0; i < s->server.count; i++)
        worker_stop(s->server.workers[i]);
    for (unsigned i = 0; i < s->server.count; i++)
        reactor_join(worker_reactor(s->server.workers[i]));
    for (unsigned i = 0; i < s->server.count; i++)
        worker_drain(s->server.workers[i]);
}

/* Frees the server, which has ended; its counts must balance now. */
static inline void toy_free(struct toy_server *s)
{
    uint64_t closed = 0;
    for (unsigned i = 0; i < CLOSE_MAX; i++)
        closed +=
            i == CLOSE_REFUSED || i == CLOSE_DENIED || i == CLOSE_SOURCE ? 0 : toy_closed(s, i);
    ck_assert_uint_eq(closed, atomic_load(&s->protocol.connections_made));
    ck_assert_uint_eq(atomic_load(&s->protocol.connections), 0);
    ck_assert_uint_eq(atomic_load(&s->toy.ended), atomic_load(&s->toy.opened));
    if (s->secure) /* some may have ended before they were open */
        ck_assert_uint_le(atomic_load(&s->toy.opened), closed);
    else
        ck_assert_uint_eq(atomic_load(&s->toy.opened), closed);
    ck_assert_uint_eq(atomic_load(&s->server.handshakes), 0);
    ck_assert_uint_eq(s->server.sources.count, 0);
    for (unsigned i = 0; i < s->server.count; i++) {
        acceptor_free(&s->acceptors[i]);
        ck_assert_uint_eq(worker_connections(s->server.workers[i]), 0);
        worker_free(&s->server.workers[i]);
        ck_assert(s->server.workers[i] == NULL);
    }
    server_free_snapshot(&s->server);
    listener_close(&s->listener);
}

static inline void toy_stop(struct toy_server *s)
{
    toy_end(s);
    toy_free(s);
}

/* Runs something in a worker's thread, while the test waits. */
static inline void in_worker(struct toy_server *s, unsigned number,
                             void (*run)(struct worker *worker, void *arg), void *arg)
{
    worker_ask(s->server.workers[number], run, arg);
}

struct toy_opening {
    struct protocol *protocol;
    int fd;
    enum transport transport;
    bool ok;
};

static inline void toy_open_there(struct worker *worker, void *arg)
{
    struct toy_opening *opening = arg;
    atomic_fetch_add(&opening->protocol->connections, 1);
    opening->ok = worker_open(
        worker, opening->protocol,
        (struct stream){.fd = opening->fd, .transport = (uint8_t)opening->transport}, 0);
}

/* Gives the server's end of a connection to a running worker. */
static inline void toy_give(struct toy_server *s, unsigned number, int fd)
{
    struct toy_opening opening = {.protocol = &s->protocol, .fd = fd};
    in_worker(s, number, toy_open_there, &opening);
    ck_assert(opening.ok);
}

/* The same for a connection that begins with a TLS handshake. True if the worker accepted it. */
static inline bool toy_give_secure(struct toy_server *s, unsigned number, int fd)
{
    struct toy_opening opening = {.protocol = &s->protocol, .fd = fd, .transport = TRANSPORT_TLS};
    in_worker(s, number, toy_open_there, &opening);
    return opening.ok;
}

/* ---- clients --------------------------------------------------------------------------------- */

static inline void set_nonblocking(int fd)
{
    ck_assert(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
}

/* Makes a pair of local sockets; returns the server's end. */
static inline int local_pair(int type, int *client_r)
{
    int fds[2];
    ck_assert(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) == 0);
    set_nonblocking(fds[0]);
    *client_r = fds[1];
    return fds[0];
}

static inline struct sockaddr_in loopback(in_port_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Makes a pair of TCP sockets; returns the server's end. */
static inline int tcp_pair(int *client_r)
{
    struct sockaddr_in in = loopback(0);
    socklen_t len = sizeof(in);
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(listening >= 0 && bind(listening, (struct sockaddr *)&in, len) == 0 &&
              listen(listening, 1) == 0 &&
              getsockname(listening, (struct sockaddr *)&in, &len) == 0);
    *client_r = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(*client_r >= 0 && connect(*client_r, (struct sockaddr *)&in, len) == 0);
    int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    ck_assert(fd >= 0);
    close(listening);
    return fd;
}

/* A client of a running worker. */
static inline int connect_local(struct toy_server *s, unsigned number)
{
    int client, fd = local_pair(SOCK_STREAM, &client);
    toy_give(s, number, fd);
    return client;
}

static inline int connect_tcp(struct toy_server *s, unsigned number)
{
    int client, fd = tcp_pair(&client);
    toy_give(s, number, fd);
    return client;
}

static inline void send_bytes(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        ck_assert_msg(n > 0, "send: %s", strerror(errno));
        at += n;
        len -= (size_t)n;
    }
}

static inline void send_text(int fd, const char *text)
{
    send_bytes(fd, text, strlen(text));
}

/* Waits until the descriptor is ready for `events`, at most until `until_ns`. */
static inline bool wait_ready(int fd, short events, int64_t until_ns)
{
    for (;;) {
        int64_t left_ns = until_ns - clock_mono_ns();
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left_ns > 0 ? (int)(left_ns / NS_PER_MS + 1) : 0);
        ck_assert(n >= 0 || errno == EINTR);
        if (n > 0 || left_ns <= 0)
            return n > 0;
    }
}

/* Waits for data; returns the result of recv, -1 with errno. */
static inline ssize_t receive(int fd, void *to, size_t room)
{
    ck_assert_msg(wait_ready(fd, POLLIN, clock_mono_ns() + PATIENCE_NS), "nothing arrived");
    return recv(fd, to, room, 0);
}

static inline void receive_exactly(int fd, void *to, size_t len)
{
    uint8_t *at = to;
    while (len > 0) {
        ssize_t n = receive(fd, at, len);
        ck_assert_msg(n > 0, "the connection ended: %s", n == 0 ? "end" : strerror(errno));
        at += n;
        len -= (size_t)n;
    }
}

static inline void expect(int fd, const char *text)
{
    size_t len = strlen(text);
    char *got = malloc(len + 1);
    ck_assert(got != NULL);
    receive_exactly(fd, got, len);
    got[len] = '\0';
    ck_assert_str_eq(got, text);
    free(got);
}

static inline void expect_pattern(int fd, size_t len)
{
    uint8_t *got = malloc(len);
    ck_assert(got != NULL);
    receive_exactly(fd, got, len);
    ck_assert(memcmp(got, toy_pattern, len) == 0);
    free(got);
}

static inline void expect_end(int fd)
{
    char byte;
    ssize_t n = receive(fd, &byte, 1);
    ck_assert_msg(n == 0, "no end, but %s", n > 0 ? "more" : strerror(errno));
}

/* Waits until the peer has read everything that was sent. */
static inline void wait_taken(int fd)
{
    int left = 1;
    WAIT_UNTIL(ioctl(fd, TIOCOUTQ, &left) == 0 && left == 0);
}

/* Sets SO_SNDBUF or SO_RCVBUF. */
static inline void set_buffer(int fd, int which, int size)
{
    ck_assert(setsockopt(fd, SOL_SOCKET, which, &size, sizeof(size)) == 0);
}

/* Closes the client with a reset. */
static inline void reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    ck_assert(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    ck_assert(close(fd) == 0);
}

/* The answer to "i". */
struct toy_names {
    unsigned id;
    unsigned long long tag;
};

static inline struct toy_names ask_names(int fd)
{
    char text[64] = "";
    send_text(fd, "i\n");
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        receive_exactly(fd, text + i, 1);
        if (text[i] == '\n')
            break;
    }
    char *end;
    struct toy_names names = {.id = (unsigned)strtoul(text, &end, 16)};
    names.tag = strtoull(end, &end, 16);
    ck_assert(*end == '\n');
    return names;
}

#endif
