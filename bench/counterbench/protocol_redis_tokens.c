/*
 * protocol_redis_tokens.c - a semaphore on Redis's lists: each free unit of a name is an entry of a
 * list. A client takes one with LPOP, or waits for one with BLPOP, and gives it back with RPUSH.
 *
 * Somebody must first put the entries there (ASK_STOCK, stock.h). What a client has taken is gone
 * when it dies.
 */
#include "base/clock.h"
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/resp.h"

#include <inttypes.h>
#include <stdio.h>

static const char stock[] = "redis.call('DEL', KEYS[1]) "
                            "for i = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], 'u') end return 1";

/* The answer to LPOP; the end of that to BLPOP. */
static const char token[] = {'$', '1', '\r', '\n', 'u', '\r', '\n'};

static size_t tokens_compose(const struct request *request, uint8_t *to, size_t room)
{
    char seconds[32], limit[16];
    snprintf(seconds, sizeof seconds, "%" PRId64, request->terms.timeout_ns / NS_PER_S);
    snprintf(limit, sizeof limit, "%" PRIu32, request->terms.limit);
    struct bytes take[] = {bytes_of("LPOP"), request->name};
    struct bytes wait[] = {bytes_of("BLPOP"), request->name, bytes_of(seconds)};
    struct bytes give[] = {bytes_of("RPUSH"), request->name, bytes_of("u")};
    struct bytes fill[] = {bytes_of("EVAL"), bytes_of(stock), bytes_of("1"), request->name,
                           bytes_of(limit)};
    struct bytes ping[] = {bytes_of("PING")};
    switch (request->ask) {
    case ASK_ACQUIRE:
        return resp_compose(take, ARRAY_SIZE(take), to, room);
    case ASK_WAIT:
        return resp_compose(wait, ARRAY_SIZE(wait), to, room);
    case ASK_RELEASE:
        return resp_compose(give, ARRAY_SIZE(give), to, room);
    case ASK_STOCK:
        return resp_compose(fill, ARRAY_SIZE(fill), to, room);
    default:
        return resp_compose(ping, ARRAY_SIZE(ping), to, room);
    }
}

/* An array of the name and the entry. */
static enum heard hear_pair(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    size_t used = 4, string = 0;
    *used_r = 0;
    for (unsigned i = 0; i < 2; i++, used += string) {
        if (len <= used)
            return HEARD_MORE;
        enum heard heard = resp_hear(0, data + used, len - used, &string, said);
        if (heard != HEARD_YES)
            return heard;
    }
    *used_r = used;
    return HEARD_YES;
}

static enum heard tokens_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                              char *said)
{
    *used_r = 0;
    if ((ask == ASK_ACQUIRE || ask == ASK_WAIT) && len > 0 && (data[0] == '$' || data[0] == '*')) {
        if (len < 5)
            return HEARD_MORE;
        if (memcmp(data + 1, "-1\r\n", 4) == 0) {
            *used_r = 5;
            return HEARD_NO;
        }
        if (memcmp(data, "*2\r\n", 4) == 0)
            return hear_pair(data, len, used_r, said);
    }
    return resp_hear(1, data, len, used_r, said);
}

static size_t tokens_hope(enum ask ask, uint32_t units, uint8_t *to, size_t room)
{
    (void)units;
    if (ask != ASK_ACQUIRE || room < sizeof token)
        return 0;
    memcpy(to, token, sizeof token);
    return sizeof token;
}

const struct protocol protocol_redis_tokens = {
    .name = "redis-tokens",
    .port = 6379,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_WAIT) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_STOCK) |
            ASK_BIT(ASK_HELLO),
    .help = "Redis: a semaphore on lists, by LPOP, BLPOP and RPUSH",
    .compose = tokens_compose,
    .hear = tokens_hear,
    .hope = tokens_hope,
};
