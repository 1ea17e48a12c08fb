/*
 * history.h - the last ten minutes, second by second, and the last minute in sum.
 *
 * Once a second the owner adds the totals. It keeps the changes of each second, and the totals of
 * the last minute; the difference of their histograms is what that minute has added, and its
 * longest time is that of its seconds. One thread.
 */
#ifndef ADMIN_HISTORY_H
#define ADMIN_HISTORY_H

#include "admin/totals.h"

#define HISTORY_SECONDS 600
#define HISTORY_RECENT  60 /* seconds */

/* What is known of each second: name, its word. */
#define HISTORY_SERIES(ROW)                                                                        \
    ROW(REQUESTS, "requests") /* so many in this second */                                         \
    ROW(GRANTED, "granted")                                                                        \
    ROW(REFUSED, "refused")                                                                        \
    ROW(TIMED_OUT, "timed_out")                                                                    \
    ROW(WAITING, "waiting") /* at its end */                                                       \
    ROW(UNITS, "units")                                                                            \
    ROW(NAMES, "names")                                                                            \
    ROW(CONNECTIONS, "connections")                                                                \
    ROW(WAIT_P50, "wait_p50_seconds") /* of waits that ended in it; nothing: none did */           \
    ROW(WAIT_P99, "wait_p99_seconds")                                                              \
    ROW(WAIT_MAX, "wait_max_seconds")                                                              \
    ROW(BUSY, "busy") /* share of all workers' time, 0 to 1 */

enum history_series {
#define ROW(name, word) HISTORY_##name,
    HISTORY_SERIES(ROW)
#undef ROW
        HISTORY_SERIES_COUNT
};

const char *history_word(enum history_series series);

struct history;

/* For so many workers. NULL: no memory. */
struct history *history_new(unsigned workers) MUST_USE;
void history_free(struct history **history);

/*
 * Adds the totals, about once a second: those of a second that is known already are ignored, and of
 * seconds that were missed nothing is known. Raises their longest times to those of ignored ones.
 */
void history_add(struct history *history, struct totals *totals);

/* When the last totals were taken (monotonic ns); -1: never. */
int64_t history_end_ns(const struct history *history);

/* A series over the last `seconds` (HISTORY_SECONDS at most), oldest first; NAN: nothing known. */
void history_get(const struct history *history, enum history_series series, unsigned seconds,
                 double *to);

/* What the time up to the last totals has added: HISTORY_RECENT seconds, or less after the start.
 */
struct history_recent {
    double seconds; /* how long that was; 0: nothing is known, and the rest is 0 */
    double requests, granted, refused, timed_out; /* per second */
    struct histogram_sum times[TOTALS_TIMES];
};

void history_get_recent(const struct history *history, struct history_recent *recent_r);

#endif
