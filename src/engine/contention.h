/*
 * contention.h - what is contended: the names that are waited for most, refused most, and held most
 * of, known at all times at a bounded cost whatever the number of names.
 *
 * Each shard keeps three lists of CONTENDED_KEPT names (sketch.h):
 *
 * - Waiting: the time that its waiters have waited, each second of each waiter counting half after
 *   CONTENDED_HALF_LIFE_S. It is accounted when a line changes; for lines that do not, one of the
 *   others is brought up to date at each change, and the oldest CONTENDED_ACCOUNTED of a shard
 *   whenever somebody reads. What is still to be accounted of a name on a list is added by the
 *   reader, so a name shows while its first waiters still wait.
 * - Refused: the BUSY and FULL answers of table_acquire, with the same decay.
 * - Peaks: exact, of this interval: the names with the highest peaks among those that were used in
 *   it, or were held and passed by the collector, with the highest peak that each has had in it,
 *   though it may have gone and come again.
 *
 * The first two are Space-Saving sketches (Metwally, Agrawal, El Abbadi: "Efficient computation of
 * frequent and top-k elements in data streams"). With the k = CONTENDED_KEPT entries of a shard's
 * sketch, and as total the weight of all that has happened in the shard:
 *
 * - a name that is not on the list has at most the least weight on it, which is at most total / k
 *   (nothing, while the list is not full);
 * - a name that is on it is never under-estimated, and over-estimated by at most its recorded
 *   error, which is at most total / k.
 *
 * So whatever has more than one k-th of its shard is always there. Decay changes nothing of this:
 * it scales all weights alike.
 *
 * Memory: 13.9 KiB a shard, 0.87 MiB in all, beside the table's limit; most of it is taken as
 * shards have anything contended.
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

#define CONTENDED_NAME_MAX    255 /* of longer names, the first so many bytes are known */
#define CONTENDED_HALF_LIFE_S 60
#define CONTENDED_KEPT        16 /* names on each list of each shard */
#define CONTENDED_ACCOUNTED   64
#define CONTENDED_LEAST       1e-6 /* a load or a rate below that counts as none, and is not listed */

/* A contended name. */
struct contended {
    uint8_t name[CONTENDED_NAME_MAX];
    uint32_t name_len;  /* the whole length */
    uint32_t name_kept; /* how many bytes of it are in `name` */
    bool exists;        /* as the next four are, now; when it does not, these are 0 */
    uint32_t consumption, limit, waiting, holders;
    uint32_t peak;             /* the highest of this interval that is known; 0: none is */
    double waiting_load;       /* mean number of waiters lately: seconds waited a second */
    double refused_per_second; /* mean number of refusals lately */
    double waiting_error, refused_error; /* what these may be too high by; they are not too low */
};

/*
 * The top `room` names by `by`, the highest first, copied to `to`; returns how many. What a name
 * has of the other two is what the list of its shard says, or, where it is not on that, the most
 * that it can have (all of it error). Any thread. Locks one shard at a time, for some tens of
 * microseconds at most.
 */
size_t table_contended(struct table *t, enum contended_by by, struct moment now,
                       struct contended *to, size_t room);

/*
 * The error bound in force: what a name that is on no list has at most, in the unit of `by`
 * (waiters, refusals a second, units). The highest of the shards' bounds; 0: all names that have
 * any are listed. It includes what may have been waited in lines that are still to be accounted:
 * none just after table_contended at the same `now`, unless more than CONTENDED_ACCOUNTED names of
 * one shard are waited for. Any thread; locks one shard at a time.
 */
double table_contended_bound(struct table *t, enum contended_by by, struct moment now);

#endif
