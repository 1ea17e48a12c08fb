/*
 * sketch.h - keeps the names of highest weight among any number of names, in fixed memory.
 *
 * A list has up to SKETCH_ENTRIES names with weights. Use one of two functions for a list:
 *
 * - sketch_add, when weights grow by amounts: Space-Saving (Metwally et al.). A name that is not on
 *   the full list replaces the lightest entry: its weight is the old weight plus the amount, its
 *   error is the old weight. So the sum of all weights is the sum of all amounts. A weight is never
 *   too low, and too high by at most its error. A name that is not listed has at most the least
 *   weight listed.
 * - sketch_raise, when weights rise to given values: exact. A name that is not on the full list
 *   replaces the lightest entry if it is heavier.
 *
 * A name is identified by its 64-bit hash, its length and its first SKETCH_NAME_MAX bytes.
 *
 * Locks: none of its own. Nothing here allocates. Zero-initialised: empty.
 */
#ifndef ENGINE_SKETCH_H
#define ENGINE_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKETCH_ENTRIES  16
#define SKETCH_NAME_MAX 255

struct sketch_key {
    uint64_t hash;
    const void *data; /* the whole name; only the first bytes are kept */
    size_t len;       /* at most UINT32_MAX */
};

struct sketch_name {
    uint32_t len;
    uint8_t kept[SKETCH_NAME_MAX];
};

struct sketch {
    uint64_t hash[SKETCH_ENTRIES];
    double weight[SKETCH_ENTRIES];
    double error[SKETCH_ENTRIES];
    struct sketch_name name[SKETCH_ENTRIES];
    unsigned count;
};

/* How many bytes of a name of this length are kept. */
static inline size_t sketch_kept(size_t len)
{
    return len < SKETCH_NAME_MAX ? len : SKETCH_NAME_MAX;
}

/* Returns the index of a name's entry; `count` when it is not listed. */
unsigned sketch_find(const struct sketch *sketch, const struct sketch_key *key);

/* Adds `amount`, at least 0, to a name's weight. */
void sketch_add(struct sketch *sketch, const struct sketch_key *key, double amount);

/* Returns the index of the first entry with this hash; `count` when there is none. */
static inline unsigned sketch_find_hash(const struct sketch *sketch, uint64_t hash)
{
    unsigned i = 0;
    while (i < sketch->count && sketch->hash[i] != hash)
        i++;
    return i;
}

/*
 * True when a name of that hash and length is listed with at least `weight`: then sketch_raise
 * would change nothing. Cheaper than sketch_raise. Ignores the possibility that two names have the
 * same 64-bit hash; the hash key is secret.
 */
static inline bool sketch_has(const struct sketch *sketch, uint64_t hash, size_t len, double weight)
{
    unsigned i = sketch_find_hash(sketch, hash);
    return i < sketch->count && sketch->weight[i] >= weight && sketch->name[i].len == len;
}

/* Raises the weight of a name to at least `weight`. */
void sketch_raise(struct sketch *sketch, const struct sketch_key *key, double weight);

/*
 * Upper bound for names that are not listed: the least weight listed, or 0 while the list is not
 * full.
 */
double sketch_bound(const struct sketch *sketch);

/* Multiplies all weights and errors by `factor`, at least 0. Entries that reach 0 are removed. */
void sketch_scale(struct sketch *sketch, double factor);

/* Removes all entries. */
void sketch_clear(struct sketch *sketch);

/* For tests: aborts when the list is inconsistent. */
void sketch_check(const struct sketch *sketch);

#endif
