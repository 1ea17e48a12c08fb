/*
 * protocol_redis.c - counting on Redis in the two usual ways: a bare INCR and DECR, and a semaphore
 * in Lua.
 *
 * EVALSHA runs the semaphore's two scripts, one to take and one to give back; both keep the count
 * within its bounds. A connection first loads the scripts.
 */
#include "bench/counterbench/protocol.h"
#include "bench/counterbench/resp.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

/* Takes a unit if a limit is given, else gives one back. */
static const char script[] =
    "local n = tonumber(redis.call('GET', KEYS[1]) or '0') "
    "if ARGV[1] then "
    "if n < tonumber(ARGV[1]) then redis.call('INCR', KEYS[1]) return 1 end return 0 end "
    "if n > 1 then redis.call('DECR', KEYS[1]) elseif n == 1 then redis.call('DEL', KEYS[1]) "
    "else return 0 end return 1";

static enum heard redis_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                             char *said)
{
    return resp_hear(ask == ASK_RELEASE ? 0 : 1, data, len, used_r, said);
}

/* ---- INCR and DECR --------------------------------------------------------------------------- */

static size_t incr_compose(const struct request *request, uint8_t *to, size_t room)
{
    struct bytes words[] = {bytes_of(request->ask == ASK_HELLO     ? "PING"
                                     : request->ask == ASK_ACQUIRE ? "INCR"
                                                                   : "DECR"),
                            request->name};
    return resp_compose(words, request->ask == ASK_HELLO ? 1 : 2, to, room);
}

/* ---- a semaphore ----------------------------------------------------------------------------- */

/* The name of a script for EVALSHA: its SHA-1 in hexadecimal. */
static void script_name(char name[41])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    CHECK(EVP_Digest(script, sizeof script - 1, digest, &len, EVP_sha1(), NULL) == 1 && len == 20);
    for (unsigned i = 0; i < len; i++)
        snprintf(name + 2 * (size_t)i, 3, "%02x", digest[i]);
}

static size_t lua_compose(const struct request *request, uint8_t *to, size_t room)
{
    if (request->ask == ASK_HELLO) {
        struct bytes words[] = {bytes_of("SCRIPT"), bytes_of("LOAD"), bytes_of(script)};
        return resp_compose(words, ARRAY_SIZE(words), to, room);
    }
    char sha[41], limit[16];
    script_name(sha);
    snprintf(limit, sizeof limit, "%" PRIu32, request->terms.limit);
    struct bytes words[] = {bytes_of("EVALSHA"), bytes_of(sha), bytes_of("1"), request->name,
                            bytes_of(limit)};
    size_t count = request->ask == ASK_ACQUIRE ? ARRAY_SIZE(words) : ARRAY_SIZE(words) - 1;
    return resp_compose(words, count, to, room);
}

static enum heard lua_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                           char *said)
{
    enum heard heard = resp_hear(1, data, len, used_r, said);
    if (heard == HEARD_NO && ask == ASK_RELEASE) {
        snprintf(said, SAID_ROOM, "0: nothing was taken");
        return HEARD_WRONG;
    }
    return heard;
}

static size_t lua_hope(enum ask ask, uint32_t units, uint8_t *to, size_t room)
{
    static const char one[] = {':', '1', '\r', '\n'};
    (void)units;
    if (ask == ASK_HELLO || room < sizeof one)
        return 0;
    memcpy(to, one, sizeof one);
    return sizeof one;
}

const struct protocol protocol_redis_incr = {
    .name = "redis-incr",
    .port = 6379,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_HELLO),
    .help = "Redis: INCR and DECR",
    .compose = incr_compose,
    .hear = redis_hear,
};

const struct protocol protocol_redis_lua = {
    .name = "redis-lua",
    .port = 6379,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_HELLO),
    .help = "Redis: a semaphore in Lua, by EVALSHA",
    .compose = lua_compose,
    .hear = lua_hear,
    .hope = lua_hope,
};
