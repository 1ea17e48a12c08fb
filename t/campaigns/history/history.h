/*
 * history.h - what clients did and saw of one server: operations with their times, and their file.
 *
 * An operation is a request of one connection on one name, with the time just before it was sent
 * (`call`) and the time just after its answer was read (`ret`), so it took effect somewhere between
 * the two. A connection has one operation at a time. Times are nanoseconds of CLOCK_MONOTONIC.
 *
 * The file has a line an operation and twelve columns, "-" where a time is not known:
 *
 *     conn name verb result units limit queue timeout call seen left ret
 *
 * A line that begins with "#" is a remark.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HISTORY_VERBS(row)                                                                         \
    row(ACQ4ME, "acq4me")       /* one unit; limit, queue, timeout */                              \
        row(ACQ4ANY, "acq4any") /* the same, and any release says DONE */                          \
        row(RELEASE, "release") /* one unit, by text */                                            \
        row(ACQUIRE, "acquire") /* units, limit: by the binary protocol */                         \
        row(GIVE, "give")       /* units: Release of the binary protocol */                        \
        row(GET, "get")         /* `units` is the answer */                                        \
        row(CLOSE, "close")     /* ret: when the end was seen, if it was */

#define HISTORY_RESULTS(row)                                                                       \
    row(LOCKED, "locked") row(DONE, "done") row(TIMEOUT, "timeout") row(FULL, "full")              \
        row(CANCELLED, "cancelled") /* a wait that RELEASE ended: `left` is that one's call */     \
        row(UNKNOWN, "unknown")     /* the connection was closed before an answer came */          \
        row(NOT_LOCKED, "not_locked") row(OK, "ok") row(UNAVAILABLE, "unavailable")                \
            row(NOT_ACQUIRED, "not_acquired") row(NOT_FOUND, "not_found")

enum history_verb {
#define ROW(name, word) VERB_##name,
    HISTORY_VERBS(ROW)
#undef ROW
        VERB_COUNT
};

enum history_result {
#define ROW(name, word) RESULT_##name,
    HISTORY_RESULTS(ROW)
#undef ROW
        RESULT_COUNT
};

#define TIME_UNKNOWN (-1)

struct operation {
    uint32_t conn, name; /* names are numbers */
    enum history_verb verb;
    enum history_result result;
    uint32_t units, limit, queue;
    int64_t timeout; /* of ACQ4*; 0: it does not wait */
    int64_t call;
    int64_t seen; /* it had been taken in by then: later requests of the connection were answered */
    int64_t left; /* before that it can't have left the line: it timed out, or was cancelled */
    int64_t ret;
};

struct history {
    struct operation *operations;
    size_t count, room;
};

/* Adds an operation. Ends the program where there is no memory, as all here does. */
void history_add(struct history *history, const struct operation *operation);
/* Frees what it has. */
void history_free(struct history *history);

const char *history_verb_word(enum history_verb verb);
const char *history_result_word(enum history_result result);

void history_write_line(FILE *to, const struct operation *operation);
/* Reads all lines; false: line *line_r can't be understood. */
bool history_read(struct history *history, FILE *from, unsigned *line_r);

#endif
