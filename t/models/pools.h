/*
 * pools.h - what proto/pools.md says of pools, plainly: arrays, searched from end to
 * end.
 *
 * A test lets the engine do a call, and then tells the model the same call. The model follows the
 * page move by move, and compares each with the next event that the engine told; so the test needs
 * a watcher of all pools, which writes to model_events. Where the page leaves a choice (by chance,
 * what is due first), the model looks at what the engine chose and checks that it may. At the end
 * of each call the model asserts that no event is left, and that no waiter that fits waits.
 *
 * Pools, members, clients and attributes are numbers here; their order is that of their names.
 */
#ifndef MODELS_POOLS_H
#define MODELS_POOLS_H

#include "engine/pool.h"

enum {
    M_POOLS = 6,
    M_MEMBERS = 24, /* names of members in a pool */
    M_CLIENTS = 18,
    M_KEYS = 3,   /* keys of attributes, */
    M_VALUES = 3, /* and their values; 0: none */
    M_TAKEN = 10, /* the most that a client may hold */
    M_STOPS = 200,
    M_WANTS = 20,
    M_EVENTS = 4000,
    M_TARGETS = 4,
    M_NOBODY = -1,
};

/* ---- what there is --------------------------------------------------------------------------- */

struct m_hold {
    int pool, member; /* M_NOBODY: taken away */
    uint64_t fence, position;
    int64_t since_ns;
    enum pool_for what;
    unsigned by;
    bool warned;
    /* Of the member before. */
    uint64_t place;
    int64_t before_ns, idle_ns;
};

struct m_member {
    bool there;
    enum pool_state state;
    uint64_t birth;              /* tells it from others of the same name */
    unsigned attributes[M_KEYS]; /* 0: none */
    unsigned value, note;        /* 0: none */
    bool drop, lifetime, shrink; /* what becomes of it later, */
    enum pool_state then;        /* or this state; MEMBER_GONE: none */
    uint64_t takes, fails;
    unsigned failed_cleanings; /* in a row */
    int64_t since_ns, idle_ns;
    uint64_t place, checked; /* when it got to its place, and when it was checked last */
    int holder;              /* a client, while it is held */
    uint64_t fence;
    int joiner; /* a client; M_NOBODY: static */
    int64_t joined_ns;
    double jitter;
};

struct m_ask {
    enum pool_for what;
    uint32_t count;
    int member;       /* M_NOBODY: any */
    int with[M_KEYS]; /* M_NOBODY: whatever; 0: none */
    unsigned by;
};

enum m_wait_state { M_NO_WAIT, M_IN_LINE, M_SERVED, M_REFUSED };

struct m_wait {
    enum m_wait_state state;
    enum pool_status refused;
    uint64_t age; /* smaller is older */
    struct m_ask ask;
    int64_t since_ns, timeout_ns;
    struct {
        int pool;
        bool left;
        uint32_t overtaken;
    } places[M_POOLS];
    unsigned place_count;
    struct m_hold served[M_TAKEN];
};

/* What a client has to do with a pool. */
struct m_supply {
    uint64_t born; /* 0: nothing */
    uint32_t init, max, want;
    bool untold;   /* the client was never told of what it supplies now */
    uint32_t told; /* else what it was told */
    int64_t short_ns;
    bool late;
};

struct m_stop {
    int pool, member;
    uint64_t birth;
    enum pool_why why;
};

struct m_client {
    bool open, ending;
    uint64_t tag;
    struct m_hold holds[M_TAKEN]; /* oldest first */
    unsigned hold_count;
    struct m_wait wait;
    struct m_supply supplies[M_POOLS];
    struct m_stop stops[M_STOPS];
    unsigned stop_count;
    unsigned ended_wants[M_POOLS]; /* WANT 0 of pools that are gone */
    bool watches_all, watches[M_POOLS];
    bool mine_all, mine[M_POOLS];
    bool events; /* that it was not told of */
};

struct m_pool {
    bool there, draining, of_file;
    struct pool_options options;
    uint64_t grouped; /* when it got its group */
    struct m_member members[M_MEMBERS];
    uint32_t want;
    uint64_t late;
    uint64_t takes[POOL_FOR_COUNT][POOL_TAKES_COUNT];
    uint64_t moves[POOL_WHY_COUNT];
};

extern struct m_pool model_pools[M_POOLS];
extern struct m_client model_clients[M_CLIENTS];
extern struct pools_limits model_limits;
extern uint64_t model_fence;
extern struct moment model_now;
extern bool model_timely; /* the last call did all that was due */

/* ---- what the engine did --------------------------------------------------------------------- */

struct m_event {
    int pool, member; /* member M_NOBODY: of the pool */
    enum pool_state from, to;
    enum pool_why why;
    enum pool_event_why pool_why;
    bool late;
    uint64_t fence, conn;
    unsigned by;
    bool told[M_CLIENTS]; /* who was told */
};

extern struct m_event model_events[M_EVENTS];
extern unsigned model_event_count;

/* The suppliers of a pool, in the order in which they came; their number. And a member's jitter, by
 * chance. The test has these. */
unsigned model_suppliers(int pool, int *clients);
double model_jitter(int pool, int member);

/* ---- failing --------------------------------------------------------------------------------- */

extern uint64_t model_step;   /* number of the step, */
extern char model_doing[400]; /* and what it does */

/* Fails with the step's number. */
#define AGREE(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            model_disagrees(__FILE__, __LINE__, #condition);                                       \
    } while (0)
_Noreturn void model_disagrees(const char *file, int line, const char *condition);

/* ---- calls ----------------------------------------------------------------------------------- */

/* Forgets everything. */
void model_start(const struct pools_limits *limits, uint64_t first_fence);

/* Each returns what the engine must have answered. model_done ends each call. */
void model_done(void);

enum pool_status model_pool_add(int p, const struct pool_options *options, bool of_file);
enum pool_status model_pool_set(int p, const struct pool_options *options, bool of_file);
enum pool_status model_pool_drop(int p, bool at_once);

struct m_new_member {
    int pool, member;
    bool sets[M_KEYS]; /* attributes that are said, maybe as none */
    unsigned attributes[M_KEYS], value, note;
    bool down;
};
enum pool_status model_member_add(const struct m_new_member *new);
enum pool_status model_join(int c, const struct m_new_member *new);
struct pool_changes model_declare(int p, const struct m_new_member *new, unsigned count);

struct m_change {
    int pool, member;
    bool sets[M_KEYS], sets_value, sets_note, sets_state, now;
    unsigned attributes[M_KEYS], value, note;
    enum pool_state state;
};
enum pool_status model_member_set(const struct m_change *change);
enum pool_status model_member_drop(int by, bool own_only, int p, int i, bool at_once);

enum pool_status model_supply(int c, int p, uint32_t init, uint32_t max);
enum pool_status model_watch(int c, int p, bool mine); /* p M_NOBODY: all */

struct m_take {
    int targets[M_TARGETS];
    unsigned target_count;
    const char *group; /* NULL: the targets */
    struct m_ask ask;
    int64_t timeout_ns;
};
/* POOL_OK: the client has new holds, `first` and further. */
enum pool_status model_take(int c, const struct m_take *take, uint64_t position);
bool model_end_wait(int c, bool timed_out);
enum pool_status model_return(int c, uint64_t fence, bool ok);

void model_client_new(int c, uint64_t tag);
/* `cut`: output before this position was written. */
void model_client_end(int c, bool quits, uint64_t cut);

void model_run(void);

/* After an upgrade, the pools of a group are in the order of their names. */
void model_upgrade(void);

/* What a client reads. */
struct m_news {
    enum m_wait_state result; /* M_NO_WAIT: none */
    enum pool_status refused;
    unsigned taken; /* its newest holds */
    struct m_stop stops[M_STOPS];
    unsigned stop_count;
    struct {
        int pool;
        uint32_t want;
    } wants[M_WANTS];
    unsigned want_count;
    bool events;
};
void model_read(int c, uint64_t position, struct m_news *news_r);
/* True when there is something to read. */
bool model_has_news(int c);

/* ---- looking --------------------------------------------------------------------------------- */

static inline bool m_is_held(const struct m_member *m)
{
    return m->there &&
           (m->state == MEMBER_TAKEN || m->state == MEMBER_CLEANING || m->state == MEMBER_CHECKING);
}
uint32_t model_count(int p, enum pool_state state);
uint32_t model_member_count(int p);
/* The waits in a pool: for use, for others, or both. */
uint32_t model_waiting(int p, bool use, bool other);
bool model_waits_in(int c, int p);
struct m_hold *model_hold_of(int p, int i);
/* True when a member's lifetime is over. */
bool model_is_over(int p, int i);
/* True when a free member is idle for so long that it must be culled. */
bool model_is_idle(int p, int i);

#endif
