/*
 * text.c - prints names (text.h).
 */
#include "cli/text.h"

#include "base/number.h"
#include "base/utf8.h"
#include "cli/status.h"

#include <stdlib.h>
#include <unistd.h>

_Noreturn void out_of_memory(void)
{
    static const char message[] = "counterctl: out of memory\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    exit(STATUS_INTERNAL); /* NOLINT(concurrency-mt-unsafe): one thread */
}

void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        out_of_memory();
    return memory;
}

void *array_grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? 2 * *room : 8;
    array = reallocarray(array, *room, size);
    if (!array)
        out_of_memory();
    return array;
}

/* --- Names ---------------------------------------------------------------------------------- */

void text_add_name(struct text *to, struct bytes name)
{
    text_add_escaped(to, name, utf8_is_showable, true);
}

void text_add_shown(struct text *to, const char *shown)
{
    text_add_escaped(to, bytes_of(shown), utf8_is_showable, false);
}

void text_vadd_shown(struct text *to, const char *format, va_list values)
{
    struct text text = {0};
    text_vaddf(&text, format, values);
    text_add_shown(to, text_str(&text));
    text_free(&text);
}

bool text_add_unescaped(struct text *to, const char *escaped, size_t len, size_t *at_r)
{
    for (size_t i = 0; i < len; i++) {
        if (escaped[i] != '\\') {
            text_add(to, escaped + i, 1);
        } else if (len - i >= 2 && escaped[i + 1] == '\\') {
            text_add(to, "\\", 1);
            i += 1;
        } else if (len - i >= 4 && escaped[i + 1] == 'x' && number_hex_digit(escaped[i + 2]) < 16 &&
                   number_hex_digit(escaped[i + 3]) < 16) {
            uint8_t byte =
                (uint8_t)(number_hex_digit(escaped[i + 2]) << 4 | number_hex_digit(escaped[i + 3]));
            text_add(to, &byte, 1);
            i += 3;
        } else {
            *at_r = i;
            return false;
        }
    }
    return true;
}
