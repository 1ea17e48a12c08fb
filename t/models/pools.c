/* pools.c - see pools.h. */
#include "t/models/pools.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct m_pool model_pools[M_POOLS];
struct m_client model_clients[M_CLIENTS];
struct pools_limits model_limits;
uint64_t model_fence;
struct moment model_now;
bool model_timely;
struct m_event model_events[M_EVENTS];
unsigned model_event_count;
unsigned (*model_suppliers)(int pool, int *clients);
double (*model_jitter)(int pool, int member);
uint64_t model_step;
char model_doing[400];

static uint64_t ages;  /* given to waits, places, births and so on */
static unsigned event; /* the next one to compare */

/* clang-format off */
#define EACH_POOL(p)     int p = 0; p < M_POOLS; p++
#define EACH_MEMBER(i)   int i = 0; i < M_MEMBERS; i++
#define EACH_CLIENT(c)   int c = 0; c < M_CLIENTS; c++
#define EACH_PLACE(w, k) unsigned k = 0; k < (w)->place_count; k++
/* clang-format on */

static struct m_member *member(int p, int i)
{
    return &model_pools[p].members[i];
}

static bool is_joined(int p)
{
    return model_pools[p].options.kind == POOL_JOINED;
}

void model_disagrees(const char *file, int line, const char *condition)
{
    const struct m_event *e = event < model_event_count ? &model_events[event] : NULL;
    char text[2000];
    snprintf(text, sizeof(text),
             "%s:%d: step %" PRIu64 ": %s: %s; the next event of %u/%u: pool %d member %d, "
             "%s -> %s %s, fence %" PRIu64 " conn %" PRIu64,
             file, line, model_step, model_doing, condition, event, model_event_count,
             e ? e->pool : M_NOBODY, e ? e->member : M_NOBODY, e ? pool_state_word(e->from) : "",
             e ? pool_state_word(e->to) : "", e ? pool_why_word(e->why) : "no more",
             e ? e->fence : 0, e ? e->conn : 0);
    model_fails(text);
}

void model_start(const struct pools_limits *limits, uint64_t first_fence)
{
    memset(model_pools, 0, sizeof(model_pools));
    memset(model_clients, 0, sizeof(model_clients));
    model_limits = *limits;
    model_fence = first_fence;
    ages = 0;
}

/* ---- looking ------------------------------------------------------------------------------- */

uint32_t model_count(int p, enum pool_state state)
{
    uint32_t count = 0;
    for (EACH_MEMBER(i))
        count += member(p, i)->there && member(p, i)->state == state;
    return count;
}

uint32_t model_member_count(int p)
{
    uint32_t count = 0;
    for (EACH_MEMBER(i))
        count += member(p, i)->there;
    return count;
}

static uint32_t held_count(int p)
{
    return model_count(p, MEMBER_TAKEN) + model_count(p, MEMBER_CLEANING) +
           model_count(p, MEMBER_CHECKING);
}

bool model_waits_in(int c, int p)
{
    const struct m_wait *w = &model_clients[c].wait;
    for (EACH_PLACE(w, k)) {
        if (w->places[k].pool == p && !w->places[k].left)
            return w->state == M_IN_LINE;
    }
    return false;
}

uint32_t model_waiting(int p, bool use, bool other)
{
    uint32_t count = 0;
    for (EACH_CLIENT(c)) {
        if (model_waits_in(c, p))
            count += model_clients[c].wait.ask.what == POOL_FOR_USE ? use : other;
    }
    return count;
}

struct m_hold *model_hold_of(int p, int i)
{
    struct m_client *c = &model_clients[member(p, i)->holder];
    for (unsigned k = 0; k < c->hold_count; k++) {
        if (c->holds[k].pool == p && c->holds[k].member == i)
            return &c->holds[k];
    }
    for (unsigned k = 0; c->wait.state == M_SERVED && k < c->wait.ask.count; k++) {
        if (c->wait.served[k].pool == p && c->wait.served[k].member == i)
            return &c->wait.served[k];
    }
    AGREE(!"a held member has a hold");
    return NULL;
}

/* True while a hold's client was not told of it. */
static bool is_untold(const struct m_hold *hold, int c)
{
    const struct m_wait *w = &model_clients[c].wait;
    return hold >= w->served && hold < w->served + M_TAKEN;
}

bool model_is_over(int p, int i)
{
    const struct m_member *m = member(p, i);
    const struct pool_options *o = &model_pools[p].options;
    if (!is_joined(p) || o->max_lifetime_ns == 0 || m->state == MEMBER_DOWN ||
        m->state == MEMBER_STOPPING)
        return false;
    return m->joined_ns + o->max_lifetime_ns + llrint(m->jitter * (double)o->lifetime_jitter_ns) <=
           model_now.mono_ns;
}

/* True when a client that has joined members of the pool supplies it. */
static bool supplies(int c, int p)
{
    return model_clients[c].supplies[p].max > 0;
}

/* The members of a client, without stopping ones. */
static uint32_t joined_count(int c, int p)
{
    uint32_t count = 0;
    for (EACH_MEMBER(i)) {
        const struct m_member *m = member(p, i);
        count += m->there && m->joiner == c && m->state != MEMBER_STOPPING;
    }
    return count;
}

bool model_is_idle(int p, int i)
{
    const struct m_member *m = member(p, i);
    const struct pool_options *o = &model_pools[p].options;
    return m->there && is_joined(p) && m->state == MEMBER_FREE && o->cull_after_ns > 0 &&
           m->idle_ns + o->cull_after_ns <= model_now.mono_ns && supplies(m->joiner, p) &&
           joined_count(m->joiner, p) > model_clients[m->joiner].supplies[p].init;
}

/* ---- events -------------------------------------------------------------------------------- */

static void move(int p, int i, enum pool_state to, enum pool_why why, bool same_place,
                 const struct m_hold *hold);

/* Free members whose lifetime is over may stop at any time. */
static void let_lifetimes_end(void)
{
    while (event < model_event_count) {
        const struct m_event *e = &model_events[event];
        if (e->member == M_NOBODY || e->late || e->why != POOL_WHY_LIFETIME ||
            e->from != MEMBER_FREE)
            return;
        AGREE(member(e->pool, e->member)->state == MEMBER_FREE &&
              model_is_over(e->pool, e->member));
        move(e->pool, e->member, MEMBER_STOPPING, POOL_WHY_LIFETIME, false, NULL);
    }
}

/* The engine ends all lifetimes that are over in a pool before it chooses there. */
static void expire(int p)
{
    let_lifetimes_end();
    for (EACH_MEMBER(i))
        AGREE(!member(p, i)->there || member(p, i)->state != MEMBER_FREE || !model_is_over(p, i));
}

static const struct m_event *peek(void)
{
    return event < model_event_count ? &model_events[event] : NULL;
}

/* Compares an event with the next one of the engine, and notes which clients are told. */
static void tell(const struct m_event *e, int joiner)
{
    const struct m_event *got = peek();
    AGREE(got != NULL);
    AGREE(got->pool == e->pool && got->member == e->member && got->late == e->late);
    AGREE(e->member != M_NOBODY || got->pool_why == e->pool_why);
    AGREE(e->member == M_NOBODY || (got->from == e->from && got->to == e->to));
    AGREE(e->member == M_NOBODY || e->late || got->why == e->why);
    AGREE(got->fence == e->fence && got->conn == e->conn && got->by == e->by);
    for (EACH_CLIENT(c)) {
        struct m_client *client = &model_clients[c];
        bool told = client->open && !client->ending &&
                    ((client->watches_all && (!client->mine_all || joiner == c)) ||
                     (client->watches[e->pool] && (!client->mine[e->pool] || joiner == c)));
        AGREE(got->told[c] == told);
        client->events = client->events || told;
    }
    event++;
}

static void tell_of_pool(int p, enum pool_event_why why)
{
    let_lifetimes_end();
    tell(&(struct m_event){.pool = p, .member = M_NOBODY, .pool_why = why}, M_NOBODY);
}

static struct m_event event_of_hold(const struct m_hold *hold, int holder)
{
    return (struct m_event){
        .fence = hold->fence, .conn = model_clients[holder].tag, .by = hold->by};
}

/* ---- moves --------------------------------------------------------------------------------- */

static void stop_later(int p, int i, enum pool_why why)
{
    struct m_member *m = member(p, i);
    struct m_client *c = &model_clients[m->joiner];
    if (c->ending)
        return;
    AGREE(c->stop_count < M_STOPS);
    c->stops[c->stop_count++] = (struct m_stop){p, i, m->birth, why};
}

static void forget_stop(int p, int i)
{
    const struct m_member *m = member(p, i);
    struct m_client *c = &model_clients[m->joiner];
    for (unsigned k = 0; k < c->stop_count; k++) {
        if (c->stops[k].birth != m->birth)
            continue;
        memmove(&c->stops[k], &c->stops[k + 1], (--c->stop_count - k) * sizeof(c->stops[0]));
        k--;
    }
}

/* A client has no more to do with a pool. */
static void forget_supply_if_idle(int c, int p)
{
    struct m_supply *s = &model_clients[c].supplies[p];
    for (EACH_MEMBER(i)) {
        if (member(p, i)->there && member(p, i)->joiner == c)
            return;
    }
    if (s->max == 0 && !s->untold && s->told == s->want && !model_clients[c].ending)
        *s = (struct m_supply){0};
}

/* A pool whose last member is gone goes too. */
static void end_pool_if_empty(int p)
{
    if (!model_pools[p].there || !model_pools[p].draining || model_member_count(p) > 0)
        return;
    tell_of_pool(p, POOL_DROPPED);
    for (EACH_CLIENT(c)) {
        struct m_client *client = &model_clients[c];
        struct m_supply *s = &client->supplies[p];
        client->watches[p] = false;
        for (EACH_PLACE(&client->wait, k))
            client->wait.places[k].left |= client->wait.places[k].pool == p;
        if (s->born != 0 && !client->ending && (s->untold || s->told != 0))
            client->ended_wants[p]++;
        *s = (struct m_supply){0};
    }
    memset(&model_pools[p], 0, sizeof(model_pools[p]));
}

/* The member is in its new state; it is not in the hands of anybody if that is not a held one. */
static void move(int p, int i, enum pool_state to, enum pool_why why, bool same_place,
                 const struct m_hold *hold)
{
    struct m_member *m = member(p, i);
    struct m_event e = {0};
    if (hold)
        e = event_of_hold(hold, m->holder);
    e.pool = p;
    e.member = i;
    e.from = m->there ? m->state : MEMBER_GONE;
    e.to = to;
    e.why = why;
    if (why != POOL_WHY_LIFETIME || e.from != MEMBER_FREE)
        let_lifetimes_end();
    tell(&e, is_joined(p) ? m->joiner : M_NOBODY);
    m->there = true;
    m->state = to;
    m->since_ns = model_now.mono_ns;
    model_pools[p].moves[why]++;
    if (!m_is_held(m))
        m->holder = M_NOBODY;
    if (!same_place && (to == MEMBER_FREE || to == MEMBER_DIRTY))
        m->place = ++ages;
    if (!same_place && to == MEMBER_FREE)
        m->idle_ns = model_now.mono_ns;
    if (to == MEMBER_FREE || to == MEMBER_DOWN)
        m->failed_cleanings = 0;
    if (to == MEMBER_STOPPING)
        stop_later(p, i, why);
    if (to == MEMBER_GONE) {
        int joiner = m->joiner;
        m->there = false;
        m->state = MEMBER_GONE;
        if (joiner != M_NOBODY)
            forget_supply_if_idle(joiner, p);
        end_pool_if_empty(p);
    }
}

/* ---- what is wanted ------------------------------------------------------------------------ */

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

static uint64_t awaited(int p)
{
    uint64_t sum = 0;
    for (EACH_CLIENT(c)) {
        if (model_waits_in(c, p) && model_clients[c].wait.ask.what == POOL_FOR_USE)
            sum += model_clients[c].wait.ask.count;
    }
    return sum;
}

static void raise_want(int p, uint32_t more)
{
    struct m_pool *pool = &model_pools[p];
    uint64_t need = held_count(p) + model_count(p, MEMBER_DOWN) + awaited(p) +
                    pool->options.min_free + (uint64_t)more;
    if (need > pool->want)
        pool->want = (uint32_t)least_of(need, UINT32_MAX);
    bound_want(p);
}

static void raise_for_min_free(int p, enum pool_for what)
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

/* ---- who fits ------------------------------------------------------------------------------ */

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

static uint32_t open_count(int p, const struct m_ask *ask, uint64_t age)
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
static void choose(int p, const struct m_ask *ask, uint64_t age, int *chosen)
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

/* ---- holds begin --------------------------------------------------------------------------- */

static void begin_hold(int c, struct m_hold *hold, int p, int i, const struct m_ask *ask,
                       uint64_t age)
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
static void note_lifetimes(int p)
{
    for (EACH_MEMBER(i)) {
        struct m_member *m = member(p, i);
        if (m_is_held(m) && model_is_over(p, i))
            m->lifetime = true;
    }
}

/* A member may have become free, or dirty: it goes at once to the oldest waiter that fits. */
static void hand_on(int p, int i)
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

/* ---- holds end ----------------------------------------------------------------------------- */

enum how { BY_OK, BY_QUIT, BY_FAIL, BY_CRASH, BY_HOLD_MAX, BY_UNDONE };

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
static void stop_instead(int p, int i)
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

/* A hold ends. */
static void end_hold(int c, struct m_hold *hold, enum how how, bool hands_on)
{
    int p = hold->pool, i = hold->member;
    struct m_member *m = member(p, i);
    struct m_pool *pool = &model_pools[p];
    const struct pool_options *o = &pool->options;
    note_lifetimes(p);
    stop_instead(p, i);
    bool ok = how == BY_OK || how == BY_QUIT || how == BY_UNDONE ||
              (how == BY_CRASH && o->on_crash == POOL_CRASH_OK && hold->what != POOL_FOR_CLEAN);
    enum pool_state to;
    enum pool_why why;
    bool as_before = false;
    if (m->drop) {
        to = is_joined(p) ? MEMBER_STOPPING : MEMBER_GONE;
        why = POOL_WHY_DROP;
    } else if (m->lifetime || m->shrink) {
        to = MEMBER_STOPPING;
        why = m->lifetime ? POOL_WHY_LIFETIME : POOL_WHY_SHRINK;
    } else if (m->then != MEMBER_GONE && (ok || m->then != MEMBER_FREE)) {
        to = m->then;
        why = POOL_WHY_OPERATOR;
    } else if (how == BY_UNDONE) {
        to = hold->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE;
        why = POOL_WHY_UNDONE;
        as_before = true;
    } else if (hold->what == POOL_FOR_CLEAN) {
        bool gives_up = o->clean_tries > 0 && m->failed_cleanings + 1 >= o->clean_tries;
        to = ok ? MEMBER_FREE : gives_up ? MEMBER_DOWN : MEMBER_DIRTY;
        why = ok ? POOL_WHY_CLEANED : POOL_WHY_CLEAN_FAILED;
    } else if (!ok) {
        to = is_joined(p) ? MEMBER_STOPPING : state_after(o->on_fail);
        why = how == BY_CRASH ? POOL_WHY_CRASH : how == BY_FAIL ? POOL_WHY_FAIL : POOL_WHY_HOLD_MAX;
    } else if (hold->what == POOL_FOR_CHECK) {
        to = MEMBER_FREE;
        why = how == BY_CRASH ? POOL_WHY_CRASH : POOL_WHY_CHECKED;
        as_before = true;
    } else {
        to = is_joined(p) ? MEMBER_FREE : state_after(o->on_return);
        why = how == BY_CRASH ? POOL_WHY_CRASH : how == BY_QUIT ? POOL_WHY_QUIT : POOL_WHY_RETURN;
    }
    no_more_in_store(m);
    m->fails += !ok;
    if (hold->what == POOL_FOR_CLEAN && how != BY_UNDONE)
        m->failed_cleanings = ok ? 0 : m->failed_cleanings + 1;
    if (how == BY_UNDONE)
        m->takes -= hold->what == POOL_FOR_USE;
    else if (hold->what == POOL_FOR_CHECK)
        m->checked = ++ages;
    if (as_before) {
        m->place = hold->place;
        m->idle_ns = hold->idle_ns;
    }
    struct m_hold was = *hold;
    bool untold = is_untold(hold, c);
    hold->member = M_NOBODY;
    move(p, i, to, why, as_before, &was);
    if (as_before)
        m->since_ns = was.before_ns;
    if (untold && how == BY_HOLD_MAX)
        wait_again(c);
    else if (hands_on && (to == MEMBER_FREE || to == MEMBER_DIRTY))
        hand_on(p, i);
}

/* A held member is moved under its holder. */
static void take_away(int p, int i, enum pool_state to, enum pool_why why)
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

/* ---- the end of a call --------------------------------------------------------------------- */

/* The next event must be that the oldest waiter that fits is served. */
static void serve_next(void)
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

/* ---- pools --------------------------------------------------------------------------------- */

enum pool_status model_pool_add(int p, const struct pool_options *options, bool of_file)
{
    uint32_t count = 0;
    for (EACH_POOL(k))
        count += model_pools[k].there;
    if (model_pools[p].there)
        return POOL_EXISTS;
    if (count >= model_limits.pools_max)
        return POOL_TOO_MANY;
    memset(&model_pools[p], 0, sizeof(model_pools[p]));
    model_pools[p].there = true;
    model_pools[p].of_file = of_file;
    model_pools[p].options = *options;
    model_pools[p].grouped = ++ages;
    tell_of_pool(p, POOL_ADDED);
    return POOL_OK;
}

/* Members beyond the new maximum stop: which free ones is left open, of held ones too. */
static void shrink(int p, uint32_t many)
{
    for (;;) {
        let_lifetimes_end();
        const struct m_event *e = peek();
        if (!e || e->member == M_NOBODY || e->why != POOL_WHY_SHRINK)
            break;
        AGREE(e->pool == p && many > 0 && member(p, e->member)->state == MEMBER_FREE);
        move(p, e->member, MEMBER_STOPPING, POOL_WHY_SHRINK, false, NULL);
        many--;
    }
    AGREE(many == 0 || model_count(p, MEMBER_FREE) == 0);
    /* The oldest holds first. */
    while (many > 0) {
        int oldest = M_NOBODY;
        for (EACH_MEMBER(i)) {
            const struct m_member *m = member(p, i);
            if (m_is_held(m) && !m->drop && !m->lifetime && !m->shrink &&
                (oldest == M_NOBODY || m->fence < member(p, oldest)->fence))
                oldest = i;
        }
        if (oldest == M_NOBODY)
            return;
        member(p, oldest)->shrink = true;
        many--;
    }
}

static void refuse_place(int c, int p, enum pool_status why)
{
    struct m_wait *w = &model_clients[c].wait;
    bool waits = false;
    for (EACH_PLACE(w, k)) {
        w->places[k].left = w->places[k].left || w->places[k].pool == p;
        waits = waits || !w->places[k].left;
    }
    if (waits)
        return;
    if (why == POOL_QUEUE_FULL)
        model_pools[p].takes[w->ask.what][POOL_TAKES_QUEUE_FULL]++;
    w->state = M_REFUSED;
    w->refused = why;
}

/* Refuses the newest waiters for use, or all others. */
static void refuse(int p, bool use, uint32_t max, enum pool_status why)
{
    while (model_waiting(p, use, !use) > max) {
        int newest = M_NOBODY;
        for (EACH_CLIENT(c)) {
            if (model_waits_in(c, p) && (model_clients[c].wait.ask.what == POOL_FOR_USE) == use &&
                (newest == M_NOBODY || model_clients[c].wait.age > model_clients[newest].wait.age))
                newest = c;
        }
        refuse_place(newest, p, why);
    }
}

static bool same_group(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_options(const struct pool_options *a, const struct pool_options *b)
{
#define SAME(field) (a->field == b->field)
    return same_group(a->group, b->group) && SAME(kind) && SAME(max) && SAME(order) &&
           SAME(queue_max) && SAME(overtakes) && SAME(on_return) && SAME(on_start) &&
           SAME(on_fail) && SAME(clean_after_ns) && SAME(clean_tries) && SAME(on_crash) &&
           SAME(hold_warn_ns) && SAME(hold_max_ns) && SAME(min_free) && SAME(cull_after_ns) &&
           SAME(start_timeout_ns) && SAME(stop_timeout_ns) && SAME(max_lifetime_ns) &&
           SAME(lifetime_jitter_ns);
}

enum pool_status model_pool_set(int p, const struct pool_options *options, bool of_file)
{
    struct m_pool *pool = &model_pools[p];
    if (!pool->there)
        return POOL_NO_POOL;
    if (pool->options.kind != options->kind)
        return POOL_WRONG_KIND;
    if (of_file && !pool->of_file)
        return POOL_EXISTS;
    bool new_max = pool->options.max != options->max;
    if (!of_file || pool->draining || !same_options(&pool->options, options))
        tell_of_pool(p, POOL_CHANGED);
    if (of_file && pool->draining) {
        pool->draining = false;
        for (EACH_MEMBER(i))
            member(p, i)->drop = false;
    }
    /* Lifetimes are as the new options say. */
    pool->options = *options;
    pool->grouped = ++ages;
    for (EACH_MEMBER(i))
        member(p, i)->lifetime = false;
    note_lifetimes(p);
    let_lifetimes_end();
    uint32_t going = model_count(p, MEMBER_STOPPING);
    for (EACH_MEMBER(i)) {
        struct m_member *m = member(p, i);
        if (new_max)
            m->shrink = false;
        going += m->there && (m->drop || m->lifetime || m->shrink);
    }
    uint32_t count = model_member_count(p), max = options->max;
    if (new_max && is_joined(p))
        shrink(p, max > 0 && count > max + going ? count - max - going : 0);
    refuse(p, true, options->queue_max, POOL_QUEUE_FULL);
    refuse(p, false, options->queue_max, POOL_QUEUE_FULL);
    if (is_joined(p) && awaited(p) > 0)
        raise_want(p, 0);
    return POOL_OK;
}

static void drop_member(int p, int i, bool at_once)
{
    struct m_member *m = member(p, i);
    if (at_once) {
        if (m->joiner != M_NOBODY && m->state != MEMBER_STOPPING)
            stop_later(p, i, POOL_WHY_DROP);
        if (m_is_held(m))
            take_away(p, i, MEMBER_GONE, POOL_WHY_DROP);
        else
            move(p, i, MEMBER_GONE, POOL_WHY_DROP, false, NULL);
    } else if (m_is_held(m)) {
        m->drop = true;
    } else if (m->state != MEMBER_STOPPING) {
        move(p, i, is_joined(p) ? MEMBER_STOPPING : MEMBER_GONE, POOL_WHY_DROP, false, NULL);
    }
}

static void set_supply(int c, int p, uint32_t init, uint32_t max)
{
    struct m_supply *s = &model_clients[c].supplies[p];
    s->init = init;
    s->max = max;
    s->late = false;
    s->short_ns = INT64_MAX;
    if (max == 0)
        s->want = 0;
}

enum pool_status model_pool_drop(int p, bool at_once)
{
    struct m_pool *pool = &model_pools[p];
    if (!pool->there)
        return POOL_NO_POOL;
    if (!pool->draining) {
        pool->draining = true;
        if (model_member_count(p) > 0 && !at_once)
            tell_of_pool(p, POOL_DRAINS);
        refuse(p, true, 0, POOL_NO_POOL);
        refuse(p, false, 0, POOL_NO_POOL);
        for (EACH_CLIENT(c)) {
            if (!supplies(c, p))
                continue;
            set_supply(c, p, 0, 0);
            model_clients[c].supplies[p].untold = true;
        }
    }
    for (EACH_MEMBER(i)) {
        if (pool->there && member(p, i)->there)
            drop_member(p, i, at_once);
    }
    end_pool_if_empty(p);
    return POOL_OK;
}

/* ---- members ------------------------------------------------------------------------------- */

static enum pool_status make_member(const struct m_new_member *new)
{
    const struct m_pool *pool = &model_pools[new->pool];
    struct m_member *m = member(new->pool, new->member);
    uint32_t count = model_member_count(new->pool);
    if (m->there)
        return POOL_EXISTS;
    if (count >= model_limits.members_max || (pool->options.max > 0 && count >= pool->options.max))
        return POOL_FULL;
    *m = (struct m_member){
        .birth = ++ages,
        .value = new->value,
        .note = new->note,
        .checked = ages,
        .idle_ns = model_now.mono_ns,
        .holder = M_NOBODY,
        .joiner = M_NOBODY,
        .joined_ns = model_now.mono_ns,
    };
    memcpy(m->attributes, new->attributes, sizeof(m->attributes));
    return POOL_OK;
}

static enum pool_status add_member(const struct m_new_member *new)
{
    enum pool_status status = make_member(new);
    if (status != POOL_OK)
        return status;
    bool dirty = model_pools[new->pool].options.on_start == POOL_AFTER_DIRTY;
    move(new->pool, new->member,
         new->down ? MEMBER_DOWN
         : dirty   ? MEMBER_DIRTY
                   : MEMBER_FREE,
         POOL_WHY_ADD, false, NULL);
    hand_on(new->pool, new->member);
    return POOL_OK;
}

enum pool_status model_member_add(const struct m_new_member *new)
{
    const struct m_pool *pool = &model_pools[new->pool];
    if (!pool->there || pool->draining)
        return POOL_NO_POOL;
    return is_joined(new->pool) ? POOL_WRONG_KIND : add_member(new);
}

/* The client has something to do with the pool from now on. */
static struct m_supply *supply_of(int c, int p)
{
    struct m_supply *s = &model_clients[c].supplies[p];
    if (s->born == 0)
        *s = (struct m_supply){.born = ++ages, .short_ns = INT64_MAX};
    return s;
}

enum pool_status model_join(int c, const struct m_new_member *new)
{
    int p = new->pool;
    struct m_member *m = member(p, new->member);
    if (!model_pools[p].there || model_pools[p].draining)
        return POOL_NO_POOL;
    if (!is_joined(p))
        return POOL_WRONG_KIND;
    enum pool_status status = make_member(new);
    if (status != POOL_OK)
        return status;
    supply_of(c, p)->late = false;
    m->joiner = c;
    m->jitter = model_jitter(p, new->member);
    AGREE(m->jitter >= -1 && m->jitter <= 1);
    move(p, new->member, MEMBER_FREE, POOL_WHY_JOIN, false, NULL);
    hand_on(p, new->member);
    return POOL_OK;
}

struct pool_changes model_declare(int p, const struct m_new_member *new, unsigned count)
{
    struct pool_changes changes = {0};
    for (EACH_MEMBER(i)) {
        bool declared = !member(p, i)->there || member(p, i)->drop;
        for (unsigned k = 0; k < count; k++)
            declared = declared || new[k].member == i;
        if (declared)
            continue;
        drop_member(p, i, false);
        changes.dropped++;
    }
    for (unsigned k = 0; k < count; k++) {
        struct m_member *m = member(p, new[k].member);
        if (!m->there) {
            enum pool_status status = add_member(&new[k]);
            changes.added += status == POOL_OK;
            changes.left_out += status == POOL_FULL;
            continue;
        }
        changes.put_back += m->drop || m->value != new[k].value ||
                            memcmp(m->attributes, new[k].attributes, sizeof(m->attributes)) != 0;
        m->drop = false;
        m->value = new[k].value;
        memcpy(m->attributes, new[k].attributes, sizeof(m->attributes));
    }
    return changes;
}

enum pool_status model_member_set(const struct m_change *change)
{
    int p = change->pool, i = change->member;
    struct m_member *m = member(p, i);
    if (!model_pools[p].there)
        return POOL_NO_POOL;
    if (!m->there)
        return POOL_NO_MEMBER;
    bool good = change->state == MEMBER_FREE || change->state == MEMBER_DOWN ||
                (change->state == MEMBER_DIRTY && !is_joined(p));
    if (change->sets_state && (m->state == MEMBER_STOPPING || !good))
        return POOL_BAD_STATE;
    for (int k = 0; k < M_KEYS; k++) {
        if (change->sets[k])
            m->attributes[k] = change->attributes[k];
    }
    if (change->sets_value)
        m->value = change->value;
    if (change->sets_note)
        m->note = change->note;
    if (!change->sets_state || m->state == change->state)
        return POOL_OK;
    note_lifetimes(p);
    if (!m_is_held(m)) {
        move(p, i, change->state, POOL_WHY_OPERATOR, false, NULL);
        hand_on(p, i);
        return POOL_OK;
    }
    if (!change->now) {
        m->then = change->state;
        return POOL_OK;
    }
    if (change->state == MEMBER_FREE)
        stop_instead(p, i);
    if (m->drop) {
        take_away(p, i, is_joined(p) ? MEMBER_STOPPING : MEMBER_GONE, POOL_WHY_DROP);
    } else if (m->lifetime || m->shrink) {
        take_away(p, i, MEMBER_STOPPING, m->lifetime ? POOL_WHY_LIFETIME : POOL_WHY_SHRINK);
    } else {
        take_away(p, i, change->state, POOL_WHY_OPERATOR);
    }
    return POOL_OK;
}

/* A member leaves, because its client says so or has ended. */
static void leave(int p, int i, enum pool_why why)
{
    forget_stop(p, i);
    if (m_is_held(member(p, i)))
        take_away(p, i, MEMBER_GONE, why);
    else
        move(p, i, MEMBER_GONE, why, false, NULL);
}

enum pool_status model_member_drop(int by, bool own_only, int p, int i, bool at_once)
{
    const struct m_member *m = member(p, i);
    if (!model_pools[p].there)
        return POOL_NO_POOL;
    if (!m->there)
        return POOL_NO_MEMBER;
    bool own = by != M_NOBODY && m->joiner == by;
    if (own_only && !own)
        return POOL_DENIED;
    if (own && at_once)
        leave(p, i, POOL_WHY_LEAVE);
    else
        drop_member(p, i, at_once);
    return POOL_OK;
}

enum pool_status model_supply(int c, int p, uint32_t init, uint32_t max)
{
    if (!model_pools[p].there || model_pools[p].draining)
        return POOL_NO_POOL;
    if (!is_joined(p))
        return POOL_WRONG_KIND;
    struct m_supply *s = supply_of(c, p);
    set_supply(c, p, init, max);
    s->untold = max > 0;
    s->told = 0;
    if (awaited(p) > 0)
        raise_want(p, 0);
    return POOL_OK;
}

static bool watches_others(const struct m_client *c)
{
    bool all = c->open && c->watches_all && !c->mine_all;
    for (EACH_POOL(p))
        all = all || (c->open && c->watches[p] && !c->mine[p]);
    return all;
}

enum pool_status model_watch(int c, int p, bool mine)
{
    struct m_client *client = &model_clients[c];
    uint32_t watchers = 1; /* the test itself */
    if (p != M_NOBODY && !model_pools[p].there)
        return POOL_NO_POOL;
    for (EACH_CLIENT(v))
        watchers += watches_others(&model_clients[v]);
    if (!mine && !watches_others(client) && watchers >= model_limits.watchers_max)
        return POOL_TOO_MANY;
    if (p == M_NOBODY) {
        client->watches_all = true;
        client->mine_all = mine;
    } else {
        client->watches[p] = true;
        client->mine[p] = mine;
    }
    return POOL_OK;
}

/* ---- TAKE and RETURN ----------------------------------------------------------------------- */

/* The open pools of a request, in order; their number. */
static unsigned targets_of(const struct m_take *take, int *targets)
{
    unsigned count = 0;
    if (!take->group) {
        for (unsigned k = 0; k < take->target_count; k++) {
            const struct m_pool *pool = &model_pools[take->targets[k]];
            if (!pool->there || pool->draining)
                return 0;
            targets[count++] = take->targets[k];
        }
        return count;
    }
    for (uint64_t after = 0;;) {
        int next = M_NOBODY;
        for (EACH_POOL(p)) {
            const struct m_pool *pool = &model_pools[p];
            if (pool->there && !pool->draining && pool->options.group && pool->grouped > after &&
                strcmp(pool->options.group, take->group) == 0 &&
                (next == M_NOBODY || pool->grouped < model_pools[next].grouped))
                next = p;
        }
        if (next == M_NOBODY)
            return count;
        targets[count++] = next;
        after = model_pools[next].grouped;
    }
}

/* A pool that serves the request at once; M_NOBODY: none. */
static int pool_for(const struct m_take *take, const int *targets, unsigned count)
{
    int best = M_NOBODY;
    uint32_t most = 0;
    bool by_chance = false;
    for (unsigned k = 0; k < count; k++) {
        int p = targets[k];
        uint32_t open = open_count(p, &take->ask, UINT64_MAX);
        if (open < take->ask.count)
            continue;
        if (!take->group)
            return p;
        if (best == M_NOBODY || open > most || (open == most && held_count(p) < held_count(best))) {
            best = p;
            most = open;
            by_chance = false;
        } else if (open == most && held_count(p) == held_count(best)) {
            by_chance = true;
        }
    }
    if (by_chance && peek()) {
        int p = peek()->pool;
        bool among = false;
        for (unsigned k = 0; k < count; k++)
            among = among || targets[k] == p;
        AGREE(among && open_count(p, &take->ask, UINT64_MAX) == most &&
              held_count(p) == held_count(best));
        best = p;
    }
    return best;
}

/* A request was refused, and more members are wanted for it. */
static void refused(const struct m_take *take, const int *targets, unsigned count,
                    enum pool_outcome outcome)
{
    enum pool_for what = take->ask.what;
    bool choosy = take->ask.member != M_NOBODY;
    for (int k = 0; k < M_KEYS; k++)
        choosy = choosy || take->ask.with[k] != M_NOBODY;
    for (unsigned k = 0; k < count; k++) {
        int p = targets[k];
        bool grows = false;
        if (is_joined(p) && what == POOL_FOR_USE) {
            raise_want(p, choosy ? 0 : take->ask.count);
            grows = model_pools[p].want > model_member_count(p) - model_count(p, MEMBER_STOPPING);
        }
        if (k == 0)
            model_pools[p]
                .takes[what][outcome == POOL_TAKES_BUSY && grows ? POOL_TAKES_GROWING : outcome]++;
    }
}

static enum pool_status begin_wait(int c, const struct m_take *take, const int *targets,
                                   unsigned count)
{
    struct m_wait *w = &model_clients[c].wait;
    bool use = take->ask.what == POOL_FOR_USE;
    struct m_wait new = {.state = M_IN_LINE,
                         .age = ++ages,
                         .ask = take->ask,
                         .since_ns = model_now.mono_ns,
                         .timeout_ns = take->timeout_ns};
    for (unsigned k = 0; k < count; k++) {
        if (model_waiting(targets[k], use, !use) < model_pools[targets[k]].options.queue_max)
            new.places[new.place_count++].pool = targets[k];
    }
    if (new.place_count == 0) {
        refused(take, targets, count, POOL_TAKES_QUEUE_FULL);
        return POOL_QUEUE_FULL;
    }
    *w = new;
    for (EACH_PLACE(w, k)) {
        if (use && is_joined(w->places[k].pool))
            raise_want(w->places[k].pool, 0);
    }
    return POOL_WAITS;
}

enum pool_status model_take(int c, const struct m_take *take, uint64_t position)
{
    struct m_client *client = &model_clients[c];
    int targets[M_POOLS];
    unsigned count = targets_of(take, targets);
    if (count == 0)
        return POOL_NO_POOL;
    for (unsigned k = 0; k < count; k++) {
        if (take->ask.what == POOL_FOR_CLEAN && is_joined(targets[k]))
            return POOL_WRONG_KIND;
    }
    if (take->ask.member != M_NOBODY && !member(targets[0], take->ask.member)->there)
        return POOL_NO_MEMBER;
    if (client->hold_count + take->ask.count > model_limits.taken_max)
        return POOL_TOO_MANY;
    for (unsigned k = 0; k < count; k++) {
        note_lifetimes(targets[k]);
        expire(targets[k]);
    }
    int p = pool_for(take, targets, count);
    if (p == M_NOBODY) {
        if (take->timeout_ns > 0)
            return begin_wait(c, take, targets, count);
        refused(take, targets, count, POOL_TAKES_BUSY);
        return POOL_TIMES_OUT;
    }
    int chosen[M_TAKEN];
    choose(p, &take->ask, UINT64_MAX, chosen);
    for (uint32_t n = 0; n < take->ask.count; n++) {
        struct m_hold *hold = &client->holds[client->hold_count++];
        begin_hold(c, hold, p, chosen[n], &take->ask, UINT64_MAX);
        hold->position = position;
    }
    model_pools[p].takes[take->ask.what][POOL_TAKES_TAKEN]++;
    raise_for_min_free(p, take->ask.what);
    return POOL_OK;
}

bool model_end_wait(int c, bool timed_out)
{
    struct m_wait *w = &model_clients[c].wait;
    if (w->state != M_IN_LINE)
        return false;
    w->state = M_NO_WAIT;
    for (EACH_PLACE(w, k)) {
        if (w->places[k].left)
            continue;
        model_pools[w->places[k].pool].takes[w->ask.what][POOL_TAKES_TIMED_OUT] += timed_out;
        break;
    }
    return true;
}

enum pool_status model_return(int c, uint64_t fence, bool ok)
{
    struct m_client *client = &model_clients[c];
    for (unsigned k = client->hold_count; k-- > 0;) {
        struct m_hold hold = client->holds[k];
        if (fence != 0 && hold.fence != fence)
            continue;
        if (hold.member != M_NOBODY)
            end_hold(c, &client->holds[k], ok ? BY_OK : BY_FAIL, true);
        memmove(&client->holds[k], &client->holds[k + 1],
                (--client->hold_count - k) * sizeof(hold));
        return hold.member != M_NOBODY ? POOL_OK : POOL_GONE;
    }
    return POOL_NOT_TAKEN;
}

/* ---- clients ------------------------------------------------------------------------------- */

void model_client_new(int c, uint64_t tag)
{
    memset(&model_clients[c], 0, sizeof(model_clients[c]));
    model_clients[c].open = true;
    model_clients[c].tag = tag;
}

/* What a client has joined goes, pool by pool and member by member as it joined them. */
static void leave_all(int c, enum pool_why why)
{
    struct m_client *client = &model_clients[c];
    for (;;) {
        int p = M_NOBODY;
        for (EACH_POOL(k)) {
            if (client->supplies[k].born != 0 &&
                (p == M_NOBODY || client->supplies[k].born < client->supplies[p].born))
                p = k;
        }
        if (p == M_NOBODY)
            return;
        set_supply(c, p, 0, 0);
        for (;;) {
            int first = M_NOBODY;
            for (EACH_MEMBER(i)) {
                const struct m_member *m = member(p, i);
                if (m->there && m->joiner == c &&
                    (first == M_NOBODY || m->birth < member(p, first)->birth))
                    first = i;
            }
            if (first == M_NOBODY)
                break;
            leave(p, first, why);
        }
        client->supplies[p] = (struct m_supply){0};
    }
}

void model_client_end(int c, bool quits, uint64_t cut)
{
    struct m_client *client = &model_clients[c];
    struct m_wait *w = &client->wait;
    client->ending = true;
    if (w->state == M_SERVED) {
        for (uint32_t k = 0; k < w->ask.count; k++)
            end_hold(c, &w->served[k], BY_UNDONE, false);
    }
    w->state = M_NO_WAIT;
    while (client->hold_count > 0) {
        struct m_hold *hold = &client->holds[client->hold_count - 1];
        if (hold->member != M_NOBODY)
            end_hold(c, hold, quits ? BY_QUIT : hold->position < cut ? BY_CRASH : BY_UNDONE, true);
        client->hold_count--;
    }
    leave_all(c, quits ? POOL_WHY_LEAVE : POOL_WHY_LOST);
    client->open = client->ending = false;
}

bool model_has_news(int c)
{
    const struct m_client *client = &model_clients[c];
    bool news = client->events || client->stop_count > 0 || client->wait.state == M_SERVED ||
                client->wait.state == M_REFUSED;
    for (EACH_POOL(p)) {
        const struct m_supply *s = &client->supplies[p];
        news = news || client->ended_wants[p] > 0 || (s->born && (s->untold || s->told != s->want));
    }
    return news;
}

void model_read(int c, uint64_t position, struct m_news *news_r)
{
    struct m_client *client = &model_clients[c];
    struct m_wait *w = &client->wait;
    memset(news_r, 0, sizeof(*news_r));
    if (w->state == M_SERVED) {
        news_r->verdict = M_SERVED;
        for (uint32_t k = 0; k < w->ask.count; k++) {
            w->served[k].position = position;
            client->holds[client->hold_count++] = w->served[k];
            news_r->taken++;
        }
        w->state = M_NO_WAIT;
    } else if (w->state == M_REFUSED) {
        news_r->verdict = M_REFUSED;
        news_r->refused = w->refused;
        w->state = M_NO_WAIT;
    }
    news_r->stop_count = client->stop_count;
    memcpy(news_r->stops, client->stops, sizeof(client->stops));
    client->stop_count = 0;
    for (EACH_POOL(p)) {
        struct m_supply *s = &client->supplies[p];
        for (; client->ended_wants[p] > 0; client->ended_wants[p]--)
            news_r->wants[news_r->want_count++].pool = p;
        if (!s->born || (!s->untold && s->told == s->want))
            continue;
        news_r->wants[news_r->want_count].pool = p;
        news_r->wants[news_r->want_count++].want = s->want;
        s->untold = false;
        s->told = s->want;
    }
    news_r->events = client->events;
    client->events = false;
}

void model_upgrade(void)
{
    for (EACH_POOL(p))
        model_pools[p].grouped = ++ages;
}

/* ---- time ---------------------------------------------------------------------------------- */

static bool is_due(int64_t since_ns, int64_t wait_ns)
{
    return wait_ns > 0 && since_ns + wait_ns <= model_now.mono_ns;
}

/* A hold past hold_warn is told of, once. */
static void be_late(const struct m_event *e)
{
    const struct m_member *m = member(e->pool, e->member);
    AGREE(m_is_held(m));
    struct m_hold *hold = model_hold_of(e->pool, e->member);
    struct m_event expected = event_of_hold(hold, m->holder);
    AGREE(!hold->warned && is_due(hold->since_ns, model_pools[e->pool].options.hold_warn_ns));
    hold->warned = true;
    model_pools[e->pool].late++;
    expected.pool = e->pool;
    expected.member = e->member;
    expected.from = expected.to = m->state;
    expected.late = true;
    tell(&expected, is_joined(e->pool) ? m->joiner : M_NOBODY);
}

static void cull(int p, int i)
{
    AGREE(model_is_idle(p, i));
    for (EACH_MEMBER(k))
        AGREE(!model_is_idle(p, k) || member(p, k)->idle_ns >= member(p, i)->idle_ns);
    if (model_pools[p].want > 0)
        model_pools[p].want--;
    move(p, i, MEMBER_STOPPING, POOL_WHY_CULL, false, NULL);
}

/* Something is due: what it is, and in which order, the engine says. */
static void one_is_due(const struct m_event *e)
{
    int p = e->pool, i = e->member;
    const struct pool_options *o = &model_pools[p].options;
    AGREE(model_pools[p].there && i != M_NOBODY);
    const struct m_member *m = member(p, i);
    if (e->late) {
        be_late(e);
    } else if (m_is_held(m)) {
        struct m_hold *hold = model_hold_of(p, i);
        AGREE(is_due(hold->since_ns, o->hold_max_ns));
        end_hold(m->holder, hold, BY_HOLD_MAX, true);
    } else if (e->why == POOL_WHY_RESTED) {
        AGREE(m->state == MEMBER_DIRTY && is_due(m->since_ns, o->clean_after_ns));
        move(p, i, MEMBER_FREE, POOL_WHY_RESTED, false, NULL);
        hand_on(p, i);
    } else if (e->why == POOL_WHY_STOP_TIMEOUT) {
        AGREE(m->state == MEMBER_STOPPING && is_due(m->since_ns, o->stop_timeout_ns));
        move(p, i, MEMBER_GONE, POOL_WHY_STOP_TIMEOUT, false, NULL);
    } else if (e->why == POOL_WHY_CULL) {
        cull(p, i);
    } else {
        serve_next();
    }
}

/* Nothing that is due is left, but members to cull: they may take a second. */
static void check_nothing_is_due(int p)
{
    const struct pool_options *o = &model_pools[p].options;
    for (EACH_MEMBER(i)) {
        const struct m_member *m = member(p, i);
        if (!m->there)
            continue;
        AGREE(m->state != MEMBER_DIRTY || !is_due(m->since_ns, o->clean_after_ns));
        AGREE(m->state != MEMBER_STOPPING || !is_due(m->since_ns, o->stop_timeout_ns));
        AGREE(m->state != MEMBER_FREE || !model_is_over(p, i));
        if (!m_is_held(m))
            continue;
        const struct m_hold *hold = model_hold_of(p, i);
        AGREE(!is_due(hold->since_ns, o->hold_max_ns));
        AGREE(hold->warned || !is_due(hold->since_ns, o->hold_warn_ns));
    }
}

void model_run(void)
{
    for (;;) {
        let_lifetimes_end();
        const struct m_event *e = peek();
        if (!e)
            break;
        one_is_due(e);
    }
    for (EACH_POOL(p)) {
        if (!model_pools[p].there)
            continue;
        check_nothing_is_due(p);
        note_lifetimes(p);
        for (EACH_CLIENT(c)) {
            struct m_supply *s = &model_clients[c].supplies[p];
            if (s->born && s->short_ns != INT64_MAX &&
                is_due(s->short_ns, model_pools[p].options.start_timeout_ns))
                s->late = true;
        }
    }
    model_timely = true;
}
