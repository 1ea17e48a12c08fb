/*
 * pool_change.c - MEMBER and POOL: what operators and the configuration change.
 *
 * A change is checked first and then made as a whole. What concerns a held member is noted in it
 * (enum pool_then) and happens when its hold ends, unless it is said to happen now. After a change
 * the waiters are looked at again: it may be what one waits for.
 */
#include "engine/pool_internal.h"

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
                                 struct moment now, struct pool_outbox *outbox)
{
    enum pool_status status = POOL_NO_POOL;
    pool_enter(pools, now, outbox);
    struct pool *pool = pool_find_whole(pools, member->pool);
    if (pool && !pool->draining)
        status = pool_is_joined(pool) ? POOL_WRONG_KIND : add_member(pool, member);
    pool_leave(pools);
    return status;
}

/* ---- MEMBER SET ------------------------------------------------------------------------------ */

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
                                 struct moment now, struct pool_outbox *outbox)
{
    struct pool_member *m;
    pool_enter(pools, now, outbox);
    enum pool_status status = find_member(pools, change->pool, change->name, &m);
    if (status == POOL_OK && change->sets_state && !is_good_state(m, change->state))
        status = POOL_BAD_STATE;
    if (status == POOL_OK)
        status = pool_set_parts(m, change, false);
    if (status == POOL_OK) {
        pool_serve_later(m->pool);
        if (change->sets_state)
            set_state(m, change->state, change->now);
    }
    pool_leave(pools);
    return status;
}

/* ---- MEMBER DROP ----------------------------------------------------------------------------- */

/* Drops a member. Its client, if it has joined, is told to end it. */
static void drop_member(struct pool_member *m, bool at_once)
{
    if (at_once) {
        if (m->joined && m->state != MEMBER_STOPPING)
            pool_stop_later(m, POOL_WHY_DROP);
        pool_member_gone(m, POOL_WHY_DROP);
    } else if (pool_is_held(m)) { /* when its hold ends */
        pool_set_then(m, m->then | THEN_DROP);
        pool_touch(m->pool);
    } else if (m->state != MEMBER_STOPPING) {
        pool_member_out(m, POOL_WHY_DROP);
    }
}

enum pool_status pool_member_drop(struct pools *pools, struct pool_client *by, bool own_only,
                                  struct bytes pool, struct bytes name, bool at_once,
                                  struct moment now, struct pool_outbox *outbox)
{
    struct pool_member *m;
    pool_enter(pools, now, outbox);
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
    struct pool_member *m;
    ring_init(&all);
    while ((m = item_or_null(tree_first(&pool->free), struct pool_member, place)) != NULL) {
        tree_remove(&pool->free, &m->place);
        ring_add(&all, &m->link);
    }
    while ((m = first_of(struct pool_member, &all, link)) != NULL) {
        ring_remove(&m->link);
        m->rank = pool_rank_of(m, m->takes, m->rank.seq);
        tree_add(&pool->free, &m->place);
    }
    for (EACH(struct pool_hold, hold, &pool->held, of_pool)) {
        m = hold->member;
        if (hold->what != POOL_FOR_CLEAN)
            hold->rank = pool_rank_of(m, m->takes - (hold->what == POOL_FOR_USE), hold->rank.seq);
    }
}

/* Times count from when they would have begun: ends that are due now come with the next timer. */
static void set_times(struct pool *pool)
{
    for (EACH_NODE(struct pool_member, m, &pool->members, by_name.node)) {
        pool_unset_then(m, THEN_LIFETIME);
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
    pool_refuse(pool, options->queue_max, POOL_QUEUE_FULL);
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
    for (EACH(struct pool_hold, hold, &pool->held, of_pool))
        pool_unset_then(hold->member, THEN_DROP);
}

enum pool_status pool_set(struct pools *pools, struct bytes name,
                          const struct pool_options *options, bool of_file, struct moment now,
                          struct pool_outbox *outbox)
{
    pool_enter(pools, now, outbox);
    struct pool *pool = pool_find_whole(pools, name);
    enum pool_status status = !pool                                 ? POOL_NO_POOL
                              : pool->options.kind != options->kind ? POOL_WRONG_KIND
                              : of_file && !pool->of_file           ? POOL_EXISTS
                                                                    : POOL_OK;
    char *group = NULL;
    /* The file says what is so: a reload tells nobody, and needs no memory for that. */
    bool is_so = status == POOL_OK && of_file && !pool->draining && pool_has_options(pool, options);
    if (status == POOL_OK && !is_so && !pool_copy_group(pools, options->group, &group))
        status = POOL_NO_MEMORY;
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
    struct tree_node *next;
    for (struct tree_node *n = tree_first(&pool->members); n; n = next) {
        next = tree_next(n);
        drop_member(item_of(n, struct pool_member, by_name.node), at_once);
        if (at_once)
            next = tree_first(&pool->members); /* others may have gone with it */
    }
}

enum pool_status pool_drop(struct pools *pools, struct bytes name, bool at_once, struct moment now,
                           struct pool_outbox *outbox)
{
    pool_enter(pools, now, outbox);
    struct pool *pool = pool_find_whole(pools, name);
    if (pool) {
        pool_ref(pool);
        if (!pool->draining) {
            pool->draining = true;
            if (pool->member_count > 0 && !at_once)
                pool_tell(pool, POOL_DRAINS);
            pool_refuse(pool, 0, POOL_NO_POOL);
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

static int compare_declared(const void *name, const void *member)
{
    return bytes_compare(*(const struct bytes *)name,
                         ((const struct pool_new_member *)member)->name);
}

static bool same_attributes(const struct pool_member *m, const struct pool_new_member *declared)
{
    const struct pool_need need = {.with = declared->attributes,
                                   .with_count = declared->attribute_count};
    size_t count = 0;
    for (size_t i = 0; i < declared->attribute_count; i++)
        count += declared->attributes[i].value.len > 0;
    return count == (m->attributes ? m->attributes->count : 0) && pool_matches(&need, m);
}

/* Makes a member as it is declared. Returns false without memory. */
static bool put_back(struct pool_member *m, const struct pool_new_member *declared,
                     struct pool_changes *changes)
{
    bool dropping = m->then & THEN_DROP;
    pool_unset_then(m, THEN_DROP);
    if (!dropping && same_attributes(m, declared) &&
        bytes_equal(pool_text_bytes(m->value), declared->value))
        return true;
    const struct pool_member_change change = {.attributes = declared->attributes,
                                              .attribute_count = declared->attribute_count,
                                              .sets_value = true,
                                              .value = declared->value};
    bool done = pool_set_parts(m, &change, true) == POOL_OK;
    changes->put_back += done;
    return done;
}

/* Drops members that are not declared. */
static void drop_others(struct pool *pool, const struct pool_new_member *members, size_t count,
                        struct pool_changes *changes)
{
    struct tree_node *next;
    for (struct tree_node *n = tree_first(&pool->members); n; n = next) {
        struct pool_member *m = item_of(n, struct pool_member, by_name.node);
        next = tree_next(n);
        if ((count > 0 &&
             bsearch(&m->by_name.name, members, count, sizeof(*members), compare_declared)) ||
            m->then & THEN_DROP)
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
                              struct pool_outbox *outbox)
{
    *changes_r = (struct pool_changes){0};
    pool_enter(pools, now, outbox);
    struct pool *pool = pool_find_whole(pools, name);
    enum pool_status status = pool ? declare(pool, members, count, changes_r) : POOL_NO_POOL;
    pool_leave(pools);
    return status;
}

/* Makes a pool in `to` as `from` has it, which only the configuration has filled. */
static enum pool_status adopt(struct pools *to, const struct pool *from, struct moment now,
                              struct pool_outbox *outbox)
{
    struct pool_changes changes;
    size_t count = 0;
    enum pool_status status = pool_set(to, pool_name(from), &from->options, true, now, outbox);
    if (status == POOL_NO_POOL)
        status = pool_add(to, pool_name(from), &from->options, true, now, outbox);
    if (status != POOL_OK || pool_is_joined(from))
        return status;
    struct pool_new_member *members = calloc(from->member_count + 1, sizeof(*members));
    if (!members)
        return POOL_NO_MEMORY;
    for (EACH_NODE(const struct pool_member, m, &from->members, by_name.node)) {
        members[count++] = (struct pool_new_member){
            .name = pool_member_name(m),
            .value = pool_text_bytes(m->value),
            .note = pool_text_bytes(m->note),
            .attributes = m->attributes ? m->attributes->at : NULL,
            .attribute_count = m->attributes ? m->attributes->count : 0,
            .down = m->state == MEMBER_DOWN,
        };
    }
    status = pool_declare(to, pool_name(from), members, count, &changes, now, outbox);
    free(members);
    return status;
}

bool pools_adopt(struct pools *to, struct pools *from, struct moment now,
                 struct pool_outbox *outbox)
{
    bool all = true;
    for (EACH_NODE(const struct pool, pool, &from->by_name, by_name.node))
        all = adopt(to, pool, now, outbox) == POOL_OK && all;
    struct tree_node *next;
    for (struct tree_node *n = tree_first(&to->by_name); n; n = next) {
        const struct pool *pool = item_of(n, struct pool, by_name.node);
        next = tree_next(n);
        if (pool->of_file && !pool_find(from, pool_name(pool)))
            CHECK(pool_drop(to, pool_name(pool), false, now, outbox) == POOL_OK);
    }
    return all;
}
