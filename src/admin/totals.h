/*
 * totals.h - what all services together have counted, at one moment.
 */
#ifndef ADMIN_TOTALS_H
#define ADMIN_TOTALS_H

#include "service/service.h"

enum totals_times { TOTALS_WAITS, TOTALS_HOLDS, TOTALS_ANSWERS, TOTALS_TIMES };

struct totals {
    int64_t mono_ns; /* the moment */

    /* Since the start: */
    uint64_t requests;
    uint64_t granted;   /* locks, and acquisitions of units */
    uint64_t refused;   /* at once (service_refused) */
    uint64_t timed_out; /* waits */
    uint64_t busy_ns;   /* of all workers */
    /* Their longest times are those since the totals before. */
    struct histogram_sum times[TOTALS_TIMES];

    /* Now: */
    uint64_t waiting, units, names, connections;
};

/* Adds up. One thread, so that none takes the longest times from another; takes the locks of the
 * table's shards, one at a time. */
void totals_take(struct totals *totals_r, const struct services *services, struct moment now);

#endif
