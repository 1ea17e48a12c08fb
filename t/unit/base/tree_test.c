/* tree_test.c - the depth of ordered sets. The models of pools and jobs show their order. */
#include "base/tree.h"

#include "base/check.h"
#include "t/unit/unit.h"

enum { MANY = 100000 };

struct item {
    uint32_t key;
    struct tree_node node;
};

static struct item *item_of(const struct tree_node *node)
{
    return container_of(unconst(node), struct item, node);
}

static int compare(const struct tree_node *a, const struct tree_node *b)
{
    uint32_t x = item_of(a)->key, y = item_of(b)->key;
    return (x > y) - (x < y);
}

static struct tree tree;

static unsigned depth_below(const struct tree_node *node)
{
    unsigned left, right;
    if (!node)
        return 0;
    left = depth_below(node->left);
    right = depth_below(node->right);
    return 1 + (left > right ? left : right);
}

/* However items come, the depth is a small multiple of 17, the least for 100,000 of them. */
TEST(depth_stays_small)
{
    struct item *many = calloc(MANY, sizeof(*many));
    ck_assert(many != NULL);
    for (unsigned how = 0; how < 3; how++) {
        tree_init(&tree, compare, how);
        for (uint32_t i = 0; i < MANY; i++) {
            many[i].key = how == 0 ? i : how == 1 ? MANY - i : i * 2654435761u;
            tree_add(&tree, &many[i].node);
        }
        ck_assert_uint_lt(depth_below(tree.root), 80);
        for (uint32_t i = 0; i < MANY; i += 2)
            tree_remove(&tree, &many[i].node);
        ck_assert_uint_lt(depth_below(tree.root), 80);
        for (uint32_t i = 1; i < MANY; i += 2)
            tree_remove(&tree, &many[i].node);
        ck_assert(tree.root == NULL);
    }
    free(many);
}

UNIT_MAIN("base/tree")
