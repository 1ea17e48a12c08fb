/*
 * index.h - a hash table of refs that grows and shrinks one bucket at a time (linear hashing).
 *
 * A bucket is one cache line: ten refs, sixteen hash bits for each, and a ref to an overflow
 * bucket. So a failed look-up reads one cache line, a successful one reads that line and the
 * object's own. An insertion that makes the table too full splits one bucket; a removal that leaves
 * it too empty joins two. No single call pays for a resize. A page has 256 buckets. An empty bucket
 * is all zeros, like a new page.
 *
 * Walks visit entries in the order of their bit-reversed hashes. A split or join moves entries only
 * between neighbours in that order. So a walk that remembers its position visits each entry that
 * stays exactly once, even if the table changes between steps.
 *
 * Locks: none of its own; the caller holds the lock of the index's shard.
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
    ref_t ref[INDEX_SLOTS]; /* used from the front; 0: free */
    uint16_t tag[INDEX_SLOTS];
    ref_t more; /* the overflow bucket, in a slab; 0: none */
};
_Static_assert(sizeof(struct index_bucket) == 64, "a bucket is a cache line");

/* Returns the hash with which an entry was inserted. */
typedef uint32_t index_hash_fn(const struct arena *arena, ref_t entry);

/* The pages with the buckets, 256 to a page. */
struct index_pages {
    struct index_pages *outgrown; /* the smaller array before; index_prefetch may read it */
    uint32_t room;
    _Atomic uint32_t number[];
};

/* Some fields are atomic because index_prefetch reads them without the lock. */
struct index {
    struct slab *slab;
    index_hash_fn *hash_of;
    _Atomic(struct index_pages *) pages;
    _Atomic uint32_t buckets;
    _Atomic uint32_t mask; /* the smallest 2^n - 1 that is at least buckets - 1 */
    uint32_t buckets_min;
    size_t entries;
    size_t overflowing; /* entries in overflow buckets */
};

/*
 * Makes an empty index with at least one bucket and room for about `entries` entries. Overflow
 * buckets come from `slab`. Returns false when out of memory.
 */
bool index_init(struct index *ix, struct slab *slab, index_hash_fn *hash_of,
                size_t entries) MUST_USE;
/* Frees the index's own memory. The caller frees the entries; the arena frees the pages. */
void index_destroy(struct index *ix);

/*
 * Makes room in an empty index, so that it need not grow for about `entries` entries. When memory
 * does not suffice, it makes less room.
 */
void index_widen(struct index *ix, size_t entries);

/*
 * Inserts `entry`, which must not be in the index. Returns false, and changes nothing, when out of
 * memory.
 */
bool index_insert(struct index *ix, uint32_t hash, ref_t entry) MUST_USE;
/* Removes `entry`, which must be in the index. Never allocates. */
void index_remove(struct index *ix, uint32_t hash, ref_t entry);

/*
 * Joins up to `joins` pairs of buckets while there are too many for the entries left. index_remove
 * does so too, but when entries are removed bucket by bucket, the last buckets may have been too
 * full to join.
 */
void index_trim(struct index *ix, unsigned joins);

/* The first bucket of segment `segment`; a segment is a page of 256 buckets. */
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

/* The next bucket of a chain; NULL: none. */
static inline struct index_bucket *index_further(const struct index *ix,
                                                 const struct index_bucket *b)
{
    return b->more ? arena_at(ix->slab->arena, b->more) : NULL;
}

/* A search for one hash. The index must not change during the search. */
struct index_probe {
    const struct index_bucket *bucket;
    uint16_t tag;
    unsigned at;
};

/*
 * Returns the next entry whose tag matches; 0 when there is no more. The caller compares the names.
 */
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

/* Returns the first entry that may have `hash`; 0 when none has. */
static inline ref_t index_first(const struct index *ix, uint32_t hash, struct index_probe *probe)
{
    probe->bucket = index_bucket_at(ix, index_bucket_of(ix, hash));
    probe->tag = (uint16_t)(hash >> 16);
    probe->at = 0;
    return index_next(ix, probe);
}

/*
 * Prefetch for a look-up that follows soon; needs no lock. First, index_prefetch starts to fetch
 * the bucket. When the bucket has had time to arrive, index_guess returns what the look-up will
 * probably read next: the entry, or an overflow bucket; 0: nothing. It is a guess because other
 * threads may change the index, so use the result only for another prefetch.
 */
static inline const struct index_bucket *index_prefetch(const struct index *ix, uint32_t hash)
{
    const struct index_pages *pages = atomic_load_explicit(&ix->pages, memory_order_acquire);
    uint32_t number = index_bucket_of(ix, hash), segment = number / INDEX_SEGMENT;
    /* Another thread may have changed one of the two values since the other was read. */
    segment = segment < pages->room ? segment : 0;
    const struct index_bucket *b = index_segment_at(ix, pages, segment) + number % INDEX_SEGMENT;
    __builtin_prefetch(b);
    return b;
}
ref_t index_guess(const struct index_bucket *b, uint32_t hash);

/* The position of a walk: the next bit-reversed hash, and the next ref among equal hashes. */
struct index_walk {
    uint64_t hash_from; /* 2^32 at the end */
    ref_t ref_from;
};

/*
 * Returns the next entry and moves the walk past it. Looks at no more than *budget buckets (at
 * least 1) and counts them off; each entry found counts as one. Returns 0 when it found none:
 * either index_walk_done is true, or the budget is used up.
 */
ref_t index_walk_next(const struct index *ix, struct index_walk *walk, unsigned *budget);
/* Moves the walk back to the entry that it has just returned. */
static inline void index_walk_back(struct index_walk *walk)
{
    walk->ref_from--;
}
/*
 * Call this before releasing the shard's lock. When the walk has visited all entries of the last
 * hash, this moves it past that hash, so the walk does not visit an entry of equal hash inserted
 * later.
 */
void index_walk_rest(const struct index *ix, struct index_walk *walk);
static inline bool index_walk_done(const struct index_walk *walk)
{
    return walk->hash_from > UINT32_MAX;
}

#endif
