/*
 * check.h - searches for an order of operations that explains a history: what clients did to one
 * server and which answers they read (record.py), with times.
 *
 * The rule is that of the protocol page. Each name is checked alone, because names are independent.
 * A request fits if units held + units asked <= its own limit. One that fits is granted at once;
 * others are refused or wait. An explicit release answers DONE to all ACQ4ANY waiters and then
 * grants to ACQ4ME waiters that fit, oldest first. A close answers DONE to nobody; it grants to
 * ACQ4ME waiters that fit and then to ACQ4ANY waiters that fit, each oldest first.
 *
 * An operation is a request of one connection on one name, with the time just before it was sent
 * (`call`) and the time just after its answer was read (`ret`). It took effect between the two. A
 * connection has one operation at a time. A wait has two such moments: it enters the queue, and it
 * leaves the queue. A grant or a DONE happens together with the release or close of another client.
 * A timeout or a cancel is a moment of its own, not before `left`. A close takes effect at any time
 * after its call, and before its end was seen, if that is known. If its connection both waits and
 * holds, it leaves the queue first and gives back later.
 *
 * A file has one line for each operation, with twelve columns; "-" for an unknown time. Times are
 * nanoseconds of CLOCK_MONOTONIC. A line that begins with "#" is a comment.
 *
 *     conn name verb result units limit queue timeout call seen left ret
 */
#ifndef HISTORY_CHECK_H
#define HISTORY_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the words in check_main.c. */
enum history_verb {
    VERB_ACQ4ME,  /* one unit; limit, queue, timeout */
    VERB_ACQ4ANY, /* like ACQ4ME, but any release answers DONE */
    VERB_RELEASE, /* one unit; text protocol */
    VERB_ACQUIRE, /* units, limit; binary protocol */
    VERB_GIVE,    /* units; Release of the binary protocol */
    VERB_GET,     /* `units` is the answer */
    VERB_CLOSE,   /* ret: when a client saw the end; may be unknown */
};

enum history_result {
    RESULT_LOCKED,
    RESULT_DONE,
    RESULT_TIMEOUT,
    RESULT_FULL,
    RESULT_CANCELLED, /* a wait that RELEASE ended; `left`: its call */
    RESULT_UNKNOWN,   /* the connection was closed before an answer arrived */
    RESULT_NOT_LOCKED,
    RESULT_OK,
    RESULT_UNAVAILABLE,
    RESULT_NOT_ACQUIRED,
    RESULT_NOT_FOUND,
};

#define TIME_UNKNOWN (-1)

struct operation {
    char *line;          /* of the file */
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

enum check_verdict {
    CHECK_GOOD,
    CHECK_BAD_TIME, /* impossible times: a timeout was early */
    CHECK_BAD,      /* no order explains it */
    CHECK_TOO_HARD, /* too many operations at once for this checker */
};

struct check_result {
    enum check_verdict verdict;
    uint64_t states;   /* number of states examined */
    size_t most;       /* most states possible at one moment */
    char report[4096]; /* lines of text */
};

/* Checks all names, and sorts the operations. Stops at the first name that is not good. */
void check_history(struct operation *operations, size_t count, struct check_result *result_r);

#endif
