/*
 * pools_internal.h - what the files of the model of pools (pools.h) share. Functions are documented
 * where they are defined.
 */
#ifndef MODELS_POOLS_INTERNAL_H
#define MODELS_POOLS_INTERNAL_H

#include "t/models/pools.h"

extern uint64_t ages;  /* given to waits, places, births and so on */
extern unsigned event; /* the next one to compare */

/* clang-format off */
#define EACH_POOL(p)     int p = 0; p < M_POOLS; p++
#define EACH_MEMBER(i)   int i = 0; i < M_MEMBERS; i++
#define EACH_CLIENT(c)   int c = 0; c < M_CLIENTS; c++
#define EACH_PLACE(w, k) unsigned k = 0; k < (w)->place_count; k++
/* clang-format on */

enum how { BY_OK, BY_QUIT, BY_FAIL, BY_CRASH, BY_HOLD_MAX, BY_UNDONE };

struct m_member *member(int p, int i);
bool is_joined(int p);
uint32_t held_count(int p);
bool is_untold(const struct m_hold *hold, int c);
bool supplies(int c, int p);
uint32_t joined_count(int c, int p);
void let_lifetimes_end(void);
void expire(int p);
const struct m_event *peek(void);
void tell(const struct m_event *e, int joiner);
struct m_event event_of_hold(const struct m_hold *hold, int holder);
void forget_supply_if_idle(int c, int p);
void move(int p, int i, enum pool_state to, enum pool_why why, bool same_place,
          const struct m_hold *hold);
void set_supply(int c, int p, uint32_t init, uint32_t max);
void leave(int p, int i, enum pool_why why);
uint64_t awaited(int p);
void raise_want(int p, uint32_t more);
void raise_for_min_free(int p, enum pool_for what);
uint32_t open_count(int p, const struct m_ask *ask, uint64_t age);
void choose(int p, const struct m_ask *ask, uint64_t age, int *chosen);
void begin_hold(int c, struct m_hold *hold, int p, int i, const struct m_ask *ask, uint64_t age);
void note_lifetimes(int p);
void hand_on(int p, int i);
void stop_instead(int p, int i);
void end_hold(int c, struct m_hold *hold, enum how how, bool hands_on);
void take_away(int p, int i, enum pool_state to, enum pool_why why);
void serve_next(void);

#endif
