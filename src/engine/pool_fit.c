/*
 * pool_fit.c - what choosy waits know of their pool, so that nothing walks over all members when
 * one of them moves.
 *
 * A choosy place (CLASS_CHOOSY) has candidates: the ready members that it could have and that no
 * older wait closes to it, at most as many as it asks for. When it has that many it fits. It looks
 * at all ready members once, in the order in which they are handed out, in steps. What becomes
 * ready meanwhile is compared with it at once; so it ends, however fast others take members at the
 * beginning of the order and return them at its end. Afterwards a member that moves is compared
 * with each choosy place, of which a pool has POOL_CHOOSY_MAX. If it fits but an older wait comes
 * before it, there may be more than its candidates (`more`): when it loses one it looks again
 * (`stale`).
 *
 * A wait for several members that was overtaken too often closes its candidates to all younger
 * ones, while the pool has as many members as it asks for. Each of them then has it as `closer`:
 * the oldest that closes it. For that, a place counts the members that it could use at all, by
 * name (`population`).
 */
#include "engine/pool_internal.h"

/* How many members a step visits. Others wait for it, and many may follow each other: so it is
 * shorter than what one request may visit. */
#define STEP_VISITS 250

/* ---- order ----------------------------------------------------------------------------------- */

static bool is_check(const struct pool_place *place)
{
    return place->waiter->need.what == POOL_FOR_CHECK;
}

static struct pool_member *by_name_or_null(const struct tree_node *node)
{
    return item_or_null(node, struct pool_member, by_name);
}

static bool comes_first(const struct pool_place *place, const struct pool_member *a,
                        const struct pool_member *b)
{
    const struct pool *pool = place->pool;
    if (is_check(place))
        return pool->checks.compare(&a->check_place, &b->check_place) < 0;
    const struct tree *order =
        place->waiter->need.what == POOL_FOR_CLEAN ? &pool->dirty : &pool->free;
    return order->compare(&a->place, &b->place) < 0;
}

/* True if a member got to its place in the order after this place began to look. */
static bool is_newer(const struct pool_place *place, const struct pool_member *m)
{
    return (is_check(place) ? m->checked_seq : m->rank.seq) > place->began;
}

/* True if a place was compared with a ready member: it has looked at the part of the order where
 * that is, or it is newer. */
static bool has_met(const struct pool_place *place, const struct pool_member *m)
{
    return place->looks == STAGE_DONE ||
           (place->looks == STAGE_LOOKS &&
            (is_newer(place, m) || comes_first(place, m, place->next)));
}

/* The same for the members by name. */
static bool has_counted(const struct pool_place *place, const struct pool_member *m)
{
    return place->counts == STAGE_DONE ||
           (place->counts == STAGE_LOOKS &&
            place->pool->members.compare(&m->by_name.node, &place->next_by->by_name.node) < 0);
}

/* True if a place must count the members that it could use: the pool has no number for it. */
static bool has_to_count(const struct pool_place *place)
{
    return place->waiter->need.with_count > 0 && pool_can_be_passed(place->waiter);
}

/* Compares a member with what a place asks for: a visit, which is not put off. */
static bool matches(const struct pool_place *place, const struct pool_member *m)
{
    place->pool->pools->visits++;
    return pool_matches(&place->waiter->need, m);
}

/* The number of members that a place could use at all. */
static uint32_t population_of(const struct pool_place *place)
{
    const struct pool *pool = place->pool;
    if (place->waiter->need.with_count > 0)
        return place->population;
    return pool->member_count - pool->states[MEMBER_DOWN] - pool->states[MEMBER_STOPPING] -
           pool->doomed;
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* Adds a candidate. Returns the one for which there is no room then: the last in order; NULL: there
 * was room. */
static struct pool_member *add_candidate(struct pool_place *place, struct pool_member *m)
{
    struct pool_member **at = place->candidates;
    uint32_t last = 0;
    m->candidate_of++;
    if (place->candidate_count < place->waiter->need.count) {
        at[place->candidate_count++] = m;
        return NULL;
    }
    place->more = true;
    for (uint32_t i = 1; i < place->candidate_count; i++) {
        if (comes_first(place, at[last], at[i]))
            last = i;
    }
    struct pool_member *out = m;
    if (comes_first(place, m, at[last])) {
        out = at[last];
        at[last] = m;
    }
    out->candidate_of--;
    return out;
}

/* A member is not closed by this place any more, if it was. */
static void open_member(const struct pool_place *place, struct pool_member *m)
{
    if (m->closer != place)
        return;
    m->closer = NULL;
    place->pool->closed--;
}

/* Removes a candidate, if it is one. */
static void drop_candidate(struct pool_place *place, struct pool_member *m)
{
    for (uint32_t i = 0; i < place->candidate_count; i++) {
        if (place->candidates[i] != m)
            continue;
        /* If it has looked no further because it fits, it looks anew, too. */
        place->stale = place->stale || place->more ||
                       (place->looks == STAGE_LOOKS && !place->waiter->choosing &&
                        place->candidate_count == place->waiter->need.count);
        place->candidates[i] = place->candidates[--place->candidate_count];
        m->candidate_of--;
        open_member(place, m);
        if (place->stale)
            pool_fit_later(place->pool);
        return;
    }
}

static void drop_all(struct pool_place *place)
{
    while (place->candidate_count > 0)
        place->candidates[--place->candidate_count]->candidate_of--;
    place->more = place->stale = false;
}

bool pool_fits(struct pool_place *place)
{
    struct pool_member **at = place->candidates;
    uint32_t count = place->waiter->need.count;
    if (place->candidate_count < count || place->waiter->choosing)
        return false;
    for (uint32_t i = 0; i < place->candidate_count; i++) {
        if (!pool_is_ready(at[i], place->waiter->need.what)) { /* its client ends */
            drop_candidate(place, at[i]);
            return false;
        }
    }
    for (uint32_t i = 1; i < count; i++) {
        struct pool_member *m = at[i];
        uint32_t k = i;
        for (; k > 0 && comes_first(place, m, at[k - 1]); k--)
            at[k] = at[k - 1];
        at[k] = m;
    }
    return true;
}

/* True if two places are for members in the same state. */
static bool are_rivals(const struct pool_place *a, const struct pool_place *b)
{
    return (a->waiter->need.what == POOL_FOR_CLEAN) == (b->waiter->need.what == POOL_FOR_CLEAN);
}

/* True if a place asks for members in the state of this one, which is free or dirty. */
static bool asks_for(const struct pool_place *place, const struct pool_member *m)
{
    return (place->waiter->need.what == POOL_FOR_CLEAN) == (m->state == MEMBER_DIRTY);
}

static struct pool_place *next_choosy(const struct pool_place *place)
{
    return next_of(struct pool_place, &place->pool->choosy, place, of_choosy);
}

static void spread(struct pool_member *m, struct pool_place *from);

/* Offers a ready member to a place, which closes it if it closes members. */
static void offer(struct pool_place *place, struct pool_member *m)
{
    if (!has_met(place, m) || !matches(place, m))
        return;
    place->ready++;
    struct pool_member *out = add_candidate(place, m);
    if (!place->closes || out == m)
        return;
    m->closer = place;
    place->pool->closed++;
    if (out) {
        open_member(place, out);
        spread(out, next_choosy(place));
        pool_retry_member(out);
    }
}

/* Offers a ready member that is not closed to all places from this one on, and to those for checks,
 * until one closes it. */
static void spread(struct pool_member *m, struct pool_place *from)
{
    for (; from && !m->closer; from = next_choosy(from)) {
        if (!is_check(from) && asks_for(from, m))
            offer(from, m);
    }
    if (m->closer || m->state != MEMBER_FREE)
        return;
    for (EACH_CHOOSY(p, m->pool)) {
        if (is_check(p))
            offer(p, m);
    }
}

/* A member gets to a place in the order, or leaves it: 1 or -1. Counts it if a place will meet it.
 */
static void count_left(const struct pool_member *m, int more)
{
    if (m->state != MEMBER_FREE)
        return;
    for (EACH_CHOOSY(p, m->pool)) {
        if (p->waiter->need.what == POOL_FOR_USE && p->looks == STAGE_LOOKS && !has_met(p, m))
            p->left += (uint32_t)more;
    }
}

void pool_fit_add(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (likely(ring_is_empty(&pool->choosy)))
        return;
    count_left(m, 1);
    if (pool_is_ready(m, m->state == MEMBER_DIRTY ? POOL_FOR_CLEAN : POOL_FOR_USE))
        spread(m, first_of(struct pool_place, &pool->choosy, of_choosy));
}

void pool_fit_remove(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (likely(ring_is_empty(&pool->choosy)))
        return;
    count_left(m, -1);
    for (EACH_CHOOSY(p, pool)) {
        if (!asks_for(p, m))
            continue;
        if (m->candidate_of > 0)
            drop_candidate(p, m);
        if (p->waiter->choosing && p->ready > 0 && has_met(p, m) && matches(p, m))
            p->ready--;
    }
    pool_fit_skip(m, false);
    CHECK(m->candidate_of == 0 && !m->closer);
}

void pool_fit_skip(struct pool_member *m, bool by_name)
{
    struct pool *pool = m->pool;
    for (EACH_CHOOSY(p, pool)) {
        if (p->looks == STAGE_LOOKS && p->next == m) {
            p->next = pool_next_in_order(m, p->waiter->need.what);
            p->looks = p->next ? STAGE_LOOKS : STAGE_DONE;
            pool_fit_later(pool); /* it may close members now */
        }
        if (by_name && p->counts == STAGE_LOOKS && p->next_by == m) {
            p->next_by = by_name_or_null(tree_next(&m->by_name.node));
            p->counts = p->next_by ? STAGE_LOOKS : STAGE_DONE;
            pool_fit_later(pool);
        }
    }
}

/* ---- what closes ----------------------------------------------------------------------------- */

/* A place closes its candidates to all that come after it. */
static void begin_closing(struct pool_place *place)
{
    struct pool *pool = place->pool;
    place->closes = true;
    for (uint32_t i = 0; i < place->candidate_count; i++) {
        struct pool_member *m = place->candidates[i];
        bool younger = false;
        for (EACH_CHOOSY(p, pool)) {
            if (p == place)
                younger = true;
            else if ((younger || is_check(p)) && are_rivals(p, place))
                drop_candidate(p, m);
        }
        pool->closed += m->closer == NULL;
        m->closer = place;
    }
}

/* Its candidates are open to others again, as far as no other place closes them. */
static void end_closing(struct pool_place *place)
{
    if (!place->closes)
        return;
    place->closes = false;
    for (uint32_t i = 0; i < place->candidate_count; i++) {
        struct pool_member *m = place->candidates[i];
        open_member(place, m);
        spread(m, next_choosy(place));
        pool_retry_member(m);
    }
}

static void see_if_it_closes(struct pool_place *place)
{
    const struct pool_waiter *w = place->waiter;
    bool closes = pool_can_be_passed(w) && place->looks == STAGE_DONE && !w->choosing &&
                  place->overtaken >= place->pool->options.overtakes &&
                  population_of(place) >= w->need.count;
    if (closes && !place->closes)
        begin_closing(place);
    else if (!closes)
        end_closing(place);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Meets a ready member, or one that was ready when it was put in this order. */
static void meet(struct pool_place *place, struct pool_member *m)
{
    const struct pool_need *need = &place->waiter->need;
    if (!pool_is_ready(m, need->what) || !pool_matches(need, m))
        return;
    place->ready++;
    if (!pool_is_closed(m, need))
        (void)add_candidate(place, m);
}

/* True if a place need not look on: it fits. Only one that chooses wants to know all. */
static bool has_enough(const struct pool_place *place)
{
    return place->candidate_count >= place->waiter->need.count && !place->waiter->choosing;
}

/* Looks on at the ready members, as far as this call may. */
static void look(struct pool_place *place)
{
    struct pool *pool = place->pool;
    const struct pool_need *need = &place->waiter->need;
    if (place->looks == STAGE_NEW && need->member.len > 0) {
        struct pool_member *m = pool_find_member(pool, need->member);
        if (m)
            meet(place, m);
        place->looks = STAGE_DONE;
        return;
    }
    if (place->looks == STAGE_NEW) {
        place->next = pool_first_in_order(pool, need->what);
        place->began = pool->pools->seq;
        place->left = pool->states[MEMBER_FREE];
    }
    while (place->next && !has_enough(place) && pool_visit(pool->pools)) {
        struct pool_member *m = place->next;
        bool newer = is_newer(place, m);
        place->left -= !newer;
        /* Members for cleaning and checks are in the order of their ages. */
        bool all = need->what == POOL_FOR_USE ? place->left == 0 : newer;
        place->next = all ? NULL : pool_next_in_order(m, need->what);
        if (newer)
            continue; /* they have met */
        if (is_check(place) && m->state != MEMBER_FREE)
            pool_checks_remove(m);
        else
            meet(place, m);
    }
    place->looks = place->next ? STAGE_LOOKS : STAGE_DONE;
}

/* Counts on, by name, as far as this call may. */
static void count(struct pool_place *place)
{
    struct pool *pool = place->pool;
    if (place->counts == STAGE_NEW)
        place->next_by = by_name_or_null(tree_first(&pool->members));
    while (place->next_by && pool_visit(pool->pools)) {
        const struct pool_member *m = place->next_by;
        place->next_by = by_name_or_null(tree_next(&m->by_name.node));
        place->population += pool_is_usable(m) && pool_matches(&place->waiter->need, m);
    }
    place->counts = place->next_by ? STAGE_LOOKS : STAGE_DONE;
}

/* Begins to look anew. */
static void look_anew(struct pool_place *place)
{
    end_closing(place);
    drop_all(place);
    place->looks = STAGE_NEW;
    place->ready = 0;
}

/* True if the place has something to look at. A fitting one will be served, or become stale. */
static bool is_unfinished(const struct pool_place *place)
{
    return (place->looks != STAGE_DONE && !has_enough(place)) ||
           (has_to_count(place) && place->counts != STAGE_DONE);
}

void pool_fit_settle_now(struct pool *pool)
{
    while (pool->unsettled) {
        pool->unsettled = pool->looks = false;
        for (EACH_CHOOSY(p, pool)) {
            if (p->stale)
                look_anew(p);
        }
        for (EACH_CHOOSY(p, pool)) {
            if (p->looks == STAGE_NEW || (p->looks == STAGE_LOOKS && pool->steps))
                look(p);
            if (has_enough(p))
                pool_serve_later(pool);
        }
        for (EACH_CHOOSY(p, pool)) {
            if (has_to_count(p) &&
                (p->counts == STAGE_NEW || (p->counts == STAGE_LOOKS && pool->steps)))
                count(p);
            see_if_it_closes(p);
            pool->looks = pool->looks || (!p->waiter->asking && is_unfinished(p));
        }
    }
    pool->steps = false;
}

void pool_fit_step(struct pool *pool)
{
    struct pools *pools = pool->pools;
    uint32_t max = pools->visits_max;
    if (max > pools->visits && max - pools->visits > STEP_VISITS)
        pools->visits_max = pools->visits + STEP_VISITS;
    pool->unsettled = pool->steps = true;
    pool_touch(pool);
    pool_fit_settle_now(pool);
    pools->visits_max = max;
}

/* ---- changes --------------------------------------------------------------------------------- */

void pool_fit_enter(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct ring *after = pool->choosy.prev;
    while (after != &pool->choosy &&
           item_of(after, struct pool_place, of_choosy)->waiter->need.seq > place->waiter->need.seq)
        after = after->prev;
    ring_add_after(after, &place->of_choosy);
    pool->choosy_count++;
    place->looks = place->counts = STAGE_NEW;
    place->ready = place->population = 0;
    pool_fit_later(pool);
}

void pool_fit_leave(struct pool_place *place)
{
    end_closing(place);
    drop_all(place);
    ring_remove(&place->of_choosy);
    place->pool->choosy_count--;
}

void pool_fit_usable(struct pool_member *m, int more)
{
    struct pool *pool = m->pool;
    if (likely(ring_is_empty(&pool->choosy)))
        return;
    for (EACH_CHOOSY(p, pool)) {
        if (has_to_count(p) && has_counted(p, m) && matches(p, m))
            p->population += (uint32_t)more;
    }
    pool_fit_later(pool);
}

/* True if a member is in a place of its own, from which it is handed out. */
static bool has_place(const struct pool_member *m)
{
    return m->state == MEMBER_FREE || m->state == MEMBER_DIRTY;
}

void pool_fit_unmatch(struct pool_member *m)
{
    if (pool_is_usable(m))
        pool_fit_usable(m, -1);
    if (has_place(m))
        pool_fit_remove(m);
}

void pool_fit_match(struct pool_member *m)
{
    if (pool_is_usable(m))
        pool_fit_usable(m, 1);
    if (!has_place(m))
        return;
    pool_fit_add(m);
    pool_retry_member(m);
}

void pool_fit_anew(struct pool *pool)
{
    for (EACH_CHOOSY(p, pool))
        look_anew(p);
    pool_fit_later(pool);
}
