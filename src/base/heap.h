/*
 * heap.h - the best so many of any number of items: an array as a heap, whose first item is the one
 * that comes last in order, so that a better one may take its place.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stddef.h>

/* What items are, as qsort_r is told: their size and their order. */
struct heap {
    size_t size; /* of an item, at most HEAP_ITEM_MAX */
    int (*compare)(const void *a, const void *b, void *arg);
    void *arg;
};

#define HEAP_ITEM_MAX 128

/* Puts the last of `count` items in its place; the others are a heap. */
void heap_rise(const struct heap *heap, void *items, size_t count);

/* Puts item `at` of `count` in its place; what lies below it is a heap, or there is nothing. */
void heap_sink(const struct heap *heap, void *items, size_t count, size_t at);

#endif
