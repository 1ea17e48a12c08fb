/*
 * node_rig.h - a node, its owner, and an engine whose words the test itself writes. Nothing comes
 * by itself: neither bytes nor time. hiredis parses what the node sends. Two modes are the rig's:
 * bytes come one by one; the answer number `wrong_at` is another one, and the test goes on in
 * `stop`.
 */
#ifndef NODE_RIG_H
#define NODE_RIG_H

#include "base/record.h"
#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/scripts.h"
#include "cluster/url.h"
#include "t/campaigns/cluster/engine.h"
#include "t/unit/unit.h"

#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MS     INT64_C(1000000)
#define LEASE  (10000 * MS)
#define FIFTH  (LEASE / 5)
#define TERM   "aa:bb"
#define REAPED "*3\r\n:0\r\n$1\r\n0\r\n*0\r\n"

struct rig_ask {
    struct node_request ask;
    bool answered, queued;
};

static struct rig {
    struct node *node;
    struct url url;
    struct patterns *patterns;
    int64_t now, lease_end;
    bool asked[NODE_WIRES], open[NODE_WIRES];
    redisReader *sent[NODE_WIRES];
    redisReply *taken[NODE_WIRES];
    unsigned reports, reported, alone, closings; /* reported: those that the engine in memory saw */
    uint32_t report;
    bool gone;
    char is_gone_asked[200];
    char session[17];
    char *look; /* the answer of each `look`; NULL: nothing is there */
    char info[512], log[16384];
    uint64_t random, next_id;
    bool splits;
    unsigned answers, wrong_at;
    const char *wrong;
    struct fake_link *links[NODE_WIRES]; /* to the engine in memory, after a wrong answer */
} r;
static jmp_buf rig_stop;
static char rig_where[200];

/* Fails the test, and says where its story is. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void rig_fail(const char *format, ...)
{
    char text[1000];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    ck_abort_msg("%s: %s", rig_where, text);
}

#define RIG_WANT(condition, ...) ((condition) ? (void)0 : rig_fail(__VA_ARGS__))

/* ---- the owner ------------------------------------------------------------------------------- */

static void rig_open(void *arg, unsigned wire, const struct url_host *engine, int64_t limit)
{
    (void)arg, (void)engine;
    RIG_WANT(!r.asked[wire] && limit == FIFTH, "wire %u is opened twice, or not for long", wire);
    r.asked[wire] = true;
}

static void rig_send(void *arg, unsigned wire, const void *data, size_t len)
{
    (void)arg;
    RIG_WANT(r.open[wire], "bytes for wire %u, which is not open", wire);
    if (r.links[wire])
        fake_engine_feed(r.links[wire], data, len);
    else
        RIG_WANT(redisReaderFeed(r.sent[wire], data, len) == REDIS_OK, "bytes that are no RESP");
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
    if (r.links[wire])
        fake_engine_hang_up(r.links[wire]);
    r.links[wire] = NULL;
}

static void rig_close(void *arg, unsigned wire)
{
    (void)arg;
    RIG_WANT(r.asked[wire], "wire %u is closed twice", wire);
    rig_forget(wire);
}

static void rig_queued(void *arg, struct node_request *ask)
{
    struct rig_ask *a = container_of(ask, struct rig_ask, ask);
    (void)arg;
    RIG_WANT(!a->queued && !a->answered, "queued twice, or after the answer");
    a->queued = true;
}

static void rig_answer(void *arg, struct node_request *ask)
{
    struct rig_ask *a = container_of(ask, struct rig_ask, ask);
    (void)arg;
    RIG_WANT(!a->answered, "answered twice");
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
    snprintf(r.info, sizeof(r.info), "%s",
             "redis_version:7.0.0\r\nloading:0\r\nrole:master\r\ncluster_enabled:0\r\n"
             "maxmemory_policy:noeviction\r\n");
    r.now = 1000000 * MS;
    r.random = r.next_id = 1;
    ck_assert(url_parse(url, &r.url, reason));
    r.patterns = patterns_new("s*", "l*", NULL, reason);
    ck_assert_ptr_nonnull(r.patterns);
    r.node = rig_node();
}

static inline void rig_end(void)
{
    node_pause(r.node, r.now);
    while (node_forget_request(r.node))
        continue;
    node_free(&r.node);
    for (unsigned i = 0; i < NODE_WIRES; i++)
        rig_forget(i);
    patterns_free(&r.patterns);
}

/* ---- the engine ------------------------------------------------------------------------------ */

/* Bytes arrive, as the mode says. */
static inline void rig_arrives(unsigned wire, const char *bytes, size_t len)
{
    bool stops = ++r.answers == r.wrong_at;
    if (stops) {
        bytes = r.wrong;
        len = strlen(bytes);
    }
    for (size_t at = 0, step = r.splits ? 1 : len; at < len && r.open[wire]; at += step)
        node_received(r.node, wire, bytes + at, step, r.now);
    node_flush(r.node, r.now);
    if (stops)
        longjmp(rig_stop, 1);
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
            rig_arrives(wire, r.look ? r.look : "*0\r\n", r.look ? strlen(r.look) : 4);
        if (!r.open[wire])
            return NULL;
        RIG_WANT(redisReaderGetReply(r.sent[wire], &reply) == REDIS_OK, "no RESP is sent");
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
    RIG_WANT(command != NULL, "no command; %s is awaited", word);
    RIG_WANT(strcmp(rig_word(command, 0), word) == 0, "%s, not %s", rig_word(command, 0), word);
    return command;
}

/* A script is of the present session. */
static inline void rig_check_script(const redisReply *command)
{
    RIG_WANT(strcmp(rig_word(command, 2), "1") == 0 && strcmp(rig_word(command, 3), "{p}:") == 0 &&
                 strcmp(rig_word(command, 4), r.session) == 0,
             "%s of session %s", rig_word(command, 1), rig_word(command, 4));
}

/* The next command is this script, of the present session. Its arguments begin at 5. */
static inline const redisReply *rig_script(const char *name)
{
    const redisReply *command = rig_want(NODE_COMMANDS, "EVALSHA");
    RIG_WANT(strcmp(rig_word(command, 1), name) == 0, "%s, not %s", rig_word(command, 1), name);
    rig_check_script(command);
    return command;
}

static inline void rig_quiet(unsigned wire)
{
    const redisReply *command = rig_take(wire);
    RIG_WANT(!command, "a command: %s %s", rig_word(command, 0), rig_word(command, 1));
}

__attribute__((format(printf, 2, 3))) static inline void rig_say(unsigned wire, const char *format,
                                                                 ...)
{
    char text[32768];
    va_list values;
    va_start(values, format);
    int len = vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    RIG_WANT(len < (int)sizeof(text) && r.open[wire], "wire %u is not open", wire);
    rig_arrives(wire, text, (size_t)len);
}

#define rig_answers(...) rig_say(NODE_COMMANDS, __VA_ARGS__)

/* A message to the session. */
static inline void rig_message(struct bytes payload)
{
    static char text[70000];
    int len = snprintf(text, sizeof(text), "*3\r\n$7\r\nmessage\r\n$23\r\n{p}:to:%s\r\n$%zu\r\n",
                       r.session, payload.len);
    RIG_WANT(payload.len + 100 < sizeof(text) && r.open[NODE_MESSAGES], "no message can come");
    memcpy(text + len, payload.data, payload.len);
    memcpy(text + len + payload.len, "\r\n", 2);
    rig_arrives(NODE_MESSAGES, text, (size_t)len + payload.len + 2);
}

static inline void rig_opens(unsigned wire)
{
    RIG_WANT(r.asked[wire] && !r.open[wire], "wire %u is not to be opened", wire);
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

/* ---- ways that tests go often ---------------------------------------------------------------- */

/* Until the subscription is confirmed. Behind INFO come questions for settings, which this user may
 * not read. */
static inline void rig_connect(void)
{
    rig_opens(NODE_COMMANDS);
    rig_opens(NODE_MESSAGES);
    rig_want(NODE_COMMANDS, "INFO");
    rig_answers("$%zu\r\n%s\r\n", strlen(r.info), r.info);
    for (unsigned i = 0; i < 2; i++) {
        rig_want(NODE_COMMANDS, "CONFIG");
        rig_answers("-NOPERM no\r\n");
    }
    for (unsigned i = 0; i < CLUSTER_SCRIPT_COUNT; i++) {
        rig_want(NODE_COMMANDS, "SCRIPT");
        rig_answers("$%zu\r\n%s\r\n", strlen(cluster_scripts[i].name), cluster_scripts[i].name);
    }
    const redisReply *command = rig_want(NODE_MESSAGES, "SUBSCRIBE");
    RIG_WANT(strncmp(rig_word(command, 1), "{p}:to:", 7) == 0, "a subscription of something else");
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

static inline struct node_stats rig_seen(void)
{
    struct node_stats seen;
    node_look(r.node, &seen);
    return seen;
}

/* `ready` and what follows; nothing is to reap. */
static inline void rig_readies(void)
{
    rig_script("ready");
    rig_answers("*0\r\n");
    RIG_WANT(rig_seen().state == NODE_LIVE, "the session is not live");
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

/* The engine closes a wire. */
static inline void rig_cut(unsigned wire, const char *why)
{
    rig_forget(wire);
    node_closed(r.node, wire, why, r.now);
    node_flush(r.node, r.now);
}

#endif
