/*
 * table_test.c - random calls of the table, compared with its model (table.h) after each.
 *
 * A step is one call; then everything that can be asked is compared: the answer, the verdicts in
 * their order, the units of each name, the sums. Modes make steps harder: memory is refused, the
 * table is full, the clock is set back, threads are an interval late. In all modes the table is now
 * and then written to a record, also a damaged one, and the run goes on in the table that is read
 * from it. T_SEED repeats a run, T_MODEL_STEPS sets its length; a failure names the step.
 *
 * All calls are made under a lock of the rank of the pools, as services do.
 */
#include "t/models/table.h"

#include "base/lock.h"
#include "engine/contention.h"
#include "engine/state.h"
#include "t/unit/engine/faults.h"
#include "t/unit/random.h"

#define INTERVAL 50U
#define LIMIT    ((size_t)16 << 20)

enum {
    NAMES = 12,
    HOLDERS = 40,
    WAITS = 400, /* at the same time, including letters on their way */
    SHOWN = CONTENDED_KEPT * TABLE_SHARDS,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    STEPS = 15000, /* slow, and the test has only one thread */
#else
    STEPS = 60000,
#endif
};

/* ---- state --------------------------------------------------------------------------------- */

/* A wait, from its beginning until its letter has arrived. */
struct wait {
    struct model_wait has;
    struct waiter *real; /* NULL: this place is free */
    unsigned holder;
    enum waiter_state verdict; /* WAITING: none yet */
    bool noted;                /* its holder has taken the verdict, or has closed */
    uint64_t age;
};

/* The table, and the model of it. */
static struct table *t;
static struct table_config config;
static struct holder sets_of_holders[2][HOLDERS];
static struct holder *holders = sets_of_holders[0];
static struct holding *held[HOLDERS][NAMES]; /* while there are units or reservations */
static struct model m;
static struct model_holder has[HOLDERS];
static struct wait waits[WAITS];
static struct bytes names[NAMES];

static struct moment now;
static verdicts out;
static struct histogram lasted;        /* the lengths of holdings */
static uint64_t ended_count, ended_ns; /* the same by the model */
static unsigned expected[WAITS], expected_count;
static uint64_t step, ages;
static uint32_t next_id;
static struct rng rng;
static size_t used_at_start; /* memory of this table when it was empty */
static size_t squeezed;      /* memory charged so that the table is full */
static uint64_t dropped;     /* names that this table has dropped early so far */

/* The modes. */
static bool faulty, full, set_back, late;

/* Fails with the step's number. */
#define AGREE(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("step %" PRIu64 ": %s (line %d)", step, #condition, __LINE__);            \
    } while (0)

static bool dice(void)
{
    return rng_one_in(&rng, 12);
}

static struct table_stats stats(void)
{
    struct table_stats s;
    table_get_stats(t, now, &s);
    return s;
}

/* The hash of a name, or 0: unknown. */
static uint64_t some_hash(unsigned n)
{
    uint64_t hash = 0;
    if (rng_one_in(&rng, 2))
        table_prefetch(t, &names[n], 1, &hash);
    return hash;
}

static void open_holder(unsigned holder)
{
    uint32_t id = ++next_id;
    holder_init(&holders[holder], id, holder);
    has[holder] = (struct model_holder){0};
    memset(held[holder], 0, sizeof(held[holder]));
}

static bool keeps_holding(unsigned holder, unsigned n)
{
    return has[holder].of[n].units > 0 || has[holder].of[n].reserved > 0;
}

static unsigned free_place(void)
{
    unsigned i = 0;
    while (i < WAITS && waits[i].real)
        i++;
    return i;
}

static unsigned place_of(const struct waiter *real)
{
    unsigned i = 0;
    while (i < WAITS && waits[i].real != real)
        i++;
    AGREE(i < WAITS);
    return i;
}

/* The place of a random wait; WAITS: there is none. */
static unsigned some_wait(void)
{
    unsigned at = rng_below(&rng, WAITS);
    for (unsigned i = 0; i < WAITS; i++) {
        if (waits[(at + i) % WAITS].real)
            return (at + i) % WAITS;
    }
    return WAITS;
}

/* The model has made a verdict. */
static void on_decided(struct model_wait *w)
{
    struct wait *wait = container_of(w, struct wait, has);
    wait->verdict = w->state == WAIT_GRANTED ? WAITER_GRANTED : WAITER_DONE;
    expected[expected_count++] = (unsigned)(wait - waits);
}

/* ---- comparing ----------------------------------------------------------------------------- */

/*
 * The verdicts are the expected ones, and in the model's order for each name. A close can notify
 * several names; their order is the table's.
 */
static void compare_verdicts(void)
{
    bool told[WAITS] = {false};
    for (unsigned k = 0; k < expected_count; k++) {
        struct mail *mail = mail_list_take(&out);
        AGREE(mail != NULL);
        const struct waiter *real = waiter_of(mail);
        unsigned i = place_of(real), first = 0;
        while (told[first] || waits[expected[first]].has.name != waits[i].has.name) {
            first++;
            AGREE(first < expected_count);
        }
        AGREE(expected[first] == i);
        told[first] = true;
        AGREE(real->state == waits[i].verdict && real->ended_ns == waits[i].has.ended_ns);
        if (waits[i].verdict == WAITER_GRANTED)
            held[waits[i].holder][waits[i].has.name] = real->holding;
    }
    AGREE(mail_list_take(&out) == NULL);
    expected_count = 0;
}

static void compare_waiters(unsigned holder)
{
    unsigned count = 0;
    const struct waiter *prev = NULL;
    for (const struct waiter *w = holders[holder].waiters; w; prev = w, w = w->next, count++) {
        const struct wait *wait = &waits[place_of(w)];
        AGREE(wait->holder == holder && !wait->noted && w->prev == prev);
        AGREE(!prev || waits[place_of(prev)].age > wait->age); /* newest first */
        AGREE(w->holder == &holders[holder] && w->letter.to == holder);
        AGREE(w->since_ns == wait->has.since_ns && w->kind == wait->has.kind);
        AGREE(w->state == wait->verdict && w->units == wait->has.units);
        AGREE(w->limit == wait->has.limit);
    }
    for (unsigned i = 0; i < WAITS; i++)
        count -= waits[i].real && waits[i].holder == holder && !waits[i].noted;
    AGREE(count == 0);
}

/* Names at 0 that a full table has dropped. */
static void learn_of_dropped(void)
{
    uint64_t gone = stats().dropped_early - dropped;
    uint32_t consumption;
    AGREE(gone == 0 || full);
    for (unsigned n = 0; n < NAMES && gone > 0; n++) {
        if (!model_exists(&m, n) || m.names[n].consumption > 0 || m.names[n].reserved > 0 ||
            table_get(t, names[n], now, &consumption) == TABLE_OK)
            continue;
        m.names[n].present = false;
        gone--;
        dropped++;
    }
    AGREE(gone == 0);
}

/* A request has made a name again for which it had to drop it. */
static void learn_of_made(unsigned n)
{
    if (full && model_exists(&m, n) && stats().names_made > m.made) {
        AGREE(m.names[n].consumption == 0 && m.names[n].reserved == 0);
        m.names[n].present = false;
        dropped++;
    }
}

static void compare_sums(void)
{
    struct table_stats s = stats();
    uint64_t present = 0, idle = 0;
    for (unsigned n = 0; n < NAMES; n++) {
        present += model_exists(&m, n);
        idle += m.names[n].present && m.names[n].consumption == 0 && m.names[n].reserved == 0;
    }
    AGREE(s.units == m.units && s.waiting == m.waiting && s.names_made == m.made);
    AGREE(s.names == present || set_back);
    AGREE(s.idle == idle || full);
    AGREE(table_is_full(t) == (squeezed > 0) && (table_is_tight(t) || !squeezed));
}

static void compare_consumptions(void)
{
    for (unsigned n = 0; n < NAMES; n++) {
        uint32_t consumption = 0;
        if (model_is_expired(&m, n))
            continue; /* a request would remove it; leave some to the collector */
        enum table_status status = table_get(t, names[n], now, &consumption);
        AGREE(status == (model_exists(&m, n) ? TABLE_OK : TABLE_NOT_FOUND));
        AGREE(status != TABLE_OK || consumption == m.names[n].consumption);
    }
}

static void compare_ended(void)
{
    struct buckets_sum sum = {0};
    buckets_sum_up(&sum, &lasted.buckets);
    AGREE(buckets_sum_count(&sum) == ended_count);
    AGREE(sum.sum_ns + 1024 * ended_count >= ended_ns &&
          sum.sum_ns <= ended_ns + 1024 * ended_count);
}

static uint32_t holders_of(unsigned n)
{
    uint32_t count = 0;
    for (unsigned holder = 0; holder < HOLDERS; holder++)
        count += has[holder].of[n].units > 0;
    return count;
}

static void compare_entry(const struct table_entry *entry, unsigned n)
{
    AGREE(entry->consumption == m.names[n].consumption && entry->limit == m.names[n].limit);
    AGREE(entry->peak == model_peak(&m, n) && entry->waiting == m.names[n].waiting);
    AGREE(entry->holders == holders_of(n));
}

/* A name and its waiters, oldest first. */
static void compare_closely(unsigned n, size_t room)
{
    static struct table_wait line[WAITS];
    struct table_entry entry;
    size_t count = 77;
    if (model_is_expired(&m, n))
        return;
    enum table_status status = table_inspect(t, names[n], now, &entry, line, room, &count);
    AGREE(status == (model_exists(&m, n) ? TABLE_OK : TABLE_NOT_FOUND));
    if (status != TABLE_OK) {
        AGREE(count == 0);
        return;
    }
    AGREE(entry.name.data == names[n].data && entry.name.len == names[n].len);
    compare_entry(&entry, n);
    AGREE(count == (entry.waiting < room ? entry.waiting : room));
    for (size_t k = 0; k < count; k++) {
        struct model_wait *w = m.names[n].line[k];
        AGREE(line[k].tag == container_of(w, struct wait, has)->holder && line[k].kind == w->kind);
        AGREE(line[k].units == w->units && line[k].limit == w->limit);
        AGREE(line[k].since_ns == w->since_ns);
    }
}

static void compare_hold(const struct table_hold *hold, unsigned n, unsigned holder)
{
    const struct model_holding *of = &has[holder].of[n];
    AGREE(hold->holder == holders[holder].id && hold->units == of->units);
    AGREE(hold->limit == of->limit);
    AGREE(hold->since_ns <= of->since_ns && hold->since_ns > of->since_ns - 1024);
}

/* One holder's units of a name. */
static void compare_holds(unsigned n, unsigned holder)
{
    struct table_hold hold;
    if (model_is_expired(&m, n))
        return;
    bool holds = table_holds(t, holders[holder].id, names[n], now, &hold);
    AGREE(holds == (has[holder].of[n].units > 0));
    if (holds)
        compare_hold(&hold, n, holder);
    if (keeps_holding(holder, n)) {
        struct bytes name = holding_name(t, held[holder][n]);
        AGREE(holding_units(held[holder][n]) == has[holder].of[n].units);
        AGREE(name.len == names[n].len && memcmp(name.data, names[n].data, name.len) == 0);
    }
}

/* A walk over a name's holders shows each of them once. */
static void compare_holders(unsigned n)
{
    bool shown[HOLDERS] = {false};
    struct table_walk walk = {0};
    struct table_hold holds[HOLDERS];
    size_t room = 1 + rng_below(&rng, HOLDERS), count;
    uint32_t all = 0;
    if (model_is_expired(&m, n))
        return;
    for (bool over = false; !over;) {
        over = table_holders_on(t, names[n], &walk, now, 1 + rng_below(&rng, 100), holds, room,
                                &count);
        AGREE(count <= room);
        for (size_t i = 0; i < count; i++, all++) {
            unsigned holder = 0;
            while (holder < HOLDERS && holders[holder].id != holds[i].holder)
                holder++;
            AGREE(holder < HOLDERS && !shown[holder]);
            shown[holder] = true;
            compare_hold(&holds[i], n, holder);
        }
    }
    AGREE(all == holders_of(n));
}

/* In how many names, also of earlier lives, the holder has units, reservations, waits, verdicts. */
static uint32_t holdings_of(unsigned holder)
{
    const struct model_holding *of = has[holder].of;
    uint32_t count = 0;
    for (unsigned n = 0; n < NAMES; n++)
        count += of[n].units || of[n].waits || of[n].reserved;
    for (unsigned i = 0; i < WAITS; i++) {
        const struct model_wait *w = &waits[i].has;
        if (!waits[i].real || waits[i].noted || waits[i].holder != holder ||
            w->life == of[w->name].life)
            continue;
        bool counted = false;
        for (unsigned k = 0; k < i; k++)
            counted |= waits[k].real && !waits[k].noted && waits[k].holder == holder &&
                       waits[k].has.name == w->name && waits[k].has.life == w->life;
        count += !counted;
    }
    return count;
}

static void visit_name(void *arg, struct bytes name, uint32_t units)
{
    uint64_t *left = arg;
    (void)name;
    AGREE(units > 0 && *left >= units);
    *left -= units;
}

/* What one holder has. */
static uint32_t compare_holder(unsigned holder)
{
    uint32_t count = holdings_of(holder);
    uint64_t units = 0;
    AGREE(holder_count(t, &holders[holder], UINT32_MAX) == count);
    AGREE(holder_count(t, &holders[holder], 2) == (count < 2 ? count : 2));
    for (unsigned n = 0; n < NAMES; n++)
        units += has[holder].of[n].units;
    AGREE(holder_units(t, &holders[holder]) == units);
    holder_visit(t, &holders[holder], visit_name, &units);
    AGREE(units == 0);
    compare_waiters(holder);
    for (unsigned n = 0; n < NAMES; n++) {
        struct release more = {.name = names[n], .units = has[holder].of[n].units + 1};
        compare_holds(n, holder);
        if (model_exists(&m, n) && more.units > 0)
            AGREE(table_release(t, &holders[holder], &more, now, NULL, &out) == TABLE_NOT_HELD);
    }
    return count;
}

static unsigned seen[NAMES];

static bool see(void *arg, const struct table_entry *entry)
{
    (void)arg;
    unsigned n = 0;
    if (rng_one_in(&rng, 4))
        return false; /* no room: it is shown again */
    while (n < NAMES && (entry->name.len != names[n].len ||
                         memcmp(entry->name.data, names[n].data, names[n].len) != 0))
        n++;
    AGREE(n < NAMES);
    seen[n]++;
    AGREE(model_exists(&m, n));
    compare_entry(entry, n);
    return true;
}

/* The slower comparisons. */
static void compare_all(void)
{
    struct table_walk walk = {0};
    memset(seen, 0, sizeof(seen));
    while (!table_walk_on(t, &walk, now, 1 + rng_below(&rng, 100), see, NULL))
        continue;
    uint32_t holdings = 0;
    for (unsigned holder = 0; holder < HOLDERS; holder++)
        holdings += compare_holder(holder);
    AGREE(stats().holdings == holdings);
    for (unsigned n = 0; n < NAMES; n++) {
        AGREE(seen[n] == model_exists(&m, n));
        compare_closely(n, WAITS);
        compare_holders(n);
        /* The queue size where FULL begins shows how many wait for a name. */
        uint64_t load = (uint64_t)m.names[n].consumption + m.names[n].waiting;
        if (m.names[n].consumption == 0 || load >= UINT32_MAX)
            continue;
        for (uint32_t more = 0; more < 2; more++) {
            struct acquire a = {
                .name = names[n], .units = 1, .limit = 1, .queue_max = (uint32_t)load + more};
            struct model_acquire same = {
                .name = n, .units = 1, .limit = 1, .queue_max = a.queue_max};
            AGREE(table_acquire(t, &holders[0], &a, now, NULL, NULL) ==
                  model_acquire(&m, &has[0], &same, NULL));
        }
    }
    compare_sums();
    table_check(t);
}

/* ---- steps --------------------------------------------------------------------------------- */

/* True if memory may be short. */
static bool may_refuse(unsigned long faults_before)
{
    return faults > faults_before || squeezed > 0;
}

/* A holding has units or reservations now. */
static void note_holding(unsigned holder, unsigned n, struct holding *where, bool had)
{
    AGREE(where != NULL && (!had || where == held[holder][n]));
    held[holder][n] = where;
}

/* Random units and limit of a name. */
static void choose_units(unsigned n, uint32_t *units, uint32_t *limit)
{
    if (n == 0) { /* one name has huge numbers */
        *units = rng_one_in(&rng, 2) ? UINT32_MAX - rng_below(&rng, 3) : 1 + rng_below(&rng, 3);
        *limit = rng_one_in(&rng, 2) || *units == UINT32_MAX ? UINT32_MAX : UINT32_MAX - 1;
        if (*limit < *units)
            *limit = *units;
    } else {
        *units = 1 + (rng_one_in(&rng, 3) ? rng_below(&rng, 4) : 0);
        *limit = *units + rng_below(&rng, n % 4 == 1 ? 2 : 2 * n);
    }
}

static void step_acquire(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS), place = free_place();
    struct model_acquire is = {.name = n, .keep = rng_one_in(&rng, 6)};
    choose_units(n, &is.units, &is.limit);
    is.queue_max = rng_one_in(&rng, 3) ? 1 + rng_below(&rng, 30) : 0;
    is.wait = place < WAITS ? (enum wait_kind)rng_below(&rng, 3) : WAIT_NO;
    const struct acquire a = {.name = names[n],
                              .hash = some_hash(n),
                              .units = is.units,
                              .limit = is.limit,
                              .queue_max = is.queue_max,
                              .wait = is.wait,
                              .keep = is.keep};
    struct holding *where = NULL;
    struct waiter *real = NULL;
    bool had = keeps_holding(holder, n);
    unsigned long before = faults;
    fault_dice = faulty ? dice : NULL;
    enum table_status status = table_acquire(t, &holders[holder], &a, now, &where, &real);
    fault_dice = NULL;
    learn_of_made(n);
    is.no_memory = status == TABLE_NO_MEMORY;
    struct wait *wait = &waits[place < WAITS ? place : 0];
    AGREE(model_acquire(&m, &has[holder], &is, &wait->has) == status);
    AGREE(!is.no_memory || may_refuse(before));
    AGREE((status == TABLE_WAITING) == (real != NULL));
    if (status == TABLE_OK)
        note_holding(holder, n, where, had);
    if (status == TABLE_WAITING) {
        wait->real = real;
        wait->holder = holder;
        wait->verdict = WAITER_WAITING;
        wait->noted = false;
        wait->age = ++ages;
    }
    compare_waiters(holder);
}

/* Units are added whatever the limit. */
static void step_add(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    struct model_acquire is = {.name = n, .keep = rng_one_in(&rng, 3)};
    choose_units(n, &is.units, &is.limit);
    bool had = keeps_holding(holder, n), grants = rng_one_in(&rng, 2);
    struct holding *where = NULL;
    unsigned long before = faults;
    if (had && rng_one_in(&rng, 2)) {
        bool added = table_add_held(t, held[holder][n], is.units, now);
        bool keep = m.names[n].keep;
        AGREE(added == (model_add(&m, &has[holder], &is, false) == TABLE_OK));
        m.names[n].keep = keep;
        return;
    }
    const struct acquire a = {.name = names[n],
                              .hash = some_hash(n),
                              .units = is.units,
                              .limit = is.limit,
                              .keep = is.keep};
    fault_dice = faulty ? dice : NULL;
    enum table_status status =
        grants ? table_grant(t, &holders[holder], &a, now, &where)
               : table_add(t, &holders[holder], names[n], a.hash, a.units, now, &where);
    fault_dice = NULL;
    if (status == TABLE_NO_MEMORY) {
        AGREE(may_refuse(before));
        (void)model_release(&m, &has[holder], n, 0); /* it was used */
        return;
    }
    learn_of_made(n);
    AGREE(model_add(&m, &has[holder], &is, grants) == status);
    if (status == TABLE_OK)
        note_holding(holder, n, where, had);
}

static void step_reserve(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    struct model_holding *of = &has[holder].of[n];
    if (of->reserved > 0 && !rng_one_in(&rng, 3)) {
        table_unreserve(t, &holders[holder], held[holder][n], now);
        model_unreserve(&m, &has[holder], n);
        return;
    }
    bool had = keeps_holding(holder, n);
    unsigned long before = faults;
    fault_dice = faulty ? dice : NULL;
    struct holding *where = table_reserve(t, &holders[holder], names[n], some_hash(n), now);
    fault_dice = NULL;
    AGREE(where || may_refuse(before));
    if (!where) {
        m.names[n].present = model_exists(&m, n); /* it was looked for */
        return;
    }
    learn_of_made(n);
    model_reserve(&m, &has[holder], n);
    note_holding(holder, n, where, had);
}

/* Counts a holding that ends, if the caller of the table has it measured. */
static void note_end(unsigned n, unsigned holder, uint32_t units)
{
    const struct model_holding *of = &has[holder].of[n];
    if (units == 0 || units < of->units)
        return;
    ended_count++;
    ended_ns += (uint64_t)(now.mono_ns - of->since_ns);
}

static void step_release(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    for (unsigned i = 0; i < HOLDERS && has[holder].of[n].units == 0 && !rng_one_in(&rng, 30); i++)
        holder = (holder + 1) % HOLDERS;
    uint32_t most = has[holder].of[n].units;
    uint32_t units = rng_one_in(&rng, 10) ? 0 : rng_one_in(&rng, 2) ? most : 1;
    if (rng_one_in(&rng, 20))
        units = most < UINT32_MAX ? most + 1 : most;
    if (units > 0 && units <= most && rng_one_in(&rng, 2)) {
        bool ends = rng_one_in(&rng, 3); /* the caller of these measures by itself */
        if (ends)
            table_give_back_held(t, &holders[holder], held[holder][n], units, now, &out);
        else
            table_release_held(t, &holders[holder], held[holder][n], units, now, &out);
        model_give_back(&m, &has[holder], n, units, ends);
        return;
    }
    const struct release r = {.name = names[n], .hash = some_hash(n), .units = units};
    enum table_status status = table_release(t, &holders[holder], &r, now, &lasted, &out);
    if (status == TABLE_OK)
        note_end(n, holder, units);
    AGREE(model_release(&m, &has[holder], n, units) == status);
}

/* The owner takes a verdict, early or when its letter arrives. */
static void take_verdict(unsigned i)
{
    struct wait *wait = &waits[i];
    const struct model_holding *of = &has[wait->holder].of[wait->has.name];
    const struct holding *where = wait->real->holding;
    AGREE(wait->verdict != WAITER_GRANTED || wait->has.life != of->life || of->units == 0 ||
          where == held[wait->holder][wait->has.name]);
    AGREE(table_take_verdict(t, wait->real) == wait->verdict);
    (void)model_note(&m, &wait->has);
    wait->noted = true;
    compare_waiters(wait->holder);
}

static void step_end_wait(void)
{
    unsigned i = some_wait();
    if (i == WAITS || waits[i].noted)
        return;
    struct wait *wait = &waits[i];
    enum waiter_state why = rng_one_in(&rng, 2) ? WAITER_TIMED_OUT : WAITER_CANCELLED;
    enum waiter_state state = table_end_wait(t, wait->real, why, now);
    if (wait->verdict == WAITER_WAITING) {
        AGREE(state == why);
        model_cancel(&m, &wait->has);
        wait->real = NULL;
        compare_waiters(wait->holder);
    } else {
        AGREE(state == wait->verdict);
        if (rng_one_in(&rng, 2))
            take_verdict(i);
    }
}

/* A letter arrives; not always the oldest. */
static void deliver(unsigned i)
{
    struct wait *wait = &waits[i];
    AGREE((wait->real->holder == NULL) == wait->noted && wait->real->letter.to == wait->holder);
    if (!wait->noted)
        take_verdict(i);
    table_waiter_free(t, wait->real);
    wait->real = NULL;
}

static void step_deliver(void)
{
    unsigned i = some_wait();
    if (i < WAITS && waits[i].verdict != WAITER_WAITING)
        deliver(i);
}

static void close_holder(unsigned holder)
{
    for (unsigned n = 0; n < NAMES; n++) {
        while (has[holder].of[n].reserved > 0) {
            table_unreserve(t, &holders[holder], held[holder][n], now);
            model_unreserve(&m, &has[holder], n);
        }
    }
    while (!table_close_some(t, &holders[holder], 1 + rng_below(&rng, NAMES), now, &lasted, &out))
        continue;
    AGREE(holders[holder].waiters == NULL && holders[holder].holdings == 0);
    for (unsigned n = 0; n < NAMES; n++)
        note_end(n, holder, has[holder].of[n].units);
    for (unsigned i = 0; i < WAITS; i++) {
        struct wait *wait = &waits[i];
        if (!wait->real || wait->holder != holder || wait->noted)
            continue;
        wait->noted = true;
        if (wait->verdict == WAITER_WAITING)
            wait->real = NULL; /* the model's close ends it */
        else
            (void)model_note(&m, &wait->has);
    }
    model_close(&m, &has[holder]);
}

static void reopen_closed(void)
{
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        if (!holders[holder].waiters && holders[holder].holdings == 0 && rng_one_in(&rng, 4))
            open_holder(holder);
    }
}

static void step_time(void)
{
    now.mono_ns += 1 + rng_below(&rng, 1000000);
    if (rng_one_in(&rng, 500))
        now.mono_ns += (int64_t)rng_below(&rng, 100) * 86400 * NS_PER_S;
    if (rng_one_in(&rng, 3))
        now.unix_s += rng_below(&rng, INTERVAL);
    if (set_back && rng_one_in(&rng, 300))
        now.unix_s -= rng_below(&rng, 3 * INTERVAL);
}

static void step_collect(void)
{
    uint64_t collected = 0;
    struct table_walk walk = {0};
    unsigned budget = 1 + rng_below(&rng, 200);
    while (!table_collect(t, &walk, now, budget, &collected))
        continue;
    uint64_t due = model_collect(&m, squeezed > 0);
    AGREE(collected == due || (full && collected < due)); /* a request may have dropped some */
    dropped = stats().dropped_early;
}

/* The table becomes full by memory that is kept elsewhere, or has room again. */
static void step_squeeze(void)
{
    if (squeezed > 0) {
        table_uncharge(t, squeezed);
        squeezed = 0;
        return;
    }
    AGREE(!table_charge(t, LIMIT));
    squeezed = LIMIT - (size_t)stats().memory - rng_below(&rng, 4 * ARENA_PAGE);
    AGREE(table_charge(t, squeezed));
}

/* ---- going on in another table ------------------------------------------------------------- */

static struct record_writer writer;

/* Writes the table and its holders. Returns the file. */
static int save(void)
{
    int fd = memfd_create("state", MFD_CLOEXEC);
    AGREE(fd >= 0);
    record_writer_init(&writer, fd);
    table_save(t, now, &writer);
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        record_begin(&writer, holder);
        holder_save(t, &holders[holder], &writer);
        for (unsigned n = 0; n < NAMES; n++) {
            if (has[holder].of[n].units > 0)
                holding_save(t, held[holder][n], &writer);
        }
        record_end(&writer);
    }
    return fd;
}

/* Reads a record into another table, without the holder `missing`. Returns false on failure. */
static bool restore(struct table *to, struct holder *new_holders, struct record_reader *r,
                    struct holding *new_held[HOLDERS][NAMES], unsigned missing)
{
    struct record_reader section;
    uint32_t kind;
    if (!record_enter(r, &kind, &section) || kind != STATE_TABLE) {
        record_refuse(r, "no table");
        return false;
    }
    if (!table_restore(to, now, 1 + rng_below(&rng, 2), &section))
        return false;
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        holder_init(&new_holders[holder], ++next_id, holder);
        if (!record_enter(r, &kind, &section)) {
            record_refuse(r, "no holder");
            return false;
        }
        if (holder == missing)
            continue;
        if (!holder_restore(to, &new_holders[holder], &section))
            return false;
        for (unsigned n = 0; n < NAMES; n++) {
            new_held[holder][n] = NULL;
            if (has[holder].of[n].units == 0)
                continue;
            new_held[holder][n] = holding_restore(to, &new_holders[holder], &section);
            if (!new_held[holder][n])
                return false;
        }
        record_leave(&section);
    }
    return record_ok(r) && table_restore_done(to, r);
}

/* A table of the record's settings, or others. */
static struct table *another_table(void)
{
    struct table_config other = config;
    other.buckets = rng_below(&rng, 3000);
    other.hash_key.k0 = rng_next(&rng);
    return table_new(&other);
}

static struct holder *other_holders(void)
{
    return sets_of_holders[holders == sets_of_holders[0]];
}

/* What is only reserved is not saved. */
static bool has_units_or_waits(unsigned holder)
{
    return holders[holder].waiters || holder_units(t, &holders[holder]) > 0;
}

/* A damaged or incomplete record is refused, or gives a table that is whole. */
static void try_damaged(const struct record_reader *whole)
{
    static struct holding *new_held[HOLDERS][NAMES];
    struct holder *new_holders = other_holders();
    unsigned missing = HOLDERS, cut = 0;
    struct record_reader r;
    uint8_t *copy = malloc(whole->len); /* of this size, so that ASan sees what is read behind it */
    AGREE(copy != NULL);
    memcpy(copy, whole->data, whole->len);
    uint32_t how = rng_below(&rng, 8);
    uint8_t *at = &copy[rng_below(&rng, (uint32_t)whole->len)];
    if (how == 0)
        missing = rng_below(&rng, HOLDERS);
    else if (how == 1)
        cut = 1 + rng_below(&rng, (uint32_t)whole->len - 1);
    else if (how < 5)
        *at ^= (uint8_t)(1u << rng_below(&rng, 8));
    else
        *at = (uint8_t)rng_next(&rng);
    record_reader_init(&r, copy, whole->len - cut);
    struct table *to = another_table();
    AGREE(to != NULL);
    if (restore(to, new_holders, &r, new_held, missing)) {
        AGREE(cut == 0 && (missing == HOLDERS || !has_units_or_waits(missing)));
        table_check(to);
        for (unsigned holder = 0; holder < HOLDERS; holder++)
            table_close(to, &new_holders[holder], now, NULL, &out);
        for (struct mail *mail; (mail = mail_list_take(&out)) != NULL;)
            table_waiter_free(to, waiter_of(mail));
        table_check(to);
    } else {
        AGREE(r.why != NULL);
    }
    table_free(&to);
    free(copy);
}

/* What is contended is the same in both tables; names of equal rank may come in any order. */
static void compare_contended(struct table *to, enum contended_by by)
{
    static struct contended before[SHOWN], after[SHOWN];
    size_t count = table_contended(t, by, now, before, SHOWN);
    AGREE(table_contended(to, by, now, after, SHOWN) == count);
    AGREE(table_contended_bound(t, by, now) == table_contended_bound(to, by, now));
    for (size_t i = 0; i < count; i++) {
        const struct contended *a = &before[i];
        size_t k = 0;
        while (k < count && (after[k].name_len != a->name_len ||
                             memcmp(after[k].name, a->name, a->name_kept) != 0))
            k++;
        AGREE(k < count && after[k].waiting_load == a->waiting_load && after[k].peak == a->peak);
        AGREE(after[k].refused_per_second == a->refused_per_second);
        AGREE(after[k].waiting_error == 0 && after[k].refused_error == 0); /* there are few names */
    }
}

/* Reservations are not saved: those who made them make them again. */
static void reserve_again(struct table *to, struct holder *new_holders,
                          struct holding *new_held[HOLDERS][NAMES])
{
    uint32_t counts[HOLDERS][NAMES];
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        for (unsigned n = 0; n < NAMES; n++) {
            struct model_holding *of = &has[holder].of[n];
            counts[holder][n] = of->reserved;
            for (; of->reserved > 0; of->reserved--) {
                table_unreserve(t, &holders[holder], held[holder][n], now);
                m.names[n].reserved--;
            }
        }
    }
    for (unsigned n = 0; n < NAMES; n++) {
        if (model_is_expired(&m, n))
            m.names[n].present = false; /* at the latest when somebody looks for it */
        m.names[n].passed = false;
    }
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        for (unsigned n = 0; n < NAMES; n++) {
            for (uint32_t i = 0; i < counts[holder][n]; i++) {
                struct holding *where =
                    table_reserve(to, &new_holders[holder], names[n], some_hash(n), now);
                AGREE(where && (!new_held[holder][n] || where == new_held[holder][n]));
                new_held[holder][n] = where;
                model_reserve(&m, &has[holder], n);
            }
        }
    }
}

/* The new table takes the place of the old one. Its holders' waits have the same order. */
static void go_on_with(struct table *to, struct holder *new_holders)
{
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        struct waiter *real = new_holders[holder].waiters;
        for (struct waiter *w = holders[holder].waiters; w; w = w->next, real = real->next) {
            AGREE(real != NULL);
            waits[place_of(w)].real = real;
        }
        AGREE(real == NULL);
        table_close(t, &holders[holder], now, NULL, &out);
    }
    for (struct mail *mail; (mail = mail_list_take(&out)) != NULL;)
        table_waiter_free(t, waiter_of(mail));
    table_free(&t);
    t = to;
    holders = new_holders;
    dropped = stats().dropped_early;
}

static void step_hand_on(void)
{
    static struct holding *new_held[HOLDERS][NAMES];
    unsigned unread = 0;
    if (squeezed > 0)
        step_squeeze();
    for (unsigned i = 0; i < WAITS; i++)
        unread += waits[i].real && !waits[i].noted && waits[i].verdict != WAITER_WAITING;
    int fd = save();
    AGREE(record_finish(&writer) == (unread == 0)); /* a verdict on its way is not saved */
    for (unsigned i = 0; i < WAITS; i++) {
        if (waits[i].real && waits[i].verdict != WAITER_WAITING)
            deliver(i);
    }
    AGREE(close(fd) == 0);
    fd = save();
    AGREE(record_finish(&writer));
    struct record_reader r;
    AGREE(record_map(&r, fd));
    AGREE(close(fd) == 0);
    for (unsigned i = 0; i < 16; i++)
        try_damaged(&r);
    struct table_config before = config;
    config.stats_interval_s = rng_one_in(&rng, 2) ? INTERVAL : 7;
    fault_countdown = faulty ? 1 + rng_below(&rng, 1000) : 0;
    struct holder *new_holders = other_holders();
    struct table_stats empty = {0};
    struct table *to = another_table();
    if (to)
        table_get_stats(to, now, &empty);
    bool restored = to && restore(to, new_holders, &r, new_held, HOLDERS);
    fault_countdown = 0;
    if (restored) {
        for (int by = 0; by < CONTENDED_BY_COUNT && config.stats_interval_s == m.interval_s; by++)
            compare_contended(to, (enum contended_by)by);
        if (m.interval_s != config.stats_interval_s)
            model_change_interval(&m, config.stats_interval_s);
        reserve_again(to, new_holders, new_held);
        go_on_with(to, new_holders);
        memcpy(held, new_held, sizeof(held));
        used_at_start = (size_t)empty.memory;
        for (unsigned holder = 0; holder < HOLDERS; holder++)
            compare_waiters(holder);
    } else {
        AGREE(faulty);
        config = before;
        table_free(&to);
    }
    record_unmap(&r);
    compare_all();
}

/* ---- runs ---------------------------------------------------------------------------------- */

static void call_something(void)
{
    uint32_t what = rng_below(&rng, 1000);
    if (what < 350 &&
        (step / 256 % (full ? 2 : 4) > 0 || rng_one_in(&rng, 8))) /* at times names come to 0 */
        step_acquire();
    else if (what >= 350 && what < 370)
        step_add();
    else if (what >= 370 && what < 410)
        step_reserve();
    else if (what < 660)
        step_release();
    else if (what < 740)
        step_end_wait();
    else if (what < 910)
        step_deliver();
    else if (what < 950)
        step_time();
    else if (what < 957 || (full && what < 970))
        step_collect();
    else if (full && what < 975)
        step_squeeze();
    else if (what < 985)
        reopen_closed();
    else
        close_holder(rng_below(&rng, HOLDERS));
    compare_verdicts();
    learn_of_dropped();
}

static void one_step(void)
{
    if (rng_one_in(&rng, 2000))
        step_hand_on();
    bool is_late = late && rng_one_in(&rng, 10);
    now.unix_s -= is_late ? config.stats_interval_s : 0;
    call_something();
    now.unix_s += is_late ? config.stats_interval_s : 0;
    compare_consumptions();
    compare_sums();
    compare_ended();
    compare_closely(rng_below(&rng, NAMES), rng_below(&rng, 8));
    compare_holds(rng_below(&rng, NAMES), rng_below(&rng, HOLDERS));
    if (step % 64 == 0)
        compare_all();
}

/* Names of several lengths, all in two shards, so that little memory is kept for later names. */
static void make_names(const struct hash_key *key)
{
    static const size_t lengths[NAMES] = {1, 2, 5, 8, 24, 25, 64, 65, 200, 300, 1500, 1997};
    for (unsigned n = 0; n < NAMES; n++) {
        unsigned char *data = malloc(lengths[n]);
        ck_assert(data != NULL);
        do {
            for (size_t i = 0; i < (n < 2 ? lengths[n] : 3); i++)
                data[i] = (unsigned char)rng_next(&rng);
            for (size_t i = 3; i < lengths[n]; i++)
                data[i] = (unsigned char)i;
            /* A name of one byte cannot choose its shard. */
        } while (n > 0 && hash_bytes(key, data, lengths[n]) >> 58 != 20 + n % 2);
        names[n] = bytes_at(data, lengths[n]);
    }
}

/* Ends everything; no memory remains. */
static void end_all(void)
{
    if (squeezed > 0)
        step_squeeze();
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        close_holder(holder);
        compare_verdicts();
        open_holder(holder);
    }
    compare_all();
    for (unsigned i = 0; i < WAITS; i++) {
        if (waits[i].real)
            deliver(i);
    }
    now.unix_s += (int64_t)10 * config.stats_interval_s;
    step_collect();
    compare_all();
    struct table_stats s = stats();
    AGREE(s.names == 0 && s.units == 0 && s.waiting == 0 && s.holdings == 0 && s.overflowing == 0);
    AGREE(m.untold == 0);
    for (unsigned i = 0; i < 3; i++)
        step_collect(); /* the indexes become smaller */
    table_trim(t);
    AGREE(stats().memory == used_at_start);
}

static void run(const char *mode, uint64_t seed)
{
    struct lock pools;
    uint64_t steps = env_number("T_MODEL_STEPS", STEPS);
    rng = rng_start(mode, seed);
    config = (struct table_config){
        .buckets = 100,
        .memory_limit = LIMIT,
        .stats_interval_s = INTERVAL,
        .hash_key = {rng_next(&rng), rng_next(&rng)},
    };
    make_names(&config.hash_key);
    lock_init(&pools, LOCK_RANK_POOLS);
    t = table_new(&config);
    ck_assert(t != NULL);
    m = (struct model){.now = &now, .interval_s = INTERVAL, .decided = on_decided};
    used_at_start = (size_t)stats().memory;
    mail_list_init(&out);
    for (unsigned holder = 0; holder < HOLDERS; holder++)
        open_holder(holder);
    /* The low 16 bits of the interval wrap round during the run. */
    now = (struct moment){.mono_ns = 1, .unix_s = (65536 - (int64_t)steps / 300) * INTERVAL};
    /* Each part ends with an empty table, so that small leaks add up and show in the last part. */
    for (uint64_t part = 0; part < 10; part++) {
        lock_acquire(&pools);
        steps_unbounded(LOCK_RANK_POOLS);
        for (uint64_t i = 0; i < steps / 10; i++, step++)
            one_step();
        end_all();
        lock_release(&pools);
    }
    table_free(&t);
    lock_destroy(&pools);
    model_free(&m);
    for (unsigned n = 0; n < NAMES; n++)
        free(unconst(names[n].data));
}

TEST(the_table_and_its_model_agree)
{
    run("the model", 20240607);
}
END_TEST

TEST(they_agree_from_anywhere_with_threads_that_are_late)
{
    late = true;
    run("the model with late threads", random_seed());
}
END_TEST

TEST(they_agree_when_the_clock_is_set_back)
{
    set_back = true;
    run("the model with a clock set back", random_seed());
}
END_TEST

TEST(they_agree_when_memory_is_refused)
{
    faulty = true;
    run("the model without memory", random_seed());
    ck_assert_msg(faults > 0, "link with fault_wraps");
}
END_TEST

TEST(they_agree_when_the_table_is_full)
{
    full = true;
    run("the model of a full table", random_seed());
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_table_and_its_model_agree),
    UNIT(they_agree_from_anywhere_with_threads_that_are_late),
    UNIT(they_agree_when_the_clock_is_set_back),
    UNIT(they_agree_when_memory_is_refused),
    UNIT(they_agree_when_the_table_is_full),
};

UNIT_MAIN("models/table", tests)
