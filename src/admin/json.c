/* json.c - what all answers in JSON share. */
#include "admin/admin_internal.h"

#include <math.h>
#include <string.h>

void json_words(struct json_text *to, const char *key, const char *text)
{
    if (text)
        json_text_string(to, key, bytes_of(text));
    else
        json_text_null(to, key);
}

void json_decimal(struct json_text *to, const char *key, double value)
{
    json_text_real(to, key, value);
    if (isfinite(value) && value == trunc(value) && fabs(value) < 1e15)
        text_add(&to->text, ".0", 2);
}

void json_lines(struct json_text *to, const char *key, char *report)
{
    char *rest = report, *line;
    json_text_open(to, key, '[');
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (*line)
            json_words(to, NULL, line);
    }
    json_text_close(to, ']');
}
