/* text.c - see text.h. */
#include "admin/text.h"

#include "base/number.h"

static bool is_no_control(uint32_t code)
{
    return code >= 0x20 && code != 0x7f;
}

void text_add_name(struct text *t, struct bytes name)
{
    text_add_escaped(t, name, is_no_control, true);
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
