/*
 * message.c - lines, bodies and messages in what a link has read (link.h): where they end, and how
 * long they may be.
 */
#include "lib/link.h"

#include "base/number.h"
#include "proto/wire.h"

#define LINE_MAX_ANY 65536 /* of counter_link_next */
#define HEADER_SIZE  12    /* of the binary protocol */
#define HEADER_MAGIC 0x91  /* of its answers */
#define BINARY_MAX   65545 /* bytes behind it */

#define TOO_MANY_BYTES "its answer announces more bytes than any server's"

static int not_of_protocol(struct counter_link *link)
{
    static const char *const reasons[] = {
        [COUNTER_TEXT] = "the answer is not of the text protocol (is this the right port?)",
        [COUNTER_BINARY] = "the answer is not of the binary counter protocol (is this the right "
                           "port?)",
        [COUNTER_JOBS] = "the answer is not of the protocol of job queues (is this the right "
                         "port?)",
    };
    return link_malformed(link, link_unread(link), reasons[link->protocol]);
}

/* Finds the line at the start of the unread bytes: its length, and that of its end. */
static int find_line(struct counter_link *link, size_t max, size_t *len_r, size_t *end_r)
{
    struct bytes in = link_unread(link);
    bool has_cr = link->protocol == COUNTER_JOBS;
    size_t room = max + has_cr + 1 < in.len ? max + has_cr + 1 : in.len;
    const uint8_t *end = room > 0 ? memchr(in.data, '\n', room) : NULL;
    if (!end && in.len < max + has_cr + 1)
        return link_lack(link, max + 2, SIZE_MAX, in.len > 0);
    if (!end || (has_cr && (end == in.data || end[-1] != '\r')))
        return not_of_protocol(link);
    *len_r = (size_t)(end - in.data) - has_cr;
    *end_r = 1U + has_cr;
    return COUNTER_OK;
}

int link_line(counter_link *link, size_t max, struct bytes *line_r)
{
    size_t len = 0, end = 0;
    int status = find_line(link, max, &len, &end);
    if (status == COUNTER_OK)
        *line_r = bytes_at(link_take(link, len + end), len);
    return status;
}

int link_exactly(counter_link *link, size_t size, struct bytes *bytes_r)
{
    if (link_unread(link).len < size)
        return link_lack(link, size, LINK_CHUNK, true);
    *bytes_r = bytes_at(link_take(link, size), size);
    return COUNTER_OK;
}

/* The length of the body that a line of jobs announces, with the end behind it; 0: no body. */
static int body_of(struct counter_link *link, struct bytes line, size_t *size_r)
{
    struct bytes rest = line;
    uint64_t id, len = 0;
    *size_r = 0;
    bool is_job = bytes_take_text(&rest, "RESERVED ") || bytes_take_text(&rest, "FOUND ");
    if (!is_job && !bytes_take_text(&rest, "OK "))
        return COUNTER_OK;
    if (is_job && !(number_take(&rest, UINT64_MAX, &id) && bytes_take_text(&rest, " ")))
        return not_of_protocol(link);
    if (!number_take(&rest, UINT64_MAX, &len))
        return not_of_protocol(link);
    if (len > link->settings->max_body || len > SIZE_MAX / 2)
        return link_malformed(link, line, TOO_MANY_BYTES);
    *size_r = (size_t)len + 2;
    return COUNTER_OK;
}

/* Fills as much of the message as the caller knows of it. */
static int give(struct counter_message *message, struct bytes line, struct bytes body)
{
    struct counter_message all = {.size = message->size,
                                  .line = counter_bytes_at(line.data, line.len),
                                  .body = counter_bytes_at(body.data, body.len)};
    memcpy(message, &all, all.size < sizeof all ? all.size : sizeof all);
    return COUNTER_OK;
}

static int next_line(struct counter_link *link, struct counter_message *message)
{
    size_t len = 0, end = 0, body = 0;
    int status = find_line(link, LINE_MAX_ANY, &len, &end);
    if (status == COUNTER_OK && link->protocol == COUNTER_JOBS)
        status = body_of(link, bytes_at(link_unread(link).data, len), &body);
    if (status != COUNTER_OK)
        return status;
    struct bytes in = link_unread(link);
    size_t size = len + end + body;
    if (in.len < size)
        return link_lack(link, size, LINK_CHUNK, true);
    if (body > 0 && memcmp(in.data + size - 2, "\r\n", 2) != 0)
        return not_of_protocol(link);
    (void)link_take(link, size);
    return give(message, bytes_at(in.data, len),
                bytes_at(in.data + len + end, body > 0 ? body - 2 : 0));
}

static int next_binary(struct counter_link *link, struct counter_message *message)
{
    struct bytes in = link_unread(link);
    if (in.len > 0 && in.data[0] != HEADER_MAGIC)
        return not_of_protocol(link);
    if (in.len < HEADER_SIZE)
        return link_lack(link, HEADER_SIZE, SIZE_MAX, in.len > 0);
    size_t body = wire_load_u32(in.data + 4);
    if (body > BINARY_MAX)
        return link_malformed(link, bytes_at(in.data, HEADER_SIZE), TOO_MANY_BYTES);
    if (in.len < HEADER_SIZE + body)
        return link_lack(link, HEADER_SIZE + body, LINK_CHUNK, true);
    (void)link_take(link, HEADER_SIZE + body);
    return give(message, bytes_at(in.data, HEADER_SIZE), bytes_at(in.data + HEADER_SIZE, body));
}

static int next_raw(struct counter_link *link, struct counter_message *message)
{
    struct bytes in = link_unread(link);
    if (in.len == 0)
        return link_lack(link, 0, SIZE_MAX, false);
    (void)link_take(link, in.len);
    return give(message, (struct bytes){0}, in);
}

int counter_link_next(counter_link *link, struct counter_message *message)
{
    if (link->protocol == COUNTER_RAW)
        return next_raw(link, message);
    return link->protocol == COUNTER_BINARY ? next_binary(link, message) : next_line(link, message);
}
