/* number_test.c - numbers in digits. */
#include "base/number.h"
#include "t/unit/unit.h"

TEST(numbers_are_read_as_far_as_they_go)
{
    static const struct {
        const char *text;
        unsigned base;
        uint64_t max;
        bool good;
        uint64_t value;
        size_t used;
    } rows[] = {
        {"0", 10, 0, true, 0, 1},
        {"12.3", 10, 99, true, 12, 2},
        {"0644x", 8, 0777, true, 0644, 4},
        {"8", 8, 7, false, 0, 0},
        {"ff", 16, 255, true, 255, 2},
        {"fg", 16, 255, true, 15, 1},
        {"100", 16, 255, false, 255, 3},
        {"", 10, 9, false, 0, 0},
        {"-1", 10, 9, false, 0, 0},
        {"+1", 10, 9, false, 0, 0},
        {" 1", 10, 9, false, 0, 0},
        {"FF", 16, 255, false, 0, 0},
        {"a", 10, 99, false, 0, 0},
        {"/", 10, 99, false, 0, 0},
        {":", 10, 99, false, 0, 0},
        {"1000x", 10, 99, false, 99, 4},
        {"10", 10, 0, false, 0, 2},
        {"00000000000000000000000000007", 10, 9, true, 7, 29},
        {"18446744073709551615", 10, UINT64_MAX, true, UINT64_MAX, 20},
        {"18446744073709551616", 10, UINT64_MAX, false, UINT64_MAX, 20},
        {"18446744073709551620", 10, UINT64_MAX, false, UINT64_MAX, 20},
        {"184467440737095516150", 10, UINT64_MAX, false, UINT64_MAX, 21},
        {"99999999999999999999999", 10, 5, false, 5, 23},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct bytes in = bytes_of(rows[i].text);
        uint64_t value = 77;
        bool good = number_take_base(&in, rows[i].base, rows[i].max, &value);
        ck_assert_msg(good == rows[i].good, "%s", rows[i].text);
        ck_assert_msg(value == rows[i].value, "%s", rows[i].text);
        ck_assert_uint_eq(strlen(rows[i].text) - in.len, rows[i].used);
    }
}

TEST(what_lies_behind_the_end_is_not_looked_at)
{
    struct bytes in = bytes_at("12", 1), none = {0};
    uint64_t value;
    ck_assert(number_take(&in, 99, &value) && value == 1 && in.len == 0);
    ck_assert(!number_take(&none, 99, &value) && value == 0);
}

TEST(a_whole_text_is_a_number_or_not)
{
    uint64_t value;
    ck_assert(number_parse(bytes_of("007"), 7, &value) && value == 7);
    ck_assert(!number_parse(bytes_of("8"), 7, &value));
    ck_assert(!number_parse(bytes_of(""), 7, &value));
    ck_assert(!number_parse(bytes_of("7 "), 7, &value));
    ck_assert(number_parse_plain(bytes_of("0"), 7, &value) && value == 0);
    ck_assert(number_parse_plain(bytes_of("10"), 10, &value) && value == 10);
    ck_assert(!number_parse_plain(bytes_of("01"), 7, &value));
    ck_assert(!number_parse_plain(bytes_of("00"), 7, &value));
    ck_assert(!number_parse_plain(bytes_of(""), 7, &value));
}

TEST(seconds_have_a_fraction_or_none)
{
    static const struct {
        const char *text;
        int64_t ns;
        size_t used;
    } rows[] = {
        {"", 0, 0},
        {"x", 0, 0},
        {".", 0, 1},
        {"5", 5 * NS_PER_S, 1},
        {"5.", 5 * NS_PER_S, 2},
        {".5 ", NS_PER_S / 2, 2},
        {"1.25x", NS_PER_S + NS_PER_S / 4, 4},
        {"0.0000000019", 1, 12},
        {"0.0000000000000000000000000001", 0, 30},
        {"9.999", 9 * NS_PER_S + 999 * NS_PER_MS, 5},
        {"10", 10 * NS_PER_S, 2},
        {"10.5", 10 * NS_PER_S, 4},
        {"99999999999999999999999.5", 10 * NS_PER_S, 25},
        {"1.2.3", NS_PER_S + NS_PER_S / 5, 3},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const uint8_t *at = (const uint8_t *)rows[i].text;
        ck_assert_int_eq(number_scan_seconds(&at, 10), rows[i].ns);
        ck_assert_uint_eq((size_t)(at - (const uint8_t *)rows[i].text), rows[i].used);
    }
}

static const struct unit_test tests[] = {
    UNIT(numbers_are_read_as_far_as_they_go),
    UNIT(what_lies_behind_the_end_is_not_looked_at),
    UNIT(a_whole_text_is_a_number_or_not),
    UNIT(seconds_have_a_fraction_or_none),
};

UNIT_MAIN("base/number", tests)
