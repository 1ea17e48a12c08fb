/*
 * check.c - the search (see check.h).
 *
 * The method is Wing and Gong's, in Lowe's "just in time" variant: one walk over the history in the
 * order of time, with the set of all states that the server may be in. A state (struct state) holds
 * what the rule needs to know about one name, and which pending operations have already taken
 * effect. At some moments an operation must have taken effect, because its answer was read. The
 * walk then tries all sequences of pending operations that end with that one. It keeps the states
 * that they lead to; anything else that may happen can also happen later. Equal states are kept
 * once. If no state is left, no order explains the history up to that moment.
 *
 * An operation that changes nothing (Get, a refusal) takes effect as soon as a state allows its
 * answer. That restricts no other operation, so the search need not try later moments.
 *
 * If nobody saw the end of a closed connection, it may hold its units for any time. It no longer
 * matters which connection held them, so a state only counts the closed connections by the number
 * of units they hold. Otherwise the search would have to tell them apart until the end of the
 * history.
 */
#include "t/campaigns/history/check.h"

#include "t/models/table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS    48  /* most connections that use one name at the same time */
#define POINTS     64  /* most pending points: one bit each */
#define UNITS_MAX  255 /* most units of one connection */
#define CLOSED_MAX 16  /* closed connections with fewer units than this are counted */
#define STATES_MAX (1u << 20)
#define BUCKETS    256 /* initial number */

/* The moments at which an operation takes effect. */
enum point_kind {
    POINT_ENTER, /* the server handles a request */
    POINT_LEAVE, /* a waiter leaves the queue: timeout, cancel, close */
    POINT_FREE,  /* a closed connection's units are free again */
};

enum point_life { POINT_TO_COME, POINT_PENDING, POINT_PAST };

#define NONE UINT32_MAX

struct point {
    uint32_t operation;
    enum point_kind kind;
    enum point_life life;
    unsigned slot;    /* its bit, while it is pending */
    uint32_t before;  /* a point that must come first, or NONE */
    uint32_t disarms; /* a point that can no longer come after this one, or NONE */
};

/* Kinds of events. Events of the same time are in this order. */
enum event_kind { EVENT_BEGINS, EVENT_MUST, EVENT_ANSWERED };

struct event {
    int64_t time;
    enum event_kind kind;
    uint32_t point;
};

struct state {
    uint64_t done; /* pending points that have taken effect, a bit each */
    uint32_t consumption;
    uint8_t kept;          /* set by an Acquire of the binary protocol: the name stays at 0 */
    uint8_t waiting;       /* number of waiters */
    uint8_t nothing[2];    /* padding, always 0, because states are compared as bytes */
    uint8_t line[CLIENTS]; /* waiters, oldest first */
    uint8_t held[CLIENTS];
    uint8_t closed[CLOSED_MAX]; /* closed connections that still hold units, by number of units */
};

_Static_assert(sizeof(struct state) == 16 + 2 * CLIENTS + CLOSED_MAX, "there are no bytes between");

struct states {
    struct state *all;
    size_t count, room;
};

/* A set of states, in the order in which they were added, with a hash table. */
struct state_set {
    struct states list;
    uint32_t *buckets; /* position + 1; 0: free */
    size_t bucket_count;
};

/* A connection that uses the name. */
struct client {
    uint32_t conn;
    uint32_t wait;   /* index of its latest ACQ4* */
    uint32_t points; /* points that are not past, plus waits whose answer has not been read */
    uint8_t slot;
    bool present;
};

struct search {
    const struct operation *operations; /* all of one name */
    uint32_t operation_count;
    struct point *points;
    uint32_t point_count;
    struct event *events;
    size_t event_count;
    struct client *clients;
    uint32_t client_count;
    uint32_t *client_of;      /* index of the client, by operation */
    uint32_t pending[POINTS]; /* pending points by slot; NONE: free */
    struct client *present[CLIENTS];
    struct states now;         /* all possible states */
    struct state_set explored; /* states reached on the way to the next event */
    struct states reached;
    uint32_t goal; /* the point and kind of the current event */
    enum event_kind goal_kind;
    bool too_hard;
    struct check_result *result;
};

static void *or_die(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ---- sets of states ------------------------------------------------------------------------ */

static uint64_t hash_state(const struct state *state)
{
    uint64_t words[sizeof(*state) / 8], hash = 0;
    memcpy(words, state, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static void states_add(struct states *list, const struct state *state)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->all = or_die(realloc(list->all, list->room * sizeof(*list->all)));
    }
    list->all[list->count++] = *state;
}

static void set_buckets(struct state_set *set, size_t bucket_count)
{
    free(set->buckets);
    set->bucket_count = bucket_count;
    set->buckets = or_die(calloc(bucket_count, sizeof(*set->buckets)));
    for (size_t i = 0; i < set->list.count; i++) {
        size_t at = hash_state(&set->list.all[i]) & (bucket_count - 1);
        while (set->buckets[at])
            at = (at + 1) & (bucket_count - 1);
        set->buckets[at] = (uint32_t)i + 1;
    }
}

static void set_clear(struct state_set *set)
{
    set->list.count = 0;
    if (set->bucket_count != BUCKETS)
        set_buckets(set, BUCKETS);
    else
        memset(set->buckets, 0, BUCKETS * sizeof(*set->buckets));
}

/* Adds a state. Returns false if the set already has it. */
static bool set_add(struct state_set *set, const struct state *state)
{
    if (2 * set->list.count >= set->bucket_count)
        set_buckets(set, 2 * set->bucket_count);
    size_t at = hash_state(state) & (set->bucket_count - 1);
    for (; set->buckets[at]; at = (at + 1) & (set->bucket_count - 1)) {
        if (memcmp(&set->list.all[set->buckets[at] - 1], state, sizeof(*state)) == 0)
            return false;
    }
    states_add(&set->list, state);
    set->buckets[at] = (uint32_t)set->list.count;
    return true;
}

/* ---- the rule ------------------------------------------------------------------------------ */

/*
 * What the server does is what the model of the table (t/models/table.h) does: a state is loaded
 * into it, one call is made, and the next state is read from it. Connections are holders and waits
 * by their slot; the last holder has the units of a connection that was closed unseen.
 */
static struct model model;
static struct model_holder holders[CLIENTS + 1];
static struct model_wait waits[CLIENTS];
static bool contradicted; /* a verdict of the model is not the recorded answer */

static const struct operation *wait_of(const struct search *search, uint8_t who)
{
    return &search->operations[search->present[who]->wait];
}

static bool fits(const struct state *state, uint32_t units, uint32_t limit)
{
    return units <= limit && state->consumption <= limit - units;
}

static bool exists(const struct state *state)
{
    return state->consumption > 0 || state->kept;
}

static bool is_waiting(const struct state *state, uint8_t who)
{
    return memchr(state->line, who, state->waiting) != NULL;
}

static const struct search *searching;

static void on_decided(struct model_wait *w)
{
    enum history_result result = wait_of(searching, (uint8_t)(w - waits))->result;
    contradicted |= result != RESULT_UNKNOWN &&
                    result != (w->state == WAIT_GRANTED ? RESULT_LOCKED : RESULT_DONE);
}

static void load(const struct search *search, const struct state *state)
{
    static struct model_wait *line[CLIENTS]; /* as many places as there are waits */
    searching = search;
    contradicted = false;
    model.decided = on_decided;
    model.names[0] = (struct model_name){
        .present = exists(state),
        .keep = state->kept,
        .consumption = state->consumption,
        .line = line,
        .room = CLIENTS,
        .waiting = state->waiting,
    };
    for (unsigned who = 0; who < CLIENTS; who++)
        holders[who].of[0] = (struct model_holding){.units = state->held[who]};
    for (unsigned place = 0; place < state->waiting; place++) {
        uint8_t who = state->line[place];
        const struct operation *o = wait_of(search, who);
        waits[who] = (struct model_wait){
            .holder = &holders[who],
            .state = WAIT_WAITING,
            .kind = o->verb == VERB_ACQ4ME ? WAIT_ME : WAIT_ANY,
            .units = 1,
            .limit = o->limit,
        };
        line[place] = &waits[who];
    }
}

static void arrive(struct search *search, const struct state *state);

/* The call was made: goes on with the model's state, if all verdicts are those recorded. */
static void go_on(struct search *search, struct state *state)
{
    const struct model_name *n = &model.names[0];
    if (contradicted)
        return;
    state->consumption = n->consumption;
    state->kept = n->present && n->keep;
    memset(state->line, 0, sizeof(state->line)); /* equal states must have equal bytes */
    state->waiting = (uint8_t)n->waiting;
    for (unsigned place = 0; place < n->waiting; place++)
        state->line[place] = (uint8_t)(n->line[place] - waits);
    for (unsigned who = 0; who < CLIENTS; who++) {
        search->too_hard |= holders[who].of[0].units > UNITS_MAX;
        state->held[who] = (uint8_t)holders[who].of[0].units;
    }
    arrive(search, state);
}

/* A waiter leaves the queue. */
static void leave(struct search *search, struct state *state, uint8_t who)
{
    if (is_waiting(state, who)) {
        load(search, state);
        model_cancel(&model, &waits[who]);
        go_on(search, state);
    } else {
        arrive(search, state);
    }
}

static void release(struct search *search, struct state *state, uint8_t who, uint32_t units)
{
    if (units > state->held[who])
        return;
    load(search, state);
    model_give_back(&model, &holders[who], 0, units, false);
    go_on(search, state);
}

/* A connection that has `units` ends; CLIENTS: one that was closed unseen. */
static void end(struct search *search, struct state *state, uint8_t who, uint32_t units)
{
    load(search, state);
    holders[who].of[0].units = units;
    model_give_back(&model, &holders[who], 0, units, true);
    go_on(search, state);
}

/* The server handles a request for units. */
static void enter(struct search *search, struct state *state, const struct operation *o,
                  uint8_t who)
{
    bool acquires = o->verb == VERB_ACQUIRE;
    const struct model_acquire a = {
        .units = acquires ? o->units : 1,
        .limit = o->limit,
        .queue_max = o->queue,
        .wait = acquires || o->timeout == 0 ? WAIT_NO
                : o->verb == VERB_ACQ4ME    ? WAIT_ME
                                            : WAIT_ANY,
        .keep = acquires,
    };
    enum history_result result = o->result;
    bool is_answer = false;
    load(search, state);
    switch (model_acquire(&model, &holders[who], &a, &waits[who])) {
    case TABLE_OK:
        is_answer = result == (acquires ? RESULT_OK : RESULT_LOCKED);
        break;
    case TABLE_FULL:
        is_answer = result == RESULT_FULL;
        break;
    case TABLE_BUSY:
        is_answer = result == RESULT_TIMEOUT && o->timeout == 0;
        break;
    default: /* the answer comes later */
        is_answer = result != RESULT_FULL;
    }
    if (is_answer || result == RESULT_UNKNOWN)
        go_on(search, state);
}

/* ---- points -------------------------------------------------------------------------------- */

static bool changes_nothing(const struct operation *o)
{
    switch (o->verb) {
    case VERB_ACQ4ME:
    case VERB_ACQ4ANY:
        return o->result == RESULT_FULL || (o->result == RESULT_TIMEOUT && o->timeout == 0);
    case VERB_RELEASE:
    case VERB_ACQUIRE:
    case VERB_GIVE:
        return o->result != RESULT_OK;
    default:
        return o->verb == VERB_GET;
    }
}

/* True if a state allows the answer of an operation that changes nothing. */
static bool allows(const struct state *state, const struct operation *o, uint8_t who)
{
    uint64_t load = (uint64_t)state->consumption + state->waiting;
    bool full = o->queue && load >= o->queue;
    switch (o->verb) {
    case VERB_ACQ4ME:
    case VERB_ACQ4ANY:
        return o->result == RESULT_FULL ? full : !full && !fits(state, 1, o->limit);
    case VERB_RELEASE:
        return o->result == RESULT_NOT_LOCKED && state->held[who] == 0 && !is_waiting(state, who);
    case VERB_ACQUIRE:
        return o->result == RESULT_UNAVAILABLE && !fits(state, o->units, o->limit);
    case VERB_GIVE:
        if (o->result == RESULT_NOT_FOUND)
            return !exists(state);
        return o->result == RESULT_NOT_ACQUIRED && exists(state) && state->held[who] < o->units;
    case VERB_GET:
        if (o->result == RESULT_NOT_FOUND)
            return !exists(state);
        return o->result == RESULT_OK && exists(state) && state->consumption == o->units;
    default:
        return false;
    }
}

static bool is_done(const struct search *search, const struct state *state, uint32_t point)
{
    const struct point *p = &search->points[point];
    return p->life == POINT_PAST ||
           (p->life == POINT_PENDING && state->done & UINT64_C(1) << p->slot);
}

static void mark_done(const struct search *search, struct state *state, uint32_t point)
{
    const struct point *p = &search->points[point];
    if (p->life == POINT_PENDING)
        state->done |= UINT64_C(1) << p->slot;
}

static uint8_t slot_of(const struct search *search, uint32_t operation)
{
    return search->clients[search->client_of[operation]].slot;
}

/* Lets a pending point take effect. Passes each possible next state to `arrive`. */
static void take_effect(struct search *search, struct state state, uint32_t point)
{
    const struct point *p = &search->points[point];
    const struct operation *o = &search->operations[p->operation];
    uint8_t who = slot_of(search, p->operation);
    if (p->before != NONE && !is_done(search, &state, p->before))
        return;
    mark_done(search, &state, point);
    if (p->disarms != NONE)
        mark_done(search, &state, p->disarms);
    if (p->kind == POINT_LEAVE) {
        if (o->verb == VERB_CLOSE || is_waiting(&state, who))
            leave(search, &state, who);
        return;
    }
    switch (o->verb) {
    case VERB_ACQ4ME:
    case VERB_ACQ4ANY:
    case VERB_ACQUIRE:
        enter(search, &state, o, who);
        break;
    case VERB_RELEASE:
        release(search, &state, who, 1);
        break;
    case VERB_GIVE:
        if (o->units > 0)
            release(search, &state, who, o->units);
        else if (exists(&state))
            arrive(search, &state);
        break;
    case VERB_CLOSE:
        if (state.held[who] == 0)
            arrive(search, &state);
        else
            end(search, &state, who, state.held[who]);
        break;
    default:
        break;
    }
}

/* ---- the walk ------------------------------------------------------------------------------ */

/* True if a state satisfies the event. */
static bool is_goal(const struct search *search, const struct state *state)
{
    if (!is_done(search, state, search->goal))
        return false;
    return search->goal_kind == EVENT_MUST ||
           !is_waiting(state, slot_of(search, search->points[search->goal].operation));
}

/*
 * True if a pending point changes nothing in this state, so that it may take effect now. The end of
 * a close is such a point if its connection neither waits nor holds, or if its units can be counted
 * as those of closed connections.
 */
static bool is_idle(const struct search *search, const struct state *state, const struct point *p)
{
    const struct operation *o = &search->operations[p->operation];
    uint8_t who = slot_of(search, p->operation);
    if (p->kind == POINT_ENTER && o->verb != VERB_CLOSE)
        return changes_nothing(o) && allows(state, o, who);
    if (o->verb != VERB_CLOSE)
        return false;
    if (p->kind == POINT_LEAVE)
        return is_done(search, state, p->disarms) && !is_waiting(state, who);
    if (p->before != NONE && !is_done(search, state, p->before))
        return false;
    return state->held[who] == 0 || (o->ret == TIME_UNKNOWN && state->held[who] < CLOSED_MAX);
}

/* An idle point takes effect. */
static void let_pass(struct search *search, struct state *state, const struct point *p)
{
    uint8_t who = slot_of(search, p->operation);
    state->done |= UINT64_C(1) << p->slot;
    if (p->kind != POINT_FREE || state->held[who] == 0)
        return;
    uint8_t *closed = &state->closed[state->held[who]];
    state->held[who] = 0;
    if (++*closed == UINT8_MAX)
        search->too_hard = true;
}

/* Adds a possible state, after all idle points have taken effect in it. */
static void arrive(struct search *search, const struct state *state)
{
    struct state after = *state;
    for (unsigned slot = 0; slot < POINTS; slot++) {
        uint32_t point = search->pending[slot];
        if (point == NONE || after.done & UINT64_C(1) << slot ||
            !is_idle(search, &after, &search->points[point]))
            continue;
        let_pass(search, &after, &search->points[point]);
        slot = UINT_MAX; /* other points may be idle now: start again */
    }
    if (!set_add(&search->explored, &after))
        return;
    search->result->states++;
    if (search->explored.list.count > STATES_MAX)
        search->too_hard = true;
    if (is_goal(search, &after))
        states_add(&search->reached, &after);
}

/* Tries all pending points from one state. */
static void spread(struct search *search, size_t from)
{
    for (unsigned slot = 0; slot < POINTS && !search->too_hard; slot++) {
        uint32_t point = search->pending[slot];
        struct state state = search->explored.list.all[from]; /* the array may move */
        if (point == NONE || state.done & UINT64_C(1) << slot)
            continue;
        if (!changes_nothing(&search->operations[search->points[point].operation]))
            take_effect(search, state, point);
    }
    for (uint32_t units = 1; units < CLOSED_MAX; units++) {
        struct state state = search->explored.list.all[from];
        if (state.closed[units] == 0)
            continue;
        state.closed[units]--;
        end(search, &state, CLIENTS, units);
    }
}

/* Finds all states that satisfy the event. Returns false if there is none. */
static bool pursue(struct search *search)
{
    set_clear(&search->explored);
    search->reached.count = 0;
    for (size_t i = 0; i < search->now.count; i++)
        arrive(search, &search->now.all[i]);
    for (size_t i = 0; i < search->explored.list.count && !search->too_hard; i++) {
        if (!is_goal(search, &search->explored.list.all[i]))
            spread(search, i);
    }
    if (search->reached.count == 0)
        return false;
    struct states before = search->now;
    search->now = search->reached;
    search->reached = before;
    if (search->result->most < search->now.count)
        search->result->most = search->now.count;
    return true;
}

/*
 * Marks points that have taken effect in all states as past, and drops clients that have nothing
 * left.
 */
static void retire(struct search *search)
{
    uint64_t done = UINT64_MAX;
    bool busy[CLIENTS] = {false};
    for (size_t i = 0; i < search->now.count; i++) {
        const struct state *state = &search->now.all[i];
        done &= state->done;
        for (unsigned who = 0; who < CLIENTS; who++)
            busy[who] |= state->held[who] > 0 || is_waiting(state, (uint8_t)who);
    }
    for (unsigned slot = 0; slot < POINTS; slot++) {
        uint32_t point = search->pending[slot];
        if (point == NONE || !(done & UINT64_C(1) << slot))
            continue;
        search->points[point].life = POINT_PAST;
        search->clients[search->client_of[search->points[point].operation]].points--;
        search->pending[slot] = NONE;
    }
    for (unsigned who = 0; who < CLIENTS; who++) {
        struct client *client = search->present[who];
        if (client && client->points == 0 && !busy[who]) {
            client->present = false;
            search->present[who] = NULL;
        }
    }
    /* The bits are used again. All states had them, so the states stay different. */
    for (size_t i = 0; i < search->now.count; i++)
        search->now.all[i].done &= ~done;
}

/* Makes a point pending: it may take effect from now on. */
static void begin(struct search *search, uint32_t point)
{
    struct point *p = &search->points[point];
    struct client *client = &search->clients[search->client_of[p->operation]];
    unsigned slot = 0, who = 0;
    while (slot < POINTS && search->pending[slot] != NONE)
        slot++;
    while (who < CLIENTS && !client->present && search->present[who])
        who++;
    if (slot == POINTS || who == CLIENTS) {
        search->too_hard = true;
        return;
    }
    if (!client->present) {
        client->slot = (uint8_t)who;
        client->present = true;
        search->present[who] = client;
    }
    enum history_verb verb = search->operations[p->operation].verb;
    if (p->kind == POINT_ENTER && (verb == VERB_ACQ4ME || verb == VERB_ACQ4ANY))
        client->wait = p->operation;
    p->life = POINT_PENDING;
    p->slot = slot;
    search->pending[slot] = point;
}

/* ---- reports ------------------------------------------------------------------------------- */

static void say(struct check_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct check_result *result, const char *format, ...)
{
    size_t len = strlen(result->report);
    va_list args;
    va_start(args, format);
    vsnprintf(result->report + len, sizeof(result->report) - len, format, args);
    va_end(args);
}

static void say_operation(struct check_result *result, const struct operation *o)
{
    say(result, "    %s", o->line);
}

static void say_states(const struct search *search)
{
    struct check_result *result = search->result;
    say(result, "  what the server may have been just before (%zu states):\n", search->now.count);
    for (size_t i = 0; i < search->now.count && i < 3; i++) {
        const struct state *state = &search->now.all[i];
        say(result, "    %u held:", state->consumption);
        for (unsigned who = 0; who < CLIENTS; who++) {
            if (state->held[who])
                say(result, " %u by %u", state->held[who], search->present[who]->conn);
        }
        for (unsigned units = 1; units < CLOSED_MAX; units++) {
            if (state->closed[units])
                say(result, " %u each by %u closed", units, state->closed[units]);
        }
        say(result, "; in line:");
        for (unsigned place = 0; place < state->waiting; place++)
            say(result, " %u", search->present[state->line[place]]->conn);
        say(result, "\n");
    }
}

static void report(const struct search *search, const struct event *event)
{
    uint32_t operation = search->points[event->point].operation;
    const struct operation *o = &search->operations[operation];
    struct check_result *result = search->result;
    say(result, "name %u: nothing explains, at %" PRId64 ",\n", o->name, event->time);
    say_operation(result, o);
    say(result, "  under way then:\n");
    for (unsigned slot = 0; slot < POINTS; slot++) {
        uint32_t point = search->pending[slot];
        if (point != NONE && search->points[point].operation != operation)
            say_operation(result, &search->operations[search->points[point].operation]);
    }
    say_states(search);
}

static bool walk(struct search *search)
{
    static const struct state nothing;
    memset(search->pending, 0xff, sizeof(search->pending));
    states_add(&search->now, &nothing);
    for (size_t i = 0; i < search->event_count && !search->too_hard; i++) {
        const struct event *event = &search->events[i];
        if (event->kind == EVENT_BEGINS) {
            begin(search, event->point);
            continue;
        }
        search->goal = event->point;
        search->goal_kind = event->kind;
        if (!pursue(search) && !search->too_hard) {
            report(search, event);
            return false;
        }
        if (event->kind == EVENT_ANSWERED)
            search->clients[search->client_of[search->points[event->point].operation]].points--;
        retire(search);
    }
    return true;
}

/* ---- points of operations ------------------------------------------------------------------ */

static void add_event(struct search *search, int64_t time, enum event_kind kind, uint32_t point)
{
    search->events[search->event_count++] =
        (struct event){.time = time, .kind = kind, .point = point};
}

/*
 * Adds a point that may take effect from time `from`, and must have taken effect by `until` unless
 * that is TIME_UNKNOWN.
 */
static uint32_t add_point(struct search *search, uint32_t operation, enum point_kind kind,
                          int64_t from, int64_t until)
{
    uint32_t point = search->point_count++;
    search->points[point] =
        (struct point){.operation = operation, .kind = kind, .before = NONE, .disarms = NONE};
    search->clients[search->client_of[operation]].points++;
    add_event(search, from, EVENT_BEGINS, point);
    if (until != TIME_UNKNOWN)
        add_event(search, until, EVENT_MUST, point);
    return point;
}

/* *unanswered is the point of this connection's unanswered wait, or NONE. */
static void add_points(struct search *search, uint32_t operation, uint32_t *unanswered)
{
    const struct operation *o = &search->operations[operation];
    if (o->verb == VERB_CLOSE) {
        uint32_t leave = NONE;
        if (*unanswered != NONE) {
            leave = add_point(search, operation, POINT_LEAVE, o->call, o->ret);
            search->points[leave].disarms = *unanswered;
        }
        uint32_t free_point = add_point(search, operation, POINT_FREE, o->call, o->ret);
        search->points[free_point].before = leave;
        return;
    }
    int64_t entered = o->seen != TIME_UNKNOWN ? o->seen : o->ret;
    uint32_t enter_point = add_point(search, operation, POINT_ENTER, o->call, entered);
    bool queues = (o->verb == VERB_ACQ4ME || o->verb == VERB_ACQ4ANY) && o->timeout > 0;
    if (o->result == RESULT_UNKNOWN) {
        *unanswered = enter_point;
    } else if (queues && (o->result == RESULT_TIMEOUT || o->result == RESULT_CANCELLED)) {
        uint32_t leave = add_point(search, operation, POINT_LEAVE, o->left, o->ret);
        search->points[leave].before = enter_point;
    } else if (queues && (o->result == RESULT_LOCKED || o->result == RESULT_DONE)) {
        /* Keeps the client's slot until the answer, even when nothing is left to take effect. */
        search->clients[search->client_of[operation]].points++;
        add_event(search, o->ret, EVENT_ANSWERED, enter_point);
    }
}

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->point < y->point ? -1 : x->point > y->point;
}

/* Finds the client of each operation, by sorting. */
static int compare_conns(const void *a, const void *b)
{
    const struct client *x = a, *y = b;
    return x->conn < y->conn ? -1 : x->conn > y->conn;
}

static void find_clients(struct search *search)
{
    uint32_t count = search->operation_count, kept = 0;
    for (uint32_t i = 0; i < count; i++)
        search->clients[i].conn = search->operations[i].conn;
    qsort(search->clients, count, sizeof(*search->clients), compare_conns);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || search->clients[i].conn != search->clients[kept - 1].conn)
            search->clients[kept++] = search->clients[i];
    }
    search->client_count = kept;
    for (uint32_t i = 0; i < count; i++) {
        struct client key = {.conn = search->operations[i].conn};
        const struct client *found =
            bsearch(&key, search->clients, kept, sizeof(key), compare_conns);
        search->client_of[i] = (uint32_t)(found - search->clients);
    }
}

/* True if the operation's times are possible. */
static bool is_timely(const struct operation *o)
{
    bool ended = o->ret != TIME_UNKNOWN;
    if (!ended)
        return o->verb == VERB_CLOSE || o->result == RESULT_UNKNOWN;
    bool leaves = o->result == RESULT_CANCELLED || (o->result == RESULT_TIMEOUT && o->timeout > 0);
    return o->call <= o->ret && (o->seen == TIME_UNKNOWN || o->seen >= o->call) &&
           (!leaves || (o->left >= o->call && o->left <= o->ret));
}

static enum check_verdict check_name(const struct operation *operations, uint32_t count,
                                     struct check_result *result)
{
    struct search search = {
        .operations = operations,
        .operation_count = count,
        .points = or_die(calloc(2 * (size_t)count, sizeof(struct point))),
        .events = or_die(calloc(5 * (size_t)count, sizeof(struct event))),
        .clients = or_die(calloc(count, sizeof(struct client))),
        .client_of = or_die(calloc(count, sizeof(uint32_t))),
        .result = result,
    };
    uint32_t *unanswered = or_die(malloc(count * sizeof(*unanswered)));
    find_clients(&search);
    for (uint32_t i = 0; i < search.client_count; i++)
        unanswered[i] = NONE;
    for (uint32_t i = 0; i < count; i++)
        add_points(&search, i, &unanswered[search.client_of[i]]);
    qsort(search.events, search.event_count, sizeof(*search.events), compare_events);
    bool explained = walk(&search);
    free(search.now.all);
    free(search.reached.all);
    free(search.explored.list.all);
    free(search.explored.buckets);
    free(unanswered);
    free(search.client_of);
    free(search.clients);
    free(search.events);
    free(search.points);
    return search.too_hard ? CHECK_TOO_HARD : explained ? CHECK_GOOD : CHECK_BAD;
}

static int compare_operations(const void *a, const void *b)
{
    const struct operation *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x->conn < y->conn ? -1 : x->conn > y->conn;
}

static void check_one(const struct operation *operations, uint32_t count,
                      struct check_result *result)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!is_timely(&operations[i])) {
            result->verdict = CHECK_BAD_TIME;
            say(result, "not at its time:\n");
            say_operation(result, &operations[i]);
            return;
        }
    }
    result->verdict = check_name(operations, count, result);
    if (result->verdict == CHECK_TOO_HARD)
        say(result, "name %u: too many operations or states at once\n", operations[0].name);
}

void check_history(struct operation *operations, size_t count, struct check_result *result_r)
{
    *result_r = (struct check_result){.verdict = CHECK_GOOD};
    if (count == 0)
        return;
    qsort(operations, count, sizeof(*operations), compare_operations);
    for (size_t i = 0, next; i < count && result_r->verdict == CHECK_GOOD; i = next) {
        for (next = i + 1; next < count && operations[next].name == operations[i].name;)
            next++;
        check_one(&operations[i], (uint32_t)(next - i), result_r);
    }
}
