/*
 * environment.h - how the environment of a command differs from ours (child.h).
 */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include "base/bytes.h"

/* Zero-initialise: not at all. */
struct environment {
    char **list; /* for struct child; NULL: no changes */
    size_t count, room;
};

/* Adds a variable. The value may have any byte but NUL. A name that is there gets the new value.
   Ends the process without memory. */
void environment_add(struct environment *environment, const char *name, struct bytes value);

/* Leaves out all variables of our environment whose names begin with `prefix`, and that are not
   added. */
void environment_leave_out(struct environment *environment, const char *prefix);

/* Drops all changes and frees the memory. */
void environment_free(struct environment *environment);

#endif
