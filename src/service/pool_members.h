/*
 * pool_members.h - the members of a pool that the configuration declares: those of the option
 * `members` (`db_1, db_2=host:5433`) and the lines of the file `members_file`.
 *
 * A value of a member is for its holders alone: no message has it.
 *
 * Threads: any, as long as no other thread uses the same members.
 */
#ifndef SERVICE_POOL_MEMBERS_H
#define SERVICE_POOL_MEMBERS_H

#include "base/check.h"
#include "base/option.h"
#include "engine/pool.h"

/* All members, by name. A struct of zeros has none. */
struct pool_members {
    size_t count, room;
    struct pool_new_member *at;
    size_t attr_count, attr_room;
    struct pool_attribute *attrs; /* of all; none has an empty value */
    char *text;                   /* of the file */
};

/*
 * Reads the members of a list and of the file at `path`; NULL: there is none. `members_r` points
 * into `list`. Returns false when one is wrong or there twice, when there are more than `max`, or
 * without memory; there is nothing to free then. `reason_r` says what is wrong and would be right,
 * for a file as "PATH:LINE: ..."; *in_file_r: it is in the file.
 */
bool pool_members_load(struct pool_members *members_r, const char *list, const char *path,
                       size_t max, bool *in_file_r, char reason_r[OPTION_CHECK_REASON]) MUST_USE;

/* Frees the members, and makes it a struct of zeros. */
void pool_members_free(struct pool_members *members);

#endif
