/*
 * pool_take.c - TAKE: which member goes to which client.
 *
 * A request fits a pool when enough members there match it and are not closed to it. A new request
 * that fits is served at once: it is younger than all that wait, and of those none fits. Else it
 * may wait, with a place in each pool that has room. Whatever becomes free goes to the oldest
 * waiter that fits.
 *
 * The waiters of a pool are kept by age (`waiters`), and by class and age. So the oldest that a
 * member fits is found at once for the classes PLAIN and NAMED, whatever their number; of the
 * others, each is looked at, and pool_fit.c has what they know. Requests for checks come behind all
 * requests for use.
 *
 * A request that is not decided after POOL_VISITS_MAX members becomes a waiter that is `asking`:
 * its client goes on with it in steps (pool_take_on), and is answered when it has looked at all. It
 * stands in line from the beginning. Where it will not wait it is a guest: of pools that were full
 * when it came, and if its timeout is 0.
 *
 * Overtaking: only a request for several members can be passed by younger ones that could use the
 * same members. After `overtakes` such members it closes all members that match it to younger
 * requests, unless the pool has fewer of them than it needs.
 *
 * The tree `checks` has the free members by the time of their last check. A member that is taken
 * stays there until a request for a check meets it; when it is free again it is added again. So
 * requests for use pay nothing for it.
 */
#include "engine/pool_inside.h"

#include <string.h>

/* ---- order ---------------------------------------------------------------------------------- */

static struct pool_place *place_by_age(const struct tree_node *node)
{
    return item_of(node, struct pool_place, by_age);
}

static struct pool_place *place_by_class(const struct tree_node *node)
{
    return item_of(node, struct pool_place, by_class);
}

/* The first place of a class, from `node` on; NULL: none. */
static struct pool_place *place_or_null(const struct tree_node *node)
{
    return node ? place_by_class(node) : NULL;
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
        order = bytes_compare(x->ask.member, y->ask.member);
    return order ? order : compare_ages(x->ask.seq, y->ask.seq);
}

static int compare_named(const struct tree_node *node, const void *name)
{
    return bytes_compare(place_by_class(node)->waiter->ask.member, *(const struct bytes *)name);
}

static enum pool_class pool_class_of(const struct pool_ask *ask)
{
    if (ask->count > 1 || ask->with_count > 0)
        return CLASS_CHOOSY;
    return ask->member.len > 0 ? CLASS_NAMED : CLASS_PLAIN;
}

/* ---- what matches --------------------------------------------------------------------------- */

static bool has_attribute(const struct pool_member *m, const struct pool_attribute *with)
{
    for (size_t i = 0; m->attributes && i < m->attributes->count; i++) {
        const struct pool_attribute *at = &m->attributes->at[i];
        if (bytes_equal(at->key, with->key))
            return bytes_equal(at->value, with->value);
    }
    return with->value.len == 0;
}

bool pool_matches(const struct pool_ask *ask, const struct pool_member *m)
{
    if (ask->member.len > 0 && !bytes_equal(ask->member, pool_member_name(m)))
        return false;
    for (size_t i = 0; i < ask->with_count; i++) {
        if (!has_attribute(m, &ask->with[i]))
            return false;
    }
    return true;
}

/* True if a waiting request comes before another one. */
static bool comes_before(const struct pool_place *place, const struct pool_ask *ask)
{
    return ask->what == POOL_FOR_CHECK || place->waiter->ask.seq < ask->seq;
}

bool pool_is_closed(const struct pool_member *m, const struct pool_ask *ask)
{
    return m->closer && comes_before(m->closer, ask);
}

/* A member goes to a request: counts that for the older ones that could use it, until they close
 * members. */
static void count_overtaken(struct pool *pool, const struct pool_member *m,
                            const struct pool_ask *ask)
{
    bool clean = ask->what == POOL_FOR_CLEAN;
    for (struct pool_place *p = pool_first_choosy(pool); unlikely(p); p = pool_next_choosy(p)) {
        const struct pool_ask *other = &p->waiter->ask;
        if (!comes_before(p, ask))
            return;
        if (!pool_can_be_passed(p->waiter) || (other->what == POOL_FOR_CLEAN) != clean ||
            p->overtaken >= pool->options.overtakes || !pool_matches(other, m))
            continue;
        if (++p->overtaken >= pool->options.overtakes)
            pool_fit_later(pool);
    }
}

/* ---- what is there -------------------------------------------------------------------------- */

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

static struct pool_member *free_or_null(const struct tree_node *node)
{
    return node ? item_of(node, struct pool_member, place) : NULL;
}

static struct pool_member *check_or_null(const struct tree_node *node)
{
    return node ? item_of(node, struct pool_member, check_place) : NULL;
}

/* Walks over the members that a request may be served from, in its order; those in `checks` need
 * not be free. */
static struct pool_member *first_member(struct pool *pool, enum pool_for what)
{
    if (what == POOL_FOR_CHECK)
        return check_or_null(tree_first(&pool->checks));
    return free_or_null(tree_first(what == POOL_FOR_CLEAN ? &pool->dirty : &pool->free));
}

static struct pool_member *next_member(const struct pool_member *m, enum pool_for what)
{
    return what == POOL_FOR_CHECK ? check_or_null(tree_next(&m->check_place))
                                  : free_or_null(tree_next(&m->place));
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

static bool may_have(const struct pool_member *m, const struct pool_ask *ask)
{
    return pool_is_ready(m, ask->what) && pool_matches(ask, m) && !pool_is_closed(m, ask);
}

/*
 * Finds up to `max` members in this pool that the request may have now, in the order in which they
 * are given out. Returns false if it had to end before it had looked at all.
 */
static bool find(struct pool *pool, const struct pool_ask *ask, uint32_t max,
                 struct pool_member **found, uint32_t *count_r)
{
    struct pools *pools = pool->pools;
    struct pool_member *next;
    *count_r = 0;
    if (ask->member.len > 0) {
        found[0] = pool_find_member(pool, ask->member);
        *count_r = found[0] && may_have(found[0], ask);
        return true;
    }
    if (pool->states[ask->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE] == 0)
        return true;
    for (struct pool_member *m = first_member(pool, ask->what); m && *count_r < max; m = next) {
        if (!pool_visit(pools))
            return false;
        next = next_member(m, ask->what);
        if (ask->what == POOL_FOR_CHECK && m->state != MEMBER_FREE)
            pool_checks_remove(m);
        else if (may_have(m, ask))
            found[(*count_r)++] = m;
    }
    return true;
}

/* Counts the members that a new request may have now. Returns false if it had to end before. */
static bool count_free(struct pool *pool, const struct pool_ask *ask, uint32_t *count_r)
{
    struct pools *pools = pool->pools;
    uint32_t free = pool->states[ask->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE];
    *count_r = 0;
    if (ask->with_count == 0 && pool->closed == 0 &&
        deadlines_next(&pool->lifetimes) > pools->now.mono_ns) {
        *count_r = free;
        return true;
    }
    for (struct pool_member *m = free > 0 ? first_member(pool, ask->what) : NULL; m;
         m = next_member(m, ask->what)) {
        if (pools->visits >= pools->visits_max / 2 || !pool_visit(pools)) /* `find` needs a half */
            return false;
        *count_r += may_have(m, ask);
    }
    return true;
}

/* ---- the lines of a waiter ------------------------------------------------------------------- */

static bool is_in_line(const struct pool_place *place)
{
    return tree_has(&place->by_age);
}

static uint32_t *waiting_of(struct pool *pool, enum pool_for what)
{
    return what == POOL_FOR_USE ? &pool->waiting_use : &pool->waiting_other;
}

/* Counts a place in line, or not any more: 1 or -1. Guests do not count. */
static void count_place(const struct pool_place *place, int more)
{
    struct pool *pool = place->pool;
    const struct pool_ask *ask = &place->waiter->ask;
    if (place->guest)
        return;
    *waiting_of(pool, ask->what) += (uint32_t)more;
    if (ask->what != POOL_FOR_USE)
        return;
    pool->awaited += (uint32_t)more * ask->count;
    pool->pools->waiting_count += (uint64_t)more;
}

/* Where those of its pool are that wait as this one does, by age. */
static struct tree *line_of(const struct pool_place *place)
{
    return place->waiter->ask.what == POOL_FOR_USE ? &place->pool->users : &place->pool->others;
}

static void enter_line(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    tree_add(line_of(place), &place->by_age);
    if (w->class == CLASS_CHOOSY)
        pool_fit_enter(place);
    else
        tree_add(&pool->classes[w->ask.what][w->class], &place->by_class);
    count_place(place, 1);
    w->in_line++;
}

static void leave_line(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    tree_remove(line_of(place), &place->by_age);
    ring_remove(&place->of_retries);
    if (w->class == CLASS_CHOOSY)
        pool_fit_leave(place);
    if (w->class == CLASS_CHOOSY && pool_class_of(&w->ask) == CLASS_PLAIN)
        pool_serve_later(pool); /* those behind it (first_plain) */
    if (w->class != CLASS_CHOOSY)
        tree_remove(&pool->classes[w->ask.what][w->class], &place->by_class);
    count_place(place, -1);
    w->in_line--;
}

static void leave_all_lines(struct pool_waiter *w)
{
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool && is_in_line(&w->places[i]))
            leave_line(&w->places[i]);
    }
}

void pool_wait_in_line(struct pool_waiter *w)
{
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool)
            enter_line(&w->places[i]);
    }
}

/* Gives up a place for good. */
static void give_up(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pools *pools = pool->pools;
    if (is_in_line(place))
        leave_line(place);
    if (place->unit)
        table_unreserve(pools->config.table, &place->waiter->client->mirror, place->unit,
                        pools->now);
    place->pool = NULL;
    pool_unref(pool);
}

static void free_waiter(struct pool_waiter *w)
{
    struct pools *pools = w->client->pools;
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool)
            give_up(&w->places[i]);
    }
    for (struct ring *first; (first = ring_first(&w->holds)) != NULL;) {
        ring_remove(first);
        pool_hold_free(item_of(first, struct pool_hold, of_client));
    }
    pool_free(pools, w->member);
    pool_free(pools, w->with);
    pool_free(pools, w);
}

/* ---- serving -------------------------------------------------------------------------------- */

/* Serves a waiter in one pool with these members. */
static void serve(struct pool_place *place, struct pool_member **members)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    struct ring *at = &w->holds;
    CHECK(w->state == WAIT_IN_LINE);
    leave_all_lines(w);
    for (uint32_t i = 0; i < w->ask.count; i++) {
        at = at->next;
        count_overtaken(pool, members[i], &w->ask);
        pool_hold_begin(item_of(at, struct pool_hold, of_client), members[i], place->unit, true);
    }
    w->state = WAIT_SERVED;
    pool->takes[w->ask.what][POOL_TAKES_TAKEN]++;
    if (w->ask.what == POOL_FOR_USE)
        buckets_add(&pool->waits, pool->pools->now.mono_ns - w->since_ns, 1);
    if (pool_is_joined(pool) && w->ask.what == POOL_FOR_USE &&
        pool->states[MEMBER_FREE] < pool->options.min_free)
        pool_raise_want(pool, 0);
    pool_post(w->client);
}

/* A wait for any member looks on in steps from now on, as a choosy one. */
static void make_choosy(struct pool_waiter *w)
{
    leave_all_lines(w);
    w->class = CLASS_CHOOSY;
    pool_wait_in_line(w);
}

/* Serves a waiter if it fits. *through_r is false if that is not known: it had to end before. */
static bool try_serve(struct pool_place *place, bool *through_r)
{
    struct pool_member *found[POOL_COUNT_MAX] = {NULL};
    const struct pool_ask *ask = &place->waiter->ask;
    uint32_t count;
    if (place->waiter->class == CLASS_CHOOSY) {
        if (!pool_fits(place))
            return false;
        for (uint32_t i = 0; i < ask->count; i++)
            found[i] = place->candidates[i];
    } else {
        *through_r = find(place->pool, ask, 1, found, &count);
        if (count == 0)
            return false;
    }
    serve(place, found);
    return true;
}

static struct pool_place *older(struct pool_place *a, struct pool_place *b)
{
    return !a || (b && b->waiter->ask.seq < a->waiter->ask.seq) ? b : a;
}

/* True if a plain wait for this is behind one that asks for the same and looks in steps: what that
 * one may not have, it may not have either. */
bool pool_is_behind(const struct pool_place *place)
{
    const struct pool_ask *ask = &place->waiter->ask;
    for (struct pool_place *p = pool_first_choosy(place->pool); p; p = pool_next_choosy(p)) {
        const struct pool_waiter *w = p->waiter;
        if (w->ask.seq > ask->seq)
            return false;
        if (w->ask.what == ask->what && !w->choosing && pool_class_of(&w->ask) == CLASS_PLAIN)
            return true;
    }
    return false;
}

/* The oldest plain waiter for this, if it may be tried; NULL: none. */
static struct pool_place *first_plain(struct pool *pool, enum pool_for what)
{
    struct pool_place *first = place_or_null(tree_first(&pool->classes[what][CLASS_PLAIN]));
    return first && !pool_is_behind(first) ? first : NULL;
}

/* The oldest choosy waiter for this that fits; NULL: none. */
static struct pool_place *oldest_choosy(struct pool *pool, enum pool_for what)
{
    struct pool_place *p = pool_first_choosy(pool);
    while (p && (p->waiter->ask.what != what || !pool_fits(p)))
        p = pool_next_choosy(p);
    return p;
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
    for (struct ring *at = pool->retries.next; at != &pool->retries; at = at->next) {
        struct pool_place *place = item_of(at, struct pool_place, of_retries);
        if (whats >> place->waiter->ask.what & 1)
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
        if (try_serve(place, &through) || w->class != CLASS_PLAIN)
            continue;
        plain &= ~(1u << w->ask.what);
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

/* The oldest waiter of a class whose requests differ by age only, beginning with `n`, if it may
 * have `m`. If that is closed to it, it is closed to all younger ones. */
static struct pool_place *first_if_open(const struct pool_member *m, const struct tree_node *n)
{
    struct pool_place *first = place_or_null(n);
    return first && !pool_is_closed(m, &first->waiter->ask) ? first : NULL;
}

/* The oldest waiter for a member by its name; NULL: none. */
static struct pool_place *first_named(struct pool_member *m, enum pool_for what)
{
    struct bytes name = pool_member_name(m);
    struct pool_place *named =
        place_or_null(tree_from(&m->pool->classes[what][CLASS_NAMED], &name, compare_named));
    return named && bytes_equal(named->waiter->ask.member, name) ? named : NULL;
}

/* The waiter for this that gets a ready member; NULL: none. */
static struct pool_place *next_for(struct pool_member *m, enum pool_for what)
{
    struct pool *pool = m->pool;
    struct pool_place *best = first_if_open(m, tree_first(&pool->classes[what][CLASS_PLAIN]));
    struct pool_place *named = first_named(m, what), *p;
    if (named && !pool_is_closed(m, &named->waiter->ask))
        best = older(best, named);
    for (p = pool_first_choosy(pool); p && older(best, p) == p; p = pool_next_choosy(p)) {
        const struct pool_ask *ask = &p->waiter->ask;
        if (ask->what == what && pool_fits(p) && may_have(m, ask))
            return p;
    }
    return best;
}

void pool_serve_member(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (likely(!tree_first(&pool->users) && !tree_first(&pool->others)))
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
    if (next->waiter->ask.count == 1) {
        serve(next, &m);
        return;
    }
    CHECK(try_serve(next, &(bool){true}));
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

/* ---- refusing ------------------------------------------------------------------------------- */

static void refuse_place(struct pool_place *place, enum pool_status why)
{
    struct pool_waiter *w = place->waiter;
    struct pool *pool = place->pool;
    pool_ref(pool);
    give_up(place);
    if (w->in_line == 0) {
        if (why == POOL_QUEUE_FULL)
            pool->takes[w->ask.what][POOL_TAKES_QUEUE_FULL]++;
        w->state = WAIT_REFUSED;
        w->refused = why;
        pool_post(w->client);
    }
    pool_unref(pool);
}

/* Refuses the newest waiters for use, or all others, until `max` are left. */
static void refuse(struct pool *pool, bool use, uint32_t max, enum pool_status why)
{
    uint32_t *waiting = use ? &pool->waiting_use : &pool->waiting_other;
    uint32_t keep = max; /* the oldest of them stay */
    struct tree_node *next;
    if (*waiting <= max)
        return;
    for (struct tree_node *n = tree_first(use ? &pool->users : &pool->others); n; n = next) {
        struct pool_place *place = place_by_age(n);
        next = tree_next(n);
        if (place->guest)
            continue; /* it will not wait */
        if (keep > 0)
            keep--;
        else
            refuse_place(place, why);
    }
}

void pool_refuse(struct pool *pool, uint32_t use, uint32_t other, enum pool_status why)
{
    refuse(pool, true, use, why);
    refuse(pool, false, other, why);
    struct tree_node *guest;
    while (pool->draining && (guest = tree_first(&pool->users)))
        refuse_place(place_by_age(guest), why);
    while (pool->draining && (guest = tree_first(&pool->others)))
        refuse_place(place_by_age(guest), why);
}

void pool_wait_drop(struct pool_client *client)
{
    struct pool_waiter *w = client->waiter;
    client->waiter = NULL;
    if (w->state == WAIT_SERVED) {
        for (struct ring *h = w->holds.next; h != &w->holds; h = h->next)
            pool_hold_undo(item_of(h, struct pool_hold, of_client));
    }
    free_waiter(w);
}

void pool_wait_again(struct pool_waiter *w)
{
    CHECK(w->state == WAIT_SERVED);
    w->state = WAIT_IN_LINE;
    for (struct ring *h = w->holds.next; h != &w->holds; h = h->next) {
        struct pool_hold *hold = item_of(h, struct pool_hold, of_client);
        if (hold->member)
            pool_hold_undo(hold);
    }
    for (size_t i = 0; i < w->place_count; i++) {
        struct pool_place *place = &w->places[i];
        if (place->pool && place->pool->draining)
            give_up(place);
        else if (place->pool)
            pool_serve_later(place->pool);
    }
    pool_wait_in_line(w);
    if (w->in_line == 0) {
        w->state = WAIT_REFUSED;
        w->refused = POOL_NO_POOL;
        pool_post(w->client);
    }
}

/* ---- targets -------------------------------------------------------------------------------- */

/* The pools of a TAKE: a list, or all that are in a group now. */
struct targets {
    struct pools *pools;
    struct pool *list[POOL_TARGETS_MAX];
    size_t count;
    bool group;
    struct bytes group_name;
};

static bool is_of_group(const struct pool *pool, struct bytes group)
{
    return !pool->draining && bytes_equal(bytes_of(pool->options.group), group);
}

/* The next pool of the group, after `pool` (NULL: the first). */
static struct pool *next_of_group(const struct targets *t, const struct pool *pool)
{
    const struct ring *at = pool ? &pool->of_group : &t->pools->grouped;
    for (at = at->next; at != &t->pools->grouped; at = at->next) {
        struct pool *next = item_of(at, struct pool, of_group);
        if (is_of_group(next, t->group_name))
            return next;
    }
    return NULL;
}

/* Goes on to the next pool: *at begins as 0, *pool as NULL. */
static bool next_target(const struct targets *t, size_t *at, struct pool **pool)
{
    *pool = t->group ? next_of_group(t, *pool) : *at < t->count ? t->list[*at] : NULL;
    (*at)++;
    return *pool != NULL;
}

/* for (EACH_TARGET(t, pool)) */
#define EACH_TARGET(t, pool)                                                                       \
    size_t at_ = 0;                                                                                \
    next_target(t, &at_, &(pool));

static enum pool_status resolve(struct pools *pools, const struct pool_take *take,
                                struct targets *t);

/* The same, once the members of clients that have ended have left. */
static enum pool_status resolve_whole(struct pools *pools, const struct pool_take *take,
                                      struct targets *t)
{
    pool_clients_leave(pools);
    pool_let_others(pools);
    return resolve(pools, take, t);
}

static enum pool_status resolve(struct pools *pools, const struct pool_take *take,
                                struct targets *t)
{
    t->pools = pools;
    t->count = 0;
    t->group = take->group;
    t->list[0] = NULL;
    if (take->group) {
        t->group_name = take->targets[0];
        for (struct pool *pool = NULL; (pool = next_of_group(t, pool)) != NULL;) {
            if (unlikely(pool->leaving > 0))
                return resolve_whole(pools, take, t);
        }
        return next_of_group(t, NULL) ? POOL_OK : POOL_NO_POOL;
    }
    CHECK(take->target_count <= POOL_TARGETS_MAX);
    for (size_t i = 0; i < take->target_count; i++) {
        struct pool *pool = pool_find(pools, take->targets[i]);
        if (pool && unlikely(pool->leaving > 0))
            return resolve_whole(pools, take, t);
        if (!pool || pool->draining)
            return POOL_NO_POOL;
        t->list[t->count++] = pool;
    }
    return POOL_OK;
}

/* Checks a request; on the way lets lifetimes end that are over. */
static enum pool_status judge(struct pool_client *client, const struct pool_take *take,
                              struct targets *t)
{
    struct pools *pools = client->pools;
    enum pool_status status = resolve(pools, take, t);
    struct pool *pool = NULL;
    if (status != POOL_OK)
        return status;
    for (EACH_TARGET(t, pool)) {
        if (take->what == POOL_FOR_CLEAN && pool_is_joined(pool))
            return POOL_WRONG_KIND;
    }
    pool = t->list[0];
    if (take->member.len > 0 && !pool_find_member(pool, take->member))
        return POOL_NO_MEMBER;
    if (take->count > pools->config.limits.taken_max ||
        client->hold_count > pools->config.limits.taken_max - take->count)
        return POOL_TOO_MANY;
    pool = NULL;
    for (EACH_TARGET(t, pool)) {
        pool_expire(pool);
        pool_fit_settle(pool);
    }
    return POOL_OK;
}

/* ---- a new request --------------------------------------------------------------------------- */

static uint64_t held_in(const struct pool *pool)
{
    return pool->states[MEMBER_TAKEN] + (uint64_t)pool->states[MEMBER_CLEANING] +
           pool->states[MEMBER_CHECKING];
}

/* The pool with the most free members; of equal ones that with the fewest held, then by chance. */
struct best {
    void *choice; /* NULL: none yet */
    uint32_t free, ties;
    uint64_t held;
};

/* Compares another pool, which stands for `choice`. */
static void compare_best(struct best *best, const struct pool *pool, uint32_t free, void *choice)
{
    uint64_t held = held_in(pool);
    if (best->choice && free < best->free)
        return;
    if (!best->choice || free > best->free || held < best->held)
        *best = (struct best){choice, free, 1, held};
    else if (held == best->held && pool_random(pool->pools) % ++best->ties == 0)
        best->choice = choice;
}

/* The pool of a group that has the most for a request. Returns false if it had to end before; NULL:
 * none has enough. */
static bool choose_of_group(const struct targets *t, const struct pool_ask *ask,
                            struct pool **pool_r)
{
    struct best best = {0};
    struct pool *pool = NULL;
    for (EACH_TARGET(t, pool)) {
        uint32_t free;
        if (!count_free(pool, ask, &free))
            return false;
        if (free >= ask->count)
            compare_best(&best, pool, free, pool);
    }
    *pool_r = best.choice;
    return true;
}

/* Finds a pool that serves the request now, and the members there; NULL: none. Returns false if it
 * had to end before. */
static bool find_now(const struct targets *t, const struct pool_ask *ask,
                     struct pool_member **found, struct pool **pool_r)
{
    struct pool *pool = NULL;
    uint32_t count;
    *pool_r = NULL;
    if (t->group) {
        if (!choose_of_group(t, ask, &pool))
            return false;
        if (pool && !find(pool, ask, ask->count, found, &count))
            return false;
        CHECK(!pool || count == ask->count);
        *pool_r = pool;
        return true;
    }
    for (EACH_TARGET(t, pool)) {
        if (!find(pool, ask, ask->count, found, &count))
            return false;
        if (count == ask->count) {
            *pool_r = pool;
            return true;
        }
    }
    return true;
}

/* Makes `count` empty holds in `list`. Returns false without memory; `list` may have some then. */
static bool make_holds(struct pool_client *client, const struct pool_take *take, struct ring *list)
{
    for (uint32_t i = 0; i < take->count; i++) {
        struct pool_hold *hold = pool_hold_new(client, take->what, take->by);
        if (!hold)
            return false;
        ring_add(list, &hold->of_client);
    }
    return true;
}

static void free_holds(struct ring *list)
{
    for (struct ring *first; (first = ring_first(list)) != NULL;) {
        ring_remove(first);
        pool_hold_free(item_of(first, struct pool_hold, of_client));
    }
}

/* Adds the units of the counter for a new request. Returns false without memory; *unit_r is NULL if
 * the counter has no room. */
static bool add_units(struct pool_client *client, const struct pool *pool, uint32_t count,
                      struct holding **unit_r)
{
    struct pools *pools = client->pools;
    *unit_r = NULL;
    return table_add(pools->config.table, &client->mirror, pool_counter(pool), pool->counter_hash,
                     count, pools->now, unit_r) != TABLE_NO_MEMORY;
}

/* Takes what was found. */
static enum pool_status take_now(struct pool_client *client, const struct pool_take *take,
                                 const struct pool_ask *ask, struct pool *pool,
                                 struct pool_member **found, const struct pool_reader *reader,
                                 uint64_t position)
{
    struct ring holds;
    struct holding *unit;
    ring_init(&holds);
    if (!make_holds(client, take, &holds) || !add_units(client, pool, take->count, &unit)) {
        free_holds(&holds);
        return POOL_NO_MEMORY;
    }
    for (uint32_t i = 0; i < take->count; i++) {
        struct pool_hold *hold = item_of(holds.next, struct pool_hold, of_client);
        ring_remove(&hold->of_client);
        count_overtaken(pool, found[i], ask);
        pool_hold_begin(hold, found[i], unit, false);
        pool_hold_tell(hold, reader, position);
    }
    pool->takes[take->what][POOL_TAKES_TAKEN]++;
    if (pool_is_joined(pool) && take->what == POOL_FOR_USE &&
        pool->states[MEMBER_FREE] < pool->options.min_free)
        pool_raise_want(pool, 0);
    return POOL_OK;
}

static bool has_room(struct pool *pool, enum pool_for what)
{
    return *waiting_of(pool, what) < pool->options.queue_max;
}

/* True if a request may stand in the line of a pool: to wait, or if it is `asking` also as a guest.
 */
static bool may_enter(struct pool *pool, const struct pool_take *take, bool asking)
{
    bool choosy = asking || take->count > 1 || take->with_count > 0;
    return (asking || has_room(pool, take->what)) &&
           (!choosy || pool->choosy_count < POOL_CHOOSY_MAX);
}

struct pool_waiter *pool_waiter_new(struct pool_client *client, const struct pool_take *take,
                                    size_t rooms)
{
    struct pools *pools = client->pools;
    size_t each = sizeof(struct pool_place) + take->count * sizeof(struct pool_member *);
    struct pool_waiter *w = pool_alloc(pools, sizeof(*w) + rooms * each);
    if (!w)
        return NULL;
    w->client = client;
    ring_init(&w->holds);
    w->member = pool_text_new(pools, take->member);
    w->with = pool_attributes_copy(pools, take->with, take->with_count);
    if ((!w->with && take->with_count > 0) || (!w->member && take->member.len > 0) ||
        !make_holds(client, take, &w->holds)) {
        free_waiter(w);
        return NULL;
    }
    w->ask = (struct pool_ask){.seq = ++pools->seq,
                               .count = take->count,
                               .what = take->what,
                               .member = pool_text_bytes(w->member),
                               .with = w->with ? w->with->at : NULL,
                               .with_count = w->with ? w->with->count : 0};
    w->class = pool_class_of(&w->ask);
    w->room = rooms;
    w->since_ns = pools->now.mono_ns;
    w->timeout_ns = take->timeout_ns;
    return w;
}

struct pool_place *pool_waiter_add(struct pool_waiter *w, struct pool *pool)
{
    struct pool_place *place = &w->places[w->place_count];
    struct pool_member **candidates = (struct pool_member **)(void *)&w->places[w->room];
    candidates += w->place_count++ * w->ask.count;
    *place = (struct pool_place){.waiter = w, .pool = pool, .candidates = candidates};
    pool_ref(pool);
    return place;
}

bool pool_waiter_reserve(struct pool_waiter *w)
{
    struct pools *pools = w->client->pools;
    for (size_t i = 0; i < w->place_count; i++) {
        struct pool_place *place = &w->places[i];
        place->unit =
            table_reserve(pools->config.table, &w->client->mirror, pool_counter(place->pool),
                          place->pool->counter_hash, pools->now);
        if (!place->unit)
            return false;
    }
    return true;
}

/* Makes a waiter with a place in each pool that it may enter. NULL: no memory. */
static struct pool_waiter *make_waiter(struct pool_client *client, const struct pool_take *take,
                                       const struct targets *t, size_t rooms, bool asking)
{
    struct pool *pool = NULL;
    struct pool_waiter *w = pool_waiter_new(client, take, rooms);
    if (!w)
        return NULL;
    w->asking = asking;
    w->choosing = asking && t->group;
    if (asking)
        w->class = CLASS_CHOOSY;
    for (EACH_TARGET(t, pool)) {
        if (may_enter(pool, take, asking))
            pool_waiter_add(w, pool)->guest =
                asking && (take->timeout_ns == 0 || !has_room(pool, take->what));
    }
    if (pool_waiter_reserve(w))
        return w;
    free_waiter(w);
    return NULL;
}

/* A request is refused, for lack of members or of room: more members of this pool may be wanted.
 * `first`: it is counted there. */
static void count_refused(struct pool *pool, const struct pool_ask *ask, enum pool_outcome outcome,
                          bool first)
{
    bool use = ask->what == POOL_FOR_USE && pool_is_joined(pool);
    if (use)
        pool_raise_want(pool, ask->member.len > 0 || ask->with_count > 0 ? 0 : ask->count);
    bool grows = use && pool->want > pool->member_count - pool->states[MEMBER_STOPPING];
    if (first)
        pool->takes[ask->what]
                   [outcome == POOL_TAKES_BUSY && grows ? POOL_TAKES_GROWING : outcome]++;
}

static void count_all_refused(const struct targets *t, const struct pool_ask *ask,
                              enum pool_outcome outcome)
{
    struct pool *pool = NULL;
    bool first = true;
    for (EACH_TARGET(t, pool)) {
        count_refused(pool, ask, outcome, first);
        first = false;
    }
}

/* A request waits: more members may be wanted. */
static void begin_wait(const struct pool_waiter *w)
{
    for (size_t i = 0; i < w->place_count; i++) {
        struct pool *pool = w->places[i].pool;
        if (pool && pool_is_joined(pool) && w->ask.what == POOL_FOR_USE)
            pool_raise_want(pool, 0);
    }
}

/* Puts a request into its lines, to wait or, if it is `asking`, to be looked at in steps. */
static enum pool_status wait_for(struct pool_client *client, const struct pool_take *take,
                                 const struct pool_ask *ask, const struct targets *t, bool asking)
{
    struct pool *pool = NULL;
    size_t rooms = 0;
    for (EACH_TARGET(t, pool))
        rooms += may_enter(pool, take, asking);
    if (rooms == 0) {
        count_all_refused(t, ask, POOL_TAKES_QUEUE_FULL);
        return POOL_QUEUE_FULL;
    }
    struct pool_waiter *w = make_waiter(client, take, t, rooms, asking);
    if (!w)
        return POOL_NO_MEMORY;
    client->waiter = w;
    pool_wait_in_line(w);
    if (!asking)
        begin_wait(w);
    return asking ? POOL_LOOKS : POOL_WAITS;
}

enum pool_status pool_take(struct pool_client *client, const struct pool_take *take,
                           const struct pool_reader *reader, uint64_t position, struct moment now,
                           struct pool_effects *effects)
{
    struct targets t;
    struct pool_member *found[POOL_COUNT_MAX];
    struct pool_ask ask = {.seq = UINT64_MAX,
                           .count = take->count,
                           .what = take->what,
                           .member = take->member,
                           .with = take->with,
                           .with_count = take->with_count};
    pool_enter(client->pools, now, effects);
    CHECK(!client->waiter);
    enum pool_status status = judge(client, take, &t);
    if (status == POOL_OK) {
        struct pool *pool;
        bool through = find_now(&t, &ask, found, &pool);
        if (pool) {
            status = take_now(client, take, &ask, pool, found, reader, position);
        } else if (!through || take->timeout_ns > 0) {
            status = wait_for(client, take, &ask, &t, !through);
        } else {
            count_all_refused(&t, &ask, POOL_TAKES_BUSY);
            status = POOL_TIMES_OUT;
        }
    }
    pool_leave(client->pools);
    return status;
}

/* ---- a request in steps ---------------------------------------------------------------------- */

/* True when a request has looked at a pool. One that is not choosy was restored, which has looked
 * for it. */
static bool has_looked_at(const struct pool_place *place)
{
    return place->waiter->class != CLASS_CHOOSY || (place->looks == STAGE_DONE && !place->stale);
}

/* The same for all its pools. */
static bool has_looked(const struct pool_waiter *w)
{
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool && !has_looked_at(&w->places[i]))
            return false;
    }
    return true;
}

/* Serves a request of a group, which has looked at all its pools, where it has the most. */
static void serve_best(struct pool_waiter *w)
{
    struct best best = {0};
    w->choosing = false;
    for (size_t i = 0; i < w->place_count; i++) {
        struct pool_place *place = &w->places[i];
        if (place->pool && pool_fits(place))
            compare_best(&best, place->pool, place->ready, place);
    }
    if (best.choice)
        (void)try_serve(best.choice, &(bool){true});
}

/* Looks on at the pools of a request. */
static void look_on(struct pool_waiter *w)
{
    for (size_t i = 0; i < w->place_count && w->state == WAIT_IN_LINE; i++) {
        struct pool *pool = w->places[i].pool;
        if (!pool || has_looked_at(&w->places[i]))
            continue;
        pool_expire(pool);
        pool_fit_step(pool);
        pool_serve(pool);
        if (w->state == WAIT_IN_LINE && w->places[i].looks != STAGE_DONE)
            return; /* this pool comes before the next ones */
    }
    if (w->state == WAIT_IN_LINE && w->choosing && has_looked(w))
        serve_best(w);
}

/* A request that has looked at all is not served now: it waits, or is refused. */
static enum pool_status decide(struct pool_waiter *w)
{
    bool first = true;
    for (size_t i = 0; i < w->place_count && w->timeout_ns == 0; i++) {
        if (!w->places[i].pool)
            continue;
        count_refused(w->places[i].pool, &w->ask, POOL_TAKES_BUSY, first);
        first = false;
    }
    if (w->timeout_ns == 0)
        return POOL_TIMES_OUT;
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool && w->places[i].guest)
            refuse_place(&w->places[i], POOL_QUEUE_FULL);
    }
    if (w->state == WAIT_REFUSED)
        return w->refused;
    w->asking = false;
    begin_wait(w);
    return POOL_WAITS;
}

/* The round in which this thread has last made a step; it makes one in each round. A stamp for all
 * threads would let quick ones keep a slow one from all its steps. */
static _Thread_local int64_t stepped_ns = INT64_MIN;

enum pool_status pool_take_on(struct pool_client *client, const struct pool_reader *reader,
                              uint64_t position, struct moment now, struct pool_effects *effects)
{
    struct pools *pools = client->pools;
    enum pool_status status = POOL_LOOKS;
    pool_enter(pools, now, effects);
    struct pool_waiter *w = client->waiter;
    CHECK(w && w->asking);
    if (w->state == WAIT_IN_LINE && now.mono_ns != stepped_ns) {
        stepped_ns = now.mono_ns;
        look_on(w);
    }
    if (w->state == WAIT_SERVED) {
        w->asking = false;
        pool_read_verdict(client, reader, position);
        status = POOL_OK;
    } else if (w->state == WAIT_REFUSED) {
        status = w->refused;
    } else if (has_looked(w)) {
        status = decide(w);
    } else if (w->timeout_ns > 0 && now.mono_ns - w->since_ns >= w->timeout_ns) {
        status = POOL_TIMES_OUT;
        for (size_t i = 0; i < w->place_count; i++) {
            if (w->places[i].pool) {
                w->places[i].pool->takes[w->ask.what][POOL_TAKES_TIMED_OUT]++;
                break;
            }
        }
    }
    if (status != POOL_LOOKS && status != POOL_WAITS && client->waiter)
        pool_wait_drop(client);
    pool_leave(pools);
    return status;
}

int64_t pool_wait_left(const struct pool_client *client, struct moment now)
{
    const struct pool_waiter *w = client->waiter;
    int64_t past_ns = now.mono_ns > w->since_ns ? now.mono_ns - w->since_ns : 0;
    return past_ns < w->timeout_ns ? w->timeout_ns - past_ns : 0;
}

bool pool_end_wait(struct pool_client *client, bool timed_out, struct moment now,
                   struct pool_effects *effects)
{
    struct pool_waiter *w = client->waiter;
    pool_enter(client->pools, now, effects);
    bool waits = w->state == WAIT_IN_LINE;
    if (waits) {
        struct pool *first = NULL;
        for (size_t i = 0; !first && i < w->place_count; i++)
            first = w->places[i].pool;
        CHECK(first); /* else it would be over */
        if (timed_out)
            first->takes[w->ask.what][POOL_TAKES_TIMED_OUT]++;
        pool_wait_drop(client);
    }
    pool_leave(client->pools);
    return waits;
}
