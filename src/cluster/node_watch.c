/*
 * node_watch.c - the sessions of all nodes: a beat that does not change for a lease, counted from
 * when this node received it first on this connection, is a session that is over, and is reaped.
 *
 * `reaps` has the sessions to reap, in order: this node's own first, as `ready` lists them. As many
 * calls of `reap` are under way as together take less than lease / 100, and the calls of clients go
 * between: these wait no longer than that. With Sentinels a session of another node is reaped only
 * once a beat or `ready` that was sent after it was over has renewed the lease.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- lists ----------------------------------------------------------------------------------- */

/* Makes room for one more behind `count` items of `size` bytes. Returns where they are; NULL: no
 * memory. */
static void *grow(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    size_t more = *room ? 2 * *room : 8;
    items = reallocarray(items, more, size);
    if (items)
        *room = more;
    return items;
}

bool ended_add(struct ended_list *list, const struct ended *item)
{
    struct ended *items = grow(list->items, list->count, &list->room, sizeof(*items));
    if (!items)
        return false;
    list->items = items;
    list->items[list->count++] = *item;
    return true;
}

struct ended *ended_find(struct ended_list *list, const char *session)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].session, session) == 0)
            return &list->items[i];
    return NULL;
}

void ended_remove(struct ended_list *list, size_t at)
{
    list->count--;
    memmove(&list->items[at], &list->items[at + 1], (list->count - at) * sizeof(list->items[0]));
}

/* ---- watching -------------------------------------------------------------------------------- */

void node_watch_clear(struct node *node)
{
    node->watched_count = 0;
    node->watched_hint = 0;
}

void node_watch_begin(struct node *node)
{
    node->watch_round++;
    node->watched_hint = 0;
}

/* Finds a session. The engine mostly lists them in the same order: the hint is the next. */
static struct watched *find(struct node *node, const char *session)
{
    size_t at = node->watched_hint;
    for (size_t i = 0; i < node->watched_count; i++, at++) {
        if (at >= node->watched_count)
            at = 0;
        if (strcmp(node->watched[at].session, session) == 0) {
            node->watched_hint = at + 1;
            return &node->watched[at];
        }
    }
    return NULL;
}

struct watched *node_watch(struct node *node, const char *session, uint64_t beat)
{
    struct watched *w = find(node, session);
    bool is_new = !w;
    if (is_new) {
        w = grow(node->watched, node->watched_count, &node->watched_room, sizeof(*w));
        if (!w)
            return NULL;
        node->watched = w;
        w = &node->watched[node->watched_count++];
        snprintf(w->session, sizeof(w->session), "%s", session);
        node->look_ns = node->now_ns;
    }
    if (is_new || w->beat != beat) {
        w->beat = beat;
        w->since_ns = node->now_ns;
    }
    w->round = node->watch_round;
    return w;
}

void node_watch_end(struct node *node)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->watched_count; i++)
        if (node->watched[i].round == node->watch_round)
            node->watched[kept++] = node->watched[i];
    if (kept < node->watched_count)
        node->look_ns = node->now_ns;
    node->watched_count = kept;
    node->watched_hint = 0;
}

bool node_watch_array(struct node *node, const redisReply *all)
{
    /* The others follow once these are reaped. */
    size_t count = all->elements < 2 * NODE_SESSIONS_MAX ? all->elements : 2 * NODE_SESSIONS_MAX;
    node_watch_begin(node);
    for (size_t i = 0; i + 1 < count; i += 2) {
        char session[NODE_SESSION_SIZE];
        uint64_t beat;
        if (!reply_beat(&all->element[i], session, &beat))
            return node_odd(node, "beats");
        if (!node_watch(node, session, beat))
            return node_no_memory(node);
    }
    node_watch_end(node);
    return true;
}

/* ---- reaping --------------------------------------------------------------------------------- */

bool node_reap_later(struct node *node, const struct ended *item)
{
    return ended_find(&node->reaps, item->session) || ended_add(&node->reaps, item);
}

bool node_reap_watched(struct node *node)
{
    for (size_t i = 0; i < node->watched_count && node->reaps.count < NODE_SESSIONS_MAX; i++) {
        const struct watched *w = &node->watched[i];
        if (node->now_ns - w->since_ns < node->lease_ns || strcmp(w->session, node->session) == 0)
            continue;
        struct ended item = {
            .beat = w->beat, .foreign = true, .over_ns = w->since_ns + node->lease_ns};
        memcpy(item.session, w->session, sizeof(item.session));
        if (!node_reap_later(node, &item))
            return false;
    }
    return true;
}

/* May this session be reaped now? */
static bool may_reap(const struct node *node, const struct ended *item)
{
    return !item->foreign || !node_is_sentinel(node) || node->renewed_ns > item->over_ns;
}

static bool send_reap(struct node *node)
{
    const struct ended *item = &node->reaps.items[0];
    struct command *c = node_script(node, CLUSTER_SCRIPT_REAP);
    command_str(c, item->session);
    command_number(c, item->beat);
    command_str(c, "0"); /* then the engine keeps the cursor */
    return node_send(node, PENDING_REAP, node->reap_number);
}

void node_reap_next(struct node *node)
{
    if (node->reaping || !node->reaps.count || !may_reap(node, &node->reaps.items[0]))
        return;
    uint64_t calls = (node->reap_left + NODE_REAP_PART - 1) / NODE_REAP_PART;
    if (calls > node->reap_most)
        calls = node->reap_most;
    node->reap_calls = calls ? (unsigned)calls : 1;
    node->reap_sent_ns = node->now_ns;
    for (unsigned i = 0; i < node->reap_calls; i++) {
        if (!send_reap(node))
            return;
        node->reaping++;
    }
}

/* The calls that were sent together are answered: more of them, or fewer, go next. */
static void measure_reaps(struct node *node)
{
    bool quick = node->now_ns - node->reap_sent_ns < node->lease_ns / NODE_REAPS_PER_LEASE;
    if (!quick)
        node->reap_most = node->reap_calls / 2;
    else if (node->reap_calls >= node->reap_most && node->reap_most < NODE_REAPS_MAX)
        node->reap_most = 2 * node->reap_calls;
}

static void reaped(struct node *node)
{
    if (node->reaps.items[0].foreign) {
        node->counts.reaped++;
        node_log(node, NODE_LOG_WARNING,
                 "cluster: session %s was silent for a lease: it is reaped, unless it has gone on",
                 node->reaps.items[0].session);
    }
    ended_remove(&node->reaps, 0);
    node->reap_left = 0;
    node->reap_number++;
}

bool node_on_reap(struct node *node, const redisReply *reply)
{
    int64_t left;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 || !node->reaping ||
        !reply_number(reply->element[0], &left) || reply->element[2]->type != REDIS_REPLY_ARRAY)
        return false;
    node->reaping--;
    if (!node_try_listed(node, reply->element[2]))
        return false;
    /* Else another call had given back the rest. */
    if (node->answered.detail == node->reap_number && node->reaps.count) {
        node->reap_left = left > 0 ? (uint64_t)left : 0;
        if (left <= 0)
            reaped(node);
    }
    if (node->reaping)
        return true;
    measure_reaps(node);
    node_reap_next(node);
    return true;
}
