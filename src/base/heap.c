/* heap.c - see heap.h. */
#include "base/heap.h"

#include "base/check.h"

#include <string.h>

static char *item_at(const struct heap *heap, void *items, size_t i)
{
    return (char *)items + i * heap->size;
}

static bool is_after(const struct heap *heap, void *items, size_t a, size_t b)
{
    return heap->compare(item_at(heap, items, a), item_at(heap, items, b), heap->arg) > 0;
}

static void swap(const struct heap *heap, void *a, void *b)
{
    char item[HEAP_ITEM_MAX];
    CHECK(heap->size <= sizeof(item));
    memcpy(item, a, heap->size);
    memcpy(a, b, heap->size);
    memcpy(b, item, heap->size);
}

bool heap_keep(const struct heap *heap, void *items, size_t *count, size_t room, void *item)
{
    if (*count < room) {
        memcpy(item_at(heap, items, (*count)++), item, heap->size);
        heap_rise(heap, items, *count);
        return true;
    }
    if (room > 0 && heap->compare(item, items, heap->arg) < 0) {
        swap(heap, item, items);
        heap_sink(heap, items, *count, 0);
    }
    return false;
}

void heap_rise(const struct heap *heap, void *items, size_t count)
{
    for (size_t i = count - 1, up; i > 0 && is_after(heap, items, i, up = (i - 1) / 2); i = up)
        swap(heap, item_at(heap, items, i), item_at(heap, items, up));
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
        swap(heap, item_at(heap, items, at), item_at(heap, items, last));
        at = last;
    }
}
