/*
 * pools_compare.h - the engine's pools beside their model (t/models/pools.h): the names for the
 * model's numbers, what the engine told, and comparing all that can be seen.
 */
#ifndef MODELS_POOLS_COMPARE_H
#define MODELS_POOLS_COMPARE_H

#include "t/models/pools.h"
#include "t/unit/rng.h"

enum { RECORDED = 300 };

extern struct rng model_random; /* of the whole test */

/* What is compared. Call compare_with before the first event, and for other pools. */
extern struct pools *compared_pools;
extern struct table *compared_table;
extern bool compare_faulty; /* memory may have been refused, so that holds may lack their units */
void compare_with(struct table *table, struct pools *pools);
/* Units of others in the counters of the pools, beside those of holds. */
extern uint64_t units_of_others[M_POOLS];

/* One client of the engine. */
struct side {
    struct pool_client *real; /* NULL: none */
    uint64_t tag;
    void *owner;
};
extern struct side sides[M_CLIENTS];
extern struct side observer; /* watches all pools */
/* The number of the client with this owner. */
int client_number(const void *owner);

/* ---- names --------------------------------------------------------------------------------- */

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

/* ---- requests by chance -------------------------------------------------------------------- */

extern unsigned ask_pools, ask_members; /* of so many pools, and names of members */

/* One that is there, mostly. */
int some_pool(void);
int some_member(int p);
/* Options of a pool with about so many members. */
struct pool_options random_pool_options(unsigned kind, uint32_t members);
struct m_take random_take(int64_t timeout_ns);
struct m_new_member random_new(int p);
struct m_change random_change(void);
void random_supply(uint32_t *init_r, uint32_t *max_r);

/* ---- what the engine tells ----------------------------------------------------------------- */

extern bool is_deaf; /* what is told now is of no interest */
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
    char order[4]; /* one letter for each kind, in the order in which they came */
} heard;
extern const struct pool_reader hearer;
/* Begins a call of this client's reader. */
void hear_as(const struct side *side);

/* ---- comparing ----------------------------------------------------------------------------- */

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
