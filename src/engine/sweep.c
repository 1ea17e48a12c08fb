/*
 * sweep.c - functions that visit all names: Dump, the collector, the sums, and the check of
 * invariants for tests. They lock one shard at a time and visit a limited number of buckets.
 */
#include "engine/shard.h"

#include <stdlib.h>
#include <string.h>

/*
 * Called under the shard's lock for each counter. Returns false to stop and see this counter again.
 */
typedef bool counter_visit_fn(void *arg, struct shard *s, struct counter *c);

/* Continues a walk. Returns true when it is over. */
static bool walk_on(struct table *t, struct table_walk *walk, unsigned budget,
                    counter_visit_fn *visit, void *arg)
{
    while (walk->shard < TABLE_SHARDS && budget > 0) {
        struct shard *s = &t->shards[walk->shard];
        struct index_walk at = {.hash_from = walk->hash_from, .ref_from = walk->ref_from};
        bool room = true;
        lock_acquire(&s->lock);
        if (budget == UINT32_MAX)
            steps_unbounded(LOCK_RANK_SHARD);
        while (room) {
            ref_t ref = index_walk_next(&s->names, &at, &budget);
            if (!ref)
                break;
            room = visit(arg, s, arena_at(s->slab.arena, ref));
            if (!room)
                index_walk_back(&at);
        }
        index_walk_rest(&s->names, &at);
        lock_release(&s->lock);
        if (index_walk_done(&at)) {
            walk->shard++;
            at = (struct index_walk){0};
        }
        walk->hash_from = at.hash_from;
        walk->ref_from = at.ref_from;
        if (!room)
            return false;
    }
    return walk->shard >= TABLE_SHARDS;
}

struct dump {
    table_visit_fn *visit;
    void *arg;
    uint32_t interval;
};

static bool dump_one(void *arg, struct shard *s, struct counter *c)
{
    const struct dump *d = arg;
    if (counter_expired(s, c, d->interval))
        return true;
    struct table_entry entry;
    counter_show(s, c, d->interval, &entry);
    return d->visit(d->arg, &entry);
}

bool table_walk_on(struct table *t, struct table_walk *walk, struct moment now, unsigned budget,
                   table_visit_fn *visit, void *arg)
{
    struct dump d = {.visit = visit, .arg = arg, .interval = table_interval(t, now.unix_s)};
    return walk_on(t, walk, budget, dump_one, &d);
}

struct collection {
    uint32_t interval;
    uint64_t *collected;
};

static bool collect_one(void *arg, struct shard *s, struct counter *c)
{
    const struct collection *collection = arg;
    if (c->consumption > 0 || counter_is_reserved(s, c)) {
        counter_touch(s, c, collection->interval);
        return true;
    }
    bool is_early = counter_is_in(c, collection->interval);
    if (is_early && c->life != COUNTER_PASSED) {
        if (arena_is_full(s->slab.arena))
            c->life = COUNTER_PASSED;
    } else if (!is_early || arena_is_full(s->slab.arena)) {
        s->dropped_early += is_early;
        counter_drop(s, c);
        ++*collection->collected;
    }
    return true;
}

bool shard_make_room(struct shard *s, uint32_t interval, unsigned *looks)
{
    struct counter *spare = NULL;
    bool found = false; /* the best that there can be */
    unsigned enough = *looks > ROOM_LOOKS / 4 ? *looks - ROOM_LOOKS / 4 : 0;
    lock_assert_held(&s->lock);
    if (s->idle.count == 0 || !arena_is_full(s->slab.arena))
        return false;
    while (!found && *looks > (spare ? enough : 0)) {
        ref_t ref = index_walk_next(&s->names, &s->hand, looks);
        if (index_walk_done(&s->hand))
            s->hand = (struct index_walk){0};
        if (!ref)
            continue;
        struct counter *c = arena_at(s->slab.arena, ref);
        if (c->consumption > 0 || counter_is_reserved(s, c))
            continue;
        found = c->life == COUNTER_PASSED || !counter_is_in(c, interval);
        if (found || !spare)
            spare = c;
    }
    index_walk_rest(&s->names, &s->hand);
    if (!spare)
        return false;
    s->dropped_early += counter_is_in(spare, interval);
    counter_drop(s, spare);
    return true;
}

bool table_collect(struct table *t, struct table_walk *walk, struct moment now, unsigned budget,
                   uint64_t *collected)
{
    struct collection c = {.interval = table_interval(t, now.unix_s), .collected = collected};
    struct shard *s = walk->shard < TABLE_SHARDS ? &t->shards[walk->shard] : NULL;
    bool over = walk_on(t, walk, budget, collect_one, &c);
    if (s) {
        lock_acquire(&s->lock);
        index_trim(&s->names, budget);
        lock_release(&s->lock);
    }
    return over;
}

/* Number of a shard's names that have expired in `interval` (see counter_is_in). */
static uint64_t expired_names(const struct shard *s, uint32_t interval)
{
    switch ((uint16_t)(s->idle.interval - interval)) {
    case 0:
        return s->idle.count - s->idle.now;
    case 1:
        return s->idle.count - s->idle.now - s->idle.before;
    case 2:
        return s->idle.count - s->idle.before;
    default:
        return s->idle.count;
    }
}

void table_get_stats(struct table *t, struct moment now, struct table_stats *stats_r)
{
    uint32_t interval = table_interval(t, now.unix_s);
    *stats_r = (struct table_stats){.memory = arena_used(&t->arena)};
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        lock_acquire(&s->lock);
        stats_r->names += s->names.entries - expired_names(s, interval);
        stats_r->names_made += s->names_made;
        stats_r->waiting += s->waiting;
        stats_r->holdings += s->holding_count;
        stats_r->units += s->units;
        stats_r->overflowing += s->names.overflowing;
        stats_r->idle += s->idle.count;
        stats_r->dropped_early += s->dropped_early;
        lock_release(&s->lock);
    }
}

void table_trim(struct table *t)
{
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        lock_acquire(&s->lock);
        slab_trim(&s->slab);
        lock_release(&s->lock);
    }
}

bool table_is_tight(const struct table *t)
{
    return arena_used(&t->arena) > t->arena.limit / 2;
}

bool table_is_full(const struct table *t)
{
    return arena_is_full(&t->arena);
}

/* ---- the check ------------------------------------------------------------------------------- */

/* A holding stored outside its counter. */
struct held_of {
    ref_t counter;
    const struct holding *held;
};

struct check_sums {
    uint64_t names, idle, reserved_idle, waiting, units;
    const struct shard *shard; /* the shard of these holdings, which are sorted by counter: */
    struct held_of *outside;
    size_t outside_count;
};

/* Checks one lane tree: order, ages, places. Returns its number of waiters. */
static uint32_t check_lanes(const struct wait_lane *lane, uint64_t low, uint64_t high,
                            uint32_t consumption)
{
    if (!lane)
        return 0;
    CHECK(lane->threshold >= low && lane->threshold <= high);
    CHECK(lane->threshold < consumption); /* a waiter that fits must not wait */
    CHECK(lane->first && lane->oldest <= lane->first->seq);
    uint32_t count = 0;
    const struct wait_place *prev = NULL;
    for (const struct wait_place *p = lane->first; p; prev = p, p = p->next, count++)
        CHECK(p->lane == lane && p->prev == prev && (!prev || prev->seq < p->seq));
    CHECK(lane->last == prev);
    if (lane->threshold > low)
        count += check_lanes(lane->left, low, (uint64_t)lane->threshold - 1, consumption);
    else
        CHECK(!lane->left);
    return count + check_lanes(lane->right, (uint64_t)lane->threshold + 1, high, consumption);
}

struct holding_sums {
    uint64_t units;
    uint32_t waits, empty, holders;
};

/* Checks a holding and adds it to the sums. */
static void check_holding(const struct holding *h, struct holding_sums *sums)
{
    CHECK(h->holder && (h->units || h->waits));
    sums->units += h->units;
    sums->waits += h->waits;
    sums->empty += h->units == 0;
    sums->holders += h->units > 0;
}

static int by_counter(const void *a, const void *b)
{
    const struct held_of *h = a, *k = b;
    return h->counter < k->counter ? -1 : h->counter > k->counter;
}

/* Collects the outside holdings of a shard, unless already done. */
static void gather_outside(struct check_sums *sums, const struct shard *s)
{
    if (sums->shard == s)
        return;
    free(sums->outside);
    sums->shard = s;
    sums->outside_count = 0;
    sums->outside = calloc(s->holdings.entries + 1, sizeof(*sums->outside));
    CHECK(sums->outside); /* without memory the check is impossible */
    struct index_walk walk = {0};
    unsigned budget = UINT32_MAX;
    for (ref_t r; (r = index_walk_next(&s->holdings, &walk, &budget)) != 0;) {
        const struct outside_holding *h = arena_at(s->slab.arena, r);
        CHECK(h->held.outside && sums->outside_count < s->holdings.entries);
        sums->outside[sums->outside_count++] =
            (struct held_of){.counter = h->counter, .held = &h->held};
    }
    CHECK(sums->outside_count == s->holdings.entries);
    qsort(sums->outside, sums->outside_count, sizeof(*sums->outside), by_counter);
}

/* Checks the outside holdings of a counter. Returns their number. */
static uint32_t check_outside(struct check_sums *sums, const struct shard *s, ref_t counter,
                              struct holding_sums *of)
{
    gather_outside(sums, s);
    size_t low = 0, high = sums->outside_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sums->outside[middle].counter < counter)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t count = 0;
    for (; low < sums->outside_count && sums->outside[low].counter == counter; low++, count++)
        check_holding(sums->outside[low].held, of);
    return count;
}

static bool check_counter(void *arg, struct shard *s, struct counter *c)
{
    struct check_sums *sums = arg;
    struct arena *arena = s->slab.arena;
    CHECK(c->life != COUNTER_GONE);
    CHECK(c->first.outside == 0 && (c->first.holder || (!c->first.units && !c->first.waits)));
    CHECK(c->consumption == 0 ? counter_is_kept(c) : c->life != COUNTER_PASSED);
    CHECK(c->peak >= c->consumption);
    CHECK(slab_owner_of(arena, c) == s->number);
    const struct queue *q = c->queue ? queue_of(s, c) : NULL;
    if (q) {
        CHECK(q->counter == arena_ref(arena, c) && q->hash == counter_hash(s, c));
        CHECK(q->waits > 0 && q->reserved <= q->waits && q->waiting <= q->waits - q->reserved);
        CHECK(q->reserved == 0 || counter_is_kept(c));
        CHECK(q->waiting == check_lanes(q->any.root, 0, UINT32_MAX, c->consumption) +
                                check_lanes(q->me.root, 0, UINT32_MAX, c->consumption));
        sums->waiting += q->waiting;
    }
    struct holding_sums of = {0};
    if (c->first.holder)
        check_holding(&c->first, &of);
    uint32_t further = c->further ? check_outside(sums, s, arena_ref(arena, c), &of) : 0;
    CHECK(further == c->further && of.units == c->consumption);
    CHECK(of.waits == (q ? q->waits : 0) && of.empty == (q ? q->empty : 0));
    CHECK(of.holders == counter_holders(s, c));
    sums->names++;
    sums->idle += c->consumption == 0 && !counter_is_reserved(s, c);
    sums->reserved_idle += c->consumption == 0 && counter_is_reserved(s, c);
    sums->units += of.units;
    return true;
}

void table_check(struct table *t)
{
    struct check_sums sums = {0};
    struct table_walk walk = {0};
    while (!walk_on(t, &walk, UINT32_MAX, check_counter, &sums))
        continue;
    free(sums.outside);
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        contention_check(s);
        CHECK(s->idle.now + s->idle.before <= s->idle.count);
        sums.names -= s->names.entries;
        sums.idle -= s->idle.count;
        sums.reserved_idle -= s->reserved_idle;
        sums.units -= s->units;
        sums.waiting -= s->waiting;
    }
    CHECK(sums.names == 0 && sums.idle == 0 && sums.reserved_idle == 0 && sums.units == 0 &&
          sums.waiting == 0);
}
