/*
 * stage.h - one worker without a kernel, for a protocol that the test makes up: its clients are
 * peers of t/campaigns/simulate/fake.h, and only the test moves the clock.
 *
 * stage_line_parse parses lines; a protocol whose requests are lines serves struct stage_line.
 */
#ifndef STAGE_H
#define STAGE_H

#include "net/private.h"
#include "t/campaigns/simulate/fake.h"
#include "t/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define STAGE_CLIENTS  16
#define STAGE_LINE_MAX 1024

struct stage_client {
    struct fake_peer peer; /* first */
    char *got;             /* what it received, and a null byte behind that */
    size_t got_len, got_room;
    struct conn *conn; /* while it is open */
    uint64_t tag;
};

struct stage {
    struct server server;
    struct protocol_row row;
    struct protocol protocol;
    struct stage_client *clients[STAGE_CLIENTS];
    unsigned client_count;
};

/* Every test is a process of its own. */
static struct stage stage;

static inline struct worker *stage_worker(void)
{
    return stage.server.workers[0];
}

/* ---- lines --------------------------------------------------------------------------------- */

struct stage_line {
    const char *text;
    size_t len; /* without the line end */
};

static inline enum parsed stage_line_parse(struct conn *conn, const uint8_t *data, size_t len,
                                           void *to, size_t *used_r)
{
    struct stage_line *line = to;
    const uint8_t *end = memchr(data, '\n', len);
    (void)conn;
    *used_r = 0;
    if (!end)
        return PARSED_MORE;
    *line = (struct stage_line){.text = (const char *)data, .len = (size_t)(end - data)};
    *used_r = line->len + 1;
    return PARSED;
}

/* The number behind the first character of a line. */
static inline size_t stage_line_number(const struct stage_line *line)
{
    return strtoul(line->text + 1, NULL, 10);
}

static inline void stage_open(struct conn *conn)
{
    (void)conn;
}

static inline void stage_close(struct conn *conn)
{
    (void)conn;
}

/* ---- the worker ---------------------------------------------------------------------------- */

static inline void stage_received(struct fake_peer *peer, const uint8_t *bytes, size_t len,
                                  bool first, bool last)
{
    struct stage_client *c = (struct stage_client *)(void *)peer;
    (void)first;
    (void)last;
    if (c->got_len + len + 1 > c->got_room) {
        c->got_room = (c->got_len + len + 1) * 2;
        c->got = realloc(c->got, c->got_room);
        CHECK(c->got);
    }
    memcpy(c->got + c->got_len, bytes, len);
    c->got_len += len;
    c->got[c->got_len] = '\0';
}

static inline struct server_limits stage_limits(void)
{
    return (struct server_limits){.output_buffer = 256u * 1024,
                                  .request_timeout_ns = 30 * NS_PER_S,
                                  .write_timeout_ns = 30 * NS_PER_S,
                                  .handshake_timeout_ns = 30 * NS_PER_S};
}

/* Makes the worker. `row`: `open` and `close` may be missing, lines are parsed where `parse` is. */
static inline void stage_make(const struct protocol_row *row, size_t session_size,
                              struct server_limits limits)
{
    struct rules_config config = {.limits = limits};
    struct rules *rules = rules_new(&config);
    ck_assert(rules != NULL);
    fake_hooks.received = stage_received;
    stage.row = *row;
    stage.row.name = "stage";
    if (!stage.row.parse) {
        stage.row.parse = stage_line_parse;
        stage.row.request_size = sizeof(struct stage_line);
    }
    if (!stage.row.open)
        stage.row.open = stage_open;
    if (!stage.row.close)
        stage.row.close = stage_close;
    stage.protocol.row = &stage.row;
    stage.protocol.session_size = session_size;
    stage.protocol.request_max = STAGE_LINE_MAX;
    server_set_rules(&stage.server, rules);
    stage.server.workers[0] = worker_new(&stage.server, 0);
    ck_assert(stage.server.workers[0] != NULL);
    stage.server.count = 1;
}

/* One iteration of the loop. False: nothing was there to do. */
static inline bool stage_iterate(void)
{
    struct loop *loop = worker_reactor(stage_worker())->loop;
    const struct loop_handlers *h = &loop->handlers;
    bool any = false, soon = loop->soon;
    loop->soon = false;
    (void)h->begin(h->arg);
    for (unsigned i = 0; i < stage.client_count; i++) {
        struct fake_peer *peer = &stage.clients[i]->peer;
        unsigned ready = fake_peer_ready(peer);
        if (!ready)
            continue;
        fake_peer_tell(peer, ready);
        any = true;
    }
    if (loop->rung) {
        loop->rung = false;
        h->bell(h->arg);
        any = true;
    }
    if (loop->timer_at_ns <= fake_now.mono_ns) {
        loop->timer_at_ns = INT64_MAX;
        h->timer(h->arg);
        any = true;
    }
    if (soon) {
        h->soon(h->arg);
        any = true;
    }
    (void)h->end(h->arg);
    return any || loop->soon;
}

/* Goes on until the loop would sleep. */
static inline void stage_run(void)
{
    for (unsigned i = 0; stage_iterate(); i++)
        ck_assert_msg(i < 1000000, "the loop never sleeps");
}

/* The same while so much time passes; deadlines on the way come in order. */
static inline void stage_advance(int64_t ns)
{
    int64_t end_ns = fake_now.mono_ns + ns;
    stage_run();
    while (worker_reactor(stage_worker())->loop->timer_at_ns <= end_ns) {
        fake_now.mono_ns = worker_reactor(stage_worker())->loop->timer_at_ns;
        stage_run();
    }
    fake_now.mono_ns = end_ns;
    stage_run();
}

/* Calls `fn` in the worker's thread, as a letter would. */
static inline void stage_do(void (*fn)(struct conn *conn, void *arg), struct stage_client *c,
                            void *arg)
{
    worker_begin_iteration(stage_worker());
    struct conn *conn = conn_by_tag(stage_worker(), c->tag);
    ck_assert(conn != NULL);
    fn(conn, arg);
    (void)worker_end_iteration(stage_worker());
    stage_run();
}

static inline uint64_t stage_closed(unsigned reason)
{
    return atomic_load(&stage.protocol.closed[reason]);
}

/* Frees everything. */
static inline void stage_end(void)
{
    struct worker *worker = stage_worker();
    for (uint32_t slot = 0; slot < worker_slots(worker); slot++) {
        if (worker_conn_at(worker, slot))
            conn_close(worker_conn_at(worker, slot), CLOSE_SHUTDOWN);
    }
    worker_drain(worker);
    ck_assert_uint_eq(atomic_load(&stage.protocol.connections), 0);
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), 0);
    worker_free(&stage.server.workers[0]);
    server_free_rules(&stage.server);
    fake_peers_leave();
    for (unsigned i = 0; i < stage.client_count; i++) {
        free(stage.clients[i]->got);
        free(stage.clients[i]);
    }
}

/* ---- clients ------------------------------------------------------------------------------- */

/* A client that takes all it is sent. The stage owns it. */
static inline struct stage_client *stage_connect(void)
{
    struct stage_client *c = calloc(1, sizeof(*c));
    ck_assert(c != NULL && stage.client_count < STAGE_CLIENTS);
    stage.clients[stage.client_count++] = c;
    c->peer.window = SIZE_MAX;
    fake_peer_join(&c->peer);
    worker_begin_iteration(stage_worker());
    atomic_fetch_add(&stage.protocol.connections, 1);
    ck_assert(worker_open(stage_worker(), &stage.protocol, (struct stream){.fd = c->peer.fd}, 0));
    for (uint32_t i = 0; i < worker_slots(stage_worker()) && !c->conn; i++) {
        struct conn *conn = worker_conn_at(stage_worker(), i);
        c->conn = conn && conn->stream.fd == c->peer.fd ? conn : NULL;
    }
    ck_assert(c->conn != NULL);
    c->tag = conn_tag(c->conn);
    (void)worker_end_iteration(stage_worker());
    return c;
}

/* It sends bytes, which are served. */
static inline void stage_send_bytes(struct stage_client *c, const void *bytes, size_t len)
{
    fake_peer_send(&c->peer, bytes, len);
    stage_run();
}

static inline void stage_send(struct stage_client *c, const char *text)
{
    stage_send_bytes(c, text, strlen(text));
}

/* It takes so many more bytes, and no more after them; SIZE_MAX: any number. */
static inline void stage_take(struct stage_client *c, size_t bytes)
{
    c->peer.window = bytes;
    c->peer.news = true;
    stage_run();
}

/* It has received this since it was last asked, and nothing else. */
static inline void stage_expect(struct stage_client *c, const char *text)
{
    ck_assert_str_eq(c->got ? c->got : "", text);
    c->got_len = 0;
    if (c->got)
        c->got[0] = '\0';
}

#endif
