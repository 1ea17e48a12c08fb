/*
 * upgrade_answer.h - the answer of a child that has checked an upgrade or made its dry run: one
 * line on its standard output. It says what the child has read. So a program that merely ends well,
 * or reads only a part, does not pass.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_UPGRADE_ANSWER_H
#define DAEMON_UPGRADE_ANSWER_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define UPGRADE_VERSION_MAX 63

/* What is in a state; it does not change with time. */
struct upgrade_counts {
    uint64_t units; /* held, of the table */
    uint64_t connections;
};

struct upgrade_answer {
    char version[UPGRADE_VERSION_MAX + 1]; /* of the program */
    struct upgrade_counts counts;          /* of what it has built; in a check: zeros */
    uint64_t sum;                          /* of the state (base/record.h); in a check: 0 */
    int64_t read_ns;                       /* how long it took to read and build all */
};

/* Writes the answer of a child in this role ("check"). */
void upgrade_answer_print(FILE *to, const char *role, const struct upgrade_answer *answer);

/* Finds the answer in what a child in this role has said. Returns false when there is none. */
bool upgrade_answer_parse(const char *said, const char *role,
                          struct upgrade_answer *answer_r) MUST_USE;

#endif
