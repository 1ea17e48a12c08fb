/*
 * option_codec.c - see option_codec.h.
 *
 * Only this file knows the C type of each option type.
 */
#include "daemon/option_codec.h"

#include "admin/token.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Messages show at most this many bytes of a wrong value. */
#define SHOWN_MAX 100

/* --- From text to values --------------------------------------------------------------------- */

/* Parses digits and, with `scaled`, an optional K, M or G. Returns false for other text and for
 * overflow. */
static bool read_number(const char *text, bool scaled, uint64_t *value_r)
{
    static const char units[] = "KMG";
    struct bytes in = bytes_of(text);
    uint64_t n;
    if (!number_take(&in, UINT64_MAX, &n))
        return false;
    const char *unit = scaled && in.len == 1 ? strchr(units, toupper(*in.data)) : NULL;
    size_t shift = unit ? 10 * (size_t)(unit - units + 1) : 0;
    if ((in.len > 0 && !unit) || n > UINT64_MAX >> shift)
        return false;
    *value_r = n << shift;
    return true;
}

/* Parses one to four octal digits. */
static bool read_mode(const char *text, uint64_t *value_r)
{
    struct bytes in = bytes_of(text);
    return in.len <= 4 && number_take_base(&in, 8, UINT64_MAX, value_r) && in.len == 0;
}

static bool read_bool(const char *text, bool *value_r)
{
    static const struct {
        const char *text;
        bool value;
    } words[] = {
        {"true", true},   {"yes", true}, {"on", true},   {"1", true},
        {"false", false}, {"no", false}, {"off", false}, {"0", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strcmp(text, words[i].text) == 0) {
            *value_r = words[i].value;
            return true;
        }
    }
    return false;
}

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

/* --- Building text --------------------------------------------------------------------------- */

void option_text_add(struct option_text *text, const char *format, ...)
{
    size_t room = text->len < text->size ? text->size - text->len : 0;
    va_list values;
    va_start(values, format);
    int len = vsnprintf(room ? text->to + text->len : NULL, room, format, values);
    va_end(values);
    CHECK(len >= 0);
    text->len += (size_t)len;
}

/* --- Reasons --------------------------------------------------------------------------------- */

static void say(char *reason_r, const char *format, ...) PRINTF_LIKE(2, 3);
static void say(char *reason_r, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(reason_r, OPTIONS_REASON_SIZE, format, values);
    va_end(values);
}

void option_say_value(char *reason_r, const char *text, size_t len, const char *is_not)
{
    bool cut = len > SHOWN_MAX;
    say(reason_r, "\"%.*s%s\" %s", cut ? SHOWN_MAX : (int)len, text, cut ? "..." : "", is_not);
}

/* Writes the reason why `text` is wrong: what the row accepts. */
static void say_range(char *reason_r, const struct option_row *row, const char *text)
{
    char range[128], is_not[192];
    options_range_text(row, range, sizeof range);
    switch (row->type) {
    case OPTION_BOOL:
        snprintf(is_not, sizeof is_not, "is neither true nor false");
        break;
    case OPTION_SIZE:
        snprintf(is_not, sizeof is_not, "is not a size from %s (bytes, or with K, M or G)", range);
        break;
    case OPTION_CHOICE:
        snprintf(is_not, sizeof is_not, "is not one of %s", range);
        break;
    case OPTION_MODE:
        snprintf(is_not, sizeof is_not, "is not a mode from %s, such as 0660", range);
        break;
    default:
        snprintf(is_not, sizeof is_not, "is not a number from %s", range);
        break;
    }
    option_say_value(reason_r, text, strlen(text), is_not);
}

/* --- Assigning ------------------------------------------------------------------------------- */

static bool assign_bool(void *field, const struct option_row *row, const char *text, char *reason_r)
{
    bool value;
    if (!read_bool(text, &value)) {
        say_range(reason_r, row, text);
        return false;
    }
    *(bool *)field = value;
    return true;
}

static bool assign_number(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    uint64_t value;
    bool is_one = row->type == OPTION_MODE ? read_mode(text, &value)
                                           : read_number(text, row->type == OPTION_SIZE, &value);
    if (!is_one || value < row->min || value > row->max) {
        say_range(reason_r, row, text);
        return false;
    }
    if (row->type == OPTION_PORT)
        *(uint16_t *)field = (uint16_t)value;
    else if (row->type == OPTION_NUMBER || row->type == OPTION_MODE)
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = value;
    return true;
}

static bool assign_choice(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    for (unsigned i = 0; row->choices[i]; i++) {
        if (strcmp(text, row->choices[i]) == 0) {
            *(unsigned *)field = i;
            return true;
        }
    }
    say_range(reason_r, row, text);
    return false;
}

static bool assign_string(void *field, const char *text, char *reason_r)
{
    char *copy = NULL;
    for (const char *c = text; *c; c++) {
        if (iscntrl((unsigned char)*c) || *c == '"') {
            option_say_value(reason_r, text, strlen(text), "holds a quote or a control character");
            return false;
        }
    }
    if (*text && !(copy = strdup(text))) {
        say(reason_r, "out of memory");
        return false;
    }
    char **string = field;
    free(*string);
    *string = copy;
    return true;
}

/* Stores a digest of the text. */
static bool assign_secret(void *field, const char *text, char *reason_r)
{
    char digest[TOKEN_DIGEST_SIZE] = "";
    size_t len = strlen(text);
    if (len > 0 && !options_is_token(text, len)) {
        say(reason_r, "not 1 to %d printable characters of ASCII without blanks",
            OPTIONS_TOKEN_MAX);
        return false;
    }
    if (len > 0 && !token_digest(text, len, digest)) {
        say(reason_r, "out of memory");
        return false;
    }
    return assign_string(field, digest, reason_r);
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
        say(reason_r, "more than %d addresses", OPTION_ADDRESSES_MAX);
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
        say(reason_r, "at least one address is needed, such as 127.0.0.1 or ::1");
        return false;
    }
    *(struct option_addresses *)field = list;
    return true;
}

/* Adds a network to a list, unless it is there. Returns false with the reason. */
static bool add_network(struct settings_networks *list, const char *text, size_t len,
                        char *reason_r)
{
    struct access_network one;
    if (!access_parse(text, len, &one)) {
        option_say_value(reason_r, text, len,
                         "is not an address or a network, such as 192.0.2.7, 10.0.0.0/8 or "
                         "2001:db8::/32; the bits after the first so many must be 0");
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        if (same_network(&list->at[i], &one))
            return true;
    if (list->count == ARRAY_SIZE(list->at)) {
        say(reason_r, "more than %d networks", SETTINGS_NETWORKS_MAX);
        return false;
    }
    list->at[list->count++] = one;
    return true;
}

static bool assign_networks(void *field, const char *text, char *reason_r)
{
    struct settings_networks list = {.count = 0};
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t len = strcspn(text, between);
        if (!add_network(&list, text, len, reason_r))
            return false;
        text += len;
    }
    *(struct settings_networks *)field = list;
    return true;
}

bool option_assign(void *value, const struct option_row *row, const char *text, char *reason_r)
{
    switch (row->type) {
    case OPTION_BOOL:
        return assign_bool(value, row, text, reason_r);
    case OPTION_PORT:
    case OPTION_NUMBER:
    case OPTION_SIZE:
    case OPTION_MODE:
        return assign_number(value, row, text, reason_r);
    case OPTION_CHOICE:
        return assign_choice(value, row, text, reason_r);
    case OPTION_STRING:
        return row->secret ? assign_secret(value, text, reason_r)
                           : assign_string(value, text, reason_r);
    case OPTION_ADDRESSES:
        return assign_addresses(value, text, reason_r);
    case OPTION_NETWORKS:
        return assign_networks(value, text, reason_r);
    }
    CHECK(false); /* a row without a type */
    return false;
}

/* --- From values to text --------------------------------------------------------------------- */

/* Adds a size with the largest unit that divides it. */
static void add_size(struct option_text *text, uint64_t size)
{
    const char *letter = "";
    for (const char *next = "KMG"; *next && size && size % 1024 == 0; next++) {
        size /= 1024;
        letter = next;
    }
    option_text_add(text, "%llu%.1s", (unsigned long long)size, letter);
}

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

static void add_networks(struct option_text *text, const struct settings_networks *list)
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
    switch (row->type) {
    case OPTION_BOOL:
        option_text_add(&text, "%s", *(const bool *)value ? "true" : "false");
        break;
    case OPTION_PORT:
        option_text_add(&text, "%u", (unsigned)*(const uint16_t *)value);
        break;
    case OPTION_NUMBER:
        option_text_add(&text, "%lu", (unsigned long)*(const uint32_t *)value);
        break;
    case OPTION_SIZE:
        add_size(&text, *(const uint64_t *)value);
        break;
    case OPTION_CHOICE:
        option_text_add(&text, "%s", row->choices[*(const unsigned *)value]);
        break;
    case OPTION_STRING:
        if (*(char *const *)value)
            option_text_add(&text, "%s", *(char *const *)value);
        break;
    case OPTION_ADDRESSES:
        option_text_add_addresses(&text, value);
        break;
    case OPTION_MODE:
        option_text_add(&text, "%04o", (unsigned)*(const uint32_t *)value);
        break;
    case OPTION_NETWORKS:
        add_networks(&text, value);
        break;
    }
    return text.len;
}

size_t options_range_text(const struct option_row *row, char *to, size_t size)
{
    struct option_text text = {.to = to, .size = size};
    switch (row->type) {
    case OPTION_BOOL:
        option_text_add(&text, "true or false");
        break;
    case OPTION_PORT:
    case OPTION_NUMBER:
        option_text_add(&text, "%llu to %llu", (unsigned long long)row->min,
                        (unsigned long long)row->max);
        if (*row->unit)
            option_text_add(&text, " %s", row->unit);
        break;
    case OPTION_SIZE:
        add_size(&text, row->min);
        option_text_add(&text, " to ");
        add_size(&text, row->max);
        break;
    case OPTION_CHOICE:
        for (size_t i = 0; row->choices[i]; i++) {
            const char *joint = i == 0 ? "" : row->choices[i + 1] ? ", " : " or ";
            option_text_add(&text, "%s%s", joint, row->choices[i]);
        }
        break;
    case OPTION_STRING:
        option_text_add(&text, "text");
        break;
    case OPTION_ADDRESSES:
        option_text_add(&text, "numeric IPv4 and IPv6 addresses");
        break;
    case OPTION_MODE:
        option_text_add(&text, "%04o to %04o", (unsigned)row->min, (unsigned)row->max);
        break;
    case OPTION_NETWORKS:
        option_text_add(&text, "addresses, and networks as ADDRESS/BITS");
        break;
    }
    return text.len;
}

/* --- Comparing and copying ------------------------------------------------------------------- */

static bool equal_strings(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool equal_addresses(const struct option_addresses *a, const struct option_addresses *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_address(&a->at[i], &b->at[i]);
    return same;
}

static bool equal_networks(const struct settings_networks *a, const struct settings_networks *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_network(&a->at[i], &b->at[i]);
    return same;
}

/* The size of a field without own memory; 0 for a field that owns memory. */
static size_t plain_size(enum option_type type)
{
    switch (type) {
    case OPTION_BOOL:
        return sizeof(bool);
    case OPTION_PORT:
        return sizeof(uint16_t);
    case OPTION_NUMBER:
    case OPTION_MODE:
        return sizeof(uint32_t);
    case OPTION_SIZE:
        return sizeof(uint64_t);
    case OPTION_CHOICE:
        return sizeof(unsigned);
    case OPTION_ADDRESSES:
        return sizeof(struct option_addresses);
    case OPTION_NETWORKS:
        return sizeof(struct settings_networks);
    case OPTION_STRING:
        break;
    }
    return 0;
}

bool option_equal(const void *a, const void *b, const struct option_row *row)
{
    switch (row->type) {
    case OPTION_STRING:
        return equal_strings(*(char *const *)a, *(char *const *)b);
    case OPTION_ADDRESSES:
        return equal_addresses(a, b);
    case OPTION_NETWORKS:
        return equal_networks(a, b);
    default:
        return memcmp(a, b, plain_size(row->type)) == 0;
    }
}

bool option_copy(void *to, const void *from, const struct option_row *row)
{
    if (row->type != OPTION_STRING) {
        memcpy(to, from, plain_size(row->type));
        return true;
    }
    const char *text = *(char *const *)from;
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return false;
    option_clear(to, row);
    *(char **)to = copy;
    return true;
}

void option_clear(void *value, const struct option_row *row)
{
    if (row->type == OPTION_STRING)
        free(*(char **)value);
}
