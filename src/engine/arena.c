/*
 * arena.c - pages and slots (see arena.h).
 *
 * The region begins at a multiple of the page size, so masking an address finds its page. A slab
 * page is a header and slots. Free slots are a list of slot numbers, stored in the slots
 * themselves; slots never used begin at number `begun` + 1. A page with a free slot is in the list
 * for its slot size. A page whose slots are all free goes back to the arena, unless it is the last
 * page in its list and at most half of the limit is used. This way, a name that comes and goes does
 * not take a new page each time. When memory is short, slab_trim frees such pages.
 */
#include "engine/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(at, len)   ASAN_POISON_MEMORY_REGION(at, len)
#define UNPOISON(at, len) ASAN_UNPOISON_MEMORY_REGION(at, len)
#else
#define POISON(at, len)   ((void)(at), (void)(len))
#define UNPOISON(at, len) ((void)(at), (void)(len))
#endif

/* Number of pages made usable at a time: 1 MiB. */
#define PAGES_STEP 64

/* arena_expect does nothing for less: the kernel's large pages have 2 MiB, or more. */
#define EXPECT_MIN ((size_t)16 << 20)

struct slab_page {
    uint32_t owner;
    uint32_t next, prev; /* in the list of pages with a free slot; 0: none */
    uint16_t slot;       /* bytes */
    uint16_t class_no;
    uint16_t slots; /* number that fit */
    uint16_t begun; /* slots used at least once */
    uint16_t live;  /* slots in use */
    uint16_t free;  /* number of the first free slot that was used before, from 1; 0: none */
    unsigned char pad[40];
};

_Static_assert(sizeof(struct slab_page) == 64, "slots begin at a cache line");

/* Bytes of a region with `bytes` of pages, plus one page because page 0 is never used. */
static size_t region_for(size_t bytes)
{
    return (bytes / ARENA_PAGE + 1) * ARENA_PAGE;
}

/* Reserves addresses for a region, aligned to the page size. NULL: failed, errno is set. */
static unsigned char *reserve(size_t region)
{
    size_t size = region + ARENA_PAGE; /* for alignment */
    unsigned char *at =
        mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    size_t skip = (ARENA_PAGE - (uintptr_t)at % ARENA_PAGE) % ARENA_PAGE;
    if (skip)
        CHECK(munmap(at, skip) == 0);
    if (skip < ARENA_PAGE)
        CHECK(munmap(at + size - (ARENA_PAGE - skip), ARENA_PAGE - skip) == 0);
    return at + skip;
}

bool arena_init(struct arena *arena, size_t limit)
{
    CHECK(limit > 0 && limit <= ARENA_LIMIT_MAX);
    *arena = (struct arena){.limit = limit, .region = region_for(limit)};
    arena->base = reserve(arena->region);
    if (!arena->base)
        return false;
    arena->pages_begun = 1;
    lock_init(&arena->lock, LOCK_RANK_ARENA);
    return true;
}

bool arena_widen(struct arena *arena, size_t bytes)
{
    CHECK(bytes <= ARENA_LIMIT_MAX && arena->free_page == 0);
    size_t region = region_for(bytes), open = (size_t)arena->pages_open * ARENA_PAGE;
    if (region > arena->region) {
        unsigned char *base = reserve(region);
        if (!base)
            return false;
        if (open > 0) {
            if (mprotect(base, open, PROT_READ | PROT_WRITE) != 0) {
                CHECK(munmap(base, region) == 0);
                return false;
            }
            memcpy(base, arena->base, (size_t)arena->pages_begun * ARENA_PAGE);
        }
        CHECK(munmap(arena->base, arena->region) == 0);
        arena->base = base;
        arena->region = region;
    }
    arena->unlimited = true;
    return true;
}

void arena_expect(struct arena *arena, size_t bytes)
{
    size_t open = (size_t)arena->pages_open * ARENA_PAGE;
    size_t to = (size_t)arena->pages_begun * ARENA_PAGE + bytes;
    to = (to < arena->region ? to : arena->region) / ARENA_PAGE * ARENA_PAGE;
    if (bytes < EXPECT_MIN || to <= open ||
        mprotect(arena->base + open, to - open, PROT_READ | PROT_WRITE) != 0)
        return;
    arena->pages_open = (uint32_t)(to / ARENA_PAGE);
    (void)madvise(arena->base + open, to - open, MADV_HUGEPAGE);
}

void arena_limit(struct arena *arena)
{
    arena->unlimited = false;
}

void arena_destroy(struct arena *arena)
{
    if (!arena->base)
        return;
    UNPOISON(arena->base, (size_t)arena->pages_begun * ARENA_PAGE);
    CHECK(munmap(arena->base, arena->region) == 0);
    lock_destroy(&arena->lock);
    *arena = (struct arena){0};
}

bool arena_charge(struct arena *arena, size_t bytes)
{
    size_t used = atomic_load_explicit(&arena->used, memory_order_relaxed);
    do {
        if ((bytes > arena->limit || used > arena->limit - bytes) && !arena->unlimited)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&arena->used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void arena_uncharge(struct arena *arena, size_t bytes)
{
    size_t before = atomic_fetch_sub_explicit(&arena->used, bytes, memory_order_relaxed);
    CHECK(before >= bytes);
}

size_t arena_used(const struct arena *arena)
{
    return atomic_load_explicit(&arena->used, memory_order_relaxed);
}

bool arena_is_full(const struct arena *arena)
{
    return arena_used(arena) >= arena->limit - arena->limit / 16;
}

/* Makes the next pages of the region usable. Returns false when out of memory or addresses. */
static bool open_pages(struct arena *arena)
{
    lock_assert_held(&arena->lock);
    uint32_t all = arena_pages(arena);
    if (arena->pages_open == all)
        return false; /* happens only while `unlimited`: otherwise arena_charge fails first */
    uint32_t to = arena->pages_open + PAGES_STEP < all ? arena->pages_open + PAGES_STEP : all;
    if (mprotect(arena_page_at(arena, arena->pages_open),
                 (size_t)(to - arena->pages_open) * ARENA_PAGE, PROT_READ | PROT_WRITE) != 0)
        return false;
    arena->pages_open = to;
    return true;
}

uint32_t arena_page_take(struct arena *arena)
{
    if (!arena_charge(arena, ARENA_PAGE))
        return 0;
    uint32_t page = 0;
    lock_acquire(&arena->lock);
    if (arena->free_page) {
        page = arena->free_page;
        uint32_t *word = arena_page_at(arena, page);
        UNPOISON(word, ARENA_PAGE);
        arena->free_page = *word;
        *word = 0;
    } else if (arena->pages_begun < arena->pages_open || open_pages(arena)) {
        page = arena->pages_begun++;
    }
    lock_release(&arena->lock);
    if (!page)
        arena_uncharge(arena, ARENA_PAGE);
    return page;
}

void arena_page_give(struct arena *arena, uint32_t page)
{
    uint32_t *word = arena_page_at(arena, page);
    UNPOISON(word, ARENA_PAGE);
    /* Afterwards the page reads as zeros, even if madvise fails. */
    if (madvise(word, ARENA_PAGE, MADV_DONTNEED) != 0)
        memset(word, 0, ARENA_PAGE);
    lock_acquire(&arena->lock);
    *word = arena->free_page;
    arena->free_page = page;
    POISON(word + 1, ARENA_PAGE - sizeof(*word)); /* before another thread can take it */
    lock_release(&arena->lock);
    arena_uncharge(arena, ARENA_PAGE);
}

void slab_init(struct slab *slab, struct arena *arena, uint32_t owner)
{
    *slab = (struct slab){.arena = arena, .owner = owner};
}

static unsigned class_of(size_t size)
{
    return (unsigned)(size <= 256 ? (size - 1) / 8 : 32 + (size - 257) / 64);
}

static size_t class_size(unsigned class_no)
{
    return class_no < 32 ? ((size_t)class_no + 1) * 8 : 256 + ((size_t)class_no - 31) * 64;
}

static struct slab_page *page_of(const struct arena *arena, const void *at)
{
    size_t offset = (size_t)((const unsigned char *)at - arena->base);
    return arena_page_at(arena, (uint32_t)(offset / ARENA_PAGE));
}

static uint32_t page_number(const struct arena *arena, const struct slab_page *page)
{
    return (uint32_t)((size_t)((const unsigned char *)page - arena->base) / ARENA_PAGE);
}

static void list_page(struct slab *slab, struct slab_page *page)
{
    uint32_t first = slab->partial[page->class_no];
    uint32_t number = page_number(slab->arena, page);
    page->next = first;
    page->prev = 0;
    if (first)
        ((struct slab_page *)arena_page_at(slab->arena, first))->prev = number;
    slab->partial[page->class_no] = number;
}

static void unlist_page(struct slab *slab, struct slab_page *page)
{
    if (page->next)
        ((struct slab_page *)arena_page_at(slab->arena, page->next))->prev = page->prev;
    if (page->prev)
        ((struct slab_page *)arena_page_at(slab->arena, page->prev))->next = page->next;
    else
        slab->partial[page->class_no] = page->next;
}

static struct slab_page *new_page(struct slab *slab, unsigned class_no)
{
    uint32_t number = arena_page_take(slab->arena);
    if (!number)
        return NULL;
    struct slab_page *page = arena_page_at(slab->arena, number);
    size_t slot = class_size(class_no);
    page->owner = slab->owner;
    page->slot = (uint16_t)slot;
    page->class_no = (uint16_t)class_no;
    page->slots = (uint16_t)((ARENA_PAGE - sizeof(*page)) / slot);
    POISON(page + 1, ARENA_PAGE - sizeof(*page));
    list_page(slab, page);
    return page;
}

static unsigned char *slot_at(struct slab_page *page, unsigned number)
{
    return (unsigned char *)(page + 1) + (size_t)(number - 1) * page->slot;
}

/* Finds a page for a slot of this class: a new one, or one of larger slots that has a free one. */
static __attribute__((noinline)) struct slab_page *another_page(struct slab *slab,
                                                                unsigned class_no)
{
    struct slab_page *page = new_page(slab, class_no);
    while (!page && ++class_no < SLAB_CLASSES) {
        if (slab->partial[class_no])
            page = arena_page_at(slab->arena, slab->partial[class_no]);
    }
    return page;
}

ref_t slab_alloc(struct slab *slab, size_t size)
{
    CHECK(size > 0 && size <= SLAB_MAX);
    unsigned class_no = class_of(size);
    struct slab_page *page = slab->partial[class_no]
                                 ? arena_page_at(slab->arena, slab->partial[class_no])
                                 : another_page(slab, class_no);
    if (!page)
        return 0;
    unsigned char *slot;
    if (page->free) {
        slot = slot_at(page, page->free);
        UNPOISON(slot, page->slot);
        memcpy(&page->free, slot, sizeof(page->free));
    } else {
        slot = slot_at(page, ++page->begun);
        UNPOISON(slot, page->slot);
    }
    if (++page->live == page->slots)
        unlist_page(slab, page);
    return arena_ref(slab->arena, slot);
}

void slab_free(struct slab *slab, ref_t ref)
{
    unsigned char *slot = arena_at(slab->arena, ref);
    struct slab_page *page = page_of(slab->arena, slot);
    CHECK(page->owner == slab->owner && page->live > 0);
    if (page->live == page->slots)
        list_page(slab, page);
    memcpy(slot, &page->free, sizeof(page->free));
    page->free = (uint16_t)((size_t)(slot - (unsigned char *)(page + 1)) / page->slot + 1);
    POISON(slot, page->slot);
    bool only = !page->next && !page->prev;
    if (--page->live == 0 && !(only && arena_used(slab->arena) <= slab->arena->limit / 2)) {
        unlist_page(slab, page);
        arena_page_give(slab->arena, page_number(slab->arena, page));
    }
}

void slab_trim(struct slab *slab)
{
    for (unsigned class_no = 0; class_no < SLAB_CLASSES; class_no++) {
        for (uint32_t number = slab->partial[class_no]; number;) {
            struct slab_page *page = arena_page_at(slab->arena, number);
            uint32_t next = page->next;
            if (page->live == 0) {
                unlist_page(slab, page);
                arena_page_give(slab->arena, number);
            }
            number = next;
        }
    }
}

uint32_t slab_owner_of(const struct arena *arena, const void *at)
{
    return page_of(arena, at)->owner;
}
