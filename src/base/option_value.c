/*
 * option_value.c - see option_value.h.
 *
 * Only this file and daemon/option_codec.c know the C type of each option type.
 */
#include "base/option_value.h"

#include "base/number.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Messages show at most this many bytes of a wrong value. */
#define SHOWN_MAX 100

/* --- Building text --------------------------------------------------------------------------- */

void option_text_add(struct option_text *text, const char *format, ...)
{
    size_t room = text->len < text->size ? text->size - text->len : 0;
    va_list values;
    va_start(values, format);
    int len = vsnprintf(room ? text->to + text->len : NULL, room, format, values);
    va_end(values);
    CHECK(len >= 0);
    text->len += (size_t)len;
}

void option_say(char *reason_r, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(reason_r, OPTIONS_REASON_SIZE, format, values);
    va_end(values);
}

void option_say_value(char *reason_r, const char *text, size_t len, const char *is_not)
{
    bool cut = len > SHOWN_MAX;
    option_say(reason_r, "\"%.*s%s\" %s", cut ? SHOWN_MAX : (int)len, text, cut ? "..." : "",
               is_not);
}

/* --- From text to values --------------------------------------------------------------------- */

/* Parses digits and, with `scaled`, an optional K, M or G. Returns false for other text and for
 * overflow. */
static bool read_number(const char *text, bool scaled, uint64_t *value_r)
{
    static const char units[] = "KMG";
    struct bytes in = bytes_of(text);
    uint64_t n;
    if (!number_take(&in, UINT64_MAX, &n))
        return false;
    const char *unit = scaled && in.len == 1 ? strchr(units, toupper(*in.data)) : NULL;
    size_t shift = unit ? 10 * (size_t)(unit - units + 1) : 0;
    if ((in.len > 0 && !unit) || n > UINT64_MAX >> shift)
        return false;
    *value_r = n << shift;
    return true;
}

/* Parses one to four octal digits. */
static bool read_mode(const char *text, uint64_t *value_r)
{
    struct bytes in = bytes_of(text);
    return in.len <= 4 && number_take_base(&in, 8, UINT64_MAX, value_r) && in.len == 0;
}

static bool read_bool(const char *text, bool *value_r)
{
    static const struct {
        const char *text;
        bool value;
    } words[] = {
        {"true", true},   {"yes", true}, {"on", true},   {"1", true},
        {"false", false}, {"no", false}, {"off", false}, {"0", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strcmp(text, words[i].text) == 0) {
            *value_r = words[i].value;
            return true;
        }
    }
    return false;
}

/* Writes the reason why `text` is wrong: what the row accepts. */
static void say_range(char *reason_r, const struct option_row *row, const char *text)
{
    char range[128] = "", is_not[192];
    struct option_text valid = {.to = range, .size = sizeof range};
    option_value_add_range(&valid, row);
    switch (row->type) {
    case OPTION_BOOL:
        snprintf(is_not, sizeof is_not, "is neither true nor false");
        break;
    case OPTION_SIZE:
        snprintf(is_not, sizeof is_not, "is not a size from %s (bytes, or with K, M or G)", range);
        break;
    case OPTION_CHOICE:
        snprintf(is_not, sizeof is_not, "is not one of %s", range);
        break;
    case OPTION_MODE:
        snprintf(is_not, sizeof is_not, "is not a mode from %s, such as 0660", range);
        break;
    case OPTION_SECONDS:
        snprintf(is_not, sizeof is_not, "is not a number from %s, such as 5 or 0.25", range);
        break;
    default:
        snprintf(is_not, sizeof is_not, "is not a number from %s", range);
        break;
    }
    option_say_value(reason_r, text, strlen(text), is_not);
}

static bool assign_bool(void *field, const struct option_row *row, const char *text, char *reason_r)
{
    bool value;
    if (!read_bool(text, &value)) {
        say_range(reason_r, row, text);
        return false;
    }
    *(bool *)field = value;
    return true;
}

static bool assign_number(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    uint64_t value;
    bool is_one = row->type == OPTION_MODE ? read_mode(text, &value)
                                           : read_number(text, row->type == OPTION_SIZE, &value);
    if (!is_one || value < row->min || value > row->max) {
        say_range(reason_r, row, text);
        return false;
    }
    if (row->type == OPTION_PORT)
        *(uint16_t *)field = (uint16_t)value;
    else if (row->type == OPTION_NUMBER || row->type == OPTION_MODE)
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = value;
    return true;
}

/* Digits after the ninth of a fraction are ignored. */
static bool assign_seconds(void *field, const struct option_row *row, const char *text,
                           char *reason_r)
{
    const uint8_t *at = (const uint8_t *)text;
    CHECK(row->max <= OPTION_SECONDS_MAX);
    int64_t ns = number_scan_seconds(&at, row->max + 1); /* at most this: then it is too long */
    if (*at || !strpbrk(text, "0123456789") || ns < (int64_t)row->min * NS_PER_S ||
        ns > (int64_t)row->max * NS_PER_S) {
        say_range(reason_r, row, text);
        return false;
    }
    *(int64_t *)field = ns;
    return true;
}

static bool assign_choice(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    for (unsigned i = 0; row->choices[i]; i++) {
        if (strcmp(text, row->choices[i]) == 0) {
            *(unsigned *)field = i;
            return true;
        }
    }
    say_range(reason_r, row, text);
    return false;
}

static bool assign_string(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    static const char wrong[] = "contains a quote or a control character";
    char *copy = NULL;
    for (const char *c = text; *c; c++) {
        if (iscntrl((unsigned char)*c) || *c == '"') {
            if (row->secret)
                option_say(reason_r, "it %s", wrong);
            else
                option_say_value(reason_r, text, strlen(text), wrong);
            return false;
        }
    }
    if (*text && !(copy = strdup(text))) {
        option_say(reason_r, "out of memory");
        return false;
    }
    char **string = field;
    free(*string);
    *string = copy;
    return true;
}

bool option_value_assign(void *value, const struct option_row *row, const char *text,
                         char *reason_r)
{
    switch (row->type) {
    case OPTION_BOOL:
        return assign_bool(value, row, text, reason_r);
    case OPTION_PORT:
    case OPTION_NUMBER:
    case OPTION_SIZE:
    case OPTION_MODE:
        return assign_number(value, row, text, reason_r);
    case OPTION_SECONDS:
        return assign_seconds(value, row, text, reason_r);
    case OPTION_CHOICE:
        return assign_choice(value, row, text, reason_r);
    case OPTION_STRING:
        return assign_string(value, row, text, reason_r);
    case OPTION_ADDRESSES:
    case OPTION_NETWORKS:
        break;
    }
    CHECK(false); /* a row without a type, or of the daemon's codec */
    return false;
}

/* --- From values to text --------------------------------------------------------------------- */

/* Adds a size with the largest unit that divides it. */
static void add_size(struct option_text *text, uint64_t size)
{
    const char *letter = "";
    for (const char *next = "KMG"; *next && size && size % 1024 == 0; next++) {
        size /= 1024;
        letter = next;
    }
    option_text_add(text, "%llu%.1s", (unsigned long long)size, letter);
}

/* Adds seconds with as few digits as possible. */
static void add_seconds(struct option_text *text, int64_t ns)
{
    int64_t fraction = ns % NS_PER_S;
    int digits = 9;
    option_text_add(text, "%lld", (long long)(ns / NS_PER_S));
    if (fraction == 0)
        return;
    for (; fraction % 10 == 0; digits--)
        fraction /= 10;
    option_text_add(text, ".%0*lld", digits, (long long)fraction);
}

void option_value_add(struct option_text *text, const void *value, const struct option_row *row)
{
    switch (row->type) {
    case OPTION_BOOL:
        option_text_add(text, "%s", *(const bool *)value ? "true" : "false");
        break;
    case OPTION_PORT:
        option_text_add(text, "%u", (unsigned)*(const uint16_t *)value);
        break;
    case OPTION_NUMBER:
        option_text_add(text, "%lu", (unsigned long)*(const uint32_t *)value);
        break;
    case OPTION_SIZE:
        add_size(text, *(const uint64_t *)value);
        break;
    case OPTION_SECONDS:
        add_seconds(text, *(const int64_t *)value);
        break;
    case OPTION_CHOICE:
        option_text_add(text, "%s", row->choices[*(const unsigned *)value]);
        break;
    case OPTION_STRING:
        if (*(char *const *)value)
            option_text_add(text, "%s", *(char *const *)value);
        break;
    case OPTION_MODE:
        option_text_add(text, "%04o", (unsigned)*(const uint32_t *)value);
        break;
    case OPTION_ADDRESSES:
    case OPTION_NETWORKS:
        CHECK(false); /* of the daemon's codec */
        break;
    }
}

void option_value_add_range(struct option_text *text, const struct option_row *row)
{
    switch (row->type) {
    case OPTION_BOOL:
        option_text_add(text, "true or false");
        break;
    case OPTION_PORT:
    case OPTION_NUMBER:
    case OPTION_SECONDS:
        option_text_add(text, "%llu to %llu", (unsigned long long)row->min,
                        (unsigned long long)row->max);
        if (*row->unit)
            option_text_add(text, " %s", row->unit);
        break;
    case OPTION_SIZE:
        add_size(text, row->min);
        option_text_add(text, " to ");
        add_size(text, row->max);
        break;
    case OPTION_CHOICE:
        for (size_t i = 0; row->choices[i]; i++) {
            const char *joint = i == 0 ? "" : row->choices[i + 1] ? ", " : " or ";
            option_text_add(text, "%s%s", joint, row->choices[i]);
        }
        break;
    case OPTION_STRING:
        option_text_add(text, "text");
        break;
    case OPTION_MODE:
        option_text_add(text, "%04o to %04o", (unsigned)row->min, (unsigned)row->max);
        break;
    case OPTION_ADDRESSES:
    case OPTION_NETWORKS:
        CHECK(false); /* of the daemon's codec */
        break;
    }
}

/* --- Comparing and copying ------------------------------------------------------------------- */

/* The size of a field without own memory. */
static size_t plain_size(enum option_type type)
{
    switch (type) {
    case OPTION_BOOL:
        return sizeof(bool);
    case OPTION_PORT:
        return sizeof(uint16_t);
    case OPTION_NUMBER:
    case OPTION_MODE:
        return sizeof(uint32_t);
    case OPTION_SIZE:
        return sizeof(uint64_t);
    case OPTION_SECONDS:
        return sizeof(int64_t);
    case OPTION_CHOICE:
        return sizeof(unsigned);
    case OPTION_STRING:
    case OPTION_ADDRESSES:
    case OPTION_NETWORKS:
        break;
    }
    CHECK(false); /* a string, or of the daemon's codec */
    return 0;
}

bool option_value_equal(const void *a, const void *b, const struct option_row *row)
{
    if (row->type != OPTION_STRING)
        return memcmp(a, b, plain_size(row->type)) == 0;
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    return left && right ? strcmp(left, right) == 0 : left == right;
}

bool option_value_copy(void *to, const void *from, const struct option_row *row)
{
    if (row->type != OPTION_STRING) {
        memcpy(to, from, plain_size(row->type));
        return true;
    }
    const char *text = *(char *const *)from;
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return false;
    option_value_clear(to, row);
    *(char **)to = copy;
    return true;
}

void option_value_clear(void *value, const struct option_row *row)
{
    if (row->type == OPTION_STRING)
        free(*(char **)value);
}
