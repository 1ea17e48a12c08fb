/* The node over the engine in memory: what it says, and when; rule by rule. Time is a number here.
 */
#include "base/record.h"
#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/url.h"
#include "t/campaigns/cluster/engine.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <string.h>
#include <sys/mman.h>

#define MS    INT64_C(1000000)
#define LEASE (2000 * MS)
#define SMALL 100 /* requests of a test */

/* ---- a world of one node, its owner and one engine ------------------------------------------- */

struct asked {
    struct node_ask ask;
    bool answered, queued;
};

static struct world {
    struct fake_engine *engine;
    struct fake_link *links[NODE_WIRES];
    bool opening[NODE_WIRES], refuses;
    struct node *node;
    struct url url;
    struct patterns *patterns;
    int64_t now, lease_end;
    unsigned alone, strict_closed, sends, opens;
    bool report_due, hold_report, gone;
    uint32_t report;
    uint32_t strict_units, loose_units; /* the ledger, of s and l */
    char log[8192];
    uint64_t random;
} w;

static void w_open(void *arg, unsigned wire, const char *host, uint16_t port, int64_t limit)
{
    (void)arg, (void)host, (void)port, (void)limit;
    w.opening[wire] = true;
    w.opens++;
}

static void w_send(void *arg, unsigned wire, const void *data, size_t len)
{
    (void)arg;
    ck_assert_ptr_nonnull(w.links[wire]);
    w.sends += wire == NODE_COMMANDS;
    fake_engine_feed(w.links[wire], data, len);
}

static void w_close(void *arg, unsigned wire)
{
    (void)arg;
    w.opening[wire] = false;
    if (w.links[wire])
        fake_engine_hang_up(w.links[wire]);
    w.links[wire] = NULL;
}

static void w_queued(void *arg, struct node_ask *ask)
{
    struct asked *a = container_of(ask, struct asked, ask);
    (void)arg;
    ck_assert(!a->queued && !a->answered);
    a->queued = true;
}

static void w_answer(void *arg, struct node_ask *ask)
{
    struct asked *a = container_of(ask, struct asked, ask);
    (void)arg;
    ck_assert(!a->answered);
    a->answered = true;
}

static void w_report(void *arg, const struct patterns *patterns, uint32_t number)
{
    (void)arg, (void)patterns;
    w.report_due = true;
    w.report = number;
}

static void w_alone(void *arg)
{
    (void)arg;
    w.alone++;
}

static void w_close_strict(void *arg)
{
    (void)arg;
    w.strict_closed++;
    w.strict_units = 0;
}

static void w_lease(void *arg, int64_t end)
{
    (void)arg;
    w.lease_end = end;
}

static bool w_is_gone(void *arg, const char *where)
{
    (void)arg, (void)where;
    return w.gone;
}

static uint64_t w_random(void *arg)
{
    (void)arg;
    return w.random += UINT64_C(0x9e3779b97f4a7c15);
}

static void w_log(void *arg, enum node_level level, const char *text)
{
    size_t len = strlen(w.log);
    (void)arg, (void)level;
    snprintf(w.log + len, sizeof(w.log) - len, "%s\n", text);
}

static struct node *make(const char *name, const char *where, int64_t lease)
{
    static const struct node_does does = {w_open,   w_send,    w_close,  w_queued,
                                          w_answer, w_report,  w_alone,  w_close_strict,
                                          w_lease,  w_is_gone, w_random, w_log};
    struct node_config config = {.url = &w.url,
                                 .user = "",
                                 .password = "",
                                 .node = name,
                                 .where = where,
                                 .prefix = "p",
                                 .version = "1",
                                 .patterns = w.patterns,
                                 .lease_ns = lease,
                                 .patience_ns = 1000 * MS};
    struct node *node = node_new(&config, &does, NULL);
    ck_assert_ptr_nonnull(node);
    return node;
}

static void begin(void)
{
    char reason[URL_REASON_SIZE];
    w.now = 1000000 * MS;
    w.random = 1;
    w.engine = fake_engine_new("p", 1);
    w.patterns = patterns_new("s*", "l*", NULL, reason);
    ck_assert(url_parse("redis://engine:6379", &w.url, reason));
    w.node = make("n1", "boot/1/1/1", LEASE);
}

static void end(void)
{
    node_park(w.node, w.now);
    while (node_forget_ask(w.node))
        continue;
    node_free(&w.node);
    patterns_free(&w.patterns);
    fake_engine_free(w.engine);
}

/* Lets all arrive that is under way. */
static void arrive(void)
{
    for (bool any = true; any;) {
        any = false;
        node_flush(w.node, w.now);
        for (unsigned i = 0; i < NODE_WIRES; i++) {
            size_t len;
            if (w.opening[i]) {
                any = true;
                w.opening[i] = false;
                if (w.refuses) {
                    node_closed(w.node, i, "refused", w.now);
                    continue;
                }
                w.links[i] = fake_engine_connect(w.engine);
                node_opened(w.node, i, w.now);
            }
            const char *bytes = w.links[i] ? fake_engine_output(w.links[i], &len) : NULL;
            if (bytes && len) {
                char copy[65536];
                ck_assert_uint_le(len, sizeof(copy));
                memcpy(copy, bytes, len);
                fake_engine_took(w.links[i], len);
                any = true;
                node_received(w.node, i, copy, len, w.now);
            } else if (w.links[i] && fake_engine_closed(w.links[i])) {
                fake_engine_hang_up(w.links[i]);
                w.links[i] = NULL;
                any = true;
                node_closed(w.node, i, "closed", w.now);
            }
        }
        if (w.report_due && !w.hold_report) {
            w.report_due = false;
            any = true;
            node_report(w.node, bytes_of("s"), w.strict_units);
            node_report(w.node, bytes_of("l"), w.loose_units);
            node_reported(w.node, w.now);
        }
    }
}

static void run_for(int64_t ns)
{
    int64_t until = w.now + ns;
    for (;;) {
        arrive();
        int64_t due = node_due_ns(w.node);
        if (due > until)
            break;
        if (due > w.now)
            w.now = due;
        node_tick(w.node, w.now);
    }
    w.now = until;
    node_tick(w.node, w.now);
    arrive();
}

/* Strict holders are closed as soon as that was asked for. */
static void strict_are_closed(void)
{
    node_strict_closed(w.node, w.now);
    arrive();
}

static struct node_seen seen(void)
{
    struct node_seen s;
    node_look(w.node, &s);
    return s;
}

static void live(void)
{
    node_start(w.node, w.now);
    run_for(LEASE * 3 / 2);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    ck_assert(!seen().grace);
}

static uint64_t next_id = 1;

static void submit(struct asked *a, enum node_op op, enum node_wait wait, const char *name,
                   uint32_t units, uint32_t limit)
{
    *a = (struct asked){.ask = {.op = op,
                                .wait = wait,
                                .units = units,
                                .limit = limit,
                                .report = w.report,
                                .id = next_id++,
                                .name = bytes_of(name)}};
    node_submit(w.node, &a->ask, w.now);
}

static void acquire(struct asked *a, enum node_wait wait, const char *name, uint32_t limit)
{
    submit(a, NODE_ACQUIRE, wait, name, 1, limit);
}

static void release(struct asked *a, const char *name, bool by_end)
{
    *a = (struct asked){.ask = {.op = NODE_RELEASE,
                                .units = 1,
                                .by_end = by_end,
                                .report = w.report,
                                .name = bytes_of(name)}};
    node_submit(w.node, &a->ask, w.now);
}

static bool has(const struct asked *a, enum node_result result)
{
    return a->answered && a->ask.result == result;
}

static uint64_t units(const char *name)
{
    return fake_engine_units(w.engine, NULL, name, strlen(name));
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(opens_acquires_and_releases)
{
    struct asked a, b, c;
    begin();
    live();
    acquire(&a, NODE_WAIT_NO, "s", 1);
    arrive();
    ck_assert(has(&a, NODE_GRANTED));
    ck_assert_uint_eq(units("s"), 1);
    acquire(&b, NODE_WAIT_NO, "s", 1);
    acquire(&c, NODE_WAIT_ME, "s", 1);
    arrive();
    ck_assert(has(&b, NODE_BUSY));
    ck_assert(c.queued && !c.answered);
    release(&a, "s", false);
    arrive();
    ck_assert(has(&a, NODE_RELEASED) && has(&c, NODE_GRANTED));
    acquire(&a, NODE_WAIT_NO, "own", 1);
    ck_assert(has(&a, NODE_ALONE));
    ck_assert_ptr_null(fake_engine_misuse(w.engine));
    end();
}

TEST(nothing_strict_in_grace)
{
    struct asked a, b;
    begin();
    node_start(w.node, w.now);
    run_for(10 * MS);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    ck_assert(seen().grace);
    acquire(&a, NODE_WAIT_ME, "s", 1);
    acquire(&b, NODE_WAIT_ME, "l", 1);
    arrive();
    ck_assert(!a.answered && has(&b, NODE_GRANTED));
    run_for(LEASE + LEASE / 10);
    ck_assert(has(&a, NODE_GRANTED));
    end();
}

TEST(lease_counts_from_the_sending)
{
    begin();
    live();
    int64_t before = w.lease_end;
    ck_assert_int_gt(before, w.now);
    /* The next beat is answered late: the lease counts from when it was sent. */
    run_for(node_due_ns(w.node) - w.now - 1);
    int64_t sent = node_due_ns(w.node);
    w.now = sent;
    node_tick(w.node, w.now);
    w.now += 100 * MS;
    arrive();
    ck_assert_int_eq(w.lease_end, sent + LEASE / 10 * 9);
    end();
}

TEST(strict_holders_are_closed_at_the_end_of_the_lease)
{
    begin();
    live();
    w.strict_units = 1;
    int64_t lease_end = w.lease_end;
    w.refuses = true;
    fake_engine_restart(w.engine, true);
    arrive();
    run_for(lease_end - w.now - 1);
    ck_assert_uint_eq(w.strict_closed, 0);
    w.now = lease_end;
    node_tick(w.node, w.now);
    ck_assert_uint_eq(w.strict_closed, 1);
    ck_assert_int_eq(w.lease_end, 0);
    ck_assert_uint_eq(seen().leases_lost, 1);
    end();
}

TEST(a_node_that_was_stopped_looks_before_it_reads)
{
    struct asked a;
    begin();
    live();
    acquire(&a, NODE_WAIT_ME, "s", 1);
    node_flush(w.node, w.now);
    w.now = w.lease_end + 1;
    /* The answer is there, but the lease is over: it is not read. */
    size_t len;
    const char *bytes = fake_engine_output(w.links[NODE_COMMANDS], &len);
    char copy[4096];
    memcpy(copy, bytes, len);
    node_received(w.node, NODE_COMMANDS, copy, len, w.now);
    ck_assert_uint_eq(w.strict_closed, 1);
    ck_assert(!a.answered);
    ck_assert_ptr_null(w.links[NODE_COMMANDS]);
    end();
}

TEST(open_waits_until_strict_holders_are_closed)
{
    begin();
    live();
    w.now = w.lease_end + 1;
    node_tick(w.node, w.now);
    run_for(LEASE);
    ck_assert_int_eq(seen().state, NODE_OPENING);
    strict_are_closed();
    run_for(10 * MS);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    end();
}

TEST(patience_ends)
{
    struct asked loose, strict, waits, get;
    begin();
    live();
    w.refuses = true;
    fake_engine_restart(w.engine, true);
    arrive();
    acquire(&loose, NODE_WAIT_ME, "l", 1);
    acquire(&strict, NODE_WAIT_NO, "s", 1);
    acquire(&waits, NODE_WAIT_ME, "s", 1);
    submit(&get, NODE_GET, NODE_WAIT_NO, "s", 0, 0);
    run_for(900 * MS);
    ck_assert(!loose.answered && !strict.answered && !waits.queued && !get.answered);
    run_for(200 * MS);
    ck_assert_uint_eq(w.alone, 1);
    ck_assert(has(&loose, NODE_ALONE) && has(&strict, NODE_ENGINE_AWAY) && has(&get, NODE_ALONE));
    ck_assert(waits.queued && !waits.answered);
    acquire(&loose, NODE_WAIT_NO, "l", 1);
    ck_assert(has(&loose, NODE_ALONE));
    w.refuses = false;
    run_for(2 * LEASE);
    if (w.strict_closed)
        strict_are_closed();
    run_for(2 * LEASE);
    ck_assert(has(&waits, NODE_GRANTED));
    end();
}

TEST(release_while_away_is_done_at_once)
{
    struct asked any, me, held;
    begin();
    live();
    acquire(&held, NODE_WAIT_NO, "l", 1);
    arrive();
    w.loose_units = 1;
    acquire(&any, NODE_WAIT_ANY, "l", 1);
    acquire(&me, NODE_WAIT_ME, "l", 1);
    arrive();
    ck_assert(any.queued && me.queued);
    w.refuses = true;
    fake_engine_restart(w.engine, true);
    arrive();
    w.loose_units = 0;
    release(&held, "l", false);
    ck_assert(has(&held, NODE_RELEASED) && has(&any, NODE_DONE) && !me.answered);
    w.refuses = false;
    run_for(500 * MS);
    ck_assert(has(&me, NODE_GRANTED));
    ck_assert_uint_eq(units("l"), 1);
    end();
}

TEST(release_is_in_the_report_or_after_it)
{
    struct asked a, before, after;
    begin();
    live();
    acquire(&a, NODE_WAIT_NO, "l", 3);
    acquire(&before, NODE_WAIT_NO, "l", 3);
    arrive();
    w.loose_units = 2;
    w.hold_report = true;
    node_open_anew(w.node, "a test", w.now);
    run_for(100 * MS);
    ck_assert(w.report_due);
    /* One was before its thread's part of the report, one comes after it. */
    uint32_t number = w.report;
    w.report = number - 1;
    w.loose_units = 1;
    release(&before, "l", false);
    ck_assert(has(&before, NODE_RELEASED));
    w.report = number;
    release(&after, "l", false);
    ck_assert(!after.answered);
    w.hold_report = false;
    run_for(100 * MS);
    ck_assert(has(&after, NODE_RELEASED));
    ck_assert_uint_eq(units("l"), 0);
    ck_assert_uint_eq(seen().losses[NODE_LOSS_LEDGER], 1);
    end();
}

TEST(late_units_go_back)
{
    struct asked held, wait;
    begin();
    live();
    acquire(&held, NODE_WAIT_NO, "s", 1);
    acquire(&wait, NODE_WAIT_ME, "s", 1);
    arrive();
    /* The units are on their way when the wait is given up. */
    release(&held, "s", false);
    node_flush(w.node, w.now);
    node_cancel(w.node, wait.ask.id, w.now);
    arrive();
    ck_assert(has(&wait, NODE_CANCELLED));
    ck_assert_uint_eq(units("s"), 0);
    /* The same before the answer of the acquisition. */
    acquire(&wait, NODE_WAIT_ME, "s", 1);
    node_flush(w.node, w.now);
    node_cancel(w.node, wait.ask.id, w.now);
    arrive();
    ck_assert(has(&wait, NODE_CANCELLED));
    ck_assert_uint_eq(units("s"), 0);
    ck_assert_uint_eq(seen().asks, 0);
    end();
}

TEST(full_engine_refuses_acquisitions_alone)
{
    struct asked held, more;
    begin();
    live();
    acquire(&held, NODE_WAIT_NO, "s", 1);
    arrive();
    fake_engine_trouble(w.engine, FAKE_FULL);
    release(&held, "s", false);
    acquire(&more, NODE_WAIT_ME, "s", 1);
    arrive();
    ck_assert(has(&held, NODE_RELEASED) && has(&more, NODE_ENGINE_FULL));
    ck_assert_uint_eq(units("s"), 0);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    end();
}

TEST(requests_go_together)
{
    static struct asked asks[SMALL * 4];
    begin();
    live();
    run_for(10 * MS);
    uint64_t calls = seen().calls;
    for (unsigned i = 0; i < 3; i++) {
        acquire(&asks[i], NODE_WAIT_NO, "l", 1000);
        node_flush(w.node, w.now);
    }
    /* The second waits for the answer of the first, with the third. */
    ck_assert_uint_eq(seen().calls, calls + 1);
    arrive();
    ck_assert_uint_eq(seen().calls, calls + 2);
    calls = seen().calls;
    for (unsigned i = 0; i < SMALL * 4; i++)
        acquire(&asks[i], NODE_WAIT_NO, "l", 1000);
    node_flush(w.node, w.now);
    /* Two calls at most are under way, and these are full. */
    ck_assert_uint_eq(seen().calls, calls + 2);
    arrive();
    ck_assert_uint_eq(seen().calls, calls + 4);
    for (unsigned i = 0; i < SMALL * 4; i++)
        ck_assert(has(&asks[i], NODE_GRANTED));
    end();
}

static const struct {
    const char *field, *value, *says;
} wrong_engines[] = {
    {"redis_version", "6.2.6", "7.0 is the least"},
    {"role", "slave", "is a replica"},
    {"cluster_enabled", "1", "cluster-enabled no"},
    {"maxmemory_policy", "allkeys-lru", "maxmemory-policy noeviction"},
    {"loading", "1", "still loads"},
};

TEST(wrong_engines_are_refused_again_each_minute)
{
    for (size_t i = 0; i < ARRAY_SIZE(wrong_engines); i++) {
        memset(&w, 0, sizeof(w));
        begin();
        fake_engine_info(w.engine, wrong_engines[i].field, wrong_engines[i].value);
        node_start(w.node, w.now);
        run_for(50000 * MS);
        ck_assert_int_eq(seen().state, NODE_REFUSED);
        ck_assert_ptr_nonnull(strstr(seen().reasons[0].text, wrong_engines[i].says));
        char *first = strstr(w.log, "does not join");
        ck_assert_ptr_nonnull(first);
        ck_assert_ptr_null(strstr(first + 1, "does not join"));
        run_for(15000 * MS);
        ck_assert_ptr_nonnull(strstr(first + 1, "does not join"));
        end();
    }
}

TEST(a_node_leaves_an_engine_that_begins_to_evict)
{
    begin();
    live();
    fake_engine_info(w.engine, "maxmemory_policy", "allkeys-lfu");
    run_for(LEASE / 5 + 10 * MS);
    ck_assert_int_eq(seen().state, NODE_REFUSED);
    ck_assert_ptr_nonnull(strstr(w.log, "maxmemory-policy allkeys"));
    /* Strict holders stay for the rest of the lease, as when the node is cut off. */
    ck_assert_uint_eq(w.strict_closed, 0);
    run_for(LEASE);
    ck_assert_uint_eq(w.strict_closed, 1);
    node_strict_closed(w.node, w.now);
    fake_engine_info(w.engine, "maxmemory_policy", "volatile-lru");
    run_for(LEASE);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    end();
}

TEST(forbidden_command_is_named)
{
    begin();
    fake_engine_forbid(w.engine, "zscore");
    node_start(w.node, w.now);
    run_for(100 * MS);
    ck_assert_ptr_nonnull(strstr(seen().reasons[0].text, "zscore"));
    fake_engine_forbid(w.engine, NULL);
    run_for(2000 * MS);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    end();
}

/* The first node of this name goes without a word; another one starts. */
static void another(const char *name, int64_t lease)
{
    live();
    for (unsigned i = 0; i < 2; i++) {
        fake_engine_hang_up(w.links[i]);
        w.links[i] = NULL;
    }
    struct node *first = w.node;
    w.node = make(name, "boot/1/2/2", lease);
    node_start(w.node, w.now);
    /* The first does nothing any more. */
    struct world kept = w;
    memset(w.links, 0, sizeof(w.links));
    node_park(first, w.now);
    node_free(&first);
    memcpy(w.opening, kept.opening, sizeof(w.opening));
}

TEST(crashed_node_comes_back_at_once)
{
    begin();
    w.gone = true;
    another("n1", LEASE);
    run_for(10 * MS);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    end();
}

TEST(namesake_is_refused_for_a_lease)
{
    begin();
    another("n1", LEASE);
    run_for(LEASE / 2);
    ck_assert_int_eq(seen().state, NODE_REFUSED);
    ck_assert_ptr_nonnull(strstr(seen().reasons[0].text, "cluster.node"));
    run_for(LEASE);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    end();
}

TEST(other_lease_is_refused_until_they_are_over)
{
    begin();
    another("n2", 2 * LEASE);
    run_for(LEASE / 2);
    ck_assert_int_eq(seen().state, NODE_REFUSED);
    ck_assert_ptr_nonnull(strstr(seen().reasons[0].text, "cluster.lease"));
    run_for(LEASE);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    end();
}

TEST(leaves_nothing_behind)
{
    struct asked held;
    begin();
    live();
    acquire(&held, NODE_WAIT_NO, "s", 1);
    arrive();
    release(&held, "s", true);
    node_leave(w.node, w.now);
    run_for(100 * MS);
    ck_assert(has(&held, NODE_RELEASED));
    ck_assert(node_has_left(w.node));
    ck_assert_ptr_null(fake_engine_left(w.engine));
    end();
}

/* The session before has left units there. It ends in each phase of the opening. */
TEST(leaves_nothing_behind_while_it_opens)
{
    for (int64_t wait = 0; wait < 20 * MS; wait += MS) {
        struct asked held;
        begin();
        live();
        acquire(&held, NODE_WAIT_NO, "s", 1);
        arrive();
        node_open_anew(w.node, "the test", w.now);
        release(&held, "s", true);
        if (wait)
            run_for(wait);
        node_leave(w.node, w.now);
        run_for(1000 * MS);
        ck_assert(has(&held, NODE_RELEASED));
        ck_assert(node_has_left(w.node));
        ck_assert_ptr_null(fake_engine_left(w.engine));
        end();
    }
}

TEST(upgrade_keeps_place_and_lease)
{
    static struct record_writer writer;
    struct record_reader reader;
    struct asked held, wait;
    begin();
    live();
    acquire(&held, NODE_WAIT_NO, "s", 1);
    acquire(&wait, NODE_WAIT_ME, "s", 1);
    arrive();
    w.strict_units = 1;
    int64_t lease_end = w.lease_end;
    node_park(w.node, w.now);
    ck_assert_ptr_eq(node_forget_ask(w.node), &wait.ask);
    ck_assert_ptr_null(node_forget_ask(w.node));
    int fd = memfd_create("upgrade", MFD_CLOEXEC);
    record_writer_init(&writer, fd);
    record_put_head(&writer);
    node_save(w.node, &writer);
    ck_assert(record_finish(&writer) && record_map(&reader, fd));
    node_free(&w.node);
    w.node = make("n1", "boot/1/3/3", LEASE);
    record_get_head(&reader);
    ck_assert(node_restore(w.node, &reader));
    record_unmap(&reader);
    close(fd);
    w.lease_end = 0;
    node_start(w.node, w.now);
    ck_assert_int_eq(w.lease_end, lease_end);
    uint64_t seq = wait.ask.seq;
    ck_assert_uint_gt(seq, 1);
    node_submit(w.node, &wait.ask, w.now);
    run_for(50 * MS);
    ck_assert_int_eq(seen().state, NODE_LIVE);
    ck_assert_uint_eq(wait.ask.seq, seq);
    ck_assert_uint_eq(units("s"), 1);
    ck_assert_uint_eq(fake_engine_waits(w.engine, NULL, "s", 1), 1);
    w.strict_units = 0;
    release(&held, "s", false);
    arrive();
    ck_assert(has(&wait, NODE_GRANTED));
    end();
}

/* ---- bytes that make no sense ---------------------------------------------------------------- */

static const char *const pieces[] = {
    "*3\r\n",
    "*0\r\n",
    "*-1\r\n",
    "$-1\r\n",
    ":1\r\n",
    ":-2\r\n",
    "+OK\r\n",
    "-ERR x\r\n",
    "-SESSION x\r\n",
    "$4\r\nOPEN\r\n",
    "$1\r\n-\r\n",
    "*2\r\n",
    "$16\r\n0123456789abcdef\r\n",
    "*1048577\r\n",
    "$9\r\nsubscribe\r\n",
    "$7\r\nmessage\r\n",
    "$7\r\nG 1 1 s\r\n",
    "$5\r\nD 3 s\r\n",
    "$3\r\nB 9\r\n",
    "$5\r\nREAPED\r\n",
    "x",
    "\r\n",
    "*1\r\n$4\r\nNODE\r\n",
    "*5\r\n$4\r\nNODE\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\n1\r\n$9\r\n999999999\r\n",
    "*1\r\n$6\r\nREAPED\r\n",
};

static void odd_seed(uint64_t seed)
{
    struct rng rng = {.state = seed};
    struct asked asks[8];
    memset(&w, 0, sizeof(w));
    begin();
    node_start(w.node, w.now);
    run_for((int64_t)rng_below(&rng, 3000) * MS);
    for (unsigned i = 0; i < ARRAY_SIZE(asks); i++)
        acquire(&asks[i], (enum node_wait)rng_below(&rng, 3), i % 2 ? "s" : "l", 2);
    for (unsigned i = 0; i < 60; i++) {
        unsigned wire = rng_below(&rng, 2);
        const char *piece = pieces[rng_below(&rng, ARRAY_SIZE(pieces))];
        if (w.links[wire])
            node_received(w.node, wire, piece, strlen(piece), w.now);
        if (rng_one_in(&rng, 3))
            run_for((int64_t)rng_below(&rng, 300) * MS);
        if (w.strict_closed) {
            w.strict_closed = 0;
            node_strict_closed(w.node, w.now);
        }
    }
    w.strict_closed = 0;
    end();
}

TEST(odd_bytes_begin_again)
{
    for (uint64_t seed = 1; seed <= 300; seed++)
        odd_seed(seed);
}

static const struct unit_test tests[] = {
    UNIT(opens_acquires_and_releases),
    UNIT(nothing_strict_in_grace),
    UNIT(lease_counts_from_the_sending),
    UNIT(strict_holders_are_closed_at_the_end_of_the_lease),
    UNIT(a_node_that_was_stopped_looks_before_it_reads),
    UNIT(open_waits_until_strict_holders_are_closed),
    UNIT(patience_ends),
    UNIT(release_while_away_is_done_at_once),
    UNIT(release_is_in_the_report_or_after_it),
    UNIT(late_units_go_back),
    UNIT(full_engine_refuses_acquisitions_alone),
    UNIT(requests_go_together),
    UNIT(wrong_engines_are_refused_again_each_minute),
    UNIT(a_node_leaves_an_engine_that_begins_to_evict),
    UNIT(forbidden_command_is_named),
    UNIT(crashed_node_comes_back_at_once),
    UNIT(namesake_is_refused_for_a_lease),
    UNIT(other_lease_is_refused_until_they_are_over),
    UNIT(leaves_nothing_behind),
    UNIT(leaves_nothing_behind_while_it_opens),
    UNIT(upgrade_keeps_place_and_lease),
    UNIT(odd_bytes_begin_again),
};

UNIT_MAIN("node", tests)
