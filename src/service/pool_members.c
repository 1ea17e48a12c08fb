/* pool_members.c - see pool_members.h. */
#include "service/pool_members.h"

#include "base/file.h"
#include "base/text.h"
#include "proto/pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Limit of a file. */
#define FILE_BYTES_MAX ((size_t)256 << 20)

/* Messages show at most this many bytes of a name. */
#define SHOWN_MAX 100

/* One load. */
struct loading {
    struct pool_members *to;
    const char *list;
    size_t list_len, text_len; /* text: of the file */
    size_t max;
    const char *path; /* of the file being read; NULL: the list is */
    uint32_t line;    /* of the file; 0: none */
    char *reason;     /* OPTION_CHECK_REASON bytes */
};

/* Writes the reason, with the place. Returns false. */
static bool complain(struct loading *load, const char *format, ...) PRINTF_LIKE(2, 3);
static bool complain(struct loading *load, const char *format, ...)
{
    va_list values;
    int len = 0;
    if (load->path && load->line)
        len = snprintf(load->reason, OPTION_CHECK_REASON, "%s:%u: ", load->path, load->line);
    else if (load->path)
        len = snprintf(load->reason, OPTION_CHECK_REASON, "%s: ", load->path);
    if (len < 0 || len >= OPTION_CHECK_REASON)
        return false;
    va_start(values, format);
    vsnprintf(load->reason + len, OPTION_CHECK_REASON - (size_t)len, format, values);
    va_end(values);
    return false;
}

/* The bytes of a name that a message shows, for "%.*s". */
static int shown(struct bytes name)
{
    return name.len > SHOWN_MAX ? SHOWN_MAX : (int)name.len;
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* Makes room for `more` elements; returns false without memory. `*at` has `*room` elements of
 * `size` bytes, of which `count` are used. */
static bool make_room(void **at, size_t *room, size_t count, size_t more, size_t size)
{
    if (count + more <= *room)
        return true;
    size_t wanted = 2 * count + more;
    void *larger = reallocarray(*at, wanted, size);
    if (!larger)
        return false;
    *at = larger;
    *room = wanted;
    return true;
}

static bool add(struct loading *load, const struct pool_member_line *member)
{
    struct pool_members *to = load->to;
    if (to->count >= load->max)
        return complain(load, "there are more members than pools.max_members, which is %zu",
                        load->max);
    void *at = to->at, *attrs = to->attrs;
    bool good = make_room(&at, &to->room, to->count, 1, sizeof(*to->at));
    to->at = at;
    good = good &&
           make_room(&attrs, &to->attr_room, to->attr_count, POOLS_ATTRS_MAX, sizeof(*to->attrs));
    to->attrs = attrs;
    if (!good)
        return complain(load, "no memory");
    size_t first = to->attr_count;
    for (size_t i = 0; i < member->attr_count; i++) {
        const struct pool_pair *pair = &member->attrs[i];
        if (pair->value.len > 0)
            to->attrs[to->attr_count++] = (struct pool_attribute){pair->key, pair->value};
    }
    to->at[to->count++] = (struct pool_new_member){.name = member->name,
                                                   .value = member->value,
                                                   .note = member->note,
                                                   .down = member->down,
                                                   .attribute_count = to->attr_count - first};
    return true;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Adds the member of "NAME" or "NAME=VALUE". */
static bool take_item(struct loading *load, struct bytes item)
{
    struct pool_member_line member = {.name = item};
    const uint8_t *equals = memchr(item.data, '=', item.len);
    if (equals) {
        member.name.len = (size_t)(equals - item.data);
        member.value = bytes_at(equals + 1, item.len - member.name.len - 1);
    }
    if (bytes_equal(member.value, bytes_of("-")))
        member.value.len = 0;
    if (member.name.len == 0 || member.name.len > POOLS_NAME_MAX ||
        member.value.len > POOLS_VALUE_MAX || memchr(item.data, ' ', item.len))
        return complain(load,
                        "\"%.*s%s\" is not a member, NAME or NAME=VALUE, without blanks; a name "
                        "has at most %d bytes",
                        shown(member.name), (const char *)member.name.data,
                        shown(member.name) < (int)member.name.len ? "..." : "", POOLS_NAME_MAX);
    return add(load, &member);
}

/* Takes members with commas between them. */
static bool take_list(struct loading *load, const char *list)
{
    for (const char *at = list + strspn(list, ", "); *at; at += strspn(at, ", ")) {
        struct bytes item = bytes_at(at, strcspn(at, ","));
        at += item.len;
        while (item.data[item.len - 1] == ' ')
            item.len--;
        if (!take_item(load, item))
            return false;
    }
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool is_blank(struct bytes line)
{
    size_t i = 0;
    while (i < line.len && (line.data[i] == ' ' || line.data[i] == '\t'))
        i++;
    return i == line.len;
}

/* True for a word that belongs behind the value. */
static bool is_behind_value(struct bytes word)
{
    return bytes_equal(word, bytes_of("state=down")) || bytes_begin_with(word, bytes_of("note="));
}

static bool take_line(struct loading *load, struct bytes line)
{
    struct pool_member_line member;
    if (is_blank(line) || line.data[0] == '#')
        return true;
    if (line.data[0] == ' ' || line.data[0] == '\t')
        return complain(load, "the line begins with a blank; begin it with the member's name");
    if (memchr(line.data, '\t', line.len))
        return complain(load, "the line has a tab; put spaces between the words");
    if (!pool_parse_member(line, &member))
        return complain(load,
                        "not of the form NAME [VALUE [KEY=VALUE]...], where - is no value, and "
                        "keys are of a-z, 0-9 and _, each once, at most %d",
                        POOLS_ATTRS_MAX);
    if (is_behind_value(member.value))
        return complain(load, "the value is missing before state= or note=; - stands for none");
    return add(load, &member);
}

/* Takes the lines of a file with `len` bytes. */
static bool take_lines(struct loading *load, struct bytes text)
{
    (void)bytes_take_text(&text, "\xef\xbb\xbf"); /* the byte order mark of some editors */
    while (text.len > 0) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        struct bytes line = bytes_at(text.data, end ? (size_t)(end - text.data) : text.len);
        (void)bytes_take(&text, line.len + (end != NULL));
        if (line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        load->line++;
        if (!take_line(load, line))
            return false;
    }
    return true;
}

/* Reads the rest of a file, up to one byte more than FILE_BYTES_MAX. Returns false with errno. */
static bool read_all(int fd, struct text *text)
{
    char buffer[16384];
    ssize_t got;
    while (text->len <= FILE_BYTES_MAX && (got = read(fd, buffer, sizeof(buffer))) != 0) {
        if (got < 0)
            return false;
        text_add(text, buffer, (size_t)got);
        errno = ENOMEM;
        if (text->failed)
            return false;
    }
    return true;
}

static bool take_file(struct loading *load, const char *path)
{
    struct text text = {.data = NULL};
    load->path = path;
    load->line = 0;
    int fd = file_open_regular(path);
    bool good = fd >= 0 && read_all(fd, &text);
    if (!good)
        (void)complain(load, "can't be read: %s", file_open_reason(errno));
    if (fd >= 0)
        close(fd);
    if (good && text.len > FILE_BYTES_MAX)
        good = complain(load, "the file is larger than %zu bytes", FILE_BYTES_MAX);
    load->to->text = text_take(&text, &load->text_len);
    return good && take_lines(load, bytes_at(load->to->text, load->text_len));
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Gives the members their attributes, which do not move any more. */
static void link_attributes(struct pool_members *m)
{
    const struct pool_attribute *next = m->attrs;
    for (size_t i = 0; next && i < m->count; i++) {
        m->at[i].attributes = next;
        next += m->at[i].attribute_count;
    }
}

/* Where a member is declared: its place in the list, or in the file, which is behind the list. */
static size_t place_of(const struct loading *load, const struct pool_new_member *m)
{
    size_t in_file = (uintptr_t)m->name.data - (uintptr_t)load->to->text;
    size_t in_list = (uintptr_t)m->name.data - (uintptr_t)load->list;
    return in_file < load->text_len ? load->list_len + in_file : in_list;
}

/* The line of the file that a place is in; 0: it is in the list. */
static uint32_t line_of(const struct loading *load, size_t place)
{
    uint32_t line = 1;
    if (place < load->list_len)
        return 0;
    for (size_t i = 0; i < place - load->list_len; i++)
        line += load->to->text[i] == '\n';
    return line;
}

/* Orders members by name, then as they were declared. */
static int compare(const void *a, const void *b, void *load)
{
    const struct pool_new_member *x = a, *y = b;
    int order = bytes_compare(x->name, y->name);
    return order ? order : place_of(load, x) < place_of(load, y) ? -1 : 1;
}

/* Writes the reason for a member that is there already. */
static bool complain_twice(struct loading *load, const struct pool_new_member *first,
                           const struct pool_new_member *again)
{
    char place[32] = "the option members";
    uint32_t line = line_of(load, place_of(load, first));
    if (line)
        snprintf(place, sizeof(place), "line %u", line);
    load->line = line_of(load, place_of(load, again));
    if (load->line == 0)
        load->path = NULL;
    return complain(load, "\"%.*s\" is there twice, also in %s; remove one", shown(again->name),
                    (const char *)again->name.data, place);
}

/* Sorts the members, and checks that no two have one name. */
static bool differ(struct loading *load)
{
    const struct pool_members *m = load->to;
    const struct pool_new_member *again = NULL;
    if (m->count > 0)
        qsort_r(m->at, m->count, sizeof(m->at[0]), compare, load);
    for (size_t i = 1; i < m->count; i++) {
        if (bytes_equal(m->at[i - 1].name, m->at[i].name) &&
            (!again || place_of(load, &m->at[i]) < place_of(load, again)))
            again = &m->at[i];
    }
    return !again || complain_twice(load, again - 1, again);
}

bool pool_members_load(struct pool_members *members_r, const char *list, const char *path,
                       size_t max, bool *in_file_r, char reason_r[OPTION_CHECK_REASON])
{
    struct loading load = {.to = members_r, .max = max, .list = list, .reason = reason_r};
    load.list_len = list ? strlen(list) : 0;
    *members_r = (struct pool_members){.count = 0};
    bool good = (!list || take_list(&load, list)) && (!path || take_file(&load, path));
    link_attributes(members_r);
    good = good && differ(&load);
    *in_file_r = load.path != NULL;
    if (!good)
        pool_members_free(members_r);
    return good;
}

void pool_members_free(struct pool_members *members)
{
    free(members->at);
    free(members->attrs);
    free(members->text);
    *members = (struct pool_members){.count = 0};
}
