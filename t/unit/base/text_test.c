/* text_test.c - a growing text, and its escapes. */
#include "base/text.h"
#include "base/utf8.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <string.h>

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

TEST_ABORTS(a_program_may_end_for_it)
{
    struct text t = {0};
    text_no_memory = give_up;
    text_add(&t, "x", SIZE_MAX);
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

TEST(label_cannot_end_its_quotes)
{
    struct text t = {0};
    text_add_label(&t, "a\"b\\c\nd");
    ck_assert_str_eq(text_str(&t), "a\\\"b\\\\c\\nd");
    text_clear(&t);
    text_add_label(&t, "\xc3\xa9\xff");
    ck_assert_str_eq(text_str(&t), "é\\\\xff");
    text_free(&t);
}

static bool is_printable_utf8(struct bytes in)
{
    uint32_t code;
    while (in.len > 0) {
        size_t size = utf8_decode(in.data, in.len, &code);
        if (size == 0 || code < 0x20 || code == 0x7f)
            return false;
        (void)bytes_take(&in, size);
    }
    return true;
}

/*
 * Random bytes: the text is valid, different names look different, and the id decodes to the name.
 */
TEST(random_names_are_valid_and_come_back)
{
    static const uint8_t common[] = {0,    '\\', 'x',  '0',  '"',  '%',  0xc3, 0xa9, 0xe2,
                                     0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xed, 0xa0};
    struct rng r = rng_start("names", random_seed());
    struct text before = {0}, t = {0};
    uint8_t last[16] = {0};
    size_t last_len = 0;
    for (int i = 0; i < 200000; i++) {
        uint8_t name[16], back[64];
        size_t len = rng_below(&r, sizeof(name)), back_len;
        for (size_t at = 0; at < len; at++)
            name[at] = rng_below(&r, 4) ? common[rng_below(&r, sizeof(common))]
                                        : (uint8_t)rng_below(&r, 256);
        text_clear(&t);
        text_add(&t, "", 0);
        text_add_readable(&t, bytes_at(name, len));
        REQUIRE(is_printable_utf8(text_bytes(&t)));
        bool same = len == last_len && memcmp(name, last, len) == 0;
        REQUIRE(i == 0 || same == (t.len == before.len && memcmp(t.data, before.data, t.len) == 0));
        text_clear(&before);
        text_add(&before, t.data, t.len);
        memcpy(last, name, len);
        last_len = len;
        text_clear(&t);
        text_add(&t, "", 0);
        text_add_percent(&t, bytes_at(name, len));
        REQUIRE(text_unpercent(t.data, t.len, back, &back_len));
        REQUIRE(back_len == len && memcmp(back, name, len) == 0);
    }
    text_free(&t);
    text_free(&before);
}

TEST(percent_encodings_are_decoded_or_refused)
{
    uint8_t to[32];
    size_t len;
    static const char *const bad[] = {"%", "%4", "%g0", "%0g", "a%", "%%41", "% 41"};
    ck_assert(text_unpercent("a%00b%2f%2F+%c3", 15, to, &len));
    ck_assert_uint_eq(len, 7);
    ck_assert(memcmp(to, "a\0b//+\xc3", 7) == 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!text_unpercent(bad[i], strlen(bad[i]), to, &len), "%s", bad[i]);
    ck_assert(!text_unpercent("%41", 2, to, &len)); /* stops at the given length */
    ck_assert(text_unpercent("", 0, to, &len) && len == 0);
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

UNIT_MAIN("base/text")
