/*
 * shard.h - the inside of the table, shared by table.c (what is asked of one name) and sweep.c
 * (what walks over all names). Nobody else includes it.
 *
 * Locking: a shard's lock covers its indexes, its slab, its counters, the queues, waiters' states
 * and places, and of a holding all but `next` and `prev`. These two make the holder's list and
 * belong to the holder's thread: that is why a holding is made when a wait begins and goes only
 * when its owner reaps it, never when another thread grants or ends that wait; nor while a verdict
 * that its owner has not settled yet points to it.
 *
 * A counter is visible (found by its name) while it has units or waiters, or is kept at 0. Its
 * memory may stay a little longer: while a holding of it, empty after a DONE, has not been reaped
 * by its owner (COUNTER_GONE).
 */
#ifndef ENGINE_SHARD_H
#define ENGINE_SHARD_H

#include "base/lock.h"
#include "engine/index.h"
#include "engine/table.h"

/* The units of one counter that one holder has, or is waiting for. */
struct holding {
    ref_t counter;   /* never changes */
    uint32_t holder; /* its id; 0: the place is free (only inside a counter) */
    uint32_t units;
    uint32_t waits;   /* of this holder for this counter; also verdicts not settled yet */
    ref_t next, prev; /* the holder's list, newest first; the holder's thread only */
};

enum counter_flags {
    COUNTER_KEEP = 1, /* stays at 0 until its interval has ended */
    COUNTER_GONE = 2, /* not in the index any more */
};

/* The waiters of one counter; made when the first wait begins. */
struct queue {
    struct waitq any, me;
    uint32_t waiting;
};

/*
 * A name and its count. The first holder's units lie inside: most counters have one holder, and so
 * cost one piece of memory. Further holdings are found in the shard's index of holdings.
 */
struct counter {
    uint32_t hash;
    uint32_t consumption;
    uint32_t peak;     /* of `interval` */
    uint32_t interval; /* in which it was last used */
    uint32_t further;  /* how many holdings lie outside */
    uint16_t name_len; /* never changes */
    uint16_t flags;
    struct holding first;
    ref_t queue; /* 0: nobody waits */
    unsigned char
        name[]; /* the bytes, or where they are too many a pointer to them; never changes */
};

struct shard {
    struct lock lock;
    uint32_t number;
    struct slab slab;
    struct index names;    /* of counters */
    struct index holdings; /* of holdings that lie outside their counter */
    uint64_t seq;          /* ages of waiters */
    uint64_t idle;         /* names kept at 0, also those that have expired */
    uint64_t idle_now;     /* of them, those last used in idle_interval */
    uint64_t idle_before;  /* of them, those last used in the interval before that */
    uint32_t idle_interval;
    uint64_t names_made, waiting, holding_count, units;
} __attribute__((aligned(64)));

struct table {
    struct arena arena;
    struct hash_key hash_key;
    uint32_t stats_interval_s;
    struct shard shards[TABLE_SHARDS];
};

/* Names up to here lie in their counter, longer ones outside. */
#define NAME_INSIDE_MAX (SLAB_MAX - offsetof(struct counter, name))

static inline bool counter_name_is_outside(const struct counter *c)
{
    return c->name_len > NAME_INSIDE_MAX;
}

/* The name's bytes. Whoever keeps the counter in memory may look without the lock. */
struct table_name counter_name(const struct counter *c);

/*
 * Whether `interval`, in which somebody looks, is the counter's. Threads note the time once a
 * wake-up, so one may still be in the interval before that of another that was here first: it
 * counts as the same. A clock set back further begins another interval.
 */
static inline bool counter_is_in(const struct counter *c, uint32_t interval)
{
    return c->interval - interval <= 1;
}

/* Whether it is at 0 and its interval has ended: it exists no more. */
bool counter_expired(const struct counter *c, uint32_t interval);

/* Takes a counter without units and waiters out of the index, and frees it if none holds it. */
void counter_drop(struct shard *s, struct counter *c);

#endif
