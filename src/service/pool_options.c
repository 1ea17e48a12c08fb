/* pool_options.c - see pool_options.h. */
#include "service/pool_options.h"

#include "base/option_value.h"

#include <stdlib.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *const kinds[] = {
    [POOL_STATIC] = "static",
    [POOL_JOINED] = "joined",
    [POOL_JOINED + 1] = NULL,
};
static const char *const orders[] = {
    [POOL_LIFO] = "lifo",   [POOL_FIFO] = "fifo",    [POOL_RANDOM] = "random",
    [POOL_LEAST] = "least", [POOL_LEAST + 1] = NULL,
};
static const char *const free_or_dirty[] = {
    [POOL_AFTER_FREE] = "free",
    [POOL_AFTER_DIRTY] = "dirty",
    [POOL_AFTER_DIRTY + 1] = NULL,
};
static const char *const after_fail[] = {
    [POOL_AFTER_FREE] = "free",
    [POOL_AFTER_DIRTY] = "dirty",
    [POOL_AFTER_DOWN] = "down",
    [POOL_AFTER_DOWN + 1] = NULL,
};
static const char *const after_crash[] = {
    [POOL_CRASH_FAILS] = "fail",
    [POOL_CRASH_OK] = "ok",
    [POOL_CRASH_OK + 1] = NULL,
};

/* Type and place of a row, for a field of struct pool_options. */
#define ROW_NUMBER(member)  OPTION_IS_NUMBER(struct pool_options, member), .max = UINT32_MAX
#define ROW_SECONDS(member) OPTION_IS_SECONDS(struct pool_options, member), .max = UINT32_MAX
#define ROW_CHOICE(member)  OPTION_IS_CHOICE(struct pool_options, member)

_Static_assert(offsetof(struct pool_settings, options) == 0, "the rows are for both structs");

/* Formatted by hand: one paragraph for each row. */
/* clang-format off */
const struct option_row pool_rows[] = {
    [POOL_OPTION_KIND] = { .key = "kind", ROW_CHOICE(kind), .choices = kinds,
      .default_text = "static", .unit = "",
      .help = "static: its members are declared; joined: connections register them" },
    [POOL_OPTION_GROUP] = { .key = "group", OPTION_IS_STRING(struct pool_options, group),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "group of pools to which TAKE @GROUP applies; empty: none" },
    [POOL_OPTION_MAX] = { .key = "max", ROW_NUMBER(max),
      .default_text = "0", .unit = "", .reloadable = true,
      .help = "most members; 0: only pools.max_members limits them" },
    [POOL_OPTION_ORDER] = { .key = "order", ROW_CHOICE(order), .choices = orders,
      .default_text = "lifo", .unit = "", .reloadable = true,
      .help = "the free member to take: most or least lately used, any, or with the fewest takes" },
    [POOL_OPTION_QUEUE_MAX] = { .key = "queue_max", ROW_NUMBER(queue_max),
      .default_text = "50", .unit = "", .reloadable = true,
      .help = "most waiting requests for use, and as many others; 0: none may wait" },
    [POOL_OPTION_OVERTAKES] = { .key = "overtakes", ROW_NUMBER(overtakes),
      .default_text = "32", .unit = "", .reloadable = true,
      .help = "how often younger requests may get a member that a waiting one could use; 0: never" },
    [POOL_OPTION_ON_RETURN] = { .key = "on_return", ROW_CHOICE(on_return),
      .choices = free_or_dirty,
      .default_text = "free", .unit = "", .reloadable = true,
      .help = "static pools: state of a member that was returned" },
    [POOL_OPTION_ON_FAIL] = { .key = "on_fail", ROW_CHOICE(on_fail), .choices = after_fail,
      .default_text = "dirty", .unit = "", .reloadable = true,
      .help = "static pools: state of a member whose holder failed" },
    [POOL_OPTION_ON_START] = { .key = "on_start", ROW_CHOICE(on_start), .choices = free_or_dirty,
      .default_text = "free", .unit = "", .reloadable = true,
      .help = "static pools: state of a new member" },
    [POOL_OPTION_CLEAN_AFTER] = { .key = "clean_after", ROW_SECONDS(clean_after_ns),
      .default_text = "0", .unit = "seconds", .reloadable = true,
      .help = "static pools: how long until a dirty member is free by itself; 0: never" },
    [POOL_OPTION_CLEAN_TRIES] = { .key = "clean_tries", ROW_NUMBER(clean_tries),
      .default_text = "5", .unit = "", .reloadable = true,
      .help = "static pools: a member is down after so many failed cleanings in a row; 0: never" },
    [POOL_OPTION_ON_CRASH] = { .key = "on_crash", ROW_CHOICE(on_crash), .choices = after_crash,
      .default_text = "fail", .unit = "", .reloadable = true,
      .help = "what the end of a holder's connection without QUIT counts as" },
    [POOL_OPTION_HOLD_WARN] = { .key = "hold_warn", ROW_SECONDS(hold_warn_ns),
      .default_text = "0", .unit = "seconds", .reloadable = true,
      .help = "a member that is held for longer is logged and counted; 0: never" },
    [POOL_OPTION_HOLD_MAX] = { .key = "hold_max", ROW_SECONDS(hold_max_ns),
      .default_text = "0", .unit = "seconds", .reloadable = true,
      .help = "a member that is held for longer is taken back as failed; 0: never" },
    [POOL_OPTION_MIN_FREE] = { .key = "min_free", ROW_NUMBER(min_free),
      .default_text = "0", .unit = "", .reloadable = true,
      .help = "joined pools: free members that suppliers are asked to keep ready" },
    [POOL_OPTION_CULL_AFTER] = { .key = "cull_after", ROW_SECONDS(cull_after_ns),
      .default_text = "60", .unit = "seconds", .reloadable = true,
      .help = "joined pools: how long a member that is not needed may be idle; 0: for ever" },
    [POOL_OPTION_START_TIMEOUT] = { .key = "start_timeout", ROW_SECONDS(start_timeout_ns),
      .default_text = "60", .unit = "seconds", .reloadable = true,
      .help = "joined pools: how long a supplier may take to join what it was asked for; 0: any" },
    [POOL_OPTION_STOP_TIMEOUT] = { .key = "stop_timeout", ROW_SECONDS(stop_timeout_ns),
      .default_text = "30", .unit = "seconds", .reloadable = true,
      .help = "joined pools: a member that takes longer to stop is forgotten; 0: never" },
    [POOL_OPTION_MAX_LIFETIME] = { .key = "max_lifetime", ROW_SECONDS(max_lifetime_ns),
      .default_text = "0", .unit = "seconds", .reloadable = true,
      .help = "joined pools: age at which a member is stopped; 0: none" },
    [POOL_OPTION_LIFETIME_JITTER] = { .key = "lifetime_jitter", ROW_SECONDS(lifetime_jitter_ns),
      .default_text = "0", .unit = "seconds", .reloadable = true,
      .help = "joined pools: random part of that age, more or less; below max_lifetime" },
    [POOL_ROW_MEMBERS] = { .key = "members", OPTION_IS_STRING(struct pool_settings, members),
      .secret = true, /* it has values */
      .default_text = "", .unit = "", .reloadable = true,
      .help = "static pools: members with commas between them, each NAME or NAME=VALUE" },
    [POOL_ROW_MEMBERS_FILE] = { .key = "members_file",
      OPTION_IS_STRING(struct pool_settings, members_file),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "static pools: file with a member in each line, NAME [VALUE [K=V]...]" },
};
/* clang-format on */

/* ---- fields ---------------------------------------------------------------------------------- */

static void *field(struct pool_options *options, enum pool_option option)
{
    return (char *)options + pool_rows[option].offset;
}

static const void *value_of(const struct pool_options *options, enum pool_option option)
{
    return (const char *)options + pool_rows[option].offset;
}

void pool_options_init(struct pool_options *options)
{
    char reason[OPTIONS_REASON_SIZE];
    *options = (struct pool_options){.group = NULL};
    for (enum pool_option i = 0; i < POOL_OPTION_COUNT; i++)
        CHECK(option_value_assign(field(options, i), &pool_rows[i], pool_rows[i].default_text,
                                  reason));
}

bool pool_options_copy(struct pool_options *copy_r, const struct pool_options *from)
{
    char *group = from->group ? strdup(from->group) : NULL;
    if (from->group && !group)
        return false;
    *copy_r = *from;
    copy_r->group = group;
    return true;
}

void pool_options_free(struct pool_options *options)
{
    free(options->group);
    options->group = NULL;
}

bool pool_option_equal(const struct pool_options *a, const struct pool_options *b,
                       enum pool_option option)
{
    return option_value_equal(value_of(a, option), value_of(b, option), &pool_rows[option]);
}

/* ---- setting --------------------------------------------------------------------------------- */

enum pool_option pool_option_named(struct bytes name)
{
    enum pool_option option = 0;
    while (option < POOL_OPTION_COUNT && !bytes_equal(name, bytes_of(pool_rows[option].key)))
        option++;
    return option;
}

/* True for what may name a group. "-" stands for none where options are shown. */
static bool is_group(struct bytes name)
{
    static const uint8_t other[] = {' ', '\r', '\n', '\0', ','};
    bool good = name.len > 0 && name.len <= POOL_NAME_MAX && name.data[0] != '@' &&
                name.data[0] != '*' && !bytes_equal(name, bytes_of("-"));
    for (size_t i = 0; good && i < ARRAY_SIZE(other); i++)
        good = !memchr(name.data, other[i], name.len);
    return good;
}

static enum pool_option_answer set_group(struct pool_options *options, struct bytes name)
{
    char *group = NULL;
    if (name.len > 0 && !bytes_equal(name, bytes_of("-"))) {
        if (!is_group(name))
            return POOL_OPTION_BAD_VALUE;
        group = malloc(name.len + 1);
        if (!group)
            return POOL_OPTION_NO_MEMORY;
        memcpy(group, name.data, name.len);
        group[name.len] = '\0';
    }
    free(options->group);
    options->group = group;
    return POOL_OPTION_GOOD;
}

/* Sets an option that is a word or a number, which need no memory. */
static enum pool_option_answer set_short(struct pool_options *options, enum pool_option option,
                                         struct bytes text)
{
    char copy[128], reason[OPTIONS_REASON_SIZE];
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.data, '\0', text.len))
        return POOL_OPTION_BAD_VALUE;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return option_value_assign(field(options, option), &pool_rows[option], copy, reason)
               ? POOL_OPTION_GOOD
               : POOL_OPTION_BAD_VALUE;
}

enum pool_option_answer pool_options_set(struct pool_options *options, pool_option_set *given,
                                         struct bytes name, struct bytes value)
{
    enum pool_option option = pool_option_named(name);
    if (option == POOL_OPTION_COUNT)
        return POOL_OPTION_UNKNOWN;
    pool_option_set bit = UINT32_C(1) << option;
    if (*given & bit)
        return POOL_OPTION_REPEATED;
    enum pool_option_answer answer =
        option == POOL_OPTION_GROUP ? set_group(options, value) : set_short(options, option, value);
    if (answer == POOL_OPTION_GOOD)
        *given |= bit;
    return answer;
}

bool pool_option_is_of(enum pool_option option, enum pool_kind kind)
{
    bool is_static = option >= POOL_OPTION_ON_RETURN && option <= POOL_OPTION_CLEAN_TRIES;
    bool is_joined = option >= POOL_OPTION_MIN_FREE;
    return kind == POOL_STATIC ? !is_joined : !is_static;
}

bool pool_options_fit(const struct pool_options *options, pool_option_set given, bool is_there,
                      enum pool_option *wrong_r)
{
    for (enum pool_option i = 0; i < POOL_OPTION_COUNT; i++) {
        bool fits = pool_option_is_of(i, options->kind) && (i != POOL_OPTION_KIND || !is_there);
        if (given >> i & 1 && !fits) {
            *wrong_r = i;
            return false;
        }
    }
    if (options->group && !is_group(bytes_of(options->group))) {
        *wrong_r = POOL_OPTION_GROUP;
        return false;
    }
    *wrong_r = POOL_OPTION_LIFETIME_JITTER;
    return options->max_lifetime_ns == 0 || options->lifetime_jitter_ns < options->max_lifetime_ns;
}

/* ---- text ------------------------------------------------------------------------------------ */

void pool_option_text(const struct pool_options *options, enum pool_option option,
                      char text_r[POOL_OPTION_TEXT])
{
    struct option_text text = {.to = text_r, .size = POOL_OPTION_TEXT};
    pool_rows[option].type->add(&text, value_of(options, option), &pool_rows[option]);
    CHECK(option != POOL_OPTION_GROUP && text.len < POOL_OPTION_TEXT);
}

enum pool_option pool_option_next(const struct pool_options *options, enum pool_option after)
{
    enum pool_option next = after + 1;
    while (next < POOL_OPTION_COUNT && !pool_option_is_of(next, options->kind))
        next++;
    return next;
}
