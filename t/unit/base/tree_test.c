/* tree_test.c - ordered sets, compared with a sorted array; their depth. */
#include "base/tree.h"

#include "base/check.h"
#include "t/unit/random.h"

#include <string.h>

enum { ITEMS = 300, STEPS = 200000, MANY = 100000 };

struct item {
    uint32_t key;
    struct tree_node node;
};

static struct item *item_of(const struct tree_node *node)
{
    return container_of(unconst(node), struct item, node);
}

static struct item *item_or_null(const struct tree_node *node)
{
    return node ? item_of(node) : NULL;
}

static int compare(const struct tree_node *a, const struct tree_node *b)
{
    uint32_t x = item_of(a)->key, y = item_of(b)->key;
    return (x > y) - (x < y);
}

static int compare_key(const struct tree_node *node, const void *key)
{
    uint32_t x = item_of(node)->key, y = *(const uint32_t *)key;
    return (x > y) - (x < y);
}

static struct tree tree;
static struct item items[ITEMS], *sorted[ITEMS];
static unsigned count;

static unsigned place_of(uint32_t key)
{
    unsigned i = 0;
    while (i < count && sorted[i]->key < key)
        i++;
    return i;
}

static void add(struct item *item)
{
    unsigned i = place_of(item->key);
    memmove(&sorted[i + 1], &sorted[i], (count - i) * sizeof(sorted[0]));
    sorted[i] = item;
    count++;
    tree_add(&tree, &item->node);
}

static void drop(struct item *item)
{
    unsigned i = place_of(item->key);
    REQUIRE(sorted[i] == item);
    memmove(&sorted[i], &sorted[i + 1], (--count - i) * sizeof(sorted[0]));
    tree_remove(&tree, &item->node);
}

/* Checks the links and the heap below a node, and returns the number of nodes there. */
static unsigned check_below(const struct tree_node *node, const struct tree_node *parent)
{
    if (!node)
        return 0;
    REQUIRE(node->parent == parent && tree_has(node));
    REQUIRE(!parent || parent->priority >= node->priority);
    return 1 + check_below(node->left, node) + check_below(node->right, node);
}

static void check_all(void)
{
    struct tree_node *node = tree_first(&tree);
    for (unsigned i = 0; i < count; i++, node = tree_next(node))
        REQUIRE(item_or_null(node) == sorted[i]);
    REQUIRE(node == NULL);
    REQUIRE(check_below(tree.root, NULL) == count);
}

TEST(set_is_what_a_sorted_array_is)
{
    struct rng rng = rng_start("trees", random_seed());
    tree_init(&tree, compare, (uint32_t)rng_next(&rng));
    ck_assert(tree_first(&tree) == NULL);
    for (unsigned i = 0; i < ITEMS; i++)
        items[i].key = 2 * i + 1;
    unsigned most = ITEMS;
    for (unsigned n = 0; n < STEPS; n++) {
        struct item *item = &items[rng_below(&rng, most)];
        if (rng_one_in(&rng, 500))
            most = 1 + rng_below(&rng, ITEMS); /* small sets, too */
        if (rng_one_in(&rng, 5) && count > 0)
            item = sorted[0]; /* the first one, as pools do most of the time */
        if (tree_has(&item->node))
            drop(item);
        else
            add(item);
        uint32_t key = rng_below(&rng, 2 * ITEMS + 2);
        unsigned i = place_of(key);
        REQUIRE(item_or_null(tree_from(&tree, &key, compare_key)) ==
                (i < count ? sorted[i] : NULL));
        REQUIRE(item_or_null(tree_first(&tree)) == (count > 0 ? sorted[0] : NULL));
        if (n % 16 == 0)
            check_all();
    }
    while (count > 0)
        drop(sorted[count / 2]);
    ck_assert(tree.root == NULL && tree_first(&tree) == NULL);
    for (unsigned i = 0; i < ITEMS; i++)
        ck_assert(!tree_has(&items[i].node) && !items[i].node.parent);
}

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
