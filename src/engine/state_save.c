/*
 * state_save.c - writes a table's state to a record (state.h has the format).
 *
 * Saving only reads the table, so the old process can continue if the new one does not take over.
 * Nothing here takes a lock: no other thread uses the table.
 */
#include "engine/state.h"

#include "engine/shard.h"
#include "engine/state_parts.h"

#include <errno.h>
#include <string.h>

static void save_counter(const struct shard *s, ref_t ref, struct record_writer *w)
{
    const struct counter *c = arena_at(s->slab.arena, ref);
    struct bytes name = counter_name(c);
    struct saved_name *to = (void *)record_room(w, sizeof(*to));
    if (!to)
        return;
    *to = (struct saved_name){
        .mark = htole32(ref),
        .consumption = htole32(c->consumption),
        .peak = htole32(c->peak),
        .limit = htole32(c->limit),
        .interval = htole16(c->interval),
        .flags = counter_is_kept(c),
        .len = htole16(c->name_len),
    };
    uint8_t *bytes = record_room(w, name.len); /* the longest name fills the writer's buffer */
    if (bytes)
        memcpy(bytes, name.data, name.len);
}

/* Fewer names of a shard are close to each other in any order. */
#define SORTED_MIN 100

/* The entries of an index, in two halves of one array: the second is for sorting. */
struct refs {
    ref_t *at, *spare;
    size_t count;
};

static void list_refs(const struct index *ix, struct refs *refs)
{
    for (uint32_t n = 0; n < index_buckets(ix); n++) {
        for (const struct index_bucket *b = index_bucket_at(ix, n); b; b = index_further(ix, b)) {
            for (unsigned i = 0; i < INDEX_SLOTS && b->ref[i]; i++)
                refs->at[refs->count++] = b->ref[i];
        }
    }
}

/* Sorts by these bits, 11 of them; keeps the order where they are equal. */
static void sort_refs(struct refs *refs, unsigned shift)
{
    enum { VALUES = 1 << 11 };
    size_t next[VALUES + 1] = {0};
    for (size_t i = 0; i < refs->count; i++)
        next[(refs->at[i] >> shift) % VALUES + 1]++;
    for (unsigned v = 0; v < VALUES; v++)
        next[v + 1] += next[v];
    for (size_t i = 0; i < refs->count; i++)
        refs->spare[next[(refs->at[i] >> shift) % VALUES]++] = refs->at[i];
    ref_t *sorted = refs->spare;
    refs->spare = refs->at;
    refs->at = sorted;
}

/*
 * Names are saved in the order of their addresses. They are restored in that order, so names that
 * were made one after the other stay close to each other in memory. That makes all faster that
 * follows the list of a holder, the next save most of all.
 */
static void save_names(const struct shard *s, struct record_writer *w)
{
    size_t room = s->names.entries + 1;
    ref_t *array = reallocarray(NULL, room, 2 * sizeof(*array));
    struct refs refs = {.at = array, .spare = array + room};
    record_put_u64(w, s->names.entries);
    if (!array) {
        record_give_up(w, ENOMEM);
        return;
    }
    list_refs(&s->names, &refs);
    for (unsigned shift = 0; shift < 32 && refs.count >= SORTED_MIN; shift += 11)
        sort_refs(&refs, shift);
    for (size_t i = 0; i < refs.count && !w->failed; i++)
        save_counter(s, refs.at[i], w);
    free(array);
}

static void save_lines(const struct shard *s, struct record_writer *w)
{
    uint64_t count = 0;
    for (ref_t r = s->oldest; r; count++)
        r = ((const struct queue *)arena_at(s->slab.arena, r))->newer;
    record_put_u64(w, count);
    for (ref_t r = s->oldest; r;) {
        const struct queue *q = arena_at(s->slab.arena, r);
        record_put_u32(w, q->counter);
        record_put_u32(w, q->waiting);
        record_put_i64(w, q->since_ns);
        r = q->newer;
    }
}

static void save_sketch(const struct sketch *sketch, struct record_writer *w)
{
    record_put_u8(w, (uint8_t)sketch->count);
    for (unsigned i = 0; i < sketch->count; i++) {
        record_put_u64(w, sketch->hash[i]);
        record_put_double(w, sketch->weight[i]);
        record_put_double(w, sketch->error[i]);
        record_put_u32(w, sketch->name[i].len);
        record_put_bytes(w, sketch->name[i].kept, sketch_kept(sketch->name[i].len));
    }
}

/* The names at 0, with those that have reservations: these are not saved, and in the record such
 * names are idle. */
static struct idle_names all_idle(const struct shard *s, uint32_t interval)
{
    struct idle_names idle = s->idle;
    struct index_walk walk = {0};
    unsigned budget = UINT32_MAX;
    if (s->reserved_idle == 0)
        return idle;
    for (ref_t r; (r = index_walk_next(&s->names, &walk, &budget)) != 0;) {
        const struct counter *c = arena_at(s->slab.arena, r);
        if (c->consumption == 0 && counter_is_reserved(s, c) && counter_is_in(c, interval))
            idle_begins(&idle, c->interval);
    }
    return idle;
}

static void save_shard(const struct shard *s, uint32_t interval, struct record_writer *w)
{
    struct idle_names idle = all_idle(s, interval);
    record_begin(w, STATE_SHARD);
    record_put_u32(w, s->number);
    record_put_u64(w, s->seq);
    record_put_u64(w, s->names_made);
    record_put_u16(w, idle.interval);
    record_put_u64(w, idle.now);
    record_put_u64(w, idle.before);
    save_names(s, w);
    save_lines(s, w);
    record_begin(w, STATE_CONTENTION);
    record_put_u32(w, s->peak_interval);
    record_put_i64(w, s->contention->landmark_ns);
    for (unsigned i = 0; i < ARRAY_SIZE(s->contention->lists); i++)
        save_sketch(&s->contention->lists[i], w);
    record_end(w);
    record_end(w);
}

void table_save(const struct table *t, struct moment now, struct record_writer *w)
{
    uint64_t names = 0;
    for (uint32_t i = 0; i < TABLE_SHARDS; i++)
        names += t->shards[i].names.entries;
    record_begin(w, STATE_TABLE);
    record_put_u32(w, TABLE_SHARDS);
    record_put_u64(w, t->hash_key.k0);
    record_put_u64(w, t->hash_key.k1);
    record_put_u32(w, t->stats_interval_s);
    record_put_u32(w, table_interval(t, now.unix_s));
    record_put_u64(w, arena_used(&t->arena));
    record_put_u64(w, names);
    for (uint32_t i = 0; i < TABLE_SHARDS; i++)
        save_shard(&t->shards[i], table_interval(t, now.unix_s), w);
    record_end(w);
}

/* Monotonic time when its units rose from 0, as in table_hold. */
static int64_t since_of(const struct holding *h)
{
    uint64_t steps = (uint64_t)h->since_high << 32 | h->since_low;
    return (int64_t)(steps << SINCE_STEP_BITS);
}

/* True when the holder has only reserved this holding. */
static bool is_only_reserved(const struct holder *holder, const struct holding *h)
{
    const struct waiter *waiter = holder->waiters;
    if (h->units > 0)
        return false;
    while (waiter && waiter->holding != h)
        waiter = waiter->next;
    return !waiter;
}

void holder_save(const struct table *t, const struct holder *holder, struct record_writer *w)
{
    for (ref_t r = holder->holdings; r;) {
        const struct holding *h = arena_at(&t->arena, r);
        r = h->next;
        if (r)
            __builtin_prefetch(arena_at(&t->arena, r));
        if (is_only_reserved(holder, h))
            continue;
        struct saved_holding *to = (void *)record_room(w, sizeof(*to));
        if (!to)
            return;
        *to = (struct saved_holding){
            .mark = htole32(counter_ref_of(&t->arena, h)),
            .has.units = htole32(h->units),
            .has.limit = htole32(h->limit),
            .has.since_ns = htole64((uint64_t)since_of(h)),
        };
    }
    record_put_u32(w, 0);
    for (const struct waiter *waiter = holder->waiters; waiter; waiter = waiter->next) {
        if (waiter->state != WAITER_WAITING) {
            record_give_up(w, EBUSY);
            return;
        }
        record_put_u32(w, counter_ref_of(&t->arena, waiter->holding));
        record_put_u32(w, waiter->units);
        record_put_u32(w, waiter->limit);
        record_put_u8(w, (uint8_t)waiter->kind);
        record_put_i64(w, waiter->since_ns);
        record_put_u64(w, waiter->place.seq);
    }
    record_put_u32(w, 0);
}

void holding_save(const struct table *t, const struct holding *held, struct record_writer *w)
{
    record_put_u32(w, counter_ref_of(&t->arena, held));
}

void table_walk_save(const struct table_walk *walk, struct record_writer *w)
{
    record_put_u32(w, walk->shard);
    record_put_u64(w, walk->hash_from);
}
