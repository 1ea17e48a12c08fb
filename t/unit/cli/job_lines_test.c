/*
 * job_lines_test.c - jobs as lines of JSON, both ways; bodies of any bytes; what is refused.
 */
#include "cli/job_lines.h"
#include "t/unit/unit.h"

#include <stdlib.h>

static bool parse(const char *line, struct job_line *job, struct text *reason)
{
    *job = (struct job_line){0};
    *reason = (struct text){0};
    return job_line_parse(bytes_of(line), job, reason);
}

TEST(a_body_of_any_bytes_comes_back)
{
    uint8_t all[257];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    /* Bodies of each length; those of the first 128 bytes alone are UTF-8. */
    for (size_t len = 0; len <= sizeof all; len++) {
        struct job_line job = {0};
        struct text reason = {0};
        json_t *object = json_object();
        json_object_set_new(object, "tube", json_string("t"));
        job_line_set_body(object, bytes_at(all, len));
        ck_assert_ptr_nonnull(json_object_get(object, len <= 128 ? "body" : "body64"));
        char *line = json_dumps(object, JSON_COMPACT);
        ck_assert_msg(job_line_parse(bytes_of(line), &job, &reason), "%s", text_str(&reason));
        ck_assert(bytes_equal(text_bytes(&job.body), bytes_at(all, len)));
        job_line_free(&job);
        free(line);
        json_decref(object);
    }
}
END_TEST

TEST(a_line_has_numbers_and_a_state)
{
    struct job_line job;
    struct text reason;
    ck_assert(parse("{\"tube\":\"t\",\"body\":\"\"}", &job, &reason));
    ck_assert_str_eq(text_str(&job.tube), "t");
    ck_assert_uint_eq(job.pri, 1024);
    ck_assert_uint_eq(job.delay_s, 0);
    ck_assert_uint_eq(job.ttr_s, 60);
    ck_assert(!job.is_buried);
    job_line_free(&job);
    ck_assert(parse("{\"tube\":\"t\",\"body64\":\"/w==\",\"pri\":4294967295,\"delay\":2,"
                    "\"ttr\":3,\"state\":\"abandoned\",\"other\":[]}",
                    &job, &reason));
    ck_assert_uint_eq(job.pri, UINT32_MAX);
    ck_assert_uint_eq(job.delay_s, 2);
    ck_assert_uint_eq(job.ttr_s, 3);
    ck_assert(job.is_buried);
    ck_assert(bytes_equal(text_bytes(&job.body), bytes_of("\xff")));
    job_line_free(&job);
}
END_TEST

TEST(what_is_no_job_is_refused)
{
    static const struct {
        const char *line, *why;
    } rows[] = {
        {"", "no JSON"},
        {"{", "no JSON"},
        {"[]", "no JSON object"},
        {"{\"body\":\"\"}", "\"tube\""},
        {"{\"tube\":\"a b\",\"body\":\"\"}", "\"tube\""},
        {"{\"tube\":7,\"body\":\"\"}", "\"tube\""},
        {"{\"tube\":\"t\"}", "body64"},
        {"{\"tube\":\"t\",\"body\":1}", "body64"},
        {"{\"tube\":\"t\",\"body\":\"\",\"body64\":\"\"}", "body64"},
        {"{\"tube\":\"t\",\"body64\":\"abc\"}", "body64"},
        {"{\"tube\":\"t\",\"body64\":\"=A==\"}", "body64"},
        {"{\"tube\":\"t\",\"body64\":\"====\"}", "body64"},
        {"{\"tube\":\"t\",\"body64\":\"    \"}", "body64"},
        {"{\"tube\":\"t\",\"body64\":\"a*==\"}", "body64"},
        {"{\"tube\":\"t\",\"body\":\"\",\"pri\":-1}", "\"pri\""},
        {"{\"tube\":\"t\",\"body\":\"\",\"delay\":4294967296}", "\"delay\""},
        {"{\"tube\":\"t\",\"body\":\"\",\"ttr\":1.5}", "\"ttr\""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct job_line job;
        struct text reason;
        ck_assert_msg(!parse(rows[i].line, &job, &reason), "taken: %s", rows[i].line);
        ck_assert_msg(strstr(text_str(&reason), rows[i].why), "%s: %s", rows[i].line,
                      text_str(&reason));
        text_free(&reason);
        job_line_free(&job);
    }
}
END_TEST

TEST(a_dictionary_becomes_an_object)
{
    json_t *object =
        job_line_dictionary(bytes_of("---\nname: \"a/b\"\ncount: 7\nage: 0.5\nzero: 007\n"));
    ck_assert_str_eq(json_string_value(json_object_get(object, "name")), "a/b");
    ck_assert_int_eq(json_integer_value(json_object_get(object, "count")), 7);
    ck_assert_str_eq(json_string_value(json_object_get(object, "age")), "0.5");
    ck_assert_str_eq(json_string_value(json_object_get(object, "zero")), "007");
    ck_assert_uint_eq(json_object_size(object), 4);
    json_decref(object);
}
END_TEST

UNIT_MAIN("cli/job_lines")
