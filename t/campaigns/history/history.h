/*
 * history.h - what clients did to one server and which answers they read: operations with their
 * times, and the file format.
 *
 * An operation is a request of one connection on one name, with the time just before it was sent
 * (`call`) and the time just after its answer was read (`ret`). It took effect between the two. A
 * connection has one operation at a time. Times are nanoseconds of CLOCK_MONOTONIC.
 *
 * The file has one line for each operation, with twelve columns; "-" for an unknown time:
 *
 *     conn name verb result units limit queue timeout call seen left ret
 *
 * A line that begins with "#" is a comment.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HISTORY_VERBS(row)                                                                         \
    row(ACQ4ME, "acq4me")       /* one unit; limit, queue, timeout */                              \
        row(ACQ4ANY, "acq4any") /* like ACQ4ME, but any release answers DONE */                    \
        row(RELEASE, "release") /* one unit; text protocol */                                      \
        row(ACQUIRE, "acquire") /* units, limit; binary protocol */                                \
        row(GIVE, "give")       /* units; Release of the binary protocol */                        \
        row(GET, "get")         /* `units` is the answer */                                        \
        row(CLOSE, "close")     /* ret: when a client saw the end; may be unknown */

#define HISTORY_RESULTS(row)                                                                       \
    row(LOCKED, "locked") row(DONE, "done") row(TIMEOUT, "timeout") row(FULL, "full")              \
        row(CANCELLED, "cancelled") /* a wait that RELEASE ended; `left`: its call */              \
        row(UNKNOWN, "unknown")     /* the connection was closed before an answer arrived */       \
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
    int64_t timeout; /* of ACQ4*; 0: does not wait */
    int64_t call;
    int64_t seen; /* the server had handled it: it answered a later request by then */
    int64_t left; /* earliest time at which it can have left the queue (timeout, cancel) */
    int64_t ret;
};

struct history {
    struct operation *operations;
    size_t count, room;
};

/* Adds an operation. Ends the program without memory, as all functions here do. */
void history_add(struct history *history, const struct operation *operation);
/* Frees the operations. */
void history_free(struct history *history);

const char *history_verb_word(enum history_verb verb);
const char *history_result_word(enum history_result result);

void history_write_line(FILE *to, const struct operation *operation);
/* Reads all lines. Returns false on an error in line *line_r. */
bool history_read(struct history *history, FILE *from, unsigned *line_r);

#endif
