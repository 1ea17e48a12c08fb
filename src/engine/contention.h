/*
 * contention.h - finds contended names: those with the longest waits, the most refusals and the
 * highest peaks. Always up to date, at a bounded cost for any number of names.
 *
 * Each shard keeps three lists of CONTENDED_KEPT names (sketch.h):
 *
 * - Waiting: the time that clients waited for the name. A second of waiting by one client counts
 * half after CONTENDED_HALF_LIFE_S. The time is added when a name's queue changes. For queues that
 * do not change, each change elsewhere in the shard also updates one of them, and each reader
 * updates the CONTENDED_ACCOUNTED of a shard with the oldest update. A reader also adds the time
 * not yet counted for names on a list, so a name shows while its first waiters still wait.
 * - Refused: BUSY and FULL answers of table_acquire, with the same decay.
 * - Peaks, exact: the names with the highest peaks of the current interval, among those that were
 *   used in it, or were held and visited by the collector. A name keeps its peak for the interval
 *   even if it was removed and created again.
 *
 * The first two are Space-Saving sketches (Metwally, Agrawal, El Abbadi: "Efficient computation of
 * frequent and top-k elements in data streams"). With k = CONTENDED_KEPT entries in a shard's
 * sketch, and `total` the weight of all events in the shard:
 *
 * - a name that is not listed has at most the least weight listed, which is at most total / k (0
 * while the list is not full);
 * - the weight of a listed name is never too low, and too high by at most its recorded error, which
 * is at most total / k.
 *
 * So a name with more than 1/k of its shard's weight is always listed. Decay does not change this:
 * it scales all weights alike.
 *
 * Memory: 13.9 KiB per shard, 0.87 MiB in all, not counted in the table's limit. Most of it is
 * allocated when a shard first has contention.
 */
#ifndef ENGINE_CONTENTION_H
#define ENGINE_CONTENTION_H

#include "engine/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum contended_by {
    CONTENDED_WAITING,
    CONTENDED_REFUSED,
    CONTENDED_PEAK,
    CONTENDED_BY_COUNT,
};

#define CONTENDED_NAME_MAX    255 /* of longer names, only this many bytes are kept */
#define CONTENDED_HALF_LIFE_S 60
#define CONTENDED_KEPT        16 /* names on each list of each shard */
#define CONTENDED_ACCOUNTED   64
#define CONTENDED_LEAST       1e-6 /* a lower load or rate counts as 0 and is not listed */

/* A contended name. */
struct contended {
    uint8_t name[CONTENDED_NAME_MAX];
    uint32_t name_len;  /* full length of the name */
    uint32_t name_kept; /* bytes of it in `name` */
    bool exists;        /* true: the next four fields have current values; false: they are 0 */
    uint32_t consumption, limit, waiting, holders;
    uint32_t peak;             /* highest known in this interval; 0: unknown */
    double waiting_load;       /* recent average number of waiters: seconds waited per second */
    double refused_per_second; /* recent average rate of refusals */
    double waiting_error, refused_error; /* these two may be too high by this much; never too low */
};

/*
 * Copies the top `room` names by `by`, highest first, to `to`. Returns their number. The other two
 * measures of a name come from its shard's lists; for a name not on such a list, the value is the
 * most that it can have, and all of it is error. Any thread. Locks one shard at a time, for some
 * tens of microseconds at most.
 */
size_t table_contended(struct table *t, enum contended_by by, struct moment now,
                       struct contended *to, size_t room);

/*
 * Upper bound for names that are not listed, in the unit of `by` (waiters, refusals per second,
 * units): the highest bound of all shards. 0: all names with a value are listed. The bound includes
 * waiting time not yet counted. There is none just after table_contended with the same `now`,
 * unless one shard has more than CONTENDED_ACCOUNTED names with waiters. Any thread. Locks one
 * shard at a time.
 */
double table_contended_bound(struct table *t, enum contended_by by, struct moment now);

#endif
