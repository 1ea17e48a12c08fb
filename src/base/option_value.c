/* option_value.c - see option_value.h. */
#include "base/option_value.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Messages show at most this many bytes of a wrong value. */
#define SHOWN_MAX 100

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

void option_text_add_words(struct option_text *text, const char *const *words)
{
    for (size_t i = 0; words[i]; i++) {
        const char *joint = i == 0 ? "" : words[i + 1] ? ", " : " or ";
        option_text_add(text, "%s%s", joint, words[i]);
    }
}

bool option_say(char *reason_r, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(reason_r, OPTIONS_REASON_SIZE, format, values);
    va_end(values);
    return false;
}

/* Writes to reason_r `len` bytes of text in quotes and then `is_not`: "\"9x\" is not a number". */
static void say_value(char *reason_r, const char *text, size_t len, const char *is_not)
{
    bool cut = len > SHOWN_MAX;
    option_say(reason_r, "\"%.*s%s\" %s", cut ? SHOWN_MAX : (int)len, text, cut ? "..." : "",
               is_not);
}

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

static bool assign_bool(void *field, const struct option_row *row, const char *text, char *reason_r)
{
    (void)row;
    (void)reason_r;
    static const struct {
        const char *text;
        bool value;
    } words[] = {
        {"true", true},   {"yes", true}, {"on", true},   {"1", true},
        {"false", false}, {"no", false}, {"off", false}, {"0", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strcmp(text, words[i].text) == 0) {
            *(bool *)field = words[i].value;
            return true;
        }
    }
    return false;
}

/* The number of a field, by its size. */
static uint64_t number_of(const void *field, size_t size)
{
    return size == sizeof(uint16_t)   ? *(const uint16_t *)field
           : size == sizeof(uint32_t) ? *(const uint32_t *)field
                                      : *(const uint64_t *)field;
}

static bool assign_number(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    uint64_t value;
    bool is_one = row->type == &option_mode ? read_mode(text, &value)
                                            : read_number(text, row->type == &option_size, &value);
    (void)reason_r;
    if (!is_one || value < row->min || value > row->max)
        return false;
    if (row->type->size == sizeof(uint16_t))
        *(uint16_t *)field = (uint16_t)value;
    else if (row->type->size == sizeof(uint32_t))
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = value;
    return true;
}

/* Digits after the ninth of a fraction are ignored. */
static bool assign_seconds(void *field, const struct option_row *row, const char *text,
                           char *reason_r)
{
    const uint8_t *at = (const uint8_t *)text;
    CHECK(row->max <= OPTION_SECONDS_MAX);
    int64_t ns = number_scan_seconds(&at, row->max + 1); /* at most this: then it is too long */
    (void)reason_r;
    if (*at || !strpbrk(text, "0123456789") || ns < (int64_t)row->min * NS_PER_S ||
        ns > (int64_t)row->max * NS_PER_S)
        return false;
    *(int64_t *)field = ns;
    return true;
}

static bool assign_choice(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    (void)reason_r;
    for (unsigned i = 0; row->choices[i]; i++) {
        if (strcmp(text, row->choices[i]) == 0) {
            *(unsigned *)field = i;
            return true;
        }
    }
    return false;
}

static bool assign_string(void *field, const struct option_row *row, const char *text,
                          char *reason_r)
{
    static const char wrong[] = "contains a quote or a control character";
    char *copy = NULL;
    for (const char *c = text; *c; c++) {
        if (iscntrl((unsigned char)*c) || *c == '"') {
            if (row->secret)
                option_say(reason_r, "it %s", wrong);
            else
                say_value(reason_r, text, strlen(text), wrong);
            return false;
        }
    }
    if (*text && !(copy = strdup(text))) {
        option_say(reason_r, "out of memory");
        return false;
    }
    char **string = field;
    free(*string);
    *string = copy;
    return true;
}

/* --- From values to text --------------------------------------------------------------------- */

static void add_bool(struct option_text *text, const void *value, const struct option_row *row)
{
    (void)row;
    option_text_add(text, "%s", *(const bool *)value ? "true" : "false");
}

static void add_number(struct option_text *text, const void *value, const struct option_row *row)
{
    option_text_add(text, "%llu", (unsigned long long)number_of(value, row->type->size));
}

static void add_mode(struct option_text *text, const void *value, const struct option_row *row)
{
    (void)row;
    option_text_add(text, "%04o", (unsigned)*(const uint32_t *)value);
}

/* Adds a size with the largest unit that divides it. */
static void spell_size(struct option_text *text, uint64_t size)
{
    const char *letter = "";
    for (const char *next = "KMG"; *next && size && size % 1024 == 0; next++) {
        size /= 1024;
        letter = next;
    }
    option_text_add(text, "%llu%.1s", (unsigned long long)size, letter);
}

static void add_size(struct option_text *text, const void *value, const struct option_row *row)
{
    (void)row;
    spell_size(text, *(const uint64_t *)value);
}

/* Adds seconds with as few digits as possible. */
static void add_seconds(struct option_text *text, const void *value, const struct option_row *row)
{
    int64_t ns = *(const int64_t *)value;
    int64_t fraction = ns % NS_PER_S;
    int digits = 9;
    (void)row;
    option_text_add(text, "%lld", (long long)(ns / NS_PER_S));
    if (fraction == 0)
        return;
    for (; fraction % 10 == 0; digits--)
        fraction /= 10;
    option_text_add(text, ".%0*lld", digits, (long long)fraction);
}

static void add_choice(struct option_text *text, const void *value, const struct option_row *row)
{
    option_text_add(text, "%s", row->choices[*(const unsigned *)value]);
}

static void add_string(struct option_text *text, const void *value, const struct option_row *row)
{
    (void)row;
    if (*(char *const *)value)
        option_text_add(text, "%s", *(char *const *)value);
}

static void add_number_range(struct option_text *text, const struct option_row *row)
{
    option_text_add(text, "%llu to %llu%s%s", (unsigned long long)row->min,
                    (unsigned long long)row->max, *row->unit ? " " : "", row->unit);
}

static void add_mode_range(struct option_text *text, const struct option_row *row)
{
    option_text_add(text, "%04o to %04o", (unsigned)row->min, (unsigned)row->max);
}

static void add_size_range(struct option_text *text, const struct option_row *row)
{
    spell_size(text, row->min);
    option_text_add(text, " to ");
    spell_size(text, row->max);
}

static void add_choices(struct option_text *text, const struct option_row *row)
{
    option_text_add_words(text, row->choices);
}

/* --- Lists ----------------------------------------------------------------------------------- */

/* The largest list, and the largest element. */
#define LIST_SIZE    8192
#define ELEMENT_SIZE 256

/* Separators of elements. */
static const char between[] = ", \t";

bool option_list_extend(void *value, const struct option_list *list, const char *text, size_t len,
                        char *reason_r)
{
    _Alignas(max_align_t) char one[ELEMENT_SIZE] = {0};
    size_t *count = value;
    char *at = (char *)(count + 1);
    CHECK(list->size <= sizeof one);
    if (!list->read(text, len, one)) {
        say_value(reason_r, text, len, list->is_not);
        return false;
    }
    for (size_t i = 0; i < *count; i++)
        if (memcmp(at + i * list->size, one, list->size) == 0)
            return true;
    if (*count == list->max) {
        option_say(reason_r, "more than %zu %s", list->max, list->plural);
        return false;
    }
    memcpy(at + (*count)++ * list->size, one, list->size);
    return true;
}

bool option_list_assign(void *value, const struct option_row *row, const char *text, char *reason_r)
{
    _Alignas(max_align_t) char all[LIST_SIZE] = {0};
    const struct option_list *list = row->type->list;
    CHECK(row->type->size <= sizeof all);
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t len = strcspn(text, between);
        if (!option_list_extend(all, list, text, len, reason_r))
            return false;
        text += len;
    }
    if (*(const size_t *)(const void *)all == 0 && list->missing) {
        option_say(reason_r, "%s", list->missing);
        return false;
    }
    memcpy(value, all, row->type->size);
    return true;
}

void option_list_add(struct option_text *text, const void *value, const struct option_row *row)
{
    const struct option_list *list = row->type->list;
    const size_t *count = value;
    for (size_t i = 0; i < *count; i++) {
        char element[64];
        list->write((const char *)(count + 1) + i * list->size, element, sizeof element);
        option_text_add(text, "%s%s", i ? ", " : "", element);
    }
}

static bool read_address(const char *text, size_t len, void *element_r)
{
    struct option_address *address = element_r;
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

    struct sockaddr_in *in4 = (struct sockaddr_in *)&address->sa;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->sa;
    if (!brackets && inet_pton(AF_INET, copy, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        address->len = sizeof *in4;
        return true;
    }
    in6->sin6_family = AF_INET6;
    address->len = sizeof *in6;
    return inet_pton(AF_INET6, copy, &in6->sin6_addr) == 1;
}

static void write_address(const void *element, char *to, size_t size)
{
    const struct option_address *address = element;
    const struct sockaddr_storage *sa = &address->sa;
    const void *bytes = sa->ss_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
    CHECK(inet_ntop(sa->ss_family, bytes, to, (socklen_t)size));
}

const struct option_list option_address_list = {
    .size = sizeof(struct option_address),
    .max = OPTION_ADDRESSES_MAX,
    .read = read_address,
    .write = write_address,
    .plural = "addresses",
    .is_not = "is not a numeric IPv4 or IPv6 address, such as 127.0.0.1 or ::1",
    .missing = "at least one address is needed, such as 127.0.0.1 or ::1",
};

/* --- The types ------------------------------------------------------------------------------- */

#define TYPE(c_type, word, ...)                                                                    \
    {                                                                                              \
        .size = sizeof(c_type), .assign = assign_##word, __VA_ARGS__                               \
    }
#define NUMBER(c_type, adds, is, ends)                                                             \
    TYPE(c_type, number, .add = (adds), .add_range = adds##_range, .is_not = (is), .after = (ends))

const struct option_type option_bool = TYPE(bool, bool, .add = add_bool, .range = "true or false",
                                            .is_not = "is neither true nor false");
const struct option_type option_port = NUMBER(uint16_t, add_number, "is not a number from", "");
const struct option_type option_number = NUMBER(uint32_t, add_number, "is not a number from", "");
const struct option_type option_size =
    NUMBER(uint64_t, add_size, "is not a size from", " (bytes, or with K, M or G)");
const struct option_type option_mode =
    NUMBER(uint32_t, add_mode, "is not a mode from", ", such as 0660");
const struct option_type option_seconds =
    TYPE(int64_t, seconds, .add = add_seconds, .add_range = add_number_range,
         .is_not = "is not a number from", .after = ", such as 5 or 0.25");
const struct option_type option_choice =
    TYPE(unsigned, choice, .add = add_choice, .add_range = add_choices, .is_not = "is not one of",
         .after = "");
const struct option_type option_string =
    TYPE(char *, string, .add = add_string, .range = "text", .is_string = true);
const struct option_type option_addresses = {.size = sizeof(struct option_addresses),
                                             .assign = option_list_assign,
                                             .add = option_list_add,
                                             .range = "numeric IPv4 and IPv6 addresses",
                                             .list = &option_address_list};

/* --- Values of all types --------------------------------------------------------------------- */

bool option_value_assign(void *value, const struct option_row *row, const char *text,
                         char *reason_r)
{
    const struct option_type *type = row->type;
    char range[128] = "", is_not[192];
    struct option_text valid = {.to = range, .size = sizeof range};
    if (type->assign(value, row, text, reason_r))
        return true;
    if (!type->is_not)
        return false;
    if (type->after)
        option_value_add_range(&valid, row);
    snprintf(is_not, sizeof is_not, "%s%s%s%s", type->is_not, *range ? " " : "", range,
             type->after ? type->after : "");
    say_value(reason_r, text, strlen(text), is_not);
    return false;
}

void option_value_add_range(struct option_text *text, const struct option_row *row)
{
    if (row->type->range)
        option_text_add(text, "%s", row->type->range);
    else
        row->type->add_range(text, row);
}

bool option_value_equal(const void *a, const void *b, const struct option_row *row)
{
    const struct option_list *list = row->type->list;
    if (!row->type->is_string)
        return memcmp(a, b,
                      list ? sizeof(size_t) + *(const size_t *)a * list->size : row->type->size) ==
               0;
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    return left && right ? strcmp(left, right) == 0 : left == right;
}

bool option_value_copy(void *to, const void *from, const struct option_row *row)
{
    if (!row->type->is_string) {
        memcpy(to, from, row->type->size);
        return true;
    }
    const char *text = *(char *const *)from;
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return false;
    option_value_clear(to, row);
    *(char **)to = copy;
    return true;
}

void option_value_clear(void *value, const struct option_row *row)
{
    if (row->type->is_string)
        free(*(char **)value);
}
