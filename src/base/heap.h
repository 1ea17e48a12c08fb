/*
 * heap.h - keeps the first N of many items in sort order. The items are an array, arranged as a
 * heap. items[0] is the one that sorts last, so a better item can replace it.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Size and order of the items, as for qsort_r. */
struct heap {
    size_t size; /* of an item, at most HEAP_ITEM_MAX */
    int (*compare)(const void *a, const void *b, void *arg);
    void *arg;
};

#define HEAP_ITEM_MAX 1024

/*
 * Adds `item` to the *count items if there are fewer than `room`; else, if it sorts before
 * items[0], in place of that. False: *item is the one that was left out.
 */
bool heap_keep(const struct heap *heap, void *items, size_t *count, size_t room, void *item);

/* Moves the last of `count` items to its place. The other items must be a heap. */
void heap_rise(const struct heap *heap, void *items, size_t count);

/* Moves item `at` of `count` down to its place. The items below it must be a heap. */
void heap_sink(const struct heap *heap, void *items, size_t count, size_t at);

#endif
