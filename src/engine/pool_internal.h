/*
 * pool_internal.h - the inside of the pools, shared by pool*.c only.
 *
 *     pool.c         calls, pools and members
 *     pool_parts.c   words, memory, the parts, names and options of pools and members
 *     pool_move.c    the moves of members: the table of states
 *     pool_change.c  MEMBER and POOL: what operators change
 *     pool_take.c    TAKE: a new request, and one that goes on in steps
 *     pool_wait.c    waits: their places in lines, and how they end
 *     pool_serve.c   which member goes to which wait
 *     pool_fit.c     what choosy waits know of their pool: candidates, and what they close
 *     pool_hold.c    holds and how they end; RETURN; units of `pool:NAME`
 *     pool_supply.c  JOIN and SUPPLY: how many members are wanted, from which suppliers; STOP
 *     pool_time.c    what is due at a certain time
 *     pool_client.c  clients: their messages and ends; WATCH
 *     pool_show.c    LIST, SHOW, metrics
 *     pool_save.c    upgrades: writes the record; pool_restore.c reads it
 *
 * One lock covers everything here; functions without another word in their comment need it held.
 */
#ifndef ENGINE_POOL_INTERNAL_H
#define ENGINE_POOL_INTERNAL_H

#include "base/deadlines.h"
#include "base/lock.h"
#include "base/ring.h"
#include "base/tree.h"
#include "engine/pool.h"

/* container_of, also for a pointer to const: the lock covers all of it. item_or_null: NULL for
 * NULL.
 */
#define item_of(ptr, type, member) container_of(unconst(ptr), type, member)
#define item_or_null(ptr, type, member)                                                            \
    ({                                                                                             \
        const void *at_ = (ptr);                                                                   \
        at_ ? item_of(at_, type, member) : NULL;                                                   \
    })

/* clang-format off */
/* for (EACH(struct pool_hold, hold, &pool->held, of_pool)): all items of a ring. EACH_NODE: of a
 * tree. The body removes none. */
#define EACH(type, item, list, link)                                                               \
    type *item = item_of((list)->next, type, link); &(item)->link != (list);                       \
    item = item_of((item)->link.next, type, link)
#define EACH_NODE(type, item, tree, node)                                                          \
    type *item = item_or_null(tree_first(tree), type, node); item;                                 \
    item = item_or_null(tree_next(&(item)->node), type, node)
/* clang-format on */
/* The first item of a ring, and the one after another; NULL: none. */
#define first_of(type, list, link)      item_or_null(ring_first(list), type, link)
#define next_of(type, list, item, link) item_or_null(ring_after(list, &(item)->link), type, link)

/* ---- parts ----------------------------------------------------------------------------------- */

/* A member's attributes, or those that a waiter asks for: one piece of memory. */
struct pool_attributes {
    size_t count;
    struct pool_attribute at[POOL_ATTRIBUTES_MAX];
    uint8_t text[];
};

/* Bytes that somebody owns: a value, a note. NULL: none. */
struct pool_text {
    size_t len;
    uint8_t data[];
};

static inline struct bytes pool_text_bytes(const struct pool_text *text)
{
    return text ? bytes_at(text->data, text->len) : bytes_at(NULL, 0);
}

/* A pool or a member in a tree, by name. */
struct pool_named {
    struct tree_node node; /* first */
    struct bytes name;
};

/* What a client asks for. */
struct pool_need {
    uint64_t seq; /* its age: smaller is older. UINT64_MAX: new */
    uint32_t count;
    enum pool_for what;
    struct bytes member; /* len 0: any */
    const struct pool_attribute *with;
    size_t with_count;
};

/* What is in store for a held member: the first of these that is set happens when its hold ends. */
enum pool_then {
    THEN_DROP = 1,     /* it goes, or stops */
    THEN_LIFETIME = 2, /* it stops */
    THEN_SHRINK = 4,   /* it stops */
    THEN_STATE = 8,    /* it gets member->then_state */
    THEN_DOOMED = THEN_DROP | THEN_LIFETIME | THEN_SHRINK,
};

/* The place of a free or a dirty member: smaller comes first. `seq` says when it got there. */
struct pool_rank {
    uint64_t key, seq;
};

/* ---- members and holds ----------------------------------------------------------------------- */

struct pool_member {
    struct pool *pool; /* counted in its `refs` */
    struct pool_named by_name;
    struct tree_node place;       /* FREE: in pool->free; DIRTY: in pool->dirty */
    struct tree_node check_place; /* in pool->checks; see pool_serve.c */
    struct ring link;             /* STOPPING: in pool->stopping, by since_ns */
    enum pool_state state;
    enum pool_state then_state; /* with THEN_STATE */
    unsigned then;              /* enum pool_then; 0 unless held */
    uint32_t clean_failures;    /* in a row */
    int64_t since_ns;           /* of its state */
    int64_t idle_ns;            /* when it became free, but for checks */
    struct pool_rank rank;
    uint64_t checked_seq; /* when it was last checked: smaller is earlier */
    uint64_t takes, fails;
    struct pool_hold *hold;    /* while held */
    struct pool_place *closer; /* ready: the oldest wait that closes it to others; NULL: none */
    uint32_t candidate_of;     /* ready: how many choosy waits have it as a candidate */

    struct pool_supplier *joined; /* who registered it; NULL: static */
    struct ring joined_link;      /* in joined->list */
    struct ring stop_link;        /* in client->stops: its STOP was not told yet */
    enum pool_why stop_why;
    struct deadline lifetime; /* in pool->lifetimes */
    int64_t joined_ns;
    double jitter; /* -1 to 1: the part of lifetime_jitter that is added */

    struct pool_text *value, *note;     /* NULL: none */
    struct pool_attributes *attributes; /* NULL: none */
    uint8_t name[];
};

/* A member in the hands of a client. It is made when the client asks, so that handing over needs no
 * memory. */
struct pool_hold {
    struct pool_client *client;
    struct pool_member *member; /* NULL: taken away, and the client does not know yet */
    struct ring of_client;      /* in client->holds; before it is told: in waiter->holds */
    struct ring of_pool;        /* in pool->held, by since_ns */
    struct ring uncounted_link; /* in pool->uncounted: it has no unit of the counter yet */
    struct holding *unit;       /* its unit of `pool:NAME`; NULL: none */
    uint64_t fence;
    int64_t since_ns;
    uint64_t position; /* of its TAKEN line in the client's output */
    enum pool_for what;
    bool told;   /* it is in client->holds: its TAKEN line is in the output */
    bool warned; /* it is older than hold_warn, and that was said */
    /* Of the member before the hold, for `undone` and `checked`. */
    struct pool_rank rank;
    int64_t before_ns, idle_ns;
    size_t by_len;
    uint8_t by[];
};

static inline bool pool_is_held(const struct pool_member *m)
{
    return m->state >= MEMBER_TAKEN && m->state <= MEMBER_CHECKING;
}

/* True if a member could ever serve: it is not out of service, and will not go. */
static inline bool pool_is_usable(const struct pool_member *m)
{
    return m->state != MEMBER_GONE && m->state != MEMBER_DOWN && m->state != MEMBER_STOPPING &&
           !(m->then & THEN_DOOMED);
}

static inline struct bytes pool_member_name(const struct pool_member *m)
{
    return m->by_name.name;
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Classes of waits in one pool. */
enum pool_class {
    CLASS_PLAIN, /* for one member, whichever */
    CLASS_NAMED, /* for one member by name; without attributes */
    CLASS_CHOOSY /* all others, and what looks in steps */
};

/* The lines of a pool: of waits for use, and of those for checks and cleaning, which may wait for
 * work and are no queue. */
enum pool_line { LINE_USE, LINE_OTHER, POOL_LINES };

static inline enum pool_line pool_line_of(enum pool_for what)
{
    return what == POOL_FOR_USE ? LINE_USE : LINE_OTHER;
}

/* How far a choosy place has looked at its pool (pool_fit.c). */
enum pool_stage { STAGE_NEW, STAGE_LOOKS, STAGE_DONE };

/* A wait in one pool. */
struct pool_place {
    struct pool_waiter *waiter;
    struct pool *pool;         /* counted in its `refs`; NULL: left for good */
    struct tree_node by_age;   /* in one of pool->lines, while in line */
    struct tree_node by_class; /* in pool->classes, unless it is choosy */
    struct ring of_retries;    /* in pool->retries */
    struct holding *unit;      /* reserved */
    uint32_t overtaken;        /* how often a younger one got a member that it could use */
    bool guest;                /* only looks: it leaves when it has looked at all */

    /* Of a choosy one (pool_fit.c). */
    struct ring of_choosy;           /* in pool->choosy, while in line */
    struct pool_member **candidates; /* room for need.count */
    uint32_t candidate_count;
    bool more;   /* there may be others, for which there was no room */
    bool stale;  /* the same, and there is room now: it looks again */
    bool closes; /* it is `closer` of its candidates */
    enum pool_stage looks, counts;
    struct pool_member *next;    /* STAGE_LOOKS: what it looks at next, among the ready ones */
    uint64_t began;              /* the same: the youngest age when it began, */
    uint32_t left;               /* and how many older free ones it has not met. POOL_FOR_USE */
    struct pool_member *next_by; /* STAGE_LOOKS of `counts`: by name, among all */
    uint32_t ready;              /* how many ready ones it has met */
    uint32_t population;         /* how many it could use at all, of those that it has met */
};

enum pool_wait_state { WAIT_IN_LINE, WAIT_SERVED, WAIT_REFUSED };

struct pool_waiter {
    struct pool_client *client;
    struct pool_need need; /* points to `member` and `with` */
    enum pool_wait_state state;
    enum pool_status refused; /* WAIT_REFUSED: why */
    enum pool_class class;
    bool asking;   /* its pools are looked at in steps, and the client was not answered yet */
    bool choosing; /* the same, and it takes the pool that has most */
    int64_t since_ns, timeout_ns;
    struct pool_text *member;
    struct pool_attributes *with;
    struct ring holds; /* need.count of them: empty ones, or what it was served */
    uint32_t in_line;  /* places in line */
    size_t place_count, room;
    struct pool_place places[]; /* `room`; behind them, room for the candidates of each */
};

/* ---- clients --------------------------------------------------------------------------------- */

/* What a client has to do with a joined pool: it supplies it, or has joined members. */
struct pool_supplier {
    struct pool_client *client;
    struct pool *pool; /* counted in its `refs` */
    uint64_t seq;      /* since when it supplies, or has joined: smaller is older */
    struct ring of_client;
    struct ring of_pool; /* in pool->suppliers, or in pool->joiners */
    uint32_t init, max;  /* 0 and 0: it does not supply */
    uint32_t members;    /* that it has joined, without stopping ones */
    struct ring list;    /* all that it has joined */
    uint32_t want;       /* it should have so many */
    uint32_t was;        /* `want` before this call, while its pool is in `shared` */
    uint32_t told;       /* what it was told last; UINT32_MAX: nothing */
    int64_t short_ns;    /* since when it has fewer than `want`; INT64_MAX: it has not */
    bool late;           /* for longer than start_timeout */
    bool ending;         /* its client ends */
};

struct pool_watch {
    struct pool_client *client;
    struct pool *pool; /* NULL: all */
    bool mine;
    struct ring of_client;
    struct ring of_pool; /* in `watches` or `mine` of its pool, or of all pools */
};

struct pool_client {
    struct message message;    /* first */
    struct pools *pools;       /* constant */
    struct ring of_pools;      /* in pools->clients, or in pools->leaving */
    struct holder unit_holder; /* has its units of the counters `pool:NAME` */
    void *owner;               /* constant */
    uint64_t number;           /* names it in a record; constant */
    bool posted;               /* its message is on its way */
    bool ended;                /* its connection has ended: what it has joined is not handed out, */
    bool leaving;              /* and still leaves, in steps: it is in pools->leaving */
    enum pool_why leaves;      /* the same: LEAVE or LOST */
    bool has_events;           /* there are events that it was not told of */
    uint64_t event_seen;       /* number of the last event that it noted */
    struct ring holds;         /* oldest first; also those taken away */
    uint32_t hold_count;
    struct pool_hold *spare;    /* an unused one without `by`, so that most TAKEs need no memory */
    struct pool_waiter *waiter; /* NULL: does not wait */
    struct ring suppliers, watches;
    struct ring stops; /* members whose STOP it was not told yet */
    bool counted;      /* in pools->watchers: it watches not only `mine` */
};

/* ---- pools ----------------------------------------------------------------------------------- */

struct pool {
    struct pools *pools;
    uint32_t refs; /* 1 while it exists, and those that point here */
    struct pool_named by_name;
    struct ring of_group; /* in pools->grouped, if it has a group */
    struct pool_options options;
    bool of_file, draining;
    bool gone;  /* no longer listed; only what points here keeps it */
    bool timed; /* it has options that need the deadline */
    struct deadline deadline;

    struct tree members;             /* by name */
    struct tree free, dirty, checks; /* see pool_serve.c */
    struct ring held, stopping, uncounted;
    struct pool_hold *unwarned; /* the first of `held` that was not warned of; NULL: none */
    struct deadlines lifetimes;
    uint32_t member_count, states[MEMBER_STATES];
    uint32_t doomed;    /* held ones that go or stop when their holds end */
    uint32_t shrinking; /* of these, how many have THEN_SHRINK */

    struct tree lines[POOL_LINES]; /* struct pool_place, by age */
    /* The same, but for choosy ones: by age; and CLASS_NAMED by member and age. */
    struct tree classes[POOL_FOR_COUNT][CLASS_CHOOSY];
    struct ring choosy; /* choosy ones, by age */
    uint32_t choosy_count;
    uint32_t waiting[POOL_LINES]; /* without guests */
    uint32_t awaited;             /* members that are waited for, for use */
    uint32_t closed;              /* ready members that have a `closer` */
    struct ring retries;          /* places for a member by name that may fit now */

    /* Work for the end of the call (pool_leave). */
    struct ring touched;
    bool unsettled; /* what choosy waits know of the pool has to be looked at (pool_fit_settle) */
    bool to_serve, to_share;
    bool steps; /* this call makes a step: those look on that have begun to */
    bool looks; /* a wait that nobody asks for goes on looking, in the next run of the timer */
    struct ring shared; /* in pools->shared: what was wanted of suppliers may change in this call */

    uint32_t leaving;      /* suppliers that have ended, and whose members still leave */
    struct ring suppliers; /* those that supply */
    struct ring joiners;   /* others, that have joined members */
    struct ring watches, mine;
    uint32_t supplier_count;
    uint64_t init_sum, max_sum; /* of the suppliers */
    int64_t short_ns;           /* the earliest of those that are not late */
    int64_t share_ns;           /* with many suppliers: when it may share again, */
    bool share_due;             /* and that it has to */
    uint32_t want;
    uint32_t unsupplied; /* members, without stopping ones, of clients that do not supply */
    int64_t cull_ns;     /* when to look for members to cull */

    struct pool_totals totals;
    struct buckets waits, hold_times;

    uint64_t counter_hash;
    uint8_t counter[]; /* "pool:NAME" */
};

#define POOL_PREFIX "pool:"

static inline struct bytes pool_name(const struct pool *pool)
{
    return pool->by_name.name;
}

static inline struct bytes pool_counter(const struct pool *pool)
{
    return bytes_at(pool->counter, sizeof(POOL_PREFIX) - 1 + pool_name(pool).len);
}

static inline bool pool_is_joined(const struct pool *pool)
{
    return pool->options.kind == POOL_JOINED;
}

struct pools {
    struct lock lock;
    struct pools_config config;
    struct tree by_name;
    struct ring grouped, clients, leaving, watches, mine, touched, shared;
    uint32_t watchers;
    uint64_t fence, seq, event, client_number;
    uint64_t random;
    uint32_t visits;     /* entries visited, and events told, under this hold of the lock, */
    uint32_t visits_max; /* and how many may be */
    struct deadlines deadlines;
    _Atomic int64_t next_ns;
    struct pools_sums sums;

    struct pool_client **restored; /* by number: clients of a record, until restore_done */
    size_t restored_count;

    struct pool_outbox *outbox; /* of the current call */
    struct moment now;          /* the same; it never goes back */
};

/* ---- pool_parts.c ---------------------------------------------------------------------------- */

/* Allocates zeroed memory that counts against the memory limit. NULL: there is none. */
void *pool_alloc(struct pools *pools, size_t size) MUST_USE;
void pool_free(struct pools *pools, void *at);
/* Copies bytes; NULL for none. Returns false without memory. */
bool pool_text_new(struct pools *pools, struct bytes bytes, struct pool_text **text_r) MUST_USE;
/* Copies attributes, also those with an empty value; NULL for none. Returns false without memory.
 */
bool pool_attributes_copy(struct pools *pools, const struct pool_attribute *from, size_t count,
                          struct pool_attributes **copy_r) MUST_USE;
/* Gives a member the value, note and attributes that a change sets; `anew`: these are all its
 * attributes then. TOO_MANY or NO_MEMORY: nothing has changed. */
enum pool_status pool_set_parts(struct pool_member *m, const struct pool_member_change *change,
                                bool anew) MUST_USE;

/* Orders pools, or members, by name. */
int pool_compare_named(const struct tree_node *a, const struct tree_node *b);
/* The first pool, or member, that does not come before `name`; `after`: that comes after it. NULL:
 * none. */
struct tree_node *pool_named_from(const struct tree *tree, struct bytes name, bool after);

/* The numbers and the times of options, in the order of a record. */
#define POOL_NUMBERS 11
#define POOL_TIMES   8
uint32_t *pool_number_of(struct pool_options *options, size_t i);
int64_t *pool_time_of(struct pool_options *options, size_t i);
/* Returns true if a pool has all these options, its group among them. */
bool pool_has_options(const struct pool *pool, const struct pool_options *options);

/* A random number, for choices that need not be secret. */
uint64_t pool_random(struct pools *pools);

/* ---- pool.c ---------------------------------------------------------------------------------- */

/* Takes the lock for a call that changes something. pool_leave does the work that pool_touch has
 * noted, and releases it. */
void pool_enter(struct pools *pools, struct moment now, struct pool_outbox *outbox);
void pool_leave(struct pools *pools);

/* How many members, waits and suppliers a call may visit under one hold of the lock. */
#define POOL_VISITS_MAX 1000

/* Counts a visit. Returns false, counting nothing, if this call must visit no more: a later step
 * does the rest. */
static inline bool pool_visit(struct pools *pools)
{
    if (pools->visits >= pools->visits_max)
        return false;
    pools->visits++;
    return true;
}

/* Sets the time of a call. Threads read the clock at different times, but lists are kept by time:
 * so it never goes back. */
static inline void pool_set_now(struct pools *pools, struct moment now)
{
    if (now.mono_ns < pools->now.mono_ns)
        now.mono_ns = pools->now.mono_ns;
    pools->now = now;
}

/* A step of the clients in pools->leaving. */
void pool_clients_leave(struct pools *pools);
/* Does the work that pool_leave does, and lets others have the lock. Before a call has changed
 * anything. */
void pool_let_others(struct pools *pools);

/* As pool_find, but first lets the members of clients that have ended leave the pool, in steps
 * between which others have the lock. Before a call has changed anything. */
struct pool *pool_find_whole(struct pools *pools, struct bytes name);
/* Finds a pool, also one that is being dropped, or a member; NULL: none. */
struct pool *pool_find(struct pools *pools, struct bytes name);
struct pool_member *pool_find_member(struct pool *pool, struct bytes name);

/* Makes the pool's own copy of a group's name; NULL for NULL. Returns false without memory. */
bool pool_copy_group(struct pools *pools, const char *group, char **copy_r) MUST_USE;

/* Adds a member to a pool, in no state yet: EXISTS, FULL or NO_MEMORY. */
enum pool_status pool_make_member(struct pool *pool, const struct pool_new_member *new,
                                  struct pool_member **member_r) MUST_USE;

/* Frees a member that has gone and whose STOP was told. */
void pool_member_free(struct pool_member *m);
static inline void pool_ref(struct pool *pool)
{
    pool->refs++;
}
void pool_unref(struct pool *pool);
/* Removes a pool that is being dropped and has no members any more. */
void pool_end_if_empty(struct pool *pool);

/* Notes that pool_leave has work to do for this pool, or has to set its timer. */
void pool_touch(struct pool *pool);
/* Members may be to be culled at this time. */
static inline void pool_cull_later(struct pool *pool, int64_t at_ns)
{
    if (pool->cull_ns > at_ns)
        pool->cull_ns = at_ns;
}
static inline void pool_serve_later(struct pool *pool)
{
    pool->to_serve = true;
    pool_touch(pool);
}
static inline void pool_share_later(struct pool *pool)
{
    pool->to_share = true;
    pool_touch(pool);
}

/* ---- pool_move.c ----------------------------------------------------------------------------- */

/*
 * Moves a member: the one place that changes its state. Counts it, tells watchers, and keeps the
 * lists. A member that becomes free or dirty gets a new rank, unless `same_place`. The caller
 * serves waiters. A member that has gone may be freed on return. `hold`: that begins or has ended;
 * NULL: none.
 */
void pool_move(struct pool_member *m, enum pool_state to, enum pool_why why, bool same_place,
               const struct pool_hold *hold);

/* Sets member->then, and counts what goes or stops. */
void pool_set_then(struct pool_member *m, unsigned then);

static inline void pool_unset_then(struct pool_member *m, enum pool_then then)
{
    if (m->then & then)
        pool_set_then(m, m->then & ~(unsigned)then);
}

/* Puts a restored member into a state, without counting a move. */
void pool_member_restored(struct pool_member *m, enum pool_state state, int64_t since_ns);

/* The state of a member that is held for this. */
enum pool_state pool_state_for(enum pool_for what);

/* The rank of a member that got to its place at `seq`, when it had been taken so often. */
struct pool_rank pool_rank_of(const struct pool_member *m, uint64_t takes, uint64_t seq);

/* A member goes, or stops, because it is dropped, ends its lifetime and so on. It is not held. */
void pool_member_out(struct pool_member *m, enum pool_why why);

/* ---- pool_serve.c ---------------------------------------------------------------------------- */

/* Serves the waiters that a member which has just become free or dirty fits. */
void pool_serve_member(struct pool_member *m);
/* Serves all waiters of the pool that fit. */
void pool_serve(struct pool *pool);
/* Serves a waiter if it fits. *through_r is false if that is not known: it had to end before. */
bool pool_try_serve(struct pool_place *place, bool *through_r);
/* Gives a ready member to a request: as pool_hold_begin, and counts what it has overtaken. */
void pool_hand_out(struct pool_hold *hold, struct pool_member *m, const struct pool_need *need,
                   struct holding *unit, bool add);
/* Counts a request that was served. */
void pool_count_taken(struct pool *pool, enum pool_for what);
/* Finds up to `max` members in this pool that the request may have now, in the order in which they
 * are given out. Returns false if it had to end before it had looked at all. */
bool pool_find_ready(struct pool *pool, const struct pool_need *need, uint32_t max,
                     struct pool_member **found, uint32_t *count_r) MUST_USE;
/* Counts the members that a new request may have now. Returns false if it had to end before. */
bool pool_count_ready(struct pool *pool, const struct pool_need *need, uint32_t *count_r) MUST_USE;
/* Walks over the members that a request may be served from, in the order in which they are handed
 * out; those in `checks` need not be free. NULL: no more. */
struct pool_member *pool_first_in_order(const struct pool *pool, enum pool_for what);
struct pool_member *pool_next_in_order(const struct pool_member *m, enum pool_for what);
/* Adds a member to `checks`, or removes it. */
void pool_checks_add(struct pool_member *m);
void pool_checks_remove(struct pool_member *m);
/* True if a member is in the state that a request needs, and may be handed out. */
bool pool_is_ready(const struct pool_member *m, enum pool_for what);
/* True if an older wait has closed this ready member to the request. */
bool pool_is_closed(const struct pool_member *m, const struct pool_need *need);
/* A ready member may fit a wait that it did not fit before: looks at that at the end of the call.
 */
void pool_retry_member(struct pool_member *m);
bool pool_matches(const struct pool_need *need, const struct pool_member *m);
/* Orders waits of one class. */
int pool_compare_places(const struct tree_node *a, const struct tree_node *b);

/* ---- pool_wait.c ----------------------------------------------------------------------------- */

/* What a new request asks for. */
static inline struct pool_need pool_need_of(const struct pool_take *take)
{
    return (struct pool_need){.seq = UINT64_MAX,
                              .count = take->count,
                              .what = take->what,
                              .member = take->member,
                              .with = take->with,
                              .with_count = take->with_count};
}

enum pool_class pool_class_of(const struct pool_need *need);
/* Makes a waiter with room for so many places; it is in no line yet. NULL: no memory. */
struct pool_waiter *pool_waiter_new(struct pool_client *client, const struct pool_take *take,
                                    size_t rooms) MUST_USE;
void pool_waiter_free(struct pool_waiter *waiter);
/* Adds a place. */
struct pool_place *pool_waiter_add(struct pool_waiter *waiter, struct pool *pool);
/* Reserves the units of all places. Returns false without memory. */
bool pool_waiter_reserve(struct pool_waiter *waiter) MUST_USE;
/* The place after another (NULL: the first), of those that it has not left for good; NULL: none. */
static inline struct pool_place *pool_next_place(struct pool_waiter *waiter,
                                                 struct pool_place *place)
{
    const struct pool_place *end = waiter->places + waiter->place_count;
    place = place ? place + 1 : waiter->places;
    while (place < end && !place->pool)
        place++;
    return place < end ? place : NULL;
}
/* clang-format off */
#define EACH_PLACE(place, waiter)                                                                  \
    struct pool_place *place = pool_next_place(waiter, NULL); place;                               \
    place = pool_next_place(waiter, place)
/* clang-format on */
/* Adds a wait to its lines, or takes it out of them. */
void pool_wait_in_line(struct pool_waiter *waiter);
void pool_wait_leave_lines(struct pool_waiter *waiter);
/* A member that the waiter was served, and not told of yet, was taken away: it waits again. */
void pool_wait_again(struct pool_waiter *waiter);
/* Ends a client's wait, in whatever state it is. Members that it was served are as before. */
void pool_wait_drop(struct pool_client *client);
/* Counts a wait that ends because its time is over. */
void pool_count_timed_out(struct pool_waiter *waiter);
/* Refuses the waiters of a pool: the newest until no more than `max` are left, and as many for
 * checks and cleaning. */
void pool_refuse(struct pool *pool, uint32_t max, enum pool_status why);
/* Refuses a waiter in one pool. */
void pool_refuse_place(struct pool_place *place, enum pool_status why);

/* ---- pool_fit.c ------------------------------------------------------------------------------ */

/* How many choosy waits a pool has room for. */
#define POOL_CHOOSY_MAX 64

/* A choosy place enters its line, or leaves it. */
void pool_fit_enter(struct pool_place *place);
void pool_fit_leave(struct pool_place *place);
/* A member has become free or dirty, or will not be so any more. */
void pool_fit_add(struct pool_member *m);
void pool_fit_remove(struct pool_member *m);
/* A member leaves its order: no place goes on from it. `by_name`: it leaves the pool. */
void pool_fit_skip(struct pool_member *m, bool by_name);
/* A member can be used from now on (1), or cannot any more (-1). */
void pool_fit_usable(struct pool_member *m, int more);
/* A member gets other attributes: call it before and after. */
void pool_fit_unmatch(struct pool_member *m);
void pool_fit_match(struct pool_member *m);
/* How many members are wanted, or what closes, has changed: looks at it at the end of the call. */
static inline void pool_fit_later(struct pool *pool)
{
    if (ring_is_empty(&pool->choosy))
        return;
    pool->unsettled = true;
    pool_touch(pool);
}
/* All choosy places look at their pool anew: an order has changed. */
void pool_fit_anew(struct pool *pool);
/* Brings what choosy places know up to date, as far as this call may go. */
void pool_fit_settle_now(struct pool *pool);
static inline void pool_fit_settle(struct pool *pool)
{
    if (unlikely(pool->unsettled))
        pool_fit_settle_now(pool);
}
/* A step: the places that are not through look on, oldest first. */
void pool_fit_step(struct pool *pool);
/* True if a choosy place fits now. Puts its candidates in order then. */
bool pool_fits(struct pool_place *place);
/* True if a wait can be overtaken. */
static inline bool pool_can_be_passed(const struct pool_waiter *w)
{
    return w->need.count > 1 && w->need.what != POOL_FOR_CHECK;
}
/* for (EACH_CHOOSY(p, pool)): the choosy places of a pool, oldest first. */
#define EACH_CHOOSY(p, pool) EACH(struct pool_place, p, &(pool)->choosy, of_choosy)

/* ---- pool_hold.c ----------------------------------------------------------------------------- */

/* How a hold ends. */
enum pool_hold_end { HOLD_OK, HOLD_QUIT, HOLD_FAIL, HOLD_CRASH, HOLD_MAX, HOLD_UNDONE };

/* Makes a hold that holds nothing yet. NULL: no memory. */
struct pool_hold *pool_hold_new(struct pool_client *client, enum pool_for what,
                                struct bytes by) MUST_USE;
void pool_hold_free(struct pool_hold *hold);
/* Makes the empty holds of a request, in `list`. Returns false without memory; `list` may have some
 * then. pool_holds_free frees those in a list. */
bool pool_holds_new(struct pool_client *client, const struct pool_take *take,
                    struct ring *list) MUST_USE;
void pool_holds_free(struct ring *list);
/* Gives a member that may be taken to an empty hold. `unit`: where the unit of the counter is, or
 * has to be added if `add`; NULL: there was no room for it. */
void pool_hold_begin(struct pool_hold *hold, struct pool_member *m, struct holding *unit, bool add);
/* Tells the client of a hold, which is the client's newest from now on. */
void pool_hold_tell(struct pool_hold *hold, const struct pool_reader *reader, uint64_t position);
/* Ends a hold: its member moves on and is served to others. The hold is empty then. */
void pool_hold_end(struct pool_hold *hold, enum pool_hold_end how);
/* Ends a hold of which its client does not know, as if it had never been. Its member is served to
 * others at the end of the call, so that what was served together is there together. */
void pool_hold_undo(struct pool_hold *hold);
/* A member is not there any more. If it is held it is taken from its holder. */
void pool_member_gone(struct pool_member *m, enum pool_why why);
/* Takes a held member from its holder, because an operator wants it in this state; but a member
 * that is to go or to stop does that. */
void pool_hold_set_state(struct pool_member *m, enum pool_state to);
/* The same for a hold that has lasted for hold_max: it has failed. */
void pool_hold_take_back(struct pool_member *m);
/* Adds units of the pool's counter to what a client has: results as of table_add. */
enum table_status pool_add_units(struct pool_client *client, const struct pool *pool,
                                 uint32_t count, struct holding **unit_r) MUST_USE;
/* Tries to get units for holds that have none. */
void pool_hold_settle(struct pool *pool);

/* ---- pool_supply.c --------------------------------------------------------------------------- */

/* A request for use has come, or a supplier: raises `want` to what is needed, plus `more`. */
void pool_raise_want(struct pool *pool, uint32_t more);
/* Computes what each supplier should have. */
void pool_share(struct pool *pool);
/* Notes since when each supplier is short. Once, at the end of a call that has changed what they
 * should have, so that the numbers in between do not count. */
void pool_note_short(struct pool *pool);
/* The supplier of a client in a pool; makes one if there is none. NULL: no memory. */
struct pool_supplier *pool_supplier_of(struct pool_client *client, struct pool *pool);
/* A member has begun, or has ended, to count as one of its supplier's: 1 or -1. */
void pool_supplier_count(struct pool_member *m, int more);
/* True if a pool with many suppliers may not share again yet. */
bool pool_shares_later(const struct pool *pool);
void pool_supplier_free_if_idle(struct pool_supplier *s);
/* A member leaves (LEAVE or LOST), because its client says so or has ended. */
void pool_member_leaves(struct pool_member *m, enum pool_why why);
/* A client that ends supplies nothing any more. */
void pool_suppliers_leave(struct pool_client *client);
/* Then what it has joined leaves (client->leaves), in steps. Returns true when all has. */
bool pool_suppliers_end(struct pool_client *client) MUST_USE;
/* Notes what a client supplies, for the sums of its pool. */
void pool_supplier_place(struct pool_supplier *s, uint32_t init, uint32_t max);
/* Finds the earliest time since which a supplier is short. */
void pool_find_short(struct pool *pool);
/* No client supplies the pool any more. */
void pool_suppliers_dismiss(struct pool *pool);
/* Tells the client to end a member. */
void pool_stop_later(struct pool_member *m, enum pool_why why);
/* Stops members beyond `max`. */
void pool_shrink(struct pool *pool);
/* Others have gone, so fewer held members stop when they return. */
void pool_stop_fewer(struct pool *pool);
/* Sets the end of a member's lifetime. */
void pool_set_lifetime(struct pool_member *m);

/* ---- pool_save.c, pool_restore.c ------------------------------------------------------------- */

#define POOL_NO_WHY UINT8_MAX           /* its client knows of the STOP, or there is none */
#define POOL_GUEST  (UINT32_C(1) << 31) /* in `overtaken` of a place */

/* ---- pool_time.c ----------------------------------------------------------------------------- */

/* Stops free members whose lifetime is over. */
void pool_expire(struct pool *pool);
/* Goes on from pool->unwarned to the next hold that was not warned of. */
void pool_next_unwarned(struct pool *pool);
/* Sets the pool's deadline. */
void pool_set_timer(struct pool *pool);
/* Notes if the options need it. */
void pool_note_timed(struct pool *pool);

/* ---- pool_client.c --------------------------------------------------------------------------- */

/* Tells how a wait has ended, if it has. */
void pool_read_result(struct pool_client *client, const struct pool_reader *reader,
                      uint64_t position);
/* Sends the client its message, if that is not on its way. */
void pool_post(struct pool_client *client);
/* Ends the clients that a restore which has failed left. */
void pool_clients_forget(struct pools *pools, struct pool_outbox *outbox);
/* Tells watchers that a member has moved; `hold` as in pool_move. */
void pool_tell_move(const struct pool_member *m, enum pool_state from, enum pool_why why,
                    const struct pool_hold *hold);
/* Tells watchers, and the log, of a hold past hold_warn. */
void pool_tell_late(const struct pool_hold *hold);
/* Tells watchers what happened to a pool. */
void pool_tell(struct pool *pool, enum pool_event_why why);
/* A watch of a pool ends with it. */
void pool_watches_end(struct pool *pool);

#endif
