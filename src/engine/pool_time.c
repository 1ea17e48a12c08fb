/*
 * pool_time.c - what is due at a certain time, without any request.
 *
 * Each pool has one deadline: the earliest time at which something may be due. The lists of held,
 * dirty and stopping members are in the order of their times, so only their first members count.
 * Lifetimes have a heap of their own. Members to cull are looked for at most once in CULL_PAUSE_NS.
 * A deadline may be too early, after a change; then nothing is due.
 */
#include "engine/pool_internal.h"

#include "base/heap.h"

#include <stdlib.h>

/* A run handles at most so many members for each reason, and no more than it may visit; the rest is
 * due again at once. */
#define RUN_MAX 128

#define CULL_PAUSE_NS (NS_PER_S / 10)

/* How often units are tried again that the counter had no room for. */
#define OWED_NS (NS_PER_S / 10)

/* How many pools a run looks at. */
#define POOLS_MAX 8

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When `wait_ns` have passed; never if that is 0. */
static int64_t after(int64_t since_ns, int64_t wait_ns)
{
    if (wait_ns == 0 || since_ns > DEADLINE_NONE - wait_ns)
        return DEADLINE_NONE;
    return since_ns + wait_ns;
}

void pool_note_timed(struct pool *pool)
{
    const struct pool_options *o = &pool->options;
    pool->timed =
        pool_is_joined(pool) || o->clean_after_ns > 0 || o->hold_warn_ns > 0 || o->hold_max_ns > 0;
}

/* ---- what is next in each list --------------------------------------------------------------- */

void pool_next_unwarned(struct pool *pool)
{
    do {
        pool->unwarned = next_of(struct pool_hold, &pool->held, pool->unwarned, of_pool);
    } while (pool->unwarned && pool->unwarned->warned);
}

static int64_t next_hold_ns(struct pool *pool)
{
    const struct pool_hold *first = first_of(struct pool_hold, &pool->held, of_pool);
    int64_t at_ns = DEADLINE_NONE;
    if (first)
        at_ns = after(first->since_ns, pool->options.hold_max_ns);
    if (pool->unwarned)
        at_ns = earlier(at_ns, after(pool->unwarned->since_ns, pool->options.hold_warn_ns));
    return at_ns;
}

static struct pool_member *first_dirty(const struct pool *pool)
{
    return item_or_null(tree_first(&pool->dirty), struct pool_member, place);
}

static struct pool_member *first_stopping(const struct pool *pool)
{
    return first_of(struct pool_member, &pool->stopping, link);
}

void pool_set_timer(struct pool *pool)
{
    struct pools *pools = pool->pools;
    const struct pool_options *o = &pool->options;
    int64_t at_ns = DEADLINE_NONE;
    if (pool->gone)
        return;
    if (!ring_is_empty(&pool->uncounted))
        at_ns = pools->now.mono_ns + OWED_NS;
    if (pool->looks)
        at_ns = pools->now.mono_ns;
    if (pool->timed) {
        const struct pool_member *dirty = first_dirty(pool), *stopping = first_stopping(pool);
        at_ns = earlier(at_ns, next_hold_ns(pool));
        if (dirty)
            at_ns = earlier(at_ns, after(dirty->since_ns, o->clean_after_ns));
        if (stopping)
            at_ns = earlier(at_ns, after(stopping->since_ns, o->stop_timeout_ns));
        at_ns = earlier(at_ns, deadlines_next(&pool->lifetimes));
        int64_t late_ns = after(pool->short_ns, o->start_timeout_ns);
        if (pool->share_due || (pool_shares_later(pool) && late_ns < pool->share_ns))
            late_ns = earlier(pool->share_ns, late_ns > pool->share_ns ? late_ns : DEADLINE_NONE);
        at_ns = earlier(at_ns, late_ns);
        if (o->cull_after_ns > 0 && pool_is_joined(pool))
            at_ns = earlier(at_ns, pool->cull_ns);
    }
    if (at_ns == DEADLINE_NONE)
        deadline_clear(&pools->deadlines, &pool->deadline);
    else
        deadline_set(&pools->deadlines, &pool->deadline, at_ns);
}

/* ---- what is due ----------------------------------------------------------------------------- */

/* A member's lifetime is over. */
static void lifetime_over(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (m->state == MEMBER_FREE) {
        pool_move(m, MEMBER_STOPPING, POOL_WHY_LIFETIME, false, NULL);
    } else if (pool_is_held(m)) {
        pool_set_then(m, m->then | THEN_LIFETIME);
        pool_touch(pool);
    }
}

void pool_expire(struct pool *pool)
{
    int64_t now_ns = pool->pools->now.mono_ns;
    struct deadlines *lifetimes = &pool->lifetimes;
    /* Those that are left are not handed out either (pool_is_ready), and end with the next call. */
    while (deadlines_next(lifetimes) <= now_ns && pool_visit(pool->pools))
        lifetime_over(item_of(deadlines_take_due(lifetimes, now_ns), struct pool_member, lifetime));
}

static void warn(struct pool *pool, int64_t now_ns)
{
    int64_t warn_ns = pool->options.hold_warn_ns;
    for (unsigned i = 0; warn_ns > 0 && i < RUN_MAX; i++) {
        struct pool_hold *hold = pool->unwarned;
        if (!hold || after(hold->since_ns, warn_ns) > now_ns || !pool_visit(pool->pools))
            return;
        hold->warned = true;
        pool_next_unwarned(pool);
        pool->totals.late++;
        pool_tell_late(hold);
    }
}

static void take_back(struct pool *pool, int64_t now_ns)
{
    for (unsigned i = 0; i < RUN_MAX; i++) {
        struct pool_hold *hold = first_of(struct pool_hold, &pool->held, of_pool);
        if (!hold || after(hold->since_ns, pool->options.hold_max_ns) > now_ns ||
            !pool_visit(pool->pools))
            return;
        pool_hold_take_back(hold->member);
    }
}

static void rest(struct pool *pool, int64_t now_ns)
{
    for (unsigned i = 0; i < RUN_MAX; i++) {
        struct pool_member *m = first_dirty(pool);
        if (!m || after(m->since_ns, pool->options.clean_after_ns) > now_ns ||
            !pool_visit(pool->pools))
            return;
        pool_move(m, MEMBER_FREE, POOL_WHY_RESTED, false, NULL);
        pool_serve_member(m);
    }
}

static void forget_stopping(struct pool *pool, int64_t now_ns)
{
    for (unsigned i = 0; i < RUN_MAX; i++) {
        struct pool_member *m = first_stopping(pool);
        if (!m || after(m->since_ns, pool->options.stop_timeout_ns) > now_ns ||
            !pool_visit(pool->pools))
            return;
        pool_move(m, MEMBER_GONE, POOL_WHY_STOP_TIMEOUT, false, NULL);
    }
}

/* Before anything else that is due changes the numbers that count. */
static void note_late_starts(struct pool *pool, int64_t now_ns)
{
    if (after(pool->short_ns, pool->options.start_timeout_ns) > now_ns || pool_shares_later(pool))
        return;
    for (EACH(struct pool_supplier, s, &pool->suppliers, of_pool)) {
        if (s->short_ns == DEADLINE_NONE || s->late ||
            after(s->short_ns, pool->options.start_timeout_ns) > now_ns)
            continue;
        s->late = true;
        pool->totals.late_starts++;
        pool_share_later(pool); /* also finds the next one */
    }
}

/* ---- cull ------------------------------------------------------------------------------------ */

static int longest_idle_first(const void *a, const void *b, void *none)
{
    (void)none;
    const struct pool_member *x = *(struct pool_member *const *)a;
    const struct pool_member *y = *(struct pool_member *const *)b;
    if (x->idle_ns != y->idle_ns)
        return x->idle_ns < y->idle_ns ? -1 : 1;
    return (x->rank.seq > y->rank.seq) - (x->rank.seq < y->rank.seq);
}

static const struct heap idle_order = {sizeof(struct pool_member *), longest_idle_first, NULL};

/* True if the supplier of a free member has more than it begins with. */
static bool may_cull(const struct pool_member *m)
{
    return m->joined->max > 0 && m->joined->members > m->joined->init;
}

/* Keeps the RUN_MAX members that are idle for longest: a heap, the one idle for least at its root.
 * Returns their number. */
static size_t longest_idle(struct pool *pool, struct pool_member **idle)
{
    size_t count = 0;
    for (EACH_NODE(struct pool_member, m, &pool->free, place)) {
        if (!may_cull(m))
            continue;
        if (count < RUN_MAX) {
            idle[count++] = m;
            heap_rise(&idle_order, idle, count);
        } else if (longest_idle_first(&m, &idle[0], NULL) < 0) {
            idle[0] = m;
            heap_sink(&idle_order, idle, count, 0);
        }
    }
    return count;
}

static void cull(struct pool *pool, int64_t now_ns)
{
    struct pool_member *idle[RUN_MAX];
    if (!pool_is_joined(pool) || pool->options.cull_after_ns == 0 || pool->cull_ns > now_ns)
        return;
    size_t count = longest_idle(pool, idle), culled = 0;
    qsort_r(idle, count, sizeof(struct pool_member *), longest_idle_first, NULL);
    pool->cull_ns = DEADLINE_NONE;
    for (size_t i = 0; i < count; i++) {
        int64_t due_ns = after(idle[i]->idle_ns, pool->options.cull_after_ns);
        if (!may_cull(idle[i]))
            continue;
        if (!pool_visit(pool->pools)) {
            pool->cull_ns = now_ns;
            return;
        }
        if (due_ns > now_ns) {
            pool->cull_ns = due_ns;
            break;
        }
        if (pool->want > 0)
            pool->want--;
        pool_move(idle[i], MEMBER_STOPPING, POOL_WHY_CULL, false, NULL);
        pool->cull_ns = now_ns; /* the others were not looked at, or may be more now */
        culled++;
    }
    if (culled == RUN_MAX)
        return; /* there may be more that are due, at once */
    if (pool->cull_ns != DEADLINE_NONE && pool->cull_ns < now_ns + CULL_PAUSE_NS)
        pool->cull_ns = now_ns + CULL_PAUSE_NS;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void run_pool(struct pool *pool, int64_t now_ns)
{
    pool_ref(pool);
    pool_touch(pool);
    warn(pool, now_ns);
    take_back(pool, now_ns);
    rest(pool, now_ns);
    forget_stopping(pool, now_ns);
    pool_expire(pool);
    cull(pool, now_ns);
    if (pool->share_due)
        pool_share_later(pool);
    if (pool->looks)
        pool_fit_step(pool);
    pool_unref(pool);
}

void pools_run(struct pools *pools, struct moment now, struct pool_outbox *outbox)
{
    struct deadline *d;
    if (pools_next_ns(pools) > now.mono_ns)
        return;
    pool_enter(pools, now, outbox);
    pool_clients_leave(pools);
    if (pools->visits > 0)
        pool_let_others(pools);
    for (EACH_NODE(struct pool, pool, &pools->by_name, by_name.node))
        note_late_starts(pool, now.mono_ns);
    for (unsigned i = 0; i < POOLS_MAX && pools->visits < pools->visits_max &&
                         (d = deadlines_take_due(&pools->deadlines, now.mono_ns)) != NULL;
         i++)
        run_pool(item_of(d, struct pool, deadline), now.mono_ns);
    pool_leave(pools);
}
