/*
 * options_table.h - what options.c (the table) and settings.c (the values) know of each other.
 */
#ifndef DAEMON_OPTIONS_TABLE_H
#define DAEMON_OPTIONS_TABLE_H

#include "daemon/options.h"

/* A row as the functions of options.h take and give it. */
struct table_row {
    struct option_row row; /* with whole keys */
    char *key, *alias;     /* the same, to be freed */
    size_t group;          /* its number in the table */
    size_t index;          /* among the rows of the group */
    const char *name;      /* which of a family's; NULL: it is not of one, or stands for all */
};

struct table_group {
    const struct option_group *is;
    struct table_row *rows; /* of a family: with "NAME" for all of them */
};

struct table {
    size_t count;
    struct table_group *groups;            /* by prefix, "" last */
    size_t protocol[OPTION_PROTOCOLS_MAX]; /* the groups of what all protocols have */
};

/* The table, which is made at the first call. NULL: no memory. */
const struct table *options_table(void);

static inline const struct table_row *table_row_of(const struct option_row *row)
{
    _Static_assert(offsetof(struct table_row, row) == 0, "they begin with it");
    return (const void *)row;
}

/* Makes the rows of a group; of a family's, `name` is kept. NULL: no memory. */
struct table_row *table_make_rows(size_t number, const struct option_group *group,
                                  const char *name) MUST_USE;
void table_free_rows(struct table_row *rows, const struct option_group *group);

/*
 * The rows of the family's struct called by `len` bytes of `name`, which is made where there is
 * none. NULL: there are too many, or no memory, and reason_r (OPTIONS_REASON_SIZE bytes) says so.
 */
const struct table_row *settings_open(struct settings *settings, size_t number, const char *name,
                                      size_t len, char *reason_r) MUST_USE;

#endif
