/* text_test.c - escapes of untrusted bytes: in JSON, in URLs, in metrics. */
#include "admin/text.h"

#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <jansson.h>
#include <string.h>

#define BYTES(s) (const uint8_t *)("" s), sizeof(s) - 1

typedef void speller(struct text *t, const uint8_t *bytes, size_t len);

static void spell_name(struct text *t, const uint8_t *bytes, size_t len)
{
    text_add_name(t, bytes_at(bytes, len));
}

static void expect(speller *spell, const uint8_t *bytes, size_t len, const char *expected)
{
    struct text t = {0};
    text_add(&t, "", 0);
    spell(&t, bytes, len);
    ck_assert_str_eq(t.data, expected);
    ck_assert_uint_eq(t.len, strlen(expected));
    text_free(&t);
}

TEST(name_is_shown_as_it_is_where_it_can_be)
{
    expect(spell_name, BYTES(""), "");
    expect(spell_name, BYTES("a b\"/%"), "a b\"/%");
    expect(spell_name, BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "é€😀");
    expect(spell_name, BYTES("a\\b"), "a\\\\b");
    expect(spell_name, BYTES("\\x00"), "\\\\x00");
    expect(spell_name, BYTES("\0\n\x1f\x7f"), "\\x00\\x0a\\x1f\\x7f");
}
END_TEST

TEST(what_is_no_utf8_is_shown_byte_for_byte)
{
    static const struct {
        const uint8_t *bytes;
        size_t len;
        const char *text;
    } rows[] = {
        {BYTES("\x80"), "\\x80"},
        {BYTES("\xc3"), "\\xc3"},
        {BYTES("\xc3("), "\\xc3("},
        {BYTES("\xc0\xaf"), "\\xc0\\xaf"}, /* overlong */
        {BYTES("\xe0\x80\xaf"), "\\xe0\\x80\\xaf"},
        {BYTES("\xf0\x80\x80\xaf"), "\\xf0\\x80\\x80\\xaf"},
        {BYTES("\xed\xa0\x80"), "\\xed\\xa0\\x80"},          /* a surrogate */
        {BYTES("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"}, /* above U+10FFFF */
        {BYTES("\xf5\xff"), "\\xf5\\xff"},
        {BYTES("\xe2\x82"), "\\xe2\\x82"},
        {BYTES("\xe2\x82\xe2\x82\xac"), "\\xe2\\x82€"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect(spell_name, rows[i].bytes, rows[i].len, rows[i].text);
}
END_TEST

static void spell_label(struct text *t, const uint8_t *bytes, size_t len)
{
    (void)len;
    text_add_label(t, (const char *)bytes);
}

TEST(label_cannot_end_its_quotes)
{
    expect(spell_label, BYTES("a"), "a");
    expect(spell_label, BYTES("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    expect(spell_label, BYTES("\xc3\xa9\xff"), "é\\\\xff");
}
END_TEST

/*
 * Random bytes: the JSON is valid, different names look different, and the id decodes to the name.
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
        spell_name(&t, name, len);
        json_t *string = json_stringn(t.data, t.len);
        ck_assert_msg(string != NULL, "%s", t.data);
        json_decref(string);
        bool same = len == last_len && memcmp(name, last, len) == 0;
        ck_assert(i == 0 ||
                  same == (t.len == before.len && memcmp(t.data, before.data, t.len) == 0));
        text_clear(&before);
        text_add(&before, t.data, t.len);
        memcpy(last, name, len);
        last_len = len;
        text_clear(&t);
        text_add(&t, "", 0);
        text_add_percent(&t, bytes_at(name, len));
        ck_assert(text_unpercent(t.data, t.len, back, &back_len));
        ck_assert_uint_eq(back_len, len);
        ck_assert(memcmp(back, name, len) == 0);
    }
    text_free(&t);
    text_free(&before);
}
END_TEST

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
END_TEST

static const struct unit_test tests[] = {
    UNIT(name_is_shown_as_it_is_where_it_can_be),
    UNIT(what_is_no_utf8_is_shown_byte_for_byte),
    UNIT(label_cannot_end_its_quotes),
    UNIT(random_names_are_valid_and_come_back),
    UNIT(percent_encodings_are_decoded_or_refused),
};

UNIT_MAIN("text", tests)
