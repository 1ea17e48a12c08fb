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
 * ahead after a tick, and wires come to rest. As long as the engine is honest (no step changed its
 * bytes), the node says to it only what a node may say, and both have the same units and waits.
 */
#include "base/record.h"
#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/url.h"
#include "fuzz/fuzz.h"
#include "t/campaigns/cluster/engine.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MS        INT64_C(1000000)
#define LEASE     (2000 * MS)
#define ASKS_MAX  600
#define ENGINES   2
#define SENTINELS 3
#define OUTPUT    (1u << 20) /* bytes of an engine's output that a step handles */

/* Bits of the first byte. */
#define WITH_SENTINELS 1
#define WITH_ACCESS    2 /* user and password, which these engines take as they are */
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
    struct fake_engine *engines[ENGINES], *sentinels[SENTINELS];
    struct fake_link *links[NODE_WIRES];
    bool opening[NODE_WIRES], to_other[NODE_WIRES];
    struct node *node;
    struct url url;
    struct patterns *patterns[2]; /* before and after a change */
    unsigned patterns_now;        /* of the node */
    const struct patterns *asked_for, *served;
    bool report_due, close_due, alone, honest;
    bool ends_alone; /* of the report that is due: the threads are not told since to be alone */
    bool forgot;     /* a fault, since the last session began */
    uint32_t report_asked, report; /* the number that was asked for last, and the last one given */
    int64_t now, lease_end;
    uint32_t units[NAMES]; /* the ledger */
    struct asked asks[ASKS_MAX];
    unsigned used, outstanding;
    uint64_t random;
} w;

/* ---- the owner ------------------------------------------------------------------------------- */

static unsigned name_of(const struct node_ask *ask)
{
    for (unsigned i = 0; i < NAMES; i++)
        if (same_bytes(ask->name.data, ask->name.len, names[i], strlen(names[i])))
            return i;
    CHECK(false); /* no name of the harness */
    return 0;
}

static void on_open(void *arg, unsigned wire, const char *host, uint16_t port, int64_t limit)
{
    (void)arg, (void)port;
    CHECK(wire < NODE_WIRES && !w.opening[wire] && !w.links[wire] && limit > 0);
    CHECK((wire < NODE_SENTINEL && w.url.kind == URL_SENTINEL) == (host != NULL));
    w.opening[wire] = true;
    w.to_other[wire] = host && strcmp(host, "other") == 0;
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
    if (ask->result == NODE_GRANTED)
        w.units[name_of(ask)] += ask->units;
    free(ask->shares);
    ask->shares = NULL;
}

static void on_report(void *arg, const struct patterns *patterns, uint32_t number)
{
    (void)arg;
    CHECK(!w.report_due && (number == 0 ? w.alone : number != w.report_asked));
    w.report_due = true;
    w.ends_alone = number != 0;
    if (number)
        w.report_asked = number;
    w.asked_for = patterns;
    w.forgot = false;
}

static void on_alone(void *arg)
{
    (void)arg;
    w.alone = true;
    w.ends_alone = false;
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
        .user = flags & WITH_ACCESS ? "user" : "",
        .password = flags & WITH_ACCESS ? "password" : "",
        .node = "n1",
        .where = "boot/1/1/1",
        .prefix = "p",
        .version = "1",
        .patterns = w.patterns[w.patterns_now],
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

/* More than what fits into a call. */
static void acquire_many(void)
{
    uint8_t how = input_byte(&w.in), count = input_byte(&w.in);
    for (unsigned i = 0; i < count; i++) {
        struct asked *a = new_ask(NODE_ACQUIRE, how % NAMES, 1);
        if (!a)
            return;
        a->ask.wait = (enum node_wait)(how / NAMES % 3);
        a->ask.limit = 2;
        submit(a);
    }
}

/* The ledger loses units first, as the table does. */
static void release_units(unsigned name, uint32_t units, bool by_end)
{
    enum patterns_class class =
        w.served ? patterns_class(w.served, bytes_of(names[name])) : PATTERNS_OWN;
    bool own = class == PATTERNS_OWN || (class == PATTERNS_LOOSE && w.alone);
    struct asked *a = own ? NULL : new_ask(NODE_RELEASE, name, units);
    if (!own && !a)
        return;
    w.units[name] -= units;
    if (own)
        return;
    a->ask.by_end = by_end;
    submit(a);
}

static void release(void)
{
    uint8_t how = input_byte(&w.in);
    unsigned name = how % NAMES;
    uint32_t units = 1 + how / NAMES % 4;
    if (units <= w.units[name])
        release_units(name, units, how & 128);
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
    w.report_due = false;
    w.report = w.report_asked;
    if (w.ends_alone)
        w.alone = false;
    w.served = w.asked_for;
    for (unsigned i = 0; i < NAMES; i++)
        if (w.units[i])
            node_report(w.node, bytes_of(names[i]), w.units[i]);
    node_reported(w.node, w.now);
}

static void close_strict(void)
{
    if (!w.close_due)
        return;
    for (unsigned i = 0; i < NAMES; i++)
        if (w.units[i] && w.served &&
            patterns_class(w.served, bytes_of(names[i])) == PATTERNS_STRICT)
            release_units(i, w.units[i], true);
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
    w.links[wire] = fake_engine_connect(wire >= NODE_SENTINEL ? w.sentinels[wire - NODE_SENTINEL]
                                                              : w.engines[w.to_other[wire]]);
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
    w.honest = false;
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
    w.honest = false;
    uint8_t *copy = exact_copy(bytes, len);
    node_received(w.node, wire, copy, len, w.now);
    free(copy);
}

/* In a live session, when nothing is under way, an honest engine has what the ledger and the node
 * have. */
static void check_sums(void)
{
    const struct fake_engine *engine = w.engines[w.to_other[NODE_COMMANDS]];
    struct node_seen seen;
    uint64_t waits = 0;
    node_look(w.node, &seen);
    if (!w.honest || w.forgot || seen.state != NODE_LIVE || w.now >= w.lease_end ||
        seen.asks != seen.waits)
        return;
    for (unsigned i = 0; i < NAMES; i++) {
        size_t len = strlen(names[i]);
        waits += fake_engine_waits(engine, seen.session, names[i], len);
        if (patterns_class(w.served, bytes_of(names[i])) != PATTERNS_OWN)
            CHECK(fake_engine_units(engine, seen.session, names[i], len) == w.units[i]);
    }
    CHECK(waits == seen.waits);
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
    check_sums();
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
    static const char *const infos[][2] = {
        {"role", "master"},       {"role", "slave"},
        {"redis_version", "7.2"}, {"redis_version", "6.2.1"},
        {"cluster_enabled", "1"}, {"loading", "1"},
        {"maxmemory_policy", ""}, {"maxmemory_policy", "allkeys-lru"},
    };
    uint8_t how = input_byte(&w.in);
    struct fake_engine *engine = w.engines[how >> 7];
    w.forgot = true;
    switch (how % 8) {
    case 0:
        fake_engine_restart(engine, how & 64);
        break;
    case 1:
        fake_engine_flush(engine);
        break;
    case 2:
        fake_engine_trouble(engine, (enum fake_trouble)(how / 8 % 7));
        break;
    case 3:
        fake_engine_forget_scripts(engine);
        break;
    case 4:
        fake_engine_info(engine, infos[how / 8 % 8][0], infos[how / 8 % 8][1]);
        break;
    case 5:
        fake_engine_forbid(engine, how & 8 ? "publish" : NULL);
        break;
    case 6:
        fake_engine_version(engine, 1 + (how / 8 % 2));
        break;
    default:
        fake_engine_sentinel(w.sentinels[how / 8 % SENTINELS], "svc",
                             how & 64   ? NULL
                             : how & 32 ? "other"
                                        : "engine",
                             6379);
    }
}

static void change_patterns(void)
{
    w.patterns_now = !w.patterns_now;
    node_set_patterns(w.node, w.patterns[w.patterns_now], w.now);
}

static void change_access(void)
{
    uint8_t how = input_byte(&w.in);
    if (how & 1)
        CHECK(node_set_access(w.node, "user", how & 2 ? "other" : "", w.now));
    else
        node_set_patience(w.node, how * 10 * MS, w.now);
}

/* Takes all asks out of a parked node; those of the owner are marked. */
static unsigned forget(struct asked **list)
{
    unsigned count = 0;
    for (struct node_ask *ask; (ask = node_forget_ask(w.node)) != NULL;) {
        struct asked *a = container_of(ask, struct asked, ask);
        CHECK(a >= w.asks && a < w.asks + w.used && a->with_node && ask->op != NODE_RELEASE);
        a->with_node = false;
        w.outstanding--;
        list[count++] = a;
    }
    CHECK(w.outstanding == 0);
    return count;
}

static void park(void)
{
    node_park(w.node, w.now);
    for (unsigned i = 0; i < NODE_WIRES; i++)
        CHECK(!w.links[i] && !w.opening[i]);
    CHECK(node_due_ns(w.node) == INT64_MAX);
}

/* Another process takes over. The report and the closing were for the old one. */
static void upgrade(uint8_t flags)
{
    static struct record_writer writer;
    static struct asked *list[ASKS_MAX];
    struct record_reader reader;
    park();
    unsigned count = forget(list);
    int fd = memfd_create("node", MFD_CLOEXEC);
    CHECK(fd >= 0);
    record_writer_init(&writer, fd);
    record_put_head(&writer);
    node_save(w.node, &writer);
    CHECK(record_finish(&writer) && record_map(&reader, fd));
    close_strict();
    node_free(&w.node);
    w.report_due = false;
    w.report = w.report_asked = 0;
    w.node = make_node(flags);
    record_get_head(&reader);
    CHECK(node_restore(w.node, &reader));
    record_unmap(&reader);
    close(fd);
    node_start(w.node, w.now);
    for (unsigned i = 0; i < count; i++)
        submit(list[i]);
}

/* ---- an input -------------------------------------------------------------------------------- */

static void begin(uint8_t flags)
{
    static const char *const lists[2][2] = {{"s*", "l*"}, {"l1,s", "s*,x"}};
    char reason[URL_REASON_SIZE];
    struct input in = w.in;
    memset(&w, 0, sizeof(w));
    w.in = in;
    w.now = 1000000 * MS;
    w.honest = true;
    for (unsigned i = 0; i < 2; i++)
        CHECK(w.patterns[i] = patterns_new(lists[i][0], lists[i][1], NULL, reason));
    for (unsigned i = 0; i < ENGINES; i++)
        w.engines[i] = fake_engine_new("p", i + 1);
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
    static struct asked *list[ASKS_MAX];
    struct node_seen seen;
    node_look(w.node, &seen);
    CHECK(seen.asks >= w.outstanding);
    park();
    (void)forget(list);
    for (unsigned i = 0; i < ENGINES; i++) {
        const char *misuse = fake_engine_misuse(w.engines[i]);
        if (misuse && w.honest) {
            fprintf(stderr, "misuse: %s\n", misuse);
            CHECK(false);
        }
    }
    node_free(&w.node);
    for (unsigned i = 0; i < ENGINES; i++)
        fake_engine_free(w.engines[i]);
    for (unsigned i = 0; i < SENTINELS; i++)
        fake_engine_free(w.sentinels[i]);
    for (unsigned i = 0; i < 2; i++)
        patterns_free(&w.patterns[i]);
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

static void step(uint8_t flags)
{
    static void (*const plain[])(void) = {
        arrive, give_report, close_strict, acquire,         acquire_many,  release,
        cancel, ask_other,   fault,        change_patterns, change_access, look,
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
    case 5:
        upgrade(flags);
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
        step(flags);
        node_flush(w.node, w.now);
    }
    look();
    end();
    return 0;
}
