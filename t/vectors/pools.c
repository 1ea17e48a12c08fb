/* pools.c - the codec of the verbs of pools (proto/pools.h): requests, replies, members files. */
#include "proto/pools.h"
#include "proto/poolcounter.h"
#include "t/vectors/vectors.h"

#include <stdlib.h>

_Static_assert(sizeof(struct pool_pair) == sizeof(struct pair), "pairs are alike");

/* ---- Requests ------------------------------------------------------------------------------- */

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

/* ---- Replies -------------------------------------------------------------------------------- */

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

static const struct field *reply_fields(size_t kind)
{
    static const struct field bad_value[] = {FIELD(BYTES, struct pool_answer, bad_value), {0}};
    static const struct field taken[] = {
        FIELD(BYTES, struct pool_answer, taken.pool),
        FIELD(BYTES, struct pool_answer, taken.member),
        FIELD(NUMBER, struct pool_answer, taken.fence),
        FIELD(BYTES, struct pool_answer, taken.value),
        ARRAY(PAIRS, struct pool_answer, taken.attrs, taken.attr_count),
        {0}};
    static const struct field want[] = {FIELD(BYTES, struct pool_answer, want.pool),
                                        FIELD(NUMBER, struct pool_answer, want.want),
                                        {0}};
    static const struct field stop[] = {FIELD(BYTES, struct pool_answer, stop.pool),
                                        FIELD(BYTES, struct pool_answer, stop.member),
                                        FIELD(BYTES, struct pool_answer, stop.why),
                                        {0}};
    static const struct field lost[] = {FIELD(NUMBER, struct pool_answer, lost), {0}};
    static const struct field event[] = {FIELD(BYTES, struct pool_answer, event.pool),
                                         FIELD(BYTES, struct pool_answer, event.member),
                                         FIELD(BYTES, struct pool_answer, event.from),
                                         FIELD(BYTES, struct pool_answer, event.to),
                                         FIELD(BYTES, struct pool_answer, event.why),
                                         FIELD(NUMBER, struct pool_answer, event.fence),
                                         FIELD(BYTES, struct pool_answer, event.conn),
                                         FIELD(BYTES, struct pool_answer, event.by),
                                         {0}};
#define ROW(name) FIELD(NUMBER, struct pool_answer, pool.name),
    static const struct field pool[] = {
        FIELD(BYTES, struct pool_answer, pool.name),
        FIELD(BYTES, struct pool_answer, pool.kind),
        FIELD(FLAG, struct pool_answer, pool.draining),
        FIELD(BYTES, struct pool_answer, pool.group),
        POOL_COUNTS(ROW) FIELD(FLAG, struct pool_answer, pool.has_want),
        FIELD(NUMBER, struct pool_answer, pool.want),
        ARRAY(PAIRS, struct pool_answer, pool.options, pool.option_count),
        {0}};
#undef ROW
    static const struct field member[] = {
        FIELD(BYTES, struct pool_answer, member.name),
        FIELD(BYTES, struct pool_answer, member.state),
        FIELD(NUMBER, struct pool_answer, member.since_ns),
        FIELD(NUMBER, struct pool_answer, member.fence),
        FIELD(BYTES, struct pool_answer, member.holder),
        FIELD(NUMBER, struct pool_answer, member.takes),
        FIELD(NUMBER, struct pool_answer, member.fails),
        FIELD(BYTES, struct pool_answer, member.then),
        FIELD(BYTES, struct pool_answer, member.by),
        FIELD(BYTES, struct pool_answer, member.note),
        ARRAY(PAIRS, struct pool_answer, member.attrs, member.attr_count),
        {0}};
    static const struct field waiter[] = {
        FIELD(BYTES, struct pool_answer, waiter.client),
        FIELD(NUMBER, struct pool_answer, waiter.since_ns),
        FIELD(NUMBER, struct pool_answer, waiter.timeout_ns),
        FIELD(NUMBER, struct pool_answer, waiter.count),
        WORDS(struct pool_answer, waiter.take_for, purposes),
        FIELD(BYTES, struct pool_answer, waiter.member),
        FIELD(BYTES, struct pool_answer, waiter.by),
        ARRAY(PAIRS, struct pool_answer, waiter.with, waiter.with_count),
        {0}};
    static const struct field *const tables[] = {bad_value, taken, want,   stop,  lost,
                                                 event,     pool,  member, waiter};
    return kind >= POOL_REPLY_FIXED && kind < POOL_REPLY_OTHER ? tables[kind - POOL_REPLY_FIXED]
                                                               : NULL;
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

/* ---- Members files -------------------------------------------------------------------------- */

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
