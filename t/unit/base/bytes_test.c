/* bytes_test.c - runs of bytes: comparing them, and taking them apart. */
#include "base/bytes.h"
#include "base/check.h"
#include "t/unit/unit.h"

TEST(any_byte_counts)
{
    ck_assert(bytes_equal(bytes_at("a\0b", 3), bytes_at("a\0b", 3)));
    ck_assert(!bytes_equal(bytes_at("a\0b", 3), bytes_at("a\0c", 3)));
    ck_assert(!bytes_equal(bytes_of("ab"), bytes_of("abc")));
    ck_assert(bytes_equal((struct bytes){0}, bytes_of("")));
}

TEST(all_begin_with_nothing)
{
    ck_assert(bytes_begin_with(bytes_of("abc"), bytes_of("ab")));
    ck_assert(bytes_begin_with(bytes_of("abc"), bytes_of("abc")));
    ck_assert(!bytes_begin_with(bytes_of("abc"), bytes_of("abcd")));
    ck_assert(!bytes_begin_with(bytes_of("abc"), bytes_of("b")));
    ck_assert(bytes_begin_with(bytes_of("abc"), (struct bytes){0}));
    ck_assert(bytes_begin_with((struct bytes){0}, (struct bytes){0}));
}

TEST(the_order_is_that_of_bytes)
{
    static const char *const rising[] = {"", "\x01", "a", "a\x01", "ab", "b", "\xff"};
    for (size_t i = 0; i < ARRAY_SIZE(rising); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(rising); j++) {
            int order = bytes_compare(bytes_of(rising[i]), bytes_of(rising[j]));
            ck_assert_int_eq((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}

TEST(they_are_taken_from_the_front)
{
    struct bytes in = bytes_of("abc");
    const uint8_t *begin = in.data;
    ck_assert(bytes_take(&in, 2) == begin);
    ck_assert(bytes_equal(in, bytes_of("c")));
    ck_assert(bytes_take(&in, 1) == begin + 2);
    ck_assert(in.data && in.len == 0);
    ck_assert(bytes_take(&in, 0) == begin + 3);
}

TEST(what_was_too_short_stays_so)
{
    struct bytes in = bytes_of("abc");
    ck_assert(!bytes_take(&in, 4));
    ck_assert(!in.data && in.len == 0);
    ck_assert(!bytes_take(&in, 0));
    ck_assert(!bytes_take(&in, 1));
}

TEST(a_text_is_taken_whole_or_not)
{
    struct bytes in = bytes_of("abc");
    ck_assert(!bytes_take_text(&in, "abd"));
    ck_assert(!bytes_take_text(&in, "abcd"));
    ck_assert(bytes_equal(in, bytes_of("abc")));
    ck_assert(bytes_take_text(&in, "ab"));
    ck_assert(bytes_equal(in, bytes_of("c")));
}

static const struct unit_test tests[] = {
    UNIT(any_byte_counts),
    UNIT(all_begin_with_nothing),
    UNIT(the_order_is_that_of_bytes),
    UNIT(they_are_taken_from_the_front),
    UNIT(what_was_too_short_stays_so),
    UNIT(a_text_is_taken_whole_or_not),
};

UNIT_MAIN("base/bytes", tests)
