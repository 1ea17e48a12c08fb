/*
 * pool_change.c - MEMBER and POOL: what operators and the configuration change.
 *
 * A change is checked first and then made as a whole. What concerns a held member is noted in it
 * (enum pool_then) and happens when its hold ends, unless it is said to happen now. After a change
 * the waiters are looked at again: it may be what one waits for.
 */
#include "engine/pool_inside.h"

#include <stdlib.h>
#include <string.h>

/* Finds a member: OK, NO_POOL or NO_MEMBER. */
static enum pool_status find_member(struct pools *pools, struct bytes pool_name_, struct bytes name,
                                    struct pool_member **member_r)
{
    struct pool *pool = pool_find_whole(pools, pool_name_);
    if (!pool)
        return POOL_NO_POOL;
    *member_r = pool_find_member(pool, name);
    return *member_r ? POOL_OK : POOL_NO_MEMBER;
}

/* ---- MEMBER ADD ------------------------------------------------------------------------------ */

/* Adds a member of a static pool. */
static enum pool_status add_member(struct pool *pool, const struct pool_new_member *new)
{
    struct pool_member *m;
    enum pool_status status = pool_make_member(pool, new, &m);
    if (status != POOL_OK)
        return status;
    enum pool_state to = new->down                                    ? MEMBER_DOWN
                         : pool->options.on_start == POOL_AFTER_DIRTY ? MEMBER_DIRTY
                                                                      : MEMBER_FREE;
    pool_move(m, to, POOL_WHY_ADD, false, NULL);
    pool_serve_member(m);
    return POOL_OK;
}

enum pool_status pool_member_add(struct pools *pools, const struct pool_new_member *member,
                                 struct moment now, struct pool_effects *effects)
{
    enum pool_status status = POOL_NO_POOL;
    pool_enter(pools, now, effects);
    struct pool *pool = pool_find_whole(pools, member->pool);
    if (pool && !pool->draining)
        status = pool_is_joined(pool) ? POOL_WRONG_KIND : add_member(pool, member);
    pool_leave(pools);
    return status;
}

/* ---- MEMBER SET ------------------------------------------------------------------------------ */

/* The new parts of a member, made before anything is changed. */
struct new_parts {
    struct pool_attributes *attributes;
    struct pool_text *value, *note;
};

static void free_parts(struct pools *pools, struct new_parts *parts)
{
    pool_free(pools, parts->attributes);
    pool_free(pools, parts->value);
    pool_free(pools, parts->note);
}

static enum pool_status make_parts(struct pools *pools, const struct pool_member *m,
                                   const struct pool_member_change *change,
                                   struct new_parts *parts_r)
{
    enum pool_status status = POOL_OK;
    *parts_r = (struct new_parts){0};
    if (change->attribute_count > 0)
        parts_r->attributes = pool_attributes_new(pools, m->attributes, change->attributes,
                                                  change->attribute_count, &status);
    if (change->sets_value)
        parts_r->value = pool_text_new(pools, change->value);
    if (change->sets_note)
        parts_r->note = pool_text_new(pools, change->note);
    if ((change->sets_value && change->value.len > 0 && !parts_r->value) ||
        (change->sets_note && change->note.len > 0 && !parts_r->note))
        status = status == POOL_OK ? POOL_NO_MEMORY : status;
    if (status != POOL_OK)
        free_parts(pools, parts_r);
    return status;
}

/* Exchanges what is new, and leaves what was there in `parts`. */
static void put_parts(struct pool_member *m, const struct pool_member_change *change,
                      struct new_parts *parts)
{
    struct new_parts was = {0};
    if (change->attribute_count > 0) {
        was.attributes = m->attributes;
        pool_fit_unmatch(m);
        m->attributes = parts->attributes;
        pool_fit_match(m);
    }
    if (change->sets_value) {
        was.value = m->value;
        m->value = parts->value;
    }
    if (change->sets_note) {
        was.note = m->note;
        m->note = parts->note;
    }
    *parts = was;
}

static bool is_good_state(const struct pool_member *m, enum pool_state state)
{
    if (m->state == MEMBER_STOPPING)
        return false;
    return state == MEMBER_FREE || state == MEMBER_DOWN ||
           (state == MEMBER_DIRTY && !pool_is_joined(m->pool));
}

static void set_state(struct pool_member *m, enum pool_state state, bool at_once)
{
    if (m->state == state)
        return;
    if (!pool_is_held(m)) {
        pool_move(m, state, POOL_WHY_OPERATOR, false, NULL);
        pool_serve_member(m);
    } else if (at_once) {
        pool_hold_set_state(m, state);
    } else {
        pool_set_then(m, m->then | THEN_STATE);
        m->then_state = state;
    }
}

enum pool_status pool_member_set(struct pools *pools, const struct pool_member_change *change,
                                 struct moment now, struct pool_effects *effects)
{
    struct pool_member *m;
    struct new_parts parts;
    pool_enter(pools, now, effects);
    enum pool_status status = find_member(pools, change->pool, change->name, &m);
    if (status == POOL_OK && change->sets_state && !is_good_state(m, change->state))
        status = POOL_BAD_STATE;
    if (status == POOL_OK)
        status = make_parts(pools, m, change, &parts);
    if (status == POOL_OK) {
        put_parts(m, change, &parts);
        free_parts(pools, &parts);
        pool_serve_later(m->pool);
        if (change->sets_state)
            set_state(m, change->state, change->now);
    }
    pool_leave(pools);
    return status;
}

/* ---- MEMBER DROP ----------------------------------------------------------------------------- */

/* A held member goes, or stops, when its hold ends. */
static void doom(struct pool_member *m)
{
    struct pool *pool = m->pool;
    pool_set_then(m, m->then | THEN_DROP);
    pool_touch(pool);
}

/* The member goes now. Its client, if it has joined, is told to end it. */
static void drop_now(struct pool_member *m)
{
    bool told = m->state == MEMBER_STOPPING;
    if (m->joined && !told)
        pool_stop_later(m, POOL_WHY_DROP);
    if (m->hold) /* a held member may have none when a restore has failed */
        pool_hold_take_away(m, MEMBER_GONE, POOL_WHY_DROP);
    else
        pool_move(m, MEMBER_GONE, POOL_WHY_DROP, false, NULL);
}

static void drop_member(struct pool_member *m, bool at_once)
{
    if (at_once)
        drop_now(m);
    else if (pool_is_held(m))
        doom(m);
    else if (m->state != MEMBER_STOPPING)
        pool_member_out(m, POOL_WHY_DROP);
}

enum pool_status pool_member_drop(struct pools *pools, struct pool_client *by, bool own_only,
                                  struct bytes pool, struct bytes name, bool at_once,
                                  struct moment now, struct pool_effects *effects)
{
    struct pool_member *m;
    pool_enter(pools, now, effects);
    enum pool_status status = find_member(pools, pool, name, &m);
    if (status == POOL_OK) {
        bool own = by && m->joined && m->joined->client == by;
        if (own_only && !own)
            status = POOL_DENIED;
        else if (own && at_once)
            pool_member_leaves(m, POOL_WHY_LEAVE);
        else
            drop_member(m, at_once);
    }
    pool_leave(pools);
    return status;
}

/* ---- POOL SET -------------------------------------------------------------------------------- */

/* Orders the free members anew. */
static void order_anew(struct pool *pool)
{
    struct ring all;
    ring_init(&all);
    for (struct tree_node *n; (n = tree_first(&pool->free)) != NULL;) {
        struct pool_member *m = item_of(n, struct pool_member, place);
        tree_remove(&pool->free, n);
        ring_add(&all, &m->link);
    }
    for (struct ring *at; (at = ring_first(&all)) != NULL;) {
        struct pool_member *m = item_of(at, struct pool_member, link);
        ring_remove(at);
        m->rank = pool_rank_of(m, m->takes, m->rank.seq);
        tree_add(&pool->free, &m->place);
    }
    for (struct ring *at = pool->held.next; at != &pool->held; at = at->next) {
        struct pool_hold *hold = item_of(at, struct pool_hold, of_pool);
        const struct pool_member *m = hold->member;
        if (hold->what != POOL_FOR_CLEAN)
            hold->rank = pool_rank_of(m, m->takes - (hold->what == POOL_FOR_USE), hold->rank.seq);
    }
}

/* Times count from when they would have begun: ends that are due now come with the next timer. */
static void set_times(struct pool *pool)
{
    for (struct tree_node *n = tree_first(&pool->members); n; n = tree_next(n)) {
        struct pool_member *m = item_of(n, struct pool_member, by_name);
        if (m->then & THEN_LIFETIME)
            pool_set_then(m, m->then & ~(unsigned)THEN_LIFETIME);
        pool_set_lifetime(m);
    }
    pool->cull_ns = pool->pools->now.mono_ns;
    pool_note_timed(pool);
    pool_touch(pool);
}

/* Puts the options into force. Owns `group`. */
static void put_options(struct pool *pool, const struct pool_options *options, char *group)
{
    struct pool_options was = pool->options;
    pool_free(pool->pools, was.group);
    ring_remove(&pool->of_group);
    pool->options = *options;
    pool->options.group = group;
    if (group)
        ring_add(&pool->pools->grouped, &pool->of_group);
    if (was.order != options->order)
        order_anew(pool);
    set_times(pool);
    pool_expire(pool); /* now, so that no more members stop than are too many */
    if (was.max != options->max)
        pool_shrink(pool);
    if (was.order != options->order || was.max_lifetime_ns != options->max_lifetime_ns ||
        was.lifetime_jitter_ns != options->lifetime_jitter_ns)
        pool_fit_anew(pool);
    pool_fit_later(pool); /* others may close members now */
    pool_refuse(pool, options->queue_max, options->queue_max, POOL_QUEUE_FULL);
    if (pool->awaited > 0 && pool_is_joined(pool))
        pool_raise_want(pool, 0);
    pool_serve_later(pool);
    pool_share_later(pool);
}

/* A pool that was being dropped stays, with its members. */
static void keep(struct pool *pool)
{
    if (!pool->draining)
        return;
    pool->draining = false;
    for (struct ring *at = pool->held.next; at != &pool->held; at = at->next) {
        struct pool_member *m = item_of(at, struct pool_hold, of_pool)->member;
        pool_set_then(m, m->then & ~(unsigned)THEN_DROP);
    }
}

/* True if a pool has all these options, its group among them. */
static bool has_options(const struct pool *pool, const struct pool_options *b)
{
    const struct pool_options *a = &pool->options;
    return (a->group && b->group ? strcmp(a->group, b->group) == 0 : a->group == b->group) &&
           a->kind == b->kind && a->max == b->max && a->order == b->order &&
           a->queue_max == b->queue_max && a->overtakes == b->overtakes &&
           a->on_return == b->on_return && a->on_start == b->on_start && a->on_fail == b->on_fail &&
           a->clean_after_ns == b->clean_after_ns && a->clean_tries == b->clean_tries &&
           a->on_crash == b->on_crash && a->hold_warn_ns == b->hold_warn_ns &&
           a->hold_max_ns == b->hold_max_ns && a->min_free == b->min_free &&
           a->cull_after_ns == b->cull_after_ns && a->start_timeout_ns == b->start_timeout_ns &&
           a->stop_timeout_ns == b->stop_timeout_ns && a->max_lifetime_ns == b->max_lifetime_ns &&
           a->lifetime_jitter_ns == b->lifetime_jitter_ns;
}

enum pool_status pool_set(struct pools *pools, struct bytes name,
                          const struct pool_options *options, bool of_file, struct moment now,
                          struct pool_effects *effects)
{
    pool_enter(pools, now, effects);
    struct pool *pool = pool_find_whole(pools, name);
    enum pool_status status = !pool                                 ? POOL_NO_POOL
                              : pool->options.kind != options->kind ? POOL_WRONG_KIND
                              : of_file && !pool->of_file           ? POOL_EXISTS
                                                                    : POOL_OK;
    char *group = NULL;
    /* The file says what is so: a reload tells nobody, and needs no memory for that. */
    bool is_so = status == POOL_OK && of_file && !pool->draining && has_options(pool, options);
    if (status == POOL_OK && !is_so && options->group) {
        size_t size = strlen(options->group) + 1;
        group = pool_alloc(pools, size);
        if (group)
            memcpy(group, options->group, size);
        else
            status = POOL_NO_MEMORY;
    }
    if (status == POOL_OK) {
        if (of_file)
            keep(pool);
        if (is_so) {
            group = pool->options.group; /* stays */
            pool->options.group = NULL;
        } else {
            pool_tell(pool, POOL_CHANGED);
        }
        put_options(pool, options, group);
    }
    pool_leave(pools);
    return status;
}

/* ---- POOL DROP ------------------------------------------------------------------------------- */

/* Drops all members, at once or as they are returned. */
static void drop_members(struct pool *pool, bool at_once)
{
    struct tree_node *n, *next;
    while (at_once && (n = tree_first(&pool->members)) != NULL)
        drop_member(item_of(n, struct pool_member, by_name), true);
    for (n = tree_first(&pool->members); n; n = next) {
        next = tree_next(n);
        drop_member(item_of(n, struct pool_member, by_name), false);
    }
}

enum pool_status pool_drop(struct pools *pools, struct bytes name, bool at_once, struct moment now,
                           struct pool_effects *effects)
{
    pool_enter(pools, now, effects);
    struct pool *pool = pool_find_whole(pools, name);
    if (pool) {
        pool_ref(pool);
        if (!pool->draining) {
            pool->draining = true;
            if (pool->member_count > 0 && !at_once)
                pool_tell(pool, POOL_DRAINS);
            pool_refuse(pool, 0, 0, POOL_NO_POOL);
            pool_suppliers_dismiss(pool);
        }
        drop_members(pool, at_once);
        pool_end_if_empty(pool);
        pool_unref(pool);
    }
    pool_leave(pools);
    return pool ? POOL_OK : POOL_NO_POOL;
}

/* ---- the configuration ----------------------------------------------------------------------- */

static const struct pool_new_member *find_declared(const struct pool_new_member *members,
                                                   size_t count, struct bytes name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = bytes_compare(members[middle].name, name);
        if (order == 0)
            return &members[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool same_attributes(const struct pool_member *m, const struct pool_new_member *declared)
{
    const struct pool_attributes *has = m->attributes;
    size_t count = 0;
    for (size_t i = 0; i < declared->attribute_count; i++) {
        const struct pool_attribute *want = &declared->attributes[i];
        bool found = false;
        if (want->value.len == 0)
            continue;
        count++;
        for (size_t k = 0; has && k < has->count && !found; k++)
            found = bytes_equal(has->at[k].key, want->key) &&
                    bytes_equal(has->at[k].value, want->value);
        if (!found)
            return false;
    }
    return count == (has ? has->count : 0);
}

/* Makes a member as it is declared. Returns false without memory. */
static bool put_back(struct pool_member *m, const struct pool_new_member *declared,
                     struct pool_changes *changes)
{
    struct pool *pool = m->pool;
    struct pools *pools = pool->pools;
    enum pool_status status;
    bool dropping = m->then & THEN_DROP;
    if (dropping)
        pool_set_then(m, m->then & ~(unsigned)THEN_DROP);
    if (!dropping && same_attributes(m, declared) &&
        bytes_equal(pool_text_bytes(m->value), declared->value))
        return true;
    struct pool_text *value = pool_text_new(pools, declared->value);
    struct pool_attributes *attributes =
        pool_attributes_new(pools, NULL, declared->attributes, declared->attribute_count, &status);
    if (status != POOL_OK || (!value && declared->value.len > 0)) {
        pool_free(pools, value);
        pool_free(pools, attributes);
        return false;
    }
    pool_fit_unmatch(m);
    pool_free(pools, m->value);
    pool_free(pools, m->attributes);
    m->value = value;
    m->attributes = attributes;
    pool_fit_match(m);
    changes->put_back++;
    return true;
}

/* Drops members that are not declared. */
static void drop_others(struct pool *pool, const struct pool_new_member *members, size_t count,
                        struct pool_changes *changes)
{
    struct tree_node *next;
    for (struct tree_node *n = tree_first(&pool->members); n; n = next) {
        struct pool_member *m = item_of(n, struct pool_member, by_name);
        next = tree_next(n);
        if (find_declared(members, count, pool_member_name(m)) || m->then & THEN_DROP)
            continue;
        drop_member(m, false);
        changes->dropped++;
    }
}

static enum pool_status declare(struct pool *pool, const struct pool_new_member *members,
                                size_t count, struct pool_changes *changes)
{
    drop_others(pool, members, count, changes);
    for (size_t i = 0; i < count; i++) {
        struct pool_member *m = pool_find_member(pool, members[i].name);
        if (m && !put_back(m, &members[i], changes))
            return POOL_NO_MEMORY;
        enum pool_status status = m ? POOL_OK : add_member(pool, &members[i]);
        if (status == POOL_NO_MEMORY)
            return status;
        changes->added += !m && status == POOL_OK;
        changes->left_out += status == POOL_FULL;
    }
    pool_serve_later(pool);
    return POOL_OK;
}

enum pool_status pool_declare(struct pools *pools, struct bytes name,
                              const struct pool_new_member *members, size_t count,
                              struct pool_changes *changes_r, struct moment now,
                              struct pool_effects *effects)
{
    *changes_r = (struct pool_changes){0};
    pool_enter(pools, now, effects);
    struct pool *pool = pool_find_whole(pools, name);
    enum pool_status status = pool ? declare(pool, members, count, changes_r) : POOL_NO_POOL;
    pool_leave(pools);
    return status;
}
