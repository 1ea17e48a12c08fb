/*
 * text.h - text that grows, and the spellings of untrusted bytes: in JSON, in URLs, in metrics.
 *
 * A name is bytes. "Text of a name" is what people read: UTF-8 as it is, but a backslash doubled,
 * and control bytes and bytes that are no UTF-8 as \xNN; so it is valid UTF-8 without control
 * characters, and different names have different texts. The "id" of a name is the name with all but
 * A-Z a-z 0-9 - . _ ~ percent-encoded: what URLs take.
 */
#ifndef ADMIN_TEXT_H
#define ADMIN_TEXT_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised: empty. Where there is no memory, what is added is lost and `failed` is set. */
struct text {
    char *data; /* ended by a null byte that does not count; NULL: nothing was added yet */
    size_t len, room;
    bool failed;
};

void text_add(struct text *t, const void *bytes, size_t len);
void text_printf(struct text *t, const char *format, ...) PRINTF_LIKE(2, 3);

/* The text of a name, its id, and a label's value (UTF-8 or not) between the quotes of a metric. */
void text_add_name(struct text *t, const uint8_t *name, size_t len);
void text_add_id(struct text *t, const uint8_t *name, size_t len);
void text_add_label(struct text *t, const char *value);

/* Empties it, keeping its memory. */
void text_clear(struct text *t);
/* What it holds, now the caller's, who frees it; NULL: something was lost. It is empty then. */
char *text_take(struct text *t, size_t *len_r) MUST_USE;
void text_free(struct text *t);

/*
 * Decodes percent-encodings: `len` bytes at `from` to at most as many at `to`; *len_r: how many.
 * Other characters stand for themselves, '+' too. False: a '%' without two hexadecimal digits.
 */
bool text_unpercent(const char *from, size_t len, uint8_t *to, size_t *len_r) MUST_USE;

#endif
