/* tree.c - see tree.h. */
#include "base/tree.h"

#include "base/check.h"

void tree_init(struct tree *tree,
               int (*compare)(const struct tree_node *a, const struct tree_node *b), uint32_t seed)
{
    *tree = (struct tree){.compare = compare, .random = seed * 2654435761u | 1};
}

/* The next priority: a random number but 0 (xorshift). */
static uint32_t next_priority(struct tree *tree)
{
    uint32_t x = tree->random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    tree->random = x;
    return x;
}

/* The pointer that leads to `node`. */
static struct tree_node **link_to(struct tree *tree, const struct tree_node *node)
{
    struct tree_node *parent = node->parent;
    if (!parent)
        return &tree->root;
    return parent->left == node ? &parent->left : &parent->right;
}

/* Makes `node` take the place of its parent, which becomes its child. */
static void rise(struct tree *tree, struct tree_node *node)
{
    struct tree_node *parent = node->parent, *moved;
    *link_to(tree, parent) = node;
    node->parent = parent->parent;
    parent->parent = node;
    if (parent->left == node) {
        moved = node->right;
        node->right = parent;
        parent->left = moved;
    } else {
        moved = node->left;
        node->left = parent;
        parent->right = moved;
    }
    if (moved)
        moved->parent = parent;
}

void tree_add(struct tree *tree, struct tree_node *node)
{
    CHECK(!tree_has(node));
    struct tree_node *parent = tree->first, **link = &tree->root;
    bool first = !parent || tree->compare(node, parent) < 0;
    if (first) {
        if (parent)
            link = &parent->left;
    } else {
        parent = NULL;
        while (*link) {
            parent = *link;
            link = tree->compare(node, parent) < 0 ? &parent->left : &parent->right;
        }
    }
    *node = (struct tree_node){.parent = parent, .priority = next_priority(tree)};
    *link = node;
    if (first)
        tree->first = node;
    while (node->parent && node->parent->priority < node->priority)
        rise(tree, node);
}

void tree_remove(struct tree *tree, struct tree_node *node)
{
    CHECK(tree_has(node));
    if (tree->first == node)
        tree->first = tree_next(node);
    while (node->left && node->right)
        rise(tree, node->left->priority > node->right->priority ? node->left : node->right);
    struct tree_node *child = node->left ? node->left : node->right;
    *link_to(tree, node) = child;
    if (child)
        child->parent = node->parent;
    *node = (struct tree_node){0};
}

struct tree_node *tree_next(const struct tree_node *node)
{
    if (node->right) {
        struct tree_node *next = node->right;
        while (next->left)
            next = next->left;
        return next;
    }
    while (node->parent && node->parent->right == node)
        node = node->parent;
    return node->parent;
}

struct tree_node *tree_from(const struct tree *tree, const void *key,
                            int (*compare_key)(const struct tree_node *node, const void *key))
{
    struct tree_node *at = tree->root, *found = NULL;
    while (at) {
        if (compare_key(at, key) < 0) {
            at = at->right;
        } else {
            found = at;
            at = at->left;
        }
    }
    return found;
}
