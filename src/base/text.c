/* text.c - see text.h. */
#include "base/text.h"

#include "base/number.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

void (*text_no_memory)(void);

/* Makes room for `len` more bytes and a null byte. Returns false when out of memory. */
static bool reserve(struct text *t, size_t len)
{
    if (t->failed)
        return false;
    if (t->room - t->len > len)
        return true;
    size_t room = t->room ? t->room : 256;
    while (room && room - t->len <= len)
        room = room <= SIZE_MAX / 2 ? room * 2 : 0;
    char *data = room ? realloc(t->data, room) : NULL;
    if (!data) {
        t->failed = true;
        if (text_no_memory)
            text_no_memory();
        return false;
    }
    t->data = data;
    t->room = room;
    return true;
}

void text_add(struct text *t, const void *bytes, size_t len)
{
    if (!reserve(t, len))
        return;
    if (len > 0)
        memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void text_vaddf(struct text *t, const char *format, va_list values)
{
    va_list again;
    va_copy(again, values);
    int len = vsnprintf(NULL, 0, format, again); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    va_end(again);
    CHECK(len >= 0);
    if (!reserve(t, (size_t)len))
        return;
    vsnprintf(t->data + t->len, (size_t)len + 1, format, values);
    t->len += (size_t)len;
}

void text_addf(struct text *t, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    text_vaddf(t, format, values);
    va_end(values);
}

/* Characters that need no encoding in a URL (RFC 3986: "unreserved"). */
static bool is_unreserved(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void text_add_percent(struct text *t, struct bytes from)
{
    for (size_t i = 0; i < from.len; i++) {
        if (is_unreserved(from.data[i]))
            text_add(t, from.data + i, 1);
        else
            text_addf(t, "%%%02X", from.data[i]);
    }
}

void text_add_escaped(struct text *t, struct bytes from, bool (*may_stay)(uint32_t code),
                      bool doubled)
{
    while (from.len > 0) {
        uint32_t code = 0;
        size_t size = utf8_decode(from.data, from.len, &code);
        bool stays = size > 0 && may_stay(code);
        struct bytes one = bytes_at(from.data, size > 0 ? size : 1);
        (void)bytes_take(&from, one.len);
        if (stays && code == '\\' && doubled)
            text_add(t, "\\", 1);
        if (stays)
            text_add(t, one.data, one.len);
        for (size_t i = 0; !stays && i < one.len; i++)
            text_addf(t, "\\x%02x", one.data[i]);
    }
}

static bool is_no_control(uint32_t code)
{
    return code >= 0x20 && code != 0x7f;
}

void text_add_readable(struct text *t, struct bytes name)
{
    text_add_escaped(t, name, is_no_control, true);
}

bool text_unpercent(const char *from, size_t len, uint8_t *to, size_t *len_r)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (from[i] != '%') {
            to[used++] = (uint8_t)from[i];
            continue;
        }
        unsigned high = len - i > 2 ? number_hex_digit(from[i + 1]) : 16;
        unsigned low = high < 16 ? number_hex_digit(from[i + 2]) : 16;
        if (low == 16)
            return false;
        to[used++] = (uint8_t)(high * 16 + low);
        i += 2;
    }
    *len_r = used;
    return true;
}

void text_add_label(struct text *t, const char *value)
{
    size_t len = strlen(value);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t size = utf8_decode((const uint8_t *)value + i, len - i, &code);
        if (value[i] == '\n')
            text_add(t, "\\n", 2);
        else if (value[i] == '"' || value[i] == '\\')
            text_addf(t, "\\%c", value[i]);
        else if (size == 0)
            text_addf(t, "\\\\x%02x", (uint8_t)value[i]);
        else
            text_add(t, value + i, size);
        i += size ? size : 1;
    }
}

const char *text_str(const struct text *t)
{
    return t->data ? t->data : "";
}

struct bytes text_bytes(const struct text *t)
{
    return bytes_at(text_str(t), t->len);
}

void text_clear(struct text *t)
{
    t->len = 0;
    t->failed = false;
    if (t->data)
        t->data[0] = '\0';
}

char *text_take(struct text *t, size_t *len_r)
{
    char *data = t->data;
    *len_r = t->len;
    if (t->failed) {
        free(data);
        data = NULL;
    }
    *t = (struct text){0};
    return data;
}

void text_free(struct text *t)
{
    free(t->data);
    *t = (struct text){0};
}
