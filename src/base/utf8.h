/*
 * utf8.h - UTF-8 from strangers: what is well-formed, and what a terminal may be shown.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes the character at the start of `data` (`len` bytes, at least 1). Returns its length and
 * sets *code_r; returns 0 where no well-formed UTF-8 begins (no surrogates, nothing overlong).
 */
size_t utf8_decode(const uint8_t *data, size_t len, uint32_t *code_r);

/* The longest character. */
#define UTF8_MAX 4

/* Writes the character with that code, which is one. Returns its length. */
size_t utf8_encode(uint32_t code, char to[UTF8_MAX]);

/*
 * Whether a character may be shown as it is: controls (of which those from U+0080 on steer some
 * terminals, too) and marks that turn the direction of writing may not.
 */
bool utf8_is_showable(uint32_t code);

/*
 * Takes JSON, `*len` bytes from malloc, and returns it, from malloc too, with characters that may
 * not be shown as \uNNNN: for a parser the same, and harmless where somebody looks at it. NULL: no
 * memory, and `json` is freed.
 */
char *utf8_spell_json(char *json, size_t *len) MUST_USE;

#endif
