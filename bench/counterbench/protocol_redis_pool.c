/*
 * protocol_redis_pool.c - a pool on Redis's lists, as people make it: the free members are in a
 * list, and a client moves one to its own (redis_lists.h). To give it back the client takes it out
 * of its list and puts it into the other one.
 */
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/redis_lists.h"
#include "bench/counterbench/resp.h"

/* LREM and LPUSH in one go. */
static size_t compose_return(const struct request *request, uint8_t *to, size_t room)
{
    char list[REDIS_LIST_MAX];
    if (!redis_list_of_client(request, list))
        return 0;
    struct bytes remove[] = {bytes_of("LREM"), bytes_of(list), bytes_of("1"), request->member};
    struct bytes push[] = {bytes_of("LPUSH"), request->name, request->member};
    size_t first = resp_compose(remove, ARRAY_SIZE(remove), to, room);
    size_t second = resp_compose(push, ARRAY_SIZE(push), to + first, room - first);
    return first > 0 && second > 0 ? first + second : 0;
}

static size_t pool_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct bytes add[] = {bytes_of("RPUSH"), request->name, request->member};
    struct bytes drop[] = {bytes_of("DEL"), request->name};
    struct bytes ping[] = {bytes_of("PING")};
    switch (request->ask) {
    case ASK_TAKE:
        return redis_compose_move(request, to, room);
    case ASK_RETURN:
        return compose_return(request, to, room);
    case ASK_MEMBER:
        return resp_compose(add, ARRAY_SIZE(add), to, room);
    case ASK_UNMAKE:
        return resp_compose(drop, ARRAY_SIZE(drop), to, room);
    default: /* a list is made with its first member */
        return resp_compose(ping, ARRAY_SIZE(ping), to, room);
    }
}

/* One answer to LREM, one to LPUSH; both are at least 1. */
static enum heard hear_return(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    size_t first = 0, second = 0;
    enum heard removed = resp_hear(1, data, len, &first, said);
    *used_r = 0;
    if (removed == HEARD_MORE || removed == HEARD_BROKEN)
        return removed;
    if (len == first)
        return HEARD_MORE;
    enum heard pushed = resp_hear(1, data + first, len - first, &second, said);
    if (pushed == HEARD_MORE || pushed == HEARD_BROKEN)
        return pushed;
    *used_r = first + second;
    if (removed == HEARD_NO)
        protocol_say(said, "LREM has found nothing", 22);
    return removed == HEARD_YES && pushed == HEARD_YES ? HEARD_YES : HEARD_WRONG;
}

static enum heard pool_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                            char *said)
{
    if (ask == ASK_TAKE)
        return redis_hear_move(data, len, used_r, said);
    return ask == ASK_RETURN ? hear_return(data, len, used_r, said)
                             : resp_hear(0, data, len, used_r, said);
}

const struct protocol protocol_redis_pool = {
    .name = "redis-pool",
    .port = 6379,
    .asks = ASKS_COMPOSED | ASK_BIT(ASK_HELLO),
    .help = "Redis: a pool on lists, by BLMOVE, LREM and LPUSH",
    .compose = pool_compose,
    .hear = pool_hear,
};
