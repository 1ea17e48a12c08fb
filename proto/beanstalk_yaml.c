/*
 * beanstalk_yaml.c - which values of a dictionary need quotes.
 *
 * Clients read dictionaries as YAML 1.1 or 1.2, or split lines at ": " and keep quotes as bytes of
 * the value. So a value is bare unless some reader of YAML would take it for something else than
 * this string. Readers differ in what a number is; this follows the most generous of them.
 */
#include "proto/beanstalk.h"

#include "base/check.h"

#include <strings.h>

/* Words that are no strings, in any case: Ruby takes "tRUE" for true. */
static const char *const words[] = {"null", "true", "false", "yes",   "no",    "on",  "off",
                                    "y",    "n",    ".inf",  "-.inf", "+.inf", ".nan"};

static bool is_one_of(uint8_t byte, const char *set)
{
    return byte != '\0' && strchr(set, byte) != NULL;
}

/* Drops the bytes of `set` in front. Returns how many. */
static size_t skip(struct bytes *in, const char *set)
{
    size_t len = 0;
    while (len < in->len && is_one_of(in->data[len], set))
        len++;
    *in = bytes_at(in->data + len, in->len - len);
    return len;
}

/* Drops one byte of `set`, if it is in front. */
static bool take_one(struct bytes *in, const char *set)
{
    if (in->len == 0 || !is_one_of(in->data[0], set))
        return false;
    *in = bytes_at(in->data + 1, in->len - 1);
    return true;
}

static bool is_word(struct bytes value)
{
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strlen(words[i]) == value.len &&
            strncasecmp(words[i], (const char *)value.data, value.len) == 0)
            return true;
    }
    return false;
}

/* 0x1f, 0o17, 0b11, with any sign, and "_" between the digits. */
static bool is_based(struct bytes in)
{
    static const char *const bases[][2] = {
        {"xX", "0123456789abcdefABCDEF_"}, {"oO", "01234567_"}, {"bB", "01_"}};
    (void)take_one(&in, "+-");
    if (!take_one(&in, "0"))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
        struct bytes rest = in;
        if (take_one(&rest, bases[i][0]) && skip(&rest, bases[i][1]) > 0 && rest.len == 0)
            return true;
    }
    return false;
}

/* 12, 1_000, 1.5, .5, 1., 1e3, 1:30 (in base 60), 1,000; and for YAML 1.1 a "." is one, too.
 * fivebeans' reader takes _1 for 1. */
static bool is_number(struct bytes in)
{
    (void)take_one(&in, "+-");
    (void)skip(&in, "_");
    size_t whole = skip(&in, "0123456789");
    if (whole > 0)
        (void)skip(&in, "0123456789_,:");
    if (take_one(&in, "."))
        (void)skip(&in, "0123456789_");
    else if (whole == 0)
        return false;
    if (take_one(&in, "eE")) {
        (void)take_one(&in, "+-");
        if (skip(&in, "0123456789_") == 0)
            return false;
    }
    return in.len == 0;
}

/* 2026-11-27, 2026-1-7, and these with a time of the day. */
static bool is_date(struct bytes in)
{
    if (skip(&in, "0123456789") != 4 || !take_one(&in, "-"))
        return false;
    size_t month = skip(&in, "0123456789");
    if (month == 0 || month > 2 || !take_one(&in, "-"))
        return false;
    size_t day = skip(&in, "0123456789");
    return day > 0 && day <= 2 && (in.len == 0 || is_one_of(in.data[0], "tT "));
}

bool bs_needs_quotes(struct bytes value)
{
    if (value.len == 0 || is_one_of(value.data[0], "-?:,[]{}#&*!|>=<~'\"%@` "))
        return true;
    for (size_t i = 0; i < value.len; i++) {
        uint8_t byte = value.data[i], next = i + 1 < value.len ? value.data[i + 1] : ' ';
        if (byte < ' ' || byte > '~' || (byte == ' ' && (next == ' ' || next == '#')) ||
            (byte == ':' && next == ' '))
            return true;
    }
    return is_word(value) || is_based(value) || is_number(value) || is_date(value);
}
