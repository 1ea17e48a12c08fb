/* text.c - see text.h. */
#include "admin/text.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `len` more bytes and a null byte. False: no memory. */
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

void text_printf(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CHECK(len >= 0);
    if (!reserve(t, (size_t)len))
        return;
    va_start(args, format);
    vsnprintf(t->data + t->len, (size_t)len + 1, format, args);
    va_end(args);
    t->len += (size_t)len;
}

void text_clear(struct text *t)
{
    t->len = 0;
    t->failed = false;
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

/* ---- spellings ----------------------------------------------------------------------------- */

void text_add_name(struct text *t, const uint8_t *name, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t size = utf8_decode(name + i, len - i, &code);
        if (size == 0 || name[i] < 0x20 || name[i] == 0x7f) {
            text_printf(t, "\\x%02x", name[i]);
            size = 1;
        } else if (name[i] == '\\') {
            text_add(t, "\\\\", 2);
        } else {
            text_add(t, name + i, size);
        }
        i += size;
    }
}

/* The characters that an id has as they are (RFC 3986: "unreserved"). */
static bool is_unreserved(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void text_add_id(struct text *t, const uint8_t *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (is_unreserved(name[i]))
            text_add(t, name + i, 1);
        else
            text_printf(t, "%%%02X", name[i]);
    }
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
            text_printf(t, "\\%c", value[i]);
        else if (size == 0)
            text_printf(t, "\\\\x%02x", (uint8_t)value[i]);
        else
            text_add(t, value + i, size);
        i += size ? size : 1;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool text_unpercent(const char *from, size_t len, uint8_t *to, size_t *len_r)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (from[i] != '%') {
            to[used++] = (uint8_t)from[i];
            continue;
        }
        int high = len - i > 2 ? hex_digit(from[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(from[i + 2]) : -1;
        if (low < 0)
            return false;
        to[used++] = (uint8_t)(high * 16 + low);
        i += 2;
    }
    *len_r = used;
    return true;
}
