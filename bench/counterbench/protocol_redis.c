/*
 * protocol_redis.c - what people make of Redis instead: tables of commands.
 *
 * redis-incr counts with INCR and DECR. redis-lua is a semaphore by two scripts, one to take and
 * one to give back; both keep the count within its bounds, and a connection first loads them.
 * redis-tokens is a semaphore on lists: each free unit is an entry, which somebody must first put
 * there (workload_pairs.c), and what a client has taken is gone when it dies. In redis-pool and
 * redis-jobs BLMOVE moves the oldest entry to the client's own list, so that it is not lost with
 * the client; LREM takes it out there when it is done. Somebody must look through the lists of
 * clients that have gone; that is not measured.
 */
#include "base/clock.h"
#include "base/number.h"
#include "bench/counterbench/protocol.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

/* The most bytes of a job, of the name of a client's list, and words of a command. */
#define JOB_MAX   60000
#define LIST_MAX  512
#define WORDS_MAX 8

/* Takes a unit if a limit is given, else gives one back. */
static const char semaphore[] =
    "local n = tonumber(redis.call('GET', KEYS[1]) or '0') "
    "if ARGV[1] then "
    "if n < tonumber(ARGV[1]) then redis.call('INCR', KEYS[1]) return 1 end return 0 end "
    "if n > 1 then redis.call('DECR', KEYS[1]) elseif n == 1 then redis.call('DEL', KEYS[1]) "
    "else return 0 end return 1";

static const char stock[] = "redis.call('DEL', KEYS[1]) "
                            "for i = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], 'u') end return 1";

/* How an answer is judged. */
enum judged {
    ANY,   /* success, unless it is an error */
    COUNT, /* a number below 1 is a refusal */
    FOUND, /* a number below 1 is wrong */
    BOTH,  /* two of these */
    TOKEN, /* an entry, or none */
    ENTRY, /* the same; it is what the answer says */
    JOB    /* the same; it begins with the stamp, which is all that DELETE needs */
};

/*
 * Commands, with ';' between two that go together; without words PING, as a list needs nothing
 * before. %n name, %m member, %c the client's list, %l limit, %s seconds of the timeout, %h the
 * hash of the script %S, %K the script that stocks, %p the job of the stamp, %d that of the stamp
 * which the answer has said.
 */
struct command {
    const char *words;
    enum judged judged;
};

static const struct command incr[ASK_COUNT] = {
    [ASK_ACQUIRE] = {"INCR %n", COUNT},
    [ASK_RELEASE] = {"DECR %n", ANY},
};

static const struct command lua[ASK_COUNT] = {
    [ASK_HELLO] = {"SCRIPT LOAD %S", ANY},
    [ASK_ACQUIRE] = {"EVALSHA %h 1 %n %l", COUNT},
    [ASK_RELEASE] = {"EVALSHA %h 1 %n", FOUND},
};

static const struct command tokens[ASK_COUNT] = {
    [ASK_ACQUIRE] = {"LPOP %n", TOKEN},
    [ASK_WAIT] = {"BLPOP %n %s", TOKEN},
    [ASK_RELEASE] = {"RPUSH %n u", COUNT},
    [ASK_STOCK] = {"EVAL %K 1 %n %l", COUNT},
};

static const struct command pool[ASK_COUNT] = {
    [ASK_TAKE] = {"BLMOVE %n %c RIGHT LEFT %s", ENTRY},
    [ASK_RETURN] = {"LREM %c 1 %m;LPUSH %n %m", BOTH},
    [ASK_MEMBER] = {"RPUSH %n %m", ANY},
    [ASK_UNMAKE] = {"DEL %n", ANY},
};

/* The oldest of the worker's list is at its end, where LREM begins to look. */
static const struct command jobs[ASK_COUNT] = {
    [ASK_PUT] = {"LPUSH %n %p", FOUND},
    [ASK_RESERVE] = {"BLMOVE %n %c RIGHT LEFT %s", JOB},
    [ASK_DELETE] = {"LREM %c -1 %d", FOUND},
};

/* ---- Redis's protocol: arrays of strings, and numbers, strings or errors --------------------- */

/* The longest line of an answer that we accept. */
#define LINE_MAX_BYTES 1024

/* Writes a command of `count` arguments. 0: it does not fit. */
static size_t resp_compose(const struct bytes *arguments, size_t count, uint8_t *to, size_t room)
{
    char line[32];
    size_t len = 0, size = (size_t)snprintf(line, sizeof line, "*%zu\r\n", count);
    for (size_t i = 0;; i++) {
        if (size > room - len)
            return 0;
        memcpy(to + len, line, size);
        len += size;
        if (i == count)
            return len;
        size_t more = arguments[i].len;
        size = (size_t)snprintf(line, sizeof line, "$%zu\r\n", more);
        if (size + more + 2 > room - len)
            return 0;
        memcpy(to + len, line, size);
        memcpy(to + len + size, arguments[i].data, more);
        len += size + more;
        size = (size_t)snprintf(line, sizeof line, "\r\n");
    }
}

/* The number after a line's mark; too large a number becomes the largest one. */
static int64_t number_of(const uint8_t *line, size_t len)
{
    struct bytes in = bytes_at(line + 1, len - 1);
    bool is_negative = bytes_take_text(&in, "-");
    uint64_t value;
    (void)number_take(&in, INT64_MAX, &value);
    return is_negative ? -(int64_t)value : (int64_t)value;
}

/* Judges an answer: YES for a string and for a number of at least `least`, NO for a smaller number,
   WRONG for an error. */
static enum heard resp_hear(int64_t least, const uint8_t *data, size_t len, size_t *used_r,
                            char *said)
{
    *used_r = 0;
    size_t window = len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES;
    const uint8_t *end = memchr(data, '\n', window);
    if (!end && window < LINE_MAX_BYTES)
        return HEARD_MORE;
    size_t line = end ? (size_t)(end - data) : window;
    if (end && line > 0 && data[line - 1] == '\r') {
        *used_r = line + 1;
        line--;
        if (data[0] == '+')
            return HEARD_YES;
        if (data[0] == ':')
            return number_of(data, line) >= least ? HEARD_YES : HEARD_NO;
        if (data[0] == '$' && number_of(data, line) >= 0) {
            uint64_t body = (uint64_t)number_of(data, line); /* a line end follows it */
            bool whole = len - *used_r >= 2 && body <= len - *used_r - 2;
            *used_r = whole ? *used_r + (size_t)body + 2 : 0;
            return whole ? HEARD_YES : HEARD_MORE;
        }
        if (data[0] == '-') {
            protocol_say(said, data + 1, line - 1);
            return HEARD_WRONG;
        }
    }
    protocol_say(said, data, line);
    *used_r = 0;
    return HEARD_BROKEN;
}

/* ---- composing ------------------------------------------------------------------------------- */

/* The values of the words of one request. */
struct values {
    char list[LIST_MAX], number[32], hash[41];
    uint8_t job[JOB_MAX];
};

static bool take_job(const struct request *request, int64_t stamp_ns, struct values *values,
                     struct bytes *word_r)
{
    *word_r = bytes_at(values->job, request->terms.body);
    if (request->terms.body > JOB_MAX)
        return false;
    protocol_write_body(stamp_ns, values->job, request->terms.body);
    return true;
}

/* The name of the script for EVALSHA: its SHA-1 in hexadecimal. */
static struct bytes hash_of_script(char hash[41])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    CHECK(EVP_Digest(semaphore, sizeof semaphore - 1, digest, &len, EVP_sha1(), NULL) == 1 &&
          len == 20);
    for (unsigned i = 0; i < len; i++)
        snprintf(hash + 2 * (size_t)i, 3, "%02x", digest[i]);
    return bytes_of(hash);
}

/* The word that stands for a letter. Returns false if it does not fit. */
static bool take_word(char letter, const struct request *request, struct values *values,
                      struct bytes *word_r)
{
    int len = 0;
    uint64_t stamp = 0;
    switch (letter) {
    case 'n':
        *word_r = request->name;
        return true;
    case 'm':
        *word_r = request->member;
        return true;
    case 'S':
        *word_r = bytes_of(semaphore);
        return true;
    case 'K':
        *word_r = bytes_of(stock);
        return true;
    case 'h':
        *word_r = hash_of_script(values->hash);
        return true;
    case 'p':
        return take_job(request, request->stamp_ns, values, word_r);
    case 'd':
        return number_parse(request->member, INT64_MAX, &stamp) &&
               take_job(request, (int64_t)stamp, values, word_r);
    case 'c':
        len = snprintf(values->list, LIST_MAX, "%.*s:%" PRIu32, (int)request->name.len,
                       (const char *)request->name.data, request->client);
        *word_r = bytes_of(values->list);
        return len < LIST_MAX;
    default:
        snprintf(values->number, sizeof values->number, "%" PRId64,
                 letter == 'l' ? request->terms.limit : request->terms.timeout_ns / NS_PER_S);
        *word_r = bytes_of(values->number);
        return true;
    }
}

static size_t compose(const struct command *commands, const struct request *request, uint8_t *to,
                      size_t room)
{
    struct values values;
    struct bytes words[WORDS_MAX];
    size_t len = 0, count = 0;
    for (const char *at = commands[request->ask].words ? commands[request->ask].words : "PING";;) {
        size_t size = strcspn(at, " ;");
        CHECK(count < WORDS_MAX);
        words[count] = bytes_at(at, size);
        if (at[0] == '%' && !take_word(at[1], request, &values, &words[count]))
            return 0;
        count++;
        at += size;
        if (*at != ' ') {
            size_t more = resp_compose(words, count, to + len, room - len);
            len += more;
            count = 0;
            if (more == 0 || *at == '\0')
                return more == 0 ? 0 : len;
        }
        at++;
    }
}

/* ---- judging --------------------------------------------------------------------------------- */

static enum heard hear_found(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    enum heard heard = resp_hear(1, data, len, used_r, said);
    if (heard != HEARD_NO)
        return heard;
    protocol_say(said, "nothing was found", 17);
    return HEARD_WRONG;
}

/* Two answers; an error of the first is told. */
static enum heard hear_both(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    size_t first = 0, second = 0;
    char other[SAID_ROOM] = "";
    *used_r = 0;
    enum heard one = hear_found(data, len, &first, said);
    if (one == HEARD_MORE || one == HEARD_BROKEN)
        return one;
    if (len == first)
        return HEARD_MORE;
    enum heard two = hear_found(data + first, len - first, &second, other);
    if (two == HEARD_MORE || two == HEARD_BROKEN)
        return two;
    *used_r = first + second;
    if (one == HEARD_YES)
        memcpy(said, other, sizeof other);
    return one == HEARD_YES ? two : one;
}

/* An entry; none: the time is over; or an array of the name and the entry, from BLPOP. */
static enum heard hear_entry(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    size_t used = 0, parts = 1;
    *used_r = 0;
    if (len > 0 && (data[0] == '$' || data[0] == '*')) {
        if (len < 5)
            return HEARD_MORE;
        if (memcmp(data + 1, "-1\r\n", 4) == 0) {
            *used_r = 5;
            return HEARD_NO;
        }
        if (memcmp(data, "*2\r\n", 4) == 0) {
            used = 4;
            parts = 2;
        }
    }
    for (; parts > 0; parts--) {
        size_t start = used, string = 0;
        if (len <= used)
            return HEARD_MORE;
        enum heard heard = resp_hear(0, data + used, len - used, &string, said);
        if (heard != HEARD_YES) {
            *used_r = heard == HEARD_WRONG ? used + string : 0;
            return heard;
        }
        used += string;
        if (parts == 1 && data[start] == '$') {
            const uint8_t *text = (const uint8_t *)memchr(data + start, '\n', string) + 1;
            protocol_say(said, text, used - (size_t)(text - data) - 2);
        }
    }
    *used_r = used;
    return HEARD_YES;
}

static enum heard hear_job(const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    enum heard heard = hear_entry(data, len, used_r, said);
    if (heard != HEARD_YES)
        return heard;
    if (strlen(said) < STAMP_LENGTH)
        return HEARD_WRONG;
    said[STAMP_LENGTH] = ' '; /* the stamp twice */
    memcpy(said + STAMP_LENGTH + 1, said, STAMP_LENGTH);
    said[2 * STAMP_LENGTH + 1] = '\0';
    return HEARD_YES;
}

static enum heard hear(const struct command *command, const uint8_t *data, size_t len,
                       size_t *used_r, char *said)
{
    switch (command->judged) {
    case FOUND:
        return hear_found(data, len, used_r, said);
    case BOTH:
        return hear_both(data, len, used_r, said);
    case TOKEN:
    case ENTRY:
        return hear_entry(data, len, used_r, said);
    case JOB:
        return hear_job(data, len, used_r, said);
    default:
        return resp_hear(command->judged == COUNT, data, len, used_r, said);
    }
}

/* ---- the protocols --------------------------------------------------------------------------- */

#define PROTOCOL(table, called, has, does, ...)                                                    \
    static size_t table##_compose(const struct request *request, uint8_t *to, size_t room)         \
    {                                                                                              \
        return compose(table, request, to, room);                                                  \
    }                                                                                              \
    static enum heard table##_hear(enum ask ask, const uint8_t *data, size_t len, size_t *used_r,  \
                                   char *said)                                                     \
    {                                                                                              \
        return hear(&table[ask], data, len, used_r, said);                                         \
    }                                                                                              \
    const struct protocol protocol_redis_##table = {.name = called,                                \
                                                    .port = 6379,                                  \
                                                    .asks = (has) | ASK_BIT(ASK_HELLO),            \
                                                    .help = "Redis: " does,                        \
                                                    .compose = table##_compose,                    \
                                                    .hear = table##_hear,                          \
                                                    __VA_ARGS__};

PROTOCOL(incr, "redis-incr", ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE), "INCR and DECR")
PROTOCOL(
    lua, "redis-lua", ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE), "a semaphore in Lua, by EVALSHA",
    .hopes = {
        [ASK_ACQUIRE] = BYTES_OF_LITERAL(":1\r\n"), [ASK_RELEASE] = BYTES_OF_LITERAL(":1\r\n")})
PROTOCOL(tokens, "redis-tokens",
         ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_WAIT) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_STOCK),
         "a semaphore on lists, by LPOP, BLPOP and RPUSH",
         .hopes = {[ASK_ACQUIRE] = BYTES_OF_LITERAL("$1\r\nu\r\n")})
PROTOCOL(pool, "redis-pool", ASKS_OF_POOLS, "a pool on lists, by BLMOVE, LREM and LPUSH")
PROTOCOL(jobs, "redis-jobs", ASKS_OF_JOBS & ~ASK_BIT(ASK_BATCH),
         "a queue on lists, by LPUSH, BLMOVE and LREM")
