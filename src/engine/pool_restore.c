/*
 * pool_restore.c - reads all pools and clients from a record (pool_save.c has the format).
 *
 * The pools are whole before the first connection is restored, and each connection then takes its
 * client over. What choosy waits know of their pools is found anew. A record that is damaged is
 * refused as a whole: what was made of it until then is only to be freed.
 */
#include "base/record.h"
#include "engine/pool_internal.h"
#include "engine/state.h"

#include <stdlib.h>
#include <string.h>

#define NO_MEMORY "there is no memory for the pools"

/* The longest time of an option. */
#define TIME_MAX ((UINT32_MAX + INT64_C(1)) * NS_PER_S)

/* ---- values ---------------------------------------------------------------------------------- */

static struct bytes get_bytes(struct record_reader *r, size_t min, size_t max)
{
    const void *data;
    size_t len = record_get_bytes(r, &data);
    if (record_ok(r) && (len < min || len > max))
        record_refuse(r, "a name or value of a pool has a wrong length");
    return record_ok(r) ? bytes_at(data, len) : bytes_at(NULL, 0);
}

/* Reads a value of at most `max`. */
static uint64_t get_up_to(struct record_reader *r, uint64_t value, uint64_t max, const char *why)
{
    if (value > max)
        record_refuse(r, why);
    return record_ok(r) ? value : 0;
}

static uint8_t get_below(struct record_reader *r, uint8_t bound)
{
    return (uint8_t)get_up_to(r, record_get_u8(r), bound - UINT64_C(1),
                              "a value of a pool is out of its range");
}

/* Reads a time that has passed; get_due_time: one at which something is due. */
static int64_t get_time(struct record_reader *r, const struct pools *pools)
{
    return (int64_t)get_up_to(r, record_get_u64(r), (uint64_t)pools->now.mono_ns,
                              "a time of a pool is negative, or still to come");
}

static int64_t get_due_time(struct record_reader *r)
{
    return (int64_t)get_up_to(r, record_get_u64(r), INT64_MAX, "a time of a pool is negative");
}

/* Reads an age, which is not younger than the youngest. */
static uint64_t get_seq(struct record_reader *r, const struct pools *pools)
{
    return get_up_to(r, record_get_u64(r), pools->seq, "an age in a pool is out of its range");
}

static void get_u64s(struct record_reader *r, uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = record_get_u64(r);
}

/* Reads options; `group` has room for a name and its null byte. */
static bool get_options(struct record_reader *r, struct pool_options *o, char *group)
{
    record_get_text(r, group, POOL_NAME_MAX + 1, "a name or value of a pool has a wrong length");
    *o = (struct pool_options){.group = group[0] ? group : NULL};
    for (size_t i = 0; i < POOL_NUMBERS; i++)
        *pool_number_of(o, i) = record_get_u32(r);
    for (size_t i = 0; i < POOL_TIMES; i++)
        *pool_time_of(o, i) = (int64_t)get_up_to(r, record_get_u64(r), (uint64_t)TIME_MAX,
                                                 "a time of a pool is out of its range");
    if (o->kind > POOL_JOINED || o->order > POOL_LEAST || o->on_return > POOL_AFTER_DIRTY ||
        o->on_start > POOL_AFTER_DIRTY || o->on_fail > POOL_AFTER_DOWN ||
        o->on_crash > POOL_CRASH_OK || (o->kind == POOL_STATIC && o->max_lifetime_ns > 0) ||
        (o->max_lifetime_ns > 0 && o->lifetime_jitter_ns >= o->max_lifetime_ns))
        record_refuse(r, "an option of a pool is out of its range");
    return record_ok(r);
}

static void get_buckets(struct record_reader *r, struct buckets *b)
{
    struct buckets_sum sum = {0};
    get_u64s(r, sum.counts, BUCKET_BOUNDS + 1);
    sum.sum_ns = record_get_u64(r);
    sum.sum_ns |= (duration)record_get_u64(r) << 64;
    if (record_ok(r))
        buckets_add_sum(b, &sum);
}

static size_t get_attributes(struct record_reader *r, struct pool_attribute *to)
{
    size_t count = get_below(r, POOL_ATTRIBUTES_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        to[i].key = get_bytes(r, 1, POOL_KEY_MAX);
        to[i].value = get_bytes(r, 0, POOL_SHORT_MAX);
    }
    return count;
}

static struct pool_rank get_rank(struct record_reader *r, const struct pools *pools)
{
    struct pool_rank rank = {.key = record_get_u64(r)};
    rank.seq = get_seq(r, pools);
    return rank;
}

/* Reads the state of a member. */
static enum pool_state get_state(struct record_reader *r, const struct pool *pool)
{
    enum pool_state state = get_below(r, MEMBER_STATES);
    bool good = pool_is_joined(pool) ? state != MEMBER_DIRTY && state != MEMBER_CLEANING
                                     : state != MEMBER_STOPPING;
    if (!good || state == MEMBER_GONE)
        record_refuse(r, "a member is in a state that its pool does not have");
    return state;
}

/* Reads what becomes of a member when its hold ends. */
static void get_then(struct record_reader *r, struct pool_member *m, bool held)
{
    bool joined = pool_is_joined(m->pool);
    unsigned then = get_below(r, THEN_STATE * 2);
    enum pool_state state = get_below(r, MEMBER_STATES);
    bool good_state =
        state == MEMBER_FREE || state == MEMBER_DOWN || (state == MEMBER_DIRTY && !joined);
    if ((!held && then != 0) || (!joined && then & (THEN_LIFETIME | THEN_SHRINK)) ||
        (then & THEN_STATE && !good_state))
        record_refuse(r, "a member cannot become what is said");
    else
        pool_set_then(m, then);
    m->then_state = state;
}

static bool get_member(struct record_reader *r, struct pool *pool)
{
    struct pools *pools = pool->pools;
    struct pool_attribute attributes[POOL_ATTRIBUTES_MAX];
    struct pool_member *m;
    struct pool_new_member new = {.name = get_bytes(r, 1, POOL_NAME_MAX), .attributes = attributes};
    new.value = get_bytes(r, 0, POOL_VALUE_MAX);
    new.note = get_bytes(r, 0, POOL_SHORT_MAX);
    new.attribute_count = get_attributes(r, attributes);
    enum pool_state state = get_state(r, pool);
    if (!record_ok(r))
        return false;
    enum pool_status status = pool_make_member(pool, &new, &m);
    if (status != POOL_OK)
        return record_refuse(r, status == POOL_NO_MEMORY ? NO_MEMORY : "a pool has a member twice");
    get_then(r, m, state >= MEMBER_TAKEN && state <= MEMBER_CHECKING);
    m->clean_failures = record_get_u32(r);
    int64_t since_ns = get_time(r, pools);
    m->idle_ns = get_time(r, pools);
    m->rank = get_rank(r, pools);
    m->checked_seq = get_seq(r, pools);
    m->takes = record_get_u64(r);
    m->fails = record_get_u64(r);
    if (pool_is_joined(pool)) {
        m->joined_ns = get_time(r, pools);
        double jitter = record_get_double(r);
        if (jitter < -1 || jitter > 1)
            record_refuse(r, "a member's lifetime is out of its range");
        else
            m->jitter = jitter;
    }
    pool_member_restored(m, state, since_ns);
    return record_ok(r);
}

static bool get_pool(struct record_reader *r, struct pools *pools)
{
    struct pool_options options;
    char group[POOL_NAME_MAX + 1];
    struct pool_outbox none;
    struct bytes name = get_bytes(r, 1, POOL_NAME_MAX);
    if (!get_options(r, &options, group))
        return false;
    uint8_t flags = get_below(r, 8);
    if (!record_ok(r))
        return false;
    pool_outbox_init(&none);
    enum pool_status status = pool_add(pools, name, &options, flags & 1, pools->now, &none);
    if (status != POOL_OK)
        return record_refuse(r, status == POOL_EXISTS ? "a pool is there twice" : NO_MEMORY);
    struct pool *pool = pool_find(pools, name);
    pool->draining = flags >> 1 & 1;
    pool->want = record_get_u32(r);
    pool->cull_ns = get_due_time(r);
    get_u64s(r, (uint64_t *)&pool->totals, sizeof(pool->totals) / sizeof(uint64_t));
    get_buckets(r, &pool->waits);
    get_buckets(r, &pool->hold_times);
    pool->options.max = 0; /* what there was stays, even if the maximum is lower now */
    for (uint32_t left = record_get_u32(r); left > 0 && get_member(r, pool);)
        left--;
    pool->options.max = options.max;
    if (pool->draining && pool->member_count == 0)
        record_refuse(r, "a pool that is being dropped has no members");
    return record_ok(r);
}

/* ---- clients --------------------------------------------------------------------------------- */

static struct pool *get_pool_by_name(struct record_reader *r, struct pools *pools)
{
    struct bytes name = get_bytes(r, 1, POOL_NAME_MAX);
    struct pool *pool = record_ok(r) ? pool_find(pools, name) : NULL;
    if (!pool)
        record_refuse(r, "a client uses a pool that is not there");
    return pool;
}

static struct pool_member *get_member_by_name(struct record_reader *r, struct pool *pool)
{
    struct bytes name = get_bytes(r, 1, POOL_NAME_MAX);
    struct pool_member *m = pool && record_ok(r) ? pool_find_member(pool, name) : NULL;
    if (!m)
        record_refuse(r, "a client has a member that is not there");
    return m;
}

static bool get_joined(struct record_reader *r, struct pool_supplier *s)
{
    struct pool_member *m = get_member_by_name(r, s->pool);
    uint8_t why = record_get_u8(r);
    if (!m)
        return false;
    if (m->joined || (why != POOL_NO_WHY && (why >= POOL_WHY_COUNT || m->state != MEMBER_STOPPING)))
        return record_refuse(r, "a member was joined twice, or is not to stop");
    m->joined = s;
    ring_add(&s->list, &m->joined_link);
    s->members += m->state != MEMBER_STOPPING;
    if (why != POOL_NO_WHY) {
        m->stop_why = why;
        ring_add(&s->client->stops, &m->stop_link);
    }
    return true;
}

static bool get_supplier(struct record_reader *r, struct pool_client *client)
{
    struct pool *pool = get_pool_by_name(r, client->pools);
    if (!pool)
        return false;
    for (EACH(struct pool_supplier, other, &client->suppliers, of_client)) {
        if (other->pool == pool)
            return record_refuse(r, "a client supplies a pool twice");
    }
    if (!pool_is_joined(pool))
        return record_refuse(r, "a client supplies a static pool");
    struct pool_supplier *s = pool_supplier_of(client, pool);
    if (!s)
        return record_refuse(r, NO_MEMORY);
    uint64_t seq = get_seq(r, client->pools);
    uint32_t init = record_get_u32(r), max = record_get_u32(r), want = record_get_u32(r);
    if (init > max || want > max)
        return record_refuse(r, "a supplier of a pool is out of its range");
    pool_supplier_place(s, init, max);
    s->seq = seq;
    s->want = want;
    s->told = record_get_u32(r);
    s->short_ns = get_due_time(r);
    s->late = record_get_bool(r);
    for (uint32_t left = record_get_u32(r); left > 0 && get_joined(r, s);)
        left--;
    if (s->max == 0)
        pool->unsupplied += s->members;
    struct ring *list = max > 0 ? &pool->suppliers : &pool->joiners;
    ring_remove(&s->of_pool); /* they are kept by age */
    struct ring *after = list->prev;
    while (after != list && item_of(after, struct pool_supplier, of_pool)->seq > seq)
        after = after->prev;
    ring_add_after(after, &s->of_pool);
    return record_ok(r);
}

static bool get_hold(struct record_reader *r, struct pool_client *client)
{
    struct bytes by = get_bytes(r, 0, POOL_SHORT_MAX);
    const struct pool_hold *last =
        item_or_null(ring_last(&client->holds), struct pool_hold, of_client);
    uint64_t fence = record_get_u64(r);
    int64_t since_ns = get_time(r, client->pools);
    if (fence <= (last ? last->fence : 0) || fence > client->pools->fence)
        record_refuse(r, "a fence is out of its range");
    enum pool_for what = get_below(r, POOL_FOR_COUNT);
    bool warned = record_get_bool(r), has_member = record_get_bool(r);
    struct pool *pool = has_member ? get_pool_by_name(r, client->pools) : NULL;
    struct pool_member *m = has_member ? get_member_by_name(r, pool) : NULL;
    if (!record_ok(r))
        return false;
    struct pool_hold *hold = pool_hold_new(client, what, by);
    if (!hold)
        return record_refuse(r, NO_MEMORY);
    hold->fence = fence;
    hold->since_ns = since_ns;
    hold->warned = warned;
    hold->told = true;
    ring_add(&client->holds, &hold->of_client);
    client->hold_count++;
    if (!m)
        return true;
    hold->rank = get_rank(r, client->pools);
    hold->before_ns = get_time(r, client->pools);
    hold->idle_ns = get_time(r, client->pools);
    bool uncounted = record_get_bool(r);
    if (m->hold || m->state != pool_state_for(what))
        return record_refuse(r, "a member has two holders");
    m->hold = hold;
    hold->member = m;
    if (uncounted)
        ring_add(&pool->uncounted, &hold->uncounted_link);
    return record_ok(r);
}

static bool get_place(struct record_reader *r, struct pool_waiter *waiter)
{
    struct pool *pool = get_pool_by_name(r, waiter->client->pools);
    uint32_t overtaken = record_get_u32(r);
    if (!pool)
        return false;
    if (pool->draining || (waiter->need.what == POOL_FOR_CLEAN && pool_is_joined(pool)))
        return record_refuse(r, "a request waits in a pool where it cannot be served");
    for (EACH_PLACE(other, waiter)) {
        if (other->pool == pool)
            return record_refuse(r, "a request waits twice in one pool");
    }
    struct pool_place *place = pool_waiter_add(waiter, pool);
    place->overtaken = overtaken & ~POOL_GUEST;
    place->guest = waiter->timeout_ns == 0 || overtaken & POOL_GUEST;
    waiter->asking = waiter->asking || place->guest;
    return record_ok(r);
}

static bool get_wait(struct record_reader *r, struct pool_client *client)
{
    struct pool_attribute with[POOL_ATTRIBUTES_MAX];
    struct pool_take take = {.by = get_bytes(r, 0, POOL_SHORT_MAX), .with = with};
    uint64_t seq = get_seq(r, client->pools);
    int64_t since_ns = get_time(r, client->pools);
    take.timeout_ns = get_due_time(r);
    take.count = record_get_u32(r);
    take.what = get_below(r, POOL_FOR_COUNT);
    take.member = get_bytes(r, 0, POOL_NAME_MAX);
    take.with_count = get_attributes(r, with);
    uint32_t places = record_get_u32(r);
    if (take.count == 0 || take.count > POOL_COUNT_MAX || places == 0 ||
        places > client->pools->sums.pools || take.with_count > POOL_WITH_MAX ||
        (take.member.len > 0 && (take.count > 1 || places > 1)))
        record_refuse(r, "a wait for a pool is out of its range");
    if (!record_ok(r))
        return false;
    struct pool_waiter *waiter = pool_waiter_new(client, &take, places);
    if (!waiter)
        return record_refuse(r, NO_MEMORY);
    client->waiter = waiter;
    waiter->need.seq = seq;
    waiter->since_ns = since_ns;
    waiter->asking = take.timeout_ns == 0;
    while (places > 0 && get_place(r, waiter))
        places--;
    if (record_ok(r))
        pool_wait_in_line(waiter);
    return record_ok(r);
}

static bool get_watch(struct record_reader *r, struct pool_client *client)
{
    struct bytes name = get_bytes(r, 0, POOL_NAME_MAX);
    bool mine = record_get_bool(r);
    if (record_ok(r) &&
        pool_watch(client, name.len > 0 ? name : bytes_of("*"), mine) == POOL_NO_MEMORY)
        return record_refuse(r, NO_MEMORY);
    return record_ok(r);
}

static bool get_client(struct record_reader *r, struct pools *pools)
{
    const struct pool_client *before =
        item_or_null(ring_last(&pools->clients), struct pool_client, of_pools);
    struct pool_client *client = pool_client_new(pools, 0, 0, NULL);
    uint32_t left;
    if (!client)
        return record_refuse(r, NO_MEMORY);
    client->number = record_get_u64(r);
    if (before && before->number >= client->number)
        record_refuse(r, "the clients of the pools are not in order");
    client->has_events = record_get_bool(r);
    for (left = record_get_u32(r); left > 0 && get_supplier(r, client);)
        left--;
    for (left = record_get_u32(r); left > 0 && get_hold(r, client);)
        left--;
    if (record_get_bool(r) && !get_wait(r, client))
        return false;
    for (left = record_get_u32(r); left > 0 && get_watch(r, client);)
        left--;
    return record_ok(r);
}

static uint64_t age_of(const struct pool_member *m)
{
    return m->hold ? m->hold->fence : (uint64_t)m->since_ns;
}

static int compare_ages(const void *a, const void *b)
{
    uint64_t x = age_of(*(struct pool_member *const *)a);
    uint64_t y = age_of(*(struct pool_member *const *)b);
    return (x > y) - (x < y);
}

/* Puts held and stopping members in the order of their ages. */
static bool order_members(struct record_reader *r, struct pool *pool)
{
    size_t count = 0;
    struct pool_member **list =
        calloc(pool->member_count + (size_t)1, sizeof(struct pool_member *));
    if (!list)
        return record_refuse(r, NO_MEMORY);
    for (EACH_NODE(struct pool_member, m, &pool->members, by_name.node)) {
        if (m->hold || m->state == MEMBER_STOPPING)
            list[count++] = m;
    }
    qsort(list, count, sizeof(struct pool_member *), compare_ages);
    for (size_t i = 0; i < count; i++) {
        struct pool_member *m = list[i];
        ring_remove(&m->link);
        if (m->hold)
            ring_add(&pool->held, &m->hold->of_pool);
        else
            ring_add(&pool->stopping, &m->link);
        if (m->hold && !m->hold->warned && !pool->unwarned)
            pool->unwarned = m->hold;
    }
    free(list);
    return true;
}

/* Checks that each member has whom its state needs, and counts what only that shows. */
static void check_members(struct record_reader *r, struct pool *pool)
{
    for (EACH_NODE(struct pool_member, m, &pool->members, by_name.node)) {
        if (pool_is_held(m) != (m->hold != NULL))
            record_refuse(r, "a held member has no holder");
        if (pool_is_joined(pool) != (m->joined != NULL))
            record_refuse(r, "a member of a joined pool was joined by nobody");
        if (record_ok(r) && pool_is_joined(pool))
            pool_set_lifetime(m);
    }
    for (unsigned line = 0; line < POOL_LINES; line++) {
        for (EACH_NODE(struct pool_place, place, &pool->lines[line], by_age)) {
            if (place->waiter->class == CLASS_NAMED)
                ring_add(&pool->retries, &place->of_retries);
        }
    }
    pool_find_short(pool);
    pool_serve_later(pool); /* the limits may be others now, and time has passed */
    pool_share_later(pool);
}

/* Lists the clients, for pool_client_restore. */
static bool list_clients(struct record_reader *r, struct pools *pools, size_t count)
{
    pools->restored = calloc(count + 1, sizeof(struct pool_client *));
    if (!pools->restored)
        return record_refuse(r, NO_MEMORY);
    for (EACH(struct pool_client, client, &pools->clients, of_pools))
        pools->restored[pools->restored_count++] = client;
    return true;
}

bool pools_restore(struct pools *pools, struct moment now, struct record_reader *r)
{
    struct pools_limits limits = pools->config.limits;
    uint32_t left, clients = 0;
    /* What there was stays, even if the limits are lower now. */
    pools->config.limits = (struct pools_limits){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    pools->now = now;
    pools->fence = record_get_u64(r);
    uint64_t seq = record_get_u64(r), number = record_get_u64(r), random = record_get_u64(r);
    pools->seq = seq;
    for (left = record_get_u32(r); left > 0 && get_pool(r, pools);)
        left--;
    for (left = record_get_u32(r); left > 0 && get_client(r, pools); clients++)
        left--;
    bool good = record_ok(r) && list_clients(r, pools, clients);
    for (EACH_NODE(struct pool, pool, &pools->by_name, by_name.node)) {
        if (good && order_members(r, pool))
            check_members(r, pool);
    }
    record_leave(r);
    pools->seq = seq;
    pools->client_number = number;
    pools->random = random;
    pools->config.limits = limits;
    return record_ok(r);
}

static int compare_numbers(const void *number, const void *client)
{
    uint64_t a = *(const uint64_t *)number, b = (*(struct pool_client *const *)client)->number;
    return (a > b) - (a < b);
}

/* The client with this number that was restored and not taken over; NULL: none. */
static struct pool_client *find_restored(const struct pools *pools, uint64_t number)
{
    struct pool_client **at = NULL;
    if (pools->restored)
        at = bsearch(&number, pools->restored, pools->restored_count, sizeof(struct pool_client *),
                     compare_numbers);
    return at && !(*at)->owner ? *at : NULL;
}

/* Checks that each unit of the client is that of one hold. */
static void check_units(struct record_reader *r, const struct pool_client *client)
{
    const struct table *t = client->pools->config.table;
    uint64_t units = 0;
    for (EACH(const struct pool_hold, hold, &client->holds, of_client)) {
        uint32_t same = 0;
        if (!hold->unit)
            continue;
        units++;
        for (EACH(const struct pool_hold, other, &client->holds, of_client))
            same += other->unit == hold->unit;
        if (same != holding_units(hold->unit) ||
            !bytes_equal(holding_name(t, hold->unit), pool_counter(hold->member->pool)))
            record_refuse(r, "a held member is not a unit of its counter");
    }
    if (units != holder_units(t, &client->unit_holder) || client->unit_holder.waiters)
        record_refuse(r, "a client of the pools has units without members");
}

struct pool_client *pool_client_restore(struct pools *pools, uint32_t id, uint64_t tag, void *owner,
                                        struct record_reader *r,
                                        uint64_t (*position)(void *owner, int64_t saved))
{
    struct table *t = pools->config.table;
    struct pool_client *client = find_restored(pools, record_get_u64(r));
    if (!client) {
        record_refuse(r, "a connection's client of the pools is not there");
        return NULL;
    }
    client->owner = owner;
    client->message.to = tag;
    holder_init(&client->unit_holder, id, tag);
    if (!holder_restore(t, &client->unit_holder, r))
        return NULL;
    for (EACH(struct pool_hold, hold, &client->holds, of_client)) {
        hold->position = position(owner, record_get_i64(r));
        if (!hold->member || ring_has(&hold->uncounted_link))
            continue;
        hold->unit = holding_restore(t, &client->unit_holder, r);
        if (!hold->unit)
            return NULL;
    }
    check_units(r, client);
    return record_ok(r) ? client : NULL;
}

bool pools_restore_done(struct pools *pools, struct moment now, struct pool_outbox *outbox,
                        struct record_reader *r)
{
    uint32_t visits_max = pools->visits_max;
    pools->visits_max = UINT32_MAX; /* nobody waits for the lock, and nobody is to overtake */
    pool_enter(pools, now, outbox);
    for (EACH(struct pool_client, client, &pools->clients, of_pools)) {
        if (!client->owner)
            record_refuse(r, "no connection has a client of the pools");
        else if (client->waiter && !pool_waiter_reserve(client->waiter))
            record_refuse(r, NO_MEMORY);
        if (record_ok(r) && (client->has_events || !ring_is_empty(&client->stops)))
            pool_post(client);
    }
    free(pools->restored);
    pools->restored = NULL;
    pools->restored_count = 0;
    pool_leave(pools);
    pools->visits_max = visits_max;
    pools->sums.visited_most = 0; /* of times when others wait */
    return record_ok(r);
}
