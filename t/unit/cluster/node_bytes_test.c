/* Numbers and names at their limits, and an engine that is broken or hostile: no bytes end the
 * process, cost it much memory or leave something behind. */
#include "cluster/node_inside.h"
#include "t/unit/cluster/node_rig.h"

#include <malloc.h>

#define LONGEST 65535u

/* ---- numbers --------------------------------------------------------------------------------- */

TEST(numbers_at_their_limits)
{
    struct rig_ask a, b;
    rig_begin("redis://e:1");
    rig_live(false);
    r.next_id = UINT64_MAX;
    rig_submit(&a, NODE_ACQUIRE, NODE_WAIT_ANY, bytes_of("l"), UINT32_MAX, UINT32_MAX);
    const redisReply *call = rig_script("call");
    ck_assert_str_eq(rig_word(call, 7), "al4294967295/4294967295/0");
    ck_assert_str_eq(rig_word(call, 8), "18446744073709551615");
    rig_answers("*1\r\n:9007199254740991\r\n");
    ck_assert_uint_eq(a.ask.seq, UINT64_C(9007199254740991));
    rig_grants(&a);
    ck_assert(rig_has(&a, NODE_GRANTED));
    /* Units of many connections are more than one may have. */
    r.next_id = 7;
    rig_submit(&b, NODE_ACQUIRE, NODE_WAIT_ANY, bytes_of("l"), UINT32_MAX, UINT32_MAX);
    rig_script("call");
    rig_answers("*1\r\n:9007199254740990\r\n");
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    ck_assert_str_eq(rig_word(rig_script("open"), 9), "9007199254740991");
    rig_answers("*3\r\n$4\r\nOPEN\r\n$5\r\n" TERM "\r\n:0\r\n");
    node_report(r.node, bytes_of("l"), UINT32_MAX);
    node_report(r.node, bytes_of("l"), UINT32_MAX);
    node_reported(r.node, r.now);
    const redisReply *give = rig_script("give");
    ck_assert_str_eq(rig_word(give, 7), "8589934590");
    ck_assert_str_eq(rig_word(give, 10), "al4294967295/4294967295");
    ck_assert_str_eq(rig_word(give, 12), "9007199254740990");
    rig_end();
}

/* Scripts count with doubles: a number that these do not have makes no sense. */
TEST(seqs_that_scripts_can_not_count)
{
    static const char *const messages[] = {"D 9007199254740993 l", "D 99999999999999999999 l",
                                           "D 18446744073709551617 l", "D 0 l", "D -1 l"};
    for (size_t i = 0; i < ARRAY_SIZE(messages) + 1; i++) {
        struct rig_ask a;
        rig_begin("redis://e:1");
        rig_live(false);
        rig_acquire(&a, NODE_WAIT_ANY, "l");
        rig_script("call");
        if (i < ARRAY_SIZE(messages))
            rig_message(messages[i]);
        else
            rig_answers("*1\r\n:9007199254740993\r\n");
        ck_assert_msg(!r.asked[NODE_COMMANDS] && !r.asked[NODE_MESSAGES], "%zu", i);
        rig_later(100 * MS);
        rig_connect();
        ck_assert_str_eq(rig_word(rig_script("open"), 9), "0");
        rig_end();
    }
}

TEST(units_in_messages)
{
    static const char *const messages[] = {"G 1 0 l",
                                           "G 1 4294967296 l",
                                           "G 1 2 l",
                                           "G 1 1 m",
                                           "G 1 1 ",
                                           "G 1 1",
                                           "G  1 1 l",
                                           "G x 1 l",
                                           "G 18446744073709551616 1 l",
                                           "G",
                                           "",
                                           "GG 1 1 l",
                                           "X 1",
                                           "B",
                                           "B x",
                                           "B ",
                                           "D 5",
                                           "D 5 "};
    for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
        struct rig_ask a;
        rig_begin("redis://e:1");
        rig_live(false);
        rig_waits(&a, NODE_WAIT_ME, "l", 5);
        rig_message(messages[i]);
        ck_assert_msg(!r.asked[NODE_COMMANDS], "%s", messages[i]);
        ck_assert(!a.answered);
        rig_end();
    }
}

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

TEST(names_of_any_bytes)
{
    static uint8_t name[LONGEST];
    struct rig_ask a, b, c;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_submit(&a, NODE_ACQUIRE, NODE_WAIT_ME, long_name(name, LONGEST, 0), 1, 1);
    const redisReply *call = rig_script("call");
    ck_assert_uint_eq(call->element[6]->len, LONGEST);
    ck_assert_mem_eq(call->element[6]->str, name, LONGEST);
    rig_answers("*1\r\n:2\r\n");
    rig_grants(&a);
    ck_assert(rig_has(&a, NODE_GRANTED));
    rig_submit(&b, NODE_ACQUIRE, NODE_WAIT_ANY, bytes_at("l \0\r\n$ \xff", 8), 1, 1);
    call = rig_script("call");
    ck_assert_uint_eq(call->element[6]->len, 8);
    rig_answers("*1\r\n:3\r\n");
    rig_submit(&c, NODE_ACQUIRE, NODE_WAIT_ANY, bytes_of("l "), 1, 1);
    rig_script("call");
    rig_answers("*1\r\n:4\r\n");
    rig_message("D 9 l");
    ck_assert(!b.answered && !c.answered);
    rig_message("D 9 l ");
    ck_assert(!b.answered && rig_has(&c, NODE_DONE));
    rig_message_bytes(bytes_at("D 9 l \0\r\n$ \xff", 12));
    ck_assert(rig_has(&b, NODE_DONE));
    rig_end();
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
            char answer[NODE_CALL_OPS * 4 + 16];
            int at = snprintf(answer, sizeof(answer), "*%zu\r\n", ops);
            for (size_t i = 0; i < ops; i++)
                at += snprintf(answer + at, sizeof(answer) - (size_t)at, ":1\r\n");
            rig_answers("%s", answer);
        }
        ck_assert_uint_eq(calls, pass ? COUNT / 3 : (COUNT + NODE_CALL_OPS - 1) / NODE_CALL_OPS);
        /* What is told again is bounded likewise. */
        rig_cut(NODE_COMMANDS);
        rig_later(100 * MS);
        rig_connect();
        rig_accepts(false);
        for (unsigned i = 0; i < COUNT; i++)
            node_report(r.node, asks[i].ask.name, 1);
        node_reported(r.node, r.now);
        for (sent = 0; sent < COUNT;) {
            const redisReply *give = rig_script("give");
            size_t ops = (give->elements - 5) / 3;
            ck_assert_uint_le(ops, NODE_CALL_OPS);
            ck_assert_uint_le(length(give), NODE_CALL_BYTES);
            sent += (unsigned)ops;
            char answer[NODE_CALL_OPS * 4 + 16];
            int at = snprintf(answer, sizeof(answer), "*%zu\r\n", ops);
            for (size_t i = 0; i < ops; i++)
                at += snprintf(answer + at, sizeof(answer) - (size_t)at, ":1\r\n");
            rig_answers("%s", answer);
        }
        rig_readies();
        rig_end();
    }
}

/* ---- replies that cost memory ------------------------------------------------------------------
 */

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
        rig_message_bytes(bytes_at(message, (size_t)head + 60000));
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
    rig_message(text);
}

/* Answers one call, each of whose ops is a `t`, or a `reap`, of which something is left. */
static void answer_one(const redisReply *command)
{
    static char answer[NODE_CALL_OPS * 4 + 16];
    size_t ops = (command->elements - 5) / 2;
    int at = snprintf(answer, sizeof(answer), "*%zu\r\n", ops);
    for (size_t i = 0; i < ops; i++)
        at += snprintf(answer + at, sizeof(answer) - (size_t)at, ":1\r\n");
    bool reaps = strcmp(rig_word(command, 1), "reap") == 0;
    rig_answers("%s", reaps ? "*3\r\n:1\r\n$1\r\n0\r\n*0\r\n" : answer);
}

/* The engine answers calls more slowly than its beats list names. */
TEST(beats_that_list_ever_more_are_bounded)
{
    unsigned beats = 0;
    rig_begin("redis://e:1");
    rig_live(false);
    for (unsigned step = 0; step < 60; step++) {
        rig_later(FIFTH / 8);
        const redisReply *command = rig_take(NODE_COMMANDS);
        if (command && strcmp(rig_word(command, 1), "beat") == 0)
            beat_with(++beats, 3000, NODE_SESSIONS_MAX + 100);
        else if (command)
            answer_one(command);
        ck_assert_int_eq(rig_seen().state, NODE_LIVE);
        ck_assert_uint_le(r.node->tries_bytes, NODE_TRIES_MAX + 2000);
        ck_assert_uint_le(r.node->names_count, 2 * NODE_TRIES_MAX / 1000);
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
        rig_later(FIFTH);
    }
    r.gone = true;
    for (unsigned n = 0; n < NODE_OVER_MAX + 10; n++) {
        rig_script("open");
        rig_answers("*5\r\n$4\r\nNODE\r\n$16\r\n%016x\r\n$1\r\nw\r\n:1\r\n:4000\r\n", n + 1);
        if (n >= NODE_OVER_MAX)
            rig_later(FIFTH);
    }
    ck_assert_uint_le(r.node->over.count, NODE_OVER_MAX);
    rig_end();
}

/* ---- answers of the wrong shape ----------------------------------------------------------------
 */

/* Any of these in the place of any answer: the node begins again, and keeps nothing. */
static const char *const wrong[] = {
    "+OK\r\n",
    ":1\r\n",
    ":-5\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "$0\r\n\r\n",
    "$3\r\nabc\r\n",
    "*1\r\n*0\r\n",
    "*1\r\n$-1\r\n",
    "*2\r\n:1\r\n$3\r\nabc\r\n",
    "*1\r\n-ERR x\r\n",
    "*3\r\n*0\r\n*0\r\n*0\r\n",
    "*3\r\n:1\r\n*1\r\n:1\r\n*0\r\n",
    "*3\r\n:0\r\n*1\r\n$0\r\n\r\n*2\r\n$1\r\na\r\n:1\r\n",
    "*2\r\n:9\r\n:9\r\n",
    "*2\r\n$16\r\n0123456789abcdef\r\n$20\r\n99999999999999999999\r\n",
    "*1\r\n$6\r\nREAPED\r\n",
    "*5\r\n$4\r\nNODE\r\n$16\r\n0123456789abcdef\r\n*0\r\n:1\r\n:1\r\n",
    "*1\r\n$5\r\nLEASE\r\n",
    "*3\r\n$5\r\nLEASE\r\n:1\r\n$1\r\na\r\n",
    "*1\r\n$7\r\nVERSION\r\n",
    "*1\r\n$3\r\nACL\r\n",
    "*3\r\n$4\r\nOPEN\r\n$1\r\n \r\n:1\r\n",
    "*2\r\n$4\r\nOPEN\r\n$1\r\na\r\n",
    "-OOM\r\n",
    "-\r\n",
    "-NOAUTH x\r\n",
    "-NOPERM x\r\n",
    "-HOLDS x\r\n",
    "-SESSION\r\n",
    "-TERM x\r\n",
    "*1\r\n*8\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
};

/* Answers what the node sent as an engine would, but from the command `bad` on with this. */
static unsigned play(unsigned bad, const char *text, unsigned most)
{
    unsigned commands = 0;
    for (; commands < most; commands++) {
        if (r.asked[NODE_COMMANDS] && !r.open[NODE_COMMANDS])
            rig_opens(NODE_COMMANDS);
        if (r.asked[NODE_MESSAGES] && !r.open[NODE_MESSAGES])
            rig_opens(NODE_MESSAGES);
        void *reply = NULL;
        unsigned wire = NODE_MESSAGES;
        if (r.open[wire])
            ck_assert_int_eq(redisReaderGetReply(r.sent[wire], &reply), REDIS_OK);
        if (!reply && r.open[NODE_COMMANDS]) {
            wire = NODE_COMMANDS;
            ck_assert_int_eq(redisReaderGetReply(r.sent[wire], &reply), REDIS_OK);
        }
        if (!reply)
            break;
        const redisReply *command = reply;
        char session[17];
        snprintf(session, sizeof(session), "%s", rig_word(command, 4));
        const char *word = rig_word(command, strcmp(rig_word(command, 0), "EVALSHA") == 0 ? 1 : 0);
        if (commands == bad) {
            rig_say(wire, "%s", text);
        } else if (wire == NODE_MESSAGES) {
            rig_say(wire, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
        } else if (strcmp(word, "INFO") == 0) {
            rig_say(wire, "$%zu\r\n%s\r\n", strlen(RIG_INFO), RIG_INFO);
        } else if (strcmp(word, "SCRIPT") == 0) {
            static unsigned next;
            const char *name = cluster_scripts[next++ % CLUSTER_SCRIPT_COUNT].name;
            if (strcmp(rig_word(command, 2), cluster_scripts[0].text) == 0)
                next = 1, name = cluster_scripts[0].name;
            rig_say(wire, "$%zu\r\n%s\r\n", strlen(name), name);
        } else if (strcmp(word, "open") == 0) {
            rig_say(wire, "*3\r\n$4\r\nOPEN\r\n$5\r\n" TERM "\r\n:0\r\n");
        } else if (strcmp(word, "give") == 0 || strcmp(word, "call") == 0) {
            /* One op a call in this test. */
            rig_say(wire, strcmp(rig_word(command, 5), "g") == 0 ? "*1\r\n*2\r\n:1\r\n:1\r\n"
                          : strcmp(rig_word(command, 5), "h") == 0
                              ? "*1\r\n*3\r\n$1\r\na\r\n:1\r\n:1\r\n"
                              : "*1\r\n:1\r\n");
        } else if (strcmp(word, "ready") == 0) {
            rig_say(wire, "*2\r\n$16\r\n00000000000000dd\r\n:1\r\n");
        } else if (strcmp(word, "reap") == 0) {
            rig_say(wire, "%s", REAPED);
        } else if (strcmp(word, "beat") == 0) {
            rig_say(wire, "*3\r\n:1\r\n*1\r\n$1\r\nx\r\n*2\r\n$16\r\n%s\r\n:2\r\n", session);
        } else {
            rig_say(wire, strcmp(word, "look") == 0 ? "*0\r\n" : ":1\r\n");
        }
        for (; r.reported < r.reports; r.reported++) {
            node_report(r.node, bytes_of("l"), 1);
            node_reported(r.node, r.now);
            node_flush(r.node, r.now);
        }
        freeReplyObject(reply);
    }
    return commands;
}

TEST(wrong_answers_to_each_command)
{
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        for (unsigned bad = 0; bad < 26; bad++) {
            struct rig_ask asks[5];
            rig_begin("redis://e:1");
            rig_start();
            for (unsigned n = 0; n < 3; n++)
                rig_acquire(&asks[n], (enum node_wait)n, n % 2 ? "l" : "s");
            play(bad, wrong[i], 14);
            rig_submit(&asks[3], NODE_GET, NODE_WAIT_NO, bytes_of("l"), 0, 0);
            play(bad < 14 ? 99 : bad - 14, wrong[i], 3);
            rig_submit(&asks[4], NODE_HOLDERS, NODE_WAIT_NO, bytes_of("l"), 0, 0);
            play(bad < 17 ? 99 : bad - 17, wrong[i], 3);
            rig_later(FIFTH);
            play(bad < 20 ? 99 : bad - 20, wrong[i], 4);
            if (r.closings) {
                node_strict_closed(r.node, r.now);
                r.closings = 0;
            }
            /* Once the engine answers as it should, the node is live again. */
            for (unsigned n = 0; n < 40 && rig_seen().state != NODE_LIVE; n++) {
                rig_later(300 * MS);
                play(999, "", 99);
                if (r.closings) {
                    node_strict_closed(r.node, r.now);
                    r.closings = 0;
                }
            }
            ck_assert_msg(rig_seen().state == NODE_LIVE, "%s instead of answer %u", wrong[i], bad);
            rig_later(100 * MS);
            play(999, "", 99);
            for (unsigned n = 0; n < 3; n++)
                if (!asks[n].answered)
                    rig_cancel(&asks[n]);
            play(999, "", 99);
            ck_assert_uint_eq(r.node->names_count, 0);
            ck_assert_uint_eq(r.node->calls_used, 0);
            ck_assert_uint_eq(rig_seen().asks, 0);
            for (unsigned n = 3; n < 5; n++)
                free(asks[n].ask.shares);
            rig_end();
        }
}

TEST(an_odd_answer_keeps_no_name)
{
    static const char *const odd[] = {"*1\r\n*0\r\n", "*1\r\n:3\r\n", "*1\r\n$-1\r\n",
                                      "*2\r\n:1\r\n:1\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
        struct rig_ask a;
        rig_begin("redis://e:1");
        rig_live(false);
        rig_release(&a, "l");
        rig_script("give");
        rig_answers("*1\r\n:2\r\n");
        rig_script("give");
        rig_answers("%s", odd[i]);
        ck_assert(!r.asked[NODE_COMMANDS]);
        ck_assert_uint_eq(r.node->names_count, 0);
        rig_end();
    }
}

/* What a stranger wrote into the engine goes to the log as visible characters, on one line. */
TEST(the_log_has_lines_of_visible_characters)
{
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    rig_script("open");
    rig_answers("*5\r\n$4\r\nNODE\r\n$16\r\n00000000000000aa\r\n$14\r\nboot\n\x1b[2Jfaked\r\n:"
                "1\r\n:4000\r\n");
    ck_assert_ptr_nonnull(strstr(r.log, "boot"));
    ck_assert_ptr_null(strchr(r.log, '\x1b'));
    ck_assert_ptr_null(strstr(r.log, "boot\n"));
    rig_end();
}

static const struct unit_test tests[] = {
    UNIT(numbers_at_their_limits),
    UNIT(seqs_that_scripts_can_not_count),
    UNIT(units_in_messages),
    UNIT(names_of_any_bytes),
    UNIT(calls_are_bounded_in_ops_and_bytes),
    UNIT(replies_that_never_end),
    UNIT(an_odd_answer_keeps_no_name),
    UNIT(units_that_nobody_waits_for_are_bounded),
    UNIT(beats_that_list_ever_more_are_bounded),
    UNIT(sessions_in_the_way_are_bounded),
    UNIT(wrong_answers_to_each_command),
    UNIT(the_log_has_lines_of_visible_characters),
};

UNIT_MAIN("node bytes", tests)
