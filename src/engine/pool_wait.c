/*
 * pool_wait.c - waits: their places in the lines of pools, and how they end.
 *
 * A wait has a place in each pool that had room for it. The waits of a pool are kept by age, in one
 * line for use and one for all others (`lines`), and by class and age. A place that is a guest does
 * not wait: it leaves when it has looked at all (pool_take.c).
 */
#include "engine/pool_internal.h"

enum pool_class pool_class_of(const struct pool_need *need)
{
    if (need->count > 1 || need->with_count > 0)
        return CLASS_CHOOSY;
    return need->member.len > 0 ? CLASS_NAMED : CLASS_PLAIN;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool is_in_line(const struct pool_place *place)
{
    return tree_has(&place->by_age);
}

/* Counts a place in line, or not any more: 1 or -1. Guests do not count. */
static void count_place(const struct pool_place *place, int more)
{
    struct pool *pool = place->pool;
    const struct pool_need *need = &place->waiter->need;
    if (place->guest)
        return;
    pool->waiting[pool_line_of(need->what)] += (uint32_t)more;
    if (need->what != POOL_FOR_USE)
        return;
    pool->awaited += (uint32_t)more * need->count;
    pool->pools->sums.waiting += (uint64_t)more;
}

/* Where those of its pool are that wait as this one does, by age. */
static struct tree *line_of(const struct pool_place *place)
{
    return &place->pool->lines[pool_line_of(place->waiter->need.what)];
}

static void enter_line(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    tree_add(line_of(place), &place->by_age);
    if (w->class == CLASS_CHOOSY)
        pool_fit_enter(place);
    else
        tree_add(&pool->classes[w->need.what][w->class], &place->by_class);
    count_place(place, 1);
    w->in_line++;
}

static void leave_line(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pool_waiter *w = place->waiter;
    tree_remove(line_of(place), &place->by_age);
    ring_remove(&place->of_retries);
    if (w->class != CLASS_CHOOSY) {
        tree_remove(&pool->classes[w->need.what][w->class], &place->by_class);
    } else {
        pool_fit_leave(place);
        if (pool_class_of(&w->need) == CLASS_PLAIN)
            pool_serve_later(pool); /* those behind it (first_plain) */
    }
    count_place(place, -1);
    w->in_line--;
}

void pool_wait_leave_lines(struct pool_waiter *w)
{
    for (EACH_PLACE(place, w)) {
        if (is_in_line(place))
            leave_line(place);
    }
}

void pool_wait_in_line(struct pool_waiter *w)
{
    for (EACH_PLACE(place, w))
        enter_line(place);
}

/* Gives up a place for good. */
static void give_up(struct pool_place *place)
{
    struct pool *pool = place->pool;
    struct pools *pools = pool->pools;
    if (is_in_line(place))
        leave_line(place);
    if (place->unit)
        table_unreserve(pools->config.table, &place->waiter->client->unit_holder, place->unit,
                        pools->now);
    place->pool = NULL;
    pool_unref(pool);
}

void pool_waiter_free(struct pool_waiter *w)
{
    struct pools *pools = w->client->pools;
    for (EACH_PLACE(place, w))
        give_up(place);
    pool_holds_free(&w->holds);
    pool_free(pools, w->member);
    pool_free(pools, w->with);
    pool_free(pools, w);
}

/* ---- waiters --------------------------------------------------------------------------------- */

struct pool_waiter *pool_waiter_new(struct pool_client *client, const struct pool_take *take,
                                    size_t rooms)
{
    struct pools *pools = client->pools;
    size_t each = sizeof(struct pool_place) + take->count * sizeof(struct pool_member *);
    struct pool_waiter *w = pool_alloc(pools, sizeof(*w) + rooms * each);
    if (!w)
        return NULL;
    w->client = client;
    ring_init(&w->holds);
    if (!pool_text_new(pools, take->member, &w->member) ||
        !pool_attributes_copy(pools, take->with, take->with_count, &w->with) ||
        !pool_holds_new(client, take, &w->holds)) {
        pool_waiter_free(w);
        return NULL;
    }
    w->need = pool_need_of(take);
    w->need.seq = ++pools->seq;
    w->need.member = pool_text_bytes(w->member);
    w->need.with = w->with ? w->with->at : NULL;
    w->class = pool_class_of(&w->need);
    w->room = rooms;
    w->since_ns = pools->now.mono_ns;
    w->timeout_ns = take->timeout_ns;
    return w;
}

struct pool_place *pool_waiter_add(struct pool_waiter *w, struct pool *pool)
{
    struct pool_place *place = &w->places[w->place_count];
    struct pool_member **candidates = (struct pool_member **)(void *)&w->places[w->room];
    candidates += w->place_count++ * w->need.count;
    *place = (struct pool_place){.waiter = w, .pool = pool, .candidates = candidates};
    pool_ref(pool);
    return place;
}

bool pool_waiter_reserve(struct pool_waiter *w)
{
    struct pools *pools = w->client->pools;
    for (EACH_PLACE(place, w)) {
        place->unit =
            table_reserve(pools->config.table, &w->client->unit_holder, pool_counter(place->pool),
                          place->pool->counter_hash, pools->now);
        if (!place->unit)
            return false;
    }
    return true;
}

/* ---- the end of a wait ----------------------------------------------------------------------- */

void pool_refuse_place(struct pool_place *place, enum pool_status why)
{
    struct pool_waiter *w = place->waiter;
    struct pool *pool = place->pool;
    pool_ref(pool);
    give_up(place);
    if (w->in_line == 0) {
        if (why == POOL_QUEUE_FULL)
            pool->totals.takes[w->need.what][POOL_TAKES_QUEUE_FULL]++;
        w->state = WAIT_REFUSED;
        w->refused = why;
        pool_post(w->client);
    }
    pool_unref(pool);
}

void pool_refuse(struct pool *pool, uint32_t max, enum pool_status why)
{
    struct tree_node *next;
    for (enum pool_line line = 0; line < POOL_LINES; line++) {
        uint32_t keep = max; /* the oldest of them stay */
        if (pool->waiting[line] <= max && !pool->draining)
            continue;
        for (struct tree_node *n = tree_first(&pool->lines[line]); n; n = next) {
            struct pool_place *place = item_of(n, struct pool_place, by_age);
            next = tree_next(n);
            if (place->guest ? pool->draining : keep == 0) /* a guest does not wait */
                pool_refuse_place(place, why);
            else
                keep -= !place->guest;
        }
    }
}

void pool_wait_drop(struct pool_client *client)
{
    struct pool_waiter *w = client->waiter;
    client->waiter = NULL;
    if (w->state == WAIT_SERVED) {
        for (EACH(struct pool_hold, hold, &w->holds, of_client))
            pool_hold_undo(hold);
    }
    pool_waiter_free(w);
}

void pool_wait_again(struct pool_waiter *w)
{
    CHECK(w->state == WAIT_SERVED);
    w->state = WAIT_IN_LINE;
    for (EACH(struct pool_hold, hold, &w->holds, of_client)) {
        if (hold->member)
            pool_hold_undo(hold);
    }
    for (EACH_PLACE(place, w)) {
        if (place->pool->draining)
            give_up(place);
        else
            pool_serve_later(place->pool);
    }
    pool_wait_in_line(w);
    if (w->in_line == 0) {
        w->state = WAIT_REFUSED;
        w->refused = POOL_NO_POOL;
        pool_post(w->client);
    }
}

void pool_count_timed_out(struct pool_waiter *w)
{
    const struct pool_place *first = pool_next_place(w, NULL);
    CHECK(first); /* else it would be over */
    first->pool->totals.takes[w->need.what][POOL_TAKES_TIMED_OUT]++;
}

int64_t pool_wait_left(const struct pool_client *client, struct moment now)
{
    const struct pool_waiter *w = client->waiter;
    int64_t past_ns = now.mono_ns > w->since_ns ? now.mono_ns - w->since_ns : 0;
    return past_ns < w->timeout_ns ? w->timeout_ns - past_ns : 0;
}

bool pool_end_wait(struct pool_client *client, bool timed_out, struct moment now,
                   struct pool_outbox *outbox)
{
    struct pool_waiter *w = client->waiter;
    pool_enter(client->pools, now, outbox);
    bool waits = w->state == WAIT_IN_LINE;
    if (waits) {
        if (timed_out)
            pool_count_timed_out(w);
        pool_wait_drop(client);
    }
    pool_leave(client->pools);
    return waits;
}
