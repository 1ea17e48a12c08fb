/*
 * shard.c - what a shard has: names, counters, holdings and queues; and the table as a whole (see
 * shard.h).
 */
#include "engine/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(struct counter, first) % ARENA_GRANULE == 0, "a holding has a ref");
_Static_assert(offsetof(struct counter, name) == 56, "a name of 24 bytes makes a slot of 80");
#define COUNTER_USUAL 80

_Static_assert(sizeof(struct outside_holding) == 32, "`further` has bits for a full arena of them");

/* ---- refs, names and lookups ----------------------------------------------------------------- */

static uint32_t hash_of_counter(const struct arena *arena, ref_t ref)
{
    return ((const struct counter *)arena_at(arena, ref))->hash;
}

static uint32_t hash_of_holding(const struct arena *arena, ref_t ref)
{
    const struct outside_holding *h = arena_at(arena, ref);
    return hash_pair(h->counter, h->held.holder);
}

/* The name, if stored outside. */
static struct long_name *outside_name(const struct counter *c)
{
    void *outside;
    memcpy(&outside, c->name, sizeof(outside));
    return outside;
}

struct bytes counter_name(const struct counter *c)
{
    const void *data = counter_name_is_outside(c) ? outside_name(c)->bytes : c->name;
    return (struct bytes){.data = data, .len = c->name_len};
}

uint64_t hash_name(const struct table *t, struct bytes name)
{
    CHECK(name.len > 0 && name.len <= TABLE_NAME_MAX);
    return hash_bytes(&t->hash_key, name.data, name.len);
}

uint64_t counter_hash(const struct shard *s, const struct counter *c)
{
    if (counter_name_is_outside(c))
        return outside_name(c)->hash;
    return hash_name(table_of(s), counter_name(c));
}

struct counter *shard_find(struct shard *s, uint64_t hash64, struct bytes name, uint32_t interval)
{
    uint32_t hash = (uint32_t)hash64;
    struct index_probe probe;
    for (ref_t r = index_first(&s->names, hash, &probe); r; r = index_next(&s->names, &probe)) {
        struct counter *c = arena_at(s->slab.arena, r);
        if (c->hash != hash || c->name_len != name.len ||
            memcmp(counter_name(c).data, name.data, name.len) != 0)
            continue;
        if (!counter_expired(s, c, interval))
            return c;
        counter_drop(s, c);
        return NULL;
    }
    return NULL;
}

uint32_t table_interval(const struct table *t, int64_t unix_s)
{
    return unix_s > 0 ? (uint32_t)((uint64_t)unix_s / t->stats_interval_s) : 0;
}

/* ---- prefetch -------------------------------------------------------------------------------- */

/*
 * Each step is done for all names before the next step, so that memory has time to arrive. Hashing
 * is a step of its own because a processor looks only some hundreds of instructions ahead for
 * memory to fetch. With a hash between the memory of one name and the next, it waited for each in
 * turn: 230 ns for a pair of requests among 10^7 names, instead of 185.
 */
void table_prefetch(struct table *t, const struct bytes *names, size_t count, uint64_t *hashes)
{
    CHECK(count <= TABLE_PREFETCH_MAX);
    const struct index_bucket *buckets[TABLE_PREFETCH_MAX];
    for (size_t i = 0; i < count; i++)
        hashes[i] = names[i].len ? hash_name(t, names[i]) : 0;
    for (size_t i = 0; i < count; i++) {
        if (hashes[i])
            buckets[i] = index_prefetch(&shard_of_hash(t, hashes[i])->names, (uint32_t)hashes[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (!hashes[i])
            continue;
        const unsigned char *c = arena_at(&t->arena, index_guess(buckets[i], (uint32_t)hashes[i]));
        /* Two cache lines, except for long names. Harmless if there is no counter. */
        __builtin_prefetch(c, 1);
        __builtin_prefetch(c + COUNTER_USUAL - 1, 1);
    }
}

/* ---- counters -------------------------------------------------------------------------------- */

struct counter *counter_make(struct shard *s, uint64_t hash, struct bytes name, uint32_t interval)
{
    bool inside = name.len <= NAME_INSIDE_MAX;
    struct long_name *outside = NULL;
    if (!inside) {
        if (!arena_charge(s->slab.arena, sizeof(*outside) + name.len))
            return NULL;
        outside = malloc(sizeof(*outside) + name.len);
        if (!outside)
            goto no_name;
        outside->hash = hash;
        memcpy(outside->bytes, name.data, name.len);
    }
    ref_t ref =
        slab_alloc(&s->slab, offsetof(struct counter, name) + (inside ? name.len : sizeof(void *)));
    if (!ref)
        goto no_slot;
    struct counter *c = arena_at(s->slab.arena, ref);
    *c = (struct counter){
        .hash = (uint32_t)hash,
        .interval = (uint16_t)interval,
        .name_len = (uint16_t)name.len,
    };
    if (inside)
        memcpy(c->name, name.data, name.len);
    else
        memcpy(c->name, &(void *){outside}, sizeof(void *));
    if (!index_insert(&s->names, c->hash, ref)) {
        slab_free(&s->slab, ref);
        goto no_slot;
    }
    s->names_made++;
    if (unlikely(!contention_is_in(s, interval)))
        contention_enter(s, interval);
    return c;

no_slot:
    free(outside);
no_name:
    if (!inside)
        arena_uncharge(s->slab.arena, sizeof(*outside) + name.len);
    return NULL;
}

/* Frees a counter that is no longer visible, if it has no holdings. */
static void counter_free_if_unheld(struct shard *s, struct counter *c)
{
    if (c->life != COUNTER_GONE || c->further || c->first.holder)
        return;
    if (counter_name_is_outside(c)) {
        arena_uncharge(s->slab.arena, sizeof(struct long_name) + c->name_len);
        free(outside_name(c));
    }
    slab_free(&s->slab, arena_ref(s->slab.arena, c));
}

void idle_ends(struct shard *s, const struct counter *c)
{
    CHECK(s->idle.count > 0);
    s->idle.count--;
    if (c->interval == s->idle.interval && s->idle.now > 0)
        s->idle.now--;
    else if (c->interval == (uint16_t)(s->idle.interval - 1) && s->idle.before > 0)
        s->idle.before--;
}

void counter_drop(struct shard *s, struct counter *c)
{
    lock_assert_held(&s->lock);
    CHECK(c->consumption == 0 && counter_waiting(s, c) == 0 && c->life != COUNTER_GONE);
    if (counter_is_kept(c))
        idle_ends(s, c);
    index_remove(&s->names, c->hash, arena_ref(s->slab.arena, c));
    c->life = COUNTER_GONE;
    counter_free_if_unheld(s, c);
}

void counter_enter(struct shard *s, struct counter *c, uint32_t interval)
{
    c->interval = (uint16_t)interval;
    c->peak = c->consumption;
    if (!contention_is_in(s, interval))
        contention_enter(s, interval);
    if (c->peak > s->peak_floor)
        contention_peak(s, c, counter_hash(s, c));
}

uint32_t counter_holders(const struct shard *s, const struct counter *c)
{
    uint32_t further = c->further, first = c->first.holder != 0;
    return further + first - (c->queue ? queue_of(s, c)->empty : 0);
}

void counter_show(const struct shard *s, const struct counter *c, uint32_t interval,
                  struct table_entry *entry_r)
{
    *entry_r = (struct table_entry){
        .name = counter_name(c),
        .consumption = c->consumption,
        .peak = counter_is_in(c, interval) ? c->peak : c->consumption,
        .limit = c->limit,
        .waiting = counter_waiting(s, c),
        .holders = counter_holders(s, c),
    };
}

/* ---- holdings and queues --------------------------------------------------------------------- */

struct holding *holding_find(struct shard *s, struct counter *c, uint32_t holder)
{
    if (c->first.holder == holder)
        return &c->first;
    if (!c->further)
        return NULL;
    ref_t cref = arena_ref(s->slab.arena, c);
    uint32_t hash = hash_pair(cref, holder);
    struct index_probe probe;
    for (ref_t r = index_first(&s->holdings, hash, &probe); r;
         r = index_next(&s->holdings, &probe)) {
        struct outside_holding *h = arena_at(s->slab.arena, r);
        if (h->counter == cref && h->held.holder == holder)
            return &h->held;
    }
    return NULL;
}

/* Makes a holding outside the counter and inserts it into the index. NULL: out of memory. */
static struct holding *holding_make_outside(struct shard *s, struct counter *c, uint32_t holder)
{
    const struct arena *arena = s->slab.arena;
    ref_t ref = slab_alloc(&s->slab, sizeof(struct outside_holding));
    if (!ref)
        return NULL;
    struct outside_holding *h = arena_at(arena, ref);
    *h = (struct outside_holding){
        .held = {.holder = holder, .outside = 1},
        .counter = arena_ref(arena, c),
    };
    if (!index_insert(&s->holdings, hash_of_holding(arena, ref), ref)) {
        slab_free(&s->slab, ref);
        return NULL;
    }
    c->further++;
    return &h->held;
}

struct holding *holding_place(struct shard *s, struct counter *c, uint32_t holder)
{
    struct holding *h = &c->first;
    if (!h->holder)
        *h = (struct holding){.holder = holder};
    else if (!(h = holding_make_outside(s, c, holder)))
        return NULL;
    s->holding_count++;
    return h;
}

void holding_drop(struct shard *s, struct holding *h)
{
    const struct arena *arena = s->slab.arena;
    struct counter *c = counter_of(arena, h);
    s->holding_count--;
    if (!h->outside) {
        *h = (struct holding){0};
    } else {
        ref_t ref = arena_ref(arena, h);
        index_remove(&s->holdings, hash_of_holding(arena, ref), ref);
        slab_free(&s->slab, ref);
        c->further--;
    }
    counter_free_if_unheld(s, c);
}

struct queue *queue_make(struct shard *s, struct counter *c, uint64_t hash)
{
    ref_t ref = slab_alloc(&s->slab, sizeof(struct queue));
    if (!ref)
        return NULL;
    struct queue *q = arena_at(s->slab.arena, ref);
    *q = (struct queue){.counter = arena_ref(s->slab.arena, c), .hash = hash};
    c->queue = ref;
    return q;
}

bool queue_join(struct shard *s, struct queue *q, struct waiter *w, uint64_t seq)
{
    struct waitq *line = line_of(q, w->kind);
    uint32_t threshold = w->limit - w->units;
    struct wait_lane *lane = waitq_lane(line, threshold);
    if (!lane) {
        ref_t ref = slab_alloc(&s->slab, sizeof(*lane));
        if (!ref)
            return false;
        lane = arena_at(s->slab.arena, ref);
        /* Mixing the age with the secret key makes it as good as random. */
        waitq_add_lane(line, lane, threshold,
                       hash_pair((uint32_t)seq, s->number ^ (uint32_t)table_of(s)->hash_key.k0));
    }
    waitq_join(line, lane, &w->place, seq);
    s->waiting++;
    return true;
}

/* ---- memory kept elsewhere ------------------------------------------------------------------- */

bool table_charge(struct table *t, size_t bytes)
{
    return arena_charge(&t->arena, bytes);
}

void table_uncharge(struct table *t, size_t bytes)
{
    arena_uncharge(&t->arena, bytes);
}

/* ---- the whole table ------------------------------------------------------------------------- */

struct table *table_new(const struct table_config *config)
{
    CHECK(config->stats_interval_s > 0);
    struct table *t = aligned_alloc(64, sizeof(*t));
    if (!t)
        return NULL;
    memset(t, 0, sizeof(*t));
    t->hash_key = config->hash_key;
    t->stats_interval_s = config->stats_interval_s;
    size_t limit = config->memory_limit < ARENA_LIMIT_MAX ? config->memory_limit : ARENA_LIMIT_MAX;
    t->contention = calloc(TABLE_SHARDS, sizeof(*t->contention));
    if (!t->contention || !arena_init(&t->arena, limit)) {
        free(t->contention);
        free(t);
        return NULL;
    }
    /* Use at most a quarter of the memory at the start: 16 bytes per name. */
    uint64_t names = config->buckets < limit / 64 ? config->buckets : limit / 64;
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        lock_init(&s->lock, LOCK_RANK_SHARD);
        s->number = i;
        s->contention = &t->contention[i];
        slab_init(&s->slab, &t->arena, i);
        if (!index_init(&s->names, &s->slab, hash_of_counter, names / TABLE_SHARDS) ||
            !index_init(&s->holdings, &s->slab, hash_of_holding, 1)) {
            table_free(&t);
            errno = ENOMEM;
            return NULL;
        }
    }
    return t;
}

static void free_long_names(struct shard *s)
{
    struct index_walk walk = {0};
    unsigned budget = UINT32_MAX;
    for (ref_t r; (r = index_walk_next(&s->names, &walk, &budget)) != 0;) {
        struct counter *c = arena_at(s->slab.arena, r);
        if (counter_name_is_outside(c))
            free(outside_name(c));
    }
}

void table_free(struct table **table)
{
    struct table *t = *table;
    if (!t)
        return;
    *table = NULL;
    bool abandoned = t->restoring != NULL;
    restoring_free(t);
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        if (!s->slab.arena)
            break; /* table_new failed here */
        CHECK(abandoned || (s->waiting == 0 && s->holding_count == 0));
        if (s->names.pages)
            free_long_names(s);
        index_destroy(&s->names);
        index_destroy(&s->holdings);
        lock_destroy(&s->lock);
    }
    arena_destroy(&t->arena);
    free(t->contention);
    free(t);
}
