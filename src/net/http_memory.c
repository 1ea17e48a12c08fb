/*
 * http_memory.c - the reserve for libevent (see http_memory.h): two shelves, each with blocks of
 * one size. One byte for each block says whether it is in use. The shelves use no physical memory
 * until they are needed for the first time.
 */
#include "net/http_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Enough for everything that libevent keeps for 64 connections: about ten records and callbacks
 * each, all smaller than a small block, and received data in buffers that grow up to a large block.
 */
#define SMALL_BLOCK 1024
#define SMALL_COUNT 1024
#define LARGE_BLOCK ((size_t)32 * 1024)
#define LARGE_COUNT 128

static _Alignas(64) unsigned char small_blocks[SMALL_COUNT * SMALL_BLOCK];
static _Alignas(64) unsigned char large_blocks[LARGE_COUNT * LARGE_BLOCK];
static bool small_used[SMALL_COUNT], large_used[LARGE_COUNT];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Protected by the mutex. */
static struct shelf {
    unsigned char *blocks;
    bool *used;
    size_t size, count, in_use;
} shelves[] = {
    {small_blocks, small_used, SMALL_BLOCK, SMALL_COUNT, 0},
    {large_blocks, large_used, LARGE_BLOCK, LARGE_COUNT, 0},
};

static void *take_block(struct shelf *shelf)
{
    for (size_t i = 0; shelf->in_use < shelf->count && i < shelf->count; i++) {
        if (!shelf->used[i]) {
            shelf->used[i] = true;
            shelf->in_use++;
            return shelf->blocks + i * shelf->size;
        }
    }
    return NULL;
}

/* The shelf that contains `at`; NULL when it came from malloc. */
static struct shelf *shelf_of(const void *at)
{
    for (size_t i = 0; i < ARRAY_SIZE(shelves); i++) {
        uintptr_t begin = (uintptr_t)shelves[i].blocks;
        if ((uintptr_t)at - begin < shelves[i].count * shelves[i].size)
            return &shelves[i];
    }
    return NULL;
}

void *http_memory_take(size_t size)
{
    void *at = malloc(size);
    if (likely(at))
        return at;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    for (size_t i = 0; !at && i < ARRAY_SIZE(shelves); i++) {
        if (size <= shelves[i].size)
            at = take_block(&shelves[i]);
    }
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return at;
}

void http_memory_give(void *at)
{
    struct shelf *shelf = shelf_of(at);
    if (likely(!shelf)) {
        free(at);
        return;
    }
    CHECK(pthread_mutex_lock(&mutex) == 0);
    size_t i = (size_t)((unsigned char *)at - shelf->blocks) / shelf->size;
    CHECK(shelf->used[i]);
    shelf->used[i] = false;
    shelf->in_use--;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

void *http_memory_resize(void *at, size_t size)
{
    struct shelf *shelf = at ? shelf_of(at) : NULL;
    if (shelf && size <= shelf->size)
        return at;
    if (!shelf) {
        void *to = realloc(at, size);
        if (likely(to) || at == NULL)
            return to ? to : http_memory_take(size);
    }
    /* Moves the data out of the reserve, or into it. */
    void *to = http_memory_take(size);
    if (!to)
        return NULL;
    size_t had = shelf ? shelf->size : malloc_usable_size(at);
    memcpy(to, at, had < size ? had : size);
    http_memory_give(at);
    return to;
}

bool http_memory_is_short(void)
{
    bool is_short = false;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    for (size_t i = 0; i < ARRAY_SIZE(shelves); i++)
        is_short = is_short || shelves[i].in_use > shelves[i].count / 4;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return is_short;
}
