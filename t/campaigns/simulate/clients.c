/*
 * clients.c - the clients of the simulation. They send requests, which arrive in parts, read
 * replies or do not, and disconnect.
 */
#include "t/campaigns/simulate/inside.h"

void heat(struct client *c)
{
    if (c->hot || c->peer.closed)
        return;
    struct crew *w = &crew[c->worker];
    if (w->hot_count == w->hot_room) {
        bool was = in_server;
        in_server = false;
        w->hot_room = w->hot_room ? w->hot_room * 2 : 64;
        w->hot = realloc(w->hot, w->hot_room * sizeof(struct client *));
        CHECK(w->hot);
        in_server = was;
    }
    c->hot = true;
    w->hot[w->hot_count++] = c;
}

struct client *client_of_peer(struct fake_peer *peer)
{
    return container_of(peer, struct client, peer);
}

struct client *client_of(struct conn *conn)
{
    uint64_t tag = conn_tag(conn);
    struct crew *w = &crew[conn_tag_worker(tag)];
    uint32_t slot = (uint32_t)(tag >> 32) & 0xffffff;
    CHECK(slot < w->slots);
    struct client *c = w->by_slot[slot];
    EXPECT(c && c->tag == tag);
    return c;
}

static void put_text(struct client *c, struct request *r)
{
    char line[3300];
    const struct bytes *name = &mix.name[r->name];
    const char *end = one_in(4) ? "\r\n" : "\n";
    int len = 0;
    switch (r->kind) {
    case TEXT_ACQUIRE:
        len = snprintf(line, sizeof(line), "ACQ4%s %.*s %u %u %" PRId64 ".%09" PRId64 "%s",
                       r->any ? "ANY" : "ME", (int)name->len, (const char *)name->data, r->limit,
                       r->queue_max, r->timeout_ns / NS_PER_S, r->timeout_ns % NS_PER_S, end);
        break;
    case TEXT_RELEASE_KEY:
        len = snprintf(line, sizeof(line), "RELEASE %.*s%s", (int)name->len,
                       (const char *)name->data, end);
        break;
    case TEXT_RELEASE:
        len = snprintf(line, sizeof(line), "RELEASE%s", end);
        break;
    case TEXT_STATS:
        len = snprintf(line, sizeof(line), "STATS waiting_workers%s", end);
        break;
    case TEXT_BAD:
        len = snprintf(line, sizeof(line), "ACQ4ME %.*s 0 1%s", (int)name->len,
                       (const char *)name->data, end);
        break;
    case TEXT_TOO_LONG:
        memset(line, 'x', sizeof(line));
        r->len = LINE_MAX + 100;
        enqueue(&c->wire, line, 2000);
        enqueue(&c->wire, line, LINE_MAX - 1900);
        return;
    default:
        CHECK(r->kind == TEXT_QUIT);
        len = snprintf(line, sizeof(line), "QUIT%s", end);
    }
    r->len = (uint32_t)len;
    enqueue(&c->wire, line, r->len);
}

static void put_binary(struct client *c, struct request *r)
{
    uint8_t bytes[3300];
    static const uint8_t opcodes[] = {
        [BINARY_NOOP] = CTR_NOOP,       [BINARY_GET] = CTR_GET,      [BINARY_ACQUIRE] = CTR_ACQUIRE,
        [BINARY_RELEASE] = CTR_RELEASE, [BINARY_STATS] = CTR_STATS,  [BINARY_DUMP] = CTR_DUMP,
        [BINARY_BAD] = CTR_ACQUIRE,     [BINARY_UNKNOWN] = CTR_NOOP, [BINARY_BAD_MAGIC] = CTR_NOOP,
    };
    struct ctr_request req = {
        .opcode = opcodes[r->kind],
        .units = r->units,
        .maximum = r->limit,
        .name = {.data = mix.name[r->name].data, .len = mix.name[r->name].len},
    };
    uint64_t opaque = random_bits();
    memcpy(r->opaque, &opaque, 4);
    memcpy(req.opaque, r->opaque, 4);
    r->len = (uint32_t)ctr_compose_request(&req, bytes, sizeof(bytes));
    if (r->kind == BINARY_UNKNOWN)
        bytes[1] = 0x77;
    if (r->kind == BINARY_BAD_MAGIC)
        bytes[0] = 'G';
    enqueue(&c->wire, bytes, r->len);
}

int64_t some_timeout(void)
{
    switch (below(8)) {
    case 0:
        return 1 + below(1000);
    case 1:
        return TIMEOUT - 1 + below(3);
    case 2:
        return below(5) * NS_PER_S;
    case 3:
    case 4:
        return (int64_t)below(2000) * NS_PER_MS + below(1000000);
    default:
        return 15 * NS_PER_S;
    }
}

static enum request_kind some_text(const struct client *c)
{
    if (one_in(100))
        return TEXT_QUIT;
    if (sometimes(mix.bad))
        return one_in(8) ? TEXT_TOO_LONG : TEXT_BAD;
    switch (below(c->has.lock_count + 5)) {
    case 0:
        return one_in(4) ? TEXT_STATS : TEXT_RELEASE;
    case 1:
    case 2:
    case 3:
        return TEXT_ACQUIRE;
    default:
        return one_in(2) ? TEXT_RELEASE : TEXT_RELEASE_KEY;
    }
}

static enum request_kind some_binary(void)
{
    if (sometimes(mix.bad))
        return one_in(8) ? BINARY_BAD_MAGIC : one_in(2) ? BINARY_BAD : BINARY_UNKNOWN;
    if (sometimes(mix.dumps))
        return one_in(2) ? BINARY_DUMP : BINARY_STATS;
    switch (below(8)) {
    case 0:
        return BINARY_NOOP;
    case 1:
        return BINARY_GET;
    case 2:
    case 3:
    case 4:
        return BINARY_ACQUIRE;
    default:
        return BINARY_RELEASE;
    }
}

/* Puts one more request on the wire. */
static void say(struct client *c)
{
    if (c->tail - c->head >= mix.depth || c->rude || c->peer.ended)
        return;
    struct request *r = &c->requests[c->tail % DEPTH];
    *r = (struct request){.kind = c->text ? some_text(c) : some_binary(),
                          .name = (uint8_t)below(mix.names)};
    if (r->kind == TEXT_RELEASE_KEY && c->has.lock_count && !one_in(4))
        r->name = c->has.locks[below(c->has.lock_count)];
    r->limit = mix.fixed_limits ? mix.limits[r->name] : 1 + below(mix.limits[r->name]);
    r->any = one_in(3);
    r->queue_max = one_in(4) ? 1 + below(8) : 1000000;
    r->timeout_ns = sometimes(mix.refused) ? 0 : some_timeout();
    r->units = 1 + below(one_in(4) ? r->limit : 1);
    if (r->kind == BINARY_RELEASE && c->has.holder.of[r->name].units && !one_in(8))
        r->units = 1 + below(c->has.holder.of[r->name].units);
    if (r->kind == BINARY_RELEASE && one_in(32))
        r->units = 0;
    if (r->kind == BINARY_BAD)
        r->units = r->limit + 1;
    if (c->text)
        put_text(c, r);
    else
        put_binary(c, r);
    c->tail++;
    if (r->kind == TEXT_TOO_LONG || r->kind == BINARY_BAD_MAGIC)
        c->rude = true; /* no request follows */
    if (r->kind == TEXT_QUIT)
        c->rude = one_in(2); /* else those that follow are not served */
}

void arrive(struct client *c, size_t most)
{
    size_t len = queued(&c->wire) < most ? queued(&c->wire) : most;
    if (len > 0) {
        fake_peer_send(&c->peer, c->wire.data + c->wire.begin, len);
        c->wire.begin += len;
        heat(c);
    }
}

void end_client(struct client *c)
{
    c->peer.ended = c->peer.news = true;
    heat(c);
}

void break_client(struct client *c)
{
    c->peer.broken = c->peer.news = true;
    heat(c);
}

static void on_kill(struct mail *mail, void *reader)
{
    struct client *c = container_of(mail, struct client, kill);
    struct conn *conn = conn_find(reader, c->tag);
    /* Waiters that this close wakes are notified before those with letters. */
    crew[c->worker].in_bell = false;
    if (conn)
        conn_close(conn, CLOSE_KILLED);
    crew[c->worker].in_bell = true;
}

static void leave(struct client *c)
{
    switch (below(8)) {
    case 0:
    case 1:
        break_client(c);
        break;
    case 2:
        if (!c->killed && c->opened) {
            c->killed = true;
            c->kill.deliver = on_kill;
            worker_post(crew[c->worker].worker, &c->kill);
        }
        break;
    case 3:
        c->wire.begin = c->wire.end; /* drops unsent bytes, maybe in the middle of a request */
        end_client(c);
        break;
    default:
        arrive(c, SIZE_MAX);
        end_client(c);
    }
}

static void open_window(struct client *c)
{
    c->peer.window = c->peer.window == 0 && !one_in(3) ? 1 + below(100) : SIZE_MAX;
    c->peer.news = true;
    heat(c);
}

void act(void)
{
    struct client *c = open_clients[below(open_count)];
    if (sometimes(mix.leave))
        leave(c);
    else if (sometimes(mix.slow))
        c->peer.window = below(30);
    if (c->peer.window != SIZE_MAX && one_in(8))
        open_window(c);
    for (unsigned i = 1 + below(mix.burst); i > 0; i--)
        say(c);
    if (!one_in(4))
        arrive(c, sometimes(mix.chop) ? 1 + below(20) : SIZE_MAX);
}
