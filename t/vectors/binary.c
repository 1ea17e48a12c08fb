/* binary.c - the codec of the binary protocol (proto/counter.h): requests and replies. */
#include "base/check.h"
#include "proto/counter.h"
#include "t/vectors/vectors.h"

#include <stdlib.h>

static const char *const results[] = {
    [CTR_OK] = PARSED,         [CTR_MORE] = MORE,           [CTR_BAD_ARGS] = "BAD_ARGS",
    [CTR_UNKNOWN] = "UNKNOWN", [CTR_TOO_LONG] = "TOO_LONG", [CTR_BAD_MAGIC] = "BAD_MAGIC",
};

/* ---- Requests -------------------------------------------------------------------------------- */

static const char *parse_request(struct stream *stream, const uint8_t *data, size_t len,
                                 struct message *message, size_t *used_r)
{
    (void)stream;
    struct ctr_request *req = (void *)message->body;
    enum ctr_parsed parsed = ctr_parse_request(data, len, req, used_r);
    message->kind = req->opcode;
    return results[parsed];
}

static size_t compose_request(const struct message *message, uint8_t *to, size_t room)
{
    struct ctr_request req = *(const struct ctr_request *)(const void *)message->body;
    req.opcode = (uint8_t)message->kind;
    return ctr_compose_request(&req, to, room);
}

const struct codec binary_request = {
    .name = "binary.request",
#define ROW(name, number, word) [number] = #name,
    .kinds = (const char *const[]){CTR_OPCODES(ROW)},
#undef ROW
    .kind_count = CTR_DUMP + 1,
    .fields = (const struct field[]){FIELD(HEX, struct ctr_request, opaque),
                                     FIELD(NUMBER, struct ctr_request, units),
                                     FIELD(NUMBER, struct ctr_request, maximum),
                                     FIELD(BYTES, struct ctr_request, name),
                                     {0}},
    .parse = parse_request,
    .compose = compose_request,
    .header = CTR_HEADER,
    .errors_have_parts = true,
    .takes_any_parts = true,
};

/* ---- Replies --------------------------------------------------------------------------------- */

enum { STATUS, VALUE, DUMPED, STATS, ENDING, HEAD, BODY };

struct reply {
    uint8_t opcode, status, opaque[4];
    uint32_t number, peak;
    struct bytes name, body;
    size_t pair_count;
    struct pair pairs[16];
};

/* Says of the body what it is for this opcode. */
static size_t read_body(const struct ctr_reply *from, struct reply *to)
{
    const char *text = ctr_status_text(from->status);
    struct pair pair;
    if ((from->opcode == CTR_GET || from->opcode == CTR_ACQUIRE) &&
        ctr_reply_number(from, &to->number))
        return VALUE;
    if (from->opcode == CTR_DUMP && ctr_reply_dump(from, &to->number, &to->peak, &to->name))
        return DUMPED;
    if (bytes_equal(from->body, bytes_of(text)))
        return STATUS;
    if (bytes_equal(from->body, bytes_of(CTR_SHUTTING_DOWN)) &&
        from->status == CTR_STATUS_NOT_AVAILABLE)
        return ENDING;
    to->body = from->body;
    if (from->opcode != CTR_STATS)
        return BODY;
    while (to->pair_count < 16 && ctr_reply_stat(&to->body, &pair.key, &pair.value))
        to->pairs[to->pair_count++] = pair;
    return STATS;
}

static const char *parse_reply(struct stream *stream, const uint8_t *data, size_t len,
                               struct message *message, size_t *used_r)
{
    (void)stream;
    struct reply *reply = (void *)message->body;
    struct ctr_reply from;
    enum ctr_parsed parsed = ctr_parse_reply(data, len, &from, used_r);
    *reply = (struct reply){.opcode = from.opcode, .status = from.status};
    memcpy(reply->opaque, from.opaque, 4);
    if (parsed != CTR_OK && from.body.len > 0)
        fail("an incomplete reply has a body");
    message->kind = parsed == CTR_OK ? read_body(&from, reply) : BODY;
    return results[parsed];
}

/* Bodies that are wrong, and pairs that are no strings of C. */
static bool is_for_reading(const struct message *message)
{
    const struct reply *reply = (const void *)message->body;
    bool wrong = message->kind == BODY || (message->kind == STATS && reply->body.len > 0);
    for (size_t i = 0; i < reply->pair_count; i++) {
        struct pair pair = reply->pairs[i];
        wrong |= (pair.key.len > 0 && memchr(pair.key.data, 0, pair.key.len)) ||
                 (pair.value.len > 0 && memchr(pair.value.data, 0, pair.value.len));
    }
    return wrong;
}

/* A copy as a string of C. strndup looks behind the bytes when ASan checks strings strictly. */
static char *text_of(const struct bytes *bytes)
{
    char *text = calloc(1, bytes->len + 1);
    CHECK(text);
    if (bytes->len > 0)
        memcpy(text, bytes->data, bytes->len);
    return text;
}

/* Only ctr_compose_stat knows its room: the others get what they are documented to need. */
static size_t compose_reply(const struct message *message, uint8_t *to, size_t room)
{
    const struct reply *reply = (const void *)message->body;
    const uint8_t *opaque = reply->opaque;
    size_t len = 0,
           whole = message->kind == DUMPED ? CTR_DUMP_LEN(reply->name.len) : CTR_REPLY_ROOM;
    if (message->kind == HEAD)
        whole = CTR_HEADER;
    if (is_for_reading(message))
        return 0;
    uint8_t *exact = malloc(whole);
    CHECK(exact);
    switch (message->kind) {
    case STATUS:
        len = ctr_compose_status(reply->opcode, opaque, (enum ctr_status)reply->status, exact);
        break;
    case VALUE:
        len = ctr_compose_number(reply->opcode, opaque, reply->number, exact);
        break;
    case DUMPED:
        len = ctr_compose_dump(opaque, reply->number, reply->peak, reply->name, exact);
        break;
    case ENDING:
        len = ctr_compose_shutting_down(reply->opcode, opaque, exact);
        break;
    case STATS:
    case HEAD:
        len = ctr_compose_header(reply->opcode, opaque, (enum ctr_status)reply->status,
                                 reply->number, exact);
    }
    size_t pairs_len = 0, pair_len = 1;
    for (size_t i = 0; i < reply->pair_count && pair_len > 0 && room >= CTR_HEADER; i++) {
        const struct pair *pair = &reply->pairs[i];
        char *name = text_of(&pair->key);
        char *value = text_of(&pair->value);
        pair_len = ctr_compose_stat(name, value, to + CTR_HEADER + pairs_len,
                                    room - CTR_HEADER - pairs_len);
        pairs_len += pair_len;
        free(name);
        free(value);
    }
    if (message->kind == STATS && len > 0)
        (void)wire_store_u32(exact + 4, (uint32_t)pairs_len);
    bool fits = len > 0 && len + pairs_len <= room && pair_len > 0;
    if (fits)
        memcpy(to, exact, len);
    free(exact);
    return fits ? len + pairs_len : 0;
}

const struct codec binary_reply = {
    .name = "binary.reply",
    .kinds = (const char *const[]){"STATUS", "NUMBER", "DUMP", "STATS", "SHUTTING_DOWN", "HEADER",
                                   "BODY"},
    .kind_count = BODY + 1,
    .fields = (const struct field[]){FIELD(NUMBER, struct reply, opcode),
                                     FIELD(NUMBER, struct reply, status),
                                     FIELD(HEX, struct reply, opaque),
                                     FIELD(NUMBER, struct reply, number),
                                     FIELD(NUMBER, struct reply, peak),
                                     FIELD(BYTES, struct reply, name),
                                     ARRAY(PAIRS, struct reply, pairs, pair_count),
                                     FIELD(BYTES, struct reply, body),
                                     {0}},
    .parse = parse_reply,
    .compose = compose_reply,
    .is_for_reading = is_for_reading,
    .header = CTR_HEADER,
    .errors_have_parts = true,
    .takes_any_parts = true,
};
