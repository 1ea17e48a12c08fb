/*
 * words.h - command lines for tests, in the form that main gets them.
 */
#ifndef WORDS_H
#define WORDS_H

#include "t/unit/unit.h"

#include <stdio.h>

#define WORDS_MAX 32

/* Words ended by NULL, as a function argument. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

struct command_line {
    int argc;
    char *argv[WORDS_MAX + 2];
    char copies[WORDS_MAX + 1][400]; /* the parser may change them */
};

/* Makes a command line from a program's name and words. Valid until the next call. */
static inline struct command_line *command_line_of(const char *program, const char *const *words)
{
    static struct command_line line;
    line.argc = 0;
    for (const char *word = program; word; word = words[line.argc - 1]) {
        ck_assert_int_le(line.argc, WORDS_MAX);
        snprintf(line.copies[line.argc], sizeof line.copies[0], "%s", word);
        line.argv[line.argc] = line.copies[line.argc];
        line.argc++;
    }
    line.argv[line.argc] = NULL;
    return &line;
}

#endif
