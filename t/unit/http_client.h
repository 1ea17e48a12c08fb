/*
 * http_client.h - a plain HTTP client for tests. It writes requests byte for byte, and reads an
 * answer to its Content-Length.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "base/clock.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The longest real time that anything may take before a test gives up. It only ends hangs. */
#define CLIENT_PATIENCE_MS (120 * 1000)

static inline int64_t real_ms(void)
{
    struct timespec ts;
    ck_assert(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static inline void rest_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

/* Polls until `cond` is true. */
#define COME_TRUE(cond)                                                                            \
    do {                                                                                           \
        int64_t give_up_ = real_ms() + CLIENT_PATIENCE_MS;                                         \
        while (!(cond)) {                                                                          \
            ck_assert_msg(real_ms() < give_up_, "never came true: %s", #cond);                     \
            rest_ms(1);                                                                            \
        }                                                                                          \
    } while (0)

/* A socket connected to "127.0.0.1:PORT"; `receive_buffer` in bytes (0: the default). */
static inline int http_connect_buffer(const char *where, int receive_buffer)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(where, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (receive_buffer)
        ck_assert(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(int)) == 0);
    ck_assert_msg(connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0, "%s: %m", where);
    int on = 1; /* otherwise each piece waits for a delayed acknowledgement */
    ck_assert(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    return fd;
}

static inline int http_connect(const char *where)
{
    return http_connect_buffer(where, 0);
}

/* Sends all. Returns false when the server has closed. */
static inline bool try_send(int fd, const void *data, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(fd, (const char *)data + sent, len - sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return false;
        ck_assert_msg(n > 0, "send: %m");
        sent += (size_t)n;
    }
    return true;
}

static inline void http_send(int fd, const char *text)
{
    ck_assert(try_send(fd, text, strlen(text)));
}

struct http_reply {
    int status; /* 0: the connection closed without an answer */
    char *head; /* status line and headers */
    char *body; /* with a null byte behind `len` bytes */
    size_t len;
};

/*
 * Receives some bytes, with the flags of recv; returns 0 at the end of the connection or on a
 * reset.
 */
static inline size_t receive_flags(int fd, void *to, size_t size, int flags)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_msg(poll(&p, 1, CLIENT_PATIENCE_MS) == 1, "nothing comes");
    ssize_t n = recv(fd, to, size, flags);
    ck_assert_msg(n >= 0 || errno == ECONNRESET, "recv: %m");
    return n > 0 ? (size_t)n : 0;
}

static inline size_t receive_some(int fd, void *to, size_t size)
{
    return receive_flags(fd, to, size, 0);
}

/* Copies a header's value to `to`; NULL: no such header. */
static inline const char *reply_header(const struct http_reply *r, const char *name, char *to,
                                       size_t size)
{
    size_t len = strlen(name);
    for (const char *line = strstr(r->head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            snprintf(to, size, "%.*s", (int)strcspn(line + len + 2, "\r"), line + len + 2);
            return to;
        }
    }
    return NULL;
}

/*
 * Reads a head, and no byte after it. Returns false if the connection ends before the first byte.
 */
static inline bool receive_head(int fd, char *head, size_t size)
{
    size_t len = 0;
    for (;;) {
        ck_assert_uint_lt(len, size - 1);
        size_t more = receive_flags(fd, head + len, size - 1 - len, MSG_PEEK);
        ck_assert_msg(more > 0 || len == 0, "half an answer: %s", head);
        if (more == 0)
            return false;
        head[len + more] = '\0';
        const char *end = strstr(len > 3 ? head + len - 3 : head, "\r\n\r\n");
        if (end)
            more = (size_t)(end + 4 - head) - len;
        ck_assert_uint_eq(receive_flags(fd, head + len, more, 0), more);
        len += more;
        head[len] = '\0';
        if (end)
            return true;
    }
}

/* Reads one answer. `head`: true after a HEAD request, whose answer has no body. */
static inline struct http_reply read_reply(int fd, bool head)
{
    struct http_reply r = {.head = calloc(1, 65536)};
    if (!receive_head(fd, r.head, 65536))
        return r;
    char text[32];
    ck_assert_msg(sscanf(r.head, "HTTP/1.%*d %d", &r.status) == 1, "%s", r.head);
    r.len = reply_header(&r, "Content-Length", text, sizeof(text)) ? strtoul(text, NULL, 10) : 0;
    if (head)
        return r;
    r.body = calloc(1, r.len + 1);
    ck_assert(r.body != NULL);
    for (size_t got = 0; got < r.len;) {
        size_t n = receive_some(fd, r.body + got, r.len - got);
        ck_assert_msg(n > 0, "the answer ends after %zu of %zu bytes", got, r.len);
        got += n;
    }
    return r;
}

static inline void reply_free(struct http_reply *r)
{
    free(r->head);
    free(r->body);
    *r = (struct http_reply){0};
}

/* Sends `request` on a new connection and returns the answer. */
static inline struct http_reply http_say(const char *where, const void *request, size_t len)
{
    int fd = http_connect(where);
    (void)try_send(fd, request, len);
    struct http_reply r = read_reply(fd, len > 4 && memcmp(request, "HEAD", 4) == 0);
    close(fd);
    return r;
}

/* The same for a request given in parts; `headers`: lines that end in \r\n, or "". */
static inline struct http_reply http_ask(const char *where, const char *method, const char *target,
                                         const char *headers)
{
    size_t size = strlen(method) + strlen(target) + strlen(headers) + 64;
    char *request = malloc(size);
    int len = snprintf(request, size, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, target,
                       headers);
    struct http_reply r = http_say(where, request, (size_t)len);
    free(request);
    return r;
}

/* Requires that GET of `target` answers 200 with exactly this body. */
static inline void expect_get(const char *where, const char *target, const char *body)
{
    struct http_reply r = http_ask(where, "GET", target, "");
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(r.body, body);
    reply_free(&r);
}

#endif
