/*
 * shard.h - the inside of the table. Shared by shard.c, acquire.c (requests for one name), sweep.c
 * (walks over all names), inspect.c, contention.c and state_*.c. Only these and the benchmark
 * include it.
 *
 * Locking: a shard's lock protects its indexes, slab, counters and queues, the states and places of
 * waiters, and all fields of a holding except `next` and `prev`. These two link the holder's list
 * and belong to the holder's thread. So only the owner's thread makes and frees a holding. When a
 * wait begins, the owner makes the holding at once; another thread that grants or ends the wait
 * never frees it. A holding also stays while a waiter with an unacknowledged result points to it.
 *
 * A counter is visible (found by name) while it has units, waiters or reservations, or is kept at
 * 0. Its memory may stay a little longer: after a DONE, until the owner of an empty holding has
 * reaped it (COUNTER_GONE). One that has reservations is kept (COUNTER_KEPT), and does not expire.
 */
#ifndef ENGINE_SHARD_H
#define ENGINE_SHARD_H

#include "base/lock.h"
#include "engine/index.h"
#include "engine/sketch.h"
#include "engine/table.h"

/*
 * The units of one counter that one holder has or waits for. The first holding is inside the
 * counter; each further one is a struct outside_holding.
 */
struct holding {
    uint32_t holder; /* its id; 0: unused (only inside a counter) */
    uint32_t units;
    uint32_t limit;     /* of its last acquire that was granted or began to wait; 0: none */
    uint32_t since_low; /* when its units rose from 0: see holding_begins */
    uint16_t since_high;
    uint16_t waits : 15;  /* waits of this holder for this counter, unacknowledged results, and
                             reservations */
    uint16_t outside : 1; /* constant while in use */
    ref_t next, prev;     /* the holder's list, newest first; the holder's thread only */
};

/* A holding in the shard's index of holdings. */
struct outside_holding {
    struct holding held; /* first member */
    ref_t counter;       /* constant */
};

enum counter_life {
    COUNTER_PLAIN,  /* goes when it is at 0 */
    COUNTER_GONE,   /* no longer in the index */
    COUNTER_KEPT,   /* stays at 0 until its interval has ended */
    COUNTER_PASSED, /* the same; it is at 0, and the collector has passed it since its last use */
};

/*
 * The waiters of one counter. Made when the first wait or reservation begins. Freed when all are
 * over and the results acknowledged, so a holder with waits for a counter always finds its queue.
 */
struct queue {
    struct waitq any, me;
    uint32_t waiting;   /* waiters still in line */
    uint32_t waits;     /* sum of `waits` over its holdings */
    uint32_t reserved;  /* of these: reservations, which have no waiter */
    uint32_t empty;     /* its holdings without units */
    ref_t counter;      /* constant */
    uint64_t hash;      /* all bits of the name's hash; constant */
    int64_t since_ns;   /* waiting time before this is in the shard's sketch */
    ref_t newer, older; /* the shard's ring of queues that have waiters in line */
};

/*
 * A name and its count. The first holder's units are inside: most counters have one holder and so
 * need only one piece of memory. Further holdings are in the shard's index of holdings.
 *
 * `interval` has only the low 16 bits of the interval's number; all comparisons are modulo 65,536
 * (counter_is_in; also that of struct idle_names). An old counter never looks current again,
 * because the collector visits every name once per interval, or at least once in 65,534 intervals
 * (18 hours or more). It drops expired names, and updates the interval of held ones. The update is
 * invisible: a name that was not used since has, in the new interval, its consumption as its peak.
 * If the clock is set by a multiple of 65,536 intervals, plus or minus one, this goes unseen: for
 * that one interval, peaks continue and names at 0 stay.
 */
struct counter {
    uint32_t hash;
    uint32_t consumption;
    uint32_t peak;         /* in `interval` */
    uint32_t limit;        /* of the last acquire; 0: none */
    uint32_t further : 30; /* number of outside holdings; each takes five of 2^32 granules */
    uint32_t life : 2;     /* enum counter_life */
    uint16_t interval;     /* of its last use */
    uint16_t name_len;     /* constant */
    struct holding first;
    ref_t queue;          /* 0: no waiters and no unacknowledged results */
    unsigned char name[]; /* the bytes, or a pointer to them if the name is long; constant */
};

/* The contended names of one shard (see contention.h). Protected by the shard's lock. */
struct contention {
    struct sketch
        lists[3];        /* by enum contended_by; see contention.c for the scale of the weights */
    int64_t landmark_ns; /* time when the scale was 1 */
    int64_t scaled_ns;   /* time for which `scale` was computed last */
    double scale;
};

/*
 * A peak that was already put on the list of peaks. It is on that list, or higher peaks have
 * replaced it. In both cases, reporting a peak of the same name that is no higher changes nothing,
 * so the caller skips it. Ignores the possibility that two names have the same 64-bit hash; the
 * hash key is secret.
 */
struct peak_noted {
    uint64_t hash;
    uint32_t peak;
};
#define PEAKS_NOTED 32

/*
 * Counts the kept names at 0, in total and for the two latest intervals. These counts give the
 * number of expired names before the collector has visited them. When the clock is set back by more
 * than one interval, names of the later interval count as expired, even if the clock reaches that
 * interval again.
 */
struct idle_names {
    uint32_t count;  /* including expired ones */
    uint32_t now;    /* of these, last used in `interval` */
    uint32_t before; /* of these, last used in the interval before */
    uint16_t interval;
};

/* Counts a name that is at 0 and was last used in `interval`, which is the current one. */
static inline void idle_begins(struct idle_names *idle, uint16_t interval)
{
    idle->count++;
    uint16_t ahead = (uint16_t)(interval - idle->interval);
    if (ahead == 0) {
        idle->now++;
    } else if (ahead == UINT16_MAX && idle->count > 1) { /* one interval behind */
        idle->before++;
    } else {
        idle->before = ahead == 1 ? idle->now : 0;
        idle->now = 1;
        idle->interval = interval;
    }
}

/*
 * The fields that a request changes come first, in one cache line; the fields that it only reads to
 * find a name are in the next. A line that another thread changed must be fetched from that
 * thread's cache. 32-bit counts suffice: the arena cannot hold more names or holdings.
 */
struct shard {
    struct lock lock;
    uint32_t peak_interval; /* the interval of the list of peaks */
    uint32_t peak_floor;    /* only higher peaks enter the list */
    uint64_t units, names_made;
    uint32_t holding_count;
    struct idle_names idle;
    uint32_t reserved_idle; /* names at 0 that have reservations; they are not in `idle` */

    struct index names __attribute__((aligned(64))); /* of counters */

    struct slab slab;
    struct index holdings; /* of outside holdings */
    struct contention *contention;
    uint64_t seq; /* age of the youngest waiter */
    uint64_t waiting;
    struct index_walk hand; /* where shard_make_room goes on */
    uint64_t dropped_early;
    ref_t newest, oldest; /* the ring of queues with waiters in line, by since_ns; 0: empty */
    uint32_t number;
    struct peak_noted noted[PEAKS_NOTED]; /* for peak_interval; indexed by some bits of the hash */
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct shard, names) == 64, "the fields that change take one cache line");

struct restoring; /* working data of state_restore.c */

struct table {
    struct arena arena;
    struct hash_key hash_key;
    uint32_t stats_interval_s;
    struct contention *contention; /* one for each shard */
    struct restoring *restoring;   /* NULL, except during a restore */
    struct shard shards[TABLE_SHARDS];
};

static inline struct table *table_of(const struct shard *s)
{
    return container_of(s->slab.arena, struct table, arena);
}

/* Longest name stored in its counter; longer ones are stored outside. */
#define NAME_INSIDE_MAX (SLAB_MAX - offsetof(struct counter, name))

static inline bool counter_name_is_outside(const struct counter *c)
{
    return c->name_len > NAME_INSIDE_MAX;
}

/* A name stored outside its counter. */
struct long_name {
    uint64_t hash; /* all bits */
    unsigned char bytes[];
};

/* The bytes of the name. Needs no lock if the caller keeps the counter alive. */
struct bytes counter_name(const struct counter *c);
/* All bits of the name's hash. Hashes up to NAME_INSIDE_MAX bytes. */
uint64_t counter_hash(const struct shard *s, const struct counter *c);

/* The shard of a name's hash; shard_of: of a counter, a holding or a waiter. */
static inline struct shard *shard_of_hash(struct table *t, uint64_t hash)
{
    return &t->shards[hash >> 58];
}

static inline struct shard *shard_of(struct table *t, const void *slot)
{
    return &t->shards[slab_owner_of(&t->arena, slot)];
}

uint64_t hash_name(const struct table *t, struct bytes name);

/* Finds the counter of a name in `interval`; NULL when there is none. */
struct counter *shard_find(struct shard *s, uint64_t hash, struct bytes name, uint32_t interval);

/* Makes a counter for a name that has none; without holders, and not kept. NULL: out of memory. */
struct counter *counter_make(struct shard *s, uint64_t hash, struct bytes name, uint32_t interval);

/* The counter of a holding. The owner's thread may call this without the lock. */
static inline ref_t counter_ref_of(const struct arena *arena, const struct holding *h)
{
    if (h->outside)
        return ((const struct outside_holding *)h)->counter;
    return arena_ref(arena, h) - (ref_t)(offsetof(struct counter, first) / ARENA_GRANULE);
}

static inline struct counter *counter_of(const struct arena *arena, const struct holding *h)
{
    return arena_at(arena, counter_ref_of(arena, h));
}

/* Finds the holding of `c` for this holder id; NULL when there is none. */
struct holding *holding_find(struct shard *s, struct counter *c, uint32_t holder);

/* Makes a holding, not yet in its holder's list. NULL: out of memory. */
struct holding *holding_place(struct shard *s, struct counter *c, uint32_t holder);

/* Frees a holding that is in no holder's list, and its counter if that is no longer visible. */
void holding_drop(struct shard *s, struct holding *h);

/* The queue of a counter that has waits. */
static inline struct queue *queue_of(const struct shard *s, const struct counter *c)
{
    CHECK(c->queue);
    return arena_at(s->slab.arena, c->queue);
}

static inline struct waitq *line_of(struct queue *q, enum wait_kind kind)
{
    return kind == WAIT_ANY ? &q->any : &q->me;
}

/* Makes the queue of a counter that has none; `hash` is that of the name. NULL: out of memory. */
struct queue *queue_make(struct shard *s, struct counter *c, uint64_t hash);

/* Puts a waiter, the youngest, into its line. The caller counts it in the queue. Returns false when
 * out of memory. */
bool queue_join(struct shard *s, struct queue *q, struct waiter *w, uint64_t seq) MUST_USE;

static inline uint32_t counter_waiting(const struct shard *s, const struct counter *c)
{
    return c->queue ? queue_of(s, c)->waiting : 0;
}

/* Number of holders that have units of it. */
uint32_t counter_holders(const struct shard *s, const struct counter *c);

/* Fills in all of *entry_r, as of `interval`. */
void counter_show(const struct shard *s, const struct counter *c, uint32_t interval,
                  struct table_entry *entry_r);

/*
 * A holding stores the time when its units rose from 0 in 48 bits, in steps of 1,024 ns of the
 * monotonic clock. Correct for holdings up to four years old.
 */
#define SINCE_STEP_BITS 10

static inline void holding_begins(struct holding *h, struct moment now)
{
    uint64_t step = (uint64_t)now.mono_ns >> SINCE_STEP_BITS;
    h->since_low = (uint32_t)step;
    h->since_high = (uint16_t)(step >> 32);
}

/*
 * The age of a holding in nanoseconds. Negative when it was begun by a thread whose time is ahead.
 */
static inline int64_t holding_age_ns(const struct holding *h, struct moment now)
{
    uint64_t since = (uint64_t)h->since_high << 32 | h->since_low;
    uint64_t steps = ((uint64_t)now.mono_ns >> SINCE_STEP_BITS) - since;
    return (int64_t)(steps << 16) / (1 << (16 - SINCE_STEP_BITS));
}

/*
 * True when `interval` is the counter's. Threads read the clock once per wake-up, so a thread may
 * still be one interval behind another that used the counter before; this counts as the same
 * interval. When the clock is set back further, another interval begins.
 */
static inline bool counter_is_in(const struct counter *c, uint32_t interval)
{
    return (uint16_t)(c->interval - interval) <= 1;
}

/* True when holders have reserved units of it (table_reserve). */
static inline bool counter_is_reserved(const struct shard *s, const struct counter *c)
{
    return c->queue && queue_of(s, c)->reserved > 0;
}

/*
 * True when the counter is at 0 and its interval has ended: the name no longer exists. (At 0 it has
 * no waiters.)
 */
static inline bool counter_expired(const struct shard *s, const struct counter *c,
                                   uint32_t interval)
{
    return c->consumption == 0 && !counter_is_in(c, interval) && !counter_is_reserved(s, c);
}

/* Begins another interval for a counter: its peak becomes its consumption. */
void counter_enter(struct shard *s, struct counter *c, uint32_t interval);

/* Marks the counter as used. */
static inline void counter_touch(struct shard *s, struct counter *c, uint32_t interval)
{
    if (unlikely(!counter_is_in(c, interval)))
        counter_enter(s, c, interval);
}

/* A kept counter that was at 0 is not so any more: uncounts it (idle_begins counts it). */
void idle_ends(struct shard *s, const struct counter *c);

/*
 * Removes a counter without units and waiters from the index, and frees it if it has no holdings.
 */
void counter_drop(struct shard *s, struct counter *c);

static inline bool counter_is_kept(const struct counter *c)
{
    return c->life >= COUNTER_KEPT;
}

/* ---- sweep.c --------------------------------------------------------------------------------- */

/*
 * For a request that finds no memory: looks at no more than *looks names and empty buckets, and
 * counts them off. Drops a counter at 0, and among the first 16 rather one that the collector has
 * passed. Returns false when it found none (without a look when the shard has none), or when less
 * than 15/16 of the limit is used: the request is refused. A request may need several.
 */
bool shard_make_room(struct shard *s, uint32_t interval, unsigned *looks);
#define ROOM_LOOKS 64

/* ---- contention.c: caller holds the shard's lock --------------------------------------------- */

/* Adds `more` waiters to those in line; removes them if negative. */
void contention_line_changes(struct shard *s, struct queue *q, int more, struct moment now);

/*
 * Adds a restored queue to the ring, as the newest. Its waiting time is counted up to `since_ns`.
 */
void contention_line_restored(struct shard *s, struct queue *q, int64_t since_ns);

/* Counts a refused request for `c`; `hash` is that of its name. */
void contention_refused(struct shard *s, const struct counter *c, uint64_t hash, struct moment now);

/*
 * contention_enter begins an interval: it clears the peaks. Call it when contention_is_in is false.
 */
static inline bool contention_is_in(const struct shard *s, uint32_t interval)
{
    return s->peak_interval - interval <= 1; /* as counter_is_in */
}
void contention_enter(struct shard *s, uint32_t interval);

static inline struct peak_noted *contention_noted(struct shard *s, uint64_t hash)
{
    return &s->noted[hash >> 32 & (PEAKS_NOTED - 1)];
}

/* contention_peak, for a peak that may change the list. */
void contention_note_peak(struct shard *s, const struct counter *c, uint64_t hash);

/* Call when the peak of `c` has risen or its interval has begun. */
static inline void contention_peak(struct shard *s, const struct counter *c, uint64_t hash)
{
    const struct peak_noted *noted = contention_noted(s, hash);
    if (c->peak > s->peak_floor && (noted->hash != hash || noted->peak < c->peak))
        contention_note_peak(s, c, hash);
}

/* Checks the data about waiting; for table_check. */
void contention_check(struct shard *s);

/* ---- state_restore.c ------------------------------------------------------------------------- */

/* Frees the working data of a restore. */
void restoring_free(struct table *t);

#endif
