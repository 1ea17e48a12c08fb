/* json.c - what all answers in JSON share. */
#include "admin/private.h"
#include "base/text.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 15 digits: 0.1 is 0.1, and unix times are exact to microseconds. */
#define JSON_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(15))

void answer_json(struct http_request *request, int status, json_t *root)
{
    size_t len = root ? json_dumpb(root, NULL, 0, JSON_FLAGS) : 0;
    char *body = len ? malloc(len + 1) : NULL;
    if (body && json_dumpb(root, body, len, JSON_FLAGS) == len) {
        body[len++] = '\n';
        body = utf8_spell_json(body, &len);
    } else {
        free(body);
        body = NULL;
    }
    json_decref(root);
    http_answer(request, status, "application/json", body, len);
}

void json_add(json_t **array, json_t *value)
{
    if (*array && json_array_append_new(*array, value) == 0)
        return;
    if (!*array)
        json_decref(value);
    json_decref(*array);
    *array = NULL;
}

void json_put(json_t **object, const char *key, json_t *value)
{
    if (*object && json_object_set_new(*object, key, value) == 0)
        return;
    if (!*object)
        json_decref(value);
    json_decref(*object);
    *object = NULL;
}

/* The text as a string; frees it. */
static json_t *string_of(struct text *t)
{
    json_t *string = t->failed ? NULL : json_stringn(text_str(t), t->len);
    text_free(t);
    return string;
}

json_t *json_name(struct bytes name)
{
    struct text t = {0};
    text_add_readable(&t, name);
    return string_of(&t);
}

json_t *json_id(struct bytes name)
{
    struct text t = {0};
    text_add_percent(&t, name);
    return string_of(&t);
}

json_t *json_words(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : json_name(bytes_of(text));
}

json_t *json_lines(char *report)
{
    json_t *lines = json_array();
    char *rest = report, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (*line)
            json_add(&lines, json_words(line));
    }
    return lines;
}

json_t *json_known(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

double seconds_of(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

double unix_of(int64_t mono_ns)
{
    return seconds_of(clock_unix_ns() - (clock_mono_ns() - mono_ns));
}
