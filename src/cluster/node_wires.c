/*
 * node_wires.c - bytes to and from the engine and the Sentinels. Commands are formatted by hiredis
 * and sent; what comes is parsed by hiredis and handed to the function that awaits it.
 *
 * Replies on the wire for commands come in the order of the commands: `pending` has what they
 * belong to. Nothing that the engine sends is trusted: a reply of the wrong shape, or one that is
 * too large, closes the wires and begins again.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- commands -------------------------------------------------------------------------------- */

struct command *node_command(struct node *node, const char *word, ...)
{
    struct command *c = &node->command;
    va_list more;
    c->count = 0;
    c->bytes = 0;
    c->numbers_used = 0;
    va_start(more, word);
    for (; word; word = va_arg(more, const char *))
        command_str(c, word);
    va_end(more);
    return c;
}

void command_add(struct command *c, const void *bytes, size_t len)
{
    CHECK((size_t)c->count < ARRAY_SIZE(c->args));
    c->args[c->count] = bytes;
    c->lens[c->count++] = len;
    c->bytes += len + 16;
}

void command_str(struct command *c, const char *text)
{
    command_add(c, text, strlen(text));
}

char *command_room(struct command *c)
{
    CHECK(c->numbers_used < ARRAY_SIZE(c->numbers));
    return c->numbers[c->numbers_used++];
}

void command_number(struct command *c, uint64_t number)
{
    char *to = command_room(c);
    int len = snprintf(to, sizeof(c->numbers[0]), "%llu", (unsigned long long)number);
    command_add(c, to, (size_t)len);
}

struct command *node_script(struct node *node, enum cluster_script script)
{
    return node_command(node, "EVALSHA", node->shas[script], "1", node->key,
                        script == CLUSTER_SCRIPT_LOOK ? NULL : node->session, NULL);
}

bool node_send_on(struct node *node, unsigned wire)
{
    struct command *c = &node->command;
    char *bytes = NULL;
    int len = redisFormatCommandArgv(&bytes, c->count, c->args, c->lens);
    if (len < 0)
        return wire < NODE_SENTINEL &&
               node_lose(node, NODE_LOSS_ERROR, "this process has no memory for a command");
    node->does.send(node->arg, wire, bytes, (size_t)len);
    redisFreeCommand(bytes);
    return true;
}

bool node_send(struct node *node, enum pending_kind kind, unsigned detail)
{
    CHECK(node->pending_count < NODE_PENDING_MAX);
    if (!node_send_on(node, NODE_COMMANDS))
        return false;
    unsigned at = (node->pending_first + node->pending_count++) % NODE_PENDING_MAX;
    node->pending[at] = (struct pending){.kind = kind, .detail = detail, .sent_ns = node->now_ns};
    return true;
}

/* ---- wires ----------------------------------------------------------------------------------- */

void node_wire_open(struct node *node, unsigned wire)
{
    struct node_wire_state *w = &node->wires[wire];
    w->asked = true;
    w->open = false;
    bool is_named = wire < NODE_SENTINEL && node_is_sentinel(node);
    node->does.open(node->arg, wire, is_named ? &node->engine : NULL, node_answer_limit(node));
}

static void wire_forget(struct node_wire_state *w)
{
    w->asked = w->open = false;
    if (w->reader)
        redisReaderFree(w->reader);
    w->reader = NULL;
}

void node_wire_close(struct node *node, unsigned wire)
{
    if (node->wires[wire].asked)
        node->does.close(node->arg, wire);
    wire_forget(&node->wires[wire]);
}

void node_engine_close(struct node *node)
{
    node_wire_close(node, NODE_COMMANDS);
    node_wire_close(node, NODE_MESSAGES);
    node->pending_count = 0;
    node->auth_awaited = false;
    node->connection++;
    node_calls_lost(node);
}

/* hiredis would make arrays of any announced length at once, and of any depth, which it frees by
 * recursion; ours have bounds. */
static redisReplyObjectFunctions bounded;
#if HIREDIS_MAJOR >= 1
typedef size_t array_length;
#else
typedef int array_length;
#endif
static void *(*make_array)(const redisReadTask *, array_length);

static void *bounded_array(const redisReadTask *task, array_length elements)
{
    struct node_wire_state *w = task->privdata;
    unsigned depth = 1;
    for (const redisReadTask *t = task->parent; t && depth <= NODE_DEPTH_MAX; t = t->parent)
        depth++;
    if (depth > NODE_DEPTH_MAX || (int64_t)elements < 0 ||
        (uint64_t)elements > NODE_ELEMENTS_MAX - w->elements)
        return NULL;
    w->elements += (size_t)elements;
    return make_array(task, elements);
}

static redisReader *make_reader(struct node_wire_state *w)
{
    redisReader *reader = redisReaderCreate();
    if (!reader)
        return NULL;
    if (!make_array) {
        bounded = *reader->fn;
        make_array = bounded.createArray;
        bounded.createArray = bounded_array;
    }
    reader->fn = &bounded;
    reader->privdata = w;
    w->bytes = w->elements = 0;
    return reader;
}

/* A wire is of no use: begins again, or, of a Sentinel, closes it. */
static void wire_failed(struct node *node, unsigned wire, const char *why)
{
    if (wire < NODE_SENTINEL)
        node_lose(node, NODE_LOSS_ERROR, why);
    else {
        node_wire_close(node, wire);
        node_sentinel_closed(node, wire, why);
    }
}

void node_opened(struct node *node, unsigned wire, int64_t now_ns)
{
    node_enter(node, now_ns);
    struct node_wire_state *w = &node->wires[wire];
    if (!w->asked || w->open)
        return;
    w->reader = make_reader(w);
    if (!w->reader) {
        wire_failed(node, wire, "this process has no memory");
        return;
    }
    w->open = true;
    if (wire >= NODE_SENTINEL)
        node_sentinel_opened(node, wire);
    else
        node_connected(node);
}

void node_closed(struct node *node, unsigned wire, const char *reason, int64_t now_ns)
{
    bool was_asked = node->wires[wire].asked;
    wire_forget(&node->wires[wire]);
    node_enter(node, now_ns);
    if (!was_asked)
        return;
    if (wire >= NODE_SENTINEL)
        node_sentinel_closed(node, wire, reason);
    else
        node_lose(node, NODE_LOSS_CLOSED, reason);
}

/* ---- replies --------------------------------------------------------------------------------- */

bool reply_number(const redisReply *reply, int64_t *number_r)
{
    *number_r = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    return reply->type == REDIS_REPLY_INTEGER;
}

bool reply_text(const redisReply *reply, struct bytes *text_r)
{
    if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS)
        return false;
    *text_r = bytes_at(reply->str, reply->len);
    return true;
}

void bytes_visible(struct bytes text, char *to, size_t size)
{
    size_t len = 0;
    for (; len + 1 < size && len < text.len; len++) {
        uint8_t byte = text.data[len];
        to[len] = (char)(byte >= ' ' && byte <= '~' ? byte : '?');
    }
    to[len] = '\0';
}

bool reply_decimal(const redisReply *reply, uint64_t *number_r)
{
    struct bytes text;
    if (reply->type == REDIS_REPLY_INTEGER) {
        *number_r = (uint64_t)reply->integer;
        return reply->integer >= 0;
    }
    return reply_text(reply, &text) && number_parse(text, UINT64_MAX, number_r);
}

bool reply_copy(const redisReply *reply, char *to, size_t size)
{
    struct bytes text;
    if (!reply_text(reply, &text) || text.len >= size)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    memcpy(to, text.data, text.len);
    to[text.len] = '\0';
    return true;
}

bool reply_beat(redisReply *const at[2], char session_r[NODE_SESSION_SIZE], uint64_t *beat_r)
{
    return reply_copy(at[0], session_r, NODE_SESSION_SIZE) && reply_decimal(at[1], beat_r);
}

bool reply_error_is(const redisReply *reply, const char *word)
{
    size_t len = strlen(word);
    return reply->type == REDIS_REPLY_ERROR && reply->len >= len &&
           memcmp(reply->str, word, len) == 0 && (reply->len == len || reply->str[len] == ' ');
}

bool node_odd(struct node *node, const char *what)
{
    char why[160];
    snprintf(why, sizeof(why), "%s: an answer that makes no sense", what);
    return node_lose(node, NODE_LOSS_ERROR, why);
}

void reply_error_text(const redisReply *reply, char *to, size_t size)
{
    const char *end = memchr(reply->str, '\n', reply->len);
    bytes_visible(bytes_at(reply->str, end ? (size_t)(end - reply->str) : reply->len), to, size);
}

bool node_error_reply(struct node *node, const redisReply *reply)
{
    char text[200];
    const char *advice = node->phase < PHASE_REPORTING ? node_error_advice(reply) : NULL;
    reply_error_text(reply, text, sizeof(text));
    if (advice)
        return node_refuse(node, "%s (%.120s)", advice, text);
    if (reply_error_is(reply, "POLICY"))
        return node_refuse_policy(node, strlen(text) > 7 ? text + 7 : "?");
    enum node_loss loss = reply_error_is(reply, "SESSION") ? NODE_LOSS_SESSION
                          : reply_error_is(reply, "TERM")  ? NODE_LOSS_TERM
                          : reply_error_is(reply, "DEAF")  ? NODE_LOSS_DEAF
                                                           : NODE_LOSS_ERROR;
    return node_lose(node, loss, text);
}

/* What takes the reply of a command. */
static const struct {
    reply_fn *handle;
    const char *command; /* for people */
    bool takes_errors;   /* else they never come */
} replies[PENDING_KINDS] = {
    [PENDING_AUTH] = {node_on_auth, "AUTH", true},
    [PENDING_SELECT] = {node_on_select, "SELECT", false},
    [PENDING_INFO] = {node_on_info, "INFO", false},
    [PENDING_CONFIG] = {node_on_config, "CONFIG GET", true},
    [PENDING_LOAD] = {node_on_load, "SCRIPT LOAD", false},
    [PENDING_OPEN] = {node_on_open, "open", false},
    [PENDING_ASSERT] = {node_on_assert, "give", false},
    [PENDING_READY] = {node_on_ready, "ready", false},
    [PENDING_BEAT] = {node_on_beat, "beat", false},
    [PENDING_REAP] = {node_on_reap, "reap", false},
    [PENDING_GRACE] = {node_on_grace, "grace", false},
    [PENDING_LEAVE] = {node_on_leave, "leave", true},
    [PENDING_LOOK] = {node_on_look, "look", false},
    [PENDING_CALL] = {node_on_call, "call", true},
};

static void on_command_reply(struct node *node, const redisReply *reply)
{
    bool is_error = reply->type == REDIS_REPLY_ERROR;
    if (!node->pending_count) {
        if (is_error)
            node_error_reply(node, reply);
        else
            node_odd(node, "an answer to no command");
        return;
    }
    node->answered = node->pending[node->pending_first];
    node->pending_first = (node->pending_first + 1) % NODE_PENDING_MAX;
    node->pending_count--;
    node->answered_ns = node->now_ns;
    enum pending_kind kind = node->answered.kind;
    if (is_error && !replies[kind].takes_errors)
        node_error_reply(node, reply);
    else if (!replies[kind].handle(node, reply))
        node_odd(node, replies[kind].command);
}

static void on_wire_reply(struct node *node, unsigned wire, const redisReply *reply)
{
    if (wire == NODE_COMMANDS)
        on_command_reply(node, reply);
    else if (wire >= NODE_SENTINEL)
        node_on_sentinel(node, wire, reply);
    else if (!node_on_message(node, reply))
        node_odd(node, "a message");
}

/* The bytes make no sense, or are too many. */
static void bad_bytes(struct node *node, unsigned wire)
{
    wire_failed(node, wire,
                wire < NODE_SENTINEL ? "the engine does not speak its protocol"
                                     : "it does not speak the protocol of Redis");
}

void node_received(struct node *node, unsigned wire, const void *data, size_t len, int64_t now_ns)
{
    node_enter(node, now_ns);
    struct node_wire_state *w = &node->wires[wire];
    if (!w->open || !w->reader)
        return;
    w->bytes += len;
    if (redisReaderFeed(w->reader, data, len) != REDIS_OK) {
        bad_bytes(node, wire);
        return;
    }
    /* A reply may close the wire, and what follows it is lost. */
    redisReader *reader = w->reader;
    while (w->reader == reader && reader) {
        void *reply = NULL;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK) {
            bad_bytes(node, wire);
            return;
        }
        if (!reply) {
            if (w->bytes > NODE_REPLY_MAX)
                bad_bytes(node, wire);
            return;
        }
        w->bytes = reader->len - reader->pos;
        w->elements = 0;
        on_wire_reply(node, wire, reply);
        freeReplyObject(reply);
    }
}
