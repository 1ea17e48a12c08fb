/*
 * replies.c - replies and their receipt. The services' calls to the connection are wrapped (--wrap)
 * to catch replies, and a client must receive what was replied to it.
 */
#include "t/campaigns/simulate/inside.h"

void *__real_conn_reply_room(struct conn *conn, size_t size);
void *__wrap_conn_reply_room(struct conn *conn, size_t size);
void __real_conn_replied(struct conn *conn, size_t len);
void __wrap_conn_replied(struct conn *conn, size_t len);
void __real_conn_reply(struct conn *conn, const void *data, size_t len);
void __wrap_conn_reply(struct conn *conn, const void *data, size_t len);
bool __real_conn_interject(struct conn *conn, const void *data, size_t len, size_t unsent_max);
bool __wrap_conn_interject(struct conn *conn, const void *data, size_t len, size_t unsent_max);

static void *reply_room;

static void note_reply(struct conn *conn, const void *data, size_t len)
{
    struct client *c = client_of(conn);
    if (queued(&c->reply) == 0)
        c->progress_ns = worker_now(conn_worker(conn)).mono_ns;
    enqueue(&c->reply, data, len);
    enqueue(&c->said, data, len);
    c->replied += len;
}

static void note_full(struct conn *conn)
{
    if (conn_is_full(conn))
        client_of(conn)->was_full = true;
}

void *__wrap_conn_reply_room(struct conn *conn, size_t size)
{
    return reply_room = __real_conn_reply_room(conn, size);
}

void __wrap_conn_replied(struct conn *conn, size_t len)
{
    note_reply(conn, reply_room, len);
    __real_conn_replied(conn, len);
    note_full(conn);
}

void __wrap_conn_reply(struct conn *conn, const void *data, size_t len)
{
    note_reply(conn, data, len);
    __real_conn_reply(conn, data, len);
    note_full(conn);
}

bool __wrap_conn_interject(struct conn *conn, const void *data, size_t len, size_t unsent_max)
{
    if (!__real_conn_interject(conn, data, len, unsent_max))
        return false;
    note_reply(conn, data, len);
    note_full(conn);
    return true;
}

void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first, bool last)
{
    (void)first;
    (void)last;
    struct client *c = client_of_peer(peer);
    EXPECT(len <= queued(&c->reply) && memcmp(c->reply.data + c->reply.begin, bytes, len) == 0,
           "client %d received what was not replied", peer->fd);
    c->reply.begin += len;
    c->received += len;
    c->progress_ns = worker_now(crew[c->worker].worker).mono_ns;
}

struct answer answer;

void expect_bytes(const void *bytes, size_t len)
{
    CHECK(len <= sizeof(answer.bytes) - answer.len);
    memcpy(answer.bytes + answer.len, bytes, len);
    answer.len += len;
}

void expect_word(enum pc_reply word)
{
    struct bytes line = pc_reply_line(word);
    expect_bytes(line.data, line.len);
}

const uint8_t *unchecked(const struct client *c)
{
    return c->said.data + c->said.begin;
}

bool was_replied(const struct client *c, const void *bytes, size_t len)
{
    return queued(&c->said) >= len && memcmp(c->said.data + c->said.end - len, bytes, len) == 0;
}

void compare_answer(struct client *c, const void *bytes, size_t len)
{
    size_t said = queued(&c->said);
    EXPECT(said == len && (len == 0 || memcmp(unchecked(c), bytes, len) == 0),
           "client %d: replied \"%.*s\", not \"%.*s\"", c->peer.fd, (int)said,
           (const char *)(said ? unchecked(c) : (const uint8_t *)""), (int)len,
           (const char *)bytes);
    c->said.begin = c->said.end;
}

void on_stirred(struct fake_peer *peer)
{
    heat(client_of_peer(peer));
}
