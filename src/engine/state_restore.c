/*
 * state_restore.c - restores names and contention lists from a record (see state.h).
 *
 * The names come first, each with the number of units that its holders will bring
 * (state_holders.c). Each restored holding subtracts its units. So no holder can bring too many
 * units, and at the end it is clear whether any are missing.
 *
 * Several threads restore names, each those of one shard at a time. They share the pages of the
 * arena and the entries of marks. All else is done by one thread. Nothing here takes a shard's
 * lock: no other thread uses the table.
 */
#include "engine/state_parts.h"

#include "base/parallel.h"
#include "engine/contention.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Maximum weight: sums of weights must stay finite. */
#define WEIGHT_MAX 1e300

/* ---- working data ---------------------------------------------------------------------------- */

void restoring_free(struct table *t)
{
    if (!t->restoring)
        return;
    free(t->restoring->marked);
    free(t->restoring->owners);
    free(t->restoring->lines);
    free(t->restoring->waits);
    free(t->restoring);
    t->restoring = NULL;
}

/* Adds the entry of a name. Any thread. Returns false if the mark has one. */
static bool mark_name(struct restoring *restoring, uint32_t mark, ref_t counter, uint32_t units,
                      uint32_t shard)
{
    for (;;) {
        struct marked *m = marked_at(restoring, mark);
        uint32_t none = 0;
        if (atomic_compare_exchange_strong_explicit(&m->mark, &none, mark, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            m->counter = counter;
            m->units = units;
            restoring->owners[arena_page_of(counter)] = (uint8_t)shard;
            return true;
        }
        if (none == mark)
            return false;
    }
}

struct marked *find_marked(const struct table *t, uint32_t mark, struct record_reader *r)
{
    if (!t->restoring) {
        record_refuse(r, NO_TABLE);
        return NULL;
    }
    struct marked *m = marked_at(t->restoring, mark);
    if (m->mark)
        return m;
    record_refuse(r, "the state refers to an unknown name");
    return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Data needed to restore a name. */
struct table_head {
    struct table *table;
    uint32_t then, now; /* number of the interval when saved, and now */
    bool same_length;   /* the interval length has not changed */
};

/* A shard's section, and what was read of it. */
struct shard_to_come {
    const struct table_head *head;
    struct shard *shard;
    struct record_reader section;
    uint64_t names, names_made;
    uint64_t idle_now, idle_before; /* as saved; in the shard: those so far */
};

struct name_head {
    uint32_t mark, consumption, peak, limit;
    uint16_t interval;
    uint8_t flags;
    struct bytes name;
    uint64_t hash;
};

static bool read_name(struct record_reader *r, struct name_head *head_r)
{
    const struct saved_name *at = (const void *)record_take(r, sizeof(*at));
    if (!at)
        return false;
    *head_r = (struct name_head){
        .mark = le32toh(at->mark),
        .consumption = le32toh(at->consumption),
        .peak = le32toh(at->peak),
        .limit = le32toh(at->limit),
        .interval = le16toh(at->interval),
        .flags = at->flags,
        .name.len = le16toh(at->len),
    };
    head_r->name.data = record_take(r, head_r->name.len);
    if (!head_r->name.data)
        return false;
    if (!head_r->mark || !head_r->name.len || head_r->flags > 1 ||
        head_r->peak < head_r->consumption || !(head_r->consumption || head_r->flags))
        return record_refuse(r, "a name has inconsistent values");
    return true;
}

/*
 * Converts the interval of a name after a change of the interval length: to the current one, or one
 * that has ended. Returns false when the name has expired.
 */
static bool translate_interval(const struct table_head *head, struct name_head *name)
{
    bool current = (uint16_t)(name->interval - head->then) <= 1; /* as counter_is_in */
    name->interval = (uint16_t)(current ? head->now : head->now - 2);
    return current || name->consumption > 0;
}

/* Reads a name, and fetches what restore_name needs from memory. Sets the mark to 0 when the name
 * has expired. */
static bool read_ahead(struct shard_to_come *to_come, struct name_head *n)
{
    const struct table_head *head = to_come->head;
    struct table *t = head->table;
    if (!read_name(&to_come->section, n))
        return false;
    n->hash = hash_name(t, n->name);
    if (shard_of_hash(t, n->hash) != to_come->shard)
        return record_refuse(&to_come->section, "a name is in the wrong shard");
    if (!head->same_length && !translate_interval(head, n)) {
        n->mark = 0;
        return true;
    }
    __builtin_prefetch(marked_from(t->restoring, n->mark), 1);
    const struct index *names = &to_come->shard->names;
    __builtin_prefetch(index_bucket_at(names, index_bucket_of(names, (uint32_t)n->hash)), 1);
    return true;
}

static bool restore_name(struct shard_to_come *to_come, const struct name_head *n)
{
    struct table *t = to_come->head->table;
    struct shard *s = to_come->shard;
    struct index_probe probe;
    for (ref_t ref = index_first(&s->names, (uint32_t)n->hash, &probe); ref;
         ref = index_next(&s->names, &probe)) {
        struct bytes other = counter_name(arena_at(&t->arena, ref));
        if (other.len == n->name.len && memcmp(other.data, n->name.data, other.len) == 0)
            return record_refuse(&to_come->section, "a name appears twice");
    }
    struct counter *c = counter_make(s, n->hash, n->name, to_come->head->now);
    if (!c)
        return record_refuse(&to_come->section, NO_MEMORY);
    c->interval = n->interval;
    c->peak = n->peak;
    c->limit = n->limit;
    c->life = n->flags ? COUNTER_KEPT : COUNTER_PLAIN;
    if (n->consumption == 0) {
        s->idle.count++;
        s->idle.now += n->interval == s->idle.interval;
        s->idle.before += n->interval == (uint16_t)(s->idle.interval - 1);
    }
    return mark_name(t->restoring, n->mark, arena_ref(&t->arena, c), n->consumption, s->number) ||
           record_refuse(&to_come->section, "a mark appears twice");
}

static bool restore_lines(struct table *t, struct shard *s, struct record_reader *r)
{
    struct restoring *restoring = t->restoring;
    uint64_t count = record_get_u64(r);
    for (uint64_t i = 0; i < count && record_ok(r); i++) {
        uint32_t mark = record_get_u32(r);
        struct line_to_come line = {.waiting = record_get_u32(r), .since_ns = record_get_i64(r)};
        const struct marked *m = record_ok(r) ? find_marked(t, mark, r) : NULL;
        if (!m)
            return false;
        line.counter = m->counter;
        if (marked_shard(t, m) != s || !line.waiting || line.since_ns < 0)
            return record_refuse(r, "a queue has inconsistent values");
        struct line_to_come *lines =
            grown(restoring->lines, restoring->line_count, &restoring->line_room, sizeof(*lines));
        if (!lines)
            return record_refuse(r, NO_MEMORY);
        restoring->lines = lines;
        restoring->lines[restoring->line_count++] = line;
    }
    return record_ok(r);
}

/* ---- contention ------------------------------------------------------------------------------ */

/*
 * True unless a listed name is known to have another hash. A long name is cut, so it cannot be
 * checked.
 */
static bool is_hash_of(const struct shard *s, const struct sketch_key *key)
{
    struct bytes name = {.data = key->data, .len = key->len};
    return key->len > SKETCH_NAME_MAX || hash_name(table_of(s), name) == key->hash;
}

static bool restore_sketch(struct shard *s, struct sketch *sketch, struct record_reader *r)
{
    unsigned count = record_get_u8(r);
    if (count > SKETCH_ENTRIES)
        return record_refuse(r, "a list of contended names is too long");
    sketch_clear(sketch);
    for (unsigned i = 0; i < count; i++) {
        struct sketch_key key = {.hash = record_get_u64(r)};
        double weight = record_get_double(r), error = record_get_double(r);
        key.len = record_get_u32(r);
        size_t kept = record_get_bytes(r, &key.data);
        if (!record_ok(r))
            return false;
        if (!(error >= 0 && error <= weight && weight <= WEIGHT_MAX) || key.len == 0 ||
            key.len > TABLE_NAME_MAX || kept != sketch_kept(key.len) ||
            shard_of_hash(table_of(s), key.hash) != s || !is_hash_of(s, &key) ||
            sketch_find_hash(sketch, key.hash) < sketch->count)
            return record_refuse(r, "a list of contended names has inconsistent values");
        sketch_add(sketch, &key, weight);
        sketch->error[i] = error;
    }
    return record_ok(r);
}

static bool restore_contention(struct shard *s, struct record_reader *r)
{
    struct contention *k = s->contention;
    const struct sketch *peaks = &k->lists[CONTENDED_PEAK];
    uint32_t peak_interval = record_get_u32(r);
    k->landmark_ns = record_get_i64(r);
    if (k->landmark_ns < 0)
        return record_refuse(r, "the time scale of a contention list is negative");
    for (unsigned i = 0; i < ARRAY_SIZE(k->lists); i++) {
        if (!restore_sketch(s, &k->lists[i], r))
            return false;
    }
    for (unsigned i = 0; i < peaks->count; i++) {
        if (peaks->weight[i] < 1 || peaks->weight[i] > UINT32_MAX || peaks->error[i] > 0)
            return record_refuse(r, "a peak is out of range");
    }
    record_leave(r);
    s->peak_interval = peak_interval;
    s->peak_floor = (uint32_t)sketch_bound(peaks);
    return record_ok(r);
}

/* Makes a new list of peaks from the names used in this interval. */
static void restore_peaks(struct table *t, struct shard *s, uint32_t interval)
{
    contention_enter(s, interval);
    struct index_walk walk = {0};
    unsigned budget = UINT32_MAX;
    for (ref_t r; (r = index_walk_next(&s->names, &walk, &budget)) != 0;) {
        const struct counter *c = arena_at(&t->arena, r);
        if (c->interval == (uint16_t)interval)
            contention_peak(s, c, counter_hash(s, c));
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Names that are read before the first of them is restored, so that memory is fetched in time. */
#define AHEAD 16

/* With fewer names, a thread takes longer to start than to restore them. */
#define SHARED_MIN 2000

/* Restores the names of a shard. Any thread. */
static void restore_names(void *arg, unsigned number)
{
    struct shard_to_come *to_come = (struct shard_to_come *)arg + number;
    struct shard *s = to_come->shard;
    struct name_head ahead[AHEAD];
    index_widen(&s->names, to_come->names);
    for (uint64_t left = to_come->names; left > 0;) {
        unsigned count = left < AHEAD ? (unsigned)left : AHEAD;
        for (unsigned i = 0; i < count; i++) {
            if (!read_ahead(to_come, &ahead[i]))
                return;
        }
        for (unsigned i = 0; i < count; i++) {
            if (ahead[i].mark && !restore_name(to_come, &ahead[i]))
                return;
        }
        left -= count;
    }
    if (!to_come->head->same_length) {
        to_come->idle_now = s->idle.now;
        to_come->idle_before = 0;
    }
    /* There may be more than counted if the clock was set back. */
    if (to_come->idle_now > s->idle.now || to_come->idle_before > s->idle.before) {
        record_refuse(&to_come->section, "the number of names without units is wrong");
        return;
    }
    s->names_made = to_come->names_made;
    s->idle.now = (uint32_t)to_come->idle_now;
    s->idle.before = (uint32_t)to_come->idle_before;
}

/* Restores what follows the names. */
static bool restore_rest(struct table *t, struct shard *s, const struct table_head *head,
                         struct record_reader *r)
{
    if (!record_ok(r) || !restore_lines(t, s, r))
        return false;
    struct record_reader section;
    uint32_t kind;
    while (record_enter(r, &kind, &section)) {
        if (kind != STATE_CONTENTION)
            record_unknown(&section, kind);
        else if (!restore_contention(s, &section))
            return false;
    }
    if (!head->same_length)
        restore_peaks(t, s, head->now);
    return record_ok(r);
}

/* Reads the beginning of a shard. Decrements *names by those that it has. */
static void read_shard(struct shard_to_come *to_come, const struct table_head *head,
                       uint32_t number, uint64_t *names)
{
    struct record_reader *r = &to_come->section;
    struct shard *s = &head->table->shards[number];
    to_come->head = head;
    to_come->shard = s;
    if (record_get_u32(r) != number)
        record_refuse(r, "the shards of the table are out of order");
    s->seq = record_get_u64(r);
    to_come->names_made = record_get_u64(r);
    s->idle.interval = record_get_u16(r);
    to_come->idle_now = record_get_u64(r);
    to_come->idle_before = record_get_u64(r);
    to_come->names = record_get_u64(r);
    if (to_come->names > *names)
        record_refuse(r, "there are more names than announced");
    if (!record_ok(r))
        return;
    *names -= to_come->names;
    if (!head->same_length)
        s->idle.interval = (uint16_t)head->now;
}

/* Restores all shards. */
static void restore_shards(const struct table_head *head, uint64_t names, unsigned threads,
                           struct record_reader *r)
{
    struct shard_to_come to_come[TABLE_SHARDS] = {0};
    uint32_t kind, number = 0;
    struct record_reader section;
    while (record_enter(r, &kind, &section)) {
        if (kind != STATE_SHARD) {
            record_unknown(&section, kind);
        } else if (number == TABLE_SHARDS) {
            record_refuse(&section, "the table has too many shards");
        } else {
            to_come[number].section = section;
            read_shard(&to_come[number], head, number, &names);
            number++;
        }
    }
    if (record_ok(r) && (number != TABLE_SHARDS || names > 0))
        record_refuse(r, "shards or names of the table are missing");
    if (!record_ok(r))
        return;
    for (uint32_t i = 0; i < TABLE_SHARDS; i++)
        to_come[i].section.parent = NULL; /* threads do not share it */
    run_parallel(threads, TABLE_SHARDS, restore_names, to_come);
    for (uint32_t i = 0; i < TABLE_SHARDS; i++) {
        struct record_reader *shard = &to_come[i].section;
        if (!restore_rest(head->table, to_come[i].shard, head, shard))
            record_refuse(r, shard->why);
    }
}

/* Allocates zeros for access all over; if many, in the kernel's large pages if it has any. NULL:
 * out of memory. */
static void *zeros(size_t size)
{
    const size_t page = (size_t)2 << 20;
    if (size < 4 * page)
        return calloc(1, size);
    size = (size + page - 1) / page * page;
    void *at = aligned_alloc(page, size);
    if (at) {
        (void)madvise(at, size, MADV_HUGEPAGE);
        memset(at, 0, size);
    }
    return at;
}

/*
 * Makes room for a state that took `used` bytes: twice as much, in case the new build needs more,
 * plus one page per shard and slot size.
 */
static bool make_room(struct table *t, uint64_t used, uint64_t names)
{
    size_t begun = (size_t)TABLE_SHARDS * SLAB_CLASSES * ARENA_PAGE + arena_used(&t->arena);
    size_t room = used < ARENA_LIMIT_MAX / 4 ? (size_t)used * 2 + begun : ARENA_LIMIT_MAX;
    size_t places = 64;
    while (places / 2 < names)
        places *= 2;
    t->restoring->mask = (uint32_t)(places - 1);
    t->restoring->marked = zeros(places * sizeof(*t->restoring->marked));
    if (!t->restoring->marked || !arena_widen(&t->arena, room))
        return false;
    arena_expect(&t->arena, (size_t)used);
    t->restoring->owners = calloc(arena_pages(&t->arena), sizeof(*t->restoring->owners));
    return t->restoring->owners;
}

bool table_restore(struct table *t, struct moment now, unsigned threads,
                   struct record_reader *section)
{
    struct record_reader *r = section;
    if (t->restoring)
        return record_refuse(r, "the table appears twice");
    uint32_t shards = record_get_u32(r);
    t->hash_key.k0 = record_get_u64(r);
    t->hash_key.k1 = record_get_u64(r);
    uint32_t length_s = record_get_u32(r), then = record_get_u32(r);
    const struct table_head head = {
        .table = t,
        .then = then,
        .now = table_interval(t, now.unix_s),
        .same_length = length_s == t->stats_interval_s,
    };
    uint64_t used = record_get_u64(r), names = record_get_u64(r);
    if (!record_ok(r))
        return false;
    if (shards != TABLE_SHARDS || names > r->len / sizeof(struct saved_name) ||
        names > UINT32_MAX / 4)
        return record_refuse(r, "the header of the table is invalid");
    t->restoring = calloc(1, sizeof(*t->restoring));
    if (!t->restoring || !make_room(t, used, names))
        return record_refuse(r, NO_MEMORY);
    restore_shards(&head, names, names < SHARED_MIN ? 1 : threads, r);
    return record_ok(r);
}

bool table_walk_restore(struct table_walk *walk, struct record_reader *r)
{
    *walk = (struct table_walk){.shard = record_get_u32(r), .hash_from = record_get_u64(r)};
    if (walk->shard > TABLE_SHARDS || walk->hash_from > UINT32_MAX + UINT64_C(1))
        record_refuse(r, "the position of a walk is invalid");
    return record_ok(r);
}
