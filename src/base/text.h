/*
 * text.h - a growing string, and the escapes for untrusted bytes that all parts share.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/bytes.h"
#include "base/check.h"

#include <stdarg.h>

/* Zero-initialised: empty. When out of memory, the addition is lost and `failed` is set. */
struct text {
    char *data; /* null-terminated (not counted in len); NULL: nothing was added yet */
    size_t len, room;
    bool failed;
};

/*
 * For programs that exit when out of memory: called at that moment, must not return. Set it before
 * using any text. NULL: the text sets `failed` instead.
 */
extern void (*text_no_memory)(void);

void text_add(struct text *t, const void *bytes, size_t len);
void text_addf(struct text *t, const char *format, ...) PRINTF_LIKE(2, 3);
void text_vaddf(struct text *t, const char *format, va_list values) PRINTF_LIKE(2, 0);

/* Adds the value of a metric's label, UTF-8 or not, as it stands between quotes. */
void text_add_label(struct text *t, const char *value);

/* Adds bytes percent-encoded, as URLs need; A-Z a-z 0-9 - . _ ~ stay. */
void text_add_percent(struct text *t, struct bytes from);

/*
 * Decodes percent-encodings: `len` bytes at `from` to at most as many at `to`; *len_r: how many.
 * Other characters stand for themselves, '+' too. False: a '%' without two hexadecimal digits.
 */
bool text_unpercent(const char *from, size_t len, uint8_t *to, size_t *len_r) MUST_USE;

/*
 * Adds bytes. Invalid UTF-8, and characters for which `may_stay` is false, are written as \xNN.
 * With `doubled`, a backslash is doubled, so different bytes always have different spellings.
 */
void text_add_escaped(struct text *t, struct bytes from, bool (*may_stay)(uint32_t code),
                      bool doubled);

/*
 * Adds the text of a name, which people read: UTF-8 as it is, but a backslash doubled, and control
 * bytes and bytes that are no UTF-8 as \xNN. So it is valid UTF-8 without control characters, and
 * different names have different texts.
 */
void text_add_readable(struct text *t, struct bytes name);

/* The contents as a C string (never NULL) or as bytes. Valid until the next change. */
const char *text_str(const struct text *t);
struct bytes text_bytes(const struct text *t);

/* Empties the text, keeps its memory. */
void text_clear(struct text *t);
/*
 * Returns the contents and empties the text. The caller frees them. NULL: nothing was added, or an
 * addition was lost.
 */
char *text_take(struct text *t, size_t *len_r) MUST_USE;
void text_free(struct text *t);

#endif
