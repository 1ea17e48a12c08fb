/*
 * arena.h - the engine's memory: one bounded region, divided into pages, which slabs divide into
 * slots.
 *
 * arena_init reserves the region's addresses; the kernel provides memory as the region fills. So
 * the memory limit always holds, and 32 bits can address everything in the region: a ref_t counts
 * granules of 8 bytes from the region's start, 0 means none. A page has 16 KiB. It is either a slab
 * page, whose header has its owner and slot size, or belongs entirely to an index. Long names are
 * stored outside the region and charged to the same limit.
 *
 * Locks: all shards share the pages; these functions take LOCK_RANK_ARENA themselves. A slab
 * belongs to one shard; its caller holds that shard's lock.
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
    unsigned char *base;  /* constant */
    size_t limit;         /* constant; bytes of pages and charges together */
    size_t region;        /* bytes of addresses; only arena_widen changes it */
    bool unlimited;       /* the limit is not enforced at the moment */
    _Atomic size_t used;  /* bytes of pages and charges */
    struct lock lock;     /* protects the fields below */
    uint32_t pages_open;  /* pages usable so far, from the start of the region */
    uint32_t pages_begun; /* pages handed out at least once */
    uint32_t free_page;   /* list of free pages, linked through their first word; 0: none */
};

/*
 * Reserves a region of `limit` bytes (at most ARENA_LIMIT_MAX). Returns false and sets errno on
 * failure.
 */
bool arena_init(struct arena *arena, size_t limit) MUST_USE;
void arena_destroy(struct arena *arena);

/*
 * Makes room for `bytes` of pages, even beyond the limit, until arena_limit enforces the limit
 * again. Allowed only while there are no slots, no page was given back, and no pointer into a page
 * is kept: the region may move. Returns false, sets errno and changes nothing on failure.
 */
bool arena_widen(struct arena *arena, size_t bytes) MUST_USE;
void arena_limit(struct arena *arena);
/*
 * Prepares for the use of the next `bytes` of pages: the kernel may then provide memory in large
 * pieces, which is many times faster. What is not used after all takes no memory. Only a hint.
 */
void arena_expect(struct arena *arena, size_t bytes);
/* The number of pages for which there are addresses; all page numbers are below it. */
static inline uint32_t arena_pages(const struct arena *arena)
{
    return (uint32_t)(arena->region / ARENA_PAGE);
}

static inline void *arena_at(const struct arena *arena, ref_t ref)
{
    return arena->base + (size_t)ref * ARENA_GRANULE;
}

static inline ref_t arena_ref(const struct arena *arena, const void *at)
{
    return (ref_t)((size_t)((const unsigned char *)at - arena->base) / ARENA_GRANULE);
}

/* The number of the page that has this granule. */
static inline uint32_t arena_page_of(ref_t ref)
{
    return ref / (ARENA_PAGE / ARENA_GRANULE);
}

/* The address of page `page`. */
static inline void *arena_page_at(const struct arena *arena, uint32_t page)
{
    return arena->base + (size_t)page * ARENA_PAGE;
}

/* Allocates a zeroed page. Returns 0 when the limit is reached or the kernel has no memory. */
uint32_t arena_page_take(struct arena *arena) MUST_USE;
/* Frees a page and returns its memory to the kernel. */
void arena_page_give(struct arena *arena, uint32_t page);

/* Charges `bytes` stored elsewhere to the limit. Returns false when that would exceed it. */
bool arena_charge(struct arena *arena, size_t bytes) MUST_USE;
void arena_uncharge(struct arena *arena, size_t bytes);

/* Bytes of pages and charges in use. Any thread. */
size_t arena_used(const struct arena *arena);
/* True from 15/16 of the limit on. Any thread. */
bool arena_is_full(const struct arena *arena);

/* Largest slot, and the number of slot sizes: steps of 8 up to 256 bytes, steps of 64 above. */
#define SLAB_MAX     2048
#define SLAB_CLASSES (256 / 8 + (SLAB_MAX - 256) / 64)

/* Slots for one shard. */
struct slab {
    struct arena *arena;
    uint32_t owner;                 /* the shard's number; slab_owner_of finds it from any slot */
    uint32_t partial[SLAB_CLASSES]; /* for each slot size: list of pages with a free slot */
};

void slab_init(struct slab *slab, struct arena *arena, uint32_t owner);

/*
 * Allocates a slot of `size` bytes (1 to SLAB_MAX), not cleared; a larger slot that is free when
 * there is no memory for one of this size. Returns 0 when out of memory.
 */
ref_t slab_alloc(struct slab *slab, size_t size) MUST_USE;
/* Frees a slot. */
void slab_free(struct slab *slab, ref_t ref);

/* Frees the pages that the slab kept although all their slots are free. */
void slab_trim(struct slab *slab);

/* The number of the shard that owns the slot at `at`. */
uint32_t slab_owner_of(const struct arena *arena, const void *at);

#endif
