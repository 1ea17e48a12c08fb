/*
 * pool_save.c - writes all pools and clients to a record (base/record.h); pool_restore.c reads it.
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
 *                     bytes pool, member, u64 rank key, seq, i64 before, idle ns, u8 uncounted
 *     a wait        bytes by, u64 seq, i64 since, timeout ns (0: it goes on in steps), u32 count,
 *                   u8 for, bytes member, attributes; u32 places, each: bytes pool, u32 overtaken
 *                   (below 2^31; 2^31 more if it goes on in steps and will not wait there)
 *
 * All messages were read before. So every wait is in line, and every client knows of members and
 * pools that have gone.
 */
#include "base/record.h"
#include "engine/pool_internal.h"
#include "engine/state.h"

#include <errno.h>

static void put_bytes(struct record_writer *w, struct bytes bytes)
{
    record_put_bytes(w, bytes.data, bytes.len);
}

static void put_options(struct record_writer *w, const struct pool_options *o)
{
    record_put_text(w, o->group);
    for (size_t i = 0; i < POOL_NUMBERS; i++)
        record_put_u32(w, *pool_number_of(unconst(o), i));
    for (size_t i = 0; i < POOL_TIMES; i++)
        record_put_i64(w, *pool_time_of(unconst(o), i));
}

static void put_u64s(struct record_writer *w, const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        record_put_u64(w, values[i]);
}

static void put_buckets(struct record_writer *w, const struct buckets *b)
{
    struct buckets_sum sum = {0};
    buckets_sum_up(&sum, b);
    put_u64s(w, sum.counts, BUCKET_BOUNDS + 1);
    record_put_u64(w, (uint64_t)sum.sum_ns);
    record_put_u64(w, (uint64_t)(sum.sum_ns >> 64));
}

/* NULL: none. */
static void put_attributes(struct record_writer *w, const struct pool_attributes *a)
{
    record_put_u8(w, a ? (uint8_t)a->count : 0);
    for (size_t i = 0; a && i < a->count; i++) {
        put_bytes(w, a->at[i].key);
        put_bytes(w, a->at[i].value);
    }
}

static void put_count(struct record_writer *w, const struct ring *list)
{
    uint32_t count = 0;
    for (const struct ring *at = list->next; at != list; at = at->next)
        count++;
    record_put_u32(w, count);
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
    put_attributes(w, m->attributes);
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
    _Static_assert(sizeof(pool->totals) ==
                       (2 + POOL_FOR_COUNT * POOL_TAKES_COUNT + POOL_WHY_COUNT) * sizeof(uint64_t),
                   "all of it is u64");
    put_u64s(w, (const uint64_t *)&pool->totals, sizeof(pool->totals) / sizeof(uint64_t));
    put_buckets(w, &pool->waits);
    put_buckets(w, &pool->hold_times);
    record_put_u32(w, pool->member_count);
    for (EACH_NODE(struct pool_member, m, &pool->members, by_name.node))
        put_member(w, m);
}

/* A supplier, whose pool is there. */
static void put_supplier(struct record_writer *w, const struct pool_supplier *s)
{
    put_bytes(w, pool_name(s->pool));
    record_put_u64(w, s->seq);
    record_put_u32(w, s->init);
    record_put_u32(w, s->max);
    record_put_u32(w, s->want);
    record_put_u32(w, s->told);
    record_put_i64(w, s->short_ns);
    record_put_u8(w, s->late);
    put_count(w, &s->list);
    for (EACH(const struct pool_member, m, &s->list, joined_link)) {
        put_bytes(w, pool_member_name(m));
        record_put_u8(w, ring_has(&m->stop_link) ? (uint8_t)m->stop_why : POOL_NO_WHY);
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

static void put_wait(struct record_writer *w, struct pool_waiter *waiter)
{
    const struct pool_hold *hold = first_of(struct pool_hold, &waiter->holds, of_client);
    uint32_t places = 0;
    if (waiter->state != WAIT_IN_LINE) {
        record_give_up(w, EBUSY);
        return;
    }
    put_bytes(w, bytes_at(hold->by, hold->by_len));
    record_put_u64(w, waiter->need.seq);
    record_put_i64(w, waiter->since_ns);
    record_put_i64(w, waiter->timeout_ns);
    record_put_u32(w, waiter->need.count);
    record_put_u8(w, (uint8_t)waiter->need.what);
    put_bytes(w, waiter->need.member);
    put_attributes(w, waiter->with);
    for (EACH_PLACE(place, waiter))
        places++;
    record_put_u32(w, places);
    for (EACH_PLACE(place, waiter)) {
        put_bytes(w, pool_name(place->pool));
        record_put_u32(w, (place->overtaken < POOL_GUEST ? place->overtaken : POOL_GUEST - 1) |
                              (place->guest ? POOL_GUEST : 0));
    }
}

static void put_client(struct record_writer *w, const struct pool_client *client)
{
    uint32_t suppliers = 0;
    record_put_u64(w, client->number);
    record_put_u8(w, client->has_events);
    for (EACH(const struct pool_supplier, s, &client->suppliers, of_client))
        suppliers += !s->pool->gone;
    record_put_u32(w, suppliers);
    for (EACH(const struct pool_supplier, s, &client->suppliers, of_client)) {
        if (!s->pool->gone)
            put_supplier(w, s);
    }
    for (EACH(const struct pool_member, m, &client->stops, stop_link)) {
        if (m->state == MEMBER_GONE)
            record_give_up(w, EBUSY); /* it was told when the messages were read */
    }
    record_put_u32(w, client->hold_count);
    for (EACH(const struct pool_hold, hold, &client->holds, of_client))
        put_hold(w, hold);
    record_put_u8(w, client->waiter != NULL);
    if (client->waiter)
        put_wait(w, client->waiter);
    put_count(w, &client->watches);
    for (EACH(const struct pool_watch, watch, &client->watches, of_client)) {
        put_bytes(w, watch->pool ? pool_name(watch->pool) : bytes_at(NULL, 0));
        record_put_u8(w, watch->mine);
    }
}

void pools_save(const struct pools *pools, struct moment now, struct record_writer *w)
{
    (void)now;
    if (pools->fence == pools->config.first_fence && pools->sums.pools == 0 &&
        ring_is_empty(&pools->clients))
        return; /* so that a daemon without pools can read the record */
    record_begin(w, POOLS_STATE);
    record_put_u64(w, pools->fence);
    record_put_u64(w, pools->seq);
    record_put_u64(w, pools->client_number);
    record_put_u64(w, pools->random);
    record_put_u32(w, (uint32_t)pools->sums.pools);
    for (EACH_NODE(const struct pool, pool, &pools->by_name, by_name.node))
        put_pool(w, pool);
    put_count(w, &pools->clients);
    for (EACH(const struct pool_client, client, &pools->clients, of_pools))
        put_client(w, client);
    record_end(w);
}

void pool_client_save(const struct pool_client *client, struct record_writer *w,
                      int64_t (*position)(void *owner, uint64_t position))
{
    const struct table *t = client->pools->config.table;
    record_put_u64(w, client->number);
    holder_save(t, &client->unit_holder, w);
    for (EACH(const struct pool_hold, hold, &client->holds, of_client)) {
        record_put_i64(w, position(client->owner, hold->position));
        if (hold->unit)
            holding_save(t, hold->unit, w);
    }
}
