/*
 * peer.h - a server for tests of libcounter, in their own thread: it grants all that it is asked
 * for. It allocates nothing, so that tests can refuse memory to the library alone. A test steps
 * operations and lets the peer take turns (peer_run); none of both waits.
 */
#ifndef PEER_H
#define PEER_H

#include "lib/counter.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PEER_CONNS 256
#define PEER_ROOM  8192

/* Only hangs are this slow. */
#define PEER_DEADLINE_S 120

struct peer_conn {
    int fd; /* -1: free */
    enum counter_protocol protocol;
    size_t len, skip; /* bytes in `in`; of a body that are yet to come */
    char in[PEER_ROOM];
};

struct peer {
    int listeners[COUNTER_RAW]; /* by protocol */
    char url[256];
    bool is_silent;    /* it answers nothing */
    unsigned accepted; /* connections, ever */
    char heard[65536]; /* the lines of text and jobs, with '|' behind each */
    size_t heard_len;
    struct peer_conn conns[PEER_CONNS];
};

static inline void peer_must(bool ok, const char *what)
{
    if (!ok)
        ck_abort_msg("the peer can't %s", what);
}

/* Opens its ports. Other parameters of the URL are `more`, such as "&idle=0". */
static inline void peer_open(struct peer *peer, const char *more)
{
    unsigned ports[COUNTER_RAW];
    memset(peer, 0, sizeof(*peer));
    for (size_t i = 0; i < PEER_CONNS; i++)
        peer->conns[i].fd = -1;
    for (size_t i = 0; i < COUNTER_RAW; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof(at);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        peer_must(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 128) == 0 &&
                      getsockname(fd, (struct sockaddr *)&at, &len) == 0,
                  "listen");
        peer->listeners[i] = fd;
        ports[i] = ntohs(at.sin_port);
    }
    snprintf(peer->url, sizeof(peer->url),
             "counter://127.0.0.1:%u?binary=%u&jobs=%u&connect_timeout=60&io_timeout=60%s",
             ports[COUNTER_TEXT], ports[COUNTER_BINARY], ports[COUNTER_JOBS], more);
}

static inline void peer_cut(struct peer_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
}

static inline void peer_cut_all(struct peer *peer)
{
    for (size_t i = 0; i < PEER_CONNS; i++)
        peer_cut(&peer->conns[i]);
}

static inline void peer_close(struct peer *peer)
{
    peer_cut_all(peer);
    for (size_t i = 0; i < COUNTER_RAW; i++)
        close(peer->listeners[i]);
}

static inline unsigned peer_open_conns(const struct peer *peer)
{
    unsigned count = 0;
    for (size_t i = 0; i < PEER_CONNS; i++)
        count += peer->conns[i].fd >= 0;
    return count;
}

static inline void peer_send(struct peer_conn *conn, const char *bytes, size_t len)
{
    if (send(conn->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        peer_cut(conn);
}

static inline bool peer_begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* The number behind a text in the line; 1: it is not there. */
static inline unsigned peer_number(const char *line, const char *behind)
{
    const char *at = strstr(line, behind);
    return at ? (unsigned)strtoul(at + strlen(behind), NULL, 10) : 1;
}

static inline int peer_text_answer(const char *line, char *to, size_t room)
{
    int len = 0;
    if (!peer_begins(line, "TAKE "))
        return snprintf(to, room, "%s\n",
                        peer_begins(line, "RELEASE")  ? "RELEASED"
                        : peer_begins(line, "RETURN") ? "RETURNED"
                                                      : "LOCKED");
    for (unsigned i = 0; i < peer_number(line, "count="); i++)
        len += snprintf(to + len, room - (size_t)len, "TAKEN gpu m%u %u value size=80 type=a\n", i,
                        100 + i);
    return len;
}

/* An answer of `OK` with this body. */
static inline int peer_ok(char *to, size_t room, const char *body)
{
    return snprintf(to, room, "OK %zu\r\n%s\r\n", strlen(body), body);
}

static inline int peer_jobs_answer(const char *line, char *to, size_t room)
{
    static const char *const answers[][2] = {
        {"put-into", "INSERTED 7\r\n"},
        {"ack", "DELETED\r\n"},
        {"nack", "RELEASED\r\n"},
        {"bury", "BURIED\r\n"},
        {"renew", "TOUCHED\r\n"},
        {"delete", "DELETED\r\n"},
        {"kick-job", "KICKED\r\n"},
        {"clear", "CLEARED 1\r\n"},
        {"list-jobs", "LISTED 1 0\r\nFOUND 7 1 ready 0\r\nx\r\n"},
    };
    char body[2048] = "---\n";
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (peer_begins(line, answers[i][0]))
            return snprintf(to, room, "%s", answers[i][1]);
    if (peer_begins(line, "claim")) {
        unsigned count = peer_number(line, "claim ");
        int len = snprintf(to, room, "CLAIMED %u\r\n", count);
        for (unsigned i = 0; i < count; i++)
            len += snprintf(to + len, room - (size_t)len, "RESERVED %u 1 99 t 1\r\nx\r\n", 7 + i);
        return len;
    }
    if (peer_begins(line, "put-batch"))
        for (unsigned i = 0; i < peer_number(strchr(line + 10, ' '), " "); i++)
            strcat(body, "- INSERTED 7\n");
    else if (peer_begins(line, "ready"))
        strcat(body, "mail: 5\n");
    else if (peer_begins(line, "stats-job"))
        strcat(body, "id: 7\ntube: t\nstate: reserved\npri: 1024\nttr: 60\ntime-left: 50\n");
    else
        strcat(body, "name: \"t\"\norder: priority\nlimit: 0\ncurrent-jobs-ready: 1\n");
    return peer_ok(to, room, body);
}

/* Answers a line; *skip is the size of the body that comes behind it. */
static inline void peer_line(struct peer *peer, struct peer_conn *conn, const char *line)
{
    char answer[PEER_ROOM];
    size_t len = strlen(line);
    if (peer->heard_len + len + 2 < sizeof(peer->heard)) {
        memcpy(peer->heard + peer->heard_len, line, len);
        memcpy(peer->heard + peer->heard_len + len, "|", 2);
        peer->heard_len += len + 1;
    }
    unsigned number[4];
    if (sscanf(line, "put-into %*s %u %u %u %u", &number[0], &number[1], &number[2], &number[3]) ==
        4)
        conn->skip = number[3] + 2;
    else if (sscanf(line, "put-batch %*s %u %u", &number[0], &number[1]) == 2)
        conn->skip = number[1] + 2;
    if (peer->is_silent)
        return;
    int size = conn->protocol == COUNTER_TEXT ? peer_text_answer(line, answer, sizeof(answer))
                                              : peer_jobs_answer(line, answer, sizeof(answer));
    peer_send(conn, answer, (size_t)size);
}

/* Takes a line from what has come. Returns its length with its end; 0: it is not whole. */
static inline size_t peer_take_line(struct peer *peer, struct peer_conn *conn)
{
    char *end = memchr(conn->in, '\n', conn->len);
    if (!end)
        return 0;
    size_t len = (size_t)(end + 1 - conn->in);
    *end = '\0';
    if (end > conn->in && end[-1] == '\r')
        end[-1] = '\0';
    peer_line(peer, conn, conn->in);
    return len;
}

/* The same for a request of the binary protocol. */
static inline size_t peer_take_frame(const struct peer *peer, struct peer_conn *conn)
{
    const unsigned char *in = (const unsigned char *)conn->in;
    if (conn->len < 12)
        return 0;
    size_t size = 12 + (size_t)(in[6] << 8 | in[7]);
    if (conn->len < size)
        return 0;
    char answer[16] = {(char)0x91, conn->in[1]};
    bool has_number = in[1] != 3;
    answer[7] = has_number ? 4 : 0;
    memcpy(answer + 8, in + 8, 4);
    memcpy(answer + 12, in[1] == 2 ? (const char *)in + 12 : "\0\0\0\5", 4);
    if (!peer->is_silent)
        peer_send(conn, answer, has_number ? 16 : 12);
    return size;
}

static inline void peer_read(struct peer *peer, struct peer_conn *conn)
{
    ssize_t got = recv(conn->fd, conn->in + conn->len, sizeof(conn->in) - conn->len, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        peer_cut(conn);
        return;
    }
    conn->len += got > 0 ? (size_t)got : 0;
    for (size_t used = 1; used > 0 && conn->fd >= 0 && conn->len > 0;) {
        used = conn->skip < conn->len ? conn->skip : conn->len;
        conn->skip -= used;
        if (used == 0)
            used = conn->protocol == COUNTER_BINARY ? peer_take_frame(peer, conn)
                                                    : peer_take_line(peer, conn);
        conn->len -= used;
        memmove(conn->in, conn->in + used, conn->len);
    }
}

/* Accepts, reads and answers what is there. */
static inline void peer_turn(struct peer *peer)
{
    for (size_t i = 0, free = 0; i < COUNTER_RAW; i++) {
        while (free < PEER_CONNS && peer->conns[free].fd >= 0)
            free++;
        if (free == PEER_CONNS)
            break;
        int fd = accept4(peer->listeners[i], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            struct peer_conn *conn = &peer->conns[free];
            conn->fd = fd;
            conn->protocol = (enum counter_protocol)i;
            conn->len = conn->skip = 0;
            peer->accepted++;
        }
    }
    for (size_t i = 0; i < PEER_CONNS; i++)
        if (peer->conns[i].fd >= 0)
            peer_read(peer, &peer->conns[i]);
}

/* Steps an operation and the peer until it ends. Returns its status; does not free it. */
static inline int peer_run(struct peer *peer, counter_op *op)
{
    int status;
    time_t until = time(NULL) + PEER_DEADLINE_S;
    while ((status = counter_step(op)) == COUNTER_AGAIN) {
        peer_turn(peer);
        struct pollfd fd = {.fd = counter_fd(op), .events = counter_events(op)};
        poll(&fd, 1, 1);
        if (time(NULL) > until)
            ck_abort_msg("an operation does not end; heard: %s", peer->heard);
    }
    return status;
}

/* Runs an operation that must end well. */
static inline counter_op *peer_ran(struct peer *peer, counter_op *op)
{
    ck_assert_ptr_nonnull(op);
    int status = peer_run(peer, op);
    ck_assert_msg(status == COUNTER_OK, "%s: %s %s; heard: %s", counter_status_name(status),
                  counter_op_error(op)->answer, counter_op_error(op)->reason, peer->heard);
    return op;
}

/* Runs an operation and frees it. Returns its status. */
static inline int peer_end(struct peer *peer, counter_op *op)
{
    ck_assert_ptr_nonnull(op);
    int status = peer_run(peer, op);
    counter_op_free(op);
    return status;
}

/* Runs an operation, and returns its hold. */
static inline counter_hold *peer_hold(struct peer *peer, counter_op *op)
{
    counter_hold *hold = counter_take_hold(peer_ran(peer, op));
    counter_op_free(op);
    ck_assert_ptr_nonnull(hold);
    return hold;
}

static inline counter_client *peer_client(const struct peer *peer)
{
    struct counter_error error = COUNTER_ERROR;
    counter_client *client = counter_open(peer->url, &error);
    ck_assert_msg(client, "%s", error.reason);
    return client;
}

#endif
