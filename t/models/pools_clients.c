/* pools_clients.c - the model of pools: requests of clients, what they read, and time. */
#include "t/models/pools_internal.h"

#include <string.h>

/* ---- TAKE and RETURN ------------------------------------------------------------------------- */

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

/* ---- clients --------------------------------------------------------------------------------- */

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
        news_r->result = M_SERVED;
        for (uint32_t k = 0; k < w->ask.count; k++) {
            w->served[k].position = position;
            client->holds[client->hold_count++] = w->served[k];
            news_r->taken++;
        }
        w->state = M_NO_WAIT;
    } else if (w->state == M_REFUSED) {
        news_r->result = M_REFUSED;
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

/* ---- time ------------------------------------------------------------------------------------ */

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
