/*
 * table.c - acquire, wait, release and close, for one name at a time (see table.h and shard.h).
 *
 * All functions work alike: find the shard from the name's hash (or from the page of a holding),
 * take its lock, change the ledger, collect verdicts, release the lock. A function allocates all
 * memory before its first change, so running out of memory changes nothing.
 */
#include "engine/shard.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(struct counter, first) % ARENA_GRANULE == 0, "a holding has a ref");
_Static_assert(offsetof(struct counter, name) == 56, "a name of 24 bytes makes a slot of 80");
#define COUNTER_USUAL 80

/* So many waiters get their verdicts before other threads may have the shard's lock. */
#define LOCK_LOOKS 512
_Static_assert(sizeof(struct outside_holding) == 32, "`further` has bits for a full arena of them");
_Static_assert(TABLE_WAITS_MAX == (1 << 15) - 1, "`waits` has 15 bits");

/* ---- refs, names and lookups ------------------------------------------------------------- */

static struct counter *counter_at(const struct shard *s, ref_t ref)
{
    return arena_at(s->slab.arena, ref);
}

static struct holding *holding_at(const struct table *t, ref_t ref)
{
    return arena_at(&t->arena, ref);
}

static struct counter *counter_of(const struct arena *arena, const struct holding *h)
{
    return arena_at(arena, counter_ref_of(arena, h));
}

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
        struct counter *c = counter_at(s, r);
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

/* ---- counters ---------------------------------------------------------------------------- */

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
    struct counter *c = counter_at(s, ref);
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

static void idle_ends(struct shard *s, const struct counter *c)
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

/* Call when a counter that is kept, and was used in its interval, is at 0 from now on. */
static void rest_begins(struct shard *s, const struct counter *c)
{
    if (unlikely(counter_is_reserved(s, c)))
        s->reserved_idle++;
    else
        idle_begins(&s->idle, c->interval);
}

/* Call before such a counter gets units. */
static inline void rest_ends(struct shard *s, struct counter *c)
{
    c->life = COUNTER_KEPT;
    if (unlikely(counter_is_reserved(s, c)))
        s->reserved_idle--;
    else
        idle_ends(s, c);
}

/* Call after units were released. At 0, the counter is dropped or kept; `c` may be freed. */
static void counter_came_down(struct shard *s, struct counter *c)
{
    if (c->consumption > 0)
        return;
    if (counter_is_kept(c))
        rest_begins(s, c);
    else
        counter_drop(s, c);
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

/* True when `units` more stay within `limit`. Cannot overflow. */
static bool fits(const struct counter *c, uint32_t units, uint32_t limit)
{
    return units <= limit && (!c || c->consumption <= limit - units);
}

/* Call when a holding that has waits for `c` gets its first units or loses its last. */
static __attribute__((noinline)) void empty_changes(struct shard *s, struct counter *c, bool empty)
{
    struct queue *q = queue_of(s, c);
    q->empty += empty ? 1 : UINT32_MAX;
}

/* Adds units to a holding. `hash` is that of the name. */
static inline void add_units(struct shard *s, struct counter *c, struct holding *h, uint32_t units,
                             uint64_t hash, struct moment now)
{
    if (h->units == 0) {
        holding_begins(h, now);
        if (unlikely(h->waits))
            empty_changes(s, c, false);
    }
    h->units += units;
    c->consumption += units;
    if (c->peak < c->consumption) {
        c->peak = c->consumption;
        contention_peak(s, c, hash);
    }
    s->units += units;
}

/* Takes units from a holding. If it has none left, adds its age to `holds` (may be NULL). */
static inline void take_units(struct shard *s, struct counter *c, struct holding *h, uint32_t units,
                              struct moment now, struct histogram *holds)
{
    CHECK(units <= h->units && units <= c->consumption);
    h->units -= units;
    c->consumption -= units;
    s->units -= units;
    if (unlikely(h->units > 0))
        return;
    if (unlikely(h->waits))
        empty_changes(s, c, true);
    if (holds)
        histogram_add(holds, holding_age_ns(h, now), 1);
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

/* ---- holdings ---------------------------------------------------------------------------- */

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

/* Makes the holder's holding of `c`; there must be none yet. NULL: out of memory. */
static struct holding *holding_make(struct table *t, struct shard *s, struct counter *c,
                                    struct holder *holder)
{
    struct holding *h = holding_place(s, c, holder->id);
    if (!h)
        return NULL;
    ref_t ref = arena_ref(&t->arena, h);
    h->next = holder->holdings;
    if (h->next)
        holding_at(t, h->next)->prev = ref;
    holder->holdings = ref;
    return h;
}

/* Frees a holding that has neither units nor waits; otherwise does nothing. The owner's thread. */
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
    struct counter *c = counter_of(&t->arena, h);
    if (!h->outside) {
        *h = (struct holding){0};
    } else {
        ref_t ref = arena_ref(&t->arena, h);
        index_remove(&s->holdings, hash_of_holding(&t->arena, ref), ref);
        slab_free(&s->slab, ref);
        c->further--;
    }
    counter_free_if_unheld(s, c);
}

void holding_show(const struct holding *h, struct moment now, struct table_hold *hold_r)
{
    int64_t now_ns = (int64_t)((uint64_t)now.mono_ns >> SINCE_STEP_BITS << SINCE_STEP_BITS);
    *hold_r = (struct table_hold){
        .holder = h->holder,
        .units = h->units,
        .limit = h->limit,
        .since_ns = now_ns - holding_age_ns(h, now),
    };
}

void holder_init(struct holder *holder, uint32_t id, uint64_t tag)
{
    CHECK(id != 0);
    *holder = (struct holder){.id = id, .tag = tag};
}

struct bytes holding_name(const struct table *t, const struct holding *held)
{
    return counter_name(counter_of(&t->arena, held));
}

uint32_t holding_units(const struct holding *held)
{
    return held->units;
}

/* ---- waiters ----------------------------------------------------------------------------- */

/* The only function that changes a waiter's state. */
static void set_state(struct waiter *w, enum waiter_state to)
{
    static const unsigned allowed[] = {
        [WAITER_WAITING] = 1u << WAITER_GRANTED | 1u << WAITER_DONE | 1u << WAITER_TIMED_OUT |
                           1u << WAITER_CANCELLED,
        [WAITER_CANCELLED] = 0, /* the same for all others: they are final */
    };
    CHECK(allowed[w->state] & 1u << to);
    w->state = to;
}

/* Removes a waiter from the queue and sets its new state. */
static void leave_queue(struct shard *s, struct queue *q, struct waiter *w, enum waiter_state state,
                        struct moment now)
{
    set_state(w, state);
    struct wait_lane *lane = waitq_leave(line_of(q, w->kind), &w->place);
    if (lane)
        slab_free(&s->slab, arena_ref(s->slab.arena, lane));
    contention_line_changes(s, q, -1, now);
    s->waiting--;
}

/* Makes a verdict for a waiter: GRANTED or DONE. */
static void decide(struct shard *s, struct counter *c, struct waiter *w, enum waiter_state state,
                   struct moment now, verdicts *out)
{
    struct queue *q = queue_of(s, c);
    leave_queue(s, q, w, state, now);
    if (state == WAITER_GRANTED)
        add_units(s, c, w->holding, w->units, q->hash, now);
    w->ended_ns = now.mono_ns;
    mail_list_add(out, &w->letter.mail);
}

/*
 * Makes the same verdict for all waiters of one kind with a threshold of at least the consumption,
 * or of at least `from` if DONE, oldest first; for *left at most, which it counts down. Returns
 * false when more are left.
 */
static inline __attribute__((always_inline)) bool
decide_some(struct shard *s, struct counter *c, enum wait_kind kind, enum waiter_state state,
            struct moment now, verdicts *out, unsigned *left)
{
    while (c->queue) {
        uint32_t from = state == WAITER_DONE ? 0 : c->consumption;
        struct wait_place *place = waitq_oldest(line_of(queue_of(s, c), kind), from);
        if (!place)
            return true;
        if (*left == 0)
            return false;
        --*left;
        decide(s, c, container_of(place, struct waiter, place), state, now, out);
    }
    return true;
}

/* Lets other threads have the lock of the shard. */
static __attribute__((noinline)) void pause_lock(struct shard *s)
{
    lock_release(&s->lock);
    lock_acquire(&s->lock);
}

/*
 * Makes all WAIT_ANY waiters DONE. The caller's holder has units of `c`, and keeps them meanwhile:
 * so a client that comes in a pause waits, and becomes DONE, too.
 */
static __attribute__((noinline)) void finish_any(struct shard *s, struct counter *c,
                                                 struct moment now, verdicts *out)
{
    unsigned left = LOCK_LOOKS;
    while (unlikely(!decide_some(s, c, WAIT_ANY, WAITER_DONE, now, out, &left))) {
        pause_lock(s);
        left = LOCK_LOOKS;
    }
}

/* The units that must come back so that no waiter fits. */
static uint32_t surplus(const struct shard *s, const struct counter *c)
{
    const struct queue *q = queue_of(s, c);
    uint32_t any = waitq_highest(&q->any), me = waitq_highest(&q->me), most = any > me ? any : me;
    return most - c->consumption + 1;
}

/*
 * Grants the waiters that fit after units of `h` were released: those of WAIT_ME, then, if `any`,
 * of WAIT_ANY. In a pause `h` has back what would fit.
 */
static __attribute__((noinline)) void grant_fitting(struct shard *s, struct counter *c,
                                                    struct holding *h, bool any, struct moment now,
                                                    verdicts *out)
{
    unsigned left = LOCK_LOOKS;
    while (unlikely(!decide_some(s, c, WAIT_ME, WAITER_GRANTED, now, out, &left) ||
                    (any && !decide_some(s, c, WAIT_ANY, WAITER_GRANTED, now, out, &left)))) {
        uint32_t back = surplus(s, c);
        if (h->units == 0 && h->waits)
            empty_changes(s, c, false);
        h->units += back;
        c->consumption += back;
        s->units += back;
        pause_lock(s);
        if (!any)
            finish_any(s, c, now, out); /* those that came in the pause */
        take_units(s, c, h, back, now, NULL);
        left = LOCK_LOOKS;
    }
}

/* A wait or a reservation begins: the holding and the queue stay until unpin. */
static inline void pin(struct queue *q, struct holding *h)
{
    if (h->units == 0 && h->waits == 0)
        q->empty++;
    q->waits++;
    h->waits++;
}

/* Begins a wait for `c`. NULL: out of memory or TABLE_WAITS_MAX reached; nothing has changed. */
static struct waiter *begin_wait(struct table *t, struct shard *s, struct counter *c, uint64_t hash,
                                 struct holder *holder, const struct acquire *a, struct moment now)
{
    struct holding *h = holding_find(s, c, holder->id);
    if (h && h->waits == TABLE_WAITS_MAX)
        return NULL;
    ref_t queue_ref = 0, lane_ref = 0;
    struct queue *q = c->queue ? queue_of(s, c) : NULL;
    ref_t waiter_ref = slab_alloc(&s->slab, sizeof(struct waiter));
    if (!waiter_ref)
        return NULL;
    if (!q) {
        queue_ref = slab_alloc(&s->slab, sizeof(*q));
        if (!queue_ref)
            goto no_memory;
        q = arena_at(&t->arena, queue_ref);
        *q = (struct queue){.counter = arena_ref(&t->arena, c), .hash = hash};
    }
    struct waitq *line = line_of(q, a->wait);
    uint32_t threshold = a->limit - a->units;
    struct wait_lane *lane = waitq_lane(line, threshold);
    if (!lane) {
        lane_ref = slab_alloc(&s->slab, sizeof(*lane));
        if (!lane_ref)
            goto no_memory;
    }
    if (!h)
        h = holding_make(t, s, c, holder);
    if (!h)
        goto no_memory;

    if (queue_ref)
        c->queue = queue_ref;
    if (lane_ref) {
        lane = arena_at(&t->arena, lane_ref);
        waitq_add_lane(line, lane, threshold, lane_priority(t, s, s->seq));
    }
    struct waiter *w = arena_at(&t->arena, waiter_ref);
    *w = (struct waiter){
        .letter.to = holder->tag,
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
    contention_line_changes(s, q, 1, now);
    s->waiting++;
    pin(q, h);
    h->limit = a->limit;
    c->limit = a->limit;
    return w;

no_memory:
    if (lane_ref)
        slab_free(&s->slab, lane_ref);
    if (queue_ref)
        slab_free(&s->slab, queue_ref);
    slab_free(&s->slab, waiter_ref);
    return NULL;
}

/* Ends a wait or a reservation: the holding and the queue may be freed. The owner's thread. */
static void unpin(struct table *t, struct shard *s, struct holder *holder, struct holding *h)
{
    struct counter *c = counter_of(&t->arena, h);
    struct queue *q = queue_of(s, c);
    CHECK(h->waits > 0 && q->waits > 0);
    h->waits--;
    if (h->units == 0 && h->waits == 0)
        q->empty--;
    if (--q->waits == 0) {
        CHECK(q->waiting == 0 && q->empty == 0 && q->reserved == 0);
        slab_free(&s->slab, c->queue);
        c->queue = 0;
    }
    holding_reap(t, s, holder, h);
}

/* The owner no longer needs a waiter. */
static void leave_holding(struct table *t, struct shard *s, struct waiter *w)
{
    unpin(t, s, w->holder, w->holding);
}

/* Removes a waiter from its holder's list. */
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
    CHECK(!w->holder && w->state != WAITER_WAITING);
    slab_free(&s->slab, arena_ref(s->slab.arena, w));
}

/* ---- prefetch ---------------------------------------------------------------------------- */

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

/* ---- requests ---------------------------------------------------------------------------- */

/* Grants `a`, which must fit; notes its limit if `limits`. Returns false, and changes nothing, when
 * out of memory. */
static inline __attribute__((always_inline)) bool
grant_now(struct table *t, struct shard *s, struct counter *c, uint64_t hash, struct holder *holder,
          const struct acquire *a, bool limits, struct moment now, struct holding **held_r)
{
    bool made = !c;
    if (made) {
        c = counter_make(s, hash, a->name, table_interval(t, now.unix_s));
        if (!c)
            return false;
    }
    struct holding *h = made ? NULL : holding_find(s, c, holder->id);
    if (!h)
        h = holding_make(t, s, c, holder);
    if (!h) {
        CHECK(!made); /* a new counter has its first holding inside */
        return false;
    }
    if (c->consumption == 0 && counter_is_kept(c))
        rest_ends(s, c);
    add_units(s, c, h, a->units, hash, now);
    if (limits) {
        h->limit = a->limit;
        c->limit = a->limit;
    }
    if (a->keep)
        c->life = COUNTER_KEPT;
    if (held_r)
        *held_r = h;
    return true;
}

/* Counts a refusal, and returns it. */
static enum table_status refuse(struct shard *s, struct counter *c, uint64_t hash,
                                const struct acquire *a, struct moment now, enum table_status why)
{
    c->limit = a->limit;
    contention_refused(s, c, hash, now);
    return why;
}

/* table_acquire, under the lock. */
static inline __attribute__((always_inline)) enum table_status
acquire(struct table *t, struct shard *s, uint64_t hash, uint32_t interval, struct holder *holder,
        const struct acquire *a, struct moment now, struct holding **held_r,
        struct waiter **waiter_r)
{
    struct counter *c = shard_find(s, hash, a->name, interval);
    if (c)
        counter_touch(s, c, interval);
    uint64_t load = c ? (uint64_t)c->consumption + counter_waiting(s, c) : 0;
    if (a->queue_max && load >= a->queue_max)
        return refuse(s, c, hash, a, now, TABLE_FULL);
    if (fits(c, a->units, a->limit))
        return grant_now(t, s, c, hash, holder, a, true, now, held_r) ? TABLE_OK : TABLE_NO_MEMORY;
    if (a->wait == WAIT_NO)
        return refuse(s, c, hash, a, now, TABLE_BUSY);
    *waiter_r = begin_wait(t, s, c, hash, holder, a, now);
    return *waiter_r ? TABLE_WAITING : TABLE_NO_MEMORY;
}

/* The same after it found no memory: drops names at 0 until there is room. */
static __attribute__((noinline)) enum table_status
acquire_with_room(struct table *t, struct shard *s, uint64_t hash, uint32_t interval,
                  struct holder *holder, const struct acquire *a, struct moment now,
                  struct holding **held_r, struct waiter **waiter_r)
{
    enum table_status status = TABLE_NO_MEMORY;
    unsigned looks = ROOM_LOOKS;
    while (status == TABLE_NO_MEMORY && shard_make_room(s, interval, &looks))
        status = acquire(t, s, hash, interval, holder, a, now, held_r, waiter_r);
    return status;
}

enum table_status table_acquire(struct table *t, struct holder *holder, const struct acquire *a,
                                struct moment now, struct holding **held_r,
                                struct waiter **waiter_r)
{
    CHECK(a->units > 0 && a->units <= a->limit);
    uint64_t hash = a->hash ? a->hash : hash_name(t, a->name);
    uint32_t interval = table_interval(t, now.unix_s);
    struct shard *s = shard_of_hash(t, hash);
    lock_acquire(&s->lock);
    enum table_status status = acquire(t, s, hash, interval, holder, a, now, held_r, waiter_r);
    if (unlikely(status == TABLE_NO_MEMORY))
        status = acquire_with_room(t, s, hash, interval, holder, a, now, held_r, waiter_r);
    lock_release(&s->lock);
    return status;
}

/* Releases units of a holding. Afterwards `h` and `c` may be freed. */
static void release_units(struct table *t, struct shard *s, struct counter *c,
                          struct holder *holder, struct holding *h, uint32_t units,
                          struct moment now, struct histogram *holds, verdicts *out)
{
    if (c->queue)
        finish_any(s, c, now, out);
    take_units(s, c, h, units, now, holds);
    if (c->queue)
        grant_fitting(s, c, h, false, now, out);
    counter_came_down(s, c);
    holding_reap(t, s, holder, h);
}

enum table_status table_release(struct table *t, struct holder *holder, const struct release *r,
                                struct moment now, struct histogram *holds, verdicts *out)
{
    uint64_t hash = r->hash ? r->hash : hash_name(t, r->name);
    uint32_t interval = table_interval(t, now.unix_s);
    struct shard *s = shard_of_hash(t, hash);
    enum table_status status = TABLE_NOT_FOUND;

    lock_acquire(&s->lock);
    struct counter *c = shard_find(s, hash, r->name, interval);
    if (c) {
        struct holding *h = holding_find(s, c, holder->id);
        status = r->units <= (h ? h->units : 0) ? TABLE_OK : TABLE_NOT_HELD;
        if (status == TABLE_OK) {
            counter_touch(s, c, interval);
            if (r->units > 0)
                release_units(t, s, c, holder, h, r->units, now, holds, out);
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
    struct counter *c = counter_of(&t->arena, held);
    counter_touch(s, c, table_interval(t, now.unix_s));
    release_units(t, s, c, holder, held, units, now, NULL, out);
    lock_release(&s->lock);
}

/* Releases units of a holding whose connection has ended. Afterwards `h` and `c` may be freed. */
static void give_back(struct table *t, struct shard *s, struct counter *c, struct holder *holder,
                      struct holding *h, uint32_t units, struct moment now, struct histogram *holds,
                      verdicts *out)
{
    counter_touch(s, c, table_interval(t, now.unix_s));
    take_units(s, c, h, units, now, holds);
    if (c->queue)
        grant_fitting(s, c, h, true, now, out);
    counter_came_down(s, c);
    holding_reap(t, s, holder, h);
}

void table_give_back_held(struct table *t, struct holder *holder, struct holding *held,
                          uint32_t units, struct moment now, verdicts *out)
{
    CHECK(units > 0);
    struct shard *s = shard_of(t, held);
    lock_acquire(&s->lock);
    give_back(t, s, counter_of(&t->arena, held), holder, held, units, now, NULL, out);
    lock_release(&s->lock);
}

enum table_status table_get(struct table *t, struct bytes name, struct moment now,
                            uint32_t *consumption_r)
{
    uint64_t hash = hash_name(t, name);
    struct shard *s = shard_of_hash(t, hash);
    lock_acquire(&s->lock);
    struct counter *c = shard_find(s, hash, name, table_interval(t, now.unix_s));
    if (c)
        *consumption_r = c->consumption;
    lock_release(&s->lock);
    return c ? TABLE_OK : TABLE_NOT_FOUND;
}

/* Ends a wait if it has no verdict yet, and frees the waiter. Returns the waiter's state. */
static enum waiter_state end_wait(struct table *t, struct shard *s, struct waiter *w,
                                  enum waiter_state why, struct moment now)
{
    lock_assert_held(&s->lock);
    if (w->state != WAITER_WAITING)
        return w->state;
    struct counter *c = counter_of(&t->arena, w->holding);
    leave_queue(s, queue_of(s, c), w, why, now);
    counter_touch(s, c, table_interval(t, now.unix_s));
    /* The wait began because units were held; a release of these would have granted it. */
    CHECK(c->consumption > 0);
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

enum waiter_state table_take_verdict(struct table *t, struct waiter *waiter)
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

/* Releases all units of a holding whose connection has ended. */
static void close_holding(struct table *t, struct shard *s, struct holder *holder,
                          struct holding *h, struct moment now, struct histogram *holds,
                          verdicts *out)
{
    CHECK(h->waits == 0);
    if (h->units > 0)
        give_back(t, s, counter_of(&t->arena, h), holder, h, h->units, now, holds, out);
    else
        holding_reap(t, s, holder, h);
}

bool table_close_some(struct table *t, struct holder *holder, unsigned max, struct moment now,
                      struct histogram *holds, verdicts *out)
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
            forget_waiter(w); /* the letter is on its way; its receiver frees it */
    }
    for (; holder->holdings && max > 0; max--) {
        struct holding *h = holding_at(t, holder->holdings);
        struct shard *s = shard_of(t, h);
        lock_acquire(&s->lock);
        close_holding(t, s, holder, h, now, holds, out);
        lock_release(&s->lock);
    }
    return !holder->holdings;
}

void table_close(struct table *t, struct holder *holder, struct moment now, struct histogram *holds,
                 verdicts *out)
{
    while (!table_close_some(t, holder, UINT_MAX, now, holds, out))
        continue;
}

/* ---- reservations -------------------------------------------------------------------------- */

/*
 * Reserves, for a holder, a holding of the name, whose counter is `c` if there is one. Returns
 * NULL, and changes nothing, when out of memory or TABLE_WAITS_MAX is reached.
 */
static struct holding *reserve(struct table *t, struct shard *s, struct counter *c, uint64_t hash,
                               struct bytes name, struct holder *holder, uint32_t interval)
{
    struct holding *h = c ? holding_find(s, c, holder->id) : NULL;
    if (h && h->waits == TABLE_WAITS_MAX)
        return NULL;
    ref_t queue_ref = 0;
    if (!c || !c->queue) {
        queue_ref = slab_alloc(&s->slab, sizeof(struct queue));
        if (!queue_ref)
            return NULL;
    }
    bool made = !c;
    if (made)
        c = counter_make(s, hash, name, interval);
    if (c && !h)
        h = holding_make(t, s, c, holder); /* a new counter has its first holding inside */
    if (!h) {
        CHECK(!made || !c);
        if (queue_ref)
            slab_free(&s->slab, queue_ref);
        return NULL;
    }
    if (queue_ref) {
        *(struct queue *)arena_at(&t->arena, queue_ref) =
            (struct queue){.counter = arena_ref(&t->arena, c), .hash = hash};
        c->queue = queue_ref;
    }
    struct queue *q = queue_of(s, c);
    counter_touch(s, c, interval);
    if (c->consumption == 0 && q->reserved == 0) {
        if (!made)
            idle_ends(s, c);
        s->reserved_idle++;
    }
    c->life = COUNTER_KEPT;
    q->reserved++;
    pin(q, h);
    return h;
}

struct holding *table_reserve(struct table *t, struct holder *holder, struct bytes name,
                              uint64_t hash, struct moment now)
{
    CHECK(!t->restoring);
    if (!hash)
        hash = hash_name(t, name);
    uint32_t interval = table_interval(t, now.unix_s);
    struct shard *s = shard_of_hash(t, hash);
    struct holding *h;
    unsigned looks = ROOM_LOOKS;
    lock_acquire(&s->lock);
    do
        h = reserve(t, s, shard_find(s, hash, name, interval), hash, name, holder, interval);
    while (unlikely(!h) && shard_make_room(s, interval, &looks));
    lock_release(&s->lock);
    return h;
}

void table_unreserve(struct table *t, struct holder *holder, struct holding *held,
                     struct moment now)
{
    struct shard *s = shard_of(t, held);
    lock_acquire(&s->lock);
    struct counter *c = counter_of(&t->arena, held);
    struct queue *q = queue_of(s, c);
    CHECK(q->reserved > 0);
    counter_touch(s, c, table_interval(t, now.unix_s));
    q->reserved--;
    if (c->consumption == 0 && q->reserved == 0) {
        s->reserved_idle--;
        idle_begins(&s->idle, c->interval);
    }
    unpin(t, s, holder, held);
    lock_release(&s->lock);
}

bool table_add_held(struct table *t, struct holding *held, uint32_t units, struct moment now)
{
    CHECK(units > 0);
    struct shard *s = shard_of(t, held);
    lock_acquire(&s->lock);
    struct counter *c = counter_of(&t->arena, held);
    CHECK(held->units > 0 || counter_is_reserved(s, c));
    counter_touch(s, c, table_interval(t, now.unix_s));
    bool has_room = fits(c, units, UINT32_MAX);
    if (has_room) {
        if (c->consumption == 0)
            rest_ends(s, c);
        add_units(s, c, held, units, c->queue ? queue_of(s, c)->hash : counter_hash(s, c), now);
    }
    lock_release(&s->lock);
    return has_room;
}

/* Adds units whatever the limit; notes the limit if `limits`. */
static inline __attribute__((always_inline)) enum table_status
add(struct table *t, struct holder *holder, const struct acquire *a, bool limits, struct moment now,
    struct holding **held_r)
{
    CHECK(a->units > 0);
    uint64_t hash = a->hash ? a->hash : hash_name(t, a->name);
    uint32_t interval = table_interval(t, now.unix_s);
    struct shard *s = shard_of_hash(t, hash);
    enum table_status status;
    unsigned looks = ROOM_LOOKS;
    lock_acquire(&s->lock);
    do {
        struct counter *c = shard_find(s, hash, a->name, interval);
        if (c)
            counter_touch(s, c, interval);
        if (!fits(c, a->units, UINT32_MAX))
            status = TABLE_BUSY;
        else
            status = grant_now(t, s, c, hash, holder, a, limits, now, held_r) ? TABLE_OK
                                                                              : TABLE_NO_MEMORY;
    } while (unlikely(status == TABLE_NO_MEMORY) && shard_make_room(s, interval, &looks));
    lock_release(&s->lock);
    return status;
}

enum table_status table_add(struct table *t, struct holder *holder, struct bytes name,
                            uint64_t hash, uint32_t units, struct moment now,
                            struct holding **held_r)
{
    const struct acquire a = {.name = name, .hash = hash, .units = units, .keep = true};
    return add(t, holder, &a, false, now, held_r);
}

enum table_status table_grant(struct table *t, struct holder *holder, const struct acquire *a,
                              struct moment now, struct holding **held_r)
{
    return add(t, holder, a, true, now, held_r);
}

void holder_visit(struct table *t, const struct holder *holder,
                  void (*visit)(void *arg, struct bytes name, uint32_t units), void *arg)
{
    for (ref_t ref = holder->holdings; ref; ref = holding_at(t, ref)->next) {
        struct holding *h = holding_at(t, ref);
        struct shard *s = shard_of(t, h);
        lock_acquire(&s->lock);
        uint32_t units = h->units;
        lock_release(&s->lock);
        if (units > 0)
            visit(arg, holding_name(t, h), units);
    }
}

bool table_charge(struct table *t, size_t bytes)
{
    return arena_charge(&t->arena, bytes);
}

void table_uncharge(struct table *t, size_t bytes)
{
    arena_uncharge(&t->arena, bytes);
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
