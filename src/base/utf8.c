/* utf8.c - see utf8.h. */
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Length of the character that this byte begins, and the bits of its code in the byte; 0: invalid.
 */
static size_t utf8_length(uint8_t first, uint32_t *bits_r)
{
    if (first < 0x80) {
        *bits_r = first;
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        *bits_r = first & 0x1f;
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        *bits_r = first & 0x0f;
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        *bits_r = first & 0x07;
        return 4;
    }
    return 0;
}

size_t utf8_decode(const uint8_t *data, size_t len, uint32_t *code_r)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = 0;
    size_t n = utf8_length(data[0], &code);
    if (n == 0 || n > len)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((data[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (data[i] & 0x3f);
    }
    if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *code_r = code;
    return n;
}

size_t utf8_encode(uint32_t code, char to[UTF8_MAX])
{
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(first[n] | code);
    return n;
}

bool utf8_is_showable(uint32_t code)
{
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f))
        return false;
    if (code == 0x61c || code == 0x200e || code == 0x200f || code == 0xfeff)
        return false;
    return !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

/* Length of \uNNNN. All unsafe characters are below U+10000. */
#define SPELLED 6

/* Length of the byte or character at the start of `data`. *code_r is 0 when it may stay. */
static size_t next_unit(const char *data, size_t len, uint32_t *code_r)
{
    size_t n = utf8_decode((const uint8_t *)data, len, code_r);
    if (n == 0 || utf8_is_showable(*code_r) || *code_r < 0x20 || *code_r > 0xffff)
        *code_r = 0; /* JSON's own line breaks stay, too */
    return n ? n : 1;
}

char *utf8_spell_json(char *json, size_t *len)
{
    size_t spelled = 0, used = 0;
    uint32_t code;
    for (size_t i = 0; i < *len;) {
        i += next_unit(json + i, *len - i, &code);
        spelled += code != 0;
    }
    if (spelled == 0)
        return json;
    char *to =
        spelled <= (SIZE_MAX - *len - 1) / SPELLED ? malloc(*len + spelled * SPELLED + 1) : NULL;
    for (size_t i = 0; to && i < *len;) {
        size_t n = next_unit(json + i, *len - i, &code);
        if (code == 0)
            memcpy(to + used, json + i, n);
        else
            snprintf(to + used, SPELLED + 1, "\\u%04x", (unsigned)code & 0xffff);
        used += code == 0 ? n : SPELLED;
        i += n;
    }
    free(json);
    *len = used;
    return to;
}
