/* protocol_memcached.c - memcached: only ASK_HELLO, for the workload idle. */
#include "bench/counterbench/protocol.h"

#include <stdio.h>

static const char hello[] = "version\r\n";
static const char answer[] = "VERSION ";

static size_t memcached_compose(const struct request *request, uint8_t *to, size_t room)
{
    (void)request;
    if (room < sizeof hello - 1)
        return 0;
    memcpy(to, hello, sizeof hello - 1);
    return sizeof hello - 1;
}

static enum heard memcached_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                                 char *said)
{
    (void)ask;
    *used_r = 0;
    const uint8_t *end = memchr(data, '\n', len);
    if (!end && len < SAID_ROOM)
        return HEARD_MORE;
    if (end && len >= sizeof answer - 1 && memcmp(data, answer, sizeof answer - 1) == 0) {
        *used_r = (size_t)(end - data) + 1;
        return HEARD_YES;
    }
    protocol_say(said, data, len);
    return HEARD_BROKEN;
}

const struct protocol protocol_memcached = {
    .name = "memcached",
    .port = 11211,
    .asks = ASK_BIT(ASK_HELLO),
    .help = "memcached: version; only for idle",
    .compose = memcached_compose,
    .hear = memcached_hear,
};
