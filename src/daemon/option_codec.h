/*
 * option_codec.h - converts values of options of all types from and to text: lists of addresses and
 * networks and tokens here, the other types in base/option_value.h.
 *
 * `value` points to a field of the row's type. reason_r (OPTIONS_REASON_SIZE bytes) gets half a
 * sentence about a wrong text, and may hold bytes of that text.
 *
 * Threads: any, as long as no other thread uses the same value.
 */
#ifndef DAEMON_OPTION_CODEC_H
#define DAEMON_OPTION_CODEC_H

#include "base/option_value.h"
#include "daemon/options.h"

/* Parses `text` into an initialised value. Returns false with the reason, and no change, if the
 * text is wrong or memory is short. */
bool option_assign(void *value, const struct option_row *row, const char *text,
                   char *reason_r) MUST_USE;

/* Writes a value as text; size and return value as in snprintf. */
size_t option_to_text(const void *value, const struct option_row *row, char *to, size_t size);

/* True if both values are the same. */
bool option_equal(const void *a, const void *b, const struct option_row *row);

/* Copies a value. Returns false without memory; `to` has not changed then. */
bool option_copy(void *to, const void *from, const struct option_row *row) MUST_USE;

/* Frees the memory that a value owns. */
void option_clear(void *value, const struct option_row *row);

void option_text_add_addresses(struct option_text *text, const struct option_addresses *list);

#endif
