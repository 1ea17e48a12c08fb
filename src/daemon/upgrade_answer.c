/*
 * upgrade_answer.c - see upgrade_answer.h. The line, whose numbers are decimal:
 *
 *     counterd-upgrade ROLE VERSION UNITS CONNECTIONS SUM NANOSECONDS
 */
#include "daemon/upgrade_answer.h"

#include "base/number.h"

#include <inttypes.h>
#include <string.h>

#define WORD "counterd-upgrade "

void upgrade_answer_print(FILE *to, const char *role, const struct upgrade_answer *answer)
{
    fprintf(to, WORD "%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIi64 "\n", role,
            answer->version, answer->counts.units, answer->counts.connections, answer->sum,
            answer->read_ns);
}

/* Takes the next word; it ends with a blank, or with the line. */
static struct bytes next_word(const char **at)
{
    struct bytes word = {.data = (const uint8_t *)*at, .len = strcspn(*at, " \n")};
    *at += word.len;
    *at += **at == ' ';
    return word;
}

static bool parse_line(const char *at, const char *role, struct upgrade_answer *answer_r)
{
    uint64_t numbers[4];
    struct bytes word = next_word(&at), version = next_word(&at);
    if (word.len != strlen(role) || memcmp(word.data, role, word.len) != 0 || version.len == 0 ||
        version.len > UPGRADE_VERSION_MAX)
        return false;
    for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++) {
        if (!number_parse(next_word(&at), i == 3 ? INT64_MAX : UINT64_MAX, &numbers[i]))
            return false;
    }
    *answer_r = (struct upgrade_answer){
        .counts = {.units = numbers[0], .connections = numbers[1]},
        .sum = numbers[2],
        .read_ns = (int64_t)numbers[3],
    };
    memcpy(answer_r->version, version.data, version.len);
    return *at == '\n';
}

bool upgrade_answer_parse(const char *said, const char *role, struct upgrade_answer *answer_r)
{
    const char *end;
    for (const char *line = said; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if (strncmp(line, WORD, sizeof(WORD) - 1) == 0)
            return parse_line(line + sizeof(WORD) - 1, role, answer_r);
    }
    return false;
}
