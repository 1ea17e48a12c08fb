/* table.c - the model of the table (see table.h). */
#include "t/models/table.h"

#include <stdlib.h>
#include <string.h>

void model_free(struct model *m)
{
    for (unsigned n = 0; n < MODEL_NAMES; n++)
        free(m->names[n].line);
    *m = (struct model){0};
}

/* ---- names ----------------------------------------------------------------------------------- */

static int64_t now_ns(const struct model *m)
{
    return m->now ? m->now->mono_ns : 0;
}

static uint16_t this_interval(const struct model *m)
{
    bool known = m->now && m->now->unix_s > 0;
    return (uint16_t)(known ? m->now->unix_s / m->interval_s : 0);
}

/* True if the name was used in this interval, or in the next one by a thread that is ahead. */
static bool is_current(const struct model *m, const struct model_name *n)
{
    return (uint16_t)(n->interval - this_interval(m)) <= 1;
}

bool model_is_expired(const struct model *m, unsigned name)
{
    const struct model_name *n = &m->names[name];
    return n->present && n->consumption == 0 && n->reserved == 0 && !is_current(m, n);
}

bool model_exists(const struct model *m, unsigned name)
{
    return m->names[name].present && !model_is_expired(m, name);
}

uint32_t model_peak(const struct model *m, unsigned name)
{
    const struct model_name *n = &m->names[name];
    return is_current(m, n) ? n->peak : n->consumption;
}

/* The name, if a request finds it. */
static struct model_name *find(struct model *m, unsigned name)
{
    struct model_name *n = &m->names[name];
    m->touched |= UINT64_C(1) << name;
    if (model_is_expired(m, name))
        n->present = false;
    return n->present ? n : NULL;
}

/* A request uses the name: its interval is this one. */
static struct model_name *use(struct model *m, unsigned name)
{
    struct model_name *n = find(m, name);
    if (n && !is_current(m, n)) {
        n->interval = this_interval(m);
        n->peak = n->consumption;
    }
    return n;
}

/* The name, made if it is not there. */
static struct model_name *use_or_make(struct model *m, unsigned name)
{
    struct model_name *n = use(m, name);
    if (n)
        return n;
    n = &m->names[name];
    n->present = true;
    n->keep = n->passed = false;
    n->interval = this_interval(m);
    n->peak = n->limit = 0;
    n->life++;
    m->made++;
    return n;
}

/* Nobody has units any more: the name goes, if it does not stay at 0. */
static void came_down(struct model_name *n)
{
    if (n->consumption == 0 && !n->keep)
        n->present = false;
}

/* ---- holdings -------------------------------------------------------------------------------- */

/* What the holder has of the name, which exists: new, if it has nothing of this life of it. */
static struct model_holding *holding(struct model *m, struct model_holder *h, unsigned name)
{
    struct model_holding *of = &h->of[name];
    if (of->life != m->names[name].life || (!of->units && !of->waits && !of->reserved))
        *of = (struct model_holding){.life = m->names[name].life};
    return of;
}

static void add(struct model *m, struct model_holder *h, unsigned name, uint32_t units)
{
    struct model_name *n = &m->names[name];
    struct model_holding *of = holding(m, h, name);
    if (of->units == 0)
        of->since_ns = now_ns(m);
    of->units += units;
    n->consumption += units;
    m->units += units;
    n->passed = false;
    if (n->peak < n->consumption)
        n->peak = n->consumption;
}

static void subtract(struct model *m, struct model_holder *h, unsigned name, uint32_t units)
{
    h->of[name].units -= units;
    m->names[name].consumption -= units;
    m->units -= units;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static bool fits(const struct model_name *n, uint32_t units, uint32_t limit)
{
    return (uint64_t)n->consumption + units <= limit;
}

bool model_line_is_right(const struct model *m, unsigned name)
{
    const struct model_name *n = &m->names[name];
    for (unsigned i = 0; i < n->waiting; i++) {
        if (fits(n, n->line[i]->units, n->line[i]->limit))
            return false;
    }
    return true;
}

static void join_line(struct model *m, struct model_name *n, struct model_wait *w)
{
    if (n->waiting == n->room) {
        n->room = n->room ? n->room * 2 : 16;
        n->line = realloc(n->line, n->room * sizeof(struct model_wait *));
        CHECK(n->line);
    }
    n->line[n->waiting++] = w;
    m->waiting++;
}

static void leave_line(struct model *m, struct model_name *n, unsigned place)
{
    n->waiting--;
    m->waiting--;
    memmove(&n->line[place], &n->line[place + 1], (n->waiting - place) * sizeof(n->line[0]));
}

/* Ends the waits of one kind, oldest first: of all that fit for GRANTED, of all for DONE. */
static void decide(struct model *m, unsigned name, enum wait_kind kind, enum model_wait_state how)
{
    struct model_name *n = &m->names[name];
    for (unsigned i = 0; i < n->waiting;) {
        struct model_wait *w = n->line[i];
        if (w->kind != kind || (how == WAIT_GRANTED && !fits(n, w->units, w->limit))) {
            i++;
            continue;
        }
        leave_line(m, n, i);
        w->state = how;
        w->decided = ++m->decisions;
        w->ended_ns = now_ns(m);
        m->untold++;
        if (how == WAIT_GRANTED)
            add(m, w->holder, name, w->units);
        if (m->decided)
            m->decided(w);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum table_status model_acquire(struct model *m, struct model_holder *h,
                                const struct model_acquire *a, struct model_wait *w)
{
    static const struct model_name none;
    struct model_name *found = use(m, a->name);
    const struct model_name *n = found ? found : &none;
    bool full = a->queue_max && (uint64_t)n->consumption + n->waiting >= a->queue_max;
    bool fit = fits(n, a->units, a->limit);
    if (full || (!fit && a->wait == WAIT_NO)) {
        found->limit = a->limit;
        return full ? TABLE_FULL : TABLE_BUSY;
    }
    if (a->no_memory)
        return TABLE_NO_MEMORY;
    if (fit)
        return model_add(m, h, a, true);
    holding(m, h, a->name)->waits++;
    h->of[a->name].limit = found->limit = a->limit;
    *w = (struct model_wait){
        .holder = h,
        .state = WAIT_WAITING,
        .kind = a->wait,
        .name = a->name,
        .units = a->units,
        .limit = a->limit,
        .life = found->life,
        .since_ns = now_ns(m),
    };
    join_line(m, found, w);
    return TABLE_WAITING;
}

enum table_status model_add(struct model *m, struct model_holder *h, const struct model_acquire *a,
                            bool limits)
{
    const struct model_name *found = use(m, a->name);
    if (found && !fits(found, a->units, UINT32_MAX))
        return TABLE_BUSY;
    struct model_name *n = use_or_make(m, a->name);
    add(m, h, a->name, a->units);
    n->keep |= a->keep || !limits;
    if (limits)
        h->of[a->name].limit = n->limit = a->limit;
    return TABLE_OK;
}

void model_give_back(struct model *m, struct model_holder *h, unsigned name, uint32_t units,
                     bool ends)
{
    struct model_name *n = use(m, name);
    if (!ends)
        decide(m, name, WAIT_ANY, WAIT_DONE);
    subtract(m, h, name, units);
    decide(m, name, WAIT_ME, WAIT_GRANTED);
    if (ends)
        decide(m, name, WAIT_ANY, WAIT_GRANTED);
    came_down(n);
}

enum table_status model_release(struct model *m, struct model_holder *h, unsigned name,
                                uint32_t units)
{
    if (!find(m, name))
        return TABLE_NOT_FOUND;
    if (units > h->of[name].units)
        return TABLE_NOT_HELD;
    (void)use(m, name);
    if (units > 0)
        model_give_back(m, h, name, units, false);
    return TABLE_OK;
}

void model_reserve(struct model *m, struct model_holder *h, unsigned name)
{
    struct model_name *n = use_or_make(m, name);
    holding(m, h, name)->reserved++;
    n->reserved++;
    n->keep = true;
    n->passed = false;
}

void model_unreserve(struct model *m, struct model_holder *h, unsigned name)
{
    (void)use(m, name);
    h->of[name].reserved--;
    m->names[name].reserved--;
}

void model_cancel(struct model *m, struct model_wait *w)
{
    struct model_name *n = use(m, w->name);
    unsigned place = 0;
    while (n->line[place] != w)
        place++;
    leave_line(m, n, place);
    w->holder->of[w->name].waits--;
    w->state = WAIT_NONE;
}

bool model_note(struct model *m, struct model_wait *w)
{
    struct model_holding *of = &w->holder->of[w->name];
    bool granted = w->state == WAIT_GRANTED;
    if (of->life == w->life)
        of->waits--;
    w->state = WAIT_NONE;
    m->untold--;
    return granted;
}

void model_close(struct model *m, struct model_holder *h)
{
    for (unsigned name = 0; name < MODEL_NAMES; name++) {
        const struct model_name *n = &m->names[name];
        for (unsigned i = n->waiting; i > 0; i--) {
            if (n->line[i - 1]->holder == h)
                model_cancel(m, n->line[i - 1]);
        }
    }
    for (unsigned name = 0; name < MODEL_NAMES; name++) {
        if (h->of[name].units > 0)
            model_give_back(m, h, name, h->of[name].units, true);
    }
}

void model_change_interval(struct model *m, uint32_t interval_s)
{
    for (unsigned name = 0; name < MODEL_NAMES; name++) {
        struct model_name *n = &m->names[name];
        bool current = n->present && is_current(m, n);
        uint32_t before = m->interval_s;
        m->interval_s = interval_s;
        n->interval = (uint16_t)(this_interval(m) - (current ? 0 : 2));
        m->interval_s = before;
    }
    m->interval_s = interval_s;
}

uint64_t model_collect(struct model *m, bool full)
{
    uint64_t count = 0;
    for (unsigned name = 0; name < MODEL_NAMES; name++) {
        struct model_name *n = &m->names[name];
        bool idle = n->present && n->consumption == 0 && n->reserved == 0;
        if (idle && (model_is_expired(m, name) || (full && n->passed))) {
            n->present = false;
            count++;
        } else if (idle) {
            n->passed = n->passed || full;
        } else if (n->present) {
            (void)use(m, name);
        }
    }
    return count;
}
