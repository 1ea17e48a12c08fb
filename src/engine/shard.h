/*
 * shard.h - the inside of the table, shared by table.c (what is asked of one name), sweep.c (what
 * walks over all names), inspect.c, contention.c and state_*.c. Nobody else includes it, but for
 * the benchmark.
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
#include "engine/contention.h"
#include "engine/index.h"
#include "engine/sketch.h"
#include "engine/table.h"

/*
 * The units of one counter that one holder has, or is waiting for. The first one lies inside the
 * counter, the others are a struct outside_holding each.
 */
struct holding {
    uint32_t holder; /* its id; 0: the place is free (only inside a counter) */
    uint32_t units;
    uint32_t limit;     /* of its last acquire that was granted or began to wait */
    uint32_t since_low; /* when its units came up from 0: see holding_since_ns */
    uint16_t since_high;
    uint16_t waits : 15;  /* of this holder for this counter; also verdicts not settled yet */
    uint16_t outside : 1; /* never changes while it is in use */
    ref_t next, prev;     /* the holder's list, newest first; the holder's thread only */
};

/* In the shard's index of holdings. */
struct outside_holding {
    struct holding held; /* first */
    ref_t counter;       /* never changes */
};

enum counter_flags {
    COUNTER_KEEP = 1, /* stays at 0 until its interval has ended */
    COUNTER_GONE = 2, /* not in the index any more */
};

/*
 * The waiters of one counter. Made when the first wait begins; stays until the last of its waits is
 * over and its verdict settled, so whoever has waits for a counter finds its queue.
 */
struct queue {
    struct waitq any, me;
    uint32_t waiting;   /* in line */
    uint32_t waits;     /* the sum over its holdings */
    uint32_t empty;     /* how many of its holdings have no units */
    ref_t counter;      /* never changes */
    uint64_t hash;      /* of the name, all bits; never changes */
    int64_t since_ns;   /* up to when its waiting time has gone into the shard's sketch */
    ref_t newer, older; /* the shard's ring of queues with somebody in line */
};

/*
 * A name and its count. The first holder's units lie inside: most counters have one holder, and so
 * cost one piece of memory. Further holdings are found in the shard's index of holdings.
 *
 * Of the number of the interval there are the low 16 bits, and all that looks at it compares modulo
 * 65,536 (counter_is_in; also the shard's idle_interval). No counter gets so old that it looks
 * current again: in every interval the collector passes every name (if it takes longer than that,
 * then at least once in 65,534 of them, 18 hours at the least), drops what has expired and notes
 * the interval in what is held, which changes nothing that is seen: what was not used since has in
 * the new interval the peak that it holds. A clock set by a multiple of 65,536 intervals, give or
 * take one, goes unnoticed: peaks go on and names at 0 stay for that one interval.
 */
struct counter {
    uint32_t hash;
    uint32_t consumption;
    uint32_t peak;         /* of `interval` */
    uint32_t limit;        /* of the last acquire */
    uint32_t further : 30; /* how many holdings lie outside; each takes five granules of 2^32 */
    uint32_t flags : 2;
    uint16_t interval; /* in which it was last used */
    uint16_t name_len; /* never changes */
    struct holding first;
    ref_t queue; /* 0: nobody waits, and no verdict is to be settled */
    unsigned char
        name[]; /* the bytes, or where they are too many a pointer to them; never changes */
};

/* What is contended among the names of one shard (see contention.h), under the shard's lock. */
struct contention {
    struct sketch waiting; /* waited time; see contention.c for the scale of its weights */
    struct sketch refused;
    struct sketch peaks;
    int64_t landmark_ns; /* when the scale was 1 */
    int64_t scaled_ns;   /* when it was `scale`, last asked */
    double scale;
};

/*
 * A peak that is on the list of peaks, or was: then it has given way to higher ones, and what is
 * not above it is not above the floor either. So of a name whose hash and peak are here there is
 * nothing to be told to the list. (That two names agree in 64 secret bits is left out of account.)
 */
struct peak_noted {
    uint64_t hash;
    uint32_t peak;
};
#define PEAKS_NOTED 32

/*
 * What a request changes comes first, in one cache line, and what it only looks at to find a name
 * in the next: a line that another thread has changed has to come from that one's cache. (Numbers
 * of 32 bits: more names or holdings than that do not fit into the arena.)
 */
struct shard {
    struct lock lock;
    uint32_t peak_interval; /* which `peaks` is about */
    uint32_t peak_floor;    /* only what is higher may go into `peaks` */
    uint64_t units, names_made;
    uint32_t holding_count;
    uint32_t idle;        /* names kept at 0, also those that have expired */
    uint32_t idle_now;    /* of them, those last used in idle_interval */
    uint32_t idle_before; /* of them, those last used in the interval before that */
    uint16_t idle_interval;

    struct index names __attribute__((aligned(64))); /* of counters */

    struct slab slab;
    struct index holdings; /* of holdings that lie outside their counter */
    struct contention *contention;
    uint64_t seq; /* ages of waiters */
    uint64_t waiting;
    ref_t newest, oldest; /* the ring of queues with somebody in line, by since_ns; 0: none */
    uint32_t number;
    struct peak_noted noted[PEAKS_NOTED]; /* of peak_interval; by some bits of the hash */
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct shard, names) == 64, "what changes takes one line");

struct restoring; /* what state_restore.c has to remember meanwhile */

struct table {
    struct arena arena;
    struct hash_key hash_key;
    uint32_t stats_interval_s;
    struct contention *contention; /* of each shard */
    struct restoring *restoring;   /* NULL, but while it is being restored */
    struct shard shards[TABLE_SHARDS];
};

static inline struct table *table_of(const struct shard *s)
{
    return container_of(s->slab.arena, struct table, arena);
}

/* Names up to here lie in their counter, longer ones outside. */
#define NAME_INSIDE_MAX (SLAB_MAX - offsetof(struct counter, name))

static inline bool counter_name_is_outside(const struct counter *c)
{
    return c->name_len > NAME_INSIDE_MAX;
}

/* A name that lies outside its counter. */
struct long_name {
    uint64_t hash; /* all bits */
    unsigned char bytes[];
};

/* The name's bytes. Whoever keeps the counter in memory may look without the lock. */
struct bytes counter_name(const struct counter *c);
/* All bits of its hash; at the price of hashing up to NAME_INSIDE_MAX bytes. */
uint64_t counter_hash(const struct shard *s, const struct counter *c);

/* The shard of a name's hash; of a counter, a holding or a waiter. */
static inline struct shard *shard_of_hash(struct table *t, uint64_t hash)
{
    return &t->shards[hash >> 58];
}

static inline struct shard *shard_of(struct table *t, const void *slot)
{
    return &t->shards[slab_owner_of(&t->arena, slot)];
}

uint64_t hash_name(const struct table *t, struct bytes name);

/* The counter of that name, which exists in `interval`; NULL when there is none. */
struct counter *shard_find(struct shard *s, uint64_t hash, struct bytes name, uint32_t interval);

/* A new counter of that name, which has none; without holder, and not kept. NULL: no memory. */
struct counter *counter_make(struct shard *s, uint64_t hash, struct bytes name, uint32_t interval);

/* The counter of a holding. Its owner may ask without the lock. */
static inline ref_t counter_ref_of(const struct arena *arena, const struct holding *h)
{
    if (h->outside)
        return ((const struct outside_holding *)h)->counter;
    return arena_ref(arena, h) - (ref_t)(offsetof(struct counter, first) / ARENA_GRANULE);
}

/* The holding of `c` that the holder of that id has; NULL when it has none. */
struct holding *holding_find(struct shard *s, struct counter *c, uint32_t holder);

/* A new one, that is in no holder's list yet. NULL: no memory. */
struct holding *holding_place(struct shard *s, struct counter *c, uint32_t holder);

/* Where somebody has waits for it: its queue. */
static inline struct queue *queue_of(const struct shard *s, const struct counter *c)
{
    CHECK(c->queue);
    return arena_at(s->slab.arena, c->queue);
}

static inline struct waitq *line_of(struct queue *q, enum wait_kind kind)
{
    return kind == WAIT_ANY ? &q->any : &q->me;
}

/*
 * The priority of a lane that is made for a waiter of that age. Ages are as good as random once
 * they are mixed with what no client knows.
 */
static inline uint32_t lane_priority(const struct table *t, const struct shard *s, uint64_t seq)
{
    return hash_pair((uint32_t)seq, s->number ^ (uint32_t)t->hash_key.k0);
}

static inline uint32_t counter_waiting(const struct shard *s, const struct counter *c)
{
    return c->queue ? queue_of(s, c)->waiting : 0;
}

/* How many have units of it. */
uint32_t counter_holders(const struct shard *s, const struct counter *c);

/* Fills in all of *entry_r, as it is in `interval`. */
void counter_show(const struct shard *s, const struct counter *c, uint32_t interval,
                  struct table_entry *entry_r);

/*
 * Holdings note when their units came up from 0 in 48 bits, in steps of 1,024 ns of the monotonic
 * clock: right for those of up to four years.
 */
#define SINCE_STEP_BITS 10

static inline void holding_begins(struct holding *h, struct moment now)
{
    uint64_t step = (uint64_t)now.mono_ns >> SINCE_STEP_BITS;
    h->since_low = (uint32_t)step;
    h->since_high = (uint16_t)(step >> 32);
}

/* How long it has lasted, in nanoseconds; below 0 where a thread ahead of this one began it. */
static inline int64_t holding_age_ns(const struct holding *h, struct moment now)
{
    uint64_t since = (uint64_t)h->since_high << 32 | h->since_low;
    uint64_t steps = ((uint64_t)now.mono_ns >> SINCE_STEP_BITS) - since;
    return (int64_t)(steps << 16) / (1 << (16 - SINCE_STEP_BITS));
}

/* Fills in *hold_r from a holding that has units. */
void holding_show(const struct holding *h, struct moment now, struct table_hold *hold_r);

/*
 * Whether `interval`, in which somebody looks, is the counter's. Threads note the time once a
 * wake-up, so one may still be in the interval before that of another that was here first: it
 * counts as the same. A clock set back further begins another interval.
 */
static inline bool counter_is_in(const struct counter *c, uint32_t interval)
{
    return (uint16_t)(c->interval - interval) <= 1;
}

/* Whether it is at 0 and its interval has ended: it exists no more. (At 0 nobody waits.) */
static inline bool counter_expired(const struct counter *c, uint32_t interval)
{
    return c->consumption == 0 && !counter_is_in(c, interval);
}

/* Begins another interval for a counter: its peak starts from what is held then. */
void counter_enter(struct shard *s, struct counter *c, uint32_t interval);

/* Notes a use. */
static inline void counter_touch(struct shard *s, struct counter *c, uint32_t interval)
{
    if (unlikely(!counter_is_in(c, interval)))
        counter_enter(s, c, interval);
}

/* Takes a counter without units and waiters out of the index, and frees it if none holds it. */
void counter_drop(struct shard *s, struct counter *c);

/* ---- contention.c: under the shard's lock -------------------------------------------------- */

/* `more` waiters (or, below 0, fewer) are in line from now on. */
void contention_line_changes(struct shard *s, struct queue *q, int more, struct moment now);

/* A line that is in no ring yet is the newest: restored, it was accounted for up to `since_ns`. */
void contention_line_restored(struct shard *s, struct queue *q, int64_t since_ns);

/* A request for `c`, whose name has that hash, was refused. */
void contention_refused(struct shard *s, const struct counter *c, uint64_t hash, struct moment now);

/* Somebody is in this interval: if it is a new one for the shard, its peaks begin. */
static inline bool contention_is_in(const struct shard *s, uint32_t interval)
{
    return s->peak_interval - interval <= 1; /* as counter_is_in */
}
void contention_enter(struct shard *s, uint32_t interval);

static inline struct peak_noted *contention_noted(struct shard *s, uint64_t hash)
{
    return &s->noted[hash >> 32 & (PEAKS_NOTED - 1)];
}

/* contention_peak where it is not known to change nothing. */
void contention_note_peak(struct shard *s, const struct counter *c, uint64_t hash);

/* The peak of `c` has been raised, or its interval has begun. */
static inline void contention_peak(struct shard *s, const struct counter *c, uint64_t hash)
{
    const struct peak_noted *noted = contention_noted(s, hash);
    if (c->peak > s->peak_floor && (noted->hash != hash || noted->peak < c->peak))
        contention_note_peak(s, c, hash);
}

/* Checks what is known of waiting; for table_check. */
void contention_check(struct shard *s);

/* ---- state_restore.c ----------------------------------------------------------------------- */

/* Forgets what a table remembers that is being restored. */
void restoring_free(struct table *t);

#endif
