/*
 * protocol_beanstalk.c - job queues, as counterd and beanstalkd speak them. A tube's verbs go out
 * as one request with three answers.
 */
#include "bench/counterbench/protocol.h"
#include "proto/beanstalk.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdio.h>

/* Seconds that a worker has for a job: longer than any run. */
#define TTR_S 86400

static size_t compose_tube(struct bytes tube, uint8_t *to, size_t room)
{
    const struct bs_request lines[] = {
        {.verb = BS_VERB_USE, .tube = tube},
        {.verb = BS_VERB_WATCH, .tube = tube},
        {.verb = BS_VERB_IGNORE, .tube = bytes_of("default")},
    };
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        size_t more = bs_compose_request(&lines[i], to + len, room - len);
        if (more == 0)
            return 0;
        len += more;
    }
    return len;
}

static size_t compose_put(const struct request *request, uint8_t *to, size_t room)
{
    const struct bs_request line = {
        .verb = BS_VERB_PUT, .ttr_s = TTR_S, .body_len = request->terms.body};
    size_t len = bs_compose_request(&line, to, room);
    if (len == 0 || room - len < (size_t)line.body_len + 2)
        return 0;
    protocol_write_body(request->stamp_ns, to + len, line.body_len);
    len += line.body_len;
    to[len++] = '\r';
    to[len++] = '\n';
    return len;
}

static size_t jobs_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct bs_request line = {.verb = BS_VERB_LIST_TUBE_USED};
    switch (request->ask) {
    case ASK_TUBE:
        return compose_tube(request->name, to, room);
    case ASK_PUT:
        return compose_put(request, to, room);
    case ASK_RESERVE:
        line.verb = BS_VERB_RESERVE;
        break;
    case ASK_DELETE:
        line.verb = BS_VERB_DELETE;
        if (!number_parse(request->member, UINT64_MAX, &line.id))
            return 0;
        break;
    default:
        break;
    }
    return bs_compose_request(&line, to, room);
}

/* Says the line of an answer. Returns `heard`. */
static enum heard say_line(enum heard heard, const uint8_t *data, size_t used, char *said)
{
    protocol_say(said, data, used >= 2 ? used - 2 : used);
    return heard;
}

static enum heard broken(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    *used_r = 0;
    protocol_say(said, data, len);
    return HEARD_BROKEN;
}

/* Hears a line and the body after it. *body_r is the body. */
static enum heard hear_line(const uint8_t *data, size_t len, struct bs_reply *reply_r,
                            struct bytes *body_r, size_t *used_r, char *said)
{
    enum bs_parsed parsed = bs_parse_reply(data, len, reply_r, used_r);
    if (parsed == BS_MORE)
        return HEARD_MORE;
    if (parsed != BS_PARSED)
        return broken(data, len, used_r, said);
    if (!reply_r->has_body)
        return HEARD_YES;
    size_t line = *used_r, body = reply_r->body_len;
    *used_r = 0;
    if (len - line < body + 2)
        return HEARD_MORE;
    if (memcmp(data + line + body, "\r\n", 2) != 0)
        return broken(data, len, used_r, said);
    *body_r = bytes_at(data + line, body);
    *used_r = line + body + 2;
    return HEARD_YES;
}

/* USING, WATCHING, WATCHING. */
static enum heard hear_tube(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    static const enum bs_answer answers[] = {BS_ANSWER_USING, BS_ANSWER_WATCHING,
                                             BS_ANSWER_WATCHING};
    size_t used = 0;
    bool good = true;
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        struct bs_reply reply;
        struct bytes body;
        size_t more = 0;
        enum heard heard = hear_line(data + used, len - used, &reply, &body, &more, said);
        *used_r = 0;
        if (heard != HEARD_YES)
            return heard;
        if (reply.answer != answers[i] && good) {
            (void)say_line(HEARD_WRONG, data + used, more, said);
            good = false;
        }
        used += more;
    }
    *used_r = used;
    return good ? HEARD_YES : HEARD_WRONG;
}

static enum heard jobs_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                            char *said)
{
    static const enum bs_answer good[ASK_COUNT] = {[ASK_HELLO] = BS_ANSWER_USING,
                                                   [ASK_PUT] = BS_ANSWER_INSERTED,
                                                   [ASK_RESERVE] = BS_ANSWER_RESERVED,
                                                   [ASK_DELETE] = BS_ANSWER_DELETED};
    struct bs_reply reply;
    struct bytes body = {0};
    if (ask == ASK_TUBE)
        return hear_tube(data, len, used_r, said);
    enum heard heard = hear_line(data, len, &reply, &body, used_r, said);
    if (heard != HEARD_YES)
        return heard;
    if (ask == ASK_PUT && reply.answer == BS_ANSWER_OUT_OF_MEMORY)
        return HEARD_NO;
    if (reply.answer != good[ask] || (ask == ASK_RESERVE && body.len < STAMP_LENGTH))
        return say_line(HEARD_WRONG, data, *used_r, said);
    if (ask == ASK_RESERVE)
        snprintf(said, SAID_ROOM, "%.*s %" PRIu64, STAMP_LENGTH, (const char *)body.data, reply.id);
    return HEARD_YES;
}

const struct protocol protocol_beanstalk = {
    .name = "beanstalk",
    .port = 11300,
    .asks = (ASKS_OF_JOBS & ~ASK_BIT(ASK_BATCH)) | ASK_BIT(ASK_HELLO),
    .help = "beanstalk: put, reserve and delete",
    .compose = jobs_compose,
    .hear = jobs_hear,
};
