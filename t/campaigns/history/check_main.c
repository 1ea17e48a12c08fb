/*
 * check_main.c - reads files of histories, and checks them (see check.h).
 *
 * usage: check FILE...
 *
 * Prints one line for each file, and the error of a bad one. Exits 0 if all are good, 1 if one is
 * not, 2 if one can't be read.
 */
#include "t/campaigns/history/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS 12

static const char *const verbs[] = {"acq4me", "acq4any", "release", "acquire",
                                    "give",   "get",     "close",   NULL};
static const char *const results[] = {"locked",      "done",         "timeout",    "full",
                                      "cancelled",   "unknown",      "not_locked", "ok",
                                      "unavailable", "not_acquired", "not_found",  NULL};
static const char *const verdicts[] = {
    [CHECK_GOOD] = "good",
    [CHECK_BAD_TIME] = "an answer came before its time",
    [CHECK_BAD] = "no order explains it",
    [CHECK_TOO_HARD] = "too hard to decide",
};

static bool read_number(const char *word, int64_t max, int64_t *number_r)
{
    char *end = NULL;
    *number_r = strtoll(word, &end, 10);
    return end != word && *end == '\0' && *number_r >= 0 && *number_r <= max;
}

/* Reads a word of column `at`: one of a list, a time that may be unknown, or a number. */
static bool read_word(const char *word, unsigned at, int64_t *number_r)
{
    const char *const *words = at == 2 ? verbs : results;
    if (at != 2 && at != 3) {
        *number_r = TIME_UNKNOWN;
        return (at > 8 && strcmp(word, "-") == 0) ||
               read_number(word, at < 7 ? UINT32_MAX : INT64_MAX - 1, number_r);
    }
    for (*number_r = 0; words[*number_r]; ++*number_r) {
        if (strcmp(words[*number_r], word) == 0)
            return true;
    }
    return false;
}

static bool read_line(char *line, struct operation *o)
{
    char *rest = NULL, *words = line;
    int64_t n[COLUMNS];
    o->line = strdup(line);
    for (unsigned at = 0; at < COLUMNS; at++) {
        const char *word = strtok_r(words, " \n", &rest);
        words = NULL;
        if (!o->line || !word || !read_word(word, at, &n[at]))
            return false;
    }
    o->conn = (uint32_t)n[0];
    o->name = (uint32_t)n[1];
    o->verb = (enum history_verb)n[2];
    o->result = (enum history_result)n[3];
    o->units = (uint32_t)n[4];
    o->limit = (uint32_t)n[5];
    o->queue = (uint32_t)n[6];
    o->timeout = n[7];
    o->call = n[8];
    o->seen = n[9];
    o->left = n[10];
    o->ret = n[11];
    return !strtok_r(NULL, " \n", &rest);
}

/* Reads all operations of a file. Returns their number, or -1 on an error in line *line_r. */
static ssize_t read_file(FILE *from, struct operation **operations_r, unsigned *line_r)
{
    char *line = NULL;
    size_t room = 0, count = 0, most = 0;
    bool well = true;
    for (*line_r = 1; well && getline(&line, &room, from) >= 0; *line_r += well) {
        if (line[0] == '#')
            continue;
        if (count == most) {
            most = 2 * most + 1024;
            *operations_r = realloc(*operations_r, most * sizeof(**operations_r));
            if (!*operations_r)
                abort();
        }
        well = read_line(line, &(*operations_r)[count++]);
    }
    free(line);
    return well ? (ssize_t)count : -1;
}

int main(int argc, char **argv)
{
    bool good = true;
    for (int i = 1; i < argc; i++) {
        struct operation *operations = NULL;
        struct check_result result;
        unsigned line = 0;
        FILE *from = fopen(argv[i], "r");
        ssize_t count = from ? read_file(from, &operations, &line) : -1;
        if (count < 0) {
            fprintf(stderr, "%s: can't be read (line %u)\n", argv[i], line);
            _exit(2); /* with what it has read */
        }
        fclose(from);
        check_history(operations, (size_t)count, &result);
        printf("%s: %zd operations, %" PRIu64 " states, at most %zu at once: %s\n%s", argv[i],
               count, result.states, result.most, verdicts[result.verdict], result.report);
        good = good && result.verdict == CHECK_GOOD;
        for (ssize_t k = 0; k < count; k++)
            free(operations[k].line);
        free(operations);
    }
    return good ? 0 : 1;
}
