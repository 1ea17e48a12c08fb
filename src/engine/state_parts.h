/*
 * state_parts.h - shared by state_save.c, state_restore.c and state_holders.c: layouts of saved
 * values, and data kept from the first restored name to the last restored waiter.
 */
#ifndef ENGINE_STATE_PARTS_H
#define ENGINE_STATE_PARTS_H

#include "engine/shard.h"
#include "engine/state.h"

#include <stdlib.h>
#include <string.h>

/* A saved name, before its bytes. All numbers are little-endian. */
struct saved_name {
    uint32_t mark, consumption, peak, limit;
    uint16_t interval;
    uint8_t flags;
    uint16_t len;
} __attribute__((packed));

/* A saved holding. */
struct saved_holding {
    uint32_t mark; /* 0: no more follow, nor the rest of this one */
    struct saved_units {
        uint32_t units, limit;
        uint64_t since_ns;
    } __attribute__((packed)) has;
} __attribute__((packed));

/* Restoring: the restored name of a mark. Threads that restore names add entries at the same time:
 * the one that sets `mark` fills in the rest. */
struct marked {
    _Atomic uint32_t mark; /* 0: this entry is free */
    ref_t counter;
    uint32_t units; /* not yet restored to a holder */
};

/* Restoring: a queue, in the order of the ring; and a waiter not yet in its queue. */
struct line_to_come {
    ref_t counter;
    uint32_t waiting;
    int64_t since_ns;
};

struct wait_to_come {
    uint64_t seq;
    struct waiter *waiter;
    uint32_t shard;
};

struct restoring {
    struct marked *marked; /* a hash table by mark, open addressing; never full */
    uint32_t mask;         /* entries - 1 */
    uint8_t *owners;       /* for each page with names, the number of its shard */
    struct line_to_come *lines;
    size_t line_count, line_room;
    struct wait_to_come *waits;
    size_t wait_count, wait_room;
};

#define NO_TABLE  "the state has no table"
#define NO_MEMORY "no memory for the state"

/*
 * Returns the array, moved if necessary, with room for one more element of `size` bytes. NULL: out
 * of memory; the array is unchanged.
 */
static inline void *grown(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room ? *room * 2 : 64;
    void *larger = reallocarray(array, more, size);
    if (larger)
        *room = more;
    return larger;
}

/* Finds the entry of a mark that was read. NULL: there is none; the reader has failed. */
struct marked *find_marked(const struct table *t, uint32_t mark, struct record_reader *r);

/* The entry where the search for a mark begins. */
static inline struct marked *marked_from(const struct restoring *restoring, uint32_t mark)
{
    return &restoring->marked[hash_pair(mark, 0) & restoring->mask];
}

/* Finds the entry of a mark, or the free entry where the search ends. */
static inline struct marked *marked_at(const struct restoring *restoring, uint32_t mark)
{
    struct marked *m = marked_from(restoring, mark);
    for (uint32_t found; (found = atomic_load_explicit(&m->mark, memory_order_relaxed)) != 0;) {
        if (found == mark)
            break;
        m = m == restoring->marked + restoring->mask ? restoring->marked : m + 1;
    }
    return m;
}

/* As shard_of, for a restored name. Page headers are far apart, and slow to read for every name. */
static inline struct shard *marked_shard(struct table *t, const struct marked *m)
{
    return &t->shards[t->restoring->owners[arena_page_of(m->counter)]];
}

#endif
