/*
 * pool_state.c - writes all pools and clients to a record, and reads them (base/record.h).
 *
 * What connections own is written with the pools too, by the number of the client: holds, waits
 * with their ages, suppliers, watches. The session of a connection (pool_client_save) has only the
 * number, the units of its holder, and the positions of TAKEN lines in its output. So the pools are
 * whole before the first connection is restored, and each connection then takes its client over.
 *
 *     POOLS_STATE   u64 fence, seq, client number, random; u32 pools, each:
 *                     bytes name, options, u8 flags (1: of the file, 2: draining; 4 is ignored);
 *                     u32 want, i64 cull ns, u64 late holds, late starts; u64 for each
 *                     outcome of each kind of take, then for each reason of a move; two
 *                     buckets; u32 members, each a member
 *                   u32 clients, each a client
 *     options       bytes group; u32 for each number, i64 for each time of struct pool_options
 *     buckets       u64 for each count, u64 low and high half of the sum in ns
 *     a member      bytes name, value, note, attributes; u8 state, then, then_state; u32 failed
 *                   cleanings; i64 since, idle ns; u64 rank key, seq, checked seq, takes, fails;
 *                   of a joined pool: i64 joined ns, double jitter
 *     attributes    u8 count; bytes key, value, for each
 *     a client      u64 number, u8 1 if it has events;
 *                   u32 suppliers, each: bytes pool, u64 age, u32 init, max, want, told, i64 short
 *                     ns, u8 late; u32 members, each: bytes name, u8 reason of a STOP not told
 *                     yet, or 255
 *                   u32 holds, each a hold; u8 1 if it waits, and the wait
 *                   u32 watches, each: bytes pool ("" is all), u8 mine
 *     a hold        bytes by, u64 fence, i64 since ns, u8 for, u8 warned, u8 1 if it has a member:
 *                     bytes pool, member, u64 rank key, seq, i64 before, idle ns, u8 owed
 *     a wait        bytes by, u64 seq, i64 since, timeout ns (0: it goes on in steps), u32 count,
 *                   u8 for, bytes member, attributes; u32 places, each: bytes pool, u32 overtaken
 *                   (below 2^31; 2^31 more if it goes on in steps and will not wait there)
 *
 * What choosy waits know of their pools is found anew.
 *
 * All letters were read before. So every wait is in line, and every client knows of members and
 * pools that have gone.
 */
#include "base/record.h"
#include "engine/pool_inside.h"
#include "engine/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_WHY UINT8_MAX
#define GUEST  (UINT32_C(1) << 31)

/* The longest time of an option. */
#define TIME_MAX ((UINT32_MAX + INT64_C(1)) * NS_PER_S)

/* ---- writing -------------------------------------------------------------------------------- */

static void put_bytes(struct record_writer *w, struct bytes bytes)
{
    record_put_bytes(w, bytes.data, bytes.len);
}

static void put_options(struct record_writer *w, const struct pool_options *o)
{
    put_bytes(w, o->group ? bytes_of(o->group) : bytes_at(NULL, 0));
    const uint32_t numbers[] = {o->kind,        o->max,       o->order,    o->queue_max,
                                o->overtakes,   o->on_return, o->on_start, o->on_fail,
                                o->clean_tries, o->on_crash,  o->min_free};
    const int64_t times[] = {o->clean_after_ns,  o->hold_warn_ns,      o->hold_max_ns,
                             o->cull_after_ns,   o->start_timeout_ns,  o->stop_timeout_ns,
                             o->max_lifetime_ns, o->lifetime_jitter_ns};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        record_put_u32(w, numbers[i]);
    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        record_put_i64(w, times[i]);
}

static void put_buckets(struct record_writer *w, const struct buckets *b)
{
    struct buckets_sum sum = {0};
    buckets_sum_up(&sum, b);
    for (size_t i = 0; i <= BUCKET_BOUNDS; i++)
        record_put_u64(w, sum.counts[i]);
    record_put_u64(w, (uint64_t)sum.sum_ns);
    record_put_u64(w, (uint64_t)(sum.sum_ns >> 64));
}

static void put_attributes(struct record_writer *w, const struct pool_attribute *at, size_t count)
{
    record_put_u8(w, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        put_bytes(w, at[i].key);
        put_bytes(w, at[i].value);
    }
}

static void put_rank(struct record_writer *w, struct pool_rank rank)
{
    record_put_u64(w, rank.key);
    record_put_u64(w, rank.seq);
}

static void put_member(struct record_writer *w, const struct pool_member *m)
{
    put_bytes(w, pool_member_name(m));
    put_bytes(w, pool_text_bytes(m->value));
    put_bytes(w, pool_text_bytes(m->note));
    put_attributes(w, m->attributes ? m->attributes->at : NULL,
                   m->attributes ? m->attributes->count : 0);
    record_put_u8(w, (uint8_t)m->state);
    record_put_u8(w, (uint8_t)m->then);
    record_put_u8(w, (uint8_t)m->then_state);
    record_put_u32(w, m->clean_failures);
    record_put_i64(w, m->since_ns);
    record_put_i64(w, m->idle_ns);
    put_rank(w, m->rank);
    record_put_u64(w, m->checked_seq);
    record_put_u64(w, m->takes);
    record_put_u64(w, m->fails);
    if (pool_is_joined(m->pool)) {
        record_put_i64(w, m->joined_ns);
        record_put_double(w, m->jitter);
    }
}

static void put_pool(struct record_writer *w, const struct pool *pool)
{
    put_bytes(w, pool_name(pool));
    put_options(w, &pool->options);
    record_put_u8(w, (uint8_t)(pool->of_file | pool->draining << 1));
    record_put_u32(w, pool->want);
    record_put_i64(w, pool->cull_ns);
    record_put_u64(w, pool->late);
    record_put_u64(w, pool->late_starts);
    for (unsigned i = 0; i < POOL_FOR_COUNT; i++) {
        for (unsigned k = 0; k < POOL_TAKES_COUNT; k++)
            record_put_u64(w, pool->takes[i][k]);
    }
    for (unsigned i = 0; i < POOL_WHY_COUNT; i++)
        record_put_u64(w, pool->moves[i]);
    put_buckets(w, &pool->waits);
    put_buckets(w, &pool->hold_times);
    record_put_u32(w, pool->member_count);
    for (struct tree_node *n = tree_first(&pool->members); n; n = tree_next(n))
        put_member(w, item_of(n, struct pool_member, by_name));
}

/* The STOP of a member that its client was not told yet. */
static uint8_t untold_stop(const struct pool_member *m)
{
    return ring_has(&m->stop_link) ? (uint8_t)m->stop_why : NO_WHY;
}

/* A supplier, whose pool is there. */
static void put_supplier(struct record_writer *w, const struct pool_supplier *s)
{
    uint32_t members = 0;
    put_bytes(w, pool_name(s->pool));
    record_put_u64(w, s->seq);
    record_put_u32(w, s->init);
    record_put_u32(w, s->max);
    record_put_u32(w, s->want);
    record_put_u32(w, s->told);
    record_put_i64(w, s->short_ns);
    record_put_u8(w, s->late);
    for (struct ring *at = s->list.next; at != &s->list; at = at->next)
        members++;
    record_put_u32(w, members);
    for (struct ring *at = s->list.next; at != &s->list; at = at->next) {
        const struct pool_member *m = item_of(at, struct pool_member, joined_link);
        put_bytes(w, pool_member_name(m));
        record_put_u8(w, untold_stop(m));
    }
}

static void put_hold(struct record_writer *w, const struct pool_hold *hold)
{
    const struct pool_member *m = hold->member;
    put_bytes(w, bytes_at(hold->by, hold->by_len));
    record_put_u64(w, hold->fence);
    record_put_i64(w, hold->since_ns);
    record_put_u8(w, (uint8_t)hold->what);
    record_put_u8(w, hold->warned);
    record_put_u8(w, m != NULL);
    if (!m)
        return;
    put_bytes(w, pool_name(m->pool));
    put_bytes(w, pool_member_name(m));
    put_rank(w, hold->rank);
    record_put_i64(w, hold->before_ns);
    record_put_i64(w, hold->idle_ns);
    record_put_u8(w, hold->unit == NULL);
}

static void put_wait(struct record_writer *w, const struct pool_waiter *waiter)
{
    const struct pool_hold *hold = item_of(waiter->holds.next, struct pool_hold, of_client);
    uint32_t places = 0;
    if (waiter->state != WAIT_IN_LINE) {
        record_give_up(w, EBUSY);
        return;
    }
    put_bytes(w, bytes_at(hold->by, hold->by_len));
    record_put_u64(w, waiter->ask.seq);
    record_put_i64(w, waiter->since_ns);
    record_put_i64(w, waiter->timeout_ns);
    record_put_u32(w, waiter->ask.count);
    record_put_u8(w, (uint8_t)waiter->ask.what);
    put_bytes(w, waiter->ask.member);
    put_attributes(w, waiter->ask.with, waiter->ask.with_count);
    for (size_t i = 0; i < waiter->place_count; i++)
        places += waiter->places[i].pool != NULL;
    record_put_u32(w, places);
    for (size_t i = 0; i < waiter->place_count; i++) {
        if (!waiter->places[i].pool)
            continue;
        const struct pool_place *place = &waiter->places[i];
        put_bytes(w, pool_name(place->pool));
        record_put_u32(w, (place->overtaken < GUEST ? place->overtaken : GUEST - 1) |
                              (place->guest ? GUEST : 0));
    }
}

static void put_client(struct record_writer *w, const struct pool_client *client)
{
    uint32_t suppliers = 0, stops = 0, watches = 0;
    struct ring *at;
    record_put_u64(w, client->number);
    record_put_u8(w, client->has_events);
    for (at = client->suppliers.next; at != &client->suppliers; at = at->next)
        suppliers += !item_of(at, struct pool_supplier, of_client)->pool->gone;
    record_put_u32(w, suppliers);
    for (at = client->suppliers.next; at != &client->suppliers; at = at->next) {
        const struct pool_supplier *s = item_of(at, struct pool_supplier, of_client);
        if (!s->pool->gone)
            put_supplier(w, s);
    }
    for (at = client->stops.next; at != &client->stops; at = at->next)
        stops += item_of(at, struct pool_member, stop_link)->state == MEMBER_GONE;
    if (stops > 0)
        record_give_up(w, EBUSY); /* they were told when the letters were read */
    record_put_u32(w, client->hold_count);
    for (at = client->holds.next; at != &client->holds; at = at->next)
        put_hold(w, item_of(at, struct pool_hold, of_client));
    record_put_u8(w, client->waiter != NULL);
    if (client->waiter)
        put_wait(w, client->waiter);
    for (at = client->watches.next; at != &client->watches; at = at->next)
        watches++;
    record_put_u32(w, watches);
    for (at = client->watches.next; at != &client->watches; at = at->next) {
        const struct pool_watch *watch = item_of(at, struct pool_watch, of_client);
        put_bytes(w, watch->pool ? pool_name(watch->pool) : bytes_at(NULL, 0));
        record_put_u8(w, watch->mine);
    }
}

void pools_save(const struct pools *pools, struct moment now, struct record_writer *w)
{
    uint32_t clients = 0;
    (void)now;
    if (pools->fence == pools->config.first_fence && pools->pool_count == 0 &&
        ring_is_empty(&pools->clients))
        return; /* so that a daemon without pools can read the record */
    record_begin(w, POOLS_STATE);
    record_put_u64(w, pools->fence);
    record_put_u64(w, pools->seq);
    record_put_u64(w, pools->client_number);
    record_put_u64(w, pools->random);
    record_put_u32(w, (uint32_t)pools->pool_count);
    for (struct tree_node *n = tree_first(&pools->by_name); n; n = tree_next(n))
        put_pool(w, item_of(n, struct pool, by_name));
    for (struct ring *at = pools->clients.next; at != &pools->clients; at = at->next)
        clients++;
    record_put_u32(w, clients);
    for (struct ring *at = pools->clients.next; at != &pools->clients; at = at->next)
        put_client(w, item_of(at, struct pool_client, of_pools));
    record_end(w);
}

void pool_client_save(const struct pool_client *client, struct record_writer *w,
                      int64_t (*position)(void *owner, uint64_t position))
{
    const struct table *t = client->pools->config.table;
    record_put_u64(w, client->number);
    holder_save(t, &client->mirror, w);
    for (struct ring *at = client->holds.next; at != &client->holds; at = at->next) {
        const struct pool_hold *hold = item_of(at, struct pool_hold, of_client);
        record_put_i64(w, position(client->owner, hold->position));
        if (hold->unit)
            holding_save(t, hold->unit, w);
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

static struct bytes get_bytes(struct record_reader *r, size_t min, size_t max)
{
    const void *data;
    size_t len = record_get_bytes(r, &data);
    if (record_ok(r) && (len < min || len > max))
        record_refuse(r, "a name or value of a pool has a wrong length");
    return record_ok(r) ? bytes_at(data, len) : bytes_at(NULL, 0);
}

static bool no_memory(struct record_reader *r)
{
    record_refuse(r, "there is no memory for the pools");
    return false;
}

static uint8_t get_below(struct record_reader *r, uint8_t bound)
{
    uint8_t value = record_get_u8(r);
    if (value >= bound)
        record_refuse(r, "a value of a pool is out of its range");
    return record_ok(r) ? value : 0;
}

/* Reads a time that has passed. */
static int64_t get_time(struct record_reader *r, const struct pools *pools)
{
    int64_t ns = record_get_i64(r);
    if (ns < 0 || ns > pools->now.mono_ns)
        record_refuse(r, "a time of a pool is negative, or still to come");
    return record_ok(r) ? ns : 0;
}

/* Reads a time at which something is due. */
static int64_t get_due_time(struct record_reader *r)
{
    int64_t ns = record_get_i64(r);
    if (ns < 0)
        record_refuse(r, "a time of a pool is negative");
    return record_ok(r) ? ns : DEADLINE_NONE;
}

/* Reads options; `group` has room for a name and its null byte. */
static void get_options(struct record_reader *r, struct pool_options *o, char *group)
{
    struct bytes name = get_bytes(r, 0, POOL_NAME_MAX);
    *o = (struct pool_options){0};
    if (name.len > 0)
        memcpy(group, name.data, name.len);
    group[name.len] = '\0';
    o->group = name.len > 0 ? group : NULL;
    uint32_t *const numbers[] = {&o->kind,        &o->max,       &o->order,    &o->queue_max,
                                 &o->overtakes,   &o->on_return, &o->on_start, &o->on_fail,
                                 &o->clean_tries, &o->on_crash,  &o->min_free};
    int64_t *const times[] = {&o->clean_after_ns,  &o->hold_warn_ns,      &o->hold_max_ns,
                              &o->cull_after_ns,   &o->start_timeout_ns,  &o->stop_timeout_ns,
                              &o->max_lifetime_ns, &o->lifetime_jitter_ns};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        *numbers[i] = record_get_u32(r);
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        *times[i] = record_get_i64(r);
        if (*times[i] < 0 || *times[i] > TIME_MAX)
            record_refuse(r, "a time of a pool is out of its range");
    }
    if (o->kind > POOL_JOINED || o->order > POOL_LEAST || o->on_return > POOL_AFTER_DIRTY ||
        o->on_start > POOL_AFTER_DIRTY || o->on_fail > POOL_AFTER_DOWN ||
        o->on_crash > POOL_CRASH_OK || (o->kind == POOL_STATIC && o->max_lifetime_ns > 0) ||
        (o->max_lifetime_ns > 0 && o->lifetime_jitter_ns >= o->max_lifetime_ns))
        record_refuse(r, "an option of a pool is out of its range");
}

static void get_buckets(struct record_reader *r, struct buckets *b)
{
    struct buckets_sum sum = {0};
    for (size_t i = 0; i <= BUCKET_BOUNDS; i++)
        sum.counts[i] = record_get_u64(r);
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

/* Reads an age, which is not younger than the youngest. */
static uint64_t get_seq(struct record_reader *r, const struct pools *pools)
{
    uint64_t seq = record_get_u64(r);
    if (seq > pools->seq)
        record_refuse(r, "an age in a pool is out of its range");
    return seq;
}

static struct pool_rank get_rank(struct record_reader *r, const struct pools *pools)
{
    struct pool_rank rank;
    rank.key = record_get_u64(r);
    rank.seq = get_seq(r, pools);
    return rank;
}

/* Reads the state of a member. */
static enum pool_state get_state(struct record_reader *r, const struct pool *pool)
{
    enum pool_state state = get_below(r, MEMBER_STATES);
    bool good = state != MEMBER_GONE;
    if (pool_is_joined(pool))
        good = good && state != MEMBER_DIRTY && state != MEMBER_CLEANING;
    else
        good = good && state != MEMBER_STOPPING;
    if (!good)
        record_refuse(r, "a member is in a state that its pool does not have");
    return state;
}

/* Reads what becomes of a member when its hold ends. */
static void get_then(struct record_reader *r, struct pool_member *m, bool held)
{
    bool joined = pool_is_joined(m->pool);
    unsigned then = get_below(r, THEN_STATE * 2);
    enum pool_state state = get_below(r, MEMBER_STATES);
    bool good = held || then == 0;
    if (!joined)
        good = good && (then & (THEN_LIFETIME | THEN_SHRINK)) == 0;
    if (then & THEN_STATE)
        good = good &&
               (state == MEMBER_FREE || state == MEMBER_DOWN || (state == MEMBER_DIRTY && !joined));
    if (!good) {
        record_refuse(r, "a member cannot become what is said");
        return;
    }
    pool_set_then(m, then);
    m->then_state = state;
}

static void get_member(struct record_reader *r, struct pool *pool)
{
    struct pools *pools = pool->pools;
    struct pool_attribute attributes[POOL_ATTRIBUTES_MAX];
    struct pool_member *m;
    struct pool_new_member new = {.name = get_bytes(r, 1, POOL_NAME_MAX)};
    new.value = get_bytes(r, 0, POOL_VALUE_MAX);
    new.note = get_bytes(r, 0, POOL_SHORT_MAX);
    new.attribute_count = get_attributes(r, attributes);
    new.attributes = attributes;
    enum pool_state state = get_state(r, pool);
    if (!record_ok(r))
        return;
    enum pool_status status = pool_make_member(pool, &new, &m);
    if (status != POOL_OK) {
        record_refuse(r, status == POOL_NO_MEMORY ? "there is no memory for the pools"
                                                  : "a pool has a member twice");
        return;
    }
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
}

static void get_pool(struct record_reader *r, struct pools *pools)
{
    struct pool_options options;
    char group[POOL_NAME_MAX + 1];
    struct pool_effects none;
    struct bytes name = get_bytes(r, 1, POOL_NAME_MAX);
    get_options(r, &options, group);
    uint8_t flags = get_below(r, 8);
    if (!record_ok(r))
        return;
    pool_effects_init(&none);
    enum pool_status status = pool_add(pools, name, &options, flags & 1, pools->now, &none);
    if (status != POOL_OK) {
        record_refuse(r, status == POOL_EXISTS ? "a pool is there twice"
                                               : "there is no memory for the pools");
        return;
    }
    struct pool *pool = pool_find(pools, name);
    pool->draining = flags >> 1 & 1;
    pool->want = record_get_u32(r);
    pool->cull_ns = get_due_time(r);
    pool->late = record_get_u64(r);
    pool->late_starts = record_get_u64(r);
    for (unsigned i = 0; i < POOL_FOR_COUNT; i++) {
        for (unsigned k = 0; k < POOL_TAKES_COUNT; k++)
            pool->takes[i][k] = record_get_u64(r);
    }
    for (unsigned i = 0; i < POOL_WHY_COUNT; i++)
        pool->moves[i] = record_get_u64(r);
    get_buckets(r, &pool->waits);
    get_buckets(r, &pool->hold_times);
    pool->options.max = 0; /* what there was stays, even if the maximum is lower now */
    uint32_t members = record_get_u32(r);
    for (uint32_t i = 0; i < members && record_ok(r); i++)
        get_member(r, pool);
    pool->options.max = options.max;
    if (pool->draining && pool->member_count == 0)
        record_refuse(r, "a pool that is being dropped has no members");
}

/* ---- clients -------------------------------------------------------------------------------- */

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

static void get_joined(struct record_reader *r, struct pool_supplier *s)
{
    struct pool_member *m = get_member_by_name(r, s->pool);
    uint8_t why = record_get_u8(r);
    if (!m)
        return;
    if (m->joined || (why != NO_WHY && (why >= POOL_WHY_COUNT || m->state != MEMBER_STOPPING))) {
        record_refuse(r, "a member was joined twice, or is not to stop");
        return;
    }
    m->joined = s;
    ring_add(&s->list, &m->joined_link);
    s->members += m->state != MEMBER_STOPPING;
    if (why != NO_WHY) {
        m->stop_why = why;
        ring_add(&s->client->stops, &m->stop_link);
    }
}

static void get_supplier(struct record_reader *r, struct pool_client *client)
{
    struct pool *pool = get_pool_by_name(r, client->pools);
    if (!pool)
        return;
    bool twice = false;
    for (struct ring *at = client->suppliers.next; at != &client->suppliers; at = at->next)
        twice = twice || item_of(at, struct pool_supplier, of_client)->pool == pool;
    if (twice || !pool_is_joined(pool)) {
        record_refuse(r, "a client supplies a pool twice, or a static one");
        return;
    }
    struct pool_supplier *s = pool_supplier_of(client, pool);
    if (!s) {
        (void)no_memory(r);
        return;
    }
    uint64_t seq = get_seq(r, client->pools);
    uint32_t init = record_get_u32(r), max = record_get_u32(r), want = record_get_u32(r);
    if (init > max || want > max) {
        record_refuse(r, "a supplier of a pool is out of its range");
        return;
    }
    pool_supplier_place(s, init, max);
    s->seq = seq;
    s->want = want;
    s->told = record_get_u32(r);
    s->short_ns = get_due_time(r);
    s->late = record_get_bool(r);
    uint32_t members = record_get_u32(r);
    for (uint32_t i = 0; i < members && record_ok(r); i++)
        get_joined(r, s);
    if (s->max == 0)
        pool->unsupplied += s->members;
    struct ring *list = max > 0 ? &pool->suppliers : &pool->joiners, *after = list->prev;
    ring_remove(&s->of_pool); /* they are kept by age */
    if (after == &s->of_pool)
        after = list->prev;
    while (after != list && item_of(after, struct pool_supplier, of_pool)->seq > seq)
        after = after->prev;
    ring_add_after(after, &s->of_pool);
}

static void get_hold(struct record_reader *r, struct pool_client *client)
{
    struct bytes by = get_bytes(r, 0, POOL_SHORT_MAX);
    const struct ring *last = ring_last(&client->holds);
    uint64_t older = last ? item_of(last, struct pool_hold, of_client)->fence : 0;
    uint64_t fence = record_get_u64(r);
    int64_t since_ns = get_time(r, client->pools);
    if (fence <= older || fence > client->pools->fence)
        record_refuse(r, "a fence is out of its range");
    enum pool_for what = get_below(r, POOL_FOR_COUNT);
    bool warned = record_get_bool(r), has_member = record_get_bool(r);
    struct pool *pool = has_member ? get_pool_by_name(r, client->pools) : NULL;
    struct pool_member *m = has_member ? get_member_by_name(r, pool) : NULL;
    if (!record_ok(r))
        return;
    struct pool_hold *hold = pool_hold_new(client, what, by);
    if (!hold) {
        (void)no_memory(r);
        return;
    }
    hold->fence = fence;
    hold->since_ns = since_ns;
    hold->warned = warned;
    hold->told = true;
    ring_add(&client->holds, &hold->of_client);
    client->hold_count++;
    if (!m)
        return;
    hold->rank = get_rank(r, client->pools);
    hold->before_ns = get_time(r, client->pools);
    hold->idle_ns = get_time(r, client->pools);
    bool owed = record_get_bool(r);
    if (m->hold || m->state != pool_state_for(what)) {
        record_refuse(r, "a member has two holders");
        return;
    }
    m->hold = hold;
    hold->member = m;
    if (owed)
        ring_add(&pool->owed, &hold->owed_link);
}

static void get_wait(struct record_reader *r, struct pool_client *client)
{
    struct pool_attribute with[POOL_ATTRIBUTES_MAX];
    struct bytes by = get_bytes(r, 0, POOL_SHORT_MAX);
    uint64_t seq = get_seq(r, client->pools);
    int64_t since_ns = get_time(r, client->pools), timeout_ns = get_due_time(r);
    uint32_t count = record_get_u32(r);
    enum pool_for what = get_below(r, POOL_FOR_COUNT);
    struct bytes member = get_bytes(r, 0, POOL_NAME_MAX);
    size_t with_count = get_attributes(r, with);
    uint32_t places = record_get_u32(r);
    if (count == 0 || count > POOL_COUNT_MAX || places == 0 || places > client->pools->pool_count ||
        with_count > POOL_WITH_MAX || (member.len > 0 && (count > 1 || places > 1)))
        record_refuse(r, "a wait for a pool is out of its range");
    if (!record_ok(r))
        return;
    struct pool_take take = {.count = count,
                             .what = what,
                             .member = member,
                             .with = with,
                             .with_count = with_count,
                             .by = by,
                             .timeout_ns = timeout_ns};
    struct pool_waiter *waiter = pool_waiter_new(client, &take, places);
    if (!waiter) {
        (void)no_memory(r);
        return;
    }
    client->waiter = waiter;
    waiter->ask.seq = seq;
    waiter->since_ns = since_ns;
    waiter->asking = timeout_ns == 0;
    for (uint32_t i = 0; i < places && record_ok(r); i++) {
        struct pool *pool = get_pool_by_name(r, client->pools);
        uint32_t overtaken = record_get_u32(r);
        if (!pool)
            continue;
        if (pool->draining || (what == POOL_FOR_CLEAN && pool_is_joined(pool))) {
            record_refuse(r, "a request waits in a pool where it cannot be served");
            continue;
        }
        for (size_t k = 0; k < waiter->place_count; k++) {
            if (waiter->places[k].pool == pool)
                record_refuse(r, "a request waits twice in one pool");
        }
        struct pool_place *place = pool_waiter_add(waiter, pool);
        place->overtaken = overtaken & ~GUEST;
        place->guest = timeout_ns == 0 || overtaken & GUEST;
        waiter->asking = waiter->asking || place->guest;
    }
    if (record_ok(r))
        pool_wait_in_line(waiter);
}

static void get_watch(struct record_reader *r, struct pool_client *client)
{
    struct bytes name = get_bytes(r, 0, POOL_NAME_MAX);
    bool mine = record_get_bool(r);
    if (record_ok(r) &&
        pool_watch(client, name.len > 0 ? name : bytes_of("*"), mine) == POOL_NO_MEMORY)
        (void)no_memory(r);
}

static void get_client(struct record_reader *r, struct pools *pools)
{
    struct pool_client *client = pool_client_new(pools, 0, 0, NULL);
    if (!client) {
        (void)no_memory(r);
        return;
    }
    client->number = record_get_u64(r);
    if (client->of_pools.prev != &pools->clients &&
        item_of(client->of_pools.prev, struct pool_client, of_pools)->number >= client->number)
        record_refuse(r, "the clients of the pools are not in order");
    client->has_events = record_get_bool(r);
    uint32_t suppliers = record_get_u32(r);
    for (uint32_t i = 0; i < suppliers && record_ok(r); i++)
        get_supplier(r, client);
    uint32_t holds = record_get_u32(r);
    for (uint32_t i = 0; i < holds && record_ok(r); i++)
        get_hold(r, client);
    if (record_get_bool(r))
        get_wait(r, client);
    uint32_t watches = record_get_u32(r);
    for (uint32_t i = 0; i < watches && record_ok(r); i++)
        get_watch(r, client);
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
static void order_members(struct record_reader *r, struct pool *pool)
{
    size_t count = 0;
    struct pool_member **list =
        calloc(pool->member_count + (size_t)1, sizeof(struct pool_member *));
    if (!list) {
        (void)no_memory(r);
        return;
    }
    for (struct tree_node *n = tree_first(&pool->members); n; n = tree_next(n)) {
        struct pool_member *m = item_of(n, struct pool_member, by_name);
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
}

/* Waits for named members are looked at again. */
static void retry_named(struct pool *pool, const struct tree *line)
{
    for (struct tree_node *n = tree_first(line); n; n = tree_next(n)) {
        struct pool_place *place = item_of(n, struct pool_place, by_age);
        if (place->waiter->class == CLASS_NAMED)
            ring_add(&pool->retries, &place->of_retries);
    }
}

/* Checks that each member has whom its state needs, and counts what only that shows. */
static void check_members(struct record_reader *r, struct pool *pool)
{
    for (struct tree_node *n = tree_first(&pool->members); n && record_ok(r); n = tree_next(n)) {
        struct pool_member *m = item_of(n, struct pool_member, by_name);
        if (pool_is_held(m) != (m->hold != NULL))
            record_refuse(r, "a held member has no holder");
        if (pool_is_joined(pool) != (m->joined != NULL))
            record_refuse(r, "a member of a joined pool was joined by nobody");
        if (record_ok(r) && pool_is_joined(pool))
            pool_set_lifetime(m);
    }
    retry_named(pool, &pool->users);
    retry_named(pool, &pool->others);
    pool_find_short(pool);
    pool_serve_later(pool); /* the limits may be others now, and time has passed */
    pool_share_later(pool);
}

/* Lists the clients, for pool_client_restore. */
static void list_clients(struct record_reader *r, struct pools *pools)
{
    size_t count = 0;
    for (struct ring *at = pools->clients.next; at != &pools->clients; at = at->next)
        count++;
    pools->restored = calloc(count + 1, sizeof(struct pool_client *));
    if (!pools->restored) {
        (void)no_memory(r);
        return;
    }
    for (struct ring *at = pools->clients.next; at != &pools->clients; at = at->next)
        pools->restored[pools->restored_count++] = item_of(at, struct pool_client, of_pools);
}

/* The client with this number that was restored and not taken over; NULL: none. */
static struct pool_client *find_restored(const struct pools *pools, uint64_t number)
{
    size_t low = 0, high = pools->restored_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct pool_client *client = pools->restored[middle];
        if (client->number == number)
            return client->owner ? NULL : client;
        if (client->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool pools_restore(struct pools *pools, struct moment now, struct record_reader *r)
{
    struct pools_limits limits = pools->config.limits;
    /* What there was stays, even if the limits are lower now. */
    pools->config.limits = (struct pools_limits){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    pools->now = now;
    pools->fence = record_get_u64(r);
    uint64_t seq = record_get_u64(r), number = record_get_u64(r), random = record_get_u64(r);
    pools->seq = seq;
    uint32_t count = record_get_u32(r);
    for (uint32_t i = 0; i < count && record_ok(r); i++)
        get_pool(r, pools);
    uint32_t clients = record_get_u32(r);
    for (uint32_t i = 0; i < clients && record_ok(r); i++)
        get_client(r, pools);
    list_clients(r, pools);
    for (struct tree_node *n = tree_first(&pools->by_name); n; n = tree_next(n)) {
        order_members(r, item_of(n, struct pool, by_name));
        check_members(r, item_of(n, struct pool, by_name));
    }
    record_leave(r);
    pools->seq = seq;
    pools->client_number = number;
    pools->random = random;
    pools->config.limits = limits;
    return record_ok(r);
}

/* Checks that each unit of the client is that of one hold. */
static void check_units(struct record_reader *r, const struct pool_client *client)
{
    const struct table *t = client->pools->config.table;
    uint64_t units = 0;
    for (struct ring *at = client->holds.next; at != &client->holds; at = at->next) {
        const struct pool_hold *hold = item_of(at, struct pool_hold, of_client);
        uint32_t same = 0;
        if (!hold->unit)
            continue;
        units++;
        for (struct ring *k = client->holds.next; k != &client->holds; k = k->next)
            same += item_of(k, struct pool_hold, of_client)->unit == hold->unit;
        if (same != holding_units(hold->unit) ||
            !bytes_equal(holding_name(t, hold->unit), pool_counter(hold->member->pool)))
            record_refuse(r, "a held member is not a unit of its counter");
    }
    if (units != holder_units(t, &client->mirror) || client->mirror.waiters)
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
    client->letter.to = tag;
    holder_init(&client->mirror, id, tag);
    if (!holder_restore(t, &client->mirror, r))
        return NULL;
    for (struct ring *at = client->holds.next; at != &client->holds; at = at->next) {
        struct pool_hold *hold = item_of(at, struct pool_hold, of_client);
        hold->position = position(owner, record_get_i64(r));
        if (!hold->member || ring_has(&hold->owed_link))
            continue;
        hold->unit = holding_restore(t, &client->mirror, r);
        if (!hold->unit)
            return NULL;
    }
    check_units(r, client);
    return record_ok(r) ? client : NULL;
}

bool pools_restore_done(struct pools *pools, struct moment now, struct pool_effects *effects,
                        struct record_reader *r)
{
    uint32_t visits_max = pools->visits_max;
    pools->visits_max = UINT32_MAX; /* nobody waits for the lock, and nobody is to overtake */
    pool_enter(pools, now, effects);
    free(pools->restored);
    pools->restored = NULL;
    pools->restored_count = 0;
    for (struct ring *at = pools->clients.next; at != &pools->clients; at = at->next) {
        struct pool_client *client = item_of(at, struct pool_client, of_pools);
        if (!client->owner)
            record_refuse(r, "no connection has a client of the pools");
        else if (client->waiter && !pool_waiter_reserve(client->waiter))
            (void)no_memory(r);
        if (record_ok(r) && (client->has_events || !ring_is_empty(&client->stops)))
            pool_post(client);
    }
    free(pools->restored);
    pools->restored = NULL;
    pools->restored_count = 0;
    pool_leave(pools);
    pools->visits_max = visits_max;
    atomic_store(&pools->visited_most, 0); /* of times when others wait */
    return record_ok(r);
}

/* ---- the configuration ----------------------------------------------------------------------- */

/* Makes a pool in `to` as `from` has it, which only the configuration has filled. */
static enum pool_status adopt(struct pools *to, const struct pool *from, struct moment now,
                              struct pool_effects *effects)
{
    struct pool_changes changes;
    size_t count = 0;
    enum pool_status status = pool_set(to, pool_name(from), &from->options, true, now, effects);
    if (status == POOL_NO_POOL)
        status = pool_add(to, pool_name(from), &from->options, true, now, effects);
    if (status != POOL_OK || pool_is_joined(from))
        return status;
    struct pool_new_member *members = calloc(from->member_count + 1, sizeof(*members));
    if (!members)
        return POOL_NO_MEMORY;
    for (struct tree_node *n = tree_first(&from->members); n; n = tree_next(n)) {
        const struct pool_member *m = item_of(n, struct pool_member, by_name);
        members[count++] = (struct pool_new_member){
            .name = pool_member_name(m),
            .value = pool_text_bytes(m->value),
            .note = pool_text_bytes(m->note),
            .attributes = m->attributes ? m->attributes->at : NULL,
            .attribute_count = m->attributes ? m->attributes->count : 0,
            .down = m->state == MEMBER_DOWN,
        };
    }
    status = pool_declare(to, pool_name(from), members, count, &changes, now, effects);
    free(members);
    return status;
}

bool pools_adopt(struct pools *to, struct pools *from, struct moment now,
                 struct pool_effects *effects)
{
    bool all = true;
    for (struct tree_node *n = tree_first(&from->by_name); n; n = tree_next(n))
        all = adopt(to, item_of(n, struct pool, by_name), now, effects) == POOL_OK && all;
    struct tree_node *next;
    for (struct tree_node *n = tree_first(&to->by_name); n; n = next) {
        const struct pool *pool = item_of(n, struct pool, by_name);
        next = tree_next(n);
        if (pool->of_file && !pool_find(from, pool_name(pool)))
            CHECK(pool_drop(to, pool_name(pool), false, now, effects) == POOL_OK);
    }
    return all;
}
