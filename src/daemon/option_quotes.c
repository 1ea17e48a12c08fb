/*
 * option_quotes.c - values in quotes and trailing comments. Part of options.h.
 */
#include "daemon/options.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

char *options_unquote(char *text, bool comments, const char **why_r)
{
    while (is_blank(*text))
        text++;
    if (*text != '"') {
        char *end = comments ? text + strcspn(text, "#") : text + strlen(text);
        while (end > text && is_blank(end[-1]))
            end--;
        *end = '\0';
        *why_r = "a quote inside the value; quotes go around all of it";
        return strchr(text, '"') ? NULL : text;
    }

    char *end = strchr(++text, '"');
    *why_r = "the closing quote is missing";
    if (!end)
        return NULL;
    *end++ = '\0';
    while (is_blank(*end))
        end++;
    *why_r = "something follows the closing quote; quotes go around all of the value";
    return *end && !(comments && *end == '#') ? NULL : text;
}
