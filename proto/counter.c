/*
 * counter.c - parses and composes messages of the binary counter protocol.
 *
 * Requests and replies have the same framing. The header has the length of the body. A message that
 * can be refused from its header is refused at once, so its body is never buffered. A table has one
 * row per opcode with the fields of its request. The same row drives parsing and composing; fields
 * always have the same order.
 */
#include "proto/counter.h"

#include "base/check.h"

/* Offsets of the header's fields. */
#define AT_OPCODE   1
#define AT_STATUS   2
#define AT_BODY_LEN 4
#define AT_OPAQUE   8

/* ---- Frames ---------------------------------------------------------------------------------- */

/* The frame of a request is that of a reply; what is the status there are its flags. */

/* parse_frame for an incomplete header: takes the bytes that have arrived; the rest is 0. */
static enum ctr_parsed parse_begun_frame(const uint8_t *data, size_t len, uint8_t magic,
                                         struct ctr_reply *frame_r, size_t *used_r)
{
    uint8_t header[CTR_HEADER] = {0};
    if (len > 0)
        memcpy(header, data, len);
    *frame_r = (struct ctr_reply){.opcode = header[AT_OPCODE], .status = header[AT_STATUS]};
    memcpy(frame_r->opaque, header + AT_OPAQUE, sizeof(frame_r->opaque));
    bool good = len == 0 || header[0] == magic;
    *used_r = good ? CTR_HEADER : 0;
    return good ? CTR_MORE : CTR_BAD_MAGIC;
}

/*
 * Returns CTR_OK, MORE, TOO_LONG or BAD_MAGIC; sets *frame_r and *used_r as documented for the
 * parsers.
 */
static inline enum ctr_parsed parse_frame(const uint8_t *data, size_t len, uint8_t magic,
                                          uint32_t body_max, struct ctr_reply *frame_r,
                                          size_t *used_r)
{
    if (len < CTR_HEADER)
        return parse_begun_frame(data, len, magic, frame_r, used_r);
    *frame_r = (struct ctr_reply){.opcode = data[AT_OPCODE], .status = data[AT_STATUS]};
    memcpy(frame_r->opaque, data + AT_OPAQUE, sizeof(frame_r->opaque));
    *used_r = 0;
    if (data[0] != magic)
        return CTR_BAD_MAGIC;
    uint32_t body_len = wire_load_u32(data + AT_BODY_LEN);
    if (body_len > body_max)
        return CTR_TOO_LONG;
    *used_r = CTR_HEADER + (size_t)body_len;
    if (len < *used_r)
        return CTR_MORE;
    frame_r->body = bytes_at(data + CTR_HEADER, body_len);
    return CTR_OK;
}

static uint8_t *store_header(uint8_t magic, uint8_t opcode, uint8_t status, const uint8_t opaque[4],
                             uint32_t body_len, uint8_t *to)
{
    *to++ = magic;
    *to++ = opcode;
    *to++ = status;
    *to++ = 0;
    to = wire_store_u32(to, body_len);
    memcpy(to, opaque, 4);
    return to + 4;
}

static uint8_t *store_bytes(uint8_t *to, const void *data, size_t len)
{
    if (len > 0)
        memcpy(to, data, len);
    return to + len;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/*
 * The body of each opcode's request: its fields, in this order, and the body's length without the
 * bytes of the name.
 */
static const struct shape {
    bool known;
    bool units;
    bool maximum;
    bool name;
    uint8_t fixed;
} shapes[] = {
#define SHAPE(units, maximum, name)                                                                \
    {                                                                                              \
        true, units, maximum, name, (units)*4 + (maximum)*4 + (name)*2                             \
    }
    [CTR_NOOP] = SHAPE(0, 0, 0),    [CTR_GET] = SHAPE(0, 0, 1),   [CTR_ACQUIRE] = SHAPE(1, 1, 1),
    [CTR_RELEASE] = SHAPE(1, 0, 1), [CTR_STATS] = SHAPE(0, 0, 0), [CTR_DUMP] = SHAPE(0, 0, 0),
#undef SHAPE
};

static const struct shape *shape_of(uint8_t opcode)
{
    return opcode < ARRAY_SIZE(shapes) && shapes[opcode].known ? &shapes[opcode] : NULL;
}

/*
 * Reads the fields of `shape` into *req. Returns false, and leaves *req alone, when they are
 * invalid.
 */
static inline bool read_fields(const struct shape *shape, struct bytes body,
                               struct ctr_request *req)
{
    if (body.len < shape->fixed)
        return false;
    const uint8_t *at = body.data;
    uint32_t units = 0;
    uint32_t maximum = 0;
    struct bytes name = {0};
    if (shape->units) {
        units = wire_load_u32(at);
        at += 4;
    }
    if (shape->maximum) {
        maximum = wire_load_u32(at);
        at += 4;
        if (units == 0 || units > maximum)
            return false;
    }
    if (shape->name) {
        name = (struct bytes){.data = at + 2, .len = wire_load_u16(at)};
        if (name.len == 0 || name.len > body.len - shape->fixed)
            return false;
    }
    req->units = units;
    req->maximum = maximum;
    req->name = name;
    return true;
}

enum ctr_parsed ctr_parse_request(const uint8_t *data, size_t len, struct ctr_request *req_r,
                                  size_t *used_r)
{
    struct ctr_reply frame;
    enum ctr_parsed framed =
        parse_frame(data, len, CTR_MAGIC_REQUEST, CTR_BODY_MAX, &frame, used_r);
    *req_r = (struct ctr_request){.opcode = frame.opcode};
    memcpy(req_r->opaque, frame.opaque, sizeof(req_r->opaque));
    if (framed != CTR_OK)
        return framed;
    const struct shape *shape = shape_of(frame.opcode);
    if (!shape)
        return CTR_UNKNOWN;
    return read_fields(shape, frame.body, req_r) ? CTR_OK : CTR_BAD_ARGS;
}

size_t ctr_compose_request(const struct ctr_request *req, uint8_t *to, size_t room)
{
    const struct shape *shape = shape_of(req->opcode);
    if (!shape || (shape->name && req->name.len > CTR_NAME_MAX))
        return 0;
    size_t body_len = shape->fixed + (shape->name ? req->name.len : 0);
    if (room < CTR_HEADER + body_len)
        return 0;
    to = store_header(CTR_MAGIC_REQUEST, req->opcode, 0, req->opaque, (uint32_t)body_len, to);
    if (shape->units)
        to = wire_store_u32(to, req->units);
    if (shape->maximum)
        to = wire_store_u32(to, req->maximum);
    if (shape->name) {
        to = wire_store_u16(to, (uint16_t)req->name.len);
        (void)store_bytes(to, req->name.data, req->name.len);
    }
    return CTR_HEADER + body_len;
}

/* ---- Replies, composed by the server --------------------------------------------------------- */

static struct bytes status_text(uint8_t status)
{
    switch (status) {
#define ROW(name, number, text)                                                                    \
    case CTR_STATUS_##name:                                                                        \
        return (struct bytes)BYTES_OF_LITERAL(text);
        CTR_STATUSES(ROW)
#undef ROW
    default:
        return (struct bytes)BYTES_OF_LITERAL("");
    }
}

const char *ctr_status_text(uint8_t status)
{
    return (const char *)status_text(status).data;
}

size_t ctr_compose_header(uint8_t opcode, const uint8_t opaque[4], enum ctr_status status,
                          uint32_t body_len, uint8_t *to)
{
    store_header(CTR_MAGIC_REPLY, opcode, (uint8_t)status, opaque, body_len, to);
    return CTR_HEADER;
}

static size_t compose_text(uint8_t opcode, const uint8_t opaque[4], enum ctr_status status,
                           struct bytes text, uint8_t *to)
{
    to += ctr_compose_header(opcode, opaque, status, (uint32_t)text.len, to);
    (void)store_bytes(to, text.data, text.len);
    return CTR_HEADER + text.len;
}

size_t ctr_compose_status(uint8_t opcode, const uint8_t opaque[4], enum ctr_status status,
                          uint8_t *to)
{
    return compose_text(opcode, opaque, status, status_text((uint8_t)status), to);
}

size_t ctr_compose_shutting_down(uint8_t opcode, const uint8_t opaque[4], uint8_t *to)
{
    struct bytes text = BYTES_OF_LITERAL(CTR_SHUTTING_DOWN);
    return compose_text(opcode, opaque, CTR_STATUS_NOT_AVAILABLE, text, to);
}

size_t ctr_compose_number(uint8_t opcode, const uint8_t opaque[4], uint32_t number, uint8_t *to)
{
    to += ctr_compose_header(opcode, opaque, CTR_STATUS_SUCCESS, 4, to);
    (void)wire_store_u32(to, number);
    return CTR_HEADER + 4;
}

size_t ctr_compose_dump(const uint8_t opaque[4], uint32_t consumption, uint32_t peak,
                        struct bytes name, uint8_t *to)
{
    to += ctr_compose_header(CTR_DUMP, opaque, CTR_STATUS_SUCCESS, 10 + (uint32_t)name.len, to);
    to = wire_store_u32(to, consumption);
    to = wire_store_u32(to, peak);
    to = wire_store_u16(to, (uint16_t)name.len);
    (void)store_bytes(to, name.data, name.len);
    return CTR_DUMP_LEN(name.len);
}

size_t ctr_compose_stat(const char *name, const char *value, uint8_t *to, size_t room)
{
    size_t name_len = strlen(name);
    size_t value_len = strlen(value);
    if (name_len > UINT16_MAX || value_len > UINT16_MAX || room < 4 + name_len + value_len)
        return 0;
    to = wire_store_u16(to, (uint16_t)name_len);
    to = wire_store_u16(to, (uint16_t)value_len);
    to = store_bytes(to, name, name_len);
    (void)store_bytes(to, value, value_len);
    return 4 + name_len + value_len;
}

/* ---- Replies, parsed by a client ------------------------------------------------------------- */

enum ctr_parsed ctr_parse_reply(const uint8_t *data, size_t len, struct ctr_reply *reply_r,
                                size_t *used_r)
{
    return parse_frame(data, len, CTR_MAGIC_REPLY, CTR_REPLY_BODY_MAX, reply_r, used_r);
}

bool ctr_reply_number(const struct ctr_reply *reply, uint32_t *number_r)
{
    if (reply->status != CTR_STATUS_SUCCESS || reply->body.len != 4)
        return false;
    *number_r = wire_load_u32(reply->body.data);
    return true;
}

bool ctr_reply_dump(const struct ctr_reply *reply, uint32_t *consumption_r, uint32_t *peak_r,
                    struct bytes *name_r)
{
    struct bytes rest = reply->body;
    uint32_t consumption = wire_take_u32(&rest);
    uint32_t peak = wire_take_u32(&rest);
    struct bytes name = {.len = wire_take_u16(&rest)};
    name.data = bytes_take(&rest, name.len);
    if (reply->status != CTR_STATUS_SUCCESS || !rest.data || rest.len > 0 || name.len == 0)
        return false;
    *consumption_r = consumption;
    *peak_r = peak;
    *name_r = name;
    return true;
}

bool ctr_reply_stat(struct bytes *body, struct bytes *name_r, struct bytes *value_r)
{
    struct bytes rest = *body;
    struct bytes name = {.len = wire_take_u16(&rest)};
    struct bytes value = {.len = wire_take_u16(&rest)};
    name.data = bytes_take(&rest, name.len);
    value.data = bytes_take(&rest, value.len);
    if (!rest.data)
        return false;
    *body = rest;
    *name_r = name;
    *value_r = value;
    return true;
}
