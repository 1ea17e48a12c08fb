/*
 * protocol_text.c - the PoolCounter protocol, as counterd and poolcounterd speak it. A unit is a
 * lock. Pools are counterd's alone; a member is given back by its fence. And memcached's `version`,
 * for the workload idle.
 */
#include "base/number.h"
#include "bench/counterbench/protocol.h"
#include "proto/poolcounter.h"
#include "proto/pools.h"

/* The longest line of an answer that we accept. */
#define LINE_MAX_BYTES 8192

static const struct bytes waiting_stat = {.data = (const uint8_t *)"waiting_workers", .len = 15};

/* ---- pools ----------------------------------------------------------------------------------- */

static size_t pool_compose(const struct request *request, uint8_t *to, size_t room)
{
    static const char address[] = "10.0.0.7:5432";
    struct pool_request line = {.pool = request->name};
    switch (request->ask) {
    case ASK_TAKE:
        line = (struct pool_request){.verb = POOL_VERB_TAKE,
                                     .count = 1,
                                     .target_count = 1,
                                     .targets = {request->name},
                                     .timeout_ns = request->terms.timeout_ns};
        break;
    case ASK_RETURN:
        line =
            (struct pool_request){.verb = POOL_VERB_RETURN, .has_fence = request->member.len > 0};
        if (line.has_fence && !number_parse(request->member, UINT64_MAX, &line.fence))
            return 0;
        break;
    case ASK_MAKE:
        line.verb = POOL_VERB_POOL_ADD;
        line.pair_count = 1;
        line.pairs[0] = (struct pool_pair){bytes_of("queue_max"), bytes_of("4294967295")};
        break;
    case ASK_UNMAKE:
        line.verb = POOL_VERB_POOL_DROP;
        line.now = true;
        break;
    default:
        line.verb = POOL_VERB_MEMBER_ADD;
        line.member = request->member;
        line.value = bytes_of(address);
        break;
    }
    return pool_compose_request(&line, to, room);
}

/* Copies the fence, the third word behind TAKEN, to `said`. Returns false if there is none. */
static bool hear_taken(struct bytes line, char *said)
{
    if (!bytes_take_text(&line, "TAKEN "))
        return false;
    for (unsigned words = 0; words < 2; words++) {
        const uint8_t *space = memchr(line.data, ' ', line.len);
        if (!space)
            return false;
        (void)bytes_take(&line, (size_t)(space - line.data) + 1);
    }
    const uint8_t *space = memchr(line.data, ' ', line.len);
    if (!space)
        return false;
    protocol_say(said, line.data, (size_t)(space - line.data));
    return true;
}

static enum heard pool_hear(enum ask ask, struct bytes line, char *said)
{
    static const char *const good[ASK_COUNT] = {
        [ASK_RETURN] = "RETURNED", [ASK_MAKE] = "OK", [ASK_UNMAKE] = "OK", [ASK_MEMBER] = "OK"};
    if (ask == ASK_TAKE ? hear_taken(line, said) : bytes_equal(line, bytes_of(good[ask])))
        return HEARD_YES;
    if (ask == ASK_UNMAKE && bytes_equal(line, bytes_of("ERROR NO_POOL")))
        return HEARD_YES;
    if (ask == ASK_TAKE &&
        (bytes_equal(line, bytes_of("TIMEOUT")) || bytes_equal(line, bytes_of("QUEUE_FULL"))))
        return HEARD_NO;
    protocol_say(said, line.data, line.len);
    return HEARD_WRONG;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static size_t text_compose(const struct request *request, uint8_t *to, size_t room)
{
    if (ASKS_OF_POOLS & ASK_BIT(request->ask))
        return pool_compose(request, to, room);
    static const enum pc_verb verbs[ASK_COUNT] = {
        [ASK_ACQUIRE] = PC_ACQ4ME, [ASK_RELEASE] = PC_RELEASE, [ASK_WAIT] = PC_ACQ4ME,
        [ASK_SHARE] = PC_ACQ4ANY,  [ASK_WAITING] = PC_STATS,
    };
    struct pc_request line = {.verb = verbs[request->ask], .key = request->name};
    if (request->ask == ASK_WAITING)
        line.subject = waiting_stat;
    else if (request->ask != ASK_RELEASE) {
        line.workers = request->terms.limit;
        line.maxqueue = request->terms.queue;
        line.timeout_ns = request->terms.timeout_ns;
    }
    return pc_compose_request(&line, to, room);
}

/* Copies the number after the label of a STATS line to `said`. */
static bool hear_number(struct bytes line, char *said)
{
    const uint8_t *colon = memmem(line.data, line.len, ": ", 2);
    if (!colon)
        return false;
    size_t label = (size_t)(colon - line.data) + 2;
    protocol_say(said, line.data + label, line.len - label);
    return true;
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
    if (ASKS_OF_POOLS & ASK_BIT(ask))
        return pool_hear(ask, line, said);
    if (ask == ASK_WAITING && hear_number(line, said))
        return HEARD_YES;
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
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_WAIT) | ASK_BIT(ASK_SHARE) |
            ASK_BIT(ASK_WAITING) | ASKS_OF_POOLS,
    .help = "PoolCounter: ACQ4ME and RELEASE; TAKE and RETURN",
    .compose = text_compose,
    .hear = text_hear,
    .hopes = {[ASK_ACQUIRE] = BYTES_OF_LITERAL("LOCKED\n"),
              [ASK_WAIT] = BYTES_OF_LITERAL("LOCKED\n"),
              [ASK_RELEASE] = BYTES_OF_LITERAL("RELEASED\n")},
};

/* Of a server that sends every byte back: the least that one of such packets can cost. */
const struct protocol protocol_echo_text = {
    .name = "echo-text",
    .port = 7531,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE),
    .help = "sends the requests of \"text\" to an echo server, which returns them",
    .compose = text_compose,
    .is_echo = true,
};

/* ---- memcached ------------------------------------------------------------------------------- */

static size_t memcached_compose(const struct request *request, uint8_t *to, size_t room)
{
    (void)request;
    const struct bytes hello = bytes_of("version\r\n");
    if (room < hello.len)
        return 0;
    memcpy(to, hello.data, hello.len);
    return hello.len;
}

static enum heard memcached_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,
                                 char *said)
{
    (void)ask;
    const uint8_t *end = memchr(data, '\n', len);
    struct bytes line = bytes_at(data, len);
    bool is_good = end && bytes_take_text(&line, "VERSION ");
    *used_r = is_good ? (size_t)(end - data) + 1 : 0;
    if (!end && len < SAID_ROOM)
        return HEARD_MORE;
    protocol_say(said, data, len);
    return is_good ? HEARD_YES : HEARD_BROKEN;
}

const struct protocol protocol_memcached = {
    .name = "memcached",
    .port = 11211,
    .asks = ASK_BIT(ASK_HELLO),
    .help = "memcached: version; only for idle",
    .compose = memcached_compose,
    .hear = memcached_hear,
};
