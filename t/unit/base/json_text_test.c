/* json_text_test.c - the output is valid JSON for all values, and no lock waits for it. */
#include "base/json_text.h"

#include "base/lock.h"
#include "t/unit/unit.h"

#include <math.h>

static void expect_written(struct json_text *json, const char *expected)
{
    ck_assert(!json->text.failed);
    ck_assert_str_eq(text_str(&json->text), expected);
    text_free(&json->text);
}

TEST(numbers_are_what_parsers_take)
{
    struct json_text json = {0};
    json_text_open(&json, NULL, '[');
    json_text_number(&json, NULL, INT64_MAX);
    json_text_number(&json, NULL, UINT64_MAX);
    json_text_real(&json, NULL, 0.1);
    json_text_real(&json, NULL, NAN);
    json_text_real(&json, NULL, INFINITY);
    json_text_close(&json, ']');
    expect_written(&json, "[9223372036854775807,9223372036854775807,0.1,null,null]");
}

TEST(strings_are_escaped)
{
    struct json_text json = {0};
    json_text_open(&json, NULL, '[');
    json_text_string(&json, NULL, bytes_of("a\"\\b\n\x7f"));
    json_text_string(&json, NULL, bytes_of("\xc3\xa4\xe2\x80\xae\xf0\x9f\x98\x80"));
    json_text_string(&json, NULL, bytes_of("\\\xff\n"));
    json_text_string(&json, NULL, bytes_at("\0x", 2));
    json_text_close(&json, ']');
    expect_written(&json, "[\"a\\\"\\\\b\\u000a\\u007f\",\"\xc3\xa4\\u202e\xf0\x9f\x98\x80\","
                          "\"\\\\\\\\\\\\xff\\\\x0a\",\"\\u0000x\"]");
}

TEST(names_are_read_and_asked_for)
{
    struct json_text json = {0};
    json_text_open(&json, NULL, '[');
    json_text_readable(&json, NULL, bytes_of("a\\\n\xff\"\xe2\x80\xae"));
    json_text_percent(&json, NULL, bytes_of("a\\\n\xff\"%"));
    json_text_close(&json, ']');
    expect_written(&json, "[\"a\\\\\\\\\\\\x0a\\\\xff\\\"\\u202e\",\"a%5C%0A%FF%22%25\"]");
}

TEST_ABORTS(writing_under_a_lock_aborts)
{
    struct lock lock;
    struct json_text json = {0};
    lock_init(&lock, LOCK_RANK_POOLS);
    lock_acquire(&lock);
    json_text_open(&json, NULL, '{');
}

UNIT_MAIN("json_text")
