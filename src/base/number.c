/* number.c - see number.h. */
#include "base/number.h"

bool number_take_base(struct bytes *in, unsigned base, uint64_t max, uint64_t *value_r)
{
    *value_r = 0;
    if (in->len == 0)
        return false;
    const uint8_t *at = in->data, *end = at + in->len;
    bool good = number_scan(&at, end, base, max, value_r) && at > in->data;
    *in = bytes_at(at, (size_t)(end - at));
    return good;
}

bool number_parse(struct bytes in, uint64_t max, uint64_t *value_r)
{
    return number_take(&in, max, value_r) && in.len == 0;
}

bool number_parse_plain(struct bytes in, uint64_t max, uint64_t *value_r)
{
    return number_parse(in, max, value_r) && (in.len == 1 || in.data[0] != '0');
}
