/*
 * pool_serve.c - which member goes to which wait.
 *
 * Whatever becomes free goes to the oldest waiter that fits: of one that asks for use before any
 * that asks for a check. The waiters of a pool are kept by class and age, so the oldest that a
 * member fits is found at once for the classes PLAIN and NAMED, whatever their number; of the
 * others, each is looked at, and pool_fit.c has what they know.
 *
 * Overtaking: only a request for several members can be passed by younger ones that could use the
 * same members. After `overtakes` such members it closes all members that match it to younger
 * requests, unless the pool has fewer of them than it needs.
 *
 * The tree `checks` has the free members by the time of their last check. A member that is taken
 * stays there until a request for a check meets it; when it is free again it is added again. So
 * requests for use pay nothing for it.
 */
#include "engine/pool_internal.h"

/* ---- order ----------------------------------------------------------------------------------- */

static struct pool_place *place_by_class(const struct tree_node *node)
{
    return item_of(node, struct pool_place, by_class);
}

/* The first place of a class, from `node` on; NULL: none. */
static struct pool_place *place_or_null(const struct tree_node *node)
{
    return item_or_null(node, struct pool_place, by_class);
}

static int compare_ages(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int pool_compare_places(const struct tree_node *a, const struct tree_node *b)
{
    const struct pool_waiter *x = place_by_class(a)->waiter, *y = place_by_class(b)->waiter;
    int order = 0;
    if (x->class == CLASS_NAMED)
        order = bytes_compare(x->need.member, y->need.member);
    return order ? order : compare_ages(x->need.seq, y->need.seq);
}

static int compare_named(const struct tree_node *node, const void *name)
{
    return bytes_compare(place_by_class(node)->waiter->need.member, *(const struct bytes *)name);
}

/* ---- what matches ---------------------------------------------------------------------------- */

static bool has_attribute(const struct pool_member *m, const struct pool_attribute *with)
{
    for (size_t i = 0; m->attributes && i < m->attributes->count; i++) {
        const struct pool_attribute *at = &m->attributes->at[i];
        if (bytes_equal(at->key, with->key))
            return bytes_equal(at->value, with->value);
    }
    return with->value.len == 0;
}

bool pool_matches(const struct pool_need *need, const struct pool_member *m)
{
    if (need->member.len > 0 && !bytes_equal(need->member, pool_member_name(m)))
        return false;
    for (size_t i = 0; i < need->with_count; i++) {
        if (!has_attribute(m, &need->with[i]))
            return false;
    }
    return true;
}

/* True if a waiting request comes before another one. */
static bool comes_before(const struct pool_place *place, const struct pool_need *need)
{
    return need->what == POOL_FOR_CHECK || place->waiter->need.seq < need->seq;
}

bool pool_is_closed(const struct pool_member *m, const struct pool_need *need)
{
    return m->closer && comes_before(m->closer, need);
}

/* Counts a member that goes to a request for the older ones that could use it, until they close
 * members. */
static void count_overtaken(struct pool *pool, const struct pool_member *m,
                            const struct pool_need *need)
{
    bool clean = need->what == POOL_FOR_CLEAN;
    for (EACH_CHOOSY(p, pool)) {
        const struct pool_need *other = &p->waiter->need;
        if (!comes_before(p, need))
            return;
        if (!pool_can_be_passed(p->waiter) || (other->what == POOL_FOR_CLEAN) != clean ||
            p->overtaken >= pool->options.overtakes || !pool_matches(other, m))
            continue;
        if (++p->overtaken >= pool->options.overtakes)
            pool_fit_later(pool);
    }
}

/* ---- what is there --------------------------------------------------------------------------- */

void pool_checks_add(struct pool_member *m)
{
    if (!tree_has(&m->check_place))
        tree_add(&m->pool->checks, &m->check_place);
}

void pool_checks_remove(struct pool_member *m)
{
    if (!tree_has(&m->check_place))
        return;
    pool_fit_skip(m, false);
    tree_remove(&m->pool->checks, &m->check_place);
}

struct pool_member *pool_first_in_order(const struct pool *pool, enum pool_for what)
{
    if (what == POOL_FOR_CHECK)
        return item_or_null(tree_first(&pool->checks), struct pool_member, check_place);
    return item_or_null(tree_first(what == POOL_FOR_CLEAN ? &pool->dirty : &pool->free),
                        struct pool_member, place);
}

struct pool_member *pool_next_in_order(const struct pool_member *m, enum pool_for what)
{
    return what == POOL_FOR_CHECK
               ? item_or_null(tree_next(&m->check_place), struct pool_member, check_place)
               : item_or_null(tree_next(&m->place), struct pool_member, place);
}

/* True if the lifetime of a member is over, and it was not stopped yet. */
static bool is_over(const struct pool_member *m)
{
    const struct pool *pool = m->pool;
    return deadline_is_set(&m->lifetime) &&
           deadline_at(&pool->lifetimes, &m->lifetime) <= pool->pools->now.mono_ns;
}

bool pool_is_ready(const struct pool_member *m, enum pool_for what)
{
    return m->state == (what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE) &&
           !(m->joined && (m->joined->client->ended || is_over(m)));
}

static bool may_have(const struct pool_member *m, const struct pool_need *need)
{
    return pool_is_ready(m, need->what) && pool_matches(need, m) && !pool_is_closed(m, need);
}

bool pool_find_ready(struct pool *pool, const struct pool_need *need, uint32_t max,
                     struct pool_member **found, uint32_t *count_r)
{
    struct pools *pools = pool->pools;
    struct pool_member *next;
    *count_r = 0;
    if (need->member.len > 0) {
        found[0] = pool_find_member(pool, need->member);
        *count_r = found[0] && may_have(found[0], need);
        return true;
    }
    if (pool->states[need->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE] == 0)
        return true;
    for (struct pool_member *m = pool_first_in_order(pool, need->what); m && *count_r < max;
         m = next) {
        if (!pool_visit(pools))
            return false;
        next = pool_next_in_order(m, need->what);
        if (need->what == POOL_FOR_CHECK && m->state != MEMBER_FREE)
            pool_checks_remove(m);
        else if (may_have(m, need))
            found[(*count_r)++] = m;
    }
    return true;
}

bool pool_count_ready(struct pool *pool, const struct pool_need *need, uint32_t *count_r)
{
    struct pools *pools = pool->pools;
    uint32_t free = pool->states[need->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE];
    *count_r = 0;
    if (need->with_count == 0 && pool->closed == 0 &&
        deadlines_next(&pool->lifetimes) > pools->now.mono_ns) {
        *count_r = free;
        return true;
    }
    for (struct pool_member *m = free > 0 ? pool_first_in_order(pool, need->what) : NULL; m;
         m = pool_next_in_order(m, need->what)) {
        if (pools->visits >= pools->visits_max / 2 ||
            !pool_visit(pools)) /* pool_find_ready needs a half */
            return false;
        *count_r += may_have(m, need);
    }
    return true;
}

/* ---- handing out ----------------------------------------------------------------------------- */

void pool_hand_out(struct pool_hold *hold, struct pool_member *m, const struct pool_need *need,
                   struct holding *unit, bool add)
{
    CHECK(m);
    count_overtaken(m->pool, m, need);
    pool_hold_begin(hold, m, unit, add);
}

void pool_count_taken(struct pool *pool, enum pool_for what)
{
    pool->totals.takes[what][POOL_TAKES_TAKEN]++;
    if (pool_is_joined(pool) && what == POOL_FOR_USE &&
        pool->states[MEMBER_FREE] < pool->options.min_free)
        pool_raise_want(pool, 0);
}

/* ---- serving --------------------------------------------------------------------------------- */

/* Serves a waiter in one pool with these members. */
static void serve(struct pool_place *place, struct pool_member **members)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    uint32_t i = 0;
    CHECK(w->state == WAIT_IN_LINE);
    pool_wait_leave_lines(w);
    for (EACH(struct pool_hold, hold, &w->holds, of_client))
        pool_hand_out(hold, members[i++], &w->need, place->unit, true);
    w->state = WAIT_SERVED;
    if (w->need.what == POOL_FOR_USE)
        buckets_add(&pool->waits, pool->pools->now.mono_ns - w->since_ns, 1);
    pool_count_taken(pool, w->need.what);
    pool_post(w->client);
}

/* A wait for any member looks on in steps from now on, as a choosy one. */
static void make_choosy(struct pool_waiter *w)
{
    pool_wait_leave_lines(w);
    w->class = CLASS_CHOOSY;
    pool_wait_in_line(w);
}

bool pool_try_serve(struct pool_place *place, bool *through_r)
{
    struct pool_member *found[POOL_COUNT_MAX] = {NULL};
    const struct pool_need *need = &place->waiter->need;
    uint32_t count;
    if (place->waiter->class == CLASS_CHOOSY) {
        if (!pool_fits(place))
            return false;
        for (uint32_t i = 0; i < need->count; i++)
            found[i] = place->candidates[i];
    } else {
        *through_r = pool_find_ready(place->pool, need, 1, found, &count);
        if (count == 0)
            return false;
    }
    serve(place, found);
    return true;
}

static struct pool_place *older(struct pool_place *a, struct pool_place *b)
{
    return !a || (b && b->waiter->need.seq < a->waiter->need.seq) ? b : a;
}

/* True if a plain wait is behind one that asks for the same and looks in steps: what that one may
 * not have, it may not have either. */
static bool is_behind(const struct pool_place *place)
{
    const struct pool_need *need = &place->waiter->need;
    for (EACH_CHOOSY(p, place->pool)) {
        const struct pool_waiter *w = p->waiter;
        if (w->need.seq > need->seq)
            return false;
        if (w->need.what == need->what && !w->choosing && pool_class_of(&w->need) == CLASS_PLAIN)
            return true;
    }
    return false;
}

/* The oldest plain waiter for this, if it may be tried; NULL: none. */
static struct pool_place *first_plain(struct pool *pool, enum pool_for what)
{
    struct pool_place *first = place_or_null(tree_first(&pool->classes[what][CLASS_PLAIN]));
    return first && !is_behind(first) ? first : NULL;
}

/* The oldest choosy waiter for this that fits; NULL: none. */
static struct pool_place *oldest_choosy(struct pool *pool, enum pool_for what)
{
    for (EACH_CHOOSY(p, pool)) {
        if (p->waiter->need.what == what && pool_fits(p))
            return p;
    }
    return NULL;
}

/* The oldest waiter that may fit, for one of some purposes; `plain` are those whose plain waiters
 * may fit (both: 1 << enum pool_for). NULL: none. */
static struct pool_place *oldest_to_try(struct pool *pool, unsigned whats, unsigned plain)
{
    struct pool_place *best = NULL;
    for (enum pool_for what = 0; what < POOL_FOR_COUNT; what++) {
        if (!(whats >> what & 1))
            continue;
        if (plain >> what & 1)
            best = older(best, first_plain(pool, what));
        best = older(best, oldest_choosy(pool, what));
    }
    for (EACH(struct pool_place, place, &pool->retries, of_retries)) {
        if (whats >> place->waiter->need.what & 1)
            best = older(best, place);
    }
    return best;
}

/* Serves those waiters that fit, oldest first. */
static void serve_for(struct pool *pool, unsigned whats)
{
    unsigned plain = whats;
    struct pool_place *place;
    while (pool->states[MEMBER_FREE] + pool->states[MEMBER_DIRTY] > 0) {
        bool through = true;
        pool_fit_settle(pool);
        place = oldest_to_try(pool, whats, plain);
        if (!place)
            return;
        struct pool_waiter *w = place->waiter;
        ring_remove(&place->of_retries);
        if (pool_try_serve(place, &through) || w->class != CLASS_PLAIN)
            continue;
        plain &= ~(1u << w->need.what);
        if (!through)
            make_choosy(w);
    }
}

void pool_serve(struct pool *pool)
{
    pool_expire(pool);
    serve_for(pool, 1u << POOL_FOR_USE | 1u << POOL_FOR_CLEAN);
    serve_for(pool, 1u << POOL_FOR_CHECK);
    bool none = pool->states[MEMBER_FREE] + pool->states[MEMBER_DIRTY] == 0;
    for (struct ring *at; none && (at = ring_first(&pool->retries)) != NULL;)
        ring_remove(at);
}

/* The older of two waiters, if `m` is not closed to it; `best` may have it. Of waiters whose
 * requests differ by age only, it is closed to all if it is to the oldest. */
static struct pool_place *older_open(const struct pool_member *m, struct pool_place *best,
                                     struct pool_place *first)
{
    return first && !pool_is_closed(m, &first->waiter->need) ? older(best, first) : best;
}

/* The oldest waiter for a member by its name; NULL: none. */
static struct pool_place *first_named(struct pool_member *m, enum pool_for what)
{
    struct bytes name = pool_member_name(m);
    struct pool_place *named =
        place_or_null(tree_from(&m->pool->classes[what][CLASS_NAMED], &name, compare_named));
    return named && bytes_equal(named->waiter->need.member, name) ? named : NULL;
}

/* The waiter for this that gets a ready member; NULL: none. */
static struct pool_place *next_for(struct pool_member *m, enum pool_for what)
{
    struct pool *pool = m->pool;
    struct pool_place *best =
        older_open(m, NULL, place_or_null(tree_first(&pool->classes[what][CLASS_PLAIN])));
    best = older_open(m, best, first_named(m, what));
    for (EACH_CHOOSY(p, pool)) {
        const struct pool_need *need = &p->waiter->need;
        if (older(best, p) != p)
            break;
        if (need->what == what && pool_fits(p) && may_have(m, need))
            return p;
    }
    return best;
}

void pool_serve_member(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (likely(!tree_first(&pool->lines[LINE_USE]) && !tree_first(&pool->lines[LINE_OTHER])))
        return;
    pool_expire(pool);
    pool_fit_settle(pool);
    struct pool_place *next = NULL;
    if (pool_is_ready(m, POOL_FOR_USE)) {
        next = next_for(m, POOL_FOR_USE);
        if (!next)
            next = next_for(m, POOL_FOR_CHECK);
    } else if (pool_is_ready(m, POOL_FOR_CLEAN)) {
        next = next_for(m, POOL_FOR_CLEAN);
    }
    if (!next)
        return;
    if (next->waiter->need.count == 1) {
        serve(next, &m);
        return;
    }
    CHECK(pool_try_serve(next, &(bool){true}));
    if (!m->hold)
        pool_retry_member(m); /* others were taken, which come first in the order */
}

void pool_retry_member(struct pool_member *m)
{
    for (enum pool_for what = 0; what < POOL_FOR_COUNT; what++) {
        struct pool_place *named = first_named(m, what);
        if (named && !ring_has(&named->of_retries))
            ring_add(&m->pool->retries, &named->of_retries);
    }
    pool_serve_later(m->pool);
}
