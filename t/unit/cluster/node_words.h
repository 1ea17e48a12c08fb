/*
 * node_words.h - the words of a step of a story (node_stories.c), and the values that they say. For
 * a program of one file.
 */
#ifndef NODE_WORDS_H
#define NODE_WORDS_H

#include "cluster/node_internal.h"
#include "t/unit/cluster/node_rig.h"

#include <ctype.h>
#include <inttypes.h>

enum { WORDS = 48, ASKS = 16, MARKS = 8, COLUMNS = 4 };

/* The story that is played, and its present step. */
static struct play {
    char *columns[COLUMNS];
    unsigned times; /* $i */
    char text[8192];
    const char *rest; /* behind the first word */
    struct bytes words[WORDS];
    unsigned count;
    struct play_ask {
        char name[12], key[64];
        struct rig_ask is;
    } asks[ASKS];
    struct mark {
        char name[12], session[17];
        int64_t ns;
    } marks[MARKS];
    unsigned beat, closed;
    char answer[200000];
    size_t answer_len;
} p;

/* ---- words ----------------------------------------------------------------------------------- */

static inline char *copied(const char *text, size_t len)
{
    char *copy = strndup(text, len);
    CHECK(copy);
    return copy;
}

static inline const char *word(unsigned i)
{
    return i < p.count ? (const char *)p.words[i].data : "";
}

static inline bool is(unsigned i, const char *text)
{
    return strcmp(word(i), text) == 0;
}

static inline int64_t number(unsigned i)
{
    char *end;
    int64_t value = strtoll(word(i), &end, 10);
    RIG_WANT(*end == 0 && end != word(i), "%s is no number", word(i));
    return value;
}

/* Puts the row and $i into a line. */
static inline void replace(const char *from)
{
    size_t at = 0;
    for (; *from; from++) {
        const char *value = NULL;
        char count[12];
        if (from[0] == '$' && from[1] == 'i') {
            snprintf(count, sizeof(count), "%u", p.times);
            value = count;
        } else if (from[0] == '$' && from[1] >= '1' && from[1] < '1' + COLUMNS) {
            value = p.columns[from[1] - '1'];
        }
        RIG_WANT(at + 1000 < sizeof(p.text) && !(value && strlen(value) > 900), "a long line");
        at += (size_t)sprintf(p.text + at, "%.*s", value ? 900 : 1, value ? value : from);
        from += value != NULL;
    }
    p.text[at] = 0;
}

/* A word of a text, with quotes or without; it is unescaped in its place. */
static inline char *take_word(char *at, struct bytes *word_r)
{
    char *to = at, *first = at;
    bool quoted = *at == '"';
    for (at += quoted; *at && (quoted ? *at != '"' : *at != ' '); at++) {
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        unsigned value = 0;
        at++;
        if (*at == 'x' && sscanf(at + 1, "%2x", &value) == 1)
            at += 2;
        else
            value = *at == 'r' ? '\r' : *at == 'n' ? '\n' : *at == '0' ? 0 : (unsigned char)*at;
        *to++ = (char)value;
    }
    bool more = *at != 0;
    at += more;
    *to = 0;
    *word_r = bytes_at(first, (size_t)(to - first));
    return at;
}

static inline void split(char *at)
{
    p.count = 0;
    while (*(at += strspn(at, " "))) {
        RIG_WANT(p.count < WORDS, "many words");
        at = take_word(at, &p.words[p.count++]);
    }
}

static inline struct mark *mark_of(const char *name, size_t len, bool make)
{
    for (unsigned i = 0; i < MARKS; i++) {
        struct mark *m = &p.marks[i];
        if (!m->name[0] && make)
            snprintf(m->name, sizeof(m->name), "%.*s", (int)len, name);
        if (strlen(m->name) == len && memcmp(m->name, name, len) == 0)
            return m;
    }
    rig_fail("no mark %.*s", (int)len, name);
}

/* A time of the clock, or a duration if it begins with a digit. */
static inline int64_t time_of(unsigned i)
{
    const char *at = word(i);
    int64_t ns = 0;
    char *end = unconst(at);
    if (isalpha((unsigned char)*at)) {
        size_t len = strcspn(at, "+-");
        ns = strncmp(at, "lease", len) == 0  ? r.lease_end
             : strncmp(at, "none", len) == 0 ? 0
                                             : mark_of(at, len, false)->ns;
        end += len;
        if (end[0] == '+' && isdigit((unsigned char)end[1]))
            ns += strtoll(end + 1, &end, 10) * MS;
    } else {
        ns = strtoll(at, &end, 10) * MS;
    }
    return ns + (*end == '+') - (*end == '-');
}

/* The ask of this name; NULL: there is none. */
static inline struct play_ask *find_ask(const char *name)
{
    for (unsigned i = 0; i < ASKS; i++)
        if (strcmp(p.asks[i].name, name) == 0)
            return &p.asks[i];
    return NULL;
}

static inline struct rig_ask *ask_of(unsigned i)
{
    struct play_ask *found = find_ask(word(i));
    RIG_WANT(found && found->name[0], "no ask %s", word(i));
    return &found->is;
}

/* m: messages; s0: a Sentinel; "" or c: commands. */
static inline unsigned wire_of(const char *text)
{
    return *text == 'm'   ? NODE_MESSAGES
           : *text == 's' ? NODE_SENTINEL + (unsigned)(text[1] - '0')
                          : NODE_COMMANDS;
}

/* ---- what the engine says -------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static inline void put(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    size_t room = sizeof(p.answer) - p.answer_len;
    int len = vsnprintf(p.answer + p.answer_len, room, format, values);
    va_end(values);
    RIG_WANT((size_t)len < room, "a long answer");
    p.answer_len += (size_t)len;
}

static inline void put_text(const char *text, size_t len)
{
    put("$%zu\r\n%.*s\r\n", len, (int)len, text);
}

static inline char *put_value(char *at, unsigned *count_r);

static inline char *put_list(char *at)
{
    size_t first = p.answer_len;
    unsigned count = 0, more;
    char head[16];
    for (at++; *(at += strspn(at, " ")) != ']'; count += more)
        at = put_value(at, &more);
    size_t len = (size_t)snprintf(head, sizeof(head), "*%u\r\n", count);
    put("%s", head); /* room for the head, which moves to the front */
    memmove(p.answer + first + len, p.answer + first, p.answer_len - first - len);
    memcpy(p.answer + first, head, len);
    return at + 1;
}

/* Appends a value of a line; it counts as more than one with * behind it. */
static inline char *put_value(char *at, unsigned *count_r)
{
    size_t first = p.answer_len, len = strcspn(at, " ]*");
    if (*at == '[') {
        at = put_list(at);
    } else if (*at == '"' || *at == '!') {
        struct bytes text;
        bool error = *at == '!';
        at = take_word(at + error, &text);
        if (error)
            put("-%s\r\n", (const char *)text.data);
        else
            put_text((const char *)text.data, text.len);
    } else {
        RIG_WANT(len > 0, "no value: %s", at);
        if (strspn(at + (*at == '-'), "0123456789") + (*at == '-') == len)
            put(":%.*s\r\n", (int)len, at);
        else if (*at == '=') /* as it is */
            put("%.*s\r\n", (int)len - 1, at + 1);
        else if (strncmp(at, "nil", len) == 0)
            put("%s", "$-1\r\n");
        else if (strncmp(at, "none", len) == 0)
            put("%s", "*-1\r\n");
        else if (strncmp(at, "SELF", len) == 0)
            put_text(r.session, strlen(r.session));
        else if (strncmp(at, "INFO", len) == 0)
            put_text(r.info, strlen(r.info));
        else
            put_text(at, len);
        at += len;
    }
    *count_r = *at == '*' ? (unsigned)strtoul(at + 1, &at, 10) : 1;
    len = p.answer_len - first;
    for (unsigned i = 1; i < *count_r; i++)
        put("%.*s", (int)len, p.answer + first);
    return at;
}

static inline void answer_value(char *at)
{
    unsigned count;
    p.answer_len = 0;
    while (*(at += strspn(at, " ")))
        at = put_value(at, &count);
    p.answer[p.answer_len] = 0;
}

#endif
