/*
 * cluster.c - tests a node of the cluster with any bytes from the engine and the Sentinels.
 *
 * An input is a byte of flags, then steps: a byte says what happens, the next ones how. The node is
 * connected with engines and Sentinels in memory. A step lets their bytes arrive, whole, in pieces,
 * changed, twice or not at all; or sends the node bytes of the input instead; or it is time that
 * passes, a request, or something that the owner of the node does.
 *
 * Promises: each ask is answered once, or forgotten at the end, with a result that fits it; nothing
 * strict is granted outside the lease; the owner is asked for one thing once; what is due lies
 * ahead after a tick, and wires come to rest. What an honest engine sees is shown by simulated
 * nodes (t/campaigns/cluster/simulate.c).
 */
#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/url.h"
#include "fuzz/fuzz.h"
#include "t/campaigns/cluster/engine.h"

#include <stdio.h>

#define MS        INT64_C(1000000)
#define LEASE     (2000 * MS)
#define ASKS_MAX  600
#define SENTINELS 3
#define OUTPUT    (1u << 20) /* bytes of an engine's output that a step handles */

/* Bits of the first byte. */
#define WITH_SENTINELS 1
#define IMPATIENT      4
#define STARTED_LATE   8 /* the first step comes before the start */

static const char *const names[] = {"s", "l", "s1", "l1", "x", "own"};
#define NAMES ARRAY_SIZE(names)

/* A request; `with_node` from node_submit to the answer. */
struct asked {
    struct node_ask ask;
    bool with_node, queued, gone;
};

static struct world {
    struct input in;
    struct fake_engine *engine, *sentinels[SENTINELS];
    struct fake_link *links[NODE_WIRES];
    bool opening[NODE_WIRES];
    struct node *node;
    struct url url;
    struct patterns *patterns;
    bool report_due, close_due, alone;
    uint32_t report_asked, report; /* the number that was asked for last, and the last one given */
    int64_t now, lease_end;
    struct asked asks[ASKS_MAX];
    unsigned used, outstanding;
    uint64_t random;
} w;

/* ---- the owner ------------------------------------------------------------------------------- */

static void on_open(void *arg, unsigned wire, const char *host, uint16_t port, int64_t limit)
{
    (void)arg, (void)port;
    CHECK(wire < NODE_WIRES && !w.opening[wire] && !w.links[wire] && limit > 0);
    CHECK((wire < NODE_SENTINEL && w.url.kind == URL_SENTINEL) == (host != NULL));
    w.opening[wire] = true;
}

static void on_send(void *arg, unsigned wire, const void *data, size_t len)
{
    (void)arg;
    CHECK(w.links[wire] && len > 0);
    fake_engine_feed(w.links[wire], data, len);
}

static void hang_up(unsigned wire)
{
    w.opening[wire] = false;
    if (w.links[wire])
        fake_engine_hang_up(w.links[wire]);
    w.links[wire] = NULL;
}

static void on_close(void *arg, unsigned wire)
{
    (void)arg;
    CHECK(w.opening[wire] || w.links[wire]);
    hang_up(wire);
}

static void on_queued(void *arg, struct node_ask *ask)
{
    struct asked *a = container_of(ask, struct asked, ask);
    (void)arg;
    CHECK(a->with_node && !a->queued && !a->gone);
    CHECK(ask->op == NODE_ACQUIRE && ask->wait != NODE_WAIT_NO && ask->queued);
    a->queued = true;
}

/* Does this result fit the request? */
static bool fits(const struct asked *a)
{
    const struct node_ask *ask = &a->ask;
    bool waits = ask->op == NODE_ACQUIRE && ask->wait != NODE_WAIT_NO;
    switch (ask->result) {
    case NODE_GRANTED:
        return ask->op == NODE_ACQUIRE && !a->gone;
    case NODE_DONE:
        return waits && ask->wait == NODE_WAIT_ANY;
    case NODE_BUSY:
        return ask->op == NODE_ACQUIRE && !waits;
    case NODE_QUEUE_FULL:
    case NODE_ENGINE_AWAY:
    case NODE_ENGINE_FULL:
        return ask->op == NODE_ACQUIRE;
    case NODE_RELEASED:
        return ask->op == NODE_RELEASE;
    case NODE_COUNTED:
        return ask->op == NODE_GET || ask->op == NODE_HOLDERS;
    case NODE_CANCELLED:
        return ask->op == NODE_ACQUIRE && a->gone;
    case NODE_ALONE:
        return ask->op != NODE_RELEASE;
    case NODE_NO_MEMORY:
        return false;
    }
    return false;
}

static void on_answer(void *arg, struct node_ask *ask)
{
    struct asked *a = container_of(ask, struct asked, ask);
    (void)arg;
    CHECK(a->with_node && fits(a));
    CHECK(ask->result != NODE_GRANTED || !ask->strict || w.now < w.lease_end);
    a->with_node = false;
    w.outstanding--;
    free(ask->shares);
    ask->shares = NULL;
}

static void on_report(void *arg, const struct patterns *patterns, uint32_t number)
{
    (void)arg, (void)patterns;
    CHECK(!w.report_due && (number == 0 ? w.alone : number != w.report_asked));
    w.report_due = true;
    if (number)
        w.report_asked = number;
}

static void on_alone(void *arg)
{
    (void)arg;
    w.alone = true;
}

static void on_close_strict(void *arg)
{
    (void)arg;
    CHECK(!w.close_due);
    w.close_due = true;
}

static void on_lease(void *arg, int64_t end)
{
    (void)arg;
    CHECK(end == 0 || end <= w.now + LEASE);
    w.lease_end = end;
}

static bool is_gone(void *arg, const char *where)
{
    (void)arg;
    return strlen(where) % 2;
}

static uint64_t next_random(void *arg)
{
    (void)arg;
    return w.random += UINT64_C(0x9e3779b97f4a7c15);
}

static void on_log(void *arg, enum node_level level, const char *text)
{
    (void)arg, (void)level;
    CHECK(strlen(text) < 2048);
}

static struct node *make_node(uint8_t flags)
{
    static const struct node_does does = {on_open,   on_send,   on_close,    on_queued,
                                          on_answer, on_report, on_alone,    on_close_strict,
                                          on_lease,  is_gone,   next_random, on_log};
    struct node_config config = {
        .url = &w.url,
        .user = "",
        .password = "",
        .node = "n1",
        .where = "boot/1/1/1",
        .prefix = "p",
        .version = "1",
        .patterns = w.patterns,
        .lease_ns = LEASE,
        .patience_ns = flags & IMPATIENT ? 0 : 1000 * MS,
    };
    struct node *node = node_new(&config, &does, NULL);
    CHECK(node);
    return node;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct asked *new_ask(enum node_op op, unsigned name, uint32_t units)
{
    if (w.used == ASKS_MAX)
        return NULL;
    struct asked *a = &w.asks[w.used++];
    *a = (struct asked){.ask = {.op = op,
                                .units = units,
                                .id = 1000 + w.used,
                                .report = w.report,
                                .name = bytes_of(names[name])}};
    return a;
}

static void submit(struct asked *a)
{
    a->with_node = true;
    w.outstanding++;
    node_submit(w.node, &a->ask, w.now);
}

static void acquire(void)
{
    uint8_t how = input_byte(&w.in), size = input_byte(&w.in);
    struct asked *a = new_ask(NODE_ACQUIRE, how % NAMES, 1 + size % 4);
    if (!a)
        return;
    a->ask.wait = (enum node_wait)(how / NAMES % 3);
    a->ask.limit = size / 4 % 8;
    if (a->ask.limit < a->ask.units)
        a->ask.limit = a->ask.units;
    a->ask.queue_max = size / 32;
    submit(a);
}

static void release(void)
{
    uint8_t how = input_byte(&w.in);
    struct asked *a = new_ask(NODE_RELEASE, how % NAMES, 1 + how / NAMES % 4);
    if (!a)
        return;
    a->ask.by_end = how & 128;
    submit(a);
}

static void cancel(void)
{
    unsigned at = (unsigned)input_number(&w.in, 2);
    if (w.used == 0)
        return;
    struct asked *a = &w.asks[at % w.used];
    if (a->ask.op == NODE_ACQUIRE && a->with_node)
        a->gone = true;
    node_cancel(w.node, a->ask.id, w.now);
}

static void ask_other(void)
{
    uint8_t how = input_byte(&w.in);
    struct asked *a = new_ask(how & 128 ? NODE_HOLDERS : NODE_GET, how % NAMES, 0);
    if (a)
        submit(a);
}

/* ---- what the owner was asked for ------------------------------------------------------------ */

static void give_report(void)
{
    if (!w.report_due)
        return;
    w.report_due = w.alone = false;
    w.report = w.report_asked;
    node_report(w.node, bytes_of("l"), 1);
    node_reported(w.node, w.now);
}

static void close_strict(void)
{
    if (!w.close_due)
        return;
    w.close_due = false;
    node_strict_closed(w.node, w.now);
}

/* ---- wires ----------------------------------------------------------------------------------- */

static void open_wire(unsigned wire, bool refuse)
{
    if (!w.opening[wire])
        return;
    w.opening[wire] = false;
    if (refuse) {
        node_closed(w.node, wire, "refused", w.now);
        return;
    }
    w.links[wire] =
        fake_engine_connect(wire >= NODE_SENTINEL ? w.sentinels[wire - NODE_SENTINEL] : w.engine);
    node_opened(w.node, wire, w.now);
}

static void lose_wire(unsigned wire)
{
    if (!w.links[wire] && !w.opening[wire])
        return;
    hang_up(wire);
    node_closed(w.node, wire, "closed", w.now);
}

/* Takes up to `most` bytes of what came. The caller frees them. */
static uint8_t *take(unsigned wire, size_t most, size_t *len_r)
{
    const char *bytes = w.links[wire] ? fake_engine_output(w.links[wire], len_r) : NULL;
    if (!bytes || *len_r == 0)
        return NULL;
    if (*len_r > most)
        *len_r = most;
    uint8_t *copy = exact_copy(bytes, *len_r);
    fake_engine_took(w.links[wire], *len_r);
    return copy;
}

/* Delivers what came, or a part; true if there was anything. */
static bool deliver(unsigned wire, size_t most)
{
    size_t len;
    uint8_t *bytes = take(wire, most, &len);
    if (bytes)
        node_received(w.node, wire, bytes, len, w.now);
    else if (w.links[wire] && fake_engine_closed(w.links[wire]))
        lose_wire(wire);
    else
        return false;
    free(bytes);
    return true;
}

/* Changes bytes of what came, loses it, or delivers it twice. */
static void falsify(unsigned wire)
{
    uint8_t how = input_byte(&w.in);
    size_t at = input_number(&w.in, 2), len;
    uint8_t *bytes = take(wire, OUTPUT, &len);
    if (!bytes)
        return;
    if (how % 4 == 0)
        bytes[at % len] = input_byte(&w.in);
    else if (how % 4 == 1)
        bytes[at % len]++;
    if (how % 4 != 2)
        node_received(w.node, wire, bytes, len, w.now);
    if (how % 4 == 3)
        node_received(w.node, wire, bytes, len, w.now);
    free(bytes);
}

static void send_raw(unsigned wire)
{
    size_t len;
    uint8_t want = input_byte(&w.in);
    const uint8_t *bytes = input_bytes(&w.in, want, &len);
    if (!w.links[wire] || len == 0)
        return;
    uint8_t *copy = exact_copy(bytes, len);
    node_received(w.node, wire, copy, len, w.now);
    free(copy);
}

/* All that is under way arrives, and the owner does what it was asked for. */
static void arrive(void)
{
    bool any = true;
    for (unsigned round = 0; any; round++) {
        CHECK(round < 2000);
        any = w.report_due || w.close_due;
        for (unsigned i = 0; i < NODE_WIRES; i++) {
            any |= w.opening[i];
            open_wire(i, false);
            any |= deliver(i, OUTPUT);
        }
        close_strict();
        give_report();
        node_flush(w.node, w.now);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* What is due is done once. A closing that the owner did not finish is no reason to run on. */
static void tick(void)
{
    node_tick(w.node, w.now);
    for (unsigned i = 0; node_due_ns(w.node) <= w.now; i++) {
        CHECK(i < 20);
        node_tick(w.node, w.now);
    }
}

static void pass(int64_t ns)
{
    w.now += ns;
    tick();
}

/* Goes from one due time to the next, all arriving between. */
static void run(int64_t ns)
{
    int64_t until = w.now + ns;
    for (unsigned i = 0; i < 200; i++) {
        arrive();
        int64_t due = node_due_ns(w.node);
        if (due > until)
            break;
        w.now = due > w.now ? due : w.now;
        tick();
    }
    if (until > w.now)
        pass(until - w.now);
    arrive();
}

/* ---- faults and changes ---------------------------------------------------------------------- */

static void fault(void)
{
    uint8_t how = input_byte(&w.in);
    switch (how % 4) {
    case 0:
        fake_engine_restart(w.engine, how & 64);
        break;
    case 1:
        fake_engine_flush(w.engine);
        break;
    case 2:
        fake_engine_trouble(w.engine, (enum fake_trouble)(how / 8 % 7));
        break;
    default:
        fake_engine_forget_scripts(w.engine);
    }
}

static void park(void)
{
    node_park(w.node, w.now);
    for (unsigned i = 0; i < NODE_WIRES; i++)
        CHECK(!w.links[i] && !w.opening[i]);
    CHECK(node_due_ns(w.node) == INT64_MAX);
}

/* ---- an input -------------------------------------------------------------------------------- */

static void begin(uint8_t flags)
{
    char reason[URL_REASON_SIZE];
    struct input in = w.in;
    memset(&w, 0, sizeof(w));
    w.in = in;
    w.now = 1000000 * MS;
    CHECK(w.patterns = patterns_new("s*", "l*", NULL, reason));
    w.engine = fake_engine_new("p", 1);
    for (unsigned i = 0; i < SENTINELS; i++) {
        w.sentinels[i] = fake_engine_new("p", 10 + i);
        fake_engine_sentinel(w.sentinels[i], "svc", "engine", 6379);
    }
    CHECK(url_parse(flags & WITH_SENTINELS ? "sentinel://a:1,b:1,c:1/svc" : "redis://engine:6379/0",
                    &w.url, reason));
    w.node = make_node(flags);
}

static void end(void)
{
    struct node_seen seen;
    node_look(w.node, &seen);
    CHECK(seen.asks >= w.outstanding);
    park();
    for (struct node_ask *ask; (ask = node_forget_ask(w.node)) != NULL; w.outstanding--)
        CHECK(container_of(ask, struct asked, ask)->with_node && ask->op != NODE_RELEASE);
    CHECK(w.outstanding == 0);
    node_free(&w.node);
    fake_engine_free(w.engine);
    for (unsigned i = 0; i < SENTINELS; i++)
        fake_engine_free(w.sentinels[i]);
    patterns_free(&w.patterns);
}

static void look(void)
{
    struct node_seen seen;
    size_t count;
    node_look(w.node, &seen);
    CHECK(seen.asks >= w.outstanding && seen.lease_end_ns == w.lease_end);
    for (unsigned i = 0; i < seen.reasons_count; i++)
        for (const char *c = seen.reasons[i].text; *c; c++)
            CHECK(*c >= ' ' && *c <= '~');
    const struct node_peer *peers = node_peers(w.node, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(strlen(peers[i].session) <= 16 && strlen(peers[i].node) <= 64);
}

/* Steps on wires: the high bits say which one. */
static bool step_wire(unsigned what, unsigned wire)
{
    switch (what) {
    case 0:
        open_wire(wire, false);
        return true;
    case 1:
        open_wire(wire, true);
        return true;
    case 2:
        (void)deliver(wire, (size_t)input_byte(&w.in) + 1);
        return true;
    case 3:
        send_raw(wire);
        return true;
    case 4:
        falsify(wire);
        return true;
    case 5:
        lose_wire(wire);
        return true;
    default:
        return false;
    }
}

static void step(void)
{
    static void (*const plain[])(void) = {
        arrive, give_report, close_strict, acquire, release, cancel, ask_other, fault, look,
    };
    uint8_t what = input_byte(&w.in);
    unsigned low = what % 32, wires = NODE_SENTINEL;
    if (w.url.kind == URL_SENTINEL)
        wires += SENTINELS;
    if (step_wire(low, what / 32 % wires))
        return;
    low -= 6;
    if (low < ARRAY_SIZE(plain)) {
        plain[low]();
        return;
    }
    switch (low - ARRAY_SIZE(plain)) {
    case 0:
        pass(input_byte(&w.in) * LEASE / 100);
        break;
    case 1:
        run(input_byte(&w.in) * LEASE / 50);
        break;
    case 2:
        node_open_anew(w.node, "the harness says so", w.now);
        break;
    case 3:
        node_leave(w.node, w.now);
        break;
    case 4:
        park();
        node_start(w.node, w.now);
        break;
    default:
        run(LEASE / 10);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    w.in = (struct input){.at = data, .left = size};
    uint8_t flags = input_byte(&w.in);
    begin(flags);
    if (flags & STARTED_LATE)
        acquire();
    node_start(w.node, w.now);
    tick();
    while (w.in.left > 0) {
        step();
        node_flush(w.node, w.now);
    }
    look();
    end();
    return 0;
}
