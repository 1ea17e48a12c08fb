/* pools.c - the codec of the verbs of pools (proto/pools.h): requests, replies, members files. */
#include "proto/pools.h"
#include "proto/poolcounter.h"
#include "t/vectors/vectors.h"

#include <stdlib.h>

_Static_assert(sizeof(struct pool_pair) == sizeof(struct pair), "pairs are alike");

/* ---- Requests -------------------------------------------------------------------------------- */

/* The text protocol splits the lines, and knows which of them are requests of pools. */
static const char *parse_request(struct stream *stream, const uint8_t *data, size_t len,
                                 struct message *message, size_t *used_r)
{
    struct pool_request *req = (void *)message->body;
    struct pc_request other;
    enum pc_parsed split = pc_parse_request(data, len, stream->max_line, &other, used_r);
    if (split == PC_MORE || split == PC_LINE_TOO_LONG)
        return split == PC_MORE ? MORE : "LINE_TOO_LONG";
    size_t line_len = *used_r - 1;
    line_len -= line_len > 0 && data[line_len - 1] == '\r';
    uint8_t *line = exact_bytes(data, line_len);
    enum pool_parsed parsed = pool_parse_request(bytes_at(line, line_len), req);
    if (pool_parse_request(bytes_at(data, line_len), req) != parsed)
        fail("alone, the line is parsed to something else");
    free(line);
    if ((split == PC_POOLS) != (parsed != POOL_BAD_COMMAND))
        fail("the two parsers do not agree which verb this is");
    if (split != PC_POOLS && split != PC_BAD_COMMAND)
        return "TEXT";
    message->kind = req->verb;
    return parsed == POOL_PARSED       ? PARSED
           : parsed == POOL_BAD_SYNTAX ? "BAD_SYNTAX"
                                       : "BAD_COMMAND";
}

static size_t compose_request(const struct message *message, uint8_t *to, size_t room)
{
    struct pool_request req = *(const struct pool_request *)(const void *)message->body;
    req.verb = (enum pool_verb)message->kind;
    return pool_compose_request(&req, to, room);
}

static const char *const purposes[] = {"use", "clean", "check", NULL};

const struct codec pools_request = {
    .name = "pools.request",
#define ROW(name, words) #name,
    .kinds = (const char *const[]){POOL_VERBS(ROW)},
#undef ROW
    .kind_count = POOL_VERB_COUNT,
    .fields = (const struct field[]){FIELD(BYTES, struct pool_request, pool),
                                     FIELD(BYTES, struct pool_request, group),
                                     ARRAY(LIST, struct pool_request, targets, target_count),
                                     FIELD(HIDDEN, struct pool_request, target_count),
                                     FIELD(BYTES, struct pool_request, member),
                                     FIELD(NUMBER, struct pool_request, count),
                                     FIELD(NUMBER, struct pool_request, timeout_ns),
                                     WORDS(struct pool_request, take_for, purposes),
                                     FIELD(BYTES, struct pool_request, by),
                                     FIELD(FLAG, struct pool_request, has_fence),
                                     FIELD(NUMBER, struct pool_request, fence),
                                     FIELD(FLAG, struct pool_request, failed),
                                     FIELD(NUMBER, struct pool_request, init),
                                     FIELD(NUMBER, struct pool_request, max),
                                     FIELD(FLAG, struct pool_request, has_value),
                                     FIELD(BYTES, struct pool_request, value),
                                     FIELD(FLAG, struct pool_request, has_note),
                                     FIELD(BYTES, struct pool_request, note),
                                     FIELD(FLAG, struct pool_request, has_state),
                                     FIELD(BYTES, struct pool_request, state),
                                     ARRAY(PAIRS, struct pool_request, pairs, pair_count),
                                     FIELD(HIDDEN, struct pool_request, pair_count),
                                     FIELD(FLAG, struct pool_request, now),
                                     FIELD(FLAG, struct pool_request, mine),
                                     {0}},
    .parse = parse_request,
    .compose = compose_request,
};

/* ---- Replies --------------------------------------------------------------------------------- */

static const char *parse_reply(struct stream *stream, const uint8_t *data, size_t len,
                               struct message *message, size_t *used_r)
{
    struct pool_answer *answer = (void *)message->body;
    enum pc_reply ignored;
    struct bytes line;
    enum pc_parsed split = pc_parse_reply(data, len, stream->max_line, &ignored, &line, used_r);
    if (split != PC_OK)
        return split == PC_MORE ? MORE : "LINE_TOO_LONG";
    uint8_t *alone = exact_bytes(line.data, line.len);
    pool_parse_reply(bytes_at(alone, line.len), answer);
    enum pool_reply reply = answer->reply;
    free(alone);
    pool_parse_reply(line, answer);
    if (answer->reply != reply)
        fail("alone, the line is parsed to something else");
    message->kind = reply;
    return PARSED;
}

static size_t compose_reply(const struct message *message, uint8_t *to, size_t room)
{
    const struct pool_answer *answer = (const void *)message->body;
    const struct pool_taken_reply *taken = &answer->taken;
    struct bytes line = pool_reply_line((enum pool_reply)message->kind);
    size_t len;
    switch (message->kind) {
    case POOL_REPLY_BAD_VALUE:
        return pool_compose_bad_value(answer->bad_value, to, room);
    case POOL_REPLY_TAKEN:
        len = pool_compose_taken(taken, to, room);
        if (len > pool_taken_room(taken) ||
            (len > 0 && taken->fence == UINT64_MAX && len < pool_taken_room(taken)))
            fail("%zu bytes need a room of %zu", len, pool_taken_room(taken));
        return len;
    case POOL_REPLY_WANT:
        return pool_compose_want(&answer->want, to, room);
    case POOL_REPLY_STOP:
        return pool_compose_stop(&answer->stop, to, room);
    case POOL_REPLY_LOST:
        return pool_compose_lost(answer->lost, to, room);
    case POOL_REPLY_EVENT:
        return pool_compose_event(&answer->event, to, room);
    case POOL_REPLY_POOL:
        return pool_compose_pool(&answer->pool, to, room);
    case POOL_REPLY_MEMBER:
        return pool_compose_member(&answer->member, to, room);
    case POOL_REPLY_WAITER:
        return pool_compose_waiter(&answer->waiter, to, room);
    default:
        if (line.len > 0 && line.len <= room)
            memcpy(to, line.data, line.len);
        return line.len <= room ? line.len : 0;
    }
}

static bool is_other(const struct message *message)
{
    return message->kind >= POOL_REPLY_OTHER;
}

#define OF struct pool_answer
/* clang-format off */
#define FIELDS(...) (const struct field[]){__VA_ARGS__, {0}}
/* clang-format on */
#define ROW(name) FIELD(NUMBER, OF, pool.name),
static const struct field *const fields_of[POOL_REPLY_OTHER + 1] = {
    [POOL_REPLY_BAD_VALUE] = FIELDS(FIELD(BYTES, OF, bad_value)),
    [POOL_REPLY_TAKEN] = FIELDS(FIELD(BYTES, OF, taken.pool), FIELD(BYTES, OF, taken.member),
                                FIELD(NUMBER, OF, taken.fence), FIELD(BYTES, OF, taken.value),
                                ARRAY(PAIRS, OF, taken.attrs, taken.attr_count)),
    [POOL_REPLY_WANT] = FIELDS(FIELD(BYTES, OF, want.pool), FIELD(NUMBER, OF, want.want)),
    [POOL_REPLY_STOP] = FIELDS(FIELD(BYTES, OF, stop.pool), FIELD(BYTES, OF, stop.member),
                               FIELD(BYTES, OF, stop.why)),
    [POOL_REPLY_LOST] = FIELDS(FIELD(NUMBER, OF, lost)),
    [POOL_REPLY_EVENT] = FIELDS(FIELD(BYTES, OF, event.pool), FIELD(BYTES, OF, event.member),
                                FIELD(BYTES, OF, event.from), FIELD(BYTES, OF, event.to),
                                FIELD(BYTES, OF, event.why), FIELD(NUMBER, OF, event.fence),
                                FIELD(BYTES, OF, event.conn), FIELD(BYTES, OF, event.by)),
    [POOL_REPLY_POOL] = FIELDS(
        FIELD(BYTES, OF, pool.name), FIELD(BYTES, OF, pool.kind), FIELD(FLAG, OF, pool.draining),
        FIELD(BYTES, OF, pool.group), POOL_COUNTS(ROW) FIELD(FLAG, OF, pool.has_want),
        FIELD(NUMBER, OF, pool.want), ARRAY(PAIRS, OF, pool.options, pool.option_count)),
    [POOL_REPLY_MEMBER] = FIELDS(
        FIELD(BYTES, OF, member.name), FIELD(BYTES, OF, member.state),
        FIELD(NUMBER, OF, member.since_ns), FIELD(NUMBER, OF, member.fence),
        FIELD(BYTES, OF, member.holder), FIELD(NUMBER, OF, member.takes),
        FIELD(NUMBER, OF, member.fails), FIELD(BYTES, OF, member.then), FIELD(BYTES, OF, member.by),
        FIELD(BYTES, OF, member.note), ARRAY(PAIRS, OF, member.attrs, member.attr_count)),
    [POOL_REPLY_WAITER] =
        FIELDS(FIELD(BYTES, OF, waiter.client), FIELD(NUMBER, OF, waiter.since_ns),
               FIELD(NUMBER, OF, waiter.timeout_ns), FIELD(NUMBER, OF, waiter.count),
               WORDS(OF, waiter.take_for, purposes), FIELD(BYTES, OF, waiter.member),
               FIELD(BYTES, OF, waiter.by), ARRAY(PAIRS, OF, waiter.with, waiter.with_count)),
};
#undef ROW

static const struct field *reply_fields(size_t kind)
{
    return kind <= POOL_REPLY_OTHER ? fields_of[kind] : NULL;
}

const struct codec pools_reply = {
    .name = "pools.reply",
#define ROW(name, words) #name,
    .kinds = (const char *const[]){POOL_REPLIES(ROW) "BAD_VALUE", "TAKEN", "WANT", "STOP", "LOST",
                                   "EVENT", "POOL", "MEMBER", "WAITER", "OTHER"},
#undef ROW
    .kind_count = POOL_REPLY_OTHER + 1,
    .own_fields = reply_fields,
    .rooms = (const size_t[POOL_REPLY_OTHER + 1]){[POOL_REPLY_BAD_VALUE] = POOLS_BAD_VALUE_ROOM,
                                                  [POOL_REPLY_TAKEN] = POOLS_TAKEN_ROOM,
                                                  [POOL_REPLY_WANT] = POOLS_WANT_ROOM,
                                                  [POOL_REPLY_STOP] = POOLS_STOP_ROOM,
                                                  [POOL_REPLY_LOST] = POOLS_LOST_ROOM,
                                                  [POOL_REPLY_EVENT] = POOLS_EVENT_ROOM,
                                                  [POOL_REPLY_POOL] = POOLS_POOL_ROOM,
                                                  [POOL_REPLY_MEMBER] = POOLS_MEMBER_ROOM,
                                                  [POOL_REPLY_WAITER] = POOLS_WAITER_ROOM},
    .rooms_are_tight = true,
    .rounds = true,
    .parse = parse_reply,
    .compose = compose_reply,
    .is_for_reading = is_other,
    .takes_any_parts = true,
};

/* ---- Members files --------------------------------------------------------------------------- */

static const char *parse_member(struct stream *stream, const uint8_t *data, size_t len,
                                struct message *message, size_t *used_r)
{
    (void)stream;
    *used_r = len;
    message->kind = 0;
    return pool_parse_member(bytes_at(data, len), (void *)message->body) ? PARSED : "WRONG";
}

const struct codec pools_member = {
    .name = "pools.member",
    .kinds = (const char *const[]){"MEMBER"},
    .kind_count = 1,
    .fields = (const struct field[]){FIELD(BYTES, struct pool_member_line, name),
                                     FIELD(BYTES, struct pool_member_line, value),
                                     FIELD(BYTES, struct pool_member_line, note),
                                     FIELD(FLAG, struct pool_member_line, down),
                                     ARRAY(PAIRS, struct pool_member_line, attrs, attr_count),
                                     {0}},
    .parse = parse_member,
    .is_whole = true,
};
