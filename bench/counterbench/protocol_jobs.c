/*
 * protocol_jobs.c - job queues: "beanstalk", as counterd and beanstalkd speak them, and "jobs", by
 * counterd's own verbs, whose requests name their tube: put-into, put-batch, claim and ack.
 */
#include "bench/counterbench/protocol.h"
#include "proto/beanstalk.h"

#include "base/clock.h"
#include "base/number.h"

#include <inttypes.h>
#include <stdio.h>

/* Seconds that a worker has for a job: longer than any run. */
#define TTR_S 86400

/* ---- composing ------------------------------------------------------------------------------- */

/* A tube's verbs go out as one request with three answers. */
static size_t compose_tube(struct bytes tube, uint8_t *to, size_t room)
{
    const struct bs_request lines[] = {
        {.verb = BS_VERB_USE, .tube = tube},
        {.verb = BS_VERB_WATCH, .tube = tube},
        {.verb = BS_VERB_IGNORE, .tube = bytes_of("default")},
    };
    size_t len = 0, more = 1;
    for (size_t i = 0; i < ARRAY_SIZE(lines) && more > 0; i++)
        len += more = bs_compose_request(&lines[i], to + len, room - len);
    return more > 0 ? len : 0;
}

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

static size_t compose_put(const struct request *request, enum bs_verb verb, uint8_t *to,
                          size_t room)
{
    struct bs_request line = {.verb = verb, .ttr_s = TTR_S, .body_len = request->terms.body};
    if (verb == BS_VERB_PUT_INTO)
        line.tube = request->name;
    size_t len = bs_compose_request(&line, to, room);
    size_t more = len > 0 ? write_body(request, to + len, room - len) : 0;
    return more > 0 ? len + more : 0;
}

static size_t compose_batch(const struct request *request, uint8_t *to, size_t room)
{
    const struct bs_request record = {.ttr_s = TTR_S, .body_len = request->terms.body};
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
    to[len] = '\r';
    to[len + 1] = '\n';
    return len + 2;
}

static size_t beanstalk_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct bs_request line = {.verb = BS_VERB_LIST_TUBE_USED};
    if (request->ask == ASK_TUBE)
        return compose_tube(request->name, to, room);
    if (request->ask == ASK_PUT)
        return compose_put(request, BS_VERB_PUT, to, room);
    if (request->ask == ASK_RESERVE)
        line.verb = BS_VERB_RESERVE;
    if (request->ask == ASK_DELETE)
        line.verb = BS_VERB_DELETE;
    if (request->ask == ASK_DELETE && !number_parse(request->member, UINT64_MAX, &line.id))
        return 0;
    return bs_compose_request(&line, to, room);
}

static size_t jobs_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct bs_request line = {.verb = BS_VERB_LIST_TUBE_USED};
    struct bytes rest = request->member;
    switch (request->ask) {
    case ASK_PUT:
        return compose_put(request, BS_VERB_PUT_INTO, to, room);
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

/* ---- judging --------------------------------------------------------------------------------- */

/* Hears a line, and the body after it if it has one. */
static enum heard hear_line(const uint8_t *data, size_t len, struct bs_reply *reply_r,
                            struct bytes *body_r, size_t *used_r, char *said)
{
    enum bs_parsed parsed = bs_parse_reply(data, len, reply_r, used_r);
    size_t line = *used_r;
    if (parsed == BS_MORE || (parsed == BS_PARSED && !reply_r->has_body))
        return parsed == BS_MORE ? HEARD_MORE : HEARD_YES;
    *used_r = 0;
    if (parsed == BS_PARSED && len - line < (size_t)reply_r->body_len + 2)
        return HEARD_MORE;
    if (parsed != BS_PARSED || memcmp(data + line + reply_r->body_len, "\r\n", 2) != 0) {
        protocol_say(said, data, len);
        return HEARD_BROKEN;
    }
    *body_r = bytes_at(data + line, reply_r->body_len);
    *used_r = line + body_r->len + 2;
    return HEARD_YES;
}

/*
 * Hears an answer that must be `good`. *used_r is its length also when it is another. A job's stamp
 * and what deletes it are said.
 */
static enum heard hear(enum bs_answer good, const uint8_t *data, size_t len, size_t *used_r,
                       char *said)
{
    struct bs_reply reply;
    struct bytes body = {0};
    enum heard heard = hear_line(data, len, &reply, &body, used_r, said);
    if (heard != HEARD_YES)
        return heard;
    if (good == BS_ANSWER_INSERTED && reply.answer == BS_ANSWER_OUT_OF_MEMORY)
        return HEARD_NO;
    bool has_job = good == BS_ANSWER_RESERVED || good == BS_ANSWER_CLAIMED_JOB;
    if (reply.answer != good || (has_job && body.len < STAMP_LENGTH)) {
        protocol_say(said, data, *used_r >= 2 ? *used_r - 2 : *used_r);
        return HEARD_WRONG;
    }
    if (has_job) {
        int at = snprintf(said, SAID_ROOM, "%.*s %" PRIu64, STAMP_LENGTH, (const char *)body.data,
                          reply.id);
        if (good == BS_ANSWER_CLAIMED_JOB)
            snprintf(said + at, SAID_ROOM - (size_t)at, " %" PRIu64, reply.token);
    }
    return HEARD_YES;
}

/* Hears several answers; the first wrong one is said. */
static enum heard hear_all(const enum bs_answer *good, size_t count, const uint8_t *data,
                           size_t len, size_t *used_r, char *said)
{
    size_t used = 0;
    enum heard all = HEARD_YES;
    for (size_t i = 0; i < count; i++) {
        char other[SAID_ROOM] = "";
        size_t more = 0;
        enum heard heard =
            hear(good[i], data + used, len - used, &more, all == HEARD_YES ? said : other);
        *used_r = 0;
        if (heard == HEARD_MORE || heard == HEARD_BROKEN)
            return heard;
        if (heard == HEARD_WRONG)
            all = heard;
        used += more;
    }
    *used_r = used;
    return all;
}

static enum heard beanstalk_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                                 char *said)
{
    static const enum bs_answer good[ASK_COUNT] = {[ASK_HELLO] = BS_ANSWER_USING,
                                                   [ASK_PUT] = BS_ANSWER_INSERTED,
                                                   [ASK_RESERVE] = BS_ANSWER_RESERVED,
                                                   [ASK_DELETE] = BS_ANSWER_DELETED};
    static const enum bs_answer of_tube[] = {BS_ANSWER_USING, BS_ANSWER_WATCHING,
                                             BS_ANSWER_WATCHING};
    if (ask == ASK_TUBE)
        return hear_all(of_tube, ARRAY_SIZE(of_tube), data, len, used_r, said);
    return hear(good[ask], data, len, used_r, said);
}

static enum heard jobs_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                            char *said)
{
    static const enum bs_answer good[ASK_COUNT] = {[ASK_HELLO] = BS_ANSWER_USING,
                                                   [ASK_PUT] = BS_ANSWER_INSERTED,
                                                   [ASK_BATCH] = BS_ANSWER_OK,
                                                   [ASK_RESERVE] = BS_ANSWER_CLAIMED,
                                                   [ASK_DELETE] = BS_ANSWER_DELETED};
    enum heard heard = hear(good[ask], data, len, used_r, said);
    if (ask != ASK_RESERVE || heard != HEARD_YES)
        return heard;
    size_t first = *used_r, more = 0; /* CLAIMED 1, and the job */
    heard = hear(BS_ANSWER_CLAIMED_JOB, data + first, len - first, &more, said);
    *used_r = heard == HEARD_YES ? first + more : 0;
    return heard == HEARD_WRONG ? HEARD_BROKEN : heard;
}

const struct protocol protocol_beanstalk = {
    .name = "beanstalk",
    .port = 11300,
    .asks = (ASKS_OF_JOBS & ~ASK_BIT(ASK_BATCH)) | ASK_BIT(ASK_HELLO),
    .help = "beanstalk: put, reserve and delete",
    .compose = beanstalk_compose,
    .hear = beanstalk_hear,
};

const struct protocol protocol_jobs = {
    .name = "jobs",
    .port = 11300,
    .asks = (ASKS_OF_JOBS & ~ASK_BIT(ASK_TUBE)) | ASK_BIT(ASK_HELLO),
    .help = "counterd's job queues: put-into, put-batch, claim and ack",
    .compose = jobs_compose,
    .hear = jobs_hear,
};
