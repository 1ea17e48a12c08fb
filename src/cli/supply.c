/*
 * supply.c - decides what a supplier does next (supply.h).
 */
#include "cli/supply.h"

#include "cli/loop.h"
#include "cli/text.h"

#include <stdlib.h>

struct supply_slot {
    enum slot_state state;
    bool is_member;          /* the server may have it as a member over this connection */
    bool is_over;            /* its command has ended */
    bool is_failure;         /* why it ends: it failed by itself */
    bool is_told, is_killed; /* ENDING: DO_TERM, DO_KILL were returned */
    int64_t ready_ns;        /* since when it could join; 0: never */
    int64_t due_ns; /* STARTING: until when it must be ready; JOINED: the next check; ENDING: when
                       it is killed */
    struct backoff join, start;
};

void supply_init(struct supply *s, const struct supply_rules *rules)
{
    CHECK(rules->max > 0);
    *s = (struct supply){.rules = *rules, .want = rules->is_single};
}

void supply_free(struct supply *s)
{
    free(s->slots);
    *s = (struct supply){0};
}

static void back_off(struct backoff *b, int64_t now_ns)
{
    b->until_ns = now_ns + pause_longer(&b->pause_ns);
}

/* ---- states ---------------------------------------------------------------------------------- */

#define TO(name) (1u << SLOT_##name)

static const unsigned transitions[SLOT_STATES] = {
    [SLOT_FREE] = TO(STARTING) | TO(READY),
    [SLOT_STARTING] = TO(READY) | TO(ENDING) | TO(FREE),
    [SLOT_READY] = TO(JOINING) | TO(ENDING) | TO(FREE),
    [SLOT_JOINING] = TO(JOINED) | TO(READY) | TO(ENDING) | TO(FREE),
    [SLOT_JOINED] = TO(READY) | TO(ENDING) | TO(FREE),
    [SLOT_ENDING] = TO(FREE),
};

static void move(struct supply_slot *slot, enum slot_state to)
{
    CHECK(transitions[slot->state] & 1u << to);
    slot->state = to;
}

static bool counts(const struct supply_slot *slot)
{
    return slot->state != SLOT_FREE && slot->state != SLOT_ENDING;
}

/* Begins its end, unless it has begun. */
static void stop(struct supply_slot *slot, bool is_failure)
{
    if (!counts(slot))
        return;
    move(slot, SLOT_ENDING);
    slot->is_failure = is_failure;
}

static struct supply_slot *slot_at(const struct supply *s, uint32_t slot)
{
    CHECK(slot < s->count);
    return &s->slots[slot];
}

enum slot_state supply_state(const struct supply *s, uint32_t slot)
{
    return slot < s->count ? s->slots[slot].state : SLOT_FREE;
}

/* ---- what to do next ------------------------------------------------------------------------- */

/* True when the time has come; else *next_r is no later than it. */
static bool is_due(int64_t at_ns, int64_t now_ns, int64_t *next_r)
{
    if (at_ns > now_ns && at_ns < *next_r)
        *next_r = at_ns;
    return at_ns <= now_ns;
}

static enum supply_do slot_next(const struct supply *s, struct supply_slot *slot, int64_t now,
                                int64_t *next_r)
{
    if (slot->is_member && s->connection == SUPPLY_UP && (slot->is_over || s->is_finishing)) {
        slot->is_member = false;
        return DO_DROP;
    }
    bool is_late = slot->state == SLOT_STARTING && is_due(slot->due_ns, now, next_r);
    if (is_late)
        stop(slot, true);
    if (slot->state == SLOT_READY && s->is_supplier && is_due(slot->join.until_ns, now, next_r)) {
        move(slot, SLOT_JOINING);
        slot->is_member = true;
        return DO_JOIN;
    }
    if (slot->state == SLOT_JOINED && is_due(slot->due_ns, now, next_r)) {
        slot->due_ns = SUPPLY_NEVER;
        return DO_CHECK;
    }
    if (slot->state == SLOT_ENDING && !slot->is_told) {
        slot->is_told = true;
        slot->due_ns = now + s->rules.grace_ns;
        return is_late ? DO_GIVE_UP : DO_TERM;
    }
    if (slot->state == SLOT_ENDING && !slot->is_killed &&
        (s->is_hurried || is_due(slot->due_ns, now, next_r))) {
        slot->is_killed = true;
        return DO_KILL;
    }
    return DO_NOTHING;
}

/* The slot with that number, which may be the first without memory. */
static struct supply_slot *make_slot(struct supply *s, uint32_t slot)
{
    if (slot == s->count) {
        s->slots = array_grow(s->slots, s->count, &s->room, sizeof *s->slots);
        s->slots[s->count++] = (struct supply_slot){0};
    }
    return &s->slots[slot];
}

/* Finds the slot to start a command in: the lowest that is free. One that waits after a failure is
   not passed over, because a higher one would fail as fast. */
static bool find_start(struct supply *s, int64_t now, int64_t *next_r, uint32_t *slot_r)
{
    uint32_t have = 0;
    for (uint32_t i = 0; i < s->count; i++)
        have += counts(&s->slots[i]);
    for (uint32_t i = 0; have < s->want && i < s->rules.max; i++) {
        struct supply_slot *slot = make_slot(s, i);
        *slot_r = i;
        if (slot->state == SLOT_FREE && is_due(slot->start.until_ns, now, next_r))
            return true;
        have += slot->state == SLOT_FREE;
    }
    return false;
}

static void start(const struct supply *s, struct supply_slot *slot, int64_t now)
{
    CHECK(slot->state == SLOT_FREE && !slot->is_member);
    *slot = (struct supply_slot){.start = slot->start, .due_ns = SUPPLY_NEVER};
    if (s->rules.says_ready) {
        move(slot, SLOT_STARTING);
        slot->due_ns = now + s->rules.start_timeout_ns;
    } else {
        move(slot, SLOT_READY);
        slot->ready_ns = now;
    }
}

/* What to do over the connection or about it, except for slots. */
static enum supply_do connection_next(struct supply *s, int64_t now, int64_t *next_r)
{
    if (s->is_finishing) {
        if (!s->is_supplier || s->rules.is_single || s->has_resigned)
            return DO_NOTHING;
        s->has_resigned = true;
        return DO_RESIGN;
    }
    if (s->connection == SUPPLY_AWAY && is_due(s->connect.until_ns, now, next_r)) {
        s->connection = SUPPLY_CALLING;
        return DO_CONNECT;
    }
    /* While nothing is wanted we ask again: the pool may have been dropped and made again. */
    if (s->connection == SUPPLY_UP && !s->is_asking && (!s->is_supplier || s->want == 0) &&
        is_due(s->ask.until_ns, now, next_r)) {
        s->is_asking = true;
        return DO_SUPPLY;
    }
    return DO_NOTHING;
}

struct supply_action supply_next(struct supply *s, int64_t now_ns)
{
    struct supply_action action = {.at_ns = SUPPLY_NEVER};
    bool is_over = s->is_finishing;
    action.what = connection_next(s, now_ns, &action.at_ns);
    if (action.what != DO_NOTHING)
        return action;
    for (uint32_t i = 0; i < s->count; i++) {
        action.slot = i;
        action.what = slot_next(s, &s->slots[i], now_ns, &action.at_ns);
        if (action.what != DO_NOTHING)
            return action;
        is_over &= s->slots[i].state == SLOT_FREE;
    }
    if (is_over) {
        action.what = DO_LEAVE;
    } else if (!s->is_finishing && find_start(s, now_ns, &action.at_ns, &action.slot)) {
        start(s, &s->slots[action.slot], now_ns);
        action.what = DO_START;
    }
    return action;
}

/* ---- the connection -------------------------------------------------------------------------- */

void supply_up(struct supply *s)
{
    CHECK(s->connection == SUPPLY_CALLING);
    s->connection = SUPPLY_UP;
    s->is_supplier = s->rules.is_single;
    s->is_asking = false;
    s->ask = (struct backoff){0};
}

void supply_down(struct supply *s, int64_t now_ns)
{
    s->connection = SUPPLY_AWAY;
    s->is_supplier = false;
    back_off(&s->connect, now_ns);
    if (!s->rules.keeps)
        s->want = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        struct supply_slot *slot = &s->slots[i];
        slot->is_member = false;
        slot->join = (struct backoff){0};
        if (!s->rules.keeps)
            stop(slot, false);
        else if (slot->state == SLOT_JOINING || slot->state == SLOT_JOINED)
            move(slot, SLOT_READY);
    }
}

void supply_answered(struct supply *s, bool is_taken, int64_t now_ns)
{
    s->is_asking = false;
    s->is_supplier = is_taken;
    back_off(&s->ask, now_ns);
    if (is_taken)
        s->connect = (struct backoff){0};
}

void supply_want(struct supply *s, uint32_t want)
{
    if (s->rules.is_single)
        return;
    s->want = want; /* find_start stops at max */
    if (want > 0)
        s->ask = (struct backoff){0};
}

/* ---- a slot ---------------------------------------------------------------------------------- */

void supply_ready(struct supply *s, uint32_t slot_number, int64_t now_ns)
{
    struct supply_slot *slot = slot_at(s, slot_number);
    if (slot->state != SLOT_STARTING)
        return;
    move(slot, SLOT_READY);
    slot->ready_ns = now_ns;
}

void supply_joined(struct supply *s, uint32_t slot_number, int64_t now_ns)
{
    struct supply_slot *slot = slot_at(s, slot_number);
    s->connect = (struct backoff){0};
    if (slot->state != SLOT_JOINING)
        return;
    move(slot, SLOT_JOINED);
    slot->join = (struct backoff){0};
    slot->due_ns = s->rules.every_ns ? now_ns + s->rules.every_ns : SUPPLY_NEVER;
}

void supply_refused(struct supply *s, uint32_t slot_number, bool is_final, int64_t now_ns)
{
    struct supply_slot *slot = slot_at(s, slot_number);
    if (slot->state != SLOT_JOINING)
        return;
    slot->is_member = false;
    if (is_final) {
        stop(slot, true);
    } else {
        move(slot, SLOT_READY);
        back_off(&slot->join, now_ns);
    }
}

void supply_stop(struct supply *s, uint32_t slot_number, bool is_failure)
{
    stop(slot_at(s, slot_number), is_failure);
}

void supply_checked(struct supply *s, uint32_t slot_number, int64_t now_ns)
{
    struct supply_slot *slot = slot_at(s, slot_number);
    if (slot->state == SLOT_JOINED)
        slot->due_ns = now_ns + s->rules.every_ns;
}

void supply_ended(struct supply *s, uint32_t slot_number, bool leaves_some, int64_t now_ns)
{
    struct supply_slot *slot = slot_at(s, slot_number);
    if (!slot->is_over) {
        slot->is_over = true;
        if (slot->ready_ns && now_ns - slot->ready_ns >= SUPPLY_STEADY_NS)
            slot->start = (struct backoff){0};
        if (counts(slot) || slot->is_failure)
            back_off(&slot->start, now_ns);
    }
    if (!leaves_some)
        move(slot, SLOT_FREE);
    else
        stop(slot, false);
}

/* ---- the end --------------------------------------------------------------------------------- */

void supply_finish(struct supply *s, bool at_once)
{
    s->is_finishing = true;
    s->is_hurried |= at_once;
    for (uint32_t i = 0; i < s->count; i++)
        stop(&s->slots[i], false);
}
