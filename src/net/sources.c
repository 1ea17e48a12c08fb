/* sources.c - a hash table of sources with chains; all entries are in one array (see sources.h).
 * The array doubles when it is full, and is freed when the last entry is gone. */
#include "net/sources.h"

#include "net/address.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_ROOM 64
#define ROOM_MAX   (1u << 28)

#define UNIX_MARK 1 /* in byte 8 */

struct source {
    /* IPv4: in mapped form; IPv6: the last 64 bits are 0; a user: UNIX_MARK, and the number in the
     * last 32 bits; unknown: all 0. */
    uint8_t address[16];
    struct account *account; /* NULL: none */
    uint32_t connections;
    uint32_t next; /* next in the chain or in the free list; 0: none */
};

void sources_init(struct sources *sources)
{
    *sources = (struct sources){0};
    lock_init(&sources->lock, LOCK_RANK_SOURCES);
    /* Without random bytes the table still works, but an attacker could make its chains long. */
    if (getrandom(&sources->key, sizeof(sources->key), GRND_NONBLOCK) < 0)
        sources->key = (struct hash_key){.k0 = (uintptr_t)sources, .k1 = (uintptr_t)&sources};
}

static void give_back(struct sources *sources)
{
    free(sources->all);
    free(sources->buckets);
    sources->all = NULL;
    sources->buckets = NULL;
    sources->room = sources->used = sources->first_free = 0;
}

void sources_free(struct sources *sources)
{
    CHECK(sources->count == 0);
    give_back(sources);
    lock_destroy(&sources->lock);
}

/* The part of an address by which connections are counted; of an unknown one all 0. */
static void key_of(const struct sockaddr *from, uint8_t key_r[16])
{
    struct sockaddr_storage sa;
    address_normal(from, &sa);
    const uint8_t *bytes = address_bytes(&sa);
    memset(key_r, 0, 16);
    if (bytes && sa.ss_family == AF_INET6) {
        memcpy(key_r, bytes, 8);
    } else if (bytes) {
        key_r[10] = key_r[11] = 0xff;
        memcpy(key_r + 12, bytes, 4);
    }
}

/* The head of the chain for `key`. */
static uint32_t *chain_of(struct sources *sources, const uint8_t key[16])
{
    uint64_t hash = hash_bytes(&sources->key, key, 16);
    return &sources->buckets[(uint32_t)hash & (sources->room - 1)];
}

/* Doubles the table. Returns false, changing nothing, when there is no memory. */
static bool grow(struct sources *sources)
{
    uint32_t room = sources->room ? sources->room * 2 : FIRST_ROOM;
    if (room > ROOM_MAX)
        return false;
    uint32_t *buckets = calloc(room, sizeof(*buckets));
    if (!buckets)
        return false;
    struct source *all = realloc(sources->all, (room + (size_t)1) * sizeof(*all));
    if (!all) {
        free(buckets);
        return false;
    }
    free(sources->buckets);
    sources->buckets = buckets;
    sources->all = all;
    sources->room = room;
    for (uint32_t i = 1; i <= sources->used; i++) { /* no entry is free when the table grows */
        uint32_t *chain = chain_of(sources, all[i].address);
        all[i].next = *chain;
        *chain = i;
    }
    return true;
}

static uint32_t find(struct sources *sources, const uint8_t key[16])
{
    if (!sources->room)
        return 0;
    uint32_t i = *chain_of(sources, key);
    while (i && memcmp(sources->all[i].address, key, 16) != 0)
        i = sources->all[i].next;
    return i;
}

/* Adds an entry without connections. Returns 0 when there is no memory. */
static uint32_t add(struct sources *sources, const uint8_t key[16])
{
    uint32_t i = sources->first_free;
    if (i) {
        sources->first_free = sources->all[i].next;
    } else {
        if (sources->used == sources->room && !grow(sources))
            return 0;
        i = ++sources->used;
    }
    struct source *source = &sources->all[i];
    uint32_t *chain = chain_of(sources, key);
    memcpy(source->address, key, 16);
    source->connections = 0;
    source->account = NULL;
    source->next = *chain;
    *chain = i;
    sources->count++;
    return i;
}

static void drop(struct sources *sources, uint32_t i)
{
    struct source *source = &sources->all[i];
    uint32_t *link = chain_of(sources, source->address);
    while (*link != i)
        link = &sources->all[*link].next;
    *link = source->next;
    free(source->account);
    source->next = sources->first_free;
    sources->first_free = i;
    if (--sources->count == 0)
        give_back(sources);
}

static uint32_t enter(struct sources *sources, const uint8_t key[16], uint32_t limit)
{
    lock_acquire(&sources->lock);
    uint32_t i = find(sources, key), answer = SOURCE_NO_MEMORY;
    if (i && sources->all[i].connections >= limit) {
        answer = SOURCE_FULL;
    } else if (i || (i = add(sources, key)) != 0) {
        sources->all[i].connections++;
        answer = i;
    }
    lock_release(&sources->lock);
    return answer;
}

uint32_t source_enter(struct sources *sources, const struct sockaddr *from, uint32_t limit)
{
    uint8_t key[16];
    key_of(from, key);
    return enter(sources, key, limit);
}

uint32_t source_enter_peer(struct sources *sources, int fd)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    struct ucred peer;
    socklen_t len = sizeof(from), size = sizeof(peer);
    uint8_t key[16] = {0};
    if (getpeername(fd, (struct sockaddr *)&from, &len) != 0)
        from.ss_family = AF_UNSPEC;
    if (from.ss_family == AF_INET || from.ss_family == AF_INET6) {
        key_of((struct sockaddr *)&from, key);
    } else if (from.ss_family == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        key[8] = UNIX_MARK;
        memcpy(key + 12, &peer.uid, 4);
    }
    uint32_t source = enter(sources, key, UINT32_MAX);
    return source == SOURCE_FULL || source == SOURCE_NO_MEMORY ? 0 : source;
}

struct account **source_account(struct sources *sources, uint32_t source)
{
    lock_assert_held(&sources->lock);
    CHECK(source > 0 && source <= sources->used && sources->all[source].connections > 0);
    return &sources->all[source].account;
}

void source_leave(struct sources *sources, uint32_t source)
{
    if (!source)
        return;
    lock_acquire(&sources->lock);
    CHECK(source <= sources->used && sources->all[source].connections > 0);
    if (--sources->all[source].connections == 0)
        drop(sources, source);
    lock_release(&sources->lock);
}
