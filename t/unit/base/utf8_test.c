/* utf8_test.c - untrusted characters, and JSON that is safe to print. */
#include "base/utf8.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <string.h>

/* The code of a text that is exactly one character; UINT32_MAX if it is not. */
static uint32_t code_of(const char *text)
{
    uint32_t code = 0;
    size_t n = utf8_decode((const uint8_t *)text, strlen(text), &code);
    return n == strlen(text) ? code : UINT32_MAX;
}

TEST(characters_are_decoded)
{
    ck_assert_uint_eq(code_of("a"), 'a');
    ck_assert_uint_eq(code_of("\xc2\x80"), 0x80);
    ck_assert_uint_eq(code_of("\xe2\x82\xac"), 0x20ac);
    ck_assert_uint_eq(code_of("\xf0\x9f\x98\x80"), 0x1f600);
    ck_assert_uint_eq(code_of("\xf4\x8f\xbf\xbf"), 0x10ffff);
}

TEST(characters_are_encoded_as_they_are_decoded)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char text[UTF8_MAX];
        uint32_t again = UINT32_MAX;
        size_t n = utf8_encode(code, text);
        if (code < 0xd800 || code > 0xdfff)
            REQUIRE(utf8_decode((const uint8_t *)text, n, &again) == n && again == code);
    }
}

TEST(what_is_malformed_is_none)
{
    static const char *const wrong[] = {
        "\x80",
        "\xff",
        "\xc3",
        "\xc3(",
        "\xc0\xaf",
        "\xc1\xbf", /* overlong, or cut off */
        "\xe0\x80\xaf",
        "\xf0\x80\x80\xaf",
        "\xe2\x82",
        "\xf0\x9f\x98", /* overlong, or cut off */
        "\xed\xa0\x80",
        "\xed\xbf\xbf", /* surrogates */
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", /* above U+10FFFF */
    };
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        uint32_t code;
        ck_assert_uint_eq(utf8_decode((const uint8_t *)wrong[i], strlen(wrong[i]), &code), 0);
    }
}

TEST(what_steers_a_terminal_or_the_eye_is_not_shown)
{
    static const uint32_t hidden[] = {0,      0x1b,   0x7f,   0x80,   0x9b,   0x9f,   0x61c, 0x200e,
                                      0x200f, 0x2028, 0x202a, 0x202e, 0x2066, 0x2069, 0xfeff};
    static const uint32_t shown[] = {' ', '~', 0xa0, 0xe9, 0x5d0, 0x200d, 0x20ac, 0x1f600};
    for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
        ck_assert_msg(!utf8_is_showable(hidden[i]), "U+%04x", hidden[i]);
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
        ck_assert_msg(utf8_is_showable(shown[i]), "U+%04x", shown[i]);
}

static void assert_spelled(const char *json, const char *expected)
{
    size_t len = strlen(json);
    char *spelled = utf8_spell_json(strdup(json), &len);
    ck_assert_ptr_nonnull(spelled);
    ck_assert_uint_eq(len, strlen(expected));
    ck_assert_mem_eq(spelled, expected, len);
    free(spelled);
}

TEST(json_is_spelled_out_where_it_is_not_to_be_seen)
{
    assert_spelled("", "");
    assert_spelled("{\"a\":1}\n", "{\"a\":1}\n");
    assert_spelled("[\"\xc3\xa9\xf0\x9f\x98\x80\"]", "[\"\xc3\xa9\xf0\x9f\x98\x80\"]");
    assert_spelled("[\"\x7f\"]", "[\"\\u007f\"]");
    assert_spelled("[\"\xc2\x9b"
                   "31m\xe2\x80\xae"
                   "x\xef\xbb\xbf\"]\n",
                   "[\"\\u009b31m\\u202ex\\ufeff\"]\n");
    assert_spelled("\xe2\x80\xae\xe2\x80", "\\u202e\xe2\x80"); /* not JSON, but harmless */
}

static const struct unit_test tests[] = {
    UNIT(characters_are_decoded),
    UNIT(characters_are_encoded_as_they_are_decoded),
    UNIT(what_is_malformed_is_none),
    UNIT(what_steers_a_terminal_or_the_eye_is_not_shown),
    UNIT(json_is_spelled_out_where_it_is_not_to_be_seen),
};

UNIT_MAIN("base/utf8", tests)
