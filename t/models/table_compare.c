/* table_compare.c - compares the table with its model (see table_world.h). */
#include "t/models/table_world.h"

void compare_results(void)
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
        AGREE(real->state == waits[i].result && real->ended_ns == waits[i].has.ended_ns);
        if (waits[i].result == WAITER_GRANTED)
            held[waits[i].holder][waits[i].has.name] = real->holding;
    }
    AGREE(mail_list_take(&out) == NULL);
    expected_count = 0;
}

void compare_waiters(unsigned holder)
{
    unsigned count = 0;
    const struct waiter *prev = NULL;
    for (const struct waiter *w = holders[holder].waiters; w; prev = w, w = w->next, count++) {
        const struct wait *wait = &waits[place_of(w)];
        AGREE(wait->holder == holder && !wait->noted && w->prev == prev);
        AGREE(!prev || waits[place_of(prev)].age > wait->age); /* newest first */
        AGREE(w->holder == &holders[holder] && w->message.to == holder);
        AGREE(w->since_ns == wait->has.since_ns && w->kind == wait->has.kind);
        AGREE(w->state == wait->result && w->units == wait->has.units);
        AGREE(w->limit == wait->has.limit);
    }
    for (unsigned i = 0; i < WAITS; i++)
        count -= waits[i].real && waits[i].holder == holder && !waits[i].noted;
    AGREE(count == 0);
}

void learn_of_dropped(void)
{
    uint64_t gone = stats().dropped_early - dropped;
    uint32_t consumption;
    AGREE(gone == 0 || squeezed > 0);
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

void learn_of_made(unsigned n)
{
    if (full && model_exists(&m, n) && stats().names_made > m.made) {
        AGREE(m.names[n].consumption == 0 && m.names[n].reserved == 0);
        m.names[n].present = false;
        dropped++;
    }
}

void compare_sums(void)
{
    struct table_stats s = stats();
    uint64_t present = 0, idle = 0;
    for (unsigned n = 0; n < NAMES; n++) {
        present += model_exists(&m, n);
        idle += m.names[n].present && m.names[n].consumption == 0 && m.names[n].reserved == 0;
    }
    AGREE(s.units == m.units && s.waiting == m.waiting && s.names_made == m.made);
    AGREE(s.names == present || set_back);
    AGREE(s.idle == idle || (full && s.idle < idle));
    AGREE(s.memory <= LIMIT);
    AGREE(table_is_full(t) == (squeezed > 0) && (table_is_tight(t) || !squeezed));
}

/* True if an expired name is left to the collector; at times a look removes it. */
static bool leave(unsigned n)
{
    if (!model_is_expired(&m, n))
        return false;
    bool left = !rng_one_in(&rng, 60);
    m.names[n].present = left;
    return left;
}

void compare_consumptions(void)
{
    for (unsigned n = 0; n < NAMES; n++) {
        uint32_t consumption = 0;
        if (leave(n))
            continue;
        enum table_status status = table_get(t, names[n], now, &consumption);
        AGREE(status == (model_exists(&m, n) ? TABLE_OK : TABLE_NOT_FOUND));
        AGREE(status != TABLE_OK || consumption == m.names[n].consumption);
    }
}

void compare_ended(void)
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

void compare_closely(unsigned n, size_t room)
{
    static struct table_wait line[WAITS];
    struct table_entry entry;
    size_t count = 77;
    if (leave(n))
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

void compare_holds(unsigned n, unsigned holder)
{
    struct table_hold hold;
    if (leave(n))
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
    if (leave(n))
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

/* In how many names, also of earlier lives, the holder has units, reservations, waits, results. */
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
        if (model_exists(&m, n) && more.units > 0) { /* a use of the name */
            AGREE(table_release(t, &holders[holder], &more, now, NULL, &out) == TABLE_NOT_HELD);
            AGREE(model_release(&m, &has[holder], n, more.units) == TABLE_NOT_HELD);
        }
    }
    return count;
}

unsigned seen[NAMES];

bool see(void *arg, const struct table_entry *entry)
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

/* The highest uses in this interval, also of names that have gone. */
static uint32_t peaks[NAMES];
static int64_t peaks_of;

void note_peaks(void)
{
    int64_t interval = now.unix_s / m.interval_s;
    if (peaks_of != interval)
        memset(peaks, 0, sizeof(peaks));
    peaks_of = interval;
    for (unsigned n = 0; n < NAMES; n++) {
        const struct model_name *name = &m.names[n];
        if (name->interval == (uint16_t)interval && peaks[n] < name->peak)
            peaks[n] = name->peak;
    }
}

void compare_peaks(struct table *to)
{
    static struct contended shown[SHOWN];
    size_t count = table_contended(to, CONTENDED_PEAK, now, shown, SHOWN), used = 0;
    note_peaks();
    for (unsigned n = 0; n < NAMES; n++)
        used += peaks[n] > 0;
    AGREE(count == used);
    for (size_t i = 0; i < count; i++) {
        unsigned n = 0;
        while (n < NAMES && (names[n].len != shown[i].name_len ||
                             memcmp(names[n].data, shown[i].name, shown[i].name_kept) != 0))
            n++;
        AGREE(n < NAMES);
        uint32_t peak = model_exists(&m, n) ? model_peak(&m, n) : 0; /* also of a late thread */
        AGREE(shown[i].peak == (peak > peaks[n] ? peak : peaks[n]));
        AGREE(i == 0 || shown[i].peak <= shown[i - 1].peak);
    }
}

void compare_all(void)
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
    if (!set_back && !faulty && !full) /* each use is known */
        compare_peaks(t);
    table_check(t);
}

void compare_contended(struct table *to, enum contended_by by, bool with_peaks)
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
        AGREE(k < count && after[k].waiting_load == a->waiting_load);
        AGREE(!with_peaks || after[k].peak == a->peak);
        AGREE(after[k].refused_per_second == a->refused_per_second);
        AGREE(after[k].waiting_error == 0 && after[k].refused_error == 0); /* there are few names */
    }
}
