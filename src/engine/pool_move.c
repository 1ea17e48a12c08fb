/*
 * pool_move.c - the moves of a member from one state to another.
 *
 * A member is in one list for its state: a free one in the tree `free`, a dirty one in the tree
 * `dirty`, a held one through its hold in the ring `held`, a stopping one in the ring `stopping`.
 * One that is down is found by name only. The trees are ordered by rank; the first is taken next.
 */
#include "engine/pool_internal.h"

/* Sets of states. */
#define S(state) (1u << MEMBER_##state)
#define HELD     (S(TAKEN) | S(CLEANING) | S(CHECKING))
#define USED     (S(TAKEN) | S(CHECKING))
#define STATIC   (S(FREE) | S(DIRTY) | S(DOWN))

/*
 * The table of the protocol page: a member may move for this reason from these states to those;
 * some reasons have two such rows. A hold that ends with something in store (enum pool_then) has
 * the reason of that: so drop, lifetime, shrink and operator are also ways from a held state.
 */
static const struct {
    unsigned from, to;
} moves[POOL_WHY_COUNT][2] = {
    [POOL_WHY_ADD] = {{S(GONE), STATIC}},
    [POOL_WHY_JOIN] = {{S(GONE), S(FREE)}},
    [POOL_WHY_TAKE] = {{S(FREE), S(TAKEN)}},
    [POOL_WHY_CLEAN] = {{S(DIRTY), S(CLEANING)}},
    [POOL_WHY_CHECK] = {{S(FREE), S(CHECKING)}},
    [POOL_WHY_RETURN] = {{S(TAKEN), S(FREE) | S(DIRTY)}},
    [POOL_WHY_QUIT] = {{S(TAKEN), S(FREE) | S(DIRTY)}},
    [POOL_WHY_FAIL] = {{USED, STATIC | S(STOPPING)}},
    [POOL_WHY_CRASH] = {{USED, STATIC | S(STOPPING)}},
    [POOL_WHY_HOLD_MAX] = {{USED, STATIC | S(STOPPING)}},
    [POOL_WHY_UNDONE] = {{HELD, S(FREE) | S(DIRTY)}},
    [POOL_WHY_CLEANED] = {{S(CLEANING), S(FREE)}},
    [POOL_WHY_CLEAN_FAILED] = {{S(CLEANING), S(DIRTY) | S(DOWN)}},
    [POOL_WHY_CHECKED] = {{S(CHECKING), S(FREE)}},
    [POOL_WHY_RESTED] = {{S(DIRTY), S(FREE)}},
    [POOL_WHY_OPERATOR] = {{STATIC | HELD, STATIC}},
    [POOL_WHY_DROP] = {{STATIC | HELD, S(GONE) | S(STOPPING)}, {S(STOPPING), S(GONE)}},
    [POOL_WHY_CULL] = {{S(FREE), S(STOPPING)}},
    [POOL_WHY_LIFETIME] = {{S(FREE) | HELD, S(STOPPING)}},
    [POOL_WHY_SHRINK] = {{S(FREE) | HELD, S(STOPPING)}},
    [POOL_WHY_LEAVE] = {{STATIC | HELD | S(STOPPING), S(GONE)}},
    [POOL_WHY_LOST] = {{STATIC | HELD | S(STOPPING), S(GONE)}},
    [POOL_WHY_STOP_TIMEOUT] = {{S(STOPPING), S(GONE)}},
};

/* States that only one kind of pool has. */
#define ONLY_STATIC (S(DIRTY) | S(CLEANING))
#define ONLY_JOINED S(STOPPING)

static bool may_move(const struct pool_member *m, enum pool_state to, enum pool_why why)
{
    unsigned refused = pool_is_joined(m->pool) ? ONLY_STATIC : ONLY_JOINED;
    if (refused >> to & 1)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(moves[why]); i++) {
        if (moves[why][i].from >> m->state & 1 && moves[why][i].to >> to & 1)
            return true;
    }
    return false;
}

struct pool_rank pool_rank_of(const struct pool_member *m, uint64_t takes, uint64_t seq)
{
    switch ((enum pool_order)m->pool->options.order) {
    case POOL_LIFO:
        return (struct pool_rank){.key = UINT64_MAX - seq, .seq = seq};
    case POOL_FIFO:
        return (struct pool_rank){.key = seq, .seq = seq};
    case POOL_RANDOM:
        return (struct pool_rank){.key = pool_random(m->pool->pools), .seq = seq};
    case POOL_LEAST:
        return (struct pool_rank){.key = takes, .seq = seq};
    }
    CHECK(false);
}

/* Takes a member out of the lists of its state. */
static void leave_state(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (m->state == MEMBER_FREE || m->state == MEMBER_DIRTY)
        pool_fit_remove(m);
    if (m->state == MEMBER_FREE)
        tree_remove(&pool->free, &m->place);
    else if (m->state == MEMBER_DIRTY)
        tree_remove(&pool->dirty, &m->place);
    else if (m->state == MEMBER_STOPPING)
        ring_remove(&m->link);
    else if (pool_is_held(m))
        pool->pools->sums.held--;
    if (m->state != MEMBER_GONE)
        pool->states[m->state]--;
}

/* Puts a member into the lists of its new state. */
static void enter_state(struct pool_member *m, bool same_place)
{
    struct pool *pool = m->pool;
    if (m->state == MEMBER_FREE || m->state == MEMBER_DOWN)
        m->clean_failures = 0;
    if (m->state == MEMBER_FREE) {
        if (!same_place) {
            m->rank = pool_rank_of(m, m->takes, ++pool->pools->seq);
            m->idle_ns = pool->pools->now.mono_ns;
        }
        tree_add(&pool->free, &m->place);
        pool_checks_add(m);
        if (pool->options.max_lifetime_ns > 0 && !deadline_is_set(&m->lifetime))
            pool_set_lifetime(m);
        pool_cull_later(pool, m->idle_ns + pool->options.cull_after_ns);
    } else if (m->state == MEMBER_DIRTY) {
        uint64_t seq = ++pool->pools->seq;
        if (!same_place)
            m->rank = (struct pool_rank){.key = seq, .seq = seq};
        tree_add(&pool->dirty, &m->place);
    } else if (m->state == MEMBER_STOPPING) {
        ring_add(&pool->stopping, &m->link);
    } else if (pool_is_held(m)) {
        pool->pools->sums.held++;
    }
    if (m->state != MEMBER_GONE)
        pool->states[m->state]++;
    if (m->state == MEMBER_FREE || m->state == MEMBER_DIRTY)
        pool_fit_add(m);
}

void pool_set_then(struct pool_member *m, unsigned then)
{
    struct pool *pool = m->pool;
    bool was = pool_is_usable(m);
    pool->doomed -= (m->then & THEN_DOOMED) != 0;
    pool->doomed += (then & THEN_DOOMED) != 0;
    pool->shrinking -= (m->then & THEN_SHRINK) != 0;
    pool->shrinking += (then & THEN_SHRINK) != 0;
    m->then = then;
    if (was != pool_is_usable(m))
        pool_fit_usable(m, was ? -1 : 1);
}

/* A member is not there any more. */
static void forget(struct pool_member *m)
{
    struct pool *pool = m->pool;
    pool_checks_remove(m);
    pool_fit_skip(m, true);
    tree_remove(&pool->members, &m->by_name.node);
    if (pool_is_joined(pool)) {
        deadline_clear(&pool->lifetimes, &m->lifetime);
        deadlines_unreserve(&pool->lifetimes, 1);
    }
    struct pool_supplier *s = m->joined;
    m->joined = NULL;
    if (s) {
        ring_remove(&m->joined_link);
        pool_supplier_free_if_idle(s);
    }
    pool->member_count--;
    pool->pools->sums.members--;
    pool_ref(pool);
    if (!ring_has(&m->stop_link)) /* else its STOP is still to be told */
        pool_member_free(m);
    pool_end_if_empty(pool);
    pool_unref(pool);
}

void pool_move(struct pool_member *m, enum pool_state to, enum pool_why why, bool same_place,
               const struct pool_hold *hold)
{
    struct pool *pool = m->pool;
    enum pool_state from = m->state;
    CHECK(may_move(m, to, why));
    CHECK(!m->hold == (to < MEMBER_TAKEN || to > MEMBER_CHECKING));
    bool counted = from != MEMBER_GONE && from != MEMBER_STOPPING;
    bool counts = to != MEMBER_GONE && to != MEMBER_STOPPING;
    bool was_usable = pool_is_usable(m);
    leave_state(m);
    m->state = to;
    m->since_ns = pool->pools->now.mono_ns;
    if (was_usable != pool_is_usable(m))
        pool_fit_usable(m, was_usable ? -1 : 1);
    enter_state(m, same_place);
    pool->totals.moves[why]++;
    if (m->joined && counted != counts)
        pool_supplier_count(m, counts ? 1 : -1);
    else if (from == MEMBER_STOPPING)
        pool_share_later(pool); /* others have room for it now */
    if (to == MEMBER_STOPPING)
        pool_stop_later(m, why);
    if (pool->timed || pool_is_joined(pool))
        pool_touch(pool);
    pool_tell_move(m, from, why, hold);
    if (to == MEMBER_GONE)
        forget(m);
}

void pool_member_restored(struct pool_member *m, enum pool_state state, int64_t since_ns)
{
    m->state = state;
    m->since_ns = since_ns;
    enter_state(m, true);
}

void pool_member_out(struct pool_member *m, enum pool_why why)
{
    pool_move(m, pool_is_joined(m->pool) ? MEMBER_STOPPING : MEMBER_GONE, why, false, NULL);
}
