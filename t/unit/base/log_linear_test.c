/* log_linear_test.c - classes that are about equally wide, relative to their numbers. */
#include "base/log_linear.h"

#include "t/unit/unit.h"

TEST(each_class_begins_where_the_one_before_ends)
{
    for (unsigned bits = 0; bits < 9; bits++) {
        uint64_t next = 0;
        size_t count = LOG_LINEAR_CLASSES(bits, 63);
        for (size_t i = 0; i < count; i++) {
            uint64_t least = log_linear_least(i, bits), width = log_linear_width(i, bits);
            ck_assert_uint_eq(least, next);
            ck_assert_uint_eq(log_linear_class(least, bits), i);
            ck_assert_uint_eq(log_linear_class(least + width - 1, bits), i);
            next = least + width;
            ck_assert_uint_eq(log_linear_class(next, bits), i + 1);
        }
        ck_assert_uint_eq(next, UINT64_C(1) << 63);
    }
}

TEST(a_class_is_as_wide_as_its_bits_say)
{
    for (unsigned bits = 0; bits < 9; bits++) {
        for (size_t i = 0; i < LOG_LINEAR_CLASSES(bits, 63); i++) {
            uint64_t least = log_linear_least(i, bits), width = log_linear_width(i, bits);
            ck_assert(width == 1 || width << bits <= least);
        }
    }
}

UNIT_MAIN("log_linear")
