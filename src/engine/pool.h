/*
 * pool.h - pools of named members, and the clients that take, join and watch them
 * (proto/pools.md). This part knows no sockets and no protocol bytes, and has no clock.
 *
 * A pool has options and members. A member is in one state; only pool_move in pool.c changes it,
 * and checks each move. A client is what one connection takes, waits for, joins, supplies and
 * watches; it is made when a connection first uses a pool.
 *
 * Locks: one lock (LOCK_RANK_POOLS) covers all pools, members and clients. So a wait for several
 * pools cannot deadlock, and the oldest request is found at once. Functions take it themselves; the
 * callers hold no lock. Under it the table's functions are called, because each held member is also
 * a unit of the counter `pool:NAME`. The hooks and visitors run under it: they copy what they get,
 * and call nothing of this file.
 *
 * Threads: any thread may call any function, but a client belongs to one thread, as its connection
 * does. What changes for another client is told by a message: the caller sends the messages in
 * `outbox` after the call, and the thread of that client calls pool_client_read.
 *
 * Memory is charged to the table's limit. Nothing that gives back, ends or hands over allocates.
 */
#ifndef ENGINE_POOL_H
#define ENGINE_POOL_H

#include "base/buckets.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mail.h"
#include "engine/pool_options.h"
#include "engine/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pools;
struct pool_client;
struct record_reader;
struct record_writer;

#define POOL_TARGETS_MAX    16   /* pools in one TAKE */
#define POOL_WITH_MAX       8    /* attributes that a TAKE may ask for */
#define POOL_COUNT_MAX      64   /* members of one TAKE */
#define POOL_ATTRIBUTES_MAX 16   /* of a member */
#define POOL_VALUE_MAX      4096 /* bytes of a member's value */
#define POOL_SHORT_MAX      128  /* bytes of an attribute's value, a note, a `by` */
#define POOL_KEY_MAX        32   /* bytes of an attribute's key */

/* ---- words ----------------------------------------------------------------------------------- */

/* The states of a member, in the order in which LIST counts them. */
enum pool_state {
    MEMBER_GONE, /* not there */
    MEMBER_FREE,
    MEMBER_TAKEN,
    MEMBER_CLEANING,
    MEMBER_CHECKING,
    MEMBER_DIRTY,
    MEMBER_STOPPING,
    MEMBER_DOWN,
    MEMBER_STATES
};
/* "free", "taken" and so on; MEMBER_GONE: "-". */
const char *pool_state_word(enum pool_state state);

/* Why a member moves. */
#define POOL_WHYS(ROW)                                                                             \
    ROW(ADD, "add")                                                                                \
    ROW(JOIN, "join")                                                                              \
    ROW(TAKE, "take")                                                                              \
    ROW(CLEAN, "clean")                                                                            \
    ROW(CHECK, "check")                                                                            \
    ROW(RETURN, "return")                                                                          \
    ROW(QUIT, "quit")                                                                              \
    ROW(FAIL, "fail")                                                                              \
    ROW(CRASH, "crash")                                                                            \
    ROW(HOLD_MAX, "hold_max")                                                                      \
    ROW(UNDONE, "undone")                                                                          \
    ROW(CLEANED, "cleaned")                                                                        \
    ROW(CLEAN_FAILED, "clean_failed")                                                              \
    ROW(CHECKED, "checked")                                                                        \
    ROW(RESTED, "rested")                                                                          \
    ROW(OPERATOR, "operator")                                                                      \
    ROW(DROP, "drop")                                                                              \
    ROW(CULL, "cull")                                                                              \
    ROW(LIFETIME, "lifetime")                                                                      \
    ROW(SHRINK, "shrink")                                                                          \
    ROW(LEAVE, "leave")                                                                            \
    ROW(LOST, "lost")                                                                              \
    ROW(STOP_TIMEOUT, "stop_timeout")

enum pool_why {
#define ROW(name, word) POOL_WHY_##name,
    POOL_WHYS(ROW)
#undef ROW
        POOL_WHY_COUNT
};
const char *pool_why_word(enum pool_why why);

enum pool_for { POOL_FOR_USE, POOL_FOR_CLEAN, POOL_FOR_CHECK, POOL_FOR_COUNT };
/* "use", "clean", "check". */
const char *pool_for_word(enum pool_for what);

/* What became of a TAKE, for metrics. */
enum pool_outcome {
    POOL_TAKES_TAKEN,
    POOL_TAKES_BUSY,    /* refused: no more members can come */
    POOL_TAKES_GROWING, /* refused: more members are wanted */
    POOL_TAKES_TIMED_OUT,
    POOL_TAKES_QUEUE_FULL,
    POOL_TAKES_COUNT
};
const char *pool_outcome_word(enum pool_outcome outcome);

/* What happens to a pool (EVENT). */
enum pool_event_why { POOL_ADDED, POOL_CHANGED, POOL_DRAINS, POOL_DROPPED };

enum pool_status {
    POOL_OK,
    POOL_WAITS,      /* TAKE: a wait has begun */
    POOL_LOOKS,      /* TAKE: it goes on in steps (pool_take_on) */
    POOL_TIMES_OUT,  /* TAKE: it does not fit, and does not wait */
    POOL_QUEUE_FULL, /* TAKE: all queues are full */
    POOL_GONE,       /* RETURN: the member was taken away before */
    POOL_NOT_TAKEN,  /* RETURN: not held */
    /* Errors: nothing has changed. */
    POOL_DENIED,
    POOL_NO_POOL,
    POOL_WRONG_KIND,
    POOL_NO_MEMBER,
    POOL_EXISTS,
    POOL_BAD_STATE, /* MEMBER SET: not a state that this member can get */
    POOL_TOO_MANY,
    POOL_FULL,
    POOL_NO_MEMORY,
};

/* ---- all pools ------------------------------------------------------------------------------- */

/* An attribute: K=V. */
struct pool_attribute {
    struct bytes key, value;
};

/* A move, or what happened to a pool. */
struct pool_event {
    struct bytes pool;
    struct bytes member; /* empty: of the pool, and only `pool_why` counts */
    enum pool_state from, to;
    enum pool_why why;
    enum pool_event_why pool_why;
    bool late;      /* a hold past hold_warn: no move, and `why` does not count */
    uint64_t fence; /* of the hold that begins or ends; 0: none */
    uint64_t conn;  /* tag of its connection */
    struct bytes by;
};

struct pool_hooks {
    /* Notes an event for a watcher. `owner` is that of its client. */
    void (*event)(void *owner, const struct pool_event *event);
    /* Notes that a hold is older than hold_warn, for the log. `arg` is that of the pools. */
    void (*late)(void *arg, const struct pool_event *event, int64_t held_ns);
};

struct pools_limits {
    uint32_t pools_max, members_max, watchers_max, taken_max;
};

struct pools_config {
    struct table *table;
    struct pools_limits limits;
    uint64_t first_fence; /* the wall clock in microseconds */
    uint64_t seed;        /* for choices by chance */
    const struct pool_hooks *hooks;
    void *arg;
};

/* Makes an empty set of pools. NULL: no memory. */
struct pools *pools_new(const struct pools_config *config) MUST_USE;
/* Frees *pools and sets it to NULL. All clients must have ended and their messages must have been
 * read, unless pools_restore has failed. */
void pools_free(struct pools **pools);

/* What a call has caused for other connections. The caller sends all of it after the call. */
struct pool_outbox {
    struct mail_list clients; /* messages of clients (pool_client_of), to their tags */
    results woken;            /* of waiters for the counter `pool:NAME` (table.h) */
    uint32_t visits;          /* how many members, waits and suppliers the call has visited */
};
static inline void pool_outbox_init(struct pool_outbox *outbox)
{
    mail_list_init(&outbox->clients);
    mail_list_init(&outbox->woken);
    outbox->visits = 0;
}

/* Changes the limits. What is there already stays; suppliers are asked for what they may join now.
 */
void pools_set_limits(struct pools *pools, const struct pools_limits *limits, struct moment now,
                      struct pool_outbox *outbox);

/*
 * Does what is due: hold_warn, hold_max, clean_after, cull, lifetimes, start_timeout, stop_timeout.
 * Only waits end elsewhere, by the deadlines of their connections. Does a bounded amount of work.
 * Call it when pools_next_ns has passed.
 */
void pools_run(struct pools *pools, struct moment now, struct pool_outbox *outbox);
/* Goes on with what is done in steps (the ends of clients that have joined many members). Returns
 * true when all is done: pools_save and pools_free need that. */
bool pools_finish(struct pools *pools, struct moment now, struct pool_outbox *outbox) MUST_USE;
/* The time at which something is due (monotonic); INT64_MAX: never. Any call may change it. */
int64_t pools_next_ns(const struct pools *pools);

/* ---- clients --------------------------------------------------------------------------------- */

/*
 * Makes the client of a connection. `id` is the id of its holder in the table, which no other
 * holder has. `owner` is given to hooks and visitors. NULL: no memory.
 */
struct pool_client *pool_client_new(struct pools *pools, uint32_t id, uint64_t tag,
                                    void *owner) MUST_USE;

/* How a connection ends. */
enum pool_end {
    POOL_END_QUIT,  /* it said so: members are returned ok, joined members leave */
    POOL_END_CRASH, /* otherwise: members crash, joined members are lost */
};

/*
 * Ends a client: it leaves all queues, then its members go, newest first, then those it joined.
 * `written` says if the byte at a position of the output was given to the kernel; a member whose
 * TAKEN line was not is as before (`undone`). Frees the client, or the message on its way does.
 * What it has joined leaves in steps if it is much: requests for those pools wait for it.
 */
void pool_client_end(struct pool_client *client, enum pool_end how,
                     bool (*written)(void *owner, uint64_t position), struct moment now,
                     struct pool_outbox *outbox);

/* The client of a message. */
struct pool_client *pool_client_of(struct mail *mail);
/* The tag of a client, constant. */
uint64_t pool_client_tag(const struct pool_client *client);

/* True when the client waits for members; pool_client_looks: when it has a request that goes on in
 * steps. Its thread only. */
bool pool_client_waits(const struct pool_client *client);
bool pool_client_looks(const struct pool_client *client);
/* A restored client goes on with its request in steps. Returns false if it has none. */
bool pool_client_look_on(struct pool_client *client);

/* The number of members that a client holds, with those taken away of which it was not told yet. */
uint32_t pool_client_holds(struct pool_client *client);

/* A member that a client has got, for its TAKEN line. */
struct pool_taken {
    struct bytes pool, member, value; /* value.data NULL: none */
    uint64_t fence;
    const struct pool_attribute *attributes;
    size_t attribute_count;
};

/* What a client reads; each function may be called several times, in order. */
struct pool_reader {
    void (*taken)(void *owner, const struct pool_taken *taken);
    /* The wait has ended without a member: POOL_NO_POOL or POOL_QUEUE_FULL. */
    void (*refused)(void *owner, enum pool_status why);
    void (*stop)(void *owner, struct bytes pool, struct bytes member, enum pool_why why);
    /* Returns false if there is no room now; the caller reads the client when there is. */
    bool (*want)(void *owner, struct bytes pool, uint32_t want);
    /* There are new events. Returns false if some are left for later. */
    bool (*events)(void *owner);
};

/*
 * A message has come. Returns false, and frees the client, when it has ended. Otherwise reads what
 * is new, as pool_client_read does.
 */
bool pool_client_message(struct pool_client *client);

/*
 * Reads what is new for this client. Call it when a message comes, or earlier. `position` is that
 * of the next byte of its output, for the TAKEN lines; POOL_POSITION_LATER: they wait behind an
 * answer in pieces, and pool_client_position says it when that is complete.
 */
void pool_client_read(struct pool_client *client, const struct pool_reader *reader,
                      uint64_t position, struct moment now, struct pool_outbox *outbox);
#define POOL_POSITION_LATER (UINT64_C(1) << 63)
void pool_client_position(struct pool_client *client, uint64_t position);

/* ---- TAKE and RETURN ------------------------------------------------------------------------- */

struct pool_take {
    const struct bytes *targets; /* pools, at most POOL_TARGETS_MAX; or one group */
    size_t target_count;
    bool group;
    uint32_t count; /* 1 to POOL_COUNT_MAX */
    enum pool_for what;
    struct bytes member; /* empty: any. Only with one target, and count 1 */
    const struct pool_attribute *with;
    size_t with_count;
    struct bytes by;    /* empty: none */
    int64_t timeout_ns; /* 0: does not wait */
};

/*
 * Takes members. POOL_OK: `taken` was called for each. POOL_WAITS: a wait has begun, and a message
 * will say how it ends; the caller ends it after the timeout (pool_end_wait). `position`: as in
 * pool_client_read. The client must not wait already.
 */
enum pool_status pool_take(struct pool_client *client, const struct pool_take *take,
                           const struct pool_reader *reader, uint64_t position, struct moment now,
                           struct pool_outbox *outbox) MUST_USE;

/*
 * A step of a request that pool_take answered with POOL_LOOKS: it has to look at many members. Call
 * it again and again, until it returns what pool_take may return, and POOL_NO_POOL; `position` as
 * there. The caller serves other clients in between.
 */
enum pool_status pool_take_on(struct pool_client *client, const struct pool_reader *reader,
                              uint64_t position, struct moment now,
                              struct pool_outbox *outbox) MUST_USE;
/* How much of its timeout is left. */
int64_t pool_wait_left(const struct pool_client *client, struct moment now);

/*
 * Ends the client's wait. Returns true when it has ended; false when it had ended before and the
 * caller must read the client, which may then wait again. `timed_out`: for the counts.
 */
bool pool_end_wait(struct pool_client *client, bool timed_out, struct moment now,
                   struct pool_outbox *outbox) MUST_USE;

/* Gives back the member of the hold with this fence, or with `fence` 0 of the newest hold. POOL_OK,
 * POOL_GONE or POOL_NOT_TAKEN. */
enum pool_status pool_return(struct pool_client *client, uint64_t fence, bool ok, struct moment now,
                             struct pool_outbox *outbox) MUST_USE;

/* ---- members --------------------------------------------------------------------------------- */

/* A new member. */
struct pool_new_member {
    struct bytes pool, name;
    struct bytes value; /* data NULL: none */
    const struct pool_attribute *attributes;
    size_t attribute_count;
    bool down;         /* of the file: begins as down */
    struct bytes note; /* the same; empty: none */
};

/* Declares a member of a static pool: OK, NO_POOL, WRONG_KIND, EXISTS, FULL, NO_MEMORY. */
enum pool_status pool_member_add(struct pools *pools, const struct pool_new_member *member,
                                 struct moment now, struct pool_outbox *outbox) MUST_USE;

/* Registers a member that lives as long as the client: as above. */
enum pool_status pool_join(struct pool_client *client, const struct pool_new_member *member,
                           struct moment now, struct pool_outbox *outbox) MUST_USE;

struct pool_member_change {
    struct bytes pool, name;
    const struct pool_attribute *attributes; /* an empty value removes the attribute */
    size_t attribute_count;
    bool sets_value, sets_note, sets_state;
    struct bytes value, note;
    enum pool_state state; /* FREE, DIRTY, DOWN; MEMBER_GONE: the word was none of these */
    bool now;              /* also of a held member at once */
};

/* Changes a member: OK, NO_POOL, NO_MEMBER, BAD_STATE, TOO_MANY, NO_MEMORY. */
enum pool_status pool_member_set(struct pools *pools, const struct pool_member_change *change,
                                 struct moment now, struct pool_outbox *outbox) MUST_USE;

/*
 * Takes a member out: OK, NO_POOL, NO_MEMBER; DENIED if only members of `by` may be dropped
 * (`own_only`) and it is another's. `by` is the client of the connection that asks; NULL: it has
 * none.
 */
enum pool_status pool_member_drop(struct pools *pools, struct pool_client *by, bool own_only,
                                  struct bytes pool, struct bytes name, bool at_once,
                                  struct moment now, struct pool_outbox *outbox) MUST_USE;

/* ---- pools ----------------------------------------------------------------------------------- */

/*
 * Adds a pool: OK, EXISTS, TOO_MANY, NO_MEMORY. `of_file`: the configuration declares it. Copies
 * the options.
 */
enum pool_status pool_add(struct pools *pools, struct bytes name,
                          const struct pool_options *options, bool of_file, struct moment now,
                          struct pool_outbox *outbox) MUST_USE;

/* Copies the options of a pool, without a group: the caller sets `group` to its copy. OK or
 * NO_POOL. `group_r` has POOL_NAME_MAX + 1 bytes. */
enum pool_status pool_get_options(struct pools *pools, struct bytes name,
                                  struct pool_options *options_r, char *group_r,
                                  bool *of_file_r) MUST_USE;

/* Changes all options of a pool, but its kind: OK, NO_POOL, WRONG_KIND, NO_MEMORY. `of_file`: it is
 * as the configuration says, and is not dropped any more if it was; watchers are told only if that
 * changes something; EXISTS if it was made by a verb. */
enum pool_status pool_set(struct pools *pools, struct bytes name,
                          const struct pool_options *options, bool of_file, struct moment now,
                          struct pool_outbox *outbox) MUST_USE;

/* Drops a pool: OK, NO_POOL. */
enum pool_status pool_drop(struct pools *pools, struct bytes name, bool at_once, struct moment now,
                           struct pool_outbox *outbox) MUST_USE;

/* The number of changes that pool_declare has made. */
struct pool_changes {
    uint32_t added, dropped, put_back;
    uint32_t left_out; /* not added: others are still there, and more would be too many */
};

/*
 * Makes the members of a static pool those of the configuration, which are in the order of their
 * names: adds new ones, drops others gracefully, keeps those that were being dropped. Values and
 * attributes are then as declared. OK, NO_POOL, NO_MEMORY (some changes were made then).
 */
enum pool_status pool_declare(struct pools *pools, struct bytes name,
                              const struct pool_new_member *members, size_t count,
                              struct pool_changes *changes_r, struct moment now,
                              struct pool_outbox *outbox) MUST_USE;

/* ---- SUPPLY and WATCH ------------------------------------------------------------------------ */

/* The client can run `init` to `max` members; 0 and 0: none. OK, NO_POOL, WRONG_KIND, NO_MEMORY. */
enum pool_status pool_supply(struct pool_client *client, struct bytes name, uint32_t init,
                             uint32_t max, struct moment now, struct pool_outbox *outbox) MUST_USE;

/* The client watches a pool, or all (name "*"). OK, NO_POOL, TOO_MANY, NO_MEMORY. */
enum pool_status pool_watch(struct pool_client *client, struct bytes name, bool mine) MUST_USE;

/* ---- LIST and SHOW, metrics ------------------------------------------------------------------ */

/* Counts since the start, in the order of a record. */
struct pool_totals {
    uint64_t late;        /* holds past hold_warn */
    uint64_t late_starts; /* times that a supplier was late (start_timeout) */
    uint64_t takes[POOL_FOR_COUNT][POOL_TAKES_COUNT];
    uint64_t moves[POOL_WHY_COUNT];
};

struct pool_entry {
    struct bytes name;
    const struct pool_options *options;
    bool draining, of_file;
    uint32_t members, states[MEMBER_STATES];
    uint32_t waiting; /* for use; so are oldest_wait_ns and all counts of waits below */
    uint32_t want;    /* of a joined pool */
    uint32_t suppliers;
    int64_t oldest_wait_ns, longest_hold_ns; /* how long; -1: none */
    uint64_t late;                           /* holds past hold_warn, since the start */
    uint64_t late_starts; /* times that a supplier was late (start_timeout), since the start */
};

struct pool_member_entry {
    struct bytes name;
    enum pool_state state;
    int64_t since_ns;
    uint64_t fence;           /* 0: not held */
    uint64_t holder;          /* tag, if held */
    const void *holder_owner; /* the same */
    uint64_t takes, fails;
    const char *then; /* what becomes of it when its hold ends; NULL: nothing special */
    struct bytes by, note;
    const struct pool_attribute *attributes;
    size_t attribute_count;
    uint64_t joined_by; /* tag; 0: static */
};

struct pool_waiter_entry {
    uint64_t seq;    /* its age */
    uint64_t client; /* tag */
    const void *owner;
    int64_t since_ns, timeout_ns;
    uint32_t count;
    enum pool_for what;
    struct bytes member, by; /* empty: none */
    const struct pool_attribute *with;
    size_t with_count;
};

struct pool_supplier_entry {
    uint64_t client; /* tag */
    const void *owner;
    uint32_t init, max, members, want;
    bool late;
};

/*
 * These show items in order, beginning after `after` (empty, or 0: at the start), at most `budget`,
 * until `visit` returns false (that item was not taken). They return true when all were shown.
 * Pools are shown by name, and only those whose name begins with `prefix`; members by name; waiters
 * by age. pool_show_*: *found_r is false if there is no such pool. pool_show_suppliers has no
 * budget: its visitor ends it.
 */
bool pools_list(struct pools *pools, struct bytes prefix, struct bytes after, unsigned budget,
                bool (*visit)(void *arg, const struct pool_entry *entry), void *arg,
                struct moment now);
bool pool_show(struct pools *pools, struct bytes name,
               void (*visit)(void *arg, const struct pool_entry *entry), void *arg,
               struct moment now);
bool pool_show_members(struct pools *pools, struct bytes name, struct bytes after, unsigned budget,
                       bool (*visit)(void *arg, const struct pool_member_entry *entry), void *arg);
bool pool_show_waiters(struct pools *pools, struct bytes name, uint64_t after, unsigned budget,
                       bool (*visit)(void *arg, const struct pool_waiter_entry *entry), void *arg);
void pool_show_suppliers(struct pools *pools, struct bytes name,
                         bool (*visit)(void *arg, const struct pool_supplier_entry *entry),
                         void *arg);

/* Counts of one pool, for metrics. */
struct pool_counts {
    struct bytes name; /* valid during the visit */
    bool joined;
    uint32_t states[MEMBER_STATES], waiting, want;
    struct pool_totals totals;
    struct buckets_sum waits, holds;
};
/* Visits all pools by name; takes the lock for each anew. */
void pools_count(struct pools *pools, void (*visit)(void *arg, const struct pool_counts *counts),
                 void *arg);

/* Sums over all pools. Any thread, which holds no lock; takes the pools'. */
struct pools_sums {
    uint64_t pools, members, held, waiting;
    /* Members, waits and suppliers that were visited under the lock, and events that were told; and
     * the most at a time. */
    uint64_t visited, visited_most;
};
void pools_sums(struct pools *pools, struct pools_sums *sums_r);

/* ---- upgrades (base/record.md): no other thread runs ----------------------------------------- */

/* A section of all pools: pool_save.c has the format. */
#define POOLS_STATE UINT32_C(0x0501)

void pools_save(const struct pools *pools, struct moment now, struct record_writer *w);
/* Reads that section into new pools. Returns false when it has failed. */
bool pools_restore(struct pools *pools, struct moment now, struct record_reader *r) MUST_USE;
/* Writes what names this client in the section; reads it, and takes the client over for a restored
 * connection. NULL: failed. */
void pool_client_save(const struct pool_client *client, struct record_writer *w,
                      int64_t (*position)(void *owner, uint64_t position));
struct pool_client *pool_client_restore(struct pools *pools, uint32_t id, uint64_t tag, void *owner,
                                        struct record_reader *r,
                                        uint64_t (*position)(void *owner, int64_t saved)) MUST_USE;
/* Call it when all connections and the table are restored. Returns false when something is missing;
 * `r` has the reason. */
bool pools_restore_done(struct pools *pools, struct moment now, struct pool_outbox *outbox,
                        struct record_reader *r) MUST_USE;

/*
 * After a restore: makes the pools of the configuration, which are in `from`, in `to`; drops others
 * that an earlier configuration had. Returns false if some could not be changed: no memory, or a
 * pool is of another kind or was made by a verb.
 */
bool pools_adopt(struct pools *to, struct pools *from, struct moment now,
                 struct pool_outbox *outbox) MUST_USE;

#endif
