/*
 * state_restore.c - restores names and contention lists from a record (see state.h).
 *
 * The names come first, each with the number of units that its holders will bring
 * (state_holders.c). Each restored holding subtracts its units. So no holder can bring too many
 * units, and at the end it is clear whether any are missing.
 *
 * Nothing here takes a lock: no other thread uses the table.
 */
#include "engine/state_parts.h"

#include <stdlib.h>
#include <string.h>

/* Maximum weight: sums of weights must stay finite. */
#define WEIGHT_MAX 1e300

/* ---- working data -------------------------------------------------------------------------- */

void restoring_free(struct table *t)
{
    if (!t->restoring)
        return;
    free(t->restoring->marked);
    free(t->restoring->lines);
    free(t->restoring->waits);
    free(t->restoring);
    t->restoring = NULL;
}

/* Finds the entry of a mark, or the free entry where it belongs. */
static struct marked *marked_at(const struct restoring *restoring, uint32_t mark)
{
    uint32_t at = hash_pair(mark, 0) & restoring->mask;
    while (restoring->marked[at].mark && restoring->marked[at].mark != mark)
        at = (at + 1) & restoring->mask;
    return &restoring->marked[at];
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

/* ---- names --------------------------------------------------------------------------------- */

/* Data needed to restore a name. */
struct table_head {
    uint32_t then, now; /* number of the interval when saved, and now */
    bool same_length;   /* the interval length has not changed */
    uint64_t names;     /* still to come, of all shards */
    /* For the current shard: */
    uint16_t idle_interval;
    uint64_t idle_now, idle_before; /* names at 0 so far, as in struct shard */
};

struct name_head {
    uint32_t mark, consumption, peak, limit;
    uint16_t interval;
    uint8_t flags;
    struct bytes name;
};

static bool read_name(struct record_reader *r, struct name_head *head_r)
{
    const uint8_t *at = record_take(r, NAME_FIXED);
    if (!at)
        return false;
    *head_r = (struct name_head){
        .mark = get_u32(at),
        .consumption = get_u32(at + 4),
        .peak = get_u32(at + 8),
        .limit = get_u32(at + 12),
        .interval = get_u16(at + 16),
        .flags = at[18],
        .name.len = get_u16(at + 19),
    };
    head_r->name.data = record_take(r, head_r->name.len);
    if (!head_r->name.data)
        return false;
    if (!head_r->mark || !head_r->name.len || head_r->flags > COUNTER_KEEP ||
        head_r->peak < head_r->consumption || !(head_r->consumption || head_r->flags))
        return refuse(r, "a name has inconsistent values");
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

static bool restore_name(struct table *t, struct shard *s, struct table_head *head,
                         struct record_reader *r)
{
    struct name_head n;
    if (!read_name(r, &n))
        return false;
    uint64_t hash = hash_name(t, n.name);
    if (shard_of_hash(t, hash) != s)
        return refuse(r, "a name is in the wrong shard");
    if (!head->same_length && !translate_interval(head, &n))
        return true;
    struct marked *m = marked_at(t->restoring, n.mark);
    struct index_probe probe;
    for (ref_t ref = index_first(&s->names, (uint32_t)hash, &probe); ref;
         ref = index_next(&s->names, &probe)) {
        struct bytes other = counter_name(counter_at(t, ref));
        if (other.len == n.name.len && memcmp(other.data, n.name.data, other.len) == 0)
            return refuse(r, "a name appears twice");
    }
    if (m->mark)
        return refuse(r, "a mark appears twice");
    struct counter *c = counter_make(s, hash, n.name, head->now);
    if (!c)
        return no_memory(r);
    c->interval = n.interval;
    c->peak = n.peak;
    c->limit = n.limit;
    c->flags = n.flags & COUNTER_KEEP;
    if (n.consumption == 0) {
        s->idle.count++;
        head->idle_now += n.interval == head->idle_interval;
        head->idle_before += n.interval == (uint16_t)(head->idle_interval - 1);
    }
    *m =
        (struct marked){.mark = n.mark, .counter = arena_ref(&t->arena, c), .units = n.consumption};
    return true;
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
        if (shard_of(t, counter_at(t, m->counter)) != s || !line.waiting || line.since_ns < 0)
            return refuse(r, "a queue has inconsistent values");
        struct line_to_come *lines =
            grown(restoring->lines, restoring->line_count, &restoring->line_room, sizeof(*lines));
        if (!lines)
            return no_memory(r);
        restoring->lines = lines;
        restoring->lines[restoring->line_count++] = line;
    }
    return record_ok(r);
}

/* ---- contention ---------------------------------------------------------------------------- */

/*
 * True unless a listed name is known to have another hash. A long name is cut, so it cannot be
 * checked.
 */
static bool is_hash_of(const struct shard *s, const struct sketch_key *key)
{
    struct bytes name = {.data = key->data, .len = key->len};
    return key->len > SKETCH_NAME_MAX || hash_name(table_of(s), name) == key->hash;
}

static bool is_listed(const struct sketch *sketch, uint64_t hash)
{
    unsigned i = 0;
    while (i < sketch->count && sketch->hash[i] != hash)
        i++;
    return i < sketch->count;
}

static bool restore_sketch(struct shard *s, struct sketch *sketch, struct record_reader *r)
{
    unsigned count = record_get_u8(r);
    if (count > SKETCH_ENTRIES)
        return refuse(r, "a list of contended names is too long");
    sketch_clear(sketch);
    for (unsigned i = 0; i < count; i++) {
        struct sketch_key key = {.hash = record_get_u64(r)};
        double weight = record_get_double(r), error = record_get_double(r);
        key.len = record_get_u32(r);
        size_t kept = record_get_bytes(r, &key.data);
        if (!record_ok(r))
            return false;
        if (!(error >= 0 && error <= weight && weight <= WEIGHT_MAX) || key.len == 0 ||
            key.len > TABLE_NAME_MAX || kept != kept_of(key.len) ||
            shard_of_hash(table_of(s), key.hash) != s || !is_hash_of(s, &key) ||
            is_listed(sketch, key.hash))
            return refuse(r, "a list of contended names has inconsistent values");
        sketch_add(sketch, &key, weight);
        sketch->error[i] = error;
    }
    return record_ok(r);
}

static bool restore_contention(struct shard *s, struct record_reader *r)
{
    struct contention *k = s->contention;
    uint32_t peak_interval = record_get_u32(r);
    k->landmark_ns = record_get_i64(r);
    if (k->landmark_ns < 0)
        return refuse(r, "the time scale of a contention list is negative");
    if (!restore_sketch(s, &k->waiting, r) || !restore_sketch(s, &k->refused, r) ||
        !restore_sketch(s, &k->peaks, r))
        return false;
    for (unsigned i = 0; i < k->peaks.count; i++) {
        if (k->peaks.weight[i] < 1 || k->peaks.weight[i] > UINT32_MAX || k->peaks.error[i] > 0)
            return refuse(r, "a peak is out of range");
    }
    record_leave(r);
    s->peak_interval = peak_interval;
    s->peak_floor = (uint32_t)sketch_bound(&k->peaks);
    return record_ok(r);
}

/* Makes a new list of peaks from the names used in this interval. */
static void restore_peaks(struct table *t, struct shard *s, uint32_t interval)
{
    contention_enter(s, interval);
    struct index_walk walk = {0};
    unsigned budget = UINT32_MAX;
    for (ref_t r; (r = index_walk_next(&s->names, &walk, &budget)) != 0;) {
        const struct counter *c = counter_at(t, r);
        index_walk_past(&walk, c->hash, r);
        if (c->interval == (uint16_t)interval)
            contention_peak(s, c, counter_hash(s, c));
    }
}

/* ---- the table ----------------------------------------------------------------------------- */

static bool restore_names(struct table *t, struct shard *s, struct table_head *head,
                          struct record_reader *r)
{
    s->seq = record_get_u64(r);
    uint64_t names_made = record_get_u64(r);
    head->idle_interval = record_get_u16(r);
    head->idle_now = head->idle_before = 0;
    uint64_t idle_now = record_get_u64(r), idle_before = record_get_u64(r);
    uint64_t names = record_get_u64(r);
    if (!record_ok(r))
        return false;
    if (names > head->names)
        return refuse(r, "there are more names than announced");
    head->names -= names;
    if (!head->same_length)
        head->idle_interval = (uint16_t)head->now;
    for (uint64_t i = 0; i < names; i++) {
        if (!restore_name(t, s, head, r))
            return false;
    }
    if (!head->same_length) {
        idle_now = head->idle_now;
        idle_before = 0;
    }
    /* There may be more than counted if the clock was set back. */
    if (idle_now > head->idle_now || idle_before > head->idle_before)
        return refuse(r, "the number of names without units is wrong");
    s->names_made = names_made;
    s->idle.interval = head->idle_interval;
    s->idle.now = (uint32_t)idle_now;
    s->idle.before = (uint32_t)idle_before;
    return true;
}

static bool restore_shard(struct table *t, uint32_t number, struct table_head *head,
                          struct record_reader *r)
{
    if (record_get_u32(r) != number)
        return refuse(r, "the shards of the table are out of order");
    struct shard *s = &t->shards[number];
    if (!restore_names(t, s, head, r) || !restore_lines(t, s, r))
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
    t->restoring->marked = calloc(places, sizeof(*t->restoring->marked));
    return t->restoring->marked && arena_widen(&t->arena, room);
}

bool table_restore(struct table *t, struct moment now, struct record_reader *section)
{
    struct record_reader *r = section;
    if (t->restoring)
        return refuse(r, "the table appears twice");
    uint32_t shards = record_get_u32(r);
    t->hash_key.k0 = record_get_u64(r);
    t->hash_key.k1 = record_get_u64(r);
    uint32_t length_s = record_get_u32(r), then = record_get_u32(r);
    struct table_head head = {
        .then = then,
        .now = table_interval(t, now.unix_s),
        .same_length = length_s == t->stats_interval_s,
    };
    uint64_t used = record_get_u64(r);
    head.names = record_get_u64(r);
    if (!record_ok(r))
        return false;
    if (shards != TABLE_SHARDS || head.names > r->len / NAME_FIXED || head.names > UINT32_MAX / 4)
        return refuse(r, "the header of the table is invalid");
    t->restoring = calloc(1, sizeof(*t->restoring));
    if (!t->restoring || !make_room(t, used, head.names))
        return no_memory(r);
    uint32_t kind, number = 0;
    struct record_reader shard;
    while (record_enter(r, &kind, &shard)) {
        if (kind != STATE_SHARD)
            record_unknown(&shard, kind);
        else if (number == TABLE_SHARDS)
            record_refuse(&shard, "the table has too many shards");
        else if (restore_shard(t, number, &head, &shard))
            number++;
    }
    if (record_ok(r) && (number != TABLE_SHARDS || head.names > 0))
        record_refuse(r, "shards or names of the table are missing");
    return record_ok(r);
}

bool table_walk_restore(struct table_walk *walk, struct record_reader *r)
{
    *walk = (struct table_walk){.shard = record_get_u32(r), .hash_from = record_get_u64(r)};
    if (walk->shard > TABLE_SHARDS || walk->hash_from > UINT32_MAX + UINT64_C(1))
        record_refuse(r, "the position of a walk is invalid");
    return record_ok(r);
}
