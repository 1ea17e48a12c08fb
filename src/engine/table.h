/*
 * table.h - what is counted and who holds it.
 *
 * A counter has a name, a consumption, the peak of this interval and maybe a queue of waiters. A
 * holder is what one client owns and waits for; a connection has one. The table grants units to
 * holders and never to connections, knows nothing of sockets or bytes of a protocol, and has no
 * clock: the time is an argument.
 *
 * Threads: each holder belongs to one thread (its worker), the only one that passes it to these
 * functions; different threads use different holders of one table at the same time. A grant that
 * one thread's release makes to another thread's holder comes out as a verdict: a waiter on the
 * releaser's list, to be sent to its owner. The ledger already says so: the verdict is only the
 * notice. So an owner that closes a holder before the notice has come releases those units too.
 *
 * Locks: each function takes the locks of the shards concerned, one at a time; callers hold none.
 * Nothing is sent, logged or freed elsewhere under them.
 *
 * A waiter's life (states change in one function, set_state in table.c):
 *
 *     WAITING -> GRANTED     it fits: its units are the holder's now
 *             -> DONE        someone released: the work it waited for is done (WAIT_ANY)
 *             -> TIMED_OUT   its owner ended it, late
 *             -> CANCELLED   its owner ended it, for another reason
 *
 * GRANTED and DONE are verdicts: the waiter travels to its owner as a letter (struct mail), and
 * there is freed with table_waiter_free, whatever has become of the holder meanwhile. TIMED_OUT and
 * CANCELLED waiters are gone when table_end_wait returns.
 */
#ifndef ENGINE_TABLE_H
#define ENGINE_TABLE_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/mail.h"
#include "engine/arena.h"
#include "engine/waitq.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names are 1 to so many bytes, any. None is kept: it is copied where a counter is made. */
#define TABLE_NAME_MAX 65535
#define TABLE_SHARDS   64

/* So many waits for one name may one holder have, verdicts that are not settled included. */
#define TABLE_WAITS_MAX 32767

struct table;
struct holding; /* the units of one name that one holder has; stays in its place while it has any */

struct table_config {
    uint64_t buckets;          /* how many names there is room for at the start, about */
    size_t memory_limit;       /* bytes; what lies beyond it is refused */
    uint32_t stats_interval_s; /* at least 1 */
    struct hash_key hash_key;  /* random */
};

/* Returns a new table, to be freed with table_free; NULL: no memory (errno). */
struct table *table_new(const struct table_config *config) MUST_USE;
/* Frees *table, whose holders are all closed and whose verdicts all freed, and nulls it. */
void table_free(struct table **table);

/* What one client owns and waits for. Part of the client's own memory. */
struct holder {
    uint64_t tag;           /* whose it is: opaque here, copied into its waiters */
    struct waiter *waiters; /* what it waits for, newest first, also verdicts not settled yet */
    uint32_t id;            /* unequal to that of every other open holder; not 0 */
    ref_t holdings;         /* what it holds, newest first */
};

/* Opens a holder. Never fails, allocates nothing. */
void holder_init(struct holder *holder, uint32_t id, uint64_t tag);

enum wait_kind {
    WAIT_NO,  /* what does not fit is refused at once */
    WAIT_ANY, /* waits for its units, or for any release of the name to say DONE */
    WAIT_ME,  /* waits for its units */
};

enum waiter_state {
    WAITER_WAITING,
    WAITER_GRANTED,
    WAITER_DONE,
    WAITER_TIMED_OUT,
    WAITER_CANCELLED,
};

struct waiter {
    struct letter letter;    /* first: how a verdict travels, to the holder's tag, which never
                                changes; `mail` is the releaser's and then the owner's */
    struct table *table;     /* never changes */
    int64_t since_ns;        /* when the wait began; never changes */
    int64_t ended_ns;        /* when the verdict was made; written with it */
    struct holding *holding; /* where the units go to; never changes */
    enum wait_kind kind;     /* never changes */
    uint32_t units, limit;   /* never change */

    /* The owner thread's: */
    struct holder *holder; /* NULL: closed or settled, only to be freed */
    struct waiter *next, *prev;

    /* Under the shard's lock: */
    enum waiter_state state;
    struct wait_place place;
};

/* Verdicts in the order in which they were made: the `mail` of waiters. */
typedef struct mail_list verdicts;

static inline struct waiter *waiter_of(struct mail *mail)
{
    return container_of(mail, struct waiter, letter.mail);
}

enum table_status {
    TABLE_OK,        /* done */
    TABLE_BUSY,      /* does not fit, and was not to wait */
    TABLE_WAITING,   /* does not fit, and waits now */
    TABLE_FULL,      /* units and waiters have reached queue_max */
    TABLE_NOT_FOUND, /* no such counter */
    TABLE_NOT_HELD,  /* the holder has fewer units of it than it would release */
    TABLE_NO_MEMORY, /* the limit is reached (or TABLE_WAITS_MAX); nothing has changed */
};

struct acquire {
    struct bytes name;
    uint64_t hash;      /* of the name, as table_prefetch returned it; 0: not known yet */
    uint32_t units;     /* at least 1 */
    uint32_t limit;     /* at least `units`: fits when consumption + units <= limit */
    uint32_t queue_max; /* refused when units + waiters of the name >= this; 0: not looked at */
    enum wait_kind wait;
    bool keep; /* once granted, the counter stays at 0 until its interval has ended */
};

/*
 * Prefetch. Where there are many names, a request spends most of its time waiting for memory: for
 * the name's place in the index, and then for its counter. This prefetches all of it for the names
 * of several requests to come, at most TABLE_PREFETCH_MAX at a time. Their hashes are written to
 * `hashes`, for the requests; a name of no bytes stands for no name, and has hash 0. Any thread;
 * takes no lock.
 */
#define TABLE_PREFETCH_MAX 32
void table_prefetch(struct table *t, const struct bytes *names, size_t count, uint64_t *hashes);

/*
 * Asks for units (protocol page, "rule of admission"). TABLE_OK: *held_r (may be NULL) is where
 * they are. TABLE_WAITING: *waiter_r is the wait; only for wait != WAIT_NO. Else BUSY, FULL or
 * NO_MEMORY.
 */
enum table_status table_acquire(struct table *t, struct holder *holder, const struct acquire *a,
                                struct moment now, struct holding **held_r,
                                struct waiter **waiter_r) MUST_USE;

struct release {
    struct bytes name;
    uint64_t hash; /* as above */
    uint32_t units;
};

/*
 * Gives back units of a name. If that is all the holder has of it, `holds` (may be NULL; the
 * calling thread's) is told how long it lasted: from when it last had none. More than 0: WAIT_ANY
 * waiters of the name are DONE, oldest first, then WAIT_ME waiters that fit are GRANTED, oldest
 * first; all are added to *out. 0 units of an existing counter: OK, and nothing else. NOT_FOUND,
 * NOT_HELD: nothing has changed.
 */
enum table_status table_release(struct table *t, struct holder *holder, const struct release *r,
                                struct moment now, struct histogram *holds, verdicts *out) MUST_USE;

/* The same for a holding of this holder that has at least `units` (more than 0); tells nobody. */
void table_release_held(struct table *t, struct holder *holder, struct holding *held,
                        uint32_t units, struct moment now, verdicts *out);

/* TABLE_OK and the consumption, or TABLE_NOT_FOUND. */
enum table_status table_get(struct table *t, struct bytes name, struct moment now,
                            uint32_t *consumption_r) MUST_USE;

/* The name of what is held; valid, and not changing, while the holder has units of it. */
struct bytes holding_name(const struct table *t, const struct holding *held);
/* How many units it has. The owner's thread, with none of its holder's waits for it pending. */
uint32_t holding_units(const struct holding *held);

/*
 * The owner ends a wait, for `why`: TIMED_OUT or CANCELLED. Returns `why`: the waiter is gone, and
 * nobody was woken. Or GRANTED or DONE: too late, the verdict is on its way; the owner may take
 * note at once with table_take_verdict.
 */
enum waiter_state table_end_wait(struct table *t, struct waiter *waiter, enum waiter_state why,
                                 struct moment now) MUST_USE;

/*
 * The owner takes note of a verdict, once: when it arrives, or before. Takes the waiter off its
 * holder. Returns GRANTED (waiter->holding has the units) or DONE.
 */
enum waiter_state table_take_verdict(struct table *t, struct waiter *waiter);

/* Frees a waiter whose verdict has arrived and, unless its holder was closed, been settled. */
void table_waiter_free(struct table *t, struct waiter *waiter);

/*
 * Closes a holder: it leaves every queue, then its units go back: WAIT_ME waiters that fit are
 * GRANTED, then WAIT_ANY waiters that fit, oldest first; nobody is DONE. Never allocates. `holds`
 * (may be NULL; the calling thread's) is told how long each holding has lasted. Verdicts to this
 * holder that are on their way stay valid letters, with `holder` NULL. The holder may be opened
 * again with holder_init.
 */
void table_close(struct table *t, struct holder *holder, struct moment now, struct histogram *holds,
                 verdicts *out);

/* One name as it is now. */
struct table_entry {
    struct bytes name; /* from table_walk_on: valid during the visit only */
    uint32_t consumption;
    uint32_t peak;    /* of this interval */
    uint32_t limit;   /* of the last acquire, whatever its answer (but NO_MEMORY) */
    uint32_t waiting; /* waiters */
    uint32_t holders; /* that have units of it */
};

/* One holder's units of a name. */
struct table_hold {
    uint32_t holder;  /* its id */
    uint32_t units;   /* at least 1 */
    uint32_t limit;   /* of its last acquire that was granted or began to wait */
    int64_t since_ns; /* from when it has had any, monotonic; in steps of 1,024 ns; right for
                         holdings of up to four years */
};

/* A waiter as it is now. */
struct table_wait {
    uint64_t tag; /* its holder's */
    uint32_t units, limit;
    enum wait_kind kind;
    int64_t since_ns; /* when it began, monotonic */
};

/*
 * One name: fills *entry_r (whose name is `name`) and up to `room` of its waiters, oldest first;
 * *count_r says how many. These are fewer than wait, though there is room, where they wait for more
 * than WAITQ_SCAN_LANES different thresholds; those shown are the oldest also then. TABLE_OK or
 * TABLE_NOT_FOUND (*count_r is 0). Any thread. Holds the shard's lock for about 0.03 microseconds a
 * waiter: of a long queue ask for some thousands at most.
 */
enum table_status table_inspect(struct table *t, struct bytes name, struct moment now,
                                struct table_entry *entry_r, struct table_wait *waits, size_t room,
                                size_t *count_r) MUST_USE;

/* How far a walk has come. Zero-initialised: at the start. */
struct table_walk {
    uint32_t shard;
    uint32_t ref_from;
    uint64_t hash_from;
    ref_t counter; /* in a walk over one name's holders; else 0 */
};

/*
 * Walks on over the holders of one name, looking at no more than `budget` (at least 1) holdings of
 * any name and empty buckets; copies up to `room` (at least 1) of them to `to`, *count_r says how
 * many. True: the walk is over, also when the name is gone or has come again elsewhere. A holder
 * that has units during the whole walk is shown exactly once; one that gives them all back and
 * takes some again meanwhile may be shown again. Any thread. A whole walk looks at all holdings of
 * the name's shard.
 */
bool table_holders_on(struct table *t, struct bytes name, struct table_walk *walk,
                      struct moment now, unsigned budget, struct table_hold *to, size_t room,
                      size_t *count_r) MUST_USE;

/*
 * Whether this holder has units of `name`: fills *hold_r. The holder's thread. The time does not
 * depend on how many hold it or how much this holder has.
 */
bool table_holds(struct table *t, const struct holder *holder, struct bytes name, struct moment now,
                 struct table_hold *hold_r) MUST_USE;

/*
 * How many names the holder has units of, waits for, or has a verdict on that is not settled;
 * counted up to `max`. The holder's thread; takes no lock.
 */
uint32_t holder_count(const struct table *t, const struct holder *holder, uint32_t max);

/* Called under a shard's lock: copies and returns true, or false: no room, show it again. */
typedef bool table_visit_fn(void *arg, const struct table_entry *entry);

/*
 * Walks on over the names, looking at no more than `budget` of them and of empty buckets. Every
 * counter that exists during the whole walk is visited exactly once; one made or gone meanwhile at
 * most once. True: the walk is over. False: call again, after making room if the visitor had none.
 */
bool table_walk_on(struct table *t, struct table_walk *walk, struct moment now, unsigned budget,
                   table_visit_fn *visit, void *arg) MUST_USE;

/*
 * Collects counters that are at 0 and whose interval has ended, walking on as above. True: the walk
 * is over. *collected is counted up. It also notes the interval in names that are held: a table
 * wants a whole walk in every interval, and needs one in 65,534 of them (see shard.h).
 */
bool table_collect(struct table *t, struct table_walk *walk, struct moment now, unsigned budget,
                   uint64_t *collected) MUST_USE;

struct table_stats {
    uint64_t names;       /* that exist; without those that have expired and are not collected */
    uint64_t names_made;  /* since the start */
    uint64_t waiting;     /* waiters */
    uint64_t holdings;    /* pairs of holder and name with units or waits */
    uint64_t units;       /* held, over all names */
    uint64_t overflowing; /* names outside the first cache line of their bucket */
    uint64_t memory;      /* bytes, against the limit */
};

/* Adds up the shards, one after the other. Any thread. */
void table_get_stats(struct table *t, struct moment now, struct table_stats *stats_r);

/* Whether more than half of the memory limit is used: time to collect, and to trim. Any thread. */
bool table_is_tight(const struct table *t);

/* Gives back the pages that shards keep though nothing is in them. Any thread. */
void table_trim(struct table *t);

/* The number of the interval that `unix_s` lies in. */
uint32_t table_interval(const struct table *t, int64_t unix_s);

/*
 * Checks every invariant of the whole table and aborts where one does not hold: for tests and
 * rehearsals, when no other thread is in it; about half a microsecond a name. Of each counter:
 * consumption is the sum of units held, no waiter that fits waits, lines are in order, its queue
 * counts waits and empty holdings right; of each index: every entry is found; of each shard: its
 * ring has the queues with somebody in line, and its sketches are whole.
 */
void table_check(struct table *t);

#endif
