/*
 * index.c - linear hashing with buckets of one cache line (see index.h).
 *
 * With n buckets, 2^k <= n - 1 < 2^(k+1): an entry is in the bucket given by the k+1 low bits of
 * its hash if that bucket exists, else in the one given by the k low bits. A split makes bucket n
 * from the bucket with the same number without the highest bit. A join undoes the last split.
 */
#include "engine/index.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Entries per bucket: above FULL a bucket is split, below EMPTY two are joined. */
#define FULL  6
#define EMPTY 2

#define BUCKETS_MAX (UINT32_C(1) << 31)

static uint16_t tag_of(uint32_t hash)
{
    return (uint16_t)(hash >> 16);
}

static void set_buckets(struct index *ix, uint32_t buckets)
{
    uint32_t mask = buckets > 1 ? UINT32_MAX >> __builtin_clz(buckets - 1) : 0;
    atomic_store_explicit(&ix->buckets, buckets, memory_order_relaxed);
    atomic_store_explicit(&ix->mask, mask, memory_order_relaxed);
}

static struct index_pages *pages_of(const struct index *ix)
{
    return atomic_load_explicit(&ix->pages, memory_order_relaxed);
}

/* Doubles the room for page numbers. Returns false when out of memory. */
static bool add_pages_room(struct index *ix)
{
    struct index_pages *before = pages_of(ix);
    uint32_t had = before ? before->room : 0, room = had ? had * 2 : 4;
    struct index_pages *pages = calloc(1, sizeof(*pages) + room * sizeof(pages->number[0]));
    if (!pages)
        return false;
    pages->outgrown = before;
    pages->room = room;
    for (uint32_t i = 0; i < had; i++)
        atomic_init(&pages->number[i], before->number[i]);
    atomic_store_explicit(&ix->pages, pages, memory_order_release);
    return true;
}

/* Allocates segment `number`, which must be the next one. Returns false when out of memory. */
static bool add_segment(struct index *ix, uint32_t number)
{
    if ((!pages_of(ix) || number == pages_of(ix)->room) && !add_pages_room(ix))
        return false;
    uint32_t page = arena_page_take(ix->slab->arena);
    if (!page)
        return false;
    atomic_store_explicit(&pages_of(ix)->number[number], page, memory_order_relaxed);
    return true;
}

static void give_segment(struct index *ix, uint32_t number)
{
    arena_page_give(ix->slab->arena, pages_of(ix)->number[number]);
}

bool index_init(struct index *ix, struct slab *slab, index_hash_fn *hash_of, size_t entries)
{
    CHECK(entries / FULL < BUCKETS_MAX);
    *ix = (struct index){.slab = slab, .hash_of = hash_of};
    ix->buckets_min = (uint32_t)(entries / FULL) + 1;
    for (uint32_t i = 0; i <= (ix->buckets_min - 1) / INDEX_SEGMENT; i++) {
        if (!add_segment(ix, i)) {
            while (i > 0)
                give_segment(ix, --i);
            index_destroy(ix);
            return false;
        }
    }
    set_buckets(ix, ix->buckets_min);
    return true;
}

void index_widen(struct index *ix, size_t entries)
{
    CHECK(ix->entries == 0);
    uint32_t buckets = index_buckets(ix);
    size_t wanted = entries / FULL + 1;
    while (buckets < wanted && buckets < BUCKETS_MAX &&
           (buckets % INDEX_SEGMENT != 0 || add_segment(ix, buckets / INDEX_SEGMENT)))
        buckets++;
    set_buckets(ix, buckets);
}

void index_destroy(struct index *ix)
{
    for (struct index_pages *pages = pages_of(ix); pages;) {
        struct index_pages *outgrown = pages->outgrown;
        free(pages);
        pages = outgrown;
    }
    *ix = (struct index){0};
}

/* ---- prefetch -------------------------------------------------------------------------------- */

/*
 * Marks functions that read memory while other threads may change it, even to something other than
 * a bucket; sanitizers ignore these reads. Reading is always possible: a page of the arena stays
 * mapped once made usable.
 */
#define GUESSING __attribute__((no_sanitize("thread", "address")))

/*
 * Finds the slots with this tag: bit `i` for slot `i`. Free slots have tag 0. Compares all slots
 * without a branch. The processor cannot predict where a loop would end, and fetches nothing else
 * until it notices a wrong guess. A look-up under the lock is faster with a loop: its next step is
 * the entry, whose address is predicted well when there are few names.
 */
GUESSING static inline unsigned places_of(const struct index_bucket *b, uint16_t tag)
{
#ifdef __SSE2__
    __m128i wanted = _mm_set1_epi16((short)tag);
    __m128i from_0 = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *)&b->tag[0]), wanted);
    __m128i from_4 = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *)&b->tag[4]), wanted);
    unsigned places = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(from_0, from_4));
    return (places & 0xff) | (places >> 4 & 0x300); /* ignore the bytes behind the tags */
#else
    unsigned places = 0;
    for (unsigned i = 0; i < INDEX_SLOTS; i++)
        places |= (unsigned)(b->tag[i] == tag) << i;
    return places;
#endif
}

GUESSING ref_t index_guess(const struct index_bucket *b, uint32_t hash)
{
    unsigned places = places_of(b, tag_of(hash));
    return places ? b->ref[__builtin_ctz(places)] : b->more;
}

/* ---- inserting and removing ------------------------------------------------------------------ */

static unsigned slots_used(const struct index_bucket *b)
{
    unsigned i = 0;
    while (i < INDEX_SLOTS && b->ref[i])
        i++;
    return i;
}

static struct index_bucket *further_bucket(const struct index *ix, ref_t ref)
{
    return arena_at(ix->slab->arena, ref);
}

/*
 * Appends an entry to the chain that begins at `b`. A new overflow bucket comes from the list
 * *spare, else from the slab. Returns false when out of memory.
 */
static bool put(struct index *ix, struct index_bucket *b, uint16_t tag, ref_t entry, ref_t *spare)
{
    bool further = false;
    while (b->ref[INDEX_SLOTS - 1] && b->more) {
        b = further_bucket(ix, b->more);
        further = true;
    }
    unsigned i = slots_used(b);
    if (i == INDEX_SLOTS) {
        ref_t more = *spare;
        if (more)
            *spare = further_bucket(ix, more)->more;
        else if (!(more = slab_alloc(ix->slab, sizeof(*b))))
            return false;
        b->more = more;
        b = further_bucket(ix, more);
        memset(b, 0, sizeof(*b));
        further = true;
        i = 0;
    }
    b->ref[i] = entry;
    b->tag[i] = tag;
    ix->overflowing += further;
    return true;
}

/*
 * Empties the chain at `from` and puts its entries where they belong now. Cannot run out of memory:
 * it needs no more overflow buckets than there were, and frees unused ones only at the end. If it
 * freed them at once, another shard might take the page first.
 */
static void redistribute(struct index *ix, struct index_bucket *from)
{
    struct index_bucket copy = *from;
    ref_t spare = 0;
    memset(from, 0, sizeof(*from));
    for (bool further = false;; further = true) {
        for (unsigned i = 0; i < INDEX_SLOTS && copy.ref[i]; i++) {
            uint32_t hash = ix->hash_of(ix->slab->arena, copy.ref[i]);
            struct index_bucket *to = index_bucket_at(ix, index_bucket_of(ix, hash));
            CHECK(put(ix, to, copy.tag[i], copy.ref[i], &spare));
            ix->overflowing -= further;
        }
        if (!copy.more)
            break;
        ref_t more = copy.more;
        copy = *further_bucket(ix, more);
        further_bucket(ix, more)->more = spare;
        spare = more;
    }
    while (spare) {
        ref_t more = spare;
        spare = further_bucket(ix, more)->more;
        slab_free(ix->slab, more);
    }
}

static void split(struct index *ix)
{
    uint32_t number = index_buckets(ix);
    if (number == BUCKETS_MAX)
        return;
    if (number % INDEX_SEGMENT == 0 && !add_segment(ix, number / INDEX_SEGMENT))
        return; /* no memory: continue with fuller buckets */
    set_buckets(ix, number + 1);
    redistribute(ix, index_bucket_at(ix, number & (index_mask(ix) >> 1)));
}

/*
 * Joins the last bucket with the one it was split from. Returns false when that would need an
 * overflow bucket, or when there are not too many buckets.
 */
static bool join(struct index *ix)
{
    if (index_buckets(ix) <= ix->buckets_min || ix->entries >= (size_t)index_buckets(ix) * EMPTY)
        return false;
    uint32_t last = index_buckets(ix) - 1;
    struct index_bucket *from = index_bucket_at(ix, last);
    struct index_bucket *to = index_bucket_at(ix, last & (index_mask(ix) >> 1));
    if (from->more || to->more || slots_used(from) + slots_used(to) > INDEX_SLOTS)
        return false;
    set_buckets(ix, last);
    redistribute(ix, from);
    if (last % INDEX_SEGMENT == 0)
        give_segment(ix, last / INDEX_SEGMENT);
    return true;
}

void index_trim(struct index *ix, unsigned joins)
{
    while (joins > 0 && join(ix))
        joins--;
}

bool index_insert(struct index *ix, uint32_t hash, ref_t entry)
{
    ref_t none = 0;
    if (!put(ix, index_bucket_at(ix, index_bucket_of(ix, hash)), tag_of(hash), entry, &none))
        return false;
    ix->entries++;
    if (ix->entries > (size_t)index_buckets(ix) * FULL)
        split(ix);
    return true;
}

void index_remove(struct index *ix, uint32_t hash, ref_t entry)
{
    struct index_bucket *first = index_bucket_at(ix, index_bucket_of(ix, hash));
    struct index_bucket *found = NULL, *before_last = NULL, *last = NULL;
    unsigned at = 0;
    for (struct index_bucket *b = first; b; b = index_further(ix, b)) {
        for (unsigned i = 0; !found && i < INDEX_SLOTS && b->ref[i]; i++) {
            if (b->ref[i] == entry) {
                found = b;
                at = i;
            }
        }
        before_last = last;
        last = b;
    }
    CHECK(found);
    /* The last entry of the chain fills the gap. */
    unsigned end = 1;
    while (end < INDEX_SLOTS && last->ref[end])
        end++;
    found->ref[at] = last->ref[end - 1];
    found->tag[at] = last->tag[end - 1];
    last->ref[end - 1] = 0;
    last->tag[end - 1] = 0;
    ix->overflowing -= last != first;
    if (end == 1 && before_last) {
        slab_free(ix->slab, before_last->more);
        before_last->more = 0;
    }
    ix->entries--;
    (void)join(ix);
}

static uint32_t reverse_bits(uint32_t v)
{
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(v);
}

/* The first bit-reversed hash after those in the same bucket as `hash`. */
static uint64_t end_of_bucket(const struct index *ix, uint32_t hash)
{
    /*
     * If the sibling bucket does not exist yet, this bucket has the entries of both: use one bit
     * less.
     */
    uint32_t sibling = index_bucket_of(ix, hash) | (index_mask(ix) ^ index_mask(ix) >> 1);
    uint32_t mask = sibling < index_buckets(ix) ? index_mask(ix) : index_mask(ix) >> 1;
    unsigned bits = (unsigned)__builtin_popcount(mask);
    uint64_t width = UINT64_C(1) << (32 - bits);
    return ((uint64_t)reverse_bits(hash & mask)) + width;
}

ref_t index_walk_next(const struct index *ix, struct index_walk *walk, unsigned *budget)
{
    while (!index_walk_done(walk) && *budget > 0) {
        --*budget;
        uint32_t hash = reverse_bits((uint32_t)walk->hash_from);
        uint64_t best_hash = UINT64_MAX;
        ref_t best = 0;
        for (const struct index_bucket *b = index_bucket_at(ix, index_bucket_of(ix, hash)); b;
             b = index_further(ix, b)) {
            for (unsigned i = 0; i < INDEX_SLOTS && b->ref[i]; i++) {
                ref_t ref = b->ref[i];
                uint64_t at = reverse_bits(ix->hash_of(ix->slab->arena, ref));
                bool ahead =
                    at > walk->hash_from || (at == walk->hash_from && ref >= walk->ref_from);
                if (ahead && (at < best_hash || (at == best_hash && ref < best))) {
                    best_hash = at;
                    best = ref;
                }
            }
        }
        if (best) {
            walk->hash_from = best_hash;
            walk->ref_from = best + 1;
            return best;
        }
        walk->hash_from = end_of_bucket(ix, hash);
        walk->ref_from = 0;
    }
    return 0;
}

void index_walk_rest(const struct index *ix, struct index_walk *walk)
{
    if (!walk->ref_from || index_walk_done(walk))
        return;
    uint32_t hash = reverse_bits((uint32_t)walk->hash_from);
    struct index_probe probe;
    for (ref_t r = index_first(ix, hash, &probe); r; r = index_next(ix, &probe)) {
        if (r >= walk->ref_from && ix->hash_of(ix->slab->arena, r) == hash)
            return;
    }
    walk->hash_from++;
    walk->ref_from = 0;
}
