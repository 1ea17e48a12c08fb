/*
 * option_quotes.c - values in quotes and trailing comments. Part of options.h.
 */
#include "daemon/options.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

enum options_unquoted options_unquote(char *text, bool comments, char **value_r)
{
    while (is_blank(*text))
        text++;
    if (*text != '"') {
        char *end = comments ? text + strcspn(text, "#") : text + strlen(text);
        while (end > text && is_blank(end[-1]))
            end--;
        *end = '\0';
        if (strchr(text, '"'))
            return OPTIONS_STRAY_QUOTE;
        *value_r = text;
        return OPTIONS_UNQUOTED;
    }

    char *end = strchr(++text, '"');
    if (!end)
        return OPTIONS_NOT_CLOSED;
    *end++ = '\0';
    while (is_blank(*end))
        end++;
    if (*end && !(comments && *end == '#'))
        return OPTIONS_TRAILING;
    *value_r = text;
    return OPTIONS_UNQUOTED;
}

const char *options_unquote_reason(enum options_unquoted answer)
{
    switch (answer) {
    case OPTIONS_UNQUOTED:
        break;
    case OPTIONS_NOT_CLOSED:
        return "the closing quote is missing";
    case OPTIONS_STRAY_QUOTE:
        return "a quote inside the value; quotes go around all of it";
    case OPTIONS_TRAILING:
        return "something follows the closing quote; quotes go around all of the value";
    }
    CHECK(false); /* OPTIONS_UNQUOTED has no reason */
    return NULL;
}
