/*
 * check.h - whether some order of its operations explains a history.
 *
 * The rule is the protocol page's, one name at a time, since names have nothing to do with each
 * other: what fits (units held + asked <= its own limit) is granted at once, else it is refused or
 * waits; an explicit release says DONE to all ACQ4ANY waiters and then grants to ACQ4ME waiters
 * that fit, oldest first; a close says DONE to nobody, grants to ACQ4ME waiters that fit and then
 * to ACQ4ANY waiters that fit, each oldest first. Every request takes effect at one moment between
 * its call and its answer. Where a client waits there are two such moments: when it gets into line
 * and when it leaves it. That it is granted or done is a consequence of somebody else's release or
 * close, and happens with that; that it times out or is cancelled is a moment of its own, not
 * before `left`. A close takes effect at any time from its call on, until its end is seen, if it
 * is; and where its connection waits and holds, it leaves the line first and gives back later.
 *
 * The order in which waiters are served is part of the rule. Where a history can't be explained, it
 * is looked at once more with waiters served in any order: so it is said whether numbers are wrong
 * or only the order.
 */
#ifndef HISTORY_CHECK_H
#define HISTORY_CHECK_H

#include "t/campaigns/history/history.h"

enum check_verdict {
    CHECK_GOOD,
    CHECK_BAD_TIME,  /* an operation can't have taken effect when it says: a timeout was early */
    CHECK_BAD_ORDER, /* explained only if waiters are not served oldest first */
    CHECK_BAD,       /* no order explains it */
    CHECK_TOO_HARD,  /* too much goes on at once for this checker */
};

const char *check_verdict_word(enum check_verdict verdict);

struct check_result {
    enum check_verdict verdict;
    uint64_t states;   /* looked at */
    size_t most;       /* states possible at one moment, at most */
    char report[4096]; /* what was found, in lines */
};

/* Checks all names; stops at the first that is not good. */
void check_history(const struct history *history, struct check_result *result_r);

#endif
