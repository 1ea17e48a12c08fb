/*
 * option_value_test.c - values of options as text: seconds. t/unit/daemon/options_test.c has the
 * other types.
 */
#include "base/clock.h"
#include "base/option_value.h"
#include "t/unit/unit.h"

#include <string.h>

struct times {
    int64_t wait_ns, pause_ns;
};

static const struct option_row wait = {.key = "wait",
                                       OPTION_IS_SECONDS(struct times, wait_ns),
                                       .max = OPTION_SECONDS_MAX,
                                       .unit = "seconds"};
static const struct option_row pause_row = {.key = "pause",
                                            OPTION_IS_SECONDS(struct times, pause_ns),
                                            .min = 1,
                                            .max = 60,
                                            .unit = "seconds"};

TEST(seconds_are_exact_below_a_second)
{
    static const struct {
        const char *text, *printed;
        int64_t ns;
    } good[] = {
        {"0", "0", 0},
        {"5", "5", 5 * NS_PER_S},
        {"5.", "5", 5 * NS_PER_S},
        {"05", "5", 5 * NS_PER_S},
        {"0.25", "0.25", 250000000},
        {".5", "0.5", 500000000},
        {"1.50", "1.5", 1500000000},
        {"0.000000001", "0.000000001", 1},
        {"1.000000010", "1.00000001", 1000000010},
        {"0.1234567899", "0.123456789", 123456789}, /* the tenth digit is ignored */
        {"4294967295", "4294967295", UINT32_MAX * NS_PER_S},
    };
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        char reason[OPTIONS_REASON_SIZE], printed[32];
        struct option_text to = {.to = printed, .size = sizeof printed};
        int64_t ns = -1, again = -1;
        ck_assert_msg(option_value_assign(&ns, &wait, good[i].text, reason), "%s", good[i].text);
        ck_assert_int_eq(ns, good[i].ns);
        option_value_add(&to, &ns, &wait);
        ck_assert_str_eq(printed, good[i].printed);
        ck_assert(option_value_assign(&again, &wait, printed, reason));
        ck_assert(option_value_equal(&ns, &again, &wait));
        ck_assert(option_value_copy(&again, &(int64_t){7}, &wait));
        ck_assert_int_eq(again, 7);
    }
}
END_TEST

TEST(what_is_no_number_of_seconds_is_refused)
{
    static const char *const bad[] = {"",
                                      " ",
                                      ".",
                                      "-1",
                                      "+1",
                                      "1 ",
                                      "1s",
                                      "1e3",
                                      "0x1",
                                      "1.2.3",
                                      "1,5",
                                      "4294967296",
                                      "4294967295.1",
                                      "never",
                                      "18446744073709551616"};
    char reason[OPTIONS_REASON_SIZE];
    int64_t ns = 3;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!option_value_assign(&ns, &wait, bad[i], reason), "%s", bad[i]);
    ck_assert(!option_value_assign(&ns, &pause_row, "60.000000001", reason));
    ck_assert_str_eq(reason, "\"60.000000001\" is not a number from 1 to 60 seconds, such as 5 or "
                             "0.25");
    ck_assert(!option_value_assign(&ns, &pause_row, "0.999999999", reason));
    ck_assert_int_eq(ns, 3);
    ck_assert(option_value_assign(&ns, &pause_row, "60", reason));
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(seconds_are_exact_below_a_second),
    UNIT(what_is_no_number_of_seconds_is_refused),
};

UNIT_MAIN("base/option_value", tests)
