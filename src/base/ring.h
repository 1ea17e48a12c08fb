/*
 * ring.h - a doubly linked list of items that have their link inside.
 *
 * One thread at a time. The owner of the list has a lock for it.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

/* The list itself, or the link of an item. Zero-initialised: an item that is in no list. */
struct ring {
    struct ring *next, *prev;
};

static inline void ring_init(struct ring *list)
{
    list->next = list->prev = list;
}

static inline bool ring_is_empty(const struct ring *list)
{
    return list->next == list;
}

/* True when an item is in a list. */
static inline bool ring_has(const struct ring *item)
{
    return item->next != NULL;
}

/* Adds an item that is in no list after `place`: another item, or the list itself. */
static inline void ring_add_after(struct ring *place, struct ring *item)
{
    CHECK(!ring_has(item));
    item->prev = place;
    item->next = place->next;
    place->next->prev = item;
    place->next = item;
}

/* Adds an item to the end of a list. */
static inline void ring_add(struct ring *list, struct ring *item)
{
    ring_add_after(list->prev, item);
}

/* Removes an item; does nothing if it is in no list. */
static inline void ring_remove(struct ring *item)
{
    if (!ring_has(item))
        return;
    item->prev->next = item->next;
    item->next->prev = item->prev;
    *item = (struct ring){NULL, NULL};
}

/* The first and the last item, and the item after another; NULL: none. */
static inline struct ring *ring_first(const struct ring *list)
{
    return list->next == list ? NULL : list->next;
}
static inline struct ring *ring_last(const struct ring *list)
{
    return list->prev == list ? NULL : list->prev;
}
static inline struct ring *ring_after(const struct ring *list, const struct ring *item)
{
    return item->next == list ? NULL : item->next;
}

#endif
