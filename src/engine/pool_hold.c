/*
 * pool_hold.c - holds: how a member comes into the hands of a client, and how that ends.
 *
 * Each hold is also a unit of the counter `pool:NAME`, held by the client's second holder
 * (`unit_holder`). The counter may have no room for it, because others hold units of it too. Then
 * the hold is in pool->uncounted, and gets its unit when there is room.
 *
 * A hold may lose its member while its client does not know (pool_hold_take_away). It then stays in
 * the client's list until RETURN says so. If the client was not even told that it has the member,
 * its request waits again, in its old place.
 */
#include "engine/pool_internal.h"

#include <string.h>

struct pool_hold *pool_hold_new(struct pool_client *client, enum pool_for what, struct bytes by)
{
    struct pool_hold *hold = by.len == 0 ? client->spare : NULL;
    if (hold)
        client->spare = NULL;
    else
        hold = pool_alloc(client->pools, sizeof(*hold) + by.len);
    if (!hold)
        return NULL;
    hold->client = client;
    hold->what = what;
    hold->by_len = by.len;
    if (by.len > 0)
        memcpy(hold->by, by.data, by.len);
    return hold;
}

void pool_hold_free(struct pool_hold *hold)
{
    struct pool_client *client = hold->client;
    CHECK(!hold->member && !hold->unit && !ring_has(&hold->of_client));
    if (hold->by_len == 0 && !client->spare)
        client->spare = hold;
    else
        pool_free(client->pools, hold);
}

bool pool_holds_new(struct pool_client *client, const struct pool_take *take, struct ring *list)
{
    for (uint32_t i = 0; i < take->count; i++) {
        struct pool_hold *hold = pool_hold_new(client, take->what, take->by);
        if (!hold)
            return false;
        ring_add(list, &hold->of_client);
    }
    return true;
}

void pool_holds_free(struct ring *list)
{
    for (struct pool_hold *hold; (hold = first_of(struct pool_hold, list, of_client));) {
        ring_remove(&hold->of_client);
        pool_hold_free(hold);
    }
}

/* ---- units of the counter -------------------------------------------------------------------- */

/* Gives back the hold's unit. `ends`: wakes as the end of a connection does, else as RELEASE. */
static void give_back_unit(struct pool *pool, struct pool_hold *hold, bool ends)
{
    struct pools *pools = pool->pools;
    struct holding *unit = hold->unit;
    ring_remove(&hold->uncounted_link);
    hold->unit = NULL;
    if (!unit)
        return;
    if (!ring_is_empty(&pool->uncounted))
        pool_touch(pool); /* there is room for another one */
    table_release_held(pools->config.table, &hold->client->unit_holder, unit, 1, ends, pools->now,
                       &pools->outbox->woken);
}

enum table_status pool_add_units(struct pool_client *client, const struct pool *pool,
                                 uint32_t count, struct holding **unit_r)
{
    const struct pools *pools = client->pools;
    return table_add(pools->config.table, &client->unit_holder, pool_counter(pool),
                     pool->counter_hash, count, pools->now, unit_r);
}

void pool_hold_settle(struct pool *pool)
{
    struct pools *pools = pool->pools;
    struct pool_hold *hold;
    while ((hold = first_of(struct pool_hold, &pool->uncounted, uncounted_link)) != NULL &&
           pool_visit(pools) && /* else later, with the timer */
           pool_add_units(hold->client, pool, 1, &hold->unit) == TABLE_OK)
        ring_remove(&hold->uncounted_link);
}

/* ---- begin ----------------------------------------------------------------------------------- */

enum pool_state pool_state_for(enum pool_for what)
{
    static const enum pool_state states[POOL_FOR_COUNT] = {MEMBER_TAKEN, MEMBER_CLEANING,
                                                           MEMBER_CHECKING};
    return states[what];
}

void pool_hold_begin(struct pool_hold *hold, struct pool_member *m, struct holding *unit, bool add)
{
    static const enum pool_why whys[POOL_FOR_COUNT] = {POOL_WHY_TAKE, POOL_WHY_CLEAN,
                                                       POOL_WHY_CHECK};
    struct pool *pool = m->pool;
    struct pools *pools = pool->pools;
    CHECK(!hold->member && !m->hold);
    hold->member = m;
    hold->fence = ++pools->fence;
    hold->since_ns = pools->now.mono_ns;
    hold->told = false;
    hold->warned = false;
    hold->rank = m->rank;
    hold->before_ns = m->since_ns;
    hold->idle_ns = m->idle_ns;
    hold->unit = unit;
    if (unit && add && !table_add_held(pools->config.table, unit, 1, pools->now))
        hold->unit = NULL;
    if (!hold->unit) {
        ring_add(&pool->uncounted, &hold->uncounted_link);
        pool_touch(pool);
    }
    m->hold = hold;
    m->takes += hold->what == POOL_FOR_USE;
    ring_add(&pool->held, &hold->of_pool);
    if (!pool->unwarned)
        pool->unwarned = hold;
    pool_move(m, pool_state_for(hold->what), whys[hold->what], false, hold);
}

void pool_hold_tell(struct pool_hold *hold, const struct pool_reader *reader, uint64_t position)
{
    const struct pool_member *m = hold->member;
    struct pool_client *client = hold->client;
    hold->position = position;
    hold->told = true;
    ring_add(&client->holds, &hold->of_client);
    client->hold_count++;
    struct pool_taken taken = {
        .pool = pool_name(m->pool),
        .member = pool_member_name(m),
        .value = pool_text_bytes(m->value),
        .fence = hold->fence,
        .attributes = m->attributes ? m->attributes->at : NULL,
        .attribute_count = m->attributes ? m->attributes->count : 0,
    };
    reader->taken(client->owner, &taken);
}

/* ---- where a member goes --------------------------------------------------------------------- */

struct way {
    enum pool_state to;
    enum pool_why why;
    bool same_place;
};

static bool counts_as_ok(const struct pool_hold *hold, enum pool_hold_end how)
{
    bool crash_is_ok = hold->member->pool->options.on_crash == POOL_CRASH_OK;
    return how == HOLD_OK || how == HOLD_QUIT || how == HOLD_UNDONE ||
           (how == HOLD_CRASH && crash_is_ok && hold->what != POOL_FOR_CLEAN);
}

static enum pool_state state_after(unsigned after)
{
    static const enum pool_state states[] = {
        [POOL_AFTER_FREE] = MEMBER_FREE,
        [POOL_AFTER_DIRTY] = MEMBER_DIRTY,
        [POOL_AFTER_DOWN] = MEMBER_DOWN,
    };
    return states[after];
}

/* Of a pool that is too large, the members that are returned first stop: one that should stay takes
 * the place of one that is still held. */
static void stop_instead(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (likely(pool->shrinking == 0) || m->then & THEN_DOOMED)
        return;
    for (EACH(struct pool_hold, hold, &pool->held, of_pool)) {
        if ((hold->member->then & THEN_DOOMED) == THEN_SHRINK) {
            pool_unset_then(hold->member, THEN_SHRINK);
            pool_set_then(m, m->then | THEN_SHRINK);
            return;
        }
    }
}

/* The way of a member whose hold ends, by what is in store for it. Returns false if nothing is. */
static bool way_in_store(const struct pool_member *m, bool ok, struct way *way_r)
{
    bool joined = pool_is_joined(m->pool);
    if (m->then & THEN_DROP)
        *way_r = (struct way){joined ? MEMBER_STOPPING : MEMBER_GONE, POOL_WHY_DROP, false};
    else if (m->then & THEN_LIFETIME)
        *way_r = (struct way){MEMBER_STOPPING, POOL_WHY_LIFETIME, false};
    else if (m->then & THEN_SHRINK)
        *way_r = (struct way){MEMBER_STOPPING, POOL_WHY_SHRINK, false};
    else if (m->then & THEN_STATE && (ok || m->then_state != MEMBER_FREE))
        *way_r = (struct way){m->then_state, POOL_WHY_OPERATOR, false};
    else
        return false;
    return true;
}

static struct way way_of_failure(const struct pool_hold *hold, enum pool_hold_end how)
{
    const struct pool_member *m = hold->member;
    const struct pool_options *options = &m->pool->options;
    if (hold->what == POOL_FOR_CLEAN) {
        bool over = options->clean_tries > 0 && m->clean_failures + 1 >= options->clean_tries;
        return (struct way){over ? MEMBER_DOWN : MEMBER_DIRTY, POOL_WHY_CLEAN_FAILED, false};
    }
    enum pool_why why = how == HOLD_CRASH ? POOL_WHY_CRASH
                        : how == HOLD_MAX ? POOL_WHY_HOLD_MAX
                                          : POOL_WHY_FAIL;
    enum pool_state to = pool_is_joined(m->pool) ? MEMBER_STOPPING : state_after(options->on_fail);
    return (struct way){to, why, false};
}

static struct way way_of_success(const struct pool_hold *hold, enum pool_hold_end how)
{
    const struct pool_options *options = &hold->member->pool->options;
    if (how == HOLD_UNDONE)
        return (struct way){hold->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE,
                            POOL_WHY_UNDONE, true};
    if (hold->what == POOL_FOR_CLEAN)
        return (struct way){MEMBER_FREE, POOL_WHY_CLEANED, false};
    bool crash = how == HOLD_CRASH;
    if (hold->what == POOL_FOR_CHECK)
        return (struct way){MEMBER_FREE, crash ? POOL_WHY_CRASH : POOL_WHY_CHECKED, true};
    enum pool_why why = crash ? POOL_WHY_CRASH : how == HOLD_QUIT ? POOL_WHY_QUIT : POOL_WHY_RETURN;
    bool joined = pool_is_joined(hold->member->pool);
    return (struct way){joined ? MEMBER_FREE : state_after(options->on_return), why, false};
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Separates a member from its hold. The caller moves it, which must be next. */
static void detach(struct pool_member *m)
{
    struct pool_hold *hold = m->hold;
    pool_set_then(m, 0);
    m->hold = NULL;
    hold->member = NULL;
    if (m->pool->unwarned == hold)
        pool_next_unwarned(m->pool);
    ring_remove(&hold->of_pool);
    buckets_add(&m->pool->hold_times, m->pool->pools->now.mono_ns - hold->since_ns, 1);
}

/* If the hold was for a check, its member was checked last of all. */
static void note_check(struct pool_member *m, const struct pool_hold *hold)
{
    if (hold->what != POOL_FOR_CHECK)
        return;
    pool_checks_remove(m);
    m->checked_seq = ++m->pool->pools->seq;
}

/* Notes what the hold meant for its member. */
static void note_end(struct pool_member *m, const struct pool_hold *hold, enum pool_hold_end how,
                     bool ok)
{
    if (hold->what == POOL_FOR_CLEAN && how != HOLD_UNDONE)
        m->clean_failures = ok ? 0 : m->clean_failures + 1;
    if (!ok)
        m->fails++;
    if (how == HOLD_UNDONE)
        m->takes -= hold->what == POOL_FOR_USE;
    else
        note_check(m, hold);
}

/* Ends a hold. Its member moves on; it is not served to others yet. The hold is empty then. */
static struct pool_member *end_hold(struct pool_hold *hold, enum pool_hold_end how)
{
    struct pool_member *m = hold->member;
    struct pool *pool = m->pool;
    struct way way;
    pool_expire(pool);
    stop_instead(m);
    bool ok = counts_as_ok(hold, how);
    if (!way_in_store(m, ok, &way))
        way = ok ? way_of_success(hold, how) : way_of_failure(hold, how);
    pool_ref(pool);
    detach(m);
    note_end(m, hold, how, ok);
    if (way.same_place) {
        m->rank = hold->rank;
        m->idle_ns = hold->idle_ns;
    }
    pool_move(m, way.to, way.why, way.same_place, hold);
    if (way.same_place)
        m->since_ns = hold->before_ns;
    give_back_unit(pool, hold, how != HOLD_OK && how != HOLD_QUIT && how != HOLD_FAIL);
    pool_unref(pool);
    return way.to == MEMBER_FREE || way.to == MEMBER_DIRTY ? m : NULL;
}

void pool_hold_end(struct pool_hold *hold, enum pool_hold_end how)
{
    struct pool_member *m = end_hold(hold, how);
    if (m)
        pool_serve_member(m);
}

void pool_hold_undo(struct pool_hold *hold)
{
    struct pool_member *m = end_hold(hold, HOLD_UNDONE);
    if (m)
        pool_retry_member(m);
}

/* Takes a member from a client that does not know, and moves it. */
static void take_away(struct pool_member *m, struct way way)
{
    struct pool *pool = m->pool;
    struct pool_hold *hold = m->hold;
    bool told = hold->told;
    pool_ref(pool);
    detach(m);
    note_check(m, hold);
    pool_move(m, way.to, way.why, way.same_place, hold);
    give_back_unit(pool, hold, true);
    bool ready = way.to == MEMBER_FREE || way.to == MEMBER_DIRTY;
    if (!told)
        pool_wait_again(hold->client->waiter);
    if (ready && told)
        pool_serve_member(m);
    else if (ready)
        pool_retry_member(m);
    pool_unref(pool);
}

void pool_member_gone(struct pool_member *m, enum pool_why why)
{
    if (m->hold) /* a held member may have none when a restore has failed */
        take_away(m, (struct way){MEMBER_GONE, why, false});
    else
        pool_move(m, MEMBER_GONE, why, false, NULL);
}

void pool_hold_set_state(struct pool_member *m, enum pool_state to)
{
    struct way way;
    pool_expire(m->pool);
    if (to == MEMBER_FREE)
        stop_instead(m);
    if (!(m->then & THEN_DOOMED) || !way_in_store(m, false, &way))
        way = (struct way){to, POOL_WHY_OPERATOR, false};
    take_away(m, way);
}

void pool_hold_take_back(struct pool_member *m)
{
    struct way way;
    pool_expire(m->pool);
    stop_instead(m);
    if (!way_in_store(m, false, &way))
        way = way_of_failure(m->hold, HOLD_MAX);
    m->fails++;
    if (m->hold->what == POOL_FOR_CLEAN)
        m->clean_failures++;
    take_away(m, way);
}

/* The hold of a client with this fence, or with `fence` 0 its newest; NULL: none. */
static struct pool_hold *find_hold(const struct pool_client *client, uint64_t fence)
{
    for (struct ring *at = client->holds.prev; at != &client->holds; at = at->prev) {
        struct pool_hold *hold = item_of(at, struct pool_hold, of_client);
        if (fence == 0 || hold->fence == fence)
            return hold;
    }
    return NULL;
}

enum pool_status pool_return(struct pool_client *client, uint64_t fence, bool ok, struct moment now,
                             struct pool_outbox *outbox)
{
    enum pool_status status = POOL_NOT_TAKEN;
    struct pool_hold *hold;
    pool_enter(client->pools, now, outbox);
    while ((hold = find_hold(client, fence)) != NULL && hold->member &&
           unlikely(hold->member->pool->leaving > 0)) {
        pool_clients_leave(client->pools);
        pool_let_others(client->pools);
    }
    if (hold) {
        status = hold->member ? POOL_OK : POOL_GONE;
        if (hold->member)
            pool_hold_end(hold, ok ? HOLD_OK : HOLD_FAIL);
        ring_remove(&hold->of_client);
        client->hold_count--;
        pool_hold_free(hold);
    }
    pool_leave(client->pools);
    return status;
}
