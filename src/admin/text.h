/*
 * text.h - the spellings of untrusted bytes in JSON, in URLs and in metrics (base/text.h), and the
 * way back from URLs.
 */
#ifndef ADMIN_TEXT_H
#define ADMIN_TEXT_H

#include "base/text.h"

/*
 * Adds the text of a name, which people read: UTF-8 as it is, but a backslash doubled, and control
 * bytes and bytes that are no UTF-8 as \xNN. So it is valid UTF-8 without control characters, and
 * different names have different texts.
 */
void text_add_name(struct text *t, struct bytes name);

/*
 * Decodes percent-encodings: `len` bytes at `from` to at most as many at `to`; *len_r: how many.
 * Other characters stand for themselves, '+' too. False: a '%' without two hexadecimal digits.
 */
bool text_unpercent(const char *from, size_t len, uint8_t *to, size_t *len_r) MUST_USE;

#endif
