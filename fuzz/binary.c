/*
 * binary.c - tests the codec of the binary protocol: requests, replies, and the contents of
 * replies.
 *
 * The first byte chooses among them. Promises: a parsed message parses the same without the bytes
 * after it; a prefix of a message is MORE, which never claims more bytes than the message has; MORE
 * becomes another result when the claimed number of bytes is there; composing a parsed message
 * gives bytes that parse as the same message.
 */
#include "fuzz/fuzz.h"
#include "proto/counter.h"

#define BEGINNINGS 8

/* Longer messages are not completed with zeros. */
#define MADE_UP_MAX ((size_t)1 << 17)

static bool same(struct bytes a, struct bytes b)
{
    return same_bytes(a.data, a.len, b.data, b.len);
}

/* The result of a parser, for requests or replies. */
struct answer {
    enum ctr_parsed parsed;
    size_t used;
    struct ctr_request request;
    struct ctr_reply reply;
};

typedef struct answer parser(const uint8_t *data, size_t len);

static struct answer parse_request(const uint8_t *data, size_t len)
{
    struct answer a = {.used = SIZE_MAX};
    a.parsed = ctr_parse_request(data, len, &a.request, &a.used);
    return a;
}

static struct answer parse_reply(const uint8_t *data, size_t len)
{
    struct answer a = {.used = SIZE_MAX};
    a.parsed = ctr_parse_reply(data, len, &a.reply, &a.used);
    CHECK(a.parsed != CTR_BAD_ARGS && a.parsed != CTR_UNKNOWN);
    return a;
}

static bool same_request(const struct ctr_request *a, const struct ctr_request *b)
{
    return a->opcode == b->opcode && memcmp(a->opaque, b->opaque, 4) == 0 && a->units == b->units &&
           a->maximum == b->maximum && same(a->name, b->name);
}

static bool same_answer(const struct answer *a, const struct answer *b)
{
    return a->parsed == b->parsed && a->used == b->used && same_request(&a->request, &b->request) &&
           a->reply.opcode == b->reply.opcode && a->reply.status == b->reply.status &&
           memcmp(a->reply.opaque, b->reply.opaque, 4) == 0 && same(a->reply.body, b->reply.body);
}

static void check_beginning(parser *parse, const uint8_t *data, size_t at, size_t len)
{
    struct answer a = parse(data, at);
    CHECK(a.parsed == CTR_MORE && a.used > at && a.used <= len);
    CHECK(a.used == (at < CTR_HEADER ? CTR_HEADER : len));
}

/* Checks prefixes of a message of `len` bytes; `data` has the first `there` of them. */
static void check_beginnings(parser *parse, const uint8_t *data, size_t there, size_t len)
{
    size_t step = there / BEGINNINGS + 1;
    for (size_t at = 0; at < there; at += step)
        check_beginning(parse, data, at, len);
    if (there > 0)
        check_beginning(parse, data, there - 1, len);
}

static void check_whole(parser *parse, const uint8_t *data, size_t len, const struct answer *a)
{
    CHECK(a->used >= CTR_HEADER && a->used <= len);
    uint8_t *alone = exact_copy(data, a->used);
    struct answer again = parse(alone, a->used);
    CHECK(same_answer(a, &again));
    check_beginnings(parse, alone, a->used, a->used);
    free(alone);
}

static void check_more(parser *parse, const uint8_t *data, size_t len, const struct answer *a)
{
    CHECK(a->used > len && a->used >= CTR_HEADER);
    CHECK(len >= CTR_HEADER || a->used == CTR_HEADER);
    check_beginnings(parse, data, len, a->used);
    if (a->used > MADE_UP_MAX)
        return;
    uint8_t *made_up = calloc(1, a->used);
    CHECK(made_up);
    if (len > 0)
        memcpy(made_up, data, len);
    struct answer whole = parse(made_up, a->used);
    /* The header was completed with zeros, so the message has no body. */
    CHECK(whole.parsed != CTR_MORE || len < CTR_HEADER);
    free(made_up);
}

/* Checks a message that was refused: after its first byte, or after its header. */
static void check_refused(parser *parse, const uint8_t *data, size_t len, const struct answer *a)
{
    bool magic = a->parsed == CTR_BAD_MAGIC;
    CHECK(a->used == 0 && len >= (magic ? 1 : CTR_HEADER));
    struct answer early = parse(data, magic ? 1 : CTR_HEADER);
    CHECK(early.parsed == a->parsed);
    if (!magic)
        check_beginnings(parse, data, CTR_HEADER, CTR_HEADER);
}

/* Composes a request and parses it. */
static void check_composed(const struct ctr_request *request, bool was_read)
{
    size_t room = CTR_HEADER + CTR_BODY_MAX;
    uint8_t *to = malloc(room);
    CHECK(to);
    size_t len = ctr_compose_request(request, to, room);
    CHECK(len > 0 || !was_read);
    if (len > 0) {
        struct answer a = parse_request(to, len);
        CHECK(a.used == len && (a.parsed == CTR_OK || (!was_read && a.parsed == CTR_BAD_ARGS)));
        CHECK(!was_read || same_request(&a.request, request));
        uint8_t *tight = malloc(len);
        CHECK(tight);
        CHECK(ctr_compose_request(request, tight, len) == len && memcmp(tight, to, len) == 0);
        CHECK(ctr_compose_request(request, tight, len - 1) == 0);
        free(tight);
    }
    free(to);
}

/* Checks that composing the contents of a reply gives the same reply. */
static void check_reply(const struct ctr_reply *reply)
{
    uint32_t number, consumption, peak;
    struct bytes name = {0}, value = {0}, body = reply->body;
    if (ctr_reply_number(reply, &number)) {
        uint8_t to[CTR_REPLY_ROOM];
        size_t len = ctr_compose_number(reply->opcode, reply->opaque, number, to);
        CHECK(same_bytes(to + CTR_HEADER, len - CTR_HEADER, body.data, body.len));
    }
    if (ctr_reply_dump(reply, &consumption, &peak, &name)) {
        uint8_t *to = malloc(CTR_DUMP_LEN(name.len));
        CHECK(to && name.len > 0);
        size_t len = ctr_compose_dump(reply->opaque, consumption, peak, name, to);
        CHECK(len == CTR_DUMP_LEN(name.len));
        CHECK(same_bytes(to + CTR_HEADER, len - CTR_HEADER, body.data, body.len));
        free(to);
    }
    while (ctr_reply_stat(&body, &name, &value)) {
        CHECK(name.data >= reply->body.data && name.data + name.len == value.data);
        CHECK(value.data + value.len == body.data);
    }
    CHECK(body.len <= reply->body.len);
    /* The text of every status can be parsed. */
    uint8_t to[CTR_REPLY_ROOM];
    size_t len =
        ctr_compose_status(reply->opcode, reply->opaque, (enum ctr_status)reply->status, to);
    struct answer a = parse_reply(to, len);
    CHECK(a.parsed == CTR_OK && a.used == len && a.reply.status == reply->status);
    const char *text = ctr_status_text(reply->status);
    CHECK(same_bytes(a.reply.body.data, a.reply.body.len, text, strlen(text)));
}

static void check_stream(parser *parse, const uint8_t *data, size_t len)
{
    for (;;) {
        struct answer a = parse(data, len);
        if (a.parsed == CTR_OK && parse == parse_request)
            check_composed(&a.request, true);
        else if (a.parsed == CTR_OK)
            check_reply(&a.reply);
        switch (a.parsed) {
        case CTR_MORE:
            check_more(parse, data, len, &a);
            return;
        case CTR_TOO_LONG:
        case CTR_BAD_MAGIC:
            check_refused(parse, data, len, &a);
            return;
        default:
            check_whole(parse, data, len, &a);
        }
        data += a.used;
        len -= a.used;
    }
}

/* Composes any request, and a name-value pair of a Stats body. */
static void compose_any(struct input *in)
{
    struct ctr_request request = {.opcode = input_byte(in)};
    for (size_t i = 0; i < sizeof(request.opaque); i++)
        request.opaque[i] = input_byte(in);
    request.units = (uint32_t)input_number(in, 4);
    request.maximum = (uint32_t)input_number(in, 4);
    size_t room = input_byte(in);
    request.name.data = input_bytes(in, in->left, &request.name.len);
    check_composed(&request, false);

    uint8_t *name = malloc(request.name.len + 1), *to = malloc(room ? room : 1);
    CHECK(name && to);
    if (request.name.len > 0)
        memcpy(name, request.name.data, request.name.len);
    name[request.name.len] = 0;
    size_t len = ctr_compose_stat((const char *)name, "value", to, room);
    struct bytes body = {.data = to, .len = len}, name_read, value_read;
    if (len > 0)
        CHECK(ctr_reply_stat(&body, &name_read, &value_read) && body.len == 0 &&
              same_bytes(name_read.data, name_read.len, name, strlen((char *)name)));
    free(name);
    free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    uint8_t mode = input_byte(&in);
    if (mode % 8 == 7)
        compose_any(&in);
    else
        check_stream(mode % 2 ? parse_reply : parse_request, in.at, in.left);
    return 0;
}
