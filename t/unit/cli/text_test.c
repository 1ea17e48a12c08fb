/*
 * text_test.c - names as text: the escapes, and that the text can be read back.
 */
#include "cli/text.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <string.h>

#define BYTES(literal) ((struct bytes){(const uint8_t *)(literal), sizeof(literal) - 1})

static void assert_name(struct bytes name, const char *shown)
{
    struct text text = {0}, back = {0};
    size_t at;
    text_add_name(&text, name);
    ck_assert_str_eq(text_str(&text), shown);
    ck_assert(text_add_unescaped(&back, text_str(&text), text.len, &at));
    ck_assert_uint_eq(back.len, name.len);
    ck_assert_mem_eq(text_str(&back), name.data, name.len);
    text_free(&text);
    text_free(&back);
}

TEST(names_are_shown_as_they_are_where_that_is_safe)
{
    assert_name(BYTES("enwiki:pcache:1"), "enwiki:pcache:1");
    assert_name(BYTES("a b"), "a b");
    assert_name(BYTES("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
    assert_name(BYTES("\xe4\xb8\xad"), "\xe4\xb8\xad");
    assert_name(BYTES("\xf0\x9f\x94\x92"), "\xf0\x9f\x94\x92");
}
END_TEST

TEST(controls_and_what_is_no_utf8_are_escaped)
{
    assert_name(BYTES("a\nb\0c"), "a\\x0ab\\x00c");
    assert_name(BYTES("\x1b[31m\x7f"), "\\x1b[31m\\x7f");
    assert_name(BYTES("back\\slash"), "back\\\\slash");
    assert_name(BYTES("\\x41"), "\\\\x41");
    assert_name(BYTES("\xff\xfe"), "\\xff\\xfe");
    assert_name(BYTES("cut \xe4\xb8"), "cut \\xe4\\xb8");
    assert_name(BYTES("\xc0\xaf"), "\\xc0\\xaf");                   /* overlong */
    assert_name(BYTES("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");          /* overlong */
    assert_name(BYTES("\xed\xa0\x80"), "\\xed\\xa0\\x80");          /* a surrogate */
    assert_name(BYTES("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* above Unicode */
    assert_name(BYTES("c1 \xc2\x9b"), "c1 \\xc2\\x9b"); /* a control character of Unicode */
    assert_name(BYTES("\xe2\x80\xae"
                      "x"),
                "\\xe2\\x80\\xaex");                       /* changes the direction of text */
    assert_name(BYTES("\xe2\x80\xa8"), "\\xe2\\x80\\xa8"); /* a line separator */
}
END_TEST

TEST(random_names_come_back)
{
    struct rng rng = rng_start("names", 1);
    for (int i = 0; i < 20000; i++) {
        uint8_t name[40];
        size_t len = 1 + rng_below(&rng, sizeof name);
        for (size_t j = 0; j < len; j++)
            name[j] = (uint8_t)rng_below(&rng, 256);
        struct text text = {0}, back = {0};
        size_t at;
        text_add_name(&text, (struct bytes){name, len});
        for (size_t j = 0; j < text.len; j++)
            REQUIRE((uint8_t)text.data[j] >= ' ');
        REQUIRE(text_add_unescaped(&back, text_str(&text), text.len, &at));
        REQUIRE(back.len == len && memcmp(back.data, name, len) == 0);
        text_free(&text);
        text_free(&back);
    }
}
END_TEST

TEST(wrong_escapes_are_found)
{
    static const struct {
        const char *given;
        size_t at;
    } cases[] = {{"\\", 0},   {"a\\", 1},   {"\\n", 0},    {"ab\\x", 2},
                 {"\\x1", 0}, {"\\xg0", 0}, {"\\\\\\", 2}, {"\\x0g", 0}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct text text = {0};
        size_t at = 99;
        ck_assert(!text_add_unescaped(&text, cases[i].given, strlen(cases[i].given), &at));
        ck_assert_uint_eq(at, cases[i].at);
        text_free(&text);
    }
    struct text text = {0};
    size_t at;
    ck_assert(text_add_unescaped(&text, "\\xAf\\x00", 8, &at));
    ck_assert_uint_eq(text.len, 2);
    ck_assert_mem_eq(text.data, "\xaf\0", 2);
    text_free(&text);
}
END_TEST

TEST(texts_of_a_server_keep_their_backslashes)
{
    struct text text = {0};
    text_add_shown(&text, "odd\\x0a\\\\ \x1b]0;t\a \xc3\xa9");
    ck_assert_str_eq(text_str(&text), "odd\\x0a\\\\ \\x1b]0;t\\x07 \xc3\xa9");
    text_free(&text);
}
END_TEST

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(names_are_shown_as_they_are_where_that_is_safe),
        UNIT(controls_and_what_is_no_utf8_are_escaped),
        UNIT(random_names_come_back),
        UNIT(wrong_escapes_are_found),
        UNIT(texts_of_a_server_keep_their_backslashes),
    };
    return unit_run("cli/text", tests, ARRAY_SIZE(tests));
}
