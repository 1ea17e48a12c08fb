/*
 * pool_parts.c - the words, the memory, and the parts, names and options of pools and members.
 */
#include "engine/pool_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

const char *pool_state_word(enum pool_state state)
{
    static const char *const words[MEMBER_STATES] = {"-",        "free",  "taken",    "cleaning",
                                                     "checking", "dirty", "stopping", "down"};
    CHECK(state < MEMBER_STATES);
    return words[state];
}

const char *pool_why_word(enum pool_why why)
{
    static const char *const words[POOL_WHY_COUNT] = {
#define ROW(name, word) [POOL_WHY_##name] = (word),
        POOL_WHYS(ROW)
#undef ROW
    };
    CHECK(why < POOL_WHY_COUNT);
    return words[why];
}

const char *pool_for_word(enum pool_for what)
{
    static const char *const words[POOL_FOR_COUNT] = {"use", "clean", "check"};
    CHECK(what < POOL_FOR_COUNT);
    return words[what];
}

const char *pool_outcome_word(enum pool_outcome outcome)
{
    static const char *const words[POOL_TAKES_COUNT] = {"taken", "busy", "growing", "timed_out",
                                                        "queue_full"};
    CHECK(outcome < POOL_TAKES_COUNT);
    return words[outcome];
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* In front of each piece of memory. */
union header {
    size_t size;
    max_align_t align;
};

void *pool_alloc(struct pools *pools, size_t size)
{
    size += sizeof(union header);
    if (!table_charge(pools->config.table, size))
        return NULL;
    union header *header = calloc(1, size);
    if (!header) {
        table_uncharge(pools->config.table, size);
        return NULL;
    }
    header->size = size;
    return header + 1;
}

void pool_free(struct pools *pools, void *at)
{
    if (!at)
        return;
    union header *header = (union header *)at - 1;
    table_uncharge(pools->config.table, header->size);
    free(header);
}

bool pool_text_new(struct pools *pools, struct bytes bytes, struct pool_text **text_r)
{
    struct pool_text *text = bytes.len > 0 ? pool_alloc(pools, sizeof(*text) + bytes.len) : NULL;
    *text_r = text;
    if (text) {
        text->len = bytes.len;
        memcpy(text->data, bytes.data, bytes.len);
    }
    return text || bytes.len == 0;
}

/* The attribute with this key; NULL: none. */
static const struct pool_attribute *find_key(const struct pool_attribute *in, size_t count,
                                             struct bytes key)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_equal(in[i].key, key))
            return &in[i];
    }
    return NULL;
}

/* Copies bytes to *to, which moves on. */
static struct bytes copy_to(uint8_t **to, struct bytes bytes)
{
    struct bytes copy = bytes_at(*to, bytes.len);
    if (bytes.len > 0)
        memcpy(*to, bytes.data, bytes.len);
    *to += bytes.len;
    return copy;
}

bool pool_attributes_copy(struct pools *pools, const struct pool_attribute *from, size_t count,
                          struct pool_attributes **copy_r)
{
    size_t size = 0;
    CHECK(count <= POOL_ATTRIBUTES_MAX);
    for (size_t i = 0; i < count; i++)
        size += from[i].key.len + from[i].value.len;
    struct pool_attributes *copy = count > 0 ? pool_alloc(pools, sizeof(*copy) + size) : NULL;
    *copy_r = copy;
    if (!copy)
        return count == 0;
    uint8_t *to = copy->text;
    for (copy->count = 0; copy->count < count; copy->count++) {
        copy->at[copy->count].key = copy_to(&to, from[copy->count].key);
        copy->at[copy->count].value = copy_to(&to, from[copy->count].value);
    }
    return true;
}

/* Makes attributes: those of `old` (NULL: none), changed by others, of which an empty value removes
 * one. */
static enum pool_status change_attributes(struct pools *pools, const struct pool_attributes *old,
                                          const struct pool_attribute *changes, size_t count,
                                          struct pool_attributes **new_r)
{
    struct pool_attribute all[2 * POOL_ATTRIBUTES_MAX];
    size_t kept = 0;
    CHECK(count <= POOL_ATTRIBUTES_MAX);
    *new_r = NULL;
    for (size_t i = 0; old && i < old->count; i++) {
        const struct pool_attribute *change = find_key(changes, count, old->at[i].key);
        if (!change || change->value.len > 0)
            all[kept++] = change ? *change : old->at[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (changes[i].value.len > 0 && !find_key(all, kept, changes[i].key))
            all[kept++] = changes[i];
    }
    if (kept > POOL_ATTRIBUTES_MAX)
        return POOL_TOO_MANY;
    return pool_attributes_copy(pools, all, kept, new_r) ? POOL_OK : POOL_NO_MEMORY;
}

#define EXCHANGE(a, b)                                                                             \
    do {                                                                                           \
        __typeof__(a) a_ = (a);                                                                    \
        (a) = (b);                                                                                 \
        (b) = a_;                                                                                  \
    } while (0)

enum pool_status pool_set_parts(struct pool_member *m, const struct pool_member_change *change,
                                bool anew)
{
    struct pools *pools = m->pool->pools;
    struct pool_text *value = m->value, *note = m->note;
    struct pool_attributes *attributes = m->attributes;
    enum pool_status status = POOL_OK;
    bool sets_attributes = anew || change->attribute_count > 0;
    if (sets_attributes)
        status = change_attributes(pools, anew ? NULL : m->attributes, change->attributes,
                                   change->attribute_count, &attributes);
    if (status == POOL_OK &&
        ((change->sets_value && !pool_text_new(pools, change->value, &value)) ||
         (change->sets_note && !pool_text_new(pools, change->note, &note))))
        status = POOL_NO_MEMORY;
    if (status == POOL_OK) {
        if (sets_attributes)
            pool_fit_unmatch(m);
        EXCHANGE(m->attributes, attributes);
        EXCHANGE(m->value, value);
        EXCHANGE(m->note, note);
        if (sets_attributes)
            pool_fit_match(m);
    }
    if (attributes != m->attributes)
        pool_free(pools, attributes);
    if (value != m->value)
        pool_free(pools, value);
    if (note != m->note)
        pool_free(pools, note);
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct bytes name_of(const struct tree_node *node)
{
    return item_of(node, struct pool_named, node)->name;
}

int pool_compare_named(const struct tree_node *a, const struct tree_node *b)
{
    return bytes_compare(name_of(a), name_of(b));
}

static int compare_name(const struct tree_node *node, const void *name)
{
    return bytes_compare(name_of(node), *(const struct bytes *)name);
}

struct tree_node *pool_named_from(const struct tree *tree, struct bytes name, bool after)
{
    struct tree_node *node = tree_from(tree, &name, compare_name);
    return node && after && compare_name(node, &name) == 0 ? tree_next(node) : node;
}

/* ---- chance ---------------------------------------------------------------------------------- */

uint64_t pool_random(struct pools *pools)
{
    pools->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t x = pools->random;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- options --------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct pool_options, member)
static const size_t numbers[POOL_NUMBERS] = {
    AT(kind),     AT(max),     AT(order),       AT(queue_max), AT(overtakes), AT(on_return),
    AT(on_start), AT(on_fail), AT(clean_tries), AT(on_crash),  AT(min_free)};
static const size_t times[POOL_TIMES] = {
    AT(clean_after_ns),   AT(hold_warn_ns),    AT(hold_max_ns),     AT(cull_after_ns),
    AT(start_timeout_ns), AT(stop_timeout_ns), AT(max_lifetime_ns), AT(lifetime_jitter_ns)};

uint32_t *pool_number_of(struct pool_options *o, size_t i)
{
    return (uint32_t *)(void *)((char *)o + numbers[i]);
}

int64_t *pool_time_of(struct pool_options *o, size_t i)
{
    return (int64_t *)(void *)((char *)o + times[i]);
}

bool pool_has_options(const struct pool *pool, const struct pool_options *o)
{
    const struct pool_options *own = &pool->options;
    bool same = own->group && o->group ? strcmp(own->group, o->group) == 0 : own->group == o->group;
    for (size_t i = 0; i < POOL_NUMBERS; i++)
        same = same && *pool_number_of(unconst(own), i) == *pool_number_of(unconst(o), i);
    for (size_t i = 0; i < POOL_TIMES; i++)
        same = same && *pool_time_of(unconst(own), i) == *pool_time_of(unconst(o), i);
    return same;
}
