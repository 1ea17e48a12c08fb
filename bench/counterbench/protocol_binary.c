/* protocol_binary.c - the counter protocol, as counterd and yrmcds speak it. */
#include "bench/counterbench/protocol.h"
#include "proto/counter.h"

#include <stdio.h>

static uint8_t opcode_of(enum ask ask)
{
    switch (ask) {
    case ASK_ACQUIRE:
        return CTR_ACQUIRE;
    case ASK_RELEASE:
        return CTR_RELEASE;
    case ASK_GET:
        return CTR_GET;
    case ASK_DUMP:
        return CTR_DUMP;
    default:
        return CTR_NOOP;
    }
}

static size_t binary_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct ctr_request frame = {.opcode = opcode_of(request->ask),
                                .units = request->terms.units,
                                .maximum = request->terms.limit,
                                .name = request->name};
    return ctr_compose_request(&frame, to, room);
}

static enum heard binary_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                              char *said)
{
    struct ctr_reply reply;
    enum ctr_parsed parsed = ctr_parse_reply(data, len, &reply, used_r);
    if (parsed == CTR_MORE) {
        *used_r = 0;
        return HEARD_MORE;
    }
    if (parsed != CTR_OK) {
        snprintf(said, SAID_ROOM, "bytes that are no answer of the counter protocol");
        return HEARD_BROKEN;
    }
    if (reply.opcode != opcode_of(ask)) {
        snprintf(said, SAID_ROOM, "an answer to opcode 0x%02x, not 0x%02x", reply.opcode,
                 opcode_of(ask));
        return HEARD_WRONG;
    }
    if (reply.status == CTR_STATUS_SUCCESS)
        return ask == ASK_DUMP && reply.body.len > 0 ? HEARD_PART : HEARD_YES;
    if ((ask == ASK_ACQUIRE && reply.status == CTR_STATUS_NOT_AVAILABLE) ||
        (ask == ASK_GET && reply.status == CTR_STATUS_NOT_FOUND))
        return HEARD_NO;
    snprintf(said, SAID_ROOM, "status 0x%02x (%s)", reply.status, ctr_status_text(reply.status));
    return HEARD_WRONG;
}

const struct protocol protocol_binary = {
    .name = "binary",
    .port = 11215,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_GET) | ASK_BIT(ASK_DUMP),
    .help = "the counter protocol of counterd and yrmcds",
    .compose = binary_compose,
    .hear = binary_hear,
    .hopes = {[ASK_ACQUIRE] = BYTES_OF_LITERAL("\x91\2\0\0\0\0\0\4\0\0\0\0\0\0\0\1"),
              [ASK_RELEASE] = BYTES_OF_LITERAL("\x91\3\0\0\0\0\0\0\0\0\0\0")},
};

const struct protocol protocol_echo_binary = {
    .name = "echo-binary",
    .port = 11215,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE),
    .help = "sends the requests of \"binary\" to an echo server, which returns them",
    .compose = binary_compose,
    .is_echo = true,
};
