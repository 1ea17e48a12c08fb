/*
 * option_codec.h - values of options as text and back, by the type of their row.
 *
 * `value` is a field of the type that the row says. What text is wrong, is said in reason_r
 * (OPTIONS_REASON_SIZE bytes), in half a sentence that may hold bytes of that text.
 */
#ifndef DAEMON_OPTION_CODEC_H
#define DAEMON_OPTION_CODEC_H

#include "daemon/options.h"

/* Sets a value, which has one already, to what `text` spells. False: it is as it was. */
bool option_assign(void *value, const struct option_row *row, const char *text,
                   char *reason_r) MUST_USE;

/* Writes a value as text, as snprintf does. */
size_t option_to_text(const void *value, const struct option_row *row, char *to, size_t size);

bool option_equal(const void *a, const void *b, const struct option_row *row);

/* Gives one value to another. False: no memory, and it is as it was. */
bool option_copy(void *to, const void *from, const struct option_row *row) MUST_USE;

/* Frees what a value owns. */
void option_clear(void *value, const struct option_row *row);

/* Says in reason_r that `len` bytes of text are `what` is_not: "\"9x\" is not a number". */
void option_say_value(char *reason_r, const char *text, size_t len, const char *is_not);

/* Text that grows in a buffer of limited size; the length counts on beyond it. */
struct option_text {
    char *to;
    size_t size;
    size_t len;
};
void option_text_add(struct option_text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void option_text_add_addresses(struct option_text *text, const struct option_addresses *list);

#endif
