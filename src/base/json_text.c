/* json_text.c - see json_text.h. */
#include "base/json_text.h"

#include "base/lock.h"
#include "base/utf8.h"

#include <math.h>

/* Writes what stands before a value. */
static void begin_value(struct json_text *to, const char *key)
{
    if (to->more)
        text_add(&to->text, ",", 1);
    if (key)
        text_addf(&to->text, "\"%s\":", key);
    to->more = true;
}

void json_text_open(struct json_text *to, const char *key, char bracket)
{
    lock_assert_none_held();
    begin_value(to, key);
    text_add(&to->text, &bracket, 1);
    to->more = false;
}

void json_text_close(struct json_text *to, char bracket)
{
    text_add(&to->text, &bracket, 1);
    to->more = true;
}

void json_text_number(struct json_text *to, const char *key, uint64_t value)
{
    begin_value(to, key);
    text_addf(&to->text, "%lld", (long long)(value < INT64_MAX ? value : INT64_MAX));
}

void json_text_real(struct json_text *to, const char *key, double value)
{
    begin_value(to, key);
    if (isfinite(value))
        text_addf(&to->text, "%.15g", value);
    else
        text_add(&to->text, "null", 4);
}

void json_text_bool(struct json_text *to, const char *key, bool value)
{
    begin_value(to, key);
    text_addf(&to->text, value ? "true" : "false");
}

void json_text_null(struct json_text *to, const char *key)
{
    begin_value(to, key);
    text_addf(&to->text, "null");
}

/* Writes one character of a string. */
static void add_character(struct text *t, const uint8_t *at, size_t size, uint32_t code)
{
    if (code == '"' || code == '\\')
        text_addf(t, "\\%c", (char)code);
    else if (utf8_is_showable(code))
        text_add(t, at, size);
    else
        text_addf(t, "\\u%04x", (unsigned)code); /* all of them are below U+10000 */
}

static bool is_utf8(struct bytes in)
{
    uint32_t code;
    for (size_t i = 0, size; i < in.len; i += size) {
        size = utf8_decode(in.data + i, in.len - i, &code);
        if (size == 0)
            return false;
    }
    return true;
}

void json_text_string(struct json_text *to, const char *key, struct bytes value)
{
    uint32_t code;
    if (!is_utf8(value)) {
        json_text_readable(to, key, value);
        return;
    }
    begin_value(to, key);
    text_add(&to->text, "\"", 1);
    for (size_t i = 0, size; i < value.len; i += size) {
        size = utf8_decode(value.data + i, value.len - i, &code);
        CHECK(size > 0);
        add_character(&to->text, value.data + i, size, code);
    }
    text_add(&to->text, "\"", 1);
}

/* Adds a text that was made for this, and frees it. */
static void add_made(struct json_text *to, const char *key, struct text *made)
{
    json_text_string(to, key, text_bytes(made));
    to->text.failed = to->text.failed || made->failed;
    text_free(made);
}

void json_text_readable(struct json_text *to, const char *key, struct bytes value)
{
    struct text spelled = {0};
    text_add_readable(&spelled, value);
    add_made(to, key, &spelled);
}

void json_text_percent(struct json_text *to, const char *key, struct bytes value)
{
    struct text spelled = {0};
    text_add_percent(&spelled, value);
    add_made(to, key, &spelled);
}
