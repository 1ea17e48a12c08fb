/* query.c - see query.h. */
#include "net/query.h"

#include "base/number.h"
#include "base/option_value.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Room for a list of words in an error. */
#define LIST_SIZE 200

/* "a, b or c" */
static const char *list(const char *const *words, char *to)
{
    struct option_text text = {.to = to, .size = LIST_SIZE};
    *to = '\0';
    option_text_add_words(&text, words);
    return to;
}

/* How many bytes of something to show in an error. */
static int shown(size_t len)
{
    return len < 60 ? (int)len : 60;
}

/* Takes note of one parameter. */
static bool note(struct query *query, struct bytes parameter)
{
    char known[LIST_SIZE];
    struct bytes name = parameter, value = bytes_at(parameter.data + parameter.len, 0);
    const uint8_t *equals = memchr(parameter.data, '=', parameter.len);
    if (equals) {
        name.len = (size_t)(equals - parameter.data);
        value = bytes_at(equals + 1, parameter.len - name.len - 1);
    }
    unsigned i = 0;
    while (query->names[i] && !bytes_equal(name, bytes_of(query->names[i])))
        i++;
    if (!query->names[i]) {
        http_error(query->request, 400, "there is no parameter \"%.*s\" here%s%s", shown(name.len),
                   (const char *)name.data, i ? ": there is " : "", list(query->names, known));
        return false;
    }
    CHECK(i < QUERY_MAX);
    if (query->values[i].data) {
        http_error(query->request, 400, "parameter \"%s\" is given twice", query->names[i]);
        return false;
    }
    query->values[i] = value;
    return true;
}

bool query_read(struct query *query_r, struct http_request *request, const char *const *names)
{
    *query_r = (struct query){.request = request, .names = names};
    const char *text = http_query(request);
    while (text && *text) {
        size_t len = strcspn(text, "&");
        if (len > 0 && !note(query_r, bytes_at(text, len)))
            return false;
        text += len + (text[len] == '&');
    }
    return true;
}

bool query_none(struct http_request *request)
{
    static const char *const none[] = {NULL};
    struct query query;
    return query_read(&query, request, none);
}

/* Answers that a value is wrong; `what` says what would be right. Returns false. */
static bool wrong(const struct query *query, unsigned i, const char *what)
{
    struct bytes value = query->values[i];
    http_error(query->request, 400, "%s=%.*s: %s", query->names[i], shown(value.len),
               (const char *)value.data, what);
    return false;
}

bool query_number(const struct query *query, unsigned i, unsigned min, unsigned max,
                  unsigned *value_r)
{
    char what[LIST_SIZE];
    uint64_t value;
    if (!query->values[i].data)
        return true;
    if (!number_parse(query->values[i], max, &value) || value < min) {
        snprintf(what, sizeof(what), "it is a number from %u to %u", min, max);
        return wrong(query, i, what);
    }
    *value_r = (unsigned)value;
    return true;
}

bool query_word(const struct query *query, unsigned i, const char *const *words, unsigned *value_r)
{
    char known[LIST_SIZE], what[LIST_SIZE + 6];
    if (!query->values[i].data)
        return true;
    for (unsigned word = 0; words[word]; word++) {
        if (bytes_equal(query->values[i], bytes_of(words[word]))) {
            *value_r = word;
            return true;
        }
    }
    snprintf(what, sizeof(what), "it is %s", list(words, known));
    return wrong(query, i, what);
}

bool query_bytes(const struct query *query, unsigned i, uint8_t *to, size_t *len_r)
{
    struct bytes value = query->values[i];
    *len_r = 0;
    if (!value.data || text_unpercent((const char *)value.data, value.len, to, len_r))
        return true;
    return wrong(query, i, "a % needs two hexadecimal digits (a % itself is %25)");
}

bool query_cursor(const struct query *query, unsigned i, bool valid)
{
    const char *name = query->names[i];
    if (!valid)
        http_error(query->request, 400,
                   "%s: not valid; send the %s of the previous page, unchanged", name, name);
    return valid;
}
