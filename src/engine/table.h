/*
 * table.h - counters and their holders.
 *
 * A counter has a name, a consumption, the peak of the current interval and maybe a queue of
 * waiters. A holder is what one client owns and waits for; each connection has one or two. The
 * table grants units to holders, never to connections. It knows no sockets and no protocol bytes,
 * and has no clock: the time is an argument.
 *
 * Threads: each holder belongs to one thread (its worker), and only that thread passes it to these
 * functions; or it has a lock, which the caller holds. Different threads may use different holders
 * of one table at the same time. When one thread's release grants units to another thread's holder,
 * the release returns a result: a waiter in the releaser's list, to be sent to its owner. The
 * ledger changes at once; the result is only the notice. So if an owner closes a holder before the
 * notice arrives, it releases those units too.
 *
 * Locks: each function takes the locks of its shards, one at a time. The caller must hold no lock
 * of their rank or a higher one (base/lock.h). Under a shard's lock nothing is sent or logged, and
 * nothing outside the shard is freed.
 *
 * A waiter's states (only set_state in acquire.c changes them):
 *
 *     WAITING -> GRANTED     it fits: the holder has the units now
 *             -> DONE        another holder released: the work it waited for is done (WAIT_ANY)
 *             -> TIMED_OUT   its owner ended it because it took too long
 *             -> CANCELLED   its owner ended it for another reason
 *
 * GRANTED and DONE are results: the waiter is sent to its owner as a message (struct mail). The
 * owner frees it with table_waiter_free, even if the holder was closed meanwhile. TIMED_OUT and
 * CANCELLED waiters are freed before table_end_wait returns.
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

/*
 * Names have 1 to TABLE_NAME_MAX bytes of any value. The table copies a name when it makes a
 * counter.
 */
#define TABLE_NAME_MAX 65535
#define TABLE_SHARDS   64

/* Maximum number of waits of one holder for one name, including unacknowledged results and
 * reservations. */
#define TABLE_WAITS_MAX 32767

struct table;
struct holding; /* one holder's units of one name; does not move while it has any */

struct table_config {
    uint64_t buckets;          /* about how many names to make room for at the start */
    size_t memory_limit;       /* bytes; requests that need more are refused */
    uint32_t stats_interval_s; /* at least 1 */
    struct hash_key hash_key;  /* random */
};

/* Makes a table; free it with table_free. NULL: out of memory (errno is set). */
struct table *table_new(const struct table_config *config) MUST_USE;
/* Frees *table and sets it to NULL. All holders must be closed and all results freed. */
void table_free(struct table **table);

/* What one client owns and waits for. Embedded in the client's own memory. */
struct holder {
    uint64_t tag;           /* the owner; opaque to the table, copied into its waiters */
    struct waiter *waiters; /* its waits, newest first, including unacknowledged results */
    uint32_t id;            /* unique among open holders; not 0 */
    ref_t holdings;         /* what it holds, newest first */
};

/* Opens a holder. Never fails and never allocates. */
void holder_init(struct holder *holder, uint32_t id, uint64_t tag);

enum wait_kind {
    WAIT_NO,  /* a request that does not fit is refused at once */
    WAIT_ANY, /* waits for its units, or for any release of the name (DONE) */
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
    struct message message; /* first member; carries a result to the holder's tag. `to` is constant;
                             `mail` belongs to the releaser, then to the owner */
    struct table *table;    /* constant */
    int64_t since_ns;       /* when the wait began; constant */
    int64_t ended_ns;       /* when the result was made; written with it */
    struct holding *holding; /* where the units go; constant */
    enum wait_kind kind;     /* constant */
    uint32_t units, limit;   /* constant */

    /* Owned by the holder's thread: */
    struct holder *holder; /* NULL: closed or acknowledged; only to free */
    struct waiter *next, *prev;

    /* Protected by the shard's lock: */
    enum waiter_state state;
    union {
        struct wait_place place; /* WAITING */
        struct bundle bundle;    /* with a result: belongs to who delivers it */
    };
};

/* Results in the order in which they were made: the `mail` of waiters. */
typedef struct mail_list results;

static inline struct waiter *waiter_of(struct mail *mail)
{
    return container_of(mail, struct waiter, message.mail);
}

enum table_status {
    TABLE_OK,        /* done */
    TABLE_BUSY,      /* does not fit, and the request does not wait */
    TABLE_WAITING,   /* does not fit; a wait has begun */
    TABLE_FULL,      /* units and waiters have reached queue_max */
    TABLE_NOT_FOUND, /* no such counter */
    TABLE_NOT_HELD,  /* the holder has fewer units than it would release */
    TABLE_NO_MEMORY, /* memory limit or TABLE_WAITS_MAX reached; nothing has changed */
};

struct acquire {
    struct bytes name;
    uint64_t hash;      /* of the name, from table_prefetch; 0: unknown */
    uint32_t units;     /* at least 1 */
    uint32_t limit;     /* at least `units`; fits when consumption + units <= limit */
    uint32_t queue_max; /* refused when units + waiters of the name >= this; 0: no maximum */
    enum wait_kind wait;
    bool keep; /* once granted and free again, the counter is kept at 0 until its interval has ended
                */
};

/*
 * Prefetch. With many names, a request spends most of its time waiting for memory: for the name's
 * bucket in the index, then for its counter. This function fetches both for the names of several
 * requests, at most TABLE_PREFETCH_MAX at a time, before they are served. It writes the names'
 * hashes to `hashes`, for use in the requests. An empty name means no name; its hash is 0. Any
 * thread. Takes no lock.
 */
#define TABLE_PREFETCH_MAX 32
void table_prefetch(struct table *t, const struct bytes *names, size_t count, uint64_t *hashes);

/*
 * Asks for units (protocol page, "rule of admission"). TABLE_OK: granted; *held_r is set to the
 * holding (held_r may be NULL). TABLE_WAITING: *waiter_r is set to the wait; only if wait !=
 * WAIT_NO. Otherwise returns BUSY, FULL or NO_MEMORY.
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
 * Releases units of a name. If the holder then has none left, the time since it last had none is
 * added to `holds` (may be NULL; a histogram of the calling thread). If units > 0, all WAIT_ANY
 * waiters of the name become DONE, oldest first; then WAIT_ME waiters that fit become GRANTED,
 * oldest first. All are added to *out. When there are many, the lock is released in between; until
 * the last became DONE, the holder has its units, and later those that would fit for waiters that
 * are not granted yet, so nobody else gets them. Releasing 0 units of an existing counter returns
 * OK and does nothing. NOT_FOUND, NOT_HELD: nothing has changed.
 */
enum table_status table_release(struct table *t, struct holder *holder, const struct release *r,
                                struct moment now, struct histogram *holds, results *out) MUST_USE;

/*
 * The same for a holding of this holder that has at least `units` (more than 0). Records no
 * duration. `ends`: as the end of its connection would release them (table_close), so no waiter
 * becomes DONE.
 */
void table_release_held(struct table *t, struct holder *holder, struct holding *held,
                        uint32_t units, bool ends, struct moment now, results *out);

/*
 * Reserves a holding: from now on table_add_held can add units to it, without memory. Until
 * table_unreserve the holding does not move or end, with or without units, and its name is kept at
 * 0; after that, until its interval has ended. A holding may be reserved several times, and before
 * it is closed, its holder must undo all. `hash` as in struct acquire. Returns NULL when out of
 * memory, or at TABLE_WAITS_MAX: nothing has changed.
 */
struct holding *table_reserve(struct table *t, struct holder *holder, struct bytes name,
                              uint64_t hash, struct moment now) MUST_USE;
/* Undoes one reservation. Frees the holding if it has neither units nor waits nor reservations. */
void table_unreserve(struct table *t, struct holder *holder, struct holding *held,
                     struct moment now);
/*
 * Adds units (at least 1) to a holding that is reserved or has units, whatever the limit. Never
 * allocates. Returns false when the name would have more than UINT32_MAX units: no units are added,
 * but the name was used in this interval.
 */
bool table_add_held(struct table *t, struct holding *held, uint32_t units,
                    struct moment now) MUST_USE;

/*
 * Adds units (at least 1) to what the holder has of a name, whatever the limit; makes what is not
 * there. The name is then kept at 0 until its interval has ended. `hash` as in struct acquire.
 * TABLE_OK: *held_r is set to the holding. TABLE_BUSY, when the name would have more than
 * UINT32_MAX units, or TABLE_NO_MEMORY: nothing has changed.
 */
enum table_status table_add(struct table *t, struct holder *holder, struct bytes name,
                            uint64_t hash, uint32_t units, struct moment now,
                            struct holding **held_r) MUST_USE;

/*
 * Grants what somebody else has admitted: adds a->units whatever the limit, and records the limit
 * (unless it is 0) and `keep` as table_acquire does; queue_max and wait have no meaning. Results as
 * of table_add.
 */
enum table_status table_grant(struct table *t, struct holder *holder, const struct acquire *a,
                              struct moment now, struct holding **held_r) MUST_USE;

/* Returns TABLE_OK and the consumption, or TABLE_NOT_FOUND. */
enum table_status table_get(struct table *t, struct bytes name, struct moment now,
                            uint32_t *consumption_r) MUST_USE;

/* The name of a holding. Valid and constant while the holder has units of it. */
struct bytes holding_name(const struct table *t, const struct holding *held);
/*
 * The units of a holding. Owner's thread only, and only while its holder has no wait for it
 * pending.
 */
uint32_t holding_units(const struct holding *held);

/*
 * Ends a wait of the calling owner. `why`: TIMED_OUT or CANCELLED. Returns `why` when the wait has
 * ended: the waiter is freed, and no other waiter was woken. Returns GRANTED or DONE when it is too
 * late and the result is on its way; the owner may acknowledge it at once with table_take_result.
 */
enum waiter_state table_end_wait(struct table *t, struct waiter *waiter, enum waiter_state why,
                                 struct moment now) MUST_USE;

/*
 * Acknowledges a result; call it once, from the owner's thread, when the result arrives or
 * before. Removes the waiter from its holder. Returns GRANTED (waiter->holding has the units) or
 * DONE.
 */
enum waiter_state table_take_result(struct table *t, struct waiter *waiter);

/*
 * Frees a waiter whose result has arrived. It must be acknowledged, unless its holder was closed.
 */
void table_waiter_free(struct table *t, struct waiter *waiter);

/*
 * Closes a holder. It leaves every queue, then its units are released: WAIT_ME waiters that fit
 * become GRANTED, then WAIT_ANY waiters that fit, oldest first; none becomes DONE. Never allocates.
 * The duration of each holding is added to `holds` (may be NULL; a histogram of the calling
 * thread). Results on their way to this holder stay valid messages, with `holder` NULL. holder_init
 * may open the holder again.
 */
void table_close(struct table *t, struct holder *holder, struct moment now, struct histogram *holds,
                 results *out);
/* The same for `max` names; it leaves all queues at once. Returns false when more are left: until
 * they are closed, the holder keeps its id, and does nothing else. */
bool table_close_some(struct table *t, struct holder *holder, unsigned max, struct moment now,
                      struct histogram *holds, results *out) MUST_USE;

/* The current state of one name. */
struct table_entry {
    struct bytes name; /* from table_walk_on: valid during the visit only */
    uint32_t consumption;
    uint32_t peak;    /* of the current interval */
    uint32_t limit;   /* of the last acquire, whatever its result (except NO_MEMORY); 0: none */
    uint32_t waiting; /* number of waiters */
    uint32_t holders; /* number of holders that have units */
};

/* One holder's units of a name. */
struct table_hold {
    uint32_t holder;  /* its id */
    uint32_t units;   /* at least 1 */
    uint32_t limit;   /* of its last acquire that was granted or began to wait; 0: none */
    int64_t since_ns; /* monotonic time when its units rose from 0, in steps of 1,024 ns; correct up
                         to four years */
};

/* The current state of a waiter. */
struct table_wait {
    uint64_t tag; /* of its holder */
    uint32_t units, limit;
    enum wait_kind kind;
    int64_t since_ns; /* when it began, monotonic */
};

/*
 * Inspects one name: fills *entry_r (its name is `name`) and up to `room` of its waiters, oldest
 * first; *count_r is their number. If the waiters have more than WAITQ_SCAN_LANES different
 * thresholds, fewer than `room` may be returned, but these are the oldest. Returns TABLE_OK, or
 * TABLE_NOT_FOUND with *count_r 0. Any thread. Holds the shard's lock for about 0.03 microseconds
 * per waiter, so ask for some thousands at most.
 */
enum table_status table_inspect(struct table *t, struct bytes name, struct moment now,
                                struct table_entry *entry_r, struct table_wait *waits, size_t room,
                                size_t *count_r) MUST_USE;

/* The position of a walk. Zero-initialised: at the start. */
struct table_walk {
    uint32_t shard;
    uint32_t ref_from;
    uint64_t hash_from;
    ref_t counter; /* for a walk over one name's holders; else 0 */
};

/*
 * Continues a walk over the holders of one name. Looks at no more than `budget` (at least 1)
 * holdings of any name and empty buckets. Copies up to `room` (at least 1) holdings to `to`;
 * *count_r is their number. Returns true when the walk is over, or when the name is gone or was
 * made again elsewhere. A holder that has units during the whole walk is shown exactly once; one
 * that releases them all and acquires some again may be shown again. Any thread. A whole walk looks
 * at all holdings of the name's shard.
 */
bool table_holders_on(struct table *t, struct bytes name, struct table_walk *walk,
                      struct moment now, unsigned budget, struct table_hold *to, size_t room,
                      size_t *count_r) MUST_USE;

/*
 * True when the holder with this id has units of `name`; fills *hold_r. Any thread. Takes the same
 * time for any number of holders and holdings.
 */
bool table_holds(struct table *t, uint32_t holder, struct bytes name, struct moment now,
                 struct table_hold *hold_r) MUST_USE;

/*
 * Number of names that the holder has units of, waits for, has reserved, or has an unacknowledged
 * result for; counts up to `max`. The holder's thread. Takes no lock.
 */
uint32_t holder_count(const struct table *t, const struct holder *holder, uint32_t max);

/*
 * Calls `visit` for each name of which the holder has units. The holder's thread. `visit` is called
 * without a lock; it must not change what the holder has. `name` stays valid as in holding_name.
 */
void holder_visit(struct table *t, const struct holder *holder,
                  void (*visit)(void *arg, struct bytes name, uint32_t units), void *arg);

/* The units that the holder has, of all names together. For tests, while no other thread uses the
 * table. */
uint64_t holder_units(const struct table *t, const struct holder *holder);

/*
 * Called under a shard's lock. Copies the entry and returns true; or returns false when there is no
 * room, to see it again.
 */
typedef bool table_visit_fn(void *arg, const struct table_entry *entry);

/*
 * Continues a walk over the names. Looks at no more than `budget` names and empty buckets. A
 * counter that exists during the whole walk is visited exactly once; one that is made or freed
 * meanwhile, at most once. Returns true when the walk is over. If false, call again; make room
 * first if the visitor had none.
 */
bool table_walk_on(struct table *t, struct table_walk *walk, struct moment now, unsigned budget,
                   table_visit_fn *visit, void *arg) MUST_USE;

/*
 * Frees counters that are at 0 and whose interval has ended, with a walk as above. While the table
 * is full (table_is_full), also frees those at 0 that were not used since a walk passed them while
 * it was full. Returns true when the walk is over. Adds the number of freed counters to *collected.
 * It also updates the interval of names in use: do one whole walk in every interval; at least one
 * in 65,534 is necessary (see shard.h).
 */
bool table_collect(struct table *t, struct table_walk *walk, struct moment now, unsigned budget,
                   uint64_t *collected) MUST_USE;

struct table_stats {
    uint64_t names;         /* existing names, without expired ones that are not yet freed */
    uint64_t names_made;    /* since the start */
    uint64_t waiting;       /* waiters */
    uint64_t holdings;      /* pairs of holder and name with units or waits */
    uint64_t units;         /* held, over all names */
    uint64_t overflowing;   /* names outside the first cache line of their bucket */
    uint64_t idle;          /* names at 0, with expired ones */
    uint64_t dropped_early; /* names at 0 that went before they had expired, since the start */
    uint64_t memory;        /* bytes charged to the limit */
};

/* Adds up the shards, one after the other. Any thread. */
void table_get_stats(struct table *t, struct moment now, struct table_stats *stats_r);

/*
 * Counts memory that is kept elsewhere, in the table's limit. table_charge returns false, counting
 * nothing, when that would exceed it. Any thread.
 */
bool table_charge(struct table *t, size_t bytes) MUST_USE;
void table_uncharge(struct table *t, size_t bytes);

/* True when more than half of the memory limit is used: time to collect and to trim. Any thread. */
bool table_is_tight(const struct table *t);
/*
 * True from 15/16 of the memory limit on: names at 0 are dropped early, by table_collect, and by
 * requests that find no memory. Such a request looks at 64 names of its shard. Any thread.
 */
bool table_is_full(const struct table *t);

/* Frees the empty pages that shards keep. Any thread. */
void table_trim(struct table *t);

/* The number of the interval that contains `unix_s`. */
uint32_t table_interval(const struct table *t, int64_t unix_s);

/*
 * Checks every invariant of the whole table; aborts when one does not hold. For tests and
 * dry runs, while no other thread uses the table. Takes about half a microsecond per name. Checks
 * for each counter: consumption is the sum of units held, no waiter that fits is waiting, queues
 * are in order, and the queue's counts of waits and empty holdings are right. For each index: every
 * entry can be found. For each shard: its ring has exactly the queues with waiters in line, and its
 * sketches are consistent.
 */
void table_check(struct table *t);

#endif
