/*
 * text.h - a text that grows, and names as text.
 *
 * A name is any bytes. For people and for JSON it is written with a backslash as "\\" and with
 * bytes that would be seen as something else as "\xNN": what is not UTF-8, controls (those of
 * Unicode, too), and the marks that turn the direction of writing. So what a peer calls a name
 * can neither steer a terminal nor break a line, and the text can be read back.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "base/bytes.h"
#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised: empty. `data` is terminated by a NUL that `len` does not count. */
struct text {
    char *data; /* NULL while nothing was ever added */
    size_t len, room;
};

/* Appends bytes. Ends the process (status 70) when there is no memory, as all of these do. */
void text_add(struct text *to, const void *data, size_t len);

/* Appends as printf. */
void text_addf(struct text *to, const char *format, ...) PRINTF_LIKE(2, 3);

/* What it holds as a C string; never NULL. Valid until the next change. */
const char *text_str(const struct text *text);

/* Empties it, and keeps its memory. */
void text_clear(struct text *text);

/* Frees what it holds. */
void text_free(struct text *text);

/* Ends the process with status 70 and a message. For allocations that failed. */
_Noreturn void out_of_memory(void);

/* Appends a name as described above. */
void text_add_name(struct text *to, struct bytes name);

/* Appends a text of a server's, which has its backslashes doubled where it needs to: the same, but
   backslashes stay as they are. */
void text_add_shown(struct text *to, const char *shown);

/* Appends a name with all but A-Z a-z 0-9 - . _ ~ as %NN: as URLs take it. */
void text_add_percent(struct text *to, struct bytes name);

/*
 * Appends the bytes that `escaped` stands for: "\\" and "\xNN" are undone. False where a backslash
 * begins neither; *at_r is then its offset, and what was appended is of no use.
 */
bool text_add_unescaped(struct text *to, const char *escaped, size_t len, size_t *at_r) MUST_USE;

/* The bytes of a text. Valid until its next change. */
struct bytes text_bytes(const struct text *text);

#endif
