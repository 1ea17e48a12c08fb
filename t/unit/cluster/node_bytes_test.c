/* Many and long names, and an engine that is broken or hostile: no bytes cost the process much
 * memory. */
#include "cluster/node_internal.h"
#include "t/unit/cluster/node_rig.h"

#include <malloc.h>

#define LONGEST 65535u

/* ---- names ----------------------------------------------------------------------------------- */

/* A name of any bytes, of this length. */
static struct bytes long_name(uint8_t *to, size_t len, unsigned number)
{
    uint8_t first = (uint8_t)number;
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)(i * 7 + first);
    to[0] = 'l';
    to[1] = first;
    to[2] = (uint8_t)(number >> 8);
    return bytes_at(to, len);
}

/* Answers 1 to each op of a call. */
static void answer_ones(size_t ops)
{
    char answer[NODE_CALL_OPS * 4 + 16];
    int at = snprintf(answer, sizeof(answer), "*%zu\r\n", ops);
    for (size_t i = 0; i < ops; i++)
        at += snprintf(answer + at, sizeof(answer) - (size_t)at, ":1\r\n");
    rig_answers("%s", answer);
}

/* The length of a command's arguments. */
static size_t length(const redisReply *command)
{
    size_t sum = 0;
    for (size_t i = 0; i < command->elements; i++)
        sum += command->element[i]->len;
    return sum;
}

TEST(calls_are_bounded_in_ops_and_bytes)
{
    enum { COUNT = 300 };
    static uint8_t names[COUNT][LONGEST];
    static struct rig_ask asks[COUNT];
    for (unsigned pass = 0; pass < 2; pass++) {
        size_t len = pass ? LONGEST : 20;
        unsigned sent = 0, calls = 0;
        rig_begin("redis://e:1");
        rig_live(false);
        for (unsigned i = 0; i < COUNT; i++) {
            asks[i] = (struct rig_ask){.ask = {.op = NODE_ACQUIRE,
                                               .units = 1,
                                               .limit = 1,
                                               .id = i + 1,
                                               .name = long_name(names[i], len, i)}};
            node_submit(r.node, &asks[i].ask, r.now);
        }
        node_flush(r.node, r.now);
        for (; sent < COUNT; calls++) {
            const redisReply *call = rig_script("call");
            size_t ops = (call->elements - 5) / 4;
            ck_assert_uint_le(ops, NODE_CALL_OPS);
            ck_assert_uint_le(length(call), NODE_CALL_BYTES);
            sent += (unsigned)ops;
            answer_ones(ops);
        }
        ck_assert_uint_eq(calls, pass ? COUNT / 3 : (COUNT + NODE_CALL_OPS - 1) / NODE_CALL_OPS);
        /* What is told again is bounded likewise. */
        rig_cut(NODE_COMMANDS, "a test");
        rig_at(r.now + 100 * MS);
        rig_connect();
        rig_accepts(false);
        for (unsigned i = 0; i < COUNT; i++)
            node_report(r.node, asks[i].ask.name, 1);
        ck_assert_uint_le(r.node->names.size, 2 * COUNT);
        node_reported(r.node, r.now);
        ck_assert_uint_gt(r.node->ahead, pass ? 700 * 1024 : 3 * NODE_CALL_OPS);
        for (sent = 0; sent < COUNT;) {
            ck_assert_uint_le(r.node->ahead, 1024 * 1024);
            const redisReply *give = rig_script("give");
            size_t ops = (give->elements - 5) / 3;
            ck_assert_uint_le(ops, NODE_CALL_OPS);
            ck_assert_uint_le(length(give), NODE_CALL_BYTES);
            sent += (unsigned)ops;
            answer_ones(ops);
        }
        rig_readies();
        ck_assert_uint_le(r.node->names.size, 64);
        rig_end();
    }
}

/* ---- replies that cost memory ---------------------------------------------------------------- */

/* Memory in use. */
static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static char list[8192], long_text[65000]; /* a list of 1,000 times nothing; a long text */

static void make_pieces(void)
{
    size_t at = (size_t)snprintf(list, sizeof(list), "*1000\r\n");
    for (unsigned i = 0; i < 1000; i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "$-1\r\n");
    at = (size_t)snprintf(long_text, sizeof(long_text), "$60000\r\n");
    memset(long_text + at, 'x', 60000);
    memcpy(long_text + at + 60000, "\r\n", 3);
}

static const struct {
    const char *first, *again;
} endless[] = {
    {"*1000000\r\n", list},
    {"*1000000\r\n", long_text},
    {"$1000000000\r\n", "0123456789"},                  /* a long text */
    {"*1000\r\n", "$4\r\nabcd\r\n"},                    /* what nobody asked for */
    {"*1000000\r\n", "*100000\r\n"},                    /* arrays in arrays */
    {"*1000000\r\n", "$-1\r\n"},                        /* many of nothing */
    {"*1048570\r\n", "*1\r\n$-1\r\n"},                  /* many of little */
    {"*1048577\r\n", ":1\r\n"},                         /* too many */
    {"*1\r\n", "*1\r\n"},                               /* deep */
    {"*4294967296\r\n", ":1\r\n"},                      /* beyond 32 bits */
    {"*-2\r\n", ":1\r\n"},                              /* less than nothing */
    {"$20000000\r\n", "$2000000\r\n"},                  /* a text, but not so long */
    {"*900000\r\n", "$20\r\n01234567890123456789\r\n"}, /* many texts */
    {"*900\r\n", "$1000000\r\n"},                       /* long ones */
    {"%1000000\r\n", "+a\r\n"}, /* a map, which this protocol does not have */
    {"~1000000\r\n", "+a\r\n"},
    {">3\r\n", "$7\r\nmessage\r\n"},
};

TEST(replies_that_never_end)
{
    make_pieces();
    for (size_t i = 0; i < ARRAY_SIZE(endless); i++) {
        unsigned wire = (unsigned)i % 3;
        rig_begin("sentinel://a:1/main");
        rig_start();
        rig_opens(NODE_SENTINEL);
        rig_want(NODE_SENTINEL, "SENTINEL");
        if (wire != NODE_SENTINEL) {
            rig_say(NODE_SENTINEL, "*2\r\n$2\r\ne0\r\n$4\r\n6379\r\n");
            rig_opens(NODE_COMMANDS);
            rig_opens(NODE_MESSAGES);
        }
        size_t before = in_use(), most = 0;
        size_t len = strlen(endless[i].again), sent = 0;
        static char many[65536];
        for (size_t n = 0; n < sizeof(many) / len; n++)
            memcpy(many + n * len, endless[i].again, len);
        node_received(r.node, wire, endless[i].first, strlen(endless[i].first), r.now);
        for (; sent < 80u << 20 && r.open[wire]; sent += sizeof(many) / len * len) {
            node_received(r.node, wire, many, sizeof(many) / len * len, r.now);
            size_t now = in_use();
            most = now > most ? now : most;
        }
        ck_assert_msg(!r.open[wire], "row %zu", i);
        ck_assert_msg(most < before + (256u << 20), "row %zu: %zu bytes", i, most - before);
        ck_assert_uint_lt(in_use(), before + (1u << 20));
        rig_end();
    }
}

/* ---- answers that grow ----------------------------------------------------------------------- */

TEST(units_that_nobody_waits_for_are_bounded)
{
    static uint8_t name[LONGEST];
    static char message[LONGEST + 32];
    rig_begin("redis://e:1");
    rig_live(false);
    size_t before = in_use(), most = 0;
    for (unsigned i = 0; i < 4000 && r.open[NODE_MESSAGES]; i++) {
        int head = snprintf(message, sizeof(message), "G %u 1 ", 1000 + i);
        memcpy(message + head, long_name(name, 60000, i).data, 60000);
        rig_message(bytes_at(message, (size_t)head + 60000));
        most = in_use() > most ? in_use() : most;
    }
    ck_assert(!r.open[NODE_MESSAGES]);
    ck_assert_uint_lt(most, before + NODE_GIVEN_MAX + (8u << 20));
    ck_assert_uint_eq(r.node->given_bytes, 0);
    rig_end();
}

/* Answers a beat with names to try, which are new each time, and with many sessions. */
static void beat_with(unsigned beat, unsigned names, unsigned sessions)
{
    static char text[8u << 20];
    size_t at = (size_t)snprintf(text, sizeof(text), "*3\r\n:0\r\n*%u\r\n", names);
    for (unsigned i = 0; i < names; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "$1000\r\n%0500u%0500u\r\n", beat, i);
    at += (size_t)snprintf(text + at, sizeof(text) - at, "*%u\r\n", 2 * sessions + 2);
    for (unsigned i = 0; i < sessions; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "$16\r\n%016x\r\n:1\r\n", i);
    at += (size_t)snprintf(text + at, sizeof(text) - at, "$16\r\n%s\r\n:%u\r\n", r.session, beat);
    ck_assert_uint_lt(at, sizeof(text));
    node_received(r.node, NODE_COMMANDS, text, at, r.now);
    node_flush(r.node, r.now);
    snprintf(text, sizeof(text), "B %u", beat);
    rig_message(bytes_of(text));
}

/* Answers one call, each of whose ops is a `t`, or a `reap`, of which something is left. */
static void answer_one(const redisReply *command)
{
    if (strcmp(rig_word(command, 1), "reap") == 0)
        rig_answers("%s", "*3\r\n:1\r\n$1\r\n0\r\n*0\r\n");
    else
        answer_ones((command->elements - 5) / 2);
}

/* The engine answers calls more slowly than its beats list names. */
TEST(beats_that_list_ever_more_are_bounded)
{
    unsigned beats = 0;
    rig_begin("redis://e:1");
    rig_live(false);
    for (unsigned step = 0; step < 60; step++) {
        rig_at(r.now + FIFTH / 8);
        const redisReply *command = rig_take(NODE_COMMANDS);
        if (command && strcmp(rig_word(command, 1), "beat") == 0)
            beat_with(++beats, 3000, NODE_SESSIONS_MAX + 100);
        else if (command)
            answer_one(command);
        ck_assert_int_eq(rig_seen().state, NODE_LIVE);
        ck_assert_uint_le(r.node->tries_bytes, NODE_TRIES_MAX + 2000);
        ck_assert_uint_le(r.node->names.count, 2 * NODE_TRIES_MAX / 1000);
        ck_assert_uint_le(r.node->watched_count, NODE_SESSIONS_MAX);
        ck_assert_uint_le(r.node->reaps.count, NODE_SESSIONS_MAX);
    }
    ck_assert_uint_gt(beats, 5);
    rig_end();
}

TEST(sessions_in_the_way_are_bounded)
{
    static char text[1u << 20];
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    for (unsigned n = 0; n < 2; n++) {
        rig_script("open");
        size_t at = (size_t)snprintf(text, sizeof(text), "*8402\r\n$5\r\nLEASE\r\n:4000\r\n");
        for (unsigned i = 0; i < 4200; i++)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "$16\r\n%08x%08x\r\n$1\r\n7\r\n",
                                   n, i);
        node_received(r.node, NODE_COMMANDS, text, at, r.now);
        ck_assert_uint_le(r.node->watched_count, NODE_SESSIONS_MAX);
        rig_at(r.now + FIFTH);
    }
    r.gone = true;
    for (unsigned n = 0; n < NODE_OVER_MAX + 10; n++) {
        ck_assert_uint_eq(rig_script("open")->elements,
                          11 + 2 * (n < NODE_OVER_MAX ? n : NODE_OVER_MAX));
        rig_answers("*5\r\n$4\r\nNODE\r\n$16\r\n%016x\r\n$1\r\nw\r\n:1\r\n:4000\r\n", n + 1);
        if (n >= NODE_OVER_MAX)
            rig_at(r.now + FIFTH);
    }
    ck_assert_uint_le(r.node->over.count, NODE_OVER_MAX);
    rig_end();
}

TEST(a_text_ends_within_its_room)
{
    char to[] = "-------";
    bytes_visible(bytes_of("a\nbcd"), to, 4);
    ck_assert_mem_eq(to, "a?b\0---", sizeof(to));
}

UNIT_MAIN("node bytes")
