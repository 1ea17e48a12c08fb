/*
 * index.c - linear hashing with buckets of one cache line (see index.h).
 *
 * With n buckets, 2^k <= n - 1 < 2^(k+1): an entry lies in the bucket of its k+1 low bits if there
 * is one, else in that of its k low bits. Splitting makes bucket n from bucket n without its
 * highest bit; joining undoes the last split.
 */
#include "engine/index.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_BUCKETS (ARENA_PAGE / sizeof(struct index_bucket))

_Static_assert(sizeof(struct index_bucket) == 64, "a bucket is a cache line");
_Static_assert(SEGMENT_BUCKETS == 256, "index.h counts on it");

/* Entries per bucket: above the first a bucket is split, below the second two are joined. */
#define FULL  6
#define EMPTY 2

#define BUCKETS_MAX (UINT32_C(1) << 31)

static uint16_t tag_of(uint32_t hash)
{
    return (uint16_t)(hash >> 16);
}

static void set_buckets(struct index *ix, uint32_t buckets)
{
    ix->buckets = buckets;
    ix->mask = buckets > 1 ? UINT32_MAX >> __builtin_clz(buckets - 1) : 0;
}

/* Makes segment `number`, the next one, exist. False: no memory. */
static bool add_segment(struct index *ix, uint32_t number)
{
    if (number == ix->segments_room) {
        uint32_t room = ix->segments_room ? ix->segments_room * 2 : 4;
        uint32_t *segments = realloc(ix->segments, room * sizeof(*segments));
        if (!segments)
            return false;
        ix->segments = segments;
        ix->segments_room = room;
    }
    uint32_t page = arena_page_take(ix->slab->arena);
    if (!page)
        return false;
    ix->segments[number] = page;
    return true;
}

bool index_init(struct index *ix, struct slab *slab, index_hash_fn *hash_of, size_t entries)
{
    CHECK(entries / FULL < BUCKETS_MAX);
    *ix = (struct index){.slab = slab, .hash_of = hash_of};
    ix->buckets_min = (uint32_t)(entries / FULL) + 1;
    for (uint32_t i = 0; i <= (ix->buckets_min - 1) / SEGMENT_BUCKETS; i++) {
        if (!add_segment(ix, i)) {
            while (i > 0)
                arena_page_give(slab->arena, ix->segments[--i]);
            index_destroy(ix);
            return false;
        }
    }
    set_buckets(ix, ix->buckets_min);
    return true;
}

void index_destroy(struct index *ix)
{
    free(ix->segments);
    *ix = (struct index){0};
}

static struct index_bucket *further_bucket(const struct index *ix, ref_t ref)
{
    return arena_at(ix->slab->arena, ref);
}

/*
 * Puts an entry into the chain that begins at `b`. A further bucket comes from the list *spare, or
 * else from the slab. False: no memory for it.
 */
static bool put(struct index *ix, struct index_bucket *b, uint16_t tag, ref_t entry, ref_t *spare)
{
    bool further = false;
    while (b->ref[INDEX_SLOTS - 1] && b->more) {
        b = further_bucket(ix, b->more);
        further = true;
    }
    unsigned i = 0;
    while (i < INDEX_SLOTS && b->ref[i])
        i++;
    if (i == INDEX_SLOTS) {
        ref_t more = *spare;
        if (more)
            *spare = further_bucket(ix, more)->more;
        else if (!(more = slab_alloc(ix->slab, sizeof(*b))))
            return false;
        b->more = more;
        b = further_bucket(ix, more);
        memset(b, 0, sizeof(*b));
        further = true;
        i = 0;
    }
    b->ref[i] = entry;
    b->tag[i] = tag;
    ix->overflowing += further;
    return true;
}

/*
 * Empties the chain at `from` and puts its entries where they belong now. It can't run out of
 * memory: no more further buckets are needed than were, and these are given back only at the end.
 * (Given back at once, their page might be another shard's before it is needed again.)
 */
static void redistribute(struct index *ix, struct index_bucket *from)
{
    struct index_bucket copy = *from;
    ref_t spare = 0;
    memset(from, 0, sizeof(*from));
    for (bool further = false;; further = true) {
        for (unsigned i = 0; i < INDEX_SLOTS && copy.ref[i]; i++) {
            uint32_t hash = ix->hash_of(ix->slab->arena, copy.ref[i]);
            struct index_bucket *to = index_bucket_at(ix, index_bucket_of(ix, hash));
            CHECK(put(ix, to, copy.tag[i], copy.ref[i], &spare));
            ix->overflowing -= further;
        }
        if (!copy.more)
            break;
        ref_t more = copy.more;
        copy = *further_bucket(ix, more);
        further_bucket(ix, more)->more = spare;
        spare = more;
    }
    while (spare) {
        ref_t more = spare;
        spare = further_bucket(ix, more)->more;
        slab_free(ix->slab, more);
    }
}

static void split(struct index *ix)
{
    uint32_t number = ix->buckets;
    if (number == BUCKETS_MAX)
        return;
    if (number % SEGMENT_BUCKETS == 0 && !add_segment(ix, number / SEGMENT_BUCKETS))
        return; /* it goes on, more densely */
    set_buckets(ix, number + 1);
    redistribute(ix, index_bucket_at(ix, number & (ix->mask >> 1)));
}

/*
 * Joins the last bucket to the one it was split from. False: that would take a further bucket, or
 * there are not too many.
 */
static bool join(struct index *ix)
{
    if (ix->buckets <= ix->buckets_min || ix->entries >= (size_t)ix->buckets * EMPTY)
        return false;
    uint32_t last = ix->buckets - 1;
    struct index_bucket *from = index_bucket_at(ix, last);
    struct index_bucket *to = index_bucket_at(ix, last & (ix->mask >> 1));
    unsigned n = 0, m = 0;
    while (n < INDEX_SLOTS && from->ref[n])
        n++;
    while (m < INDEX_SLOTS && to->ref[m])
        m++;
    if (from->more || to->more || n + m > INDEX_SLOTS)
        return false;
    set_buckets(ix, last);
    redistribute(ix, from);
    if (last % SEGMENT_BUCKETS == 0)
        arena_page_give(ix->slab->arena, ix->segments[last / SEGMENT_BUCKETS]);
    return true;
}

void index_trim(struct index *ix, unsigned joins)
{
    while (joins > 0 && join(ix))
        joins--;
}

bool index_insert(struct index *ix, uint32_t hash, ref_t entry)
{
    ref_t none = 0;
    if (!put(ix, index_bucket_at(ix, index_bucket_of(ix, hash)), tag_of(hash), entry, &none))
        return false;
    ix->entries++;
    if (ix->entries > (size_t)ix->buckets * FULL)
        split(ix);
    return true;
}

void index_remove(struct index *ix, uint32_t hash, ref_t entry)
{
    struct index_bucket *first = index_bucket_at(ix, index_bucket_of(ix, hash));
    struct index_bucket *found = NULL, *before_last = NULL, *last;
    unsigned at = 0;
    for (struct index_bucket *b = first;; b = arena_at(ix->slab->arena, b->more)) {
        for (unsigned i = 0; !found && i < INDEX_SLOTS && b->ref[i]; i++) {
            if (b->ref[i] == entry) {
                found = b;
                at = i;
            }
        }
        last = b;
        if (!b->more)
            break;
        before_last = b;
    }
    CHECK(found);
    /* The last entry of the chain fills the gap. */
    unsigned end = 1;
    while (end < INDEX_SLOTS && last->ref[end])
        end++;
    found->ref[at] = last->ref[end - 1];
    found->tag[at] = last->tag[end - 1];
    last->ref[end - 1] = 0;
    last->tag[end - 1] = 0;
    ix->overflowing -= last != first;
    if (end == 1 && before_last) {
        slab_free(ix->slab, before_last->more);
        before_last->more = 0;
    }
    ix->entries--;
    (void)join(ix);
}

static uint32_t reverse_bits(uint32_t v)
{
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(v);
}

/* The first bit-reversed hash behind those that fall into the same bucket as `hash`. */
static uint64_t end_of_bucket(const struct index *ix, uint32_t hash)
{
    /* A bucket whose sibling is not there yet holds what both would: one bit fewer decides. */
    uint32_t sibling = index_bucket_of(ix, hash) | (ix->mask ^ ix->mask >> 1);
    uint32_t mask = sibling < ix->buckets ? ix->mask : ix->mask >> 1;
    unsigned bits = (unsigned)__builtin_popcount(mask);
    uint64_t width = UINT64_C(1) << (32 - bits);
    return ((uint64_t)reverse_bits(hash & mask)) + width;
}

ref_t index_walk_next(const struct index *ix, struct index_walk *walk, unsigned *budget)
{
    while (!index_walk_done(walk) && *budget > 0) {
        --*budget;
        uint32_t hash = reverse_bits((uint32_t)walk->hash_from);
        uint64_t best_hash = UINT64_MAX;
        ref_t best = 0;
        const struct index_bucket *b = index_bucket_at(ix, index_bucket_of(ix, hash));
        for (;;) {
            for (unsigned i = 0; i < INDEX_SLOTS && b->ref[i]; i++) {
                ref_t ref = b->ref[i];
                uint64_t at = reverse_bits(ix->hash_of(ix->slab->arena, ref));
                bool ahead =
                    at > walk->hash_from || (at == walk->hash_from && ref >= walk->ref_from);
                if (ahead && (at < best_hash || (at == best_hash && ref < best))) {
                    best_hash = at;
                    best = ref;
                }
            }
            if (!b->more)
                break;
            b = arena_at(ix->slab->arena, b->more);
        }
        if (best)
            return best;
        walk->hash_from = end_of_bucket(ix, hash);
        walk->ref_from = 0;
    }
    return 0;
}

void index_walk_past(struct index_walk *walk, uint32_t hash, ref_t entry)
{
    walk->hash_from = reverse_bits(hash);
    walk->ref_from = entry + 1;
}

void index_walk_rest(const struct index *ix, struct index_walk *walk)
{
    if (!walk->ref_from || index_walk_done(walk))
        return;
    uint32_t hash = reverse_bits((uint32_t)walk->hash_from);
    struct index_probe probe;
    for (ref_t r = index_first(ix, hash, &probe); r; r = index_next(ix, &probe)) {
        if (r >= walk->ref_from && ix->hash_of(ix->slab->arena, r) == hash)
            return;
    }
    walk->hash_from++;
    walk->ref_from = 0;
}
