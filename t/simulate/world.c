/*
 * world.c - one run of the simulation (see world.h).
 *
 * The real engine, services, connections and workers run on fake.c's loops and streams, in one
 * thread. A round has some of the workers take a turn of their loops; what they do in it (begin,
 * deal with one descriptor, take their mail, look at their deadlines, go on, end) is mixed at
 * random, so that verdicts are on their way while others' requests, timeouts and ends come.
 * Between rounds clients act and the clock goes on.
 *
 * The functions of `struct protocol` are replaced by ones that ask the model first and then call
 * the real one. What the services reply is caught where they hand it to the connection (--wrap) and
 * compared at once; what a client receives is compared with what was replied to it. So a failure
 * says at which request it is, not at the end.
 */
#include "t/simulate/world.h"

#include "net/rules.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "service/service.h"
#include "t/simulate/fake.h"
#include "t/simulate/model.h"
#include "t/unit/engine/faults.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORKERS  8
#define DEPTH    64 /* requests of a client on their way, at most */
#define LINE_MAX 4000
#define TIMEOUT  (30 * NS_PER_S) /* for requests and writes */

/* ---- failing ------------------------------------------------------------------------------ */

static const struct plan *plan;
static struct outcome *result;
static uint64_t step;

static _Noreturn void fail(const char *what, int line, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "seed %" PRIu64 ", step %" PRIu64 " (world.c:%d): %s", plan->seed, step, line,
            what);
    va_start(args, format);
    if (*format)
        fprintf(stderr, ": ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (unlikely(!(condition)))                                                                \
            fail(#condition, __LINE__, "" __VA_ARGS__);                                            \
    } while (0)

/* ---- chance ------------------------------------------------------------------------------- */

static uint64_t rng_state;

static uint64_t random_bits(void)
{
    rng_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = rng_state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t below(uint32_t bound)
{
    return (uint32_t)((random_bits() >> 32) * bound >> 32);
}

static bool one_in(uint32_t n)
{
    return below(n) == 0;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* While the server runs; what this program itself takes is never refused. */
static bool in_server;
static uint32_t fail_one_in;

static bool refuse_memory(void)
{
    if (!in_server)
        return false;
    result->pieces++;
    bool no = plan->fail_at ? result->pieces == plan->fail_at : fail_one_in && one_in(fail_one_in);
    result->refused += no;
    return no;
}

/* Whether memory was refused since `before`, or the table has none left to speak of. */
static struct services *services;

static bool may_lack_memory(unsigned long before)
{
    return faults != before || table_is_tight(services->table);
}

/* Bytes in order, taken from the front. */
struct bytes_queue {
    uint8_t *data;
    size_t begin, end, room;
};

static size_t queued(const struct bytes_queue *q)
{
    return q->end - q->begin;
}

static void enqueue(struct bytes_queue *q, const void *bytes, size_t len)
{
    if (len == 0)
        return; /* there may be no memory for it either */
    if (q->begin == q->end)
        q->begin = q->end = 0;
    if (q->end + len > q->room) {
        bool was = in_server;
        in_server = false;
        q->room = (q->end + len) * 2;
        q->data = realloc(q->data, q->room);
        CHECK(q->data);
        in_server = was;
    }
    memcpy(q->data + q->end, bytes, len);
    q->end += len;
}

/* ---- clients ------------------------------------------------------------------------------ */

enum request_kind {
    TEXT_ACQUIRE,
    TEXT_RELEASE_KEY,
    TEXT_RELEASE,
    TEXT_STATS,
    TEXT_BAD,
    TEXT_TOO_LONG,
    BINARY_NOOP,
    BINARY_GET,
    BINARY_ACQUIRE,
    BINARY_RELEASE,
    BINARY_STATS,
    BINARY_DUMP,
    BINARY_BAD,
    BINARY_UNKNOWN,
    BINARY_BAD_MAGIC,
};

struct request {
    enum request_kind kind;
    uint8_t name;
    bool any; /* ACQ4ANY */
    uint32_t units, limit, queue_max;
    uint32_t len; /* bytes */
    uint8_t opaque[4];
    int64_t timeout_ns;
};

/* A Dump under way. */
struct dump {
    uint8_t opaque[4];
    uint32_t life[MODEL_NAMES]; /* when it began; 0: it was not there */
    bool seen[MODEL_NAMES];
};

struct client {
    struct fake_peer peer;
    struct model_client has;
    struct client *next, *next_closed; /* of all, also those gone; of `closed` */
    unsigned worker, place;
    bool text, opened, over; /* over: it is a client no more, but may hear its last */
    bool hot;                /* in its worker's list of those that may be ready */
    bool rude;               /* leaves as soon as it has said all */
    bool killed;
    struct conn *conn;
    uint64_t tag;
    struct mail kill;
    struct protocol *protocol;
    struct request requests[DEPTH];
    unsigned head, tail;      /* served, said */
    struct bytes_queue wire;  /* said, not arrived */
    struct bytes_queue reply; /* replied, not received */
    size_t unchecked;         /* of the replies, the last: not compared with the model yet */
    struct dump *dump;
    bool partial;  /* a request has arrived in part */
    bool was_full; /* of output: then an unfinished request is begun anew when that is gone */
    int64_t partial_ns, partial_again_ns, progress_ns;
    unsigned allowed; /* reasons to close, when it was closed */
};

/* A worker and those of its clients that may be ready for something. */
static struct crew {
    struct worker *worker;
    struct loop *loop;
    struct client **hot;
    unsigned hot_count, hot_room;
    struct client **by_slot;
    unsigned slots;
    int at;        /* its place in the turn; -1: in none */
    unsigned left; /* descriptors to tell in it */
    bool soon, in_bell;
    uint64_t mail_decided[MODEL_NAMES]; /* the last decision told by mail */
} crew[WORKERS];

static struct server server;
static struct model model;
static struct client *all;
static struct client **open_clients;
static unsigned open_count, open_room;
static struct client *opening;
static struct client *closed; /* since somebody looked */
static uint64_t reasons_told[2][CLOSE_REASON_COUNT];
static uint64_t served;
static bool ending, limited;
static uint64_t memory_at_start; /* of the table */

/* What the seed has chosen. */
static struct {
    unsigned workers, names, clients, depth, burst, rush;
    unsigned slow, chop, leave, refused, dumps, bad, calm; /* one in so many; 0: never */
    uint32_t limits[MODEL_NAMES];
    struct bytes name[MODEL_NAMES];
    uint8_t bytes[MODEL_NAMES][3000];
    bool fixed_limits;
} mix;

static void heat(struct client *c)
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

static struct client *client_of_peer(struct fake_peer *peer)
{
    return container_of(peer, struct client, peer);
}

static struct client *client_of(struct conn *conn)
{
    uint64_t tag = conn_tag(conn);
    struct crew *w = &crew[conn_tag_worker(tag)];
    uint32_t slot = (uint32_t)(tag >> 32) & 0xffffff;
    CHECK(slot < w->slots);
    struct client *c = w->by_slot[slot];
    EXPECT(c && c->tag == tag);
    return c;
}

/* ---- what is replied and received --------------------------------------------------------- */

void *__real_conn_reply_room(struct conn *conn, size_t size);
void *__wrap_conn_reply_room(struct conn *conn, size_t size);
void __real_conn_replied(struct conn *conn, size_t len);
void __wrap_conn_replied(struct conn *conn, size_t len);
void __real_conn_reply(struct conn *conn, const void *data, size_t len);
void __wrap_conn_reply(struct conn *conn, const void *data, size_t len);

static void *reply_room;

static void note_reply(struct conn *conn, const void *data, size_t len)
{
    struct client *c = client_of(conn);
    if (queued(&c->reply) == 0)
        c->progress_ns = worker_now(conn_worker(conn)).mono_ns;
    enqueue(&c->reply, data, len);
    c->unchecked += len;
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

static void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first,
                        bool last)
{
    (void)first;
    (void)last;
    struct client *c = client_of_peer(peer);
    EXPECT(len <= queued(&c->reply) && memcmp(c->reply.data + c->reply.begin, bytes, len) == 0,
           "client %d received what was not replied", peer->fd);
    c->reply.begin += len;
    c->progress_ns = worker_now(crew[c->worker].worker).mono_ns;
}

/* What the model says is replied to the request that is dealt with, so far. */
static struct {
    struct client *to;
    uint8_t bytes[8192];
    size_t len;
} answer;

static void expect_bytes(const void *bytes, size_t len)
{
    CHECK(len <= sizeof(answer.bytes) - answer.len);
    memcpy(answer.bytes + answer.len, bytes, len);
    answer.len += len;
}

static void expect_word(enum pc_reply word)
{
    struct bytes line = pc_reply_line(word);
    expect_bytes(line.data, line.len);
}

static const uint8_t *unchecked(const struct client *c)
{
    return c->reply.data + c->reply.end - c->unchecked;
}

static bool was_replied(const struct client *c, const void *bytes, size_t len)
{
    return c->unchecked >= len && memcmp(c->reply.data + c->reply.end - len, bytes, len) == 0;
}

/* All that was replied is what the model says. */
static void compare_answer(struct client *c, const void *bytes, size_t len)
{
    EXPECT(c->unchecked == len && (len == 0 || memcmp(unchecked(c), bytes, len) == 0),
           "client %d: replied \"%.*s\", not \"%.*s\"", c->peer.fd, (int)c->unchecked,
           (const char *)(c->unchecked ? unchecked(c) : (const uint8_t *)""), (int)len,
           (const char *)bytes);
    c->unchecked = 0;
}

static void on_stirred(struct fake_peer *peer)
{
    heat(client_of_peer(peer));
}

/* ---- what the model says of requests ------------------------------------------------------ */

static void begin_answer(struct client *c)
{
    CHECK(!answer.to);
    answer.to = c;
    answer.len = 0;
}

static void end_answer(struct client *c)
{
    answer.to = NULL;
    compare_answer(c, answer.bytes, answer.len);
}

static enum pc_reply word_of_acquire(struct client *c, const struct request *r, bool no_memory)
{
    const struct model_acquire a = {
        .name = r->name,
        .units = 1,
        .limit = r->limit,
        .queue_max = r->queue_max,
        .wait = r->timeout_ns == 0 ? WAIT_NO
                : r->any           ? WAIT_ANY
                                   : WAIT_ME,
        .no_memory = no_memory,
    };
    enum pc_reply word = model_lock(&model, &c->has, &a);
    if (word == PC_REPLY_COUNT) {
        c->has.wait.deadline_ns = fake_now.mono_ns + r->timeout_ns;
        result->waits++;
    }
    return word;
}

static enum ctr_status status_of(enum table_status status)
{
    switch (status) {
    case TABLE_OK:
        return CTR_STATUS_SUCCESS;
    case TABLE_BUSY:
        return CTR_STATUS_NOT_AVAILABLE;
    case TABLE_NOT_FOUND:
        return CTR_STATUS_NOT_FOUND;
    case TABLE_NOT_HELD:
        return CTR_STATUS_NOT_ACQUIRED;
    case TABLE_NO_MEMORY:
        return CTR_STATUS_OUT_OF_MEMORY;
    default:
        CHECK(false);
    }
    return CTR_STATUS_SUCCESS;
}

static void expect_status(const struct request *r, uint8_t opcode, enum ctr_status status)
{
    uint8_t bytes[CTR_REPLY_ROOM];
    expect_bytes(bytes, ctr_compose_status(opcode, r->opaque, status, bytes));
}

static void expect_number(const struct request *r, uint8_t opcode, uint32_t number)
{
    uint8_t bytes[CTR_REPLY_ROOM];
    expect_bytes(bytes, ctr_compose_number(opcode, r->opaque, number, bytes));
}

/* What was replied goes for the answer, once it was looked at. */
static void take_as_answer(const struct client *c)
{
    answer.len = 0;
    expect_bytes(unchecked(c), c->unchecked);
}

static void look_at_text_stats(const struct client *c)
{
    char text[64];
    snprintf(text, sizeof(text), "waiting_workers: %" PRIu64 "\n", model.in_line + model.untold);
    EXPECT(c->unchecked >= strlen(text) && memcmp(unchecked(c), text, strlen(text)) == 0,
           "%.*s instead of %s", (int)c->unchecked, (const char *)unchecked(c), text);
    take_as_answer(c);
}

static void look_at_binary_stats(const struct client *c, const struct request *r)
{
    struct ctr_reply reply;
    size_t used;
    EXPECT(ctr_parse_reply(unchecked(c), c->unchecked, &reply, &used) == CTR_OK);
    EXPECT(used == c->unchecked && reply.opcode == CTR_STATS && reply.status == 0 &&
           memcmp(reply.opaque, r->opaque, 4) == 0);
    struct bytes body = reply.body, name, value;
    unsigned seen = 0;
    while (ctr_reply_stat(&body, &name, &value)) {
        char text[32] = "";
        CHECK(value.len < sizeof(text));
        memcpy(text, value.data, value.len);
        uint64_t number = strtoull(text, NULL, 10);
        if (name.len == 10 && memcmp(name.data, "held_units", 10) == 0 && ++seen)
            EXPECT(number == model.units);
        if (name.len == 7 && memcmp(name.data, "waiters", 7) == 0 && ++seen)
            EXPECT(number == model.in_line);
    }
    EXPECT(body.len == 0 && seen == 2);
    take_as_answer(c);
}

/* A Dump begins, or there was no memory for it. */
static void begin_dump(struct client *c, const struct request *r)
{
    if (c->unchecked) {
        EXPECT(faults > 0);
        expect_status(r, CTR_DUMP, CTR_STATUS_OUT_OF_MEMORY);
        result->out_of_memory++;
        return;
    }
    c->dump = calloc(1, sizeof(*c->dump));
    CHECK(c->dump);
    memcpy(c->dump->opaque, r->opaque, 4);
    for (unsigned n = 0; n < mix.names; n++)
        c->dump->life[n] = model_exists(&model, n) ? model.names[n].life : 0;
}

/*
 * Before the real request: what gives something back. Returns the word that will be replied, after
 * what it is told of those it wakes.
 */
static enum pc_reply give_back(struct client *c, const struct request *r)
{
    if (r->kind != TEXT_RELEASE && r->kind != TEXT_RELEASE_KEY)
        return PC_REPLY_COUNT;
    struct model_words words =
        model_unlock_name(&model, &c->has, r->kind == TEXT_RELEASE ? MODEL_NEWEST : r->name);
    if (words.count > 1)
        expect_word(words.word[0]);
    return words.word[words.count - 1];
}

static void expect_text(struct client *c, const struct request *r, enum pc_reply released,
                        unsigned long faults_before)
{
    enum pc_reply word = PC_REPLY_COUNT;
    switch (r->kind) {
    case TEXT_ACQUIRE: {
        struct bytes line = pc_reply_line(PC_REPLY_OUT_OF_MEMORY);
        bool none = was_replied(c, line.data, line.len);
        EXPECT(!none || may_lack_memory(faults_before));
        result->out_of_memory += none;
        word = word_of_acquire(c, r, none);
        EXPECT(!none || word == PC_REPLY_OUT_OF_MEMORY);
        break;
    }
    case TEXT_RELEASE:
    case TEXT_RELEASE_KEY:
        word = released;
        break;
    case TEXT_STATS:
        look_at_text_stats(c);
        return;
    case TEXT_BAD:
        word = PC_REPLY_BAD_SYNTAX;
        break;
    case TEXT_TOO_LONG:
        word = PC_REPLY_LINE_TOO_LONG;
        break;
    default:
        CHECK(false);
    }
    if (word != PC_REPLY_COUNT)
        expect_word(word);
}

/* A binary Release is before the real one, all else after it. */
static enum ctr_status give_back_units(struct client *c, const struct request *r)
{
    if (r->kind != BINARY_RELEASE)
        return CTR_STATUS_SUCCESS;
    return status_of(model_release(&model, &c->has, r->name, r->units));
}

static void expect_binary_acquire(struct client *c, const struct request *r,
                                  unsigned long faults_before)
{
    uint8_t bytes[CTR_REPLY_ROOM];
    size_t len = ctr_compose_status(CTR_ACQUIRE, r->opaque, CTR_STATUS_OUT_OF_MEMORY, bytes);
    const struct model_acquire a = {
        .name = r->name,
        .units = r->units,
        .limit = r->limit,
        .wait = WAIT_NO,
        .keep = true,
        .no_memory = was_replied(c, bytes, len),
    };
    EXPECT(!a.no_memory || may_lack_memory(faults_before));
    result->out_of_memory += a.no_memory;
    enum table_status status = model_acquire(&model, &c->has, &a);
    EXPECT(!a.no_memory || status == TABLE_NO_MEMORY);
    if (status == TABLE_OK)
        expect_number(r, CTR_ACQUIRE, r->units);
    else
        expect_status(r, CTR_ACQUIRE, status_of(status));
}

static void expect_binary(struct client *c, const struct request *r, enum ctr_status released,
                          unsigned long faults_before)
{
    switch (r->kind) {
    case BINARY_NOOP:
        expect_status(r, CTR_NOOP, CTR_STATUS_SUCCESS);
        break;
    case BINARY_GET:
        if (model_exists(&model, r->name))
            expect_number(r, CTR_GET, model.names[r->name].consumption);
        else
            expect_status(r, CTR_GET, CTR_STATUS_NOT_FOUND);
        break;
    case BINARY_ACQUIRE:
        expect_binary_acquire(c, r, faults_before);
        break;
    case BINARY_RELEASE:
        expect_status(r, CTR_RELEASE, released);
        break;
    case BINARY_STATS:
        look_at_binary_stats(c, r);
        break;
    case BINARY_DUMP:
        begin_dump(c, r);
        break;
    case BINARY_BAD:
        expect_status(r, CTR_ACQUIRE, CTR_STATUS_INVALID);
        break;
    case BINARY_UNKNOWN:
        expect_status(r, 0x77, CTR_STATUS_UNKNOWN_COMMAND);
        break;
    default:
        CHECK(false);
    }
}

/* ---- the protocols' functions, with the model before and after them ------------------------ */

static struct real {
    struct protocol is; /* as it was */
    void (*verdict)(struct conn *conn, struct waiter *waiter);
} text, binary;

static const struct real *real_of(const struct client *c)
{
    return c->text ? &text : &binary;
}

static void on_open(struct conn *conn)
{
    uint64_t tag = conn_tag(conn);
    uint32_t slot = (uint32_t)(tag >> 32) & 0xffffff;
    struct crew *w = &crew[conn_tag_worker(tag)];
    struct client *c = opening;
    in_server = false;
    if (slot >= w->slots) {
        unsigned slots = slot * 2 + 64;
        w->by_slot = realloc(w->by_slot, slots * sizeof(struct client *));
        CHECK(w->by_slot);
        memset(w->by_slot + w->slots, 0, (slots - w->slots) * sizeof(struct client *));
        w->slots = slots;
    }
    w->by_slot[slot] = c;
    c->conn = conn;
    c->tag = tag;
    c->opened = true;
    in_server = true;
    real_of(c)->is.open(conn);
}

/* Whether the first request in `len` bytes is all there, as far as it takes to answer it. */
static bool is_whole(const struct request *r, size_t len)
{
    switch (r->kind) {
    case BINARY_BAD_MAGIC:
        return true;
    case TEXT_TOO_LONG:
        return len > LINE_MAX + 1; /* the last byte may be the first one of the line's end */
    default:
        return len >= r->len;
    }
}

/* A request has arrived in part. */
static void note_partial(struct client *c)
{
    int64_t now_ns = worker_now(crew[c->worker].worker).mono_ns;
    if (!c->partial)
        c->partial_ns = now_ns;
    if (!c->partial || c->was_full)
        c->partial_again_ns = now_ns;
    c->was_full = false;
    c->partial = true;
}

static enum consumed consume(struct conn *conn, const uint8_t *data, size_t len, bool foreseen,
                             size_t *used_r)
{
    struct client *c = client_of(conn);
    EXPECT(!c->over && !c->dump);
    EXPECT(c->head != c->tail, "there is no request");
    const struct request *r = &c->requests[c->head % DEPTH];
    const struct real *real = real_of(c);
    bool whole = foreseen || is_whole(r, len);
    if (!whole && r->kind != TEXT_TOO_LONG) {
        in_server = true;
        enum consumed more = real->is.consume(conn, data, len, used_r);
        in_server = false;
        EXPECT(more == CONSUMED_MORE && c->unchecked == 0, "of %u bytes only %zu are there", r->len,
               len);
        note_partial(c);
        return more;
    }
    begin_answer(c);
    unsigned long faults_before = faults;
    enum pc_reply released = c->text ? give_back(c, r) : PC_REPLY_COUNT;
    enum ctr_status status = c->text ? CTR_STATUS_SUCCESS : give_back_units(c, r);
    in_server = true;
    enum consumed got = foreseen ? real->is.consume_foreseen(conn, used_r)
                                 : real->is.consume(conn, data, len, used_r);
    in_server = false;
    if (got == CONSUMED_MORE) { /* too long, but not certainly */
        EXPECT(!whole);
        answer.to = NULL;
        note_partial(c);
        return got;
    }
    if (r->kind == BINARY_BAD_MAGIC) {
        expect_bytes(unchecked(c), c->unchecked); /* what it echoes depends on what is there */
        EXPECT(c->unchecked > CTR_HEADER && unchecked(c)[2] == CTR_STATUS_INVALID);
    } else if (c->text) {
        expect_text(c, r, released, faults_before);
    } else {
        expect_binary(c, r, status, faults_before);
    }
    end_answer(c);
    bool last = r->kind == BINARY_BAD_MAGIC || r->kind == TEXT_TOO_LONG;
    EXPECT(got == (last ? CONSUMED_LAST : c->dump ? CONSUMED_PAUSED : CONSUMED_ONE));
    EXPECT(last || *used_r == r->len);
    c->partial = false;
    c->head++;
    served++;
    return got;
}

static enum consumed on_consume(struct conn *conn, const uint8_t *data, size_t len, size_t *used_r)
{
    in_server = false;
    enum consumed got = consume(conn, data, len, false, used_r);
    in_server = true;
    return got;
}

static enum consumed on_consume_foreseen(struct conn *conn, size_t *used_r)
{
    in_server = false;
    enum consumed got = consume(conn, NULL, 0, true, used_r);
    in_server = true;
    return got;
}

static void on_expire(struct conn *conn)
{
    in_server = false;
    struct client *c = client_of(conn);
    EXPECT(c->has.wait.state != WAIT_NONE);
    EXPECT(worker_now(conn_worker(conn)).mono_ns >= c->has.wait.deadline_ns, "a timeout is early");
    begin_answer(c);
    if (c->has.wait.state == WAIT_WAITING) {
        model_cancel(&model, &c->has);
        expect_word(PC_REPLY_TIMEOUT);
    } else {
        expect_word(model_note_word(&model, &c->has));
    }
    in_server = true;
    real_of(c)->is.expire(conn);
    in_server = false;
    end_answer(c);
    in_server = true;
}

static void on_close(struct conn *conn)
{
    in_server = false;
    struct client *c = client_of(conn);
    EXPECT(!c->over);
    c->over = true;
    free(c->dump);
    c->dump = NULL;
    model_close(&model, &c->has);
    in_server = true;
    real_of(c)->is.close(conn);
}

static void on_verdict(struct conn *conn, struct waiter *waiter)
{
    in_server = false;
    struct client *c = client_of(conn);
    struct crew *w = &crew[c->worker];
    enum model_wait_state state = c->has.wait.state;
    EXPECT(state == WAIT_GRANTED || state == WAIT_DONE, "client %d: it is not its turn",
           c->peer.fd);
    EXPECT(waiter->state == (state == WAIT_GRANTED ? WAITER_GRANTED : WAITER_DONE));
    /* Letters come in the order in which they were sent. */
    uint64_t *told = &w->mail_decided[c->has.wait.name];
    EXPECT(!w->in_bell || c->has.wait.decided > *told);
    if (w->in_bell)
        *told = c->has.wait.decided;
    bool outer = answer.to == c;
    if (!outer)
        EXPECT(c->unchecked == 0);
    enum pc_reply word = model_note_word(&model, &c->has);
    struct bytes line = pc_reply_line(word);
    in_server = true;
    text.verdict(conn, waiter);
    in_server = false;
    if (outer)
        expect_word(word);
    else
        compare_answer(c, line.data, line.len);
    in_server = true;
}

static unsigned name_number(struct bytes name)
{
    for (unsigned n = 0; n < mix.names; n++) {
        if (name.len == mix.name[n].len && memcmp(name.data, mix.name[n].data, name.len) == 0)
            return n;
    }
    EXPECT(false, "a name nobody has said");
    return 0;
}

/* One reply of a Dump; true: its last. */
static bool look_at_dump(struct client *c, const struct ctr_reply *reply)
{
    uint32_t consumption, peak;
    struct bytes name;
    EXPECT(reply->opcode == CTR_DUMP && memcmp(reply->opaque, c->dump->opaque, 4) == 0);
    if (reply->body.len == 0) {
        for (unsigned n = 0; n < mix.names; n++) {
            bool all_along = c->dump->life[n] && model_exists(&model, n) &&
                             model.names[n].life == c->dump->life[n];
            EXPECT(!all_along || c->dump->seen[n], "a Dump left out name %u", n);
        }
        return true;
    }
    EXPECT(ctr_reply_dump(reply, &consumption, &peak, &name));
    unsigned n = name_number(name);
    EXPECT(model_exists(&model, n) && model.names[n].consumption == consumption);
    EXPECT(model_peak(&model, n) == peak, "%u, not %u", peak, model_peak(&model, n));
    EXPECT(!c->dump->seen[n] || model.names[n].life != c->dump->life[n], "twice");
    c->dump->seen[n] = true;
    return false;
}

static bool on_resume(struct conn *conn)
{
    struct client *c = client_of(conn);
    bool over = real_of(c)->is.resume(conn), last = false;
    in_server = false;
    EXPECT(c->dump);
    while (c->unchecked > 0) {
        struct ctr_reply reply;
        size_t used;
        EXPECT(!last && ctr_parse_reply(unchecked(c), c->unchecked, &reply, &used) == CTR_OK);
        last = look_at_dump(c, &reply);
        c->unchecked -= used;
    }
    EXPECT(last == over);
    if (over) {
        free(c->dump);
        c->dump = NULL;
    }
    in_server = true;
    return over;
}

static void replace(struct service *service, struct real *real)
{
    struct protocol *p = &service->protocol;
    *real = (struct real){.verdict = service->verdict};
    memcpy(&real->is, p, sizeof(*p));
    p->open = on_open;
    p->consume = on_consume;
    p->consume_foreseen = on_consume_foreseen;
    p->close = on_close;
    if (p->resume)
        p->resume = on_resume;
    if (p->expire)
        p->expire = on_expire;
    if (service->verdict)
        service->verdict = on_verdict;
}

/* ---- the ends of connections -------------------------------------------------------------- */

static unsigned bit(enum close_reason reason)
{
    return 1u << reason;
}

/* Why a client may be closed now. */
static unsigned allowed_reasons(const struct client *c)
{
    int64_t now_ns = worker_now(crew[c->worker].worker).mono_ns;
    unsigned allowed = ending ? bit(CLOSE_SHUTDOWN) : 0;
    if (c->killed)
        allowed |= bit(CLOSE_KILLED);
    if (faults > 0)
        allowed |= bit(CLOSE_MEMORY);
    if (c->head > 0 && (c->requests[(c->head - 1) % DEPTH].kind == BINARY_BAD_MAGIC ||
                        c->requests[(c->head - 1) % DEPTH].kind == TEXT_TOO_LONG))
        return allowed | bit(CLOSE_PROTOCOL);
    if (c->peer.broken)
        allowed |= bit(CLOSE_RESET);
    if (c->peer.ended || c->peer.broken)
        allowed |= bit(CLOSE_PEER);
    if (c->partial && now_ns >= c->partial_ns + TIMEOUT)
        allowed |= bit(CLOSE_REQUEST_TIMEOUT);
    if (queued(&c->reply) && now_ns >= c->progress_ns + TIMEOUT)
        allowed |= bit(CLOSE_WRITE_TIMEOUT);
    return allowed;
}

static void on_closed(struct fake_peer *peer)
{
    struct client *c = client_of_peer(peer);
    if (!c->opened) {
        EXPECT(faults > 0 || ending, "a client was turned away");
        return;
    }
    EXPECT(c->over);
    c->allowed = allowed_reasons(c);
    struct client *last = open_clients[--open_count];
    open_clients[c->place] = last;
    last->place = c->place;
    crew[c->worker].by_slot[(uint32_t)(c->tag >> 32) & 0xffffff] = NULL;
    c->conn = NULL;
    c->next_closed = closed;
    closed = c;
}

/* Each that has closed was closed for a reason that it gave. */
static void look_at_closed(void)
{
    unsigned allowed[2] = {0}, told[2] = {0};
    uint64_t clients[2] = {0}, reasons[2] = {0};
    for (; closed; closed = closed->next_closed) {
        clients[closed->text]++;
        allowed[closed->text] |= closed->allowed;
        if (!closed->next_closed && clients[0] + clients[1] == 1) /* the only one */
            EXPECT(closed->allowed, "client %d was closed for no reason", closed->peer.fd);
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct protocol *p = services_protocol(services, i ? "poolcounter" : "counter");
        for (unsigned r = 0; r < CLOSE_REASON_COUNT; r++) {
            uint64_t count = atomic_load(&p->closed[r]), more = count - reasons_told[i][r];
            reasons_told[i][r] = count;
            reasons[i] += more;
            result->closed[r] += more;
            told[i] |= more ? 1u << r : 0;
            EXPECT(!more || allowed[i] & 1u << r, "closed: %s",
                   close_reason_word((enum close_reason)r));
        }
        EXPECT(clients[i] == reasons[i]);
    }
}

/* ---- what clients do ---------------------------------------------------------------------- */

static bool sometimes(unsigned n)
{
    return n && one_in(n);
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
        CHECK(false);
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

/* Timeouts: none, short ones, and such as lie at the edges of others. */
static int64_t some_timeout(void)
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

/* One more request goes onto the wire. */
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
    if (r->kind == BINARY_RELEASE && c->has.units[r->name] && !one_in(8))
        r->units = 1 + below(c->has.units[r->name]);
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
        c->rude = true; /* nothing follows */
}

/* Some of what is on the wire arrives. */
static void arrive(struct client *c, size_t most)
{
    size_t len = queued(&c->wire) < most ? queued(&c->wire) : most;
    if (len > 0) {
        fake_peer_send(&c->peer, c->wire.data + c->wire.begin, len);
        c->wire.begin += len;
        heat(c);
    }
}

static void end_client(struct client *c)
{
    c->peer.ended = c->peer.news = true;
    heat(c);
}

static void break_client(struct client *c)
{
    c->peer.broken = c->peer.news = true;
    heat(c);
}

static void on_kill(struct mail *mail, void *reader)
{
    struct client *c = container_of(mail, struct client, kill);
    struct conn *conn = conn_find(reader, c->tag);
    crew[c->worker].in_bell = false; /* whom it wakes here is told before those with letters */
    if (conn)
        conn_kill(conn);
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
        c->wire.begin = c->wire.end; /* in the middle of a request, maybe */
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

static void act(void)
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

/* ---- rounds ------------------------------------------------------------------------------- */

/* A client connects; in a turn of its worker. */
static void connect_one(unsigned worker)
{
    struct client *c = calloc(1, sizeof(*c));
    CHECK(c);
    c->next = all;
    all = c;
    c->worker = worker;
    c->text = one_in(3) ? false : true;
    c->protocol = services_protocol(services, c->text ? "poolcounter" : "counter");
    c->peer.window = SIZE_MAX;
    c->peer.stubborn = one_in(4);
    fake_peer_join(&c->peer);
    atomic_fetch_add(&c->protocol->connections, 1);
    opening = c;
    if (open_count == open_room) {
        open_room = open_room ? open_room * 2 : 256;
        open_clients = realloc(open_clients, open_room * sizeof(struct client *));
        CHECK(open_clients);
    }
    in_server = true;
    bool opened =
        worker_open(crew[worker].worker, c->protocol, (struct stream){.fd = c->peer.fd}, 0);
    in_server = false;
    opening = NULL;
    EXPECT(opened == c->opened);
    result->clients++;
    if (opened) {
        c->place = open_count;
        open_clients[open_count++] = c;
        heat(c);
    }
}

/* Takes one that may be ready off the worker's list, and tells the server if it is. */
static void tell_one(struct crew *w)
{
    unsigned i = below(w->hot_count);
    struct client *c = w->hot[i];
    w->hot[i] = w->hot[--w->hot_count];
    c->hot = false;
    unsigned ready = c->peer.closed ? 0 : fake_peer_ready(&c->peer);
    if (!ready)
        return;
    in_server = true;
    fake_peer_tell(&c->peer, ready);
    in_server = false;
    if (!c->peer.closed && fake_peer_ready(&c->peer))
        heat(c);
}

/* The next thing of a worker's turn. */
static void go_on(struct crew *w)
{
    const struct loop_handlers *h = &w->loop->handlers;
    step++;
    result->steps++;
    switch (w->at) {
    case 0:
        w->soon = w->loop->soon;
        w->loop->soon = false;
        w->left = w->hot_count;
        in_server = true;
        (void)h->begin(h->arg);
        break;
    case 1:
        if (w->left > 0 && w->hot_count > 0) {
            w->left--;
            tell_one(w);
            look_at_closed();
            return;
        }
        break;
    case 2:
        for (unsigned i = below(mix.rush); i > 0 && !ending && open_count < mix.clients; i--)
            connect_one((unsigned)(w - crew));
        break;
    case 3:
        w->in_bell = in_server = true;
        if (w->loop->rung) {
            w->loop->rung = false;
            h->bell(h->arg);
        }
        w->in_bell = false;
        break;
    case 4:
        in_server = true;
        if (w->loop->timer_at_ns <= worker_now(w->worker).mono_ns) {
            w->loop->timer_at_ns = INT64_MAX;
            h->timer(h->arg);
        }
        break;
    case 5:
        in_server = true;
        if (w->soon)
            h->soon(h->arg);
        break;
    default:
        in_server = true;
        (void)h->end(h->arg);
        w->at = -2;
    }
    in_server = false;
    w->at++;
    look_at_closed();
}

/* What a step has touched is what the model says it is. */
static void compare_touched(void)
{
    for (; model.touched; model.touched &= model.touched - 1) {
        unsigned n = (unsigned)__builtin_ctzll(model.touched);
        uint32_t consumption = 0;
        bool is = table_get(services->table, mix.name[n], fake_now, &consumption) == TABLE_OK;
        EXPECT(is == model_exists(&model, n), "name %u", n);
        EXPECT(!is || consumption == model.names[n].consumption, "name %u: %u, not %u", n,
               consumption, model.names[n].consumption);
        EXPECT(!mix.fixed_limits || consumption <= mix.limits[n], "name %u is over its limit", n);
        EXPECT(model_line_is_right(&model, n));
    }
}

/* Some workers take a turn each, all at once. */
static void take_turns(bool every)
{
    unsigned turning[WORKERS], count = 0;
    for (unsigned i = 0; i < mix.workers; i++) {
        if (every || one_in(2)) {
            turning[count++] = i;
            crew[i].at = 0;
        }
    }
    while (count > 0) {
        unsigned i = below(count);
        go_on(&crew[turning[i]]);
        compare_touched();
        fake_now.mono_ns += below(2) * below(300);
        if (crew[turning[i]].at < 0)
            turning[i] = turning[--count];
    }
}

static bool is_quiet(void)
{
    for (unsigned i = 0; i < mix.workers; i++) {
        const struct loop *loop = crew[i].loop;
        if (crew[i].hot_count || loop->rung || loop->soon || loop->timer_at_ns <= fake_now.mono_ns)
            return false;
    }
    return true;
}

static void pass_time(int64_t ns)
{
    static int64_t rest_ns;
    fake_now.mono_ns += ns;
    fake_now.unix_s += (rest_ns + ns) / NS_PER_S;
    rest_ns = (rest_ns + ns) % NS_PER_S;
    model.interval = table_interval(services->table, fake_now.unix_s);
}

/* To the next deadline of some worker, or just before or after it; or simply on. */
static void let_time_pass(void)
{
    int64_t next_ns = crew[below(mix.workers)].loop->timer_at_ns - fake_now.mono_ns;
    if (one_in(mix.calm)) {
        pass_time((int64_t)below(40) * NS_PER_S);
        return;
    }
    switch (below(8)) {
    case 0:
        next_ns = (next_ns < DEADLINE_NONE / 2 ? next_ns : 0) + (int64_t)below(3) - 1;
        if (next_ns > 0 && next_ns < (one_in(mix.calm) ? 100 * NS_PER_S : 2 * NS_PER_S))
            pass_time(next_ns);
        break;
    case 1:
        pass_time((int64_t)below(20) * NS_PER_MS);
        break;
    default:
        pass_time((int64_t)below(200000));
    }
}

/* ---- looking at all of it ----------------------------------------------------------------- */

static void compare_sums(void)
{
    struct table_stats s;
    table_get_stats(services->table, fake_now, &s);
    uint64_t names = 0;
    for (unsigned n = 0; n < mix.names; n++)
        names += model_exists(&model, n);
    EXPECT(s.units == model.units && s.waiting == model.in_line && s.names == names);
}

/* Who waits for a name, oldest first. */
static void compare_line(unsigned n)
{
    static struct table_wait waits[4096];
    struct table_entry entry;
    size_t count = 0;
    const struct model_name *m = &model.names[n];
    if (!m->waiting)
        return;
    EXPECT(table_inspect(services->table, mix.name[n], fake_now, &entry, waits, ARRAY_SIZE(waits),
                         &count) == TABLE_OK);
    EXPECT(entry.waiting == m->waiting && entry.consumption == m->consumption);
    for (size_t i = 0; i < count; i++) {
        const struct client *c = container_of(m->line[i], struct client, has);
        EXPECT(waits[i].tag == c->tag && waits[i].kind == c->has.wait.kind, "place %zu", i);
    }
}

/* When nothing more happens by itself: nothing was forgotten. */
static void compare_quiet(bool windows_open)
{
    EXPECT(model.untold == 0, "%" PRIu64 " verdicts were not told", model.untold);
    for (unsigned i = 0; i < open_count; i++) {
        const struct client *c = open_clients[i];
        EXPECT(c->over || c->has.wait.state != WAIT_WAITING ||
                   c->has.wait.deadline_ns > fake_now.mono_ns,
               "client %d: a timeout is late", c->peer.fd);
        EXPECT(c->over || !c->partial || conn_is_full(c->conn) ||
                   c->partial_again_ns + TIMEOUT > fake_now.mono_ns,
               "client %d: an unfinished request stays", c->peer.fd);
        EXPECT(!queued(&c->reply) || c->progress_ns + TIMEOUT + NS_PER_S > fake_now.mono_ns,
               "client %d takes nothing, and stays", c->peer.fd);
        if (!windows_open)
            continue;
        EXPECT(queued(&c->reply) == 0, "client %d was not sent all", c->peer.fd);
        EXPECT(c->over || c->head == c->tail, "client %d was not served", c->peer.fd);
        EXPECT(c->over || (!c->peer.ended && !c->peer.broken), "client %d was not closed",
               c->peer.fd);
    }
    table_check(services->table);
}

/* Has all that is under way arrive, and lets the server do what it can. */
static void become_quiet(bool windows_open)
{
    for (unsigned i = 0; i < open_count; i++) {
        struct client *c = open_clients[i];
        if (windows_open) {
            arrive(c, SIZE_MAX);
            c->peer.window = SIZE_MAX;
            c->peer.news = true;
            heat(c);
        }
    }
    unsigned clients = mix.clients;
    mix.clients = 0;
    for (unsigned i = 0; !is_quiet(); i++) {
        take_turns(true);
        EXPECT(i < 100000, "it does not come to rest");
    }
    mix.clients = clients;
    compare_sums();
    compare_quiet(windows_open);
}

/* ---- the run ------------------------------------------------------------------------------ */

static void choose_mix(void)
{
    memset(&mix, 0, offsetof(typeof(mix), bytes));
    mix.workers = 1 + below(WORKERS);
    mix.names = 1 + below(one_in(2) ? 4 : MODEL_NAMES);
    mix.clients = 2 + below(one_in(4) ? 300 : 40);
    mix.rush = 3;
    if (one_in(50)) {
        mix.clients = 1000 + below(3000);
        mix.rush = 100;
    }
    mix.depth = 1 + below(one_in(2) ? 3 : DEPTH - 1);
    mix.burst = 1 + below(mix.depth);
    mix.slow = one_in(2) ? 0 : 4 + below(60);
    mix.chop = one_in(3) ? 0 : 1 + below(8);
    mix.leave = 8 + below(one_in(2) ? 20 : 200);
    mix.refused = one_in(2) ? 2 + below(20) : 0;
    mix.calm = 20 + below(500);
    mix.dumps = one_in(2) ? 0 : 10 + below(100);
    mix.bad = one_in(2) ? 0 : 10 + below(100);
    mix.fixed_limits = one_in(2);
    bool long_names = one_in(8);
    for (unsigned n = 0; n < mix.names; n++) {
        mix.limits[n] = 1 + below(one_in(2) ? 3 : 20);
        size_t len = 2 + below(30);
        if (long_names && one_in(4))
            len = 1000 + below(2000);
        memset(mix.bytes[n], 'a' + (int)(n % 26), len);
        mix.bytes[n][0] = (uint8_t)('A' + n / 26);
        mix.bytes[n][1] = (uint8_t)('a' + n % 26);
        mix.name[n] = (struct bytes){.data = mix.bytes[n], .len = len};
    }
    limited = one_in(8);
    static const int64_t starts[] = {0, INT64_C(2147483648) * NS_PER_MS,
                                     INT64_C(4294967296) * NS_PER_MS, NS_PER_S};
    fake_now = (struct moment){.mono_ns = starts[below(4)], .unix_s = 1700000000};
    if (fake_now.mono_ns)
        fake_now.mono_ns -= (int64_t)below(20) * NS_PER_S / 20;
}

static struct rules *some_rules(void)
{
    const struct rules_config config = {
        .limits = {.output_buffer = (size_t)1 << (8 + below(12)),
                   .request_timeout_ns = TIMEOUT,
                   .write_timeout_ns = TIMEOUT},
    };
    in_server = true;
    struct rules *rules = rules_new(&config);
    in_server = false;
    return rules;
}

/* False: there was no memory. */
static bool start(void)
{
    struct rules *rules = some_rules();
    if (!rules)
        return false;
    server_set_rules(&server, rules);
    server.count = mix.workers;
    for (unsigned i = 0; i < mix.workers; i++) {
        in_server = true;
        struct worker *worker = worker_new(&server, i);
        in_server = false;
        if (!worker)
            return false;
        server.workers[i] = worker;
        crew[i] = (struct crew){.worker = worker, .loop = worker_loop(worker), .at = -1};
    }
    const struct services_config config = {
        .table = {.buckets = 1 + below(200),
                  .memory_limit = (size_t)(limited ? 3 << 20 : 64 << 20),
                  .stats_interval_s = 1 + below(one_in(2) ? 20 : 1000),
                  .hash_key = {.k0 = random_bits(), .k1 = random_bits()}},
        .poolcounter_max_locks = MODEL_LOCKS,
        .poolcounter_max_line = LINE_MAX,
    };
    in_server = true;
    services = services_new(&config, &server, fake_now);
    in_server = false;
    if (!services)
        return false;
    pass_time(0);
    struct table_stats stats;
    table_get_stats(services->table, fake_now, &stats);
    memory_at_start = stats.memory;
    replace(services->services[0], &text);
    replace(services->services[1], &binary);
    return true;
}

/* Everything that was held or waited for is free. */
static void expect_nothing_held(void)
{
    struct table_stats s;
    table_get_stats(services->table, fake_now, &s);
    EXPECT(s.units == 0 && s.waiting == 0 && s.holdings == 0);
    EXPECT(model.units == 0 && model.in_line == 0 && model.untold == 0);
    EXPECT(open_count == 0);
    EXPECT(atomic_load(&services->services[0]->protocol.connections) == 0 &&
           atomic_load(&services->services[1]->protocol.connections) == 0);
    table_check(services->table);
}

/* What is kept at 0 expires, and then the table has all its memory back. */
static void expect_memory_back(void)
{
    struct table_walk walk = {0};
    struct table_stats s;
    uint64_t collected;
    pass_time(INT64_C(5000) * NS_PER_S);
    for (unsigned sweeps = 0; sweeps < 3; sweeps++) {
        walk = (struct table_walk){0};
        while (!table_collect(services->table, &walk, fake_now, 10000, &collected))
            continue;
    }
    table_trim(services->table);
    table_get_stats(services->table, fake_now, &s);
    EXPECT(s.memory == memory_at_start, "%" PRIu64 " bytes instead of %" PRIu64, s.memory,
           memory_at_start);
}

/* All go, or the server does: either way nothing is left. */
static void finish(void)
{
    if (one_in(2)) {
        for (unsigned i = 0; i < open_count; i++) {
            if (one_in(2))
                break_client(open_clients[i]);
            else
                end_client(open_clients[i]);
        }
        become_quiet(true);
        for (unsigned i = 0; open_count > 0; i++) { /* those that linger */
            EXPECT(i < 1000, "%u clients are not closed", open_count);
            pass_time(3 * NS_PER_S);
            become_quiet(true);
        }
        expect_nothing_held();
    }
    ending = true;
    server_end(&server);
    for (unsigned i = 0; i < mix.workers; i++)
        worker_stop(crew[i].worker);
    for (unsigned i = 0; open_count > 0; i++) {
        EXPECT(i < 100000, "%u clients are not closed", open_count);
        take_turns(false);
    }
    for (unsigned i = 0; i < mix.workers; i++) {
        in_server = true;
        worker_drain(crew[i].worker);
        in_server = false;
    }
    expect_nothing_held();
    expect_memory_back();
}

static void play(void)
{
    uint64_t until = plan->requests ? plan->requests : 1000 + below(one_in(8) ? 9000 : 2000);
    for (uint64_t round = 0; served < until; round++) {
        for (unsigned i = below(8); i > 0 && open_count > 0; i--)
            act();
        if (sometimes(300)) {
            struct rules *rules = some_rules();
            if (rules)
                server_set_rules(&server, rules);
        }
        take_turns(false);
        let_time_pass();
        if (round % 8 == 0)
            compare_sums();
        if (round % 16 == 0)
            compare_line(below(mix.names));
        if (one_in(200))
            become_quiet(one_in(2));
    }
    finish();
}

static void clean_up(void)
{
    if (services)
        services_free(&services);
    for (unsigned i = 0; i < mix.workers; i++) {
        if (server.workers[i])
            worker_free(&server.workers[i]);
        free(crew[i].hot);
        free(crew[i].by_slot);
        crew[i] = (struct crew){0};
    }
    server_free_rules(&server);
    memset(&server, 0, sizeof(server));
    fake_peers_leave();
    while (all) {
        struct client *c = all;
        all = c->next;
        free(c->wire.data);
        free(c->reply.data);
        free(c->dump);
        free(c);
    }
    free(open_clients);
    open_clients = NULL;
    open_count = open_room = 0;
    model_free(&model);
    memset(reasons_told, 0, sizeof(reasons_told));
}

void world_run(const struct plan *p, struct outcome *sum)
{
    struct outcome here = {0};
    plan = p;
    result = &here;
    rng_state = p->seed;
    step = served = 0;
    faults = 0;
    fault_dice = refuse_memory;
    ending = false;
    fake_hooks = (struct fake_hooks){
        .received = on_received, .closed = on_closed, .stirred = on_stirred, .refuses = fault_now};
    log_set_level(LOG_LEVEL_ERROR);
    fault_counting = true;
    fault_pieces = 0;
    choose_mix();
    fail_one_in = 0; /* so soon it would not even start */
    if (start()) {
        fail_one_in = p->fail_one_in;
        if (!fail_one_in && !p->fail_at && !p->no_failures && one_in(4))
            fail_one_in = 20 + below(500);
        play();
    } else {
        EXPECT(faults > 0, "it did not start");
    }
    clean_up();
    EXPECT(fault_pieces == 0, "%ld pieces of memory were not freed", fault_pieces);
    here.requests = served;
    uint64_t *to = (uint64_t *)sum;
    for (size_t i = 0; i < sizeof(here) / sizeof(uint64_t); i++)
        to[i] += ((const uint64_t *)&here)[i];
}
