/*
 * pool_take.c - TAKE: which member goes to which client.
 *
 * A request fits a pool when enough members there match it and are not closed to it. A new request
 * that fits is served at once: it is younger than all that wait, and of those none fits. Else it
 * may wait, with a place in each pool that has room. Whatever becomes free goes to the oldest
 * waiter that fits.
 *
 * The waiters of a pool are kept by age (`waiters`), and by class and age. So the oldest that a
 * member fits is found at once for the classes PLAIN and NAMED, whatever their number; of the
 * others each is looked at, oldest first. Requests for checks come behind all requests for use.
 *
 * Overtaking: only a request for several members can be passed by younger ones that could use the
 * same members. After `overtakes` such members it closes all members that match it to younger
 * requests, unless the pool has fewer of them than it needs. Until then it is in the list `passed`,
 * afterwards in `closers`; so each is counted at most `overtakes` times.
 *
 * The tree `checks` has the free members by the time of their last check. It is kept from the first
 * request for a check on. A member that is taken stays there until a request for a check meets it;
 * when it is free again it is added again. So requests for use pay nothing for it.
 */
#include "engine/pool_inside.h"

#include <string.h>

/* ---- order ---------------------------------------------------------------------------------- */

static struct pool_place *place_by_age(const struct tree_node *node)
{
    return item_of(node, struct pool_place, by_age);
}

static struct pool_place *place_by_class(const struct tree_node *node)
{
    return item_of(node, struct pool_place, by_class);
}

/* The first place of a class, from `node` on; NULL: none. */
static struct pool_place *place_or_null(const struct tree_node *node)
{
    return node ? place_by_class(node) : NULL;
}

static int compare_ages(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int pool_compare_places(const struct tree_node *a, const struct tree_node *b)
{
    const struct pool_waiter *x = place_by_class(a)->waiter, *y = place_by_class(b)->waiter;
    int order = 0;
    if (x->class == CLASS_NAMED)
        order = bytes_compare(x->ask.member, y->ask.member);
    return order ? order : compare_ages(x->ask.seq, y->ask.seq);
}

static int compare_named(const struct tree_node *node, const void *name)
{
    return bytes_compare(place_by_class(node)->waiter->ask.member, *(const struct bytes *)name);
}

enum pool_class pool_class_of(const struct pool_ask *ask)
{
    if (ask->what == POOL_FOR_CLEAN)
        return CLASS_CLEAN;
    if (ask->what == POOL_FOR_CHECK)
        return CLASS_CHECK;
    if (ask->count > 1 || ask->with_count > 0)
        return CLASS_CHOOSY;
    return ask->member.len > 0 ? CLASS_NAMED : CLASS_PLAIN;
}

/* ---- what matches --------------------------------------------------------------------------- */

static bool has_attribute(const struct pool_member *m, const struct pool_attribute *with)
{
    for (size_t i = 0; m->attributes && i < m->attributes->count; i++) {
        const struct pool_attribute *at = &m->attributes->at[i];
        if (bytes_equal(at->key, with->key))
            return bytes_equal(at->value, with->value);
    }
    return with->value.len == 0;
}

bool pool_matches(const struct pool_ask *ask, const struct pool_member *m)
{
    if (ask->member.len > 0 && !bytes_equal(ask->member, pool_member_name(m)))
        return false;
    for (size_t i = 0; i < ask->with_count; i++) {
        if (!has_attribute(m, &ask->with[i]))
            return false;
    }
    return true;
}

/* True if a member could ever serve: it is not out of service, and will not go. */
static bool is_usable(const struct pool_member *m)
{
    return m->state != MEMBER_DOWN && m->state != MEMBER_STOPPING && !(m->then & THEN_DOOMED);
}

/* The number of members of the pool that a waiter could use. */
static uint32_t population(struct pool_place *place)
{
    struct pool *pool = place->pool;
    const struct pool_ask *ask = &place->waiter->ask;
    if (ask->with_count == 0)
        return pool->member_count - pool->states[MEMBER_DOWN] - pool->states[MEMBER_STOPPING] -
               pool->doomed;
    if (place->counted == pool->changes)
        return place->population;
    place->counted = pool->changes;
    place->population = 0;
    for (struct tree_node *n = tree_first(&pool->members); n; n = tree_next(n)) {
        const struct pool_member *m = item_of(n, struct pool_member, by_name);
        place->population += is_usable(m) && pool_matches(ask, m);
    }
    return place->population;
}

/* True if a wait can be overtaken. */
static bool can_be_passed(const struct pool_waiter *w)
{
    return w->ask.count > 1 && w->class != CLASS_CHECK;
}

static struct pool_place *rival_at(const struct ring *of_rivals)
{
    return item_of(of_rivals, struct pool_place, of_rivals);
}

/* True if a wait for several members comes before a request. */
static bool comes_before(const struct pool_place *place, const struct pool_ask *ask)
{
    return ask->what == POOL_FOR_CHECK || place->waiter->ask.seq < ask->seq;
}

/* Puts a wait for several members in its list, by age. */
static void add_rival(struct pool_place *place)
{
    struct pool *pool = place->pool;
    bool clean = place->waiter->class == CLASS_CLEAN;
    bool closes = place->overtaken >= pool->options.overtakes;
    struct ring *list = closes ? &pool->closers[clean] : &pool->passed[clean], *after = list->prev;
    while (after != list && rival_at(after)->waiter->ask.seq > place->waiter->ask.seq)
        after = after->prev;
    ring_add_after(after, &place->of_rivals);
}

void pool_find_closers(struct pool *pool)
{
    struct tree_node *n;
    for (n = tree_first(&pool->waiters); n; n = tree_next(n))
        ring_remove(&place_by_age(n)->of_rivals);
    for (n = tree_first(&pool->waiters); n; n = tree_next(n)) {
        if (can_be_passed(place_by_age(n)->waiter))
            add_rival(place_by_age(n));
    }
}

/* True if an older request has closed this member to the request; then it is closed to all younger
 * ones, too. */
static bool is_closed(struct pool *pool, const struct pool_member *m, const struct pool_ask *ask)
{
    const struct ring *closers = &pool->closers[ask->what == POOL_FOR_CLEAN];
    for (struct ring *at = closers->next; unlikely(at != closers); at = at->next) {
        struct pool_place *place = rival_at(at);
        const struct pool_ask *other = &place->waiter->ask;
        if (!comes_before(place, ask))
            return false;
        if (pool_matches(other, m) && population(place) >= other->count)
            return true;
    }
    return false;
}

/* A member goes to a request: counts that for the older ones that could use it, until they close
 * members. */
static void count_overtaken(struct pool *pool, const struct pool_member *m,
                            const struct pool_ask *ask)
{
    struct ring *passed = &pool->passed[ask->what == POOL_FOR_CLEAN], *next;
    for (struct ring *at = passed->next; unlikely(at != passed); at = next) {
        struct pool_place *place = rival_at(at);
        next = at->next;
        if (!comes_before(place, ask))
            return;
        if (!pool_matches(&place->waiter->ask, m) || ++place->overtaken < pool->options.overtakes)
            continue;
        ring_remove(at);
        add_rival(place);
    }
}

/* ---- what is there -------------------------------------------------------------------------- */

void pool_checks_add(struct pool_member *m)
{
    if (!tree_has(&m->check_place))
        tree_add(&m->pool->checks, &m->check_place);
}

/* Begins to keep the order of checks. */
static void keep_checks(struct pool *pool)
{
    if (pool->checked)
        return;
    pool->checked = true;
    for (struct tree_node *n = tree_first(&pool->free); n; n = tree_next(n))
        pool_checks_add(item_of(n, struct pool_member, place));
}

/* The first member of `checks` that is free, beginning with `n`; removes those that are not. */
static struct tree_node *skip_taken(struct pool *pool, struct tree_node *n)
{
    while (n && item_of(n, struct pool_member, check_place)->state != MEMBER_FREE) {
        struct tree_node *next = tree_next(n);
        tree_remove(&pool->checks, n);
        n = next;
    }
    return n;
}

/* Walks over the members that a request may be served from, in its order. */
static struct pool_member *next_member(struct pool *pool, enum pool_for what,
                                       const struct pool_member *after)
{
    struct tree_node *n;
    if (what == POOL_FOR_CHECK) {
        n = after ? tree_next(&after->check_place) : tree_first(&pool->checks);
        n = skip_taken(pool, n);
        return n ? item_of(n, struct pool_member, check_place) : NULL;
    }
    n = after                    ? tree_next(&after->place)
        : what == POOL_FOR_CLEAN ? tree_first(&pool->dirty)
                                 : tree_first(&pool->free);
    return n ? item_of(n, struct pool_member, place) : NULL;
}

/* True if a member is in the state that a request needs, and may be handed out. */
static bool is_ready(const struct pool_member *m, enum pool_for what)
{
    return m->state == (what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE) &&
           !(m->joined && m->joined->client->ended);
}

/*
 * Finds up to `max` members in this pool that the request may have now, in the order in which they
 * are given out. Returns their number.
 */
static uint32_t find(struct pool *pool, const struct pool_ask *ask, uint32_t max,
                     struct pool_member **found)
{
    uint32_t count = 0;
    if (ask->member.len > 0) {
        struct pool_member *m = pool_find_member(pool, ask->member);
        if (!m || !is_ready(m, ask->what) || !pool_matches(ask, m) || is_closed(pool, m, ask))
            return 0;
        found[0] = m;
        return 1;
    }
    if (ask->what == POOL_FOR_CHECK)
        keep_checks(pool);
    struct pool_member *m = NULL;
    while (count < max && (m = next_member(pool, ask->what, m)) != NULL) {
        if (is_ready(m, ask->what) && pool_matches(ask, m) && !is_closed(pool, m, ask))
            found[count++] = m;
    }
    return count;
}

/* The number of members that the request may have now. */
static uint32_t count_free(struct pool *pool, const struct pool_ask *ask)
{
    uint32_t count = 0;
    if (ask->with_count == 0 && !pool_closes(pool))
        return pool->states[ask->what == POOL_FOR_CLEAN ? MEMBER_DIRTY : MEMBER_FREE];
    if (ask->what == POOL_FOR_CHECK)
        keep_checks(pool);
    for (struct pool_member *m = NULL; (m = next_member(pool, ask->what, m)) != NULL;)
        count += pool_matches(ask, m) && !is_closed(pool, m, ask);
    return count;
}

/* ---- the lines of a waiter ------------------------------------------------------------------- */

static bool is_in_line(const struct pool_place *place)
{
    return tree_has(&place->by_age);
}

static uint32_t *waiting_of(struct pool *pool, enum pool_for what)
{
    return what == POOL_FOR_USE ? &pool->waiting_use : &pool->waiting_other;
}

static void enter_line(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    tree_add(&pool->waiters, &place->by_age);
    tree_add(&pool->classes[w->class], &place->by_class);
    (*waiting_of(pool, w->ask.what))++;
    if (w->ask.what == POOL_FOR_USE)
        pool->awaited += w->ask.count;
    if (can_be_passed(w))
        add_rival(place);
    pool->pools->waiting_count++;
    w->in_line++;
}

static void leave_line(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    tree_remove(&pool->waiters, &place->by_age);
    tree_remove(&pool->classes[w->class], &place->by_class);
    (*waiting_of(pool, w->ask.what))--;
    if (w->ask.what == POOL_FOR_USE)
        pool->awaited -= w->ask.count;
    ring_remove(&place->of_rivals);
    if (can_be_passed(w) && place->overtaken >= pool->options.overtakes)
        pool_serve_later(pool); /* it closes nothing any more */
    pool->pools->waiting_count--;
    w->in_line--;
}

static void leave_all_lines(struct pool_waiter *w)
{
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool && is_in_line(&w->places[i]))
            leave_line(&w->places[i]);
    }
}

void pool_wait_in_line(struct pool_waiter *w)
{
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool)
            enter_line(&w->places[i]);
    }
}

/* Gives up a place for good. */
static void give_up(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pools *pools = pool->pools;
    if (is_in_line(place))
        leave_line(place);
    if (place->unit)
        table_unreserve(pools->config.table, &place->waiter->client->mirror, place->unit,
                        pools->now);
    place->pool = NULL;
    pool_unref(pool);
}

static void free_waiter(struct pool_waiter *w)
{
    struct pools *pools = w->client->pools;
    for (size_t i = 0; i < w->place_count; i++) {
        if (w->places[i].pool)
            give_up(&w->places[i]);
    }
    for (struct ring *first; (first = ring_first(&w->holds)) != NULL;) {
        ring_remove(first);
        pool_hold_free(item_of(first, struct pool_hold, of_client));
    }
    pool_free(pools, w->member);
    pool_free(pools, w->with);
    pool_free(pools, w);
}

/* ---- serving -------------------------------------------------------------------------------- */

/* Serves a waiter in one pool with these members. */
static void serve(struct pool_place *place, struct pool_member **members)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    struct ring *at = &w->holds;
    CHECK(w->state == WAIT_IN_LINE);
    leave_all_lines(w);
    for (uint32_t i = 0; i < w->ask.count; i++) {
        at = at->next;
        count_overtaken(pool, members[i], &w->ask);
        pool_hold_begin(item_of(at, struct pool_hold, of_client), members[i], place->unit, true);
    }
    w->state = WAIT_SERVED;
    pool->takes[w->ask.what][POOL_TAKES_TAKEN]++;
    histogram_add(&pool->waits, pool->pools->now.mono_ns - w->since_ns, 1);
    if (pool_is_joined(pool) && w->ask.what == POOL_FOR_USE &&
        pool->states[MEMBER_FREE] < pool->options.min_free)
        pool_raise_want(pool, 0);
    pool_post(w->client);
}

bool pool_would_fit(struct pool_place *place)
{
    struct pool_member *found[POOL_COUNT_MAX];
    const struct pool_ask *ask = &place->waiter->ask;
    return find(place->pool, ask, ask->count, found) == ask->count;
}

/* Serves the waiter if it fits. */
static bool try_serve(struct pool_place *place)
{
    struct pool_member *found[POOL_COUNT_MAX];
    const struct pool_ask *ask = &place->waiter->ask;
    if (find(place->pool, ask, ask->count, found) < ask->count)
        return false;
    serve(place, found);
    return true;
}

void pool_serve(struct pool *pool)
{
    pool_expire(pool);
    for (unsigned checks = 0; checks < 2; checks++) {
        bool plain_fails = false;
        struct tree_node *next;
        for (struct tree_node *n = tree_first(&pool->waiters); n; n = next) {
            struct pool_place *place = place_by_age(n);
            next = tree_next(n);
            if (pool->states[MEMBER_FREE] == 0 && pool->states[MEMBER_DIRTY] == 0)
                return;
            bool plain = place->waiter->class == CLASS_PLAIN;
            if ((place->waiter->class == CLASS_CHECK) != (checks == 1) || (plain && plain_fails))
                continue;
            bool served = try_serve(place);
            plain_fails = plain_fails || (plain && !served);
        }
    }
}

/* The oldest waiter of a class that `m` fits; NULL: none. Not older than `than`. */
static struct pool_place *oldest_fit(struct pool_member *m, enum pool_class class,
                                     const struct pool_place *than)
{
    struct pool *pool = m->pool;
    struct pool_member *found[POOL_COUNT_MAX];
    uint32_t ready = pool->states[m->state];
    struct tree_node *n = tree_first(&pool->classes[class]);
    for (; n; n = tree_next(n)) {
        struct pool_place *place = place_by_class(n);
        const struct pool_ask *ask = &place->waiter->ask;
        if (than && ask->seq > than->waiter->ask.seq)
            return NULL;
        if (is_closed(pool, m, ask))
            return NULL;
        if (ask->count <= ready && pool_matches(ask, m) &&
            find(pool, ask, ask->count, found) == ask->count)
            return place;
    }
    return NULL;
}

static struct pool_place *older(struct pool_place *a, struct pool_place *b)
{
    return !a || (b && b->waiter->ask.seq < a->waiter->ask.seq) ? b : a;
}

/* The oldest waiter of a class whose requests differ by age only, beginning with `n`, if it may
 * have `m`. If that is closed to it, it is closed to all younger ones. */
static struct pool_place *first_if_open(const struct pool_member *m, const struct tree_node *n)
{
    struct pool_place *first = place_or_null(n);
    return first && !is_closed(m->pool, m, &first->waiter->ask) ? first : NULL;
}

/* The waiter for use that gets a member. */
static struct pool_place *next_user(struct pool_member *m)
{
    struct pool *pool = m->pool;
    struct bytes name = pool_member_name(m);
    struct pool_place *best = first_if_open(m, tree_first(&pool->classes[CLASS_PLAIN]));
    struct pool_place *named =
        first_if_open(m, tree_from(&pool->classes[CLASS_NAMED], &name, compare_named));
    if (named && bytes_equal(named->waiter->ask.member, name))
        best = older(best, named);
    return older(best, oldest_fit(m, CLASS_CHOOSY, best));
}

void pool_serve_member(struct pool_member *m)
{
    struct pool *pool = m->pool;
    if (likely(!tree_first(&pool->waiters)))
        return;
    pool_expire(pool);
    struct pool_place *next = NULL;
    if (is_ready(m, POOL_FOR_USE)) {
        next = next_user(m);
        if (!next)
            next = oldest_fit(m, CLASS_CHECK, NULL);
    } else if (is_ready(m, POOL_FOR_CLEAN)) {
        next = oldest_fit(m, CLASS_CLEAN, NULL);
    }
    if (!next)
        return;
    if (next->waiter->ask.count > 1)
        CHECK(try_serve(next));
    else
        serve(next, &m);
}

/* ---- refusing ------------------------------------------------------------------------------- */

static void refuse_place(struct pool_place *place, enum pool_status why)
{
    struct pool_waiter *w = place->waiter;
    struct pool *pool = place->pool;
    pool_ref(pool);
    give_up(place);
    if (w->in_line == 0) {
        if (why == POOL_QUEUE_FULL)
            pool->takes[w->ask.what][POOL_TAKES_QUEUE_FULL]++;
        w->state = WAIT_REFUSED;
        w->refused = why;
        pool_post(w->client);
    }
    pool_unref(pool);
}

/* Refuses the newest waiters for use, or all others, until `max` are left. */
static void refuse(struct pool *pool, bool use, uint32_t max, enum pool_status why)
{
    uint32_t *waiting = use ? &pool->waiting_use : &pool->waiting_other;
    uint32_t keep = max; /* the oldest of them stay */
    struct tree_node *next;
    if (*waiting <= max)
        return;
    for (struct tree_node *n = tree_first(&pool->waiters); n; n = next) {
        struct pool_place *place = place_by_age(n);
        next = tree_next(n);
        if ((place->waiter->ask.what == POOL_FOR_USE) != use)
            continue;
        if (keep > 0)
            keep--;
        else
            refuse_place(place, why);
    }
}

void pool_refuse(struct pool *pool, uint32_t use, uint32_t other, enum pool_status why)
{
    refuse(pool, true, use, why);
    refuse(pool, false, other, why);
}

void pool_wait_drop(struct pool_client *client)
{
    struct pool_waiter *w = client->waiter;
    client->waiter = NULL;
    if (w->state == WAIT_SERVED) {
        for (struct ring *h = w->holds.next; h != &w->holds; h = h->next)
            pool_hold_undo(item_of(h, struct pool_hold, of_client));
    }
    free_waiter(w);
}

void pool_wait_again(struct pool_waiter *w)
{
    CHECK(w->state == WAIT_SERVED);
    w->state = WAIT_IN_LINE;
    for (struct ring *h = w->holds.next; h != &w->holds; h = h->next) {
        struct pool_hold *hold = item_of(h, struct pool_hold, of_client);
        if (hold->member)
            pool_hold_undo(hold);
    }
    for (size_t i = 0; i < w->place_count; i++) {
        struct pool_place *place = &w->places[i];
        if (place->pool && place->pool->draining)
            give_up(place);
        else if (place->pool)
            pool_serve_later(place->pool);
    }
    pool_wait_in_line(w);
    if (w->in_line == 0) {
        w->state = WAIT_REFUSED;
        w->refused = POOL_NO_POOL;
        pool_post(w->client);
    }
}

/* ---- targets -------------------------------------------------------------------------------- */

/* The pools of a TAKE: a list, or all that are in a group now. */
struct targets {
    struct pools *pools;
    struct pool *list[POOL_TARGETS_MAX];
    size_t count;
    bool group;
    struct bytes group_name;
};

static bool is_of_group(const struct pool *pool, struct bytes group)
{
    return !pool->draining && bytes_equal(bytes_of(pool->options.group), group);
}

/* The next pool of the group, after `pool` (NULL: the first). */
static struct pool *next_of_group(const struct targets *t, const struct pool *pool)
{
    const struct ring *at = pool ? &pool->of_group : &t->pools->grouped;
    for (at = at->next; at != &t->pools->grouped; at = at->next) {
        struct pool *next = item_of(at, struct pool, of_group);
        if (is_of_group(next, t->group_name))
            return next;
    }
    return NULL;
}

/* Goes on to the next pool: *at begins as 0, *pool as NULL. */
static bool next_target(const struct targets *t, size_t *at, struct pool **pool)
{
    *pool = t->group ? next_of_group(t, *pool) : *at < t->count ? t->list[*at] : NULL;
    (*at)++;
    return *pool != NULL;
}

/* for (EACH_TARGET(t, pool)) */
#define EACH_TARGET(t, pool)                                                                       \
    size_t at_ = 0;                                                                                \
    next_target(t, &at_, &(pool));

static enum pool_status resolve(struct pools *pools, const struct pool_take *take,
                                struct targets *t)
{
    t->pools = pools;
    t->count = 0;
    t->group = take->group;
    t->list[0] = NULL;
    if (take->group) {
        t->group_name = take->targets[0];
        return next_of_group(t, NULL) ? POOL_OK : POOL_NO_POOL;
    }
    CHECK(take->target_count <= POOL_TARGETS_MAX);
    for (size_t i = 0; i < take->target_count; i++) {
        struct pool *pool = pool_find(pools, take->targets[i]);
        if (!pool || pool->draining)
            return POOL_NO_POOL;
        t->list[t->count++] = pool;
    }
    return POOL_OK;
}

/* Checks a request; on the way lets lifetimes end that are over. */
static enum pool_status judge(struct pool_client *client, const struct pool_take *take,
                              struct targets *t)
{
    struct pools *pools = client->pools;
    enum pool_status status = resolve(pools, take, t);
    struct pool *pool = NULL;
    if (status != POOL_OK)
        return status;
    for (EACH_TARGET(t, pool)) {
        if (take->what == POOL_FOR_CLEAN && pool_is_joined(pool))
            return POOL_WRONG_KIND;
    }
    pool = t->list[0];
    if (take->member.len > 0 && !pool_find_member(pool, take->member))
        return POOL_NO_MEMBER;
    if (take->count > pools->config.limits.taken_max ||
        client->hold_count > pools->config.limits.taken_max - take->count)
        return POOL_TOO_MANY;
    pool = NULL;
    for (EACH_TARGET(t, pool))
        pool_expire(pool);
    return POOL_OK;
}

/* ---- a new request --------------------------------------------------------------------------- */

/* The pool of a group that has the most for a request; NULL: none has enough. */
static struct pool *choose_of_group(const struct targets *t, const struct pool_ask *ask)
{
    struct pool *best = NULL, *pool = NULL;
    uint32_t best_free = 0, ties = 0;
    for (EACH_TARGET(t, pool)) {
        uint32_t free = count_free(pool, ask);
        uint64_t held = pool->states[MEMBER_TAKEN] + (uint64_t)pool->states[MEMBER_CLEANING] +
                        pool->states[MEMBER_CHECKING];
        uint64_t best_held = 0;
        if (free < ask->count || free < best_free)
            continue;
        if (best)
            best_held = best->states[MEMBER_TAKEN] + (uint64_t)best->states[MEMBER_CLEANING] +
                        best->states[MEMBER_CHECKING];
        if (!best || free > best_free || held < best_held) {
            best = pool;
            best_free = free;
            ties = 1;
        } else if (held == best_held && pool_random(t->pools) % ++ties == 0) {
            best = pool;
        }
    }
    return best;
}

/* Finds a pool that serves the request now, and the members there. NULL: none. */
static struct pool *find_now(const struct targets *t, const struct pool_ask *ask,
                             struct pool_member **found)
{
    struct pool *pool = NULL;
    if (t->group) {
        pool = choose_of_group(t, ask);
        if (pool)
            CHECK(find(pool, ask, ask->count, found) == ask->count);
        return pool;
    }
    for (EACH_TARGET(t, pool)) {
        if (find(pool, ask, ask->count, found) == ask->count)
            return pool;
    }
    return NULL;
}

/* Makes `count` empty holds in `list`. Returns false without memory; `list` may have some then. */
static bool make_holds(struct pool_client *client, const struct pool_take *take, struct ring *list)
{
    for (uint32_t i = 0; i < take->count; i++) {
        struct pool_hold *hold = pool_hold_new(client, take->what, take->by);
        if (!hold)
            return false;
        ring_add(list, &hold->of_client);
    }
    return true;
}

static void free_holds(struct ring *list)
{
    for (struct ring *first; (first = ring_first(list)) != NULL;) {
        ring_remove(first);
        pool_hold_free(item_of(first, struct pool_hold, of_client));
    }
}

/* Adds the units of the counter for a new request. Returns false without memory; *unit_r is NULL if
 * the counter has no room. */
static bool add_units(struct pool_client *client, const struct pool *pool, uint32_t count,
                      struct holding **unit_r)
{
    struct pools *pools = client->pools;
    *unit_r = NULL;
    return table_add(pools->config.table, &client->mirror, pool_counter(pool), pool->counter_hash,
                     count, pools->now, unit_r) != TABLE_NO_MEMORY;
}

/* Takes what was found. */
static enum pool_status take_now(struct pool_client *client, const struct pool_take *take,
                                 const struct pool_ask *ask, struct pool *pool,
                                 struct pool_member **found, const struct pool_reader *reader,
                                 uint64_t position)
{
    struct ring holds;
    struct holding *unit;
    ring_init(&holds);
    if (!make_holds(client, take, &holds) || !add_units(client, pool, take->count, &unit)) {
        free_holds(&holds);
        return POOL_NO_MEMORY;
    }
    for (uint32_t i = 0; i < take->count; i++) {
        struct pool_hold *hold = item_of(holds.next, struct pool_hold, of_client);
        ring_remove(&hold->of_client);
        count_overtaken(pool, found[i], ask);
        pool_hold_begin(hold, found[i], unit, false);
        pool_hold_tell(hold, reader, position);
    }
    pool->takes[take->what][POOL_TAKES_TAKEN]++;
    if (pool_is_joined(pool) && take->what == POOL_FOR_USE &&
        pool->states[MEMBER_FREE] < pool->options.min_free)
        pool_raise_want(pool, 0);
    return POOL_OK;
}

static bool has_room(struct pool *pool, enum pool_for what)
{
    return *waiting_of(pool, what) < pool->options.queue_max;
}

struct pool_waiter *pool_waiter_new(struct pool_client *client, const struct pool_take *take,
                                    size_t rooms)
{
    struct pools *pools = client->pools;
    struct pool_waiter *w = pool_alloc(pools, sizeof(*w) + rooms * sizeof(w->places[0]));
    if (!w)
        return NULL;
    w->client = client;
    ring_init(&w->holds);
    w->member = pool_text_new(pools, take->member);
    w->with = pool_attributes_copy(pools, take->with, take->with_count);
    if ((!w->with && take->with_count > 0) || (!w->member && take->member.len > 0) ||
        !make_holds(client, take, &w->holds)) {
        free_waiter(w);
        return NULL;
    }
    w->ask = (struct pool_ask){.seq = ++pools->seq,
                               .count = take->count,
                               .what = take->what,
                               .member = pool_text_bytes(w->member),
                               .with = w->with ? w->with->at : NULL,
                               .with_count = w->with ? w->with->count : 0};
    w->class = pool_class_of(&w->ask);
    w->since_ns = pools->now.mono_ns;
    w->timeout_ns = take->timeout_ns;
    return w;
}

struct pool_place *pool_waiter_add(struct pool_waiter *w, struct pool *pool)
{
    struct pool_place *place = &w->places[w->place_count++];
    *place = (struct pool_place){.waiter = w, .pool = pool, .counted = UINT64_MAX};
    pool_ref(pool);
    return place;
}

bool pool_waiter_reserve(struct pool_waiter *w)
{
    struct pools *pools = w->client->pools;
    for (size_t i = 0; i < w->place_count; i++) {
        struct pool_place *place = &w->places[i];
        place->unit =
            table_reserve(pools->config.table, &w->client->mirror, pool_counter(place->pool),
                          place->pool->counter_hash, pools->now);
        if (!place->unit)
            return false;
    }
    return true;
}

/* Makes a waiter with a place in each pool that has room. NULL: no memory. */
static struct pool_waiter *make_waiter(struct pool_client *client, const struct pool_take *take,
                                       const struct targets *t, size_t rooms)
{
    struct pool *pool = NULL;
    struct pool_waiter *w = pool_waiter_new(client, take, rooms);
    if (!w)
        return NULL;
    for (EACH_TARGET(t, pool)) {
        if (has_room(pool, take->what))
            (void)pool_waiter_add(w, pool);
    }
    if (pool_waiter_reserve(w))
        return w;
    free_waiter(w);
    return NULL;
}

/* Counts a refused request, which is for more members. */
static void count_refused(const struct targets *t, const struct pool_take *take,
                          enum pool_outcome outcome)
{
    struct pool *pool = NULL;
    bool first = true;
    for (EACH_TARGET(t, pool)) {
        bool use = take->what == POOL_FOR_USE && pool_is_joined(pool);
        if (use)
            pool_raise_want(pool, take->member.len > 0 || take->with_count > 0 ? 0 : take->count);
        bool grows = use && pool->want > pool->member_count - pool->states[MEMBER_STOPPING];
        if (first)
            pool->takes[take->what]
                       [outcome == POOL_TAKES_BUSY && grows ? POOL_TAKES_GROWING : outcome]++;
        first = false;
    }
}

/* Begins a wait. */
static enum pool_status wait_for(struct pool_client *client, const struct pool_take *take,
                                 const struct targets *t)
{
    struct pool *pool = NULL;
    size_t rooms = 0;
    for (EACH_TARGET(t, pool))
        rooms += has_room(pool, take->what);
    if (rooms == 0) {
        count_refused(t, take, POOL_TAKES_QUEUE_FULL);
        return POOL_QUEUE_FULL;
    }
    struct pool_waiter *w = make_waiter(client, take, t, rooms);
    if (!w)
        return POOL_NO_MEMORY;
    client->waiter = w;
    pool_wait_in_line(w);
    for (size_t i = 0; i < w->place_count; i++) {
        if (pool_is_joined(w->places[i].pool) && take->what == POOL_FOR_USE)
            pool_raise_want(w->places[i].pool, 0);
    }
    return POOL_WAITS;
}

enum pool_status pool_take(struct pool_client *client, const struct pool_take *take,
                           const struct pool_reader *reader, uint64_t position, struct moment now,
                           struct pool_effects *effects)
{
    struct targets t;
    struct pool_member *found[POOL_COUNT_MAX];
    struct pool_ask ask = {.seq = UINT64_MAX,
                           .count = take->count,
                           .what = take->what,
                           .member = take->member,
                           .with = take->with,
                           .with_count = take->with_count};
    pool_enter(client->pools, now, effects);
    CHECK(!client->waiter);
    enum pool_status status = judge(client, take, &t);
    if (status == POOL_OK) {
        struct pool *pool = find_now(&t, &ask, found);
        if (pool) {
            status = take_now(client, take, &ask, pool, found, reader, position);
        } else if (take->timeout_ns > 0) {
            status = wait_for(client, take, &t);
        } else {
            count_refused(&t, take, POOL_TAKES_BUSY);
            status = POOL_TIMES_OUT;
        }
    }
    pool_leave(client->pools);
    return status;
}

bool pool_end_wait(struct pool_client *client, bool timed_out, struct moment now,
                   struct pool_effects *effects)
{
    struct pool_waiter *w = client->waiter;
    pool_enter(client->pools, now, effects);
    bool waits = w->state == WAIT_IN_LINE;
    if (waits) {
        struct pool *first = NULL;
        for (size_t i = 0; !first && i < w->place_count; i++)
            first = w->places[i].pool;
        CHECK(first); /* else it would be over */
        if (timed_out)
            first->takes[w->ask.what][POOL_TAKES_TIMED_OUT]++;
        pool_wait_drop(client);
    }
    pool_leave(client->pools);
    return waits;
}
