/*
 * node_rig.h - a node, its owner, and an engine whose words the test itself writes. Nothing comes
 * by itself: neither bytes nor time. hiredis parses what the node sends.
 */
#ifndef NODE_RIG_H
#define NODE_RIG_H

#include "base/record.h"
#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/scripts.h"
#include "cluster/url.h"
#include "t/unit/unit.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MS        INT64_C(1000000)
#define LEASE     (10000 * MS)
#define FIFTH     (LEASE / 5)
#define TENTHS(n) (LEASE / 10 * (n))
#define TERM      "aa:bb"
#define REAPED    "*3\r\n:0\r\n$1\r\n0\r\n*0\r\n"

struct rig_ask {
    struct node_ask ask;
    bool answered, queued;
};

static struct rig {
    struct node *node;
    struct url url;
    struct patterns *patterns;
    int64_t now, lease_end;
    bool asked[NODE_WIRES], open[NODE_WIRES];
    unsigned opened[NODE_WIRES]; /* how often the node wanted it */
    redisReader *sent[NODE_WIRES];
    redisReply *taken[NODE_WIRES];
    unsigned reports, reported, alone, closings; /* reported: those that a test has counted */
    uint32_t report;
    bool gone;
    char is_gone_asked[200];
    char session[17];
    const char *look; /* the answer of each `look`; NULL: nothing is there */
    char log[16384];
    uint64_t random, next_id;
} r;

/* ---- the owner ------------------------------------------------------------------------------- */

static void rig_open(void *arg, unsigned wire, const char *host, uint16_t port, int64_t limit)
{
    (void)arg, (void)host, (void)port;
    ck_assert(!r.asked[wire]);
    ck_assert_int_eq(limit, FIFTH);
    r.asked[wire] = true;
    r.opened[wire]++;
}

static void rig_send(void *arg, unsigned wire, const void *data, size_t len)
{
    (void)arg;
    ck_assert(r.open[wire]);
    ck_assert_int_eq(redisReaderFeed(r.sent[wire], data, len), REDIS_OK);
}

static void rig_forget(unsigned wire)
{
    r.asked[wire] = r.open[wire] = false;
    if (r.taken[wire])
        freeReplyObject(r.taken[wire]);
    r.taken[wire] = NULL;
    if (r.sent[wire])
        redisReaderFree(r.sent[wire]);
    r.sent[wire] = NULL;
}

static void rig_close(void *arg, unsigned wire)
{
    (void)arg;
    ck_assert(r.asked[wire]);
    rig_forget(wire);
}

static void rig_queued(void *arg, struct node_ask *ask)
{
    struct rig_ask *a = container_of(ask, struct rig_ask, ask);
    (void)arg;
    ck_assert(!a->queued && !a->answered);
    a->queued = true;
}

static void rig_answer(void *arg, struct node_ask *ask)
{
    struct rig_ask *a = container_of(ask, struct rig_ask, ask);
    (void)arg;
    ck_assert(!a->answered);
    a->answered = true;
}

static void rig_report(void *arg, const struct patterns *patterns, uint32_t number)
{
    (void)arg, (void)patterns;
    r.reports++;
    r.report = number;
}

static void rig_alone(void *arg)
{
    (void)arg;
    r.alone++;
}

static void rig_close_strict(void *arg)
{
    (void)arg;
    r.closings++;
}

static void rig_lease(void *arg, int64_t end)
{
    (void)arg;
    r.lease_end = end;
}

static bool rig_is_gone(void *arg, const char *where)
{
    (void)arg;
    snprintf(r.is_gone_asked, sizeof(r.is_gone_asked), "%s", where);
    return r.gone;
}

static uint64_t rig_random(void *arg)
{
    (void)arg;
    return r.random += UINT64_C(0x9e3779b97f4a7c15);
}

static void rig_log(void *arg, enum node_level level, const char *text)
{
    size_t len = strlen(r.log);
    (void)arg, (void)level;
    snprintf(r.log + len, sizeof(r.log) - len, "%s\n", text);
}

static struct node *rig_node(void)
{
    static const struct node_does does = {rig_open,   rig_send,    rig_close,  rig_queued,
                                          rig_answer, rig_report,  rig_alone,  rig_close_strict,
                                          rig_lease,  rig_is_gone, rig_random, rig_log};
    struct node_config config = {.url = &r.url,
                                 .user = "",
                                 .password = "",
                                 .node = "n1",
                                 .where = "boot/1/2/3",
                                 .prefix = "p",
                                 .version = "1",
                                 .patterns = r.patterns,
                                 .lease_ns = LEASE,
                                 .patience_ns = 1000 * MS};
    struct node *node = node_new(&config, &does, NULL);
    ck_assert_ptr_nonnull(node);
    return node;
}

static inline void rig_begin(const char *url)
{
    char reason[URL_REASON_SIZE];
    memset(&r, 0, sizeof(r));
    r.now = 1000000 * MS;
    r.random = r.next_id = 1;
    ck_assert(url_parse(url, &r.url, reason));
    r.patterns = patterns_new("s*", "l*", NULL, reason);
    ck_assert_ptr_nonnull(r.patterns);
    r.node = rig_node();
}

static inline void rig_end(void)
{
    node_park(r.node, r.now);
    while (node_forget_ask(r.node))
        continue;
    node_free(&r.node);
    for (unsigned i = 0; i < NODE_WIRES; i++)
        rig_forget(i);
    patterns_free(&r.patterns);
}

/* ---- the engine ------------------------------------------------------------------------------ */

static inline void rig_answers_text(const char *text)
{
    node_received(r.node, NODE_COMMANDS, text, strlen(text), r.now);
    node_flush(r.node, r.now);
}

static inline bool rig_is_look(const redisReply *command)
{
    return command && command->elements > 1 && strcmp(command->element[1]->str, "look") == 0;
}

/* The next command of a wire; NULL: there is none. It stays until the next one is taken. A `look`
 * is answered when it is taken. */
static inline const redisReply *rig_take(unsigned wire)
{
    void *reply = NULL;
    do {
        if (rig_is_look(reply))
            rig_answers_text(r.look ? r.look : "*0\r\n");
        if (!r.open[wire])
            return NULL;
        ck_assert_int_eq(redisReaderGetReply(r.sent[wire], &reply), REDIS_OK);
        if (r.taken[wire])
            freeReplyObject(r.taken[wire]);
        r.taken[wire] = reply;
    } while (rig_is_look(reply));
    return reply;
}

static inline const char *rig_word(const redisReply *command, size_t i)
{
    return i < command->elements ? command->element[i]->str : "";
}

/* The next command, which has this first word. */
static inline const redisReply *rig_want(unsigned wire, const char *word)
{
    const redisReply *command = rig_take(wire);
    ck_assert_msg(command != NULL, "no command; %s is awaited", word);
    ck_assert_str_eq(rig_word(command, 0), word);
    return command;
}

/* The next command is this script, of the present session. Its arguments begin at 5. */
static inline const redisReply *rig_script(const char *name)
{
    const redisReply *command = rig_want(NODE_COMMANDS, "EVALSHA");
    ck_assert_str_eq(rig_word(command, 1), name);
    ck_assert_str_eq(rig_word(command, 2), "1");
    ck_assert_str_eq(rig_word(command, 3), "{p}:");
    ck_assert_str_eq(rig_word(command, 4), r.session);
    return command;
}

static inline void rig_quiet(unsigned wire)
{
    const redisReply *command = rig_take(wire);
    ck_assert_msg(!command, "a command: %s %s", command ? rig_word(command, 0) : "",
                  command ? rig_word(command, 1) : "");
}

__attribute__((format(printf, 2, 3))) static inline void rig_say(unsigned wire, const char *format,
                                                                 ...)
{
    char text[32768];
    va_list values;
    va_start(values, format);
    int len = vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    ck_assert_int_lt(len, (int)sizeof(text));
    ck_assert(r.open[wire]);
    node_received(r.node, wire, text, (size_t)len, r.now);
    node_flush(r.node, r.now);
}

#define rig_answers(...) rig_say(NODE_COMMANDS, __VA_ARGS__)

/* A message to the session, of any bytes. */
static inline void rig_message_bytes(struct bytes payload)
{
    char head[128];
    int len = snprintf(head, sizeof(head), "*3\r\n$7\r\nmessage\r\n$23\r\n{p}:to:%s\r\n$%zu\r\n",
                       r.session, payload.len);
    node_received(r.node, NODE_MESSAGES, head, (size_t)len, r.now);
    node_received(r.node, NODE_MESSAGES, payload.data, payload.len, r.now);
    node_received(r.node, NODE_MESSAGES, "\r\n", 2, r.now);
    node_flush(r.node, r.now);
}

static inline void rig_message(const char *text)
{
    rig_message_bytes(bytes_of(text));
}

static inline void rig_opens(unsigned wire)
{
    ck_assert(r.asked[wire] && !r.open[wire]);
    r.open[wire] = true;
    r.sent[wire] = redisReaderCreate();
    node_opened(r.node, wire, r.now);
    node_flush(r.node, r.now);
}

/* ---- time ------------------------------------------------------------------------------------ */

static inline void rig_at(int64_t now)
{
    r.now = now;
    node_tick(r.node, r.now);
    node_flush(r.node, r.now);
}

static inline void rig_later(int64_t ns)
{
    rig_at(r.now + ns);
}

/* ---- ways that tests go often ---------------------------------------------------------------- */

#define RIG_INFO                                                                                   \
    "redis_version:7.0.0\r\nloading:0\r\nrole:master\r\ncluster_enabled:0\r\n"                     \
    "maxmemory_policy:noeviction\r\n"

/* Behind INFO come questions for settings, which this user may not read. */
static inline void rig_answers_settings(void)
{
    for (unsigned i = 0; i < 2; i++) {
        rig_want(NODE_COMMANDS, "CONFIG");
        rig_answers("-NOPERM no\r\n");
    }
}

/* Until the subscription is confirmed. */
static inline void rig_connect(void)
{
    rig_opens(NODE_COMMANDS);
    rig_opens(NODE_MESSAGES);
    rig_want(NODE_COMMANDS, "INFO");
    rig_answers("$%zu\r\n%s\r\n", strlen(RIG_INFO), RIG_INFO);
    rig_answers_settings();
    for (unsigned i = 0; i < CLUSTER_SCRIPT_COUNT; i++) {
        rig_want(NODE_COMMANDS, "SCRIPT");
        rig_answers("$%zu\r\n%s\r\n", strlen(cluster_scripts[i].name), cluster_scripts[i].name);
    }
    const redisReply *command = rig_want(NODE_MESSAGES, "SUBSCRIBE");
    ck_assert_int_eq(strncmp(rig_word(command, 1), "{p}:to:", 7), 0);
    snprintf(r.session, sizeof(r.session), "%s", rig_word(command, 1) + 7);
    rig_quiet(NODE_COMMANDS);
    rig_say(NODE_MESSAGES, "*3\r\n$9\r\nsubscribe\r\n$23\r\n{p}:to:%s\r\n:1\r\n", r.session);
}

static inline void rig_start(void)
{
    node_start(r.node, r.now);
    rig_at(r.now);
}

static inline void rig_accepts(bool grace)
{
    rig_script("open");
    rig_answers("*3\r\n$4\r\nOPEN\r\n$5\r\n" TERM "\r\n:%d\r\n", grace);
}

/* The report, and where patience was over the second one, when nothing is held. */
static inline void rig_reported(void)
{
    bool another = r.report == 0;
    node_reported(r.node, r.now);
    if (another)
        node_reported(r.node, r.now);
}

/* `ready` and what follows; nothing is to reap. */
static inline void rig_readies(void)
{
    rig_script("ready");
    rig_answers("*0\r\n");
    struct node_seen seen;
    node_look(r.node, &seen);
    ck_assert_int_eq(seen.state, NODE_LIVE);
}

/* A live session without anything. */
static inline void rig_live(bool grace)
{
    rig_start();
    rig_connect();
    rig_accepts(grace);
    node_reported(r.node, r.now);
    rig_readies();
    rig_at(r.now);
    rig_quiet(NODE_COMMANDS);
}

/* Answers a beat: this session's beat, and those of others as "X b X b". */
static inline void rig_beats(unsigned beat, bool grace, const char *others, unsigned count)
{
    rig_script("beat");
    char text[64];
    rig_answers("*3\r\n:%d\r\n*0\r\n*%u\r\n$16\r\n%s\r\n:%u\r\n%s", grace, 2 + 2 * count, r.session,
                beat, others);
    snprintf(text, sizeof(text), "B %u", beat);
    if (r.open[NODE_MESSAGES])
        rig_message(text);
}

static inline struct node_seen rig_seen(void)
{
    struct node_seen seen;
    node_look(r.node, &seen);
    return seen;
}

static inline void rig_submit(struct rig_ask *a, enum node_op op, enum node_wait wait,
                              struct bytes name, uint32_t units, uint32_t limit)
{
    *a = (struct rig_ask){.ask = {.op = op,
                                  .wait = wait,
                                  .units = units,
                                  .limit = limit,
                                  .report = r.report,
                                  .id = r.next_id++,
                                  .name = name}};
    node_submit(r.node, &a->ask, r.now);
    node_flush(r.node, r.now);
}

static inline void rig_acquire(struct rig_ask *a, enum node_wait wait, const char *name)
{
    rig_submit(a, NODE_ACQUIRE, wait, bytes_of(name), 1, 1);
}

static inline void rig_release(struct rig_ask *a, const char *name)
{
    rig_submit(a, NODE_RELEASE, NODE_WAIT_NO, bytes_of(name), 1, 0);
}

static inline void rig_cancel(const struct rig_ask *a)
{
    node_cancel(r.node, a->ask.id, r.now);
    node_flush(r.node, r.now);
}

/* An acquisition that waits in the engine with this seq. */
static inline void rig_waits(struct rig_ask *a, enum node_wait wait, const char *name, unsigned seq)
{
    rig_acquire(a, wait, name);
    rig_script("call");
    rig_answers("*1\r\n:%u\r\n", seq);
    ck_assert(a->queued && !a->answered);
    ck_assert_uint_eq(a->ask.seq, seq);
}

static inline bool rig_has(const struct rig_ask *a, enum node_result result)
{
    return a->answered && a->ask.result == result;
}

/* The message that grants a wait. */
static inline void rig_grants(const struct rig_ask *a)
{
    static char text[70000];
    int len =
        snprintf(text, sizeof(text), "G %llu %u ", (unsigned long long)a->ask.id, a->ask.units);
    memcpy(text + len, a->ask.name.data, a->ask.name.len);
    rig_message_bytes(bytes_at(text, (size_t)len + a->ask.name.len));
}

/* The engine closes a wire. */
static inline void rig_cut(unsigned wire)
{
    rig_forget(wire);
    node_closed(r.node, wire, "a test", r.now);
    node_flush(r.node, r.now);
}

/* Parks the node, makes a successor and gives it what was saved. Asks are the test's. */
static inline void rig_succeed(void)
{
    static struct record_writer writer;
    struct record_reader reader;
    node_park(r.node, r.now);
    while (node_forget_ask(r.node))
        continue;
    int fd = memfd_create("upgrade", MFD_CLOEXEC);
    record_writer_init(&writer, fd);
    record_put_head(&writer);
    node_save(r.node, &writer);
    ck_assert(record_finish(&writer) && record_map(&reader, fd));
    node_free(&r.node);
    r.lease_end = 0;
    r.node = rig_node();
    record_get_head(&reader);
    ck_assert(node_restore(r.node, &reader));
    record_unmap(&reader);
    close(fd);
}

#endif
