/*
 * taken.c - what a TAKE gave (taken.h).
 */
#include "cli/taken.h"

#include "cli/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Room for the name of a variable: "COUNTER_ATTR_", a key, "_" and an index. */
#define VARIABLE_SIZE (POOLS_KEY_MAX + 40)

void taken_add(struct taken *taken, struct bytes line)
{
    taken->at = array_grow(taken->at, taken->count, &taken->room, sizeof *taken->at);
    struct taken_member *to = &taken->at[taken->count++];
    struct pool_answer answer;
    *to = (struct taken_member){0};
    text_add(&to->line, line.data, line.len);
    pool_parse_reply(text_bytes(&to->line), &answer);
    CHECK(answer.reply == POOL_REPLY_TAKEN);
    to->member = answer.taken;
}

void taken_add_name(struct text *to, const struct pool_taken_reply *member)
{
    text_add_name(to, member->pool);
    text_addf(to, "/");
    text_add_name(to, member->member);
}

struct pool_request taken_return(const struct taken_member *member, bool failed)
{
    return (struct pool_request){.verb = POOL_VERB_RETURN,
                                 .has_fence = true,
                                 .fence = member->member.fence,
                                 .failed = failed};
}

void taken_free(struct taken *taken)
{
    for (size_t i = 0; i < taken->count; i++)
        text_free(&taken->at[i].line);
    free(taken->at);
    *taken = (struct taken){0};
}

/* ---- variables ------------------------------------------------------------------------------- */

/* Adds a variable with a part of each member, and of several members one for each. */
static void add_parts(const struct taken *taken, struct environment *environment, const char *name,
                      const struct bytes *parts)
{
    struct text joined = {0};
    if (taken->count == 1) {
        environment_add(environment, name, parts[0]);
        return;
    }
    for (size_t i = 0; i < taken->count; i++) {
        char numbered[VARIABLE_SIZE];
        struct bytes part = parts[i].len > 0 ? parts[i] : bytes_of("-");
        snprintf(numbered, sizeof numbered, "%s_%zu", name, i);
        environment_add(environment, numbered, parts[i]);
        text_add(&joined, " ", i > 0);
        text_add(&joined, part.data, part.len);
    }
    environment_add(environment, name, text_bytes(&joined));
    text_free(&joined);
}

/* The member's value of an attribute; empty when it has none. */
static struct bytes attribute(const struct pool_taken_reply *member, struct bytes key)
{
    for (size_t i = 0; i < member->attr_count; i++)
        if (bytes_equal(member->attrs[i].key, key))
            return member->attrs[i].value;
    return (struct bytes){0};
}

/* Adds the variable of an attribute that any member has. */
static void add_attribute(const struct taken *taken, struct environment *environment,
                          struct bytes key)
{
    struct bytes parts[POOLS_COUNT_MAX];
    char name[VARIABLE_SIZE];
    int len = snprintf(name, sizeof name, "COUNTER_ATTR_");
    for (size_t i = 0; i < key.len && i < POOLS_KEY_MAX; i++)
        name[len++] = (char)toupper(key.data[i]);
    name[len] = '\0';
    for (size_t i = 0; i < taken->count; i++)
        parts[i] = attribute(&taken->at[i].member, key);
    add_parts(taken, environment, name, parts);
}

/* Adds the variable that the user has named. */
static void add_extra(const struct taken *taken, struct environment *environment, const char *name)
{
    struct text joined = {0};
    for (size_t i = 0; i < taken->count; i++) {
        const struct pool_taken_reply *member = &taken->at[i].member;
        struct bytes part = member->value.len > 0 ? member->value : member->member;
        text_add(&joined, ",", i > 0);
        text_add(&joined, part.data, part.len);
    }
    environment_add(environment, name, text_bytes(&joined));
    text_free(&joined);
}

void taken_environment(const struct taken *taken, const char *extra,
                       struct environment *environment)
{
    struct bytes names[POOLS_COUNT_MAX], values[POOLS_COUNT_MAX], fences[POOLS_COUNT_MAX];
    char digits[POOLS_COUNT_MAX][24];
    CHECK(taken->count > 0 && taken->count <= POOLS_COUNT_MAX);
    for (size_t i = 0; i < taken->count; i++) {
        const struct pool_taken_reply *member = &taken->at[i].member;
        names[i] = member->member;
        values[i] = member->value;
        snprintf(digits[i], sizeof digits[i], "%" PRIu64, member->fence);
        fences[i] = bytes_of(digits[i]);
    }
    environment_leave_out(environment, "COUNTER_MEMBER_");
    environment_leave_out(environment, "COUNTER_VALUE_");
    environment_leave_out(environment, "COUNTER_FENCE_");
    environment_leave_out(environment, "COUNTER_ATTR_");
    environment_add(environment, "COUNTER_POOL", taken->at[0].member.pool);
    add_parts(taken, environment, "COUNTER_MEMBER", names);
    add_parts(taken, environment, "COUNTER_VALUE", values);
    add_parts(taken, environment, "COUNTER_FENCE", fences);
    for (size_t i = 0; i < taken->count; i++)
        for (size_t j = 0; j < taken->at[i].member.attr_count; j++)
            add_attribute(taken, environment, taken->at[i].member.attrs[j].key);
    if (extra)
        add_extra(taken, environment, extra);
}

void taken_by(struct text *by_r, const char *command)
{
    char host[HOST_NAME_MAX + 1] = "";
    const struct passwd *user = getpwuid(geteuid()); /* NOLINT(concurrency-mt-unsafe): one thread */
    const char *slash = strrchr(command, '/');
    (void)!gethostname(host, sizeof host);
    host[HOST_NAME_MAX] = '\0';
    text_clear(by_r);
    if (user)
        text_addf(by_r, "%s", user->pw_name);
    else
        text_addf(by_r, "%u", geteuid());
    text_addf(by_r, "@%s:%s", host, slash ? slash + 1 : command);
    if (by_r->len > POOLS_BY_MAX)
        by_r->len = POOLS_BY_MAX;
    by_r->data[by_r->len] = '\0';
    for (size_t i = 0; i < by_r->len; i++)
        if (!isgraph((unsigned char)by_r->data[i]))
            by_r->data[i] = '_';
}
