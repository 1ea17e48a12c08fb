/*
 * option_value.h - converts values of options from and to text, by the type of their row
 * (base/option.h): all types but addresses, networks and tokens, which daemon/option_codec.h adds.
 *
 * `value` points to a field of the row's type. reason_r (OPTIONS_REASON_SIZE bytes) gets half a
 * sentence about a wrong text, and may hold bytes of that text.
 *
 * Threads: any, as long as no other thread uses the same value.
 */
#ifndef BASE_OPTION_VALUE_H
#define BASE_OPTION_VALUE_H

#include "base/check.h"
#include "base/option.h"

/* Parses `text` into an initialised value. Returns false with the reason, and no change, if the
 * text is wrong or memory is short. */
bool option_value_assign(void *value, const struct option_row *row, const char *text,
                         char *reason_r) MUST_USE;

/* True if both values are the same. */
bool option_value_equal(const void *a, const void *b, const struct option_row *row);

/* Copies a value. Returns false without memory; `to` has not changed then. */
bool option_value_copy(void *to, const void *from, const struct option_row *row) MUST_USE;

/* Frees the memory that a value owns. */
void option_value_clear(void *value, const struct option_row *row);

/* Text that grows in a buffer of `size` bytes; `len` counts also what did not fit. */
struct option_text {
    char *to;
    size_t size;
    size_t len;
};
void option_text_add(struct option_text *text, const char *format, ...) PRINTF_LIKE(2, 3);

/* Adds a value as text that option_value_assign reads as the same value. */
void option_value_add(struct option_text *text, const void *value, const struct option_row *row);

/* Adds the valid values of a row, as options_range_text of daemon/options.h. */
void option_value_add_range(struct option_text *text, const struct option_row *row);

/* Writes a reason. */
void option_say(char *reason_r, const char *format, ...) PRINTF_LIKE(2, 3);

/* Writes to reason_r `len` bytes of text in quotes and then `is_not`: "\"9x\" is not a number". */
void option_say_value(char *reason_r, const char *text, size_t len, const char *is_not);

#endif
