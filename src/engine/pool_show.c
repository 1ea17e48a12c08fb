/*
 * pool_show.c - what people see of pools: LIST, SHOW, metrics.
 *
 * Long lists are shown in pieces. A piece begins after the last item of the one before, by name or
 * by age, so an item that is there all the while is shown once, and the lock is never held for
 * long.
 */
#include "engine/pool_internal.h"

#include <string.h>

static uint64_t seq_of(const struct tree_node *node)
{
    return item_of(node, struct pool_place, by_age)->waiter->need.seq;
}

static int compare_seq(const struct tree_node *node, const void *seq)
{
    uint64_t a = seq_of(node);
    uint64_t b = *(const uint64_t *)seq;
    return (a > b) - (a < b);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void describe(const struct pool *pool, struct moment now, struct pool_entry *entry_r)
{
    *entry_r = (struct pool_entry){
        .name = pool_name(pool),
        .options = &pool->options,
        .draining = pool->draining,
        .of_file = pool->of_file,
        .members = pool->member_count,
        .waiting = pool->waiting[LINE_USE],
        .want = pool->want,
        .suppliers = pool->supplier_count,
        .oldest_wait_ns = -1,
        .longest_hold_ns = -1,
        .late = pool->totals.late,
        .late_starts = pool->totals.late_starts,
    };
    memcpy(entry_r->states, pool->states, sizeof(pool->states));
    const struct pool_place *oldest =
        item_or_null(tree_first(&pool->lines[LINE_USE]), struct pool_place, by_age);
    if (oldest)
        entry_r->oldest_wait_ns = now.mono_ns - oldest->waiter->since_ns;
    const struct pool_hold *held = first_of(struct pool_hold, &pool->held, of_pool);
    if (held)
        entry_r->longest_hold_ns = now.mono_ns - held->since_ns;
}

bool pools_list(struct pools *pools, struct bytes prefix, struct bytes after, unsigned budget,
                bool (*visit)(void *arg, const struct pool_entry *entry), void *arg,
                struct moment now)
{
    lock_acquire(&pools->lock);
    struct tree_node *n =
        pool_named_from(&pools->by_name, after.len > 0 ? after : prefix, after.len > 0);
    bool over = false;
    for (; budget > 0; budget--, n = tree_next(n)) {
        struct pool_entry entry;
        const struct pool *pool = n ? item_of(n, struct pool, by_name.node) : NULL;
        over = !pool || !bytes_begin_with(pool_name(pool), prefix);
        if (over)
            break;
        describe(pool, now, &entry);
        if (!visit(arg, &entry))
            break;
    }
    lock_release(&pools->lock);
    return over;
}

bool pool_show(struct pools *pools, struct bytes name,
               void (*visit)(void *arg, const struct pool_entry *entry), void *arg,
               struct moment now)
{
    lock_acquire(&pools->lock);
    const struct pool *pool = pool_find(pools, name);
    if (pool) {
        struct pool_entry entry;
        describe(pool, now, &entry);
        visit(arg, &entry);
    }
    lock_release(&pools->lock);
    return pool != NULL;
}

/* ---- members --------------------------------------------------------------------------------- */

static const char *then_word(const struct pool_member *m)
{
    if (m->then & THEN_DROP)
        return "drop";
    if (m->then & THEN_LIFETIME)
        return "lifetime";
    if (m->then & THEN_SHRINK)
        return "shrink";
    return m->then & THEN_STATE ? pool_state_word(m->then_state) : NULL;
}

static void describe_member(const struct pool_member *m, struct pool_member_entry *entry_r)
{
    *entry_r = (struct pool_member_entry){
        .name = pool_member_name(m),
        .state = m->state,
        .since_ns = m->since_ns,
        .takes = m->takes,
        .fails = m->fails,
        .then = then_word(m),
        .note = pool_text_bytes(m->note),
        .attributes = m->attributes ? m->attributes->at : NULL,
        .attribute_count = m->attributes ? m->attributes->count : 0,
        .joined_by = m->joined ? m->joined->client->message.to : 0,
    };
    if (m->hold) {
        entry_r->fence = m->hold->fence;
        entry_r->holder = m->hold->client->message.to;
        entry_r->holder_owner = m->hold->client->owner;
        entry_r->by = bytes_at(m->hold->by, m->hold->by_len);
    }
}

bool pool_show_members(struct pools *pools, struct bytes name, struct bytes after, unsigned budget,
                       bool (*visit)(void *arg, const struct pool_member_entry *entry), void *arg)
{
    lock_acquire(&pools->lock);
    struct pool *pool = pool_find(pools, name);
    struct tree_node *n = pool ? pool_named_from(&pool->members, after, true) : NULL;
    for (; n && budget > 0; budget--, n = tree_next(n)) {
        struct pool_member_entry entry;
        describe_member(item_of(n, struct pool_member, by_name.node), &entry);
        if (!visit(arg, &entry))
            break;
    }
    lock_release(&pools->lock);
    return !n;
}

/* ---- waiters, suppliers ---------------------------------------------------------------------- */

bool pool_show_waiters(struct pools *pools, struct bytes name, uint64_t after, unsigned budget,
                       bool (*visit)(void *arg, const struct pool_waiter_entry *entry), void *arg)
{
    uint64_t from = after + 1;
    lock_acquire(&pools->lock);
    struct pool *pool = pool_find(pools, name);
    struct tree_node *user = pool ? tree_from(&pool->lines[LINE_USE], &from, compare_seq) : NULL;
    struct tree_node *other = pool ? tree_from(&pool->lines[LINE_OTHER], &from, compare_seq) : NULL;
    for (; (user || other) && budget > 0; budget--) {
        struct tree_node **older =
            !other || (user && seq_of(user) < seq_of(other)) ? &user : &other;
        const struct pool_waiter *w = item_of(*older, struct pool_place, by_age)->waiter;
        const struct pool_hold *hold = item_of(w->holds.next, struct pool_hold, of_client);
        struct pool_waiter_entry entry = {
            .seq = w->need.seq,
            .client = w->client->message.to,
            .owner = w->client->owner,
            .since_ns = w->since_ns,
            .timeout_ns = w->timeout_ns,
            .count = w->need.count,
            .what = w->need.what,
            .member = w->need.member,
            .by = bytes_at(hold->by, hold->by_len),
            .with = w->need.with,
            .with_count = w->need.with_count,
        };
        if (!visit(arg, &entry))
            break;
        *older = tree_next(*older);
    }
    lock_release(&pools->lock);
    return !user && !other;
}

/* Returns false when the visitor ends it. */
static bool show_suppliers(const struct ring *list,
                           bool (*visit)(void *arg, const struct pool_supplier_entry *entry),
                           void *arg)
{
    for (EACH(const struct pool_supplier, s, list, of_pool)) {
        if (s->ending)
            continue;
        struct pool_supplier_entry entry = {
            .client = s->client->message.to,
            .owner = s->client->owner,
            .init = s->init,
            .max = s->max,
            .members = s->members,
            .want = s->want,
            .late = s->late,
        };
        if (!visit(arg, &entry))
            return false;
    }
    return true;
}

void pool_show_suppliers(struct pools *pools, struct bytes name,
                         bool (*visit)(void *arg, const struct pool_supplier_entry *entry),
                         void *arg)
{
    lock_acquire(&pools->lock);
    const struct pool *pool = pool_find(pools, name);
    if (pool && show_suppliers(&pool->suppliers, visit, arg))
        (void)show_suppliers(&pool->joiners, visit, arg);
    lock_release(&pools->lock);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void count(const struct pool *pool, struct pool_counts *counts_r)
{
    *counts_r = (struct pool_counts){
        .name = pool_name(pool),
        .joined = pool_is_joined(pool),
        .waiting = pool->waiting[LINE_USE],
        .want = pool->want,
        .totals = pool->totals,
    };
    memcpy(counts_r->states, pool->states, sizeof(pool->states));
    buckets_sum_up(&counts_r->waits, &pool->waits);
    buckets_sum_up(&counts_r->holds, &pool->hold_times);
}

void pools_count(struct pools *pools, void (*visit)(void *arg, const struct pool_counts *counts),
                 void *arg)
{
    uint8_t last[POOL_NAME_MAX];
    struct bytes after = bytes_at(last, 0);
    struct pool_counts counts;
    bool more = true;
    while (more) {
        lock_acquire(&pools->lock);
        const struct tree_node *n = pool_named_from(&pools->by_name, after, true);
        more = n != NULL;
        if (more) {
            count(item_of(n, struct pool, by_name.node), &counts);
            after.len = counts.name.len;
            memcpy(last, counts.name.data, after.len);
            counts.name = after;
        }
        lock_release(&pools->lock);
        if (more)
            visit(arg, &counts);
    }
}

void pools_sums(struct pools *pools, struct pools_sums *sums_r)
{
    lock_acquire(&pools->lock);
    *sums_r = pools->sums;
    lock_release(&pools->lock);
}
