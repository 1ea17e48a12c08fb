/*
 * pools_world.h - pools with a table, some clients and others that use the same counters; random
 * steps in it (pools_world.c); and comparing all that can be seen with the model (pools.h) after
 * each step (pools_compare.c), which has the names for the model's numbers, and hears what the
 * engine tells.
 */
#ifndef MODELS_POOLS_WORLD_H
#define MODELS_POOLS_WORLD_H

#include "t/models/pools.h"
#include "t/unit/rng.h"

enum { OTHERS = 2, RECORDED = 300 };

/* How large a world is, and what happens in it. */
struct world_config {
    uint32_t pools, members, clients;
    bool faulty;     /* some allocations fail */
    bool full_sums;  /* others fill the counters */
    unsigned checks; /* how rarely the engine checks everything */
};

/* The world, which an upgrade replaces. */
extern struct world_config config;
extern struct table *table;
extern struct pools *pools;
extern struct pool_outbox outbox;
extern struct holder others[OTHERS];
extern uint32_t next_id;
extern uint64_t next_tag;
extern const struct pool_hooks hooks;

/* A table and pools, empty. */
struct table *new_table(void);
struct pools *new_pools(struct table *of, const struct pools_limits *limits, uint64_t first_fence);
/* A request as the engine gets it, until the next one. */
struct pool_take real_take(const struct m_take *take);
/* What a call has done is as the model says. */
void done(void);

/* A random size. */
struct world_config world_random(void);
void world_start(const struct world_config *new_config);
void world_step(void);
/* Every client reads all its news, as before an upgrade. */
void world_read_all(void);
/* All clients end, in any order, and then nothing is left. */
void world_end(void);
/* The number of allocations that failed so far. */
unsigned long world_faults(void);

extern struct rng model_random; /* of the whole test */

static inline uint32_t below(uint32_t bound)
{
    return rng_below(&model_random, bound);
}

static inline bool one_in(uint32_t n)
{
    return rng_one_in(&model_random, n);
}

/* Units of others in the counters of the pools, beside those of holds. */
extern uint64_t units_of_others[M_POOLS];

/* One client of the engine. */
struct side {
    struct pool_client *real; /* NULL: none */
    uint64_t tag;
};
extern struct side sides[M_CLIENTS];
extern struct side observer; /* watches all pools */
/* The number of the client with this owner. */
int client_number(const void *owner);

/* ---- names ----------------------------------------------------------------------------------- */

extern const char *const group_names[3]; /* group_names[0]: none */
extern const char *const attribute_keys[M_KEYS], *const attribute_values[M_VALUES];
extern char pool_counters[M_POOLS][300];

void compare_make_names(void);
struct bytes pool_at(int p);
struct bytes member_at(int i);
/* A value, note or `by` as the engine gets it; 0: none. */
struct bytes text_at(unsigned number);
int pool_number(struct bytes name);
int member_number(struct bytes name);
unsigned text_number(struct bytes text);
void read_attributes(const struct pool_attribute *at, size_t count, unsigned *values_r);

/* Puts the attributes that are said; empty ones, too. Returns their number. */
size_t put_attributes(const bool *sets, const unsigned *values, struct pool_attribute *at);

/* ---- requests by chance ---------------------------------------------------------------------- */

/* One that is there, mostly. */
int some_pool(void);
int some_member(int p);
/* Options of a pool with about so many members. */
struct pool_options random_pool_options(unsigned kind, uint32_t members);
struct m_take random_take(int64_t timeout_ns);
struct m_new_member random_new(int p);
struct m_change random_change(void);
void random_supply(uint32_t *init_r, uint32_t *max_r);

/* ---- what the engine tells ------------------------------------------------------------------- */

extern bool is_deaf;        /* what is told now is of no interest */
extern uint64_t last_event; /* of these pools; other pools begin with 0 */
/* Notes an event (pool_hooks). */
void hear_event(void *owner, const struct pool_event *event);

/* What a reader got in one call. */
extern struct heard {
    const struct side *side;
    struct {
        int pool, member;
        unsigned value, attributes[M_KEYS];
        uint64_t fence;
    } taken[M_TAKEN];
    unsigned taken_count, refusals;
    enum pool_status refused;
    struct m_stop stops[RECORDED];
    unsigned stop_count;
    struct {
        int pool;
        uint32_t want;
    } wants[RECORDED];
    unsigned want_count, events;
    char order[4]; /* one message for each kind, in the order in which they came */
} heard;
extern const struct pool_reader hearer;
/* Begins a call of this client's reader. */
void hear_as(const struct side *side);

/* ---- comparing ------------------------------------------------------------------------------- */

/* Compares what was taken with the client's newest holds. */
void compare_taken(int c, unsigned count);
/* Compares what was read; `all`: the reader took every WANT. */
void compare_news(int c, const struct m_news *news, bool all);
/* Compares everything that can be seen. */
void compare_all(void);
/* The members of the pool in the hands of a client, or of all (M_NOBODY). */
uint32_t held_by(int c, int p);
/* The units that the counter of a pool should have. */
uint64_t all_units(int p);
/* Notes what all_units allows for: some holds of the pool may not be in its counter. */
void compare_note_sums(void);
/* Begins with no clients. */
void compare_start(void);

#endif
