/*
 * print_test.c - numbers for people, columns, members of JSON; and exit statuses.
 */
#include "cli/answer.h"
#include "cli/print.h"
#include "t/unit/unit.h"

#include <string.h>

static void assert_seconds(double seconds, const char *expected)
{
    char text[NUMBER_TEXT];
    ck_assert_str_eq(seconds_text(seconds, text), expected);
    if (seconds < 1e10)
        ck_assert_uint_le(strlen(text), 7);
}

TEST(seconds_for_people)
{
    assert_seconds(0, "0");
    assert_seconds(-1, "-");
    assert_seconds(__builtin_nan(""), "-");
    assert_seconds(1e-6, "1 us");
    assert_seconds(0.00099, "990 us");
    assert_seconds(0.0009996, "1.0 ms");
    assert_seconds(0.0123, "12.3 ms");
    assert_seconds(0.0999, "99.9 ms");
    assert_seconds(0.25, "250 ms");
    assert_seconds(0.9996, "1.0 s");
    assert_seconds(1.5, "1.5 s");
    assert_seconds(59.94, "59.9 s");
    assert_seconds(59.96, "1m 0s");
    assert_seconds(3599, "59m 59s");
    assert_seconds(3600, "1h 0m");
    assert_seconds(86399, "23h 59m");
    assert_seconds(86400 * 12 + 3 * 3600, "12d 3h");
    assert_seconds(86400.0 * 1000, "1000d");
    assert_seconds(1e15, "11574074d");
}
END_TEST

static void assert_count(double count, const char *expected)
{
    char text[NUMBER_TEXT];
    ck_assert_str_eq(count_text(count, text), expected);
}

TEST(counts_for_people)
{
    assert_count(0, "0");
    assert_count(0.01, "0");
    assert_count(0.3, "0.3");
    assert_count(9.9, "9.9");
    assert_count(9.96, "10");
    assert_count(999.4, "999");
    assert_count(999.6, "1.0k");
    assert_count(12345, "12.3k");
    assert_count(99960, "100k");
    assert_count(999999, "1.0M");
    assert_count(4294967295.0, "4.3G");
    assert_count(-1, "-");
    char text[NUMBER_TEXT];
    ck_assert_str_eq(size_text(0, text), "0 B");
    ck_assert_str_eq(size_text(999, text), "999 B");
    ck_assert_str_eq(size_text(1024, text), "1.0 K");
    ck_assert_str_eq(size_text(1073741824, text), "1.0 G");
    ck_assert_str_eq(size_text(1e30, text), "867361737988 E");
}
END_TEST

/* The output of `columns_print`; the caller frees it. */
static char *printed(const struct columns *columns)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(to);
    columns_print(columns, "> ", to);
    fclose(to);
    return text;
}

TEST(columns_are_aligned)
{
    struct columns columns = {.heads = {"N", "WORD", "NAME"}, .align = "rll"};
    char *text = printed(&columns);
    ck_assert_str_eq(text, "");
    free(text);
    columns_add(&columns, "%d", 12345);
    columns_add(&columns, "%s", "gr\xc3\xbcn");
    columns_add(&columns, "%s", "last \x1b one");
    columns_add(&columns, "%d", 7);
    columns_add(&columns, "%s", "yellow");
    columns_add_text(&columns, "a\\\\b");
    text = printed(&columns);
    ck_assert_str_eq(text, ">     N  WORD    NAME\n"
                           "> 12345  gr\xc3\xbcn    last \\x1b one\n"
                           ">     7  yellow  a\\\\b\n");
    free(text);
    columns_free(&columns);
}
END_TEST

TEST(members_of_json)
{
    json_t *object =
        json_loads("{\"a\":{\"b\":{\"c\":1.5}},\"t\":\"x\",\"y\":true,\"n\":null}", 0, NULL);
    ck_assert_ptr_nonnull(object);
    ck_assert_double_eq(json_number_at(object, "a.b.c", -1), 1.5);
    ck_assert_double_eq(json_number_at(object, "a.b.d", -1), -1);
    ck_assert_double_eq(json_number_at(object, "t.b", -1), -1);
    ck_assert_double_eq(json_number_at(object, "n", -2), -2);
    ck_assert_double_eq(json_number_at(NULL, "n", -3), -3);
    ck_assert_str_eq(json_text_at(object, "t", "-"), "x");
    ck_assert_str_eq(json_text_at(object, "y", "-"), "-");
    ck_assert(json_is_true_at(object, "y"));
    ck_assert(!json_is_true_at(object, "t"));
    json_set_name(object, (struct bytes){(const uint8_t *)"a\0\xff/", 4});
    ck_assert_str_eq(json_text_at(object, "name", ""), "a\\x00\\xff/");
    ck_assert_str_eq(json_text_at(object, "id", ""), "a%00%FF%2F");
    json_decref(object);
}
END_TEST

#define REPLY(word) (&(struct answer){.protocol = &protocol_binary, .binary.status = (word)})

TEST(statuses_of_replies_are_exit_statuses)
{
    ck_assert_int_eq((int)answer_status(REPLY(CTR_STATUS_SUCCESS)), 0);
    ck_assert_int_eq((int)answer_status(REPLY(CTR_STATUS_NOT_FOUND)), 1);
    ck_assert_int_eq((int)answer_status(REPLY(CTR_STATUS_NOT_ACQUIRED)), 1);
    ck_assert_int_eq((int)answer_status(REPLY(CTR_STATUS_INVALID)), 64);
    ck_assert_int_eq((int)answer_status(REPLY(CTR_STATUS_NOT_AVAILABLE)), 75);
    ck_assert_int_eq((int)answer_status(REPLY(CTR_STATUS_OUT_OF_MEMORY)), 69);
    ck_assert_int_eq((int)answer_status(REPLY(CTR_STATUS_UNKNOWN_COMMAND)), 76);
    ck_assert_int_eq((int)answer_status(REPLY(0x7f)), 76);
    ck_assert_str_eq(answer_word(REPLY(CTR_STATUS_NOT_ACQUIRED)), "not_acquired");
    ck_assert_str_eq(answer_word(REPLY(0x7f)), "unknown");
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(seconds_for_people),
    UNIT(counts_for_people),
    UNIT(columns_are_aligned),
    UNIT(members_of_json),
    UNIT(statuses_of_replies_are_exit_statuses),
};

UNIT_MAIN("cli/print", tests)
