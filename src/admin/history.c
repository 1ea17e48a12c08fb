/*
 * history.c - see history.h. Seconds are numbered from that of the first totals, 0; both rings have
 * a second at its number's remainder, and say which one they have there.
 */
#include "admin/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct point {
    int64_t number; /* -1: none */
    double values[HISTORY_SERIES_COUNT];
};

struct sample {
    int64_t number; /* -1: none */
    struct totals totals;
};

struct history {
    unsigned workers;
    int64_t first_ns;
    int64_t last;                     /* number of the newest second; -1: none */
    uint64_t missed_ns[TOTALS_TIMES]; /* longest times of totals that were ignored */
    struct point points[HISTORY_SECONDS];
    struct sample samples[HISTORY_RECENT + 1];
};

const char *history_word(enum history_series series)
{
    static const char *const words[] = {
#define ROW(name, word) [HISTORY_##name] = (word),
        HISTORY_SERIES(ROW)
#undef ROW
    };
    CHECK(series < HISTORY_SERIES_COUNT);
    return words[series];
}

struct history *history_new(unsigned workers)
{
    struct history *h = calloc(1, sizeof(*h));
    if (!h)
        return NULL;
    h->workers = workers;
    h->last = -1;
    for (size_t i = 0; i < ARRAY_SIZE(h->points); i++)
        h->points[i].number = -1;
    for (size_t i = 0; i < ARRAY_SIZE(h->samples); i++)
        h->samples[i].number = -1;
    return h;
}

void history_free(struct history **history)
{
    free(*history);
    *history = NULL;
}

static const struct sample *sample_at(const struct history *h, int64_t number)
{
    return &h->samples[number % (HISTORY_RECENT + 1)];
}

/* How much a count has grown; counts that are read apart may seem to shrink. */
static double growth(uint64_t now, uint64_t before)
{
    return now > before ? (double)(now - before) : 0;
}

/* Makes the longest times `to` at least as long as those of `from`. */
static void raise_longest(struct histogram_sum *to, const struct histogram_sum *from)
{
    for (unsigned i = 0; i < TOTALS_TIMES; i++) {
        if (to[i].longest_ns < from[i].longest_ns)
            to[i].longest_ns = from[i].longest_ns;
    }
}

/* Fills the point of one second, from the totals at its start (`before`; NULL: not known) and at
 * its end (`now`). */
static void fill_point(struct point *point, const struct totals *now, const struct totals *before,
                       unsigned workers)
{
    double *v = point->values;
    for (size_t i = 0; i < HISTORY_SERIES_COUNT; i++)
        v[i] = NAN;
    v[HISTORY_WAITING] = (double)now->waiting;
    v[HISTORY_UNITS] = (double)now->units;
    v[HISTORY_NAMES] = (double)now->names;
    v[HISTORY_CONNECTIONS] = (double)now->connections;
    if (!before)
        return;
    double s = clock_seconds(now->mono_ns - before->mono_ns);
    v[HISTORY_REQUESTS] = growth(now->requests, before->requests) / s;
    v[HISTORY_GRANTED] = growth(now->granted, before->granted) / s;
    v[HISTORY_REFUSED] = growth(now->refused, before->refused) / s;
    v[HISTORY_TIMED_OUT] = growth(now->timed_out, before->timed_out) / s;
    struct histogram_sum waits = now->times[TOTALS_WAITS];
    histogram_sum_since(&waits, &before->times[TOTALS_WAITS]);
    if (histogram_sum_count(&waits) > 0) {
        v[HISTORY_WAIT_P50] = clock_seconds(histogram_quantile_ns(&waits, 500));
        v[HISTORY_WAIT_P99] = clock_seconds(histogram_quantile_ns(&waits, 990));
        v[HISTORY_WAIT_MAX] = clock_seconds(histogram_longest_ns(&waits));
    }
    double busy = growth(now->busy_ns, before->busy_ns) / (double)NS_PER_S / s / workers;
    v[HISTORY_BUSY] = busy < 1 ? busy : 1;
}

void history_add(struct history *h, struct totals *totals)
{
    if (h->last < 0)
        h->first_ns = totals->mono_ns;
    int64_t number = (totals->mono_ns - h->first_ns + NS_PER_S / 2) / NS_PER_S;
    bool is_known = number <= h->last;
    for (unsigned i = 0; i < TOTALS_TIMES; i++) {
        uint64_t *longest_ns = &totals->times[i].longest_ns;
        if (*longest_ns < h->missed_ns[i])
            *longest_ns = h->missed_ns[i];
        h->missed_ns[i] = is_known ? *longest_ns : 0;
    }
    if (is_known)
        return;
    const struct sample *before = h->last >= 0 ? sample_at(h, h->last) : NULL;
    struct point *point = &h->points[number % HISTORY_SECONDS];
    fill_point(point, totals, before ? &before->totals : NULL, h->workers);
    point->number = number;
    struct sample *sample = &h->samples[number % (HISTORY_RECENT + 1)];
    sample->totals = *totals;
    sample->number = number;
    h->last = number;
}

int64_t history_end_ns(const struct history *h)
{
    return h->last < 0 ? -1 : sample_at(h, h->last)->totals.mono_ns;
}

void history_get(const struct history *h, enum history_series series, unsigned seconds, double *to)
{
    CHECK(seconds <= HISTORY_SECONDS && series < HISTORY_SERIES_COUNT);
    for (unsigned i = 0; i < seconds; i++) {
        int64_t number = h->last - (int64_t)seconds + 1 + i;
        const struct point *point = number >= 0 ? &h->points[number % HISTORY_SECONDS] : NULL;
        to[i] = point && point->number == number ? point->values[series] : NAN;
    }
}

void history_get_recent(const struct history *h, struct history_recent *recent_r)
{
    *recent_r = (struct history_recent){0};
    if (h->last < 0)
        return;
    const struct totals *end = &sample_at(h, h->last)->totals, *begin = end;
    int64_t from = h->last > HISTORY_RECENT ? h->last - HISTORY_RECENT : 0;
    for (int64_t number = from; number < h->last && begin == end; number++) {
        if (sample_at(h, number)->number == number)
            begin = &sample_at(h, number)->totals;
    }
    if (begin == end)
        return;
    struct history_recent *r = recent_r;
    r->seconds = clock_seconds(end->mono_ns - begin->mono_ns);
    r->requests = growth(end->requests, begin->requests) / r->seconds;
    r->granted = growth(end->granted, begin->granted) / r->seconds;
    r->refused = growth(end->refused, begin->refused) / r->seconds;
    r->timed_out = growth(end->timed_out, begin->timed_out) / r->seconds;
    memcpy(r->times, end->times, sizeof(r->times));
    for (unsigned i = 0; i < TOTALS_TIMES; i++)
        histogram_sum_since(&r->times[i], &begin->times[i]);
    for (int64_t number = from; number < h->last; number++) {
        const struct sample *sample = sample_at(h, number);
        if (sample->number == number && &sample->totals != begin)
            raise_longest(r->times, sample->totals.times);
    }
}
