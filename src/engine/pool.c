/*
 * pool.c - pools and their members, and the one function that moves a member to another state.
 *
 * A member is in one list for its state: a free one in the tree `free`, a dirty one in the tree
 * `dirty`, a held one through its hold in the ring `held`, a stopping one in the ring `stopping`.
 * One that is down is found by name only. The trees are ordered by rank; the first is taken next.
 *
 * A call that changes something begins with pool_enter and ends with pool_leave. In between, pools
 * with work that can wait until the end of the call are noted (pool_touch); pool_leave does it.
 */
#include "engine/pool_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---------------------------------------------------------------------------------- */

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

/* ---- memory --------------------------------------------------------------------------------- */

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

struct pool_text *pool_text_new(struct pools *pools, struct bytes bytes)
{
    struct pool_text *text = NULL;
    if (bytes.len > 0)
        text = pool_alloc(pools, sizeof(*text) + bytes.len);
    if (text) {
        text->len = bytes.len;
        memcpy(text->data, bytes.data, bytes.len);
    }
    return text;
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

struct pool_attributes *pool_attributes_copy(struct pools *pools, const struct pool_attribute *from,
                                             size_t count)
{
    size_t size = 0;
    CHECK(count <= POOL_ATTRIBUTES_MAX);
    for (size_t i = 0; i < count; i++)
        size += from[i].key.len + from[i].value.len;
    struct pool_attributes *new = NULL;
    if (count > 0)
        new = pool_alloc(pools, sizeof(*new) + size);
    if (!new)
        return NULL;
    uint8_t *to = new->text;
    for (size_t i = 0; i < count; i++) {
        new->at[i].key = copy_to(&to, from[i].key);
        new->at[i].value = copy_to(&to, from[i].value);
    }
    new->count = count;
    return new;
}

struct pool_attributes *pool_attributes_new(struct pools *pools, const struct pool_attributes *old,
                                            const struct pool_attribute *changes, size_t count,
                                            enum pool_status *status_r)
{
    struct pool_attribute all[2 * POOL_ATTRIBUTES_MAX];
    size_t kept = 0, old_count = old ? old->count : 0;
    *status_r = POOL_OK;
    CHECK(count <= POOL_ATTRIBUTES_MAX);
    for (size_t i = 0; i < old_count; i++) {
        const struct pool_attribute *change = find_key(changes, count, old->at[i].key);
        if (!change || change->value.len > 0)
            all[kept++] = change ? *change : old->at[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (changes[i].value.len > 0 && !find_key(all, kept, changes[i].key))
            all[kept++] = changes[i];
    }
    if (kept > POOL_ATTRIBUTES_MAX)
        *status_r = POOL_TOO_MANY;
    if (kept == 0 || *status_r != POOL_OK)
        return NULL;
    struct pool_attributes *new = pool_attributes_copy(pools, all, kept);
    if (!new)
        *status_r = POOL_NO_MEMORY;
    return new;
}

uint64_t pool_random(struct pools *pools)
{
    pools->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t x = pools->random;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- calls ---------------------------------------------------------------------------------- */

void pool_enter(struct pools *pools, struct moment now, struct pool_effects *effects)
{
    lock_acquire(&pools->lock);
    pool_set_now(pools, now);
    pools->effects = effects;
    pools->visits = 0;
}

void pool_touch(struct pool *pool)
{
    if (!ring_has(&pool->touched) && !pool->gone)
        ring_add(&pool->pools->touched, &pool->touched);
}

/* Notes when something is due next. */
static void note_next(struct pools *pools)
{
    int64_t next_ns = ring_is_empty(&pools->leaving) ? deadlines_next(&pools->deadlines) : 0;
    atomic_store_explicit(&pools->next_ns, next_ns, memory_order_relaxed);
}

/* Does the work that was noted, which may note more. */
static void do_noted_work(struct pools *pools)
{
    for (struct ring *first; (first = ring_first(&pools->touched)) != NULL;) {
        struct pool *pool = item_of(first, struct pool, touched);
        pool_fit_settle(pool);
        if (pool->to_serve) {
            pool->to_serve = false;
            pool_serve(pool);
        }
        if (pool->to_share) {
            pool->to_share = false;
            pool->share_due = pool_shares_later(pool);
            if (!pool->share_due)
                pool_share(pool);
        }
        pool_hold_settle(pool);
        if (pool->shrinking > 0)
            pool_stop_fewer(pool);
        if (pool->to_serve || pool->to_share || pool->unsettled)
            continue;
        ring_remove(first);
        pool_set_timer(pool);
    }
    for (struct ring *first; (first = ring_first(&pools->shared)) != NULL;) {
        struct pool *pool = item_of(first, struct pool, shared);
        ring_remove(first);
        pool_note_short(pool);
        pool_set_timer(pool);
    }
    note_next(pools);
}

/* Counts what this call has visited. */
static void note_visits(struct pools *pools)
{
    uint64_t most = atomic_load_explicit(&pools->visited_most, memory_order_relaxed);
    uint64_t sum = atomic_load_explicit(&pools->visited, memory_order_relaxed);
    atomic_store_explicit(&pools->visited, sum + pools->visits, memory_order_relaxed);
    if (pools->visits > most)
        atomic_store_explicit(&pools->visited_most, pools->visits, memory_order_relaxed);
}

void pool_leave(struct pools *pools)
{
    if (!ring_is_empty(&pools->touched) || !ring_is_empty(&pools->leaving) ||
        pools_next_ns(pools) == 0) /* clients left, or have left */
        do_noted_work(pools);
    pools->effects->visits += pools->visits;
    pools->effects = NULL;
    if (pools->visits > 0)
        note_visits(pools);
    lock_release(&pools->lock);
}

void pool_let_others(struct pools *pools)
{
    struct pool_effects *effects = pools->effects;
    struct moment now = pools->now;
    pool_leave(pools);
    pool_enter(pools, now, effects);
}

int64_t pools_next_ns(const struct pools *pools)
{
    return atomic_load_explicit(&pools->next_ns, memory_order_relaxed);
}

/* ---- all pools ------------------------------------------------------------------------------ */

static struct bytes name_of(const struct tree_node *node)
{
    return pool_name(item_of(node, struct pool, by_name));
}

static int compare_pools(const struct tree_node *a, const struct tree_node *b)
{
    return bytes_compare(name_of(a), name_of(b));
}

static int compare_pool_name(const struct tree_node *node, const void *name)
{
    return bytes_compare(name_of(node), *(const struct bytes *)name);
}

struct pools *pools_new(const struct pools_config *config)
{
    struct pools *pools = calloc(1, sizeof(*pools));
    if (!pools)
        return NULL;
    pools->config = *config;
    pools->fence = config->first_fence;
    pools->random = config->seed;
    lock_init(&pools->lock, LOCK_RANK_POOLS);
    tree_init(&pools->by_name, compare_pools, (uint32_t)config->seed);
    ring_init(&pools->grouped);
    ring_init(&pools->clients);
    ring_init(&pools->leaving);
    ring_init(&pools->watches);
    ring_init(&pools->mine);
    ring_init(&pools->touched);
    ring_init(&pools->shared);
    deadlines_init(&pools->deadlines);
    atomic_init(&pools->next_ns, DEADLINE_NONE);
    pools->visits_max = POOL_VISITS_MAX;
    return pools;
}

void pools_set_limits(struct pools *pools, const struct pools_limits *limits, struct moment now,
                      struct pool_effects *effects)
{
    pool_enter(pools, now, effects);
    pools->config.limits = *limits;
    for (struct tree_node *n = tree_first(&pools->by_name); n; n = tree_next(n))
        pool_share_later(item_of(n, struct pool, by_name));
    pool_leave(pools);
}

struct pool *pool_find(struct pools *pools, struct bytes name)
{
    struct tree_node *node = tree_from(&pools->by_name, &name, compare_pool_name);
    return node && bytes_equal(name_of(node), name) ? item_of(node, struct pool, by_name) : NULL;
}

struct pool *pool_find_whole(struct pools *pools, struct bytes name)
{
    struct pool *pool;
    while ((pool = pool_find(pools, name)) != NULL && unlikely(pool->leaving > 0)) {
        pool_clients_leave(pools);
        pool_let_others(pools);
    }
    return pool;
}

/* ---- a pool --------------------------------------------------------------------------------- */

static struct bytes member_name_of(const struct tree_node *node)
{
    return pool_member_name(item_of(node, struct pool_member, by_name));
}

static int compare_members(const struct tree_node *a, const struct tree_node *b)
{
    return bytes_compare(member_name_of(a), member_name_of(b));
}

static int compare_member_name(const struct tree_node *node, const void *name)
{
    return bytes_compare(member_name_of(node), *(const struct bytes *)name);
}

static int compare_places(const struct tree_node *a, const struct tree_node *b)
{
    struct pool_rank x = item_of(a, struct pool_member, place)->rank;
    struct pool_rank y = item_of(b, struct pool_member, place)->rank;
    if (x.key != y.key)
        return x.key < y.key ? -1 : 1;
    return x.seq < y.seq ? -1 : 1;
}

static int compare_checks(const struct tree_node *a, const struct tree_node *b)
{
    const struct pool_member *x = item_of(a, struct pool_member, check_place);
    const struct pool_member *y = item_of(b, struct pool_member, check_place);
    return x->checked_seq < y->checked_seq ? -1 : 1;
}

static int compare_waiters(const struct tree_node *a, const struct tree_node *b)
{
    const struct pool_place *x = item_of(a, struct pool_place, by_age);
    const struct pool_place *y = item_of(b, struct pool_place, by_age);
    return x->waiter->ask.seq < y->waiter->ask.seq ? -1 : 1;
}

static void init_pool(struct pool *pool)
{
    struct pools *pools = pool->pools;
    uint32_t seed = (uint32_t)pool_random(pools);
    tree_init(&pool->members, compare_members, seed);
    tree_init(&pool->free, compare_places, seed + 1);
    tree_init(&pool->dirty, compare_places, seed + 2);
    tree_init(&pool->checks, compare_checks, seed + 3);
    tree_init(&pool->users, compare_waiters, seed + 4);
    tree_init(&pool->others, compare_waiters, seed + 5 + 2 * POOL_FOR_COUNT);
    for (unsigned i = 0; i < POOL_FOR_COUNT; i++) {
        for (unsigned k = 0; k < CLASS_CHOOSY; k++)
            tree_init(&pool->classes[i][k], pool_compare_places, seed + 5 + 2 * i + k);
    }
    ring_init(&pool->held);
    ring_init(&pool->stopping);
    ring_init(&pool->owed);
    ring_init(&pool->choosy);
    ring_init(&pool->retries);
    ring_init(&pool->suppliers);
    ring_init(&pool->joiners);
    pool->short_ns = DEADLINE_NONE;
    ring_init(&pool->watches);
    ring_init(&pool->mine);
    deadlines_init(&pool->lifetimes);
    pool->cull_ns = DEADLINE_NONE;
}

static void free_pool(struct pool *pool)
{
    struct pools *pools = pool->pools;
    deadlines_free(&pool->lifetimes);
    pool_free(pools, pool->options.group);
    pool_free(pools, pool);
}

/* Makes the pool's own copy of a group's name. Returns false without memory. */
static bool copy_group(struct pools *pools, const char *group, char **copy_r)
{
    *copy_r = NULL;
    if (!group)
        return true;
    size_t size = strlen(group) + 1;
    *copy_r = pool_alloc(pools, size);
    if (*copy_r)
        memcpy(*copy_r, group, size);
    return *copy_r != NULL;
}

static struct pool *new_pool(struct pools *pools, struct bytes name,
                             const struct pool_options *options)
{
    size_t prefix = sizeof(POOL_PREFIX) - 1;
    struct pool *pool = pool_alloc(pools, sizeof(*pool) + prefix + name.len);
    char *group;
    if (!pool)
        return NULL;
    if (!copy_group(pools, options->group, &group)) {
        pool_free(pools, pool);
        return NULL;
    }
    pool->pools = pools;
    pool->options = *options;
    pool->options.group = group;
    pool->name_len = name.len;
    memcpy(pool->counter, POOL_PREFIX, prefix);
    memcpy(pool->counter + prefix, name.data, name.len);
    struct bytes counter = pool_counter(pool);
    table_prefetch(pools->config.table, &counter, 1, &pool->counter_hash);
    init_pool(pool);
    pool_note_timed(pool);
    return pool;
}

enum pool_status pool_add(struct pools *pools, struct bytes name,
                          const struct pool_options *options, bool of_file, struct moment now,
                          struct pool_effects *effects)
{
    enum pool_status status = POOL_NO_MEMORY;
    struct pool *pool = NULL;
    pool_enter(pools, now, effects);
    if (pool_find(pools, name))
        status = POOL_EXISTS;
    else if (pools->pool_count >= pools->config.limits.pools_max)
        status = POOL_TOO_MANY;
    else
        pool = new_pool(pools, name, options);
    if (pool && !deadlines_reserve(&pools->deadlines, 1)) {
        free_pool(pool);
        pool = NULL;
    }
    if (pool) {
        pool->of_file = of_file;
        pool->refs = 1;
        tree_add(&pools->by_name, &pool->by_name);
        if (pool->options.group)
            ring_add(&pools->grouped, &pool->of_group);
        pools->pool_count++;
        pool_tell(pool, POOL_ADDED);
        status = POOL_OK;
    }
    pool_leave(pools);
    return status;
}

enum pool_status pool_get_options(struct pools *pools, struct bytes name,
                                  struct pool_options *options_r, char *group_r, bool *of_file_r)
{
    lock_acquire(&pools->lock);
    const struct pool *pool = pool_find(pools, name);
    if (pool) {
        *options_r = pool->options;
        options_r->group = NULL;
        group_r[0] = '\0';
        if (pool->options.group)
            memcpy(group_r, pool->options.group, strlen(pool->options.group) + 1);
        *of_file_r = pool->of_file;
    }
    lock_release(&pools->lock);
    return pool ? POOL_OK : POOL_NO_POOL;
}

void pool_unref(struct pool *pool)
{
    CHECK(pool->refs > 0);
    if (--pool->refs == 0)
        free_pool(pool);
}

/* Takes a pool without members off the list. It stays in memory while something points to it. */
static void end_pool(struct pool *pool)
{
    struct pools *pools = pool->pools;
    pool_tell(pool, POOL_DROPPED);
    pool_watches_end(pool);
    tree_remove(&pools->by_name, &pool->by_name);
    ring_remove(&pool->of_group);
    ring_remove(&pool->touched);
    ring_remove(&pool->shared);
    deadline_clear(&pools->deadlines, &pool->deadline);
    deadlines_unreserve(&pools->deadlines, 1);
    note_next(pools);
    pools->pool_count--;
    pool->gone = true;
    pool_unref(pool);
}

void pool_end_if_empty(struct pool *pool)
{
    if (pool->draining && !pool->gone && pool->member_count == 0)
        end_pool(pool);
}

void pools_free(struct pools **pools)
{
    struct pools *p = *pools;
    if (!p)
        return;
    *pools = NULL;
    struct pool_effects none;
    pool_effects_init(&none);
    pool_clients_forget(p, &none);
    for (struct tree_node *first; (first = tree_first(&p->by_name)) != NULL;) {
        struct bytes name = name_of(first);
        CHECK(pool_drop(p, name, true, p->now, &none) == POOL_OK);
    }
    deadlines_free(&p->deadlines);
    free(p->restored);
    free(p);
}

/* ---- members -------------------------------------------------------------------------------- */

struct pool_member *pool_find_member(struct pool *pool, struct bytes name)
{
    struct tree_node *node = tree_from(&pool->members, &name, compare_member_name);
    return node && bytes_equal(member_name_of(node), name)
               ? item_of(node, struct pool_member, by_name)
               : NULL;
}

void pool_member_free(struct pool_member *m)
{
    struct pool *pool = m->pool;
    struct pools *pools = pool->pools;
    CHECK(m->state == MEMBER_GONE && !tree_has(&m->by_name));
    pool_free(pools, m->value);
    pool_free(pools, m->note);
    pool_free(pools, m->attributes);
    pool_free(pools, m);
    pool_unref(pool);
}

/* Makes the parts of a member that are of variable size. Returns false without memory. */
static bool make_parts(struct pools *pools, struct pool_member *m,
                       const struct pool_new_member *new)
{
    enum pool_status status;
    m->value = pool_text_new(pools, new->value);
    m->note = pool_text_new(pools, new->note);
    m->attributes =
        pool_attributes_new(pools, NULL, new->attributes, new->attribute_count, &status);
    return status == POOL_OK && (m->value || new->value.len == 0) &&
           (m->note || new->note.len == 0);
}

enum pool_status pool_make_member(struct pool *pool, const struct pool_new_member *new,
                                  struct pool_member **member_r)
{
    struct pools *pools = pool->pools;
    uint32_t max = pools->config.limits.members_max;
    if (pool_find_member(pool, new->name))
        return POOL_EXISTS;
    if (pool->member_count >= max ||
        (pool->options.max > 0 && pool->member_count >= pool->options.max))
        return POOL_FULL;
    struct pool_member *m = pool_alloc(pools, sizeof(*m) + new->name.len);
    if (!m)
        return POOL_NO_MEMORY;
    m->pool = pool;
    pool_ref(pool);
    m->name_len = new->name.len;
    memcpy(m->name, new->name.data, new->name.len);
    if (!make_parts(pools, m, new) ||
        (pool_is_joined(pool) && !deadlines_reserve(&pool->lifetimes, 1))) {
        pool_member_free(m);
        return POOL_NO_MEMORY;
    }
    m->since_ns = m->idle_ns = m->joined_ns = pools->now.mono_ns;
    m->checked_seq = ++pools->seq;
    m->stop_why = POOL_WHY_COUNT;
    tree_add(&pool->members, &m->by_name);
    pool->member_count++;
    pools->member_count++;
    *member_r = m;
    return POOL_OK;
}

/* ---- moves ---------------------------------------------------------------------------------- */

/* Sets of states. */
#define S(state) (1u << MEMBER_##state)
#define HELD     (S(TAKEN) | S(CLEANING) | S(CHECKING))
#define USED     (S(TAKEN) | S(CHECKING))
#define STATIC   (S(FREE) | S(DIRTY) | S(DOWN))

/*
 * The table of the protocol page: a member may move for this reason from these states to those;
 * some reasons have two such rows. A hold that ends with something in store (enum pool_then) has
 * the reason of that: so drop, lifetime, shrink and operator are also ways from a held state.
 */
static const struct {
    unsigned from, to;
} moves[POOL_WHY_COUNT][2] = {
    [POOL_WHY_ADD] = {{S(GONE), STATIC}},
    [POOL_WHY_JOIN] = {{S(GONE), S(FREE)}},
    [POOL_WHY_TAKE] = {{S(FREE), S(TAKEN)}},
    [POOL_WHY_CLEAN] = {{S(DIRTY), S(CLEANING)}},
    [POOL_WHY_CHECK] = {{S(FREE), S(CHECKING)}},
    [POOL_WHY_RETURN] = {{S(TAKEN), S(FREE) | S(DIRTY)}},
    [POOL_WHY_QUIT] = {{S(TAKEN), S(FREE) | S(DIRTY)}},
    [POOL_WHY_FAIL] = {{USED, STATIC | S(STOPPING)}},
    [POOL_WHY_CRASH] = {{USED, STATIC | S(STOPPING)}},
    [POOL_WHY_HOLD_MAX] = {{USED, STATIC | S(STOPPING)}},
    [POOL_WHY_UNDONE] = {{HELD, S(FREE) | S(DIRTY)}},
    [POOL_WHY_CLEANED] = {{S(CLEANING), S(FREE)}},
    [POOL_WHY_CLEAN_FAILED] = {{S(CLEANING), S(DIRTY) | S(DOWN)}},
    [POOL_WHY_CHECKED] = {{S(CHECKING), S(FREE)}},
    [POOL_WHY_RESTED] = {{S(DIRTY), S(FREE)}},
    [POOL_WHY_OPERATOR] = {{STATIC | HELD, STATIC}},
    [POOL_WHY_DROP] = {{STATIC | HELD, S(GONE) | S(STOPPING)}, {S(STOPPING), S(GONE)}},
    [POOL_WHY_CULL] = {{S(FREE), S(STOPPING)}},
    [POOL_WHY_LIFETIME] = {{S(FREE) | HELD, S(STOPPING)}},
    [POOL_WHY_SHRINK] = {{S(FREE) | HELD, S(STOPPING)}},
    [POOL_WHY_LEAVE] = {{STATIC | HELD | S(STOPPING), S(GONE)}},
    [POOL_WHY_LOST] = {{STATIC | HELD | S(STOPPING), S(GONE)}},
    [POOL_WHY_STOP_TIMEOUT] = {{S(STOPPING), S(GONE)}},
};

/* States that only one kind of pool has. */
#define ONLY_STATIC (S(DIRTY) | S(CLEANING))
#define ONLY_JOINED S(STOPPING)

static bool may_move(const struct pool_member *m, enum pool_state to, enum pool_why why)
{
    unsigned refused = pool_is_joined(m->pool) ? ONLY_STATIC : ONLY_JOINED;
    if (refused >> to & 1)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(moves[why]); i++) {
        if (moves[why][i].from >> m->state & 1 && moves[why][i].to >> to & 1)
            return true;
    }
    return false;
}

struct pool_rank pool_rank_of(const struct pool_member *m, uint64_t takes, uint64_t seq)
{
    switch ((enum pool_order)m->pool->options.order) {
    case POOL_LIFO:
        return (struct pool_rank){.key = UINT64_MAX - seq, .seq = seq};
    case POOL_FIFO:
        return (struct pool_rank){.key = seq, .seq = seq};
    case POOL_RANDOM:
        return (struct pool_rank){.key = pool_random(m->pool->pools), .seq = seq};
    case POOL_LEAST:
        return (struct pool_rank){.key = takes, .seq = seq};
    }
    CHECK(false);
}

/* Takes a member out of the lists of its state. */
static void leave_state(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (m->state == MEMBER_FREE || m->state == MEMBER_DIRTY)
        pool_fit_remove(m);
    if (m->state == MEMBER_FREE)
        tree_remove(&pool->free, &m->place);
    else if (m->state == MEMBER_DIRTY)
        tree_remove(&pool->dirty, &m->place);
    else if (m->state == MEMBER_STOPPING)
        ring_remove(&m->link);
    else if (pool_is_held(m))
        pool->pools->held_count--;
    if (m->state != MEMBER_GONE)
        pool->states[m->state]--;
}

/* Puts a member into the lists of its new state. */
static void enter_state(struct pool_member *m, bool same_place)
{
    struct pool *pool = m->pool;
    if (m->state == MEMBER_FREE || m->state == MEMBER_DOWN)
        m->clean_failures = 0;
    if (m->state == MEMBER_FREE) {
        if (!same_place) {
            m->rank = pool_rank_of(m, m->takes, ++pool->pools->seq);
            m->idle_ns = pool->pools->now.mono_ns;
        }
        tree_add(&pool->free, &m->place);
        pool_checks_add(m);
        if (pool->options.max_lifetime_ns > 0 && !deadline_is_set(&m->lifetime))
            pool_set_lifetime(m);
        pool_cull_later(pool, m->idle_ns + pool->options.cull_after_ns);
    } else if (m->state == MEMBER_DIRTY) {
        uint64_t seq = ++pool->pools->seq;
        if (!same_place)
            m->rank = (struct pool_rank){.key = seq, .seq = seq};
        tree_add(&pool->dirty, &m->place);
    } else if (m->state == MEMBER_STOPPING) {
        ring_add(&pool->stopping, &m->link);
    } else if (pool_is_held(m)) {
        pool->pools->held_count++;
    }
    if (m->state != MEMBER_GONE)
        pool->states[m->state]++;
    if (m->state == MEMBER_FREE || m->state == MEMBER_DIRTY)
        pool_fit_add(m);
}

void pool_set_then(struct pool_member *m, unsigned then)
{
    struct pool *pool = m->pool;
    bool was = pool_is_usable(m);
    pool->doomed -= (m->then & THEN_DOOMED) != 0;
    pool->doomed += (then & THEN_DOOMED) != 0;
    pool->shrinking -= (m->then & THEN_SHRINK) != 0;
    pool->shrinking += (then & THEN_SHRINK) != 0;
    m->then = then;
    if (was != pool_is_usable(m))
        pool_fit_usable(m, was ? -1 : 1);
}

/* A member is not there any more. */
static void forget(struct pool_member *m)
{
    struct pool *pool = m->pool;
    pool_checks_remove(m);
    pool_fit_skip(m, true);
    tree_remove(&pool->members, &m->by_name);
    if (pool_is_joined(pool)) {
        deadline_clear(&pool->lifetimes, &m->lifetime);
        deadlines_unreserve(&pool->lifetimes, 1);
    }
    struct pool_supplier *s = m->joined;
    m->joined = NULL;
    if (s) {
        ring_remove(&m->joined_link);
        pool_supplier_free_if_idle(s);
    }
    pool->member_count--;
    pool->pools->member_count--;
    pool_ref(pool);
    if (!ring_has(&m->stop_link)) /* else its STOP is still to be told */
        pool_member_free(m);
    pool_end_if_empty(pool);
    pool_unref(pool);
}

void pool_move(struct pool_member *m, enum pool_state to, enum pool_why why, bool same_place,
               const struct pool_hold *hold)
{
    struct pool *pool = m->pool;
    enum pool_state from = m->state;
    CHECK(may_move(m, to, why));
    CHECK(!m->hold == (to < MEMBER_TAKEN || to > MEMBER_CHECKING));
    bool counted = from != MEMBER_GONE && from != MEMBER_STOPPING;
    bool counts = to != MEMBER_GONE && to != MEMBER_STOPPING;
    bool was_usable = pool_is_usable(m);
    leave_state(m);
    m->state = to;
    m->since_ns = pool->pools->now.mono_ns;
    if (was_usable != pool_is_usable(m))
        pool_fit_usable(m, was_usable ? -1 : 1);
    enter_state(m, same_place);
    pool->moves[why]++;
    if (m->joined && counted != counts)
        pool_supplier_count(m, counts ? 1 : -1);
    else if (from == MEMBER_STOPPING)
        pool_share_later(pool); /* others have room for it now */
    if (to == MEMBER_STOPPING)
        pool_stop_later(m, why);
    if (pool->timed || pool_is_joined(pool))
        pool_touch(pool);
    pool_tell_move(m, from, why, hold);
    if (to == MEMBER_GONE)
        forget(m);
}

void pool_member_restored(struct pool_member *m, enum pool_state state, int64_t since_ns)
{
    m->state = state;
    m->since_ns = since_ns;
    enter_state(m, true);
}

void pool_member_out(struct pool_member *m, enum pool_why why)
{
    pool_move(m, pool_is_joined(m->pool) ? MEMBER_STOPPING : MEMBER_GONE, why, false, NULL);
}
