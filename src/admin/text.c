/* text.c - see text.h. */
#include "admin/text.h"

#include "base/number.h"
#include "base/utf8.h"

static bool is_no_control(uint32_t code)
{
    return code >= 0x20 && code != 0x7f;
}

void text_add_name(struct text *t, struct bytes name)
{
    text_add_escaped(t, name, is_no_control, true);
}

void text_add_label(struct text *t, const char *value)
{
    size_t len = strlen(value);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t size = utf8_decode((const uint8_t *)value + i, len - i, &code);
        if (value[i] == '\n')
            text_add(t, "\\n", 2);
        else if (value[i] == '"' || value[i] == '\\')
            text_addf(t, "\\%c", value[i]);
        else if (size == 0)
            text_addf(t, "\\\\x%02x", (uint8_t)value[i]);
        else
            text_add(t, value + i, size);
        i += size ? size : 1;
    }
}

bool text_unpercent(const char *from, size_t len, uint8_t *to, size_t *len_r)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (from[i] != '%') {
            to[used++] = (uint8_t)from[i];
            continue;
        }
        unsigned high = len - i > 2 ? number_hex_digit(from[i + 1]) : 16;
        unsigned low = high < 16 ? number_hex_digit(from[i + 2]) : 16;
        if (low == 16)
            return false;
        to[used++] = (uint8_t)(high * 16 + low);
        i += 2;
    }
    *len_r = used;
    return true;
}
