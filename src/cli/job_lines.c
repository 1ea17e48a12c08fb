/*
 * job_lines.c - jobs as lines of JSON (job_lines.h).
 */
#include "cli/job_lines.h"

#include "base/number.h"
#include "cli/print.h"

#include <openssl/evp.h>
#include <stdlib.h>

/* ---- bodies ---------------------------------------------------------------------------------- */

static json_t *base64_of(struct bytes body)
{
    /* Four characters for each three bytes, and a NUL. */
    unsigned char *text = allocate((body.len + 2) / 3 * 4 + 1);
    int len = EVP_EncodeBlock(text, body.data, (int)body.len);
    json_t *made = json_stringn((char *)text, (size_t)len);
    free(text);
    return made;
}

void job_line_set_body(json_t *object, struct bytes body)
{
    json_t *text = json_stringn(body.len ? (const char *)body.data : "", body.len);
    if (text)
        json_object_set_new(object, "body", text);
    else
        json_object_set_new(object, "body64", base64_of(body));
}

/* Adds the bytes of a base64 text. Returns false when it is none. */
static bool add_base64(struct text *to, const char *text, size_t len)
{
    size_t pads = 0;
    if (len % 4 != 0 || len > INT32_MAX)
        return false;
    while (pads < 2 && pads < len && text[len - 1 - pads] == '=')
        pads++;
    if (memchr(text, '=', len - pads))
        return false;
    unsigned char *bytes = allocate(len / 4 * 3 + 1);
    int decoded = len ? EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len) : 0;
    bool good = decoded >= 0 && (size_t)decoded == len / 4 * 3; /* it leaves blanks out */
    if (good)
        text_add(to, bytes, (size_t)decoded - pads);
    free(bytes);
    return good;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Reads a number that may be missing; then it stays as it is. */
static bool read_number(const json_t *object, const char *key, uint32_t *number_r,
                        struct text *reason_r)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return true;
    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        json_integer_value(value) <= UINT32_MAX) {
        *number_r = (uint32_t)json_integer_value(value);
        return true;
    }
    text_addf(reason_r, "\"%s\" is not a whole number from 0 to %u", key, UINT32_MAX);
    return false;
}

static bool read_body(const json_t *object, struct job_line *job_r, struct text *reason_r)
{
    const json_t *text = json_object_get(object, "body"),
                 *base64 = json_object_get(object, "body64");
    if (json_is_string(text) && !base64) {
        text_add(&job_r->body, json_string_value(text), json_string_length(text));
        return true;
    }
    if (json_is_string(base64) && !text &&
        add_base64(&job_r->body, json_string_value(base64), json_string_length(base64)))
        return true;
    text_addf(reason_r, "there is not one of \"body\", a text, and \"body64\", in base64");
    return false;
}

static bool read_job(const json_t *object, struct job_line *job_r, struct text *reason_r)
{
    const char *tube = json_string_value(json_object_get(object, "tube"));
    const char *state = json_string_value(json_object_get(object, "state"));
    if (!tube || !bs_is_tube_name(bytes_of(tube))) {
        text_addf(reason_r, "\"tube\" is not the name of a tube");
        return false;
    }
    text_addf(&job_r->tube, "%s", tube);
    job_r->is_buried = state && (strcmp(state, "buried") == 0 || strcmp(state, "abandoned") == 0);
    job_r->ttr_s = 60;
    job_r->pri = 1024;
    return read_number(object, "pri", &job_r->pri, reason_r) &&
           read_number(object, "delay", &job_r->delay_s, reason_r) &&
           read_number(object, "ttr", &job_r->ttr_s, reason_r) &&
           read_body(object, job_r, reason_r);
}

bool job_line_parse(struct bytes line, struct job_line *job_r, struct text *reason_r)
{
    json_error_t error;
    json_t *object = json_loadb((const char *)line.data, line.len, JSON_ALLOW_NUL, &error);
    bool good = false;
    if (!object)
        text_addf(reason_r, "no JSON: %s", error.text);
    else if (!json_is_object(object))
        text_addf(reason_r, "no JSON object");
    else
        good = read_job(object, job_r, reason_r);
    json_decref(object);
    return good;
}

void job_line_free(struct job_line *job)
{
    text_free(&job->tube);
    text_free(&job->body);
    *job = (struct job_line){0};
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

json_t *job_line_dictionary(struct bytes dictionary)
{
    json_t *object = json_object();
    struct bs_entry entry;
    while (bs_next_entry(&dictionary, &entry)) {
        struct text key = {0}, value = {0};
        uint64_t number;
        text_add_name(&key, entry.key);
        text_add_name(&value, entry.value);
        bool is_number = number_parse_plain(entry.value, INT64_MAX, &number);
        json_object_set_new(object, text_str(&key),
                            is_number ? json_count(number) : json_string(text_str(&value)));
        text_free(&key);
        text_free(&value);
    }
    return object;
}
