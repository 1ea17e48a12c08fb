/* pool_options_test.c - options of pools from requests: defaults, wrong values, what fits together,
 * and how they are shown. */
#include "service/pool_options.h"

#include "base/clock.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

/* Sets an option from C strings; returns the answer. */
static enum pool_option_answer set(struct pool_options *options, pool_option_set *given,
                                   const char *name, const char *text)
{
    return pool_options_set(options, given, bytes_of(name), bytes_of(text));
}

/* The options that SHOW lists, as "max=0 order=lifo ". */
static const char *shown(const struct pool_options *options)
{
    static char line[1024];
    *line = '\0';
    for (enum pool_option i = pool_option_next(options, POOL_OPTION_GROUP); i < POOL_OPTION_COUNT;
         i = pool_option_next(options, i)) {
        char text[POOL_OPTION_TEXT];
        size_t len = strlen(line);
        pool_option_text(options, i, text);
        snprintf(line + len, sizeof line - len, "%s=%s ", pool_option_name(i), text);
    }
    return line;
}

TEST(the_defaults_are_those_of_the_page)
{
    struct pool_options options;
    pool_options_init(&options);
    ck_assert_uint_eq(options.kind, POOL_STATIC);
    ck_assert_ptr_null(options.group);
    ck_assert_uint_eq(options.order, POOL_LIFO);
    ck_assert_uint_eq(options.on_fail, POOL_AFTER_DIRTY);
    ck_assert_int_eq(options.cull_after_ns, 60 * NS_PER_S);
    ck_assert_str_eq(shown(&options),
                     "max=0 order=lifo queue_max=50 overtakes=32 on_return=free on_fail=dirty "
                     "on_start=free clean_after=0 clean_tries=5 on_crash=fail hold_warn=0 "
                     "hold_max=0 ");
    options.kind = POOL_JOINED;
    ck_assert_str_eq(shown(&options),
                     "max=0 order=lifo queue_max=50 overtakes=32 on_crash=fail hold_warn=0 "
                     "hold_max=0 min_free=0 cull_after=60 start_timeout=60 stop_timeout=30 "
                     "max_lifetime=0 lifetime_jitter=0 ");
    pool_options_free(&options);
}
END_TEST

/* An option, with values that are good and one that is not. */
static const struct {
    const char *name, *good[5], *bad[6];
} values[] = {
    {"kind", {"joined", "static"}, {"", "JOINED", "none", "0"}},
    {"group", {"g", "a=b", "\x01\"", "-x", "\xff"}, {"@g", "*", "a,b", "a b", "a\rb"}},
    {"max", {"0", "7", "4294967295"}, {"", "-1", "4294967296", "1.5", "7x"}},
    {"order", {"lifo", "fifo", "random", "least"}, {"", "most", "lifo "}},
    {"queue_max", {"0", "4294967295"}, {"", "1K"}},
    {"overtakes", {"0", "4294967295"}, {"", "x"}},
    {"on_return", {"free", "dirty"}, {"", "down", "taken"}},
    {"on_fail", {"free", "dirty", "down"}, {"", "gone"}},
    {"on_start", {"free", "dirty"}, {"", "down"}},
    {"clean_after", {"0", "0.25", "4294967295"}, {"", ".", "4294967296", "-1", "1s"}},
    {"clean_tries", {"0", "1"}, {"", "-1"}},
    {"on_crash", {"fail", "ok"}, {"", "free"}},
    {"hold_warn", {"0", "0.000000001"}, {"", "1,5"}},
    {"hold_max", {"0", "1.5"}, {"", "never"}},
    {"min_free", {"0", "1"}, {"", "x"}},
    {"cull_after", {"0", "0.05"}, {"", "x"}},
    {"start_timeout", {"0", "2"}, {"", "x"}},
    {"stop_timeout", {"0", "2"}, {"", "x"}},
    {"max_lifetime", {"0", "2"}, {"", "x"}},
    {"lifetime_jitter", {"0", "2"}, {"", "x"}},
};

TEST(each_option_has_its_values)
{
    ck_assert_uint_eq(ARRAY_SIZE(values), POOL_OPTION_COUNT);
    for (enum pool_option i = 0; i < POOL_OPTION_COUNT; i++) {
        struct pool_options options, before;
        pool_option_set given = 0;
        pool_options_init(&options);
        ck_assert_str_eq(pool_option_name(i), values[i].name);
        ck_assert_int_eq(pool_option_named(bytes_of(values[i].name)), i);
        for (size_t j = 0; j < ARRAY_SIZE(values[i].good) && values[i].good[j]; j++) {
            char text[POOL_OPTION_TEXT];
            const char *now = text;
            given = 0;
            ck_assert_int_eq(set(&options, &given, values[i].name, values[i].good[j]),
                             POOL_OPTION_GOOD);
            ck_assert_uint_eq(given, UINT32_C(1) << i);
            if (i == POOL_OPTION_GROUP)
                now = options.group;
            else
                pool_option_text(&options, i, text);
            ck_assert_str_eq(now, values[i].good[j]);
            ck_assert_int_eq(set(&options, &given, values[i].name, values[i].good[j]),
                             POOL_OPTION_REPEATED);
        }
        ck_assert(pool_options_copy(&before, &options));
        for (size_t j = 0; j < ARRAY_SIZE(values[i].bad) && values[i].bad[j]; j++) {
            given = 0;
            ck_assert_msg(set(&options, &given, values[i].name, values[i].bad[j]) ==
                              POOL_OPTION_BAD_VALUE,
                          "%s=%s", values[i].name, values[i].bad[j]);
            ck_assert_uint_eq(given, 0);
            ck_assert(pool_option_equal(&options, &before, i));
        }
        pool_options_free(&before);
        pool_options_free(&options);
    }
}
END_TEST

TEST(a_value_may_hold_any_bytes)
{
    static uint8_t long_one[300];
    struct pool_options options;
    pool_option_set given = 0;
    pool_options_init(&options);
    memset(long_one, '1', sizeof long_one);
    ck_assert_int_eq(set(&options, &given, "", "1"), POOL_OPTION_UNKNOWN);
    ck_assert_int_eq(set(&options, &given, "members", "1"), POOL_OPTION_UNKNOWN);
    ck_assert_int_eq(set(&options, &given, "ma", "1"), POOL_OPTION_UNKNOWN);
    struct bytes max = bytes_of("max"), group = bytes_of("group");
    ck_assert_int_eq(pool_options_set(&options, &given, max, bytes_at("1\0", 2)),
                     POOL_OPTION_BAD_VALUE);
    ck_assert_int_eq(pool_options_set(&options, &given, max, bytes_at(NULL, 0)),
                     POOL_OPTION_BAD_VALUE);
    ck_assert_int_eq(pool_options_set(&options, &given, max, bytes_at(long_one, 300)),
                     POOL_OPTION_BAD_VALUE);
    ck_assert_int_eq(pool_options_set(&options, &given, group, bytes_at("a\0b", 3)),
                     POOL_OPTION_BAD_VALUE);
    ck_assert_int_eq(pool_options_set(&options, &given, group, bytes_at(long_one, 256)),
                     POOL_OPTION_BAD_VALUE);
    ck_assert_int_eq(pool_options_set(&options, &given, group, bytes_at(long_one, 255)),
                     POOL_OPTION_GOOD);
    ck_assert_uint_eq(strlen(options.group), 255);
    pool_options_free(&options);
}
END_TEST

TEST(no_group_is_empty_or_a_dash)
{
    static const char *const none[] = {"", "-"};
    struct pool_options options;
    pool_options_init(&options);
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        pool_option_set given = 0;
        ck_assert_int_eq(set(&options, &given, "group", "g"), POOL_OPTION_GOOD);
        given = 0;
        ck_assert_int_eq(set(&options, &given, "group", none[i]), POOL_OPTION_GOOD);
        ck_assert_uint_eq(given, UINT32_C(1) << POOL_OPTION_GROUP);
        ck_assert_ptr_null(options.group);
    }
    pool_options_free(&options);
}
END_TEST

/* Sets options as "name=value ..." and returns the one that does not fit, or "". */
static const char *misfit(const char *text, bool is_there)
{
    struct pool_options options;
    pool_option_set given = 0;
    enum pool_option wrong;
    char copy[256], *rest;
    pool_options_init(&options);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        ck_assert_int_eq(set(&options, &given, word, equals + 1), POOL_OPTION_GOOD);
    }
    bool fit = pool_options_fit(&options, given, is_there, &wrong);
    pool_options_free(&options);
    return fit ? "" : pool_option_name(wrong);
}

TEST(options_of_the_other_kind_do_not_fit)
{
    ck_assert_str_eq(misfit("", false), "");
    ck_assert_str_eq(misfit("on_fail=down clean_after=1 hold_max=2", false), "");
    ck_assert_str_eq(misfit("min_free=1 kind=joined hold_max=2", false), "");
    ck_assert_str_eq(misfit("min_free=0", false), "min_free");
    ck_assert_str_eq(misfit("kind=joined on_return=free", false), "on_return");
    for (enum pool_option i = POOL_OPTION_GROUP; i < POOL_OPTION_COUNT; i++) {
        bool is_static = pool_option_is_of(i, POOL_STATIC);
        char text[64];
        ck_assert(is_static || pool_option_is_of(i, POOL_JOINED));
        snprintf(text, sizeof text, "%s=%s", values[i].name, values[i].good[0]);
        ck_assert_str_eq(misfit(text, false), is_static ? "" : values[i].name);
        snprintf(text, sizeof text, "%s=%s kind=joined", values[i].name, values[i].good[0]);
        ck_assert_str_eq(misfit(text, false),
                         pool_option_is_of(i, POOL_JOINED) ? "" : values[i].name);
    }
}
END_TEST

TEST(the_kind_of_a_pool_stays)
{
    ck_assert_str_eq(misfit("kind=static", true), "kind");
    ck_assert_str_eq(misfit("max=1", true), "");
}
END_TEST

TEST(jitter_is_below_the_lifetime)
{
    ck_assert_str_eq(misfit("kind=joined lifetime_jitter=5", false), "");
    ck_assert_str_eq(misfit("kind=joined lifetime_jitter=4.9 max_lifetime=5", false), "");
    ck_assert_str_eq(misfit("kind=joined lifetime_jitter=5 max_lifetime=5", false),
                     "lifetime_jitter");
    ck_assert_str_eq(misfit("kind=joined max_lifetime=0.5 lifetime_jitter=1", false),
                     "lifetime_jitter");
}
END_TEST

TEST(a_group_from_the_file_is_checked_too)
{
    static char dash[] = "-", at[] = "@g", good[] = "g";
    struct pool_options options;
    enum pool_option wrong;
    pool_options_init(&options);
    options.group = good;
    ck_assert(pool_options_fit(&options, 0, false, &wrong));
    options.group = dash;
    ck_assert(!pool_options_fit(&options, 0, false, &wrong));
    options.group = at;
    ck_assert(!pool_options_fit(&options, 0, false, &wrong));
    ck_assert_int_eq(wrong, POOL_OPTION_GROUP);
}
END_TEST

TEST(words_are_in_the_order_of_the_enums)
{
    ck_assert_str_eq(pool_option_word(POOL_OPTION_KIND, POOL_JOINED), "joined");
    ck_assert_str_eq(pool_option_word(POOL_OPTION_ORDER, POOL_LEAST), "least");
    ck_assert_str_eq(pool_option_word(POOL_OPTION_ON_RETURN, POOL_AFTER_DIRTY), "dirty");
    ck_assert_str_eq(pool_option_word(POOL_OPTION_ON_FAIL, POOL_AFTER_DOWN), "down");
    ck_assert_str_eq(pool_option_word(POOL_OPTION_ON_CRASH, POOL_CRASH_OK), "ok");
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_defaults_are_those_of_the_page),   UNIT(each_option_has_its_values),
    UNIT(a_value_may_hold_any_bytes),           UNIT(no_group_is_empty_or_a_dash),
    UNIT(options_of_the_other_kind_do_not_fit), UNIT(the_kind_of_a_pool_stays),
    UNIT(jitter_is_below_the_lifetime),         UNIT(a_group_from_the_file_is_checked_too),
    UNIT(words_are_in_the_order_of_the_enums),
};

UNIT_MAIN("service/pool_options", tests)
