/* model.c - the plain model (see model.h). */
#include "t/campaigns/simulate/model.h"

#include <stdlib.h>
#include <string.h>

void model_free(struct model *m)
{
    for (unsigned n = 0; n < MODEL_NAMES; n++)
        free(m->names[n].line);
    *m = (struct model){0};
}

/* True if the name was last used in this interval, or in the next one by a thread that is ahead. */
static bool is_current(const struct model *m, const struct model_name *n)
{
    return (uint16_t)(n->interval - m->interval) <= 1;
}

bool model_exists(const struct model *m, unsigned name)
{
    const struct model_name *n = &m->names[name];
    return n->present && (n->consumption > 0 || is_current(m, n));
}

uint32_t model_peak(const struct model *m, unsigned name)
{
    const struct model_name *n = &m->names[name];
    return is_current(m, n) ? n->peak : n->consumption;
}

/* Returns the name if it exists, and marks it as used in this interval. */
static struct model_name *use(struct model *m, unsigned name)
{
    struct model_name *n = &m->names[name];
    m->touched |= UINT64_C(1) << name;
    if (!model_exists(m, name)) {
        n->present = false;
        return NULL;
    }
    if (!is_current(m, n)) {
        n->interval = (uint16_t)m->interval;
        n->peak = n->consumption;
    }
    return n;
}

static void add(struct model *m, unsigned name, struct model_client *c, uint32_t units)
{
    struct model_name *n = &m->names[name];
    c->units[name] += units;
    n->consumption += units;
    m->units += units;
    if (n->peak < n->consumption)
        n->peak = n->consumption;
}

static void subtract(struct model *m, unsigned name, struct model_client *c, uint32_t units)
{
    c->units[name] -= units;
    m->names[name].consumption -= units;
    m->units -= units;
}

static void leave_line(struct model *m, unsigned name, unsigned place)
{
    struct model_name *n = &m->names[name];
    n->waiting--;
    m->in_line--;
    memmove(&n->line[place], &n->line[place + 1],
            (n->waiting - place) * sizeof(struct model_client *));
}

static bool fits(const struct model *m, const struct model_client *c)
{
    return m->names[c->wait.name].consumption < c->wait.limit;
}

/* Ends the waits of one kind, oldest first: of all that fit for GRANTED, of all for DONE. */
static void decide(struct model *m, unsigned name, enum wait_kind kind, enum model_wait_state how)
{
    struct model_name *n = &m->names[name];
    for (unsigned i = 0; i < n->waiting;) {
        struct model_client *c = n->line[i];
        if (c->wait.kind != kind || (how == WAIT_GRANTED && !fits(m, c))) {
            i++;
            continue;
        }
        leave_line(m, name, i);
        c->wait.state = how;
        c->wait.decided = ++m->decisions;
        m->untold++;
        if (how == WAIT_GRANTED)
            add(m, name, c, 1);
    }
}

static void came_down(struct model *m, unsigned name)
{
    struct model_name *n = &m->names[name];
    if (n->consumption == 0 && !n->keep)
        n->present = false;
}

static void give_back(struct model *m, struct model_client *c, unsigned name, uint32_t units)
{
    if (units == 0)
        return;
    subtract(m, name, c, units);
    decide(m, name, WAIT_ANY, WAIT_DONE);
    decide(m, name, WAIT_ME, WAIT_GRANTED);
    came_down(m, name);
}

static void make(struct model *m, unsigned name)
{
    struct model_name *n = &m->names[name];
    n->present = true;
    n->keep = false;
    n->interval = (uint16_t)m->interval;
    n->peak = 0;
    n->life++;
}

static void join_line(struct model_name *n, struct model_client *c)
{
    if (n->waiting == n->room) {
        n->room = n->room ? n->room * 2 : 16;
        n->line = realloc(n->line, n->room * sizeof(struct model_client *));
        CHECK(n->line);
    }
    n->line[n->waiting++] = c;
}

enum table_status model_acquire(struct model *m, struct model_client *c,
                                const struct model_acquire *a)
{
    const struct model_name *n = use(m, a->name);
    uint64_t load = n ? (uint64_t)n->consumption + n->waiting : 0;
    uint32_t consumption = n ? n->consumption : 0;
    if (a->queue_max && load >= a->queue_max)
        return TABLE_FULL;
    bool fit = consumption <= a->limit - a->units;
    if (!fit && a->wait == WAIT_NO)
        return TABLE_BUSY;
    if (a->no_memory)
        return TABLE_NO_MEMORY;
    if (fit) {
        if (!n)
            make(m, a->name);
        m->names[a->name].keep |= a->keep;
        add(m, a->name, c, a->units);
        return TABLE_OK;
    }
    c->wait = (struct model_wait){
        .state = WAIT_WAITING, .name = a->name, .kind = a->wait, .limit = a->limit};
    join_line(&m->names[a->name], c);
    m->in_line++;
    return TABLE_WAITING;
}

enum table_status model_release(struct model *m, struct model_client *c, unsigned name,
                                uint32_t units)
{
    m->touched |= UINT64_C(1) << name;
    if (!model_exists(m, name))
        return TABLE_NOT_FOUND;
    if (units > c->units[name])
        return TABLE_NOT_HELD;
    (void)use(m, name);
    give_back(m, c, name, units);
    return TABLE_OK;
}

/* Releases lock number `i` of a text client. */
static void unlock(struct model *m, struct model_client *c, unsigned i)
{
    unsigned name = c->locks[i];
    c->lock_count--;
    memmove(&c->locks[i], &c->locks[i + 1], c->lock_count - i);
    (void)use(m, name);
    give_back(m, c, name, 1);
}

void model_cancel(struct model *m, struct model_client *c)
{
    const struct model_name *n = &m->names[c->wait.name];
    unsigned place = 0;
    while (n->line[place] != c)
        place++;
    leave_line(m, c->wait.name, place);
    (void)use(m, c->wait.name);
    c->wait.state = WAIT_NONE;
}

bool model_note(struct model *m, struct model_client *c)
{
    bool granted = c->wait.state == WAIT_GRANTED;
    if (granted)
        c->locks[c->lock_count++] = (uint8_t)c->wait.name;
    c->wait.state = WAIT_NONE;
    m->untold--;
    return granted;
}

void model_close(struct model *m, struct model_client *c)
{
    if (c->wait.state == WAIT_WAITING)
        model_cancel(m, c);
    else if (c->wait.state != WAIT_NONE)
        m->untold--;
    c->wait.state = WAIT_NONE;
    c->lock_count = 0;
    for (unsigned name = 0; name < MODEL_NAMES; name++) {
        if (c->units[name] == 0)
            continue;
        (void)use(m, name);
        subtract(m, name, c, c->units[name]);
        decide(m, name, WAIT_ME, WAIT_GRANTED);
        decide(m, name, WAIT_ANY, WAIT_GRANTED);
        came_down(m, name);
    }
}

void model_quit(struct model *m, struct model_client *c)
{
    if (c->wait.state == WAIT_WAITING)
        model_cancel(m, c);
    else if (c->wait.state != WAIT_NONE)
        m->untold--; /* what it was granted is given back at the close */
    c->wait.state = WAIT_NONE;
    while (c->lock_count > 0)
        unlock(m, c, c->lock_count - 1);
}

/* ---- answers to text clients -------------------------------------------------------------- */

enum pc_reply model_note_word(struct model *m, struct model_client *c)
{
    return model_note(m, c) ? PC_REPLY_LOCKED : PC_REPLY_DONE;
}

enum pc_reply model_lock(struct model *m, struct model_client *c, const struct model_acquire *a)
{
    if (c->lock_count >= MODEL_LOCKS)
        return PC_REPLY_LOCK_HELD;
    if (c->wait.state != WAIT_NONE)
        return PC_REPLY_WAIT_FOR_RESPONSE;
    switch (model_acquire(m, c, a)) {
    case TABLE_OK:
        c->locks[c->lock_count++] = (uint8_t)a->name;
        return PC_REPLY_LOCKED;
    case TABLE_FULL:
        return PC_REPLY_QUEUE_FULL;
    case TABLE_BUSY:
        return PC_REPLY_TIMEOUT;
    case TABLE_NO_MEMORY:
        return PC_REPLY_OUT_OF_MEMORY;
    default:
        return PC_REPLY_COUNT;
    }
}

/*
 * Releases the newest lock, or the newest of a name if one is given. Returns false if none matches.
 */
static bool unlock_newest(struct model *m, struct model_client *c, unsigned name)
{
    for (unsigned i = c->lock_count; i > 0; i--) {
        if (name == MODEL_NEWEST || c->locks[i - 1] == name) {
            unlock(m, c, i - 1);
            return true;
        }
    }
    return false;
}

struct model_words model_unlock_name(struct model *m, struct model_client *c, unsigned name)
{
    struct model_words words = {0};
    bool released = name != MODEL_NEWEST && unlock_newest(m, c, name);
    bool waits = c->wait.state != WAIT_NONE && (name == MODEL_NEWEST || name == c->wait.name);
    if (!released && waits && c->wait.state == WAIT_WAITING) {
        model_cancel(m, c);
        released = true;
    } else if (!released && waits) {
        words.word[words.count++] = model_note_word(m, c);
    }
    if (!released)
        released = unlock_newest(m, c, name);
    words.word[words.count++] = released ? PC_REPLY_RELEASED : PC_REPLY_NOT_LOCKED;
    return words;
}

bool model_line_is_right(const struct model *m, unsigned name)
{
    const struct model_name *n = &m->names[name];
    for (unsigned i = 0; i < n->waiting; i++) {
        if (fits(m, n->line[i]))
            return false;
    }
    return true;
}
