/*
 * check.h - searches for an order of operations that explains a history.
 *
 * The rule is that of the protocol page. Each name is checked alone, because names are independent.
 * A request fits if units held + units asked <= its own limit. One that fits is granted at once;
 * others are refused or wait. An explicit release answers DONE to all ACQ4ANY waiters and then
 * grants to ACQ4ME waiters that fit, oldest first. A close answers DONE to nobody; it grants to
 * ACQ4ME waiters that fit and then to ACQ4ANY waiters that fit, each oldest first.
 *
 * Every request takes effect at one moment between its call and its answer. A wait has two such
 * moments: it enters the queue, and it leaves the queue. A grant or a DONE happens together with
 * the release or close of another client. A timeout or a cancel is a moment of its own, not before
 * `left`. A close takes effect at any time after its call, and before its end was seen, if that is
 * known. If its connection both waits and holds, it leaves the queue first and gives back later.
 */
#ifndef HISTORY_CHECK_H
#define HISTORY_CHECK_H

#include "t/campaigns/history/history.h"

enum check_verdict {
    CHECK_GOOD,
    CHECK_BAD_TIME, /* impossible times: a timeout was early */
    CHECK_BAD,      /* no order explains it */
    CHECK_TOO_HARD, /* too many operations at once for this checker */
};

const char *check_verdict_word(enum check_verdict verdict);

struct check_result {
    enum check_verdict verdict;
    uint64_t states;   /* number of states examined */
    size_t most;       /* most states possible at one moment */
    char report[4096]; /* lines of text */
};

/* Checks all names. Stops at the first that is not good. */
void check_history(const struct history *history, struct check_result *result_r);

#endif
