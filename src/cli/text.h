/*
 * text.h - prints names, and text from a server.
 *
 * A name is any bytes. For people and for JSON a backslash becomes "\\", and bytes that would show
 * as something else become "\xNN": invalid UTF-8, controls (also those of Unicode), and marks that
 * change the direction of writing. So a name can't steer a terminal or break a line, and the text
 * can be read back.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "base/text.h"

/* Ends the process with status 70 and a message after a failed allocation, also one of a text
   (text_no_memory). */
_Noreturn void out_of_memory(void);

/* Zeroed memory. Ends the process without any. */
void *allocate(size_t size) MUST_USE;

/* The array with room for one more element behind `count` of them, each of `size` bytes; it may
   move. Ends the process without memory. */
void *array_grow(void *array, size_t count, size_t *room, size_t size) MUST_USE;

/* Appends a name with these escapes. */
void text_add_name(struct text *to, struct bytes name);

/* Appends text from a server that has doubled its own backslashes: the same escapes, but
   backslashes stay as they are. */
void text_add_shown(struct text *to, const char *shown);

/* The same for a text in the form of vprintf. */
void text_vadd_shown(struct text *to, const char *format, va_list values) PRINTF_LIKE(2, 0);

/*
 * Appends the bytes of `escaped`, with "\\" and "\xNN" decoded. Returns false when a backslash
 * begins neither; *at_r is then its offset, and the appended bytes are useless.
 */
bool text_add_unescaped(struct text *to, const char *escaped, size_t len, size_t *at_r) MUST_USE;

#endif
