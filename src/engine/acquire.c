/*
 * acquire.c - acquire, wait, release and close, for one name at a time (see table.h and shard.h).
 *
 * All functions work alike: find the shard from the name's hash (or from the page of a holding),
 * take its lock, change the ledger, collect results, release the lock. A function has all memory
 * before it changes what others see, so running out of memory changes nothing.
 */
#include "engine/shard.h"

#include <limits.h>

/* So many waiters get their results before other threads may have the shard's lock. */
#define LOCK_LOOKS 512
_Static_assert(TABLE_WAITS_MAX == (1 << 15) - 1, "`waits` has 15 bits");

static struct holding *holding_at(const struct table *t, ref_t ref)
{
    return arena_at(&t->arena, ref);
}

/* ---- counters -------------------------------------------------------------------------------- */

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

/* ---- holdings -------------------------------------------------------------------------------- */

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
    holding_drop(s, h);
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

/* ---- waiters --------------------------------------------------------------------------------- */

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

/* Makes a result for a waiter: GRANTED or DONE. */
static void decide(struct shard *s, struct counter *c, struct waiter *w, enum waiter_state state,
                   struct moment now, results *out)
{
    struct queue *q = queue_of(s, c);
    leave_queue(s, q, w, state, now);
    if (state == WAITER_GRANTED)
        add_units(s, c, w->holding, w->units, q->hash, now);
    w->ended_ns = now.mono_ns;
    mail_list_add(out, &w->message.mail);
}

/*
 * Makes the same result for all waiters of one kind with a threshold of at least the consumption,
 * or of at least `from` if DONE, oldest first; for *left at most, which it counts down. Returns
 * false when more are left.
 */
static inline __attribute__((always_inline)) bool
decide_some(struct shard *s, struct counter *c, enum wait_kind kind, enum waiter_state state,
            struct moment now, results *out, unsigned *left)
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
                                                 struct moment now, results *out)
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
                                                    results *out)
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

/* Frees the queue `q` of a counter if nobody needs it. */
static inline void queue_reap(struct shard *s, struct counter *c, const struct queue *q)
{
    if (q->waits > 0)
        return;
    CHECK(q->waiting == 0 && q->empty == 0 && q->reserved == 0);
    slab_free(&s->slab, c->queue);
    c->queue = 0;
}

/* Begins a wait for `c`. NULL: out of memory or TABLE_WAITS_MAX reached; nothing has changed. */
static struct waiter *begin_wait(struct table *t, struct shard *s, struct counter *c, uint64_t hash,
                                 struct holder *holder, const struct acquire *a, struct moment now)
{
    struct holding *h = holding_find(s, c, holder->id);
    if (h && h->waits == TABLE_WAITS_MAX)
        return NULL;
    ref_t ref = slab_alloc(&s->slab, sizeof(struct waiter));
    if (!ref)
        return NULL;
    struct waiter *w = arena_at(&t->arena, ref);
    struct queue *q = c->queue ? queue_of(s, c) : queue_make(s, c, hash);
    if (q && !h)
        h = holding_make(t, s, c, holder);
    *w = (struct waiter){
        .message.to = holder->tag,
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
    if (!q || !h || !queue_join(s, q, w, s->seq + 1)) {
        if (h)
            holding_reap(t, s, holder, h);
        if (q)
            queue_reap(s, c, q);
        slab_free(&s->slab, ref);
        return NULL;
    }
    s->seq++;
    if (w->next)
        w->next->prev = w;
    holder->waiters = w;
    contention_line_changes(s, q, 1, now);
    pin(q, h);
    h->limit = a->limit;
    c->limit = a->limit;
    return w;
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
    q->waits--;
    queue_reap(s, c, q);
    holding_reap(t, s, holder, h);
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

/* ---- requests -------------------------------------------------------------------------------- */

/* Grants `a`, which must fit; notes its limit unless that is 0. Returns false, and changes nothing,
 * when out of memory. */
static inline __attribute__((always_inline)) bool
grant_now(struct table *t, struct shard *s, struct counter *c, uint64_t hash, struct holder *holder,
          const struct acquire *a, struct moment now, struct holding **held_r)
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
    if (a->limit > 0) {
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
        return grant_now(t, s, c, hash, holder, a, now, held_r) ? TABLE_OK : TABLE_NO_MEMORY;
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

/* Releases units of a holding; `ends`: its connection has ended. Afterwards `h` and `c` may be
 * freed.
 */
static inline __attribute__((always_inline)) void
release_units(struct table *t, struct shard *s, struct counter *c, struct holder *holder,
              struct holding *h, uint32_t units, bool ends, struct moment now,
              struct histogram *holds, results *out)
{
    if (c->queue && !ends)
        finish_any(s, c, now, out);
    take_units(s, c, h, units, now, holds);
    if (c->queue)
        grant_fitting(s, c, h, ends, now, out);
    counter_came_down(s, c);
    holding_reap(t, s, holder, h);
}

enum table_status table_release(struct table *t, struct holder *holder, const struct release *r,
                                struct moment now, struct histogram *holds, results *out)
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
                release_units(t, s, c, holder, h, r->units, false, now, holds, out);
        }
    }
    lock_release(&s->lock);
    return status;
}

void table_release_held(struct table *t, struct holder *holder, struct holding *held,
                        uint32_t units, bool ends, struct moment now, results *out)
{
    CHECK(units > 0);
    struct shard *s = shard_of(t, held);
    lock_acquire(&s->lock);
    struct counter *c = counter_of(&t->arena, held);
    counter_touch(s, c, table_interval(t, now.unix_s));
    release_units(t, s, c, holder, held, units, ends, now, NULL, out);
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

/* Ends a wait if it has no result yet, and frees the waiter. Returns the waiter's state. */
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
    unpin(t, s, w->holder, w->holding);
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

enum waiter_state table_take_result(struct table *t, struct waiter *waiter)
{
    CHECK(waiter->holder);
    struct shard *s = shard_of(t, waiter);
    lock_acquire(&s->lock);
    enum waiter_state state = waiter->state;
    CHECK(state == WAITER_GRANTED || state == WAITER_DONE);
    unpin(t, s, waiter->holder, waiter->holding);
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
                          results *out)
{
    struct counter *c = counter_of(&t->arena, h);
    CHECK(h->waits == 0);
    if (h->units > 0) {
        counter_touch(s, c, table_interval(t, now.unix_s));
        release_units(t, s, c, holder, h, h->units, true, now, holds, out);
    } else {
        holding_reap(t, s, holder, h);
    }
}

bool table_close_some(struct table *t, struct holder *holder, unsigned max, struct moment now,
                      struct histogram *holds, results *out)
{
    while (holder->waiters) {
        struct waiter *w = holder->waiters;
        CHECK(w->holder == holder);
        struct shard *s = shard_of(t, w);
        lock_acquire(&s->lock);
        bool ended = end_wait(t, s, w, WAITER_CANCELLED, now) == WAITER_CANCELLED;
        if (!ended)
            unpin(t, s, w->holder, w->holding);
        lock_release(&s->lock);
        if (!ended)
            forget_waiter(w); /* the message is on its way; its receiver frees it */
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
                 results *out)
{
    while (!table_close_some(t, holder, UINT_MAX, now, holds, out))
        continue;
}

/* ---- reservations ---------------------------------------------------------------------------- */

/*
 * Reserves, for a holder, a holding of the name, whose counter is `c` if there is one. Returns
 * NULL, and changes nothing, when out of memory or TABLE_WAITS_MAX is reached.
 */
static struct holding *reserve(struct table *t, struct shard *s, struct counter *c, uint64_t hash,
                               struct bytes name, struct holder *holder, uint32_t interval)
{
    bool made = !c;
    if (made)
        c = counter_make(s, hash, name, interval);
    struct holding *h = c && !made ? holding_find(s, c, holder->id) : NULL;
    if (!c || (h && h->waits == TABLE_WAITS_MAX))
        return NULL;
    if (!h)
        h = holding_make(t, s, c, holder);
    struct queue *q = !h ? NULL : c->queue ? queue_of(s, c) : queue_make(s, c, hash);
    if (!q) {
        if (h)
            holding_reap(t, s, holder, h);
        if (made) {
            counter_drop(s, c);
            s->names_made--;
        }
        return NULL;
    }
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

enum table_status table_grant(struct table *t, struct holder *holder, const struct acquire *a,
                              struct moment now, struct holding **held_r)
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
            status = grant_now(t, s, c, hash, holder, a, now, held_r) ? TABLE_OK : TABLE_NO_MEMORY;
    } while (unlikely(status == TABLE_NO_MEMORY) && shard_make_room(s, interval, &looks));
    lock_release(&s->lock);
    return status;
}

enum table_status table_add(struct table *t, struct holder *holder, struct bytes name,
                            uint64_t hash, uint32_t units, struct moment now,
                            struct holding **held_r)
{
    const struct acquire a = {.name = name, .hash = hash, .units = units, .keep = true};
    return table_grant(t, holder, &a, now, held_r);
}
