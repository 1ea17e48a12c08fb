/*
 * settings.c - the values of options: one struct for each group of the table, or for each name of a
 * family. Part of options.h.
 *
 * The values of the daemon's own groups are fields of struct settings.
 */
#include "daemon/options_internal.h"

#include "admin/token.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The values of one group, or of one name of a family. */
struct settings_struct {
    char *name;             /* in a family; NULL: the group is no family */
    struct table_row *rows; /* of a family, with that name; else NULL */
    struct options_mark *marks;
    void *values; /* the owner's struct; NULL: the values are in struct settings */
};

/* All structs of a group: one, or one for each name of a family, ordered by name. */
struct settings_group {
    size_t count;
    struct settings_struct *at;
};

/* --- Structs --------------------------------------------------------------------------------- */

/* The struct that has the values. */
static void *values_of(struct settings *settings, const struct settings_struct *of)
{
    return of->values ? of->values : settings;
}

/* Finds the place of a name in a family, or the place to insert it. */
static size_t place_of(const struct settings_group *family, const char *name, bool *found_r)
{
    size_t low = 0, high = family->count;
    *found_r = false;
    while (low < high && !*found_r) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, family->at[middle].name);
        *found_r = order == 0;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

/* The struct that has a row's value; NULL: the row has none. */
static struct settings_struct *struct_of(const struct settings *settings,
                                         const struct table_row *row)
{
    struct settings_group *group = &settings->groups[row->group];
    bool found = group->count > 0;
    size_t i = row->name ? place_of(group, row->name, &found) : 0;
    return found ? &group->at[i] : NULL;
}

/* The value of a row; NULL: the row has none. */
static const void *value_of(const struct settings *settings, const struct option_row *row)
{
    const struct settings_struct *of = struct_of(settings, table_row_of(row));
    const void *values = of && of->values ? of->values : settings;
    return of ? (const char *)values + row->offset : NULL;
}

/* The value of a row, for writing. The row must have one. */
static void *field_of(struct settings *settings, const struct option_row *row)
{
    const struct settings_struct *of = struct_of(settings, table_row_of(row));
    CHECK(of);
    return (char *)values_of(settings, of) + row->offset;
}

static void free_struct(struct settings *settings, const struct option_group *group,
                        struct settings_struct *of)
{
    if (group->forget && of->values)
        group->forget(of->values);
    for (size_t i = 0; of->marks && i < group->count; i++)
        option_value_clear((char *)values_of(settings, of) + group->rows[i].offset,
                           &group->rows[i]);
    if (of->rows)
        table_free_rows(of->rows, group);
    free(of->values);
    free(of->marks);
    free(of->name);
}

/* Makes a struct with the defaults, which owns `name` then. Returns false without memory; `name` is
 * freed then. */
static bool make_struct(struct settings *settings, size_t number, char *name,
                        struct settings_struct *of_r)
{
    const struct option_group *group = options_table()->groups[number].is;
    char reason[OPTIONS_REASON_SIZE];
    *of_r = (struct settings_struct){.name = name};
    bool good = true;
    if (group->size > 0)
        good = (of_r->values = calloc(1, group->size)) != NULL;
    if (group->names_max > 0)
        good = (of_r->rows = table_make_rows(number, group, name)) != NULL && good;
    if (good)
        good = (of_r->marks = calloc(group->count, sizeof *of_r->marks)) != NULL;
    for (size_t i = 0; good && i < group->count; i++) {
        const struct option_row *row = &group->rows[i];
        good = option_value_assign((char *)values_of(settings, of_r) + row->offset, row,
                                   row->default_text, reason);
    }
    if (!good)
        free_struct(settings, group, of_r);
    return good;
}

const struct table_row *settings_open(struct settings *settings, size_t number, const char *name,
                                      size_t len, char *reason_r)
{
    const struct option_group *group = options_table()->groups[number].is;
    struct settings_group *family = &settings->groups[number];
    struct settings_struct new;
    char *copy = strndup(name, len);
    bool found = false;
    size_t i = copy ? place_of(family, copy, &found) : 0;
    if (found) {
        free(copy);
        return family->at[i].rows;
    }
    if (family->count == group->names_max) {
        option_say(reason_r, "more than %zu names after \"%s.\"", group->names_max, group->prefix);
        free(copy);
        return NULL;
    }
    struct settings_struct *at = reallocarray(family->at, family->count + 1, sizeof *at);
    if (at)
        family->at = at;
    if (!copy || !at || !make_struct(settings, number, copy, &new)) {
        option_say(reason_r, "out of memory");
        if (!copy || !at)
            free(copy);
        return NULL;
    }
    memmove(&at[i + 1], &at[i], (family->count - i) * sizeof *at);
    at[i] = new;
    family->count++;
    return new.rows;
}

/* --- Settings -------------------------------------------------------------------------------- */

bool settings_init(struct settings *settings)
{
    const struct table *table = options_table();
    memset(settings, 0, sizeof *settings);
    settings->groups = table ? calloc(table->count, sizeof *settings->groups) : NULL;
    for (size_t i = 0; settings->groups && i < table->count; i++) {
        struct settings_group *group = &settings->groups[i];
        if (table->groups[i].is->names_max > 0)
            continue;
        group->at = calloc(1, sizeof *group->at);
        if (group->at && make_struct(settings, i, NULL, &group->at[0]))
            group->count = 1;
        else
            settings_free(settings);
    }
    return settings->groups != NULL;
}

void settings_free(struct settings *settings)
{
    const struct table *table = options_table();
    for (size_t i = 0; settings->groups && i < table->count; i++) {
        struct settings_group *group = &settings->groups[i];
        while (group->count > 0)
            free_struct(settings, table->groups[i].is, &group->at[--group->count]);
        free(group->at);
    }
    free(settings->groups);
    memset(settings, 0, sizeof *settings);
}

struct settings_protocol *settings_protocol(const struct settings *settings, size_t i)
{
    return settings->groups[options_table()->protocol[i]].at[0].values;
}

const void *settings_own(const struct settings *settings, const struct option_group *group)
{
    const struct table *table = options_table();
    size_t i = 0;
    while (i < table->count && table->groups[i].is != group)
        i++;
    CHECK(i < table->count);
    return settings->groups[i].at[0].values;
}

/* --- Rows that have values ------------------------------------------------------------------- */

const struct option_row *options_in(const struct settings *settings, size_t index)
{
    const struct table *table = options_table();
    for (size_t i = 0; i < table->count; i++) {
        const struct settings_group *group = &settings->groups[i];
        size_t rows = table->groups[i].is->count;
        if (index < group->count * rows) {
            const struct table_row *own = group->at[index / rows].rows;
            return &(own ? own : table->groups[i].rows)[index % rows].row;
        }
        index -= group->count * rows;
    }
    return NULL;
}

bool options_has(const struct settings *settings, const struct option_row *row)
{
    return struct_of(settings, table_row_of(row)) != NULL;
}

struct options_mark *options_mark(const struct settings *settings, const struct option_row *row)
{
    struct settings_struct *of = struct_of(settings, table_row_of(row));
    CHECK(of);
    return &of->marks[table_row_of(row)->index];
}

bool options_is_token(const char *text, size_t len)
{
    bool good = len > 0 && len <= OPTIONS_TOKEN_MAX;
    for (size_t i = 0; good && i < len; i++)
        good = isgraph((unsigned char)text[i]);
    return good;
}

bool options_assign(struct settings *settings, const struct option_row *row, const char *text,
                    char *reason_r)
{
    char digest[TOKEN_DIGEST_SIZE];
    size_t len = strlen(text);
    if (!row->digest || len == 0)
        return options_restore(settings, row, text, reason_r);
    if (options_is_token(text, len)) {
        if (token_digest(text, len, digest))
            return options_restore(settings, row, digest, reason_r);
        option_say(reason_r, "out of memory");
    } else {
        option_say(reason_r, "not 1 to %d printable ASCII characters without blanks",
                   OPTIONS_TOKEN_MAX);
    }
    return false;
}

bool options_restore(struct settings *settings, const struct option_row *row, const char *text,
                     char *reason_r)
{
    bool assigned = option_value_assign(field_of(settings, row), row, text, reason_r);
    if (assigned)
        options_mark(settings, row)->named = true;
    return assigned;
}

void options_listen(struct settings *settings, const struct option_addresses *list)
{
    const struct option_row *row;
    for (size_t i = 0; (row = options_in(settings, i)); i++)
        if (row->by_l)
            *(struct option_addresses *)field_of(settings, row) = *list;
}

size_t options_to_text(const struct settings *settings, const struct option_row *row, char *to,
                       size_t size)
{
    struct option_text text = {.to = to, .size = size};
    option_text_add(&text, "%s", "");
    row->type->add(&text, value_of(settings, row), row);
    return text.len;
}

bool options_equal(const struct settings *a, const struct settings *b, const struct option_row *row)
{
    const void *of_a = value_of(a, row), *of_b = value_of(b, row);
    return of_a && of_b ? option_value_equal(of_a, of_b, row) : of_a == of_b;
}

bool options_copy(struct settings *to, const struct settings *from, const struct option_row *row)
{
    const struct table_row *of = table_row_of(row);
    char reason[OPTIONS_REASON_SIZE];
    if (of->name && !settings_open(to, of->group, of->name, strlen(of->name), reason))
        return false;
    return option_value_copy(field_of(to, row), value_of(from, row), row);
}

size_t options_ignored_text(const struct settings *settings, size_t i, char *to, size_t size)
{
    const struct option_protocol *protocol = options_protocol_at(i);
    const struct settings_protocol *p = settings_protocol(settings, i);
    struct option_text text = {.to = to, .size = size};
    if (!*p->ignored_keys)
        return 0;
    option_text_add(&text, "options that only %s has are ignored: %s", protocol->foreign_program,
                    p->ignored_keys);
    if (p->enable) {
        option_text_add(&text, "; unlike %s, counterd listens only on the addresses of %s.listen: ",
                        protocol->foreign_program, protocol->name);
        option_addresses.add(&text, &p->listen, &(struct option_row){.type = &option_addresses});
    }
    return text.len;
}

/* --- Differences ----------------------------------------------------------------------------- */

static bool same_values(const struct option_group *group, const void *a, const void *b)
{
    bool same = true;
    for (size_t i = 0; same && i < group->count; i++) {
        const struct option_row *row = &group->rows[i];
        same =
            option_value_equal((const char *)a + row->offset, (const char *)b + row->offset, row);
    }
    return same;
}

/* Compares the next names of two groups: below 0: the old one is first; 0: same name. */
static int order_of(const struct settings_group *was, size_t i, const struct settings_group *is,
                    size_t j)
{
    if (i == was->count || j == is->count)
        return i == was->count ? 1 : -1;
    return was->at[i].name ? strcmp(was->at[i].name, is->at[j].name) : 0;
}

/* Merges two groups, both ordered by name, and reports differences. */
static void compare_groups(const struct option_group *group, const struct settings_group *was,
                           const struct settings_group *is,
                           void (*found)(void *arg, const struct settings_difference *difference),
                           void *arg)
{
    for (size_t i = 0, j = 0; i < was->count || j < is->count;) {
        struct settings_difference difference = {.group = group};
        int order = order_of(was, i, is, j);
        if (order <= 0) {
            difference.name = was->at[i].name;
            difference.was = was->at[i++].values;
        }
        if (order >= 0) {
            difference.name = is->at[j].name;
            difference.is = is->at[j++].values;
        }
        if (order != 0 || group->always || !same_values(group, difference.was, difference.is))
            found(arg, &difference);
    }
}

void settings_compare(const struct settings *was, const struct settings *is,
                      void (*found)(void *arg, const struct settings_difference *difference),
                      void *arg)
{
    const struct table *table = options_table();
    const struct settings_group none = {.count = 0};
    for (unsigned families = 0; families < 2; families++) { /* they come last */
        for (size_t i = 0; i < table->count; i++) {
            const struct option_group *group = table->groups[i].is;
            if (group->size > 0 && (group->names_max > 0) == (families == 1))
                compare_groups(group, was ? &was->groups[i] : &none, &is->groups[i], found, arg);
        }
    }
}

void settings_tell(void *services, const struct settings_difference *difference)
{
    if (difference->group->changed)
        difference->group->changed(services, difference->name, difference->was, difference->is);
}

/* --- Checks ---------------------------------------------------------------------------------- */

/* Checking stops after this many mistakes. */
#define CHECK_ERRORS_MAX 20

/* Checks struct number `i` of a group; returns false after printing a mistake. */
static bool check_struct(const struct settings *settings, size_t number, size_t i, FILE *err)
{
    const struct table_group *group = &options_table()->groups[number];
    const struct settings_struct *of = &settings->groups[number].at[i];
    struct option_check check = {
        .name = of->name,
        .number = i,
        .is = of->values,
        .beside = group->is->beside ? settings_own(settings, group->is->beside) : NULL,
        .marks = of->marks,
    };
    if (group->is->check(&check))
        return true;
    CHECK(check.row < group->is->count);
    const char *key = (of->rows ? of->rows : group->rows)[check.row].row.key;
    unsigned line = of->marks[check.row].line;
    if (line > 0 && settings->file)
        options_complain(err, "%s:%u: %s: %s", settings->file, line, key, check.reason);
    else
        options_complain(err, "%s: %s", key, check.reason);
    return false;
}

/* Checks all groups, or those alone whose files the daemon opens as its user. */
static bool check_groups(const struct settings *settings, bool all, FILE *err)
{
    const struct table *table = options_table();
    size_t errors = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct option_group *group = table->groups[i].is;
        bool is_due = group->check && (all || group->opened_as_user);
        size_t count = is_due ? settings->groups[i].count : 0;
        for (size_t j = 0; j < count && errors < CHECK_ERRORS_MAX; j++)
            errors += !check_struct(settings, i, j, err);
    }
    return errors == 0;
}

bool settings_check(struct settings *settings, FILE *err)
{
    return check_groups(settings, true, err);
}

bool settings_check_as_user(struct settings *settings, FILE *err)
{
    return check_groups(settings, false, err);
}

void settings_forget(struct settings *settings)
{
    const struct table *table = options_table();
    for (size_t i = 0; i < table->count; i++) {
        size_t count = table->groups[i].is->forget ? settings->groups[i].count : 0;
        for (size_t j = 0; j < count; j++)
            table->groups[i].is->forget(settings->groups[i].at[j].values);
    }
}
