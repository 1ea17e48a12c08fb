/*
 * simulate.c - the daemon beside the model of the table: the real engine, services, workers and
 * connections on a fake network, with random clients of locks and units, upgrades, and a clock.
 *
 *     simulate [--seeds N] [--seed N]     N runs (1,000) with consecutive seeds; --seed alone: one
 *
 * Each run is a process. In a run some workers turn at once: the steps of
 * their iterations (begin, one descriptor, mail, deadlines, the rest, end) are mixed at random, so
 * that results are on their way during requests, timeouts and ends. Each request that a service
 * takes asks the model first; a client must receive what the model answers, and after each step the
 * names that it touched are compared.
 */
#include "net/worker_internal.h"
#include "proto/counter.h"
#include "t/models/locks.h"
#include "t/scenario/fakenet.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#undef WAIT_ANY /* of sys/wait.h: it is a kind of wait here */

#define CLIENTS  600  /* of a run */
#define DEPTH    32   /* most requests of a client on their way */
#define BYTES    4096 /* of them, and of answers that it has not taken */
#define WORKERS  8
#define QUIET_NS (3 * NS_PER_S) /* a connection that was closed lingers no longer */

/* ---- state ----------------------------------------------------------------------------------- */

enum request_kind { ACQUIRE, RELEASE_KEY, RELEASE, BAD, QUIT, NOOP, GET, TAKE, GIVE };

struct request {
    enum request_kind kind;
    unsigned name;
    bool any; /* ACQ4ANY */
    uint32_t units, limit, queue_max;
    int64_t timeout_ns;
    uint8_t opaque[4];
};

struct bytes_queue {
    uint8_t at[BYTES];
    size_t len;
};

struct client {
    struct fake_peer peer; /* first; its descriptor is the client's number */
    struct model_client has;
    bool text, over; /* over: no longer served */
    bool last;       /* it has sent QUIT */
    int64_t deadline_ns;
    struct request requests[DEPTH];
    unsigned served, sent;
    struct bytes_queue wire, expected, got; /* sent and not arrived; answers, and those received */
};

/* A worker's iteration. */
static struct crew {
    int at; /* its step; -1: it is in none */
    bool soon, in_bell;
    int ready[CLIENTS];
    unsigned ready_count;
    uint64_t told[MODEL_NAMES]; /* the last result that came by mail */
} crew[WORKERS];

static struct client clients[CLIENTS];
static int client_count;
static struct model model;
static uint64_t seed, step, served;
static bool ending;
static uint8_t names[MODEL_NAMES][32];

static struct {
    unsigned names, clients, depth, slow, chop, leave,
        moves; /* the last four: one in N; 0: never */
    uint32_t limits[MODEL_NAMES];
    bool fixed_limits;
} mix;

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail(__LINE__, #condition " " __VA_ARGS__);                                            \
    } while (0)

static _Noreturn void fail(int line, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "seed %" PRIu64 ", step %" PRIu64 ", line %d: ", seed, step, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

static uint32_t below(uint32_t bound)
{
    return rng_below(&rng, bound);
}

static bool sometimes(unsigned n)
{
    return n && rng_one_in(&rng, n);
}

static struct bytes name_of(unsigned n)
{
    return bytes_at(names[n], strlen((const char *)names[n]));
}

static struct client *client_of(const struct conn *conn)
{
    return &clients[conn->stream.fd];
}

static void add(struct bytes_queue *q, const void *data, size_t len)
{
    CHECK(len <= sizeof(q->at) - q->len);
    memcpy(q->at + q->len, data, len);
    q->len += len;
}

static void drop(struct bytes_queue *q, size_t len)
{
    memmove(q->at, q->at + len, q->len -= len);
}

/* ---- the services' functions, behind the model ----------------------------------------------- */

static const struct service_row *real[2];

static const struct service_row *real_of(struct conn *conn)
{
    return real[conn_protocol(conn) == &services->services[0]->protocol ? 0 : 1];
}

/* Another server has taken over; this one closes what it has. */
static bool has_moved(void)
{
    return !ending && server_is_ending(&server);
}

static void expect_word(struct client *c, enum pc_reply word)
{
    struct bytes line = pc_reply_line(word);
    add(&c->expected, line.data, line.len);
}

/* Has the model do what a text client asks. Returns the word of the answer; PC_REPLY_COUNT: none
 * yet. */
static enum pc_reply ask_text(struct client *c, const struct request *r)
{
    const struct model_acquire a = {.name = r->name,
                                    .units = 1,
                                    .limit = r->limit,
                                    .queue_max = r->queue_max,
                                    .wait = r->timeout_ns == 0 ? WAIT_NO
                                            : r->any           ? WAIT_ANY
                                                               : WAIT_ME};
    struct model_words words;
    enum pc_reply word;
    switch (r->kind) {
    case ACQUIRE:
        word = model_lock(&model, &c->has, &a);
        if (word == PC_REPLY_COUNT)
            c->deadline_ns = fake_now.mono_ns + r->timeout_ns;
        return word;
    case RELEASE_KEY:
    case RELEASE:
        words = model_unlock_name(&model, &c->has, r->kind == RELEASE ? MODEL_NEWEST : r->name);
        if (words.count > 1)
            expect_word(c, words.word[0]);
        return words.word[words.count - 1];
    case QUIT:
        model_quit(&model, &c->has);
        return PC_REPLY_COUNT;
    default:
        return PC_REPLY_BAD_SYNTAX;
    }
}

/* The same for a binary client; writes the answer. Returns its length. */
static size_t ask_binary(struct client *c, const struct request *r, uint8_t *to)
{
    const struct model_acquire a = {
        .name = r->name, .units = r->units, .limit = r->limit, .wait = WAIT_NO, .keep = true};
    enum ctr_status status = CTR_STATUS_SUCCESS;
    uint8_t opcode = CTR_NOOP;
    if (r->kind == GET) {
        if (model_exists(&model, r->name))
            return ctr_compose_number(CTR_GET, r->opaque, model.names[r->name].consumption, to);
        opcode = CTR_GET;
        status = CTR_STATUS_NOT_FOUND;
    } else if (r->kind == TAKE) {
        if (model_acquire(&model, &c->has.holder, &a, NULL) == TABLE_OK)
            return ctr_compose_number(CTR_ACQUIRE, r->opaque, r->units, to);
        opcode = CTR_ACQUIRE;
        status = CTR_STATUS_NOT_AVAILABLE;
    } else if (r->kind == GIVE) {
        enum table_status is = model_release(&model, &c->has.holder, r->name, r->units);
        opcode = CTR_RELEASE;
        status = is == TABLE_OK          ? CTR_STATUS_SUCCESS
                 : is == TABLE_NOT_FOUND ? CTR_STATUS_NOT_FOUND
                                         : CTR_STATUS_NOT_ACQUIRED;
    }
    return ctr_compose_status(opcode, r->opaque, status, to);
}

static enum served on_serve(struct conn *conn, const void *request)
{
    struct client *c = client_of(conn);
    uint8_t answer[CTR_REPLY_ROOM];
    EXPECT(!c->over && c->served != c->sent, "there is no request");
    const struct request *r = &c->requests[c->served++ % DEPTH];
    served++;
    if (!c->text) {
        size_t len = ask_binary(c, r, answer);
        add(&c->expected, answer, len);
        return real_of(conn)->protocol.serve(conn, request);
    }
    enum pc_reply word = ask_text(c, r);
    enum served how = real_of(conn)->protocol.serve(conn, request); /* results come first */
    if (r->kind == QUIT)
        add(&c->expected, "BYE\n", 4);
    else if (word != PC_REPLY_COUNT)
        expect_word(c, word);
    return how;
}

static void on_expire(struct conn *conn, unsigned which)
{
    struct client *c = client_of(conn);
    EXPECT(worker_now(conn_worker(conn)).mono_ns >= c->deadline_ns, "a timeout is early");
    if (c->has.wait.state == WAIT_WAITING) {
        model_cancel(&model, &c->has.wait);
        expect_word(c, PC_REPLY_TIMEOUT);
    } else {
        expect_word(c, model_note_word(&model, &c->has));
    }
    real_of(conn)->protocol.expire(conn, which);
}

static void on_close(struct conn *conn)
{
    if (!has_moved()) {
        struct client *c = client_of(conn);
        EXPECT(!c->over);
        c->over = true;
        model_client_close(&model, &c->has);
    }
    real_of(conn)->protocol.close(conn);
}

static void on_result(struct conn *conn, struct waiter *waiter)
{
    if (!has_moved()) {
        struct client *c = client_of(conn);
        struct crew *w = &crew[worker_number(conn_worker(conn))];
        struct model_wait *wait = &c->has.wait;
        EXPECT(wait->state == WAIT_GRANTED || wait->state == WAIT_DONE, "it is not its turn");
        EXPECT((waiter->state == WAITER_GRANTED) == (wait->state == WAIT_GRANTED));
        EXPECT(!w->in_bell || wait->decided > w->told[wait->name], "messages change places");
        if (w->in_bell)
            w->told[wait->name] = wait->decided;
        expect_word(c, model_note_word(&model, &c->has));
    }
    real_of(conn)->result(conn, waiter);
}

static void replace_functions(void)
{
    static struct service_row rows[2];
    for (unsigned i = 0; i < 2; i++) {
        struct service *service = services->services[i];
        real[i] = service->row;
        memcpy(&rows[i], real[i], sizeof(rows[i]));
        rows[i].protocol.serve = on_serve;
        rows[i].protocol.close = on_close;
        rows[i].protocol.expire = real[i]->protocol.expire ? on_expire : NULL;
        rows[i].result = real[i]->result ? on_result : NULL;
        service->row = &rows[i];
        service->protocol.row = &rows[i].protocol;
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

static void connect_one(unsigned worker)
{
    struct client *c = &clients[client_count++];
    c->text = !rng_one_in(&rng, 3);
    c->peer.window = SIZE_MAX;
    c->peer.stubborn = rng_one_in(&rng, 4);
    fake_peer_join(&c->peer);
    struct protocol *protocol = &services->services[c->text ? 0 : 1]->protocol;
    atomic_fetch_add(&protocol->connections, 1);
    EXPECT(worker_open(server.workers[worker], protocol, (struct stream){.fd = c->peer.fd}, 0));
}

static int64_t some_timeout(void)
{
    switch (below(8)) {
    case 0:
        return 1 + below(1000);
    case 1:
        return 0;
    case 2:
        return below(5) * NS_PER_S;
    case 3:
        return 15 * NS_PER_S;
    default:
        return (int64_t)below(2000) * NS_PER_MS + below(1000000);
    }
}

static enum request_kind some_kind(const struct client *c)
{
    static const enum request_kind units[] = {NOOP, GET, TAKE, TAKE, TAKE, GIVE, GIVE, GIVE};
    if (!c->text)
        return units[below(ARRAY_SIZE(units))];
    if (rng_one_in(&rng, c->has.wait.state == WAIT_WAITING ? 20 : 60))
        return rng_one_in(&rng, 2) ? QUIT : BAD;
    uint32_t n = below(c->has.lock_count + 5);
    return n == 0 ? RELEASE : n < 4 ? ACQUIRE : rng_one_in(&rng, 2) ? RELEASE : RELEASE_KEY;
}

static size_t put_text(const struct request *r, char *line, size_t room)
{
    const char *name = (const char *)names[r->name], *verb = r->any ? "ACQ4ANY" : "ACQ4ME";
    switch (r->kind) {
    case ACQUIRE:
        return (size_t)snprintf(line, room, "%s %s %u %u %" PRId64 ".%09" PRId64 "\r\n", verb, name,
                                r->limit, r->queue_max, r->timeout_ns / NS_PER_S,
                                r->timeout_ns % NS_PER_S);
    case RELEASE_KEY:
        return (size_t)snprintf(line, room, "RELEASE %s\n", name);
    case BAD:
        return (size_t)snprintf(line, room, "%s %s 0 1\n", verb, name);
    default:
        return (size_t)snprintf(line, room, "%s\n", r->kind == QUIT ? "QUIT" : "RELEASE");
    }
}

/* Puts one more request on the wire. */
static void say(struct client *c)
{
    static const uint8_t opcodes[] = {
        [NOOP] = CTR_NOOP, [GET] = CTR_GET, [TAKE] = CTR_ACQUIRE, [GIVE] = CTR_RELEASE};
    char line[128];
    if (c->sent - c->served >= mix.depth || c->last || c->peer.ended ||
        c->wire.len + c->expected.len > BYTES / 2)
        return;
    struct request *r = &c->requests[c->sent++ % DEPTH];
    *r = (struct request){.kind = some_kind(c), .name = below(mix.names)};
    if (r->kind == RELEASE_KEY && c->has.lock_count && !rng_one_in(&rng, 4))
        r->name = c->has.locks[below(c->has.lock_count)];
    uint32_t most = mix.limits[r->name], has = c->has.holder.of[r->name].units;
    r->limit = mix.fixed_limits ? most : 1 + below(most);
    r->any = rng_one_in(&rng, 3);
    r->queue_max = rng_one_in(&rng, 4) ? 1 + below(8) : 1000000;
    r->timeout_ns = some_timeout();
    r->units = 1 + below(rng_one_in(&rng, 4) ? r->limit : 1);
    if (r->kind == GIVE && !rng_one_in(&rng, 8))
        r->units = has ? 1 + below(has) : below(2);
    c->last = r->kind == QUIT;
    if (c->text) {
        add(&c->wire, line, put_text(r, line, sizeof(line)));
        return;
    }
    struct ctr_request req = {.opcode = opcodes[r->kind],
                              .units = r->units,
                              .maximum = r->limit,
                              .name = name_of(r->name)};
    uint32_t opaque = below(UINT32_MAX);
    memcpy(r->opaque, &opaque, 4);
    memcpy(req.opaque, r->opaque, 4);
    add(&c->wire, line, ctr_compose_request(&req, (uint8_t *)line, sizeof(line)));
}

static void arrive(struct client *c, size_t most)
{
    size_t len = c->wire.len < most ? c->wire.len : most;
    if (len == 0 || c->peer.closed)
        return;
    fake_peer_send(&c->peer, c->wire.at, len);
    drop(&c->wire, len);
}

static void leave(struct client *c)
{
    if (rng_one_in(&rng, 2))
        arrive(c, SIZE_MAX); /* else it goes in the middle of a request */
    *(rng_one_in(&rng, 3) ? &c->peer.broken : &c->peer.ended) = true;
    c->peer.news = true;
}

/* A client does something. */
static void act(struct client *c)
{
    if (sometimes(mix.leave))
        leave(c);
    if (sometimes(mix.slow))
        c->peer.window = below(30);
    if (c->peer.window != SIZE_MAX && rng_one_in(&rng, 8)) {
        c->peer.window = rng_one_in(&rng, 3) ? SIZE_MAX : 1 + below(100);
        c->peer.news = true;
    }
    for (unsigned i = 1 + below(mix.depth); i > 0; i--)
        say(c);
    if (!rng_one_in(&rng, 4))
        arrive(c, sometimes(mix.chop) ? 1 + below(20) : SIZE_MAX);
}

/* ---- the network ----------------------------------------------------------------------------- */

static void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first,
                        bool last)
{
    (void)first;
    (void)last;
    add(&((struct client *)(void *)peer)->got, bytes, len);
}

static void on_closed(struct fake_peer *peer)
{
    const struct client *c = (struct client *)(void *)peer;
    EXPECT(c->over && (ending || peer->ended || peer->broken || c->last), "client %d: closed",
           peer->fd);
}

static ssize_t on_call(struct fake_peer *peer, bool writes, size_t len)
{
    (void)peer;
    (void)writes;
    size_t most = sometimes(mix.chop) ? below(40) : len;
    return most == 0 ? STREAM_AGAIN : most < len ? (ssize_t)most : (ssize_t)len;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What a client has received is what the model has answered. */
static void compare_received(struct client *c)
{
    EXPECT(c->got.len <= c->expected.len && memcmp(c->got.at, c->expected.at, c->got.len) == 0,
           "client %d received \"%.*s\", not \"%.*s\"", c->peer.fd, (int)c->got.len, c->got.at,
           (int)c->expected.len, c->expected.at);
    drop(&c->expected, c->got.len);
    c->got.len = 0;
}

static void compare_touched(void)
{
    for (; model.touched; model.touched &= model.touched - 1) {
        unsigned n = (unsigned)__builtin_ctzll(model.touched);
        uint32_t consumption = 0;
        bool is = table_get(services->table, name_of(n), fake_now, &consumption) == TABLE_OK;
        EXPECT(is == model_exists(&model, n), "name %u", n);
        EXPECT(!is || consumption == model.names[n].consumption, "name %u: %u, not %u", n,
               consumption, model.names[n].consumption);
        EXPECT(!mix.fixed_limits || consumption <= mix.limits[n], "name %u is over its limit", n);
        EXPECT(model_line_is_right(&model, n));
    }
}

static void compare_sums(void)
{
    struct table_stats s;
    uint64_t count = 0;
    table_get_stats(services->table, fake_now, &s);
    for (unsigned n = 0; n < mix.names; n++)
        count += model_exists(&model, n);
    EXPECT(s.units == model.units && s.waiting == model.waiting && s.names == count);
    table_check(services->table);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static struct loop *crew_loop(const struct crew *w)
{
    return loop_of((unsigned)(w - crew));
}

static void see_who_is_ready(struct crew *w)
{
    w->ready_count = 0;
    for (int i = 0; i < client_count; i++) {
        const struct fake_peer *peer = &clients[i].peer;
        if (!peer->closed && peer->loop == crew_loop(w) && fake_peer_ready(peer))
            w->ready[w->ready_count++] = i;
    }
}

static void handle_one(struct crew *w)
{
    unsigned i = below(w->ready_count);
    struct fake_peer *peer = &clients[w->ready[i]].peer;
    w->ready[i] = w->ready[--w->ready_count];
    unsigned ready = peer->closed ? 0 : fake_peer_ready(peer);
    if (ready)
        fake_peer_tell(peer, ready);
}

/* The next step of a worker's iteration. */
static void go_on(struct crew *w)
{
    struct loop *loop = crew_loop(w);
    const struct loop_handlers *h = &loop->handlers;
    step++;
    switch (w->at++) {
    case 0:
        w->soon = loop->soon;
        loop->soon = false;
        (void)h->begin(h->arg);
        see_who_is_ready(w);
        break;
    case 1:
        if (w->ready_count > 0) {
            handle_one(w);
            w->at = 1;
        }
        break;
    case 2:
        for (int i = (int)below(3); i > 0 && !ending && client_count < (int)mix.clients; i--)
            connect_one((unsigned)(w - crew));
        break;
    case 3:
        w->in_bell = true;
        if (loop->rung) {
            loop->rung = false;
            h->bell(h->arg);
        }
        w->in_bell = false;
        break;
    case 4:
        if (loop->timer_at_ns <= worker_now(server.workers[w - crew]).mono_ns) {
            loop->timer_at_ns = INT64_MAX;
            h->timer(h->arg);
        }
        break;
    case 5:
        if (w->soon)
            h->soon(h->arg);
        break;
    default:
        (void)h->end(h->arg);
        w->at = -1;
    }
}

static void take_turns(bool every)
{
    struct crew *turning[WORKERS];
    unsigned count = 0;
    for (unsigned i = 0; i < server.count; i++) {
        if (every || rng_one_in(&rng, 2)) {
            turning[count++] = &crew[i];
            crew[i].at = 0;
        }
    }
    while (count > 0) {
        unsigned i = below(count);
        go_on(turning[i]);
        compare_touched();
        fake_now.mono_ns += below(2) * below(300);
        if (turning[i]->at < 0)
            turning[i] = turning[--count];
    }
    for (int i = 0; i < client_count; i++)
        compare_received(&clients[i]);
}

static bool is_quiet(void)
{
    for (unsigned i = 0; i < server.count; i++) {
        const struct loop *loop = loop_of(i);
        see_who_is_ready(&crew[i]);
        if (crew[i].ready_count || loop->rung || loop->soon ||
            loop->timer_at_ns <= fake_now.mono_ns)
            return false;
    }
    return true;
}

static void let_time_pass(void)
{
    int64_t next_ns = loop_of(below(server.count))->timer_at_ns - fake_now.mono_ns;
    switch (below(16)) {
    case 0: /* about as long as to a deadline */
        if (next_ns > 0 && next_ns < 2 * NS_PER_S)
            fake_pass_time(next_ns + (int64_t)below(3) - 1);
        break;
    case 1:
        fake_pass_time((int64_t)below(20) * NS_PER_MS);
        break;
    case 2:
        fake_pass_time(rng_one_in(&rng, 20) ? (int64_t)below(40) * NS_PER_S : 0);
        break;
    default:
        fake_pass_time((int64_t)below(200000));
    }
}

/* All that was sent arrives, and all answers are taken; then nothing may be left to do. */
static void become_quiet(void)
{
    for (int i = 0; i < client_count; i++) {
        arrive(&clients[i], SIZE_MAX);
        clients[i].peer.window = SIZE_MAX;
        clients[i].peer.news = true;
    }
    unsigned most = mix.clients;
    mix.clients = 0;
    for (unsigned i = 0; !is_quiet(); i++) {
        take_turns(true);
        EXPECT(i < 100000, "it does not come to rest");
    }
    mix.clients = most;
    compare_sums();
    EXPECT(model.untold == 0, "%" PRIu64 " results were not told", model.untold);
    for (int i = 0; i < client_count; i++) {
        const struct client *c = &clients[i];
        EXPECT(c->over || c->has.wait.state != WAIT_WAITING || c->deadline_ns > fake_now.mono_ns,
               "client %d: a timeout is late", i);
        EXPECT(c->over || (c->served == c->sent && c->expected.len == 0),
               "client %d was not served", i);
        EXPECT(c->over || !(c->peer.ended || c->peer.broken), "client %d is not closed", i);
    }
}

static void upgrade(void)
{
    const char *wrong = server_upgrade(1 + below(WORKERS));
    EXPECT(!wrong, "%s", wrong);
    replace_functions();
    memset(crew, 0, sizeof(crew));
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool any_is_open(void)
{
    for (int i = 0; i < client_count; i++) {
        if (!clients[i].peer.closed)
            return true;
    }
    return false;
}

/* All clients go, or the server ends first. In both cases nothing may be left. */
static void finish(void)
{
    if (rng_one_in(&rng, 2)) {
        for (int i = 0; i < client_count; i++)
            leave(&clients[i]);
        become_quiet();
        fake_pass_time(QUIET_NS);
        become_quiet();
        EXPECT(!any_is_open());
    }
    ending = true;
    server_end(&server);
    for (unsigned i = 0; i < server.count; i++)
        worker_stop(server.workers[i]);
    for (unsigned i = 0; any_is_open(); i++) {
        take_turns(true);
        EXPECT(i < 100000, "it does not end");
    }
    for (unsigned i = 0; i < server.count; i++)
        worker_drain(server.workers[i]);
    struct table_stats s;
    table_get_stats(services->table, fake_now, &s);
    EXPECT(s.units == 0 && s.waiting == 0 && s.holdings == 0);
    EXPECT(model.units == 0 && model.waiting == 0 && model.untold == 0);
    const char *wrong = server_see_memory_back();
    EXPECT(!wrong, "%s", wrong);
}

static void choose_mix(void)
{
    mix.names = 1 + below(rng_one_in(&rng, 2) ? 4 : MODEL_NAMES);
    mix.clients = 2 + below(rng_one_in(&rng, 4) ? CLIENTS - 2 : 60);
    mix.depth = 1 + below(rng_one_in(&rng, 2) ? 3 : DEPTH - 1);
    mix.slow = rng_one_in(&rng, 2) ? 0 : 4 + below(60);
    mix.chop = rng_one_in(&rng, 2) ? 0 : 1 + below(8);
    mix.leave = 8 + below(rng_one_in(&rng, 2) ? 20 : 200);
    mix.moves = rng_one_in(&rng, 2) ? 0 : 100 + below(400);
    mix.fixed_limits = rng_one_in(&rng, 2);
    for (unsigned n = 0; n < mix.names; n++) {
        mix.limits[n] = 1 + below(rng_one_in(&rng, 2) ? 3 : 20);
        memset(names[n], 'a' + (int)(n % 26), 2 + below(28));
        names[n][0] = (uint8_t)('A' + n / 26);
    }
}

static void run(void)
{
    static const struct fake_hooks hooks = {
        .received = on_received, .closed = on_closed, .call = on_call};
    char words[256], *save = words;
    struct rng first = {.state = seed};
    uint32_t interval_s = 1 + rng_below(&first, rng_one_in(&first, 2) ? 20 : 1000);
    snprintf(words, sizeof(words),
             "seed=%" PRIu64 " workers=%u stats_interval=%u buckets=%u output_buffer=%u "
             "request_timeout=1000000 write_timeout=1000000",
             rng_next(&first), 1 + rng_below(&first, WORKERS), interval_s,
             1 + rng_below(&first, 200), 1u << (8 + rng_below(&first, 4)));
    const char *wrong = server_start(&save, &hooks);
    EXPECT(!wrong, "%s", wrong);
    choose_mix();
    model = (struct model){.now = &fake_now, .interval_s = interval_s};
    replace_functions();
    uint64_t until = 1000 + below(2000);
    for (unsigned round = 0; served < until && round < 20000; round++) {
        for (unsigned i = below(8); i > 0 && client_count > 0; i--)
            act(&clients[below((uint32_t)client_count)]);
        take_turns(false);
        let_time_pass();
        if (round % 8 == 0)
            compare_sums();
        if (rng_one_in(&rng, 200))
            become_quiet();
        if (sometimes(mix.moves))
            upgrade();
    }
    finish();
    server_gone();
    model_free(&model);
    fake_peers_leave();
    EXPECT(!server_leaks(), "memory was not freed");
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1000, failed = 0, *to = NULL;
    CHECK(getrandom(&seed, 4, 0) == 4);
    for (int i = 1; i + 1 < argc; i += 2) {
        to = strcmp(argv[i], "--seed") == 0    ? &seed
             : strcmp(argv[i], "--seeds") == 0 ? &seeds
                                               : NULL;
        if (to == &seed && argc == 3)
            seeds = 1;
        if (to)
            *to = strtoull(argv[i + 1], NULL, 0);
    }
    if (argc % 2 == 0 || (argc > 1 && !to)) {
        fprintf(stderr, "simulate [--seeds N] [--seed N]\n");
        return 2;
    }
    printf("simulate: %" PRIu64 " runs from seed %" PRIu64 "\n", seeds, seed);
    for (; seeds > 0 && !failed; seeds--, seed++) {
        fflush(stdout);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            run();
            exit(0);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status != 0) {
            printf("FAILED: --seed %" PRIu64 "\n", seed);
            failed++;
        }
    }
    return failed > 0;
}
