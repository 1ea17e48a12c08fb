/* option_codec.c - see option_codec.h. */
#include "daemon/option_codec.h"

#include "admin/token.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

/* --- From text to values --------------------------------------------------------------------- */

/* Parses one address from `len` bytes of text. IPv6 may be in brackets. */
static bool read_address(const char *text, size_t len, struct option_address *address_r)
{
    char copy[INET6_ADDRSTRLEN];
    bool brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    if (brackets) {
        text++;
        len -= 2;
    }
    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';

    memset(address_r, 0, sizeof *address_r);
    struct sockaddr_in *in4 = (struct sockaddr_in *)&address_r->sa;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address_r->sa;
    if (!brackets && inet_pton(AF_INET, copy, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        address_r->len = sizeof *in4;
        return true;
    }
    if (inet_pton(AF_INET6, copy, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        address_r->len = sizeof *in6;
        return true;
    }
    return false;
}

static bool same_address(const struct option_address *a, const struct option_address *b)
{
    return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
}

static bool same_network(const struct access_network *a, const struct access_network *b)
{
    return a->family == b->family && a->bits == b->bits &&
           memcmp(a->address, b->address, sizeof a->address) == 0;
}

/* --- Assigning ------------------------------------------------------------------------------- */

/* Stores a digest of the text. */
static bool assign_digest(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    char digest[TOKEN_DIGEST_SIZE] = "";
    size_t len = strlen(text);
    if (len > 0 && !options_is_token(text, len)) {
        option_say(reason_r, "not 1 to %d printable ASCII characters without blanks",
                   OPTIONS_TOKEN_MAX);
        return false;
    }
    if (len > 0 && !token_digest(text, len, digest)) {
        option_say(reason_r, "out of memory");
        return false;
    }
    return option_value_assign(field, row, digest, reason_r);
}

bool options_add_address(struct option_addresses *list, const char *text, size_t len,
                         char *reason_r)
{
    struct option_address one;
    if (!read_address(text, len, &one)) {
        option_say_value(reason_r, text, len,
                         "is not a numeric IPv4 or IPv6 address, such as 127.0.0.1 or ::1");
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        if (same_address(&list->at[i], &one))
            return true;
    if (list->count == ARRAY_SIZE(list->at)) {
        option_say(reason_r, "more than %d addresses", OPTION_ADDRESSES_MAX);
        return false;
    }
    list->at[list->count++] = one;
    return true;
}

/* Separators of a list's elements. */
static const char between[] = ", \t";

static bool assign_addresses(void *field, const char *text, char *reason_r)
{
    struct option_addresses list = {.count = 0};
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t len = strcspn(text, between);
        if (!options_add_address(&list, text, len, reason_r))
            return false;
        text += len;
    }
    if (list.count == 0) {
        option_say(reason_r, "at least one address is needed, such as 127.0.0.1 or ::1");
        return false;
    }
    *(struct option_addresses *)field = list;
    return true;
}

/* Adds a network to a list, unless it is there. Returns false with the reason. */
static bool add_network(struct access_networks *list, const char *text, size_t len, char *reason_r)
{
    struct access_network one;
    if (!access_parse(text, len, &one)) {
        option_say_value(reason_r, text, len,
                         "is not an address or a network, such as 192.0.2.7, 10.0.0.0/8 or "
                         "2001:db8::/32; the bits after the prefix must be 0");
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        if (same_network(&list->at[i], &one))
            return true;
    if (list->count == ARRAY_SIZE(list->at)) {
        option_say(reason_r, "more than %d networks", ACCESS_NETWORKS_MAX);
        return false;
    }
    list->at[list->count++] = one;
    return true;
}

static bool assign_networks(void *field, const char *text, char *reason_r)
{
    struct access_networks list = {.count = 0};
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t len = strcspn(text, between);
        if (!add_network(&list, text, len, reason_r))
            return false;
        text += len;
    }
    *(struct access_networks *)field = list;
    return true;
}

bool option_assign(void *value, const struct option_row *row, const char *text, char *reason_r)
{
    if (row->type == OPTION_ADDRESSES)
        return assign_addresses(value, text, reason_r);
    if (row->type == OPTION_NETWORKS)
        return assign_networks(value, text, reason_r);
    if (row->digest)
        return assign_digest(value, row, text, reason_r);
    return option_value_assign(value, row, text, reason_r);
}

/* --- From values to text --------------------------------------------------------------------- */

void options_address_text(const struct option_address *address, char *to, size_t size)
{
    const struct sockaddr_storage *sa = &address->sa;
    const void *bytes = sa->ss_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
    CHECK(inet_ntop(sa->ss_family, bytes, to, (socklen_t)size));
}

void option_text_add_addresses(struct option_text *text, const struct option_addresses *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char digits[OPTIONS_ADDRESS_TEXT];
        options_address_text(&list->at[i], digits, sizeof digits);
        option_text_add(text, "%s%s", i ? ", " : "", digits);
    }
}

static void add_networks(struct option_text *text, const struct access_networks *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char network[ACCESS_TEXT];
        (void)access_text(&list->at[i], network, sizeof network);
        option_text_add(text, "%s%s", i ? ", " : "", network);
    }
}

size_t option_to_text(const void *value, const struct option_row *row, char *to, size_t size)
{
    struct option_text text = {.to = to, .size = size};
    option_text_add(&text, "%s", "");
    if (row->type == OPTION_ADDRESSES)
        option_text_add_addresses(&text, value);
    else if (row->type == OPTION_NETWORKS)
        add_networks(&text, value);
    else
        option_value_add(&text, value, row);
    return text.len;
}

size_t options_range_text(const struct option_row *row, char *to, size_t size)
{
    struct option_text text = {.to = to, .size = size};
    if (row->type == OPTION_ADDRESSES)
        option_text_add(&text, "numeric IPv4 and IPv6 addresses");
    else if (row->type == OPTION_NETWORKS)
        option_text_add(&text, "addresses, and networks as ADDRESS/BITS");
    else
        option_value_add_range(&text, row);
    return text.len;
}

/* --- Comparing and copying ------------------------------------------------------------------- */

static bool equal_addresses(const struct option_addresses *a, const struct option_addresses *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_address(&a->at[i], &b->at[i]);
    return same;
}

static bool equal_networks(const struct access_networks *a, const struct access_networks *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_network(&a->at[i], &b->at[i]);
    return same;
}

bool option_equal(const void *a, const void *b, const struct option_row *row)
{
    if (row->type == OPTION_ADDRESSES)
        return equal_addresses(a, b);
    if (row->type == OPTION_NETWORKS)
        return equal_networks(a, b);
    return option_value_equal(a, b, row);
}

bool option_copy(void *to, const void *from, const struct option_row *row)
{
    if (row->type == OPTION_ADDRESSES)
        memcpy(to, from, sizeof(struct option_addresses));
    else if (row->type == OPTION_NETWORKS)
        memcpy(to, from, sizeof(struct access_networks));
    else
        return option_value_copy(to, from, row);
    return true;
}

void option_clear(void *value, const struct option_row *row)
{
    option_value_clear(value, row);
}
