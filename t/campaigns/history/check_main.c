/*
 * check_main.c - checks files of histories (see check.h).
 *
 * usage: check FILE...
 *
 * Prints one line for each file, and the error of a bad one. Exits 0 if all are good, 1 if one is
 * not, 2 if one can't be read.
 */
#include "t/campaigns/history/check.h"

#include <inttypes.h>

int main(int argc, char **argv)
{
    bool good = true;
    if (argc < 2) {
        fprintf(stderr, "usage: check FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        struct history history = {0};
        struct check_result result;
        unsigned line = 0;
        FILE *from = fopen(argv[i], "r");
        if (!from || !history_read(&history, from, &line)) {
            fprintf(stderr, "%s: can't be read (line %u)\n", argv[i], line);
            return 2;
        }
        fclose(from);
        check_history(&history, &result);
        printf("%s: %zu operations, %" PRIu64 " states, at most %zu at once: %s\n%s", argv[i],
               history.count, result.states, result.most, check_verdict_word(result.verdict),
               result.report);
        good = good && result.verdict == CHECK_GOOD;
        history_free(&history);
    }
    return good ? 0 : 1;
}
