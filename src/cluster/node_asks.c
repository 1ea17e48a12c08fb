/*
 * node_asks.c - the life of a request: how it comes, is cancelled, granted, queued and answered,
 * and what becomes of it when the engine is lost or patience is over.
 *
 * An ask is on one of three lists, by its state: todo (goes with one of the next calls), sent
 * (under way) and waits (in the queue of the engine, or soon again). Nothing is told to a client
 * before the engine has it; what was under way when the engine was lost is as if it was never sent.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_inside.h"

#include <stdlib.h>

/* ---- lists ----------------------------------------------------------------------------------- */

/* `before`: one of the list; NULL: at the end. */
static void asks_add(struct asks *list, struct node_ask *ask, struct node_ask *before)
{
    ask->next = before;
    ask->prev = before ? before->prev : list->last;
    *(ask->prev ? &ask->prev->next : &list->first) = ask;
    *(before ? &before->prev : &list->last) = ask;
    list->count++;
}

static void asks_remove(struct asks *list, struct node_ask *ask)
{
    *(ask->prev ? &ask->prev->next : &list->first) = ask->next;
    *(ask->next ? &ask->next->prev : &list->last) = ask->prev;
    ask->next = ask->prev = NULL;
    list->count--;
}

/* The list that an ask of this state is on; NULL: on none. */
static struct asks *asks_of(struct node *node, const struct node_ask *ask)
{
    unsigned state = ASK_STATE(ask);
    return state == ASK_NEW     ? NULL
           : state < ASK_SENT   ? &node->todo
           : state < ASK_PLACED ? &node->sent
                                : &node->waits;
}

static void ask_unlist(struct node *node, struct node_ask *ask)
{
    struct asks *list = asks_of(node, ask);
    if (!list)
        return;
    asks_remove(list, ask);
    if (ASK_STATE(ask) == ASK_GRANTED)
        node->granted_held--;
}

static void set_state(struct node_ask *ask, unsigned state)
{
    ask->state = (ask->state & ~0xffu) | state;
}

void ask_set(struct node *node, struct node_ask *ask, unsigned state)
{
    ask_unlist(node, ask);
    set_state(ask, state);
    struct asks *list = asks_of(node, ask);
    CHECK(list);
    asks_add(list, ask, NULL);
    if (state == ASK_GRANTED)
        node->granted_held++;
}

/* Again on todo, before all others. */
static void ask_again(struct node *node, struct node_ask *ask)
{
    ask_unlist(node, ask);
    set_state(ask, ASK_TODO);
    asks_add(&node->todo, ask, node->todo.first);
}

static void ask_remove(struct node *node, struct node_ask *ask)
{
    ask_unlist(node, ask);
    if (ask->state & ASK_INDEXED)
        node_index_remove(node, ask);
    ask->state = ASK_NEW;
}

void ask_finish(struct node *node, struct node_ask *ask, enum node_result result)
{
    ask_remove(node, ask);
    if (ask->own) {
        CHECK(ask->op == NODE_RELEASE);
        node->given_bytes -= sizeof(*ask) + ask->name.len;
        free(ask);
        return;
    }
    ask->result = result;
    node->does.answer(node->arg, ask);
}

static void say_queued(struct node *node, struct node_ask *ask)
{
    if (ask->queued)
        return;
    ask->queued = true;
    node->does.queued(node->arg, ask);
}

/* ---- submitting ------------------------------------------------------------------------------ */

static void submit_acquire(struct node *node, struct node_ask *ask)
{
    if (node->leaving || (node->alone && ask->strict && ask->wait == NODE_WAIT_NO)) {
        ask_finish(node, ask, NODE_ENGINE_AWAY);
        return;
    }
    if (node->alone && !ask->strict) {
        ask_finish(node, ask, NODE_ALONE);
        return;
    }
    if (!node_index_add(node, ask)) {
        ask_finish(node, ask, NODE_NO_MEMORY);
        return;
    }
    ask->state |= ASK_INDEXED;
    if (ask->queued || ask->seq > 1)
        ask->state |= ASK_ADMITTED;
    if (node_has_wrong(node, ask->name)) {
        node_ask_wrong(node, ask);
        return;
    }
    if (ask->seq > 1 && node->phase <= PHASE_REPORTING) {
        ask_set(node, ask, ASK_PLACED);
    } else {
        ask->seq = 0;
        ask_set(node, ask, ASK_TODO);
    }
    if (node->alone)
        say_queued(node, ask);
}

/* Is this release later than the thread's part of this session's report? Then the engine has the
 * units, or will have them. */
static bool is_in_session(const struct node *node, const struct node_ask *ask)
{
    return node_is_open(node) && node->session_report != 0 && ask->report == node->session_report;
}

/* Ends the waits of ACQ4ANY of a name for which `ends` says so. */
static void end_waits(struct node *node, struct bytes name,
                      bool (*ends)(const struct node_ask *ask, uint64_t value), uint64_t value)
{
    struct node_name *entry = node_name_find(node, name);
    if (!entry)
        return;
    entry->pins++;
    for (struct node_ask *ask = entry->first, *next; ask; ask = next) {
        next = ask->same_name;
        if (ask->wait == NODE_WAIT_ANY && ends(ask, value))
            ask_finish(node, ask, NODE_DONE);
    }
    entry->pins--;
    node_name_release(node, entry);
}

/* The engine is away, and a release ends the waits that came before it: those that were in a queue,
 * and if it is the last that came, all. */
static bool ends_here(const struct node_ask *ask, uint64_t is_last)
{
    unsigned state = ASK_STATE(ask);
    return state == ASK_PLACED || (state == ASK_TODO && (ask->queued || is_last));
}

static bool ends_up_to(const struct node_ask *ask, uint64_t seq)
{
    unsigned state = ASK_STATE(ask);
    return (state == ASK_WAITING || state == ASK_PLACED) && ask->seq <= seq;
}

void node_done(struct node *node, struct bytes name, uint64_t up_to)
{
    end_waits(node, name, ends_up_to, up_to);
}

/* `is_last`: all that the node has came before it. */
static void release_at_once(struct node *node, struct node_ask *ask, bool is_last)
{
    if (!ask->by_end)
        end_waits(node, ask->name, ends_here, is_last);
    ask_finish(node, ask, NODE_RELEASED);
}

void node_submit(struct node *node, struct node_ask *ask, int64_t now_ns)
{
    node_enter(node, now_ns);
    enum patterns_class class = patterns_class(node->patterns, ask->name);
    ask->next = ask->prev = NULL;
    ask->same_name = ask->same_name_prev = NULL;
    ask->of_name = NULL;
    ask->state = ASK_NEW;
    ask->cancelled = ask->own = false;
    ask->strict = class == PATTERNS_STRICT;
    if (ask->op == NODE_RELEASE) {
        if (class != PATTERNS_OWN && is_in_session(node, ask))
            ask_set(node, ask, ASK_TODO);
        else
            release_at_once(node, ask, true);
    } else if (class == PATTERNS_OWN ||
               (ask->op != NODE_ACQUIRE && (node->alone || node->leaving))) {
        ask_finish(node, ask, NODE_ALONE);
    } else if (ask->op == NODE_ACQUIRE) {
        submit_acquire(node, ask);
    } else {
        ask_set(node, ask, ASK_TODO);
    }
}

void node_cancel(struct node *node, uint64_t id, int64_t now_ns)
{
    node_enter(node, now_ns);
    struct node_ask *ask = node_ask_find(node, id);
    if (!ask || ask->cancelled)
        return;
    ask->cancelled = true;
    switch (ASK_STATE(ask)) {
    case ASK_TODO:
    case ASK_PLACED:
        ask_finish(node, ask, NODE_CANCELLED);
        break;
    case ASK_WAITING:
        ask_set(node, ask, ASK_CANCEL_TODO);
        break;
    case ASK_GRANTED:
        ask_set(node, ask, ASK_GIVE_TODO);
        break;
    default: /* under way: its answer decides */
        break;
    }
}

/* ---- what the engine says -------------------------------------------------------------------- */

void ask_granted(struct node *node, struct node_ask *ask)
{
    if (ask->cancelled)
        ask_set(node, ask, ASK_GIVE_TODO);
    else if (ask->strict && node->now_ns >= node->lease_end_ns)
        ask_set(node, ask, ASK_GRANTED);
    else {
        if (node->phase != PHASE_LIVE) {
            /* The engine knows, and so does every report that is asked for later. */
            ask->of_name->units += ask->units;
            ask->of_name->told += ask->units;
        }
        ask_finish(node, ask, NODE_GRANTED);
    }
}

void ask_queued(struct node *node, struct node_ask *ask, uint64_t seq)
{
    bool asserted = ask->seq == seq;
    if (seq > node->seq)
        node->seq = seq;
    ask->seq = seq;
    ask->state |= ASK_ADMITTED;
    bool done = ask->wait == NODE_WAIT_ANY && seq <= ask->of_name->done_seq;
    if (done && !asserted && !ask->cancelled) {
        ask_finish(node, ask, NODE_DONE);
        return;
    }
    if (ask->cancelled || done) {
        /* An asserted wait may have come to the engine behind the D: then it is still there. */
        if (!ask->cancelled)
            ask->state |= ASK_DONE;
        ask->cancelled = true;
        ask_set(node, ask, ASK_CANCEL_TODO);
        return;
    }
    ask_set(node, ask, ASK_WAITING);
    say_queued(node, ask);
}

/* Takes `count` asks from the front of `rest`. Returns them linked by `next`, the oldest first. */
static struct node_ask *take_by_age(struct node_ask **rest, size_t count)
{
    if (count == 1) {
        struct node_ask *ask = *rest;
        *rest = ask->next;
        ask->next = NULL;
        return ask;
    }
    struct node_ask *a = take_by_age(rest, count / 2);
    struct node_ask *b = take_by_age(rest, count - count / 2);
    struct node_ask *first = NULL, **end = &first;
    while (a && b) {
        struct node_ask **older = b->since_ns < a->since_ns ? &b : &a;
        *end = *older;
        end = &(*end)->next;
        *older = *end;
    }
    *end = a ? a : b;
    return first;
}

void node_asks_by_age(struct node *node)
{
    struct asks waits = {0};
    for (struct node_ask *ask = node->todo.first, *next; ask; ask = next) {
        next = ask->next;
        if (ASK_STATE(ask) != ASK_TODO || !ask->queued)
            continue;
        asks_remove(&node->todo, ask);
        asks_add(&waits, ask, NULL);
    }
    struct node_ask *others = node->todo.first;
    struct node_ask *ask = waits.count ? take_by_age(&waits.first, waits.count) : NULL;
    for (struct node_ask *next; ask; ask = next) {
        next = ask->next;
        asks_add(&node->todo, ask, others);
    }
}

bool node_give_back(struct node *node, struct bytes name, uint32_t units, uint64_t id)
{
    if (node->given_bytes >= NODE_GIVEN_MAX)
        return node_lose(node, NODE_LOSS_ERROR, "it grants too much that nobody waits for");
    struct node_ask *ask = calloc(1, sizeof(*ask) + name.len);
    if (!ask)
        return node_no_memory(node);
    node->given_bytes += sizeof(*ask) + name.len;
    uint8_t *copy = (uint8_t *)(ask + 1);
    memcpy(copy, name.data, name.len);
    ask->op = NODE_RELEASE;
    ask->by_end = true;
    ask->own = true;
    ask->units = units;
    ask->id = id;
    ask->name = bytes_at(copy, name.len);
    ask_set(node, ask, ASK_TODO);
    return true;
}

void node_asks_lease(struct node *node)
{
    for (struct node_ask *ask = node->waits.first, *next; ask && node->granted_held; ask = next) {
        next = ask->next;
        if (ASK_STATE(ask) == ASK_GRANTED)
            ask_granted(node, ask);
    }
}

/* ---- the loss of the engine ------------------------------------------------------------------ */

/* Takes a release off its list, as one that is new. */
static struct node_ask *take_release(struct node *node, struct node_ask *release)
{
    ask_unlist(node, release);
    set_state(release, ASK_NEW);
    return release;
}

/* What was sent and not answered; from the last to the first, so that the order stays. */
static void sent_lost(struct node *node, struct asks *releases)
{
    for (struct node_ask *ask = node->sent.last, *before; ask; ask = before) {
        before = ask->prev;
        ask->state &= ~(unsigned)ASK_EARLY;
        if (ask->op == NODE_RELEASE) {
            asks_add(releases, take_release(node, ask), releases->first);
        } else if (ask->cancelled) {
            ask_finish(node, ask, ask_end(ask));
        } else if (ask->seq > 1) {
            ask_set(node, ask, ASK_PLACED);
        } else {
            ask_again(node, ask);
        }
    }
}

static void release_all(struct node *node, struct asks *releases)
{
    while (releases->first) {
        struct node_ask *ask = releases->first;
        asks_remove(releases, ask);
        release_at_once(node, ask, false);
    }
}

void node_asks_lost(struct node *node)
{
    struct asks releases = {0};
    for (struct node_ask *ask = node->todo.first, *next; ask; ask = next) {
        next = ask->next;
        if (ask->op == NODE_RELEASE)
            asks_add(&releases, take_release(node, ask), NULL);
        else if (ask->cancelled)
            ask_finish(node, ask, ask_end(ask));
    }
    sent_lost(node, &releases);
    for (struct node_ask *ask = node->waits.first, *next; ask; ask = next) {
        next = ask->next;
        if (ASK_STATE(ask) == ASK_WAITING)
            set_state(ask, ASK_PLACED);
        else if (ASK_STATE(ask) == ASK_GRANTED && ask->seq > 1)
            ask_set(node, ask, ASK_PLACED);
        else if (ASK_STATE(ask) == ASK_GRANTED)
            ask_again(node, ask);
    }
    release_all(node, &releases);
}

/* ---- without an engine, with other patterns -------------------------------------------------- */

/* What the engine has of a session that opens stays its. */
static void ask_alone(struct node *node, struct node_ask *ask)
{
    if (ask->op == NODE_RELEASE || (ASK_STATE(ask) != ASK_TODO && ASK_STATE(ask) != ASK_PLACED))
        return;
    if (ask->op != NODE_ACQUIRE || !ask->strict)
        ask_finish(node, ask, NODE_ALONE);
    else if (ask->wait == NODE_WAIT_NO)
        ask_finish(node, ask, NODE_ENGINE_AWAY);
    else
        say_queued(node, ask);
}

static void ask_patterns(struct node *node, struct node_ask *ask)
{
    enum patterns_class class = patterns_class(node->patterns, ask->name);
    ask->strict = class == PATTERNS_STRICT;
    if (class == PATTERNS_OWN && ask->op != NODE_RELEASE)
        ask_finish(node, ask, NODE_ALONE);
    else if (node->alone)
        ask_alone(node, ask);
}

static void for_all(struct node *node, void (*what)(struct node *, struct node_ask *))
{
    struct asks *const lists[] = {&node->todo, &node->waits};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (struct node_ask *ask = lists[i]->first, *next; ask; ask = next) {
            next = ask->next;
            what(node, ask);
        }
}

void node_asks_alone(struct node *node)
{
    /* Releases that a session which opens did not send: the next report has them. */
    struct asks releases = {0};
    for (struct node_ask *ask = node->todo.first, *next; ask; ask = next) {
        next = ask->next;
        if (ask->op == NODE_RELEASE && !ask->own)
            asks_add(&releases, take_release(node, ask), NULL);
    }
    for_all(node, ask_alone);
    release_all(node, &releases);
}

void node_asks_patterns(struct node *node)
{
    for_all(node, ask_patterns);
}

struct node_ask *node_forget_ask(struct node *node)
{
    struct node_ask *ask = node->todo.first    ? node->todo.first
                           : node->waits.first ? node->waits.first
                                               : node->sent.first;
    if (ask)
        ask_remove(node, ask);
    return ask;
}
