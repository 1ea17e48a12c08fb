/*
 * text.c - tests the codec of the text protocol: requests, replies, statistics.
 *
 * The first byte chooses among them, the second the maximum line length. Promises: a parsed message
 * parses the same without the bytes after it; a prefix of a message is MORE, and MORE becomes
 * another result with a line end; composing a parsed message, or any request at all, gives bytes
 * that parse as the same message.
 */
#include "fuzz/fuzz.h"
#include "proto/poolcounter.h"

static const size_t max_lines[] = {8192, 16, 64, 300, 70000, 1, 0, SIZE_MAX};

/* Only about this many prefixes of a message are tested. */
#define BEGINNINGS 8

static bool same(struct bytes a, struct bytes b)
{
    return same_bytes(a.data, a.len, b.data, b.len);
}

static bool same_request(const struct pc_request *a, const struct pc_request *b)
{
    return a->verb == b->verb && same(a->key, b->key) && a->workers == b->workers &&
           a->maxqueue == b->maxqueue && a->timeout_ns == b->timeout_ns &&
           same(a->subject, b->subject);
}

/* The result of a parser, for requests or replies. */
struct answer {
    enum pc_parsed parsed;
    size_t used;
    struct pc_request request;
    enum pc_reply reply;
    struct bytes line;
};

typedef struct answer parser(const uint8_t *data, size_t len, size_t max_line);

static struct answer parse_request(const uint8_t *data, size_t len, size_t max_line)
{
    struct answer a = {.used = SIZE_MAX};
    a.parsed = pc_parse_request(data, len, max_line, &a.request, &a.used);
    return a;
}

static struct answer parse_reply(const uint8_t *data, size_t len, size_t max_line)
{
    struct answer a = {.used = SIZE_MAX};
    a.parsed = pc_parse_reply(data, len, max_line, &a.reply, &a.line, &a.used);
    CHECK(a.parsed != PC_BAD_COMMAND && a.parsed != PC_BAD_SYNTAX);
    return a;
}

static bool same_answer(const struct answer *a, const struct answer *b)
{
    return a->parsed == b->parsed && a->used == b->used && same_request(&a->request, &b->request) &&
           a->reply == b->reply && same(a->line, b->line);
}

/* Checks prefixes of a message of `len` bytes: the shortest, the longest, and some between. */
static void check_beginnings(parser *parse, const uint8_t *data, size_t len, size_t max_line)
{
    size_t step = len / BEGINNINGS + 1;
    for (size_t at = 0; at < len; at += step)
        CHECK(parse(data, at, max_line).parsed == PC_MORE);
    if (len > 0)
        CHECK(parse(data, len - 1, max_line).parsed == PC_MORE);
}

/* Checks a whole line: the bytes after it must not matter. */
static void check_whole(parser *parse, const uint8_t *data, size_t len, size_t max_line,
                        const struct answer *a)
{
    CHECK(a->used > 0 && a->used <= len && data[a->used - 1] == '\n');
    CHECK(a->used - 1 <= max_line || (a->used - 2 <= max_line && data[a->used - 2] == '\r'));
    uint8_t *alone = exact_copy(data, a->used);
    struct answer again = parse(alone, a->used, max_line);
    CHECK(same_answer(a, &again));
    check_beginnings(parse, alone, a->used, max_line);
    free(alone);
}

/* Checks MORE: a line end completes the line, and all prefixes are MORE too. */
static void check_more(parser *parse, const uint8_t *data, size_t len, size_t max_line,
                       const struct answer *a)
{
    CHECK(a->used == 0);
    check_beginnings(parse, data, len, max_line);
    uint8_t *ended = malloc(len + 1);
    CHECK(ended);
    if (len > 0)
        memcpy(ended, data, len);
    ended[len] = '\n';
    struct answer whole = parse(ended, len + 1, max_line);
    CHECK(whole.parsed != PC_MORE && whole.parsed != PC_LINE_TOO_LONG && whole.used == len + 1);
    free(ended);
}

/* Checks a line that is too long: it must be refused within max_line + 2 bytes. */
static void check_too_long(parser *parse, const uint8_t *data, size_t len, size_t max_line,
                           const struct answer *a)
{
    CHECK(a->used == 0 && len > max_line);
    CHECK(!memchr(data, '\n', max_line < len ? max_line + 1 : len));
    check_beginnings(parse, data, max_line, max_line);
    if (len - max_line > 2)
        CHECK(parse(data, max_line + 2, max_line).parsed == PC_LINE_TOO_LONG);
}

/*
 * Composes a request and parses it. A parsed request can always be composed, with one exception
 * below.
 */
static void check_composed(const struct pc_request *request, bool was_read)
{
    size_t room = request->key.len + request->subject.len + 96;
    uint8_t *to = malloc(room);
    CHECK(to);
    size_t len = pc_compose_request(request, to, room);
    /*
     * Exception: a CR in a subject is parsed but never composed; at the end it would belong to the
     * line end.
     */
    bool has_cr =
        request->subject.len > 0 && memchr(request->subject.data, '\r', request->subject.len);
    CHECK(len > 0 || !was_read || has_cr);
    if (len > 0) {
        struct answer a = parse_request(to, len, len);
        bool is_limited = request->verb == PC_ACQ4ANY || request->verb == PC_ACQ4ME;
        bool no_limit = is_limited && (request->workers == 0 || request->maxqueue == 0);
        CHECK(a.used == len && a.parsed == (no_limit ? PC_BAD_SYNTAX : PC_OK));
        CHECK(no_limit || !was_read || same_request(&a.request, request));
        for (size_t less = 0; less < len && less < BEGINNINGS; less++) {
            uint8_t *tight = malloc(len - less);
            CHECK(tight);
            CHECK(pc_compose_request(request, tight, len - less) == (less == 0 ? len : 0));
            free(tight);
        }
    }
    free(to);
}

static void check_message(parser *parse, const struct answer *a)
{
    if (a->parsed != PC_OK)
        return;
    if (parse == parse_request) {
        check_composed(&a->request, true);
    } else if (a->reply == PC_REPLY_OTHER) {
        struct pc_stats stats = {0};
        (void)pc_parse_stats_line(a->line, &stats);
    } else {
        struct bytes line = pc_reply_line(a->reply);
        CHECK(line.len == a->line.len + 1 && memcmp(line.data, a->line.data, a->line.len) == 0);
    }
}

static void check_stream(parser *parse, const uint8_t *data, size_t len, size_t max_line)
{
    for (;;) {
        struct answer a = parse(data, len, max_line);
        check_message(parse, &a);
        switch (a.parsed) {
        case PC_MORE:
            check_more(parse, data, len, max_line, &a);
            return;
        case PC_LINE_TOO_LONG:
            check_too_long(parse, data, len, max_line, &a);
            return;
        default:
            check_whole(parse, data, len, max_line, &a);
        }
        data += a.used;
        len -= a.used;
    }
}

/* Composes any request; the parser could not have produced most of them. */
static void compose_any(struct input *in)
{
    size_t key_len = input_byte(in);
    struct pc_request request = {.verb = (enum pc_verb)(input_byte(in) % 5),
                                 .workers = (uint32_t)input_number(in, 4),
                                 .maxqueue = (uint32_t)input_number(in, 4)};
    request.timeout_ns = (int64_t)input_number(in, 8);
    request.key.data = input_bytes(in, key_len, &request.key.len);
    request.subject.data = input_bytes(in, in->left, &request.subject.len);
    check_composed(&request, false);
}

/*
 * Composes any statistics and parses them. All values stay the same, except that times are rounded
 * down to microseconds.
 */
static void compose_stats(struct input *in)
{
    struct pc_stats stats, read = {0};
    memset(&stats, 0, sizeof(stats));
    size_t len, line_len;
    const uint8_t *from = input_bytes(in, sizeof(stats), &len);
    if (len > 0)
        memcpy(&stats, from, len);
    char to[PC_STATS_ROOM];
    struct bytes subject = {0};
    subject.data = input_bytes(in, in->left, &subject.len);
    size_t answer = pc_compose_stats(&stats, subject, to, sizeof(to));
    CHECK(answer <= sizeof(to) && (answer == 0 || to[answer - 1] == '\n'));
    size_t full = pc_compose_stats(&stats, (struct bytes){0}, to, sizeof(to));
    CHECK(full > 2 && memcmp(to + full - 2, "\n\n", 2) == 0);
    for (const char *at = to; *at != '\n'; at += line_len + 1) {
        line_len = (size_t)((const char *)memchr(at, '\n', full) - at);
        struct bytes line = {.data = (const uint8_t *)at, .len = line_len};
        CHECK(pc_parse_stats_line(line, &read));
    }
#define ROW(name) CHECK(read.name == stats.name);
    PC_COUNTS(ROW)
#undef ROW
    CHECK(read.uptime_s == stats.uptime_s);
    pc_ns told_ns = stats.waiting_ns < PC_NS_MAX ? stats.waiting_ns : PC_NS_MAX;
    CHECK(read.waiting_ns == told_ns / 1000 * 1000);
    char again[PC_STATS_ROOM];
    read.processing_ns = stats.processing_ns; /* the answer has only the average */
    CHECK(pc_compose_stats(&read, (struct bytes){0}, again, sizeof(again)) == full &&
          memcmp(to, again, full) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    uint8_t mode = input_byte(&in);
    if (mode % 8 == 6) {
        compose_any(&in);
    } else if (mode % 8 == 7) {
        compose_stats(&in);
    } else {
        size_t max_line = max_lines[input_byte(&in) % ARRAY_SIZE(max_lines)];
        check_stream(mode % 2 ? parse_reply : parse_request, in.at, in.left, max_line);
    }
    return 0;
}
