/* names_test.c - names of all lengths: they differ while the length allows enough of them. */
#include "bench/counterbench/names.h"
#include "t/unit/unit.h"

#include <string.h>

TEST(how_many_names_there_are_of_a_length)
{
    ck_assert_uint_eq(names_most(1), 16);
    ck_assert_uint_eq(names_most(2), 256);
    ck_assert_uint_eq(names_most(7), UINT64_C(1) << 28);
    ck_assert_uint_eq(names_most(8), UINT64_C(1) << 32);
    ck_assert_uint_eq(names_most(24), UINT64_C(1) << 32);
    ck_assert_uint_eq(names_most(NAMES_LONGEST), UINT64_C(1) << 32);
}
END_TEST

TEST(a_name_ends_with_its_number)
{
    uint8_t name[24];
    names_write(0x12abCDEF, name, sizeof name);
    ck_assert_mem_eq(name + 16, "12abcdef", 8);
    for (size_t i = 0; i < sizeof name; i++)
        ck_assert_msg(name[i] > ' ' && name[i] < 0x7f, "byte %zu", i); /* valid in both protocols */
    names_write(0xfe, name, 2);
    ck_assert_mem_eq(name, "fe", 2);
    names_write(0x5, name, 1);
    ck_assert_mem_eq(name, "5", 1);
}
END_TEST

TEST(writing_the_digits_alone_makes_the_same_name)
{
    static uint8_t whole[300], digits[300];
    for (size_t len = 1; len <= sizeof whole; len++) {
        names_write(0, digits, len);
        names_write(0xfedcba98, whole, len);
        names_write_digits(0xfedcba98, digits + len, len);
        ck_assert_mem_eq(whole, digits, len);
    }
}
END_TEST

TEST(all_short_names_differ)
{
    bool seen[65536] = {false};
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t name[2];
        names_write(i, name, sizeof name);
        size_t at = (size_t)name[0] << 8 | name[1];
        ck_assert(!seen[at]);
        seen[at] = true;
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(how_many_names_there_are_of_a_length),
    UNIT(a_name_ends_with_its_number),
    UNIT(writing_the_digits_alone_makes_the_same_name),
    UNIT(all_short_names_differ),
};

UNIT_MAIN("bench/names", tests)
