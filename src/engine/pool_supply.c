/*
 * pool_supply.c - joined pools: clients register members; how many are wanted, and from which.
 *
 * `want` is how many members a pool should have. Requests raise it (pool_raise_want), a cull lowers
 * it by 1. It stays within what the suppliers can run. pool_share divides it:
 *
 *     each supplier gets its `init`, the rest goes one by one to the one with most room;
 *     the room of others is used for what one has not started within start_timeout;
 *     no supplier is told a number that it could not join, because others have the members.
 *
 * That visits all suppliers. So a pool with many of them shares once in SHARE_PAUSE_NS.
 *
 * A supplier is told its number, and the members that it should stop, when its thread reads the
 * client: the newest number counts. So what is kept for a client that does not read is bounded by
 * its members.
 */
#include "engine/pool_internal.h"

#include <math.h>

#define NOT_TOLD UINT32_MAX

/* A pool with more suppliers shares again, and looks for late ones, only after a pause. */
#define AT_ONCE_MAX    64
#define SHARE_PAUSE_NS (NS_PER_S / 10)

/* ---- suppliers ------------------------------------------------------------------------------- */

/* for (EACH_SUPPLIER(s, pool)): those that supply a pool, the oldest first. */
#define EACH_SUPPLIER(s, pool) EACH(struct pool_supplier, s, &(pool)->suppliers, of_pool)

static bool supplies(const struct pool_supplier *s)
{
    return s->max > 0;
}

struct pool_supplier *pool_supplier_of(struct pool_client *client, struct pool *pool)
{
    for (EACH(struct pool_supplier, s, &client->suppliers, of_client)) {
        if (s->pool == pool)
            return s;
    }
    struct pool_supplier *s = pool_alloc(client->pools, sizeof(*s));
    if (!s)
        return NULL;
    s->client = client;
    s->pool = pool;
    s->seq = ++client->pools->seq;
    s->short_ns = DEADLINE_NONE;
    pool_ref(pool);
    ring_init(&s->list);
    ring_add(&client->suppliers, &s->of_client);
    ring_add(&pool->joiners, &s->of_pool);
    return s;
}

void pool_supplier_place(struct pool_supplier *s, uint32_t init, uint32_t max)
{
    struct pool *pool = s->pool;
    bool did = supplies(s), does = max > 0;
    pool->init_sum += (uint64_t)init - s->init;
    pool->max_sum += (uint64_t)max - s->max;
    s->init = init;
    s->max = max;
    if (did == does)
        return;
    pool->unsupplied += does ? -s->members : s->members;
    s->seq = ++pool->pools->seq;
    ring_remove(&s->of_pool);
    ring_add(does ? &pool->suppliers : &pool->joiners, &s->of_pool);
    pool->supplier_count += does ? 1 : UINT32_MAX;
}

/* True if the client was not told the number that counts now. */
static bool has_news(const struct pool_supplier *s)
{
    return s->told != s->want;
}

void pool_supplier_free_if_idle(struct pool_supplier *s)
{
    if (supplies(s) || s->ending || !ring_is_empty(&s->list) || has_news(s))
        return;
    ring_remove(&s->of_client);
    ring_remove(&s->of_pool);
    pool_unref(s->pool);
    pool_free(s->client->pools, s);
}

bool pool_shares_later(const struct pool *pool)
{
    return pool->supplier_count > AT_ONCE_MAX && pool->pools->now.mono_ns < pool->share_ns;
}

void pool_supplier_count(struct pool_member *m, int more)
{
    struct pool_supplier *s = m->joined;
    struct pool *pool = m->pool;
    s->members += (uint32_t)more;
    if (!supplies(s))
        pool->unsupplied += (uint32_t)more;
    if (more > 0)
        s->late = false;
    pool_cull_later(pool, pool->pools->now.mono_ns);
    pool_share_later(pool);
}

/* Changes what a client supplies. */
static void set_supply(struct pool_supplier *s, uint32_t init, uint32_t max)
{
    struct pool *pool = s->pool;
    pool_supplier_place(s, init, max);
    if (s->want > max && pool_shares_later(pool))
        s->want = max;
    s->late = false;
    s->short_ns = DEADLINE_NONE;
    if (max == 0)
        s->want = 0;
    pool_cull_later(pool, pool->pools->now.mono_ns);
    pool_share_later(pool);
}

void pool_suppliers_dismiss(struct pool *pool)
{
    struct pool_supplier *s;
    while ((s = first_of(struct pool_supplier, &pool->suppliers, of_pool)) != NULL) {
        set_supply(s, 0, 0); /* it is in `joiners` then */
        s->told = NOT_TOLD;  /* it is told 0 in any case: it is no supplier any more */
        pool_post(s->client);
    }
}

/* ---- want ------------------------------------------------------------------------------------ */

static uint32_t add_up(uint64_t sum, uint32_t more)
{
    return sum > UINT32_MAX - more ? UINT32_MAX : (uint32_t)(sum + more);
}

/* Keeps `want` within what the suppliers can run, and `max`. */
static void bound_want(struct pool *pool)
{
    uint32_t init = add_up(pool->init_sum, 0), max = add_up(pool->max_sum, 0);
    if (pool->options.max > 0 && max > pool->options.max)
        max = pool->options.max;
    if (pool->want < init)
        pool->want = init;
    if (pool->want > max)
        pool->want = max;
}

void pool_raise_want(struct pool *pool, uint32_t more)
{
    uint64_t need = (uint64_t)pool->states[MEMBER_TAKEN] + pool->states[MEMBER_CHECKING] +
                    pool->states[MEMBER_DOWN] + pool->awaited + pool->options.min_free;
    uint32_t want = add_up(need, more), was = pool->want;
    if (want > was) {
        pool->want = want;
        bound_want(pool);
    }
    if (pool->want != was)
        pool_share_later(pool);
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Which part of a supplier's room a round of `pour` fills. */
enum round { ROUND_INIT, ROUND_REST, ROUND_LATE };

/* How much more a supplier may get in a round, when it has `want` already. */
static uint32_t room_in(const struct pool_supplier *s, enum round round)
{
    uint32_t init = s->late && s->members < s->init ? s->members : s->init;
    switch (round) {
    case ROUND_INIT:
        return init - s->want;
    case ROUND_REST:
        return s->late && s->members >= s->want ? s->members - s->want
               : s->late || s->want >= s->max   ? 0
                                                : s->max - s->want;
    case ROUND_LATE:
        return s->want < s->max ? s->max - s->want : 0;
    }
    CHECK(false);
}

/* Hands `left` out one by one, each to the supplier with the most room, the first of equal ones.
 * Returns what nobody has room for. */
static uint32_t pour(struct pool *pool, enum round round, uint32_t left)
{
    /* Afterwards the room of each is at most `level`: look for the lowest that `left` allows. */
    uint32_t low = 0, high = 0;
    uint64_t all = 0;
    if (left == 0)
        return 0;
    for (EACH_SUPPLIER(s, pool)) {
        uint32_t room = room_in(s, round);
        all += room;
        high = room > high ? room : high;
    }
    if (all <= left)
        high = 0;
    while (low < high) {
        uint32_t level = low + (high - low) / 2;
        uint64_t used = 0;
        for (EACH_SUPPLIER(s, pool)) {
            uint32_t room = room_in(s, round);
            used += room > level ? room - level : 0;
        }
        if (used <= left)
            high = level;
        else
            low = level + 1;
    }
    for (EACH_SUPPLIER(s, pool)) {
        uint32_t room = room_in(s, round);
        if (room > high) {
            s->want += room - high;
            left -= room - high;
        }
    }
    for (EACH_SUPPLIER(s, pool)) {
        if (left > 0 && high > 0 && room_in(s, round) == high) {
            s->want++;
            left--;
        }
    }
    return left;
}

/* Lowers the numbers of suppliers that could not join so many, because others have the members. */
static void leave_room(struct pool *pool)
{
    uint64_t would_be = (uint64_t)pool->unsupplied + pool->states[MEMBER_STOPPING];
    uint32_t max = pool->options.max;
    if (max == 0 || max > pool->pools->config.limits.members_max)
        max = pool->pools->config.limits.members_max;
    for (EACH_SUPPLIER(s, pool))
        would_be += s->want > s->members ? s->want : s->members;
    for (struct ring *at = pool->suppliers.prev; would_be > max && at != &pool->suppliers;
         at = at->prev) {
        struct pool_supplier *s = item_of(at, struct pool_supplier, of_pool);
        if (s->want <= s->members)
            continue;
        uint32_t less = s->want - s->members;
        if (less > would_be - max)
            less = (uint32_t)(would_be - max);
        s->want -= less;
        would_be -= less;
    }
}

/* Notes since when a supplier has fewer members than it should. */
static void note_short(struct pool_supplier *s)
{
    if (s->members >= s->want)
        s->short_ns = DEADLINE_NONE;
    else if (s->short_ns == DEADLINE_NONE || s->want > s->was)
        s->short_ns = s->pool->pools->now.mono_ns;
}

void pool_find_short(struct pool *pool)
{
    pool->short_ns = DEADLINE_NONE;
    for (EACH_SUPPLIER(s, pool)) {
        if (!s->late && s->short_ns < pool->short_ns)
            pool->short_ns = s->short_ns;
    }
}

void pool_note_short(struct pool *pool)
{
    for (EACH_SUPPLIER(s, pool))
        note_short(s);
    pool_find_short(pool);
}

void pool_share(struct pool *pool)
{
    uint64_t others = pool->unsupplied;
    bool first = !ring_has(&pool->shared);
    if (first)
        ring_add(&pool->pools->shared, &pool->shared);
    bound_want(pool);
    pool->share_ns = pool->pools->now.mono_ns + SHARE_PAUSE_NS;
    pool->share_due = false;
    uint64_t left = pool->want > others ? pool->want - others : 0;
    if (pool->options.max > 0) {
        others += pool->states[MEMBER_STOPPING];
        uint64_t room = pool->options.max > others ? pool->options.max - others : 0;
        left = left < room ? left : room;
    }
    for (EACH_SUPPLIER(s, pool)) {
        if (first)
            s->was = s->want;
        s->want = 0;
    }
    uint32_t rest = pour(pool, ROUND_INIT, (uint32_t)left);
    rest = pour(pool, ROUND_REST, rest);
    (void)pour(pool, ROUND_LATE, rest);
    leave_room(pool);
    for (EACH_SUPPLIER(s, pool)) {
        if (has_news(s))
            pool_post(s->client);
    }
}

/* ---- JOIN, SUPPLY ---------------------------------------------------------------------------- */

/* Finds a joined pool that is not being dropped. */
static enum pool_status find_joined(struct pools *pools, struct bytes name, struct pool **pool_r)
{
    *pool_r = pool_find_whole(pools, name);
    if (!*pool_r || (*pool_r)->draining)
        return POOL_NO_POOL;
    return pool_is_joined(*pool_r) ? POOL_OK : POOL_WRONG_KIND;
}

void pool_set_lifetime(struct pool_member *m)
{
    struct pool *pool = m->pool;
    const struct pool_options *options = &pool->options;
    if (options->max_lifetime_ns == 0 || m->state == MEMBER_STOPPING || m->state == MEMBER_DOWN) {
        deadline_clear(&pool->lifetimes, &m->lifetime);
        return;
    }
    double extra = m->jitter * (double)options->lifetime_jitter_ns;
    deadline_set(&pool->lifetimes, &m->lifetime,
                 m->joined_ns + options->max_lifetime_ns + (int64_t)llrint(extra));
}

static enum pool_status join(struct pool_client *client, struct pool *pool,
                             const struct pool_new_member *new)
{
    struct pool_member *m;
    struct pool_supplier *s = pool_supplier_of(client, pool);
    if (!s)
        return POOL_NO_MEMORY;
    enum pool_status status = pool_make_member(pool, new, &m);
    if (status != POOL_OK) {
        pool_supplier_free_if_idle(s);
        return status;
    }
    m->joined = s;
    ring_add(&s->list, &m->joined_link);
    m->jitter = (double)(pool_random(client->pools) >> 11) * 0x1p-52 - 1;
    pool_move(m, MEMBER_FREE, POOL_WHY_JOIN, false, NULL);
    pool_set_lifetime(m);
    pool_serve_member(m);
    return POOL_OK;
}

enum pool_status pool_join(struct pool_client *client, const struct pool_new_member *member,
                           struct moment now, struct pool_outbox *outbox)
{
    struct pool *pool;
    pool_enter(client->pools, now, outbox);
    enum pool_status status = find_joined(client->pools, member->pool, &pool);
    if (status == POOL_OK)
        status = join(client, pool, member);
    pool_leave(client->pools);
    return status;
}

enum pool_status pool_supply(struct pool_client *client, struct bytes name, uint32_t init,
                             uint32_t max, struct moment now, struct pool_outbox *outbox)
{
    struct pool *pool;
    pool_enter(client->pools, now, outbox);
    enum pool_status status = find_joined(client->pools, name, &pool);
    if (status == POOL_OK) {
        struct pool_supplier *s = pool_supplier_of(client, pool);
        if (s) {
            s->told = max > 0 ? NOT_TOLD : 0; /* it is told again, even the same number */
            set_supply(s, init, max);
            if (pool->awaited > 0)
                pool_raise_want(pool, 0);
            pool_supplier_free_if_idle(s);
        } else {
            status = POOL_NO_MEMORY;
        }
    }
    pool_leave(client->pools);
    return status;
}

/* ---- stopping, leaving ----------------------------------------------------------------------- */

void pool_stop_later(struct pool_member *m, enum pool_why why)
{
    struct pool_client *client = m->joined ? m->joined->client : NULL;
    if (!client || client->ended) /* none: a restore has failed */
        return;
    m->stop_why = why;
    if (!ring_has(&m->stop_link))
        ring_add(&client->stops, &m->stop_link);
    pool_post(client);
}

void pool_shrink(struct pool *pool)
{
    uint32_t max = pool->options.max;
    /* Those that were to stop for an earlier maximum stay, unless they are still too many. */
    for (EACH(struct pool_hold, hold, &pool->held, of_pool))
        pool_unset_then(hold->member, THEN_SHRINK);
    if (!pool_is_joined(pool) || max == 0)
        return;
    uint64_t going = (uint64_t)pool->states[MEMBER_STOPPING] + pool->doomed;
    uint64_t many = pool->member_count > max + going ? pool->member_count - max - going : 0;
    struct pool_member *m;
    for (; many > 0 && (m = item_or_null(tree_first(&pool->free), struct pool_member, place));
         many--)
        pool_move(m, MEMBER_STOPPING, POOL_WHY_SHRINK, false, NULL);
    for (EACH(struct pool_hold, hold, &pool->held, of_pool)) {
        m = hold->member;
        if (many == 0)
            return;
        if (!(m->then & THEN_DOOMED)) {
            pool_set_then(m, m->then | THEN_SHRINK);
            many--;
        }
    }
}

void pool_stop_fewer(struct pool *pool)
{
    uint64_t going = (uint64_t)pool->states[MEMBER_STOPPING] + pool->doomed;
    struct ring *at = pool->held.prev;
    for (; at != &pool->held && pool->member_count < pool->options.max + going; at = at->prev) {
        struct pool_member *m = item_of(at, struct pool_hold, of_pool)->member;
        if ((m->then & THEN_DOOMED) != THEN_SHRINK)
            continue;
        pool_unset_then(m, THEN_SHRINK);
        going--;
    }
}

void pool_member_leaves(struct pool_member *m, enum pool_why why)
{
    ring_remove(&m->stop_link);
    pool_member_gone(m, why);
}

/* Goes on ending what a client does for one pool, as far as this call may. Returns true when it is
 * done. */
static bool end_supplier(struct pool_supplier *s, enum pool_why why)
{
    struct pool_member *m;
    while ((m = first_of(struct pool_member, &s->list, joined_link)) && pool_visit(m->pool->pools))
        pool_member_leaves(m, why);
    if (m)
        return false;
    s->ending = false;
    s->pool->leaving--;
    pool_supplier_free_if_idle(s);
    return true;
}

bool pool_suppliers_end(struct pool_client *client)
{
    struct pool_supplier *s;
    struct pool_member *m;
    while ((s = first_of(struct pool_supplier, &client->suppliers, of_client)) != NULL) {
        if (!end_supplier(s, client->leaves))
            return false;
    }
    while ((m = first_of(struct pool_member, &client->stops, stop_link)) &&
           pool_visit(client->pools)) {
        ring_remove(&m->stop_link);
        pool_member_free(m);
    }
    return m == NULL;
}

void pool_suppliers_leave(struct pool_client *client)
{
    for (EACH(struct pool_supplier, s, &client->suppliers, of_client)) {
        s->ending = true; /* so that the end of its last member does not free it */
        s->pool->leaving++;
        set_supply(s, 0, 0);
        s->told = 0; /* no WANT follows */
    }
}
