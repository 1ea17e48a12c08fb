/*
 * pool_take.c - TAKE: a new request, and one that goes on in steps.
 *
 * A request fits a pool when enough members there match it and are not closed to it. A new request
 * that fits is served at once: it is younger than all that wait, and of those none fits. Else it
 * may wait, with a place in each pool that has room (pool_wait.c), until pool_serve.c serves it.
 *
 * A request that is not decided after POOL_VISITS_MAX members becomes a waiter that is `asking`:
 * its client goes on with it in steps (pool_take_on), and is answered when it has looked at all. It
 * stands in line from the beginning. Where it will not wait it is a guest: of pools that were full
 * when it came, and if its timeout is 0.
 */
#include "engine/pool_internal.h"

/* ---- targets --------------------------------------------------------------------------------- */

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
    struct ring *all = &t->pools->grouped;
    struct pool *next = item_of(pool ? pool->of_group.next : all->next, struct pool, of_group);
    while (&next->of_group != all && !is_of_group(next, t->group_name))
        next = item_of(next->of_group.next, struct pool, of_group);
    return &next->of_group != all ? next : NULL;
}

/* The pool after `pool` (NULL: the first), before which there are `number`; NULL: none. */
static struct pool *next_target(const struct targets *t, const struct pool *pool, size_t number)
{
    return t->group ? next_of_group(t, pool) : number < t->count ? t->list[number] : NULL;
}

struct target {
    struct pool *pool;
    size_t number; /* from 1 */
};

/* clang-format off */
/* for (EACH_TARGET(t, at)) */
#define EACH_TARGET(t, at)                                                                         \
    struct target at = {next_target(t, NULL, 0), 1}; (at).pool;                                    \
    (at).pool = next_target(t, (at).pool, (at).number++)
/* clang-format on */

/* Finds the pools. POOL_LOOKS: members of clients that have ended must leave one of them first. */
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
                return POOL_LOOKS;
        }
        return next_of_group(t, NULL) ? POOL_OK : POOL_NO_POOL;
    }
    CHECK(take->target_count <= POOL_TARGETS_MAX);
    for (size_t i = 0; i < take->target_count; i++) {
        struct pool *pool = pool_find(pools, take->targets[i]);
        if (pool && unlikely(pool->leaving > 0))
            return POOL_LOOKS;
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
    enum pool_status status;
    while (unlikely((status = resolve(pools, take, t)) == POOL_LOOKS)) {
        pool_clients_leave(pools);
        pool_let_others(pools);
    }
    if (status != POOL_OK)
        return status;
    for (EACH_TARGET(t, at)) {
        if (take->what == POOL_FOR_CLEAN && pool_is_joined(at.pool))
            return POOL_WRONG_KIND;
    }
    if (take->member.len > 0 && !pool_find_member(t->list[0], take->member))
        return POOL_NO_MEMBER;
    if (take->count > pools->config.limits.taken_max ||
        client->hold_count > pools->config.limits.taken_max - take->count)
        return POOL_TOO_MANY;
    for (EACH_TARGET(t, at)) {
        pool_expire(at.pool);
        pool_fit_settle(at.pool);
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
static bool choose_of_group(const struct targets *t, const struct pool_need *need,
                            struct pool **pool_r)
{
    struct best best = {0};
    for (EACH_TARGET(t, at)) {
        uint32_t free;
        if (!pool_count_ready(at.pool, need, &free))
            return false;
        if (free >= need->count)
            compare_best(&best, at.pool, free, at.pool);
    }
    *pool_r = best.choice;
    return true;
}

/* Finds a pool that serves the request now, and the members there; NULL: none. Returns false if it
 * had to end before. */
static bool find_now(const struct targets *t, const struct pool_need *need,
                     struct pool_member **found, struct pool **pool_r)
{
    uint32_t count;
    *pool_r = NULL;
    if (t->group) {
        struct pool *best;
        if (!choose_of_group(t, need, &best) ||
            (best && !pool_find_ready(best, need, need->count, found, &count)))
            return false;
        CHECK(!best || count == need->count);
        *pool_r = best;
        return true;
    }
    for (EACH_TARGET(t, at)) {
        if (!pool_find_ready(at.pool, need, need->count, found, &count))
            return false;
        if (count == need->count) {
            *pool_r = at.pool;
            return true;
        }
    }
    return true;
}

/* Takes what was found. */
static enum pool_status take_now(struct pool_client *client, const struct pool_take *take,
                                 const struct pool_need *need, struct pool *pool,
                                 struct pool_member **found, const struct pool_reader *reader,
                                 uint64_t position)
{
    struct ring holds;
    struct holding *unit = NULL; /* the counter may have no room */
    ring_init(&holds);
    if (!pool_holds_new(client, take, &holds) ||
        pool_add_units(client, pool, take->count, &unit) == TABLE_NO_MEMORY) {
        pool_holds_free(&holds);
        return POOL_NO_MEMORY;
    }
    for (uint32_t i = 0; i < take->count; i++) {
        struct pool_hold *hold = item_of(holds.next, struct pool_hold, of_client);
        ring_remove(&hold->of_client);
        pool_hand_out(hold, found[i], need, unit, false);
        pool_hold_tell(hold, reader, position);
    }
    pool_count_taken(pool, take->what);
    return POOL_OK;
}

static bool has_room(const struct pool *pool, enum pool_for what)
{
    return pool->waiting[pool_line_of(what)] < pool->options.queue_max;
}

/* True if a request may stand in the line of a pool: to wait, or if it is `asking` also as a guest.
 */
static bool may_enter(const struct pool *pool, const struct pool_take *take, bool asking)
{
    bool choosy = asking || take->count > 1 || take->with_count > 0;
    return (asking || has_room(pool, take->what)) &&
           (!choosy || pool->choosy_count < POOL_CHOOSY_MAX);
}

/* Makes a waiter with a place in each pool that it may enter. NULL: no memory. */
static struct pool_waiter *make_waiter(struct pool_client *client, const struct pool_take *take,
                                       const struct targets *t, size_t rooms, bool asking)
{
    struct pool_waiter *w = pool_waiter_new(client, take, rooms);
    if (!w)
        return NULL;
    w->asking = asking;
    w->choosing = asking && t->group;
    if (asking)
        w->class = CLASS_CHOOSY;
    for (EACH_TARGET(t, at)) {
        if (may_enter(at.pool, take, asking))
            pool_waiter_add(w, at.pool)->guest =
                asking && (take->timeout_ns == 0 || !has_room(at.pool, take->what));
    }
    if (pool_waiter_reserve(w))
        return w;
    pool_waiter_free(w);
    return NULL;
}

/* A request is refused, for lack of members or of room: more members of this pool may be wanted.
 * `first`: it is counted there. */
static void count_refused(struct pool *pool, const struct pool_need *need,
                          enum pool_outcome outcome, bool first)
{
    bool use = need->what == POOL_FOR_USE && pool_is_joined(pool);
    if (use)
        pool_raise_want(pool, need->member.len > 0 || need->with_count > 0 ? 0 : need->count);
    bool grows = use && pool->want > pool->member_count - pool->states[MEMBER_STOPPING];
    if (outcome == POOL_TAKES_BUSY && grows)
        outcome = POOL_TAKES_GROWING;
    if (first)
        pool->totals.takes[need->what][outcome]++;
}

static void count_all_refused(const struct targets *t, const struct pool_need *need,
                              enum pool_outcome outcome)
{
    for (EACH_TARGET(t, at))
        count_refused(at.pool, need, outcome, at.number == 1);
}

/* A request waits: more members may be wanted. */
static void begin_wait(struct pool_waiter *w)
{
    for (EACH_PLACE(place, w)) {
        if (pool_is_joined(place->pool) && w->need.what == POOL_FOR_USE)
            pool_raise_want(place->pool, 0);
    }
}

/* Puts a request into its lines, to wait or, if it is `asking`, to be looked at in steps. */
static enum pool_status wait_for(struct pool_client *client, const struct pool_take *take,
                                 const struct pool_need *need, const struct targets *t, bool asking)
{
    size_t rooms = 0;
    for (EACH_TARGET(t, at))
        rooms += may_enter(at.pool, take, asking);
    if (rooms == 0) {
        count_all_refused(t, need, POOL_TAKES_QUEUE_FULL);
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
                           struct pool_outbox *outbox)
{
    struct targets t;
    struct pool_member *found[POOL_COUNT_MAX];
    const struct pool_need need = pool_need_of(take);
    pool_enter(client->pools, now, outbox);
    CHECK(!client->waiter);
    enum pool_status status = judge(client, take, &t);
    if (status == POOL_OK) {
        struct pool *pool;
        bool through = find_now(&t, &need, found, &pool);
        if (pool) {
            status = take_now(client, take, &need, pool, found, reader, position);
        } else if (!through || take->timeout_ns > 0) {
            status = wait_for(client, take, &need, &t, !through);
        } else {
            count_all_refused(&t, &need, POOL_TAKES_BUSY);
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
static bool has_looked(struct pool_waiter *w)
{
    for (EACH_PLACE(place, w)) {
        if (!has_looked_at(place))
            return false;
    }
    return true;
}

/* Serves a request of a group, which has looked at all its pools, where it has the most. */
static void serve_best(struct pool_waiter *w)
{
    struct best best = {0};
    w->choosing = false;
    for (EACH_PLACE(place, w)) {
        if (pool_fits(place))
            compare_best(&best, place->pool, place->ready, place);
    }
    if (best.choice)
        (void)pool_try_serve(best.choice, &(bool){true});
}

/* Looks on at the pools of a request. */
static void look_on(struct pool_waiter *w)
{
    for (EACH_PLACE(place, w)) {
        if (has_looked_at(place))
            continue;
        pool_expire(place->pool);
        pool_fit_step(place->pool);
        pool_serve(place->pool);
        if (w->state != WAIT_IN_LINE || place->looks != STAGE_DONE)
            return; /* this pool comes before the next ones */
    }
    if (w->choosing && has_looked(w))
        serve_best(w);
}

/* A request that has looked at all is not served now: it waits, or is refused. */
static enum pool_status decide(struct pool_waiter *w)
{
    bool first = true;
    for (EACH_PLACE(place, w)) {
        if (w->timeout_ns == 0)
            count_refused(place->pool, &w->need, POOL_TAKES_BUSY, first);
        else if (place->guest)
            pool_refuse_place(place, POOL_QUEUE_FULL);
        first = false;
    }
    if (w->timeout_ns == 0)
        return POOL_TIMES_OUT;
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
                              uint64_t position, struct moment now, struct pool_outbox *outbox)
{
    struct pools *pools = client->pools;
    enum pool_status status = POOL_LOOKS;
    pool_enter(pools, now, outbox);
    struct pool_waiter *w = client->waiter;
    CHECK(w && w->asking);
    if (w->state == WAIT_IN_LINE && now.mono_ns != stepped_ns) {
        stepped_ns = now.mono_ns;
        look_on(w);
    }
    if (w->state == WAIT_SERVED) {
        w->asking = false;
        pool_read_result(client, reader, position);
        status = POOL_OK;
    } else if (w->state == WAIT_REFUSED) {
        status = w->refused;
    } else if (has_looked(w)) {
        status = decide(w);
    } else if (w->timeout_ns > 0 && now.mono_ns - w->since_ns >= w->timeout_ns) {
        status = POOL_TIMES_OUT;
        pool_count_timed_out(w);
    }
    if (status != POOL_LOOKS && status != POOL_WAITS && client->waiter)
        pool_wait_drop(client);
    pool_leave(pools);
    return status;
}
