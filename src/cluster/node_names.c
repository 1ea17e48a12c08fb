/*
 * node_names.c - finds requests: acquisitions by id, and those that may wait by their name.
 *
 * A name is kept as long as something needs it: an acquisition that may wait, units that are
 * asserted, a `t` to send or under way, a wrong key, a pin.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <malloc.h>
#include <stdlib.h>

#define TABLE_FIRST 64u
#define TRIM_FROM   16384u /* entries of a table */

/* ---- hash tables ----------------------------------------------------------------------------- */

static struct node_entry **chain_of(const struct node_table *t, uint64_t hash)
{
    return &t->chains[hash & (t->size - 1)];
}

static struct node_entry *first_of(const struct node_table *t, uint64_t hash)
{
    return t->size ? *chain_of(t, hash) : NULL;
}

/* There is room for it (table_grow). */
static void table_add(struct node_table *t, struct node_entry *entry, uint64_t hash)
{
    struct node_entry **chain = chain_of(t, hash);
    *entry = (struct node_entry){.next = *chain, .hash = hash};
    *chain = entry;
    t->count++;
}

static void table_remove(struct node_table *t, const struct node_entry *entry)
{
    struct node_entry **at = chain_of(t, entry->hash);
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    t->count--;
}

static bool table_resize(struct node_table *t, size_t size)
{
    struct node_table other = {.chains = calloc(size, sizeof(struct node_entry *)), .size = size};
    if (!other.chains)
        return false;
    for (size_t i = 0; i < t->size; i++)
        for (struct node_entry *entry = t->chains[i], *next; entry; entry = next) {
            next = entry->next;
            table_add(&other, entry, entry->hash);
        }
    free(t->chains);
    *t = other;
    return true;
}

/* Makes room for one more. A larger table that can't be had is no reason to fail, but the first. */
static bool table_grow(struct node_table *t)
{
    return (t->size && t->count < t->size) ||
           table_resize(t, t->size ? 2 * t->size : TABLE_FIRST) || t->size;
}

/* ---- names ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct node *node, struct bytes name)
{
    return hash_bytes(&node->hash_key, name.data, name.len);
}

static struct node_name *find_hashed(const struct node *node, struct bytes name, uint64_t hash)
{
    for (struct node_entry *at = first_of(&node->names, hash); at; at = at->next) {
        struct node_name *found = container_of(at, struct node_name, by_name);
        if (at->hash == hash && bytes_equal(name_bytes(found), name))
            return found;
    }
    return NULL;
}

struct node_name *node_name_find(struct node *node, struct bytes name)
{
    return find_hashed(node, name, hash_of(node, name));
}

void node_names_shrink(struct node *node)
{
    size_t size = node->names.size, before = size;
    while (size > TABLE_FIRST && node->names.count < size / 4)
        size /= 2;
    if (size == before)
        return;
    (void)table_resize(&node->names, size);
    /* So many lay between what stays, and the C library would keep the pages. */
    if (before >= TRIM_FROM)
        malloc_trim(0);
}

struct node_name *node_name_get(struct node *node, struct bytes name)
{
    uint64_t hash = hash_of(node, name);
    struct node_name *entry = find_hashed(node, name, hash);
    if (entry || !table_grow(&node->names))
        return entry;
    entry = calloc(1, sizeof(*entry) + name.len);
    if (!entry)
        return NULL;
    entry->len = name.len;
    memcpy(entry->bytes, name.data, name.len);
    table_add(&node->names, &entry->by_name, hash);
    entry->prev = node->last_name;
    *(node->last_name ? &node->last_name->next : &node->first_name) = entry;
    node->last_name = entry;
    return entry;
}

void node_name_release(struct node *node, struct node_name *name)
{
    if (name->first || name->units || name->told || name->pins || name->try_queued ||
        name->tries_sent || name->wrong || name == node->assert_name)
        return;
    table_remove(&node->names, &name->by_name);
    *(name->prev ? &name->prev->next : &node->first_name) = name->next;
    *(name->next ? &name->next->prev : &node->last_name) = name->prev;
    free(name);
}

void node_names_free(struct node *node)
{
    for (struct node_name *name = node->first_name, *next; name; name = next) {
        next = name->next;
        free(name);
    }
    free(node->names.chains);
    free(node->ids.chains);
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint64_t hash_id(uint64_t id)
{
    return id * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

struct node_request *node_request_find(struct node *node, uint64_t id)
{
    for (struct node_entry *at = first_of(&node->ids, hash_id(id)); at; at = at->next) {
        struct node_request *request = container_of(at, struct node_request, by_id);
        if (request->id == id)
            return request;
    }
    return NULL;
}

bool node_index_add(struct node *node, struct node_request *request)
{
    if (!table_grow(&node->ids))
        return false;
    if (request->wait != NODE_WAIT_NO) {
        struct node_name *name = node_name_get(node, request->name);
        if (!name)
            return false;
        request->of_name = name;
        request->same_name = NULL;
        request->same_name_prev = name->last;
        *(name->last ? &name->last->same_name : &name->first) = request;
        name->last = request;
    }
    table_add(&node->ids, &request->by_id, hash_id(request->id));
    return true;
}

static void leave_name(struct node *node, struct node_request *request)
{
    struct node_name *name = request->of_name;
    if (node->assert_wait == request)
        node->assert_wait = request->same_name;
    *(request->same_name_prev ? &request->same_name_prev->same_name : &name->first) =
        request->same_name;
    *(request->same_name ? &request->same_name->same_name_prev : &name->last) =
        request->same_name_prev;
    request->of_name = NULL;
    if (!name->first)
        name->done_seq = 0;
    node_name_release(node, name);
}

void node_index_remove(struct node *node, struct node_request *request)
{
    table_remove(&node->ids, &request->by_id);
    if (request->of_name)
        leave_name(node, request);
}
