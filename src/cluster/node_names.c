/*
 * node_names.c - finds requests: acquisitions by id, and those that may wait by their name.
 *
 * A name is kept as long as something needs it: an acquisition that may wait, units that are
 * asserted, a `t` to send or under way, a wrong key, a pin.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_inside.h"

#include <malloc.h>
#include <stdlib.h>

#define TABLE_FIRST 64u
#define TRIM_FROM   16384u /* entries of a table */

/* ---- names ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct node *node, struct bytes name)
{
    return hash_bytes(&node->hash_key, name.data, name.len);
}

static struct node_name *find_hashed(struct node *node, struct bytes name, uint64_t hash)
{
    if (!node->names_size)
        return NULL;
    struct node_name *at = node->names[hash & (node->names_size - 1)];
    while (at && (at->hash != hash || !bytes_equal(name_bytes(at), name)))
        at = at->same_hash;
    return at;
}

struct node_name *node_name_find(struct node *node, struct bytes name)
{
    return find_hashed(node, name, hash_of(node, name));
}

static bool names_resize(struct node *node, size_t size)
{
    struct node_name **table = calloc(size, sizeof(struct node_name *));
    if (!table)
        return false;
    for (struct node_name *name = node->first_name; name; name = name->next) {
        struct node_name **at = &table[name->hash & (size - 1)];
        name->same_hash = *at;
        *at = name;
    }
    free(node->names);
    node->names = table;
    node->names_size = size;
    return true;
}

/* Makes room for one more. A larger table that can't be had is no reason to fail, but the first. */
static bool names_grow(struct node *node)
{
    if (node->names_size && node->names_count < node->names_size)
        return true;
    return names_resize(node, node->names_size ? 2 * node->names_size : TABLE_FIRST) ||
           node->names_size != 0;
}

void node_names_shrink(struct node *node)
{
    size_t size = node->names_size, before = size;
    while (size > TABLE_FIRST && node->names_count < size / 4)
        size /= 2;
    if (size == before)
        return;
    (void)names_resize(node, size);
    /* So many lay between what stays, and the C library would keep the pages. */
    if (before >= TRIM_FROM)
        malloc_trim(0);
}

struct node_name *node_name_get(struct node *node, struct bytes name)
{
    uint64_t hash = hash_of(node, name);
    struct node_name *entry = find_hashed(node, name, hash);
    if (entry || !names_grow(node))
        return entry;
    entry = calloc(1, sizeof(*entry) + name.len);
    if (!entry)
        return NULL;
    entry->hash = hash;
    entry->len = name.len;
    memcpy(entry->bytes, name.data, name.len);
    struct node_name **at = &node->names[hash & (node->names_size - 1)];
    entry->same_hash = *at;
    *at = entry;
    entry->prev = node->last_name;
    *(node->last_name ? &node->last_name->next : &node->first_name) = entry;
    node->last_name = entry;
    node->names_count++;
    return entry;
}

void node_name_release(struct node *node, struct node_name *name)
{
    if (name->first || name->units || name->told || name->pins || name->try_queued ||
        name->tries_sent || name->wrong || name == node->assert_name)
        return;
    struct node_name **at = &node->names[name->hash & (node->names_size - 1)];
    while (*at != name)
        at = &(*at)->same_hash;
    *at = name->same_hash;
    *(name->prev ? &name->prev->next : &node->first_name) = name->next;
    *(name->next ? &name->next->prev : &node->last_name) = name->prev;
    node->names_count--;
    free(name);
}

void node_names_free(struct node *node)
{
    for (struct node_name *name = node->first_name, *next; name; name = next) {
        next = name->next;
        free(name);
    }
    free(node->names);
    free(node->ids);
}

/* ---- asks ------------------------------------------------------------------------------------ */

static struct node_ask **id_place(struct node *node, uint64_t id)
{
    uint64_t mixed = id * UINT64_C(0x9e3779b97f4a7c15);
    return &node->ids[(mixed >> 32) & (node->ids_size - 1)];
}

static bool ids_grow(struct node *node)
{
    if (node->ids_size && node->ids_count < node->ids_size)
        return true;
    size_t size = node->ids_size ? 2 * node->ids_size : TABLE_FIRST, before = node->ids_size;
    struct node_ask **old = node->ids, **table = calloc(size, sizeof(struct node_ask *));
    if (!table)
        return before != 0;
    node->ids = table;
    node->ids_size = size;
    for (size_t i = 0; i < before; i++)
        for (struct node_ask *ask = old[i], *next; ask; ask = next) {
            next = ask->same_id;
            struct node_ask **at = id_place(node, ask->id);
            ask->same_id = *at;
            *at = ask;
        }
    free(old);
    return true;
}

struct node_ask *node_ask_find(struct node *node, uint64_t id)
{
    if (!node->ids_size)
        return NULL;
    struct node_ask *ask = *id_place(node, id);
    while (ask && ask->id != id)
        ask = ask->same_id;
    return ask;
}

bool node_index_add(struct node *node, struct node_ask *ask)
{
    if (!ids_grow(node))
        return false;
    if (ask->wait != NODE_WAIT_NO) {
        struct node_name *name = node_name_get(node, ask->name);
        if (!name)
            return false;
        ask->of_name = name;
        ask->same_name = NULL;
        ask->same_name_prev = name->last;
        *(name->last ? &name->last->same_name : &name->first) = ask;
        name->last = ask;
    }
    struct node_ask **at = id_place(node, ask->id);
    ask->same_id = *at;
    *at = ask;
    node->ids_count++;
    return true;
}

static void leave_name(struct node *node, struct node_ask *ask)
{
    struct node_name *name = ask->of_name;
    if (node->assert_wait == ask)
        node->assert_wait = ask->same_name;
    *(ask->same_name_prev ? &ask->same_name_prev->same_name : &name->first) = ask->same_name;
    *(ask->same_name ? &ask->same_name->same_name_prev : &name->last) = ask->same_name_prev;
    ask->of_name = NULL;
    if (!name->first)
        name->done_seq = 0;
    node_name_release(node, name);
}

void node_index_remove(struct node *node, struct node_ask *ask)
{
    struct node_ask **at = id_place(node, ask->id);
    while (*at != ask)
        at = &(*at)->same_id;
    *at = ask->same_id;
    node->ids_count--;
    if (ask->of_name)
        leave_name(node, ask);
}
