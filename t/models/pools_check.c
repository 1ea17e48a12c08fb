/* pools_check.c - see pools_check.h. The invariants are those of proto/pools.md. */
#include "t/models/pools_check.h"

#include "engine/pool_internal.h"

/* Sums over the members of one pool, by going through them. */
struct sums {
    uint32_t members, states[MEMBER_STATES], doomed, shrinking, unsupplied, closed;
};

static bool counts_for_supplier(const struct pool_member *m)
{
    return m->state != MEMBER_STOPPING && m->state != MEMBER_GONE;
}

static void check_tree(const struct tree *tree, uint32_t count)
{
    uint32_t found = 0;
    const struct tree_node *before = NULL;
    for (struct tree_node *n = tree_first(tree); n; n = tree_next(n)) {
        CHECK(!before || tree->compare(before, n) < 0);
        CHECK(!n->parent || n->parent->priority >= n->priority);
        before = n;
        found++;
    }
    CHECK(count == UINT32_MAX || found == count);
}

/* The oldest choosy wait that closes a ready member, by going through them; NULL: none. */
static struct pool_place *closer_of(const struct pool_member *m)
{
    for (EACH_CHOOSY(p, m->pool)) {
        if (p->closes && (p->waiter->need.what == POOL_FOR_CLEAN) == (m->state == MEMBER_DIRTY) &&
            pool_matches(&p->waiter->need, m))
            return p;
    }
    return NULL;
}

static bool is_candidate(const struct pool_place *place, const struct pool_member *m)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < place->candidate_count; i++)
        found += place->candidates[i] == m;
    CHECK(found <= 1);
    return found == 1;
}

/* A member is in exactly the lists of its state, and its hold fits. */
static void check_member(const struct pool_member *m, struct sums *sums)
{
    const struct pool *pool = m->pool;
    CHECK(m->state > MEMBER_GONE && m->state < MEMBER_STATES);
    CHECK(tree_has(&m->place) == (m->state == MEMBER_FREE || m->state == MEMBER_DIRTY));
    CHECK(ring_has(&m->link) == (m->state == MEMBER_STOPPING));
    CHECK(pool_is_held(m) == (m->hold != NULL));
    CHECK(m->hold ? m->hold->member == m && ring_has(&m->hold->of_pool) : m->then == 0);
    CHECK(pool_is_joined(pool) == (m->joined != NULL));
    if (pool_is_joined(pool))
        CHECK(m->state != MEMBER_DIRTY && m->state != MEMBER_CLEANING &&
              (!m->joined->client->ended || m->joined->ending));
    else
        CHECK(m->state != MEMBER_STOPPING);
    if (m->state == MEMBER_FREE)
        CHECK(tree_has(&m->check_place));
    if (pool_is_ready(m, m->state == MEMBER_DIRTY ? POOL_FOR_CLEAN : POOL_FOR_USE))
        CHECK(m->closer == closer_of(m));
    else if (!tree_has(&m->place))
        CHECK(!m->closer && m->candidate_of == 0);
    sums->closed += m->closer != NULL;
    sums->members++;
    sums->states[m->state]++;
    sums->doomed += (m->then & THEN_DOOMED) != 0;
    sums->shrinking += (m->then & THEN_SHRINK) != 0;
    sums->unsupplied += m->joined && m->joined->max == 0 && counts_for_supplier(m);
}

/* A choosy wait knows how many members it has not met. */
static void check_left(const struct pool_place *place)
{
    uint32_t left = 0;
    if (place->looks != STAGE_LOOKS || place->waiter->need.what != POOL_FOR_USE)
        return;
    for (const struct tree_node *n = &place->next->place; n; n = tree_next(n))
        left += item_of(n, struct pool_member, place)->rank.seq <= place->began;
    CHECK(left == place->left);
}

/* What a choosy wait that has looked at all knows is so, and it does not fit. */
static void check_choosy(const struct pool_place *place)
{
    const struct pool *pool = place->pool;
    const struct pool_need *ask = &place->waiter->need;
    uint32_t open = 0, usable = 0;
    bool looked = place->looks == STAGE_DONE && !place->waiter->choosing;
    bool expires =
        pool->leaving > 0 || deadlines_next(&pool->lifetimes) <= pool->pools->now.mono_ns;
    for (struct tree_node *n = tree_first(&pool->members); n; n = tree_next(n)) {
        const struct pool_member *m = item_of(n, struct pool_member, by_name.node);
        bool is_open =
            pool_is_ready(m, ask->what) && pool_matches(ask, m) && !pool_is_closed(m, ask);
        if (looked) /* a lifetime may be over since the last call, or its client has ended */
            CHECK(is_candidate(place, m) == is_open || (!is_open && expires));
        open += is_open;
        usable += pool_is_usable(m) && pool_matches(ask, m);
    }
    CHECK(!place->stale && (!looked || (open < ask->count && !place->more)));
    if (!pool_can_be_passed(place->waiter))
        return;
    bool counted = ask->with_count > 0;
    if (counted && place->counts == STAGE_DONE)
        CHECK(place->population == usable);
    CHECK(place->closes == (looked && place->overtaken >= pool->options.overtakes &&
                            (counted ? place->population : usable) >= ask->count));
}

/* A wait that is not choosy fits. */
static bool fits(struct pool_place *place)
{
    const struct pool_need *ask = &place->waiter->need;
    for (struct tree_node *n = tree_first(&place->pool->members); n; n = tree_next(n)) {
        const struct pool_member *m = item_of(n, struct pool_member, by_name.node);
        if (pool_is_ready(m, ask->what) && pool_matches(ask, m) && !pool_is_closed(m, ask))
            return true;
    }
    return false;
}

/* An older wait asks for any member for the same, and looks in steps. */
static bool is_behind(const struct pool_place *place)
{
    const struct pool_need *ask = &place->waiter->need;
    for (EACH_CHOOSY(p, place->pool)) {
        const struct pool_waiter *w = p->waiter;
        if (w->need.seq < ask->seq && w->need.what == ask->what && !w->choosing &&
            w->need.count == 1 && w->need.member.len == 0 && w->need.with_count == 0)
            return true;
    }
    return false;
}

/* How many waiters check_line has seen. */
struct monitor {
    uint32_t use, other, awaited, guests;
};

/* No waiter of the line that fits waits. */
static void check_line(const struct pool *pool, const struct tree *line, struct monitor *seen)
{
    check_tree(line, UINT32_MAX);
    for (struct tree_node *n = tree_first(line); n; n = tree_next(n)) {
        struct pool_place *place = item_of(n, struct pool_place, by_age);
        const struct pool_waiter *w = place->waiter;
        bool is_use = w->need.what == POOL_FOR_USE;
        CHECK(place->pool == pool && w->state == WAIT_IN_LINE && w->client->waiter == w);
        CHECK(!w->client->ended && place->unit && !ring_has(&place->of_retries));
        CHECK(line == &pool->lines[pool_line_of(w->need.what)]);
        CHECK(tree_has(&place->by_class) == (w->class != CLASS_CHOOSY));
        CHECK(ring_has(&place->of_choosy) == (w->class == CLASS_CHOOSY));
        CHECK(!place->guest || w->asking);
        if (w->class != CLASS_CHOOSY)
            CHECK(!fits(place) || is_behind(place));
        seen->guests += place->guest;
        seen->use += !place->guest && is_use;
        seen->other += !place->guest && !is_use;
        seen->awaited += !place->guest && is_use ? w->need.count : 0;
    }
}

static void check_waits(struct pool *pool)
{
    struct monitor seen = {0};
    uint32_t choosy = 0;
    uint64_t before = 0;
    check_line(pool, &pool->lines[LINE_USE], &seen);
    check_line(pool, &pool->lines[LINE_OTHER], &seen);
    for (EACH_CHOOSY(p, pool)) {
        choosy++;
        CHECK(p->waiter->need.seq > before);
        before = p->waiter->need.seq;
        check_left(p);
        check_choosy(p);
    }
    CHECK(seen.use == pool->waiting[LINE_USE] && seen.other == pool->waiting[LINE_OTHER]);
    CHECK(seen.awaited == pool->awaited);
    CHECK(choosy == pool->choosy_count && !pool->unsettled);
    CHECK(!pool->draining || seen.use + seen.other + seen.guests == 0);
    for (unsigned i = 0; i < POOL_FOR_COUNT; i++) {
        for (unsigned k = 0; k < CLASS_CHOOSY; k++)
            check_tree(&pool->classes[i][k], UINT32_MAX);
    }
}

static void check_supplier(const struct pool_supplier *s, bool supplies)
{
    uint32_t members = 0;
    for (struct ring *l = s->list.next; l != &s->list; l = l->next)
        members += counts_for_supplier(item_of(l, struct pool_member, joined_link));
    CHECK(members == s->members && s->init <= s->max && s->want <= s->max);
    CHECK(supplies == (s->max > 0));
}

static void check_suppliers(const struct pool *pool)
{
    uint64_t would_be = (uint64_t)pool->unsupplied + pool->states[MEMBER_STOPPING];
    uint64_t init = 0, max = 0;
    uint32_t count = 0;
    int64_t short_ns = DEADLINE_NONE;
    bool more = false;
    struct ring *at;
    for (at = pool->suppliers.next; at != &pool->suppliers; at = at->next, count++) {
        const struct pool_supplier *s = item_of(at, struct pool_supplier, of_pool);
        check_supplier(s, true);
        would_be += s->want > s->members ? s->want : s->members;
        more = more || s->want > s->members;
        init += s->init;
        max += s->max;
        if (!s->late && s->short_ns < short_ns)
            short_ns = s->short_ns;
    }
    for (at = pool->joiners.next; at != &pool->joiners; at = at->next)
        check_supplier(item_of(at, struct pool_supplier, of_pool), false);
    CHECK(count == pool->supplier_count && (pool->share_due || short_ns == pool->short_ns));
    CHECK(init == pool->init_sum && max == pool->max_sum);
    if (pool->options.max > 0 && more && !pool->share_due)
        CHECK(would_be <= pool->options.max);
    if (pool->options.max > 0 && max > pool->options.max)
        max = pool->options.max;
    if (init > UINT32_MAX) /* `want` does not count further */
        init = UINT32_MAX;
    CHECK(pool->share_due || (pool->want <= max && (pool->want >= init || init > max)));
}

static void check_pool(struct pool *pool)
{
    struct sums sums = {0};
    uint32_t held = 0, stopping = 0;
    CHECK(!pool->gone && !ring_has(&pool->touched) && !ring_has(&pool->shared));
    check_tree(&pool->members, pool->member_count);
    for (struct tree_node *n = tree_first(&pool->members); n; n = tree_next(n))
        check_member(item_of(n, struct pool_member, by_name.node), &sums);
    CHECK(sums.members == pool->member_count && sums.doomed == pool->doomed);
    CHECK(sums.shrinking == pool->shrinking && sums.closed == pool->closed);
    CHECK(sums.unsupplied == pool->unsupplied);
    for (unsigned i = MEMBER_FREE; i < MEMBER_STATES; i++)
        CHECK(sums.states[i] == pool->states[i]);
    check_tree(&pool->free, pool->states[MEMBER_FREE]);
    check_tree(&pool->dirty, pool->states[MEMBER_DIRTY]);
    check_tree(&pool->checks, UINT32_MAX);
    const struct pool_hold *unwarned = NULL;
    int64_t before_ns = INT64_MIN;
    for (struct ring *at = pool->held.next; at != &pool->held; at = at->next, held++) {
        const struct pool_hold *hold = item_of(at, struct pool_hold, of_pool);
        CHECK(hold->since_ns >= before_ns && hold->member->hold == hold);
        before_ns = hold->since_ns;
        if (!unwarned && !hold->warned)
            unwarned = hold;
    }
    CHECK(unwarned == pool->unwarned);
    for (struct ring *at = pool->stopping.next; at != &pool->stopping; at = at->next)
        stopping++;
    CHECK(stopping == pool->states[MEMBER_STOPPING]);
    CHECK(held == pool->states[MEMBER_TAKEN] + pool->states[MEMBER_CLEANING] +
                      pool->states[MEMBER_CHECKING]);
    CHECK(!pool->draining || pool->member_count > 0);
    check_waits(pool);
    check_suppliers(pool);
}

/* Each hold is a unit of the counter; each fence is given once, and rises. */
static uint64_t check_client(const struct pool_client *client)
{
    const struct pools *pools = client->pools;
    uint64_t units = 0, held = 0, last = 0;
    uint32_t count = 0;
    for (struct ring *at = client->holds.next; at != &client->holds; at = at->next, count++) {
        const struct pool_hold *hold = item_of(at, struct pool_hold, of_client);
        CHECK(hold->client == client && hold->fence > last && hold->fence <= pools->fence);
        last = hold->fence;
        CHECK((hold->unit != NULL) == (hold->member && !ring_has(&hold->uncounted_link)));
        units += hold->unit != NULL;
        held += hold->member != NULL;
    }
    CHECK(count == client->hold_count);
    if (client->waiter && client->waiter->state == WAIT_SERVED) {
        const struct pool_waiter *w = client->waiter;
        for (struct ring *at = w->holds.next; at != &w->holds; at = at->next) {
            const struct pool_hold *hold = item_of(at, struct pool_hold, of_client);
            CHECK(hold->member && hold->member->hold == hold);
            units += hold->unit != NULL;
            held++;
        }
    }
    CHECK(holder_units(pools->config.table, &client->unit_holder) == units);
    return held;
}

void pools_check(struct pools *pools, struct moment now)
{
    uint64_t held = 0, by_clients = 0, members = 0, waiting = 0, count = 0;
    lock_acquire(&pools->lock);
    steps_unbounded(LOCK_RANK_POOLS);
    pool_set_now(pools, now);
    for (struct tree_node *n = tree_first(&pools->by_name); n; n = tree_next(n), count++) {
        struct pool *pool = item_of(n, struct pool, by_name.node);
        check_pool(pool);
        held += pool->states[MEMBER_TAKEN] + (uint64_t)pool->states[MEMBER_CLEANING] +
                pool->states[MEMBER_CHECKING];
        members += pool->member_count;
        waiting += pool->waiting[LINE_USE];
    }
    check_tree(&pools->by_name, (uint32_t)pools->sums.pools);
    for (struct ring *at = pools->clients.next; at != &pools->clients; at = at->next)
        by_clients += check_client(item_of(at, struct pool_client, of_pools));
    CHECK(held == by_clients && held == pools->sums.held);
    CHECK(members == pools->sums.members && waiting == pools->sums.waiting);
    CHECK(count == pools->sums.pools);
    CHECK(pools_next_ns(pools) ==
          (ring_is_empty(&pools->leaving) ? deadlines_next(&pools->deadlines) : 0));
    CHECK(pools->sums.visited_most <= POOL_VISITS_MAX + 4 * POOL_CHOOSY_MAX);
    lock_release(&pools->lock);
}
