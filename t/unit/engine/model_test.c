/*
 * model_test.c - a million random steps of the table, compared with a model that is slow, plain and
 * obviously right: arrays, searched from end to end.
 *
 * Each step compares everything that can be asked: the answer, the verdicts in their order, the
 * consumption of each name, the sums. Now and then the test writes the table to a record, reads it
 * into a new table and continues with that one. T_SEED repeats a run, T_MODEL_STEPS sets its
 * length; a failure names the step.
 */
#include "engine/state.h"

#include "t/unit/engine/faults.h"
#include "t/unit/random.h"

#include <string.h>
#include <sys/mman.h>

#define INTERVAL 50L

enum {
    NAMES = 12,
    HOLDERS = 40,
    WAITERS = 400, /* at the same time, including letters on their way */
#ifdef __SANITIZE_THREAD__
    MOST_STEPS = 200000, /* 20 times slower under TSan, and the test has only one thread */
#elif defined(__SANITIZE_ADDRESS__)
    MOST_STEPS = 250000, /* slow; the plain build takes the same steps, and more */
#else
    MOST_STEPS = 1000000,
#endif
};

/* ---- the model --------------------------------------------------------------------------- */

/* A name. */
struct mname {
    unsigned char *data;
    size_t len;
    bool present; /* it has memory, although it may have expired */
    bool keep;
    uint32_t consumption; /* the sum of all holders' units */
    uint32_t peak, interval;
    uint32_t life;  /* counts re-creations, because verdicts may outlive the name */
    uint32_t limit; /* of the last acquire */
    uint32_t units[HOLDERS];
    uint32_t limits[HOLDERS];  /* of each holder's last acquire that was not refused */
    int64_t since_ns[HOLDERS]; /* when its units rose from 0 */
};

/* A wait, from its beginning until its letter arrives. */
struct mwaiter {
    struct waiter *real; /* NULL: this place is free */
    unsigned name, holder;
    uint32_t units, limit, life;
    enum wait_kind kind;
    enum waiter_state state;
    bool noted; /* the owner has taken the verdict, or has closed */
    uint64_t age, decided;
    int64_t since_ns, ended_ns;
};

static struct mname names[NAMES];
static struct mwaiter waiters[WAITERS];
static uint64_t ages, decisions, made;
static struct moment now;
static uint64_t ended_count, ended_ns; /* holdings that ended, and their total length */
static bool clock_is_set_back;         /* sometimes; then the count of names is inexact */

/* The verdicts that the model expects from this step, in order. */
static unsigned expected[WAITERS], expected_count;

static uint32_t this_interval(void)
{
    return now.unix_s > 0 ? (uint32_t)(now.unix_s / INTERVAL) : 0;
}

static unsigned waiting_for(unsigned n)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WAITERS; i++)
        count += waiters[i].real && waiters[i].name == n && waiters[i].state == WAITER_WAITING;
    return count;
}

/* True if a name was last used in this interval, or in the next one by a thread that is ahead. */
static bool is_current(unsigned n)
{
    return names[n].interval == this_interval() || names[n].interval == this_interval() + 1;
}

static bool expired(unsigned n)
{
    const struct mname *m = &names[n];
    return m->present && m->consumption == 0 && !is_current(n);
}

static bool exists(unsigned n)
{
    return names[n].present && !expired(n);
}

/* Looks for a name like a request, which removes an expired name. True: it exists. */
static bool look_for(unsigned n)
{
    if (expired(n))
        names[n].present = false;
    return names[n].present;
}

static void use(unsigned n)
{
    if (!is_current(n)) {
        names[n].interval = this_interval();
        names[n].peak = names[n].consumption;
    }
}

static void add(unsigned n, unsigned holder, uint32_t units)
{
    if (names[n].units[holder] == 0)
        names[n].since_ns[holder] = now.mono_ns;
    names[n].units[holder] += units;
    names[n].consumption += units;
    if (names[n].consumption > names[n].peak)
        names[n].peak = names[n].consumption;
}

static void subtract(unsigned n, unsigned holder, uint32_t units, bool tell)
{
    names[n].units[holder] -= units;
    names[n].consumption -= units;
    if (names[n].units[holder] == 0 && tell) {
        ended_count++;
        ended_ns += (uint64_t)(now.mono_ns - names[n].since_ns[holder]);
    }
}

static uint32_t holders_of(unsigned n)
{
    uint32_t count = 0;
    for (unsigned holder = 0; holder < HOLDERS; holder++)
        count += names[n].units[holder] > 0;
    return count;
}

/*
 * The oldest waiter of this kind for the name; with `fitting`, the oldest that fits. WAITERS: none.
 */
static unsigned oldest(unsigned n, enum wait_kind kind, bool fitting)
{
    unsigned best = WAITERS;
    for (unsigned i = 0; i < WAITERS; i++) {
        const struct mwaiter *w = &waiters[i];
        if (!w->real || w->name != n || w->kind != kind || w->state != WAITER_WAITING)
            continue;
        if (fitting && (uint64_t)names[n].consumption + w->units > w->limit)
            continue;
        if (best == WAITERS || w->age < waiters[best].age)
            best = i;
    }
    return best;
}

static void decide(unsigned i, enum waiter_state state)
{
    waiters[i].state = state;
    waiters[i].decided = ++decisions;
    waiters[i].ended_ns = now.mono_ns;
    if (state == WAITER_GRANTED)
        add(waiters[i].name, waiters[i].holder, waiters[i].units);
    expected[expected_count++] = i;
}

static void grant(unsigned n, enum wait_kind kind)
{
    for (unsigned i; (i = oldest(n, kind, true)) < WAITERS;)
        decide(i, WAITER_GRANTED);
}

static void drop_if_idle(unsigned n)
{
    if (names[n].consumption == 0 && waiting_for(n) == 0 && !names[n].keep)
        names[n].present = false;
}

static void model_release(unsigned n, unsigned holder, uint32_t units, bool tell)
{
    use(n);
    if (units == 0)
        return;
    subtract(n, holder, units, tell);
    for (unsigned i; (i = oldest(n, WAIT_ANY, false)) < WAITERS;)
        decide(i, WAITER_DONE);
    grant(n, WAIT_ME);
    drop_if_idle(n);
}

static void model_close(unsigned holder)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        struct mwaiter *w = &waiters[i];
        if (!w->real || w->holder != holder || w->noted)
            continue;
        if (w->state == WAITER_WAITING) {
            use(w->name);
            w->real = NULL;
        } else {
            w->noted = true;
        }
    }
    for (unsigned n = 0; n < NAMES; n++) {
        if (names[n].units[holder] == 0)
            continue;
        use(n);
        subtract(n, holder, names[n].units[holder], true);
        grant(n, WAIT_ME);
        grant(n, WAIT_ANY);
        drop_if_idle(n);
    }
}

/*
 * The number of names where a holder has units, waits or verdicts to take; lives count separately.
 */
static uint32_t model_holdings(unsigned holder)
{
    uint32_t count = 0;
    for (unsigned n = 0; n < NAMES; n++)
        count += names[n].units[holder] > 0;
    for (unsigned i = 0; i < WAITERS; i++) {
        const struct mwaiter *w = &waiters[i];
        if (!w->real || w->noted || w->holder != holder)
            continue;
        bool counted = w->life == names[w->name].life && names[w->name].units[w->holder] > 0;
        for (unsigned k = 0; k < i && !counted; k++) {
            const struct mwaiter *v = &waiters[k];
            counted = v->real && !v->noted && v->name == w->name && v->holder == w->holder &&
                      v->life == w->life;
        }
        count += !counted;
    }
    return count;
}

/* ---- the table, and comparing it with the model --------------------------------------------- */

static struct table *t;
static struct holder sets_of_holders[2][HOLDERS];
static struct holder *holders = sets_of_holders[0];
static struct table_config config;
static size_t used_at_start;                 /* memory of this table when it was empty */
static struct holding *held[HOLDERS][NAMES]; /* the units' holding, while there are any */
static verdicts out;
static struct histogram lasted; /* the lengths of holdings */
static uint32_t next_id = 1;
static struct rng rng;
static uint64_t step;

/* Fails with the step's number. */
#define AGREE(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("step %" PRIu64 ": %s", step, #condition);                                \
    } while (0)

static struct bytes table_name(unsigned n)
{
    return bytes_at(names[n].data, names[n].len);
}

static void open_holder(unsigned holder)
{
    uint32_t id = next_id++;
    holder_init(&holders[holder], id, holder);
    for (unsigned n = 0; n < NAMES; n++)
        held[holder][n] = NULL;
}

static unsigned free_waiter_place(void)
{
    unsigned i = 0;
    while (i < WAITERS && waiters[i].real)
        i++;
    return i;
}

/* The place of a waiter of the table. */
static unsigned place_of(const struct waiter *real)
{
    unsigned i = 0;
    while (i < WAITERS && waiters[i].real != real)
        i++;
    AGREE(i < WAITERS);
    return i;
}

static unsigned random_waiter(void)
{
    unsigned at = rng_below(&rng, WAITERS);
    for (unsigned i = 0; i < WAITERS; i++) {
        if (waiters[(at + i) % WAITERS].real)
            return (at + i) % WAITERS;
    }
    return WAITERS;
}

/*
 * Checks that this step's verdicts are the expected ones, and in the model's order for each name.
 * A close can notify several names; their order is the table's.
 */
static void compare_verdicts(void)
{
    bool told[WAITERS] = {false};
    for (unsigned k = 0; k < expected_count; k++) {
        struct mail *m = mail_list_take(&out);
        AGREE(m != NULL);
        const struct waiter *real = waiter_of(m);
        unsigned i = place_of(real), first = 0;
        /* The first verdict expected for this name and not yet matched. */
        while (told[first] || waiters[expected[first]].name != waiters[i].name) {
            first++;
            AGREE(first < expected_count);
        }
        AGREE(expected[first] == i);
        told[first] = true;
        AGREE(real->state == waiters[i].state);
        AGREE(real->ended_ns == waiters[i].ended_ns);
        if (waiters[i].state == WAITER_GRANTED)
            held[waiters[i].holder][waiters[i].name] = real->holding;
    }
    AGREE(mail_list_take(&out) == NULL);
    expected_count = 0;
}

static void compare_waiters(unsigned holder)
{
    unsigned count = 0;
    const struct waiter *prev = NULL;
    for (const struct waiter *w = holders[holder].waiters; w; prev = w, w = w->next) {
        const struct mwaiter *m = &waiters[place_of(w)];
        AGREE(m->holder == holder && !m->noted && w->prev == prev);
        AGREE(!prev || waiters[place_of(prev)].age > m->age); /* newest first */
        AGREE(w->holder == &holders[holder] && w->letter.to == holder &&
              w->since_ns == m->since_ns);
        AGREE(w->state == m->state && w->kind == m->kind);
        count++;
    }
    for (unsigned i = 0; i < WAITERS; i++)
        count -= waiters[i].real && waiters[i].holder == holder && !waiters[i].noted;
    AGREE(count == 0);
}

static uint32_t compare_stats(void)
{
    struct table_stats s;
    table_get_stats(t, now, &s);
    uint64_t units = 0, waiting = 0, present = 0;
    for (unsigned n = 0; n < NAMES; n++) {
        units += names[n].consumption;
        present += exists(n);
    }
    for (unsigned i = 0; i < WAITERS; i++)
        waiting += waiters[i].real && waiters[i].state == WAITER_WAITING;
    AGREE(s.units == units && s.waiting == waiting && s.names_made == made);
    AGREE(s.names == present || clock_is_set_back);
    return (uint32_t)s.holdings;
}

static void compare_consumptions(void)
{
    for (unsigned n = 0; n < NAMES; n++) {
        if (expired(n))
            continue; /* a request would remove it; leave some to the collector */
        uint32_t consumption = 0;
        enum table_status status = table_get(t, table_name(n), now, &consumption);
        AGREE(status == (exists(n) ? TABLE_OK : TABLE_NOT_FOUND));
        AGREE(!exists(n) || consumption == names[n].consumption);
    }
}

static unsigned seen[NAMES];

static void compare_with_name(const struct table_entry *entry, unsigned n)
{
    AGREE(entry->consumption == names[n].consumption && entry->limit == names[n].limit);
    AGREE(entry->peak == (is_current(n) ? names[n].peak : names[n].consumption));
    AGREE(entry->waiting == waiting_for(n) && entry->holders == holders_of(n));
}

static bool compare_entry(void *arg, const struct table_entry *entry)
{
    (void)arg;
    unsigned n = 0;
    while (n < NAMES && (entry->name.len != names[n].len ||
                         memcmp(entry->name.data, names[n].data, names[n].len) != 0))
        n++;
    AGREE(n < NAMES);
    seen[n]++;
    AGREE(exists(n));
    compare_with_name(entry, n);
    return true;
}

/* True if `ns`, in steps of 1024, is the start of this holder's units of the name. */
static bool is_since(int64_t ns, unsigned n, unsigned holder)
{
    return ns <= names[n].since_ns[holder] && ns > names[n].since_ns[holder] - 1024;
}

/* Compares a name and its waiters with the result of inspecting them. */
static void compare_closely(unsigned n, size_t room)
{
    static struct table_wait waits[WAITERS];
    struct table_entry entry;
    size_t count = 0;
    if (expired(n))
        return;
    enum table_status status = table_inspect(t, table_name(n), now, &entry, waits, room, &count);
    AGREE(status == (exists(n) ? TABLE_OK : TABLE_NOT_FOUND));
    if (status != TABLE_OK)
        return;
    compare_with_name(&entry, n);
    AGREE(count == (entry.waiting < room ? entry.waiting : room));
    uint64_t age = 0;
    for (size_t k = 0; k < count; k++) {
        unsigned next = WAITERS;
        for (unsigned i = 0; i < WAITERS; i++) {
            const struct mwaiter *w = &waiters[i];
            if (w->real && w->name == n && w->state == WAITER_WAITING && w->age > age &&
                (next == WAITERS || w->age < waiters[next].age))
                next = i;
        }
        AGREE(next < WAITERS);
        const struct mwaiter *w = &waiters[next];
        AGREE(waits[k].tag == w->holder && waits[k].kind == w->kind);
        AGREE(waits[k].units == w->units && waits[k].limit == w->limit);
        AGREE(waits[k].since_ns == w->since_ns);
        age = w->age;
    }
}

static void compare_hold(const struct table_hold *hold, unsigned n, unsigned holder)
{
    AGREE(hold->holder == holders[holder].id && hold->units == names[n].units[holder]);
    AGREE(hold->limit == names[n].limits[holder] && is_since(hold->since_ns, n, holder));
}

/* Compares one holder's units of a name. */
static void compare_holds(unsigned n, unsigned holder)
{
    struct table_hold hold;
    if (expired(n))
        return;
    bool holds = table_holds(t, holders[holder].id, table_name(n), now, &hold);
    AGREE(holds == (names[n].units[holder] > 0));
    if (holds)
        compare_hold(&hold, n, holder);
}

/* Checks that a walk over a name's holders shows each of them once. */
static void compare_holders(unsigned n)
{
    bool shown[HOLDERS] = {false};
    struct table_walk walk = {0};
    struct table_hold holds[HOLDERS];
    size_t room = 1 + rng_below(&rng, HOLDERS), count;
    uint32_t all = 0;
    if (expired(n))
        return;
    bool over;
    do {
        over = table_holders_on(t, table_name(n), &walk, now, 1 + rng_below(&rng, 100), holds, room,
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
    } while (!over);
    AGREE(all == holders_of(n));
}

static void compare_ended(void)
{
    struct buckets_sum sum = {0};
    buckets_sum_up(&sum, &lasted.buckets);
    AGREE(buckets_sum_count(&sum) == ended_count);
    AGREE(sum.sum_ns + 1024 * ended_count >= ended_ns &&
          sum.sum_ns <= ended_ns + 1024 * ended_count);
}

/* The slower comparisons. */
static void compare_all(void)
{
    memset(seen, 0, sizeof(seen));
    struct table_walk walk = {0};
    while (!table_walk_on(t, &walk, now, 1 + rng_below(&rng, 100), compare_entry, NULL))
        continue;
    for (unsigned n = 0; n < NAMES; n++)
        AGREE(seen[n] == exists(n));
    uint32_t holdings = 0;
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        uint32_t has = model_holdings(holder);
        AGREE(holder_count(t, &holders[holder], UINT32_MAX) == has);
        AGREE(holder_count(t, &holders[holder], 2) == (has < 2 ? has : 2));
        holdings += has;
    }
    AGREE(compare_stats() == holdings);
    for (unsigned n = 0; n < NAMES; n++) {
        compare_closely(n, WAITERS);
        compare_holders(n);
    }
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        compare_waiters(holder);
        for (unsigned n = 0; n < NAMES; n++) {
            compare_holds(n, holder);
            if (!exists(n) || names[n].units[holder] == UINT32_MAX)
                continue;
            /* Releasing one unit too many must fail and change nothing. */
            AGREE(table_release(
                      t, &holders[holder],
                      &(struct release){.name = table_name(n), .units = names[n].units[holder] + 1},
                      now, NULL, &out) == TABLE_NOT_HELD);
            AGREE(names[n].units[holder] == 0 ||
                  (holding_units(held[holder][n]) == names[n].units[holder]));
        }
    }
    /* The queue size where "full" begins shows how many wait for a name. */
    for (unsigned n = 0; n < NAMES; n++) {
        uint64_t load = (uint64_t)names[n].consumption + waiting_for(n);
        if (names[n].consumption == 0 || load >= UINT32_MAX)
            continue;
        struct acquire a = {.name = table_name(n), .units = 1, .limit = 1};
        use(n);
        names[n].limit = a.limit;
        a.queue_max = (uint32_t)load;
        AGREE(table_acquire(t, &holders[0], &a, now, NULL, NULL) == TABLE_FULL);
        a.queue_max = (uint32_t)load + 1;
        AGREE(table_acquire(t, &holders[0], &a, now, NULL, NULL) == TABLE_BUSY);
    }
    table_check(t);
}

/* ---- steps ------------------------------------------------------------------------------- */

static bool dice(void)
{
    return rng_one_in(&rng, 12);
}

static bool faulty; /* some allocations fail */

static void step_acquire(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    unsigned place = free_waiter_place();
    struct acquire a = {.name = table_name(n), .keep = rng_one_in(&rng, 6)};
    if (n == 0) { /* one name has huge numbers */
        a.units = rng_one_in(&rng, 2) ? UINT32_MAX - rng_below(&rng, 3) : 1 + rng_below(&rng, 3);
        a.limit = rng_one_in(&rng, 2) || a.units == UINT32_MAX ? UINT32_MAX : UINT32_MAX - 1;
    } else {
        a.units = 1 + (rng_one_in(&rng, 3) ? rng_below(&rng, 4) : 0);
        a.limit = a.units + rng_below(&rng, n % 4 == 1 ? 2 : 2 * n);
    }
    a.queue_max = rng_one_in(&rng, 3) ? 1 + rng_below(&rng, 30) : 0;
    if (place < WAITERS)
        a.wait = (enum wait_kind)rng_below(&rng, 3);

    struct holding *where = NULL;
    struct waiter *real = NULL;
    unsigned long faults_before = faults;
    fault_dice = faulty ? dice : NULL;
    enum table_status status = table_acquire(t, &holders[holder], &a, now, &where, &real);
    fault_dice = NULL;

    bool there = look_for(n);
    if (there)
        use(n);
    uint64_t load = there ? (uint64_t)names[n].consumption + waiting_for(n) : 0;
    bool fits = (uint64_t)(there ? names[n].consumption : 0) + a.units <= a.limit;
    if (a.queue_max && load >= a.queue_max) {
        AGREE(status == TABLE_FULL);
    } else if (!fits && a.wait == WAIT_NO) {
        AGREE(status == TABLE_BUSY);
    } else if (status == TABLE_NO_MEMORY) {
        AGREE(faults > faults_before); /* and nothing has changed */
        AGREE(real == NULL && where == NULL);
    } else if (fits) {
        AGREE(status == TABLE_OK && where != NULL);
        if (!there) {
            made++;
            names[n].present = true;
            names[n].life++;
            names[n].keep = false;
            names[n].peak = 0;
            names[n].interval = this_interval();
        }
        names[n].keep |= a.keep;
        add(n, holder, a.units);
        held[holder][n] = where;
    } else {
        AGREE(status == TABLE_WAITING && real != NULL);
        waiters[place] = (struct mwaiter){
            .real = real,
            .name = n,
            .holder = holder,
            .units = a.units,
            .limit = a.limit,
            .life = names[n].life,
            .kind = a.wait,
            .state = WAITER_WAITING,
            .age = ++ages,
            .since_ns = now.mono_ns,
        };
    }
    if (status != TABLE_NO_MEMORY)
        names[n].limit = a.limit;
    if (status == TABLE_OK || status == TABLE_WAITING)
        names[n].limits[holder] = a.limit;
    compare_waiters(holder);
}

static void step_release(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    for (unsigned i = 0; i < HOLDERS && names[n].units[holder] == 0 && !rng_one_in(&rng, 30); i++)
        holder = (holder + 1) % HOLDERS;
    uint32_t has = names[n].units[holder];
    uint32_t units = rng_one_in(&rng, 10) ? 0 : rng_one_in(&rng, 2) ? has : 1;
    if (rng_one_in(&rng, 20))
        units = has < UINT32_MAX ? has + 1 : has;
    if (units > 0 && units <= has && rng_one_in(&rng, 2)) {
        table_release_held(t, &holders[holder], held[holder][n], units, now, &out);
        model_release(n, holder, units, false); /* the caller of this one measures by itself */
        return;
    }
    enum table_status status =
        table_release(t, &holders[holder], &(struct release){.name = table_name(n), .units = units},
                      now, &lasted, &out);
    if (!look_for(n)) {
        AGREE(status == TABLE_NOT_FOUND);
    } else if (units > has) {
        AGREE(status == TABLE_NOT_HELD);
    } else {
        AGREE(status == TABLE_OK);
        model_release(n, holder, units, true);
    }
}

/* The owner takes a verdict, early or when its letter arrives. */
static void take_verdict(unsigned i)
{
    struct mwaiter *w = &waiters[i];
    const struct holding *where = w->real->holding;
    AGREE(table_take_verdict(t, w->real) == w->state);
    w->noted = true;
    if (w->state == WAITER_GRANTED && w->life == names[w->name].life &&
        names[w->name].units[w->holder] > 0)
        AGREE(where == held[w->holder][w->name]);
    compare_waiters(w->holder);
}

static void step_end_wait(void)
{
    unsigned i = random_waiter();
    if (i == WAITERS || waiters[i].noted)
        return;
    struct mwaiter *w = &waiters[i];
    enum waiter_state why = rng_one_in(&rng, 2) ? WAITER_TIMED_OUT : WAITER_CANCELLED;
    enum waiter_state state = table_end_wait(t, w->real, why, now);
    if (w->state == WAITER_WAITING) {
        AGREE(state == why);
        use(w->name);
        w->real = NULL;
        compare_waiters(w->holder);
    } else {
        AGREE(state == w->state);
        if (rng_one_in(&rng, 2))
            take_verdict(i);
    }
}

static void step_close(void)
{
    unsigned holder = rng_below(&rng, HOLDERS);
    table_close(t, &holders[holder], now, &lasted, &out);
    AGREE(holders[holder].waiters == NULL && holders[holder].holdings == 0);
    model_close(holder);
}

static void reopen_closed(void)
{
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        bool has = holders[holder].waiters != NULL || holders[holder].holdings != 0;
        if (!has && rng_one_in(&rng, 4))
            open_holder(holder);
    }
}

/* A letter arrives; not always the oldest. */
static void step_deliver(void)
{
    unsigned i = random_waiter();
    if (i == WAITERS || waiters[i].state == WAITER_WAITING)
        return;
    struct mwaiter *w = &waiters[i];
    AGREE((w->real->holder == NULL) == w->noted);
    AGREE(w->real->letter.to == w->holder);
    if (!w->noted)
        take_verdict(i);
    table_waiter_free(t, w->real);
    w->real = NULL;
}

static void step_time(void)
{
    now.mono_ns += 1 + rng_below(&rng, 1000000);
    if (rng_one_in(&rng, 3))
        now.unix_s += rng_below(&rng, INTERVAL);
    if (clock_is_set_back && rng_one_in(&rng, 300))
        now.unix_s -= rng_below(&rng, 3 * INTERVAL); /* the clock is set back */
}

static void step_collect(void)
{
    uint64_t collected = 0, due = 0;
    struct table_walk walk = {0};
    unsigned budget = 1 + rng_below(&rng, 200);
    while (!table_collect(t, &walk, now, budget, &collected))
        continue;
    for (unsigned n = 0; n < NAMES; n++) {
        if (expired(n)) {
            names[n].present = false;
            due++;
        } else if (names[n].consumption > 0) {
            use(n);
        }
    }
    AGREE(collected == due);
}

/* ---- continuing in another table ------------------------------------------------------------ */

static struct record_writer writer;

/* Delivers every verdict. */
static void deliver_all(void)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        if (!waiters[i].real || waiters[i].state == WAITER_WAITING)
            continue;
        if (!waiters[i].noted)
            take_verdict(i);
        table_waiter_free(t, waiters[i].real);
        waiters[i].real = NULL;
    }
}

static void save_all(void)
{
    table_save(t, now, &writer);
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        record_begin(&writer, holder);
        holder_save(t, &holders[holder], &writer);
        for (unsigned n = 0; n < NAMES; n++) {
            if (names[n].units[holder] > 0)
                holding_save(t, held[holder][n], &writer);
        }
        record_end(&writer);
    }
}

/* Reads the record into another table; false if memory is short. */
static bool restore_all(struct table *to, struct holder *new_holders, struct record_reader *r,
                        struct holding *new_held[HOLDERS][NAMES])
{
    struct record_reader section;
    uint32_t kind;
    if (!record_enter(r, &kind, &section) || !table_restore(to, now, 1, &section))
        return false;
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        AGREE(record_enter(r, &kind, &section) && kind == holder);
        holder_init(&new_holders[holder], next_id++, holder);
        if (!holder_restore(to, &new_holders[holder], &section))
            return false;
        for (unsigned n = 0; n < NAMES; n++) {
            new_held[holder][n] = NULL;
            if (names[n].units[holder] > 0) {
                new_held[holder][n] = holding_restore(to, &new_holders[holder], &section);
                AGREE(new_held[holder][n] != NULL);
            }
        }
        record_leave(&section);
    }
    return table_restore_done(to, r);
}

/* Connects the model's waiters to those of the new holders, which have the same order. */
static void go_on_with(struct table *to, struct holder *new_holders)
{
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        struct waiter *real = new_holders[holder].waiters;
        for (struct waiter *w = holders[holder].waiters; w; w = w->next, real = real->next) {
            AGREE(real != NULL);
            waiters[place_of(w)].real = real;
        }
        AGREE(real == NULL);
        table_close(t, &holders[holder], now, NULL, &out);
    }
    for (struct mail *m; (m = mail_list_take(&out)) != NULL;)
        table_waiter_free(t, waiter_of(m));
    table_free(&t);
    t = to;
    holders = new_holders;
}

static void step_hand_on(void)
{
    deliver_all();
    int fd = memfd_create("state", MFD_CLOEXEC);
    AGREE(fd >= 0);
    record_writer_init(&writer, fd);
    save_all();
    AGREE(record_finish(&writer));
    struct record_reader r;
    AGREE(record_map(&r, fd));
    AGREE(close(fd) == 0);
    struct table_config other = config;
    other.buckets = rng_below(&rng, 3000);
    other.hash_key.k0 = rng_next(&rng);
    fault_countdown = faulty ? 1 + rng_below(&rng, 1000) : 0;
    struct table *to = table_new(&other);
    struct table_stats empty = {0};
    struct holding *new_held[HOLDERS][NAMES];
    struct holder *new_holders = sets_of_holders[holders == sets_of_holders[0]];
    if (to)
        table_get_stats(to, now, &empty);
    bool restored = to && restore_all(to, new_holders, &r, new_held);
    fault_countdown = 0;
    if (restored) {
        go_on_with(to, new_holders);
        memcpy(held, new_held, sizeof(held));
        used_at_start = (size_t)empty.memory;
        for (unsigned holder = 0; holder < HOLDERS; holder++)
            compare_waiters(holder);
    } else {
        if (!faulty)
            ck_abort_msg("step %" PRIu64 ": %s", step, r.why);
        table_free(&to);
    }
    record_unmap(&r);
    compare_all();
}

static void one_step(void)
{
    if (rng_one_in(&rng, 2000))
        step_hand_on();
    uint32_t what = rng_below(&rng, 1000);
    if (what < 400)
        step_acquire();
    else if (what < 650)
        step_release();
    else if (what < 730)
        step_end_wait();
    else if (what < 910)
        step_deliver();
    else if (what < 950)
        step_time();
    else if (what < 957)
        step_collect();
    else if (what < 985)
        reopen_closed();
    else
        step_close();
    compare_verdicts();
    compare_consumptions();
    (void)compare_stats();
    compare_ended();
    compare_closely(rng_below(&rng, NAMES), rng_below(&rng, 8));
    compare_holds(rng_below(&rng, NAMES), rng_below(&rng, HOLDERS));
    if (step % 64 == 0)
        compare_all();
}

/* ---- runs -------------------------------------------------------------------------------- */

/* Names of several lengths, all in two shards, so that little memory is kept for later names. */
static void make_names(const struct hash_key *key)
{
    static const size_t lengths[NAMES] = {1, 2, 5, 8, 24, 25, 64, 65, 200, 300, 1500, 1997};
    for (unsigned n = 0; n < NAMES; n++) {
        names[n].len = lengths[n];
        names[n].data = malloc(lengths[n]);
        ck_assert(names[n].data != NULL);
        do {
            for (size_t i = 0; i < (n < 2 ? lengths[n] : 3); i++)
                names[n].data[i] = (unsigned char)rng_next(&rng);
            for (size_t i = 3; i < lengths[n]; i++)
                names[n].data[i] = (unsigned char)i;
            /* A name of one byte cannot choose its shard. */
        } while (n > 0 && hash_bytes(key, names[n].data, lengths[n]) >> 58 != 20 + n % 2);
    }
}

/* Ends everything; only memory that the slabs may keep remains. */
static void end_all(void)
{
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        table_close(t, &holders[holder], now, &lasted, &out);
        model_close(holder);
        compare_verdicts();
        open_holder(holder);
    }
    compare_consumptions();
    compare_all();
    for (unsigned i = 0; i < WAITERS; i++) {
        if (waiters[i].real) {
            AGREE(waiters[i].noted && waiters[i].real->holder == NULL);
            table_waiter_free(t, waiters[i].real);
            waiters[i].real = NULL;
        }
    }
    now.unix_s = INTERVAL * ((int64_t)this_interval() + 10);
    step_collect();
    compare_all();
    struct table_stats s;
    table_get_stats(t, now, &s);
    AGREE(s.names == 0 && s.units == 0 && s.waiting == 0 && s.holdings == 0 && s.overflowing == 0);
    /*
     * One page for each size used, in each of two or three shards: 10 of counters (also those
     * outside), holding, waiter, queue, lane, further bucket.
     */
    AGREE(s.memory <= used_at_start + (size_t)(9 + 2 * 5 + 5) * ARENA_PAGE);
}

static void run(uint64_t steps)
{
    config = (struct table_config){
        .buckets = 100,
        .memory_limit = (size_t)16 << 20,
        .stats_interval_s = INTERVAL,
        .hash_key = {rng_next(&rng), rng_next(&rng)},
    };
    steps = env_number("T_MODEL_STEPS", steps);
    make_names(&config.hash_key);
    t = table_new(&config);
    ck_assert(t != NULL);
    struct table_stats at_start;
    table_get_stats(t, now, &at_start);
    used_at_start = (size_t)at_start.memory;
    mail_list_init(&out);
    for (unsigned holder = 0; holder < HOLDERS; holder++)
        open_holder(holder);
    /* The low 16 bits of the interval wrap round during the run. */
    now = (struct moment){.mono_ns = 1, .unix_s = (65536 - (int64_t)steps / 300) * INTERVAL};
    /* Each part ends with an empty table, so that small leaks add up and show in the last part. */
    for (uint64_t part = 0; part < 10; part++) {
        for (uint64_t i = 0; i < steps / 10; i++, step++)
            one_step();
        end_all();
    }
    table_free(&t);
    for (unsigned n = 0; n < NAMES; n++)
        free(names[n].data);
}

TEST(the_table_and_its_model_agree)
{
    rng = rng_start("the model", 20240607);
    run(MOST_STEPS);
}
END_TEST

TEST(the_table_and_its_model_agree_from_anywhere)
{
    rng = rng_start("the model from anywhere", random_seed());
    clock_is_set_back = true;
    run(MOST_STEPS / 4);
}
END_TEST

TEST(the_table_and_its_model_agree_when_memory_is_refused)
{
    rng = rng_start("the model without memory", random_seed());
    faulty = true;
    run(MOST_STEPS / 4);
    ck_assert_msg(faults > 0, "link with fault_wraps");
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_table_and_its_model_agree),
    UNIT(the_table_and_its_model_agree_from_anywhere),
    UNIT(the_table_and_its_model_agree_when_memory_is_refused),
};

UNIT_MAIN("engine/model", tests)
