/* pools_config.c - see pools_config.h. */
#include "service/pools_config.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- pools.* --------------------------------------------------------------------------------- */

/* clang-format off */
static const struct option_row pools_rows[] = {
    { .key = "operators", OPTION_IS_NETWORKS(struct pools_settings, operators),
      .default_text = "127.0.0.0/8, ::1/128", .unit = "", .reloadable = true,
      .help = "addresses and networks whose clients may change pools, besides unix sockets" },
    { .key = "suppliers", OPTION_IS_NETWORKS(struct pools_settings, suppliers),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "addresses and networks whose clients may join members, besides operators" },
    { .key = "max", OPTION_IS_NUMBER(struct pools_settings, max), .max = 100000,
      .default_text = "1000", .unit = "", .reloadable = true,
      .help = "most pools" },
    { .key = "max_members", OPTION_IS_NUMBER(struct pools_settings, max_members), .min = 1,
      .max = 1000000, .default_text = "10000", .unit = "", .reloadable = true,
      .help = "most members of one pool" },
    { .key = "max_watchers", OPTION_IS_NUMBER(struct pools_settings, max_watchers), .max = 100000,
      .default_text = "100", .unit = "", .reloadable = true,
      .help = "most connections that watch pools" },
    { .key = "max_taken", OPTION_IS_NUMBER(struct pools_settings, max_taken), .min = 1,
      .max = 1024, .default_text = "64", .unit = "",
      .help = "most members that one connection may hold at once" },
};
/* clang-format on */

static void settings_changed(void *services, const char *name, const void *was, const void *is)
{
    (void)name;
    (void)was;
    pools_change_settings(services, is);
}

const struct option_group pools_options = {
    .owner = "pools",
    .prefix = "pools",
    .rows = pools_rows,
    .count = ARRAY_SIZE(pools_rows),
    .size = sizeof(struct pools_settings),
    .changed = settings_changed,
};

/* ---- pool.NAME.* ----------------------------------------------------------------------------- */

/* Sets the mistake of a check. Returns false. */
static bool wrong(struct option_check *check, size_t row, const char *format, ...)
    PRINTF_LIKE(3, 4);
static bool wrong(struct option_check *check, size_t row, const char *format, ...)
{
    va_list values;
    check->row = row;
    va_start(values, format);
    vsnprintf(check->reason, sizeof(check->reason), format, values);
    va_end(values);
    return false;
}

/* The first option of the pool that the file sets. */
static size_t first_given(const struct option_check *check)
{
    size_t row = 0;
    while (row < POOL_ROW_COUNT && !check->marks[row].named)
        row++;
    return row % POOL_ROW_COUNT;
}

/* Sets the mistake of an option that does not fit. Returns false. */
static bool misfit(struct option_check *check, size_t row)
{
    const struct pool_settings *s = check->is;
    if (row == POOL_OPTION_GROUP)
        return wrong(check, row,
                     "not the name of a group: 1 to %d bytes without blanks and commas, not - and "
                     "not beginning with @ or *",
                     POOL_NAME_MAX);
    if (row == POOL_OPTION_LIFETIME_JITTER && s->options.kind == POOL_JOINED)
        return wrong(check, row, "not below pool.%s.max_lifetime", check->name);
    const char *is = pool_option_word(POOL_OPTION_KIND, s->options.kind);
    const char *other = pool_option_word(POOL_OPTION_KIND, !s->options.kind);
    return wrong(check, row,
                 "the pool is %s, and this option is for %s pools: remove it, or set pool.%s.kind "
                 "to %s",
                 is, other, check->name, other);
}

static bool fits_together(struct option_check *check)
{
    const struct pool_settings *s = check->is;
    pool_option_set given = 0;
    enum pool_option row;
    for (row = 0; row < POOL_OPTION_COUNT; row++)
        given |= (pool_option_set)check->marks[row].named << row;
    if (!pool_options_fit(&s->options, given, false, &row))
        return misfit(check, row);
    if (s->options.kind == POOL_STATIC)
        return true;
    if (s->members)
        return misfit(check, POOL_ROW_MEMBERS);
    return !s->members_file || misfit(check, POOL_ROW_MEMBERS_FILE);
}

static bool load_members(struct option_check *check)
{
    const struct pools_settings *pools = check->beside;
    struct pool_settings *s = check->is;
    bool in_file;
    if (!pool_members_load(&s->declared, s->members, s->members_file, pools->max_members, &in_file,
                           check->reason)) {
        check->row = in_file ? POOL_ROW_MEMBERS_FILE : POOL_ROW_MEMBERS;
        return false;
    }
    if (s->options.max > 0 && s->declared.count > s->options.max)
        return wrong(check, POOL_OPTION_MAX, "%zu members are declared, which is more",
                     s->declared.count);
    return true;
}

static void pool_forget(void *settings)
{
    struct pool_settings *s = settings;
    pool_members_free(&s->declared);
}

static bool pool_check(struct option_check *check)
{
    const struct pools_settings *pools = check->beside;
    pool_forget(check->is);
    if (check->number >= pools->max)
        return wrong(check, first_given(check), "there are more pools than pools.max, which is %u",
                     pools->max);
    return fits_together(check) && load_members(check);
}

static bool pool_accepts(void *services, const char *name, const void *was, const void *is,
                         char *reason_r)
{
    const struct pool_settings *old = was, *new = is;
    if (!new)
        return true;
    if (old && old->options.kind != new->options.kind) {
        snprintf(reason_r, OPTIONS_REASON_SIZE,
                 "its kind can't change from %s to %s while counterd runs: restart it, or reload "
                 "without the pool first",
                 pool_option_word(POOL_OPTION_KIND, old->options.kind),
                 pool_option_word(POOL_OPTION_KIND, new->options.kind));
        return false;
    }
    return pools_accept(services, name, new->options.kind, reason_r);
}

static void pool_changed(void *services, const char *name, const void *was, const void *is)
{
    const struct pool_settings *s = is;
    (void)was;
    pools_configure(services, name, s ? &s->options : NULL, s ? &s->declared : NULL);
}

const struct option_group pool_family = {
    .prefix = "pool",
    .rows = pool_rows,
    .count = POOL_ROW_COUNT,
    .size = sizeof(struct pool_settings),
    .names_max = 100000,
    .beside = &pools_options,
    .check = pool_check,
    .forget = pool_forget,
    .accepts = pool_accepts,
    .always = true,
    .changed = pool_changed,
};
