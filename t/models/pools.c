/* pools.c - see pools.h. */
#include "t/models/pools_internal.h"
#include "t/unit/unit.h"

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
uint64_t model_step;
char model_doing[400];

uint64_t ages;
unsigned event;

struct m_member *member(int p, int i)
{
    return &model_pools[p].members[i];
}

bool is_joined(int p)
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
    ck_abort_msg("%s", text);
}

void model_start(const struct pools_limits *limits, uint64_t first_fence)
{
    memset(model_pools, 0, sizeof(model_pools));
    memset(model_clients, 0, sizeof(model_clients));
    model_limits = *limits;
    model_fence = first_fence;
    ages = 0;
}

/* ---- looking --------------------------------------------------------------------------------- */

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

uint32_t held_count(int p)
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
bool is_untold(const struct m_hold *hold, int c)
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
bool supplies(int c, int p)
{
    return model_clients[c].supplies[p].max > 0;
}

/* The members of a client, without stopping ones. */
uint32_t joined_count(int c, int p)
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

/* ---- events ---------------------------------------------------------------------------------- */

/* Free members whose lifetime is over may stop at any time. */
void let_lifetimes_end(void)
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
void expire(int p)
{
    let_lifetimes_end();
    for (EACH_MEMBER(i))
        AGREE(!member(p, i)->there || member(p, i)->state != MEMBER_FREE || !model_is_over(p, i));
}

const struct m_event *peek(void)
{
    return event < model_event_count ? &model_events[event] : NULL;
}

/* Compares an event with the next one of the engine, and notes which clients are told. */
void tell(const struct m_event *e, int joiner)
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

struct m_event event_of_hold(const struct m_hold *hold, int holder)
{
    return (struct m_event){
        .fence = hold->fence, .conn = model_clients[holder].tag, .by = hold->by};
}

/* ---- moves ----------------------------------------------------------------------------------- */

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
void forget_supply_if_idle(int c, int p)
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
void move(int p, int i, enum pool_state to, enum pool_why why, bool same_place,
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

/* ---- pools ----------------------------------------------------------------------------------- */

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

void set_supply(int c, int p, uint32_t init, uint32_t max)
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

/* ---- members --------------------------------------------------------------------------------- */

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
void leave(int p, int i, enum pool_why why)
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
