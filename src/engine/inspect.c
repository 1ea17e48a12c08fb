/*
 * inspect.c - details of one name or one holder, for people. Not used to serve requests.
 */
#include "engine/shard.h"

enum table_status table_inspect(struct table *t, struct bytes name, struct moment now,
                                struct table_entry *entry_r, struct table_wait *waits, size_t room,
                                size_t *count_r)
{
    uint64_t hash = hash_name(t, name);
    uint32_t interval = table_interval(t, now.unix_s);
    struct shard *s = shard_of_hash(t, hash);
    size_t count = 0;
    lock_acquire(&s->lock);
    const struct counter *c = shard_find(s, hash, name, interval);
    if (c) {
        counter_show(s, c, interval, entry_r);
        entry_r->name = name;
    }
    if (c && c->queue && room > 0) {
        struct waitq_scan scan;
        waitq_scan_begin(&scan);
        waitq_scan_add(&scan, &queue_of(s, c)->any);
        waitq_scan_add(&scan, &queue_of(s, c)->me);
        for (struct wait_place *p; count < room && (p = waitq_scan_next(&scan)); count++) {
            const struct waiter *w = container_of(p, struct waiter, place);
            waits[count] = (struct table_wait){
                .tag = w->message.to,
                .units = w->units,
                .limit = w->limit,
                .kind = w->kind,
                .since_ns = w->since_ns,
            };
        }
    }
    lock_release(&s->lock);
    *count_r = count;
    return c ? TABLE_OK : TABLE_NOT_FOUND;
}

/* Fills in *hold_r from a holding that has units. */
static void holding_show(const struct holding *h, struct moment now, struct table_hold *hold_r)
{
    int64_t now_ns = (int64_t)((uint64_t)now.mono_ns >> SINCE_STEP_BITS << SINCE_STEP_BITS);
    *hold_r = (struct table_hold){
        .holder = h->holder,
        .units = h->units,
        .limit = h->limit,
        .since_ns = now_ns - holding_age_ns(h, now),
    };
}

/* Copies a holding unless it has no units. Returns false when there is no room. */
static bool copy_hold(const struct holding *h, struct moment now, struct table_hold *to,
                      size_t room, size_t *count)
{
    if (h->units == 0)
        return true;
    if (*count == room)
        return false;
    holding_show(h, now, &to[(*count)++]);
    return true;
}

/*
 * One step of a walk over a counter's holders. Returns true when the walk is over. Caller holds the
 * lock.
 */
static bool holders_slice(const struct shard *s, const struct counter *c, struct table_walk *walk,
                          struct moment now, unsigned budget, struct table_hold *to, size_t room,
                          size_t *count)
{
    ref_t ref = arena_ref(s->slab.arena, c);
    if (!walk->counter) {
        walk->counter = ref;
        (void)copy_hold(&c->first, now, to, room, count); /* always has room: room > 0 */
    }
    if (walk->counter != ref || !c->further)
        return true;
    struct index_walk at = {.hash_from = walk->hash_from, .ref_from = walk->ref_from};
    for (ref_t r; (r = index_walk_next(&s->holdings, &at, &budget)) != 0;) {
        const struct outside_holding *h = arena_at(s->slab.arena, r);
        if (h->counter == ref && !copy_hold(&h->held, now, to, room, count)) {
            index_walk_back(&at);
            break;
        }
    }
    index_walk_rest(&s->holdings, &at);
    walk->hash_from = at.hash_from;
    walk->ref_from = at.ref_from;
    return index_walk_done(&at);
}

bool table_holders_on(struct table *t, struct bytes name, struct table_walk *walk,
                      struct moment now, unsigned budget, struct table_hold *to, size_t room,
                      size_t *count_r)
{
    CHECK(budget > 0 && room > 0);
    uint64_t hash = hash_name(t, name);
    struct shard *s = shard_of_hash(t, hash);
    size_t count = 0;
    lock_acquire(&s->lock);
    const struct counter *c = shard_find(s, hash, name, table_interval(t, now.unix_s));
    bool over = !c || holders_slice(s, c, walk, now, budget, to, room, &count);
    lock_release(&s->lock);
    *count_r = count;
    return over;
}

bool table_holds(struct table *t, uint32_t holder, struct bytes name, struct moment now,
                 struct table_hold *hold_r)
{
    uint64_t hash = hash_name(t, name);
    struct shard *s = shard_of_hash(t, hash);
    lock_acquire(&s->lock);
    struct counter *c = shard_find(s, hash, name, table_interval(t, now.unix_s));
    const struct holding *h = c ? holding_find(s, c, holder) : NULL;
    bool holds = h && h->units > 0;
    if (holds)
        holding_show(h, now, hold_r);
    lock_release(&s->lock);
    return holds;
}

uint32_t holder_count(const struct table *t, const struct holder *holder, uint32_t max)
{
    uint32_t count = 0;
    for (ref_t r = holder->holdings; r && count < max; count++)
        r = ((const struct holding *)arena_at(&t->arena, r))->next;
    return count;
}

uint64_t holder_units(const struct table *t, const struct holder *holder)
{
    uint64_t units = 0;
    for (ref_t r = holder->holdings; r;) {
        const struct holding *h = arena_at(&t->arena, r);
        units += h->units;
        r = h->next;
    }
    return units;
}

void holder_visit(struct table *t, const struct holder *holder,
                  void (*visit)(void *arg, struct bytes name, uint32_t units), void *arg)
{
    const struct holding *h;
    for (ref_t ref = holder->holdings; ref; ref = h->next) {
        h = arena_at(&t->arena, ref);
        struct shard *s = shard_of(t, h);
        lock_acquire(&s->lock);
        uint32_t units = h->units;
        lock_release(&s->lock);
        if (units > 0)
            visit(arg, holding_name(t, h), units);
    }
}
