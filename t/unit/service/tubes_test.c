/* tubes_test.c - the option jobs.tube_defaults: which settings are accepted, and what they mean. */
#include "service/jobs.h"
#include "t/unit/unit.h"

#include <string.h>

static char text[256];

static bool accepts(const char *settings, struct job_settings *settings_r)
{
    struct tubes_settings s = {.tube_defaults = text};
    struct option_check check = {.is = &s, .row = 99};
    strcpy(text, settings);
    if (!*settings)
        s.tube_defaults = NULL;
    bool good = tubes_options.check(&check);
    if (good) {
        *settings_r = s.defaults;
    } else {
        ck_assert_str_eq(tubes_options.rows[check.row].key, "tube_defaults");
        ck_assert_ptr_nonnull(strstr(check.reason, "tries=3"));
    }
    return good;
}

TEST(settings_are_those_of_the_verb)
{
    struct job_settings s;
    ck_assert(accepts("tries=3 prune=604800 order=fifo claim=lease limit=9 remember=7 "
                      "read-only=until Monday, 9:00",
                      &s));
    ck_assert(s.tries == 3 && s.prune_s == 604800 && s.limit == 9 && s.remember_s == 7);
    ck_assert(s.order == JOB_ORDER_FIFO && s.claim == JOB_CLAIM_LEASE);
    ck_assert_str_eq(s.read_only, "until Monday, 9:00");
}
END_TEST

TEST(what_is_left_out_is_the_default)
{
    struct job_settings s;
    ck_assert(accepts("", &s));
    ck_assert_mem_eq(&s, &job_default_settings, sizeof(s));
    ck_assert(accepts("tries=1", &s));
    ck_assert_uint_eq(s.remember_s, job_default_settings.remember_s);
    ck_assert(accepts("remember=0", &s));
    ck_assert_uint_eq(s.remember_s, 0);
}
END_TEST

TEST(wrong_settings_are_refused)
{
    static const char *const wrong[] = {
        "tries",           "tries=x",     "tries=4294967296",  "tires=3",
        "tries=3 tries=3", "order=lifo",  "remember=31536001", "prune=-1",
        "tries=3,prune=4", "tries=3\r\n", "read-only=\"x\"",   "tries=3 ",
    };
    struct job_settings s;
    for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++)
        ck_assert_msg(!accepts(wrong[n], &s), "%s", wrong[n]);
}
END_TEST

UNIT_MAIN("service/tubes")
