/*
 * tree.h - an ordered set of items that have their node inside, as a treap: a search tree whose
 * nodes also form a heap by random priorities, so its depth stays near the logarithm of its size.
 *
 * Adding before the first item, and removing the first, take a constant time on average. All other
 * changes and look-ups take logarithmic time. Nothing is allocated.
 *
 * One thread at a time. The owner of the set has a lock for it.
 */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of an item. Zero-initialised: in no set. */
struct tree_node {
    struct tree_node *left, *right, *parent;
    uint32_t priority; /* 0: in no set */
};

struct tree {
    struct tree_node *root, *first;
    /* Orders two items: less than 0, or more. Never 0 for two items of one set. */
    int (*compare)(const struct tree_node *a, const struct tree_node *b);
    uint32_t random;
};

/* Makes an empty set. `seed` may be any number. */
void tree_init(struct tree *tree,
               int (*compare)(const struct tree_node *a, const struct tree_node *b), uint32_t seed);

static inline bool tree_has(const struct tree_node *node)
{
    return node->priority != 0;
}

/* Adds an item that is in no set. */
void tree_add(struct tree *tree, struct tree_node *node);
/* Removes an item of this set. */
void tree_remove(struct tree *tree, struct tree_node *node);

/* The first item, and the item after `node`; NULL: none. */
static inline struct tree_node *tree_first(const struct tree *tree)
{
    return tree->first;
}
struct tree_node *tree_next(const struct tree_node *node);

/*
 * The first item that does not come before `key`; NULL: none. `compare_key` orders an item and the
 * key: less than 0 if the item comes before it, 0 if they are equal.
 */
struct tree_node *tree_from(const struct tree *tree, const void *key,
                            int (*compare_key)(const struct tree_node *node, const void *key));

#endif
