/*
 * contention.c - the lists of contended names (see contention.h and sketch.h). Protected by each
 * shard's lock.
 *
 * Decay works forward: old weights stay, and new ones grow. The scale at time t is S(t) = 2^((t -
 * landmark) / half-life). One refusal at t adds S(t). n waiters from t to u add n (S(u) - S(t)),
 * which is the integral of n S without its constant. To read, divide by S(now): refusals then give
 * their decayed number; waiting gives the mean number of waiters, exactly n if n have waited for
 * ever. Before the scale gets too large for a double, the landmark moves by whole half-lives and
 * all weights are divided by that power of two, which is exact.
 *
 * The time comes from the caller. Threads read the clock once per wake-up, so time may seem to go
 * back a little. Waiting time that is already counted is not counted again.
 */
#include "engine/contention.h"

#include "base/heap.h"
#include "engine/shard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(CONTENDED_KEPT == SKETCH_ENTRIES, "contention.h describes the sketch");
_Static_assert(CONTENDED_NAME_MAX == SKETCH_NAME_MAX, "contention.h shows all that a sketch keeps");
_Static_assert(CONTENDED_BY_COUNT ==
                   sizeof(((struct contention *)0)->lists) / sizeof(struct sketch),
               "each has a list");

#define HALF_LIFE_NS (CONTENDED_HALF_LIFE_S * NS_PER_S)
/* The landmark moves after this many half-lives. A double allows 1,023; weights are sums. */
#define LANDMARK_HALF_LIVES 512
/* When one queue changes, another is updated if its waiting time is this far behind. */
#define COUNT_AFTER_NS NS_PER_S

/* Converts nanoseconds to half-lives. */
static double half_lives(int64_t ns)
{
    return (double)ns / (double)HALF_LIFE_NS;
}

/* The scale at `now`, at least 1. Moves the landmark if necessary. */
static double scale_at(struct contention *k, struct moment now)
{
    if (k->scaled_ns == now.mono_ns && k->scale > 0)
        return k->scale;
    int64_t age_ns = now.mono_ns - k->landmark_ns;
    if (age_ns > LANDMARK_HALF_LIVES * HALF_LIFE_NS) {
        int64_t by = age_ns / HALF_LIFE_NS;
        double factor = exp2(-(double)by);
        sketch_scale(&k->lists[CONTENDED_WAITING], factor);
        sketch_scale(&k->lists[CONTENDED_REFUSED], factor);
        k->landmark_ns += by * HALF_LIFE_NS;
        age_ns -= by * HALF_LIFE_NS;
    }
    k->scaled_ns = now.mono_ns;
    k->scale = age_ns > 0 ? exp2(half_lives(age_ns)) : 1;
    return k->scale;
}

/* The load, 0 to 1, of one waiter that has waited for the last `ns`. */
static double load_of(int64_t ns)
{
    return ns > 0 ? -expm1(-M_LN2 * half_lives(ns)) : 0;
}

/* Converts a decayed number of refusals to refusals per second. */
static double rate_of(double refusals)
{
    return refusals * M_LN2 / CONTENDED_HALF_LIFE_S;
}

static struct sketch_key key_of(const struct counter *c, uint64_t hash)
{
    struct bytes name = counter_name(c);
    return (struct sketch_key){.hash = hash, .data = name.data, .len = name.len};
}

/* ---- the ring of lines ----------------------------------------------------------------------- */

static struct queue *queue_at(const struct shard *s, ref_t ref)
{
    return arena_at(s->slab.arena, ref);
}

static void ring_add(struct shard *s, struct queue *q)
{
    ref_t ref = arena_ref(s->slab.arena, q);
    q->newer = 0;
    q->older = s->newest;
    if (s->newest)
        queue_at(s, s->newest)->newer = ref;
    else
        s->oldest = ref;
    s->newest = ref;
}

static void ring_remove(struct shard *s, struct queue *q)
{
    if (q->newer)
        queue_at(s, q->newer)->older = q->older;
    else
        s->newest = q->older;
    if (q->older)
        queue_at(s, q->older)->newer = q->newer;
    else
        s->oldest = q->newer;
}

/* Counts the waiting time since the last update. */
static void count_waiting(struct shard *s, struct queue *q, struct moment now)
{
    int64_t elapsed_ns = now.mono_ns - q->since_ns;
    if (elapsed_ns <= 0)
        return;
    const struct counter *c = arena_at(s->slab.arena, q->counter);
    struct sketch_key key = key_of(c, q->hash);
    double load = q->waiting * load_of(elapsed_ns);
    double scale = scale_at(s->contention, now);
    sketch_add(&s->contention->lists[CONTENDED_WAITING], &key, load * scale);
    q->since_ns = now.mono_ns;
}

/* Calls count_waiting for the queue that was counted longest ago, and moves it to the newest end of
 * the ring. */
static void count_oldest(struct shard *s, struct moment now)
{
    struct queue *q = queue_at(s, s->oldest);
    count_waiting(s, q, now);
    if (q->newer) {
        ring_remove(s, q);
        ring_add(s, q);
    }
}

void contention_line_changes(struct shard *s, struct queue *q, int more, struct moment now)
{
    if (q->waiting > 0) {
        count_waiting(s, q, now);
        ring_remove(s, q);
    } else {
        q->since_ns = now.mono_ns;
    }
    q->waiting += (uint32_t)more;
    if (q->waiting > 0)
        ring_add(s, q);
    if (s->oldest && now.mono_ns - queue_at(s, s->oldest)->since_ns >= COUNT_AFTER_NS)
        count_oldest(s, now);
}

void contention_line_restored(struct shard *s, struct queue *q, int64_t since_ns)
{
    q->since_ns = since_ns;
    ring_add(s, q);
}

/* ---- refusals and peaks ---------------------------------------------------------------------- */

void contention_refused(struct shard *s, const struct counter *c, uint64_t hash, struct moment now)
{
    struct sketch_key key = key_of(c, hash);
    sketch_add(&s->contention->lists[CONTENDED_REFUSED], &key, scale_at(s->contention, now));
}

void contention_enter(struct shard *s, uint32_t interval)
{
    sketch_clear(&s->contention->lists[CONTENDED_PEAK]);
    memset(s->noted, 0, sizeof(s->noted));
    s->peak_floor = 0;
    s->peak_interval = interval;
}

void contention_note_peak(struct shard *s, const struct counter *c, uint64_t hash)
{
    if (c->interval != (uint16_t)s->peak_interval)
        return; /* this thread is late: others are in the next interval already */
    struct sketch *peaks = &s->contention->lists[CONTENDED_PEAK];
    if (!sketch_has(peaks, hash, c->name_len, c->peak)) {
        struct sketch_key key = key_of(c, hash);
        sketch_raise(peaks, &key, c->peak);
        s->peak_floor = (uint32_t)sketch_bound(peaks);
    }
    *contention_noted(s, hash) = (struct peak_noted){.hash = hash, .peak = c->peak};
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Before a list is read: peaks of another interval go, and if the landmark has to move it does so
 * now, because that changes all weights. */
static void enter_now(struct shard *s, uint32_t interval, struct moment now)
{
    lock_assert_held(&s->lock);
    if (!contention_is_in(s, interval))
        contention_enter(s, interval);
    (void)scale_at(s->contention, now);
}

/* Counts the waiting time of up to CONTENDED_ACCOUNTED queues; in most shards that is all. */
static void bring_up_to_date(struct shard *s, struct moment now)
{
    for (unsigned i = 0; i < CONTENDED_ACCOUNTED; i++) {
        if (!s->oldest || queue_at(s, s->oldest)->since_ns >= now.mono_ns)
            break;
        count_oldest(s, now);
    }
}

/* Converts a weight of that list to the unit of `by`. */
static double value_of(struct shard *s, enum contended_by by, double weight, struct moment now)
{
    if (by == CONTENDED_PEAK)
        return weight;
    double decayed = weight / scale_at(s->contention, now);
    return by == CONTENDED_REFUSED ? rate_of(decayed) : decayed;
}

/* Finds the counter of a listed name, of which only the first bytes are known. NULL: it is gone. */
static const struct counter *find_listed(const struct shard *s, const struct sketch_key *key,
                                         uint32_t interval)
{
    size_t kept = sketch_kept(key->len);
    struct index_probe probe;
    for (ref_t r = index_first(&s->names, (uint32_t)key->hash, &probe); r;
         r = index_next(&s->names, &probe)) {
        const struct counter *c = arena_at(s->slab.arena, r);
        if (c->hash == (uint32_t)key->hash && c->name_len == key->len &&
            memcmp(counter_name(c).data, key->data, kept) == 0 &&
            (key->len == kept || counter_hash(s, c) == key->hash))
            return counter_expired(s, c, interval) ? NULL : c;
    }
    return NULL;
}

/* A name's value on a list, or its upper bound if not listed; *error_r is the maximum error. */
static double weigh(struct shard *s, enum contended_by by, const struct sketch_key *key,
                    struct moment now, double *error_r)
{
    const struct sketch *list = &s->contention->lists[by];
    unsigned i = sketch_find(list, key);
    bool listed = i < list->count;
    double weight = listed ? list->weight[i] : sketch_bound(list);
    *error_r = value_of(s, by, listed ? list->error[i] : weight, now);
    return value_of(s, by, weight, now);
}

/* Fills in *to for entry `i` of a list. */
static void show(struct shard *s, const struct sketch *list, unsigned i, struct moment now,
                 uint32_t interval, struct contended *to)
{
    const struct sketch_name *name = &list->name[i];
    struct sketch_key key = {.hash = list->hash[i], .data = name->kept, .len = name->len};
    *to = (struct contended){.name_len = name->len, .name_kept = (uint32_t)sketch_kept(name->len)};
    memcpy(to->name, name->kept, to->name_kept);
    to->waiting_load = weigh(s, CONTENDED_WAITING, &key, now, &to->waiting_error);
    to->refused_per_second = weigh(s, CONTENDED_REFUSED, &key, now, &to->refused_error);
    const struct sketch *peaks = &s->contention->lists[CONTENDED_PEAK];
    unsigned peak = sketch_find(peaks, &key);
    if (peak < peaks->count)
        to->peak = (uint32_t)peaks->weight[peak];
    const struct counter *c = find_listed(s, &key, interval);
    if (!c)
        return;
    struct table_entry entry;
    counter_show(s, c, interval, &entry);
    to->exists = true;
    to->consumption = entry.consumption;
    to->limit = entry.limit;
    to->waiting = entry.waiting;
    to->holders = entry.holders;
    if (to->peak < entry.peak)
        to->peak = entry.peak;
    if (c->queue && entry.waiting > 0)
        to->waiting_load += entry.waiting * load_of(now.mono_ns - queue_of(s, c)->since_ns);
}

static double rank_of(enum contended_by by, const struct contended *c)
{
    const double ranks[CONTENDED_BY_COUNT] = {c->waiting_load, c->refused_per_second, c->peak};
    return ranks[by];
}

/* Orders the highest first. */
static int compare_ranks(const void *a, const void *b, void *by)
{
    double x = rank_of(*(enum contended_by *)by, a), y = rank_of(*(enum contended_by *)by, b);
    return (x < y) - (x > y);
}

size_t table_contended(struct table *t, enum contended_by by, struct moment now,
                       struct contended *to, size_t room)
{
    const struct heap top = {sizeof(*to), compare_ranks, &by};
    size_t kept = 0;
    CHECK(by < CONTENDED_BY_COUNT);
    uint32_t interval = table_interval(t, now.unix_s);
    for (uint32_t n = 0; n < TABLE_SHARDS && room > 0; n++) {
        struct contended found[SKETCH_ENTRIES];
        struct shard *s = &t->shards[n];
        lock_acquire(&s->lock);
        enter_now(s, interval, now);
        bring_up_to_date(s, now);
        const struct sketch *list = &s->contention->lists[by];
        unsigned count = list->count;
        for (unsigned i = 0; i < count; i++)
            show(s, list, i, now, interval, &found[i]);
        lock_release(&s->lock);
        for (unsigned i = 0; i < count; i++) {
            if (rank_of(by, &found[i]) >= CONTENDED_LEAST)
                (void)heap_keep(&top, to, &kept, room, &found[i]);
        }
    }
    /* A caller without room gives no array, and qsort_r takes none that is NULL. */
    if (kept > 1)
        qsort_r(to, kept, sizeof(*to), compare_ranks, &by);
    return kept;
}

double table_contended_bound(struct table *t, enum contended_by by, struct moment now)
{
    CHECK(by < CONTENDED_BY_COUNT);
    uint32_t interval = table_interval(t, now.unix_s);
    double most = 0;
    for (uint32_t n = 0; n < TABLE_SHARDS; n++) {
        struct shard *s = &t->shards[n];
        lock_acquire(&s->lock);
        enter_now(s, interval, now);
        double bound = value_of(s, by, sketch_bound(&s->contention->lists[by]), now);
        if (by == CONTENDED_WAITING && s->oldest)
            bound += (double)s->waiting * load_of(now.mono_ns - queue_at(s, s->oldest)->since_ns);
        lock_release(&s->lock);
        if (most < bound)
            most = bound;
    }
    return most;
}

void contention_check(struct shard *s)
{
    const struct sketch *peaks = &s->contention->lists[CONTENDED_PEAK];
    for (enum contended_by by = 0; by < CONTENDED_BY_COUNT; by++)
        sketch_check(&s->contention->lists[by]);
    CHECK(s->peak_floor == (uint32_t)sketch_bound(peaks));
    for (unsigned i = 0; i < peaks->count; i++)
        CHECK(peaks->weight[i] >= 1 && peaks->error[i] <= 0);
    for (unsigned i = 0; i < PEAKS_NOTED; i++) {
        const struct peak_noted *n = &s->noted[i];
        unsigned at = 0;
        while (at < peaks->count && (peaks->hash[at] != n->hash || peaks->weight[at] < n->peak))
            at++;
        CHECK(n->peak <= s->peak_floor || at < peaks->count);
    }
    uint64_t waiting = 0;
    ref_t older = 0;
    for (ref_t r = s->oldest; r; older = r, r = queue_at(s, r)->newer) {
        const struct queue *q = queue_at(s, r);
        CHECK(q->older == older && q->waiting > 0);
        waiting += q->waiting;
    }
    CHECK(s->newest == older && waiting == s->waiting);
}
