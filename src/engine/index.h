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

#define INDEX_SLOTS 10

struct index_bucket {
    ref_t ref[INDEX_SLOTS]; /* in use from the front; 0: free */
    uint16_t tag[INDEX_SLOTS];
    ref_t more; /* a further bucket, in a slab; 0: none */
};

/* The hash of an entry: what it was inserted with. */
typedef uint32_t index_hash_fn(const struct arena *arena, ref_t entry);

struct index {
    struct slab *slab;
    index_hash_fn *hash_of;
    uint32_t *segments; /* page numbers: each page holds 256 buckets */
    uint32_t segments_room;
    uint32_t buckets, buckets_min;
    uint32_t mask; /* the smallest 2^n - 1 that is not below buckets - 1 */
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

/* The candidates of one hash, one after the other. The index must not change meanwhile. */
struct index_probe {
    const struct index_bucket *bucket;
    uint16_t tag;
    unsigned at;
};

static inline struct index_bucket *index_bucket_at(const struct index *ix, uint32_t number)
{
    struct index_bucket *segment = arena_page_at(ix->slab->arena, ix->segments[number / 256]);
    return &segment[number % 256];
}

static inline uint32_t index_bucket_of(const struct index *ix, uint32_t hash)
{
    uint32_t number = hash & ix->mask;
    return number < ix->buckets ? number : number & (ix->mask >> 1);
}

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
