/* text.c - the codec of the text protocol (proto/poolcounter.h): requests, replies, STATS. */
#include "proto/poolcounter.h"
#include "t/vectors/stats.h"
#include "t/vectors/vectors.h"

static const char *const results[] = {
    [PC_OK] = PARSED,
    [PC_MORE] = MORE,
    [PC_POOLS] = "POOLS",
    [PC_BAD_COMMAND] = "BAD_COMMAND",
    [PC_BAD_SYNTAX] = "BAD_SYNTAX",
    [PC_LINE_TOO_LONG] = "LINE_TOO_LONG",
};

/* ---- Requests -------------------------------------------------------------------------------- */

static const char *parse_request(struct stream *stream, const uint8_t *data, size_t len,
                                 struct message *message, size_t *used_r)
{
    struct pc_request *req = (void *)message->body;
    enum pc_parsed parsed = pc_parse_request(data, len, stream->max_line, req, used_r);
    if (parsed == PC_OK)
        message->kind = req->verb;
    return results[parsed];
}

static size_t compose_request(const struct message *message, uint8_t *to, size_t room)
{
    struct pc_request req = *(const struct pc_request *)(const void *)message->body;
    req.verb = (enum pc_verb)message->kind;
    return pc_compose_request(&req, to, room);
}

/* At its end, the CR of a subject would belong to the line end. */
static bool has_cr(const struct message *message)
{
    const struct pc_request *req = (const void *)message->body;
    return req->subject.len > 0 && memchr(req->subject.data, '\r', req->subject.len);
}

const struct codec text_request = {
    .name = "text.request",
    .kinds = (const char *const[]){[PC_ACQ4ANY] = "ACQ4ANY",
                                   [PC_ACQ4ME] = "ACQ4ME",
                                   [PC_RELEASE] = "RELEASE",
                                   [PC_STATS] = "STATS"},
    .kind_count = 4,
    .fields = (const struct field[]){FIELD(BYTES, struct pc_request, key),
                                     FIELD(NUMBER, struct pc_request, workers),
                                     FIELD(NUMBER, struct pc_request, maxqueue),
                                     FIELD(NUMBER, struct pc_request, timeout_ns),
                                     FIELD(BYTES, struct pc_request, subject),
                                     {0}},
    .parse = parse_request,
    .compose = compose_request,
    .is_for_reading = has_cr,
    .errors_write_nothing = true,
    .takes_any_parts = true,
};

/* ---- Replies --------------------------------------------------------------------------------- */

static const char *parse_reply(struct stream *stream, const uint8_t *data, size_t len,
                               struct message *message, size_t *used_r)
{
    struct bytes *line = (void *)message->body;
    enum pc_reply reply = PC_REPLY_OTHER;
    enum pc_parsed parsed = pc_parse_reply(data, len, stream->max_line, &reply, line, used_r);
    if (parsed == PC_OK)
        message->kind = reply;
    return results[parsed];
}

static size_t compose_reply(const struct message *message, uint8_t *to, size_t room)
{
    struct bytes line = pc_reply_line((enum pc_reply)message->kind);
    if (line.len > 0 && line.len <= room)
        memcpy(to, line.data, line.len);
    return line.len <= room ? line.len : 0;
}

static bool is_other(const struct message *message)
{
    return message->kind == PC_REPLY_OTHER;
}

const struct codec text_reply = {
    .name = "text.reply",
#define ROW(name, word) #name,
    .kinds = (const char *const[]){PC_REPLIES(ROW) "OTHER"},
#undef ROW
    .kind_count = PC_REPLY_COUNT + 1,
    .fields = (const struct field[]){{"line", BYTES, 0, sizeof(struct bytes), 0, NULL}, {0}},
    .parse = parse_reply,
    .compose = compose_reply,
    .is_for_reading = is_other,
    .errors_write_nothing = true,
    .takes_any_parts = true,
};

/* ---- STATS ----------------------------------------------------------------------------------- */

struct stats {
    struct pc_stats of;
    struct bytes subject;
};

/* Lines of an answer. One that is unknown, or wrong, must change nothing. */
static const char *parse_stats(struct stream *stream, const uint8_t *data, size_t len,
                               struct message *message, size_t *used_r)
{
    (void)stream;
    struct stats *stats = (void *)message->body;
    memset(message, 0, sizeof(*message));
    *used_r = len;
    for (size_t at = 0, line_len; at < len || len == 0; at += line_len + 1) {
        const uint8_t *end = at < len ? memchr(data + at, '\n', len - at) : NULL;
        line_len = end ? (size_t)(end - data) - at : len - at;
        struct bytes line = bytes_at(len > 0 ? data + at : NULL, line_len);
        struct pc_stats before = stats->of;
        bool is_end = at > 0 && line_len == 0 && at + 1 == len;
        if (!is_end && !stats_parse_line(line, &stats->of)) {
            if (memcmp(&before, &stats->of, sizeof(before)) != 0)
                fail("a wrong line changes something");
            return "UNKNOWN";
        }
    }
    return PARSED;
}

static size_t compose_stats(const struct message *message, uint8_t *to, size_t room)
{
    const struct stats *stats = (const void *)message->body;
    return pc_compose_stats(&stats->of, stats->subject, (char *)to, room);
}

const struct codec text_stats = {
    .name = "text.stats",
    .kinds = (const char *const[]){"STATS"},
    .kind_count = 1,
    .rooms = (const size_t[]){PC_STATS_ROOM},
#define ROW(name) FIELD(NUMBER, struct stats, of.name),
    .fields = (const struct field[]){ROW(uptime_s) ROW(processing_ns) ROW(gained_ns) ROW(waiting_ns)
                                         ROW(waiting_for_me_ns) ROW(waiting_for_anyone_ns)
                                             ROW(waiting_for_good_ns) ROW(wasted_timeout_ns)
                                                 PC_COUNTS(ROW) FIELD(BYTES, struct stats, subject),
                                     {0}},
#undef ROW
    .parse = parse_stats,
    .compose = compose_stats,
    .is_whole = true,
    .takes_any_parts = true,
};
