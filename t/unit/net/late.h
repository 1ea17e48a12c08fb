/*
 * late.h - a protocol of lines whose answers come later, on the workers of toy.h. A test sends the
 * letters that bring the answers, in any order.
 *
 *     pTEXT   the answer TEXT comes by a letter; the next request may start before
 *     wTEXT   the same; the next request waits for it
 *     sTEXT   the same; its own letter is sent while it is served
 *     l       "later", as soon as no answer is pending
 *     eTEXT   TEXT at once
 *     bN      N bytes of toy_pattern
 *     aN      sends the letter of request number N while it serves, and then "asked" at once
 *     f       "bye", and finishes
 *     k       closes at once, for the protocol's own reason "bored"
 */
#ifndef LATE_H
#define LATE_H

#include "t/unit/net/secure.h"

/* A test sends at most so many requests that are answered later. */
#define LATE_MAX 4096

/* A request whose answer comes later, and the letter that brings it. */
struct late_errand {
    struct letter letter; /* first */
    struct late *late;
    uint32_t number; /* of conn_pend */
    size_t pattern;  /* so many bytes of toy_pattern come before the text */
    char text[24];
    _Atomic bool ready;                /* the request was served */
    _Atomic unsigned answered, undone; /* what the letter has come to */
};

struct late {
    struct late_errand errands[LATE_MAX]; /* in the order in which they were served */
    _Atomic unsigned count;               /* begun */
    _Atomic unsigned ends;                /* of clients' input */
    _Atomic unsigned deferred;            /* requests that were put off */
};

/* Every test is a process of its own. */
static struct late late;

static const char *const late_ends[] = {"bored", "tired", NULL};
#define LATE_BORED ((unsigned)CLOSE_OWN)

static inline void late_deliver(struct mail *mail, void *reader);

struct late_session {
    struct toy_session toy; /* first */
    unsigned count;         /* errands whose answers have not come, in order */
    struct {
        uint32_t number; /* of conn_pend */
        unsigned errand;
    } waits[PROTOCOL_PENDING_MAX];
};

/* ---- the row ------------------------------------------------------------------------------- */

static inline enum served late_pend(struct conn *conn, const char *text, enum served how)
{
    uint32_t number;
    CHECK(conn_pend(conn, &number));
    unsigned i = atomic_fetch_add(&late.count, 1);
    CHECK(i < LATE_MAX && strlen(text) < sizeof(late.errands[i].text));
    struct late_errand *errand = &late.errands[i];
    errand->letter.to = conn_tag(conn);
    errand->number = number;
    strcpy(errand->text, text);
    struct late_session *session = conn_session(conn);
    session->waits[session->count].number = number;
    session->waits[session->count].errand = i;
    session->count++;
    atomic_store(&errand->ready, true);
    return how;
}

/* Sends the letter of an errand from the thread of the connection's worker. */
static inline void late_deliver_from(struct conn *conn, unsigned i)
{
    CHECK(i < LATE_MAX);
    late.errands[i].letter.mail.deliver = late_deliver;
    worker_deliver(conn_worker(conn), &late.errands[i].letter);
}

static inline enum served late_serve(struct conn *conn, const void *parsed)
{
    const struct toy_request *request = parsed;
    char line[TOY_LINE_MAX + 1];
    CHECK(request->kind == TOY_LINE);
    memcpy(line, request->text, request->len);
    line[request->len] = '\0';
    switch (line[0]) {
    case 'p':
        return late_pend(conn, line + 1, SERVED_PENDING_NEXT);
    case 'w':
        return late_pend(conn, line + 1, SERVED_PENDING);
    case 'l':
        if (conn_pending(conn) > 0) {
            atomic_fetch_add(&late.deferred, 1);
            return SERVED_LATER;
        }
        toy_reply_text(conn, "later");
        break;
    case 'a':
        late_deliver_from(conn, (unsigned)strtoul(line + 1, NULL, 10));
        toy_reply_text(conn, "asked");
        break;
    case 's':
        late_pend(conn, line + 1, SERVED_PENDING);
        late_deliver_from(conn, atomic_load(&late.count) - 1);
        return SERVED_PENDING;
    case 'e':
        toy_reply_text(conn, line + 1);
        break;
    case 'b':
        conn_reply(conn, toy_pattern, strtoul(line + 1, NULL, 10));
        break;
    case 'f':
        return toy_finish(conn, "bye\n");
    case 'k':
        conn_close(conn, LATE_BORED);
        return SERVED_LAST;
    default:
        CHECK(false);
    }
    atomic_fetch_add(&toy_of(conn)->requests, 1);
    return SERVED;
}

static inline void late_ended(struct conn *conn)
{
    (void)conn;
    atomic_fetch_add(&late.ends, 1);
}

/* Makes a server of `count` workers, which do not run yet, for this protocol. */
static inline void late_make(struct toy_server *s, unsigned count, unsigned pending_max,
                             struct server_limits limits)
{
    toy_make(s, count, limits);
    s->row = (struct protocol_row){
        .name = "late",
        .request_size = sizeof(struct toy_request),
        .pending_max = pending_max,
        .ends = late_ends,
        .open = toy_open,
        .parse = toy_parse,
        .serve = late_serve,
        .ended = late_ended,
        .close = toy_close,
    };
    s->protocol.session_size = sizeof(struct late_session);
}

/* ---- letters ------------------------------------------------------------------------------- */

/* The answer of a request has come: takes it from the session's list. */
static inline void late_forget(struct conn *conn, uint32_t number)
{
    struct late_session *session = conn_session(conn);
    unsigned kept = 0;
    for (unsigned i = 0; i < session->count; i++) {
        if (session->waits[i].number != number)
            session->waits[kept++] = session->waits[i];
    }
    CHECK(kept == session->count - 1);
    session->count = kept;
}

/* Brings the answer. */
static inline void late_deliver(struct mail *mail, void *reader)
{
    struct late_errand *errand = (struct late_errand *)(void *)mail;
    struct conn *conn = conn_by_tag(reader, errand->letter.to);
    if (!conn) {
        atomic_fetch_add(&errand->undone, 1);
        return;
    }
    late_forget(conn, errand->number);
    conn_answer(conn, errand->number);
    if (errand->pattern > 0)
        conn_reply(conn, toy_pattern, errand->pattern);
    if (errand->text[0])
        toy_reply_text(conn, errand->text);
    conn_answered(conn);
    atomic_fetch_add(&errand->answered, 1);
}

/* Waits until request `i` was served, and has its answer sent. */
static inline void late_answer(struct toy_server *s, unsigned i)
{
    struct late_errand *errand = &late.errands[i];
    WAIT_UNTIL(atomic_load(&errand->ready));
    errand->letter.mail.deliver = late_deliver;
    conn_post(&s->server, &errand->letter);
}

/* ---- connections of each transport ---------------------------------------------------------- */

/* A client of any transport. */
struct late_client {
    enum transport transport;
    int fd;
    struct secure_client tls; /* TRANSPORT_TLS, over TCP */
};

/* Makes a pair of sockets; returns the server's end. */
static inline int late_pair(enum transport transport, struct late_client *c)
{
    *c = (struct late_client){.transport = transport};
    return transport == TRANSPORT_UNIX ? local_pair(SOCK_STREAM, &c->fd) : tcp_pair(&c->fd);
}

/* Gives the server's end to a worker that runs. */
static inline void late_give(struct toy_server *s, unsigned number, enum transport transport,
                             int fd)
{
    struct toy_opening opening = {.protocol = &s->protocol, .transport = transport, .fd = fd};
    in_worker(s, number, toy_open_there, &opening);
    ck_assert(opening.ok);
}

static inline void late_connect(struct toy_server *s, unsigned number, enum transport transport,
                                struct late_client *c)
{
    int fd = late_pair(transport, c);
    late_give(s, number, transport, fd);
    if (transport != TRANSPORT_TLS)
        return;
    c->tls = client_new(c->fd, TLS1_3_VERSION);
    ck_assert_int_eq(SSL_do_handshake(c->tls.ssl), 1);
}

static inline void late_send(struct late_client *c, const char *text)
{
    if (c->transport == TRANSPORT_TLS)
        client_send(&c->tls, text);
    else
        send_text(c->fd, text);
}

static inline void late_receive(struct late_client *c, void *to, size_t len)
{
    if (c->transport == TRANSPORT_TLS)
        client_receive(&c->tls, to, len);
    else
        receive_exactly(c->fd, to, len);
}

static inline void late_expect(struct late_client *c, const char *text)
{
    size_t len = strlen(text);
    char *got = calloc(1, len + 1);
    ck_assert(got != NULL);
    late_receive(c, got, len);
    ck_assert_str_eq(got, text);
    free(got);
}

static inline void late_expect_pattern(struct late_client *c, size_t len)
{
    uint8_t *got = malloc(len);
    ck_assert(got != NULL);
    late_receive(c, got, len);
    ck_assert(memcmp(got, toy_pattern, len) == 0);
    free(got);
}

/* The client sends nothing more, and still reads. */
static inline void late_shut(struct late_client *c)
{
    if (c->transport == TRANSPORT_TLS)
        ck_assert_int_eq(SSL_shutdown(c->tls.ssl), 0);
    ck_assert(shutdown(c->fd, SHUT_WR) == 0);
}

/* The server has sent its last. */
static inline void late_expect_end(struct late_client *c)
{
    if (c->transport == TRANSPORT_TLS)
        client_expect_goodbye(&c->tls);
    else
        expect_end(c->fd);
}

static inline void late_free(struct late_client *c)
{
    if (c->transport == TRANSPORT_TLS)
        client_free(&c->tls);
    else
        close(c->fd);
}

/* The client goes by a reset. Over a unix socket: with answers that it has not read. */
static inline void late_reset(struct late_client *c)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (c->transport != TRANSPORT_UNIX)
        ck_assert(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    late_free(c);
}

/* ---- wake-ups ------------------------------------------------------------------------------- */

struct late_count {
    struct reactor_hook hook;
    _Atomic unsigned iterations;
};

static inline void late_count_one(struct reactor_hook *hook, struct moment now)
{
    (void)now;
    atomic_fetch_add(&container_of(hook, struct late_count, hook)->iterations, 1);
}

/* Counts the iterations of a worker that does not run yet. */
static inline void late_count_iterations(struct toy_server *s, unsigned number,
                                         struct late_count *count)
{
    *count = (struct late_count){.hook.run = late_count_one};
    reactor_add_hook(worker_reactor(s->server.workers[number]), &count->hook);
}

/* Nothing wakes the worker any more: several stretches of time pass without an iteration. */
static inline void late_expect_asleep(struct late_count *count)
{
    int64_t give_up_ns = clock_mono_ns() + 10 * NS_PER_S;
    unsigned seen = atomic_load(&count->iterations);
    for (unsigned stretches = 0; stretches < 4;) {
        pause_ns(5 * NS_PER_MS);
        unsigned now = atomic_load(&count->iterations);
        stretches = now == seen ? stretches + 1 : 0;
        seen = now;
        ck_assert_msg(clock_mono_ns() < give_up_ns, "the worker is woken again and again");
    }
}

#endif
