/*
 * sketch.h - the names of highest weight among any number of them, in fixed memory.
 *
 * A list of SKETCH_ENTRIES names with their weights, kept by one of two rules:
 *
 * - sketch_add, for weights that grow by amounts: Space-Saving (Metwally et al.). Where a name is
 *   not on the full list, it takes the place, the weight and with it an error of the lightest. So
 *   the sum of all weights is that of all amounts; a weight is never too low, and too high by at
 *   most its error; a name that is not listed has at most the least weight listed.
 * - sketch_raise, for weights that only rise to given values: exact. A name that is not on the full
 *   list takes the place of the lightest if it is heavier.
 *
 * A name is its 64-bit hash, its length and its first SKETCH_NAME_MAX bytes.
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
    const void *data; /* all of the name, though no more than its first bytes are kept */
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

/* The number of the entry of that name; `count` when it is not listed. */
unsigned sketch_find(const struct sketch *sketch, const struct sketch_key *key);

/* Adds an amount, at least 0, to a name's weight. */
void sketch_add(struct sketch *sketch, const struct sketch_key *key, double amount);

/*
 * Whether a name of that hash and length is listed with at least `weight`: a quick way to see that
 * sketch_raise would change nothing. (That two names agree in 64 secret bits it leaves out of
 * account.)
 */
static inline bool sketch_has(const struct sketch *sketch, uint64_t hash, size_t len, double weight)
{
    unsigned i = 0;
    while (i < sketch->count && sketch->hash[i] != hash)
        i++;
    return i < sketch->count && sketch->weight[i] >= weight && sketch->name[i].len == len;
}

/* The weight of a name is at least `weight`. */
void sketch_raise(struct sketch *sketch, const struct sketch_key *key, double weight);

/* The most that a name not listed has: the least weight listed, or 0 while the list is not full. */
double sketch_bound(const struct sketch *sketch);

/* Multiplies all weights and errors by `factor`, at least 0; what comes to 0 is forgotten. */
void sketch_scale(struct sketch *sketch, double factor);

/* Forgets all. */
void sketch_clear(struct sketch *sketch);

/* Checks that it is whole, and aborts where it is not: for tests. */
void sketch_check(const struct sketch *sketch);

#endif
