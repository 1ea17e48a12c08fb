/*
 * pool.c - calls, pools and their members.
 *
 * A call that changes something begins with pool_enter and ends with pool_leave. In between, pools
 * with work that can wait until the end of the call are noted (pool_touch); pool_leave does it.
 */
#include "engine/pool_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls ----------------------------------------------------------------------------------- */

void pool_enter(struct pools *pools, struct moment now, struct pool_outbox *outbox)
{
    lock_acquire(&pools->lock);
    pool_set_now(pools, now);
    pools->outbox = outbox;
    pools->visits = 0;
}

void pool_touch(struct pool *pool)
{
    if (!ring_has(&pool->touched) && !pool->gone)
        ring_add(&pool->pools->touched, &pool->touched);
}

/* Notes when something is due next. */
static void note_next(struct pools *pools)
{
    int64_t next_ns = ring_is_empty(&pools->leaving) ? deadlines_next(&pools->deadlines) : 0;
    atomic_store_explicit(&pools->next_ns, next_ns, memory_order_relaxed);
}

/* Does the work that was noted, which may note more. */
static void do_noted_work(struct pools *pools)
{
    struct pool *pool;
    while ((pool = first_of(struct pool, &pools->touched, touched)) != NULL) {
        pool_fit_settle(pool);
        if (pool->to_serve) {
            pool->to_serve = false;
            pool_serve(pool);
        }
        if (pool->to_share) {
            pool->to_share = false;
            pool->share_due = pool_shares_later(pool);
            if (!pool->share_due)
                pool_share(pool);
        }
        pool_hold_settle(pool);
        if (pool->shrinking > 0)
            pool_stop_fewer(pool);
        if (pool->to_serve || pool->to_share || pool->unsettled)
            continue;
        ring_remove(&pool->touched);
        pool_set_timer(pool);
    }
    while ((pool = first_of(struct pool, &pools->shared, shared)) != NULL) {
        ring_remove(&pool->shared);
        pool_note_short(pool);
        pool_set_timer(pool);
    }
    note_next(pools);
}

void pool_leave(struct pools *pools)
{
    if (!ring_is_empty(&pools->touched) || !ring_is_empty(&pools->leaving) ||
        pools_next_ns(pools) == 0) /* clients left, or have left */
        do_noted_work(pools);
    uint32_t visits = pools->visits;
    pools->outbox->visits += visits;
    pools->outbox = NULL;
    pools->sums.visited += visits;
    if (visits > pools->sums.visited_most)
        pools->sums.visited_most = visits;
    lock_release(&pools->lock);
}

void pool_let_others(struct pools *pools)
{
    struct pool_outbox *outbox = pools->outbox;
    struct moment now = pools->now;
    pool_leave(pools);
    pool_enter(pools, now, outbox);
}

int64_t pools_next_ns(const struct pools *pools)
{
    return atomic_load_explicit(&pools->next_ns, memory_order_relaxed);
}

/* ---- all pools ------------------------------------------------------------------------------- */

struct pools *pools_new(const struct pools_config *config)
{
    struct pools *pools = calloc(1, sizeof(*pools));
    if (!pools)
        return NULL;
    pools->config = *config;
    pools->fence = config->first_fence;
    pools->random = config->seed;
    lock_init(&pools->lock, LOCK_RANK_POOLS);
    tree_init(&pools->by_name, pool_compare_named, (uint32_t)config->seed);
    ring_init(&pools->grouped);
    ring_init(&pools->clients);
    ring_init(&pools->leaving);
    ring_init(&pools->watches);
    ring_init(&pools->mine);
    ring_init(&pools->touched);
    ring_init(&pools->shared);
    deadlines_init(&pools->deadlines);
    atomic_init(&pools->next_ns, DEADLINE_NONE);
    pools->visits_max = POOL_VISITS_MAX;
    return pools;
}

void pools_set_limits(struct pools *pools, const struct pools_limits *limits, struct moment now,
                      struct pool_outbox *outbox)
{
    pool_enter(pools, now, outbox);
    pools->config.limits = *limits;
    for (EACH_NODE(struct pool, pool, &pools->by_name, by_name.node))
        pool_share_later(pool);
    pool_leave(pools);
}

struct pool *pool_find(struct pools *pools, struct bytes name)
{
    struct pool *pool =
        item_or_null(pool_named_from(&pools->by_name, name, false), struct pool, by_name);
    return pool && bytes_equal(pool_name(pool), name) ? pool : NULL;
}

struct pool *pool_find_whole(struct pools *pools, struct bytes name)
{
    struct pool *pool;
    while ((pool = pool_find(pools, name)) != NULL && unlikely(pool->leaving > 0)) {
        pool_clients_leave(pools);
        pool_let_others(pools);
    }
    return pool;
}

/* ---- a pool ---------------------------------------------------------------------------------- */

static int compare_places(const struct tree_node *a, const struct tree_node *b)
{
    struct pool_rank x = item_of(a, struct pool_member, place)->rank;
    struct pool_rank y = item_of(b, struct pool_member, place)->rank;
    if (x.key != y.key)
        return x.key < y.key ? -1 : 1;
    return x.seq < y.seq ? -1 : 1;
}

static int compare_checks(const struct tree_node *a, const struct tree_node *b)
{
    const struct pool_member *x = item_of(a, struct pool_member, check_place);
    const struct pool_member *y = item_of(b, struct pool_member, check_place);
    return x->checked_seq < y->checked_seq ? -1 : 1;
}

static int compare_waiters(const struct tree_node *a, const struct tree_node *b)
{
    const struct pool_place *x = item_of(a, struct pool_place, by_age);
    const struct pool_place *y = item_of(b, struct pool_place, by_age);
    return x->waiter->need.seq < y->waiter->need.seq ? -1 : 1;
}

static void init_pool(struct pool *pool)
{
    struct pools *pools = pool->pools;
    uint32_t seed = (uint32_t)pool_random(pools);
    tree_init(&pool->members, pool_compare_named, seed);
    tree_init(&pool->free, compare_places, seed + 1);
    tree_init(&pool->dirty, compare_places, seed + 2);
    tree_init(&pool->checks, compare_checks, seed + 3);
    tree_init(&pool->lines[LINE_USE], compare_waiters, seed + 4);
    tree_init(&pool->lines[LINE_OTHER], compare_waiters, seed + 5 + 2 * POOL_FOR_COUNT);
    for (unsigned i = 0; i < POOL_FOR_COUNT; i++) {
        for (unsigned k = 0; k < CLASS_CHOOSY; k++)
            tree_init(&pool->classes[i][k], pool_compare_places, seed + 5 + 2 * i + k);
    }
    ring_init(&pool->held);
    ring_init(&pool->stopping);
    ring_init(&pool->uncounted);
    ring_init(&pool->choosy);
    ring_init(&pool->retries);
    ring_init(&pool->suppliers);
    ring_init(&pool->joiners);
    pool->short_ns = DEADLINE_NONE;
    ring_init(&pool->watches);
    ring_init(&pool->mine);
    deadlines_init(&pool->lifetimes);
    pool->cull_ns = DEADLINE_NONE;
}

static void free_pool(struct pool *pool)
{
    struct pools *pools = pool->pools;
    deadlines_free(&pool->lifetimes);
    pool_free(pools, pool->options.group);
    pool_free(pools, pool);
}

bool pool_copy_group(struct pools *pools, const char *group, char **copy_r)
{
    *copy_r = NULL;
    if (!group)
        return true;
    size_t size = strlen(group) + 1;
    *copy_r = pool_alloc(pools, size);
    if (*copy_r)
        memcpy(*copy_r, group, size);
    return *copy_r != NULL;
}

static struct pool *new_pool(struct pools *pools, struct bytes name,
                             const struct pool_options *options)
{
    size_t prefix = sizeof(POOL_PREFIX) - 1;
    struct pool *pool = pool_alloc(pools, sizeof(*pool) + prefix + name.len);
    char *group;
    if (!pool)
        return NULL;
    if (!pool_copy_group(pools, options->group, &group)) {
        pool_free(pools, pool);
        return NULL;
    }
    pool->pools = pools;
    pool->options = *options;
    pool->options.group = group;
    pool->by_name.name = bytes_at(pool->counter + prefix, name.len);
    memcpy(pool->counter, POOL_PREFIX, prefix);
    memcpy(pool->counter + prefix, name.data, name.len);
    struct bytes counter = pool_counter(pool);
    table_prefetch(pools->config.table, &counter, 1, &pool->counter_hash);
    init_pool(pool);
    pool_note_timed(pool);
    return pool;
}

enum pool_status pool_add(struct pools *pools, struct bytes name,
                          const struct pool_options *options, bool of_file, struct moment now,
                          struct pool_outbox *outbox)
{
    enum pool_status status = POOL_NO_MEMORY;
    struct pool *pool = NULL;
    pool_enter(pools, now, outbox);
    if (pool_find(pools, name))
        status = POOL_EXISTS;
    else if (pools->sums.pools >= pools->config.limits.pools_max)
        status = POOL_TOO_MANY;
    else
        pool = new_pool(pools, name, options);
    if (pool && !deadlines_reserve(&pools->deadlines, 1)) {
        free_pool(pool);
        pool = NULL;
    }
    if (pool) {
        pool->of_file = of_file;
        pool->refs = 1;
        tree_add(&pools->by_name, &pool->by_name.node);
        if (pool->options.group)
            ring_add(&pools->grouped, &pool->of_group);
        pools->sums.pools++;
        pool_tell(pool, POOL_ADDED);
        status = POOL_OK;
    }
    pool_leave(pools);
    return status;
}

enum pool_status pool_get_options(struct pools *pools, struct bytes name,
                                  struct pool_options *options_r, char *group_r, bool *of_file_r)
{
    lock_acquire(&pools->lock);
    const struct pool *pool = pool_find(pools, name);
    if (pool) {
        *options_r = pool->options;
        options_r->group = NULL;
        group_r[0] = '\0';
        if (pool->options.group)
            memcpy(group_r, pool->options.group, strlen(pool->options.group) + 1);
        *of_file_r = pool->of_file;
    }
    lock_release(&pools->lock);
    return pool ? POOL_OK : POOL_NO_POOL;
}

void pool_unref(struct pool *pool)
{
    CHECK(pool->refs > 0);
    if (--pool->refs == 0)
        free_pool(pool);
}

/* Takes a pool without members off the list. It stays in memory while something points to it. */
static void end_pool(struct pool *pool)
{
    struct pools *pools = pool->pools;
    pool_tell(pool, POOL_DROPPED);
    pool_watches_end(pool);
    tree_remove(&pools->by_name, &pool->by_name.node);
    ring_remove(&pool->of_group);
    ring_remove(&pool->touched);
    ring_remove(&pool->shared);
    deadline_clear(&pools->deadlines, &pool->deadline);
    deadlines_unreserve(&pools->deadlines, 1);
    note_next(pools);
    pools->sums.pools--;
    pool->gone = true;
    pool_unref(pool);
}

void pool_end_if_empty(struct pool *pool)
{
    if (pool->draining && !pool->gone && pool->member_count == 0)
        end_pool(pool);
}

void pools_free(struct pools **pools)
{
    struct pools *p = *pools;
    if (!p)
        return;
    *pools = NULL;
    struct pool_outbox none;
    pool_outbox_init(&none);
    pool_clients_forget(p, &none);
    for (struct pool *pool; (pool = item_or_null(tree_first(&p->by_name), struct pool, by_name));)
        CHECK(pool_drop(p, pool_name(pool), true, p->now, &none) == POOL_OK);
    deadlines_free(&p->deadlines);
    free(p->restored);
    free(p);
}

/* ---- members --------------------------------------------------------------------------------- */

struct pool_member *pool_find_member(struct pool *pool, struct bytes name)
{
    struct pool_member *m =
        item_or_null(pool_named_from(&pool->members, name, false), struct pool_member, by_name);
    return m && bytes_equal(pool_member_name(m), name) ? m : NULL;
}

void pool_member_free(struct pool_member *m)
{
    struct pool *pool = m->pool;
    struct pools *pools = pool->pools;
    CHECK(m->state == MEMBER_GONE && !tree_has(&m->by_name.node));
    pool_free(pools, m->value);
    pool_free(pools, m->note);
    pool_free(pools, m->attributes);
    pool_free(pools, m);
    pool_unref(pool);
}

enum pool_status pool_make_member(struct pool *pool, const struct pool_new_member *new,
                                  struct pool_member **member_r)
{
    struct pools *pools = pool->pools;
    uint32_t max = pools->config.limits.members_max;
    if (pool_find_member(pool, new->name))
        return POOL_EXISTS;
    if (pool->member_count >= max ||
        (pool->options.max > 0 && pool->member_count >= pool->options.max))
        return POOL_FULL;
    struct pool_member *m = pool_alloc(pools, sizeof(*m) + new->name.len);
    if (!m)
        return POOL_NO_MEMORY;
    m->pool = pool;
    pool_ref(pool);
    m->by_name.name = bytes_at(m->name, new->name.len);
    memcpy(m->name, new->name.data, new->name.len);
    const struct pool_member_change parts = {.attributes = new->attributes,
                                             .attribute_count = new->attribute_count,
                                             .sets_value = true,
                                             .value = new->value,
                                             .sets_note = true,
                                             .note = new->note};
    if (pool_set_parts(m, &parts, true) != POOL_OK ||
        (pool_is_joined(pool) && !deadlines_reserve(&pool->lifetimes, 1))) {
        pool_member_free(m);
        return POOL_NO_MEMORY;
    }
    m->since_ns = m->idle_ns = m->joined_ns = pools->now.mono_ns;
    m->checked_seq = ++pools->seq;
    m->stop_why = POOL_WHY_COUNT;
    tree_add(&pool->members, &m->by_name.node);
    pool->member_count++;
    pools->sums.members++;
    *member_r = m;
    return POOL_OK;
}
