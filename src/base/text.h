/*
 * text.h - text that grows, and the spellings of bytes from strangers that all share.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/bytes.h"
#include "base/check.h"

#include <stdarg.h>

/* Zero-initialised: empty. Where there is no memory, what is added is lost and `failed` is set. */
struct text {
    char *data; /* ended by a null byte that does not count; NULL: nothing was added yet */
    size_t len, room;
    bool failed;
};

/*
 * For a program that ends where it has no memory: set before there are texts, it is called then,
 * and does not return. NULL: see `failed`.
 */
extern void (*text_no_memory)(void);

void text_add(struct text *t, const void *bytes, size_t len);
void text_addf(struct text *t, const char *format, ...) PRINTF_LIKE(2, 3);
void text_vaddf(struct text *t, const char *format, va_list values) PRINTF_LIKE(2, 0);

/* Adds the value of a metric's label, UTF-8 or not, as it stands between quotes. */
void text_add_label(struct text *t, const char *value);

/* Adds the id of a name: bytes with all but A-Z a-z 0-9 - . _ ~ percent-encoded, as
 * URLs take it. */
void text_add_percent(struct text *t, struct bytes from);

/*
 * Adds bytes, of which those that are no UTF-8 and those of characters that may not stay are
 * spelled \xNN; where `doubled`, a backslash is doubled, so that different bytes have different
 * spellings.
 */
void text_add_escaped(struct text *t, struct bytes from, bool (*may_stay)(uint32_t code),
                      bool doubled);

/* What it holds as a C string, never NULL, and as bytes. Valid until the next change. */
const char *text_str(const struct text *t);
struct bytes text_bytes(const struct text *t);

/* Empties it, keeping its memory. */
void text_clear(struct text *t);
/* What it holds, now the caller's, who frees it; NULL: something was lost. It is empty then. */
char *text_take(struct text *t, size_t *len_r) MUST_USE;
void text_free(struct text *t);

#endif
