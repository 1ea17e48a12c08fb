/*
 * json_text.h - writes JSON into a text, value by value. The text says at the end if there was no
 * memory; nothing is sent from here.
 *
 *     struct json_text json = json_text_begin();
 *     json_text_number(&json, "members", 3);
 *     json_text_close(&json, '}');
 */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include "base/text.h"

/* Zero-initialised: empty. */
struct json_text {
    struct text text;
    bool more; /* a value stands before: the next one needs a comma */
};

/* All of them: `key` is plain ASCII, in an object; NULL: in an array, or for the whole. */

/* Opens an object '{' or an array '['; json_text_close takes the bracket that closes it. Aborts
 * under a lock: others would wait for the text and its memory. */
void json_text_open(struct json_text *to, const char *key, char bracket);
void json_text_close(struct json_text *to, char bracket);

/* A text with an object that is open. */
static inline struct json_text json_text_begin(void)
{
    struct json_text json = {0};
    json_text_open(&json, NULL, '{');
    return json;
}

/* A count; one above INT64_MAX, which parsers refuse, is written as INT64_MAX. */
void json_text_number(struct json_text *to, const char *key, uint64_t value);
/* A number with 15 digits; null where it is not finite. */
void json_text_real(struct json_text *to, const char *key, double value);
void json_text_bool(struct json_text *to, const char *key, bool value);
void json_text_null(struct json_text *to, const char *key);
/* Text in UTF-8; bytes that are no UTF-8 are spelled \xNN, and then backslashes are doubled. What
 * may not be shown (utf8.h) is written as \uNNNN. */
void json_text_string(struct json_text *to, const char *key, struct bytes value);
/* The text of a name that people read (text_add_readable), and its id for URLs (text_add_percent):
 * different names have different ones. */
void json_text_readable(struct json_text *to, const char *key, struct bytes value);
void json_text_percent(struct json_text *to, const char *key, struct bytes value);

#endif
