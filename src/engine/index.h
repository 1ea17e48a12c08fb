/*
 * index.h - a hash table of refs that grows and shrinks one bucket at a time (linear hashing).
 *
 * A bucket is one cache line: ten refs, sixteen bits of each one's hash, and a ref to a further
 * bucket where ten were not enough. So a look-up that finds nothing costs one line, and one that
 * finds costs that line and the object's own. Each insertion that makes the table too full splits
 * one bucket, and each removal that leaves it too empty joins two: no call ever pays for a resize.
 * Buckets lie in pages of 256; an empty bucket is all zeros, as fresh pages are.
 *
 * Walking: entries are visited in the order of their bit-reversed hashes. A split or a join only
 * moves entries between neighbours in that order, so a walk that notes how far it came sees every
 * entry that stays exactly once, however the table changes between its steps.
 *
 * Locks: none of its own; an index is used under its shard's lock.
 */
#ifndef ENGINE_INDEX_H
#define ENGINE_INDEX_H

#include "engine/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_SLOTS   10
#define INDEX_SEGMENT (ARENA_PAGE / 64) /* buckets in a page */

struct index_bucket {
    ref_t ref[INDEX_SLOTS]; /* in use from the front; 0: free */
    uint16_t tag[INDEX_SLOTS];
    ref_t more; /* a further bucket, in a slab; 0: none */
};
_Static_assert(sizeof(struct index_bucket) == 64, "a bucket is a cache line");

/* The hash of an entry: what it was inserted with. */
typedef uint32_t index_hash_fn(const struct arena *arena, ref_t entry);

/* In which pages the buckets lie, 256 to a page. */
struct index_pages {
    struct index_pages *outgrown; /* the one before it; stays for index_prefetch */
    uint32_t room;
    _Atomic uint32_t number[];
};

/* Atomics are for index_prefetch: it looks without the lock. */
struct index {
    struct slab *slab;
    index_hash_fn *hash_of;
    _Atomic(struct index_pages *) pages;
    _Atomic uint32_t buckets;
    _Atomic uint32_t mask; /* the smallest 2^n - 1 that is not below buckets - 1 */
    uint32_t buckets_min;
    size_t entries;
    size_t overflowing; /* of them, those that lie in further buckets */
};

/*
 * Starts an empty index of at least one bucket with room for about `entries` entries. Further
 * buckets come from `slab`. False: no memory.
 */
bool index_init(struct index *ix, struct slab *slab, index_hash_fn *hash_of,
                size_t entries) MUST_USE;
/* Gives up the index's own memory; the entries are the caller's, pages go with the arena. */
void index_destroy(struct index *ix);

/* Inserts `entry`, which is not in it yet. False: no memory, and nothing has changed. */
bool index_insert(struct index *ix, uint32_t hash, ref_t entry) MUST_USE;
/* Removes `entry`, which is in it. Never allocates. */
void index_remove(struct index *ix, uint32_t hash, ref_t entry);

/*
 * Joins buckets, at most `joins` pairs, while there are too many for what is left in them. Removing
 * does so too, but where entries go bucket by bucket the last ones may have been too full to join.
 */
void index_trim(struct index *ix, unsigned joins);

/* The page of the first bucket of each 256 is `segment` of these. */
static inline struct index_bucket *
index_segment_at(const struct index *ix, const struct index_pages *pages, uint32_t segment)
{
    uint32_t page = atomic_load_explicit(&pages->number[segment], memory_order_relaxed);
    return arena_page_at(ix->slab->arena, page);
}

static inline struct index_bucket *index_bucket_at(const struct index *ix, uint32_t number)
{
    const struct index_pages *pages = atomic_load_explicit(&ix->pages, memory_order_relaxed);
    return &index_segment_at(ix, pages, number / INDEX_SEGMENT)[number % INDEX_SEGMENT];
}

static inline uint32_t index_buckets(const struct index *ix)
{
    return atomic_load_explicit(&ix->buckets, memory_order_relaxed);
}

static inline uint32_t index_mask(const struct index *ix)
{
    return atomic_load_explicit(&ix->mask, memory_order_relaxed);
}

static inline uint32_t index_bucket_of(const struct index *ix, uint32_t hash)
{
    uint32_t mask = index_mask(ix), number = hash & mask;
    return number < index_buckets(ix) ? number : number & (mask >> 1);
}

/* The candidates of one hash, one after the other. The index must not change meanwhile. */
struct index_probe {
    const struct index_bucket *bucket;
    uint16_t tag;
    unsigned at;
};

/* The next entry whose tag matches; 0 when there is none left. The caller compares the rest. */
static inline ref_t index_next(const struct index *ix, struct index_probe *probe)
{
    for (;;) {
        const struct index_bucket *b = probe->bucket;
        for (unsigned i = probe->at; i < INDEX_SLOTS && b->ref[i]; i++) {
            if (b->tag[i] == probe->tag) {
                probe->at = i + 1;
                return b->ref[i];
            }
        }
        if (likely(!b->more))
            break;
        probe->bucket = arena_at(ix->slab->arena, b->more);
        probe->at = 0;
    }
    probe->at = INDEX_SLOTS;
    return 0;
}

/* The first entry that may have `hash`; 0 when none has. */
static inline ref_t index_first(const struct index *ix, uint32_t hash, struct index_probe *probe)
{
    probe->bucket = index_bucket_at(ix, index_bucket_of(ix, hash));
    probe->tag = (uint16_t)(hash >> 16);
    probe->at = 0;
    return index_next(ix, probe);
}

/*
 * Prefetch, for a hash that is looked up soon; called without the lock. First index_prefetch has
 * its bucket fetched from memory. When that has had time to come, index_guess says what the search
 * will come to in it: the entry, if it is there, or else a further bucket; 0: nothing. It is a
 * guess, as others may be changing the index: all that may be done with it is to have it fetched,
 * too.
 */
static inline const struct index_bucket *index_prefetch(const struct index *ix, uint32_t hash)
{
    const struct index_pages *pages = atomic_load_explicit(&ix->pages, memory_order_acquire);
    uint32_t number = index_bucket_of(ix, hash), segment = number / INDEX_SEGMENT;
    /* The numbers of buckets and of pages may be of different times. */
    segment = segment < pages->room ? segment : 0;
    const struct index_bucket *b = index_segment_at(ix, pages, segment) + number % INDEX_SEGMENT;
    __builtin_prefetch(b);
    return b;
}
ref_t index_guess(const struct index_bucket *b, uint32_t hash);

/* How far a walk has come: the next bit-reversed hash, and the next ref among equal hashes. */
struct index_walk {
    uint64_t hash_from; /* up to 2^32: the end */
    ref_t ref_from;
};

/*
 * The next entry of a walk, which is not moved on: call index_walk_past with it to do so. Looks at
 * no more than *budget buckets (at least 1), counting it down; each entry found counts as one. 0:
 * none found; the walk is over when index_walk_done says so, else the budget is spent.
 */
ref_t index_walk_next(const struct index *ix, struct index_walk *walk, unsigned *budget);
/* Moves the walk past `entry`, of hash `hash`. */
void index_walk_past(struct index_walk *walk, uint32_t hash, ref_t entry);
/*
 * To be called before the index is left to others: where no entry of the hash last seen is left to
 * visit, moves the walk past that hash, so that one of equal hash made meanwhile is not visited.
 */
void index_walk_rest(const struct index *ix, struct index_walk *walk);
static inline bool index_walk_done(const struct index_walk *walk)
{
    return walk->hash_from > UINT32_MAX;
}

#endif
