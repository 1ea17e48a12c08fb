/*
 * pool_client.c - clients: how they are told what happens, and how they end; WATCH.
 *
 * A client has one message. It is sent when there is news, unless it is on its way already. The
 * thread of the client then reads what is new (pool_client_read): the end of its wait, the members
 * that it should stop, the numbers that it should run, events. So however much happens, a client
 * that does not read costs no more than what it holds and has joined; its owner bounds the events.
 *
 * The end of a client whose message is on its way leaves the struct to the message.
 */
#include "engine/pool_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- messages -------------------------------------------------------------------------------- */

void pool_post(struct pool_client *client)
{
    if (client->posted || client->ended)
        return;
    client->posted = true;
    mail_list_add(&client->pools->outbox->clients, &client->message.mail);
}

struct pool_client *pool_client_of(struct mail *mail)
{
    return item_of(mail, struct pool_client, message.mail);
}

uint64_t pool_client_tag(const struct pool_client *client)
{
    return client->message.to;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct pool_client *pool_client_new(struct pools *pools, uint32_t id, uint64_t tag, void *owner)
{
    struct pool_client *client = pool_alloc(pools, sizeof(*client));
    if (!client)
        return NULL;
    client->message.to = tag;
    client->pools = pools;
    client->owner = owner;
    if (id != 0) /* else pool_client_restore does it */
        holder_init(&client->unit_holder, id, tag);
    ring_init(&client->holds);
    ring_init(&client->suppliers);
    ring_init(&client->watches);
    ring_init(&client->stops);
    lock_acquire(&pools->lock);
    client->number = ++pools->client_number;
    ring_add(&pools->clients, &client->of_pools);
    lock_release(&pools->lock);
    return client;
}

bool pool_client_waits(const struct pool_client *client)
{
    return client->waiter && !client->waiter->asking;
}

bool pool_client_looks(const struct pool_client *client)
{
    return client->waiter && client->waiter->asking;
}

bool pool_client_look_on(struct pool_client *client)
{
    if (client->waiter)
        client->waiter->asking = true;
    return client->waiter != NULL;
}

uint32_t pool_client_holds(struct pool_client *client)
{
    lock_acquire(&client->pools->lock);
    uint32_t count = client->hold_count;
    lock_release(&client->pools->lock);
    return count;
}

/* Ends all holds, newest first. */
static void end_holds(struct pool_client *client, enum pool_end how,
                      bool (*written)(void *owner, uint64_t position))
{
    struct pool_hold *hold;
    while ((hold = item_or_null(ring_last(&client->holds), struct pool_hold, of_client)) != NULL) {
        ring_remove(&hold->of_client);
        client->hold_count--;
        if (hold->member) {
            bool told = how == POOL_END_QUIT || written(client->owner, hold->position);
            pool_hold_end(hold, how == POOL_END_QUIT ? HOLD_QUIT : told ? HOLD_CRASH : HOLD_UNDONE);
        }
        pool_hold_free(hold);
    }
}

/* Counts a client as watcher if it watches more than its own members. */
static void count_watcher(struct pool_client *client)
{
    bool all = false;
    for (EACH(struct pool_watch, watch, &client->watches, of_client))
        all = all || !watch->mine;
    client->pools->watchers += (uint32_t)all - (uint32_t)client->counted;
    client->counted = all;
}

static void pool_watch_free(struct pool_watch *watch)
{
    struct pool_client *client = watch->client;
    ring_remove(&watch->of_client);
    ring_remove(&watch->of_pool);
    pool_free(client->pools, watch);
    count_watcher(client);
}

void pool_client_end(struct pool_client *client, enum pool_end how,
                     bool (*written)(void *owner, uint64_t position), struct moment now,
                     struct pool_outbox *outbox)
{
    struct pools *pools = client->pools;
    pool_enter(pools, now, outbox);
    client->ended = true;
    for (struct pool_watch *w; (w = first_of(struct pool_watch, &client->watches, of_client));)
        pool_watch_free(w);
    if (client->waiter)
        pool_wait_drop(client);
    end_holds(client, how, written);
    CHECK(client->hold_count == 0);
    pool_free(pools, client->spare);
    client->spare = NULL;
    client->owner = NULL;
    ring_remove(&client->of_pools);
    ring_add(&pools->leaving, &client->of_pools);
    client->leaving = true;
    client->leaves = how == POOL_END_QUIT ? POOL_WHY_LEAVE : POOL_WHY_LOST;
    pool_suppliers_leave(client);
    pool_clients_leave(pools);
    pool_leave(pools);
}

void pool_clients_leave(struct pools *pools)
{
    struct pool_client *client;
    while ((client = first_of(struct pool_client, &pools->leaving, of_pools)) != NULL) {
        if (!pool_suppliers_end(client))
            return;
        ring_remove(&client->of_pools);
        client->leaving = false;
        if (!client->posted) /* else its message does it */
            pool_free(pools, client);
    }
}

bool pools_finish(struct pools *pools, struct moment now, struct pool_outbox *outbox)
{
    pool_enter(pools, now, outbox);
    pool_clients_leave(pools);
    bool all = ring_is_empty(&pools->leaving);
    pool_leave(pools);
    return all;
}

static bool nothing_written(void *owner, uint64_t position)
{
    (void)owner;
    (void)position;
    return false;
}

/* Separates a hold from its member, which may not be whole. */
static void forget_hold(struct pool_hold *hold)
{
    if (hold->member) {
        hold->member->pool->unwarned = NULL;
        hold->member->hold = NULL;
    }
    hold->member = NULL;
    hold->unit = NULL;
    ring_remove(&hold->of_pool);
    ring_remove(&hold->uncounted_link);
}

void pool_clients_forget(struct pools *pools, struct pool_outbox *outbox)
{
    struct pool_client *first;
    pool_enter(pools, pools->now, outbox);
    for (EACH(struct pool_client, client, &pools->clients, of_pools)) {
        /* The table forgets units and reservations by itself. */
        for (EACH(struct pool_hold, hold, &client->holds, of_client))
            forget_hold(hold);
        for (size_t i = 0; client->waiter && i < client->waiter->place_count; i++)
            client->waiter->places[i].unit = NULL;
        client->ended = true;
        client->posted = false;
        if (client->waiter)
            pool_wait_drop(client); /* so that nobody is served */
    }
    pool_leave(pools);
    while ((first = first_of(struct pool_client, &pools->clients, of_pools)) != NULL)
        pool_client_end(first, POOL_END_CRASH, nothing_written, pools->now, outbox);
    while (!pools_finish(pools, pools->now, outbox))
        continue;
}

bool pool_client_message(struct pool_client *client)
{
    struct pools *pools = client->pools;
    lock_acquire(&pools->lock);
    bool ended = client->ended, leaving = client->leaving;
    client->posted = false;
    lock_release(&pools->lock);
    if (ended && !leaving)
        pool_free(pools, client);
    return !ended;
}

/* ---- reading --------------------------------------------------------------------------------- */

void pool_read_result(struct pool_client *client, const struct pool_reader *reader,
                      uint64_t position)
{
    struct pool_waiter *w = client->waiter;
    if (!w || w->state == WAIT_IN_LINE || w->asking)
        return;
    struct pool_hold *hold;
    while (w->state == WAIT_SERVED && (hold = first_of(struct pool_hold, &w->holds, of_client))) {
        ring_remove(&hold->of_client);
        pool_hold_tell(hold, reader, position);
    }
    if (w->state == WAIT_REFUSED)
        reader->refused(client->owner, w->refused);
    w->state = WAIT_REFUSED; /* there is nothing to undo any more */
    pool_wait_drop(client);
}

static void read_stops(struct pool_client *client, const struct pool_reader *reader)
{
    struct pool_member *m;
    while ((m = first_of(struct pool_member, &client->stops, stop_link)) != NULL) {
        if (!pool_visit(client->pools)) {
            pool_post(client); /* the rest, with another message */
            return;
        }
        ring_remove(&m->stop_link);
        reader->stop(client->owner, pool_name(m->pool), pool_member_name(m), m->stop_why);
        if (m->state == MEMBER_GONE)
            pool_member_free(m);
    }
}

static void read_wants(struct pool_client *client, const struct pool_reader *reader)
{
    struct pool_supplier *s = first_of(struct pool_supplier, &client->suppliers, of_client), *next;
    for (; s; s = next) {
        next = next_of(struct pool_supplier, &client->suppliers, s, of_client);
        if (s->told == s->want)
            continue;
        if (!reader->want(client->owner, pool_name(s->pool), s->want))
            return; /* later the newest number counts */
        s->told = s->want;
        pool_supplier_free_if_idle(s);
    }
}

void pool_client_read(struct pool_client *client, const struct pool_reader *reader,
                      uint64_t position, struct moment now, struct pool_outbox *outbox)
{
    pool_enter(client->pools, now, outbox);
    pool_read_result(client, reader, position);
    read_stops(client, reader);
    read_wants(client, reader);
    if (client->has_events)
        client->has_events = !reader->events(client->owner);
    pool_leave(client->pools);
}

void pool_client_position(struct pool_client *client, uint64_t position)
{
    lock_acquire(&client->pools->lock);
    for (EACH(struct pool_hold, hold, &client->holds, of_client)) {
        if (hold->position == POOL_POSITION_LATER)
            hold->position = position;
    }
    lock_release(&client->pools->lock);
}

/* ---- WATCH ----------------------------------------------------------------------------------- */

void pool_watches_end(struct pool *pool)
{
    struct pool_watch *watch;
    while ((watch = first_of(struct pool_watch, &pool->watches, of_pool)) ||
           (watch = first_of(struct pool_watch, &pool->mine, of_pool)))
        pool_watch_free(watch);
}

/* The client's watch of a pool, or of all (NULL). */
static struct pool_watch *watch_of(struct pool_client *client, const struct pool *pool)
{
    for (EACH(struct pool_watch, watch, &client->watches, of_client)) {
        if (watch->pool == pool)
            return watch;
    }
    return NULL;
}

static enum pool_status watch(struct pool_client *client, struct pool *pool, bool mine)
{
    struct pools *pools = client->pools;
    struct pool_watch *watch = watch_of(client, pool);
    if (!mine && !client->counted && pools->watchers >= pools->config.limits.watchers_max)
        return POOL_TOO_MANY;
    if (!watch) {
        watch = pool_alloc(pools, sizeof(*watch));
        if (!watch)
            return POOL_NO_MEMORY;
        watch->client = client;
        watch->pool = pool;
        ring_add(&client->watches, &watch->of_client);
    }
    struct ring *all = pool ? &pool->watches : &pools->watches;
    ring_remove(&watch->of_pool);
    ring_add(mine ? pool ? &pool->mine : &pools->mine : all, &watch->of_pool);
    watch->mine = mine;
    count_watcher(client);
    return POOL_OK;
}

enum pool_status pool_watch(struct pool_client *client, struct bytes name, bool mine)
{
    struct pools *pools = client->pools;
    struct pool *pool = NULL;
    lock_acquire(&pools->lock);
    bool all = bytes_equal(name, bytes_of("*"));
    if (!all)
        pool = pool_find(pools, name);
    enum pool_status status = all || pool ? watch(client, pool, mine) : POOL_NO_POOL;
    lock_release(&pools->lock);
    return status;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Tells a client of an event, once: a visit, which is not put off. */
static void tell_client(struct pools *pools, struct pool_client *client,
                        const struct pool_event *event)
{
    if (client->event_seen == pools->event)
        return;
    client->event_seen = pools->event;
    client->has_events = true;
    pools->visits++;
    pools->config.hooks->event(client->owner, event);
    pool_post(client);
}

static void tell_list(struct pools *pools, const struct ring *list, const struct pool_event *event)
{
    for (EACH(struct pool_watch, watch, list, of_pool))
        tell_client(pools, watch->client, event);
}

/* Tells all watchers, and the client that joined the member (NULL: none) if it watches its own. A
 * client that watches in several ways is told once. */
static void tell(struct pool *pool, struct pool_client *joined_by, struct pool_event *event)
{
    struct pools *pools = pool->pools;
    pools->event++;
    event->pool = pool_name(pool);
    tell_list(pools, &pool->watches, event);
    tell_list(pools, &pools->watches, event);
    if (joined_by && (watch_of(joined_by, pool) || watch_of(joined_by, NULL)))
        tell_client(pools, joined_by, event);
}

/* True if somebody watches what happens in the pool, or to a member that `joined_by` has joined. */
static bool is_watched(const struct pool *pool, const struct pool_client *joined_by)
{
    return !ring_is_empty(&pool->watches) || !ring_is_empty(&pool->pools->watches) ||
           (joined_by && !ring_is_empty(&joined_by->watches));
}

static struct pool_client *joiner(const struct pool_member *m)
{
    return m->joined ? m->joined->client : NULL;
}

static void add_hold(struct pool_event *event, const struct pool_hold *hold)
{
    event->fence = hold->fence;
    event->conn = hold->client->message.to;
    event->by = bytes_at(hold->by, hold->by_len);
}

void pool_tell_move(const struct pool_member *m, enum pool_state from, enum pool_why why,
                    const struct pool_hold *hold)
{
    struct pool_client *joined_by = joiner(m);
    if (likely(!is_watched(m->pool, joined_by)))
        return;
    struct pool_event event = {
        .member = pool_member_name(m), .from = from, .to = m->state, .why = why};
    if (hold)
        add_hold(&event, hold);
    tell(m->pool, joined_by, &event);
}

void pool_tell_late(const struct pool_hold *hold)
{
    const struct pool_member *m = hold->member;
    struct pools *pools = m->pool->pools;
    struct pool_event event = {.pool = pool_name(m->pool),
                               .member = pool_member_name(m),
                               .from = m->state,
                               .to = m->state,
                               .late = true};
    add_hold(&event, hold);
    pools->config.hooks->late(pools->config.arg, &event, pools->now.mono_ns - hold->since_ns);
    if (is_watched(m->pool, joiner(m)))
        tell(m->pool, joiner(m), &event);
}

void pool_tell(struct pool *pool, enum pool_event_why why)
{
    struct pool_event event = {.pool_why = why};
    if (is_watched(pool, NULL))
        tell(pool, NULL, &event);
}
