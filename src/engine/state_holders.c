/*
 * state_holders.c - restores holders and their waits from a record, after the names (see state.h
 * and state_restore.c).
 *
 * Waiters come with their holders, so not in the order of their ages. They join their queues at the
 * end, which also shows if any are missing. Nothing here takes a lock: no other thread uses the
 * table.
 */
#include "engine/state_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- holders --------------------------------------------------------------------------------- */

/* Reads ahead in the holdings to come, whose names are all over memory: fetches the entry of a
 * mark, and a few holdings later, when that is there, its counter. */
#define AHEAD_MARK    ((size_t)24)
#define AHEAD_COUNTER ((size_t)12)

static void fetch_ahead(const struct table *t, const struct record_reader *r)
{
    const struct saved_holding *at = (const void *)(r->data + r->pos);
    if (r->len - r->pos < (AHEAD_MARK + 1) * sizeof(*at))
        return;
    __builtin_prefetch(marked_from(t->restoring, le32toh(at[AHEAD_MARK].mark)), 1);
    const struct marked *m = marked_at(t->restoring, le32toh(at[AHEAD_COUNTER].mark));
    const struct counter *c = arena_at(&t->arena, m->counter);
    __builtin_prefetch(c, 1);
    __builtin_prefetch(&c->first.prev, 1); /* it may be in the next line */
}

/*
 * Restores a holding and appends it to the holder's list, after `last`. NULL: the reader has
 * failed.
 */
static struct holding *restore_holding(struct table *t, struct holder *holder, uint32_t mark,
                                       struct holding *last, struct record_reader *r)
{
    const struct saved_units *at = (const void *)record_take(r, sizeof(*at));
    struct marked *m = at ? find_marked(t, mark, r) : NULL;
    if (!m)
        return NULL;
    uint32_t units = le32toh(at->units);
    struct counter *c = arena_at(&t->arena, m->counter);
    struct shard *s = marked_shard(t, m);
    struct holding *h = NULL;
    if (units > m->units)
        record_refuse(r, "a holder has more units than the name");
    else if (holding_find(s, c, holder->id))
        record_refuse(r, "a holder has two holdings of a name");
    else if (!(h = holding_place(s, c, holder->id)))
        record_refuse(r, NO_MEMORY);
    if (!h)
        return NULL;
    m->units -= units;
    c->consumption += units;
    s->units += units;
    holding_begins(h, (struct moment){.mono_ns = (int64_t)le64toh(at->since_ns)});
    h->units = units;
    h->limit = le32toh(at->limit);
    ref_t ref = arena_ref(&t->arena, h);
    if (last) {
        last->next = ref;
        h->prev = arena_ref(&t->arena, last);
    } else {
        holder->holdings = ref;
    }
    return h;
}

/*
 * Restores a wait and appends it to the holder's list, after `last`. Decrements *empty when it is
 * the first wait for a holding without units. NULL: the reader has failed.
 */
static struct waiter *restore_wait(struct table *t, struct holder *holder, uint32_t mark,
                                   struct waiter *last, uint32_t *empty, struct record_reader *r)
{
    struct restoring *restoring = t->restoring;
    const struct marked *m = find_marked(t, mark, r);
    uint32_t units = record_get_u32(r), limit = record_get_u32(r);
    uint8_t kind = record_get_u8(r);
    int64_t since_ns = record_get_i64(r);
    uint64_t seq = record_get_u64(r);
    if (!m || !record_ok(r))
        return NULL;
    struct counter *c = arena_at(&t->arena, m->counter);
    struct shard *s = marked_shard(t, m);
    struct holding *h = holding_find(s, c, holder->id);
    if (!h || h->waits == TABLE_WAITS_MAX || !units || units > limit ||
        (kind != WAIT_ANY && kind != WAIT_ME) || since_ns < 0 || !seq || seq > s->seq) {
        record_refuse(r, "a wait has inconsistent values");
        return NULL;
    }
    struct queue *q = c->queue ? queue_of(s, c) : queue_make(s, c, counter_hash(s, c));
    ref_t ref = q ? slab_alloc(&s->slab, sizeof(struct waiter)) : 0;
    struct wait_to_come *waits =
        ref ? grown(restoring->waits, restoring->wait_count, &restoring->wait_room, sizeof(*waits))
            : NULL;
    if (!waits) {
        record_refuse(r, NO_MEMORY);
        return NULL;
    }
    restoring->waits = waits;
    struct waiter *w = arena_at(&t->arena, ref);
    *w = (struct waiter){
        .message.to = holder->tag,
        .table = t,
        .since_ns = since_ns,
        .holding = h,
        .kind = (enum wait_kind)kind,
        .units = units,
        .limit = limit,
        .holder = holder,
        .prev = last,
        .state = WAITER_WAITING,
    };
    if (last)
        last->next = w;
    else
        holder->waiters = w;
    if (h->units == 0 && h->waits == 0) {
        q->empty++;
        --*empty;
    }
    q->waits++;
    h->waits++;
    waits[restoring->wait_count++] =
        (struct wait_to_come){.seq = seq, .waiter = w, .shard = s->number};
    return w;
}

bool holder_restore(struct table *t, struct holder *holder, struct record_reader *r)
{
    CHECK(!holder->holdings && !holder->waiters);
    if (!t->restoring)
        return record_refuse(r, NO_TABLE);
    uint32_t empty = 0; /* holdings so far with neither units nor waits */
    struct holding *held = NULL;
    for (uint32_t mark; fetch_ahead(t, r), (mark = record_get_u32(r)) != 0;) {
        held = restore_holding(t, holder, mark, held, r);
        if (!held)
            return false;
        empty += held->units == 0;
    }
    struct waiter *waiter = NULL;
    for (uint32_t mark; (mark = record_get_u32(r)) != 0;) {
        waiter = restore_wait(t, holder, mark, waiter, &empty, r);
        if (!waiter)
            return false;
    }
    if (record_ok(r) && empty > 0)
        record_refuse(r, "a holding has neither units nor waits");
    return record_ok(r);
}

struct holding *holding_restore(struct table *t, struct holder *holder, struct record_reader *r)
{
    uint32_t mark = record_get_u32(r);
    const struct marked *m = record_ok(r) ? find_marked(t, mark, r) : NULL;
    if (!m)
        return NULL;
    struct counter *c = arena_at(&t->arena, m->counter);
    struct holding *h = holding_find(shard_of(t, c), c, holder->id);
    if (!h)
        record_refuse(r, "a lock is on a name that its holder does not hold");
    return h;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Sorts by shard, then oldest first. */
static int by_age(const void *a, const void *b)
{
    const struct wait_to_come *v = a, *w = b;
    if (v->shard != w->shard)
        return v->shard < w->shard ? -1 : 1;
    return v->seq < w->seq ? -1 : v->seq > w->seq;
}

/* Puts a waiter at the end of its queue. Returns false when out of memory. */
static bool join_line(struct table *t, const struct wait_to_come *wait)
{
    struct shard *s = &t->shards[wait->shard];
    struct queue *q = queue_of(s, counter_of(&t->arena, wait->waiter->holding));
    bool joined = queue_join(s, q, wait->waiter, wait->seq);
    q->waiting += joined;
    return joined;
}

static bool line_up(struct table *t, struct record_reader *r)
{
    struct restoring *restoring = t->restoring;
    if (restoring->wait_count > 0)
        qsort(restoring->waits, restoring->wait_count, sizeof(*restoring->waits), by_age);
    for (size_t i = 0; i < restoring->wait_count; i++) {
        if (i > 0 && by_age(&restoring->waits[i - 1], &restoring->waits[i]) == 0)
            return record_refuse(r, "two waiters have the same age");
        if (!join_line(t, &restoring->waits[i]))
            return record_refuse(r, NO_MEMORY);
    }
    return true;
}

/* Fills the rings of queues, and checks that no waiter fits. */
static bool restore_rings(struct table *t, struct record_reader *r)
{
    struct restoring *restoring = t->restoring;
    size_t waiting = 0;
    for (size_t i = 0; i < restoring->line_count; i++) {
        const struct line_to_come *line = &restoring->lines[i];
        const struct counter *c = arena_at(&t->arena, line->counter);
        struct shard *s = shard_of(t, c);
        struct queue *q = c->queue ? queue_of(s, c) : NULL;
        if (!q || q->waiting != line->waiting)
            return record_refuse(r, "a queue has too few or too many waiters");
        if (q->newer || q->older || s->newest == c->queue)
            return record_refuse(r, "a queue appears twice");
        if (waitq_oldest(&q->any, c->consumption) || waitq_oldest(&q->me, c->consumption))
            return record_refuse(r, "a waiter waits although its request fits");
        contention_line_restored(s, q, line->since_ns);
        waiting += q->waiting;
    }
    if (waiting != restoring->wait_count)
        return record_refuse(r, "a queue is missing");
    return true;
}

bool table_restore_done(struct table *t, struct record_reader *r)
{
    if (!t->restoring)
        return record_refuse(r, NO_TABLE);
    for (uint32_t i = 0; i <= t->restoring->mask; i++) {
        if (t->restoring->marked[i].units > 0)
            return record_refuse(r, "a name has units that no holder has");
    }
    if (!line_up(t, r) || !restore_rings(t, r))
        return false;
    restoring_free(t);
    arena_limit(&t->arena);
    return true;
}
