/* text_test.c - a growing text, and its escapes. */
#include "base/text.h"
#include "t/unit/unit.h"

TEST(a_text_grows)
{
    struct text t = {0};
    ck_assert_str_eq(text_str(&t), "");
    for (int i = 0; i < 10000; i++)
        text_addf(&t, "%d,", i);
    ck_assert_uint_eq(t.len, 48890);
    ck_assert_uint_eq(strlen(text_str(&t)), t.len);
    text_clear(&t);
    ck_assert_str_eq(text_str(&t), "");
    text_add(&t, "x", 1);
    ck_assert_str_eq(text_str(&t), "x");
    text_add(&t, "\0y", 2);
    ck_assert(bytes_equal(text_bytes(&t), bytes_at("x\0y", 3)));
    text_free(&t);
    ck_assert(t.data == NULL && t.len == 0);
}

TEST(a_text_is_taken)
{
    struct text t = {0};
    size_t len;
    text_addf(&t, "%s", "abc");
    char *data = text_take(&t, &len);
    ck_assert_str_eq(data, "abc");
    ck_assert_uint_eq(len, 3);
    ck_assert(t.data == NULL && t.len == 0);
    free(data);
}

TEST(what_was_lost_is_told)
{
    struct text t = {.failed = true}; /* the state after a failed allocation */
    size_t len;
    text_add(&t, "x", 1);
    text_addf(&t, "y");
    ck_assert_ptr_eq(text_take(&t, &len), NULL);
}

static void give_up(void)
{
    abort();
}

TEST(a_program_may_end_for_it)
{
    struct text t = {0};
    text_no_memory = give_up;
    text_add(&t, "x", SIZE_MAX);
}

TEST(letters_and_digits_stay_in_urls)
{
    struct text t = {0};
    text_add_percent(&t, bytes_of("Az09-._~"));
    ck_assert_str_eq(text_str(&t), "Az09-._~");
    text_clear(&t);
    text_add_percent(&t, bytes_at("\0 /%\\\xc3\xa9+&?#\n", 12));
    ck_assert_str_eq(text_str(&t), "%00%20%2F%25%5C%C3%A9%2B%26%3F%23%0A");
    text_free(&t);
}

static bool is_no_x(uint32_t code)
{
    return code != 'x' && code != 0x20ac;
}

TEST(what_may_not_stay_is_spelled)
{
    struct text t = {0};
    text_add_escaped(&t, bytes_of("ax\\\xff\xe2\x82\xac\xc3\xa9\xe2\x82"), is_no_x, true);
    ck_assert_str_eq(text_str(&t), "a\\x78\\\\\\xff\\xe2\\x82\\xac\xc3\xa9\\xe2\\x82");
    text_clear(&t);
    text_add_escaped(&t, bytes_of("a\\b"), is_no_x, false);
    ck_assert_str_eq(text_str(&t), "a\\b");
    text_free(&t);
}

static const struct unit_test tests[] = {
    UNIT(a_text_grows),
    UNIT(a_text_is_taken),
    UNIT(what_was_lost_is_told),
    UNIT_ABORTS(a_program_may_end_for_it),
    UNIT(letters_and_digits_stay_in_urls),
    UNIT(what_may_not_stay_is_spelled),
};

UNIT_MAIN("base/text", tests)
