/*
 * name.c - names as arguments. Part of command.h.
 */
#include "cli/command.h"
#include "cli/print.h"
#include "proto/counter.h"

#include <string.h>

bool parse_name(const char *given, size_t len, bool is_escaped, struct text *name_r,
                struct text *reason_r)
{
    size_t at = 0;
    if (!is_escaped) {
        text_add(name_r, given, len);
    } else if (!text_add_unescaped(name_r, given, len, &at)) {
        text_addf(reason_r,
                  "character %zu: this backslash begins neither \\xNN (a byte, in hexadecimal) nor "
                  "\\\\ (a backslash)",
                  at + 1);
        return false;
    }
    if (name_r->len >= 1 && name_r->len <= CTR_NAME_MAX)
        return true;
    if (name_r->len == 0)
        text_addf(reason_r, "it is empty");
    else
        text_addf(reason_r, "it has %zu bytes; names have at most %d", name_r->len, CTR_NAME_MAX);
    return false;
}

bool read_name(const struct invocation *invocation, const char *given, struct text *name_r)
{
    struct text reason = {0};
    bool good = parse_name(given, strlen(given), invocation->options.escapes, name_r, &reason);
    if (!good)
        complain("%s: the name is wrong: %s", invocation->command->name, text_str(&reason));
    text_free(&reason);
    return good;
}
