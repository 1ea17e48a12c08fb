/*
 * options_internal.h - the interface between options.c (the table) and settings.c (the values).
 *
 * Threads: main thread, until the table is made; then any may read it.
 */
#ifndef DAEMON_OPTIONS_INTERNAL_H
#define DAEMON_OPTIONS_INTERNAL_H

#include "daemon/options.h"

/* The whole of a row of options.h. */
struct table_row {
    struct option_row row; /* with whole keys */
    char *key, *alias;     /* the same strings, which the row owns */
    size_t group;          /* number of the group in the table */
    size_t index;          /* place in the group */
    const char *name;      /* name in a family, "NAME" in the table; NULL: no family */
};

struct table_group {
    const struct option_group *is;
    struct table_row *rows; /* of a family: with "NAME" in place of a name */
};

/* Limit of groups: two of each protocol, those of the registry, two of the daemon. */
#define TABLE_GROUPS_MAX ((size_t)4 * OPTION_PROTOCOLS_MAX)

struct table {
    size_t count;
    struct table_group groups[TABLE_GROUPS_MAX]; /* by prefix, "" last */
    size_t protocol[OPTION_PROTOCOLS_MAX]; /* number of each protocol's group of common options */
};

/* Returns the table; the first call makes it. NULL: no memory. */
const struct table *options_table(void);

static inline const struct table_row *table_row_of(const struct option_row *row)
{
    _Static_assert(offsetof(struct table_row, row) == 0, "they begin with it");
    return (const void *)row;
}

/* Makes the rows of a group. For a family, the rows keep the pointer `name`. The caller calls
 * table_free_rows. NULL: no memory. */
struct table_row *table_make_rows(size_t number, const struct option_group *group,
                                  const char *name) MUST_USE;
void table_free_rows(struct table_row *rows, const struct option_group *group);

/*
 * Finds the rows of one name (`len` bytes) of a family; adds the name if it is new. `settings` owns
 * the rows. Returns NULL if there are too many names or no memory; reason_r (OPTIONS_REASON_SIZE
 * bytes) says which.
 */
const struct table_row *settings_open(struct settings *settings, size_t number, const char *name,
                                      size_t len, char *reason_r) MUST_USE;

#endif
