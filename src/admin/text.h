/*
 * text.h - the spellings of untrusted bytes: in JSON, in URLs, in metrics.
 *
 * A name is bytes. "Text of a name" is what people read: UTF-8 as it is, but a backslash doubled,
 * and control bytes and bytes that are no UTF-8 as \xNN; so it is valid UTF-8 without control
 * characters, and different names have different texts. The "id" of a name is the name with all but
 * A-Z a-z 0-9 - . _ ~ percent-encoded: what URLs take.
 */
#ifndef ADMIN_TEXT_H
#define ADMIN_TEXT_H

#include "base/text.h"

/* Adds the text of a name, and a label's value (UTF-8 or not) between the quotes of a metric. */
void text_add_name(struct text *t, struct bytes name);
void text_add_label(struct text *t, const char *value);

/*
 * Decodes percent-encodings: `len` bytes at `from` to at most as many at `to`; *len_r: how many.
 * Other characters stand for themselves, '+' too. False: a '%' without two hexadecimal digits.
 */
bool text_unpercent(const char *from, size_t len, uint8_t *to, size_t *len_r) MUST_USE;

#endif
