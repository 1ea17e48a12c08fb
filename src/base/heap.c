/* heap.c - see heap.h. */
#include "base/heap.h"

#include "base/check.h"

#include <stdbool.h>
#include <string.h>

static char *item_at(const struct heap *heap, void *items, size_t i)
{
    return (char *)items + i * heap->size;
}

static bool is_after(const struct heap *heap, void *items, size_t a, size_t b)
{
    return heap->compare(item_at(heap, items, a), item_at(heap, items, b), heap->arg) > 0;
}

static void swap(const struct heap *heap, void *items, size_t a, size_t b)
{
    char item[HEAP_ITEM_MAX];
    CHECK(heap->size <= sizeof(item));
    memcpy(item, item_at(heap, items, a), heap->size);
    memcpy(item_at(heap, items, a), item_at(heap, items, b), heap->size);
    memcpy(item_at(heap, items, b), item, heap->size);
}

void heap_rise(const struct heap *heap, void *items, size_t count)
{
    for (size_t i = count - 1, up; i > 0 && is_after(heap, items, i, up = (i - 1) / 2); i = up)
        swap(heap, items, i, up);
}

void heap_sink(const struct heap *heap, void *items, size_t count, size_t at)
{
    for (;;) {
        size_t last = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (is_after(heap, items, child, last))
                last = child;
        }
        if (last == at)
            return;
        swap(heap, items, at, last);
        at = last;
    }
}
