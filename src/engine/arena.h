/*
 * arena.h - the engine's memory: one bounded region, handed out in pages, cut into slots by slabs.
 *
 * The region is reserved at start (addresses only) and taken from the kernel as it fills, so that
 * the memory limit holds by construction and whatever the engine keeps can be named by 32 bits: a
 * ref_t counts granules of 8 bytes from the start of the region; 0 is none. A page of 16 KiB is
 * either a slab page, whose header says whose it is and how large its slots are, or belongs whole
 * to an index. Long names live outside and are charged to the same limit.
 *
 * Locks: pages are shared by all shards, under LOCK_RANK_ARENA inside these functions. A slab
 * belongs to one shard and is used under that shard's lock.
 */
#ifndef ENGINE_ARENA_H
#define ENGINE_ARENA_H

#include "base/check.h"
#include "base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t ref_t;

#define ARENA_GRANULE   8
#define ARENA_PAGE      16384
#define ARENA_LIMIT_MAX (((size_t)ARENA_GRANULE << 32) - ARENA_PAGE)

struct arena {
    unsigned char *base;  /* never changes */
    size_t limit;         /* never changes; bytes of pages and charges together */
    size_t region;        /* bytes of addresses; changes in arena_widen alone */
    bool unlimited;       /* for now the limit is not looked at */
    _Atomic size_t used;  /* of them */
    struct lock lock;     /* covers what follows */
    uint32_t pages_open;  /* pages usable so far, from the start of the region */
    uint32_t pages_begun; /* of them, handed out at least once */
    uint32_t free_page;   /* list of pages given back, linked through their first word; 0: none */
};

/* Reserves a region of `limit` bytes (at most ARENA_LIMIT_MAX). False: errno says why. */
bool arena_init(struct arena *arena, size_t limit) MUST_USE;
void arena_destroy(struct arena *arena);

/*
 * Makes room for `bytes` of pages, whatever the limit, which holds again for what is taken after
 * arena_limit. While there are no slots, no page has been given back and nobody knows an address
 * but by its page. False: errno says why, and nothing has changed.
 */
bool arena_widen(struct arena *arena, size_t bytes) MUST_USE;
void arena_limit(struct arena *arena);

static inline void *arena_at(const struct arena *arena, ref_t ref)
{
    return arena->base + (size_t)ref * ARENA_GRANULE;
}

static inline ref_t arena_ref(const struct arena *arena, const void *at)
{
    return (ref_t)((size_t)((const unsigned char *)at - arena->base) / ARENA_GRANULE);
}

/* The address of page `page`. */
static inline void *arena_page_at(const struct arena *arena, uint32_t page)
{
    return arena->base + (size_t)page * ARENA_PAGE;
}

/* Takes a page, all zero bytes. 0: the limit is reached, or the kernel has no memory. */
uint32_t arena_page_take(struct arena *arena) MUST_USE;
/* Gives a page back, and its memory to the kernel. */
void arena_page_give(struct arena *arena, uint32_t page);

/* Counts `bytes` that are kept elsewhere against the limit; false: it is reached. */
bool arena_charge(struct arena *arena, size_t bytes) MUST_USE;
void arena_uncharge(struct arena *arena, size_t bytes);

/* Bytes of pages and charges in use. Any thread. */
size_t arena_used(const struct arena *arena);

/* The largest slot, and how many sizes of slots there are: steps of 8 to 256, of 64 above. */
#define SLAB_MAX     2048
#define SLAB_CLASSES (256 / 8 + (SLAB_MAX - 256) / 64)

/* Slots for one shard. */
struct slab {
    struct arena *arena;
    uint32_t owner;                 /* the shard's number: found again from any slot */
    uint32_t partial[SLAB_CLASSES]; /* for each size: list of pages that have a free slot */
};

void slab_init(struct slab *slab, struct arena *arena, uint32_t owner);

/* A slot of `size` bytes (1 to SLAB_MAX), not cleared. 0: no memory. */
ref_t slab_alloc(struct slab *slab, size_t size) MUST_USE;
/* Gives a slot back. */
void slab_free(struct slab *slab, ref_t ref);

/* Gives back the pages that have been kept though all their slots are free. */
void slab_trim(struct slab *slab);

/* Which shard's slab the slot at `at` belongs to. */
uint32_t slab_owner_of(const struct arena *arena, const void *at);

#endif
