/*
 * table.c - acquire, wait, release and close, one name at a time (see table.h and shard.h).
 *
 * Every function follows one pattern: find the shard from the name's hash (or from the page of what
 * is held), take its lock, change the ledger, collect verdicts, give up the lock. A piece of memory
 * that a later step needs is taken before the first change, so running out of it changes nothing.
 */
#include "engine/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(struct counter, first) % ARENA_GRANULE == 0, "a holding has a ref");
_Static_assert(offsetof(struct counter, name) == 52, "a name of 24 bytes makes a slot of 80");

/* ---- refs, names and lookups ------------------------------------------------------------- */

static struct counter *counter_at(const struct shard *s, ref_t ref)
{
    return arena_at(s->slab.arena, ref);
}

static struct holding *holding_at(const struct table *t, ref_t ref)
{
    return arena_at(&t->arena, ref);
}

static bool holding_is_inside(const struct shard *s, const struct holding *h)
{
    return &counter_at(s, h->counter)->first == h;
}

static uint32_t hash_of_counter(const struct arena *arena, ref_t ref)
{
    return ((const struct counter *)arena_at(arena, ref))->hash;
}

static uint32_t hash_of_holding(const struct arena *arena, ref_t ref)
{
    const struct holding *h = arena_at(arena, ref);
    return hash_pair(h->counter, h->holder);
}

/* Where a name that lies outside is. */
static unsigned char *outside_name(const struct counter *c)
{
    unsigned char *outside;
    memcpy(&outside, c->name, sizeof(outside));
    return outside;
}

struct table_name counter_name(const struct counter *c)
{
    const void *data = counter_name_is_outside(c) ? outside_name(c) : c->name;
    return (struct table_name){.data = data, .len = c->name_len};
}

static struct shard *shard_of_hash(struct table *t, uint64_t hash)
{
    return &t->shards[hash >> 58];
}

/* The shard of a counter, a holding or a waiter. */
static struct shard *shard_of(struct table *t, const void *slot)
{
    return &t->shards[slab_owner_of(&t->arena, slot)];
}

static uint64_t hash_name(const struct table *t, struct table_name name)
{
    CHECK(name.len > 0 && name.len <= TABLE_NAME_MAX);
    return hash_bytes(&t->hash_key, name.data, name.len);
}

bool counter_expired(const struct counter *c, uint32_t interval)
{
    return c->consumption == 0 && !c->queue && !counter_is_in(c, interval);
}

/* The counter of that name, which exists in `interval`; NULL when there is none. */
static struct counter *find(struct shard *s, uint32_t hash, struct table_name name,
                            uint32_t interval)
{
    struct index_probe probe;
    for (ref_t r = index_first(&s->names, hash, &probe); r; r = index_next(&s->names, &probe)) {
        struct counter *c = counter_at(s, r);
        if (c->hash != hash || c->name_len != name.len ||
            memcmp(counter_name(c).data, name.data, name.len) != 0)
            continue;
        if (!counter_expired(c, interval))
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

/* ---- counters ---------------------------------------------------------------------------- */

static struct counter *counter_make(struct shard *s, uint32_t hash, struct table_name name,
                                    uint32_t interval)
{
    bool inside = name.len <= NAME_INSIDE_MAX;
    unsigned char *outside = NULL;
    if (!inside) {
        if (!arena_charge(s->slab.arena, name.len))
            return NULL;
        outside = malloc(name.len);
        if (!outside)
            goto no_name;
        memcpy(outside, name.data, name.len);
    }
    ref_t ref = slab_alloc(&s->slab,
                           offsetof(struct counter, name) + (inside ? name.len : sizeof(outside)));
    if (!ref)
        goto no_slot;
    struct counter *c = counter_at(s, ref);
    *c = (struct counter){
        .hash = hash,
        .interval = interval,
        .name_len = (uint16_t)name.len,
        .first.counter = ref,
    };
    if (inside)
        memcpy(c->name, name.data, name.len);
    else
        memcpy(c->name, &outside, sizeof(outside));
    if (!index_insert(&s->names, hash, ref)) {
        slab_free(&s->slab, ref);
        goto no_slot;
    }
    s->names_made++;
    return c;

no_slot:
    free(outside);
no_name:
    if (!inside)
        arena_uncharge(s->slab.arena, name.len);
    return NULL;
}

/* Frees a counter that is not visible any more, once no holding keeps it. */
static void counter_free_if_unheld(struct shard *s, struct counter *c)
{
    if (!(c->flags & COUNTER_GONE) || c->further || c->first.holder)
        return;
    if (counter_name_is_outside(c)) {
        arena_uncharge(s->slab.arena, c->name_len);
        free(outside_name(c));
    }
    slab_free(&s->slab, arena_ref(s->slab.arena, c));
}

/*
 * Kept counters come to 0 and leave it: how many there are, and how many of the latest intervals,
 * says how many names have expired before anybody has collected them. (Where the clock is set back
 * by more than one interval, names it left behind count as expired, also if it comes back to them.)
 */
static void idle_begins(struct shard *s, const struct counter *c)
{
    s->idle++;
    uint32_t ahead = c->interval - s->idle_interval;
    if (ahead == 0) {
        s->idle_now++;
    } else if (ahead == UINT32_MAX) { /* one behind */
        s->idle_before++;
    } else {
        s->idle_before = ahead == 1 ? s->idle_now : 0;
        s->idle_now = 1;
        s->idle_interval = c->interval;
    }
}

static void idle_ends(struct shard *s, const struct counter *c)
{
    CHECK(s->idle > 0);
    s->idle--;
    if (c->interval == s->idle_interval && s->idle_now > 0)
        s->idle_now--;
    else if (c->interval == s->idle_interval - 1 && s->idle_before > 0)
        s->idle_before--;
}

void counter_drop(struct shard *s, struct counter *c)
{
    lock_assert_held(&s->lock);
    CHECK(c->consumption == 0 && !c->queue && !(c->flags & COUNTER_GONE));
    if (c->flags & COUNTER_KEEP)
        idle_ends(s, c);
    index_remove(&s->names, c->hash, arena_ref(s->slab.arena, c));
    c->flags |= COUNTER_GONE;
    counter_free_if_unheld(s, c);
}

/* Units of it were given back: if that was all, it is dropped or kept; `c` may be gone then. */
static void counter_came_down(struct shard *s, struct counter *c)
{
    if (c->consumption > 0 || c->queue)
        return;
    if (c->flags & COUNTER_KEEP)
        idle_begins(s, c);
    else
        counter_drop(s, c);
}

/* Notes a use: in a new interval the peak starts from what is held then. */
static void counter_touch(struct counter *c, uint32_t interval)
{
    if (!counter_is_in(c, interval)) {
        c->interval = interval;
        c->peak = c->consumption;
    }
}

/* Whether `units` more stay within `limit`, without wrapping. */
static bool fits(const struct counter *c, uint32_t units, uint32_t limit)
{
    return units <= limit && (!c || c->consumption <= limit - units);
}

static void add_units(struct shard *s, struct counter *c, struct holding *h, uint32_t units)
{
    h->units += units;
    c->consumption += units;
    if (c->peak < c->consumption)
        c->peak = c->consumption;
    s->units += units;
}

static void take_units(struct shard *s, struct counter *c, struct holding *h, uint32_t units)
{
    CHECK(units <= h->units && units <= c->consumption);
    h->units -= units;
    c->consumption -= units;
    s->units -= units;
}

/* ---- holdings ---------------------------------------------------------------------------- */

static struct holding *holding_find(struct table *t, struct shard *s, struct counter *c,
                                    uint32_t holder)
{
    if (c->first.holder == holder)
        return &c->first;
    if (!c->further)
        return NULL;
    ref_t cref = c->first.counter;
    uint32_t hash = hash_pair(cref, holder);
    struct index_probe probe;
    for (ref_t r = index_first(&s->holdings, hash, &probe); r;
         r = index_next(&s->holdings, &probe)) {
        struct holding *h = holding_at(t, r);
        if (h->counter == cref && h->holder == holder)
            return h;
    }
    return NULL;
}

/* Makes the holder's holding of `c`, which it does not have yet. NULL: no memory. */
static struct holding *holding_make(struct table *t, struct shard *s, struct counter *c,
                                    struct holder *holder)
{
    struct holding *h = &c->first;
    if (c->first.holder) {
        ref_t ref = slab_alloc(&s->slab, sizeof(*h));
        if (!ref)
            return NULL;
        h = holding_at(t, ref);
        *h = (struct holding){.counter = c->first.counter, .holder = holder->id};
        if (!index_insert(&s->holdings, hash_of_holding(&t->arena, ref), ref)) {
            slab_free(&s->slab, ref);
            return NULL;
        }
        c->further++;
    } else {
        *h = (struct holding){.counter = c->first.counter, .holder = holder->id};
    }
    ref_t ref = arena_ref(&t->arena, h);
    h->next = holder->holdings;
    if (h->next)
        holding_at(t, h->next)->prev = ref;
    holder->holdings = ref;
    s->holding_count++;
    return h;
}

/* The owner gives up a holding that has neither units nor waits; else does nothing. */
static void holding_reap(struct table *t, struct shard *s, struct holder *holder, struct holding *h)
{
    if (h->units || h->waits)
        return;
    CHECK(h->holder == holder->id);
    if (h->next)
        holding_at(t, h->next)->prev = h->prev;
    if (h->prev)
        holding_at(t, h->prev)->next = h->next;
    else
        holder->holdings = h->next;
    s->holding_count--;
    struct counter *c = counter_at(s, h->counter);
    if (holding_is_inside(s, h)) {
        *h = (struct holding){.counter = h->counter};
    } else {
        ref_t ref = arena_ref(&t->arena, h);
        index_remove(&s->holdings, hash_of_holding(&t->arena, ref), ref);
        slab_free(&s->slab, ref);
        c->further--;
    }
    counter_free_if_unheld(s, c);
}

void holder_init(struct holder *holder, uint32_t id, uint64_t tag)
{
    CHECK(id != 0);
    *holder = (struct holder){.id = id, .tag = tag};
}

struct table_name holding_name(const struct table *t, const struct holding *held)
{
    return counter_name(arena_at(&t->arena, held->counter));
}

uint32_t holding_units(const struct holding *held)
{
    return held->units;
}

/* ---- waiters ----------------------------------------------------------------------------- */

/* The one place where a waiter's state changes. */
static void set_state(struct waiter *w, enum waiter_state to)
{
    static const unsigned allowed[] = {
        [WAITER_WAITING] = 1u << WAITER_GRANTED | 1u << WAITER_DONE | 1u << WAITER_TIMED_OUT |
                           1u << WAITER_CANCELLED,
        [WAITER_CANCELLED] = 0, /* and so for all others: each is final */
    };
    CHECK(allowed[w->state] & 1u << to);
    w->state = to;
}

static struct queue *queue_of(const struct shard *s, const struct counter *c)
{
    return c->queue ? arena_at(s->slab.arena, c->queue) : NULL;
}

static struct waitq *line_of(struct queue *q, enum wait_kind kind)
{
    return kind == WAIT_ANY ? &q->any : &q->me;
}

/* Takes a waiter out of the queue, in its new state; frees what the queue needs no more. */
static void leave_queue(struct shard *s, struct counter *c, struct waiter *w,
                        enum waiter_state state)
{
    struct queue *q = queue_of(s, c);
    set_state(w, state);
    struct wait_lane *lane = waitq_leave(line_of(q, w->kind), &w->place);
    if (lane)
        slab_free(&s->slab, arena_ref(s->slab.arena, lane));
    s->waiting--;
    if (--q->waiting == 0) {
        slab_free(&s->slab, c->queue);
        c->queue = 0;
    }
}

/* Makes a verdict of a waiter: GRANTED or DONE. */
static void decide(struct shard *s, struct counter *c, struct waiter *w, enum waiter_state state,
                   struct moment now, verdicts *out)
{
    leave_queue(s, c, w, state);
    if (state == WAITER_GRANTED)
        add_units(s, c, w->holding, w->units);
    w->ended_ns = now.mono_ns;
    mail_list_add(out, &w->mail);
}

/* Grants to the waiters of one kind that fit, oldest first. */
static void grant_fitting(struct shard *s, struct counter *c, enum wait_kind kind,
                          struct moment now, verdicts *out)
{
    while (c->queue) {
        struct wait_place *place = waitq_oldest(line_of(queue_of(s, c), kind), c->consumption);
        if (!place)
            return;
        decide(s, c, container_of(place, struct waiter, place), WAITER_GRANTED, now, out);
    }
}

/* DONE to all that wait for anyone. */
static void finish_any(struct shard *s, struct counter *c, struct moment now, verdicts *out)
{
    while (c->queue) {
        struct wait_place *place = waitq_oldest(&queue_of(s, c)->any, 0);
        if (!place)
            return;
        decide(s, c, container_of(place, struct waiter, place), WAITER_DONE, now, out);
    }
}

/* Ages are as good as random once they are mixed with what no client knows. */
static uint32_t lane_priority(const struct table *t, const struct shard *s)
{
    return hash_pair((uint32_t)s->seq, s->number ^ (uint32_t)t->hash_key.k0);
}

/* Begins a wait on `c`, which is over its limit. NULL: no memory, and nothing has changed. */
static struct waiter *begin_wait(struct table *t, struct shard *s, struct counter *c,
                                 struct holder *holder, const struct acquire *a, struct moment now)
{
    ref_t queue_ref = 0, lane_ref = 0;
    struct queue *q = queue_of(s, c);
    ref_t waiter_ref = slab_alloc(&s->slab, sizeof(struct waiter));
    if (!waiter_ref)
        return NULL;
    if (!q) {
        queue_ref = slab_alloc(&s->slab, sizeof(*q));
        if (!queue_ref)
            goto no_memory;
        q = arena_at(&t->arena, queue_ref);
        *q = (struct queue){0};
    }
    struct waitq *line = line_of(q, a->wait);
    uint32_t threshold = a->limit - a->units;
    struct wait_lane *lane = waitq_lane(line, threshold);
    if (!lane) {
        lane_ref = slab_alloc(&s->slab, sizeof(*lane));
        if (!lane_ref)
            goto no_memory;
    }
    struct holding *h = holding_find(t, s, c, holder->id);
    if (!h)
        h = holding_make(t, s, c, holder);
    if (!h)
        goto no_memory;

    if (queue_ref)
        c->queue = queue_ref;
    if (lane_ref) {
        lane = arena_at(&t->arena, lane_ref);
        waitq_add_lane(line, lane, threshold, lane_priority(t, s));
    }
    struct waiter *w = arena_at(&t->arena, waiter_ref);
    *w = (struct waiter){
        .tag = holder->tag,
        .table = t,
        .since_ns = now.mono_ns,
        .holding = h,
        .kind = a->wait,
        .units = a->units,
        .limit = a->limit,
        .holder = holder,
        .next = holder->waiters,
        .state = WAITER_WAITING,
    };
    if (w->next)
        w->next->prev = w;
    holder->waiters = w;
    waitq_join(line, lane, &w->place, ++s->seq);
    q->waiting++;
    s->waiting++;
    h->waits++;
    return w;

no_memory:
    if (lane_ref)
        slab_free(&s->slab, lane_ref);
    if (queue_ref)
        slab_free(&s->slab, queue_ref);
    slab_free(&s->slab, waiter_ref);
    return NULL;
}

/* The owner has done with a waiter: its holding need not stay for it any more. */
static void leave_holding(struct table *t, struct shard *s, struct waiter *w)
{
    CHECK(w->holding->waits > 0);
    w->holding->waits--;
    holding_reap(t, s, w->holder, w->holding);
}

/* Takes a waiter off its holder's list. */
static void forget_waiter(struct waiter *w)
{
    if (w->next)
        w->next->prev = w->prev;
    if (w->prev)
        w->prev->next = w->next;
    else
        w->holder->waiters = w->next;
    w->holder = NULL;
}

static void free_waiter(struct shard *s, struct waiter *w)
{
    CHECK(!w->holder && !w->place.lane);
    slab_free(&s->slab, arena_ref(s->slab.arena, w));
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Grants `a`, which fits, at once. False: no memory, and nothing has changed. */
static bool grant_now(struct table *t, struct shard *s, struct counter *c, uint32_t hash,
                      struct holder *holder, const struct acquire *a, uint32_t interval,
                      struct holding **held_r)
{
    bool made = !c;
    if (made) {
        c = counter_make(s, hash, a->name, interval);
        if (!c)
            return false;
    }
    struct holding *h = made ? NULL : holding_find(t, s, c, holder->id);
    if (!h)
        h = holding_make(t, s, c, holder);
    if (!h) {
        CHECK(!made); /* a new counter has its first holding inside */
        return false;
    }
    if (c->consumption == 0 && c->flags & COUNTER_KEEP)
        idle_ends(s, c);
    add_units(s, c, h, a->units);
    if (a->keep)
        c->flags |= COUNTER_KEEP;
    if (held_r)
        *held_r = h;
    return true;
}

enum table_status table_acquire(struct table *t, struct holder *holder, const struct acquire *a,
                                struct moment now, struct holding **held_r,
                                struct waiter **waiter_r)
{
    CHECK(a->units > 0 && a->units <= a->limit);
    uint64_t hash64 = hash_name(t, a->name);
    uint32_t hash = (uint32_t)hash64;
    uint32_t interval = table_interval(t, now.unix_s);
    struct shard *s = shard_of_hash(t, hash64);
    enum table_status status;

    lock_acquire(&s->lock);
    struct counter *c = find(s, hash, a->name, interval);
    if (c)
        counter_touch(c, interval);
    uint64_t load = c ? (uint64_t)c->consumption + (c->queue ? queue_of(s, c)->waiting : 0) : 0;
    if (a->queue_max && load >= a->queue_max) {
        status = TABLE_FULL;
    } else if (fits(c, a->units, a->limit)) {
        status = grant_now(t, s, c, hash, holder, a, interval, held_r) ? TABLE_OK : TABLE_NO_MEMORY;
    } else if (a->wait == WAIT_NO) {
        status = TABLE_BUSY;
    } else {
        struct waiter *w = begin_wait(t, s, c, holder, a, now);
        *waiter_r = w;
        status = w ? TABLE_WAITING : TABLE_NO_MEMORY;
    }
    lock_release(&s->lock);
    return status;
}

/* Gives back units of a holding that has them; `h` and `c` may be gone afterwards. */
static void release_units(struct table *t, struct shard *s, struct counter *c,
                          struct holder *holder, struct holding *h, uint32_t units,
                          struct moment now, verdicts *out)
{
    take_units(s, c, h, units);
    finish_any(s, c, now, out);
    grant_fitting(s, c, WAIT_ME, now, out);
    counter_came_down(s, c);
    holding_reap(t, s, holder, h);
}

enum table_status table_release(struct table *t, struct holder *holder, struct table_name name,
                                uint32_t units, struct moment now, verdicts *out)
{
    uint64_t hash64 = hash_name(t, name);
    uint32_t interval = table_interval(t, now.unix_s);
    struct shard *s = shard_of_hash(t, hash64);
    enum table_status status = TABLE_NOT_FOUND;

    lock_acquire(&s->lock);
    struct counter *c = find(s, (uint32_t)hash64, name, interval);
    if (c) {
        struct holding *h = holding_find(t, s, c, holder->id);
        status = units <= (h ? h->units : 0) ? TABLE_OK : TABLE_NOT_HELD;
        if (status == TABLE_OK) {
            counter_touch(c, interval);
            if (units > 0)
                release_units(t, s, c, holder, h, units, now, out);
        }
    }
    lock_release(&s->lock);
    return status;
}

void table_release_held(struct table *t, struct holder *holder, struct holding *held,
                        uint32_t units, struct moment now, verdicts *out)
{
    CHECK(units > 0);
    struct shard *s = shard_of(t, held);
    lock_acquire(&s->lock);
    struct counter *c = counter_at(s, held->counter);
    counter_touch(c, table_interval(t, now.unix_s));
    release_units(t, s, c, holder, held, units, now, out);
    lock_release(&s->lock);
}

enum table_status table_get(struct table *t, struct table_name name, struct moment now,
                            uint32_t *consumption_r)
{
    uint64_t hash64 = hash_name(t, name);
    struct shard *s = shard_of_hash(t, hash64);
    lock_acquire(&s->lock);
    struct counter *c = find(s, (uint32_t)hash64, name, table_interval(t, now.unix_s));
    if (c)
        *consumption_r = c->consumption;
    lock_release(&s->lock);
    return c ? TABLE_OK : TABLE_NOT_FOUND;
}

/* Ends a wait if it is still one; returns the waiter's state, freeing it if it was ended. */
static enum waiter_state end_wait(struct table *t, struct shard *s, struct waiter *w,
                                  enum waiter_state why, struct moment now)
{
    lock_assert_held(&s->lock);
    if (w->state != WAITER_WAITING)
        return w->state;
    struct counter *c = counter_at(s, w->holding->counter);
    leave_queue(s, c, w, why);
    counter_touch(c, table_interval(t, now.unix_s));
    /* It waited because there were units, and whoever released these would have granted. */
    CHECK(c->consumption > 0 || c->queue);
    leave_holding(t, s, w);
    forget_waiter(w);
    free_waiter(s, w);
    return why;
}

enum waiter_state table_end_wait(struct table *t, struct waiter *waiter, enum waiter_state why,
                                 struct moment now)
{
    CHECK(why == WAITER_TIMED_OUT || why == WAITER_CANCELLED);
    struct shard *s = shard_of(t, waiter);
    lock_acquire(&s->lock);
    enum waiter_state state = end_wait(t, s, waiter, why, now);
    lock_release(&s->lock);
    return state;
}

enum waiter_state table_settle(struct table *t, struct waiter *waiter)
{
    CHECK(waiter->holder);
    struct shard *s = shard_of(t, waiter);
    lock_acquire(&s->lock);
    enum waiter_state state = waiter->state;
    CHECK(state == WAITER_GRANTED || state == WAITER_DONE);
    leave_holding(t, s, waiter);
    lock_release(&s->lock);
    forget_waiter(waiter);
    return state;
}

void table_waiter_free(struct table *t, struct waiter *waiter)
{
    struct shard *s = shard_of(t, waiter);
    lock_acquire(&s->lock);
    free_waiter(s, waiter);
    lock_release(&s->lock);
}

/* Gives back all units of a holding whose connection has ended. */
static void close_holding(struct table *t, struct shard *s, struct holder *holder,
                          struct holding *h, struct moment now, verdicts *out)
{
    struct counter *c = counter_at(s, h->counter);
    CHECK(h->waits == 0);
    if (h->units > 0) {
        counter_touch(c, table_interval(t, now.unix_s));
        take_units(s, c, h, h->units);
        grant_fitting(s, c, WAIT_ME, now, out);
        grant_fitting(s, c, WAIT_ANY, now, out);
        counter_came_down(s, c);
    }
    holding_reap(t, s, holder, h);
}

void table_close(struct table *t, struct holder *holder, struct moment now, verdicts *out)
{
    while (holder->waiters) {
        struct waiter *w = holder->waiters;
        CHECK(w->holder == holder);
        struct shard *s = shard_of(t, w);
        lock_acquire(&s->lock);
        bool ended = end_wait(t, s, w, WAITER_CANCELLED, now) == WAITER_CANCELLED;
        if (!ended)
            leave_holding(t, s, w);
        lock_release(&s->lock);
        if (!ended)
            forget_waiter(w); /* its letter is on the way; who gets it frees it */
    }
    while (holder->holdings) {
        struct holding *h = holding_at(t, holder->holdings);
        struct shard *s = shard_of(t, h);
        lock_acquire(&s->lock);
        close_holding(t, s, holder, h, now, out);
        lock_release(&s->lock);
    }
}

/* ---- the whole table --------------------------------------------------------------------- */

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
    if (!arena_init(&t->arena, limit)) {
        free(t);
        return NULL;
    }
    /* A start that would fill the memory is no start: a quarter of it at most, 16 bytes a name. */
    uint64_t names = config->buckets < limit / 64 ? config->buckets : limit / 64;
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        lock_init(&s->lock, LOCK_RANK_SHARD);
        s->number = i;
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
        struct counter *c = counter_at(s, r);
        index_walk_past(&walk, c->hash, r);
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
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        if (!s->slab.arena)
            break; /* table_new came no further */
        CHECK(s->waiting == 0 && s->holding_count == 0);
        if (s->names.segments)
            free_long_names(s);
        index_destroy(&s->names);
        index_destroy(&s->holdings);
        lock_destroy(&s->lock);
    }
    arena_destroy(&t->arena);
    free(t);
}
