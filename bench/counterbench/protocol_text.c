/*
 * protocol_text.c - the PoolCounter protocol, as counterd and poolcounterd speak it. A unit is a
 * lock.
 */
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/protocol_codecs.h"
#include "proto/poolcounter.h"

/* No answer of ours is longer. */
#define LINE_MAX_BYTES 8192

size_t text_compose(const struct request *request, uint8_t *to, size_t room)
{
    static const enum pc_verb verbs[ASK_COUNT] = {
        [ASK_ACQUIRE] = PC_ACQ4ME,
        [ASK_RELEASE] = PC_RELEASE,
        [ASK_WAIT] = PC_ACQ4ME,
        [ASK_SHARE] = PC_ACQ4ANY,
    };
    struct pc_request line = {.verb = verbs[request->ask], .key = request->name};
    if (line.verb != PC_RELEASE) {
        line.workers = request->terms.limit;
        line.maxqueue = request->terms.queue;
        line.timeout_ns = request->terms.timeout_ns;
    }
    return pc_compose_request(&line, to, room);
}

static size_t text_hope(enum ask ask, uint32_t units, uint8_t *to, size_t room)
{
    (void)units;
    if (ask == ASK_SHARE)
        return 0; /* both LOCKED and DONE will do */
    struct bytes line = pc_reply_line(ask == ASK_RELEASE ? PC_REPLY_RELEASED : PC_REPLY_LOCKED);
    if (line.len > room)
        return 0;
    memcpy(to, line.data, line.len);
    return line.len;
}

static enum heard text_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                            char *said)
{
    enum pc_reply reply = PC_REPLY_OTHER;
    struct bytes line = {0};
    enum pc_parsed parsed = pc_parse_reply(data, len, LINE_MAX_BYTES, &reply, &line, used_r);
    if (parsed == PC_MORE)
        return HEARD_MORE;
    if (parsed != PC_OK) {
        protocol_say(said, data, len);
        return HEARD_BROKEN;
    }
    if (ask == ASK_RELEASE ? reply == PC_REPLY_RELEASED : reply == PC_REPLY_LOCKED)
        return HEARD_YES;
    if (ask == ASK_SHARE && reply == PC_REPLY_DONE)
        return HEARD_DONE;
    if (ask != ASK_RELEASE && (reply == PC_REPLY_TIMEOUT || reply == PC_REPLY_QUEUE_FULL))
        return HEARD_NO;
    protocol_say(said, line.data, line.len);
    return HEARD_WRONG;
}

const struct protocol protocol_text = {
    .name = "text",
    .port = 7531,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_WAIT) | ASK_BIT(ASK_SHARE),
    .help = "PoolCounter: ACQ4ME and RELEASE",
    .compose = text_compose,
    .hear = text_hear,
    .hope = text_hope,
};
