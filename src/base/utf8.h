/*
 * utf8.h - checks untrusted UTF-8: which bytes are well-formed, which characters a terminal may
 * show.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes the character at the start of `data` (`len` bytes, at least 1). Returns its length and
 * sets *code_r. Returns 0 when the bytes are not well-formed UTF-8; surrogates and overlong forms
 * are not.
 */
size_t utf8_decode(const uint8_t *data, size_t len, uint32_t *code_r);

/* Maximum length of a character, in bytes. */
#define UTF8_MAX 4

/* Encodes a character; `code` must be valid. Returns the length. */
size_t utf8_encode(uint32_t code, char to[UTF8_MAX]);

/*
 * True when a character is safe to show. Control characters are not (some terminals obey those from
 * U+0080 on, too), nor are marks that change the direction of writing.
 */
bool utf8_is_showable(uint32_t code);

/*
 * Takes ownership of `json` (`*len` bytes from malloc). Returns it with unsafe characters written
 * as \uNNNN, also from malloc. Parsers read the same value, and it is safe to look at. Returns NULL
 * when out of memory; `json` is freed.
 */
char *utf8_spell_json(char *json, size_t *len) MUST_USE;

#endif
