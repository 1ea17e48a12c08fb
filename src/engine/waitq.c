/*
 * waitq.c - lanes in a treap (see waitq.h): a search tree by threshold that is also a heap by
 * random priority. Its depth is logarithmic for any order of insertions.
 */
#include "engine/waitq.h"

#include "base/check.h"

static uint64_t oldest_of(const struct wait_lane *lane)
{
    return lane ? lane->oldest : UINT64_MAX;
}

static uint64_t own_oldest(const struct wait_lane *lane)
{
    return lane->first ? lane->first->seq : UINT64_MAX;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void refresh(struct wait_lane *lane)
{
    lane->oldest =
        min_u64(own_oldest(lane), min_u64(oldest_of(lane->left), oldest_of(lane->right)));
}

/* Updates `oldest` from the lane of `threshold`, which must be in the tree, up to the root. */
static void refresh_path(struct wait_lane *lane, uint32_t threshold)
{
    CHECK(lane);
    if (threshold != lane->threshold)
        refresh_path(threshold < lane->threshold ? lane->left : lane->right, threshold);
    refresh(lane);
}

/* Splits a tree into the lanes below and above `threshold`, which must not be in it. */
static void split(struct wait_lane *tree, uint32_t threshold, struct wait_lane **below,
                  struct wait_lane **above)
{
    if (!tree) {
        *below = *above = NULL;
    } else if (tree->threshold < threshold) {
        split(tree->right, threshold, &tree->right, above);
        *below = tree;
        refresh(tree);
    } else {
        split(tree->left, threshold, below, &tree->left);
        *above = tree;
        refresh(tree);
    }
}

/* Joins two trees. All thresholds of `low` must be below those of `high`. */
static struct wait_lane *merge(struct wait_lane *low, struct wait_lane *high)
{
    if (!low || !high)
        return low ? low : high;
    struct wait_lane *top = low->priority >= high->priority ? low : high;
    if (top == low)
        low->right = merge(low->right, high);
    else
        high->left = merge(low, high->left);
    refresh(top);
    return top;
}

static struct wait_lane *insert(struct wait_lane *tree, struct wait_lane *lane)
{
    if (!tree || lane->priority > tree->priority) {
        split(tree, lane->threshold, &lane->left, &lane->right);
        refresh(lane);
        return lane;
    }
    if (lane->threshold < tree->threshold)
        tree->left = insert(tree->left, lane);
    else
        tree->right = insert(tree->right, lane);
    refresh(tree);
    return tree;
}

static struct wait_lane *erase(struct wait_lane *tree, const struct wait_lane *lane)
{
    CHECK(tree);
    if (tree == lane)
        return merge(tree->left, tree->right);
    if (lane->threshold < tree->threshold)
        tree->left = erase(tree->left, lane);
    else
        tree->right = erase(tree->right, lane);
    refresh(tree);
    return tree;
}

struct wait_lane *waitq_lane(const struct waitq *q, uint32_t threshold)
{
    struct wait_lane *lane = q->root;
    while (lane && lane->threshold != threshold)
        lane = threshold < lane->threshold ? lane->left : lane->right;
    return lane;
}

void waitq_add_lane(struct waitq *q, struct wait_lane *lane, uint32_t threshold,
                    uint32_t random_bits)
{
    *lane =
        (struct wait_lane){.oldest = UINT64_MAX, .threshold = threshold, .priority = random_bits};
    q->root = insert(q->root, lane);
}

void waitq_join(struct waitq *q, struct wait_lane *lane, struct wait_place *place, uint64_t seq)
{
    CHECK(!lane->last || lane->last->seq < seq);
    *place = (struct wait_place){.lane = lane, .prev = lane->last, .seq = seq};
    if (lane->last) {
        lane->last->next = place;
        lane->last = place;
    } else {
        lane->first = lane->last = place;
        refresh_path(q->root, lane->threshold);
    }
}

struct wait_lane *waitq_leave(struct waitq *q, struct wait_place *place)
{
    struct wait_lane *lane = place->lane;
    CHECK(lane);
    bool was_first = lane->first == place;
    if (place->prev)
        place->prev->next = place->next;
    else
        lane->first = place->next;
    if (place->next)
        place->next->prev = place->prev;
    else
        lane->last = place->prev;
    *place = (struct wait_place){.seq = place->seq};
    if (!lane->first) {
        q->root = erase(q->root, lane);
        return lane;
    }
    if (was_first)
        refresh_path(q->root, lane->threshold);
    return NULL;
}

uint32_t waitq_highest(const struct waitq *q)
{
    const struct wait_lane *lane = q->root;
    while (lane && lane->right)
        lane = lane->right;
    return lane ? lane->threshold : 0;
}

struct wait_place *waitq_oldest(const struct waitq *q, uint32_t consumption)
{
    /* A lane fits when its threshold is at least `consumption`. Thresholds grow to the right: when
     * a lane fits, its right subtree fits too, and the search goes on to the left. */
    uint64_t best = UINT64_MAX;
    const struct wait_lane *where = NULL;
    for (const struct wait_lane *lane = q->root; lane;) {
        if (lane->threshold < consumption) {
            lane = lane->right;
            continue;
        }
        if (own_oldest(lane) < best) {
            best = own_oldest(lane);
            where = lane;
        }
        if (oldest_of(lane->right) < best) {
            best = lane->right->oldest;
            where = lane->right;
        }
        lane = lane->left;
    }
    while (where && own_oldest(where) != best)
        where = oldest_of(where->left) == best ? where->left : where->right;
    return where ? where->first : NULL;
}

void waitq_scan_begin(struct waitq_scan *scan)
{
    scan->lanes = 0;
    scan->count = 0;
}

static void scan_put(struct waitq_scan *scan, struct waitq_next element)
{
    CHECK(scan->count < ARRAY_SIZE(scan->next));
    unsigned at = scan->count++;
    while (at > 0 && element.seq < scan->next[(at - 1) / 2].seq) {
        scan->next[at] = scan->next[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    scan->next[at] = element;
}

/* Removes the first element. The heap must not be empty. */
static struct waitq_next scan_take(struct waitq_scan *scan)
{
    struct waitq_next first = scan->next[0];
    struct waitq_next last = scan->next[--scan->count];
    unsigned at = 0;
    for (unsigned child; (child = 2 * at + 1) < scan->count; at = child) {
        if (child + 1 < scan->count && scan->next[child + 1].seq < scan->next[child].seq)
            child++;
        if (last.seq <= scan->next[child].seq)
            break;
        scan->next[at] = scan->next[child];
    }
    scan->next[at] = last;
    return first;
}

static void scan_put_tree(struct waitq_scan *scan, const struct wait_lane *tree)
{
    if (tree)
        scan_put(scan, (struct waitq_next){.seq = tree->oldest, .tree = tree});
}

static void scan_put_place(struct waitq_scan *scan, struct wait_place *place)
{
    if (place)
        scan_put(scan, (struct waitq_next){.seq = place->seq, .place = place});
}

void waitq_scan_add(struct waitq_scan *scan, const struct waitq *q)
{
    scan_put_tree(scan, q->root);
}

struct wait_place *waitq_scan_next(struct waitq_scan *scan)
{
    while (scan->count > 0) {
        struct waitq_next next = scan->next[0];
        if (next.tree && scan->lanes == WAITQ_SCAN_LANES)
            return NULL;
        (void)scan_take(scan);
        if (!next.tree) {
            CHECK(next.place);
            scan_put_place(scan, next.place->next);
            return next.place;
        }
        /* Nothing below a lane is older than its `oldest`, so the children can wait in the heap. */
        scan->lanes++;
        scan_put_place(scan, next.tree->first);
        scan_put_tree(scan, next.tree->left);
        scan_put_tree(scan, next.tree->right);
    }
    return NULL;
}
