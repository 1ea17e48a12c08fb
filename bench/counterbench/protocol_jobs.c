/*
 * protocol_jobs.c - job queues by counterd's own verbs: put-into, put-batch, claim and ack. Each
 * request names its tube.
 */
#include "bench/counterbench/protocol.h"
#include "proto/beanstalk.h"

#include "base/clock.h"
#include "base/number.h"

#include <inttypes.h>
#include <stdio.h>

/* Seconds that a worker has for a job: longer than any run. */
#define TTR_S 86400

/* Writes a body and its line end. Returns the length; 0: it does not fit. */
static size_t write_body(const struct request *request, uint8_t *to, size_t room)
{
    size_t len = request->terms.body;
    if (room < len + 2)
        return 0;
    protocol_write_body(request->stamp_ns, to, len);
    to[len] = '\r';
    to[len + 1] = '\n';
    return len + 2;
}

static size_t compose_put(const struct request *request, uint8_t *to, size_t room)
{
    const struct bs_request line = {.verb = BS_VERB_PUT_INTO,
                                    .tube = request->name,
                                    .ttr_s = TTR_S,
                                    .body_len = request->terms.body};
    size_t len = bs_compose_request(&line, to, room);
    size_t more = len > 0 ? write_body(request, to + len, room - len) : 0;
    return more > 0 ? len + more : 0;
}

static size_t compose_batch(const struct request *request, uint8_t *to, size_t room)
{
    const struct bs_record record = {.ttr_s = TTR_S, .body_len = request->terms.body};
    uint8_t line[BS_NEW_LINE_MAX];
    size_t each = bs_compose_record(&record, line, sizeof line);
    struct bs_request first = {.verb = BS_VERB_PUT_BATCH,
                               .tube = request->name,
                               .count = request->terms.jobs,
                               .body_len = request->terms.jobs *
                                           (uint32_t)(each + request->terms.body + 2)};
    size_t len = bs_compose_request(&first, to, room);
    if (len == 0 || each == 0 || room - len < (size_t)first.body_len + 2)
        return 0;
    for (uint32_t n = 0; n < request->terms.jobs; n++) {
        memcpy(to + len, line, each);
        len += each;
        len += write_body(request, to + len, room - len);
    }
    to[len++] = '\r';
    to[len++] = '\n';
    return len;
}

static size_t jobs_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct bs_request line = {.verb = BS_VERB_LIST_TUBE_USED};
    struct bytes rest = request->member;
    switch (request->ask) {
    case ASK_PUT:
        return compose_put(request, to, room);
    case ASK_BATCH:
        return compose_batch(request, to, room);
    case ASK_RESERVE:
        line.verb = BS_VERB_CLAIM;
        line.count = 1;
        line.seconds = (uint32_t)(request->terms.timeout_ns / NS_PER_S);
        line.tubes = request->name;
        break;
    case ASK_DELETE:
        line.verb = BS_VERB_ACK;
        if (!number_take(&rest, UINT64_MAX, &line.id) || !bytes_take_text(&rest, " ") ||
            !number_parse(rest, UINT64_MAX, &line.token))
            return 0;
        break;
    default:
        break;
    }
    return bs_compose_request(&line, to, room);
}

/* Hears a line, and the body after it if it has one. */
static enum heard hear_line(const uint8_t *data, size_t len, struct bs_reply *reply_r,
                            struct bytes *body_r, size_t *used_r)
{
    enum bs_parsed parsed = bs_parse_reply(data, len, reply_r, used_r);
    size_t line = *used_r;
    if (parsed != BS_PARSED)
        return parsed == BS_MORE ? HEARD_MORE : HEARD_BROKEN;
    if (!reply_r->has_body)
        return HEARD_YES;
    *used_r = 0;
    if (len - line < (size_t)reply_r->body_len + 2)
        return HEARD_MORE;
    *body_r = bytes_at(data + line, reply_r->body_len);
    if (memcmp(body_r->data + body_r->len, "\r\n", 2) != 0)
        return HEARD_BROKEN;
    *used_r = line + body_r->len + 2;
    return HEARD_YES;
}

/* CLAIMED 1, and the job. */
static enum heard hear_claimed(const uint8_t *data, size_t len, size_t first, size_t *used_r,
                               char *said)
{
    struct bs_reply reply;
    struct bytes body = {0};
    size_t used = 0;
    enum heard heard = hear_line(data + first, len - first, &reply, &body, &used);
    *used_r = 0;
    if (heard == HEARD_MORE)
        return heard;
    if (heard != HEARD_YES || reply.answer != BS_ANSWER_CLAIMED_JOB || body.len < STAMP_LENGTH) {
        protocol_say(said, data + first, len - first);
        return HEARD_BROKEN;
    }
    snprintf(said, SAID_ROOM, "%.*s %" PRIu64 " %" PRIu64, STAMP_LENGTH, (const char *)body.data,
             reply.id, reply.token);
    *used_r = first + used;
    return HEARD_YES;
}

static enum heard jobs_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                            char *said)
{
    static const enum bs_answer good[ASK_COUNT] = {[ASK_HELLO] = BS_ANSWER_USING,
                                                   [ASK_PUT] = BS_ANSWER_INSERTED,
                                                   [ASK_BATCH] = BS_ANSWER_OK,
                                                   [ASK_RESERVE] = BS_ANSWER_CLAIMED,
                                                   [ASK_DELETE] = BS_ANSWER_DELETED};
    struct bs_reply reply;
    struct bytes body = {0};
    enum heard heard = hear_line(data, len, &reply, &body, used_r);
    if (heard == HEARD_BROKEN) {
        *used_r = 0;
        protocol_say(said, data, len);
    }
    if (heard != HEARD_YES)
        return heard;
    if (reply.answer != good[ask]) {
        protocol_say(said, data, *used_r >= 2 ? *used_r - 2 : *used_r);
        return HEARD_WRONG;
    }
    return ask == ASK_RESERVE ? hear_claimed(data, len, *used_r, used_r, said) : HEARD_YES;
}

const struct protocol protocol_jobs = {
    .name = "jobs",
    .port = 11300,
    .asks = (ASKS_OF_JOBS & ~ASK_BIT(ASK_TUBE)) | ASK_BIT(ASK_HELLO),
    .help = "counterd's job queues: put-into, put-batch, claim and ack",
    .compose = jobs_compose,
    .hear = jobs_hear,
};
