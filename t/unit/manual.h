/*
 * manual.h - reads manuals as source, for tests that compare them with a program's tables.
 *
 * TOP_SRCDIR is the folder of the sources; the default is the working directory.
 */
#ifndef MANUAL_H
#define MANUAL_H

#include "t/unit/unit.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A file of the sources as text, which the caller frees. */
static inline char *read_source(const char *name)
{
    char path[4096], *text = NULL;
    size_t size = 0;
    const char *top = getenv("TOP_SRCDIR"); /* NOLINT(concurrency-mt-unsafe): one thread */
    snprintf(path, sizeof path, "%s/%s", top ? top : ".", name);
    FILE *from = fopen(path, "r");
    ck_assert_msg(from, "%s is missing", path);
    ck_assert_int_gt(getdelim(&text, &size, '\0', from), 0);
    fclose(from);
    return text;
}

/* The number of occurrences of `part` in `text`. */
static inline unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

/* True if `word` is in `text` as a whole word. */
static inline bool has_word(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += len) {
        char before = at == text ? ' ' : at[-1], after = at[len];
        if (!isalnum((unsigned char)before) && before != '-' && !isalnum((unsigned char)after) &&
            after != '-')
            return true;
    }
    return false;
}

/* The part of the page from a line that begins with `from` up to the next section. */
static inline char *section(const char *page, const char *from)
{
    const char *start = strstr(page, from);
    ck_assert_msg(start, "no %s", from);
    const char *end = strstr(start + 1, "\n.Sh ");
    char *copy = end ? strndup(start, (size_t)(end - start)) : strdup(start);
    ck_assert_ptr_nonnull(copy);
    return copy;
}

/*
 * The text of an item, up to the next item or the end of the list. The item's first line is `head`,
 * or begins with `head` and a space. The caller frees the text.
 */
static inline char *item_text(const char *text, const char *head)
{
    char whole[200];
    const char *start = NULL;
    unsigned found = 0;
    snprintf(whole, sizeof whole, "\n%s", head);
    for (const char *at = text; (at = strstr(at, whole)); at++) {
        char after = at[strlen(whole)];
        if (after == '\n' || after == ' ') {
            start = at + strlen(whole);
            found++;
        }
    }
    ck_assert_msg(found == 1, "%u times there: %s", found, head);
    const char *item = strstr(start, "\n.It "), *end = strstr(start, "\n.El");
    ck_assert_ptr_nonnull(end);
    char *copy = strndup(start, (size_t)((item && item < end ? item : end) + 1 - start));
    ck_assert_ptr_nonnull(copy);
    return copy;
}

/*
 * Writes the head of an option's item. Without a letter `letter` is 0, without an argument
 * `argument` is NULL.
 */
static inline void write_option_head(char head[128], char letter, const char *name,
                                     const char *argument)
{
    char with_letter[16] = "";
    if (letter)
        snprintf(with_letter, sizeof with_letter, "Fl %c , ", letter);
    snprintf(head, 128, ".It %sFl -%s%s%s", with_letter, name, argument ? " " : "",
             argument ? argument : "");
}

#endif
