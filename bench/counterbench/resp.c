/* resp.c - Redis's protocol (resp.h). */
#include "bench/counterbench/resp.h"

#include "base/number.h"

#include <stdio.h>

/* The longest line of an answer that we accept. */
#define LINE_MAX_BYTES 1024

/* Appends to `to` after *len_r. Returns false if it does not fit. */
static bool put(uint8_t *to, size_t room, size_t *len_r, const void *data, size_t len)
{
    if (len > room - *len_r)
        return false;
    memcpy(to + *len_r, data, len);
    *len_r += len;
    return true;
}

/* Appends a line of a mark and a number. */
static bool put_count(uint8_t *to, size_t room, size_t *len_r, char mark, size_t count)
{
    char line[32];
    int len = snprintf(line, sizeof line, "%c%zu\r\n", mark, count);
    return put(to, room, len_r, line, (size_t)len);
}

size_t resp_compose(const struct bytes *arguments, size_t count, uint8_t *to, size_t room)
{
    size_t len = 0;
    if (!put_count(to, room, &len, '*', count))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!put_count(to, room, &len, '$', arguments[i].len) ||
            !put(to, room, &len, arguments[i].data, arguments[i].len) ||
            !put(to, room, &len, "\r\n", 2))
            return 0;
    return len;
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

enum heard resp_hear(int64_t least, const uint8_t *data, size_t len, size_t *used_r, char *said)
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
