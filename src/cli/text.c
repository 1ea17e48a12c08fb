/*
 * text.c - a text that grows, and names as text (text.h).
 */
#include "cli/text.h"

#include "base/utf8.h"
#include "cli/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void out_of_memory(void)
{
    static const char message[] = "counterctl: out of memory\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    exit(STATUS_INTERNAL); /* NOLINT(concurrency-mt-unsafe): one thread */
}

/* --- The text -------------------------------------------------------------------------------- */

/* Makes room for `more` bytes and a NUL. */
static void make_room(struct text *text, size_t more)
{
    if (more < text->room && text->len < text->room - more)
        return;
    size_t room = text->room ? text->room : 64;
    while (room - text->len <= more) {
        if (room > SIZE_MAX / 2 - text->len)
            out_of_memory();
        room *= 2;
    }
    char *data = realloc(text->data, room);
    if (!data)
        out_of_memory();
    text->data = data;
    text->room = room;
}

void text_add(struct text *to, const void *data, size_t len)
{
    make_room(to, len);
    if (len > 0)
        memcpy(to->data + to->len, data, len);
    to->len += len;
    to->data[to->len] = '\0';
}

void text_addf(struct text *to, const char *format, ...)
{
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int len = vsnprintf(NULL, 0, format, values);
    va_end(values);
    CHECK(len >= 0);
    make_room(to, (size_t)len);
    CHECK(vsnprintf(to->data + to->len, (size_t)len + 1, format, again) == len);
    va_end(again);
    to->len += (size_t)len;
}

const char *text_str(const struct text *text)
{
    return text->data ? text->data : "";
}

void text_clear(struct text *text)
{
    text->len = 0;
    if (text->data)
        text->data[0] = '\0';
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

struct bytes text_bytes(const struct text *text)
{
    return bytes_at(text_str(text), text->len);
}

/* --- Names ---------------------------------------------------------------------------------- */

/* Appends bytes with what can't be shown as \xNN, and backslashes doubled if told so. */
static void add_escaped(struct text *to, struct bytes from, bool double_backslash)
{
    for (size_t i = 0; i < from.len;) {
        uint32_t code = 0;
        size_t n = utf8_decode(from.data + i, from.len - i, &code);
        if (n == 0 || !utf8_is_showable(code)) {
            for (size_t end = i + (n ? n : 1); i < end; i++)
                text_addf(to, "\\x%02x", from.data[i]);
            continue;
        }
        if (code == '\\' && double_backslash)
            text_add(to, "\\", 1);
        text_add(to, from.data + i, n);
        i += n;
    }
}

void text_add_name(struct text *to, struct bytes name)
{
    add_escaped(to, name, true);
}

void text_add_shown(struct text *to, const char *shown)
{
    add_escaped(to, bytes_of(shown), false);
}

static bool is_unreserved(uint8_t byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

void text_add_percent(struct text *to, struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (is_unreserved(name.data[i]))
            text_add(to, name.data + i, 1);
        else
            text_addf(to, "%%%02X", name.data[i]);
    }
}

/* The value of a hexadecimal digit; -1 where it is none. */
static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

bool text_add_unescaped(struct text *to, const char *escaped, size_t len, size_t *at_r)
{
    for (size_t i = 0; i < len; i++) {
        if (escaped[i] != '\\') {
            text_add(to, escaped + i, 1);
        } else if (len - i >= 2 && escaped[i + 1] == '\\') {
            text_add(to, "\\", 1);
            i += 1;
        } else if (len - i >= 4 && escaped[i + 1] == 'x' && hex_value(escaped[i + 2]) >= 0 &&
                   hex_value(escaped[i + 3]) >= 0) {
            uint8_t byte = (uint8_t)(hex_value(escaped[i + 2]) << 4 | hex_value(escaped[i + 3]));
            text_add(to, &byte, 1);
            i += 3;
        } else {
            *at_r = i;
            return false;
        }
    }
    return true;
}
