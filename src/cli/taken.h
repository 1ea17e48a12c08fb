/*
 * taken.h - what a TAKE gave: the members of a pool that a command works with.
 */
#ifndef CLI_TAKEN_H
#define CLI_TAKEN_H

#include "base/text.h"
#include "cli/child.h"
#include "proto/pools.h"

/* Zero-initialise: no member. */
struct taken {
    struct taken_member {
        struct text line; /* of TAKEN; what the reply points into */
        struct pool_taken_reply member;
    } * at;
    size_t count, room;
};

/* Adds the member of a TAKEN line, without its end. Ends the process without memory. */
void taken_add(struct taken *taken, struct bytes line);

/*
 * Adds the variables that tell a command its members: COUNTER_POOL, COUNTER_MEMBER, COUNTER_VALUE,
 * COUNTER_FENCE, and COUNTER_ATTR_K for each attribute, its key in capitals. With several members
 * all but the first are joined by spaces, with "-" for nothing, and each member has its own with
 * _0, _1 ... at the end of the name. `extra` (NULL: none) is one more variable: the values joined
 * by commas, or the name of a member that has no value. Such variables of our environment are left
 * out.
 */
void taken_environment(const struct taken *taken, const char *extra,
                       struct environment *environment);

/* Adds POOL/MEMBER, for people. */
void taken_add_name(struct text *to, const struct pool_taken_reply *member);

/* The request that gives a member back. */
struct pool_request taken_return(const struct taken_member *member, bool failed);

/* Sets the word by= of a TAKE, which shows people the client: USER@HOST:COMMAND, the command's file
   name without its folder, with "_" for bytes that such a word can't have. */
void taken_by(struct text *by_r, const char *command);

void taken_free(struct taken *taken);

#endif
