/* sketch.c - see sketch.h. The lists are short, so all searches are linear. */
#include "engine/sketch.h"

#include "base/check.h"

#include <stdbool.h>
#include <string.h>

static bool is_entry(const struct sketch *sketch, unsigned i, const struct sketch_key *key)
{
    return sketch->hash[i] == key->hash && sketch->name[i].len == key->len &&
           memcmp(sketch->name[i].kept, key->data, sketch_kept(key->len)) == 0;
}

unsigned sketch_find(const struct sketch *sketch, const struct sketch_key *key)
{
    unsigned i = 0;
    while (i < sketch->count && !is_entry(sketch, i, key))
        i++;
    return i;
}

/* Returns the index of the lightest entry. The list must not be empty. */
static unsigned lightest(const struct sketch *sketch)
{
    unsigned least = 0;
    for (unsigned i = 1; i < sketch->count; i++) {
        if (sketch->weight[i] < sketch->weight[least])
            least = i;
    }
    return least;
}

static void set_entry(struct sketch *sketch, unsigned i, const struct sketch_key *key,
                      double weight, double error)
{
    sketch->hash[i] = key->hash;
    sketch->weight[i] = weight;
    sketch->error[i] = error;
    sketch->name[i].len = (uint32_t)key->len;
    memcpy(sketch->name[i].kept, key->data, sketch_kept(key->len));
}

void sketch_add(struct sketch *sketch, const struct sketch_key *key, double amount)
{
    unsigned i = sketch_find(sketch, key);
    if (i < sketch->count) {
        sketch->weight[i] += amount;
    } else if (i < SKETCH_ENTRIES) {
        sketch->count++;
        set_entry(sketch, i, key, amount, 0);
    } else {
        i = lightest(sketch);
        set_entry(sketch, i, key, sketch->weight[i] + amount, sketch->weight[i]);
    }
}

void sketch_raise(struct sketch *sketch, const struct sketch_key *key, double weight)
{
    unsigned i = sketch_find(sketch, key);
    if (i < sketch->count) {
        if (sketch->weight[i] < weight)
            sketch->weight[i] = weight;
        return;
    }
    if (i < SKETCH_ENTRIES)
        sketch->count++;
    else if (sketch->weight[i = lightest(sketch)] >= weight)
        return;
    set_entry(sketch, i, key, weight, 0);
}

double sketch_bound(const struct sketch *sketch)
{
    return sketch->count < SKETCH_ENTRIES ? 0 : sketch->weight[lightest(sketch)];
}

void sketch_scale(struct sketch *sketch, double factor)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < sketch->count; i++) {
        double weight = sketch->weight[i] * factor;
        if (weight <= 0)
            continue;
        sketch->hash[kept] = sketch->hash[i];
        sketch->weight[kept] = weight;
        sketch->error[kept] = sketch->error[i] * factor;
        if (kept != i)
            sketch->name[kept] = sketch->name[i];
        kept++;
    }
    sketch->count = kept;
}

void sketch_clear(struct sketch *sketch)
{
    sketch->count = 0;
}

void sketch_check(const struct sketch *sketch)
{
    CHECK(sketch->count <= SKETCH_ENTRIES);
    for (unsigned i = 0; i < sketch->count; i++) {
        CHECK(sketch->weight[i] >= 0 && sketch->error[i] >= 0);
        CHECK(sketch->error[i] <= sketch->weight[i]);
        CHECK(sketch->name[i].len > 0);
        for (unsigned k = 0; k < i; k++)
            CHECK(sketch->hash[k] != sketch->hash[i] ||
                  sketch->name[k].len != sketch->name[i].len ||
                  memcmp(sketch->name[k].kept, sketch->name[i].kept,
                         sketch_kept(sketch->name[i].len)) != 0);
    }
}
