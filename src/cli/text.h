/*
 * text.h - names as text, and what has come from a server.
 *
 * A name is any bytes. For people and for JSON it is written with a backslash as "\\" and with
 * bytes that would be seen as something else as "\xNN": what is not UTF-8, controls (those of
 * Unicode, too), and the marks that turn the direction of writing. So what a peer calls a name
 * can neither steer a terminal nor break a line, and the text can be read back.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "base/text.h"

/* Ends the process with status 70 and a message. For allocations that failed; those
   of texts, too (text_no_memory). */
_Noreturn void out_of_memory(void);

/* Appends a name as described above. */
void text_add_name(struct text *to, struct bytes name);

/* Appends a text of a server's, which has its backslashes doubled where it needs to: the same, but
   backslashes stay as they are. */
void text_add_shown(struct text *to, const char *shown);

/* The same for a text as vprintf makes it. */
void text_vadd_shown(struct text *to, const char *format, va_list values) PRINTF_LIKE(2, 0);

/*
 * Appends the bytes that `escaped` stands for: "\\" and "\xNN" are undone. False where a backslash
 * begins neither; *at_r is then its offset, and what was appended is of no use.
 */
bool text_add_unescaped(struct text *to, const char *escaped, size_t len, size_t *at_r) MUST_USE;

#endif
