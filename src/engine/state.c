/*
 * state.c - a table's state to and from a record (see state.h, where the format is).
 *
 * Saving reads the table and changes nothing, so that the old process can go on if the new one does
 * not take over. Restoring builds the names first, each with what is still to come for it: its
 * units, from the holders that have them. Whatever comes is taken off that; so when all is done it
 * shows whether anything is missing, and in between nobody can bring more than there was. Waiters
 * come with their holders, in any order; that of their ages is made at the end.
 *
 * Nothing here takes a lock: no other thread is in the table.
 */
#include "engine/state.h"

#include "engine/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A weight is no more than this: sums of them must stay finite. */
#define WEIGHT_MAX 1e300

/* Restoring: what is known of a name under its mark. */
struct marked {
    uint32_t mark; /* 0: the place is free */
    ref_t counter;
    uint32_t units; /* still to come */
};

/* Restoring: a line of waiters, in the order of the ring; a waiter that is not in line yet. */
struct line_to_come {
    ref_t counter;
    uint32_t waiting;
    int64_t since_ns;
};

struct wait_to_come {
    uint64_t seq;
    struct waiter *waiter;
    uint32_t shard;
};

struct restoring {
    struct marked *marked; /* by mark, in open addressing; never full */
    uint32_t mask;         /* places - 1 */
    struct line_to_come *lines;
    size_t line_count, line_room;
    struct wait_to_come *waits;
    size_t wait_count, wait_room;
};

/*
 * An array with room for one more element of `size` bytes: the same, or where it has gone to. NULL:
 * no memory, and it is as it was.
 */
static void *grown(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room ? *room * 2 : 64;
    void *larger = reallocarray(array, more, size);
    if (larger)
        *room = more;
    return larger;
}

static const char no_table[] = "there is no table";

static bool no_memory(struct record_reader *r)
{
    record_refuse(r, "no memory for the state");
    return false;
}

static bool refuse(struct record_reader *r, const char *why)
{
    record_refuse(r, why);
    return false;
}

static struct counter *counter_at(const struct table *t, ref_t ref)
{
    return arena_at(&t->arena, ref);
}

/* ---- saving ------------------------------------------------------------------------------ */

/* What comes before a name's bytes; read_name takes it apart. */
#define NAME_FIXED 21

/* A holding. */
#define HOLDING_SIZE 20

static void put_u32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static void put_u16(uint8_t *to, uint16_t value)
{
    value = htole16(value);
    memcpy(to, &value, sizeof(value));
}

static void save_counter(const struct shard *s, ref_t ref, struct record_writer *w)
{
    const struct counter *c = arena_at(s->slab.arena, ref);
    uint8_t *to = record_room(w, NAME_FIXED);
    if (!to)
        return;
    put_u32(to, ref);
    put_u32(to + 4, c->consumption);
    put_u32(to + 8, c->peak);
    put_u32(to + 12, c->limit);
    put_u16(to + 16, c->interval);
    to[18] = c->flags & COUNTER_KEEP;
    put_u16(to + 19, c->name_len);
    struct bytes name = counter_name(c);
    to = record_room(w, name.len);
    if (to)
        memcpy(to, name.data, name.len);
}

/* Has the entries of a bucket fetched from memory, but for those in further buckets. */
static void fetch_entries(const struct index *ix, uint32_t bucket)
{
    const struct index_bucket *b = index_bucket_at(ix, bucket);
    for (unsigned i = 0; i < INDEX_SLOTS && b->ref[i]; i++) {
        const unsigned char *c = arena_at(ix->slab->arena, b->ref[i]);
        __builtin_prefetch(c);
        __builtin_prefetch(c + 64);
    }
}

static void save_names(const struct shard *s, struct record_writer *w)
{
    const struct index *ix = &s->names;
    uint32_t buckets = index_buckets(ix);
    record_put_u64(w, ix->entries);
    for (uint32_t n = 0; n < buckets; n++) {
        if (n + 2 < buckets)
            fetch_entries(ix, n + 2);
        for (const struct index_bucket *b = index_bucket_at(ix, n);;) {
            for (unsigned i = 0; i < INDEX_SLOTS && b->ref[i]; i++)
                save_counter(s, b->ref[i], w);
            if (!b->more)
                break;
            b = arena_at(s->slab.arena, b->more);
        }
    }
}

static void save_lines(const struct shard *s, struct record_writer *w)
{
    uint64_t count = 0;
    for (ref_t r = s->oldest; r; count++)
        r = ((const struct queue *)arena_at(s->slab.arena, r))->newer;
    record_put_u64(w, count);
    for (ref_t r = s->oldest; r;) {
        const struct queue *q = arena_at(s->slab.arena, r);
        record_put_u32(w, q->counter);
        record_put_u32(w, q->waiting);
        record_put_i64(w, q->since_ns);
        r = q->newer;
    }
}

static size_t kept_of(size_t len)
{
    return len < SKETCH_NAME_MAX ? len : SKETCH_NAME_MAX;
}

static void save_sketch(const struct sketch *sketch, struct record_writer *w)
{
    record_put_u8(w, (uint8_t)sketch->count);
    for (unsigned i = 0; i < sketch->count; i++) {
        record_put_u64(w, sketch->hash[i]);
        record_put_double(w, sketch->weight[i]);
        record_put_double(w, sketch->error[i]);
        record_put_u32(w, sketch->name[i].len);
        record_put_bytes(w, sketch->name[i].kept, kept_of(sketch->name[i].len));
    }
}

static void save_shard(const struct shard *s, struct record_writer *w)
{
    record_begin(w, STATE_SHARD);
    record_put_u32(w, s->number);
    record_put_u64(w, s->seq);
    record_put_u64(w, s->names_made);
    record_put_u16(w, s->idle_interval);
    record_put_u64(w, s->idle_now);
    record_put_u64(w, s->idle_before);
    save_names(s, w);
    save_lines(s, w);
    record_begin(w, STATE_CONTENTION);
    record_put_u32(w, s->peak_interval);
    record_put_i64(w, s->contention->landmark_ns);
    save_sketch(&s->contention->waiting, w);
    save_sketch(&s->contention->refused, w);
    save_sketch(&s->contention->peaks, w);
    record_end(w);
    record_end(w);
}

void table_save(const struct table *t, struct moment now, struct record_writer *w)
{
    uint64_t names = 0;
    for (uint32_t i = 0; i < TABLE_SHARDS; i++)
        names += t->shards[i].names.entries;
    record_begin(w, STATE_TABLE);
    record_put_u32(w, TABLE_SHARDS);
    record_put_u64(w, t->hash_key.k0);
    record_put_u64(w, t->hash_key.k1);
    record_put_u32(w, t->stats_interval_s);
    record_put_u32(w, table_interval(t, now.unix_s));
    record_put_u64(w, arena_used(&t->arena));
    record_put_u64(w, names);
    for (uint32_t i = 0; i < TABLE_SHARDS; i++)
        save_shard(&t->shards[i], w);
    record_end(w);
}

/* Since when it has units, as table_hold has it. */
static int64_t since_of(const struct holding *h)
{
    uint64_t steps = (uint64_t)h->since_high << 32 | h->since_low;
    return (int64_t)(steps << SINCE_STEP_BITS);
}

void holder_save(const struct table *t, const struct holder *holder, struct record_writer *w)
{
    for (ref_t r = holder->holdings; r;) {
        const struct holding *h = arena_at(&t->arena, r);
        r = h->next;
        if (r)
            __builtin_prefetch(arena_at(&t->arena, r));
        uint8_t *to = record_room(w, HOLDING_SIZE);
        if (!to)
            return;
        uint64_t since = htole64((uint64_t)since_of(h));
        put_u32(to, counter_ref_of(&t->arena, h));
        put_u32(to + 4, h->units);
        put_u32(to + 8, h->limit);
        memcpy(to + 12, &since, sizeof(since));
    }
    record_put_u32(w, 0);
    for (const struct waiter *waiter = holder->waiters; waiter; waiter = waiter->next) {
        if (waiter->state != WAITER_WAITING) {
            record_give_up(w, EBUSY);
            return;
        }
        record_put_u32(w, counter_ref_of(&t->arena, waiter->holding));
        record_put_u32(w, waiter->units);
        record_put_u32(w, waiter->limit);
        record_put_u8(w, (uint8_t)waiter->kind);
        record_put_i64(w, waiter->since_ns);
        record_put_u64(w, waiter->place.seq);
    }
    record_put_u32(w, 0);
}

void holding_save(const struct table *t, const struct holding *held, struct record_writer *w)
{
    record_put_u32(w, counter_ref_of(&t->arena, held));
}

void table_walk_save(const struct table_walk *walk, struct record_writer *w)
{
    record_put_u32(w, walk->shard);
    record_put_u64(w, walk->hash_from);
}

/* ---- restoring: what to remember --------------------------------------------------------- */

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

/* The place of a mark, or the free one where it would be. */
static struct marked *marked_at(const struct restoring *restoring, uint32_t mark)
{
    uint32_t at = hash_pair(mark, 0) & restoring->mask;
    while (restoring->marked[at].mark && restoring->marked[at].mark != mark)
        at = (at + 1) & restoring->mask;
    return &restoring->marked[at];
}

/* What is known under a mark that was read; NULL: nothing, and the reader has failed. */
static struct marked *find_marked(const struct table *t, uint32_t mark, struct record_reader *r)
{
    if (!t->restoring) {
        record_refuse(r, no_table);
        return NULL;
    }
    struct marked *m = marked_at(t->restoring, mark);
    if (m->mark)
        return m;
    record_refuse(r, "somebody has units of a name, or waits for one, that there is not");
    return NULL;
}

/* ---- restoring: names -------------------------------------------------------------------- */

/* What is to be known for restoring a name. */
struct table_head {
    uint32_t then, now; /* the number of the interval when it was saved, and now */
    bool same_length;   /* of intervals */
    uint64_t names;     /* still to come, of all shards */
    /* Of this shard: */
    uint16_t idle_interval;
    uint64_t idle_now, idle_before; /* names so far that are at 0, as struct shard has them */
};

struct name_head {
    uint32_t mark, consumption, peak, limit;
    uint16_t interval;
    uint8_t flags;
    struct bytes name;
};

static uint32_t get_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static uint16_t get_u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return le16toh(value);
}

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
        return refuse(r, "a name contradicts itself");
    return true;
}

/*
 * The interval of a name that was saved with another length of intervals: this one, or one that is
 * over. False: the name has expired.
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
        return refuse(r, "a name is among others than its hash says");
    if (!head->same_length && !translate_interval(head, &n))
        return true;
    struct marked *m = marked_at(t->restoring, n.mark);
    struct index_probe probe;
    for (ref_t ref = index_first(&s->names, (uint32_t)hash, &probe); ref;
         ref = index_next(&s->names, &probe)) {
        struct bytes other = counter_name(counter_at(t, ref));
        if (other.len == n.name.len && memcmp(other.data, n.name.data, other.len) == 0)
            return refuse(r, "a name is there twice");
    }
    if (m->mark)
        return refuse(r, "a mark is there twice");
    struct counter *c = counter_make(s, hash, n.name, head->now);
    if (!c)
        return no_memory(r);
    c->interval = n.interval;
    c->peak = n.peak;
    c->limit = n.limit;
    c->flags = n.flags & COUNTER_KEEP;
    if (n.consumption == 0) {
        s->idle++;
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
            return refuse(r, "a line of waiters contradicts itself");
        struct line_to_come *lines =
            grown(restoring->lines, restoring->line_count, &restoring->line_room, sizeof(*lines));
        if (!lines)
            return no_memory(r);
        restoring->lines = lines;
        restoring->lines[restoring->line_count++] = line;
    }
    return record_ok(r);
}

/* ---- restoring: what is contended --------------------------------------------------------- */

/* Whether a listed name has that hash, as far as that can be told. */
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
            return refuse(r, "a list of contended names contradicts itself");
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
        return refuse(r, "the scale of what is contended begins before time");
    if (!restore_sketch(s, &k->waiting, r) || !restore_sketch(s, &k->refused, r) ||
        !restore_sketch(s, &k->peaks, r))
        return false;
    for (unsigned i = 0; i < k->peaks.count; i++) {
        if (k->peaks.weight[i] < 1 || k->peaks.weight[i] > UINT32_MAX || k->peaks.error[i] > 0)
            return refuse(r, "a peak that can't be");
    }
    record_leave(r);
    s->peak_interval = peak_interval;
    s->peak_floor = (uint32_t)sketch_bound(&k->peaks);
    return record_ok(r);
}

/* Makes the list of peaks anew, of what was used in this interval. */
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

/* ---- restoring: the table ----------------------------------------------------------------- */

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
        return refuse(r, "there are more names than are announced");
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
    /* Where the clock was set back there may be more of them than are counted. */
    if (idle_now > head->idle_now || idle_before > head->idle_before)
        return refuse(r, "names at 0 are counted wrongly");
    s->names_made = names_made;
    s->idle_interval = head->idle_interval;
    s->idle_now = (uint32_t)idle_now;
    s->idle_before = (uint32_t)idle_before;
    return true;
}

static bool restore_shard(struct table *t, uint32_t number, struct table_head *head,
                          struct record_reader *r)
{
    if (record_get_u32(r) != number)
        return refuse(r, "the parts of the table are not in order");
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
 * Room for what took `used` bytes: twice as much, if the new build should be less thrifty, and the
 * pages of each size that a shard has begun.
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
        return refuse(r, "the table is there twice");
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
        return refuse(r, "the table is not of this kind");
    t->restoring = calloc(1, sizeof(*t->restoring));
    if (!t->restoring || !make_room(t, used, head.names))
        return no_memory(r);
    uint32_t kind, number = 0;
    struct record_reader shard;
    while (record_enter(r, &kind, &shard)) {
        if (kind != STATE_SHARD)
            record_unknown(&shard, kind);
        else if (number == TABLE_SHARDS)
            record_refuse(&shard, "the table has too many parts");
        else if (restore_shard(t, number, &head, &shard))
            number++;
    }
    if (record_ok(r) && (number != TABLE_SHARDS || head.names > 0))
        record_refuse(r, "parts of the table are missing");
    return record_ok(r);
}

bool table_walk_restore(struct table_walk *walk, struct record_reader *r)
{
    *walk = (struct table_walk){.shard = record_get_u32(r), .hash_from = record_get_u64(r)};
    if (walk->shard > TABLE_SHARDS || walk->hash_from > UINT32_MAX + UINT64_C(1))
        record_refuse(r, "a walk is nowhere");
    return record_ok(r);
}

/* ---- restoring: holders ------------------------------------------------------------------- */

/* A holding of that name, after `last` in the holder's list. NULL: the reader has failed. */
static struct holding *restore_holding(struct table *t, struct holder *holder, uint32_t mark,
                                       struct holding *last, struct record_reader *r)
{
    const uint8_t *at = record_take(r, HOLDING_SIZE - 4);
    struct marked *m = at ? find_marked(t, mark, r) : NULL;
    if (!m)
        return NULL;
    uint32_t units = get_u32(at);
    uint64_t since;
    memcpy(&since, at + 8, sizeof(since));
    struct counter *c = counter_at(t, m->counter);
    struct shard *s = shard_of(t, c);
    if (units > m->units) {
        record_refuse(r, "more units are held than are counted");
        return NULL;
    }
    if (holding_find(s, c, holder->id)) {
        record_refuse(r, "somebody holds a name twice");
        return NULL;
    }
    struct holding *h = holding_place(s, c, holder->id);
    if (!h) {
        (void)no_memory(r);
        return NULL;
    }
    m->units -= units;
    c->consumption += units;
    s->units += units;
    holding_begins(h, (struct moment){.mono_ns = (int64_t)le64toh(since)});
    h->units = units;
    h->limit = get_u32(at + 4);
    ref_t ref = arena_ref(&t->arena, h);
    if (last) {
        last->next = ref;
        h->prev = arena_ref(&t->arena, last);
    } else {
        holder->holdings = ref;
    }
    return h;
}

/* The queue of a counter; made if it has none. NULL: no memory. */
static struct queue *queue_for(struct shard *s, struct counter *c)
{
    if (c->queue)
        return queue_of(s, c);
    ref_t ref = slab_alloc(&s->slab, sizeof(struct queue));
    if (!ref)
        return NULL;
    struct queue *q = arena_at(s->slab.arena, ref);
    *q = (struct queue){.counter = arena_ref(s->slab.arena, c), .hash = counter_hash(s, c)};
    c->queue = ref;
    return q;
}

/*
 * A wait for that name, after `last` in the holder's list; counts down *empty when it is the first
 * for a holding without units. NULL: the reader has failed.
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
    struct counter *c = counter_at(t, m->counter);
    struct shard *s = shard_of(t, c);
    struct holding *h = holding_find(s, c, holder->id);
    if (!h || h->waits == TABLE_WAITS_MAX || !units || units > limit ||
        (kind != WAIT_ANY && kind != WAIT_ME) || since_ns < 0 || !seq || seq > s->seq) {
        record_refuse(r, "a wait contradicts itself");
        return NULL;
    }
    struct queue *q = queue_for(s, c);
    ref_t ref = q ? slab_alloc(&s->slab, sizeof(struct waiter)) : 0;
    struct wait_to_come *waits =
        ref ? grown(restoring->waits, restoring->wait_count, &restoring->wait_room, sizeof(*waits))
            : NULL;
    if (!waits) {
        (void)no_memory(r);
        return NULL;
    }
    restoring->waits = waits;
    struct waiter *w = arena_at(&t->arena, ref);
    *w = (struct waiter){
        .tag = holder->tag,
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
        return refuse(r, no_table);
    uint32_t empty = 0; /* holdings so far with neither units nor waits */
    struct holding *held = NULL;
    for (uint32_t mark; (mark = record_get_u32(r)) != 0;) {
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
        record_refuse(r, "somebody holds nothing of a name");
    return record_ok(r);
}

struct holding *holding_restore(struct table *t, struct holder *holder, struct record_reader *r)
{
    uint32_t mark = record_get_u32(r);
    const struct marked *m = record_ok(r) ? find_marked(t, mark, r) : NULL;
    if (!m)
        return NULL;
    struct counter *c = counter_at(t, m->counter);
    struct holding *h = holding_find(shard_of(t, c), c, holder->id);
    if (!h)
        record_refuse(r, "somebody has a lock on what he does not hold");
    return h;
}

/* ---- restoring: the end ------------------------------------------------------------------- */

/* Older first, and one shard after the other. */
static int by_age(const void *a, const void *b)
{
    const struct wait_to_come *v = a, *w = b;
    if (v->shard != w->shard)
        return v->shard < w->shard ? -1 : 1;
    return v->seq < w->seq ? -1 : v->seq > w->seq;
}

/* Puts a waiter at the end of its line. False: no memory. */
static bool join_line(struct table *t, struct wait_to_come *wait)
{
    struct waiter *w = wait->waiter;
    struct shard *s = &t->shards[wait->shard];
    struct queue *q = queue_of(s, counter_at(t, counter_ref_of(&t->arena, w->holding)));
    struct waitq *line = line_of(q, w->kind);
    struct wait_lane *lane = waitq_lane(line, w->limit - w->units);
    if (!lane) {
        ref_t ref = slab_alloc(&s->slab, sizeof(*lane));
        if (!ref)
            return false;
        lane = arena_at(&t->arena, ref);
        waitq_add_lane(line, lane, w->limit - w->units, lane_priority(t, s, wait->seq));
    }
    waitq_join(line, lane, &w->place, wait->seq);
    q->waiting++;
    s->waiting++;
    return true;
}

static bool line_up(struct table *t, struct record_reader *r)
{
    struct restoring *restoring = t->restoring;
    if (restoring->wait_count > 0)
        qsort(restoring->waits, restoring->wait_count, sizeof(*restoring->waits), by_age);
    for (size_t i = 0; i < restoring->wait_count; i++) {
        if (i > 0 && by_age(&restoring->waits[i - 1], &restoring->waits[i]) == 0)
            return refuse(r, "two waiters are equally old");
        if (!join_line(t, &restoring->waits[i]))
            return no_memory(r);
    }
    return true;
}

/* Makes the rings of lines, and looks whether a waiter fits. */
static bool restore_rings(struct table *t, struct record_reader *r)
{
    struct restoring *restoring = t->restoring;
    size_t waiting = 0;
    for (size_t i = 0; i < restoring->line_count; i++) {
        const struct line_to_come *line = &restoring->lines[i];
        const struct counter *c = counter_at(t, line->counter);
        struct shard *s = shard_of(t, c);
        struct queue *q = c->queue ? queue_of(s, c) : NULL;
        if (!q || q->waiting != line->waiting)
            return refuse(r, "waiters are missing in a line, or one too many");
        if (q->newer || q->older || s->newest == c->queue)
            return refuse(r, "a line is there twice");
        if (waitq_oldest(&q->any, c->consumption) || waitq_oldest(&q->me, c->consumption))
            return refuse(r, "somebody waits who would not have to");
        contention_line_restored(s, q, line->since_ns);
        waiting += q->waiting;
    }
    if (waiting != restoring->wait_count)
        return refuse(r, "a line is missing");
    return true;
}

bool table_restore_done(struct table *t, struct record_reader *r)
{
    if (!t->restoring)
        return refuse(r, no_table);
    for (uint32_t i = 0; i <= t->restoring->mask; i++) {
        if (t->restoring->marked[i].units > 0)
            return refuse(r, "units are counted that nobody holds");
    }
    if (!line_up(t, r) || !restore_rings(t, r))
        return false;
    restoring_free(t);
    arena_limit(&t->arena);
    return true;
}
