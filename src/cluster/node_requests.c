/*
 * node_requests.c - the life of a request: how it comes, is cancelled, granted, queued and
 * answered, and what becomes of it when the engine is lost or patience is over.
 *
 * A request is on one of three lists, by its state: todo (goes with one of the next calls), sent
 * (under way) and waits (in the queue of the engine, or soon again). Nothing is told to a client
 * before the engine has it; what was under way when the engine was lost is as if it was never sent.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdlib.h>

/* ---- lists ----------------------------------------------------------------------------------- */

/* `before`: one of the list; NULL: at the end. */
static void requests_add(struct requests *list, struct node_request *request,
                         struct node_request *before)
{
    request->next = before;
    request->prev = before ? before->prev : list->last;
    *(request->prev ? &request->prev->next : &list->first) = request;
    *(before ? &before->prev : &list->last) = request;
    list->count++;
}

static void requests_remove(struct requests *list, struct node_request *request)
{
    *(request->prev ? &request->prev->next : &list->first) = request->next;
    *(request->next ? &request->next->prev : &list->last) = request->prev;
    request->next = request->prev = NULL;
    list->count--;
}

/* The list that a request of this state is on; NULL: on none. */
static struct requests *requests_of(struct node *node, const struct node_request *request)
{
    unsigned state = REQUEST_STATE(request);
    return state == REQUEST_NEW     ? NULL
           : state < REQUEST_SENT   ? &node->todo
           : state < REQUEST_PLACED ? &node->sent
                                    : &node->waits;
}

static void request_unlist(struct node *node, struct node_request *request)
{
    struct requests *list = requests_of(node, request);
    if (!list)
        return;
    requests_remove(list, request);
    if (REQUEST_STATE(request) == REQUEST_GRANTED)
        node->granted_held--;
}

static void set_state(struct node_request *request, unsigned state)
{
    request->state = (request->state & ~0xffu) | state;
}

void request_set(struct node *node, struct node_request *request, unsigned state)
{
    request_unlist(node, request);
    set_state(request, state);
    struct requests *list = requests_of(node, request);
    CHECK(list);
    requests_add(list, request, NULL);
    if (state == REQUEST_GRANTED)
        node->granted_held++;
}

/* Again on todo, before all others. */
static void ask_again(struct node *node, struct node_request *request)
{
    request_unlist(node, request);
    set_state(request, REQUEST_TODO);
    requests_add(&node->todo, request, node->todo.first);
}

static void request_remove(struct node *node, struct node_request *request)
{
    request_unlist(node, request);
    if (request->state & REQUEST_INDEXED)
        node_index_remove(node, request);
    request->state = REQUEST_NEW;
}

void request_finish(struct node *node, struct node_request *request, enum node_result result)
{
    request_remove(node, request);
    if (request->own) {
        CHECK(request->op == NODE_RELEASE);
        node->given_bytes -= sizeof(*request) + request->name.len;
        free(request);
        return;
    }
    request->result = result;
    node->does.answer(node->arg, request);
}

static void say_queued(struct node *node, struct node_request *request)
{
    if (request->queued)
        return;
    request->queued = true;
    node->does.queued(node->arg, request);
}

/* ---- submitting ------------------------------------------------------------------------------ */

static void submit_acquire(struct node *node, struct node_request *request)
{
    if (node->leaving || (node->alone && request->strict && request->wait == NODE_WAIT_NO)) {
        request_finish(node, request, NODE_ENGINE_AWAY);
        return;
    }
    if (node->alone && !request->strict) {
        request_finish(node, request, NODE_ALONE);
        return;
    }
    if (!node_index_add(node, request)) {
        request_finish(node, request, NODE_NO_MEMORY);
        return;
    }
    request->state |= REQUEST_INDEXED;
    if (request->queued || request->seq > 1)
        request->state |= REQUEST_ADMITTED;
    if (node_has_wrong(node, request->name)) {
        node_request_wrong(node, request);
        return;
    }
    if (request->seq > 1 && node->phase <= PHASE_REPORTING) {
        request_set(node, request, REQUEST_PLACED);
    } else {
        request->seq = 0;
        request_set(node, request, REQUEST_TODO);
    }
    if (node->alone)
        say_queued(node, request);
}

/* Is this release later than the thread's part of this session's report? Then the engine has the
 * units, or will have them. */
static bool is_in_session(const struct node *node, const struct node_request *request)
{
    return node_is_open(node) && node->session_report != 0 &&
           request->report == node->session_report;
}

/* Ends the waits of ACQ4ANY of a name for which `ends` says so. */
static void end_waits(struct node *node, struct bytes name,
                      bool (*ends)(const struct node_request *request, uint64_t value),
                      uint64_t value)
{
    struct node_name *entry = node_name_find(node, name);
    if (!entry)
        return;
    entry->pins++;
    for (struct node_request *request = entry->first, *next; request; request = next) {
        next = request->same_name;
        if (request->wait == NODE_WAIT_ANY && ends(request, value))
            request_finish(node, request, NODE_DONE);
    }
    entry->pins--;
    node_name_release(node, entry);
}

/* The engine is away, and a release ends the waits that came before it: those that were in a queue,
 * and if it is the last that came, all. */
static bool ends_here(const struct node_request *request, uint64_t is_last)
{
    unsigned state = REQUEST_STATE(request);
    return state == REQUEST_PLACED || (state == REQUEST_TODO && (request->queued || is_last));
}

static bool ends_up_to(const struct node_request *request, uint64_t seq)
{
    unsigned state = REQUEST_STATE(request);
    return (state == REQUEST_WAITING || state == REQUEST_PLACED) && request->seq <= seq;
}

void node_done(struct node *node, struct bytes name, uint64_t up_to)
{
    end_waits(node, name, ends_up_to, up_to);
}

/* `is_last`: all that the node has came before it. */
static void release_at_once(struct node *node, struct node_request *request, bool is_last)
{
    if (!request->by_end)
        end_waits(node, request->name, ends_here, is_last);
    request_finish(node, request, NODE_RELEASED);
}

void node_submit(struct node *node, struct node_request *request, int64_t now_ns)
{
    node_enter(node, now_ns);
    enum patterns_class class = patterns_class(node->patterns, request->name);
    request->next = request->prev = NULL;
    request->same_name = request->same_name_prev = NULL;
    request->of_name = NULL;
    request->state = REQUEST_NEW;
    request->cancelled = request->own = false;
    request->strict = class == PATTERNS_STRICT;
    if (request->op == NODE_RELEASE) {
        if (class != PATTERNS_OWN && is_in_session(node, request))
            request_set(node, request, REQUEST_TODO);
        else
            release_at_once(node, request, true);
    } else if (class == PATTERNS_OWN ||
               (request->op != NODE_ACQUIRE && (node->alone || node->leaving))) {
        request_finish(node, request, NODE_ALONE);
    } else if (request->op == NODE_ACQUIRE) {
        submit_acquire(node, request);
    } else {
        request_set(node, request, REQUEST_TODO);
    }
}

void node_cancel(struct node *node, uint64_t id, int64_t now_ns)
{
    node_enter(node, now_ns);
    struct node_request *request = node_request_find(node, id);
    if (!request || request->cancelled)
        return;
    request->cancelled = true;
    switch (REQUEST_STATE(request)) {
    case REQUEST_TODO:
    case REQUEST_PLACED:
        request_finish(node, request, NODE_CANCELLED);
        break;
    case REQUEST_WAITING:
        request_set(node, request, REQUEST_CANCEL_TODO);
        break;
    case REQUEST_GRANTED:
        request_set(node, request, REQUEST_GIVE_TODO);
        break;
    default: /* under way: its answer decides */
        break;
    }
}

/* ---- what the engine says -------------------------------------------------------------------- */

void request_granted(struct node *node, struct node_request *request)
{
    if (request->cancelled)
        request_set(node, request, REQUEST_GIVE_TODO);
    else if (request->strict && node->now_ns >= node->lease_end_ns)
        request_set(node, request, REQUEST_GRANTED);
    else {
        if (node->phase != PHASE_LIVE) {
            /* The engine knows, and so does every report that is asked for later. */
            request->of_name->units += request->units;
            request->of_name->told += request->units;
        }
        request_finish(node, request, NODE_GRANTED);
    }
}

void request_queued(struct node *node, struct node_request *request, uint64_t seq)
{
    bool asserted = request->seq == seq;
    if (seq > node->seq)
        node->seq = seq;
    request->seq = seq;
    request->state |= REQUEST_ADMITTED;
    bool done = request->wait == NODE_WAIT_ANY && seq <= request->of_name->done_seq;
    if (done && !asserted && !request->cancelled) {
        request_finish(node, request, NODE_DONE);
        return;
    }
    if (request->cancelled || done) {
        /* An asserted wait may have come to the engine behind the D: then it is still there. */
        if (!request->cancelled)
            request->state |= REQUEST_DONE;
        request->cancelled = true;
        request_set(node, request, REQUEST_CANCEL_TODO);
        return;
    }
    request_set(node, request, REQUEST_WAITING);
    say_queued(node, request);
}

/* Takes `count` asks from the front of `rest`. Returns them linked by `next`, the oldest first. */
static struct node_request *take_by_age(struct node_request **rest, size_t count)
{
    if (count == 1) {
        struct node_request *request = *rest;
        *rest = request->next;
        request->next = NULL;
        return request;
    }
    struct node_request *a = take_by_age(rest, count / 2);
    struct node_request *b = take_by_age(rest, count - count / 2);
    struct node_request *first = NULL, **end = &first;
    while (a && b) {
        struct node_request **older = b->since_ns < a->since_ns ? &b : &a;
        *end = *older;
        end = &(*end)->next;
        *older = *end;
    }
    *end = a ? a : b;
    return first;
}

void node_requests_by_age(struct node *node)
{
    struct requests waits = {0};
    for (struct node_request *request = node->todo.first, *next; request; request = next) {
        next = request->next;
        if (REQUEST_STATE(request) != REQUEST_TODO || !request->queued)
            continue;
        requests_remove(&node->todo, request);
        requests_add(&waits, request, NULL);
    }
    struct node_request *others = node->todo.first;
    struct node_request *request = waits.count ? take_by_age(&waits.first, waits.count) : NULL;
    for (struct node_request *next; request; request = next) {
        next = request->next;
        requests_add(&node->todo, request, others);
    }
}

bool node_give_back(struct node *node, struct bytes name, uint32_t units, uint64_t id)
{
    if (node->given_bytes >= NODE_GIVEN_MAX)
        return node_lose(node, NODE_LOSS_ERROR, "it grants too much that nobody waits for");
    struct node_request *request = calloc(1, sizeof(*request) + name.len);
    if (!request)
        return node_no_memory(node);
    node->given_bytes += sizeof(*request) + name.len;
    uint8_t *copy = (uint8_t *)(request + 1);
    memcpy(copy, name.data, name.len);
    request->op = NODE_RELEASE;
    request->by_end = true;
    request->own = true;
    request->units = units;
    request->id = id;
    request->name = bytes_at(copy, name.len);
    request_set(node, request, REQUEST_TODO);
    return true;
}

void node_requests_lease(struct node *node)
{
    for (struct node_request *request = node->waits.first, *next; request && node->granted_held;
         request = next) {
        next = request->next;
        if (REQUEST_STATE(request) == REQUEST_GRANTED)
            request_granted(node, request);
    }
}

/* ---- the loss of the engine ------------------------------------------------------------------ */

/* Takes a release off its list, as one that is new. */
static struct node_request *take_release(struct node *node, struct node_request *release)
{
    request_unlist(node, release);
    set_state(release, REQUEST_NEW);
    return release;
}

/* What was sent and not answered; from the last to the first, so that the order stays. */
static void sent_lost(struct node *node, struct requests *releases)
{
    for (struct node_request *request = node->sent.last, *before; request; request = before) {
        before = request->prev;
        request->state &= ~(unsigned)REQUEST_EARLY;
        if (request->op == NODE_RELEASE) {
            requests_add(releases, take_release(node, request), releases->first);
        } else if (request->cancelled) {
            request_finish(node, request, ask_end(request));
        } else if (request->seq > 1) {
            request_set(node, request, REQUEST_PLACED);
        } else {
            ask_again(node, request);
        }
    }
}

static void release_all(struct node *node, struct requests *releases)
{
    while (releases->first) {
        struct node_request *request = releases->first;
        requests_remove(releases, request);
        release_at_once(node, request, false);
    }
}

void node_requests_lost(struct node *node)
{
    struct requests releases = {0};
    for (struct node_request *request = node->todo.first, *next; request; request = next) {
        next = request->next;
        if (request->op == NODE_RELEASE)
            requests_add(&releases, take_release(node, request), NULL);
        else if (request->cancelled)
            request_finish(node, request, ask_end(request));
    }
    sent_lost(node, &releases);
    for (struct node_request *request = node->waits.first, *next; request; request = next) {
        next = request->next;
        if (REQUEST_STATE(request) == REQUEST_WAITING)
            set_state(request, REQUEST_PLACED);
        else if (REQUEST_STATE(request) == REQUEST_GRANTED && request->seq > 1)
            request_set(node, request, REQUEST_PLACED);
        else if (REQUEST_STATE(request) == REQUEST_GRANTED)
            ask_again(node, request);
    }
    release_all(node, &releases);
}

/* ---- without an engine, with other patterns -------------------------------------------------- */

/* What the engine has of a session that opens stays its. */
static void request_alone(struct node *node, struct node_request *request)
{
    if (request->op == NODE_RELEASE ||
        (REQUEST_STATE(request) != REQUEST_TODO && REQUEST_STATE(request) != REQUEST_PLACED))
        return;
    if (request->op != NODE_ACQUIRE || !request->strict)
        request_finish(node, request, NODE_ALONE);
    else if (request->wait == NODE_WAIT_NO)
        request_finish(node, request, NODE_ENGINE_AWAY);
    else
        say_queued(node, request);
}

static void request_patterns(struct node *node, struct node_request *request)
{
    enum patterns_class class = patterns_class(node->patterns, request->name);
    request->strict = class == PATTERNS_STRICT;
    if (class == PATTERNS_OWN && request->op != NODE_RELEASE)
        request_finish(node, request, NODE_ALONE);
    else if (node->alone)
        request_alone(node, request);
}

static void for_all(struct node *node, void (*what)(struct node *, struct node_request *))
{
    struct requests *const lists[] = {&node->todo, &node->waits};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (struct node_request *request = lists[i]->first, *next; request; request = next) {
            next = request->next;
            what(node, request);
        }
}

void node_requests_alone(struct node *node)
{
    /* Releases that a session which opens did not send: the next report has them. */
    struct requests releases = {0};
    for (struct node_request *request = node->todo.first, *next; request; request = next) {
        next = request->next;
        if (request->op == NODE_RELEASE && !request->own)
            requests_add(&releases, take_release(node, request), NULL);
    }
    for_all(node, request_alone);
    release_all(node, &releases);
}

void node_requests_patterns(struct node *node)
{
    for_all(node, request_patterns);
}

struct node_request *node_forget_request(struct node *node)
{
    struct node_request *request = node->todo.first    ? node->todo.first
                                   : node->waits.first ? node->waits.first
                                                       : node->sent.first;
    if (request)
        request_remove(node, request);
    return request;
}
