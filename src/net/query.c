/* query.c - see query.h. */
#include "net/query.h"

#include "base/number.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Room for a list of words in an error. */
#define LIST_SIZE 200

/* "a, b or c" */
static const char *list(const char *const *words, char *to)
{
    size_t len = 0;
    to[0] = '\0';
    for (size_t i = 0; words[i] && len < LIST_SIZE; i++)
        len += (size_t)snprintf(to + len, LIST_SIZE - len, "%s%s",
                                i == 0         ? ""
                                : words[i + 1] ? ", "
                                               : " or ",
                                words[i]);
    return to;
}

/* How many bytes of something to show in an error. */
static int shown(size_t len)
{
    return len < 60 ? (int)len : 60;
}

static bool is_word(const char *word, const char *text, size_t len)
{
    return strlen(word) == len && memcmp(word, text, len) == 0;
}

/* Takes note of one parameter: `len` bytes at `text`. */
static bool note(struct query *query, const char *text, size_t len)
{
    char known[LIST_SIZE];
    const char *equals = memchr(text, '=', len);
    size_t name_len = equals ? (size_t)(equals - text) : len;
    unsigned i = 0;
    while (query->names[i] && !is_word(query->names[i], text, name_len))
        i++;
    if (!query->names[i]) {
        http_error(query->request, 400, "there is no parameter \"%.*s\" here%s%s", shown(name_len),
                   text, i ? ": there is " : "", list(query->names, known));
        return false;
    }
    CHECK(i < QUERY_MAX);
    if (query->values[i].text) {
        http_error(query->request, 400, "parameter \"%s\" is given twice", query->names[i]);
        return false;
    }
    query->values[i].text = equals ? equals + 1 : text + len;
    query->values[i].len = equals ? len - name_len - 1 : 0;
    return true;
}

bool query_read(struct query *query_r, struct http_request *request, const char *const *names)
{
    *query_r = (struct query){.request = request, .names = names};
    const char *text = http_query(request);
    while (text && *text) {
        size_t len = strcspn(text, "&");
        if (len > 0 && !note(query_r, text, len))
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

bool query_number(const struct query *query, unsigned i, unsigned min, unsigned max,
                  unsigned *value_r)
{
    const char *text = query->values[i].text;
    size_t len = query->values[i].len;
    if (!text)
        return true;
    uint64_t value;
    if (!number_parse(bytes_at(text, len), max, &value) || value < min) {
        http_error(query->request, 400, "%s=%.*s: it is a number from %u to %u", query->names[i],
                   shown(len), text, min, max);
        return false;
    }
    *value_r = (unsigned)value;
    return true;
}

bool query_word(const struct query *query, unsigned i, const char *const *words, unsigned *value_r)
{
    char known[LIST_SIZE];
    const char *text = query->values[i].text;
    size_t len = query->values[i].len;
    if (!text)
        return true;
    for (unsigned word = 0; words[word]; word++) {
        if (is_word(words[word], text, len)) {
            *value_r = word;
            return true;
        }
    }
    http_error(query->request, 400, "%s=%.*s: it is %s", query->names[i], shown(len), text,
               list(words, known));
    return false;
}

bool query_bytes(const struct query *query, unsigned i, uint8_t *to, size_t *len_r)
{
    const char *text = query->values[i].text;
    *len_r = 0;
    if (!text || text_unpercent(text, query->values[i].len, to, len_r))
        return true;
    http_error(query->request, 400,
               "%s=%.*s: a %% needs two hexadecimal digits (a %% itself is %%25)", query->names[i],
               shown(query->values[i].len), text);
    return false;
}
