/* pools_serve.c - the model of pools: what is wanted, who fits, and how holds begin and end. */
#include "t/models/pools_internal.h"

#include <string.h>

/* ---- what is wanted -------------------------------------------------------------------------- */

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void bound_want(int p)
{
    struct m_pool *pool = &model_pools[p];
    uint64_t init = 0, max = 0;
    for (EACH_CLIENT(c)) {
        init += model_clients[c].supplies[p].init;
        max += model_clients[c].supplies[p].max;
    }
    max = least_of(max, UINT32_MAX);
    if (pool->options.max > 0)
        max = least_of(max, pool->options.max);
    if (pool->want < init)
        pool->want = (uint32_t)least_of(init, UINT32_MAX);
    if (pool->want > max)
        pool->want = (uint32_t)max;
}

uint64_t awaited(int p)
{
    uint64_t sum = 0;
    for (EACH_CLIENT(c)) {
        if (model_waits_in(c, p) && model_clients[c].wait.ask.what == POOL_FOR_USE)
            sum += model_clients[c].wait.ask.count;
    }
    return sum;
}

void raise_want(int p, uint32_t more)
{
    struct m_pool *pool = &model_pools[p];
    uint64_t need = held_count(p) + model_count(p, MEMBER_DOWN) + awaited(p) +
                    pool->options.min_free + (uint64_t)more;
    if (need > pool->want)
        pool->want = (uint32_t)least_of(need, UINT32_MAX);
    bound_want(p);
}

void raise_for_min_free(int p, enum pool_for what)
{
    if (is_joined(p) && what == POOL_FOR_USE &&
        model_count(p, MEMBER_FREE) < model_pools[p].options.min_free)
        raise_want(p, 0);
}

/* How much more a supplier with `want` may get: first up to what it begins with, then up to its
 * maximum. One that is late gets no more than it has until others have no room, the last round. */
static uint32_t room(int c, int p, unsigned round)
{
    const struct m_supply *s = &model_clients[c].supplies[p];
    uint32_t has = joined_count(c, p), most = round == 0 ? s->init : s->max;
    if (s->late && round < 2 && has < most)
        most = has;
    return most > s->want ? most - s->want : 0;
}

/* Shares out what is wanted, one by one. */
static void share(int p)
{
    struct m_pool *pool = &model_pools[p];
    int order[M_CLIENTS];
    uint32_t was[M_CLIENTS];
    uint64_t others = 0, stopping = model_count(p, MEMBER_STOPPING);
    unsigned count = model_suppliers(p, order);
    bound_want(p);
    for (EACH_CLIENT(c)) {
        if (!supplies(c, p))
            others += joined_count(c, p);
        was[c] = model_clients[c].supplies[p].want;
        model_clients[c].supplies[p].want = 0;
    }
    uint64_t left = pool->want > others ? pool->want - others : 0;
    if (pool->options.max > 0)
        left = least_of(left, pool->options.max > others + stopping
                                  ? pool->options.max - others - stopping
                                  : 0);
    for (unsigned round = 0; round < 3; round++) {
        for (; left > 0; left--) {
            int most = M_NOBODY;
            for (unsigned k = 0; k < count; k++) {
                if (room(order[k], p, round) > 0 &&
                    (most == M_NOBODY || room(order[k], p, round) > room(most, p, round)))
                    most = order[k];
            }
            if (most == M_NOBODY)
                break;
            model_clients[most].supplies[p].want++;
        }
    }
    /* Nobody is asked for more than it could join. */
    uint64_t max = model_limits.members_max, would_be = others + stopping;
    if (pool->options.max > 0)
        max = least_of(max, pool->options.max);
    for (unsigned k = 0; k < count; k++) {
        uint32_t has = joined_count(order[k], p), want = model_clients[order[k]].supplies[p].want;
        if (supplies(order[k], p))
            would_be += has > want ? has : want;
    }
    for (unsigned k = count; k-- > 0;) {
        struct m_supply *s = &model_clients[order[k]].supplies[p];
        for (; would_be > max && s->want > joined_count(order[k], p); would_be--)
            s->want--;
    }
    for (EACH_CLIENT(c)) {
        struct m_supply *s = &model_clients[c].supplies[p];
        if (joined_count(c, p) >= s->want)
            s->short_ns = INT64_MAX;
        else if (s->short_ns == INT64_MAX || s->want > was[c])
            s->short_ns = model_now.mono_ns;
    }
}

/* ---- who fits -------------------------------------------------------------------------------- */

static bool matches(const struct m_ask *ask, int p, int i)
{
    if (ask->member != M_NOBODY && ask->member != i)
        return false;
    for (int k = 0; k < M_KEYS; k++) {
        if (ask->with[k] != M_NOBODY && (unsigned)ask->with[k] != member(p, i)->attributes[k])
            return false;
    }
    return true;
}

/* The members that match and are not out of service, or on their way out. */
static uint32_t population(int p, const struct m_ask *ask)
{
    uint32_t count = 0;
    for (EACH_MEMBER(i)) {
        const struct m_member *m = member(p, i);
        count += m->there && matches(ask, p, i) && m->state != MEMBER_DOWN &&
                 m->state != MEMBER_STOPPING && !m->drop && !m->lifetime && !m->shrink;
    }
    return count;
}

/* The place of a waiter for several members that comes before a request, and is for members in the
 * same state; NULL: it does not. */
static uint32_t *passed_place(int v, int p, const struct m_ask *ask, uint64_t age)
{
    struct m_wait *w = &model_clients[v].wait;
    if (!model_waits_in(v, p) || w->ask.count == 1 || w->ask.what == POOL_FOR_CHECK ||
        (w->ask.what == POOL_FOR_CLEAN) != (ask->what == POOL_FOR_CLEAN) ||
        (ask->what != POOL_FOR_CHECK && age <= w->age))
        return NULL;
    for (EACH_PLACE(w, k)) {
        if (w->places[k].pool == p)
            return &w->places[k].overtaken;
    }
    return NULL;
}

static bool is_closed(int p, int i, const struct m_ask *ask, uint64_t age)
{
    for (EACH_CLIENT(v)) {
        const uint32_t *overtaken = passed_place(v, p, ask, age);
        const struct m_ask *other = &model_clients[v].wait.ask;
        if (overtaken && *overtaken >= model_pools[p].options.overtakes && matches(other, p, i) &&
            population(p, other) >= other->count)
            return true;
    }
    return false;
}

/* True when a request of this age may have the member now. */
static bool may_have(int p, int i, const struct m_ask *ask, uint64_t age)
{
    const struct m_member *m = member(p, i);
    if (!m->there || !matches(ask, p, i) ||
        m->state != (ask->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE))
        return false;
    if (model_is_over(p, i) || model_pools[p].draining ||
        (m->joiner != M_NOBODY && model_clients[m->joiner].ending))
        return false;
    return !is_closed(p, i, ask, age);
}

uint32_t open_count(int p, const struct m_ask *ask, uint64_t age)
{
    uint32_t count = 0;
    for (EACH_MEMBER(i))
        count += may_have(p, i, ask, age);
    return count;
}

/* True when member `a` is given out before `b`. */
static bool comes_first(int p, enum pool_for what, int a, int b)
{
    const struct m_member *x = member(p, a), *y = member(p, b);
    if (what == POOL_FOR_CHECK)
        return x->checked < y->checked;
    if (what == POOL_FOR_CLEAN)
        return x->place < y->place;
    switch ((enum pool_order)model_pools[p].options.order) {
    case POOL_LIFO:
        return x->place > y->place;
    case POOL_LEAST:
        return x->takes != y->takes ? x->takes < y->takes : x->place < y->place;
    default:
        return x->place < y->place;
    }
}

/* Chooses the members that a request gets. */
void choose(int p, const struct m_ask *ask, uint64_t age, int *chosen)
{
    bool by_chance = ask->what == POOL_FOR_USE && model_pools[p].options.order == POOL_RANDOM;
    let_lifetimes_end();
    for (uint32_t n = 0; n < ask->count; n++) {
        chosen[n] = M_NOBODY;
        if (by_chance) {
            AGREE(event + n < model_event_count);
            AGREE(model_events[event + n].pool == p);
            chosen[n] = model_events[event + n].member;
            AGREE(chosen[n] != M_NOBODY && may_have(p, chosen[n], ask, age));
        }
        for (int i = 0; i < M_MEMBERS && !by_chance; i++) {
            bool taken = !may_have(p, i, ask, age);
            for (uint32_t k = 0; k < n; k++)
                taken = taken || chosen[k] == i;
            if (!taken && (chosen[n] == M_NOBODY || comes_first(p, ask->what, i, chosen[n])))
                chosen[n] = i;
        }
        AGREE(chosen[n] != M_NOBODY);
    }
}

/* ---- holds begin ----------------------------------------------------------------------------- */

void begin_hold(int c, struct m_hold *hold, int p, int i, const struct m_ask *ask, uint64_t age)
{
    static const enum pool_state states[] = {MEMBER_TAKEN, MEMBER_CLEANING, MEMBER_CHECKING};
    static const enum pool_why whys[] = {POOL_WHY_TAKE, POOL_WHY_CLEAN, POOL_WHY_CHECK};
    struct m_member *m = member(p, i);
    AGREE(!model_clients[c].ending);
    for (EACH_CLIENT(v)) {
        uint32_t *overtaken = passed_place(v, p, ask, age);
        if (overtaken && *overtaken < model_pools[p].options.overtakes &&
            matches(&model_clients[v].wait.ask, p, i))
            ++*overtaken;
    }
    *hold = (struct m_hold){
        .pool = p,
        .member = i,
        .fence = ++model_fence,
        .since_ns = model_now.mono_ns,
        .what = ask->what,
        .by = ask->by,
        .place = m->place,
        .before_ns = m->since_ns,
        .idle_ns = m->idle_ns,
    };
    m->takes += ask->what == POOL_FOR_USE;
    m->holder = c;
    m->fence = hold->fence;
    move(p, i, states[ask->what], whys[ask->what], false, hold);
}

/* Serves a waiter in a pool; with `i`, if it asks for one member. */
static void serve(int c, int p, int i)
{
    struct m_wait *w = &model_clients[c].wait;
    int chosen[M_TAKEN];
    if (w->ask.count == 1 && i != M_NOBODY)
        chosen[0] = i;
    else
        choose(p, &w->ask, w->age, chosen);
    w->state = M_SERVED;
    for (uint32_t n = 0; n < w->ask.count; n++)
        w->served[n].member = M_NOBODY;
    for (uint32_t n = 0; n < w->ask.count; n++)
        begin_hold(c, &w->served[n], p, chosen[n], &w->ask, w->age);
    model_pools[p].takes[w->ask.what][POOL_TAKES_TAKEN]++;
    raise_for_min_free(p, w->ask.what);
}

/* The oldest waiter that fits, checks behind all others; with `i`, which it could get. M_NOBODY:
 * none. */
static int oldest_fit(int p, int i)
{
    int best = M_NOBODY;
    for (EACH_CLIENT(c)) {
        const struct m_wait *w = &model_clients[c].wait;
        if (!model_waits_in(c, p) || open_count(p, &w->ask, w->age) < w->ask.count ||
            (i != M_NOBODY && !may_have(p, i, &w->ask, w->age)))
            continue;
        const struct m_wait *other = best == M_NOBODY ? NULL : &model_clients[best].wait;
        bool check = w->ask.what == POOL_FOR_CHECK;
        bool other_check = other && other->ask.what == POOL_FOR_CHECK;
        if (!other || (check == other_check ? w->age < other->age : other_check))
            best = c;
    }
    return best;
}

/* Notes of held members that their lifetime is over. */
void note_lifetimes(int p)
{
    for (EACH_MEMBER(i)) {
        struct m_member *m = member(p, i);
        if (m_is_held(m) && model_is_over(p, i))
            m->lifetime = true;
    }
}

/* A member may have become free, or dirty: it goes at once to the oldest waiter that fits. */
void hand_on(int p, int i)
{
    bool anybody = false;
    for (EACH_CLIENT(c))
        anybody = anybody || model_waits_in(c, p);
    if (!anybody || !member(p, i)->there)
        return;
    note_lifetimes(p);
    expire(p);
    int c = oldest_fit(p, i);
    if (c != M_NOBODY)
        serve(c, p, i);
}

/* ---- holds end ------------------------------------------------------------------------------- */

static enum pool_state state_after(unsigned after)
{
    return after == POOL_AFTER_FREE    ? MEMBER_FREE
           : after == POOL_AFTER_DIRTY ? MEMBER_DIRTY
                                       : MEMBER_DOWN;
}

static void no_more_in_store(struct m_member *m)
{
    m->drop = m->lifetime = m->shrink = false;
    m->then = MEMBER_GONE;
}

static void wait_again(int c);

/* Of a pool that is too large, the members that are returned first stop. */
void stop_instead(int p, int i)
{
    struct m_member *m = member(p, i);
    int oldest = M_NOBODY;
    for (EACH_MEMBER(k)) {
        const struct m_member *o = member(p, k);
        if (o->there && o->shrink && !o->drop && !o->lifetime &&
            (oldest == M_NOBODY || o->fence < member(p, oldest)->fence))
            oldest = k;
    }
    if (oldest == M_NOBODY || m->drop || m->lifetime || m->shrink)
        return;
    member(p, oldest)->shrink = false;
    m->shrink = true;
}

/* When others have gone, fewer members are to stop. */
static void stop_fewer(int p)
{
    for (;;) {
        int newest = M_NOBODY;
        uint32_t stay = 0;
        for (EACH_MEMBER(i)) {
            const struct m_member *m = member(p, i);
            bool goes = m->drop || m->lifetime || m->shrink || m->state == MEMBER_STOPPING;
            stay += m->there && !goes;
            if (m->there && m->shrink && !m->drop && !m->lifetime &&
                (newest == M_NOBODY || m->fence > member(p, newest)->fence))
                newest = i;
        }
        if (newest == M_NOBODY || stay >= model_pools[p].options.max)
            return;
        member(p, newest)->shrink = false;
    }
}

/* Where a member goes when its hold ends, and why; `as_before`: to the place that it had. */
struct way {
    enum pool_state to;
    enum pool_why why;
    bool as_before;
};

static struct way way_out(const struct m_hold *hold, enum how how, bool ok)
{
    int p = hold->pool;
    const struct m_member *m = member(p, hold->member);
    const struct pool_options *o = &model_pools[p].options;
    if (m->drop)
        return (struct way){is_joined(p) ? MEMBER_STOPPING : MEMBER_GONE, POOL_WHY_DROP, false};
    if (m->lifetime || m->shrink)
        return (struct way){MEMBER_STOPPING, m->lifetime ? POOL_WHY_LIFETIME : POOL_WHY_SHRINK,
                            false};
    if (m->then != MEMBER_GONE && (ok || m->then != MEMBER_FREE))
        return (struct way){m->then, POOL_WHY_OPERATOR, false};
    if (how == BY_UNDONE)
        return (struct way){hold->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE,
                            POOL_WHY_UNDONE, true};
    if (hold->what == POOL_FOR_CLEAN) {
        bool gives_up = o->clean_tries > 0 && m->failed_cleanings + 1 >= o->clean_tries;
        return ok ? (struct way){MEMBER_FREE, POOL_WHY_CLEANED, false}
                  : (struct way){gives_up ? MEMBER_DOWN : MEMBER_DIRTY, POOL_WHY_CLEAN_FAILED,
                                 false};
    }
    enum pool_why why = how == BY_CRASH      ? POOL_WHY_CRASH
                        : how == BY_FAIL     ? POOL_WHY_FAIL
                        : how == BY_QUIT     ? POOL_WHY_QUIT
                        : how == BY_HOLD_MAX ? POOL_WHY_HOLD_MAX
                                             : POOL_WHY_RETURN;
    if (!ok)
        return (struct way){is_joined(p) ? MEMBER_STOPPING : state_after(o->on_fail), why, false};
    if (hold->what == POOL_FOR_CHECK)
        return (struct way){MEMBER_FREE, how == BY_CRASH ? POOL_WHY_CRASH : POOL_WHY_CHECKED, true};
    return (struct way){is_joined(p) ? MEMBER_FREE : state_after(o->on_return), why, false};
}

/* A hold ends. */
void end_hold(int c, struct m_hold *hold, enum how how, bool hands_on)
{
    int p = hold->pool, i = hold->member;
    struct m_member *m = member(p, i);
    note_lifetimes(p);
    stop_instead(p, i);
    bool crash_is_ok = model_pools[p].options.on_crash == POOL_CRASH_OK;
    bool ok = how == BY_OK || how == BY_QUIT || how == BY_UNDONE ||
              (how == BY_CRASH && crash_is_ok && hold->what != POOL_FOR_CLEAN);
    struct way way = way_out(hold, how, ok);
    no_more_in_store(m);
    m->fails += !ok;
    if (hold->what == POOL_FOR_CLEAN && how != BY_UNDONE)
        m->failed_cleanings = ok ? 0 : m->failed_cleanings + 1;
    if (how == BY_UNDONE)
        m->takes -= hold->what == POOL_FOR_USE;
    else if (hold->what == POOL_FOR_CHECK)
        m->checked = ++ages;
    if (way.as_before) {
        m->place = hold->place;
        m->idle_ns = hold->idle_ns;
    }
    struct m_hold was = *hold;
    bool untold = is_untold(hold, c);
    hold->member = M_NOBODY;
    move(p, i, way.to, way.why, way.as_before, &was);
    if (way.as_before)
        m->since_ns = was.before_ns;
    if (untold && how == BY_HOLD_MAX)
        wait_again(c);
    else if (hands_on && (way.to == MEMBER_FREE || way.to == MEMBER_DIRTY))
        hand_on(p, i);
}

/* A held member is moved under its holder. */
void take_away(int p, int i, enum pool_state to, enum pool_why why)
{
    struct m_member *m = member(p, i);
    struct m_hold *hold = model_hold_of(p, i);
    struct m_hold was = *hold;
    int c = m->holder;
    no_more_in_store(m);
    if (hold->what == POOL_FOR_CHECK)
        m->checked = ++ages;
    bool untold = is_untold(hold, c);
    hold->member = M_NOBODY;
    move(p, i, to, why, false, &was);
    if (untold)
        wait_again(c);
    else if (to == MEMBER_FREE || to == MEMBER_DIRTY)
        hand_on(p, i);
}

/* A member that a client was served, and not told of, was taken away: all is as before. */
static void wait_again(int c)
{
    struct m_wait *w = &model_clients[c].wait;
    bool waits = false;
    for (uint32_t k = 0; k < w->ask.count; k++) {
        if (w->served[k].member != M_NOBODY)
            end_hold(c, &w->served[k], BY_UNDONE, false);
    }
    for (EACH_PLACE(w, k)) {
        int p = w->places[k].pool;
        w->places[k].left = w->places[k].left || !model_pools[p].there || model_pools[p].draining;
        waits = waits || !w->places[k].left;
    }
    w->state = waits ? M_IN_LINE : M_REFUSED;
    w->refused = POOL_NO_POOL;
}

/* ---- the end of a call ----------------------------------------------------------------------- */

/* The next event must be that the oldest waiter that fits is served. */
void serve_next(void)
{
    let_lifetimes_end();
    const struct m_event *e = peek();
    if (!e)
        return;
    AGREE(e->member != M_NOBODY && model_pools[e->pool].there);
    note_lifetimes(e->pool);
    int c = oldest_fit(e->pool, M_NOBODY);
    AGREE(c != M_NOBODY);
    serve(c, e->pool, M_NOBODY);
}

void model_done(void)
{
    while (peek())
        serve_next();
    for (EACH_POOL(p)) {
        if (!model_pools[p].there)
            continue;
        stop_fewer(p);
        AGREE(oldest_fit(p, M_NOBODY) == M_NOBODY);
        if (is_joined(p))
            share(p);
    }
    for (EACH_CLIENT(c)) {
        for (EACH_POOL(p)) {
            if (model_pools[p].there && model_clients[c].supplies[p].born)
                forget_supply_if_idle(c, p);
        }
    }
    model_event_count = event = 0;
    memset(model_events, 0, sizeof(model_events[0]));
}
