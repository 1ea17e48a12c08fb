/* history.c - see history.h. */
#include "t/campaigns/history/history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const verb_words[] = {
#define ROW(name, word) word,
    HISTORY_VERBS(ROW)
#undef ROW
};

static const char *const result_words[] = {
#define ROW(name, word) word,
    HISTORY_RESULTS(ROW)
#undef ROW
};

const char *history_verb_word(enum history_verb verb)
{
    return verb_words[verb];
}

const char *history_result_word(enum history_result result)
{
    return result_words[result];
}

void history_add(struct history *history, const struct operation *operation)
{
    if (history->count == history->room) {
        history->room = history->room ? 2 * history->room : 1024;
        history->operations =
            realloc(history->operations, history->room * sizeof(*history->operations));
        if (!history->operations)
            abort();
    }
    history->operations[history->count++] = *operation;
}

void history_free(struct history *history)
{
    free(history->operations);
    *history = (struct history){0};
}

/* ---- the file ---------------------------------------------------------------------------- */

static void write_time(FILE *to, int64_t time)
{
    if (time == TIME_UNKNOWN)
        fputs(" -", to);
    else
        fprintf(to, " %" PRId64, time);
}

void history_write_line(FILE *to, const struct operation *o)
{
    fprintf(to, "%u %u %s %s %u %u %u %" PRId64, o->conn, o->name, verb_words[o->verb],
            result_words[o->result], o->units, o->limit, o->queue, o->timeout);
    write_time(to, o->call);
    write_time(to, o->seen);
    write_time(to, o->left);
    write_time(to, o->ret);
    fputc('\n', to);
}

static bool find_word(const char *const *words, unsigned count, const char *word, unsigned *at_r)
{
    for (*at_r = 0; *at_r < count; ++*at_r) {
        if (strcmp(words[*at_r], word) == 0)
            return true;
    }
    return false;
}

static bool read_number(const char *word, int64_t max, int64_t *number_r)
{
    char *end = NULL;
    *number_r = strtoll(word, &end, 10);
    return end != word && *end == '\0' && *number_r >= 0 && *number_r <= max;
}

static bool read_time(const char *word, int64_t *time_r)
{
    *time_r = TIME_UNKNOWN;
    return strcmp(word, "-") == 0 || read_number(word, INT64_MAX - 1, time_r);
}

static bool read_line(char *line, struct operation *operation_r)
{
    char *words[12], *rest = NULL;
    int64_t numbers[5];
    unsigned verb, result;
    for (unsigned i = 0; i < 12; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " \n", &rest);
        if (!words[i])
            return false;
    }
    for (unsigned i = 0; i < 5; i++) {
        static const unsigned columns[] = {0, 1, 4, 5, 6};
        if (!read_number(words[columns[i]], UINT32_MAX, &numbers[i]))
            return false;
    }
    *operation_r = (struct operation){
        .conn = (uint32_t)numbers[0],
        .name = (uint32_t)numbers[1],
        .units = (uint32_t)numbers[2],
        .limit = (uint32_t)numbers[3],
        .queue = (uint32_t)numbers[4],
    };
    if (!find_word(verb_words, VERB_COUNT, words[2], &verb) ||
        !find_word(result_words, RESULT_COUNT, words[3], &result))
        return false;
    operation_r->verb = (enum history_verb)verb;
    operation_r->result = (enum history_result)result;
    return !strtok_r(NULL, " \n", &rest) &&
           read_number(words[7], INT64_MAX - 1, &operation_r->timeout) &&
           read_number(words[8], INT64_MAX - 1, &operation_r->call) &&
           read_time(words[9], &operation_r->seen) && read_time(words[10], &operation_r->left) &&
           read_time(words[11], &operation_r->ret);
}

bool history_read(struct history *history, FILE *from, unsigned *line_r)
{
    char *line = NULL;
    size_t room = 0;
    bool well = true;
    for (*line_r = 1; well && getline(&line, &room, from) >= 0; ++*line_r) {
        struct operation operation;
        if (line[0] == '#')
            continue;
        well = read_line(line, &operation);
        if (!well)
            break;
        history_add(history, &operation);
    }
    free(line);
    return well;
}
